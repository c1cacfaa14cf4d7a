/* The devices of a runner: those that its placement names, and one that runs what they lack (see runner.h). */
#include <stdio.h>
#include <string.h>
#include "engine/runner_internal.h"

static const char auto_place[] = "auto";

bool tn_runner_splits(const tn_runner *runner) {
  return runner->options.place && !strcmp(runner->options.place, auto_place);
}

/* A placement names devices of several kinds: threads are the default driver's affair there. */
static bool takes_threads(const tn_runner *runner, const char *spec) {
  bool is_mixed = runner->options.place && !tn_runner_splits(runner);
  return runner->options.threads && (!is_mixed || tn_device_spec_is(spec, tn_default_driver()));
}

static tn_status open_device(tn_runner *runner, const char *spec, tn_error *error) {
  runner_device *device = runner->devices + runner->device_count;
  bool has_threads = takes_threads(runner, spec);
  if (has_threads && strstr(spec, "threads="))
    return tn_fail(error, TN_E_INVALID, "threads: %u given, and device %s says its own", runner->options.threads, spec);
  char threads[16];
  snprintf(threads, sizeof threads, "%u", runner->options.threads);
  const tn_option option = {"threads", threads};
  tn_status status = tn_device_open(spec, &option, has_threads, &device->opened, error);
  if (status != TN_OK) return status;
  device->spec = spec;
  runner->device_count++;
  return tn_device_queue_create(device->opened, &device->queue, error);
}

/* NAME[,options] as NAME:0[,options], NAME:1[,options] and so on, one for each device of the driver. */
static tn_status list_devices(tn_runner *runner, const char *spec, tn_error *error) {
  tn_placement *placement = &runner->placement;
  uint32_t count;
  bool has_index;
  tn_status status = tn_device_count(spec, &count, &has_index, error);
  if (status != TN_OK) return status;
  if (has_index)
    return tn_fail(error, TN_E_INVALID, "place: auto uses all devices of a driver, and device %s names one of them",
                   spec);
  int name = (int)strcspn(spec, ",");
  for (uint32_t i = 0; i < count && i < TN_MOST_PLACED; i++) {
    tn_buf text;
    tn_buf_init(&text);
    tn_buf_printf(&text, "%.*s:%u%s", name, spec, i, spec + name);
    char *copy = text.failed ? NULL : tn_arena_copy(&runner->texts, text.data, text.size);
    tn_buf_finish(&text);
    if (!copy) return tn_fail(error, TN_E_MEMORY, "out of memory");
    placement->specs[placement->spec_count++] = copy;
  }
  return TN_OK;
}

static tn_status read_placement(tn_runner *runner, tn_error *error) {
  const tn_runner_options *options = &runner->options;
  tn_placement *placement = &runner->placement;
  uint32_t layers = tn_model_hyper(runner->model)->layers;
  const char *device = options->device ? options->device : tn_default_driver();
  if (options->place && !tn_runner_splits(runner))
    return tn_placement_parse(options->place, options->device, layers, placement, error);
  tn_status status = tn_placement_init(placement, layers, error);
  if (status == TN_OK && options->place) return list_devices(runner, device, error);
  placement->specs[placement->spec_count++] = device;
  return status;
}

tn_status tn_runner_open_devices(tn_runner *runner, tn_error *error) {
  tn_status status = read_placement(runner, error);
  for (uint32_t i = 0; i < runner->placement.spec_count && status == TN_OK; i++)
    status = open_device(runner, runner->placement.specs[i], error);
  return status;
}

void tn_runner_close_devices(tn_runner *runner, uint32_t first) {
  for (uint32_t device = first; device < runner->device_count; device++) {
    tn_device_queue_destroy(opened_of(runner, device), runner->devices[device].queue);
    tn_device_close(opened_of(runner, device));
    runner->devices[device] = (runner_device){0};
  }
  if (runner->device_count > first) runner->device_count = first;
}

uint64_t tn_runner_free_memory(const tn_runner *runner, uint32_t device) {
  tn_property memory = {.size = sizeof memory};
  tn_error error;
  return tn_device_get(opened_of(runner, device), "memory_free", &memory, &error) == TN_OK ? memory.u64 : UINT64_MAX;
}

/* ---- what the passes see ---- */

static bool supports(void *context, uint32_t device, const tn_op_query *query) {
  const tn_runner *runner = context;
  return tn_device_supports(opened_of(runner, device), query);
}

tn_place_target tn_runner_target(tn_runner *runner) {
  return (tn_place_target){.context = runner,
                           .device_count = runner->device_count,
                           .supports = supports,
                           .wanted = &runner->placement.wanted,
                           .fallback = runner->fallback,
                           .at_fallback = runner->at_fallback};
}

/* Does every device run what is wanted on it? What a device with a shape profile lacks only shows in the specialised
 * graph, so it counts as lacking something. */
static bool is_complete(tn_runner *runner) {
  const tn_graph *graph = runner->shapes[0].graph;
  const tn_place_target target = tn_runner_target(runner);
  bool complete = !has_profile(runner);
  for (size_t i = 0; i < graph->op_count && complete; i++) {
    tn_op_query query;
    tn_graph_query(graph, graph->ops + i, &query);
    complete = supports(runner, tn_place_wanted(&target, graph->ops + i), &query);
  }
  return complete;
}

/* The first opened device of the default driver; device_count: there is none. */
static uint32_t find_default(const tn_runner *runner) {
  uint32_t device = 0;
  while (device < runner->device_count && !tn_device_spec_is(runner->devices[device].spec, tn_default_driver()))
    device++;
  return device;
}

tn_status tn_runner_complement_devices(tn_runner *runner, tn_error *error) {
  tn_status status = TN_OK;
  runner->fallback = 0;
  if (!is_complete(runner)) {
    uint32_t device = runner->options.place ? find_default(runner) : runner->device_count;
    if (device == runner->device_count) status = open_device(runner, tn_default_driver(), error);
    runner->fallback = device;
  }
  if (status == TN_OK && runner->options.threads && runner->options.place && !tn_runner_splits(runner) &&
      find_default(runner) == runner->device_count)
    return tn_fail(error, TN_E_INVALID, "threads: %u given, and no device of the placement is a %s",
                   runner->options.threads, tn_default_driver());
  return status;
}
