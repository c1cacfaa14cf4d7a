/* What the parts of the runner share: runner_setup.c makes it, runner_devices.c opens its devices, runner_split.c
 * spreads layers over them, runner_memory.c gives it memory, runner_states.c that of sequences, runner_weights.c its
 * weights, runner.c runs steps, runner_borders.c carries values from device to device, runner_regions.c runs steps on
 * devices with a shape profile. */
#ifndef TENON_ENGINE_RUNNER_INTERNAL_H
#define TENON_ENGINE_RUNNER_INTERNAL_H

#include "device/registry.h"
#include "engine/packed.h"
#include "engine/placement.h"
#include "engine/runner.h"
#include "graph/passes.h"
#include "model/model.h"

#define MAX_DEVICES (TN_MOST_PLACED + 1) /* those that layers are placed on, and one for what they lack */
#define MAX_PROFILE 8                    /* row counts, and lengths, of a shape profile */

typedef struct runner_device {
  const char *spec;
  tn_opened_device *opened;
  tn_queue *queue;
  tn_buffer *weights, *states, *scratch;
  uint64_t weight_bytes, state_bytes, scratch_bytes;
  uint64_t page_bytes[TN_MAX_GROUPS], slot_bytes; /* of its KV in each group, and of all its recurrent states */
  bool filled;                                    /* the weights came from the stored form */
  tn_packed packed;                               /* where the packed weights are stored, while that isn't done */
  tn_packed_store *store;                         /* and who stores them */
  tn_buffer **pieces; /* in place of `weights` where they are more than the device gives at once */
  size_t piece_count, piece_capacity;
} runner_device;

/* A step in flight. */
typedef struct runner_ticket {
  const tn_batch *batch;
  const float *logits; /* where the host reads them */
  tn_status status;
  tn_error error;
} runner_ticket;

/* A thread that executes steps in the order of their submits, where the runner overlaps (runner_lane.c). The counts are
 * of steps; what they count is touched by the caller from `executed` on and by the thread before. */
typedef struct runner_lane {
  tn_thread *thread; /* NULL: steps run in tn_runner_submit, one at a time */
  tn_mutex *lock;
  tn_cond *changed;
  uint64_t submitted, executed, waited; /* `submitted` and `executed` under the lock */
  bool is_ending;
  runner_ticket tickets[TN_MOST_IN_FLIGHT];
} runner_lane;

/* A value that crosses between programs, comes from the host or goes there: memory on every device that touches it. */
typedef struct border_value {
  tn_ref value;
  uint64_t row_bytes, bytes;
  uint32_t writer; /* the device that computes it */
  bool on_device[MAX_DEVICES];
  bool is_there[MAX_DEVICES]; /* it has been carried there in this step */
  tn_buffer *buffers[MAX_DEVICES];
} border_value;

/* A border value on its way to a device. */
typedef struct runner_carried {
  border_value *border;
  uint64_t bytes;
  unsigned char *staged; /* NULL: the host reads it where it was written */
} runner_carried;

/* A partition made ready: its executable and its bindings. Those of the states change with the sequence where KV is
 * contiguous, else none does. */
typedef struct runner_part {
  const tn_partition *partition;
  tn_executable *executable;
  tn_binding *inputs, *outputs, *states;
  runner_carried *carried; /* room for all inputs */
} runner_part;

/* The model's programs for one shape: for any (the only one of a runner over paged KV), or for a number of rows and a
 * length of KV. Values have the same numbers in the graphs of all shapes up to those that specialise makes. */
typedef struct runner_shape {
  tn_fixed_shape fixed;
  tn_graph *graph;
  tn_plan plan;
  border_value *borders;
  size_t border_count, border_capacity;
  runner_part *parts;
  tn_binding *states; /* by value; of contiguous KV: region 0 */
} runner_shape;

/* What a device accepts; nothing of both: any rows, paged KV. */
typedef struct runner_profile {
  uint32_t rows[MAX_PROFILE], lengths[MAX_PROFILE]; /* rising */
  uint32_t row_count, length_count;
  uint32_t device; /* whose it is */
} runner_profile;

/* Where the KV of a sequence is, on devices with contiguous KV. */
typedef struct runner_region {
  uint32_t length; /* number of the listed length it has */
  uint32_t filled; /* slots */
} runner_region;

struct tn_runner {
  const tn_model *model;
  tn_runner_options options; /* its texts are copies in `texts` */
  tn_arena texts;
  tn_runner_info info;
  runner_profile profile;
  runner_shape *shapes; /* [length][row count] of the profile; one without */
  uint32_t shape_count;
  runner_device devices[MAX_DEVICES];
  uint32_t device_count;
  tn_placement placement;     /* its specs are those of the first devices */
  uint32_t fallback;          /* the device that runs what others lack */
  bool *at_fallback;          /* by value: states it has because another device runs their ops in some shapes only */
  tn_weight_binding *weights; /* [device][value] */
  runner_region *regions;     /* [max_sequences]; contiguous KV only */
  uint64_t region_bytes[MAX_DEVICES][MAX_PROFILE];
  /* Host memory for what devices don't let the host reach: `carried_bytes` for what is on its way between devices, or
   * made by the host for them, and behind it each set of logits. */
  unsigned char *staging;
  uint64_t carried_bytes;
  /* contiguous KV: the logits of a step's pieces, [TN_MAX_LOGITS_ROWS, vocabulary]; the piece that runs, and what its
   * batch is without the padding */
  float *gathered;
  tn_row *piece_rows;
  uint32_t *piece_logits_rows;
  const tn_batch *unpadded;
  uint32_t logits_sets; /* of memory for logits: one for each step that can be in flight */
  runner_lane lane;
};

static inline tn_opened_device *opened_of(const tn_runner *runner, uint32_t device) {
  return runner->devices[device].opened;
}

static inline bool has_profile(const tn_runner *runner) {
  return runner->profile.row_count > 0;
}

static inline tn_weight_binding *weight_of(const tn_runner *runner, uint32_t device, tn_ref value) {
  return runner->weights + (size_t)device * runner->shapes[0].graph->value_count + value;
}

static inline border_value *border_of(const runner_shape *shape, tn_ref value) {
  border_value *border = shape->borders;
  while (border->value != value) border++;
  return border;
}

/* ---- runner_setup.c ---- */
/* Builds the model's graph for a shape; its `fixed` is set. */
tn_status tn_runner_make_graph(tn_runner *runner, runner_shape *shape, tn_error *error);
/* Runs the passes over it. */
tn_status tn_runner_compile(tn_runner *runner, runner_shape *shape, tn_error *error);

/* ---- runner_devices.c ---- */
/* Reads the placement and opens its devices. */
tn_status tn_runner_open_devices(tn_runner *runner, tn_error *error);
/* Chooses the fallback, and opens it where an op needs one and no opened device serves. */
tn_status tn_runner_complement_devices(tn_runner *runner, tn_error *error);
/* Closes all devices from number `first` on. */
void tn_runner_close_devices(tn_runner *runner, uint32_t first);
/* What the passes are to know of the devices. */
tn_place_target tn_runner_target(tn_runner *runner);
/* Are layers spread by tenon itself? */
bool tn_runner_splits(const tn_runner *runner);
/* What is free on a device now; UINT64_MAX: it doesn't say. */
uint64_t tn_runner_free_memory(const tn_runner *runner, uint32_t device);

/* ---- runner_split.c ---- */
/* Spreads the layers over the opened devices by their free memory; those that are not needed are closed. */
tn_status tn_runner_split(tn_runner *runner, tn_error *error);

/* ---- runner_memory.c: what a runner takes of its devices, its shapes being compiled ---- */
tn_status tn_runner_take_memory(tn_runner *runner, tn_error *error);
/* Zeroed memory on a device; none when the runner only plans. */
tn_status tn_runner_take(tn_runner *runner, uint32_t device, uint64_t bytes, tn_buffer **buffer, tn_error *error);
/* The most bytes that a value takes that crosses between programs. */
uint64_t tn_runner_border_bytes(const tn_graph *graph, tn_ref value);
void tn_runner_release_memory(tn_runner *runner);

/* ---- runner_states.c ---- */
/* Sizes the memory of KV and recurrent states, and takes it. */
tn_status tn_runner_take_states(tn_runner *runner, tn_error *error);
/* What a device is asked about a state. */
tn_state_desc tn_runner_state_desc(const tn_graph_value *value);

/* ---- runner_weights.c ---- */
/* Gives every weight its place on each device, and takes the memory for them, unless they are to come from a file. */
tn_status tn_runner_place_weights(tn_runner *runner, tn_error *error);
/* Puts them there. */
tn_status tn_runner_fill_weights(tn_runner *runner, tn_error *error);

/* ---- runner_borders.c ---- */
/* Before a step: nothing is anywhere. */
void tn_runner_clear_borders(const runner_shape *shape);
/* Brings the inputs of a part to its device. */
tn_status tn_runner_carry_inputs(tn_runner *runner, const runner_shape *shape, const runner_part *part,
                                 const tn_batch *batch, tn_error *error);
/* The most host memory that is needed at a time for carrying, and for what the host feeds. */
uint64_t tn_runner_carried_bytes(tn_runner *runner);
/* Host memory that a set of logits needs; 0: the host reads them in place. */
uint64_t tn_runner_logits_bytes(tn_runner *runner);

/* ---- runner.c ---- */
/* Runs the programs of a shape in order; the logits, of set `set`, are at *logits when the devices have been waited
 * for.
 */
tn_status tn_runner_run_shape(tn_runner *runner, const runner_shape *shape, const tn_batch *batch, uint32_t set,
                              const float **logits, tn_error *error);
/* Waits for the devices. */
tn_status tn_runner_finish_shape(tn_runner *runner, const runner_shape *shape, uint64_t deadline_ns, tn_error *error);

/* ---- runner_regions.c: devices with a shape profile ---- */
/* Reads the devices' profile; TN_E_UNSUPPORTED for one that makes no sense, or two that differ. */
tn_status tn_runner_read_profile(tn_runner *runner, tn_error *error);
/* Runs a checked batch sequence after sequence, in pieces of the listed row counts, to its end. */
tn_status tn_runner_run_regions(tn_runner *runner, const tn_batch *batch, const float **logits, tn_error *error);

/* ---- runner_lane.c: steps in flight ---- */
/* Reads the option, and says how many steps can be in flight; the devices are open. TN_E_INVALID. */
tn_status tn_runner_choose_overlap(tn_runner *runner, tn_error *error);
tn_status tn_runner_start_lane(tn_runner *runner, tn_error *error);
void tn_runner_end_lane(tn_runner *runner);
/* Runs a checked batch, or hands it to the lane. */
tn_status tn_runner_hand_over(tn_runner *runner, const tn_batch *batch, tn_error *error);
/* Waits until nothing is executed, so that the caller may use the queues. */
void tn_runner_settle(tn_runner *runner);

#endif
