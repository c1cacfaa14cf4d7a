/* fuse: two ops become one variant of one of them, where the device takes it: linear + activation, linear + scale,
 * linear + residual add, rope + kv_write (or kv_columns), norm + quantise. Every fused form has a reference kernel and
 * does the same arithmetic. */
#include "graph/passes.h"

#include <string.h>

typedef struct fuse_state {
  tn_graph *graph;
  const tn_place_target *target;
} fuse_state;

/* The op that writes `value`, if it is a `opcode`, has one output and nobody but one op reads it; else SIZE_MAX. */
static size_t only_producer(const tn_graph *graph, tn_ref value, uint32_t opcode, uint32_t device) {
  if (value == TN_NO_VALUE || tn_graph_uses(graph, value) != 1) return SIZE_MAX;
  size_t at = tn_graph_producer(graph, value);
  if (at == SIZE_MAX) return SIZE_MAX;
  const tn_graph_op *op = graph->ops + at;
  return op->opcode == opcode && op->output_count == 1 && op->device == device ? at : SIZE_MAX;
}

/* Puts `fused` in the place of the op at `at` and removes the op at `gone`, if the device runs it. */
static bool apply(fuse_state *state, const tn_graph_op *fused, size_t at, size_t gone) {
  tn_op_query query;
  tn_graph_query(state->graph, fused, &query);
  if (!state->target->supports(state->target->context, fused->device, &query)) return false;
  state->graph->ops[at] = *fused;
  tn_graph_remove_op(state->graph, gone);
  return true;
}

static bool fuse_activation(fuse_state *state, size_t at) {
  const tn_graph_op *op = state->graph->ops + at;
  if (op->opcode != TN_OP_ACTIVATION || op->input_count != 1) return false;
  size_t from = only_producer(state->graph, op->inputs[0], TN_OP_LINEAR, op->device);
  if (from == SIZE_MAX) return false;
  tn_graph_op fused = state->graph->ops[from];
  tn_linear_attributes *a = (void *)fused.attributes;
  if (a->activation != TN_ACTIVATION_NONE || a->gated || a->scale != 1.0f || fused.input_count > 3) return false;
  a->activation = ((const tn_activation_attributes *)(const void *)op->attributes)->activation;
  fused.outputs[0] = op->outputs[0];
  return apply(state, &fused, at, from);
}

static bool fuse_scale(fuse_state *state, size_t at) {
  const tn_graph_op *op = state->graph->ops + at;
  if (op->opcode != TN_OP_SCALE) return false;
  size_t from = only_producer(state->graph, op->inputs[0], TN_OP_LINEAR, op->device);
  if (from == SIZE_MAX) return false;
  tn_graph_op fused = state->graph->ops[from];
  tn_linear_attributes *a = (void *)fused.attributes;
  if (a->scale != 1.0f || fused.input_count > 3) return false;
  a->scale = ((const tn_scalar_attributes *)(const void *)op->attributes)->value;
  fused.outputs[0] = op->outputs[0];
  return apply(state, &fused, at, from);
}

static bool fuse_residual(fuse_state *state, size_t at) {
  const tn_graph_op *op = state->graph->ops + at;
  if (op->opcode != TN_OP_ADD || state->graph->values[op->inputs[1]].kind == TN_VALUE_WEIGHT) return false;
  for (int side = 1; side >= 0; side--) {
    size_t from = only_producer(state->graph, op->inputs[side], TN_OP_LINEAR, op->device);
    if (from == SIZE_MAX || state->graph->ops[from].input_count > 3) continue;
    tn_graph_op fused = state->graph->ops[from];
    while (fused.input_count < 3) fused.inputs[fused.input_count++] = TN_NO_VALUE;
    fused.inputs[fused.input_count++] = op->inputs[!side];
    fused.outputs[0] = op->outputs[0];
    return apply(state, &fused, at, from);
  }
  return false;
}

static bool fuse_rope(fuse_state *state, size_t at) {
  const tn_graph_op *op = state->graph->ops + at;
  /* kv_columns is the same without the state */
  uint8_t unturned = op->opcode == TN_OP_KV_WRITE ? 3 : op->opcode == TN_OP_KV_COLUMNS ? 2 : 0;
  if (!unturned || op->input_count != unturned) return false;
  size_t from = only_producer(state->graph, op->inputs[0], TN_OP_ROPE, op->device);
  if (from == SIZE_MAX) return false;
  const tn_graph_op *rope = state->graph->ops + from;
  const tn_rope_attributes *r = (const void *)rope->attributes;
  tn_graph_op fused = *op;
  tn_kv_write_attributes *a = (void *)fused.attributes;
  if (r->head_dim != a->key_dim) return false;
  a->rotary = r->rotary;
  a->pairing = r->pairing;
  fused.inputs[0] = rope->inputs[0];
  fused.inputs[fused.input_count++] = rope->inputs[1];
  return apply(state, &fused, at, from);
}

static bool fuse_quantise(fuse_state *state, size_t at) {
  const tn_graph_op *op = state->graph->ops + at;
  if (op->opcode != TN_OP_QUANTISE) return false;
  size_t from = only_producer(state->graph, op->inputs[0], TN_OP_NORM, op->device);
  if (from == SIZE_MAX) return false;
  tn_graph_op fused = state->graph->ops[from];
  fused.outputs[0] = op->outputs[0];
  return apply(state, &fused, at, from);
}

tn_status tn_pass_fuse(tn_graph *graph, const tn_place_target *target, tn_error *error) {
  static bool (*const rules[])(fuse_state *, size_t) = {fuse_activation, fuse_scale, fuse_residual, fuse_rope,
                                                        fuse_quantise};
  fuse_state state = {graph, target};
  for (size_t rule = 0; rule < TN_COUNT(rules); rule++)
    for (size_t i = 0; i < graph->op_count;) i = rules[rule](&state, i) ? (i ? i - 1 : 0) : i + 1;
  return tn_graph_status(graph, error);
}
