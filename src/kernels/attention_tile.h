/* The inner loops of attention: a few queries against pages. See attention.c for the whole. */
#ifndef TENON_KERNELS_ATTENTION_TILE_H
#define TENON_KERNELS_ATTENTION_TILE_H

#include "kernels/internal.h"

/* Positions of a tile, counted from position 0 of the sequence: a unit of the order of arithmetic, never changed. */
#define TN_ATTENTION_TILE 256u

TN_INLINE vf tn_load_elements(const uint8_t *from, const uint32_t dtype, uint64_t at) {
  if (dtype == TN_F16) return vf_load_f16((const uint16_t *)(const void *)from + at);
  if (dtype == TN_BF16) return vf_load_bf16((const uint16_t *)(const void *)from + at);
  if (dtype == TN_I8) return vf_load_i8((const int8_t *)from + at);
  return vf_load((const float *)(const void *)from + at);
}

/* scores[q][32 p + slot] = sum over d, in order, of q[d][query] * key[d][slot], for `pages` pages (1 or 2) whose keys
 * of this head begin at keys[p]. `stride`: floats from query to query in scores. */
TN_INLINE void tn_score(const int queries, const int pages, const uint32_t dtype, const uint8_t *const *keys,
                        uint32_t key_dim, const float *q, float *scores) {
  vf acc[TN_QUERIES][4];
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < 2 * pages; v++) acc[i][v] = vf_zero();
  for (uint32_t d = 0; d < key_dim; d++, q += queries) {
    vf k[4];
#pragma GCC unroll 4
    for (int v = 0; v < 2 * pages; v++) k[v] = tn_load_elements(keys[v / 2], dtype, (uint64_t)d * 32 + v % 2 * 16);
#pragma GCC unroll 8
    for (int i = 0; i < queries; i++) {
      const vf x = vf_set1(q[i]);
#pragma GCC unroll 4
      for (int v = 0; v < 2 * pages; v++) acc[i][v] = vf_fma(k[v], x, acc[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < 2 * pages; v++) vf_store(scores + i * (int)TN_ATTENTION_TILE + v * 16, acc[i][v]);
}

/* sums[i][0 .. 16 vectors - 1] += weight[i][slot] * value[slot] for slots [begin, end), in order. `values`: the first
 * vector of slot 0; stride: elements from slot to slot; sum_stride: floats from query to query in sums. */
TN_INLINE void tn_weigh(const int queries, const int vectors, const uint32_t dtype, const uint8_t *values,
                        uint32_t stride, uint32_t begin, uint32_t end, const float *weights, float *sums,
                        uint32_t sum_stride) {
  vf acc[TN_QUERIES][4];
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) acc[i][v] = vf_load(sums + i * sum_stride + v * 16);
  for (uint32_t slot = begin; slot < end; slot++) {
    vf x[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) x[v] = tn_load_elements(values, dtype, (uint64_t)slot * stride + v * 16);
#pragma GCC unroll 8
    for (int i = 0; i < queries; i++) {
      const vf w = vf_set1(weights[i * (int)TN_ATTENTION_TILE + slot]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) acc[i][v] = vf_fma(x[v], w, acc[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) vf_store(sums + i * sum_stride + v * 16, acc[i][v]);
}

#endif
