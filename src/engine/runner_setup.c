/* Making a runner: graph, devices, packed weights, states, memory, executables (see runner.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/runner_internal.h"

/* ---- devices and graph ---- */

static bool supports(void *context, uint32_t device, const tn_op_query *query) {
  const tn_runner *runner = context;
  return tn_device_supports(opened_of(runner, device), query);
}

static tn_status open_device(tn_runner *runner, const char *spec, tn_error *error) {
  runner_device *device = runner->devices + runner->device_count;
  if (runner->options.threads && strstr(spec, "threads="))
    return tn_fail(error, TN_E_INVALID, "threads: %u given, and device %s says its own", runner->options.threads, spec);
  char threads[16];
  snprintf(threads, sizeof threads, "%u", runner->options.threads);
  const tn_option option = {"threads", threads};
  tn_status status = tn_device_open(spec, &option, runner->options.threads != 0, &device->opened, error);
  if (status != TN_OK) return status;
  runner->device_count++;

  return tn_device_queue_create(device->opened, &device->queue, error);
}

/* Opens the wanted device and, where it lacks an op of the graph, the cpu behind it. */
static tn_status open_devices(tn_runner *runner, tn_error *error) {
  tn_status status = open_device(runner, runner->options.device ? runner->options.device : "cpu", error);
  bool complete = true;
  for (size_t i = 0; status == TN_OK && i < runner->graph->op_count && complete; i++) {
    tn_op_query query;
    tn_graph_query(runner->graph, runner->graph->ops + i, &query);
    complete = supports(runner, 0, &query);
  }
  if (status == TN_OK && !complete) status = open_device(runner, "cpu", error);
  return status;
}

/* Zeroed memory on a device; none when the runner only plans. */
static tn_status take_memory(tn_runner *runner, uint32_t device, uint64_t bytes, tn_buffer **buffer, tn_error *error) {
  return runner->options.plan_only ? TN_OK : tn_device_alloc(opened_of(runner, device), bytes, buffer, error);
}

static tn_status dtype_of_kv(const char *name, uint32_t *dtype, tn_error *error) {
  static const uint32_t known[] = {TN_F16, TN_F32, TN_BF16};
  static const char *const names[] = {"f16", "f32", "bf16"};
  for (size_t i = 0; i < TN_COUNT(known); i++) {
    *dtype = known[i];
    if (!strcmp(name, names[i])) return TN_OK;
  }
  return tn_fail(error, TN_E_INVALID, "kv: \"%.40s\" given, expected f16, f32 or bf16", name);
}

/* Unless told otherwise: f16, or f32 where activations are float too, so that nothing is rounded. */
static const char *kv_of(const tn_runner_options *options) {
  if (options->kv) return options->kv;
  return options->activations && !strcmp(options->activations, "float") ? "f32" : "f16";
}

static tn_status make_graph(tn_runner *runner, tn_error *error) {
  const tn_runner_options *options = &runner->options;
  const tn_hyper *hyper = tn_model_hyper(runner->model);
  uint32_t kv_dtype;
  tn_status status = dtype_of_kv(kv_of(options), &kv_dtype, error);
  if (status != TN_OK) return status;
  if (options->max_context > hyper->context)
    return tn_fail(error, TN_E_LIMIT, "context: %u positions wanted, the model was made for %u", options->max_context,
                   hyper->context);
  status = tn_model_build(runner->model, options->max_context, kv_dtype, &runner->graph, error);
  if (status != TN_OK) return status;
  runner->graph->max_rows = options->max_rows;
  runner->graph->max_sequences = options->max_sequences;
  runner->graph->max_context = options->max_context;
  runner->graph->max_logits_rows = options->max_rows < TN_MAX_LOGITS_ROWS ? options->max_rows : TN_MAX_LOGITS_ROWS;
  return TN_OK;
}

static tn_status compile(tn_runner *runner, tn_error *error) {
  const char *activations = runner->options.activations ? runner->options.activations : "auto";
  bool quantise = !strcmp(activations, "auto");
  if (!quantise && strcmp(activations, "float"))
    return tn_fail(error, TN_E_INVALID, "activations: \"%.40s\" given, expected auto or float", activations);
  const tn_place_target target = {runner, runner->device_count, supports};
  const tn_pass_options options = {.quantise_activations = quantise,
                                   .passes = runner->options.passes,
                                   .observe = runner->options.observe,
                                   .observe_context = runner->options.observe_context};
  return tn_compile_graph(runner->graph, &target, &options, &runner->plan, error);
}

/* ---- weights ---- */

static tn_weight_binding *weight_of(const tn_runner *runner, uint32_t device, tn_ref value) {
  return runner->weights + (size_t)device * runner->graph->value_count + value;
}

/* Asks the device how it lays out each weight it reads, and gives each its place in one buffer. */
static tn_status lay_out_weights(tn_runner *runner, uint32_t device, tn_error *error) {
  const tn_graph *graph = runner->graph;
  uint64_t total = 0;
  for (tn_ref value = 0; value < graph->value_count; value++) {
    const tn_graph_value *from = graph->values + value;
    uint32_t uses = from->kind == TN_VALUE_WEIGHT ? tn_weight_uses(graph, value, device) : 0;
    if (!uses) continue;
    tn_weight_binding *weight = weight_of(runner, device, value);
    weight->desc =
        (tn_weight_desc){.size = sizeof weight->desc, .dtype = from->dtype, .rank = from->rank, .uses = uses};
    for (uint32_t d = 0; d < from->rank; d++) weight->desc.dims[d] = (uint64_t)from->dims[d];
    weight->layout.size = sizeof weight->layout;
    tn_status status = tn_device_weight_layout(opened_of(runner, device), &weight->desc, &weight->layout, error);
    if (status != TN_OK) {
      tn_error_prefix(error, "weight %s", from->name);
      return status;
    }
    uint64_t alignment = weight->layout.alignment ? weight->layout.alignment : 1;
    total = (total + alignment - 1) / alignment * alignment;
    weight->memory = (tn_binding){NULL, total, weight->layout.bytes};
    if (__builtin_add_overflow(total, weight->layout.bytes, &total))
      return tn_fail(error, TN_E_LIMIT, "weight %s: too large", from->name);
  }
  runner->devices[device].weight_bytes = total;
  if (!total) return TN_OK;
  return take_memory(runner, device, total, &runner->devices[device].weights, error);
}

static tn_status pack_weights(tn_runner *runner, uint32_t device, tn_error *error) {
  const tn_graph *graph = runner->graph;
  const runner_device *on = runner->devices + device;
  for (tn_ref value = 0; value < graph->value_count; value++) {
    tn_weight_binding *weight = weight_of(runner, device, value);
    const tn_graph_value *from = graph->values + value;
    if (!weight->desc.uses) continue;
    weight->memory.buffer = on->weights;
    tn_status status = tn_device_weight_pack(on->opened, on->queue, &weight->desc, &weight->layout, from->sources,
                                             from->source_count, on->weights, weight->memory.offset, error);
    if (status != TN_OK) {
      tn_error_prefix(error, "weight %s", from->name);
      return status;
    }
    for (uint32_t s = 0; s < from->source_count; s++) tn_model_release(runner->model, from->sources[s].data);
  }
  return tn_device_synchronize(on->opened, on->queue, UINT64_MAX, error);
}

/* ---- states ---- */

#define UNPLACED UINT64_MAX

static tn_state_desc state_desc(const tn_graph_value *value) {
  return (tn_state_desc){.size = sizeof(tn_state_desc),
                         .dtype = value->dtype,
                         .kv_heads = (uint32_t)value->dims[0],
                         .key_dim = (uint32_t)value->dims[1],
                         .value_dim = (uint32_t)value->dims[2],
                         .slots = value->rank == 3 ? 0 : TN_PAGE_SLOTS};
}

/* Bytes of a page (a slot, of a recurrent one) of a state, asked from its device once. */
static tn_status size_state(tn_runner *runner, uint32_t device, tn_ref state, uint64_t *all_groups, tn_error *error) {
  tn_runner_info *info = &runner->info;
  const tn_graph_value *value = runner->graph->values + state;
  const tn_state_desc desc = state_desc(value);
  tn_state_layout layout = {.size = sizeof layout};
  if (runner->states[state].bytes) return TN_OK;
  tn_status status = tn_device_state_layout(opened_of(runner, device), &desc, &layout, error);
  if (status != TN_OK) return status;
  runner->states[state] = (tn_binding){NULL, UNPLACED, layout.page_bytes};
  if (!desc.slots) {
    info->state_slots = runner->options.state_slots ? runner->options.state_slots : 2 * runner->options.max_sequences;
    info->state_bytes += layout.page_bytes;
    return TN_OK;
  }
  info->groups[value->group].page_bytes += layout.page_bytes;
  *all_groups += layout.page_bytes;
  return TN_OK;
}

/* Bytes of a page of every state, summed by group, and from them how many pages fit. */
static tn_status size_pages(tn_runner *runner, tn_error *error) {
  tn_runner_info *info = &runner->info;
  uint64_t all_groups = 0;
  for (size_t p = 0; p < runner->plan.partition_count; p++) {
    const tn_partition *partition = runner->plan.partitions + p;
    for (uint32_t i = 0; i < partition->program->state_count; i++) {
      tn_status status = size_state(runner, partition->device, partition->states[i], &all_groups, error);
      if (status != TN_OK) return status;
    }
  }
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
static tn_status allocate_states(tn_runner *runner, tn_error *error) {
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_device *on = runner->devices + device;
    uint64_t total = 0;
    for (size_t p = 0; p < runner->plan.partition_count; p++) {
      const tn_partition *partition = runner->plan.partitions + p;
      for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++) {
        tn_binding *state = runner->states + partition->states[i];
        if (state->offset != UNPLACED) continue; /* in several programs */
        state->offset = total;
        bool recurs = runner->graph->values[partition->states[i]].rank == 3;
        state->bytes *= recurs ? runner->info.state_slots : runner->info.pages;
        total += tn_round_up(state->bytes, 256);
      }
    }
    on->state_bytes = total;
    if (!total) continue;
    tn_status status = take_memory(runner, device, total, &on->states, error);
    if (status != TN_OK) return status;
    for (size_t p = 0; p < runner->plan.partition_count; p++) {
      const tn_partition *partition = runner->plan.partitions + p;
      for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++)
        runner->states[partition->states[i]].buffer = on->states;
    }
  }
  return TN_OK;
}

/* ---- borders, scratch, executables ---- */

static uint64_t max_rows_of(const tn_graph *graph, const tn_graph_value *value) {
  return value->dims[0] == TN_DIM_R ? graph->max_logits_rows : graph->max_rows;
}

/* The memory of a border value on a device, allocated on first use. */
static tn_status border_on(tn_runner *runner, tn_ref value, uint32_t device, tn_binding *binding, tn_error *error) {
  border_value *border = NULL;
  for (size_t i = 0; i < runner->border_count; i++)
    if (runner->borders[i].value == value) border = runner->borders + i;
  if (!border) {
    border = TN_PUSH(runner->borders, runner->border_count, runner->border_capacity);
    if (!border) return tn_fail(error, TN_E_MEMORY, "out of memory");
    border->value = value;
    border->row_bytes = tn_row_bytes(runner->graph->values[value].dtype, tn_graph_cols(runner->graph, value));
    border->bytes = border->row_bytes * max_rows_of(runner->graph, runner->graph->values + value);
    if (border->bytes > runner->staging_bytes) runner->staging_bytes = border->bytes;
  }
  if (!border->on_device[device]) {
    tn_status status = take_memory(runner, device, border->bytes, &border->buffers[device], error);
    if (status != TN_OK) return status;
    border->on_device[device] = true;
    runner->info.arena_bytes += border->bytes;
  }
  *binding = (tn_binding){border->buffers[device], 0, border->bytes};
  return TN_OK;
}

static tn_status allocate_scratch(tn_runner *runner, tn_error *error) {
  for (size_t p = 0; p < runner->plan.partition_count; p++) {
    const tn_partition *partition = runner->plan.partitions + p;
    runner_device *on = runner->devices + partition->device;
    if (partition->program->scratch_bytes > on->scratch_bytes) on->scratch_bytes = partition->program->scratch_bytes;
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

static tn_status prepare_part(tn_runner *runner, runner_part *part, const tn_partition *partition, tn_error *error) {
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
    status = border_on(runner, partition->inputs[i], device, part->inputs + i, error);
  for (uint32_t i = 0; status == TN_OK && i < program->output_count; i++)
    status = border_on(runner, partition->outputs[i], device, part->outputs + i, error);
  for (uint32_t i = 0; status == TN_OK && i < program->state_count; i++)
    part->states[i] = runner->states[partition->states[i]];
  for (uint32_t i = 0; status == TN_OK && i < program->weight_count; i++)
    weights[i] = *weight_of(runner, device, partition->weights[i]);
  if (status == TN_OK && !runner->options.plan_only)
    status = tn_device_prepare(opened_of(runner, device), program, weights, program->weight_count, NULL, NULL,
                               &part->executable, error);
  free(weights);
  return status;
}

static tn_status prepare_parts(tn_runner *runner, tn_error *error) {
  runner->parts = tn_calloc(runner->plan.partition_count, sizeof *runner->parts);
  if (!runner->parts) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = TN_OK;
  for (size_t p = 0; p < runner->plan.partition_count && status == TN_OK; p++)
    status = prepare_part(runner, runner->parts + p, runner->plan.partitions + p, error);
  if (status != TN_OK || runner->options.plan_only) return status;
  runner->staging = tn_calloc(runner->staging_bytes, 1);
  if (!runner->staging)
    return tn_fail(error, TN_E_MEMORY, "out of memory for %llu bytes of logits",
                   (unsigned long long)runner->staging_bytes);
  runner->logits = (const float *)(const void *)runner->staging;
  return TN_OK;
}

/* ---- life ---- */

/* Gives back all that was made on the devices, and the plan; the devices stay open. */
static void release_all(tn_runner *runner) {
  for (size_t p = 0; runner->parts && p < runner->plan.partition_count; p++) {
    runner_part *part = runner->parts + p;
    if (part->executable) tn_device_release(opened_of(runner, part->partition->device), part->executable);
    free(part->inputs);
    free(part->outputs);
    free(part->states);
  }
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_device *on = runner->devices + device;
    tn_opened_device *opened = on->opened;
    for (size_t b = 0; b < runner->border_count; b++) tn_device_free(opened, runner->borders[b].buffers[device]);
    tn_device_free(opened, on->weights);
    tn_device_free(opened, on->states);
    tn_device_free(opened, on->scratch);
    tn_device_queue_destroy(opened, on->queue);
    *on = (runner_device){.opened = opened};
  }
  free(runner->parts);
  free(runner->borders);
  free(runner->weights);
  free(runner->states);
  free(runner->staging);
  tn_plan_destroy(&runner->plan);
  tn_graph_destroy(runner->graph);
  runner->parts = NULL;
  runner->borders = NULL;
  runner->border_count = runner->border_capacity = 0;
  runner->weights = NULL;
  runner->states = NULL;
  runner->staging = NULL;
  runner->graph = NULL;
  runner->staging_bytes = 0;
  runner->in_flight = false;
  runner->info = (tn_runner_info){0};
}

static void describe(tn_runner *runner) {
  tn_runner_info *info = &runner->info;
  const tn_graph *graph = runner->graph;
  info->vocabulary = tn_graph_cols(graph, graph->logits);
  info->max_rows = graph->max_rows;
  info->max_sequences = graph->max_sequences;
  info->max_logits_rows = graph->max_logits_rows;
  info->max_context = graph->max_context;
  info->group_count = graph->group_count;
  info->batch_invariant = true;
  for (uint32_t g = 0; g < graph->group_count; g++) info->groups[g].window = graph->groups[g].window;
  for (uint32_t device = 0; device < runner->device_count; device++) {
    info->weight_bytes += runner->devices[device].weight_bytes;
    info->batch_invariant = info->batch_invariant && opened_of(runner, device)->properties.batch_invariant;
  }
  info->threads = (uint32_t)opened_of(runner, 0)->properties.threads;
  snprintf(info->device, sizeof info->device, "%s", opened_of(runner, 0)->label);
}

/* Everything behind opening the devices. */
static tn_status setup(tn_runner *runner, tn_error *error) {
  tn_status status = compile(runner, error);
  if (status != TN_OK) return status;
  runner->weights = tn_calloc(runner->graph->value_count * runner->device_count, sizeof *runner->weights);
  runner->states = tn_calloc(runner->graph->value_count, sizeof *runner->states);
  if (!runner->weights || !runner->states) return tn_fail(error, TN_E_MEMORY, "out of memory");
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++)
    status = lay_out_weights(runner, device, error);
  if (status == TN_OK) status = size_pages(runner, error);
  if (status == TN_OK) status = allocate_states(runner, error);
  if (status == TN_OK) status = allocate_scratch(runner, error);
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK && !runner->options.plan_only; device++)
    status = pack_weights(runner, device, error);
  if (status == TN_OK) status = prepare_parts(runner, error);
  if (status == TN_OK) describe(runner);
  return status;
}

/* Keeps the options, their texts copied: a reopen needs them again. */
static bool copy_options(tn_runner *runner, const tn_runner_options *options) {
  tn_arena_init(&runner->texts, 0);
  runner->options = *options;
  const char **texts[] = {&runner->options.device, &runner->options.kv, &runner->options.activations,
                          &runner->options.passes};
  for (size_t i = 0; i < TN_COUNT(texts); i++) {
    if (!*texts[i]) continue;
    *texts[i] = tn_arena_copy(&runner->texts, *texts[i], strlen(*texts[i]));
    if (!*texts[i]) return false;
  }
  return true;
}

tn_status tn_runner_create(const struct tn_model *model, const tn_runner_options *options, tn_runner **out,
                           tn_error *error) {
  *out = NULL;
  if (!options->max_rows || !options->max_sequences || !options->max_context || !options->pages)
    return tn_fail(error, TN_E_INVALID, "runner: rows, sequences, context and pages must not be 0");
  tn_runner *runner = tn_calloc(1, sizeof *runner);
  if (!runner) return tn_fail(error, TN_E_MEMORY, "out of memory");
  runner->model = model;
  tn_status status =
      copy_options(runner, options) ? make_graph(runner, error) : tn_fail(error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK) status = open_devices(runner, error);
  if (status == TN_OK) status = setup(runner, error);
  if (status == TN_OK)
    *out = runner;
  else
    tn_runner_destroy(runner);
  return status;
}

void tn_runner_destroy(tn_runner *runner) {
  if (!runner) return;
  release_all(runner);
  for (uint32_t device = 0; device < runner->device_count; device++) tn_device_close(opened_of(runner, device));
  tn_arena_finish(&runner->texts);
  free(runner);
}

tn_status tn_runner_reopen(tn_runner *runner, tn_error *error) {
  release_all(runner);
  tn_status status = make_graph(runner, error);
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++) {
    runner_device *on = runner->devices + device;
    status = tn_device_reopen(on->opened, error);
    if (status == TN_OK) status = tn_device_queue_create(on->opened, &on->queue, error);
  }
  if (status == TN_OK) status = setup(runner, error);
  if (status != TN_OK) release_all(runner);
  return status;
}
