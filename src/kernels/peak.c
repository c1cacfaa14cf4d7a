/* Loops that do nothing but what the processor is fastest at: the peaks that results are compared with. */
#include "kernels/internal.h"

#define CHAINS 8

#if TN_TILE_QUARTERS

/* The instruction of linear_quarters.h that multiplies most. */
TN_INLINE int32x4_t spin_step(int32x4_t acc, int8x16_t w, int8x16_t x) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return vusmmlaq_s32(acc, (uint8x16_t)w, x);
#elif defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(acc, w, x);
#else
  return (int32x4_t)vmlal_high_s8(vmlal_s8((int16x8_t)acc, vget_low_s8(w), vget_low_s8(x)), w, x);
#endif
}

uint64_t tn_spin_int8(uint64_t rounds, int32_t *sink) {
  const int8x16_t w = vdupq_n_s8(3), x = vdupq_n_s8(-2);
  int32x4_t acc[2 * CHAINS];
#pragma GCC unroll 16
  for (int i = 0; i < 2 * CHAINS; i++) acc[i] = vdupq_n_s32(i);
  for (uint64_t n = 0; n < rounds; n++) {
#pragma GCC unroll 16
    for (int i = 0; i < 2 * CHAINS; i++) {
      acc[i] = spin_step(acc[i], w, x);
      __asm__ volatile("" : "+w"(acc[i]));
    }
  }
  *sink = 0;
#pragma GCC unroll 16
  for (int i = 0; i < 2 * CHAINS; i++) *sink ^= vmaxvq_s32(acc[i]);
  return rounds * 2 * CHAINS * (TN_SLAB_PAIRS ? 64 : 32);
}

#else

uint64_t tn_spin_int8(uint64_t rounds, int32_t *sink) {
  int8_t four[4] = {1, -2, 3, -4};
  vd acc[CHAINS];
  const vi w = vi_set1(0x04030201);
#pragma GCC unroll 8
  for (int i = 0; i < CHAINS; i++) acc[i] = vd_begin(i);
  for (uint64_t n = 0; n < rounds; n++) {
    __asm__ volatile("" ::"r"(four) : "memory");
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++) acc[i] = vd_add_nibbles(acc[i], w, four);
  }
  *sink = 0;
#pragma GCC unroll 8
  for (int i = 0; i < CHAINS; i++) *sink ^= vi_largest(vd_end_nibbles(acc[i], 0));
  return rounds * CHAINS * TN_LANES * 8;
}

#endif

uint64_t tn_spin_f32(uint64_t rounds, float *sink) {
  float half = 0.5f;
  vf acc[CHAINS];
#pragma GCC unroll 8
  for (int i = 0; i < CHAINS; i++) acc[i] = vf_set1((float)i);
  for (uint64_t n = 0; n < rounds; n++) {
    __asm__ volatile("" ::"r"(&half) : "memory");
    const vf x = vf_set1(half);
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++) acc[i] = vf_fma(acc[i], x, x);
  }
  *sink = 0;
#pragma GCC unroll 8
  for (int i = 0; i < CHAINS; i++) *sink += vf_sum(acc[i]);
  return rounds * CHAINS * TN_LANES * 2;
}

void tn_spin_read(const void *data, uint64_t bytes, int32_t *sink) {
  vi acc[CHAINS];
  const uint8_t *from = (const uint8_t *)data;
#pragma GCC unroll 8
  for (int i = 0; i < CHAINS; i++) acc[i] = vi_zero();
  for (uint64_t n = 0; n + CHAINS * 64 <= bytes; n += CHAINS * 64) {
#pragma GCC unroll 8
    for (int i = 0; i < CHAINS; i++) {
      tn_prefetch(from + n + i * 64 + 4096);
      acc[i] = vi_add(acc[i], vi_load(from + n + i * 64));
    }
  }
  *sink = 0;
#pragma GCC unroll 8
  for (int i = 0; i < CHAINS; i++) *sink ^= vi_largest(acc[i]);
}
