/* Making a runner: devices, graphs, programs; runner_memory.c gives it memory (see runner.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/runner_internal.h"

/* ---- graphs ---- */

static tn_status dtype_of_kv(const char *name, uint32_t *dtype, tn_error *error) {
  static const uint32_t known[] = {TN_F16, TN_F32, TN_BF16, TN_I8};
  static const char *const names[] = {"f16", "f32", "bf16", "int8"};
  for (size_t i = 0; i < TN_COUNT(known); i++) {
    *dtype = known[i];
    if (!strcmp(name, names[i])) return TN_OK;
  }
  return tn_fail(error, TN_E_INVALID, "kv: \"%.40s\" given, expected f16, f32, bf16 or int8", name);
}

/* Unless told otherwise: f16, or f32 where activations are float too, so that nothing is rounded. */
static const char *kv_of(const tn_runner_options *options) {
  if (options->kv) return options->kv;
  return options->activations && !strcmp(options->activations, "float") ? "f32" : "f16";
}

tn_status tn_runner_make_graph(tn_runner *runner, runner_shape *shape, tn_error *error) {
  const tn_runner_options *options = &runner->options;
  uint32_t kv_dtype;
  tn_status status = dtype_of_kv(kv_of(options), &kv_dtype, error);
  if (status != TN_OK) return status;
  if (has_profile(runner) && kv_dtype == TN_I8)
    return tn_fail(error, TN_E_UNSUPPORTED, "kv: int8 given, device %s has contiguous KV: f16, f32 or bf16 there",
                   opened_of(runner, runner->profile.device)->label);
  const tn_model_form form = {.context = options->max_context,
                              .kv_dtype = kv_dtype,
                              .weights = options->weights,
                              .exact = options->activations && !strcmp(options->activations, "float")};
  status = tn_model_build(runner->model, &form, &shape->graph, error);
  if (status != TN_OK) return status;
  shape->graph->max_rows = options->max_rows;
  shape->graph->max_sequences = options->max_sequences;
  shape->graph->max_context = options->max_context;
  shape->graph->max_logits_rows = options->max_rows < TN_MAX_LOGITS_ROWS ? options->max_rows : TN_MAX_LOGITS_ROWS;
  return TN_OK;
}

/* One graph for each shape; of a profile, for each listed length and row count. */
static tn_status make_graphs(tn_runner *runner, tn_error *error) {
  const runner_profile *profile = &runner->profile;
  const tn_hyper *hyper = tn_model_hyper(runner->model);
  tn_status status = TN_OK;
  if (runner->options.max_context > hyper->context)
    return tn_fail(error, TN_E_LIMIT, "context: %u positions wanted, the model was made for %u",
                   runner->options.max_context, hyper->context);
  uint32_t count = has_profile(runner) ? profile->row_count * profile->length_count : 1;
  runner->shapes = tn_calloc(count, sizeof *runner->shapes);
  if (!runner->shapes) return tn_fail(error, TN_E_MEMORY, "out of memory");
  runner->shape_count = count;
  for (uint32_t s = 0; s < count && status == TN_OK; s++) {
    if (has_profile(runner))
      runner->shapes[s].fixed =
          (tn_fixed_shape){profile->rows[s % profile->row_count], profile->lengths[s / profile->row_count]};
    status = tn_runner_make_graph(runner, runner->shapes + s, error);
  }
  return status;
}

tn_status tn_runner_compile(tn_runner *runner, runner_shape *shape, tn_error *error) {
  const char *activations = runner->options.activations ? runner->options.activations : "auto";
  bool quantise = !strcmp(activations, "auto");
  if (!quantise && strcmp(activations, "float"))
    return tn_fail(error, TN_E_INVALID, "activations: \"%.40s\" given, expected auto or float", activations);
  const tn_place_target target = tn_runner_target(runner);
  const tn_pass_options options = {.shape = shape->fixed,
                                   .quantise_activations = quantise,
                                   .passes = runner->options.passes,
                                   .observe = shape == runner->shapes ? runner->options.observe : NULL,
                                   .observe_context = runner->options.observe_context};
  return tn_compile_graph(shape->graph, &target, &options, &shape->plan, error);
}

/* Where the states of one shape lie if it is placed alone, by value; other values' entries are left as they are. */
static tn_status place_states(tn_runner *runner, const runner_shape *of, uint32_t *devices, tn_error *error) {
  runner_shape shape = {.fixed = of->fixed};
  const tn_place_target target = tn_runner_target(runner);
  tn_status status = tn_runner_make_graph(runner, &shape, error);
  if (status == TN_OK) status = tn_pass_check(shape.graph, error);
  if (status == TN_OK) status = tn_pass_specialise(shape.graph, shape.fixed, error);
  if (status == TN_OK) status = tn_pass_place(shape.graph, &target, error);
  for (size_t i = 0; status == TN_OK && i < shape.graph->op_count; i++) {
    tn_ref state = tn_state_of(shape.graph, shape.graph->ops + i);
    if (state != TN_NO_VALUE) devices[state] = shape.graph->ops[i].device;
  }
  tn_graph_destroy(shape.graph);
  return status;
}

/* A state lies on one device in all shapes: where a device runs its ops in some of them only, they are the fallback's
 * in all. Values of the graphs before the passes have the same numbers in all shapes. */
static tn_status settle_states(tn_runner *runner, tn_error *error) {
  if (!has_profile(runner)) return TN_OK;
  uint32_t count = runner->shapes[0].graph->value_count;
  uint32_t *first = tn_calloc(count, sizeof *first), *other = tn_calloc(count, sizeof *other);
  bool *torn = tn_calloc(count, sizeof *torn);
  tn_status status = first && other && torn ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
  for (uint32_t s = 0; s < runner->shape_count && status == TN_OK; s++) {
    status = place_states(runner, runner->shapes + s, s ? other : first, error);
    for (uint32_t v = 0; v < count && s && status == TN_OK; v++) torn[v] = torn[v] || first[v] != other[v];
  }
  free(first);
  free(other);
  runner->at_fallback = torn;
  return status;
}

/* ---- life ---- */

/* Gives back all that was made on the devices, and the plans; the devices stay open. */
static void release_all(tn_runner *runner) {
  tn_runner_settle(runner);
  tn_runner_release_memory(runner);
  for (uint32_t s = 0; s < runner->shape_count; s++) {
    tn_plan_destroy(&runner->shapes[s].plan);
    tn_graph_destroy(runner->shapes[s].graph);
  }
  free(runner->shapes);
  runner->shapes = NULL;
  runner->shape_count = 0;
  runner->lane.waited = runner->lane.submitted;
  runner->info = (tn_runner_info){0};
}

static void describe(tn_runner *runner) {
  tn_runner_info *info = &runner->info;
  const tn_graph *graph = runner->shapes[0].graph;
  const tn_runner_options *options = &runner->options;
  info->vocabulary = tn_graph_cols(graph, graph->logits);
  info->max_rows = options->max_rows;
  info->max_sequences = options->max_sequences;
  info->max_logits_rows = options->max_rows < TN_MAX_LOGITS_ROWS ? options->max_rows : TN_MAX_LOGITS_ROWS;
  info->max_context = options->max_context;
  info->group_count = graph->group_count;
  info->batch_invariant = true;
  for (uint32_t g = 0; g < graph->group_count; g++) info->groups[g].window = graph->groups[g].window;
  for (uint32_t device = 0; device < runner->device_count; device++) {
    info->weight_bytes += runner->devices[device].weight_bytes;
    info->batch_invariant = info->batch_invariant && opened_of(runner, device)->properties.batch_invariant;
  }
  info->contiguous = has_profile(runner);
  info->overlaps = runner->logits_sets > 1;
  for (uint32_t device = 0; device < runner->placement.spec_count; device++) {
    const tn_opened_device *opened = opened_of(runner, device);
    size_t used = strlen(info->device);
    if (opened->properties.threads > info->threads) info->threads = (uint32_t)opened->properties.threads;
    snprintf(info->device + used, sizeof info->device - used, "%s%s", used ? "+" : "", opened->label);
  }
}

/* Everything behind opening the devices and making the graphs. */
static tn_status setup(tn_runner *runner, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t s = 0; s < runner->shape_count && status == TN_OK; s++)
    status = tn_runner_compile(runner, runner->shapes + s, error);
  if (status == TN_OK) status = tn_runner_take_memory(runner, error);
  if (status == TN_OK) describe(runner);
  return status;
}

/* Keeps the options, their texts copied: a reopen needs them again. */
static bool copy_options(tn_runner *runner, const tn_runner_options *options) {
  tn_arena_init(&runner->texts, 0);
  runner->options = *options;
  const char **texts[] = {&runner->options.device,  &runner->options.kv,     &runner->options.activations,
                          &runner->options.passes,  &runner->options.packed, &runner->options.weights,
                          &runner->options.overlap, &runner->options.place};
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
  tn_status status = copy_options(runner, options) ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK) status = tn_runner_open_devices(runner, error);
  if (status == TN_OK) status = tn_runner_read_profile(runner, error);
  if (status == TN_OK) status = make_graphs(runner, error);
  if (status == TN_OK && tn_runner_splits(runner)) status = tn_runner_split(runner, error);
  if (status == TN_OK) status = tn_runner_complement_devices(runner, error);
  if (status == TN_OK) status = settle_states(runner, error);
  if (status == TN_OK) status = tn_runner_choose_overlap(runner, error);
  if (status == TN_OK) status = setup(runner, error);
  if (status == TN_OK) status = tn_runner_start_lane(runner, error);
  if (status == TN_OK)
    *out = runner;
  else
    tn_runner_destroy(runner);
  return status;
}

void tn_runner_destroy(tn_runner *runner) {
  if (!runner) return;
  tn_runner_end_lane(runner);
  release_all(runner);
  tn_runner_close_devices(runner, 0);
  tn_placement_finish(&runner->placement);
  free(runner->at_fallback);
  tn_arena_finish(&runner->texts);
  free(runner);
}

tn_status tn_runner_reopen(tn_runner *runner, tn_error *error) {
  release_all(runner);
  tn_status status = make_graphs(runner, error);
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++) {
    runner_device *on = runner->devices + device;
    status = tn_device_reopen(on->opened, error);
    if (status == TN_OK) status = tn_device_queue_create(on->opened, &on->queue, error);
  }
  if (status == TN_OK) status = setup(runner, error);
  if (status != TN_OK) release_all(runner);
  return status;
}
