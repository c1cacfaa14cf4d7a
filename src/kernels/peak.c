/* Loops that do nothing but what the processor is fastest at: the peaks that results are compared with. */
#include "kernels/internal.h"

#define CHAINS 8

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
