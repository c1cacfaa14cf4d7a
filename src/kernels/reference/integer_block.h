/* Weight blocks of 32 whose values are d q + m with small integers q: what a q8a linear multiplies in integers. */
#ifndef TENON_KERNELS_REFERENCE_INTEGER_BLOCK_H
#define TENON_KERNELS_REFERENCE_INTEGER_BLOCK_H

#include "tensor/blocks.h"
#include "tensor/half.h"

typedef struct tn_integer_block {
  int32_t q[32];
  float d, m;
  int has_offset; /* there is an m */
} tn_integer_block;

static inline int tn_is_integer_block(uint32_t dtype) {
  return dtype == TN_Q8_0 || dtype == TN_Q4_0 || dtype == TN_Q4_1 || dtype == TN_Q5_0 || dtype == TN_Q5_1;
}

/* Takes one block of a format for which tn_is_integer_block holds apart; blocks.h draws the formats. */
static inline void tn_integer_block_of(uint32_t dtype, const void *block, tn_integer_block *out) {
  const tn_block_q8_0 *q8_0 = block;
  const tn_block_q4_0 *q4_0 = block;
  const tn_block_q4_1 *q4_1 = block;
  const tn_block_q5_0 *q5_0 = block;
  const tn_block_q5_1 *q5_1 = block;
  const uint8_t *nibbles = q4_0->qs;
  uint32_t fifth = 0;
  int32_t offset = 8;
  out->d = tn_f16_to_f32(q8_0->d); /* first in every format */
  out->m = 0.0f;
  out->has_offset = 0;
  if (dtype == TN_Q8_0) {
    for (int i = 0; i < 32; i++) out->q[i] = (int32_t)q8_0->qs[i];
    return;
  }
  if (dtype == TN_Q4_1 || dtype == TN_Q5_1) {
    out->m = tn_f16_to_f32(q4_1->m); /* second in both */
    out->has_offset = 1;
    nibbles = dtype == TN_Q4_1 ? q4_1->qs : q5_1->qs;
    if (dtype == TN_Q5_1) fifth = q5_1->qh;
    offset = 0;
  } else if (dtype == TN_Q5_0) {
    nibbles = q5_0->qs;
    fifth = q5_0->qh;
    offset = 16;
  }
  for (int i = 0; i < 32; i++) {
    int32_t low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    out->q[i] = (low | (int32_t)(fifth >> i & 1) << 4) - offset;
  }
}

/* acc and what a block times 32 columns of q8a adds to it: (d scale) (sum of products of q, exact), then (m scale)
 * sum. */
static inline float tn_integer_block_add(float acc, const tn_integer_block *w, const int8_t *q, float scale,
                                         int32_t sum) {
  int32_t dot = 0;
  for (int k = 0; k < 32; k++) dot += w->q[k] * q[k];
  acc += (w->d * scale) * (float)dot;
  if (w->has_offset) acc += (w->m * scale) * (float)sum;
  return acc;
}

#endif
