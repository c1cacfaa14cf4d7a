/* linear: y = x W^T with everything that may follow it.
 *
 * One task computes one column of y for all rows. Rows of x are taken a tile at a time, so that a piece of the weight
 * row is decoded once per tile; the sum over k stays in order and each row has an accumulator of its own, so the tile's
 * size shows in no result (product.c has the order of arithmetic). */
#include "kernels/reference/reference.h"

/* The place of column n of the product: the outputs share the columns in order. */
static float *output_at(const tn_kernel_call *call, uint32_t m, uint32_t n) {
  uint32_t output = 0;
  while (n >= tn_cols(&call->outputs[output])) n -= tn_cols(&call->outputs[output++]);
  return tn_floats(&call->outputs[output], m) + n;
}

static uint32_t total_columns(const tn_kernel_call *call) {
  uint32_t columns = 0;
  for (uint32_t i = 0; i < call->output_count; i++) columns += tn_cols(&call->outputs[i]);
  return columns;
}

/* Column n of y, all rows. */
static void linear_column(void *argument, uint32_t n, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_linear_attributes *a = call->attributes;
  const tn_tensor *x = &call->inputs[0], *weight = &call->inputs[1];
  const tn_tensor *bias = tn_input(call, 2), *residual = tn_input(call, 3);
  const float *b = bias ? bias->data : NULL;
  uint32_t rows = tn_rows(x), value_row = n + total_columns(call);
  float gate[TN_PRODUCT_ROWS], value[TN_PRODUCT_ROWS];
  for (uint32_t first = 0; first < rows; first += TN_PRODUCT_ROWS) {
    uint32_t count = rows - first < TN_PRODUCT_ROWS ? rows - first : TN_PRODUCT_ROWS;
    tn_reference_product(x, first, count, 0, weight, n, gate);
    if (a->gated) tn_reference_product(x, first, count, 0, weight, value_row, value);
    for (uint32_t r = 0; r < count; r++) {
      float y = tn_reference_activate(a->activation, b ? gate[r] + b[n] : gate[r]);
      if (a->gated) y *= b ? value[r] + b[value_row] : value[r];
      y *= a->scale;
      if (residual) y += tn_floats(residual, first + r)[n];
      *output_at(call, first + r, n) = y;
    }
  }
}

/* x[M,K], W[N or 2N,K], bias[N or 2N]?, residual[M,N]? -> y[M,N] */
tn_status tn_reference_linear(const tn_kernel_call *call) {
  tn_for_each(call, linear_column, total_columns(call));
  return TN_OK;
}
