/* emit: the placed graph becomes one program for each maximal run of ops on one device; in a specialised graph ops that
 * run without padding are runs of their own. Values that cross a border become outputs of one program and inputs of
 * others. */
#include "graph/passes.h"

#include <stdlib.h>
#include <string.h>

/* What is being put together for one partition. */
typedef struct emitter {
  const tn_graph *graph;
  size_t first, last; /* ops [first, last) */
  bool unpadded;
  const bool *border;      /* values with memory of their own */
  const uint64_t *offsets; /* of scratch values */
  uint32_t *numbers;       /* graph value -> program value + 1; 0: not in this program */
  tn_value *values;
  size_t value_count, value_capacity;
  tn_op *ops;
  tn_buf attributes, names;
  tn_ref *bindings[4]; /* by tn_value_kind: graph values */
  size_t binding_counts[4], binding_capacities[4];
  bool failed;
} emitter;

static uint32_t put_name(emitter *e, const char *name) {
  uint32_t at = (uint32_t)e->names.size;
  if (!tn_buf_append(&e->names, name, strlen(name) + 1)) e->failed = true;
  return at;
}

static bool written_here(const emitter *e, tn_ref ref) {
  size_t at = tn_graph_producer(e->graph, ref);
  return at != SIZE_MAX && at >= e->first && at < e->last;
}

static tn_value_kind kind_here(const emitter *e, tn_ref ref) {
  const tn_graph_value *value = e->graph->values + ref;
  if (value->kind != TN_VALUE_SCRATCH) return (tn_value_kind)value->kind;
  if (!e->border[ref]) return TN_VALUE_SCRATCH;
  return written_here(e, ref) ? TN_VALUE_OUTPUT : TN_VALUE_INPUT;
}

/* The program's number for a graph value, made on first sight. */
static uint32_t number_of(emitter *e, tn_ref ref) {
  if (ref == TN_NO_VALUE || e->failed) return TN_NO_VALUE;
  if (e->numbers[ref]) return e->numbers[ref] - 1;
  const tn_graph_value *from = e->graph->values + ref;
  tn_value *value = TN_PUSH(e->values, e->value_count, e->value_capacity);
  if (!value) {
    e->failed = true;
    return TN_NO_VALUE;
  }
  tn_value_kind kind = kind_here(e, ref);
  value->kind = (uint8_t)kind;
  value->dtype = from->dtype;
  value->rank = from->rank;
  memcpy(value->dims, from->dims, sizeof value->dims);
  if (e->unpadded && from->kind == TN_VALUE_SCRATCH) value->dims[0] = TN_DIM_T;
  value->name = put_name(e, from->name);
  if (kind == TN_VALUE_SCRATCH) {
    value->offset = e->offsets[ref];
  } else {
    value->index = (uint32_t)e->binding_counts[kind];
    tn_ref *binding = TN_PUSH(e->bindings[kind], e->binding_counts[kind], e->binding_capacities[kind]);
    if (binding)
      *binding = ref;
    else
      e->failed = true;
  }
  e->numbers[ref] = (uint32_t)e->value_count;
  return (uint32_t)e->value_count - 1;
}

static void put_op(emitter *e, const tn_graph_op *from, tn_op *op) {
  const tn_op_info *info = tn_op_info_of(from->opcode);
  op->opcode = from->opcode;
  op->revision = info->revision;
  op->input_count = from->input_count;
  op->output_count = from->output_count;
  for (uint32_t i = 0; i < from->input_count; i++) op->inputs[i] = number_of(e, from->inputs[i]);
  for (uint32_t i = 0; i < from->output_count; i++) op->outputs[i] = number_of(e, from->outputs[i]);
  op->attributes = (uint32_t)e->attributes.size;
  op->name = put_name(e, from->name);
  if (!tn_buf_append(&e->attributes, from->attributes, info->attribute_bytes)) e->failed = true;
}

/* Lays header and arrays out in one block. */
static tn_program *assemble(emitter *e, uint64_t scratch_bytes) {
  const tn_graph *graph = e->graph;
  size_t op_count = e->last - e->first;
  size_t values = tn_round_up(sizeof(tn_program), 8), ops = values + e->value_count * sizeof(tn_value);
  size_t attributes = tn_round_up(ops + op_count * sizeof(tn_op), 8);
  size_t names = attributes + tn_round_up(e->attributes.size, 8), total = tn_round_up(names + e->names.size, 8);
  if (e->failed || total > UINT32_MAX) return NULL;
  tn_program *program = tn_calloc(total, 1);
  if (!program) return NULL;
  *program = (tn_program){.magic = TN_PROGRAM_MAGIC,
                          .version = TN_PROGRAM_VERSION,
                          .bytes = (uint32_t)total,
                          .value_count = (uint32_t)e->value_count,
                          .op_count = (uint32_t)op_count,
                          .input_count = (uint32_t)e->binding_counts[TN_VALUE_INPUT],
                          .output_count = (uint32_t)e->binding_counts[TN_VALUE_OUTPUT],
                          .weight_count = (uint32_t)e->binding_counts[TN_VALUE_WEIGHT],
                          .state_count = (uint32_t)e->binding_counts[TN_VALUE_STATE],
                          .attribute_bytes = (uint32_t)e->attributes.size,
                          .name_bytes = (uint32_t)e->names.size,
                          .values = (uint32_t)values,
                          .ops = (uint32_t)ops,
                          .attributes = (uint32_t)attributes,
                          .names = (uint32_t)names,
                          .max_rows = graph->max_rows,
                          .max_sequences = graph->max_sequences,
                          .max_logits_rows = graph->max_logits_rows,
                          .max_context = graph->max_context,
                          .scratch_bytes = scratch_bytes};
  char *base = (char *)program;
  memcpy(base + values, e->values, e->value_count * sizeof(tn_value));
  memcpy(base + ops, e->ops, op_count * sizeof(tn_op));
  memcpy(base + attributes, e->attributes.data, e->attributes.size);
  memcpy(base + names, e->names.data, e->names.size);
  return program;
}

static tn_status emit_partition(const tn_graph *graph, size_t first, size_t last, const bool *border, bool in_place,
                                tn_partition *partition, tn_error *error) {
  bool unpadded = tn_graph_unpadded(graph, graph->ops + first);
  emitter e = {.graph = graph, .first = first, .last = last, .unpadded = unpadded, .border = border};
  uint64_t *offsets = tn_calloc(graph->value_count, sizeof *offsets);
  e.numbers = tn_calloc(graph->value_count, sizeof *e.numbers);
  e.ops = tn_calloc(last - first, sizeof *e.ops);
  uint64_t scratch = offsets ? tn_plan_memory(graph, first, last, border, in_place, offsets) : 0;
  e.offsets = offsets;
  e.failed = !offsets || !e.numbers || !e.ops || !scratch;
  for (size_t i = first; i < last && !e.failed; i++) put_op(&e, graph->ops + i, e.ops + (i - first));
  partition->device = graph->ops[first].device;
  partition->is_unpadded = unpadded;
  partition->program = assemble(&e, scratch);
  partition->inputs = e.bindings[TN_VALUE_INPUT];
  partition->outputs = e.bindings[TN_VALUE_OUTPUT];
  partition->weights = e.bindings[TN_VALUE_WEIGHT];
  partition->states = e.bindings[TN_VALUE_STATE];
  free(offsets);
  free(e.numbers);
  free(e.ops);
  free(e.values);
  tn_buf_finish(&e.attributes);
  tn_buf_finish(&e.names);
  if (!partition->program) return tn_fail(error, TN_E_MEMORY, "graph: out of memory while emitting a program");
  char why[200];
  if (tn_program_check(partition->program, partition->program->bytes, why, sizeof why) != TN_OK)
    return tn_fail(error, TN_E_INTERNAL, "emit: %s", why);
  return TN_OK;
}

/* Do the op and the one before it belong to different programs? */
static bool begins_run(const tn_graph *graph, size_t at) {
  const tn_graph_op *op = graph->ops + at;
  return op->device != op[-1].device || tn_graph_unpadded(graph, op) != tn_graph_unpadded(graph, op - 1);
}

/* Marks values read in another run than they are written in, those that leave in any case, and the logits. */
static bool mark_borders(const tn_graph *graph, bool *border) {
  size_t run = 0;
  size_t *written_in = tn_calloc(graph->value_count, sizeof *written_in);
  if (!written_in) return false;
  for (size_t i = 0; i < graph->op_count; i++) {
    const tn_graph_op *op = graph->ops + i;
    if (i && begins_run(graph, i)) run++;
    for (uint32_t k = 0; k < op->input_count; k++) {
      tn_ref ref = op->inputs[k];
      if (ref != TN_NO_VALUE && graph->values[ref].kind == TN_VALUE_SCRATCH && written_in[ref] != run)
        border[ref] = true;
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
      written_in[op->outputs[k]] = run;
      if (graph->values[op->outputs[k]].leaves) border[op->outputs[k]] = true;
    }
  }
  border[graph->logits] = true;
  free(written_in);
  return true;
}

tn_status tn_pass_emit(tn_graph *graph, bool in_place, tn_plan *plan, tn_error *error) {
  *plan = (tn_plan){0};
  bool *border = tn_calloc(graph->value_count, sizeof *border);
  if (!border || !mark_borders(graph, border)) {
    free(border);
    return tn_fail(error, TN_E_MEMORY, "graph: out of memory");
  }
  size_t capacity = 0;
  tn_status status = TN_OK;
  for (size_t first = 0, last; first < graph->op_count && status == TN_OK; first = last) {
    for (last = first + 1; last < graph->op_count && !begins_run(graph, last);) last++;
    tn_partition *partition = TN_PUSH(plan->partitions, plan->partition_count, capacity);
    if (partition)
      status = emit_partition(graph, first, last, border, in_place, partition, error);
    else
      status = tn_fail(error, TN_E_MEMORY, "graph: out of memory");
  }
  free(border);
  if (status != TN_OK) tn_plan_destroy(plan);
  return status;
}

void tn_plan_destroy(tn_plan *plan) {
  for (size_t i = 0; i < plan->partition_count; i++) {
    tn_partition *partition = plan->partitions + i;
    free(partition->program);
    free(partition->inputs);
    free(partition->outputs);
    free(partition->weights);
    free(partition->states);
  }
  free(plan->partitions);
  *plan = (tn_plan){0};
}
