/* Linear with float arithmetic: one fma a column, in order, output rows in lanes.
 *
 * Weights of block layouts are widened 32 columns at a time into a buffer that stays in the first-level cache, by the
 * same arithmetic as the reference decoders, and then go the same way as float ones. */
#include "kernels/internal.h"
#include "tensor/half.h"

void tn_slab_floats(float *slab, const tn_activations *x, uint32_t rows, uint32_t columns, uint32_t dtype) {
  for (uint32_t r = 0; r < rows; r++) {
    const uint8_t *row = x[r].values;
    float *to = slab + r;
    if (dtype == TN_BF16) {
      const uint16_t *values = (const uint16_t *)(const void *)row;
      for (uint32_t k = 0; k < columns; k++, to += rows) *to = tn_bf16_to_f32(values[k]);
    } else if (dtype == TN_Q8A) {
      const float *scales = x[r].scales;
      for (uint32_t k = 0; k < columns; k++, to += rows) *to = (float)(int8_t)row[k] * scales[k / TN_BLOCK];
    } else {
      const float *values = (const float *)(const void *)row;
      for (uint32_t k = 0; k < columns; k++, to += rows) *to = values[k];
    }
  }
}

void tn_widen_block(const tn_matrix *matrix, const uint8_t *panel, uint32_t block, float *values) {
  const tn_layout_shape shape = tn_layout_shape_of(matrix->kind);
  const uint8_t *quants = panel + tn_layout_quants_at(shape, block);
  const vf d = tn_load_scale(panel, shape, block, 0);
  const bool two = shape.minimum || shape.halves;
  const vf second = two ? tn_load_scale(panel, shape, block, 1) : vf_zero();
#pragma GCC unroll 8
  for (int v = 0; v < 8; v++) {
    vi q = tn_load_quants(quants, shape, v);
    for (unsigned j = 0; j < 4; j++) {
      vi number = vi_sub(vi_and(vi_shift_right(q, 8 * j), vi_set1(255)), vi_set1(shape.offset));
      vf value = vf_mul(vf_from_vi(number), shape.halves && v >= 4 ? second : d);
      vf_store(values + (v * 4 + (int)j) * 16, shape.minimum ? vf_add(value, second) : value);
    }
  }
}

TN_INLINE vf load_step(const uint8_t *weights, const uint32_t kind, uint32_t k) {
  switch (kind) {
    case TN_LAYOUT_F16: return vf_load_f16((const uint16_t *)(const void *)weights + (uint64_t)k * 16);
    case TN_LAYOUT_BF16: {
      vi pairs = vi_load(weights + (uint64_t)(k / 2) * 64);
      return vf_bits(k % 2 ? vi_and(pairs, vi_set1((int32_t)0xffff0000)) : vi_shift_left(pairs, 16));
    }
    default: return vf_load((const float *)(const void *)weights + (uint64_t)k * 16);
  }
}

/* Adds columns [0, columns) of `panels` panels, `distance` bytes apart, to acc. */
TN_INLINE void run(const int rows, const int panels, const uint32_t kind, const uint8_t *weights, uint64_t distance,
                   uint32_t columns, const float *slab, vf acc[TN_FLOAT_ROWS][TN_MAX_TILE_PANELS]) {
  for (uint32_t k = 0; k < columns; k++, slab += rows) {
    vf w[TN_MAX_TILE_PANELS];
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) w[p] = load_step(weights + p * distance, kind, k);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
      for (int p = 0; p < panels; p++) acc[r][p] = vf_fma_one(w[p], slab + r, acc[r][p]);
  }
}

TN_INLINE void tile(const int rows, const int panels, const uint32_t kind, const tn_matrix *matrix,
                    const uint8_t *panel, const float *slab, float *out) {
  vf acc[TN_FLOAT_ROWS][TN_MAX_TILE_PANELS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) acc[r][p] = vf_zero();
  if (kind != TN_LAYOUT_NONE) {
    run(rows, panels, kind, panel, matrix->panel_bytes, matrix->columns, slab, acc);
  } else {
    float values[TN_MAX_TILE_PANELS][TN_BLOCK * 16];
    for (uint32_t b = 0; b < matrix->columns / TN_BLOCK; b++, slab += rows * (int)TN_BLOCK) {
      for (int p = 0; p < panels; p++) tn_widen_block(matrix, panel + p * matrix->panel_bytes, b, values[p]);
      run(rows, panels, TN_LAYOUT_F32, (const uint8_t *)values, sizeof values[0], TN_BLOCK, slab, acc);
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < panels; p++)
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) vf_store(out + (p * rows + r) * 16, acc[r][p]);
}

/* The case of n rows and p panels; one that the target's registers don't hold is never reached. */
#define TN_HELD(n, p) ((n) <= TN_FLOAT_ROWS && (p) <= ((n) <= 2 ? 2 * TN_FLOAT_PANELS : TN_FLOAT_PANELS))
#define TN_CASE(n, p, kind) \
  case n * 8 + p: tile(TN_HELD(n, p) ? n : 1, TN_HELD(n, p) ? p : 1, kind, matrix, panel, slab, out); break;
/* clang-format off */
#define TN_CASES(kind)                                                                                    \
  TN_CASE(1, 1, kind)                                                                                     \
  TN_CASE(2, 1, kind) TN_CASE(3, 1, kind) TN_CASE(4, 1, kind) TN_CASE(5, 1, kind) TN_CASE(6, 1, kind)     \
      TN_CASE(1, 2, kind) TN_CASE(2, 2, kind) TN_CASE(3, 2, kind) TN_CASE(4, 2, kind) TN_CASE(5, 2, kind) \
          TN_CASE(6, 2, kind) TN_CASE(1, 4, kind) TN_CASE(2, 4, kind)
/* clang-format on */
/* All panels, as many at once as registers hold. */
#define TN_TILE(name, kind)                                                                                          \
  static void name(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, const float *slab, uint32_t rows, \
                   float *out) {                                                                                     \
    while (panels) {                                                                                                 \
      uint32_t taken = panels >= 4 && TN_HELD(rows, 4) ? 4 : panels >= 2 && TN_HELD(rows, 2) ? 2 : 1;                \
      switch (rows * 8 + taken) { TN_CASES(kind) }                                                                   \
      panel += taken * matrix->panel_bytes;                                                                          \
      out += taken * rows * TN_LANES;                                                                                \
      panels -= taken;                                                                                               \
    }                                                                                                                \
  }
TN_TILE(tile_f32, TN_LAYOUT_F32)
TN_TILE(tile_f16, TN_LAYOUT_F16)
TN_TILE(tile_bf16, TN_LAYOUT_BF16)
TN_TILE(tile_widened, TN_LAYOUT_NONE)

void tn_tile_floats(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, const float *slab, uint32_t rows,
                    float *out) {
  switch (matrix->kind) {
    case TN_LAYOUT_F32: tile_f32(matrix, panel, panels, slab, rows, out); break;
    case TN_LAYOUT_F16: tile_f16(matrix, panel, panels, slab, rows, out); break;
    case TN_LAYOUT_BF16: tile_bf16(matrix, panel, panels, slab, rows, out); break;
    default: tile_widened(matrix, panel, panels, slab, rows, out); break;
  }
}
