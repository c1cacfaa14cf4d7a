/* Launches of ops that move rows and columns, of those that work value by value, of norm and quantise. */
#include "device/opencl/internal.h"

/* table[V,K] -> y[T,K] */
tn_status tn_opencl_embed(const tn_kernel_call *call) {
  const tn_embed_attributes *attributes = call->attributes;
  const tn_tensor *table = &call->inputs[0];
  for (uint32_t row = 0; row < call->batch->row_count; row++) {
    const tn_row *r = &call->batch->rows[row];
    uint32_t index = (uint32_t)(attributes->source == TN_EMBED_TOKEN ? r->token : r->position[0]);
    if (index >= tn_opencl_rows(table)) return TN_E_INVALID;
  }
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_EMBED);
  embed_arguments a = {.table_row = table->row_bytes,
                       .columns = tn_opencl_columns(table),
                       .dtype = table->dtype,
                       .source = attributes->source,
                       .scale = attributes->scale};
  a.table = tn_opencl_memory(&l, table);
  a.batch = tn_opencl_batch(&l);
  a.y = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, (a.columns + 31) / 32, call->batch->row_count, 1);
}

/* Columns x_begin .. of x to columns y_begin .. of y; `map`: the row of x for each of y, in the batch's memory. */
static tn_status copy_columns(const tn_kernel_call *call, const tn_tensor *x, uint32_t x_begin, uint32_t columns,
                              uint32_t y_begin, bool by_logits) {
  const tn_tensor *y = &call->outputs[0];
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_COPY_COLUMNS);
  copy_arguments a = {.x_stride = tn_opencl_columns(x),
                      .y_stride = tn_opencl_columns(y),
                      .x_begin = x_begin,
                      .y_begin = y_begin,
                      .rows = tn_opencl_rows(y),
                      .columns = columns,
                      .mapped = by_logits};
  a.x = tn_opencl_memory(&l, x);
  if (by_logits)
    a.map = (uint64_t)tn_opencl_batch(&l).logits_rows * sizeof(uint32_t);
  else
    tn_opencl_memory(&l, NULL);
  a.y = tn_opencl_memory(&l, y);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, columns, a.rows, 1);
}

/* x[T,K] -> y[R,K] */
tn_status tn_opencl_select_rows(const tn_kernel_call *call) {
  return copy_columns(call, &call->inputs[0], 0, tn_opencl_columns(&call->inputs[0]), 0, true);
}

/* x[M,K] -> y[M,N] */
tn_status tn_opencl_slice(const tn_kernel_call *call) {
  const tn_slice_attributes *attributes = call->attributes;
  return copy_columns(call, &call->inputs[0], attributes->begin, tn_opencl_columns(&call->outputs[0]), 0, false);
}

/* x0[M,K0], x1[M,K1], ... -> y[M,K0+K1+..] */
tn_status tn_opencl_concat(const tn_kernel_call *call) {
  tn_status status = TN_OK;
  uint32_t begin = 0;
  for (uint32_t i = 0; i < call->input_count && status == TN_OK; i++) {
    uint32_t columns = tn_opencl_columns(&call->inputs[i]);
    status = copy_columns(call, &call->inputs[i], 0, columns, begin, false);
    begin += columns;
  }
  return status;
}

static tn_status run_values(const tn_kernel_call *call, values_arguments *a) {
  const tn_tensor *x = &call->inputs[0], *b = tn_opencl_input(call, 1);
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_VALUE_BY_VALUE);
  a->columns = tn_opencl_columns(x);
  a->count = (uint64_t)tn_opencl_rows(x) * a->columns;
  a->has_b = b != NULL;
  a->b_columns = b && b->rank == 1 ? tn_opencl_columns(b) : 0;
  a->a = tn_opencl_memory(&l, x);
  a->b = tn_opencl_memory(&l, b);
  a->y = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, a, sizeof *a);
  return tn_opencl_run_over(&l, a->count, 1, 1);
}

/* add, mul, activation, scale, softcap: a[M,K], b[M,K] or W[K] or W[1]? -> y[M,K] */
tn_status tn_opencl_value_by_value(const tn_kernel_call *call) {
  values_arguments a = {0};
  switch (call->opcode) {
    case TN_OP_ADD: a.op = VALUES_ADD; break;
    case TN_OP_MUL: a.op = VALUES_MUL; break;
    case TN_OP_ACTIVATION:
      a.op = VALUES_ACTIVATION;
      a.activation = ((const tn_activation_attributes *)call->attributes)->activation;
      break;
    default:
      a.op = call->opcode == TN_OP_SCALE ? VALUES_SCALE : VALUES_SOFTCAP;
      a.value = ((const tn_scalar_attributes *)call->attributes)->value;
  }
  return run_values(call, &a);
}

/* x[M,K] f32 -> y[M,K] q8a or bf16 */
tn_status tn_opencl_quantise(const tn_kernel_call *call) {
  const tn_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  if (y->dtype == TN_BF16) return run_values(call, &(values_arguments){.op = VALUES_BF16});
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_QUANTISE);
  quantise_arguments a = {.y_row = y->row_bytes, .rows = tn_opencl_rows(x), .columns = tn_opencl_columns(x)};
  a.x = tn_opencl_memory(&l, x);
  a.y = tn_opencl_memory(&l, y);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, (a.columns + 31) / 32, a.rows, 1);
}

/* x[M,K], weight[K or group]?, bias[K or group]? -> y[M,K] f32 or q8a */
tn_status tn_opencl_norm(const tn_kernel_call *call) {
  const tn_norm_attributes *attributes = call->attributes;
  const tn_tensor *x = &call->inputs[0], *weight = tn_opencl_input(call, 1), *bias = tn_opencl_input(call, 2);
  const tn_tensor *y = &call->outputs[0];
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_NORM);
  norm_arguments a = {.y_row = y->row_bytes,
                      .columns = tn_opencl_columns(x),
                      .weight_columns = weight ? tn_opencl_columns(weight) : 0,
                      .bias_columns = bias ? tn_opencl_columns(bias) : 0,
                      .kind = attributes->kind,
                      .to_q8a = y->dtype == TN_Q8A,
                      .epsilon = attributes->epsilon};
  a.group = attributes->group ? attributes->group : a.columns;
  a.x = tn_opencl_memory(&l, x);
  a.weight = tn_opencl_memory(&l, weight);
  a.bias = tn_opencl_memory(&l, bias);
  a.y = tn_opencl_memory(&l, y);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, 1, a.columns / a.group, tn_opencl_rows(x));
}
