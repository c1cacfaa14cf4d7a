/* Launches of the ops of expert and recurrent layers. */
#include "device/opencl/internal.h"

/* x[M,E], bias[E]?, scale[E]? -> weights[M,U], experts[M,U] */
tn_status tn_opencl_moe_route(const tn_kernel_call *call) {
  const tn_moe_route_attributes *attributes = call->attributes;
  const tn_tensor *x = &call->inputs[0], *bias = tn_opencl_input(call, 1), *scale = tn_opencl_input(call, 2);
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_MOE_ROUTE);
  route_arguments a = {.rows = tn_opencl_rows(x),
                       .count = tn_opencl_columns(x),
                       .used = tn_opencl_columns(&call->outputs[0]),
                       .scoring = attributes->scoring,
                       .normalise = attributes->normalise,
                       .groups = attributes->groups,
                       .groups_used = attributes->groups_used,
                       .has_bias = bias != NULL,
                       .has_scale = scale != NULL,
                       .scale = attributes->scale};
  a.x = tn_opencl_memory(&l, x);
  a.bias = tn_opencl_memory(&l, bias);
  a.expert_scale = tn_opencl_memory(&l, scale);
  a.weights = tn_opencl_memory(&l, &call->outputs[0]);
  a.experts = tn_opencl_memory(&l, &call->outputs[1]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, a.rows, 1, 1);
}

/* y[M,U*N], weights[M,U] -> z[M,N] */
tn_status tn_opencl_moe_combine(const tn_kernel_call *call) {
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_MOE_COMBINE);
  combine_arguments a = {.rows = tn_opencl_rows(&call->inputs[0]),
                         .columns = tn_opencl_columns(&call->outputs[0]),
                         .parts = tn_opencl_columns(&call->inputs[1])};
  a.y = tn_opencl_memory(&l, &call->inputs[0]);
  a.weights = tn_opencl_memory(&l, &call->inputs[1]);
  a.z = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, a.columns, a.rows, 1);
}

/* x[T,C], W[C*taps], state -> y[T,C] */
tn_status tn_opencl_short_conv(const tn_kernel_call *call) {
  const tn_short_conv_attributes *attributes = call->attributes;
  const tn_tensor *x = &call->inputs[0], *state = &call->inputs[2];
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_SHORT_CONV);
  conv_arguments a = {.slot_bytes = state->row_bytes,
                      .channels = tn_opencl_columns(x),
                      .taps = attributes->taps,
                      .activation = attributes->activation};
  a.x = tn_opencl_memory(&l, x);
  a.w = tn_opencl_memory(&l, &call->inputs[1]);
  a.batch = tn_opencl_batch(&l);
  a.state = tn_opencl_memory(&l, state);
  a.y = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, a.channels, call->batch->sequence_count, 1);
}

/* qkv, a, b, A, dt, state -> y[T,Hv*Dv] */
tn_status tn_opencl_delta_rule(const tn_kernel_call *call) {
  const tn_delta_rule_attributes *attributes = call->attributes;
  const tn_tensor *state = &call->inputs[5];
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_DELTA_RULE);
  delta_arguments a = {.slot_bytes = state->row_bytes,
                       .key_heads = attributes->key_heads,
                       .value_heads = attributes->value_heads,
                       .key_dim = attributes->key_dim,
                       .value_dim = attributes->value_dim,
                       .tiled = attributes->tiled,
                       .epsilon = attributes->epsilon};
  a.qkv = tn_opencl_memory(&l, &call->inputs[0]);
  a.a = tn_opencl_memory(&l, &call->inputs[1]);
  a.b = tn_opencl_memory(&l, &call->inputs[2]);
  a.decay = tn_opencl_memory(&l, &call->inputs[3]);
  a.dt = tn_opencl_memory(&l, &call->inputs[4]);
  a.batch = tn_opencl_batch(&l);
  a.state = tn_opencl_memory(&l, state);
  a.y = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, a.value_dim, a.value_heads, call->batch->sequence_count);
}
