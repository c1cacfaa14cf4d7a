/* quantise: where the weight of a linear (or moe_linear, head_linear) is in a quantised format and its device takes
 * 8-bit activations, or the weight is in bf16 and its device takes such activations, the input goes through one
 * `quantise`, shared by all that read it. */
#include "graph/passes.h"

/* What the activations that meet weights of `dtype` become. */
static tn_dtype activations_for(uint32_t dtype) {
  switch (dtype) {
    case TN_F32:
    case TN_F16:
    case TN_F64:
    case TN_F8_E4M3:
    case TN_F8_E5M2: return TN_F32;
    case TN_BF16: return TN_BF16;
    default: return TN_Q8A;
  }
}

/* The dtype that the input of `op` is to have on its device; TN_F32: it stays. */
static tn_dtype wanted(const tn_graph *graph, const tn_place_target *target, const tn_graph_op *op) {
  if (!tn_op_is_linear(op->opcode) || graph->values[op->inputs[0]].dtype != TN_F32) return TN_F32;
  tn_dtype dtype = activations_for(graph->values[op->inputs[1]].dtype);
  tn_op_query query;
  tn_graph_query(graph, op, &query);
  query.inputs[0].dtype = (uint8_t)dtype;
  if (dtype == TN_F32 || tn_shape_check(&query, NULL, 0) != TN_OK) return TN_F32;
  return target->supports(target->context, op->device, &query) ? dtype : TN_F32;
}

/* `x` as `dtype` on `device`, made by an op before `at`, or none. */
static tn_ref find_quantised(const tn_graph *graph, tn_ref x, tn_dtype dtype, uint32_t device, size_t at) {
  for (size_t i = 0; i < at; i++) {
    const tn_graph_op *op = graph->ops + i;
    if (op->opcode == TN_OP_QUANTISE && op->device == device && op->inputs[0] == x &&
        graph->values[op->outputs[0]].dtype == dtype)
      return op->outputs[0];
  }
  return TN_NO_VALUE;
}

tn_status tn_pass_quantise(tn_graph *graph, const tn_place_target *target, tn_error *error) {
  for (size_t i = 0; i < graph->op_count && graph->error.status == TN_OK; i++) {
    tn_dtype dtype = wanted(graph, target, graph->ops + i);
    if (dtype == TN_F32) continue;
    tn_ref x = graph->ops[i].inputs[0];
    uint32_t device = graph->ops[i].device;
    tn_ref quantised = find_quantised(graph, x, dtype, device, i);
    if (quantised == TN_NO_VALUE) {
      const tn_graph_value *value = graph->values + x;
      quantised = tn_graph_scratch(graph, dtype, value->dims[0], value->dims[1], "");
      tn_graph_op *op = quantised == TN_NO_VALUE ? NULL : tn_graph_insert_op(graph, i);
      if (!op) break;
      i++; /* the linear has moved up by one */
      op->opcode = TN_OP_QUANTISE;
      op->name = graph->ops[i].name;
      op->layer = graph->ops[i].layer;
      op->device = device;
      op->input_count = op->output_count = 1;
      op->inputs[0] = x;
      op->outputs[0] = quantised;
      *(tn_no_attributes *)(void *)op->attributes = (tn_no_attributes){sizeof(tn_no_attributes)};
    }
    graph->ops[i].inputs[0] = quantised;
  }
  return tn_graph_status(graph, error);
}
