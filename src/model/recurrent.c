/* The gated delta net (see recurrent.h). Yang et al., Gated delta networks, 2024. */
#include "model/recurrent.h"

#include <math.h>
#include <stdio.h>

#define MAX_HEADS 1024u
#define LENGTH_EPSILON 1e-6f

void tn_hyper_read_recurrent(tn_hyper_reader *reader, tn_recurrent_hyper *r) {
  r->taps = tn_hyper_u32(reader, "ssm.conv_kernel", "linear_conv_kernel_dim");
  r->key_heads = tn_hyper_u32(reader, "ssm.group_count", "linear_num_key_heads");
  r->value_heads = tn_hyper_u32(reader, "ssm.time_step_rank", "linear_num_value_heads");
  r->key_dim = tn_hyper_u32(reader, "ssm.state_size", "linear_key_head_dim");
  bool is_folder = tn_hyper_is_folder(reader);
  uint32_t inner = tn_hyper_u32_or(reader, "ssm.inner_size", NULL, r->value_heads * r->key_dim);
  uint32_t by_inner = r->value_heads ? inner / r->value_heads : 0;
  r->value_dim = is_folder ? tn_hyper_u32_or(reader, NULL, "linear_value_head_dim", r->key_dim) : by_inner;
  tn_hyper_tell(reader, "ssm.inner_size", TN_NOTE_WHOLE, r->value_heads * r->value_dim);
  tn_hyper_demand(reader, r->taps >= 2 && r->taps <= 64, "ssm.conv_kernel", "linear_conv_kernel_dim", r->taps,
                  "2 .. 64");
  tn_hyper_demand(
      reader, r->key_heads && r->value_heads <= MAX_HEADS && r->value_heads % r->key_heads == 0 && r->value_heads,
      "ssm.time_step_rank", "linear_num_value_heads", r->value_heads, "a multiple of the key heads, at most 1024");
  tn_hyper_demand(reader, r->key_dim && r->key_dim <= 1024, "ssm.state_size", "linear_key_head_dim", r->key_dim,
                  "1 .. 1024");
  tn_hyper_demand(reader, r->value_dim && r->value_dim <= 1024, "ssm.inner_size", "linear_value_head_dim", r->value_dim,
                  "1 .. 1024");
  tn_hyper_demand(reader, is_folder || inner == r->value_heads * r->value_dim, "ssm.inner_size", NULL, inner,
                  "a multiple of ssm.time_step_rank");
}

/* What the memory fades by, before softplus: GGUF has -exp(A_log), a folder A_log. */
static tn_ref decay(tn_build *build, uint32_t heads, uint32_t layer) {
  float values[MAX_HEADS];
  char name[32];
  if (!tn_container_is_folder(build->file)) return tn_build_vector(build, heads, "blk.%u.ssm_a", layer);
  if (!tn_build_read(build, heads, values, "blk.%u.ssm_a", layer)) return TN_NO_VALUE;
  for (uint32_t h = 0; h < heads; h++) values[h] = -expf(values[h]);
  snprintf(name, sizeof name, "blk.%u.ssm_a", layer);
  return tn_graph_numbers(build->graph, name, values, heads);
}

tn_ref tn_block_recurrent(tn_build *build, uint32_t layer, const tn_recurrent_hyper *r, tn_ref qkv, tn_ref z, tn_ref a,
                          tn_ref b) {
  tn_graph *graph = build->graph;
  char name[32];
  uint32_t channels = 2 * r->key_heads * r->key_dim + r->value_heads * r->value_dim;
  snprintf(name, sizeof name, "conv.%u", layer);
  tn_ref history = tn_graph_recurrent(graph, name, 1, r->taps - 1, channels);
  tn_ref taps = tn_build_flat(build, channels * r->taps, "blk.%u.ssm_conv1d.weight", layer);
  qkv = tn_short_conv(graph, qkv, taps, history, TN_ACTIVATION_SILU);
  snprintf(name, sizeof name, "delta.%u", layer);
  tn_ref memory = tn_graph_recurrent(graph, name, r->value_heads, r->key_dim, r->value_dim);
  const tn_delta_rule_attributes attributes = {sizeof attributes, r->key_heads, r->value_heads, r->key_dim,
                                               r->value_dim,      r->tiled,     LENGTH_EPSILON};
  tn_ref dt = tn_build_vector(build, r->value_heads, "blk.%u.ssm_dt.bias", layer);
  tn_ref y = tn_delta_rule(graph, qkv, a, b, decay(build, r->value_heads, layer), dt, memory, &attributes);
  y = tn_block_head_norm(build, y, r->value_dim, "ssm_norm", layer);
  return tn_block_linear(build, tn_activate(graph, z, y, TN_ACTIVATION_SILU), build->hyper->width, "ssm_out", layer);
}

/* The biases of queries and of gates, which lie head by head as their rows do. */
static void read_biases(tn_build *build, uint32_t heads, uint32_t d, uint32_t layer, tn_ref *q, tn_ref *gate) {
  char name[40];
  uint32_t count = heads * d;
  float *stored = tn_arena_array(&build->graph->arena, 2 * (size_t)count, sizeof *stored);
  float *apart = tn_arena_array(&build->graph->arena, count, sizeof *apart);
  if (!stored || !apart) {
    tn_graph_fail(build->graph, TN_E_MEMORY, "graph: out of memory");
    return;
  }
  if (!tn_build_read(build, 2 * count, stored, "blk.%u.attn_q.bias", layer)) return;
  for (uint32_t part = 0; part < 2; part++) {
    for (uint32_t i = 0; i < count; i++) apart[i] = stored[i / d * 2 * d + part * d + i % d];
    snprintf(name, sizeof name, "blk.%u.attn_q.bias[%s]", layer, part ? "gate" : "q");
    *(part ? gate : q) = tn_graph_numbers(build->graph, name, apart, count);
  }
}

tn_ref tn_block_gated_attention(tn_build *build, tn_ref x, uint32_t layer) {
  tn_graph *graph = build->graph;
  const tn_attention_block at = tn_block_attention_of(build, layer);
  uint32_t d = at.key_dim, rows = at.heads * 2 * d, width = build->hyper->width;
  tn_ref q_rows = tn_build_strided_rows(build, rows, width, 0, d, 2 * d, rows / 2, "blk.%u.attn_q.weight", layer);
  tn_ref gate_rows = tn_build_strided_rows(build, rows, width, d, d, 2 * d, rows / 2, "blk.%u.attn_q.weight", layer);
  tn_ref q_bias = TN_NO_VALUE, gate_bias = TN_NO_VALUE;
  if (tn_build_has(build, "blk.%u.attn_q.bias", layer)) read_biases(build, at.heads, d, layer, &q_bias, &gate_bias);
  tn_ref q = tn_linear(graph, x, q_rows, q_bias), gate = tn_linear(graph, x, gate_rows, gate_bias);
  tn_ref k = tn_block_linear(build, x, at.kv_heads * d, "attn_k", layer);
  tn_ref v = tn_block_linear(build, x, at.kv_heads * at.value_dim, "attn_v", layer);
  q = tn_block_head_norm(build, q, d, "attn_q_norm", layer);
  k = tn_block_head_norm(build, k, d, "attn_k_norm", layer);
  tn_ref y = tn_block_attend(build, layer, q, k, v, &at);
  return tn_block_linear(build, tn_activate(graph, gate, y, TN_ACTIVATION_SIGMOID), width, "attn_output", layer);
}
