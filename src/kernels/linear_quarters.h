/* The tile of linear_blocks.c where vectors have four lanes (Arm): a panel's sixteen lanes are taken four at a time, so
 * that a block's weights of such a quarter, 8 registers, stay while the rows go by.
 *
 * Few rows: all quarters of a block before the next block, as the panel comes from memory. More rows: one quarter along
 * the whole panel, then the next, with all sums in registers; the panel is in a cache after the first, and the next
 * panel is asked for meanwhile.
 *
 * The dot product of one row and a quarter:
 *   neon          smull, smlal: products of signed bytes in 16 bits, widened (sadalp) before they can overflow
 *   neon-dotprod  sdot by element
 *   neon-i8mm     usmmla: two rows at once, [lane, row] of two lanes in a register; 8 columns of a lane must lie
 * together, which zip sees to, and of two rows, as tn_slab_blocks lays them. A single row: usdot by element. Signed
 * instructions take bytes as q - 128, which is what the formats with bytes want: nothing is left to subtract. */
#ifndef TENON_KERNELS_LINEAR_QUARTERS_H
#define TENON_KERNELS_LINEAR_QUARTERS_H

#include "kernels/internal.h"

#define TN_FEW_ROWS 2 /* rows whose sums of four quarters fit the registers */

/* Vector v < 8 of a quarter's quants: four lanes, columns 4v .. 4v + 3. */
TN_INLINE int8x16_t tn_quarter_quants(const uint8_t *quants, const tn_layout_shape f, const int v) {
  if (f.bits == 8) {
    const uint8x16_t bytes = vld1q_u8(quants + v * 64);
    return (int8x16_t)(TN_SIGNED_BYTES ? veorq_u8(bytes, vdupq_n_u8(128)) : bytes);
  }
  const uint8x16_t both = vld1q_u8(quants + v % 4 * 64);
  const uint8x16_t low = v < 4 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4);
  if (f.codes) {
    uint8x16_t values = vld1q_u8(tn_layout_values((tn_layout_codes)f.codes));
    if (TN_SIGNED_BYTES) values = vsubq_u8(values, vdupq_n_u8(f.offset));
    return (int8x16_t)vqtbl1q_u8(values, low);
  }
  if (f.bits == 4) return (int8x16_t)low;
  uint8x16_t upper = vld1q_u8(quants + 256 + v / 4 * 64);
  switch (v % 4) {
    case 0: upper = vshlq_n_u8(upper, 4); break;
    case 1: upper = vshlq_n_u8(upper, 2); break;
    case 3: upper = vshrq_n_u8(upper, 2); break;
    default: break;
  }
  return (int8x16_t)vorrq_u8(low, vandq_u8(upper, vdupq_n_u8(0x30)));
}

/* What tn_load_scale loads, four lanes of it: lanes 4 quarter .. 4 quarter + 3. */
TN_INLINE float32x4_t tn_quarter_scale(const uint8_t *panel, const tn_layout_shape shape, uint32_t block,
                                       const int which, const int quarter) {
  const uint8_t *scales = panel + tn_layout_scales_at(shape, block);
  if (!shape.factors) {
    const uint16x4_t halves = vld1_u16((const uint16_t *)(const void *)scales + 16 * which + 4 * quarter);
    return shape.scale_bf16 ? (float32x4_t)vshll_n_u16(halves, 16) : vcvt_f32_f16((float16x4_t)halves);
  }
  const uint8_t *shared = panel + tn_layout_group_at(shape, block) + (shape.minimum ? 32 * which : 0) + 8 * quarter;
  int32_t four;
  __builtin_memcpy(&four, scales + 16 * which + 4 * quarter, 4);
  const int16x8_t factor = vmovl_s8((int8x8_t)vdup_n_s32(four));
  return vmulq_f32(vcvt_f32_f16((float16x4_t)vld1_u16((const uint16_t *)(const void *)shared)),
                   vcvtq_f32_s32(vmovl_s16(vget_low_s16(factor))));
}

/* Each step of TN_EACH_VECTOR has a constant number, as instructions by element want it. */
#define TN_EACH_VECTOR(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)

/* The sums over vectors [begin, end) of one row, whose 32 columns are at x, begun at `start`. */
#if defined(__ARM_FEATURE_DOTPROD)
TN_INLINE int32x4_t tn_dot_row(const int8x16_t *w, const int8_t *x, const int begin, const int end, const int bits,
                               int32_t start) {
  const int8x16_t columns[2] = {vld1q_s8(x), vld1q_s8(x + 16)};
  int32x4_t sums = vdupq_n_s32(start);
  (void)bits;
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define STEP(v) \
  if (v >= begin && v < end) sums = vusdotq_laneq_s32(sums, (uint8x16_t)w[v], columns[v / 4], v % 4);
#else
#define STEP(v) \
  if (v >= begin && v < end) sums = vdotq_laneq_s32(sums, w[v], columns[v / 4], v % 4);
#endif
  TN_EACH_VECTOR(STEP)
#undef STEP
  return sums;
}
#else
TN_INLINE int32x4_t tn_dot_row(const int8x16_t *w, const int8_t *x, const int begin, const int end, const int bits,
                               int32_t start) {
  /* Two products of bytes of 127 and 128 fit 16 bits, four of 63, eight of 15. */
  const int together = bits == 4 ? 8 : bits == 6 ? 4 : 2;
  const int32x4_t columns[2] = {(int32x4_t)vld1q_s8(x), (int32x4_t)vld1q_s8(x + 16)};
  int32x4_t low = vdupq_n_s32(0), high = low;
  int16x8_t low_products = vdupq_n_s16(0), high_products = low_products;
#define STEP(v)                                                                                    \
  if (v >= begin && v < end) {                                                                     \
    const int8x16_t four = (int8x16_t)vdupq_laneq_s32(columns[v / 4], v % 4);                      \
    const bool first = v % together == 0 || v == begin;                                            \
    low_products = first ? vmull_s8(vget_low_s8(w[v]), vget_low_s8(four))                          \
                         : vmlal_s8(low_products, vget_low_s8(w[v]), vget_low_s8(four));           \
    high_products = first ? vmull_high_s8(w[v], four) : vmlal_high_s8(high_products, w[v], four);  \
    if ((v + 1) % together == 0 || v + 1 == end) {                                                 \
      low = v < begin + together ? vpaddlq_s16(low_products) : vpadalq_s16(low, low_products);     \
      high = v < begin + together ? vpaddlq_s16(high_products) : vpadalq_s16(high, high_products); \
    }                                                                                              \
  }
  TN_EACH_VECTOR(STEP)
#undef STEP
  return vaddq_s32(vpaddq_s32(low, high), vdupq_n_s32(start));
}
#endif

TN_INLINE void tn_quarter_weights(const tn_layout_shape f, const int begin, const int end, const uint8_t *quants,
                                  int8x16_t *w) {
#pragma GCC unroll 8
  for (int v = begin; v < end; v++) w[v] = tn_quarter_quants(quants, f, v);
}

/* Four lanes of one block of a panel, and the scales they need. */
typedef struct tn_quarter {
  const uint8_t *quants;
  float32x4_t scale[2]; /* d, or those of the halves */
  float32x4_t minimum;
} tn_quarter;

TN_INLINE tn_quarter tn_quarter_of(const tn_layout_shape f, const uint8_t *panel, uint32_t block, const int quarter) {
  tn_quarter q = {.quants = panel + tn_layout_quants_at(f, block) + quarter * 16};
  q.scale[0] = tn_quarter_scale(panel, f, block, 0, quarter);
  if (f.halves) q.scale[1] = tn_quarter_scale(panel, f, block, 1, quarter);
  if (f.minimum) q.minimum = tn_quarter_scale(panel, f, block, 1, quarter);
  return q;
}

/* What a slab has beside the columns of a block, for rows 4i .. 4i + 3: read whole, also where there are fewer rows, as
 * a slab has room for TN_TILE_ROWS. */
typedef struct tn_four_rows {
  tn_f4 scale, term;
  tn_i4 start;
} tn_four_rows;

TN_INLINE tn_four_rows tn_load_four_rows(const int rows, const tn_layout_shape f, const int half, const uint8_t *slab,
                                         const int i) {
  const float *scale = (const float *)(const void *)(slab + rows * 32) + 4 * i;
  tn_four_rows four = {.scale = vld1q_f32(scale)};
  if (f.minimum) four.term = vld1q_f32(scale + rows);
  if (f.offset) four.start = vld1q_s32((const int32_t *)(const void *)(scale + rows) + half * rows);
  return four;
}

/* The share in acc[r], four lanes, of a block, or of half a block where halves have scales, for each row r. */
TN_INLINE void tn_quarter_rows(const int rows, const tn_layout_shape f, const int half, const tn_quarter *quarter,
                               const uint8_t *slab, float32x4_t *acc) {
  const int value_bits = tn_layout_value_bits(f);
  const bool starts = f.offset && !(TN_SIGNED_BYTES && value_bits == 8);
  const int begin = half * 4, end = f.halves ? begin + 4 : 8;
  int8x16_t w[8];
  tn_four_rows four = {0};
  tn_quarter_weights(f, begin, end, quarter->quants, w);
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
    if (r % 4 == 0) four = tn_load_four_rows(rows, f, half, slab, r / 4);
    const int8_t *x = (const int8_t *)slab + r * 32;
    const int32x4_t sums = tn_dot_row(w, x, begin, end, value_bits, starts ? four.start[r % 4] : 0);
    acc[r] = vfmaq_f32(acc[r], vcvtq_f32_s32(sums), quarter->scale[half] * four.scale[r % 4]);
    if (f.minimum) acc[r] = vfmaq_f32(acc[r], quarter->minimum, vdupq_n_f32(four.term[r % 4]));
  }
}

#if TN_SLAB_PAIRS
/* Lanes 2i and 2i + 1 twice: of two rows, in turn; of the row that is alone the first, four times. */
TN_INLINE int64x2_t tn_in_turn(int64x2_t four, const int i, const bool alone) {
  return alone ? (int64x2_t)vdupq_n_s32(((int32x4_t)four)[2 * i]) : vdupq_n_s64(four[i]);
}

/* The same for pairs of rows r, r + 1: acc[r] is [lane 0, row r] [lane 0, row r + 1] [lane 1, row r] [lane 1, row
 * r + 1], acc[r + 1] is lanes 2 and 3 likewise. Where the last row is alone, it is both rows of its pair. */
TN_INLINE void tn_quarter_pairs(const int rows, const tn_layout_shape f, const int half, const tn_quarter *quarter,
                                const uint8_t *slab, float32x4_t *acc) {
  const int begin = half * 4, end = f.halves ? begin + 4 : 8;
  const float32x4_t d = quarter->scale[half], m = quarter->minimum;
  int8x16_t w[8];
  tn_four_rows four = {0};
  tn_quarter_weights(f, begin, end, quarter->quants, w);
#pragma GCC unroll 16
  for (int r = 0; r < rows; r += 2) {
    if (r % 4 == 0) four = tn_load_four_rows(rows, f, half, slab, r / 4);
    const int pair = r % 4 / 2;
    const bool alone = r + 1 == rows;
    const uint8_t *x = slab + r * 32;
    int32x4_t low = f.offset ? (int32x4_t)tn_in_turn((int64x2_t)four.start, pair, alone) : vdupq_n_s32(0), high = low;
#pragma GCC unroll 4
    for (int v = begin; v < end; v += 2) {
      const int32x4_t a = (int32x4_t)w[v], b = (int32x4_t)w[v + 1];
      const int8x16_t eight =
          alone ? (int8x16_t)vcombine_u8(vld1_u8(x + v * 4), vld1_u8(x + v * 4)) : (int8x16_t)vld1q_u8(x + v * 8);
      low = vusmmlaq_s32(low, (uint8x16_t)vzip1q_s32(a, b), eight);
      high = vusmmlaq_s32(high, (uint8x16_t)vzip2q_s32(a, b), eight);
    }
    const float32x4_t scale = (float32x4_t)tn_in_turn((int64x2_t)four.scale, pair, alone);
    acc[r] = vfmaq_f32(acc[r], vcvtq_f32_s32(low), vmulq_f32(vzip1q_f32(d, d), scale));
    acc[r + 1] = vfmaq_f32(acc[r + 1], vcvtq_f32_s32(high), vmulq_f32(vzip2q_f32(d, d), scale));
    if (f.minimum) {
      const float32x4_t term = (float32x4_t)tn_in_turn((int64x2_t)four.term, pair, alone);
      acc[r] = vfmaq_f32(acc[r], vzip1q_f32(m, m), term);
      acc[r + 1] = vfmaq_f32(acc[r + 1], vzip2q_f32(m, m), term);
    }
  }
}
#endif

TN_INLINE void tn_quarter_block(const int rows, const tn_layout_shape f, const int half, const tn_quarter *quarter,
                                const uint8_t *slab, float32x4_t *acc) {
#if TN_SLAB_PAIRS
  if (rows > 1) {
    tn_quarter_pairs(rows, f, half, quarter, slab, acc);
    return;
  }
#endif
  tn_quarter_rows(rows, f, half, quarter, slab, acc);
}

/* Quarters first .. first + quarters - 1 along the panel: their lanes of out[rows][16]. */
TN_INLINE void tn_quarters_run(const int rows, const tn_layout_shape f, const tn_matrix *matrix, const uint8_t *panel,
                               const uint8_t *slab, const int quarters, const int first, float *out) {
  const int bytes = (int)(tn_layout_quant_bytes(f) + tn_layout_scale_bytes(f));
  float32x4_t acc[4][TN_TILE_ROWS];
#pragma GCC unroll 4
  for (int i = 0; i < quarters; i++)
#pragma GCC unroll 16
    for (int r = 0; r < TN_TILE_ROWS; r++) acc[i][r] = vdupq_n_f32(0);
  for (uint32_t b = 0; b < matrix->columns / TN_BLOCK; b++, slab += TN_SLAB_BLOCK_BYTES(rows)) {
    const uint8_t *quants = panel + tn_layout_quants_at(f, b);
    if (quarters == 4)
      tn_prefetch_block(quants, bytes);
    else
      tn_prefetch_block(quants + matrix->panel_bytes - TN_PREFETCH + first * bytes / 4, bytes / 4);
#pragma GCC unroll 4
    for (int i = 0; i < quarters; i++) {
      const tn_quarter quarter = tn_quarter_of(f, panel, b, first + i);
      tn_quarter_block(rows, f, 0, &quarter, slab, acc[i]);
      if (f.halves) tn_quarter_block(rows, f, 1, &quarter, slab, acc[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < quarters; i++) {
    float *to = out + (first + i) * 4;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const int even = r / 2 * 2, odd = even + 1;
      float32x4_t lanes = acc[i][r];
      if (TN_SLAB_PAIRS && rows > 1)
        lanes = r % 2 ? vuzp2q_f32(acc[i][even], acc[i][odd]) : vuzp1q_f32(acc[i][even], acc[i][odd]);
      vst1q_f32(to + r * 16, lanes);
    }
  }
}

/* The tile; all but the pointers are constants where it is used. */
TN_INLINE void tn_quarters_tile(const int rows, const tn_layout_shape f, const tn_matrix *matrix, const uint8_t *panel,
                                const uint8_t *slab, float *out) {
  if (rows <= TN_FEW_ROWS) {
    tn_quarters_run(rows, f, matrix, panel, slab, 4, 0, out);
  } else {
    for (int quarter = 0; quarter < 4; quarter++) tn_quarters_run(rows, f, matrix, panel, slab, 1, quarter, out);
  }
}

#endif
