/* rope_table, rope and kv_write: turning heads, and putting keys and values into their pages. */
#include "kernels/internal.h"
#include "kernels/page.h"
#include "kernels/vector_math.h"

static void table_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const tn_rope_table_attributes *attributes = (const tn_rope_table_attributes *)call->attributes;
  const float *frequency = (const float *)call->inputs[0].data;
  float position = (float)call->batch->rows[row].position[0];
  float *y = tn_floats(&call->outputs[0], row);
  uint32_t half = attributes->rotary / 2;
  for (uint32_t m = 0; m < half; m++) {
    float sine, cosine;
    tn_sin_cos(position * frequency[m], &sine, &cosine);
    y[m] = cosine * attributes->magnitude;
    y[half + m] = sine * attributes->magnitude;
  }
}

tn_status tn_rope_table(const tn_kernel_call *call) {
  tn_share_rows(call, table_row, call->batch->row_count, (uint64_t)tn_columns(&call->outputs[0]) * 20);
  return TN_OK;
}

/* Turns up to 16 pairs: a' = a cos - b sin, b' = a sin + b cos. `table` has half cosines, then half sines. */
TN_INLINE void turn(const float *table, uint32_t half, uint32_t first, vf *a, vf *b) {
  vf cosine = tn_load_some(table + first, half - first), sine = tn_load_some(table + half + first, half - first);
  vf turned = vf_sub(vf_mul(*a, cosine), vf_mul(*b, sine));
  *b = vf_add(vf_mul(*a, sine), vf_mul(*b, cosine));
  *a = turned;
}

/* Pairs first .. first + 15 of a head, turned. */
TN_INLINE void turned_pairs(const float *head, uint32_t half, uint32_t pairing, const float *table, uint32_t first,
                            vf *a, vf *b) {
  uint32_t left = half - first < TN_LANES ? half - first : TN_LANES;
  if (pairing == TN_ROPE_HALF) {
    *a = tn_load_some(head + first, left);
    *b = tn_load_some(head + half + first, left);
  } else {
    float even[TN_LANES] = {0}, odd[TN_LANES] = {0};
    for (uint32_t i = 0; i < left; i++) {
      even[i] = head[2 * (first + i)];
      odd[i] = head[2 * (first + i) + 1];
    }
    *a = vf_load(even);
    *b = vf_load(odd);
  }
  turn(table, half, first, a, b);
}

static void rope_head(const tn_rope_attributes *attributes, const float *x, const float *table, float *y) {
  uint32_t half = attributes->rotary / 2;
  for (uint32_t first = 0; first < half; first += TN_LANES) {
    vf a, b;
    turned_pairs(x, half, attributes->pairing, table, first, &a, &b);
    if (attributes->pairing == TN_ROPE_HALF) {
      tn_store_some(y + first, half - first, a);
      tn_store_some(y + half + first, half - first, b);
      continue;
    }
    float even[TN_LANES], odd[TN_LANES];
    vf_store(even, a);
    vf_store(odd, b);
    for (uint32_t i = 0; i < TN_LANES && first + i < half; i++) {
      y[2 * (first + i)] = even[i];
      y[2 * (first + i) + 1] = odd[i];
    }
  }
  for (uint32_t i = attributes->rotary; i < attributes->head_dim; i++) y[i] = x[i];
}

static void rope_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const tn_rope_attributes *attributes = (const tn_rope_attributes *)call->attributes;
  const float *table = tn_floats(&call->inputs[1], row);
  for (uint32_t begin = 0; begin < tn_columns(&call->inputs[0]); begin += attributes->head_dim)
    rope_head(attributes, tn_floats(&call->inputs[0], row) + begin, table, tn_floats(&call->outputs[0], row) + begin);
}

tn_status tn_rope(const tn_kernel_call *call) {
  tn_share_rows(call, rope_row, tn_rows(&call->inputs[0]), (uint64_t)tn_columns(&call->inputs[0]) * 2);
  return TN_OK;
}

/* ---- kv_write ---- */

/* 16 values as elements of the page, one behind the other. */
TN_INLINE void store_elements(uint32_t dtype, void *to, vf values) {
  if (dtype == TN_F32)
    vf_store((float *)to, values);
  else if (dtype == TN_F16)
    vf_store_f16((uint16_t *)to, values);
  else
    vf_store_bf16((uint16_t *)to, values);
}

/* Puts `count` values into dimensions first, first + step, ... of a key: 32 elements from dimension to dimension. */
static void put_key(const tn_page *page, uint8_t *key, uint32_t first, uint32_t step, uint32_t count, vf values) {
  _Alignas(64) uint8_t elements[TN_LANES * 4];
  store_elements(page->dtype, elements, values);
  for (uint32_t i = 0; i < count && i < TN_LANES; i++) {
    uint64_t at = (uint64_t)(first + i * step) * TN_PAGE_SLOTS;
    if (page->element_bytes == 4)
      ((uint32_t *)(void *)key)[at] = ((const uint32_t *)(const void *)elements)[i];
    else
      ((uint16_t *)(void *)key)[at] = ((const uint16_t *)(const void *)elements)[i];
  }
}

static void write_key(const tn_kv_write_attributes *attributes, const tn_page *page, const float *head,
                      const float *table, uint8_t *key) {
  uint32_t half = table ? attributes->rotary / 2 : 0;
  bool halves = attributes->pairing == TN_ROPE_HALF;
  for (uint32_t first = 0; first < half; first += TN_LANES) {
    vf a, b;
    turned_pairs(head, half, attributes->pairing, table, first, &a, &b);
    put_key(page, key, halves ? first : 2 * first, halves ? 1 : 2, half - first, a);
    put_key(page, key, halves ? half + first : 2 * first + 1, halves ? 1 : 2, half - first, b);
  }
  for (uint32_t d = 2 * half; d < page->key_dim; d += TN_LANES)
    put_key(page, key, d, 1, page->key_dim - d, tn_load_some(head + d, page->key_dim - d));
}

/* The key of one slot as floats, turned. */
static void turned_key(const tn_kv_write_attributes *attributes, const float *head, const float *table, float *key) {
  uint32_t half = table ? attributes->rotary / 2 : 0;
  const tn_rope_attributes rope = {sizeof rope, attributes->key_dim, 2 * half, attributes->pairing};
  rope_head(&rope, head, table, key);
}

/* The scale, which is returned, and the integers of device.h, plus 128. Four elements from element i on, which is a
 * multiple of 4, go to to[i * far], to[i * far + near] and so on. */
static float put_int8(const float *x, uint32_t count, uint8_t *to, uint64_t far, uint64_t near) {
  vi most = vi_zero();
  for (uint32_t d = 0; d < count; d += TN_LANES) most = vi_max(most, vi_bits(vf_abs(tn_load_some(x + d, count - d))));
  float largest = tn_largest_of(most);
  const bool zero = !(largest > 0.0f);
  const vf inverse = vf_set1(zero ? 0.0f : 127.0f / largest);
  for (uint32_t d = 0; d < count; d += TN_LANES) {
    int8_t q[TN_LANES] = {0};
    if (!zero) vi_store_i8(q, vi_round(vf_mul(tn_load_some(x + d, count - d), inverse)));
    for (uint32_t i = 0; i < TN_LANES && d + i < count; i++)
      to[(d + i) / 4 * 4 * far + i % 4 * near] = (uint8_t)(q[i] + 128);
  }
  return zero ? largest : largest / 127.0f;
}

/* A key and a value into slot `within` of a head's int8 memory. */
static void write_int8(const tn_page *page, uint32_t within, const float *key, const float *value, uint8_t *memory) {
  float *key_scales = (float *)(void *)(memory + page->key_scales),
        *value_scales = (float *)(void *)(memory + page->value_scales);
  uint8_t *values = memory + page->values + within / 4 * 4 * page->value_stride + within % 4;
  key_scales[within] = put_int8(key, page->key_dim, memory + within * 4, TN_PAGE_SLOTS, 1);
  value_scales[within] = put_int8(value, page->value_dim, values, 4, 4);
}

static void write_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  const tn_kv_write_attributes *attributes = (const tn_kv_write_attributes *)call->attributes;
  const tn_tensor *state = &call->inputs[2], *table = tn_input(call, 3);
  const tn_sequence *sequence = &call->batch->sequences[call->batch->rows[row].sequence];
  const float *turns = table && attributes->rotary ? tn_floats(table, row) : NULL;
  uint32_t slot = sequence->kv_length + (row - sequence->first_row), within = slot % TN_PAGE_SLOTS;
  uint32_t number = call->batch->pages[sequence->pages[attributes->group] + slot / TN_PAGE_SLOTS];
  uint8_t *memory = tn_row_at(state, number);
  tn_page page;
  if (!tn_page_of(&page, state->dtype, attributes->kv_heads, attributes->key_dim, attributes->value_dim)) return;
  for (uint32_t h = 0; h < attributes->kv_heads; h++, memory += page.head_bytes) {
    const float *key = tn_floats(&call->inputs[0], row) + h * page.key_dim;
    const float *value = tn_floats(&call->inputs[1], row) + h * page.value_dim;
    if (page.dtype == TN_I8) {
      float *space = (float *)(void *)((uint8_t *)call->workspace + worker * call->workspace_bytes);
      if (turns) turned_key(attributes, key, turns, space);
      write_int8(&page, within, turns ? space : key, value, memory);
      continue;
    }
    write_key(attributes, &page, key, turns, memory + within * page.element_bytes);
    uint8_t *to = memory + page.values + (uint64_t)within * page.value_stride * page.element_bytes;
    for (uint32_t d = 0; d < page.value_dim; d += TN_LANES)
      store_elements(page.dtype, to + d * page.element_bytes, tn_load_some(value + d, page.value_dim - d));
  }
}

uint64_t tn_kv_write_workspace(const tn_op_query *query) {
  return query->inputs[2].dtype == TN_I8 ? (uint64_t)query->inputs[2].dims[1] * sizeof(float) : 0;
}

tn_status tn_kv_write(const tn_kernel_call *call) {
  uint64_t work = (uint64_t)(tn_columns(&call->inputs[0]) + tn_columns(&call->inputs[1])) * 2;
  tn_share_rows(call, write_row, call->batch->row_count, work);
  return TN_OK;
}
