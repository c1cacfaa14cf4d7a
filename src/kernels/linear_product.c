/* What linear, moe_linear and head_linear have in common: choosing the tile that multiplies activations of a type by a
 * matrix of a layout, and how much of a matrix makes a task. */
#include "kernels/internal.h"

#define TASK_BYTES (256u << 10) /* of weights in a task over many rows: they should stay in the second-level cache */
#define TASKS_A_WORKER 6u       /* so that a worker who comes late or is taken away costs little */
#define LEAST_UNITS 4u

tn_product tn_product_of(const tn_tensor *x, const tn_tensor *w) {
  tn_product product = {.matrix = tn_matrix_of(w->layout, w->dims[w->rank - 2], w->dims[w->rank - 1]),
                        .dtype = x->dtype};
  bool is_block = !tn_layout_shape_of(product.matrix.kind).step_bytes;
  product.step = product.matrix.gated ? 2 : 1;
  product.units = product.matrix.panels / product.step;
  product.panels = TN_MAX_TILE_PANELS;
  if (x->dtype == TN_Q8A && is_block) {
    product.way = TN_PRODUCT_BLOCKS;
    product.rows = TN_TILE_ROWS;
    product.panels = product.step > TN_BLOCK_PANELS ? product.step : TN_BLOCK_PANELS;
  } else if (x->dtype == TN_BF16 && product.matrix.kind == TN_LAYOUT_BF16 && tn_has_pairs()) {
    product.way = TN_PRODUCT_PAIRS;
    product.rows = TN_PAIR_ROWS;
  } else {
    product.way = TN_PRODUCT_FLOATS;
    product.rows = TN_FLOAT_ROWS;
  }
  return product;
}

void tn_product_slab(const tn_product *product, void *slab, const tn_activations *x, uint32_t rows) {
  const tn_matrix *m = &product->matrix;
  switch (product->way) {
    case TN_PRODUCT_BLOCKS: tn_slab_blocks(slab, x, rows, m->columns, tn_layout_shape_of(m->kind)); break;
    case TN_PRODUCT_PAIRS: tn_slab_pairs(slab, x, rows, m->columns); break;
    default: tn_slab_floats((float *)slab, x, rows, m->columns, product->dtype); break;
  }
}

void tn_product_tile(const tn_product *product, const uint8_t *panel, uint32_t panels, void *slab, uint32_t rows,
                     float *out) {
  switch (product->way) {
    case TN_PRODUCT_BLOCKS: tn_tile_blocks(&product->matrix, panel, panels, slab, rows, out); break;
    case TN_PRODUCT_PAIRS: tn_tile_pairs(&product->matrix, panel, panels, slab, rows, out); break;
    default: tn_tile_floats(&product->matrix, panel, panels, (const float *)slab, rows, out); break;
  }
}

uint64_t tn_slab_bytes(uint64_t columns) {
  uint64_t blocks = (columns + TN_BLOCK - 1) / TN_BLOCK * TN_SLAB_BLOCK_BYTES(TN_TILE_ROWS) + TN_SLAB_HEAD_BYTES;
  uint64_t floats = columns * TN_FLOAT_ROWS * sizeof(float);
  uint64_t pairs = (columns + 1) / 2 * TN_PAIR_ROWS * sizeof(uint32_t);
  uint64_t most = blocks > floats ? blocks : floats;
  return most > pairs ? most : pairs;
}

uint32_t tn_units_a_task(const tn_product *product, uint64_t all, uint32_t workers, bool again) {
  uint64_t by_cache = TASK_BYTES / (product->matrix.panel_bytes * product->step) + 1;
  uint64_t a_tile = product->way == TN_PRODUCT_BLOCKS ? product->panels / product->step : 1;
  uint64_t tasks = workers > 1 ? (uint64_t)workers * TASKS_A_WORKER : 1;
  uint64_t units = (all + tasks - 1) / tasks;
  if (again && units > by_cache) units = by_cache;
  units = (units + a_tile - 1) / a_tile * a_tile; /* of blocks, one that is not full costs as much */
  if (units > product->units) units = product->units;
  return units < LEAST_UNITS ? LEAST_UNITS : (uint32_t)units;
}
