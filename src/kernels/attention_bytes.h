/* The inner loops of attention over int8 pages: a few queries against pages, in integers. See attention.c for the
 * whole.
 *
 * What multiplies the bytes - a query, or the weights of a page's 32 slots - becomes integers of 16 bits with one
 * scale, the largest magnitude being the largest integer. Then sums are exact, and their order is of no account. */
#ifndef TENON_KERNELS_ATTENTION_BYTES_H
#define TENON_KERNELS_ATTENTION_BYTES_H

#include "kernels/attention_tile.h"
#include "kernels/vector_math.h"

/* What integers are: x = scale * integer. A scale is NaN where a number is none. */
typedef struct tn_wide {
  float scale;
  int32_t total; /* of the integers */
} tn_wide;

/* Bytes of so many integers, as vw_store puts them. */
TN_INLINE uint64_t tn_wide_bytes(uint32_t count) {
  return (uint64_t)(count + TN_LANES - 1) / TN_LANES * 32;
}

/* The integer of largest magnitude against keys of so many dimensions: sums have to fit in 32 bits. */
TN_INLINE float tn_widest(uint32_t key_dim) {
  uint32_t most = ((1u << 24) - 1) / key_dim;
  return (float)(most < TN_WIDE_MOST ? most : TN_WIDE_MOST);
}

/* The scale of integers up to `most` for numbers up to the largest of `magnitudes`, the bits of magnitudes. *inverse:
 * what numbers are multiplied by, 0 where all integers are. */
TN_INLINE float tn_wide_scale(vi magnitudes, const float most, float *inverse) {
  float largest = tn_largest_of(magnitudes);
  *inverse = largest > 0.0f ? most / largest : 0.0f;
  return largest * (1.0f / most);
}

TN_INLINE vi tn_widen(vf x, const float inverse) {
  return inverse != 0.0f ? vi_round(vf_mul(x, vf_set1(inverse))) : vi_zero();
}

/* A query of `key_dim` dimensions as integers, padded with zeros to whole vectors. */
TN_INLINE tn_wide tn_wide_query(const float *q, uint32_t key_dim, uint8_t *to) {
  vi most = vi_zero(), total = vi_zero();
  for (uint32_t d = 0; d < key_dim; d += TN_LANES)
    most = vi_max(most, vi_bits(vf_abs(tn_load_some(q + d, key_dim - d))));
  float inverse, scale = tn_wide_scale(most, tn_widest(key_dim), &inverse);
  for (uint32_t d = 0; d < key_dim; d += TN_LANES) {
    vi x = tn_widen(tn_load_some(q + d, key_dim - d), inverse);
    total = vi_add(total, x);
    vw_store(to + d * 2, x);
  }
  return (tn_wide){scale, vi_sum(total)};
}

/* The weights of a page, none of them negative, as integers. */
TN_INLINE tn_wide tn_wide_weights(vf low, vf high, uint8_t *to) {
  float inverse, scale = tn_wide_scale(vi_max(vi_bits(low), vi_bits(high)), TN_WIDE_MOST, &inverse);
  vi first = tn_widen(low, inverse), second = tn_widen(high, inverse);
  vw_store(to, first);
  vw_store(to + 32, second);
  return (tn_wide){scale, vi_sum(vi_add(first, second))};
}

/* scores[i][16 v + slot] = sum over d of the integers q[i][d] * key[d][slot], for `vectors` vectors of slots: two
 * pages, one, or the half of one from slot 16 `half` on. keys, ahead and scores as in tn_score. */
TN_INLINE void tn_score_bytes(const int queries, const int vectors, const uint8_t *const *keys,
                              const uint8_t *const *ahead, uint32_t half, uint32_t key_dim, const uint8_t *const *q,
                              const tn_wide *wide, float *scores) {
  const uint32_t parts = vectors == 4 ? 2 : 1, fours = (key_dim + 3) / 4;
  vw acc[TN_QUERIES][4];
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) acc[i][v] = vw_begin(wide[i].total);
  for (uint32_t part = 0, d = 0; part < parts; part++) {
    const uint8_t *asked = ahead[part] + half * fours * 64;
    for (uint32_t end = fours * (part + 1) / parts; d < end; d++, asked += 64 * vectors) {
      vi k[4];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) k[v] = vi_load(keys[v / 2] + (uint64_t)d * 128 + half * 64 + v % 2 * 64);
      tn_prefetch_run(asked, 64 * vectors);
#pragma GCC unroll 8
      for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) acc[i][v] = vw_add(acc[i][v], k[v], q[i] + (uint64_t)d * 8);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      vf_store(scores + i * (int)TN_ATTENTION_TILE + v * 16, vf_from_vi(vw_end(acc[i][v])));
}

/* sums[i][0 .. 16 vectors - 1] += scale * sum over the page's slots of the integers of weights * value[slot]. `values`:
 * the first vector of slots 0 .. 3; weights and wide: of the page, with 2 TN_ATTENTION_TILE bytes, and
 * TN_ATTENTION_TILE / 32, from query to query. The others as in tn_weigh. */
TN_INLINE void tn_weigh_bytes(const int queries, const int vectors, const uint8_t *values, const uint8_t *ahead,
                              uint32_t stride, const uint8_t *weights, const tn_wide *wide, float *sums) {
  const int next = (int)(TN_ATTENTION_TILE / TN_PAGE_SLOTS);
  vw acc[TN_QUERIES][4];
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) acc[i][v] = vw_begin(wide[i * next].total);
  for (uint32_t four = 0; four < TN_PAGE_SLOTS / 4; four++) {
    vi x[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) x[v] = vi_load(values + (uint64_t)four * 4 * stride + v * 64);
    tn_prefetch_run(ahead + (uint64_t)four * 64 * (uint32_t)vectors, 64 * vectors);
#pragma GCC unroll 8
    for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++)
        acc[i][v] = vw_add(acc[i][v], x[v], weights + i * (int)TN_ATTENTION_TILE * 2 + four * 8);
  }
#pragma GCC unroll 8
  for (int i = 0; i < queries; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      float *sum = sums + (uint32_t)i * stride + v * 16;
      vf_store(sum, vf_fma_one(vf_from_vi(vw_end(acc[i][v])), &wide[i * next].scale, vf_load(sum)));
    }
}

#endif
