/* Where the time of a model's steps goes, by op: as a table and as a trace for Chrome or Perfetto. */
#ifndef TENON_TOOLS_PROFILE_H
#define TENON_TOOLS_PROFILE_H

#include <jansson.h>
#include "engine/runner.h"

typedef struct tn_profile {
  tn_runner *runner;
  uint64_t ns[64], bytes[64], calls[64], instructions[64]; /* by opcode, since the last table */
  uint64_t begin_ns;                                       /* the trace's time 0 */
  json_t *events;                                          /* of the trace; NULL: none is wanted */
} tn_profile;

/* Begins to measure; the devices do so until the runner is destroyed. TN_E_UNSUPPORTED: a device has no counters. */
tn_status tn_profile_start(tn_profile *profile, tn_runner *runner, tn_error *error);
/* Takes in what was measured since; `test` names the step in the trace. */
tn_status tn_profile_take(tn_profile *profile, const char *test, tn_error *error);
/* Forgets what was taken since the last table (warm-up). */
void tn_profile_clear(tn_profile *profile);
/* The table to stdout, or as JSON: {"op", "calls", "ms", "percent", "gb_per_s", "instructions"} of each op, the slowest
 * first; instructions are shown where the device counts them. */
void tn_profile_print(const tn_profile *profile);
json_t *tn_profile_as_json(const tn_profile *profile);
/* {"traceEvents": [...]} to a file. */
tn_status tn_profile_write_trace(const tn_profile *profile, const char *path, tn_error *error);

#endif
