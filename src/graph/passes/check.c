/* check: every op obeys its shape rule, every value is written before it is read and only once, the result is there. */
#include "graph/passes.h"

#include <stdlib.h>

static tn_status check_op(const tn_graph *graph, const tn_graph_op *op, bool *written, tn_error *error) {
  tn_op_query query;
  char why[200];
  tn_graph_query(graph, op, &query);
  if (tn_shape_check(&query, why, sizeof why) != TN_OK)
    return tn_fail(error, TN_E_INTERNAL, "graph: %s: %s", op->name, why);
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->inputs[i] == TN_NO_VALUE) continue;
    const tn_graph_value *value = graph->values + op->inputs[i];
    if (value->kind == TN_VALUE_SCRATCH && !written[op->inputs[i]])
      return tn_fail(error, TN_E_INTERNAL, "graph: %s: %s reads value %u before it is written", op->name,
                     tn_op_info_of(op->opcode)->name, op->inputs[i]);
  }
  for (uint32_t i = 0; i < op->output_count; i++) {
    tn_ref output = op->outputs[i];
    if (graph->values[output].kind != TN_VALUE_SCRATCH || written[output])
      return tn_fail(error, TN_E_INTERNAL, "graph: %s: value %u is written twice or can't be written", op->name,
                     output);
    written[output] = true;
  }
  return TN_OK;
}

tn_status tn_pass_check(tn_graph *graph, tn_error *error) {
  if (tn_graph_status(graph, error) != TN_OK) return graph->error.status;
  bool *written = tn_calloc(graph->value_count, sizeof *written);
  if (!written) return tn_fail(error, TN_E_MEMORY, "graph: out of memory");
  tn_status status = TN_OK;
  for (size_t i = 0; i < graph->op_count && status == TN_OK; i++)
    status = check_op(graph, graph->ops + i, written, error);
  if (status == TN_OK && (graph->logits == TN_NO_VALUE || !written[graph->logits]))
    status = tn_fail(error, TN_E_INTERNAL, "graph: no logits");
  free(written);
  return status;
}
