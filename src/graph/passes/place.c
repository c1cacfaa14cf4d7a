/* place: gives every op a device: the one that its layer is wanted on if that runs it, else the fallback. A state (KV
 * pages, recurrent) lives on one device, so all ops that touch it go together: where the first of them is wanted if all
 * of them run there. */
#include "graph/passes.h"

uint32_t tn_place_wanted(const tn_place_target *target, const tn_graph_op *op) {
  const tn_layer_devices *wanted = target->wanted;
  if (!wanted) return 0;
  if (op->layer < wanted->layer_count) return wanted->layers[op->layer];
  return op->layer == TN_BEFORE_LAYERS ? wanted->before : wanted->behind;
}

static bool runs(const tn_graph *graph, const tn_place_target *target, uint32_t device, const tn_graph_op *op) {
  tn_op_query query;
  tn_graph_query(graph, op, &query);
  return target->supports(target->context, device, &query);
}

tn_ref tn_state_of(const tn_graph *graph, const tn_graph_op *op) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->inputs[i] != TN_NO_VALUE && graph->values[op->inputs[i]].kind == TN_VALUE_STATE) return op->inputs[i];
  return TN_NO_VALUE;
}

/* Does the device run every op that touches `state` (only `op` itself where it touches none)? */
static bool runs_all(const tn_graph *graph, const tn_place_target *target, uint32_t device, const tn_graph_op *op,
                     tn_ref state) {
  if (!runs(graph, target, device, op)) return false;
  for (size_t i = 0; state != TN_NO_VALUE && i < graph->op_count; i++)
    if (tn_state_of(graph, graph->ops + i) == state && !runs(graph, target, device, graph->ops + i)) return false;
  return true;
}

/* The device that the ops of a state go to if it runs them: that of the first of them, unless the caller knows better.
 */
static uint32_t wanted_for(const tn_graph *graph, const tn_place_target *target, const tn_graph_op *op, tn_ref state) {
  if (state != TN_NO_VALUE && target->at_fallback && target->at_fallback[state]) return target->fallback;
  for (size_t i = 0; state != TN_NO_VALUE && i < graph->op_count; i++)
    if (tn_state_of(graph, graph->ops + i) == state) return tn_place_wanted(target, graph->ops + i);
  return tn_place_wanted(target, op);
}

tn_status tn_pass_place(tn_graph *graph, const tn_place_target *target, tn_error *error) {
  for (size_t i = 0; i < graph->op_count; i++) {
    tn_graph_op *op = graph->ops + i;
    tn_ref state = tn_state_of(graph, op);
    op->wanted = tn_place_wanted(target, op);
    op->device = wanted_for(graph, target, op, state);
    if (!runs_all(graph, target, op->device, op, state)) op->device = target->fallback;
    if (!runs_all(graph, target, op->device, op, state))
      return tn_fail(error, TN_E_UNSUPPORTED, "%s: no device runs %s with these formats and shapes", op->name,
                     tn_op_info_of(op->opcode)->name);
  }
  return TN_OK;
}
