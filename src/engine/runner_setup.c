/* Making a runner: devices, graphs, programs; runner_memory.c gives it memory (see runner.h). */
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

/* Opens the cpu behind the wanted device where that lacks an op of the graph. What a device with a shape profile lacks
 * only shows in the specialised graph, so there it is always opened. */
static tn_status complement_device(tn_runner *runner, tn_error *error) {
  const tn_graph *graph = runner->shapes[0].graph;
  bool complete = !has_profile(runner);
  for (size_t i = 0; i < graph->op_count && complete; i++) {
    tn_op_query query;
    tn_graph_query(graph, graph->ops + i, &query);
    complete = supports(runner, 0, &query);
  }
  return complete ? TN_OK : open_device(runner, "cpu", error);
}

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

static tn_status make_graph(tn_runner *runner, runner_shape *shape, uint32_t kv_dtype, tn_error *error) {
  const tn_runner_options *options = &runner->options;
  const tn_model_form form = {.context = options->max_context,
                              .kv_dtype = kv_dtype,
                              .weights = options->weights,
                              .exact = options->activations && !strcmp(options->activations, "float")};
  tn_status status = tn_model_build(runner->model, &form, &shape->graph, error);
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
  uint32_t kv_dtype;
  tn_status status = dtype_of_kv(kv_of(&runner->options), &kv_dtype, error);
  if (status != TN_OK) return status;
  if (has_profile(runner) && kv_dtype == TN_I8)
    return tn_fail(error, TN_E_UNSUPPORTED, "kv: int8 given, device %s has contiguous KV: f16, f32 or bf16 there",
                   opened_of(runner, 0)->label);
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
    status = make_graph(runner, runner->shapes + s, kv_dtype, error);
  }
  return status;
}

static tn_status compile(tn_runner *runner, runner_shape *shape, tn_error *error) {
  const char *activations = runner->options.activations ? runner->options.activations : "auto";
  bool quantise = !strcmp(activations, "auto");
  if (!quantise && strcmp(activations, "float"))
    return tn_fail(error, TN_E_INVALID, "activations: \"%.40s\" given, expected auto or float", activations);
  const tn_place_target target = {runner, runner->device_count, supports};
  const tn_pass_options options = {.shape = shape->fixed,
                                   .quantise_activations = quantise,
                                   .passes = runner->options.passes,
                                   .observe = shape == runner->shapes ? runner->options.observe : NULL,
                                   .observe_context = runner->options.observe_context};
  return tn_compile_graph(shape->graph, &target, &options, &shape->plan, error);
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
  info->threads = (uint32_t)opened_of(runner, 0)->properties.threads;
  info->overlaps = runner->logits_sets > 1;
  snprintf(info->device, sizeof info->device, "%s", opened_of(runner, 0)->label);
}

/* Everything behind opening the devices and making the graphs. */
static tn_status setup(tn_runner *runner, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t s = 0; s < runner->shape_count && status == TN_OK; s++)
    status = compile(runner, runner->shapes + s, error);
  if (status == TN_OK) status = tn_runner_take_memory(runner, error);
  if (status == TN_OK) describe(runner);
  return status;
}

/* Keeps the options, their texts copied: a reopen needs them again. */
static bool copy_options(tn_runner *runner, const tn_runner_options *options) {
  tn_arena_init(&runner->texts, 0);
  runner->options = *options;
  const char **texts[] = {&runner->options.device, &runner->options.kv,     &runner->options.activations,
                          &runner->options.passes, &runner->options.packed, &runner->options.weights,
                          &runner->options.overlap};
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
  if (status == TN_OK) status = open_device(runner, options->device ? options->device : "cpu", error);
  if (status == TN_OK) status = tn_runner_read_profile(runner, error);
  if (status == TN_OK) status = make_graphs(runner, error);
  if (status == TN_OK) status = complement_device(runner, error);
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
  for (uint32_t device = 0; device < runner->device_count; device++) tn_device_close(opened_of(runner, device));
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
