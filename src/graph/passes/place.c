/* place: gives every op the first device that runs it. The KV pages of a layer live on one device, so all ops that
 * touch a state go where the first device runs all of them. */
#include "graph/passes.h"

static bool runs(const tn_graph *graph, const tn_place_target *target, uint32_t device, const tn_graph_op *op) {
  tn_op_query query;
  tn_graph_query(graph, op, &query);
  return target->supports(target->context, device, &query);
}

static tn_ref state_of(const tn_graph *graph, const tn_graph_op *op) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->inputs[i] != TN_NO_VALUE && graph->values[op->inputs[i]].kind == TN_VALUE_STATE) return op->inputs[i];
  return TN_NO_VALUE;
}

/* Does the device run every op that touches `state` (only `op` itself where it touches none)? */
static bool runs_all(const tn_graph *graph, const tn_place_target *target, uint32_t device, const tn_graph_op *op,
                     tn_ref state) {
  if (!runs(graph, target, device, op)) return false;
  for (size_t i = 0; state != TN_NO_VALUE && i < graph->op_count; i++)
    if (state_of(graph, graph->ops + i) == state && !runs(graph, target, device, graph->ops + i)) return false;
  return true;
}

tn_status tn_pass_place(tn_graph *graph, const tn_place_target *target, tn_error *error) {
  for (size_t i = 0; i < graph->op_count; i++) {
    tn_graph_op *op = graph->ops + i;
    tn_ref state = state_of(graph, op);
    uint32_t device = 0;
    while (device < target->device_count && !runs_all(graph, target, device, op, state)) device++;
    if (device == target->device_count)
      return tn_fail(error, TN_E_UNSUPPORTED, "%s: no device runs %s with these formats and shapes", op->name,
                     tn_op_info_of(op->opcode)->name);
    op->device = device;
  }
  return TN_OK;
}
