/* Profiles of steps (see profile.h). */
#include "tools/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "graph/graph.h"

tn_status tn_profile_start(tn_profile *profile, tn_runner *runner, tn_error *error) {
  tn_runner_counter *counters;
  size_t count;
  profile->runner = runner;
  if (!profile->begin_ns) profile->begin_ns = tn_clock_ns();
  tn_profile_clear(profile);
  tn_status status = tn_runner_counters(runner, &counters, &count, error);
  if (status == TN_OK) free(counters);
  return status;
}

void tn_profile_clear(tn_profile *profile) {
  memset(profile->ns, 0, sizeof profile->ns);
  memset(profile->bytes, 0, sizeof profile->bytes);
  memset(profile->instructions, 0, sizeof profile->instructions);
  memset(profile->calls, 0, sizeof profile->calls);
}

/* A complete event of the trace format: microseconds, one process a device, one thread a core. */
static json_t *event_of(const tn_profile *profile, const tn_runner_counter *c, const tn_graph_op *op,
                        const char *test) {
  const char *name = tn_op_info_of(op->opcode)->name;
  return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:{s:s, s:s, s:i, s:I, s:I}}", "name", name, "cat", name, "ph",
                   "X", "ts", (double)(c->start_ns - profile->begin_ns) * 1e-3, "dur",
                   (double)(c->end_ns - c->start_ns) * 1e-3, "pid", (int)c->device, "tid", (int)c->core, "args",
                   "layer", op->name ? op->name : "", "test", test, "op", (int)c->op, "bytes", (json_int_t)c->bytes,
                   "instructions", (json_int_t)c->instructions);
}

tn_status tn_profile_take(tn_profile *profile, const char *test, tn_error *error) {
  const tn_graph *graph = tn_runner_graph(profile->runner);
  tn_runner_counter *counters;
  size_t count;
  tn_status status = tn_runner_counters(profile->runner, &counters, &count, error);
  if (status != TN_OK) return status;
  for (size_t i = 0; i < count; i++) {
    const tn_runner_counter *c = counters + i;
    const tn_graph_op *op = graph->ops + c->op;
    profile->ns[op->opcode] += c->end_ns - c->start_ns;
    profile->bytes[op->opcode] += c->bytes;
    profile->instructions[op->opcode] += c->instructions;
    profile->calls[op->opcode]++;
    if (profile->events) json_array_append_new(profile->events, event_of(profile, c, op, test));
  }
  free(counters);
  return TN_OK;
}

/* ---- tables ---- */

/* The opcode with the most time among those not yet shown; TN_OP_LIMIT: none is left. */
static uint32_t slowest_left(const tn_profile *profile, const bool *shown) {
  uint32_t best = TN_OP_LIMIT;
  for (uint32_t i = 0; i < TN_OP_LIMIT; i++)
    if (profile->calls[i] && !shown[i] && (best == TN_OP_LIMIT || profile->ns[i] > profile->ns[best])) best = i;
  return best;
}

json_t *tn_profile_as_json(const tn_profile *profile) {
  bool shown[TN_OP_LIMIT] = {false};
  uint64_t total = 0;
  json_t *list = json_array();
  for (uint32_t i = 0; i < TN_OP_LIMIT; i++) total += profile->ns[i];
  for (uint32_t op; (op = slowest_left(profile, shown)) < TN_OP_LIMIT; shown[op] = true) {
    double ns = (double)(profile->ns[op] ? profile->ns[op] : 1);
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:f, s:f, s:f, s:I}", "op", tn_op_info_of(op)->name, "calls",
                        (json_int_t)profile->calls[op], "ms", (double)profile->ns[op] * 1e-6, "percent",
                        total ? 100.0 * (double)profile->ns[op] / (double)total : 0.0, "gb_per_s",
                        (double)profile->bytes[op] / ns, "instructions", (json_int_t)profile->instructions[op]));
  }
  return list;
}

void tn_profile_print(const tn_profile *profile) {
  json_t *list = tn_profile_as_json(profile), *item;
  size_t i;
  json_array_foreach(list, i, item) {
    json_int_t instructions = json_integer_value(json_object_get(item, "instructions"));
    printf("    %-12s %9lld calls %10.3f ms %5.1f %%  %7.2f GB/s", json_string_value(json_object_get(item, "op")),
           (long long)json_integer_value(json_object_get(item, "calls")), json_real_value(json_object_get(item, "ms")),
           json_real_value(json_object_get(item, "percent")), json_real_value(json_object_get(item, "gb_per_s")));
    if (instructions) printf(" %14lld instructions", (long long)instructions);
    printf("\n");
  }
  json_decref(list);
}

tn_status tn_profile_write_trace(const tn_profile *profile, const char *path, tn_error *error) {
  for (uint32_t device = 0; tn_runner_device_name(profile->runner, device); device++)
    json_array_append_new(profile->events,
                          json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M", "pid", (int)device,
                                    "args", "name", tn_runner_device_name(profile->runner, device)));
  json_t *all = json_pack("{s:O, s:s}", "traceEvents", profile->events, "displayTimeUnit", "ms");
  char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
  json_decref(all);
  if (!text) return tn_fail(error, TN_E_MEMORY, "out of memory for the trace");
  tn_status status = tn_file_write(path, text, strlen(text), error);
  free(text);
  return status;
}
