/* The bench: one case on a device - weights packed, memory taken, the program prepared - and its runs. Around
 * everything a kernel may write lies a strip that must not change, and everything that holds nothing yet holds poison,
 * so that what a kernel reads or writes beside its operands shows. */
#ifndef TENON_CONFORMANCE_BENCH_H
#define TENON_CONFORMANCE_BENCH_H

#include "conformance/steps.h"
#include "device/registry.h"

typedef struct tn_bench_memory {
  tn_buffer *buffer;
  uint64_t offset, bytes; /* of what is bound; a strip lies before and behind */
} tn_bench_memory;

typedef struct tn_bench {
  tn_opened_device *device;
  const tn_case *c;
  tn_program *program;
  tn_queue *queue;
  tn_executable *executable;
  tn_bench_memory values[TN_CASE_VALUES], scratch; /* by value number */
  tn_weight_binding weights[TN_CASE_VALUES];       /* by binding number */
  uint64_t timeout_ns;
  uint64_t longest; /* bytes of the largest input or output, strips included */
  uint8_t *staging;
} tn_bench;

/* Which of the case's ops the device takes: all (TN_OK), not the one that is looked at, or not one of the others
 * (TN_E_UNSUPPORTED, *others set). */
tn_status tn_bench_supports(tn_opened_device *device, const tn_case *c, bool *others, tn_error *error);

/* Makes everything ready; on failure nothing is left. A step that takes longer than timeout_ns is TN_E_TIMEOUT. */
tn_status tn_bench_start(tn_bench *bench, tn_opened_device *device, const tn_case *c, uint64_t timeout_ns,
                         tn_error *error);
void tn_bench_finish(tn_bench *bench);

/* Runs all steps with memory that holds nothing yet filled with `poison`. TN_E_INTERNAL with words when the device
 * wrote where it must not. */
tn_status tn_bench_run(tn_bench *bench, tn_schedule schedule, uint8_t poison, tn_case_results *results,
                       tn_error *error);

/* Executes the whole case as one step once to touch everything, then `repeats` times; seconds of the fastest. */
tn_status tn_case_time(tn_opened_device *device, const tn_case *c, uint64_t timeout_ns, uint32_t repeats,
                       double *seconds, tn_error *error);

#endif
