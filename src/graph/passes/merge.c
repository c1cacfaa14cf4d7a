/* merge: linears that read the same input become one. activation(x A^T) * (x B^T) becomes one gated linear; q, k and v
 * become one linear with several outputs. Only where the formats agree and the device takes the merged op. */
#include "graph/passes.h"

#include <stdio.h>
#include <string.h>

#define MAX_MERGED 4

/* A linear that is nothing but x W^T (+ bias), and whose weight and bias nobody else reads. */
static bool is_plain_linear(const tn_graph *graph, const tn_graph_op *op) {
  const tn_linear_attributes *a = (const void *)op->attributes;
  if (op->opcode != TN_OP_LINEAR || op->output_count != 1 || op->input_count > 3) return false;
  if (a->activation != TN_ACTIVATION_NONE || a->gated || a->scale != 1.0f) return false;
  for (uint32_t i = 1; i < op->input_count; i++)
    if (tn_graph_uses(graph, op->inputs[i]) != 1) return false;
  return true;
}

static bool can_merge(const tn_graph *graph, const tn_graph_op *a, const tn_graph_op *b) {
  return is_plain_linear(graph, b) && a->inputs[0] == b->inputs[0] && a->input_count == b->input_count &&
         a->device == b->device && graph->values[a->inputs[1]].dtype == graph->values[b->inputs[1]].dtype;
}

/* One weight whose rows are those of the given weights in order. */
static tn_ref stack_weights(tn_graph *graph, const tn_ref *weights, uint32_t count) {
  tn_weight_source sources[64];
  uint32_t source_count = 0;
  uint64_t rows = 0;
  char name[200] = "";
  const tn_graph_value *first = graph->values + weights[0];
  for (uint32_t i = 0; i < count; i++) {
    const tn_graph_value *value = graph->values + weights[i];
    size_t used = strlen(name);
    snprintf(name + used, sizeof name - used, "%s%s", i ? "+" : "", value->name);
    for (uint32_t s = 0; s < value->source_count; s++) {
      if (source_count == TN_COUNT(sources)) return TN_NO_VALUE;
      sources[source_count] = value->sources[s];
      /* the parts of a vector are its columns, the parts of a matrix its rows */
      sources[source_count++].into_row += rows;
    }
    rows += (uint64_t)value->dims[0];
  }
  uint64_t dims[2] = {rows, first->rank == 2 ? (uint64_t)first->dims[1] : 1};
  return tn_graph_weight(graph, name, first->dtype, first->rank, dims, sources, source_count);
}

/* Builds the merged linear of `parts`; false when the device doesn't take it. */
static bool build_merged(tn_graph *graph, const tn_place_target *target, const tn_graph_op *const *parts,
                         uint32_t count, const tn_linear_attributes *attributes, const tn_ref *outputs,
                         uint32_t output_count, tn_graph_op *merged) {
  *merged = (tn_graph_op){.opcode = TN_OP_LINEAR,
                          .name = parts[0]->name,
                          .layer = parts[0]->layer,
                          .device = parts[0]->device,
                          .input_count = parts[0]->input_count,
                          .output_count = (uint8_t)output_count};
  memcpy(merged->attributes, attributes, sizeof *attributes);
  memcpy(merged->outputs, outputs, output_count * sizeof *outputs);
  merged->inputs[0] = parts[0]->inputs[0];
  for (uint32_t k = 1; k < merged->input_count; k++) {
    tn_ref weights[MAX_MERGED];
    for (uint32_t i = 0; i < count; i++) weights[i] = parts[i]->inputs[k];
    merged->inputs[k] = stack_weights(graph, weights, count);
    if (merged->inputs[k] == TN_NO_VALUE) return false;
  }
  tn_op_query query;
  tn_graph_query(graph, merged, &query);
  return target->supports(target->context, merged->device, &query);
}

/* activation(a) * b with a and b of plain linears that nobody else reads. */
static bool merge_gated(tn_graph *graph, const tn_place_target *target, size_t at) {
  const tn_graph_op *op = graph->ops + at;
  if (op->opcode != TN_OP_ACTIVATION || op->input_count != 2) return false;
  size_t gate = tn_graph_producer(graph, op->inputs[0]), value = tn_graph_producer(graph, op->inputs[1]);
  if (gate == SIZE_MAX || value == SIZE_MAX || gate == value) return false;
  const tn_graph_op *parts[] = {graph->ops + gate, graph->ops + value};
  if (!is_plain_linear(graph, parts[0]) || !can_merge(graph, parts[0], parts[1])) return false;
  if (tn_graph_uses(graph, op->inputs[0]) != 1 || tn_graph_uses(graph, op->inputs[1]) != 1) return false;
  const tn_activation_attributes *activation = (const void *)op->attributes;
  tn_linear_attributes attributes = {sizeof attributes, activation->activation, 1, 1.0f};
  tn_graph_op merged;
  if (!build_merged(graph, target, parts, 2, &attributes, op->outputs, 1, &merged)) return false;
  graph->ops[at] = merged;
  tn_graph_remove_op(graph, gate > value ? gate : value);
  tn_graph_remove_op(graph, gate > value ? value : gate);
  return true;
}

/* The linear at `at` and those behind it with the same input. */
static bool merge_siblings(tn_graph *graph, const tn_place_target *target, size_t at) {
  if (!is_plain_linear(graph, graph->ops + at)) return false;
  size_t found[MAX_MERGED] = {at};
  const tn_graph_op *parts[MAX_MERGED] = {graph->ops + at};
  tn_ref outputs[MAX_MERGED] = {graph->ops[at].outputs[0]};
  uint32_t count = 1;
  for (size_t i = at + 1; i < graph->op_count && count < MAX_MERGED; i++) {
    if (!can_merge(graph, graph->ops + at, graph->ops + i)) continue;
    parts[count] = graph->ops + i;
    outputs[count] = graph->ops[i].outputs[0];
    found[count++] = i;
  }
  if (count < 2) return false;
  tn_linear_attributes attributes = {sizeof attributes, TN_ACTIVATION_NONE, 0, 1.0f};
  tn_graph_op merged;
  if (!build_merged(graph, target, parts, count, &attributes, outputs, count, &merged)) return false;
  graph->ops[at] = merged;
  for (uint32_t i = count - 1; i > 0; i--) tn_graph_remove_op(graph, found[i]);
  return true;
}

tn_status tn_pass_merge(tn_graph *graph, const tn_place_target *target, tn_error *error) {
  for (size_t i = 0; i < graph->op_count;) i = merge_gated(graph, target, i) ? i - 1 : i + 1;
  for (size_t i = 0; i < graph->op_count; i++) merge_siblings(graph, target, i);
  return tn_graph_status(graph, error);
}
