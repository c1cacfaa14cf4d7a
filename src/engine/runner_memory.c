/* What a runner takes of its devices: KV and recurrent states, borders, scratch, executables; the weights are
 * runner_weights.c. */
#include <stdlib.h>
#include "engine/runner_internal.h"

/* Zeroed memory on a device; none when the runner only plans. */
static tn_status take_memory(tn_runner *runner, uint32_t device, uint64_t bytes, tn_buffer **buffer, tn_error *error) {
  return runner->options.plan_only ? TN_OK : tn_device_alloc(opened_of(runner, device), bytes, buffer, error);
}

/* ---- states ---- */

#define UNPLACED UINT64_MAX

static tn_state_desc state_desc(const tn_graph_value *value) {
  return (tn_state_desc){.size = sizeof(tn_state_desc),
                         .dtype = value->dtype,
                         .kv_heads = (uint32_t)value->dims[0],
                         .key_dim = (uint32_t)value->dims[1],
                         .value_dim = (uint32_t)value->dims[2],
                         .slots = value->rank == 3 ? 0 : (uint32_t)value->dims[3]};
}

/* Bytes of a page (a slot, of a recurrent one; all, of contiguous KV) of a state, asked from its device once. */
static tn_status ask_layout(tn_runner *runner, runner_shape *shape, uint32_t device, tn_ref state, bool *is_new,
                            tn_error *error) {
  const tn_state_desc desc = state_desc(shape->graph->values + state);
  tn_state_layout layout = {.size = sizeof layout};
  *is_new = shape->states[state].bytes == 0;
  if (!*is_new) return TN_OK;
  tn_status status = tn_device_state_layout(opened_of(runner, device), &desc, &layout, error);
  if (status == TN_OK) shape->states[state] = (tn_binding){NULL, UNPLACED, layout.page_bytes};
  return status;
}

static tn_status size_state(tn_runner *runner, uint32_t device, tn_ref state, uint64_t *all_groups, tn_error *error) {
  tn_runner_info *info = &runner->info;
  runner_shape *shape = runner->shapes;
  const tn_graph_value *value = shape->graph->values + state;
  bool is_new;
  tn_status status = ask_layout(runner, shape, device, state, &is_new, error);
  if (status != TN_OK || !is_new) return status;
  uint64_t page_bytes = shape->states[state].bytes;
  if (value->rank == 3) {
    info->state_bytes += page_bytes;
    return TN_OK;
  }
  info->groups[value->group].page_bytes += page_bytes;
  *all_groups += page_bytes;
  return TN_OK;
}

/* Two slots of recurrent states a sequence, and as many more as were asked for and fit. */
static void count_slots(tn_runner *runner) {
  const tn_runner_options *options = &runner->options;
  tn_runner_info *info = &runner->info;
  if (!info->state_bytes) return;
  uint64_t more = options->snapshots;
  if (options->snapshot_bytes && more > options->snapshot_bytes / info->state_bytes)
    more = options->snapshot_bytes / info->state_bytes;
  info->state_slots = (options->state_slots ? options->state_slots : 2 * options->max_sequences) + (uint32_t)more;
}

/* Bytes of a page of every state, summed by group, and from them how many pages and slots fit. */
static tn_status size_pages(tn_runner *runner, tn_error *error) {
  tn_runner_info *info = &runner->info;
  const tn_plan *plan = &runner->shapes[0].plan;
  uint64_t all_groups = 0;
  for (size_t p = 0; p < plan->partition_count; p++) {
    const tn_partition *partition = plan->partitions + p;
    for (uint32_t i = 0; i < partition->program->state_count; i++) {
      tn_status status = size_state(runner, partition->device, partition->states[i], &all_groups, error);
      if (status != TN_OK) return status;
    }
  }
  count_slots(runner);
  info->pages = runner->options.pages;
  if (runner->options.kv_bytes && all_groups && info->pages > runner->options.kv_bytes / all_groups)
    info->pages = (uint32_t)(runner->options.kv_bytes / all_groups);
  if (!info->pages)
    return tn_fail(error, TN_E_LIMIT, "KV memory: %llu bytes given, one page of %u positions needs %llu",
                   (unsigned long long)runner->options.kv_bytes, TN_PAGE_SLOTS, (unsigned long long)all_groups);
  if (__builtin_mul_overflow(all_groups, info->pages, &info->kv_bytes))
    return tn_fail(error, TN_E_LIMIT, "KV memory: %u pages are too many", info->pages);
  return TN_OK;
}

/* One buffer a device for all its states; state i's pages begin at its offset. */
static void place_pages(tn_runner *runner) {
  runner_shape *shape = runner->shapes;
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_device *on = runner->devices + device;
    uint64_t total = 0;
    for (size_t p = 0; p < shape->plan.partition_count; p++) {
      const tn_partition *partition = shape->plan.partitions + p;
      for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++) {
        tn_binding *state = shape->states + partition->states[i];
        if (state->offset != UNPLACED) continue; /* in several programs */
        state->offset = total;
        bool recurs = shape->graph->values[partition->states[i]].rank == 3;
        state->bytes *= recurs ? runner->info.state_slots : runner->info.pages;
        total += tn_round_up(state->bytes, 256);
      }
    }
    on->state_bytes = total;
  }
}

/* Of contiguous KV: where each state lies in region 0 of every length; `region_bytes` leads to the other regions.
 * Shapes of one length have the same memory. The KV is in plain layout (device.h), so a layout of other size is
 * refused. */
static tn_status place_region(tn_runner *runner, runner_shape *shape, uint32_t length, uint32_t device, uint64_t *total,
                              tn_error *error) {
  uint64_t bytes = 0;
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    const tn_partition *partition = shape->plan.partitions + p;
    for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++) {
      bool is_new;
      tn_ref state = partition->states[i];
      tn_status status = ask_layout(runner, shape, device, state, &is_new, error);
      if (status != TN_OK) return status;
      if (!is_new) continue;
      const tn_graph_value *v = shape->graph->values + state;
      uint64_t plain =
          tn_row_bytes(v->dtype, 1) * (uint64_t)v->dims[0] * (uint64_t)v->dims[3] * (uint64_t)(v->dims[1] + v->dims[2]);
      if (shape->states[state].bytes != plain)
        return tn_fail(error, TN_E_UNSUPPORTED, "device %s: contiguous KV of %u slots in %llu bytes, %llu expected",
                       opened_of(runner, device)->label, (uint32_t)v->dims[3],
                       (unsigned long long)shape->states[state].bytes, (unsigned long long)plain);
      shape->states[state].offset = *total + bytes;
      bytes += tn_round_up(plain, 256);
    }
  }
  runner->region_bytes[device][length] = bytes;
  return __builtin_mul_overflow(bytes, runner->options.max_sequences, &bytes) ||
                 __builtin_add_overflow(*total, bytes, total)
             ? tn_fail(error, TN_E_LIMIT, "KV memory: %u sequences are too many", runner->options.max_sequences)
             : TN_OK;
}

static tn_status place_regions(tn_runner *runner, tn_error *error) {
  const runner_profile *profile = &runner->profile;
  runner->info.pages = runner->options.pages; /* the engine's accounts; the memory is the regions' */
  runner->info.state_slots = 2 * runner->options.max_sequences;
  for (uint32_t device = 0; device < runner->device_count; device++) {
    uint64_t total = 0;
    for (uint32_t length = 0; length < profile->length_count; length++) {
      runner_shape *first = runner->shapes + length * profile->row_count;
      tn_status status = place_region(runner, first, length, device, &total, error);
      if (status != TN_OK) return status;
      for (uint32_t r = 1; r < profile->row_count; r++)
        for (tn_ref v = 0; v < first->graph->value_count; v++) first[r].states[v] = first->states[v];
    }
    runner->devices[device].state_bytes = total;
    runner->info.kv_bytes += total;
  }
  if (runner->options.kv_bytes && runner->info.kv_bytes > runner->options.kv_bytes)
    return tn_fail(error, TN_E_LIMIT, "KV memory: %llu bytes given, the regions of %u sequences need %llu",
                   (unsigned long long)runner->options.kv_bytes, runner->options.max_sequences,
                   (unsigned long long)runner->info.kv_bytes);
  runner->regions = tn_calloc(runner->options.max_sequences, sizeof *runner->regions);
  return runner->regions ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
}

static tn_status take_state_memory(tn_runner *runner, tn_error *error) {
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_device *on = runner->devices + device;
    tn_status status = on->state_bytes ? take_memory(runner, device, on->state_bytes, &on->states, error) : TN_OK;
    if (status != TN_OK) return tn_error_prefix(error, "KV memory");
    for (uint32_t s = 0; s < runner->shape_count; s++) {
      runner_shape *shape = runner->shapes + s;
      for (size_t p = 0; p < shape->plan.partition_count; p++) {
        const tn_partition *partition = shape->plan.partitions + p;
        for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++)
          shape->states[partition->states[i]].buffer = on->states;
      }
    }
  }
  return TN_OK;
}

/* ---- borders, scratch, executables ---- */

static uint64_t max_rows_of(const tn_graph *graph, const tn_graph_value *value) {
  if (value->dims[0] > 0) return (uint64_t)value->dims[0];
  return value->dims[0] == TN_DIM_R ? graph->max_logits_rows : graph->max_rows;
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
    border->bytes = border->row_bytes * max_rows_of(shape->graph, shape->graph->values + value);
    if (border->bytes > runner->staging_bytes) runner->staging_bytes = border->bytes;
  }
  if (!border->on_device[device]) {
    uint64_t sets = value == shape->graph->logits ? runner->logits_sets : 1;
    tn_status status = take_memory(runner, device, border->bytes * sets, &border->buffers[device], error);
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
    status = take_memory(runner, device, on->scratch_bytes, &on->scratch, error);
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
  tn_weight_binding *weights = tn_calloc(program->weight_count, sizeof *weights);
  tn_status status = TN_OK;
  if (!part->inputs || !part->outputs || !part->states || !weights)
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

/* Does something pass through the host, because a device can't be read in place or there are several? */
static bool needs_staging(const tn_runner *runner) {
  const runner_shape *shape = runner->shapes;
  bool needed = has_profile(runner) || runner->device_count > 1;
  for (size_t b = 0; b < shape->border_count && !needed; b++) {
    tn_buffer *buffer = shape->borders[b].buffers[0];
    needed = buffer && !tn_device_host_pointer(opened_of(runner, 0), buffer);
  }
  return needed;
}

static tn_status take_host_memory(tn_runner *runner, tn_error *error) {
  if (!needs_staging(runner)) return TN_OK;
  runner->staging = tn_calloc(runner->staging_bytes, runner->logits_sets > 1 ? 1 + runner->logits_sets : 1);
  if (!runner->staging)
    return tn_fail(error, TN_E_MEMORY, "out of memory for %llu bytes of logits",
                   (unsigned long long)runner->staging_bytes);
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
  if (status == TN_OK) status = has_profile(runner) ? place_regions(runner, error) : size_pages(runner, error);
  if (status == TN_OK && !has_profile(runner)) place_pages(runner);
  if (status == TN_OK) status = take_state_memory(runner, error);
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
    tn_device_free(opened, on->states);
    tn_device_free(opened, on->scratch);
    tn_device_queue_destroy(opened, on->queue);
    *on = (runner_device){.opened = opened};
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
  runner->staging_bytes = 0;
}
