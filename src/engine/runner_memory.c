/* What a runner takes of its devices: borders, scratch, executables. KV and recurrent states are runner_states.c, the
 * weights runner_weights.c. */
#include <stdlib.h>
#include "engine/runner_internal.h"

tn_status tn_runner_take(tn_runner *runner, uint32_t device, uint64_t bytes, tn_buffer **buffer, tn_error *error) {
  return runner->options.plan_only ? TN_OK : tn_device_alloc(opened_of(runner, device), bytes, buffer, error);
}

/* ---- borders, scratch, executables ---- */

uint64_t tn_runner_border_bytes(const tn_graph *graph, tn_ref value) {
  const tn_graph_value *v = graph->values + value;
  uint64_t rows = v->dims[0] > 0           ? (uint64_t)v->dims[0]
                  : v->dims[0] == TN_DIM_R ? graph->max_logits_rows
                                           : graph->max_rows;
  return rows * tn_row_bytes(v->dtype, tn_graph_cols(graph, value));
}

/* The memory of a border value on a device, allocated on first use. */
static tn_status border_on(tn_runner *runner, runner_shape *shape, tn_ref value, uint32_t device, tn_binding *binding,
                           tn_error *error) {
  border_value *border = NULL;
  for (size_t i = 0; i < shape->border_count; i++)
    if (shape->borders[i].value == value) border = shape->borders + i;
  if (!border) {
    border = TN_PUSH(shape->borders, shape->border_count, shape->border_capacity);
    if (!border) return tn_fail(error, TN_E_MEMORY, "out of memory");
    border->value = value;
    border->row_bytes = tn_row_bytes(shape->graph->values[value].dtype, tn_graph_cols(shape->graph, value));
    border->bytes = tn_runner_border_bytes(shape->graph, value);
    size_t producer = tn_graph_producer(shape->graph, value);
    border->writer = producer == SIZE_MAX ? 0 : shape->graph->ops[producer].device;
  }
  if (!border->on_device[device]) {
    uint64_t sets = value == shape->graph->logits ? runner->logits_sets : 1;
    tn_status status = tn_runner_take(runner, device, border->bytes * sets, &border->buffers[device], error);
    if (status != TN_OK) return status;
    border->on_device[device] = true;
    runner->info.arena_bytes += border->bytes * sets;
  }
  *binding = (tn_binding){border->buffers[device], 0, border->bytes};
  return TN_OK;
}

static tn_status allocate_scratch(tn_runner *runner, tn_error *error) {
  for (uint32_t s = 0; s < runner->shape_count; s++) {
    const tn_plan *plan = &runner->shapes[s].plan;
    for (size_t p = 0; p < plan->partition_count; p++) {
      const tn_partition *partition = plan->partitions + p;
      runner_device *on = runner->devices + partition->device;
      if (partition->program->scratch_bytes > on->scratch_bytes) on->scratch_bytes = partition->program->scratch_bytes;
    }
  }
  tn_status status = TN_OK;
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++) {
    runner_device *on = runner->devices + device;
    if (!on->scratch_bytes) continue;
    status = tn_runner_take(runner, device, on->scratch_bytes, &on->scratch, error);
    runner->info.arena_bytes += on->scratch_bytes;
  }
  return status;
}

static tn_status prepare_part(tn_runner *runner, runner_shape *shape, runner_part *part, const tn_partition *partition,
                              tn_error *error) {
  const tn_program *program = partition->program;
  uint32_t device = partition->device;
  part->partition = partition;
  part->inputs = tn_calloc(program->input_count, sizeof *part->inputs);
  part->outputs = tn_calloc(program->output_count, sizeof *part->outputs);
  part->states = tn_calloc(program->state_count, sizeof *part->states);
  part->carried = tn_calloc(program->input_count, sizeof *part->carried);
  tn_weight_binding *weights = tn_calloc(program->weight_count, sizeof *weights);
  tn_status status = TN_OK;
  if (!part->inputs || !part->outputs || !part->states || !part->carried || !weights)
    status = tn_fail(error, TN_E_MEMORY, "out of memory");
  for (uint32_t i = 0; status == TN_OK && i < program->input_count; i++)
    status = border_on(runner, shape, partition->inputs[i], device, part->inputs + i, error);
  for (uint32_t i = 0; status == TN_OK && i < program->output_count; i++)
    status = border_on(runner, shape, partition->outputs[i], device, part->outputs + i, error);
  for (uint32_t i = 0; status == TN_OK && i < program->state_count; i++)
    part->states[i] = shape->states[partition->states[i]];
  for (uint32_t i = 0; status == TN_OK && i < program->weight_count; i++)
    weights[i] = *weight_of(runner, device, partition->weights[i]);
  if (status == TN_OK && !runner->options.plan_only)
    status = tn_device_prepare(opened_of(runner, device), program, weights, program->weight_count, NULL, NULL,
                               &part->executable, error);
  free(weights);
  return status;
}

static tn_status prepare_shape(tn_runner *runner, runner_shape *shape, tn_error *error) {
  shape->parts = tn_calloc(shape->plan.partition_count, sizeof *shape->parts);
  if (!shape->parts) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = TN_OK;
  for (size_t p = 0; p < shape->plan.partition_count && status == TN_OK; p++)
    status = prepare_part(runner, shape, shape->parts + p, shape->plan.partitions + p, error);
  return status;
}

static tn_status take_host_memory(tn_runner *runner, tn_error *error) {
  runner->carried_bytes = tn_runner_carried_bytes(runner);
  uint64_t staging = runner->carried_bytes + runner->logits_sets * tn_runner_logits_bytes(runner);
  runner->staging = staging ? tn_calloc(staging, 1) : NULL;
  if (staging && !runner->staging)
    return tn_fail(error, TN_E_MEMORY, "out of memory for %llu bytes on their way between devices and the host",
                   (unsigned long long)staging);
  if (!has_profile(runner)) return TN_OK;
  const tn_graph *graph = runner->shapes[0].graph;
  runner->gathered = tn_calloc(TN_MAX_LOGITS_ROWS, (size_t)tn_graph_cols(graph, graph->logits) * sizeof(float));
  uint32_t most = runner->profile.rows[runner->profile.row_count - 1];
  runner->piece_rows = tn_calloc(most, sizeof *runner->piece_rows);
  runner->piece_logits_rows = tn_calloc(most, sizeof *runner->piece_logits_rows);
  bool complete = runner->gathered && runner->piece_rows && runner->piece_logits_rows;
  return complete ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory for logits");
}

/* ---- all of it ---- */

tn_status tn_runner_take_memory(tn_runner *runner, tn_error *error) {
  runner->weights = tn_calloc(runner->shapes[0].graph->value_count * runner->device_count, sizeof *runner->weights);
  bool complete = runner->weights;
  for (uint32_t s = 0; s < runner->shape_count; s++) {
    runner_shape *shape = runner->shapes + s;
    shape->states = tn_calloc(shape->graph->value_count, sizeof *shape->states);
    complete = complete && shape->states;
  }
  if (!complete) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = tn_runner_place_weights(runner, error);
  if (status == TN_OK) status = tn_runner_take_states(runner, error);
  if (status == TN_OK) status = allocate_scratch(runner, error);
  if (status == TN_OK && !runner->options.plan_only) status = tn_runner_fill_weights(runner, error);
  for (uint32_t s = 0; s < runner->shape_count && status == TN_OK; s++)
    status = prepare_shape(runner, runner->shapes + s, error);
  if (status == TN_OK && !runner->options.plan_only) status = take_host_memory(runner, error);
  return status;
}

static void release_shape(tn_runner *runner, runner_shape *shape) {
  for (size_t p = 0; shape->parts && p < shape->plan.partition_count; p++) {
    runner_part *part = shape->parts + p;
    if (part->executable) tn_device_release(opened_of(runner, part->partition->device), part->executable);
    free(part->inputs);
    free(part->outputs);
    free(part->states);
    free(part->carried);
  }
  for (uint32_t device = 0; device < runner->device_count; device++)
    for (size_t b = 0; b < shape->border_count; b++)
      tn_device_free(opened_of(runner, device), shape->borders[b].buffers[device]);
  free(shape->parts);
  free(shape->borders);
  free(shape->states);
  shape->parts = NULL;
  shape->borders = NULL;
  shape->states = NULL;
  shape->border_count = shape->border_capacity = 0;
}

void tn_runner_release_memory(tn_runner *runner) {
  for (uint32_t s = 0; s < runner->shape_count; s++) release_shape(runner, runner->shapes + s);
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_device *on = runner->devices + device;
    tn_opened_device *opened = on->opened;
    tn_packed_store_end(on->store);
    tn_packed_finish(&on->packed);
    tn_device_free(opened, on->weights);
    for (size_t i = 0; i < on->piece_count; i++) tn_device_free(opened, on->pieces[i]);
    free(on->pieces);
    tn_device_free(opened, on->states);
    tn_device_free(opened, on->scratch);
    tn_device_queue_destroy(opened, on->queue);
    *on = (runner_device){.spec = on->spec, .opened = opened};
  }
  free(runner->weights);
  free(runner->regions);
  free(runner->staging);
  free(runner->gathered);
  free(runner->piece_rows);
  free(runner->piece_logits_rows);
  runner->weights = NULL;
  runner->regions = NULL;
  runner->staging = NULL;
  runner->gathered = NULL;
  runner->piece_rows = NULL;
  runner->piece_logits_rows = NULL;
}
