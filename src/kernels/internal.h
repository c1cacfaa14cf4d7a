/* What the kernel files of one instruction set share. Every name that is not static carries the set's name. */
#ifndef TENON_KERNELS_INTERNAL_H
#define TENON_KERNELS_INTERNAL_H

#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "kernels/simd/simd.h"

#define tn_linear TN_FOR_ISA(tn_linear)
#define tn_linear_workspace TN_FOR_ISA(tn_linear_workspace)
#define tn_tile_blocks TN_FOR_ISA(tn_tile_blocks)
#define tn_tile_floats TN_FOR_ISA(tn_tile_floats)
#define tn_slab_blocks TN_FOR_ISA(tn_slab_blocks)
#define tn_slab_floats TN_FOR_ISA(tn_slab_floats)
#define tn_tile_pairs TN_FOR_ISA(tn_tile_pairs)
#define tn_slab_pairs TN_FOR_ISA(tn_slab_pairs)
#define tn_has_pairs TN_FOR_ISA(tn_has_pairs)
#define tn_product_of TN_FOR_ISA(tn_product_of)
#define tn_product_slab TN_FOR_ISA(tn_product_slab)
#define tn_product_tile TN_FOR_ISA(tn_product_tile)
#define tn_units_a_task TN_FOR_ISA(tn_units_a_task)
#define tn_slab_bytes TN_FOR_ISA(tn_slab_bytes)
#define tn_finish_tile TN_FOR_ISA(tn_finish_tile)
#define tn_widen_block TN_FOR_ISA(tn_widen_block)
#define tn_embed TN_FOR_ISA(tn_embed)
#define tn_norm TN_FOR_ISA(tn_norm)
#define tn_quantise TN_FOR_ISA(tn_quantise)
#define tn_add TN_FOR_ISA(tn_add)
#define tn_mul TN_FOR_ISA(tn_mul)
#define tn_activate TN_FOR_ISA(tn_activate)
#define tn_scale TN_FOR_ISA(tn_scale)
#define tn_softcap TN_FOR_ISA(tn_softcap)
#define tn_slice TN_FOR_ISA(tn_slice)
#define tn_concat TN_FOR_ISA(tn_concat)
#define tn_select_rows TN_FOR_ISA(tn_select_rows)
#define tn_rope_table TN_FOR_ISA(tn_rope_table)
#define tn_rope TN_FOR_ISA(tn_rope)
#define tn_kv_write TN_FOR_ISA(tn_kv_write)
#define tn_kv_write_workspace TN_FOR_ISA(tn_kv_write_workspace)
#define tn_attention TN_FOR_ISA(tn_attention)
#define tn_attention_workspace TN_FOR_ISA(tn_attention_workspace)
#define tn_norm_workspace TN_FOR_ISA(tn_norm_workspace)
#define tn_quantise_row TN_FOR_ISA(tn_quantise_row)
#define tn_share_rows TN_FOR_ISA(tn_share_rows)
#define tn_moe_linear TN_FOR_ISA(tn_moe_linear)
#define tn_head_linear TN_FOR_ISA(tn_head_linear)
#define tn_groups_workspace TN_FOR_ISA(tn_groups_workspace)
#define tn_moe_route TN_FOR_ISA(tn_moe_route)
#define tn_moe_route_workspace TN_FOR_ISA(tn_moe_route_workspace)
#define tn_moe_combine TN_FOR_ISA(tn_moe_combine)
#define tn_short_conv TN_FOR_ISA(tn_short_conv)
#define tn_short_conv_workspace TN_FOR_ISA(tn_short_conv_workspace)
#define tn_delta_rule TN_FOR_ISA(tn_delta_rule)
#define tn_delta_rule_workspace TN_FOR_ISA(tn_delta_rule_workspace)
#define tn_spin_int8 TN_FOR_ISA(tn_spin_int8)
#define tn_spin_f32 TN_FOR_ISA(tn_spin_f32)
#define tn_spin_bf16 TN_FOR_ISA(tn_spin_bf16)
#define tn_spin_read TN_FOR_ISA(tn_spin_read)

/* ---- linear, moe_linear, head_linear ---- */

/* A row of activations, or a part of one, as a slab takes it: its values; of q8a the quants, and the scales and sums of
 * their blocks. */
typedef struct tn_activations {
  const uint8_t *values;
  const float *scales;
  const int32_t *sums;
} tn_activations;

/* Activations of up to TN_TILE_ROWS rows, rearranged so that a tile kernel finds everything at fixed distances.
 * For block layouts, per block of 32 columns (R rows):
 *   int8 q[R][32]; float scale[R]; then what the format needs beside them:
 *   an offset: int32 start[R] = -offset * sum of q (two arrays with halves); a minimum: float term[R] = scale * sum.
 * For float layouts: float x[K][R]. */
#ifndef TN_BLOCK_PANELS
#define TN_SLAB_BLOCK_BYTES(rows) ((uint64_t)(rows)*44u)
#define TN_SLAB_HEAD_BYTES 0u
#define TN_BLOCK_PANELS 1u
#endif

/* Fills a slab from `rows` q8a rows. */
void tn_slab_blocks(void *slab, const tn_activations *x, uint32_t rows, uint32_t columns, tn_layout_shape shape);
/* Fills a float slab from f32, q8a or bf16 rows. */
void tn_slab_floats(float *slab, const tn_activations *x, uint32_t rows, uint32_t columns, uint32_t dtype);

/* `panels` (at most TN_BLOCK_PANELS, or 2 of a gated matrix) neighbouring panels of a block layout against a slab of
 * `rows` <= TN_TILE_ROWS rows: out[panels][rows][16]. Per block of 32 columns, in order: acc = fma(exact integer dot,
 * d * scale, acc), then acc = fma(m, term, acc) where there is a minimum. HVX has a slab and roundings of its own (see
 * linear_hvx.c). */
void tn_tile_blocks(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, void *slab, uint32_t rows,
                    float *out);

/* `panels` (at most TN_MAX_TILE_PANELS) neighbouring panels of any layout against a float slab of `rows` <=
 * TN_FLOAT_ROWS rows: out[panels][rows][16]. Per column, in order: acc = fma(weight, x, acc). */
#define TN_MAX_TILE_PANELS 4u
#define TN_MAX_TILE_ROWS (TN_TILE_ROWS > 12u ? TN_TILE_ROWS : 12u)
void tn_tile_floats(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, const float *slab, uint32_t rows,
                    float *out);

/* bf16 activations against bf16 weights, on processors that multiply pairs of them (tn_has_pairs; the other two are
 * called nowhere else). The slab: pairs x[K / 2][rows], an odd K's last with a zero. Up to TN_MAX_TILE_PANELS panels,
 * `rows` <= TN_PAIR_ROWS: out[panels][rows][16]. Per pair of columns, in order, one instruction: acc = acc + the two
 * products. */
#define TN_PAIR_ROWS 12u
bool tn_has_pairs(void);
void tn_slab_pairs(void *slab, const tn_activations *x, uint32_t rows, uint32_t columns);
void tn_tile_pairs(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, const void *slab, uint32_t rows,
                   float *out);

/* How activations of one type are multiplied by a matrix, whichever of the above it takes (linear_product.c). */
typedef enum tn_product_way { TN_PRODUCT_FLOATS, TN_PRODUCT_BLOCKS, TN_PRODUCT_PAIRS } tn_product_way;
typedef struct tn_product {
  tn_matrix matrix;
  tn_product_way way;
  uint32_t dtype;        /* of the activations */
  uint32_t rows, panels; /* at most, in one tile */
  uint32_t step;         /* panels of one unit of work: 2 where gated */
  uint32_t units;        /* of the matrix */
} tn_product;

/* `w` is a matrix, or several of one size. */
tn_product tn_product_of(const tn_tensor *x, const tn_tensor *w);
/* Fills a slab with `rows` <= product->rows rows of activations. */
void tn_product_slab(const tn_product *product, void *slab, const tn_activations *x, uint32_t rows);
/* `panels` <= product->panels neighbouring panels against the slab: out[panels][rows][16]. */
void tn_product_tile(const tn_product *product, const uint8_t *panel, uint32_t panels, void *slab, uint32_t rows,
                     float *out);
/* Bytes that a slab of as many rows as tiles take needs, whatever way it is. */
uint64_t tn_slab_bytes(uint64_t columns);
/* How many units make a task, of `all` to be done: so that there are a few tasks for each worker and, where a task's
 * weights are used `again` and again, that they stay in the cache. */
uint32_t tn_units_a_task(const tn_product *product, uint64_t all, uint32_t workers, bool again);

/* Vector v < 8 of a block's quants: 16 lanes of four bytes, columns 4v .. 4v + 3. */
TN_INLINE vi tn_load_quants(const uint8_t *quants, const tn_layout_shape shape, const int v) {
  const int bits = shape.bits;
  if (bits == 8) return vi_load(quants + v * 64);
  vi both = vi_load(quants + v % 4 * 64);
  vi low = vi_and(v < 4 ? both : vi_shift_right(both, 4), vi_set1(0x0f0f0f0f));
  if (shape.codes) return vi_look_up(tn_layout_values((tn_layout_codes)shape.codes), low);
  if (bits == 4) return low;
  vi upper = vi_load(quants + 256 + v / 4 * 64);
  switch (v % 4) {
    case 0: upper = vi_shift_left(upper, 4); break;
    case 1: upper = vi_shift_left(upper, 2); break;
    case 3: upper = vi_shift_right(upper, 2); break;
    default: break;
  }
  return vi_xor(low, vi_and(upper, vi_set1(0x30303030)));
}

/* Of block `block` of a panel: its scale, or that of its first half (which = 0); its second half's, or its minimum
 * (which = 1). */
TN_INLINE vf tn_load_scale(const uint8_t *panel, const tn_layout_shape shape, uint32_t block, const int which) {
  const uint8_t *scales = panel + tn_layout_scales_at(shape, block);
  if (shape.factors) {
    const uint8_t *shared = panel + tn_layout_group_at(shape, block) + (shape.minimum ? 32 * which : 0);
    return vf_mul(vf_load_f16((const uint16_t *)(const void *)shared), vf_load_i8((const int8_t *)scales + 16 * which));
  }
  const uint16_t *halves = (const uint16_t *)(const void *)scales + 16 * which;
  return shape.scale_bf16 ? vf_load_bf16(halves) : vf_load_f16(halves);
}

/* Asks for what lies TN_PREFETCH bytes ahead, a block's worth a block: the system's own prefetchers stop at the end of
 * each page, and begin late. */
#define TN_PREFETCH 4096
TN_INLINE void tn_prefetch_block(const uint8_t *quants, const int bytes) {
  for (int i = 0; i < bytes; i += 64) tn_prefetch(quants + TN_PREFETCH + i);
}

/* The values of one block of 32 columns of a panel of a block layout: values[32][16]. */
void tn_widen_block(const tn_matrix *matrix, const uint8_t *panel, uint32_t block, float *values);

/* What happens to a product before it is stored. */
typedef struct tn_epilogue {
  uint32_t activation;
  bool gated;
  float scale;
  const float *bias; /* NULL: none; gated: gate's, then value's */
  const uint8_t *residual;
  uint64_t residual_bytes; /* of a row */
  uint32_t columns;        /* N */
  uint32_t output_count;
  struct {
    uint8_t *data;
    uint64_t row_bytes;
    uint32_t begin, end; /* columns of the product */
  } outputs[TN_MAX_OPERANDS];
} tn_epilogue;

/* Stores a tile: rows first_row .. first_row + rows - 1, columns column .. column + 15 (as many as there are). */
void tn_finish_tile(const tn_epilogue *epilogue, const float *tile, const float *gated_value, uint32_t first_row,
                    uint32_t rows, uint32_t column);

/* ---- kernels of the table, and the workspace of those that need one ---- */
tn_status tn_linear(const tn_kernel_call *call);
tn_status tn_embed(const tn_kernel_call *call);
tn_status tn_norm(const tn_kernel_call *call);
tn_status tn_quantise(const tn_kernel_call *call);
tn_status tn_add(const tn_kernel_call *call);
tn_status tn_mul(const tn_kernel_call *call);
tn_status tn_activate(const tn_kernel_call *call);
tn_status tn_scale(const tn_kernel_call *call);
tn_status tn_softcap(const tn_kernel_call *call);
tn_status tn_slice(const tn_kernel_call *call);
tn_status tn_concat(const tn_kernel_call *call);
tn_status tn_select_rows(const tn_kernel_call *call);
tn_status tn_rope_table(const tn_kernel_call *call);
tn_status tn_rope(const tn_kernel_call *call);
tn_status tn_kv_write(const tn_kernel_call *call);
tn_status tn_attention(const tn_kernel_call *call);
tn_status tn_moe_linear(const tn_kernel_call *call);
tn_status tn_head_linear(const tn_kernel_call *call);
tn_status tn_moe_route(const tn_kernel_call *call);
tn_status tn_moe_combine(const tn_kernel_call *call);
tn_status tn_short_conv(const tn_kernel_call *call);
tn_status tn_delta_rule(const tn_kernel_call *call);
uint64_t tn_linear_workspace(const tn_op_query *query);
uint64_t tn_norm_workspace(const tn_op_query *query);
uint64_t tn_kv_write_workspace(const tn_op_query *query);
uint64_t tn_groups_workspace(const tn_op_query *query);
uint64_t tn_moe_route_workspace(const tn_op_query *query);
uint64_t tn_short_conv_workspace(const tn_op_query *query);
uint64_t tn_delta_rule_workspace(const tn_op_query *query);
uint64_t tn_attention_workspace(const tn_op_query *query, uint32_t context, uint32_t workers);

/* ---- peaks ---- */
uint64_t tn_spin_int8(uint64_t rounds, int32_t *sink);
uint64_t tn_spin_f32(uint64_t rounds, float *sink);
uint64_t tn_spin_bf16(uint64_t rounds, float *sink);
void tn_spin_read(const void *data, uint64_t bytes, int32_t *sink);

/* Row r of a tensor. */
TN_INLINE uint8_t *tn_row_at(const tn_tensor *tensor, uint64_t row) {
  return (uint8_t *)tensor->data + row * tensor->row_bytes;
}

/* Columns, and rows, of an operand seen as a matrix. */
TN_INLINE uint32_t tn_columns(const tn_tensor *tensor) {
  return tensor->dims[tensor->rank - 1];
}
TN_INLINE uint32_t tn_rows(const tn_tensor *tensor) {
  return tensor->rank > 1 ? tensor->dims[0] : 1;
}
TN_INLINE float *tn_floats(const tn_tensor *tensor, uint64_t row) {
  return (float *)(void *)tn_row_at(tensor, row);
}
/* Columns from `column` on of a row of activations; of q8a from the begin of a block on. */
TN_INLINE tn_activations tn_activations_at(const tn_tensor *x, uint64_t row, uint32_t column) {
  const uint8_t *bytes = tn_row_at(x, row);
  if (x->dtype != TN_Q8A) {
    uint64_t size = x->dtype == TN_BF16 ? sizeof(uint16_t) : sizeof(float);
    return (tn_activations){.values = bytes + column * size};
  }
  uint64_t blocks = ((uint64_t)tn_columns(x) + TN_BLOCK - 1) / TN_BLOCK;
  const float *scales = (const float *)(const void *)(bytes + blocks * TN_BLOCK);
  const int32_t *sums = (const int32_t *)(const void *)(scales + blocks);
  return (tn_activations){bytes + column, scales + column / TN_BLOCK, sums + column / TN_BLOCK};
}
/* Input `index` of a call, NULL where it is absent. */
TN_INLINE const tn_tensor *tn_input(const tn_kernel_call *call, uint32_t index) {
  return index < call->input_count && call->inputs[index].data ? &call->inputs[index] : NULL;
}
/* 16 values, or as many as are left. */
TN_INLINE vf tn_load_some(const float *from, uint32_t left) {
  return left >= TN_LANES ? vf_load(from) : vf_load_part(from, left);
}
TN_INLINE void tn_store_some(float *to, uint32_t left, vf x) {
  if (left >= TN_LANES)
    vf_store(to, x);
  else
    vf_store_part(to, left, x);
}

/* Quantises one row of floats to q8a, as the reference kernel does (kernels/quantise.c). */
void tn_quantise_row(const float *x, uint32_t columns, void *row);

/* ---- sharing work ---- */

/* Runs body over [0, count) on the call's workers; `work` is a rough count of elementary operations, and little work
 * isn't worth waking anybody. */
#define TN_WORTH_SHARING 40000u
TN_INLINE void tn_share(const tn_kernel_call *call, void (*body)(void *argument, uint32_t index, uint32_t worker),
                        void *argument, uint32_t count, uint64_t work) {
  if (count > 1 && work > TN_WORTH_SHARING && call->parallel->workers > 1) {
    call->parallel->run(call->parallel->context, body, argument, count);
  } else {
    for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
  }
}

/* Runs each(call, row, worker) for every row, `work` operations a row, a run of rows at a time. */
typedef void tn_row_body(const tn_kernel_call *call, uint32_t row, uint32_t worker);
void tn_share_rows(const tn_kernel_call *call, tn_row_body *each, uint32_t rows, uint64_t work);

#endif
