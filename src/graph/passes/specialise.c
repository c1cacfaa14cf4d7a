/* specialise: a graph for any rows becomes one for a number of rows of one sequence over contiguous KV (see passes.h).
 * What the rows of a step have in common with no other step - their positions, and which columns they see - goes into
 * inputs; the ops left over know nothing of sequences and pages. Those with a recurrent state do: padding would move it
 * on, so they are made programs of their own, which run on the step's rows alone (tn_graph_unpadded). */
#include "graph/passes.h"

#include <string.h>

static void pin_values(tn_graph *graph, tn_fixed_shape shape) {
  for (tn_ref ref = 0; ref < graph->value_count; ref++) {
    tn_graph_value *value = graph->values + ref;
    if (value->dims[0] == TN_DIM_T) value->dims[0] = (int32_t)shape.rows;
    if (value->kind == TN_VALUE_STATE && value->rank == 4) value->dims[3] = (int32_t)shape.length;
  }
  graph->pinned_rows = shape.rows;
  graph->max_rows = shape.rows;
  graph->max_sequences = 1;
  graph->max_context = shape.length + shape.rows; /* the padding rows count */
  if (graph->max_logits_rows > shape.rows) graph->max_logits_rows = shape.rows;
}

/* The mask for a window: one serves all layers that have it. */
static tn_ref mask_for(tn_graph *graph, tn_fixed_shape shape, uint32_t window) {
  for (tn_ref ref = 0; ref < graph->value_count; ref++)
    if (graph->values[ref].feed == TN_FEED_MASK && graph->values[ref].window == window) return ref;
  tn_ref mask =
      tn_graph_scratch(graph, TN_F32, (int32_t)shape.rows, (int32_t)(shape.length + shape.rows), "attention_mask");
  if (mask == TN_NO_VALUE) return mask;
  graph->values[mask].kind = TN_VALUE_INPUT;
  graph->values[mask].feed = TN_FEED_MASK;
  graph->values[mask].window = window;
  return mask;
}

static void feed_rope_table(tn_graph *graph, const tn_graph_op *op) {
  tn_graph_value *table = graph->values + op->outputs[0];
  table->kind = TN_VALUE_INPUT;
  table->feed = TN_FEED_ROPE;
  table->frequencies = op->inputs[0];
  table->magnitude = ((const tn_rope_table_attributes *)(const void *)op->attributes)->magnitude;
}

/* k, v, state, table? -> keys, values = k, v, table? */
static void make_columns(tn_graph *graph, tn_fixed_shape shape, size_t at) {
  static const char *const names[] = {"new_keys", "new_values"};
  tn_ref state = graph->ops[at].inputs[2];
  const tn_kv_write_attributes *a = (const void *)graph->ops[at].attributes;
  const uint32_t dims[] = {a->key_dim, a->value_dim};
  for (uint32_t i = 0; i < 2; i++) {
    tn_ref columns = tn_graph_scratch(graph, graph->values[state].dtype, (int32_t)a->kv_heads,
                                      (int32_t)(shape.rows * dims[i]), names[i]);
    if (columns == TN_NO_VALUE) return;
    graph->values[columns].leaves = true;
    graph->values[state].columns[i] = columns;
    graph->ops[at].outputs[i] = columns;
  }
  tn_graph_op *op = graph->ops + at;
  op->opcode = TN_OP_KV_COLUMNS;
  op->output_count = 2;
  op->inputs[2] = op->inputs[3];
  op->input_count--;
}

/* q, state, sinks? -> y = q, keys, values, state, mask, sinks? */
static void make_masked(tn_graph *graph, tn_fixed_shape shape, size_t at) {
  tn_graph_op *op = graph->ops + at;
  tn_attention_attributes *a = (void *)op->attributes;
  tn_ref state = op->inputs[1], sinks = op->input_count > 2 ? op->inputs[2] : TN_NO_VALUE;
  const tn_ref inputs[] = {op->inputs[0], graph->values[state].columns[0],   graph->values[state].columns[1],
                           state,         mask_for(graph, shape, a->window), sinks};
  memcpy(op->inputs, inputs, sizeof inputs);
  op->input_count = sinks == TN_NO_VALUE ? 5 : 6;
  op->opcode = TN_OP_ATTENTION_MASKED;
  a->window = 0;
}

tn_status tn_pass_specialise(tn_graph *graph, tn_fixed_shape shape, tn_error *error) {
  pin_values(graph, shape);
  for (size_t i = 0; i < graph->op_count && graph->error.status == TN_OK; i++) {
    switch (graph->ops[i].opcode) {
      case TN_OP_ROPE_TABLE:
        feed_rope_table(graph, graph->ops + i);
        tn_graph_remove_op(graph, i--);
        break;
      case TN_OP_KV_WRITE: make_columns(graph, shape, i); break;
      case TN_OP_ATTENTION: make_masked(graph, shape, i); break;
      default: break;
    }
  }
  return tn_graph_status(graph, error);
}
