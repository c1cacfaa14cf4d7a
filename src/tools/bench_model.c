/* tenon bench model: how fast a model runs on a device, beside what the machine allows.
 *
 *   prefill  P tokens of one sequence in steps of --chunk rows, behind DEPTH tokens
 *   decode   N steps of one row for each of S sequences, behind DEPTH tokens
 *   pass     one step of B rows of one sequence (what verifying B - 1 drafted tokens costs)
 *   speculate  with --draft: N tokens of each of S sequences through the engine, with drafts; its limit is that of
 * decode
 *
 * The limit of a test is the larger of the time its arithmetic takes at the device's int8 (or float) peak and the time
 * the bytes it must read take at the memory's speed: each weight of a linear once a step, in the file's format, of
 * experts as many as the step's rows can choose, and the KV of every visible position. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/draft.h"
#include "device/registry.h"
#include "graph/graph.h"
#include "tools/bench.h"
#include "tools/profile.h"
#include "tools/runner_tool.h"
#include "tools/speculation.h"

typedef struct bench_test {
  const char *name;
  uint32_t tokens, depth, sequences, rows, threads;
  tn_bench_spread speed; /* tokens per second */
  double limit;          /* tokens per second at the roofline; 0: unknown */
  const char *bound;     /* "memory" or "compute" */
} bench_test;

typedef struct bench_model {
  tn_runner_tool runner;
  tn_bench_list prompts, generated, depths, passes, sequences, threads;
  tn_engine_options drafting; /* how to speculate; draft NULL: not at all */
  uint32_t repeats;
  bool json, is_profiled;
  const char *trace; /* file, or NULL */
  tn_profile profile;
  const char *test; /* that is run now */
  /* the machine, for the current number of threads */
  double peak_int8, peak_f32, peak_bf16, peak_bytes;
  /* the model: of all linears whose rows are T, and R */
  double row_ops, head_ops, weight_bytes, kv_bytes_per_token;
  double chosen_bytes, expert_bytes; /* of the experts that a row chooses, and of all */
  uint32_t activations;              /* dtype that linears take: q8a, bf16 or f32 */
  /* buffers of a step */
  tn_row *rows;
  tn_sequence *states;
  uint32_t *pages, *logits_rows;
  uint32_t pages_per_sequence, max_sequences;
  json_t *results, *machine;
} bench_model;

static uint32_t largest(const tn_bench_list *list, uint32_t floor) {
  for (size_t i = 0; i < list->count; i++) floor = list->items[i] > floor ? list->items[i] : floor;
  return floor;
}

/* ---- the roofline ---- */

/* Asks a device of its own what it measured of its peaks. Several devices have no roofline in common: none is drawn. */
static tn_status read_machine(bench_model *bench, uint32_t threads, tn_error *error) {
  char text[16];
  if (bench->runner.place) return TN_OK;
  tn_opened_device *device;
  snprintf(text, sizeof text, "%u", threads);
  const tn_option option = {"threads", text};
  tn_status status = tn_device_open(bench->runner.device ? bench->runner.device : tn_default_driver(), &option,
                                    threads != 0, &device, error);
  if (status != TN_OK) return status;
  bench->peak_int8 = tn_device_peak_ops(device, TN_Q8A);
  bench->peak_f32 = tn_device_peak_ops(device, TN_F32);
  bench->peak_bf16 = tn_device_peak_ops(device, TN_BF16);
  bench->peak_bytes = tn_device_number(device, "peak_bytes");
  json_array_append_new(
      bench->machine,
      json_pack("{s:i, s:f, s:f, s:f, s:f}", "threads", (int)device->properties.threads, "int8_ops", bench->peak_int8,
                "f32_ops", bench->peak_f32, "bf16_ops", bench->peak_bf16, "read_bytes_per_s", bench->peak_bytes));
  tn_device_close(device);
  return TN_OK;
}

/* Adds what an op does for a row, and what it reads of its weights. */
static void read_op(bench_model *bench, const tn_graph *graph, const tn_graph_op *op) {
  if (op->opcode != TN_OP_LINEAR && op->opcode != TN_OP_MOE_LINEAR && op->opcode != TN_OP_HEAD_LINEAR) return;
  const tn_graph_value *x = graph->values + op->inputs[0], *w = graph->values + op->inputs[1];
  double matrices = w->rank == 3 ? w->dims[0] : 1, used = matrices;
  if (op->opcode == TN_OP_MOE_LINEAR) used = graph->values[op->inputs[2]].dims[1];
  double ops = 2.0 * w->dims[w->rank - 2] * w->dims[w->rank - 1];
  double bytes = (double)tn_row_bytes(w->dtype, (uint64_t)w->dims[w->rank - 1]) * w->dims[w->rank - 2];
  if (x->dims[0] == TN_DIM_R)
    bench->head_ops += used * ops;
  else
    bench->row_ops += used * ops;
  if (x->dtype != TN_F32) bench->activations = x->dtype;
  if (used < matrices) {
    bench->chosen_bytes += used * bytes;
    bench->expert_bytes += matrices * bytes;
  } else {
    bench->weight_bytes += matrices * bytes;
  }
}

static void read_model(bench_model *bench) {
  const tn_graph *graph = tn_runner_graph(bench->runner.runner);
  bench->row_ops = bench->head_ops = bench->weight_bytes = bench->kv_bytes_per_token = 0;
  bench->chosen_bytes = bench->expert_bytes = 0;
  for (size_t i = 0; i < graph->op_count; i++) read_op(bench, graph, graph->ops + i);
  const tn_runner_info *info = tn_runner_describe(bench->runner.runner);
  for (uint32_t g = 0; g < info->group_count; g++)
    bench->kv_bytes_per_token += (double)info->groups[g].page_bytes / TN_PAGE_SLOTS;
}

/* Seconds that one step takes at the roofline. */
static double step_limit(const bench_model *bench, double rows, double heads, double kv_tokens, const char **bound) {
  double peak = bench->activations == TN_Q8A    ? bench->peak_int8
                : bench->activations == TN_BF16 ? bench->peak_bf16
                                                : bench->peak_f32;
  double compute = peak > 0 ? (rows * bench->row_ops + heads * bench->head_ops) / peak : 0;
  double experts = rows * bench->chosen_bytes < bench->expert_bytes ? rows * bench->chosen_bytes : bench->expert_bytes;
  double bytes = bench->weight_bytes + experts + kv_tokens * bench->kv_bytes_per_token;
  double memory = bench->peak_bytes > 0 ? bytes / bench->peak_bytes : 0;
  *bound = compute > memory ? "compute" : "memory";
  return compute > memory ? compute : memory;
}

/* ---- steps ---- */

/* One step: `rows` rows of each of `sequences` sequences, all behind `depth` slots. */
static tn_status step(bench_model *bench, uint32_t sequences, uint32_t rows, uint32_t depth, bool all_logits,
                      tn_error *error) {
  uint32_t vocabulary = tn_runner_describe(bench->runner.runner)->vocabulary, r = 0, wanted = 0;
  for (uint32_t s = 0; s < sequences; s++) {
    tn_sequence *sequence = bench->states + s;
    *sequence = (tn_sequence){.first_row = r, .row_count = rows, .kv_length = depth};
    for (uint32_t g = 0; g < TN_MAX_GROUPS; g++) sequence->pages[g] = s * bench->pages_per_sequence;
    for (uint32_t i = 0; i < rows; i++, r++) {
      int32_t position = (int32_t)(depth + i);
      bool logits = all_logits || i + 1 == rows;
      bench->rows[r] = (tn_row){.token = (int32_t)((r * 2654435761u + depth * 40503u) % vocabulary),
                                .position = {position, position, position, position},
                                .sequence = s,
                                .wants_logits = logits};
      if (logits && wanted < TN_MAX_LOGITS_ROWS) bench->logits_rows[wanted++] = r;
    }
  }
  const tn_batch batch = {.size = sizeof batch,
                          .row_count = r,
                          .sequence_count = sequences,
                          .logits_count = wanted,
                          .context = depth + rows,
                          .page_count = bench->pages_per_sequence * bench->max_sequences,
                          .rows = bench->rows,
                          .sequences = bench->states,
                          .pages = bench->pages,
                          .logits_rows = bench->logits_rows};
  const float *logits;
  tn_status status = tn_runner_submit(bench->runner.runner, &batch, error);
  if (status == TN_OK) status = tn_runner_wait(bench->runner.runner, UINT64_MAX, &logits, error);
  return status == TN_OK && bench->is_profiled ? tn_profile_take(&bench->profile, bench->test, error) : status;
}

/* Fills the KV of the first `sequences` sequences up to `depth`. */
static tn_status fill(bench_model *bench, uint32_t sequences, uint32_t depth, tn_error *error) {
  uint32_t chunk = bench->runner.chunk / sequences ? bench->runner.chunk / sequences : 1;
  tn_status status = TN_OK;
  for (uint32_t done = 0; done < depth && status == TN_OK; done += chunk)
    status = step(bench, sequences, depth - done < chunk ? depth - done : chunk, done, false, error);
  return status;
}

static tn_status run_prefill(bench_model *bench, const bench_test *test, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t done = 0; done < test->tokens && status == TN_OK;) {
    uint32_t rows = test->tokens - done < bench->runner.chunk ? test->tokens - done : bench->runner.chunk;
    status = step(bench, 1, rows, test->depth + done, false, error);
    done += rows;
  }
  return status;
}

static tn_status run_decode(bench_model *bench, const bench_test *test, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < test->tokens && status == TN_OK; i++)
    status = step(bench, test->sequences, 1, test->depth + i, false, error);
  return status;
}

static tn_status run_pass(bench_model *bench, const bench_test *test, tn_error *error) {
  return step(bench, 1, test->rows, test->depth, true, error);
}

/* ---- tests ---- */

static void report(bench_model *bench, const bench_test *test) {
  json_t *profile = bench->json && bench->is_profiled ? tn_profile_as_json(&bench->profile) : NULL;
  double percent = test->limit > 0 ? 100 * test->speed.median / test->limit : 0;
  if (bench->json) {
    json_t *limit =
        test->limit > 0 ? json_pack("{s:f, s:s}", "tokens_per_s", test->limit, "bound", test->bound) : json_null();
    json_array_append_new(
        bench->results,
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:{s:f, s:f, s:f}, s:o, s:o}", "test", test->name, "tokens",
                  (int)test->tokens, "depth", (int)test->depth, "sequences", (int)test->sequences, "rows",
                  (int)test->rows, "threads", (int)test->threads, "tokens_per_s", "min", test->speed.minimum, "median",
                  test->speed.median, "max", test->speed.maximum, "percent_of_limit",
                  test->limit > 0 ? json_real(percent) : json_null(), "limit", limit));
    if (profile)
      json_object_set_new(json_array_get(bench->results, json_array_size(bench->results) - 1), "profile", profile);
    return;
  }
  printf("%-8s %6u %6u %4u %4u %3u  %9.1f %9.1f %9.1f", test->name, test->tokens, test->depth, test->sequences,
         test->rows, test->threads, test->speed.minimum, test->speed.median, test->speed.maximum);
  if (test->limit > 0) printf("  %5.1f %% of %.0f (%s)", percent, test->limit, test->bound);
  putchar('\n');
  if (bench->is_profiled) tn_profile_print(&bench->profile);
  fflush(stdout);
}

static tn_status measure(bench_model *bench, bench_test *test,
                         tn_status (*run)(bench_model *, const bench_test *, tn_error *), uint32_t tokens_made,
                         tn_error *error) {
  double *speeds = tn_calloc(bench->repeats, sizeof *speeds);
  if (!speeds) return tn_fail(error, TN_E_MEMORY, "out of memory");
  bench->test = "warm-up";
  tn_status status = fill(bench, test->sequences, test->depth, error);
  if (status == TN_OK) status = run(bench, test, error);
  bench->test = test->name;
  tn_profile_clear(&bench->profile);
  for (uint32_t i = 0; i < bench->repeats && status == TN_OK; i++) {
    uint64_t start = tn_clock_ns();
    status = run(bench, test, error);
    speeds[i] = tokens_made * 1e9 / (double)(tn_clock_ns() - start);
  }
  if (status == TN_OK) {
    test->speed = tn_bench_spread_of(speeds, bench->repeats);
    report(bench, test);
  }
  free(speeds);
  return status;
}

static tn_status measure_prefill(bench_model *bench, uint32_t tokens, uint32_t depth, uint32_t threads,
                                 tn_error *error) {
  bench_test test = {.name = "prefill",
                     .tokens = tokens,
                     .depth = depth,
                     .sequences = 1,
                     .rows = tokens < bench->runner.chunk ? tokens : bench->runner.chunk,
                     .threads = threads};
  double seconds = 0;
  for (uint32_t done = 0; done < tokens; done += test.rows) {
    uint32_t rows = tokens - done < test.rows ? tokens - done : test.rows;
    seconds += step_limit(bench, rows, 1, depth + done, &test.bound);
  }
  test.limit = seconds > 0 ? tokens / seconds : 0;
  return measure(bench, &test, run_prefill, tokens, error);
}

static tn_status measure_decode(bench_model *bench, uint32_t tokens, uint32_t depth, uint32_t sequences,
                                uint32_t threads, tn_error *error) {
  bench_test test = {.name = "decode",
                     .tokens = tokens,
                     .depth = depth,
                     .sequences = sequences,
                     .rows = sequences,
                     .threads = threads};
  double seconds = step_limit(bench, sequences, sequences, sequences * (depth + tokens / 2.0), &test.bound);
  test.limit = seconds > 0 ? sequences / seconds : 0;
  return measure(bench, &test, run_decode, tokens * sequences, error);
}

static tn_status measure_pass(bench_model *bench, uint32_t rows, uint32_t depth, uint32_t threads, tn_error *error) {
  bench_test test = {.name = "pass", .tokens = rows, .depth = depth, .sequences = 1, .rows = rows, .threads = threads};
  double seconds = step_limit(bench, rows, rows, depth, &test.bound);
  test.limit = seconds > 0 ? rows / seconds : 0;
  return measure(bench, &test, run_pass, rows, error);
}

/* ---- speculation ---- */

/* Tokens per second of one run: S answers of N tokens to a prompt of the depth's length, all at once. */
static tn_status run_speculating(tn_engine *engine, const bench_test *test, uint32_t vocabulary, double *speed,
                                 tn_error *error) {
  tn_decoding got[TN_MAX_LOGITS_ROWS] = {{0}};
  uint32_t length = test->depth ? test->depth : 1;
  int32_t *prompt = tn_calloc(length, sizeof *prompt);
  if (!prompt) return tn_fail(error, TN_E_MEMORY, "out of memory");
  for (uint32_t i = 0; i < length; i++) prompt[i] = (int32_t)((i * 2654435761u + 40503u) % vocabulary);
  tn_request_options request = TN_REQUEST_OPTIONS;
  request.tokens = prompt;
  request.token_count = length;
  request.max_tokens = test->tokens;
  request.ignore_eos = 1;
  tn_status status = tn_decode_together(engine, &request, test->sequences, got, error);
  *speed = 0;
  for (uint32_t i = 0; i < test->sequences; i++) {
    if (got[i].seconds > 0) *speed += (got[i].count - 1) / got[i].seconds;
    free(got[i].tokens);
  }
  free(prompt);
  return status;
}

static tn_status measure_speculation(bench_model *bench, tn_engine *engine, bench_test *test, tn_error *error) {
  tn_model_info model = TN_MODEL_INFO;
  tn_model_describe(bench->runner.model, &model);
  double seconds = step_limit(bench, test->sequences, test->sequences,
                              test->sequences * (test->depth + test->tokens / 2.0), &test->bound);
  test->limit = seconds > 0 ? test->sequences / seconds : 0;
  double *speeds = tn_calloc(bench->repeats + 1, sizeof *speeds);
  if (!speeds) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = TN_OK;
  /* the first one is the warm-up, in which it also learns what passes cost */
  for (uint32_t i = 0; i <= bench->repeats && status == TN_OK; i++)
    status = run_speculating(engine, test, model.vocabulary, &speeds[i], error);
  if (status == TN_OK) {
    test->speed = tn_bench_spread_of(speeds + 1, bench->repeats);
    report(bench, test);
  }
  free(speeds);
  return status;
}

static tn_status run_speculation(bench_model *bench, uint32_t threads, uint32_t context, tn_error *error) {
  if (!bench->drafting.draft) return TN_OK;
  tn_model_info model = TN_MODEL_INFO;
  tn_model_describe(bench->runner.model, &model);
  tn_engine_options options = bench->drafting;
  options.threads = threads;
  options.context = context < model.context ? context + 1 : context;
  options.max_sequences = bench->max_sequences;
  options.chunk = bench->runner.chunk;
  options.device = bench->runner.device;
  options.place = bench->runner.place;
  options.kv = bench->runner.kv;
  options.activations = bench->runner.activations;
  options.passes = bench->runner.passes;
  options.packed = bench->runner.packed;
  tn_engine *engine = NULL;
  tn_status status = tn_engine_create(bench->runner.model, &options, &engine, error);
  bool is_profiled = bench->is_profiled;
  bench->is_profiled = false; /* that is of a runner of our own */
  for (size_t d = 0; d < bench->depths.count; d++)
    for (size_t i = 0; i < bench->generated.count; i++)
      for (size_t s = 0; s < bench->sequences.count && status == TN_OK; s++) {
        bench_test test = {.name = "speculate",
                           .tokens = bench->generated.items[i],
                           .depth = bench->depths.items[d],
                           .sequences = bench->sequences.items[s],
                           .rows = options.draft_k,
                           .threads = threads ? threads : tn_machine_cpus()};
        if (test.tokens > 1) status = measure_speculation(bench, engine, &test, error);
      }
  bench->is_profiled = is_profiled;
  tn_engine_destroy(engine);
  return status;
}

static tn_status run_tests(bench_model *bench, uint32_t threads, tn_error *error) {
  tn_status status = TN_OK;
  for (size_t d = 0; d < bench->depths.count; d++) {
    uint32_t depth = bench->depths.items[d];
    for (size_t i = 0; i < bench->prompts.count && status == TN_OK; i++)
      if (bench->prompts.items[i]) status = measure_prefill(bench, bench->prompts.items[i], depth, threads, error);
    for (size_t i = 0; i < bench->generated.count && status == TN_OK; i++)
      for (size_t s = 0; s < bench->sequences.count && status == TN_OK; s++)
        if (bench->generated.items[i])
          status = measure_decode(bench, bench->generated.items[i], depth, bench->sequences.items[s], threads, error);
    for (size_t i = 0; i < bench->passes.count && status == TN_OK; i++)
      if (bench->passes.items[i]) status = measure_pass(bench, bench->passes.items[i], depth, threads, error);
  }
  return status;
}

/* ---- the command ---- */

static tn_status open_runner(bench_model *bench, uint32_t threads, uint32_t context, tn_error *error) {
  uint32_t passes = largest(&bench->passes, 1), rows = bench->runner.chunk;
  if (rows < passes) rows = passes;
  if (rows < bench->max_sequences) rows = bench->max_sequences;
  bench->pages_per_sequence = (context + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS;
  uint32_t pages = bench->pages_per_sequence * bench->max_sequences;
  const tn_runner_options options = {.device = bench->runner.device,
                                     .place = bench->runner.place,
                                     .threads = threads,
                                     .kv = bench->runner.kv,
                                     .activations = bench->runner.activations,
                                     .passes = bench->runner.passes,
                                     .packed = bench->runner.packed,
                                     .weights = bench->runner.weights,
                                     .max_rows = rows,
                                     .max_sequences = bench->max_sequences,
                                     .max_context = context,
                                     .pages = pages};
  tn_status status = tn_runner_create(bench->runner.model, &options, &bench->runner.runner, error);
  if (status != TN_OK) return status;
  bench->rows = tn_calloc(rows, sizeof *bench->rows);
  bench->states = tn_calloc(bench->max_sequences, sizeof *bench->states);
  bench->pages = tn_calloc(pages, sizeof *bench->pages);
  bench->logits_rows = tn_calloc(TN_MAX_LOGITS_ROWS, sizeof *bench->logits_rows);
  if (!bench->rows || !bench->states || !bench->pages || !bench->logits_rows)
    return tn_fail(error, TN_E_MEMORY, "out of memory");
  for (uint32_t i = 0; i < pages; i++) bench->pages[i] = i;
  return TN_OK;
}

static void close_runner(bench_model *bench) {
  tn_runner_destroy(bench->runner.runner);
  bench->runner.runner = NULL;
  free(bench->rows);
  free(bench->states);
  free(bench->pages);
  free(bench->logits_rows);
  bench->rows = NULL;
  bench->states = NULL;
  bench->pages = bench->logits_rows = NULL;
}

static tn_status run_all(bench_model *bench, tn_error *error) {
  tn_model_info model = TN_MODEL_INFO;
  tn_model_describe(bench->runner.model, &model);
  uint32_t most = largest(&bench->prompts, largest(&bench->generated, largest(&bench->passes, 1)));
  uint32_t context = largest(&bench->depths, 0) + most;
  if (context > model.context)
    return tn_fail(error, TN_E_LIMIT, "depth and tokens make %u positions, the model was made for %u", context,
                   model.context);
  bench->max_sequences = largest(&bench->sequences, 1);
  if (!bench->json)
    printf("%-8s %6s %6s %4s %4s %3s  %9s %9s %9s tokens/s\n", "test", "tokens", "depth", "seqs", "rows", "thr", "min",
           "median", "max");
  tn_status status = TN_OK;
  for (size_t t = 0; t < bench->threads.count && status == TN_OK; t++) {
    status = read_machine(bench, bench->threads.items[t], error);
    if (status == TN_OK) status = open_runner(bench, bench->threads.items[t], context, error);
    if (status == TN_OK) {
      read_model(bench);
      if (bench->is_profiled) status = tn_profile_start(&bench->profile, bench->runner.runner, error);
    }
    if (status == TN_OK) {
      status = run_tests(bench, tn_runner_describe(bench->runner.runner)->threads, error);
    }
    bool is_last = t + 1 == bench->threads.count;
    if (status == TN_OK && bench->trace && is_last)
      status = tn_profile_write_trace(&bench->profile, bench->trace, error);
    close_runner(bench);
    if (status == TN_OK) status = run_speculation(bench, bench->threads.items[t], context, error);
  }
  return status;
}

static int print_json(bench_model *bench, const char *path) {
  char cpu[128];
  tn_machine_cpu_name(cpu, sizeof cpu);
  json_t *all = json_pack("{s:s, s:{s:s, s:i, s:O}, s:O}", "model", path, "machine", "cpu", cpu, "cpus",
                          (int)tn_machine_cpus(), "roofline", bench->machine, "results", bench->results);
  json_dumpf(all, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(all);
  return tn_cli_finish_output();
}

int tn_bench_model(int argc, char **argv) {
  bench_model bench = {.drafting = TN_ENGINE_OPTIONS, .repeats = 3, .runner = {.chunk = 512}};
  const char *draft_k = NULL, *prompts = "512", *generated = "128", *depths = "0", *passes = "0", *sequences = "1",
             *threads = "0";
  const tn_cli_option options[] = {
      {"prompt", 'p', TN_CLI_TEXT, &prompts, "LIST", "tokens of a prefill (512); 0: none", 0, 0},
      {"generate", 'n', TN_CLI_TEXT, &generated, "LIST", "tokens decoded (128); 0: none", 0, 0},
      {"depth", 'd', TN_CLI_TEXT, &depths, "LIST", "tokens already present (0)", 0, 0},
      {"rows", 'b', TN_CLI_TEXT, &passes, "LIST", "rows of one pass (0: none)", 0, 0},
      {"sequences", 's', TN_CLI_TEXT, &sequences, "LIST", "sequences decoding together (1)", 0, 0},
      {"threads", 't', TN_CLI_TEXT, &threads, "LIST", "threads (0: the processors allowed)", 0, 0},
      {"repeats", 'r', TN_CLI_U32, &bench.repeats, "N", "counted runs of each test (3)", 1, 1000},
      {"chunk", 0, TN_CLI_U32, &bench.runner.chunk, "N", "token rows of one prefill step (512)", 1, 65536},
      {"device", 0, TN_CLI_TEXT, &bench.runner.device, "D", "device (cpu)", 0, 0},
      TN_PLACE_OPTION(bench.runner.place),
      {"kv", 0, TN_CLI_TEXT, &bench.runner.kv, "TYPE",
       "KV memory in f16 (default), bf16, f32 (default with float activations) or int8", 0, 0},
      {"activations", 0, TN_CLI_TEXT, &bench.runner.activations, "MODE", "auto or float", 0, 0},
      {"passes", 0, TN_CLI_TEXT, &bench.runner.passes, "LIST", "graph passes", 0, 0},
      {"weights", 0, TN_CLI_TEXT, &bench.runner.weights, "TYPE", "quantise float weights at load: q8_0, q4_0, ...", 0,
       0},
      {"packed", 0, TN_CLI_TEXT, &bench.runner.packed, "WHERE",
       "packed weights on disk: off (default), auto, or a folder", 0, 0},
      TN_DRAFT_OPTIONS(bench.drafting, draft_k),
      {"profile", 0, TN_CLI_FLAG, &bench.is_profiled, NULL, "time by op", 0, 0},
      {"trace", 0, TN_CLI_TEXT, &bench.trace, "F", "profile, and write a trace for Chrome or Perfetto", 0, 0},
      {"json", 0, TN_CLI_FLAG, &bench.json, NULL, "results as JSON", 0, 0},
  };
  const tn_cli_command command = {"bench model",
                                  "MODEL [options]",
                                  "Measures prefill, decode and passes; lists sweep.",
                                  options,
                                  TN_COUNT(options),
                                  1,
                                  1};
  const char *path;
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  tn_error error = {0};
  tn_status status = tn_bench_parse_list("prompt", prompts, 0, 1 << 20, &bench.prompts, &error);
  if (status == TN_OK) status = tn_bench_parse_list("generate", generated, 0, 1 << 20, &bench.generated, &error);
  if (status == TN_OK) status = tn_bench_parse_list("depth", depths, 0, 1 << 24, &bench.depths, &error);
  if (status == TN_OK) status = tn_bench_parse_list("rows", passes, 0, TN_MAX_LOGITS_ROWS, &bench.passes, &error);
  if (status == TN_OK)
    status = tn_bench_parse_list("sequences", sequences, 1, TN_MAX_LOGITS_ROWS, &bench.sequences, &error);
  if (status == TN_OK) status = tn_bench_parse_list("threads", threads, 0, 1024, &bench.threads, &error);
  if (status == TN_OK) status = tn_cli_read_draft_k(draft_k, &bench.drafting.draft_k, &error);
  bench.is_profiled = bench.is_profiled || bench.trace;
  if (bench.trace) bench.profile.events = json_array();
  bench.results = json_array();
  bench.machine = json_array();
  if (status == TN_OK) status = tn_model_open(path, &bench.runner.model, &error);
  if (status == TN_OK) status = run_all(&bench, &error);
  int result = status != TN_OK ? tn_cli_fail(error.message)
               : bench.json    ? print_json(&bench, path)
                               : tn_cli_finish_output();
  json_decref(bench.results);
  json_decref(bench.machine);
  json_decref(bench.profile.events);
  tn_model_close(bench.runner.model);
  return result;
}
