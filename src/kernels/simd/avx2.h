/* AVX2 with FMA and F16C: a vf and a vi are two registers. See simd.h for what each primitive means. */
#ifndef TENON_KERNELS_SIMD_AVX2_H
#define TENON_KERNELS_SIMD_AVX2_H

#include <immintrin.h>

#define TN_TILE_ROWS 4
#define TN_WEIGHTS_IN_REGISTERS 0
#define TN_FLOAT_ROWS 6
#define TN_FLOAT_PANELS 1
#define TN_QUERIES 3
#define TN_QUERY_SUMS 6

typedef struct vf {
  __m256 a, b;
} vf;
typedef struct vi {
  __m256i a, b;
} vi;

static inline vi vi_set1(int32_t x) {
  __m256i v = _mm256_set1_epi32(x);
  return (vi){v, v};
}
static inline vi vi_zero(void) {
  return (vi){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
static inline vi vi_load(const void *p) {
  const __m256i *from = (const __m256i *)p;
  return (vi){_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
}
static inline void vi_store(void *p, vi x) {
  __m256i *to = (__m256i *)p;
  _mm256_storeu_si256(to, x.a);
  _mm256_storeu_si256(to + 1, x.b);
}
static inline vi vi_add(vi x, vi y) {
  return (vi){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
static inline vi vi_sub(vi x, vi y) {
  return (vi){_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
static inline vi vi_max(vi x, vi y) {
  return (vi){_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)};
}
static inline vi vi_and(vi x, vi y) {
  return (vi){_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
static inline vi vi_xor(vi x, vi y) {
  return (vi){_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
static inline vi vi_shift_left(vi x, unsigned n) {
  return (vi){_mm256_slli_epi32(x.a, (int)n), _mm256_slli_epi32(x.b, (int)n)};
}
static inline vi vi_shift_right(vi x, unsigned n) {
  return (vi){_mm256_srli_epi32(x.a, (int)n), _mm256_srli_epi32(x.b, (int)n)};
}
static inline vi vi_shift_right_signed(vi x, unsigned n) {
  return (vi){_mm256_srai_epi32(x.a, (int)n), _mm256_srai_epi32(x.b, (int)n)};
}
static inline vi vi_look_up(const uint8_t table[16], vi x) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
  return (vi){_mm256_shuffle_epi8(values, x.a), _mm256_shuffle_epi8(values, x.b)};
}
static inline void vi_store_i8(void *p, vi x) {
  __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  _mm_storeu_si128((__m128i *)p, bytes);
}
/* Lanes -1 where their number is below n. */
static inline vi vi_first(size_t n) {
  const __m256i limit = _mm256_set1_epi32((int)n);
  return (vi){_mm256_cmpgt_epi32(limit, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
              _mm256_cmpgt_epi32(limit, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}

static inline vf vf_set1(float x) {
  __m256 v = _mm256_set1_ps(x);
  return (vf){v, v};
}
static inline vf vf_zero(void) {
  return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline vf vf_load(const float *p) {
  return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void vf_store(float *p, vf x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
static inline vf vf_load_part(const float *p, size_t n) {
  vi mask = vi_first(n);
  return (vf){_mm256_maskload_ps(p, mask.a), _mm256_maskload_ps(p + 8, mask.b)};
}
static inline void vf_store_part(float *p, size_t n, vf x) {
  vi mask = vi_first(n);
  _mm256_maskstore_ps(p, mask.a, x.a);
  _mm256_maskstore_ps(p + 8, mask.b, x.b);
}
static inline vf vf_add(vf x, vf y) {
  return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline vf vf_sub(vf x, vf y) {
  return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline vf vf_mul(vf x, vf y) {
  return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline vf vf_div(vf x, vf y) {
  return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline vf vf_max(vf x, vf y) {
  return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
static inline vf vf_min(vf x, vf y) {
  return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
static inline vf vf_fma(vf x, vf y, vf z) {
  return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline vf vf_bits(vi x) {
  return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
static inline vi vi_bits(vf x) {
  return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
static inline vf vf_abs(vf x) {
  return vf_bits(vi_and(vi_bits(x), vi_set1(0x7fffffff)));
}
static inline vf vf_from_vi(vi x) {
  return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
static inline vi vi_round(vf x) {
  return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
static inline vi vf_less(vf x, vf y) {
  return vi_bits((vf){_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)});
}
static inline vf vf_select(vi mask, vf x, vf y) {
  vf m = vf_bits(mask);
  return (vf){_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
}

static inline float vf_sum(vf x) {
  __m256 eight = _mm256_add_ps(x.a, x.b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
static inline float vf_largest(vf x) {
  __m256 eight = _mm256_max_ps(x.a, x.b);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
static inline int32_t vi_sum(vi x) {
  __m256i eight = _mm256_add_epi32(x.a, x.b);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
static inline int32_t vi_largest(vi x) {
  __m256i eight = _mm256_max_epi32(x.a, x.b);
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

static inline vf vf_load_f16(const uint16_t *p) {
  const __m128i *from = (const __m128i *)p;
  return (vf){_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}
static inline void vf_store_f16(uint16_t *p, vf x) {
  __m128i *to = (__m128i *)p;
  _mm_storeu_si128(to, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(to + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf vf_load_i8(const int8_t *p) {
  const __m128i bytes = _mm_loadu_si128((const __m128i *)p);
  return vf_from_vi((vi){_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))});
}
static inline vf vf_load_bf16(const uint16_t *p) {
  const __m128i *from = (const __m128i *)p;
  vi wide = {_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), _mm256_cvtepu16_epi32(_mm_loadu_si128(from + 1))};
  return vf_bits(vi_shift_left(wide, 16));
}
static inline void vf_store_bf16(uint16_t *p, vf x) {
  vi bits = vi_bits(x), odd = vi_and(vi_shift_right(bits, 16), vi_set1(1));
  vf rounded = vf_bits(vi_add(vi_add(bits, vi_set1(0x7fff)), odd));
  vf quiet = {_mm256_or_ps(x.a, _mm256_castsi256_ps(_mm256_set1_epi32(0x400000))),
              _mm256_or_ps(x.b, _mm256_castsi256_ps(_mm256_set1_epi32(0x400000)))};
  vi nan = vi_bits((vf){_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)});
  vi upper = vi_shift_right(vi_bits(vf_select(nan, quiet, rounded)), 16);
  __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper.a, upper.b), 0xd8);
  _mm256_storeu_si256((__m256i *)p, halves);
}

#ifndef TN_DOT_PRODUCTS_ELSEWHERE
/* vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits, and would saturate with bytes; with nibbles
 * even eight of its results fit: 8 * 2 * 15 * 127. A byte is taken as two nibbles. */
typedef struct vd {
  vi low, high;
} vd;
static inline vd vd_begin(int32_t start) {
  (void)start;
  return (vd){vi_zero(), vi_zero()};
}
static inline vi vd_products(vi sums, vi w, const int8_t *four) {
  int32_t bytes;
  __builtin_memcpy(&bytes, four, 4);
  const __m256i q = _mm256_set1_epi32(bytes);
  return (vi){_mm256_add_epi16(sums.a, _mm256_maddubs_epi16(w.a, q)),
              _mm256_add_epi16(sums.b, _mm256_maddubs_epi16(w.b, q))};
}
static inline vd vd_add_nibbles(vd acc, vi w, const int8_t *four) {
  acc.low = vd_products(acc.low, w, four);
  return acc;
}
static inline vd vd_add_bytes(vd acc, vi w, const int8_t *four) {
  const vi nibble = vi_set1(0x0f0f0f0f);
  acc.low = vd_products(acc.low, vi_and(w, nibble), four);
  acc.high = vd_products(acc.high, vi_and(vi_shift_right(w, 4), nibble), four);
  return acc;
}
static inline vi vd_widened(vi sums) {
  const __m256i one = _mm256_set1_epi16(1);
  return (vi){_mm256_madd_epi16(sums.a, one), _mm256_madd_epi16(sums.b, one)};
}
static inline vi vd_end_nibbles(vd acc, int32_t start) {
  return vi_add(vd_widened(acc.low), vi_set1(start));
}
static inline vi vd_end_bytes(vd acc, int32_t start) {
  return vi_add(vd_end_nibbles(acc, start), vi_shift_left(vd_widened(acc.high), 4));
}
#endif

/* Sums of pairs of 16-bit products; bytes of even and of odd places are widened apart. */
#define TN_WIDE_PAIRS 1
#include "kernels/simd/wide.h"
static inline void vw_store(void *to, vi x) {
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0, 1, 4, 5, 2, 3, 6, 7,
                                         8, 9, 12, 13, 10, 11, 14, 15);
  __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  _mm256_storeu_si256((__m256i *)to, _mm256_shuffle_epi8(halves, order));
}
static inline __m256i tn_add_wide(__m256i acc, __m256i w, __m256i even, __m256i odd) {
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)), even));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_srli_epi16(w, 8), odd));
}
static inline vw vw_add(vw acc, vi w, const void *four) {
  int32_t pairs[2];
  __builtin_memcpy(pairs, four, 8);
  const __m256i even = _mm256_set1_epi32(pairs[0]), odd = _mm256_set1_epi32(pairs[1]);
  return (vw){tn_add_wide(acc.a, w.a, even, odd), tn_add_wide(acc.b, w.b, even, odd)};
}

/* Always inlined: gcc takes a function that only prefetches for one without effect, and drops calls of it. */
__attribute__((always_inline)) static inline void tn_prefetch(const void *p) {
  _mm_prefetch((const char *)p, _MM_HINT_T0);
}

/* Into the second-level cache only. */
__attribute__((always_inline)) static inline void tn_prefetch_far(const void *p) {
  _mm_prefetch((const char *)p, _MM_HINT_T1);
}

#endif
