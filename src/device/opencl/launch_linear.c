/* Launches of linear, moe_linear and head_linear: one kernel, told what the three have in common (kernels/linear.cl).
 */
#include "device/opencl/internal.h"

#define TILE_ROWS 16u      /* of a work-group of linear_tile */
#define LEAST_TILE_ROWS 4u /* from which on it is faster than a group of lanes for each row */

/* What all three share: x, W, and y as one output. The memory is still to be given. */
static linear_arguments shape_of(const tn_kernel_call *call) {
  const tn_tensor *x = &call->inputs[0], *w = &call->inputs[1];
  return (linear_arguments){.x_row = x->row_bytes,
                            .w_row = w->row_bytes,
                            .rows = tn_opencl_rows(x),
                            .depth = tn_opencl_columns(w),
                            .x_dtype = x->dtype,
                            .w_dtype = w->dtype,
                            .parts = 1,
                            .matrices = 1,
                            .outputs = 1,
                            .scale = 1.0f};
}

static tn_status launch(const tn_kernel_call *call, linear_arguments *a, const tn_tensor *bias,
                        const tn_tensor *residual, const tn_tensor *experts) {
  bool tiles = a->rows >= LEAST_TILE_ROWS && !a->by_expert;
  tn_opencl_launch l = tn_opencl_begin_for(call, tiles ? TN_OPENCL_LINEAR_TILE : TN_OPENCL_LINEAR_ROWS, a->w_dtype);
  a->x = tn_opencl_memory(&l, &call->inputs[0]);
  a->w = tn_opencl_memory(&l, &call->inputs[1]);
  a->bias = tn_opencl_memory(&l, bias);
  a->residual = tn_opencl_memory(&l, residual);
  a->experts = tn_opencl_memory(&l, experts);
  for (uint32_t i = 0; i < 4; i++) a->y[i] = tn_opencl_memory(&l, i < call->output_count ? &call->outputs[i] : NULL);
  a->has_bias = bias != NULL;
  a->has_residual = residual != NULL;
  tn_opencl_values(&l, a, sizeof *a);
  if (tiles) return tn_opencl_run_over(&l, a->columns, (a->rows + TILE_ROWS - 1) / TILE_ROWS, a->parts);
  return tn_opencl_run_over(&l, 1, a->columns, (uint64_t)a->rows * a->parts);
}

/* x[M,K], W[N or 2N,K], bias?, residual[M,N]? -> y[M,N], or several that share the columns */
tn_status tn_opencl_linear(const tn_kernel_call *call) {
  const tn_linear_attributes *attributes = call->attributes;
  linear_arguments a = shape_of(call);
  a.outputs = call->output_count;
  for (uint32_t i = 0; i < call->output_count; i++) {
    a.widths[i] = tn_opencl_columns(&call->outputs[i]);
    a.columns += a.widths[i];
  }
  a.y_stride = a.columns;
  a.activation = attributes->activation;
  a.gated = attributes->gated;
  a.scale = attributes->scale;
  return launch(call, &a, tn_opencl_input(call, 2), tn_opencl_input(call, 3), NULL);
}

/* x[M,K] or [M,U*K], W[E,N or 2N,K], experts[M,U], bias? -> y[M,U*N] */
tn_status tn_opencl_moe_linear(const tn_kernel_call *call) {
  const tn_moe_linear_attributes *attributes = call->attributes;
  const tn_tensor *w = &call->inputs[1], *experts = &call->inputs[2];
  linear_arguments a = shape_of(call);
  a.parts = tn_opencl_columns(experts);
  a.matrices = w->dims[0];
  a.by_expert = 1;
  a.columns = attributes->gated ? w->dims[1] / 2 : w->dims[1];
  a.x_part = attributes->each ? a.depth : 0;
  a.y_stride = a.columns;
  a.activation = attributes->activation;
  a.gated = attributes->gated;
  a.limit = attributes->limit;
  a.alpha = attributes->alpha;
  return launch(call, &a, tn_opencl_input(call, 3), NULL, experts);
}

/* x[M,H*(K+P)], W[H,N,K] -> y[M,H*(P+N)]: the products, and the P values of each head that are passed on */
tn_status tn_opencl_head_linear(const tn_kernel_call *call) {
  const tn_head_linear_attributes *attributes = call->attributes;
  linear_arguments a = shape_of(call);
  a.parts = a.matrices = call->inputs[1].dims[0];
  a.columns = call->inputs[1].dims[1];
  a.x_part = a.depth + attributes->pass;
  a.y_stride = attributes->pass + a.columns;
  a.y_begin = attributes->pass;
  tn_status status = launch(call, &a, NULL, NULL, NULL);
  if (status != TN_OK || !attributes->pass) return status;
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_COPY_COLUMNS);
  copy_arguments copy = {.x_stride = a.x_part,
                         .y_stride = a.y_stride,
                         .x_begin = a.depth,
                         .rows = a.rows * a.parts,
                         .columns = attributes->pass};
  copy.x = tn_opencl_memory(&l, &call->inputs[0]);
  tn_opencl_memory(&l, NULL);
  copy.y = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, &copy, sizeof copy);
  return tn_opencl_run_over(&l, copy.columns, copy.rows, 1);
}
