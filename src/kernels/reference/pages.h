/* The plain KV page: key [kv_heads][slots][key_dim], then value [kv_heads][slots][value_dim], in the state's dtype
 * (f32, f16, bf16 or int8); of int8 then the scales, f32: [kv_heads][slots] of keys, [kv_heads][slots] of values. A
 * state tensor has dims kv heads, key dim, value dim, slots. */
#ifndef TENON_KERNELS_REFERENCE_PAGES_H
#define TENON_KERNELS_REFERENCE_PAGES_H

#include "kernels/math.h"
#include "kernels/reference/reference.h"
#include "tensor/half.h"

/* The page and, in *within, the place in it of slot `slot` of a sequence. */
static inline void *tn_page_of(const tn_tensor *state, const tn_batch *batch, const tn_sequence *sequence,
                               uint32_t group, uint32_t slot, uint32_t *within) {
  uint32_t page = batch->pages[sequence->pages[group] + slot / TN_PAGE_SLOTS];
  *within = slot % TN_PAGE_SLOTS;
  return (char *)state->data + page * state->row_bytes;
}

/* Index in the page of the first value of a slot's key, and of its value. */
static inline uint64_t tn_key_index(const tn_tensor *state, uint32_t head, uint32_t within) {
  return ((uint64_t)head * state->dims[3] + within) * state->dims[1];
}
static inline uint64_t tn_value_index(const tn_tensor *state, uint32_t head, uint32_t within) {
  uint64_t keys = (uint64_t)state->dims[0] * state->dims[3] * state->dims[1];
  return keys + ((uint64_t)head * state->dims[3] + within) * state->dims[2];
}

/* The scale of an int8 page for a slot's key, and for its value. */
static inline float *tn_key_scale(const tn_tensor *state, void *page, uint32_t head, uint32_t within) {
  uint64_t elements = (uint64_t)state->dims[0] * state->dims[3] * ((uint64_t)state->dims[1] + state->dims[2]);
  return (float *)(void *)((char *)page + elements) + (uint64_t)head * state->dims[3] + within;
}
static inline float *tn_value_scale(const tn_tensor *state, void *page, uint32_t head, uint32_t within) {
  return tn_key_scale(state, page, state->dims[0] + head, within);
}

/* An element; of an int8 page without its scale. */
static inline float tn_page_get(uint32_t dtype, const void *page, uint64_t index) {
  if (dtype == TN_F16) return tn_f16_to_f32(((const uint16_t *)page)[index]);
  if (dtype == TN_BF16) return tn_bf16_to_f32(((const uint16_t *)page)[index]);
  if (dtype == TN_I8) return (float)((const int8_t *)page)[index];
  return ((const float *)page)[index];
}
/* Rounds a value to an element; to int8 the value is between -127 and 127. */
static inline void tn_page_set(uint32_t dtype, void *page, uint64_t index, float value) {
  if (dtype == TN_F16) {
    ((uint16_t *)page)[index] = tn_f32_to_f16(value);
  } else if (dtype == TN_BF16) {
    ((uint16_t *)page)[index] = tn_f32_to_bf16(value);
  } else if (dtype == TN_I8) {
    ((int8_t *)page)[index] = (int8_t)((value + TN_ROUND_MAGIC) - TN_ROUND_MAGIC);
  } else {
    ((float *)page)[index] = value;
  }
}

/* The KV slot that row t fills, which is also the last it sees. */
static inline uint32_t tn_slot_of_row(const tn_batch *batch, uint32_t t) {
  const tn_sequence *sequence = &batch->sequences[batch->rows[t].sequence];
  return sequence->kv_length + (t - sequence->first_row);
}

#endif
