/* What the two halves of the runner share: runner_setup.c makes it, runner.c runs steps. */
#ifndef TENON_ENGINE_RUNNER_INTERNAL_H
#define TENON_ENGINE_RUNNER_INTERNAL_H

#include "device/registry.h"
#include "engine/runner.h"
#include "graph/passes.h"
#include "model/model.h"

#define MAX_DEVICES 2 /* the wanted one, and the cpu for what it lacks */

typedef struct runner_device {
  tn_opened_device *opened;
  tn_queue *queue;
  tn_buffer *weights, *states, *scratch;
  uint64_t weight_bytes, state_bytes, scratch_bytes;
} runner_device;

/* A value that crosses between programs, or the logits: memory on every device that touches it. */
typedef struct border_value {
  tn_ref value;
  uint64_t row_bytes, bytes;
  bool on_device[MAX_DEVICES];
  tn_buffer *buffers[MAX_DEVICES];
} border_value;

/* A partition made ready: its executable and the bindings that never change. */
typedef struct runner_part {
  const tn_partition *partition;
  tn_executable *executable;
  tn_binding *inputs, *outputs, *states;
} runner_part;

struct tn_runner {
  const tn_model *model;
  tn_runner_options options; /* its texts are copies in `texts` */
  tn_arena texts;
  tn_runner_info info;
  tn_graph *graph;
  tn_plan plan;
  runner_device devices[MAX_DEVICES];
  uint32_t device_count;
  tn_weight_binding *weights; /* [device][value] */
  tn_binding *states;         /* by value */
  border_value *borders;
  size_t border_count, border_capacity;
  runner_part *parts;
  unsigned char *staging; /* host copies of borders and logits, where a device's memory is not reachable */
  uint64_t staging_bytes;
  const float *logits; /* where the host reads them */
  bool in_flight;
};

static inline tn_opened_device *opened_of(const tn_runner *runner, uint32_t device) {
  return runner->devices[device].opened;
}

#endif
