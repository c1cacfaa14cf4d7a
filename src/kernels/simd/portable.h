/* Any target, in the compiler's own vector types. See simd.h for what each primitive means. vf_fma is a multiplication
 * and an addition, rounded twice, as the baseline has no fused one. */
#ifndef TENON_KERNELS_SIMD_PORTABLE_H
#define TENON_KERNELS_SIMD_PORTABLE_H

#include "kernels/simd/quarters.h"

#define TN_TILE_ROWS 4
#define TN_WEIGHTS_IN_REGISTERS 0
#define TN_FLOAT_ROWS 2
#define TN_FLOAT_PANELS 1
#define TN_QUERIES 2
#define TN_QUERY_SUMS 4

typedef int16_t tn_h8 __attribute__((vector_size(16)));
typedef uint16_t tn_uh8 __attribute__((vector_size(16)));

static inline vf vf_fma(vf x, vf y, vf z) {
#define EACH(q) x.q *y.q + z.q
  return TN_QUARTERS(vf, EACH);
#undef EACH
}

static inline vf vf_select(vi mask, vf x, vf y) {
#define EACH(q) (tn_f4)((mask.q & (tn_i4)x.q) | (~mask.q & (tn_i4)y.q))
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
/* Like the instructions of x86: where one is NaN the second. */
static inline vf vf_max(vf x, vf y) {
  return vf_select(vf_less(y, x), x, y);
}
static inline vf vf_min(vf x, vf y) {
  return vf_select(vf_less(x, y), x, y);
}
static inline vi vi_max(vi x, vi y) {
#define EACH(q) ((x.q > y.q) & x.q) | (~(x.q > y.q) & y.q)
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
/* A call, as sixty-four loads and stores in every tile would only make the compiler slow. */
__attribute__((noinline, unused)) static vi vi_look_up(const uint8_t table[16], vi x) {
  uint8_t bytes[64];
  vi_store(bytes, x);
  for (int i = 0; i < 64; i++) bytes[i] = table[bytes[i]];
  return vi_load(bytes);
}
static inline void vi_store_i8(void *p, vi x) {
  int32_t whole[16];
  int8_t *bytes = (int8_t *)p;
  vi_store(whole, x);
  for (int i = 0; i < 16; i++) bytes[i] = (int8_t)whole[i];
}
/* 1.5 * 2^23 pushes the fraction out of the float, rounding to nearest even. */
static inline vi vi_round(vf x) {
  return vi_sub(vi_bits(vf_add(x, vf_set1(12582912.0f))), vi_set1(0x4b400000));
}

static inline float vf_largest(vf x) {
  float whole[16];
  vf_store(whole, x);
  float largest = whole[0];
  for (int i = 1; i < 16; i++) largest = whole[i] > largest ? whole[i] : largest;
  return largest;
}
static inline int32_t vi_largest(vi x) {
  int32_t whole[16];
  vi_store(whole, x);
  int32_t largest = whole[0];
  for (int i = 1; i < 16; i++) largest = whole[i] > largest ? whole[i] : largest;
  return largest;
}

static inline vi tn_load_u16(const uint16_t *p) {
  int32_t whole[16];
  for (int i = 0; i < 16; i++) whole[i] = p[i];
  return vi_load(whole);
}
/* The half's exponent and fraction, moved to their place in a float, are 2^112 times too small - subnormals too. */
static inline vf vf_load_f16(const uint16_t *p) {
  vi half = tn_load_u16(p);
  vi sign = vi_shift_left(vi_and(half, vi_set1(0x8000)), 16);
  vi magnitude = vi_shift_left(vi_and(half, vi_set1(0x7fff)), 13);
  vf value = vf_mul(vf_bits(magnitude), vf_set1(0x1p112f));
  vi finite = vf_less(value, vf_set1(65536.0f));
  vf special =
      vf_bits(vi_xor(vi_bits(value), vi_and(vi_xor(vi_bits(value), vi_set1(0x7f800000)), vi_set1(0x7f800000))));
  return vf_bits(vi_xor(vi_bits(vf_select(finite, value, special)), sign));
}
static inline vf vf_load_bf16(const uint16_t *p) {
  return vf_bits(vi_shift_left(tn_load_u16(p), 16));
}

static inline vf vf_load_i8(const int8_t *p) {
  int32_t whole[16];
  for (int i = 0; i < 16; i++) whole[i] = p[i];
  return vf_from_vi(vi_load(whole));
}

static inline uint16_t tn_round_f16(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { /* a subnormal half: adding 0.5 leaves its fraction, rounded, in the lowest bits */
    union {
      uint32_t bits;
      float value;
    } u = {magnitude};
    u.value += 0.5f;
    return (uint16_t)(sign | (u.bits - 0x3f000000u));
  }
  return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}
static inline void vf_store_f16(uint16_t *p, vf x) {
  uint32_t whole[16];
  vi_store(whole, vi_bits(x));
  for (int i = 0; i < 16; i++) p[i] = tn_round_f16(whole[i]);
}
static inline void vf_store_bf16(uint16_t *p, vf x) {
  uint32_t whole[16];
  vi_store(whole, vi_bits(x));
  for (int i = 0; i < 16; i++) {
    uint32_t bits = whole[i];
    if ((bits & 0x7fffffffu) > 0x7f800000u)
      bits |= 0x400000u;
    else
      bits += 0x7fffu + (bits >> 16 & 1u);
    p[i] = (uint16_t)(bits >> 16);
  }
}

/* Sums of 16-bit products of even and of odd bytes together: eight times two of at most 15 * 127 still fit. A byte is
 * taken as two nibbles. */
typedef struct vd_sums {
  tn_h8 a, b, c, d;
} vd_sums;
typedef struct vd {
  vd_sums low, high;
} vd;
static inline vd vd_begin(int32_t start) {
  (void)start;
  return (vd){0};
}
/* Two bytes, widened, in each 32-bit lane. */
static inline tn_h8 vd_pair(int8_t first, int8_t second) {
  return (tn_h8)((tn_i4){1, 1, 1, 1} * (int32_t)((uint32_t)(uint16_t)first | (uint32_t)(uint16_t)second << 16));
}
static inline vd_sums vd_products(vd_sums sums, vi w, tn_h8 even, tn_h8 odd) {
#define EACH(q) sums.q + (tn_h8)(w.q & 0x000f000f) * even + (tn_h8)((w.q >> 8) & 0x000f000f) * odd
  return TN_QUARTERS(vd_sums, EACH);
#undef EACH
}
static inline vd vd_add_nibbles(vd acc, vi w, const int8_t *four) {
  acc.low = vd_products(acc.low, w, vd_pair(four[0], four[2]), vd_pair(four[1], four[3]));
  return acc;
}
static inline vd vd_add_bytes(vd acc, vi w, const int8_t *four) {
  tn_h8 even = vd_pair(four[0], four[2]), odd = vd_pair(four[1], four[3]);
  acc.low = vd_products(acc.low, w, even, odd);
  acc.high = vd_products(acc.high, vi_shift_right(w, 4), even, odd);
  return acc;
}
static inline vi vd_widened(vd_sums sums) {
#define EACH(q) ((tn_i4)((tn_u4)sums.q << 16) >> 16) + ((tn_i4)sums.q >> 16)
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vd_end_nibbles(vd acc, int32_t start) {
  return vi_add(vd_widened(acc.low), vi_set1(start));
}
static inline vi vd_end_bytes(vd acc, int32_t start) {
  return vi_add(vd_end_nibbles(acc, start), vi_shift_left(vd_widened(acc.high), 4));
}

#define TN_WIDE_SIGNED 1
#include "kernels/simd/wide.h"
/* Two products of signed bytes, but for -128 twice, fit 16 bits. */
static inline tn_i4 vw_products(tn_i4 acc, tn_h8 even, tn_h8 odd, tn_h8 by_even, tn_h8 by_odd) {
  tn_h8 sums = even * by_even + odd * by_odd;
  return acc + ((tn_i4)((tn_u4)sums << 16) >> 16) + ((tn_i4)sums >> 16);
}
static inline vw vw_add(vw acc, vi w, const void *four) {
  const int8_t *high = (const int8_t *)four, *low = high + 4;
  const tn_h8 even_high = vd_pair(high[0], high[2]), odd_high = vd_pair(high[1], high[3]);
  const tn_h8 even_low = vd_pair(low[0], low[2]), odd_low = vd_pair(low[1], low[3]);
  const vi x = vi_xor(w, vi_set1((int32_t)0x80808080u));
#define EVEN(q) (tn_h8)((tn_uh8)x.q << 8) >> 8
#define ODD(q) (tn_h8) x.q >> 8
#define EACH(q) vw_products(acc.high.q, EVEN(q), ODD(q), even_high, odd_high)
  acc.high = TN_QUARTERS(vi, EACH);
#undef EACH
#define EACH(q) vw_products(acc.low.q, EVEN(q), ODD(q), even_low, odd_low)
  acc.low = TN_QUARTERS(vi, EACH);
#undef EACH
#undef EVEN
#undef ODD
  return acc;
}

/* Always inlined: gcc takes a function that only prefetches for one without effect, and drops calls of it. */
__attribute__((always_inline)) static inline void tn_prefetch(const void *p) {
  __builtin_prefetch(p);
}

/* Into the second-level cache only. */
__attribute__((always_inline)) static inline void tn_prefetch_far(const void *p) {
  __builtin_prefetch(p, 0, 2);
}

#endif
