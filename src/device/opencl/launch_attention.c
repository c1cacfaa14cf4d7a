/* Launches of rope_table, rope, kv_write, kv_columns, attention and attention_masked. */
#include "device/opencl/internal.h"

/* frequency[rotary/2] -> y[T,rotary] */
tn_status tn_opencl_rope_table(const tn_kernel_call *call) {
  const tn_rope_table_attributes *attributes = call->attributes;
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_ROPE_TABLE);
  rope_arguments a = {.rows = call->batch->row_count, .rotary = attributes->rotary, .magnitude = attributes->magnitude};
  a.table = tn_opencl_memory(&l, &call->inputs[0]);
  a.batch = tn_opencl_batch(&l);
  a.y = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, a.rotary / 2, a.rows, 1);
}

/* x[T,H*D], table[T,rotary] -> y[T,H*D] */
tn_status tn_opencl_rope(const tn_kernel_call *call) {
  const tn_rope_attributes *attributes = call->attributes;
  const tn_tensor *x = &call->inputs[0];
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_ROPE);
  rope_arguments a = {.rows = tn_opencl_rows(x),
                      .columns = tn_opencl_columns(x),
                      .head_dim = attributes->head_dim,
                      .rotary = attributes->rotary,
                      .pairing = attributes->pairing};
  a.x = tn_opencl_memory(&l, x);
  a.table = tn_opencl_memory(&l, &call->inputs[1]);
  a.y = tn_opencl_memory(&l, &call->outputs[0]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, a.head_dim - a.rotary / 2, a.columns / a.head_dim, a.rows);
}

static kv_write_arguments write_shape(const tn_kernel_call *call) {
  const tn_kv_write_attributes *attributes = call->attributes;
  return (kv_write_arguments){.rows = tn_opencl_rows(&call->inputs[0]),
                              .group = attributes->group,
                              .kv_heads = attributes->kv_heads,
                              .key_dim = attributes->key_dim,
                              .value_dim = attributes->value_dim,
                              .rotary = attributes->rotary,
                              .pairing = attributes->pairing};
}

/* k[T,Hk*Dk], v[T,Hk*Dv], pages, table[T,rotary]? */
tn_status tn_opencl_kv_write(const tn_kernel_call *call) {
  const tn_tensor *state = &call->inputs[2];
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_KV_WRITE);
  kv_write_arguments a = write_shape(call);
  a.paged = 1;
  a.dtype = state->dtype;
  a.page_bytes = state->row_bytes;
  a.k = tn_opencl_memory(&l, &call->inputs[0]);
  a.v = tn_opencl_memory(&l, &call->inputs[1]);
  a.table = tn_opencl_memory(&l, tn_opencl_input(call, 3));
  a.batch = tn_opencl_batch(&l);
  a.keys = tn_opencl_memory(&l, state);
  tn_opencl_memory(&l, NULL);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, 1, 2 * (uint64_t)a.kv_heads, a.rows);
}

/* k[T,Hk*Dk], v[T,Hk*Dv], table[T,rotary]? -> keys[Hk,T*Dk], values[Hk,T*Dv] */
tn_status tn_opencl_kv_columns(const tn_kernel_call *call) {
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_KV_WRITE);
  kv_write_arguments a = write_shape(call);
  a.dtype = call->outputs[0].dtype;
  a.keys_row = call->outputs[0].row_bytes;
  a.values_row = call->outputs[1].row_bytes;
  a.k = tn_opencl_memory(&l, &call->inputs[0]);
  a.v = tn_opencl_memory(&l, &call->inputs[1]);
  a.table = tn_opencl_memory(&l, tn_opencl_input(call, 2));
  a.batch = tn_opencl_batch(&l);
  a.keys = tn_opencl_memory(&l, &call->outputs[0]);
  a.values = tn_opencl_memory(&l, &call->outputs[1]);
  tn_opencl_values(&l, &a, sizeof a);
  return tn_opencl_run_over(&l, 1, 2 * (uint64_t)a.kv_heads, a.rows);
}

static attention_arguments attention_shape(const tn_kernel_call *call, const tn_tensor *state, const tn_tensor *sinks) {
  const tn_attention_attributes *attributes = call->attributes;
  return (attention_arguments){.page_bytes = state->row_bytes,
                               .rows = tn_opencl_rows(&call->inputs[0]),
                               .group = attributes->group,
                               .heads = attributes->heads,
                               .kv_heads = attributes->kv_heads,
                               .key_dim = attributes->key_dim,
                               .value_dim = attributes->value_dim,
                               .dtype = state->dtype,
                               .window = attributes->window,
                               .has_sinks = sinks != NULL,
                               .slots = state->dims[3],
                               .scale = attributes->scale,
                               .softcap = attributes->softcap};
}

static tn_status run_attention(tn_opencl_launch *l, const attention_arguments *a) {
  tn_opencl_values(l, a, sizeof *a);
  tn_opencl_local(l, a->value_dim * sizeof(float));
  return tn_opencl_run_over(l, 1, a->heads, a->rows);
}

/* q[T,H*Dk], pages, sinks[H]? -> y[T,H*Dv] */
tn_status tn_opencl_attention(const tn_kernel_call *call) {
  const tn_tensor *state = &call->inputs[1], *sinks = tn_opencl_input(call, 2);
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_ATTENTION);
  attention_arguments a = attention_shape(call, state, sinks);
  a.q = tn_opencl_memory(&l, &call->inputs[0]);
  a.state = tn_opencl_memory(&l, state);
  a.sinks = tn_opencl_memory(&l, sinks);
  a.batch = tn_opencl_batch(&l);
  a.y = tn_opencl_memory(&l, &call->outputs[0]);
  return run_attention(&l, &a);
}

/* q[T,H*Dk], keys[Hk,T*Dk], values[Hk,T*Dv], KV, mask[T,L+T], sinks[H]? -> y[T,H*Dv] */
tn_status tn_opencl_attention_masked(const tn_kernel_call *call) {
  const tn_tensor *state = &call->inputs[3], *sinks = tn_opencl_input(call, 5);
  tn_opencl_launch l = tn_opencl_begin(call, TN_OPENCL_ATTENTION_MASKED);
  attention_arguments a = attention_shape(call, state, sinks);
  a.keys_row = call->inputs[1].row_bytes;
  a.values_row = call->inputs[2].row_bytes;
  a.q = tn_opencl_memory(&l, &call->inputs[0]);
  a.state = tn_opencl_memory(&l, state);
  a.sinks = tn_opencl_memory(&l, sinks);
  a.keys = tn_opencl_memory(&l, &call->inputs[1]);
  a.values = tn_opencl_memory(&l, &call->inputs[2]);
  a.mask = tn_opencl_memory(&l, &call->inputs[4]);
  a.y = tn_opencl_memory(&l, &call->outputs[0]);
  return run_attention(&l, &a);
}
