/* The runner: a model's programs prepared on devices, with their weights, KV memory and arena. It runs one batch after
 * the other and knows nothing of requests: sequences, pages and tokens are the engine's affair.
 *
 * Memory is all taken in tn_runner_create; nothing is allocated in a step.
 *
 * On a device with a shape profile (tenon/device.h) each sequence has a region of contiguous KV of each listed length,
 * named by its recurrent state's slot: region n belongs to the sequence that reads and writes slots 2n and 2n + 1. It
 * begins at the smallest length that holds its first rows and moves to the next when it grows past it. Page tables are
 * not looked at. A step runs sequence after sequence in pieces of the listed row counts, and is done when submit
 * returns. The context is cut to the longest length. Recurrent states lie in slots as elsewhere; the ops that move them
 * on see a piece's rows without the padding. Not there: shared prefixes, copied pages, counters, snapshots.
 *
 * The layers may be spread over several devices (placement.h). The programs run in the order of the graph, whatever
 * crosses from one device to another goes through the host. Pages and states have one number on all devices; each has
 * the part of its layers. Of devices with a shape profile and others the profile counts for all; two different profiles
 * are refused. */
#ifndef TENON_ENGINE_RUNNER_H
#define TENON_ENGINE_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/device.h"
#include "tenon/status.h"

struct tn_model;
struct tn_graph;
struct tn_graph_op;
typedef struct tn_runner tn_runner;

typedef struct tn_runner_options {
  const char *device;      /* see tn_engine_options; NULL: "cpu" */
  uint32_t threads;        /* 0: the device's default */
  const char *kv;          /* NULL: "f16", or "f32" with float activations */
  const char *activations; /* NULL: "auto" */
  const char *passes;      /* NULL: all */
  uint32_t max_rows;       /* T of a step */
  uint32_t max_sequences;  /* S of a step */
  uint32_t max_context;    /* slots of one sequence */
  uint32_t pages;          /* of every group, before kv_bytes cuts them */
  uint32_t windows;     /* groups with a window: pages for so many windows and steps, if that is less; 0: as others */
  uint64_t kv_bytes;    /* most memory for KV: the most pages that fit; 0: no limit. TN_E_LIMIT with both numbers if
                           not even one page fits */
  uint32_t state_slots; /* of recurrent states, where the model has any; 0: two for each sequence */
  uint32_t snapshots;   /* slots beyond those, before snapshot_bytes cuts them */
  uint64_t snapshot_bytes; /* most memory for these; 0: no limit */
  bool plan_only;          /* plan and count, take no memory: such a runner can only be described */
  /* Called after each graph pass where not NULL. */
  void (*observe)(void *context, const char *pass, const struct tn_graph *graph);
  void *observe_context;
  const char *packed;  /* see tn_engine_options; NULL: "off" */
  const char *weights; /* see tn_engine_options; NULL: as they are */
  const char *overlap; /* see tn_engine_options; NULL: "off" */
  const char *place;   /* see tn_engine_options; NULL: the whole model on `device` */
  bool fit_pages;      /* cut `pages` to what the devices have free, too */
} tn_runner_options;

/* How many windows the engine has memory for, for each sequence that runs: its own, and the ends of some that the
 * prefix cache holds. */
#define TN_WINDOWS_PER_SEQUENCE 4u

/* A layer group shares page tables: the engine keeps one table a group for each sequence. */
typedef struct tn_runner_group {
  uint32_t window;     /* 0: full attention; else pages wholly behind the window may be freed */
  uint32_t pages;      /* after the cut */
  uint64_t page_bytes; /* of one page number over all layers of the group */
} tn_runner_group;

typedef struct tn_runner_info {
  uint32_t state_slots; /* of recurrent states: state_read and state_write are below it; 0: the model has none. Of
                           contiguous KV: two for each sequence, whether the model has any or not */
  uint64_t state_bytes; /* of one slot over all layers */
  uint32_t vocabulary;
  uint32_t max_rows, max_sequences, max_logits_rows, max_context;
  uint32_t pages; /* of groups without a window, after the cut; others have no more */
  uint32_t group_count;
  tn_runner_group groups[TN_MAX_GROUPS];
  uint64_t weight_bytes, kv_bytes, arena_bytes; /* arena: scratch, inputs and outputs */
  uint32_t threads;
  bool batch_invariant;
  char device[64];
  bool contiguous; /* KV in regions, not in pages */
  bool overlaps;   /* two steps may be in flight, and the caller has the time until they are done for itself */
} tn_runner_info;

/* Builds the graph of `model`, runs the passes, places it, packs the weights and allocates. The model must outlive the
 * runner. */
tn_status tn_runner_create(const struct tn_model *model, const tn_runner_options *options, tn_runner **runner,
                           tn_error *error);
void tn_runner_destroy(tn_runner *runner);
const tn_runner_info *tn_runner_describe(const tn_runner *runner);
/* The graph after the passes (ops carry their device's number), and the spec of a device by that number (NULL past the
 * last). */
const struct tn_graph *tn_runner_graph(const tn_runner *runner);
const char *tn_runner_device_name(const tn_runner *runner, uint32_t device);
/* Bytes that a value of that graph takes on a device: of a weight, all as it is packed there (0: nothing reads it
 * there); of KV those of one position, of a recurrent state those of one slot; of others 0. */
uint64_t tn_runner_value_bytes(const tn_runner *runner, uint32_t device, uint32_t value);
/* Would the device run an op of that graph? */
bool tn_runner_supports(const tn_runner *runner, uint32_t device, const struct tn_graph_op *op);

#define TN_MOST_IN_FLIGHT 2u

/* Starts one step. `batch` is checked (TN_E_INVALID) and must stay as it is until the step has been waited for. Page
 * table entries are page numbers < pages. Steps run in the order of their submits, so that a second one may stand on
 * what the first one writes. Where the runner overlaps, TN_MOST_IN_FLIGHT can be in flight, else one; one more is
 * TN_E_BUSY. */
tn_status tn_runner_submit(tn_runner *runner, const tn_batch *batch, tn_error *error);
/* Waits for the oldest step in flight until deadline_ns (tn_clock_ns time, UINT64_MAX: none). *logits: [R, vocabulary],
 * valid until the next submit, and beyond one that is in flight already. On any failure nothing of the step counts
 * (pages written hold rubbish only in slots the step was to fill). TN_E_TIMEOUT: still running, wait again. */
tn_status tn_runner_wait(tn_runner *runner, uint64_t deadline_ns, const float **logits, tn_error *error);

/* Copies page `from` to page `to` in all layers of a group (copy on write), behind the steps in flight. */
tn_status tn_runner_copy_page(tn_runner *runner, uint32_t group, uint32_t from, uint32_t to, tn_error *error);
/* A page of a group over all its layers (groups[group].page_bytes) and a slot of the recurrent states (state_bytes), to
 * and from the host, as the device lays them out; with no step in flight. TN_E_UNSUPPORTED on contiguous KV. */
tn_status tn_runner_read_page(tn_runner *runner, uint32_t group, uint32_t page, void *to, tn_error *error);
tn_status tn_runner_write_page(tn_runner *runner, uint32_t group, uint32_t page, const void *from, tn_error *error);
tn_status tn_runner_read_state(tn_runner *runner, uint32_t slot, void *to, tn_error *error);
tn_status tn_runner_write_state(tn_runner *runner, uint32_t slot, const void *from, tn_error *error);
/* Two numbers that are the same for runners whose pages and states mean the same: of the weights (every byte; of models
 * with more than 2 GiB of them 1 MiB of each matrix, spread over it), and of everything else that decides about their
 * bytes: the graph after the passes with its types and placement, devices and their instruction sets, tenon's version.
 * Sizes of memory don't count. */
tn_status tn_runner_fingerprint(tn_runner *runner, uint64_t *model, uint64_t *configuration, tn_error *error);
/* After TN_E_DEVICE_LOST: opens the devices again, those that are not lost too, and packs and allocates anew; all pages
 * are empty. */
tn_status tn_runner_reopen(tn_runner *runner, tn_error *error);

/* What a device measured of one op. */
typedef struct tn_runner_counter {
  uint32_t op;               /* its number in the graph */
  uint32_t device, core;     /* where it ran */
  uint64_t start_ns, end_ns; /* tn_clock_ns time */
  uint64_t cycles, bytes;    /* 0 where not measured */
  uint64_t instructions;     /* of all threads; 0 where not counted */
} tn_runner_counter;

/* The counters of all steps since the last call, by time, in *counters (free() it; NULL when there are none). Devices
 * may begin to measure with the first call. TN_E_UNSUPPORTED when a device has no counters, TN_E_BUSY with a step in
 * flight. */
tn_status tn_runner_counters(tn_runner *runner, tn_runner_counter **counters, size_t *count, tn_error *error);

#endif
