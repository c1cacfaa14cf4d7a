/* Linear with q8a activations over block layouts: integer dot products of 32 columns, one fma each.
 *
 * The weights of a block are unpacked into registers once and used for all rows of the tile. Vector
 * instructions multiply unsigned by signed bytes, so quants are stored unsigned and the dot product starts at
 * -offset * (sum of the activations' bytes), which the slab has ready: the offset costs nothing. */
#include "kernels/internal.h"
#if TN_TILE_QUARTERS
#include "kernels/linear_quarters.h"
#endif

#if !TN_ISA_hvx /* see linear_hvx.c */

/* Puts 32 columns of row r where the tile looks for them: rows one after the other; or, where tiles take rows in pairs,
 * 8 columns of either in turn. */
TN_INLINE void put_columns(uint8_t *block, uint32_t r, uint32_t rows, const int8_t *columns) {
#if TN_SLAB_PAIRS
  if ((r | 1) < rows) {
    for (uint32_t i = 0; i < 4; i++) __builtin_memcpy(block + r / 2 * 64 + i * 16 + r % 2 * 8, columns + i * 8, 8);
    return;
  }
#endif
  (void)rows;
  __builtin_memcpy(block + r * TN_BLOCK, columns, TN_BLOCK);
}

void tn_slab_blocks(void *slab, const tn_activations *x, uint32_t rows, uint32_t columns, tn_layout_shape shape) {
  uint32_t blocks = columns / TN_BLOCK;
  uint64_t stride = TN_SLAB_BLOCK_BYTES(rows);
  for (uint32_t r = 0; r < rows; r++) {
    const int8_t *quants = (const int8_t *)x[r].values;
    const float *scales = x[r].scales;
    const int32_t *sums = x[r].sums;
    uint8_t *to = (uint8_t *)slab;
    for (uint32_t b = 0; b < blocks; b++, to += stride) {
      float *scale = (float *)(void *)(to + (uint64_t)rows * TN_BLOCK);
      put_columns(to, r, rows, quants + b * TN_BLOCK);
      scale[r] = scales[b];
      if (shape.minimum) {
        scale[rows + r] = scales[b] * (float)sums[b];
        continue;
      }
      int32_t *start = (int32_t *)(void *)(scale + rows);
      int32_t sum = sums[b];
      if (shape.halves) {
        int32_t first = 0;
        for (uint32_t i = 0; i < TN_BLOCK / 2; i++) first += quants[b * TN_BLOCK + i];
        start[rows + r] = -(int32_t)shape.offset * (sum - first);
        sum = first;
      }
      start[r] = -(int32_t)shape.offset * sum;
    }
  }
}

#if TN_TILE_QUARTERS
#define tile tn_quarters_tile
#else

TN_INLINE vd add(vd acc, vi w, const int8_t *q, const tn_layout_shape f, const int v) {
  return tn_layout_value_bits(f) == 4 ? vd_add_nibbles(acc, w, q + 4 * v) : vd_add_bytes(acc, w, q + 4 * v);
}

TN_INLINE vf total(vd acc, const tn_layout_shape f, int32_t start) {
  if (!f.offset) start = 0;
  return vf_from_vi(tn_layout_value_bits(f) == 4 ? vd_end_nibbles(acc, start) : vd_end_bytes(acc, start));
}

/* Integer dot products of vectors [begin, end) of a block with every row, the total of row r in sums[r]. Either a row's
 * sum stays in a register while the weights, all in registers, go by, or the other way round. */
TN_INLINE void dot_block(const int rows, const tn_layout_shape f, const int begin, const int end, const uint8_t *quants,
                         const uint8_t *slab, const int32_t *start, vf *sums) {
#if TN_WEIGHTS_IN_REGISTERS
  vi w[8];
#pragma GCC unroll 8
  for (int v = begin; v < end; v++) w[v] = tn_load_quants(quants, f, v);
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
    vd acc = vd_begin(f.offset ? start[r] : 0);
#pragma GCC unroll 8
    for (int v = begin; v < end; v++) acc = add(acc, w[v], (const int8_t *)slab + r * 32, f, v);
    sums[r] = total(acc, f, start[r]);
  }
#else
  vd acc[TN_TILE_ROWS];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) acc[r] = vd_begin(f.offset ? start[r] : 0);
#pragma GCC unroll 8
  for (int v = begin; v < end; v++) {
    const vi w = tn_load_quants(quants, f, v);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) acc[r] = add(acc[r], w, (const int8_t *)slab + r * 32, f, v);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) sums[r] = total(acc[r], f, start[r]);
#endif
}

/* The tile; all but the pointers are constants where it is used. */
TN_INLINE void tile(const int rows, const tn_layout_shape f, const tn_matrix *matrix, const uint8_t *panel,
                    const uint8_t *slab, float *out) {
  const bool two = f.minimum || f.halves;
  vf acc[TN_TILE_ROWS], sums[TN_TILE_ROWS];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) acc[r] = vf_zero();
  for (uint32_t b = 0; b < matrix->columns / TN_BLOCK; b++) {
    const uint8_t *quants = panel + tn_layout_quants_at(f, b);
    if (rows <= 8) tn_prefetch_block(quants, (int)(tn_layout_quant_bytes(f) + tn_layout_scale_bytes(f)));
    const vf d = tn_load_scale(panel, f, b, 0), second = two ? tn_load_scale(panel, f, b, 1) : vf_zero();
    const float *scale = (const float *)(const void *)(slab + rows * 32);
    const int32_t *start = (const int32_t *)(const void *)(scale + rows);
    dot_block(rows, f, 0, f.halves ? 4 : 8, quants, slab, start, sums);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      acc[r] = vf_fma(sums[r], vf_mul(d, vf_set1(scale[r])), acc[r]);
      if (f.minimum) acc[r] = vf_fma(second, vf_set1(scale[rows + r]), acc[r]);
    }
    if (f.halves) {
      dot_block(rows, f, 4, 8, quants, slab, start + rows, sums);
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) acc[r] = vf_fma(sums[r], vf_mul(second, vf_set1(scale[r])), acc[r]);
    }
    slab += TN_SLAB_BLOCK_BYTES(rows);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) vf_store(out + r * 16, acc[r]);
}

#endif

/* The case of n rows; for more rows than the target's tiles have it is never reached. */
#define TN_CASE(n) \
  case n: tile(n <= TN_TILE_ROWS ? n : 1, tn_layout_shape_of(kind), matrix, panel, slab, out); break;

/* One function a layout. */
/* clang-format off */
#define TN_TILE(layout)                                                                         \
  static void tile_##layout(const tn_matrix *matrix, const uint8_t *panel, const uint8_t *slab, \
                            uint32_t rows, float *out) {                                        \
    const uint32_t kind = TN_LAYOUT_##layout;                                                   \
    switch (rows) {                                                                             \
      TN_CASE(1) TN_CASE(2) TN_CASE(3) TN_CASE(4) TN_CASE(5) TN_CASE(6)                         \
      TN_CASE(7) TN_CASE(8) TN_CASE(9) TN_CASE(10) TN_CASE(11) TN_CASE(12)                      \
    }                                                                                           \
  }
/* clang-format on */
TN_EACH_BLOCK_LAYOUT(TN_TILE)

#define TN_TILE_CASE(layout) \
  case TN_LAYOUT_##layout: tile_##layout(matrix, panel, slab, rows, out); break;
static void tile_panel(const tn_matrix *matrix, const uint8_t *panel, const uint8_t *slab, uint32_t rows, float *out) {
  switch (matrix->kind) {
    TN_EACH_BLOCK_LAYOUT(TN_TILE_CASE)
    default: break;
  }
}

void tn_tile_blocks(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, void *slab, uint32_t rows,
                    float *out) {
  for (uint32_t p = 0; p < panels; p++)
    tile_panel(matrix, panel + p * matrix->panel_bytes, (const uint8_t *)slab, rows, out + p * rows * TN_LANES);
}

#endif
