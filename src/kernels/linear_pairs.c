/* Linear of bf16 activations and weights with the instruction that multiplies pairs of them and adds both products to a
 * float (AVX512_BF16). Other instruction sets widen and go through the float tile. */
#include "kernels/internal.h"

#if TN_ISA_avx512vnni
/* The rest of this instruction set does without it: not every processor with VNNI has it. */
#define TN_WITH_PAIRS __attribute__((target("avx512bf16")))

bool tn_has_pairs(void) {
  return __builtin_cpu_supports("avx512bf16");
}

void tn_slab_pairs(void *slab, const tn_activations *x, uint32_t rows, uint32_t columns) {
  for (uint32_t r = 0; r < rows; r++) {
    const uint8_t *row = x[r].values;
    uint32_t *to = (uint32_t *)slab + r, pair = 0;
    for (uint32_t i = 0; i < columns / 2; i++, to += rows) __builtin_memcpy(to, row + (uint64_t)i * 4, 4);
    if (columns % 2) {
      __builtin_memcpy(&pair, row + (uint64_t)(columns - 1) * 2, 2);
      *to = pair;
    }
  }
}

/* Both sizes are constants where it is used. */
__attribute__((always_inline)) TN_WITH_PAIRS static inline void tile(const int rows, const int panels,
                                                                     const uint8_t *panel, uint64_t distance,
                                                                     uint32_t pairs, const uint32_t *slab, float *out) {
  __m512 acc[TN_PAIR_ROWS][TN_MAX_TILE_PANELS];
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) acc[r][p] = _mm512_setzero_ps();
  for (uint32_t i = 0; i < pairs; i++, slab += rows) {
    __m512bh w[TN_MAX_TILE_PANELS];
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) {
      const uint8_t *from = panel + p * distance + (uint64_t)i * 64;
      if (rows <= 4) tn_prefetch(from + 2048);
      w[p] = (__m512bh)_mm512_loadu_si512(from);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
      const __m512bh x = (__m512bh)_mm512_set1_epi32((int)slab[r]);
#pragma GCC unroll 4
      for (int p = 0; p < panels; p++) acc[r][p] = _mm512_dpbf16_ps(acc[r][p], w[p], x);
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < panels; p++)
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) _mm512_storeu_ps(out + (p * rows + r) * 16, acc[r][p]);
}

/* 24 sums in registers at most. */
#define TN_CASE(n, p) \
  case n * 8 + p: tile(n, p, panel, matrix->panel_bytes, pairs, slab, out); break;
/* clang-format off */
#define TN_ROWS(n) TN_CASE(n, 1) TN_CASE(n, 2)
TN_WITH_PAIRS void tn_tile_pairs(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, const void *x,
                                 uint32_t rows, float *out) {
  const uint32_t pairs = (matrix->columns + 1) / 2, *slab = (const uint32_t *)x;
  while (panels) {
    uint32_t taken = panels >= 4 && rows <= 4 ? 4 : panels >= 2 ? 2 : 1;
    switch (rows * 8 + taken) {
      TN_ROWS(1) TN_ROWS(2) TN_ROWS(3) TN_ROWS(4) TN_ROWS(5) TN_ROWS(6) TN_ROWS(7) TN_ROWS(8) TN_ROWS(9) TN_ROWS(10)
      TN_ROWS(11) TN_ROWS(12) TN_CASE(1, 4) TN_CASE(2, 4) TN_CASE(3, 4) TN_CASE(4, 4)
    }
    panel += taken * matrix->panel_bytes;
    out += taken * rows * TN_LANES;
    panels -= taken;
  }
}
/* clang-format on */

#define CHAINS 16

TN_WITH_PAIRS uint64_t tn_spin_bf16(uint64_t rounds, float *sink) {
  *sink = 0;
  if (!tn_has_pairs()) return 0;
  __m512 acc[CHAINS];
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f003f00);
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_setzero_ps();
  for (uint64_t n = 0; n < rounds; n++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) {
      acc[i] = _mm512_dpbf16_ps(acc[i], x, x);
      __asm__ volatile("" : "+v"(acc[i]));
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < CHAINS; i++) *sink += _mm512_reduce_add_ps(acc[i]);
  return rounds * CHAINS * TN_LANES * 4;
}

#else

bool tn_has_pairs(void) {
  return false;
}

void tn_slab_pairs(void *slab, const tn_activations *x, uint32_t rows, uint32_t columns) {
  (void)slab, (void)x, (void)rows, (void)columns;
}

void tn_tile_pairs(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, const void *slab, uint32_t rows,
                   float *out) {
  (void)matrix, (void)panel, (void)panels, (void)slab, (void)rows, (void)out;
}

uint64_t tn_spin_bf16(uint64_t rounds, float *sink) {
  (void)rounds;
  *sink = 0;
  return 0;
}

#endif
