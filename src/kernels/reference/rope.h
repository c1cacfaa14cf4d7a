/* Turning one head: shared by rope and kv_write. */
#ifndef TENON_KERNELS_REFERENCE_ROPE_H
#define TENON_KERNELS_REFERENCE_ROPE_H

#include "kernels/reference/reference.h"

/* Value i of a head after turning its first 2 * half values in pairs by table (half cosines, then half sines):
 * the first of a pair becomes a cos - b sin, the second a sin + b cos. */
static inline float tn_turned_value(const float *head, uint32_t i, uint32_t half, uint32_t pairing,
                                    const float *table) {
  if (i >= 2 * half) return head[i];
  uint32_t pair = pairing == TN_ROPE_HALF ? i % half : i / 2;
  uint32_t second = pairing == TN_ROPE_HALF ? i / half : i % 2;
  uint32_t partner = pairing == TN_ROPE_HALF ? (i + half) % (2 * half) : i ^ 1u;
  float cosine = table[pair], sine = table[half + pair];
  return second ? head[partner] * sine + head[i] * cosine : head[i] * cosine - head[partner] * sine;
}

#endif
