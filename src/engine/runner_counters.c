/* What the devices measured of a runner's steps (see runner.h). */
#include <stdlib.h>
#include "engine/runner_internal.h"

/* The first op of each part in the graph: parts are runs of ops, in order. */
static uint32_t first_op(const tn_runner *runner, size_t part) {
  uint32_t first = 0;
  for (size_t p = 0; p < part; p++) first += runner->shapes[0].plan.partitions[p].program->op_count;
  return first;
}

/* The next part behind `part` that runs on the device, round and round. */
static size_t next_part(const tn_runner *runner, uint32_t device, size_t part) {
  do part = part + 1 < runner->shapes[0].plan.partition_count ? part + 1 : 0;
  while (runner->shapes[0].plan.partitions[part].device != device);
  return part;
}

static bool runs_something(const tn_runner *runner, uint32_t device) {
  for (size_t p = 0; p < runner->shapes[0].plan.partition_count; p++)
    if (runner->shapes[0].plan.partitions[p].device == device) return true;
  return false;
}

typedef struct counter_list {
  tn_runner_counter *items;
  size_t count, capacity;
} counter_list;

/* A device's counters begin with its first part and tell its programs one after the other; an op number that does not
 * rise means that the next program began. */
static tn_status add_device(const tn_runner *runner, uint32_t device, const tn_op_counter *from,
                            const uint64_t *instructions, uint32_t count, counter_list *list) {
  size_t part = next_part(runner, device, runner->shapes[0].plan.partition_count - 1);
  for (uint32_t i = 0; i < count; i++) {
    if (i && from[i].op <= from[i - 1].op) part = next_part(runner, device, part);
    if (from[i].op >= runner->shapes[0].plan.partitions[part].program->op_count) continue;
    tn_runner_counter *counter = TN_PUSH(list->items, list->count, list->capacity);
    if (!counter) return TN_E_MEMORY;
    *counter = (tn_runner_counter){.op = first_op(runner, part) + from[i].op,
                                   .device = device,
                                   .core = from[i].core,
                                   .start_ns = from[i].start_ns,
                                   .end_ns = from[i].end_ns,
                                   .cycles = from[i].cycles,
                                   .bytes = from[i].bytes,
                                   .instructions = instructions[i]};
  }
  return TN_OK;
}

static tn_status read_device(const tn_runner *runner, uint32_t device, tn_op_counter **list, uint64_t **instructions,
                             uint32_t *count, tn_error *error) {
  const runner_device *on = runner->devices + device;
  *list = NULL;
  *instructions = NULL;
  *count = 0;
  tn_status status = tn_device_counters(on->opened, on->queue, NULL, count, error);
  if (status != TN_OK || !*count) return status;
  *list = tn_calloc(*count, sizeof **list);
  *instructions = tn_calloc(*count, sizeof **instructions);
  if (!*list || !*instructions) return tn_fail(error, TN_E_MEMORY, "out of memory for %u counters", *count);
  status = tn_device_counters(on->opened, on->queue, *list, count, error);
  if (status != TN_OK) return status;
  return tn_device_instructions(on->opened, on->queue, *instructions, *count, error);
}

static int by_start(const void *a, const void *b) {
  const tn_runner_counter *x = a, *y = b;
  return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

tn_status tn_runner_counters(tn_runner *runner, tn_runner_counter **counters, size_t *count, tn_error *error) {
  counter_list all = {0};
  tn_status status = TN_OK;
  *counters = NULL;
  *count = 0;
  if (has_profile(runner))
    return tn_fail(error, TN_E_UNSUPPORTED, "counters tell no op of a model on a device with a shape profile");
  if (runner->lane.submitted != runner->lane.waited) return tn_fail(error, TN_E_BUSY, "runner: a step is in flight");
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++) {
    tn_op_counter *list;
    uint64_t *instructions;
    uint32_t read;
    if (!runs_something(runner, device)) continue;
    status = read_device(runner, device, &list, &instructions, &read, error);
    if (status == TN_OK && add_device(runner, device, list, instructions, read, &all) != TN_OK)
      status = tn_fail(error, TN_E_MEMORY, "out of memory for counters");
    free(list);
    free(instructions);
  }
  if (status != TN_OK) {
    free(all.items);
    return status;
  }
  if (all.count) qsort(all.items, all.count, sizeof *all.items, by_start);
  *counters = all.items;
  *count = all.count;
  return TN_OK;
}
