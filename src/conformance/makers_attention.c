/* Cases of rope_table, rope, kv_write and attention. What kv_write wrote is seen through an attention: cases of both
 * are programs of the two, and differ in what they vary. */
#include "conformance/makers.h"
#include "tensor/dtype.h"

/* ---- rope ---- */

static void fill_frequencies(tn_case *c, uint32_t value, uint32_t rotary) {
  if (c->failed) return;
  uint64_t bytes;
  float *data = (float *)(void *)tn_case_data(c, value, &bytes), frequency = 1;
  for (uint32_t i = 0; i < rotary / 2; i++, frequency *= 0.71f) data[i] = frequency;
}

/* Positions that rise by `step` from row to row. */
static void set_positions(tn_case *c, int32_t step) {
  for (uint32_t r = 0; r < c->row_count; r++)
    for (uint32_t d = 0; d < 4; d++) c->rows[r].position[d] *= step;
}

static tn_case *table_case(uint32_t rotary, uint32_t rows, float magnitude, int32_t step) {
  tn_case *c = tn_case_create(TN_OP_ROPE_TABLE, rows, rows > 4 ? 3 : 1);
  if (!c) return NULL;
  const tn_rope_table_attributes attributes = {sizeof attributes, rotary, magnitude};
  uint32_t w = tn_case_vector(c, rotary / 2), y = tn_case_output(c, TN_F32, TN_DIM_T, rotary);
  fill_frequencies(c, w, rotary);
  set_positions(c, step);
  tn_case_op(c, TN_OP_ROPE_TABLE, &attributes, TN_CASE_LIST(w), TN_CASE_LIST(y));
  tn_case_say(c, "rotary=%u rows=%u step=%d%s", rotary, rows, step, magnitude != 1 ? " magnitude" : "");
  return c;
}

void tn_make_rope_table(tn_maker *maker) {
  static const uint32_t rotaries[] = {2, 10, 64, 128};
  if (maker->perf) {
    tn_maker_emit(maker, table_case(128, 512, 1, 1));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(rotaries); k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS && !maker->stopped; i++)
      tn_maker_emit(maker, table_case(rotaries[k], tn_maker_rows[i], i % 2 ? 1.25f : 1, i == 3 ? 9973 : 1));
}

static tn_case *rope_case(uint32_t heads, uint32_t head_dim, uint32_t rotary, uint32_t pairing, uint32_t rows) {
  tn_case *c = tn_case_create(TN_OP_ROPE, rows, 1);
  if (!c) return NULL;
  const tn_rope_attributes attributes = {sizeof attributes, head_dim, rotary, pairing};
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, heads * head_dim), table = tn_case_input(c, TN_F32, TN_DIM_T, rotary);
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, heads * head_dim);
  tn_case_fill(c, x, TN_FILL_RANDOM, head_dim);
  tn_case_fill_range(c, table, -1, 1, rotary);
  tn_case_op(c, TN_OP_ROPE, &attributes, TN_CASE_LIST(x, table), TN_CASE_LIST(y));
  tn_case_say(c, "%u heads of %u, rotary=%u %s rows=%u", heads, head_dim, rotary,
              pairing == TN_ROPE_HALF ? "half" : "adjacent", rows);
  return c;
}

void tn_make_rope(tn_maker *maker) {
  static const struct {
    uint32_t heads, dim, rotary;
  } shapes[] = {{1, 2, 2}, {3, 64, 64}, {2, 80, 32}, {5, 20, 10}, {1, 128, 128}, {7, 12, 6}};
  if (maker->perf) {
    tn_maker_emit(maker, rope_case(16, 128, 128, TN_ROPE_HALF, 512));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(shapes); k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS; i++)
      for (uint32_t pairing = 0; pairing < 2 && !maker->stopped; pairing++)
        tn_maker_emit(maker, rope_case(shapes[k].heads, shapes[k].dim, shapes[k].rotary, pairing, tn_maker_rows[i]));
}

/* ---- kv_write and attention ---- */

typedef struct kv_shape {
  uint32_t heads, kv_heads, key_dim, value_dim, dtype;
  uint32_t rows, sequences;
  uint32_t rotary, pairing, window, group;
  float softcap;
  bool sinks;
  tn_fill fill;
} kv_shape;

static tn_case *kv_case(uint32_t opcode, const kv_shape *s) {
  tn_case *c = tn_case_create(opcode, s->rows, s->sequences);
  if (!c) return NULL;
  const float scale = s->fill == TN_FILL_LARGE ? 1e-6f : 0.3f;
  const tn_kv_write_attributes write = {sizeof write, s->group,  s->kv_heads, s->key_dim,
                                        s->value_dim, s->rotary, s->pairing};
  const tn_attention_attributes attend = {sizeof attend, s->group, s->heads,   s->kv_heads, s->key_dim,
                                          s->value_dim,  scale,    s->softcap, s->window};
  uint32_t k = tn_case_input(c, TN_F32, TN_DIM_T, s->kv_heads * s->key_dim);
  uint32_t v = tn_case_input(c, TN_F32, TN_DIM_T, s->kv_heads * s->value_dim);
  uint32_t q = tn_case_input(c, TN_F32, TN_DIM_T, s->heads * s->key_dim);
  uint32_t kv = tn_case_kv(c, s->dtype, s->kv_heads, s->key_dim, s->value_dim);
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, s->heads * s->value_dim);
  int64_t table = -1, sinks = -1;
  tn_case_fill(c, k, s->fill, 11);
  tn_case_fill(c, v, s->fill, 12);
  tn_case_fill(c, q, s->fill, 13);
  if (s->rotary) {
    table = tn_case_input(c, TN_F32, TN_DIM_T, s->rotary);
    tn_case_fill_range(c, (uint32_t)table, -1, 1, 14);
  }
  if (s->sinks) {
    sinks = tn_case_vector(c, s->heads);
    tn_case_fill_range(c, (uint32_t)sinks, -2, 2, 15);
  }
  tn_case_op(c, TN_OP_KV_WRITE, &write, TN_CASE_LIST(k, v, kv, table), TN_CASE_LIST(-1));
  tn_case_op(c, TN_OP_ATTENTION, &attend, TN_CASE_LIST(q, kv, sinks), TN_CASE_LIST(y));
  c->dtype = (uint8_t)s->dtype;
  c->tolerance = tn_op_info_of(TN_OP_ATTENTION)->tolerance;
  /* What is stored in fewer bits may be rounded to the other side where it was turned in another order. */
  if (s->dtype != TN_F32 && s->rotary) c->tolerance = s->dtype == TN_I8 ? 1e-5 : 1e-6;
  tn_case_say(c, "%s %u/%u heads of %u,%u rows=%u", tn_dtype_name((tn_dtype)s->dtype), s->heads, s->kv_heads,
              s->key_dim, s->value_dim, s->rows);
  if (s->sequences > 1) tn_case_say(c, " of %u", s->sequences);
  if (s->rotary) tn_case_say(c, " rotary=%u%s", s->rotary, s->pairing ? " adjacent" : "");
  if (s->window) tn_case_say(c, " window=%u", s->window);
  tn_case_say(c, "%s%s%s%s", s->softcap > 0 ? " softcap" : "", s->sinks ? " sinks" : "", s->group ? " group" : "",
              tn_fill_name(s->fill));
  return c;
}

static void kv_cases(tn_maker *maker, uint32_t opcode, const kv_shape *shapes, size_t count) {
  static const uint32_t dtypes[] = {TN_F32, TN_F16, TN_BF16, TN_I8};
  for (size_t i = 0; i < count; i++)
    for (size_t d = 0; d < TN_COUNT(dtypes) && !maker->stopped; d++) {
      kv_shape shape = shapes[i];
      shape.dtype = dtypes[d];
      if (shape.fill == TN_FILL_LARGE && shape.dtype == TN_F16) continue; /* squares pass its largest number */
      tn_maker_emit(maker, kv_case(opcode, &shape));
    }
}

void tn_make_kv_write(tn_maker *maker) {
  static const kv_shape shapes[] = {
      {.heads = 1, .kv_heads = 1, .key_dim = 8, .value_dim = 8, .rows = 1, .sequences = 1},
      {.heads = 2, .kv_heads = 2, .key_dim = 16, .value_dim = 24, .rows = 33, .sequences = 1},
      {.heads = 3, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .rows = 40, .sequences = 3, .rotary = 64},
      {.heads = 2,
       .kv_heads = 1,
       .key_dim = 20,
       .value_dim = 12,
       .rows = 70,
       .sequences = 2,
       .rotary = 10,
       .pairing = 1},
      {.heads = 2, .kv_heads = 2, .key_dim = 32, .value_dim = 32, .rows = 12, .sequences = 3, .group = 1},
  };
  if (maker->perf) return; /* timed with attention */
  kv_cases(maker, TN_OP_KV_WRITE, shapes, TN_COUNT(shapes));
}

void tn_make_attention(tn_maker *maker) {
  static const kv_shape shapes[] = {
      {.heads = 2, .kv_heads = 1, .key_dim = 8, .value_dim = 8, .rows = 1, .sequences = 1},
      {.heads = 1, .kv_heads = 1, .key_dim = 8, .value_dim = 8, .rows = 3, .sequences = 1},
      {.heads = 16, .kv_heads = 2, .key_dim = 16, .value_dim = 16, .rows = 33, .sequences = 1},
      {.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .rows = 100, .sequences = 3},
      {.heads = 6, .kv_heads = 2, .key_dim = 20, .value_dim = 12, .rows = 70, .sequences = 1, .window = 5},
      {.heads = 6, .kv_heads = 2, .key_dim = 20, .value_dim = 12, .rows = 140, .sequences = 2, .window = 33},
      {.heads = 4, .kv_heads = 4, .key_dim = 32, .value_dim = 32, .rows = 40, .sequences = 1, .softcap = 2.0f},
      {.heads = 4, .kv_heads = 1, .key_dim = 128, .value_dim = 128, .rows = 20, .sequences = 2, .sinks = true},
      {.heads = 2,
       .kv_heads = 2,
       .key_dim = 40,
       .value_dim = 40,
       .rows = 9,
       .sequences = 3,
       .window = 4,
       .sinks = true,
       .softcap = 3,
       .group = 1},
      {.heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 16, .rows = 40, .sequences = 1, .fill = TN_FILL_ZERO},
      {.heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 16, .rows = 40, .sequences = 1, .fill = TN_FILL_LARGE},
      {.heads = 5, .kv_heads = 5, .key_dim = 80, .value_dim = 80, .rows = 35, .sequences = 1},
      /* further than fast kernels go at once (256 positions) */
      {.heads = 3, .kv_heads = 1, .key_dim = 20, .value_dim = 20, .rows = 270, .sequences = 1},
      {.heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 16, .rows = 40, .sequences = 1, .fill = TN_FILL_NAN_ROW},
  };
  static const kv_shape large = {
      .heads = 16, .kv_heads = 4, .key_dim = 128, .value_dim = 128, .dtype = TN_F16, .rows = 512, .sequences = 1};
  if (maker->perf) {
    kv_shape in_int8 = large;
    in_int8.dtype = TN_I8;
    tn_maker_emit(maker, kv_case(TN_OP_ATTENTION, &large));
    tn_maker_emit(maker, kv_case(TN_OP_ATTENTION, &in_int8));
    return;
  }
  kv_cases(maker, TN_OP_ATTENTION, shapes, TN_COUNT(shapes));
}
