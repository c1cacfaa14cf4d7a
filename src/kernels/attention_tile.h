/* The inner loops of attention over floats: a few queries against pages. See attention.c for the whole. */
#ifndef TENON_KERNELS_ATTENTION_TILE_H
#define TENON_KERNELS_ATTENTION_TILE_H

#include "kernels/internal.h"

/* Positions of a tile, counted from position 0 of the sequence: a unit of the order of arithmetic, never changed. */
#define TN_ATTENTION_TILE 256u

TN_INLINE uint32_t tn_element_bytes(const uint32_t dtype) {
  return dtype == TN_F32 ? 4 : 2;
}

/* Asks for the lines that `bytes` bytes from `at` on lie in. */
TN_INLINE void tn_prefetch_run(const uint8_t *at, const int bytes) {
#pragma GCC unroll 8
  for (int i = 0; i < bytes; i += 64) tn_prefetch_far(at + i);
}

TN_INLINE vf tn_load_elements(const uint8_t *from, const uint32_t dtype, uint64_t at) {
  if (dtype == TN_F16) return vf_load_f16((const uint16_t *)(const void *)from + at);
  if (dtype == TN_BF16) return vf_load_bf16((const uint16_t *)(const void *)from + at);
  return vf_load((const float *)(const void *)from + at);
}

/* scores[i][32 p + slot] = sum over d, in order, of q[i][d] * key[d][slot], for `pages` pages (1 or 2) whose keys of
 * this head begin at keys[p]. From query to query in scores it is TN_ATTENTION_TILE floats. As much memory as a
 * page's keys take is asked for at each ahead[p]. */
TN_INLINE void tn_score(const int queries, const int pages, const uint32_t dtype, const uint8_t *const *keys,
                        const uint8_t *const *ahead, uint32_t key_dim, const float *const *q, float *scores) {
  const int bytes = (int)tn_element_bytes(dtype) * 32 * pages;
  vf acc[TN_QUERIES][4];
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < 2 * pages; v++) acc[i][v] = vf_zero();
  for (uint32_t part = 0, d = 0; part < (uint32_t)pages; part++) {
    const uint8_t *asked = ahead[part];
    for (uint32_t end = key_dim * (part + 1) / (uint32_t)pages; d < end; d++, asked += bytes) {
      vf k[4];
#pragma GCC unroll 4
      for (int v = 0; v < 2 * pages; v++) k[v] = tn_load_elements(keys[v / 2], dtype, (uint64_t)d * 32 + v % 2 * 16);
      tn_prefetch_run(asked, bytes);
#pragma GCC unroll 8
      for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * pages; v++) acc[i][v] = vf_fma_one(k[v], q[i] + d, acc[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < 2 * pages; v++) vf_store(scores + i * (int)TN_ATTENTION_TILE + v * 16, acc[i][v]);
}

/* sums[i][0 .. 16 vectors - 1] += weight[i][slot] * value[slot] for slots [begin, end), in order. `values`: the first
 * vector of slot 0; stride: elements from slot to slot; sum_stride: floats from query to query in sums. As much memory
 * as is read is asked for at `ahead`. */
TN_INLINE void tn_weigh(const int queries, const int vectors, const uint32_t dtype, const uint8_t *values,
                        const uint8_t *ahead, uint32_t stride, uint32_t begin, uint32_t end, const float *weights,
                        float *sums, uint32_t sum_stride) {
  const int bytes = (int)tn_element_bytes(dtype) * 16 * vectors;
  vf acc[TN_QUERIES][4];
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) acc[i][v] = vf_load(sums + i * sum_stride + v * 16);
  for (uint32_t slot = begin; slot < end; slot++) {
    vf x[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) x[v] = tn_load_elements(values, dtype, (uint64_t)slot * stride + v * 16);
    tn_prefetch_run(ahead + (uint64_t)slot * bytes, bytes);
#pragma GCC unroll 8
    for (int i = 0; i < queries; i++) {
      const float *w = weights + i * (int)TN_ATTENTION_TILE + slot;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) acc[i][v] = vf_fma_one(x[v], w, acc[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) vf_store(sums + i * sum_stride + v * 16, acc[i][v]);
}

#endif
