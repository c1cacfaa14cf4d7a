/* AVX-512 with VNNI: a vf and a vi are one register. See simd.h for what each primitive means. */
#ifndef TENON_KERNELS_SIMD_AVX512VNNI_H
#define TENON_KERNELS_SIMD_AVX512VNNI_H

#include <immintrin.h>

#define TN_TILE_ROWS 12
#define TN_WEIGHTS_IN_REGISTERS 1
#define TN_FLOAT_ROWS 6
#define TN_FLOAT_PANELS 2
#define TN_QUERIES 6
#define TN_QUERY_SUMS 24
#define TN_WIDE_SUMS 12

typedef __m512 vf;
typedef __m512i vi;

static inline vf vf_set1(float x) {
  return _mm512_set1_ps(x);
}
static inline vf vf_zero(void) {
  return _mm512_setzero_ps();
}
static inline vf vf_load(const float *p) {
  return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf x) {
  _mm512_storeu_ps(p, x);
}
static inline __mmask16 tn_mask_first(size_t n) {
  return (__mmask16)((1u << n) - 1u);
}
static inline vf vf_load_part(const float *p, size_t n) {
  return _mm512_maskz_loadu_ps(tn_mask_first(n), p);
}
static inline void vf_store_part(float *p, size_t n, vf x) {
  _mm512_mask_storeu_ps(p, tn_mask_first(n), x);
}
static inline vf vf_add(vf a, vf b) {
  return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b) {
  return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b) {
  return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b) {
  return _mm512_div_ps(a, b);
}
static inline vf vf_max(vf a, vf b) {
  return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b) {
  return _mm512_min_ps(a, b);
}
static inline vf vf_abs(vf a) {
  return _mm512_abs_ps(a);
}
static inline vf vf_fma(vf a, vf b, vf c) {
  return _mm512_fmadd_ps(a, b, c);
}
/* The multiplier comes with the instruction: a broadcast of its own takes a turn of the units that multiply. */
#define TN_OWN_FMA_ONE
static inline vf vf_fma_one(vf a, const float *one, vf c) {
  __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(a), "m"(*one));
  return c;
}

static inline vi vi_set1(int32_t x) {
  return _mm512_set1_epi32(x);
}
static inline vi vi_zero(void) {
  return _mm512_setzero_si512();
}
static inline vi vi_load(const void *p) {
  return _mm512_loadu_si512(p);
}
static inline void vi_store(void *p, vi x) {
  _mm512_storeu_si512(p, x);
}
static inline vi vi_add(vi a, vi b) {
  return _mm512_add_epi32(a, b);
}
static inline vi vi_sub(vi a, vi b) {
  return _mm512_sub_epi32(a, b);
}
static inline vi vi_and(vi a, vi b) {
  return _mm512_and_si512(a, b);
}
static inline vi vi_xor(vi a, vi b) {
  return _mm512_xor_si512(a, b);
}
static inline vi vi_shift_left(vi a, unsigned n) {
  return _mm512_slli_epi32(a, n);
}
static inline vi vi_shift_right(vi a, unsigned n) {
  return _mm512_srli_epi32(a, n);
}
static inline vi vi_shift_right_signed(vi a, unsigned n) {
  return _mm512_srai_epi32(a, n);
}
static inline vi vi_look_up(const uint8_t table[16], vi x) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), x);
}
static inline void vi_store_i8(void *p, vi x) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x));
}

static inline vf vf_from_vi(vi x) {
  return _mm512_cvtepi32_ps(x);
}
static inline vi vi_round(vf x) {
  return _mm512_cvtps_epi32(x);
}
static inline vf vf_bits(vi x) {
  return _mm512_castsi512_ps(x);
}
static inline vi vi_bits(vf x) {
  return _mm512_castps_si512(x);
}
static inline vi vf_less(vf a, vf b) {
  return _mm512_maskz_set1_epi32(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), -1);
}
static inline vf vf_select(vi mask, vf a, vf b) {
  return _mm512_mask_blend_ps(_mm512_movepi32_mask(mask), b, a);
}
static inline vi vi_first(size_t n) {
  return _mm512_maskz_set1_epi32(tn_mask_first(n), -1);
}

static inline float vf_sum(vf x) {
  return _mm512_reduce_add_ps(x);
}
static inline float vf_largest(vf x) {
  return _mm512_reduce_max_ps(x);
}
static inline int32_t vi_sum(vi x) {
  return _mm512_reduce_add_epi32(x);
}

static inline vi vi_max(vi a, vi b) {
  return _mm512_max_epi32(a, b);
}
static inline int32_t vi_largest(vi x) {
  return _mm512_reduce_max_epi32(x);
}

static inline vf vf_load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void vf_store_f16(uint16_t *p, vf x) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf vf_load_i8(const int8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
static inline vf vf_load_bf16(const uint16_t *p) {
  return vf_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline void vf_store_bf16(uint16_t *p, vf x) {
  vi bits = vi_bits(x);
  vi odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  vi rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

typedef vi vd;
static inline vd vd_begin(int32_t start) {
  return _mm512_set1_epi32(start);
}
static inline vd vd_add_bytes(vd acc, vi w, const int8_t *four) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int8_t(*)[4])four));
  return acc;
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

/* Plus 128, its lowest 8 bits less 128 as a byte of their own: the upper byte, then the lower, is what wide.h says. */
#define TN_OWN_WIDE_STORE
static inline void vw_store(void *to, vi x) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14));
  __m256i halves = _mm256_add_epi16(_mm512_cvtepi32_epi16(x), _mm256_set1_epi16(128));
  _mm256_storeu_si256((__m256i *)to, _mm256_shuffle_epi8(_mm256_xor_si256(halves, _mm256_set1_epi16(128)), order));
}
#include "kernels/simd/wide.h"

/* Always inlined: gcc takes a function that only prefetches for one without effect, and drops calls of it. */
__attribute__((always_inline)) static inline void tn_prefetch(const void *p) {
  _mm_prefetch((const char *)p, _MM_HINT_T0);
}

/* Into the second-level cache only. */
__attribute__((always_inline)) static inline void tn_prefetch_far(const void *p) {
  _mm_prefetch((const char *)p, _MM_HINT_T1);
}

#endif
