/* Cases of what fixed-shape devices have in place of pages: kv_columns and attention_masked. Row counts and lengths are
 * those of the device's profile; devices without one get a few. Whatever the mask closes holds NaNs: it must take no
 * part. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "conformance/makers.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

static const uint8_t kv_dtypes[] = {TN_F32, TN_F16, TN_BF16};

typedef struct fixed_shape {
  uint32_t heads, kv_heads, key_dim, value_dim;
  uint32_t rotary, pairing, window;
  float softcap;
  bool sinks, holes;
} fixed_shape;

/* The profile's lists, or some for devices without. */
static const uint32_t *rows_of(const tn_maker *maker, uint32_t *count) {
  static const uint32_t some[] = {1, 3, 32};
  *count = maker->row_count ? maker->row_count : TN_COUNT(some);
  return maker->row_count ? maker->rows : some;
}

static const uint32_t *lengths_of(const tn_maker *maker, uint32_t *count) {
  static const uint32_t some[] = {48, 128};
  *count = maker->length_count ? maker->length_count : TN_COUNT(some);
  return maker->length_count ? maker->lengths : some;
}

/* ---- kv_columns ---- */

static tn_case *columns_case(const fixed_shape *s, uint32_t rows, uint32_t dtype) {
  tn_case *c = tn_case_create(TN_OP_KV_COLUMNS, rows, 1);
  if (!c) return NULL;
  const tn_kv_write_attributes attributes = {sizeof attributes, 0,         s->kv_heads, s->key_dim,
                                             s->value_dim,      s->rotary, s->pairing};
  uint32_t k = tn_case_input(c, TN_F32, (int32_t)rows, s->kv_heads * s->key_dim);
  uint32_t v = tn_case_input(c, TN_F32, (int32_t)rows, s->kv_heads * s->value_dim);
  int64_t table = s->rotary ? (int64_t)tn_case_input(c, TN_F32, (int32_t)rows, s->rotary) : -1;
  uint32_t keys = tn_case_output(c, dtype, (int32_t)s->kv_heads, rows * s->key_dim);
  uint32_t values = tn_case_output(c, dtype, (int32_t)s->kv_heads, rows * s->value_dim);
  tn_case_fill(c, k, TN_FILL_RANDOM, 21);
  tn_case_fill(c, v, TN_FILL_RANDOM, 22);
  if (s->rotary) tn_case_fill_range(c, (uint32_t)table, -1, 1, 23);
  tn_case_op(c, TN_OP_KV_COLUMNS, &attributes, TN_CASE_LIST(k, v, table), TN_CASE_LIST(keys, values));
  c->dtype = (uint8_t)dtype;
  /* what is stored in 16 bits may be rounded to the other side where it was turned in another order */
  if (dtype != TN_F32 && s->rotary) c->tolerance = 1e-6;
  tn_case_say(c, "%s %u heads of %u,%u rows=%u", tn_dtype_name((tn_dtype)dtype), s->kv_heads, s->key_dim, s->value_dim,
              rows);
  if (s->rotary) tn_case_say(c, " rotary=%u%s", s->rotary, s->pairing ? " adjacent" : "");
  return c;
}

void tn_make_kv_columns(tn_maker *maker) {
  static const fixed_shape shapes[] = {
      {.kv_heads = 1, .key_dim = 8, .value_dim = 8},
      {.kv_heads = 3, .key_dim = 64, .value_dim = 64, .rotary = 64},
      {.kv_heads = 2, .key_dim = 20, .value_dim = 12, .rotary = 10, .pairing = 1},
  };
  uint32_t count;
  const uint32_t *rows = rows_of(maker, &count);
  if (maker->perf) return; /* as long as a copy takes */
  for (size_t i = 0; i < TN_COUNT(shapes); i++)
    for (size_t d = 0; d < TN_COUNT(kv_dtypes); d++)
      for (uint32_t r = 0; r < count && !maker->stopped; r++)
        tn_maker_emit(maker, columns_case(&shapes[i], rows[r], kv_dtypes[d]));
}

/* ---- attention_masked ---- */

static void put(uint8_t *data, uint32_t dtype, uint64_t index, float value) {
  uint16_t half = dtype == TN_F16 ? tn_f32_to_f16(value) : tn_f32_to_bf16(value);
  if (dtype == TN_F32)
    memcpy(data + index * 4, &value, 4);
  else
    memcpy(data + index * 2, &half, 2);
}

/* Values of [heads][columns][dim] from element `at` on: numbers in the first `open` columns, NaN in the others. */
static void fill_columns(uint8_t *data, uint32_t dtype, uint64_t at, uint32_t heads, uint32_t columns, uint32_t dim,
                         uint32_t open, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 1;
  for (uint32_t h = 0; h < heads; h++)
    for (uint32_t c = 0; c < columns; c++)
      for (uint32_t d = 0; d < dim; d++) {
        state = state * 1664525u + 1013904223u;
        put(data, dtype, at++, c < open ? (float)(state >> 8) / (float)(1u << 23) - 1.0f : NAN);
      }
}

/* Row r of `real` real ones, `past` slots before them; with holes, every seventh column is closed but a row's own. */
static void fill_mask(tn_case *c, uint32_t number, const fixed_shape *s, uint32_t rows, uint32_t slots, uint32_t past,
                      uint32_t real) {
  if (c->failed) return;
  uint64_t bytes;
  float *mask = (float *)(void *)tn_case_data(c, number, &bytes);
  for (uint32_t r = 0; r < rows; r++)
    for (uint32_t i = 0; i < slots + rows; i++) {
      uint32_t position = i < slots ? i : past + (i - slots), own = past + r;
      bool there = i < slots ? i < past : i - slots < real;
      bool open = there && r < real && position <= own && (!s->window || own - position < s->window);
      if (s->holes && position % 7 == 3 && position != own && position + 1 != past) open = false;
      mask[(size_t)r * (slots + rows) + i] = open ? 0.0f : -INFINITY;
    }
}

static tn_case *masked_case(const fixed_shape *s, uint32_t rows, uint32_t slots, uint32_t past, uint32_t real,
                            uint32_t dtype) {
  tn_case *c = tn_case_create(TN_OP_ATTENTION_MASKED, rows, 1);
  if (!c) return NULL;
  const tn_attention_attributes attributes = {.size = sizeof attributes,
                                              .heads = s->heads,
                                              .kv_heads = s->kv_heads,
                                              .key_dim = s->key_dim,
                                              .value_dim = s->value_dim,
                                              .scale = 0.3f,
                                              .softcap = s->softcap};
  uint32_t q = tn_case_input(c, TN_F32, (int32_t)rows, s->heads * s->key_dim);
  uint32_t keys = tn_case_input(c, dtype, (int32_t)s->kv_heads, rows * s->key_dim);
  uint32_t values = tn_case_input(c, dtype, (int32_t)s->kv_heads, rows * s->value_dim);
  uint32_t kv = tn_case_region(c, dtype, s->kv_heads, s->key_dim, s->value_dim, slots);
  uint32_t mask = tn_case_input(c, TN_F32, (int32_t)rows, slots + rows);
  int64_t sinks = s->sinks ? (int64_t)tn_case_vector(c, s->heads) : -1;
  uint32_t y = tn_case_output(c, TN_F32, (int32_t)rows, s->heads * s->value_dim);
  tn_case_fill(c, q, TN_FILL_RANDOM, 31);
  if (s->sinks) tn_case_fill_range(c, (uint32_t)sinks, -2, 2, 32);
  if (!c->failed) {
    uint64_t bytes;
    fill_columns(tn_case_data(c, keys, &bytes), dtype, 0, s->kv_heads, rows, s->key_dim, real, 33);
    fill_columns(tn_case_data(c, values, &bytes), dtype, 0, s->kv_heads, rows, s->value_dim, real, 34);
    uint8_t *region = tn_case_data(c, kv, &bytes);
    fill_columns(region, dtype, 0, s->kv_heads, slots, s->key_dim, past, 35);
    fill_columns(region, dtype, (uint64_t)s->kv_heads * slots * s->key_dim, s->kv_heads, slots, s->value_dim, past, 36);
  }
  fill_mask(c, mask, s, rows, slots, past, real);
  tn_case_op(c, TN_OP_ATTENTION_MASKED, &attributes, TN_CASE_LIST(q, keys, values, kv, mask, sinks), TN_CASE_LIST(y));
  c->dtype = (uint8_t)dtype;
  tn_case_say(c, "%s %u/%u heads of %u,%u %u of %u rows at %u of %u", tn_dtype_name((tn_dtype)dtype), s->heads,
              s->kv_heads, s->key_dim, s->value_dim, real, rows, past, slots);
  if (s->window) tn_case_say(c, " window=%u", s->window);
  tn_case_say(c, "%s%s%s", s->softcap > 0 ? " softcap" : "", s->sinks ? " sinks" : "", s->holes ? " holes" : "");
  return c;
}

/* From an empty region to a full one, with all rows real and with padding. */
static void masked_places(tn_maker *maker, const fixed_shape *s, uint32_t rows, uint32_t slots, uint32_t dtype) {
  const uint32_t real = rows > 2 ? rows - 2 : rows;
  const struct { uint32_t past, real; } places[] = {{0, rows}, {33, real}, {slots - rows, rows}, {slots - real, real}};
  for (size_t i = 0; i < TN_COUNT(places) && !maker->stopped; i++)
    if (places[i].past + places[i].real <= slots)
      tn_maker_emit(maker, masked_case(s, rows, slots, places[i].past, places[i].real, dtype));
}

void tn_make_attention_masked(tn_maker *maker) {
  static const fixed_shape shapes[] = {
      {.heads = 2, .kv_heads = 1, .key_dim = 8, .value_dim = 8},
      {.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64},
      {.heads = 4, .kv_heads = 2, .key_dim = 20, .value_dim = 12, .window = 5, .sinks = true},
      {.heads = 2, .kv_heads = 2, .key_dim = 40, .value_dim = 40, .softcap = 2.0f, .holes = true},
  };
  uint32_t row_count, length_count;
  const uint32_t *rows = rows_of(maker, &row_count), *lengths = lengths_of(maker, &length_count);
  if (maker->perf) {
    uint32_t most = rows[row_count - 1], longest = lengths[length_count - 1];
    tn_maker_emit(maker, masked_case(&shapes[1], most, longest, longest - most, most, TN_F16));
    return;
  }
  for (size_t i = 0; i < TN_COUNT(shapes); i++)
    for (size_t d = 0; d < TN_COUNT(kv_dtypes); d++)
      for (uint32_t r = 0; r < row_count; r++)
        for (uint32_t l = 0; l < length_count && !maker->stopped; l++)
          masked_places(maker, &shapes[i], rows[r], lengths[l], kv_dtypes[d]);
}
