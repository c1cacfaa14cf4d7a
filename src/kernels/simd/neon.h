/* NEON: a vf and a vi are four registers. See simd.h for what each primitive means. Dot products of bytes
 * have their own tile, linear_quarters.h; what there is beside NEON (dotprod, i8mm) makes a difference only there. */
#ifndef TENON_KERNELS_SIMD_NEON_H
#define TENON_KERNELS_SIMD_NEON_H

#include <arm_neon.h>

#include "kernels/simd/quarters.h"

#if defined(__ARM_FEATURE_DOTPROD)
#define TN_TILE_ROWS 12
#else
#define TN_TILE_ROWS 8 /* products in 16 bits take registers of their own */
#endif
#define TN_TILE_QUARTERS 1
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define TN_SLAB_PAIRS 1
#define TN_SIGNED_BYTES 0
#else
#define TN_SLAB_PAIRS 0
#define TN_SIGNED_BYTES 1
#endif
#define TN_FLOAT_ROWS 6
#define TN_FLOAT_PANELS 1
#define TN_QUERIES 3
#define TN_QUERY_SUMS 6
#if defined(__ARM_FEATURE_DOTPROD)
#define TN_WIDE_SUMS 3
#endif

static inline vf vf_fma(vf x, vf y, vf z) {
#define EACH(q) vfmaq_f32(z.q, x.q, y.q)
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
static inline vf vf_select(vi mask, vf x, vf y) {
#define EACH(q) vbslq_f32((uint32x4_t)mask.q, x.q, y.q)
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
/* fmax and fmin give NaN where one is; here it is the second. */
static inline vf vf_max(vf x, vf y) {
  return vf_select(vf_less(y, x), x, y);
}
static inline vf vf_min(vf x, vf y) {
  return vf_select(vf_less(x, y), x, y);
}
static inline vi vi_max(vi x, vi y) {
#define EACH(q) vmaxq_s32(x.q, y.q)
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_round(vf x) {
#define EACH(q) vcvtnq_s32_f32(x.q)
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline float vf_largest(vf x) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
}
static inline int32_t vi_largest(vi x) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d)));
}

static inline vi vi_look_up(const uint8_t table[16], vi x) {
  const uint8x16_t values = vld1q_u8(table);
#define EACH(q) (int32x4_t) vqtbl1q_u8(values, (uint8x16_t)x.q)
  return TN_QUARTERS(vi, EACH);
#undef EACH
}

/* The lower halves of 16 lanes, then the lower bytes. */
static inline void vi_store_i8(void *p, vi x) {
  int16x8_t low = vuzp1q_s16((int16x8_t)x.a, (int16x8_t)x.b), high = vuzp1q_s16((int16x8_t)x.c, (int16x8_t)x.d);
  vst1q_s8((int8_t *)p, vuzp1q_s8((int8x16_t)low, (int8x16_t)high));
}
static inline vf vf_load_i8(const int8_t *p) {
  int8x16_t bytes = vld1q_s8(p);
  int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return vf_from_vi(
      (vi){vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)});
}
static inline vf vf_load_f16(const uint16_t *p) {
  float16x8_t low = (float16x8_t)vld1q_u16(p), high = (float16x8_t)vld1q_u16(p + 8);
  return (vf){vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
              vcvt_high_f32_f16(high)};
}
static inline void vf_store_f16(uint16_t *p, vf x) {
  vst1q_u16(p, (uint16x8_t)vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b));
  vst1q_u16(p + 8, (uint16x8_t)vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d));
}
/* A bf16 is the upper half of a float. */
static inline vf vf_load_bf16(const uint16_t *p) {
  const uint16x8_t zero = vdupq_n_u16(0), low = vld1q_u16(p), high = vld1q_u16(p + 8);
  return (vf){(tn_f4)vzip1q_u16(zero, low), (tn_f4)vzip2q_u16(zero, low), (tn_f4)vzip1q_u16(zero, high),
              (tn_f4)vzip2q_u16(zero, high)};
}
static inline uint32x4_t tn_rounded_bf16(tn_f4 x) {
  const uint32x4_t bits = (uint32x4_t)x, odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
  return vbslq_u32(vceqq_f32(x, x), rounded, vorrq_u32(bits, vdupq_n_u32(0x400000)));
}
static inline void vf_store_bf16(uint16_t *p, vf x) {
  uint16x8_t low = (uint16x8_t)tn_rounded_bf16(x.a), high = (uint16x8_t)tn_rounded_bf16(x.c);
  vst1q_u16(p, vuzp2q_u16(low, (uint16x8_t)tn_rounded_bf16(x.b)));
  vst1q_u16(p + 8, vuzp2q_u16(high, (uint16x8_t)tn_rounded_bf16(x.d)));
}

/* Integers as wide.h has them, or widened: bytes of even and of odd places apart. */
#if defined(__ARM_FEATURE_DOTPROD)
#define TN_WIDE_SIGNED 1
#define TN_OWN_WIDE_STORE
#include "kernels/simd/wide.h"
static inline vw vw_add(vw acc, vi w, const void *four) {
  int32_t bytes[2];
  __builtin_memcpy(bytes, four, 8);
  const int8x16_t high = vreinterpretq_s8_s32(vdupq_n_s32(bytes[0])), low = vreinterpretq_s8_s32(vdupq_n_s32(bytes[1]));
  const vi x = vi_xor(w, vi_set1((int32_t)0x80808080u));
#define EACH(q) vdotq_s32(acc.high.q, vreinterpretq_s8_s32(x.q), high)
  acc.high = TN_QUARTERS(vi, EACH);
#undef EACH
#define EACH(q) vdotq_s32(acc.low.q, vreinterpretq_s8_s32(x.q), low)
  acc.low = TN_QUARTERS(vi, EACH);
#undef EACH
  return acc;
}
/* Plus 128, the upper byte; and the lower less 128. */
static inline void vw_store(void *to, vi x) {
  const uint8x16_t order = {1, 3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14};
  const int16x8_t half = vdupq_n_s16(128);
  int16x8_t low = vuzp1q_s16((int16x8_t)x.a, (int16x8_t)x.b), high = vuzp1q_s16((int16x8_t)x.c, (int16x8_t)x.d);
  vst1q_u8((uint8_t *)to, vqtbl1q_u8((uint8x16_t)veorq_s16(vaddq_s16(low, half), half), order));
  vst1q_u8((uint8_t *)to + 16, vqtbl1q_u8((uint8x16_t)veorq_s16(vaddq_s16(high, half), half), order));
}
#else
#define TN_WIDE_PAIRS 1
#include "kernels/simd/wide.h"
static inline int32x4_t tn_add_wide(int32x4_t acc, int32x4_t w, int16x8_t even, int16x8_t odd) {
  const int16x8_t first = (int16x8_t)vandq_s32(w, vdupq_n_s32(0x00ff00ff));
  const int16x8_t second = (int16x8_t)vshrq_n_u16((uint16x8_t)w, 8);
  int32x4_t low = vmull_s16(vget_low_s16(first), vget_low_s16(even)), high = vmull_high_s16(first, even);
  low = vmlal_s16(low, vget_low_s16(second), vget_low_s16(odd));
  return vaddq_s32(acc, vpaddq_s32(low, vmlal_high_s16(high, second, odd)));
}
static inline vw vw_add(vw acc, vi w, const void *four) {
  int32_t pairs[2];
  __builtin_memcpy(pairs, four, 8);
  const int16x8_t even = (int16x8_t)vdupq_n_s32(pairs[0]), odd = (int16x8_t)vdupq_n_s32(pairs[1]);
#define EACH(q) tn_add_wide(acc.q, w.q, even, odd)
  return TN_QUARTERS(vw, EACH);
#undef EACH
}
static inline void vw_store(void *to, vi x) {
  const uint8x16_t order = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  int16x8_t low = vuzp1q_s16((int16x8_t)x.a, (int16x8_t)x.b), high = vuzp1q_s16((int16x8_t)x.c, (int16x8_t)x.d);
  vst1q_u8((uint8_t *)to, vqtbl1q_u8((uint8x16_t)low, order));
  vst1q_u8((uint8_t *)to + 16, vqtbl1q_u8((uint8x16_t)high, order));
}
#endif

/* Always inlined: gcc takes a function that only prefetches for one without effect, and drops calls of it. */
__attribute__((always_inline)) static inline void tn_prefetch(const void *p) {
  __builtin_prefetch(p);
}

/* Into the second-level cache only. */
__attribute__((always_inline)) static inline void tn_prefetch_far(const void *p) {
  __builtin_prefetch(p, 0, 2);
}

#endif
