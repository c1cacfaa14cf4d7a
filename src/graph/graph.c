/* Values and ops of a graph, and the edits passes make (see graph.h). */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_graph *tn_graph_create(void) {
  tn_graph *graph = tn_calloc(1, sizeof *graph);
  if (!graph) return NULL;
  tn_arena_init(&graph->arena, 0);
  graph->kv_dtype = TN_F16;
  graph->logits = TN_NO_VALUE;
  graph->layer_name = "";
  graph->layer = TN_BEFORE_LAYERS;
  return graph;
}

void tn_graph_destroy(tn_graph *graph) {
  if (!graph) return;
  tn_arena_finish(&graph->arena);
  free(graph->values);
  free(graph->ops);
  free(graph);
}

tn_status tn_graph_status(const tn_graph *graph, tn_error *error) {
  if (graph->error.status != TN_OK && error) *error = graph->error;
  return graph->error.status;
}

void tn_graph_fail(tn_graph *graph, tn_status status, const char *format, ...) {
  if (graph->error.status != TN_OK) return;
  va_list list;
  va_start(list, format);
  tn_fail_list(&graph->error, status, format, list);
  va_end(list);
}

static void set_layer(tn_graph *graph, uint32_t layer, const char *name) {
  char *copy = tn_arena_copy(&graph->arena, name, strlen(name));
  graph->layer = layer;
  if (copy)
    graph->layer_name = copy;
  else
    tn_graph_fail(graph, TN_E_MEMORY, "graph: out of memory");
}

void tn_graph_begin_layer(tn_graph *graph, uint32_t layer) {
  char name[32];
  snprintf(name, sizeof name, "layer %u", layer);
  set_layer(graph, layer, name);
}

void tn_graph_end_layers(tn_graph *graph, const char *name) {
  set_layer(graph, TN_BEHIND_LAYERS, name);
}

static tn_graph_value *new_value(tn_graph *graph, const char *name, tn_ref *ref) {
  *ref = TN_NO_VALUE;
  if (graph->error.status != TN_OK) return NULL;
  tn_graph_value *value = TN_PUSH(graph->values, graph->value_count, graph->value_capacity);
  char *copy = value ? tn_arena_copy(&graph->arena, name, strlen(name)) : NULL;
  if (!copy) {
    tn_graph_fail(graph, TN_E_MEMORY, "graph: out of memory");
    return NULL;
  }
  value->name = copy;
  *ref = (tn_ref)(graph->value_count - 1);
  return value;
}

tn_ref tn_graph_weight(tn_graph *graph, const char *name, uint32_t dtype, uint32_t rank, const uint64_t *dims,
                       const tn_weight_source *sources, uint32_t source_count) {
  tn_ref ref;
  for (uint32_t d = 0; d < rank; d++)
    if (dims[d] == 0 || dims[d] > INT32_MAX)
      tn_graph_fail(graph, TN_E_LIMIT, "%s: dimension %u is %llu, expected 1 .. 2^31-1", name, d,
                    (unsigned long long)dims[d]);
  tn_graph_value *value = new_value(graph, name, &ref);
  if (!value) return ref;
  value->kind = TN_VALUE_WEIGHT;
  value->dtype = (uint8_t)dtype;
  value->rank = (uint8_t)rank;
  for (uint32_t d = 0; d < rank; d++) value->dims[d] = (int32_t)dims[d];
  tn_weight_source *copy = tn_arena_array(&graph->arena, source_count, sizeof *copy);
  if (!copy) {
    tn_graph_fail(graph, TN_E_MEMORY, "graph: out of memory");
    return ref;
  }
  if (source_count) memcpy(copy, sources, source_count * sizeof *copy);
  value->sources = copy;
  value->source_count = source_count;
  return ref;
}

tn_ref tn_graph_numbers(tn_graph *graph, const char *name, const float *numbers, uint32_t count) {
  float *copy = tn_arena_array(&graph->arena, count, sizeof *copy);
  if (!copy) {
    tn_graph_fail(graph, TN_E_MEMORY, "graph: out of memory");
    return TN_NO_VALUE;
  }
  memcpy(copy, numbers, count * sizeof *copy);
  const tn_weight_source source = {.size = sizeof source,
                                   .dtype = TN_F32,
                                   .data = copy,
                                   .rows = 1,
                                   .cols = count,
                                   .row_count = 1,
                                   .col_count = count};
  return tn_graph_weight(graph, name, TN_F32, 1, &(uint64_t){count}, &source, 1);
}

uint32_t tn_graph_group_of(tn_graph *graph, uint32_t window) {
  for (uint32_t g = 0; g < graph->group_count; g++)
    if (graph->groups[g].window == window) return g;
  if (graph->group_count == TN_MAX_GROUPS) {
    tn_graph_fail(graph, TN_E_LIMIT, "graph: more than %u layer groups", TN_MAX_GROUPS);
    return 0;
  }
  graph->groups[graph->group_count].window = window;
  return graph->group_count++;
}

tn_ref tn_graph_kv(tn_graph *graph, const char *name, uint32_t group, uint32_t kv_heads, uint32_t key_dim,
                   uint32_t value_dim) {
  tn_ref ref;
  tn_graph_value *value = new_value(graph, name, &ref);
  if (!value) return ref;
  value->kind = TN_VALUE_STATE;
  value->dtype = (uint8_t)graph->kv_dtype;
  value->rank = 4;
  value->group = group;
  const uint32_t dims[] = {kv_heads, key_dim, value_dim, TN_PAGE_SLOTS};
  for (int d = 0; d < 4; d++) value->dims[d] = (int32_t)dims[d];
  return ref;
}

tn_ref tn_graph_recurrent(tn_graph *graph, const char *name, uint32_t heads, uint32_t key_dim, uint32_t value_dim) {
  tn_ref ref;
  tn_graph_value *value = new_value(graph, name, &ref);
  if (!value) return ref;
  value->kind = TN_VALUE_STATE;
  value->dtype = TN_F32;
  value->rank = 3;
  const uint32_t dims[] = {heads, key_dim, value_dim};
  for (int d = 0; d < 3; d++) value->dims[d] = (int32_t)dims[d];
  return ref;
}

tn_ref tn_graph_scratch(tn_graph *graph, uint32_t dtype, int32_t rows, int32_t cols, const char *name) {
  tn_ref ref;
  tn_graph_value *value = new_value(graph, name, &ref);
  if (!value) return ref;
  value->kind = TN_VALUE_SCRATCH;
  value->dtype = (uint8_t)dtype;
  value->rank = 2;
  value->dims[0] = rows;
  value->dims[1] = cols;
  return ref;
}

void tn_graph_set_logits(tn_graph *graph, tn_ref logits) {
  if (graph->error.status != TN_OK) return;
  graph->logits = logits;
  graph->values[logits].is_logits = true;
}

tn_graph_op *tn_graph_insert_op(tn_graph *graph, size_t at) {
  if (!TN_PUSH(graph->ops, graph->op_count, graph->op_capacity)) {
    tn_graph_fail(graph, TN_E_MEMORY, "graph: out of memory");
    return NULL;
  }
  memmove(graph->ops + at + 1, graph->ops + at, (graph->op_count - 1 - at) * sizeof *graph->ops);
  memset(graph->ops + at, 0, sizeof *graph->ops);
  graph->ops[at].name = "";
  graph->ops[at].layer = TN_BEFORE_LAYERS;
  return graph->ops + at;
}

void tn_graph_remove_op(tn_graph *graph, size_t at) {
  memmove(graph->ops + at, graph->ops + at + 1, (graph->op_count - at - 1) * sizeof *graph->ops);
  graph->op_count--;
}

uint32_t tn_graph_uses(const tn_graph *graph, tn_ref value) {
  uint32_t uses = graph->logits == value;
  for (size_t i = 0; i < graph->op_count; i++)
    for (uint32_t k = 0; k < graph->ops[i].input_count; k++) uses += graph->ops[i].inputs[k] == value;
  return uses;
}

size_t tn_graph_producer(const tn_graph *graph, tn_ref value) {
  for (size_t i = 0; i < graph->op_count; i++)
    for (uint32_t k = 0; k < graph->ops[i].output_count; k++)
      if (graph->ops[i].outputs[k] == value) return i;
  return SIZE_MAX;
}

static void describe(const tn_graph *graph, tn_ref ref, bool unpadded, tn_value_desc *desc) {
  *desc = (tn_value_desc){0};
  if (ref == TN_NO_VALUE) return;
  const tn_graph_value *value = graph->values + ref;
  desc->present = 1;
  desc->kind = value->kind;
  desc->dtype = value->dtype;
  desc->rank = value->rank;
  memcpy(desc->dims, value->dims, sizeof desc->dims);
  if (unpadded && value->kind == TN_VALUE_SCRATCH) desc->dims[0] = TN_DIM_T;
}

bool tn_graph_unpadded(const tn_graph *graph, const tn_graph_op *op) {
  for (uint32_t i = 0; i < op->input_count && graph->pinned_rows; i++) {
    const tn_graph_value *value = op->inputs[i] == TN_NO_VALUE ? NULL : graph->values + op->inputs[i];
    if (value && value->kind == TN_VALUE_STATE && value->rank == 3) return true;
  }
  return false;
}

void tn_graph_query(const tn_graph *graph, const tn_graph_op *op, tn_op_query *query) {
  const tn_op_info *info = tn_op_info_of(op->opcode);
  *query = (tn_op_query){.size = sizeof *query,
                         .opcode = op->opcode,
                         .revision = info ? info->revision : 0,
                         .input_count = op->input_count,
                         .output_count = op->output_count,
                         .rows_min = 1,
                         .rows_max = graph->max_rows ? graph->max_rows : 1,
                         .attribute_bytes = info ? info->attribute_bytes : 0,
                         .attributes = op->attributes};
  bool unpadded = tn_graph_unpadded(graph, op);
  for (uint32_t i = 0; i < op->input_count; i++) describe(graph, op->inputs[i], unpadded, &query->inputs[i]);
  for (uint32_t i = 0; i < op->output_count; i++) describe(graph, op->outputs[i], unpadded, &query->outputs[i]);
}
