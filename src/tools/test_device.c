/* tenon test-device: the conformance kit on one device. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/options.h"
#include "conformance/case_file.h"
#include "conformance/kit.h"
#include "tensor/dtype.h"
#include "tools/bisect.h"

/* A call of a driver that doesn't come back can't be ended: after so many steps' worth of silence the process is. */
#define SILENCE_STEPS 6u

typedef struct device_test {
  const char *spec, *driver, *op, *replay;
  tn_bisect_options bisect;
  uint32_t timeout_ms;
  bool perf, report, json, verbose, is_bisect;
  json_t *results;
  char running[TN_KIT_NAME];
  /* the watch over silence */
  _Atomic uint64_t last_result_ns;
  _Atomic bool done;
  uint64_t silence_ns;
} device_test;

/* ---- results as they come ---- */

static json_t *result_as_json(const tn_kit_result *r) {
  static const char *const verdicts[] = {"passed", "failed", "fallback", "hidden"};
  json_t *item = json_pack("{s:s, s:s, s:s}", "part", r->part, "case", r->name, "verdict", verdicts[r->verdict]);
  if (r->c) {
    json_object_set_new(item, "dtype", json_string(tn_dtype_name((tn_dtype)r->c->dtype)));
    json_object_set_new(item, "error", json_real(r->error));
    json_object_set_new(item, "tolerance", json_real(r->tolerance));
  }
  if (r->verdict == TN_KIT_FAILED) json_object_set_new(item, "why", json_string(r->why));
  if (r->seconds > 0) {
    json_object_set_new(item, "seconds", json_real(r->seconds));
    json_object_set_new(item, "bytes_per_s", json_real(r->bytes / r->seconds));
    json_object_set_new(item, "ops_per_s", json_real(r->operations / r->seconds));
    json_object_set_new(item, "percent_of_peak", r->percent > 0 ? json_real(r->percent) : json_null());
  }
  return item;
}

static void print_timing(const tn_kit_result *r) {
  printf("%-12s %-44s %10.1f us %8.2f GB/s %9.2f GOPS", r->part, r->name, r->seconds * 1e6, r->bytes / r->seconds / 1e9,
         r->operations / r->seconds / 1e9);
  const char *peak = !r->memory_bound ? "compute" : r->percent > 100 ? "memory: it stayed in caches" : "memory";
  if (r->percent > 0) printf("  %5.1f %% of %s", r->percent, peak);
  putchar('\n');
}

static void on_result(void *context, const tn_kit_result *r) {
  device_test *test = context;
  test->last_result_ns = tn_clock_ns();
  if (test->json) {
    json_array_append_new(test->results, result_as_json(r));
    return;
  }
  if (r->verdict == TN_KIT_FAILED)
    printf("FAILED  %s: %s: %s\n", r->part, r->name, r->why);
  else if (r->seconds > 0)
    print_timing(r);
  else if (test->verbose && !r->c)
    printf("ok       %s: %s\n", r->part, r->name);
  else if (test->verbose)
    printf("%-8s %s: %s  error %.2g\n", r->verdict == TN_KIT_PASSED ? "ok" : "fallback", r->part, r->name, r->error);
  fflush(stdout);
}

static void watch_silence(void *context) {
  device_test *test = context;
  while (!test->done) {
    tn_sleep_ns(50000000);
    if (test->done || tn_clock_ns() - test->last_result_ns < test->silence_ns) continue;
    fprintf(stderr, "tenon: device %s: a call did not return within %.1f s; giving up\n", test->spec,
            (double)test->silence_ns * 1e-9);
    fflush(stdout);
    _Exit(1);
  }
}

/* ---- at the end ---- */

static json_t *coverage_as_json(const tn_kit_summary *summary) {
  json_t *all = json_array();
  for (uint32_t opcode = 0; opcode < TN_OP_LIMIT; opcode++)
    for (uint32_t dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
      const tn_kit_coverage *c = &summary->coverage[opcode][dtype];
      if (!c->native && !c->fallback && !c->failed) continue;
      json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i, s:i}", "op", tn_op_info_of(opcode)->name, "dtype",
                                           tn_dtype_name((tn_dtype)dtype), "native", (int)c->native, "failed",
                                           (int)c->failed, "fallback", (int)c->fallback));
    }
  return all;
}

static void print_coverage(const tn_kit_summary *summary) {
  printf("\n%-12s %-10s %8s %8s %8s\n", "op", "dtype", "native", "failed", "fallback");
  for (uint32_t opcode = 0; opcode < TN_OP_LIMIT; opcode++)
    for (uint32_t dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
      const tn_kit_coverage *c = &summary->coverage[opcode][dtype];
      if (!c->native && !c->fallback && !c->failed) continue;
      printf("%-12s %-10s %8u %8u %8u\n", tn_op_info_of(opcode)->name, tn_dtype_name((tn_dtype)dtype), c->native,
             c->failed, c->fallback);
    }
  putchar('\n');
}

static void print_end(const device_test *test, const tn_kit_summary *s) {
  if (test->json) {
    json_t *all =
        json_pack("{s:s, s:{s:i, s:i, s:i, s:i}, s:f, s:O, s:o}", "device", test->spec, "summary", "passed",
                  (int)s->passed, "failed", (int)s->failed, "fallback", (int)s->fallback, "hidden", (int)s->hidden,
                  "seconds", s->seconds, "results", test->results, "coverage", coverage_as_json(s));
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
    return;
  }
  if (test->report) print_coverage(s);
  printf("%s: %u passed, %u failed, %u fall back", test->spec, s->passed, s->failed, s->fallback);
  if (s->hidden) printf(", %u can't be seen without an op that falls back", s->hidden);
  printf(" (%.1f s)\n", s->seconds);
}

/* ---- the command ---- */

/* One case from a file; what came out is told whatever it is. */
static int replay(const device_test *test) {
  tn_error error = {0};
  tn_case *c = NULL;
  tn_opened_device *device = NULL;
  tn_kit_result result = {0};
  tn_status status = tn_case_read(test->replay, &c, &error);
  if (status == TN_OK) status = tn_device_open(test->spec, NULL, 0, &device, &error);
  if (status == TN_OK) {
    tn_kit_check_case(device, c, (uint64_t)test->timeout_ms * 1000000u, &result);
    if (result.verdict == TN_KIT_FAILED)
      printf("FAILED  %s: %s: %s\n", result.part, result.name, result.why);
    else if (result.verdict == TN_KIT_PASSED)
      printf("ok      %s: %s: error %.2g, allowed %.2g\n", result.part, result.name, result.error, result.tolerance);
    else
      printf("%s does not take %s: %s\n", test->spec, result.part, result.name);
  }
  tn_device_close(device);
  tn_case_destroy(c);
  if (status != TN_OK) return tn_cli_fail(error.message);
  return tn_cli_finish_output() || result.verdict == TN_KIT_FAILED;
}

static int bisect(device_test *test) {
  tn_error error = {0};
  uint32_t wrong = 0;
  test->bisect.device = test->spec;
  test->bisect.timeout_ms = test->timeout_ms;
  tn_status status = tn_bisect(&test->bisect, &wrong, &error);
  if (status != TN_OK) return tn_cli_fail(error.message);
  return tn_cli_finish_output() || wrong;
}

static tn_status run(device_test *test, tn_kit_summary *summary, tn_error *error) {
  const tn_kit_options options = {.op = test->op,
                                  .perf = test->perf,
                                  .timeout_ms = test->timeout_ms,
                                  .running = test->running,
                                  .on_result = on_result,
                                  .context = test};
  tn_say_on_crash(test->running);
  test->silence_ns = (uint64_t)test->timeout_ms * 1000000u * SILENCE_STEPS;
  test->last_result_ns = tn_clock_ns();
  tn_thread *watch = tn_thread_start("tenon-watch", watch_silence, test);
  if (!watch) return tn_fail(error, TN_E_MEMORY, "no thread to watch the device");
  tn_status status = tn_kit_run(test->spec, &options, summary, error);
  test->done = true;
  tn_thread_join(watch);
  return status;
}

int tn_command_test_device(int argc, char **argv) {
  device_test test = {.timeout_ms = 10000, .bisect = {.save = "wrong-op.case", .rows = 16}};
  const tn_cli_option options[] = {
      {"driver", 0, TN_CLI_TEXT, &test.driver, "PATH", "the device is this driver library's", 0, 0},
      {"op", 0, TN_CLI_TEXT, &test.op, "X", "only this op, or seam", 0, 0},
      {"perf", 0, TN_CLI_FLAG, &test.perf, NULL, "time large cases against the device's peaks", 0, 0},
      {"report", 0, TN_CLI_FLAG, &test.report, NULL, "which ops and types are native, which fall back", 0, 0},
      {"json", 0, TN_CLI_FLAG, &test.json, NULL, "everything as JSON", 0, 0},
      {"verbose", 'v', TN_CLI_FLAG, &test.verbose, NULL, "name every case", 0, 0},
      {"model", 0, TN_CLI_TEXT, &test.bisect.model, "M", "the model to bisect", 0, 0},
      {"bisect", 0, TN_CLI_FLAG, &test.is_bisect, NULL, "find the first op of the model that comes out wrong", 0, 0},
      {"all", 0, TN_CLI_FLAG, &test.bisect.all, NULL, "bisect: go on behind the first", 0, 0},
      {"rows", 0, TN_CLI_U32, &test.bisect.rows, "N", "bisect: token rows (16)", 1, 4096},
      {"kv", 0, TN_CLI_TEXT, &test.bisect.kv, "TYPE", "bisect: KV memory", 0, 0},
      {"activations", 0, TN_CLI_TEXT, &test.bisect.activations, "MODE", "bisect: auto or float", 0, 0},
      {"passes", 0, TN_CLI_TEXT, &test.bisect.passes, "LIST", "bisect: graph passes", 0, 0},
      {"save", 0, TN_CLI_TEXT, &test.bisect.save, "F", "bisect: file for the first op (wrong-op.case)", 0, 0},
      {"replay", 0, TN_CLI_TEXT, &test.replay, "F", "run the op saved in this file alone", 0, 0},
      {"timeout-ms", 0, TN_CLI_U32, &test.timeout_ms, "N", "longest time for one step (10000)", 1, 3600000},
  };
  const tn_cli_command command = {"test-device",
                                  "[NAME] [options]",
                                  "Tests a device: every op with every case, and the device interface itself.",
                                  options,
                                  TN_COUNT(options),
                                  0,
                                  1};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &test.spec, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if ((count == 0) == (test.driver == NULL)) {
    fprintf(stderr, "tenon test-device: name one device, or a driver with --driver\n");
    return 2;
  }
  if (test.is_bisect != (test.bisect.model != NULL)) {
    fprintf(stderr, "tenon test-device: --bisect goes with --model\n");
    return 2;
  }
  if (test.driver) test.spec = test.driver;
  if (test.replay) return replay(&test);
  if (test.is_bisect) return bisect(&test);
  test.results = json_array();
  tn_kit_summary *summary = tn_calloc(1, sizeof *summary);
  tn_error error = {0};
  tn_status status = summary ? run(&test, summary, &error) : tn_fail(&error, TN_E_MEMORY, "out of memory");
  int result = 1;
  if (summary && (status == TN_OK || summary->passed + summary->failed)) print_end(&test, summary);
  if (status != TN_OK)
    tn_cli_fail(error.message);
  else
    result = tn_cli_finish_output() || summary->failed > 0;
  json_decref(test.results);
  free(summary);
  return result;
}
