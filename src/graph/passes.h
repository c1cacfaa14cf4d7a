/* Passes: graph -> graph, and in the end graph -> programs. One file each in passes/. */
#ifndef TENON_GRAPH_PASSES_H
#define TENON_GRAPH_PASSES_H

#include "graph/graph.h"

/* The devices that the parts of a model are wanted on, by number. */
typedef struct tn_layer_devices {
  const uint8_t *layers; /* [layer_count] */
  uint32_t layer_count;
  uint32_t before, behind; /* of the ops before the layers, and behind them */
} tn_layer_devices;

/* The devices a graph is placed on, as far as passes need to know them. */
typedef struct tn_place_target {
  void *context;
  uint32_t device_count;
  /* Does device `device` run this op? */
  bool (*supports)(void *context, uint32_t device, const tn_op_query *query);
  const tn_layer_devices *wanted; /* NULL: everything is wanted on device 0 */
  uint32_t fallback;              /* the device that runs what the wanted one doesn't */
  const bool *at_fallback;        /* by value: states whose ops are the fallback's in any case; NULL: none */
} tn_place_target;

/* Does the op multiply activations, its input 0, by a matrix or several, its input 1? */
static inline bool tn_op_is_linear(uint32_t opcode) {
  return opcode == TN_OP_LINEAR || opcode == TN_OP_MOE_LINEAR || opcode == TN_OP_HEAD_LINEAR;
}

/* The state that an op reads or writes; TN_NO_VALUE: none. */
tn_ref tn_state_of(const tn_graph *graph, const tn_graph_op *op);

/* The device an op is wanted on. */
uint32_t tn_place_wanted(const tn_place_target *target, const tn_graph_op *op);

/* The shape of a program that is made for one number of rows and one length of contiguous KV; rows 0: for any. */
typedef struct tn_fixed_shape {
  uint32_t rows, length;
} tn_fixed_shape;

/* What the caller wants of the passes. */
typedef struct tn_pass_options {
  tn_fixed_shape shape;
  bool
      quantise_activations; /* 8-bit activations wherever a weight is in a quantised format and the device takes them */
  const char *passes;       /* NULL: all; "none"; or a comma list of optional passes: merge, fuse, inplace */
  void (*observe)(void *context, const char *pass, const tn_graph *graph); /* called after each pass where not NULL */
  void *observe_context;
} tn_pass_options;

/* One program and where it runs. `values[i]` of an input or output is the graph value it carries. */
typedef struct tn_partition {
  uint32_t device;
  bool is_unpadded; /* of a specialised graph: to be run with the real rows alone; what it reads and writes has room for
                       the padding too */
  tn_program *program;                         /* 8-byte aligned, program->bytes long */
  tn_ref *inputs, *outputs, *weights, *states; /* by binding number: graph values */
} tn_partition;

typedef struct tn_plan {
  tn_partition *partitions;
  size_t partition_count;
} tn_plan;

/* Runs all passes in order: check, specialise (where a shape is given), place, merge, quantise, fuse, check, place,
 * plan, emit. The graph is changed; the plan is destroyed by the caller. */
tn_status tn_compile_graph(tn_graph *graph, const tn_place_target *target, const tn_pass_options *options,
                           tn_plan *plan, tn_error *error);
void tn_plan_destroy(tn_plan *plan);

/* The passes themselves. */
tn_status tn_pass_check(tn_graph *graph, tn_error *error);
/* For devices with a shape profile (device.h): T becomes shape.rows, S one; KV becomes contiguous regions of
 * shape.length slots; kv_write becomes kv_columns, whose outputs leave the program, attention becomes attention_masked;
 * masks and rope tables become inputs (tn_feed). It is the first of the passes so that devices are only ever asked
 * about the shapes they would run. Ops with a recurrent state keep T, in programs of their own (tn_partition). */
tn_status tn_pass_specialise(tn_graph *graph, tn_fixed_shape shape, tn_error *error);
tn_status tn_pass_place(tn_graph *graph, const tn_place_target *target, tn_error *error);
tn_status tn_pass_merge(tn_graph *graph, const tn_place_target *target, tn_error *error);
tn_status tn_pass_quantise(tn_graph *graph, const tn_place_target *target, tn_error *error);
tn_status tn_pass_fuse(tn_graph *graph, const tn_place_target *target, tn_error *error);
tn_status tn_pass_emit(tn_graph *graph, bool in_place, tn_plan *plan, tn_error *error);

/* Memory plan of the ops [first, last) of a graph: byte offset of every scratch value written there that stays inside
 * (offsets[value], others untouched). `border[value]`: the value leaves or enters and has memory of its own. Returns
 * the arena's bytes. */
uint64_t tn_plan_memory(const tn_graph *graph, size_t first, size_t last, const bool *border, bool in_place,
                        uint64_t *offsets);

/* TN_USE_ bits a weight needs on `device`, over all ops that read it there. */
uint32_t tn_weight_uses(const tn_graph *graph, tn_ref weight, uint32_t device);

#endif
