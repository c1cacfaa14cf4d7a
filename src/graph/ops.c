/* The builder: one function an op (see graph.h and ops.def). */
#include <string.h>
#include "graph/graph.h"

/* Appends an op with these inputs (trailing absent ones are dropped) and its attributes. NULL once the graph has
 * failed. */
static tn_graph_op *append(tn_graph *graph, uint32_t opcode, const void *attributes, size_t attribute_bytes,
                           const tn_ref *inputs, uint32_t input_count) {
  if (graph->error.status != TN_OK) return NULL;
  tn_graph_op *op = tn_graph_insert_op(graph, graph->op_count);
  if (!op) return NULL;
  op->opcode = (uint16_t)opcode;
  op->name = graph->layer_name;
  op->layer = graph->layer;
  while (input_count && inputs[input_count - 1] == TN_NO_VALUE) input_count--;
  op->input_count = (uint8_t)input_count;
  memcpy(op->inputs, inputs, input_count * sizeof *inputs);
  memcpy(op->attributes, attributes, attribute_bytes);
  return op;
}

#define APPEND(graph, opcode, attributes, ...)                                            \
  append(graph, opcode, &(attributes), sizeof(attributes), (const tn_ref[]){__VA_ARGS__}, \
         sizeof((const tn_ref[]){__VA_ARGS__}) / sizeof(tn_ref))

/* Fails the graph where the op breaks its shape rule. */
static void check_shape(tn_graph *graph, const tn_graph_op *op) {
  tn_op_query query;
  char why[200];
  tn_graph_query(graph, op, &query);
  if (tn_shape_check(&query, why, sizeof why) != TN_OK)
    tn_graph_fail(graph, TN_E_INVALID, "graph: %s: %s", op->name, why);
}

/* Gives the op just appended one f32 output and checks the whole against the shape rule. */
static tn_ref finish(tn_graph *graph, tn_graph_op *op, int32_t rows, uint32_t cols) {
  if (!op) return TN_NO_VALUE;
  tn_ref output = tn_graph_scratch(graph, TN_F32, rows, (int32_t)cols, "");
  if (output == TN_NO_VALUE) return output;
  op->outputs[0] = output;
  op->output_count = 1;
  check_shape(graph, op);
  return output;
}

static int32_t rows_of(const tn_graph *graph, tn_ref x) {
  return graph->error.status == TN_OK ? graph->values[x].dims[0] : 0;
}
static uint32_t cols_of(const tn_graph *graph, tn_ref x) {
  return graph->error.status == TN_OK ? tn_graph_cols(graph, x) : 0;
}

tn_ref tn_embed(tn_graph *graph, tn_ref table, tn_embed_source source, float scale) {
  tn_embed_attributes a = {sizeof a, source, scale};
  return finish(graph, APPEND(graph, TN_OP_EMBED, a, table), TN_DIM_T, cols_of(graph, table));
}

tn_ref tn_select_rows(tn_graph *graph, tn_ref x) {
  tn_no_attributes a = {sizeof a};
  return finish(graph, APPEND(graph, TN_OP_SELECT_ROWS, a, x), TN_DIM_R, cols_of(graph, x));
}

tn_ref tn_linear(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref bias) {
  tn_linear_attributes a = {sizeof a, TN_ACTIVATION_NONE, 0, 1.0f};
  return finish(graph, APPEND(graph, TN_OP_LINEAR, a, x, weight, bias), rows_of(graph, x),
                (uint32_t)rows_of(graph, weight));
}

tn_ref tn_norm(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref bias, tn_norm_kind kind, uint32_t group,
               float epsilon) {
  tn_norm_attributes a = {sizeof a, kind, group, epsilon};
  return finish(graph, APPEND(graph, TN_OP_NORM, a, x, weight, bias), rows_of(graph, x), cols_of(graph, x));
}

tn_ref tn_add(tn_graph *graph, tn_ref a, tn_ref b) {
  tn_no_attributes none = {sizeof none};
  return finish(graph, APPEND(graph, TN_OP_ADD, none, a, b), rows_of(graph, a), cols_of(graph, a));
}

tn_ref tn_mul(tn_graph *graph, tn_ref a, tn_ref b) {
  tn_no_attributes none = {sizeof none};
  return finish(graph, APPEND(graph, TN_OP_MUL, none, a, b), rows_of(graph, a), cols_of(graph, a));
}

tn_ref tn_activate(tn_graph *graph, tn_ref x, tn_ref b, tn_activation activation) {
  tn_activation_attributes a = {sizeof a, activation};
  return finish(graph, APPEND(graph, TN_OP_ACTIVATION, a, x, b), rows_of(graph, x), cols_of(graph, x));
}

tn_ref tn_scale(tn_graph *graph, tn_ref x, float value) {
  tn_scalar_attributes a = {sizeof a, value};
  return finish(graph, APPEND(graph, TN_OP_SCALE, a, x), rows_of(graph, x), cols_of(graph, x));
}

tn_ref tn_softcap(tn_graph *graph, tn_ref x, float cap) {
  tn_scalar_attributes a = {sizeof a, cap};
  return finish(graph, APPEND(graph, TN_OP_SOFTCAP, a, x), rows_of(graph, x), cols_of(graph, x));
}

tn_ref tn_slice(tn_graph *graph, tn_ref x, uint32_t begin, uint32_t cols) {
  tn_slice_attributes a = {sizeof a, begin};
  return finish(graph, APPEND(graph, TN_OP_SLICE, a, x), rows_of(graph, x), cols);
}

tn_ref tn_rope_table(tn_graph *graph, tn_ref frequencies, float magnitude) {
  uint32_t rotary = 2 * cols_of(graph, frequencies);
  tn_rope_table_attributes a = {sizeof a, rotary, magnitude};
  return finish(graph, APPEND(graph, TN_OP_ROPE_TABLE, a, frequencies), TN_DIM_T, rotary);
}

tn_ref tn_rope(tn_graph *graph, tn_ref x, tn_ref table, uint32_t head_dim, tn_rope_pairing pairing) {
  tn_rope_attributes a = {sizeof a, head_dim, cols_of(graph, table), pairing};
  return finish(graph, APPEND(graph, TN_OP_ROPE, a, x, table), rows_of(graph, x), cols_of(graph, x));
}

void tn_kv_write(tn_graph *graph, tn_ref k, tn_ref v, tn_ref kv) {
  if (graph->error.status != TN_OK) return;
  const tn_graph_value *state = graph->values + kv;
  tn_kv_write_attributes a = {
      sizeof a, state->group, (uint32_t)state->dims[0], (uint32_t)state->dims[1], (uint32_t)state->dims[2],
      0,        TN_ROPE_HALF};
  tn_graph_op *op = APPEND(graph, TN_OP_KV_WRITE, a, k, v, kv);
  if (op) check_shape(graph, op);
}

tn_ref tn_attention(tn_graph *graph, tn_ref q, tn_ref kv, tn_ref sinks, uint32_t heads, float scale, float softcap) {
  if (graph->error.status != TN_OK) return TN_NO_VALUE;
  const tn_graph_value *state = graph->values + kv;
  tn_attention_attributes a = {.size = sizeof a,
                               .group = state->group,
                               .heads = heads,
                               .kv_heads = (uint32_t)state->dims[0],
                               .key_dim = (uint32_t)state->dims[1],
                               .value_dim = (uint32_t)state->dims[2],
                               .scale = scale,
                               .softcap = softcap,
                               .window = graph->groups[state->group].window};
  return finish(graph, APPEND(graph, TN_OP_ATTENTION, a, q, kv, sinks), TN_DIM_T, heads * a.value_dim);
}

tn_ref tn_moe_route(tn_graph *graph, tn_ref scores, tn_ref bias, tn_ref expert_scale, uint32_t used,
                    const tn_moe_route_attributes *attributes, tn_ref *experts) {
  *experts = TN_NO_VALUE;
  tn_graph_op *op = APPEND(graph, TN_OP_MOE_ROUTE, *attributes, scores, bias, expert_scale);
  if (!op) return TN_NO_VALUE;
  tn_ref weights = tn_graph_scratch(graph, TN_F32, rows_of(graph, scores), (int32_t)used, "");
  *experts = tn_graph_scratch(graph, TN_I32, rows_of(graph, scores), (int32_t)used, "");
  op->outputs[0] = weights;
  op->outputs[1] = *experts;
  op->output_count = 2;
  if (*experts != TN_NO_VALUE) check_shape(graph, op);
  return weights;
}

tn_ref tn_moe_linear(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref experts, tn_ref bias,
                     const tn_moe_linear_attributes *attributes) {
  tn_graph_op *op = APPEND(graph, TN_OP_MOE_LINEAR, *attributes, x, weight, experts, bias);
  if (!op) return TN_NO_VALUE;
  uint32_t rows = (uint32_t)graph->values[weight].dims[1] / (attributes->gated ? 2 : 1);
  return finish(graph, op, rows_of(graph, x), rows * cols_of(graph, experts));
}

tn_ref tn_moe_combine(tn_graph *graph, tn_ref y, tn_ref weights) {
  tn_no_attributes a = {sizeof a};
  uint32_t used = cols_of(graph, weights);
  return finish(graph, APPEND(graph, TN_OP_MOE_COMBINE, a, y, weights), rows_of(graph, y),
                used ? cols_of(graph, y) / used : 0);
}

tn_ref tn_concat(tn_graph *graph, const tn_ref *parts, uint32_t count) {
  tn_no_attributes a = {sizeof a};
  uint32_t cols = 0;
  for (uint32_t i = 0; i < count; i++) cols += cols_of(graph, parts[i]);
  return finish(graph, append(graph, TN_OP_CONCAT, &a, sizeof a, parts, count), rows_of(graph, parts[0]), cols);
}

tn_ref tn_short_conv(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref state, tn_activation activation) {
  if (graph->error.status != TN_OK) return TN_NO_VALUE;
  tn_short_conv_attributes a = {sizeof a, (uint32_t)graph->values[state].dims[1] + 1, activation};
  return finish(graph, APPEND(graph, TN_OP_SHORT_CONV, a, x, weight, state), TN_DIM_T, cols_of(graph, x));
}

tn_ref tn_delta_rule(tn_graph *graph, tn_ref qkv, tn_ref a, tn_ref b, tn_ref decay, tn_ref dt, tn_ref state,
                     const tn_delta_rule_attributes *attributes) {
  return finish(graph, APPEND(graph, TN_OP_DELTA_RULE, *attributes, qkv, a, b, decay, dt, state), TN_DIM_T,
                attributes->value_heads * attributes->value_dim);
}

tn_ref tn_head_linear(tn_graph *graph, tn_ref x, tn_ref weight, uint32_t pass) {
  if (graph->error.status != TN_OK) return TN_NO_VALUE;
  tn_head_linear_attributes a = {sizeof a, pass};
  const int32_t *dims = graph->values[weight].dims;
  return finish(graph, APPEND(graph, TN_OP_HEAD_LINEAR, a, x, weight), rows_of(graph, x),
                (uint32_t)dims[0] * (pass + (uint32_t)dims[1]));
}
