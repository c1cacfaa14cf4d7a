/* embed: table rows taken out of a packed matrix, by the same arithmetic as the reference decoders. */
#include "kernels/internal.h"
#include "tensor/half.h"

/* A lane's first or second scale of a block. */
static float scale_at(const uint8_t *panel, tn_layout_shape shape, uint32_t block, uint32_t which, uint32_t lane) {
  const uint8_t *scales = panel + tn_layout_scales_at(shape, block);
  uint32_t index = which * TN_PANEL_ROWS + lane;
  if (shape.factors) {
    const uint16_t *shared = (const uint16_t *)(const void *)(panel + tn_layout_group_at(shape, block));
    return tn_f16_to_f32(shared[shape.minimum ? index : lane]) * (float)(int8_t)scales[index];
  }
  uint16_t half = ((const uint16_t *)(const void *)scales)[index];
  return shape.scale_bf16 ? tn_bf16_to_f32(half) : tn_f16_to_f32(half);
}

/* One lane of a panel of a block layout: y[columns] = values * factor. */
static void take_blocks(const tn_matrix *table, const uint8_t *panel, uint32_t lane, float factor, float *y) {
  const tn_layout_shape shape = tn_layout_shape_of(table->kind);
  for (uint32_t b = 0; b < table->columns / TN_BLOCK; b++, y += TN_BLOCK) {
    const uint8_t *quants = panel + tn_layout_quants_at(shape, b);
    float d = scale_at(panel, shape, b, 0, lane), second = d, m = 0.0f;
    if (shape.halves) second = scale_at(panel, shape, b, 1, lane);
    if (shape.minimum) m = scale_at(panel, shape, b, 1, lane);
    for (uint32_t k = 0; k < TN_BLOCK; k++) {
      int q = tn_layout_quant(shape, quants, lane, k);
      float value = (k < 16 ? d : second) * (float)(q - shape.offset);
      y[k] = (shape.minimum ? value + m : value) * factor;
    }
  }
}

static void take_floats(const tn_matrix *table, const uint8_t *panel, uint32_t lane, float factor, float *y) {
  for (uint32_t k = 0; k < table->columns; k++) {
    uint64_t at = tn_layout_float_at(table->kind, lane, k);
    uint16_t half = table->kind == TN_LAYOUT_F32 ? 0 : ((const uint16_t *)(const void *)panel)[at];
    float value = table->kind == TN_LAYOUT_F16    ? tn_f16_to_f32(half)
                  : table->kind == TN_LAYOUT_BF16 ? tn_bf16_to_f32(half)
                                                  : ((const float *)(const void *)panel)[at];
    y[k] = value * factor;
  }
}

static uint32_t table_index(const tn_kernel_call *call, uint32_t row) {
  const tn_embed_attributes *attributes = (const tn_embed_attributes *)call->attributes;
  const tn_row *r = &call->batch->rows[row];
  return (uint32_t)(attributes->source == TN_EMBED_TOKEN ? r->token : r->position[0]);
}

static void embed_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const tn_embed_attributes *attributes = (const tn_embed_attributes *)call->attributes;
  const tn_tensor *w = &call->inputs[0];
  tn_matrix table = tn_matrix_of(w->layout, w->dims[0], w->dims[1]);
  uint32_t panel, lane;
  tn_matrix_place(&table, table_index(call, row), &panel, &lane);
  const uint8_t *from = (const uint8_t *)w->data + panel * table.panel_bytes;
  float *y = (float *)(void *)tn_row_at(&call->outputs[0], row);
  if (tn_layout_shape_of(table.kind).step_bytes)
    take_floats(&table, from, lane, attributes->scale, y);
  else
    take_blocks(&table, from, lane, attributes->scale, y);
}

tn_status tn_embed(const tn_kernel_call *call) {
  uint32_t rows = call->batch->row_count;
  for (uint32_t row = 0; row < rows; row++)
    if (table_index(call, row) >= call->inputs[0].dims[0]) return TN_E_INVALID;
  tn_share_rows(call, embed_row, rows, (uint64_t)call->inputs[0].dims[1] * 8);
  return TN_OK;
}
