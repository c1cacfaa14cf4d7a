/* AVX2 with AVX-VNNI: as avx2.h, with an instruction for dot products of unsigned and signed bytes. See simd.h. */
#ifndef TENON_KERNELS_SIMD_AVXVNNI_H
#define TENON_KERNELS_SIMD_AVXVNNI_H

#define TN_DOT_PRODUCTS_ELSEWHERE 1
#include "kernels/simd/avx2.h"

typedef vi vd;
static inline vd vd_begin(int32_t start) {
  return vi_set1(start);
}
static inline vd vd_add_bytes(vd acc, vi w, const int8_t *four) {
  int32_t bytes;
  __builtin_memcpy(&bytes, four, 4);
  const __m256i q = _mm256_set1_epi32(bytes);
  return (vd){_mm256_dpbusd_avx_epi32(acc.a, w.a, q), _mm256_dpbusd_avx_epi32(acc.b, w.b, q)};
}
static inline vd vd_add_nibbles(vd acc, vi w, const int8_t *four) {
  return vd_add_bytes(acc, w, four);
}
static inline vi vd_end_bytes(vd acc, int32_t start) {
  (void)start;
  return acc;
}
static inline vi vd_end_nibbles(vd acc, int32_t start) {
  (void)start;
  return acc;
}

#endif
