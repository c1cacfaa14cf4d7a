/* The order of the passes. */
#include <string.h>
#include "graph/passes.h"

#define PASS_MERGE 1u
#define PASS_FUSE 2u
#define PASS_IN_PLACE 4u

/* Reads "none" or a comma list of optional passes. */
static tn_status parse_passes(const char *text, unsigned *passes, tn_error *error) {
  static const struct {
    const char *name;
    unsigned bit;
  } known[] = {{"merge", PASS_MERGE}, {"fuse", PASS_FUSE}, {"inplace", PASS_IN_PLACE}};
  *passes = PASS_MERGE | PASS_FUSE | PASS_IN_PLACE;
  if (!text) return TN_OK;
  *passes = 0;
  if (!strcmp(text, "none")) return TN_OK;
  for (const char *at = text; at;) {
    const char *comma = strchr(at, ',');
    size_t size = comma ? (size_t)(comma - at) : strlen(at);
    unsigned bit = 0;
    for (size_t i = 0; i < TN_COUNT(known); i++)
      if (strlen(known[i].name) == size && !strncmp(at, known[i].name, size)) bit = known[i].bit;
    if (!bit)
      return tn_fail(error, TN_E_INVALID,
                     "passes: unknown pass \"%.*s\", expected none or a comma list of merge, fuse, inplace", (int)size,
                     at);
    *passes |= bit;
    at = comma ? comma + 1 : NULL;
  }
  return TN_OK;
}

static void observe(const tn_pass_options *options, const char *pass, const tn_graph *graph) {
  if (options->observe) options->observe(options->observe_context, pass, graph);
}

tn_status tn_compile_graph(tn_graph *graph, const tn_place_target *target, const tn_pass_options *options,
                           tn_plan *plan, tn_error *error) {
  unsigned passes;
  *plan = (tn_plan){0};
  tn_status status = parse_passes(options->passes, &passes, error);
  if (status == TN_OK) status = tn_pass_check(graph, error);
  if (status == TN_OK && options->shape.rows) {
    status = tn_pass_specialise(graph, options->shape, error);
    if (status == TN_OK) observe(options, "specialise", graph);
  }
  if (status == TN_OK) status = tn_pass_place(graph, target, error);
  if (status == TN_OK) observe(options, "place", graph);
  if (status == TN_OK && (passes & PASS_MERGE)) {
    status = tn_pass_merge(graph, target, error);
    if (status == TN_OK) observe(options, "merge", graph);
  }
  if (status == TN_OK && options->quantise_activations) {
    status = tn_pass_quantise(graph, target, error);
    if (status == TN_OK) observe(options, "quantise", graph);
  }
  if (status == TN_OK && (passes & PASS_FUSE)) {
    status = tn_pass_fuse(graph, target, error);
    if (status == TN_OK) observe(options, "fuse", graph);
  }
  if (status == TN_OK) status = tn_pass_check(graph, error);
  if (status == TN_OK) status = tn_pass_place(graph, target, error);
  if (status == TN_OK) status = tn_pass_emit(graph, passes & PASS_IN_PLACE, plan, error);
  return status;
}

static bool is_gated(const tn_graph_op *op) {
  if (op->opcode == TN_OP_MOE_LINEAR) return ((const tn_moe_linear_attributes *)(const void *)op->attributes)->gated;
  return op->opcode == TN_OP_LINEAR && ((const tn_linear_attributes *)(const void *)op->attributes)->gated;
}

uint32_t tn_weight_uses(const tn_graph *graph, tn_ref weight, uint32_t device) {
  uint32_t uses = 0;
  for (size_t i = 0; i < graph->op_count; i++) {
    const tn_graph_op *op = graph->ops + i;
    if (op->device != device) continue;
    for (uint32_t k = 0; k < op->input_count; k++) {
      if (op->inputs[k] != weight) continue;
      if (op->opcode == TN_OP_EMBED) {
        uses |= TN_USE_EMBED;
      } else if (tn_op_is_linear(op->opcode) && k == 1) {
        uses |= graph->values[op->inputs[0]].dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR;
        if (is_gated(op)) uses |= TN_USE_GATED;
      } else {
        uses |= TN_USE_VECTOR;
      }
    }
  }
  return uses;
}
