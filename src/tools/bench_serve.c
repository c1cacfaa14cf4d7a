/* tenon bench serve: how a server of OpenAI's API does under load, at several loads in turn. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/options.h"
#include "tools/bench.h"
#include "tools/bench_load.h"
#include "tools/bench_report.h"

#define MAX_REQUESTS 1000000

typedef struct bench_serve {
  tn_bench_target target;
  tn_bench_prompts prompts;
  tn_bench_report report;
  tn_bench_list concurrencies;
  double rates[TN_BENCH_MAX_LIST];
  size_t rate_count;
  uint32_t requests, warm_up;
  uint64_t number; /* of the next prompt */
  bool json, details, is_terminal;
  const char *url, *model, *endpoint, *key, *key_file, *dataset, *data, *tokenizer, *extra;
  const char *concurrency, *rate, *percentiles, *goodput;
  const char *json_file, *csv_file, *html_file;
  char *key_text;
  json_t *extra_json;
} bench_serve;

/* ---- options ---- */

/* Numbers > 0 and <= maximum, comma separated. */
static tn_status parse_numbers(const char *option, const char *text, double maximum, size_t most, double *numbers,
                               size_t *count, tn_error *error) {
  *count = 0;
  for (const char *at = text;;) {
    char *end;
    double value = strtod(at, &end);
    if (end == at || (*end && *end != ',') || !(value > 0) || value > maximum)
      return tn_fail(error, TN_E_INVALID, "--%s: \"%.40s\" given, expected numbers above 0 up to %g, comma separated",
                     option, text, maximum);
    if (*count == most) return tn_fail(error, TN_E_INVALID, "--%s: more than %zu numbers", option, most);
    numbers[(*count)++] = value;
    if (!*end) return TN_OK;
    at = end + 1;
  }
}

/* "ttft:200,tpot:50,e2el:3000" */
static tn_status parse_goals(const char *text, tn_bench_goals *goals, tn_error *error) {
  for (const char *at = text;;) {
    const char *colon = strchr(at, ':');
    tn_bench_time which = 0;
    while (colon && which < TN_BENCH_TIMES &&
           (which == TN_BENCH_ITL || strlen(tn_bench_time_names[which]) != (size_t)(colon - at) ||
            strncmp(at, tn_bench_time_names[which], (size_t)(colon - at))))
      which++;
    char *end = NULL;
    double value = colon ? strtod(colon + 1, &end) : 0;
    if (!colon || which == TN_BENCH_TIMES || !(value > 0) || !isfinite(value) || (*end && *end != ','))
      return tn_fail(error, TN_E_INVALID, "--goodput: \"%.60s\" given, expected some of ttft:MS,tpot:MS,e2el:MS", text);
    goals->ms[which] = value;
    goals->any = true;
    if (!*end) return TN_OK;
    at = end + 1;
  }
}

static tn_status parse_endpoint(bench_serve *bench, tn_error *error) {
  bench->target.is_chat = !strcmp(bench->endpoint, "chat");
  if (bench->target.is_chat || !strcmp(bench->endpoint, "completions")) return TN_OK;
  return tn_fail(error, TN_E_INVALID, "--endpoint: \"%.40s\" given, expected chat or completions", bench->endpoint);
}

static tn_status read_key(bench_serve *bench, tn_error *error) {
  size_t size;
  bench->target.key = bench->key;
  if (!bench->key_file) return TN_OK;
  if (bench->key) return tn_fail(error, TN_E_INVALID, "--api-key and --api-key-file are both given; give one of them");
  tn_status status = tn_file_read(bench->key_file, (size_t)64 << 10, &bench->key_text, &size, error);
  if (status != TN_OK) return status;
  bench->key_text[strcspn(bench->key_text, "\r\n")] = 0;
  bench->target.key = bench->key_text;
  return TN_OK;
}

static tn_status parse_extra(bench_serve *bench, tn_error *error) {
  json_error_t fault;
  if (!bench->extra) return TN_OK;
  bench->extra_json = json_loads(bench->extra, 0, &fault);
  bench->target.extra = bench->extra_json;
  if (json_is_object(bench->extra_json)) return TN_OK;
  return tn_fail(error, TN_E_INVALID, "--extra: expected a JSON object: %s",
                 bench->extra_json ? "it is another kind of value" : fault.text);
}

static tn_status check_options(bench_serve *bench, tn_error *error) {
  tn_bench_report *report = &bench->report;
  tn_status status = tn_bench_parse_list("concurrency", bench->concurrency ? bench->concurrency : "1", 1, 65536,
                                         &bench->concurrencies, error);
  if (status == TN_OK && bench->rate)
    status = parse_numbers("rate", bench->rate, 1e6, TN_BENCH_MAX_LIST, bench->rates, &bench->rate_count, error);
  if (status == TN_OK && bench->rate && bench->concurrencies.count > 1)
    status = tn_fail(error, TN_E_INVALID, "--rate and a list of --concurrency are both given; sweep one of them");
  if (status == TN_OK)
    status = parse_numbers("percentiles", bench->percentiles, 100, TN_BENCH_PERCENTILES, report->percentiles,
                           &report->percentile_count, error);
  if (status == TN_OK && bench->goodput) status = parse_goals(bench->goodput, &report->goals, error);
  if (status == TN_OK) status = parse_endpoint(bench, error);
  if (status == TN_OK) status = tn_bench_prompts_kind(bench->dataset, &bench->prompts.kind, error);
  if (status == TN_OK) status = parse_extra(bench, error);
  return status;
}

/* ---- measuring ---- */

static void tell(void *context, const tn_bench_point *point, size_t done, size_t failed, uint64_t tokens) {
  (void)context;
  double seconds = (double)(tn_clock_ns() - point->begin) / 1e9;
  fprintf(stderr, "\r\033[K%zu of %zu requests", done, point->count);
  if (failed) fprintf(stderr, " (%zu failed)", failed);
  fprintf(stderr, ", %.1f s, %.1f tokens/s", seconds, seconds > 0 ? (double)tokens / seconds : 0);
  fflush(stderr);
}

/* Runs `count` requests at a load; the point goes into the report unless it only warms up. */
static tn_status run_point(bench_serve *bench, double rate, uint32_t concurrency, size_t count, bool is_counted,
                           tn_error *error) {
  tn_bench_point point = {.rate = rate,
                          .concurrency = concurrency,
                          .seed = bench->report.seed,
                          .first = bench->number,
                          .count = count,
                          .records = tn_calloc(count, sizeof *point.records)};
  if (!point.records) return tn_fail(error, TN_E_MEMORY, "no memory for %zu requests", count);
  bench->number += count;
  tn_status status =
      tn_bench_load_run(&bench->target, &bench->prompts, &point, bench->is_terminal ? tell : NULL, NULL, error);
  if (bench->is_terminal) fprintf(stderr, "\r\033[K");
  if (status == TN_OK && is_counted && !tn_bench_report_add(&bench->report, &point))
    status = tn_fail(error, TN_E_MEMORY, "no memory for the results");
  if (status == TN_OK && !is_counted && point.is_complete)
    for (size_t i = 0; i < count && status == TN_OK; i++)
      if (!point.records[i].is_good)
        status = tn_fail(error, TN_E_IO, "warming up at %s: %s", bench->target.base, point.records[i].error);
  if (status == TN_OK && is_counted && !bench->json)
    tn_bench_report_print(&bench->report, bench->report.points + bench->report.count - 1);
  tn_bench_point_finish(&point);
  return status;
}

static tn_status run_points(bench_serve *bench, tn_error *error) {
  const tn_bench_list *list = &bench->concurrencies;
  size_t count = bench->rate_count ? bench->rate_count : list->count;
  tn_status status = TN_OK;
  bench->report.points = tn_calloc(count, sizeof *bench->report.points);
  if (!bench->report.points) return tn_fail(error, TN_E_MEMORY, "out of memory");
  if (bench->warm_up) status = run_point(bench, 0, 1, bench->warm_up, false, error);
  for (size_t i = 0; i < count && status == TN_OK && !tn_interrupts(); i++) {
    double rate = bench->rate_count ? bench->rates[i] : 0;
    uint32_t concurrency = !bench->rate_count ? list->items[i] : bench->concurrency ? list->items[0] : 0;
    status = run_point(bench, rate, concurrency, bench->requests, true, error);
  }
  bench->report.is_complete = bench->report.is_complete && !tn_interrupts();
  return status;
}

/* ---- results ---- */

/* Whether the results can be written where they shall, found before they are measured. */
static tn_status check_files(const bench_serve *bench, tn_error *error) {
  const char *const files[] = {bench->json_file, bench->csv_file, bench->html_file};
  for (size_t i = 0; i < TN_COUNT(files); i++)
    if (files[i] && !tn_path_is_endless(files[i]) && tn_file_writer_check(files[i], error) != TN_OK)
      return error->status;
  return TN_OK;
}

static tn_status write_buf(const char *path, const tn_buf *text, tn_error *error) {
  if (text->failed) return tn_fail(error, TN_E_MEMORY, "no memory for %s", path);
  return tn_file_write(path, text->data, text->size, error);
}

static tn_status write_results(const bench_serve *bench, tn_error *error) {
  tn_status status = TN_OK;
  tn_buf text;
  tn_buf_init(&text);
  if (bench->json || bench->json_file) {
    json_t *json = tn_bench_report_json(&bench->report);
    char *dump = json ? json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    tn_buf_puts(&text, dump ? dump : "");
    tn_buf_putc(&text, '\n');
    text.failed = text.failed || !dump;
    if (bench->json) fputs(text.data ? text.data : "", stdout);
    if (bench->json_file || text.failed)
      status = write_buf(bench->json_file ? bench->json_file : "the results", &text, error);
    free(dump);
    json_decref(json);
  }
  if (status == TN_OK && bench->csv_file) {
    tn_buf_clear(&text);
    tn_bench_report_csv(&bench->report, &text);
    status = write_buf(bench->csv_file, &text, error);
  }
  if (status == TN_OK && bench->html_file) {
    tn_buf_clear(&text);
    tn_bench_report_html(&bench->report, &text);
    status = write_buf(bench->html_file, &text, error);
  }
  tn_buf_finish(&text);
  return status;
}

/* An error when nothing was answered, or not all was asked. */
static tn_status judge(const bench_serve *bench, tn_error *error) {
  size_t completed = 0;
  for (size_t i = 0; i < bench->report.count; i++) completed += bench->report.points[i].completed;
  if (!bench->report.is_complete) return tn_fail(error, TN_E_CANCELLED, "interrupted; the results are partial");
  if (!completed)
    return tn_fail(error, TN_E_IO, "no request was answered: %s",
                   bench->report.points[0].first_error ? bench->report.points[0].first_error : "unknown cause");
  return TN_OK;
}

static tn_status measure(bench_serve *bench, tn_error *error) {
  tn_status status = check_options(bench, error);
  if (status == TN_OK) status = check_files(bench, error);
  if (status == TN_OK) status = read_key(bench, error);
  bench->prompts.seed = bench->report.seed;
  if (status == TN_OK) status = tn_bench_prompts_open(&bench->prompts, bench->tokenizer, bench->data, error);
  if (status == TN_OK) status = tn_bench_load_begin(error);
  if (status != TN_OK) return status;
  status = tn_bench_load_find(&bench->target, bench->url, bench->model, error);
  if (status == TN_OK) status = run_points(bench, error);
  if (status == TN_OK) status = write_results(bench, error);
  if (status == TN_OK) status = judge(bench, error);
  tn_bench_load_finish();
  return status;
}

static void finish(bench_serve *bench) {
  tn_bench_report_finish(&bench->report);
  tn_bench_prompts_close(&bench->prompts);
  json_decref(bench->extra_json);
  free(bench->target.base);
  free(bench->target.model);
  free(bench->key_text);
}

int tn_bench_serve(int argc, char **argv) {
  bench_serve bench = {.target = {.timeout_seconds = 600},
                       .prompts = {.input_tokens = 256, .output_tokens = 0},
                       .requests = 64,
                       .warm_up = 1,
                       .url = "http://127.0.0.1:8080",
                       .endpoint = "chat",
                       .dataset = "random",
                       .percentiles = "50,90,95,99"};
  tn_bench_target *target = &bench.target;
  tn_bench_prompts *prompts = &bench.prompts;
  const tn_cli_option options[] = {
      {"url", 0, TN_CLI_TEXT, &bench.url, "URL", "the server (http://127.0.0.1:8080)", 0, 0},
      {"model", 0, TN_CLI_TEXT, &bench.model, "NAME", "model to ask for; default: the server's first", 0, 0},
      {"endpoint", 0, TN_CLI_TEXT, &bench.endpoint, "E", "chat (default) or completions", 0, 0},
      {"api-key", 0, TN_CLI_TEXT, &bench.key, "KEY", "key of the server", 0, 0},
      {"api-key-file", 0, TN_CLI_TEXT, &bench.key_file, "F", "or the first line of a file", 0, 0},
      {"dataset", 0, TN_CLI_TEXT, &bench.dataset, "D", "random (default), sonnet, sharegpt, arxiv, file", 0, 0},
      {"data", 0, TN_CLI_TEXT, &bench.data, "F", "file of the last three", 0, 0},
      {"tokenizer", 0, TN_CLI_TEXT, &bench.tokenizer, "F", "counts tokens by it; default: 4 bytes a token", 0, 0},
      {"input-tokens", 0, TN_CLI_U32, &prompts->input_tokens, "N", "of a prompt of random or sonnet (256)", 1, 1 << 22},
      {"prefix-tokens", 0, TN_CLI_U32, &prompts->prefix_tokens, "N", "the same in front of all of them (0)", 0,
       1 << 22},
      {"output-tokens", 0, TN_CLI_U32, &prompts->output_tokens, "N", "of an answer; default: the data's, else 128", 1,
       1 << 22},
      {"range", 0, TN_CLI_F32, &prompts->range, "R", "random lengths within (1 - R) to (1 + R) of these (0)", 0, 1},
      {"requests", 'n', TN_CLI_U32, &bench.requests, "N", "counted requests of each load (64)", 1, MAX_REQUESTS},
      {"warm-up", 0, TN_CLI_U32, &bench.warm_up, "N", "requests before, not counted (1)", 0, MAX_REQUESTS},
      {"concurrency", 'c', TN_CLI_TEXT, &bench.concurrency, "LIST", "requests at once (1)", 0, 0},
      {"rate", 0, TN_CLI_TEXT, &bench.rate, "LIST", "requests a second, at random times (Poisson)", 0, 0},
      {"seed", 0, TN_CLI_U64, &bench.report.seed, "N", "of prompts and times (0)", 0, 0},
      {"temperature", 0, TN_CLI_F32, &target->temperature, "T", "of the answers (0)", 0, 100},
      {"ignore-eos", 0, TN_CLI_FLAG, &target->ignore_eos, NULL, "answers don't end by themselves", 0, 0},
      {"extra", 0, TN_CLI_TEXT, &bench.extra, "JSON", "further fields of each request", 0, 0},
      {"timeout", 0, TN_CLI_U32, &target->timeout_seconds, "S", "an answer may take (600)", 1, 86400},
      {"percentiles", 0, TN_CLI_TEXT, &bench.percentiles, "LIST", "to be told (50,90,95,99)", 0, 0},
      {"goodput", 0, TN_CLI_TEXT, &bench.goodput, "LIST", "goals: some of ttft:MS,tpot:MS,e2el:MS", 0, 0},
      {"json", 0, TN_CLI_FLAG, &bench.json, NULL, "results as JSON", 0, 0},
      {"details", 0, TN_CLI_FLAG, &bench.details, NULL, "each request in the JSON", 0, 0},
      {"json-file", 0, TN_CLI_TEXT, &bench.json_file, "F", "JSON into a file", 0, 0},
      {"csv-file", 0, TN_CLI_TEXT, &bench.csv_file, "F", "a row for each load into a file", 0, 0},
      {"html-file", 0, TN_CLI_TEXT, &bench.html_file, "F", "charts and a table into a file", 0, 0},
  };
  const tn_cli_command command = {
      "bench serve", "[options]", "Measures a server of OpenAI's API under load.", options, TN_COUNT(options), 0, 0};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  tn_catch_interrupts();
  bench.is_terminal = tn_is_terminal(2);
  bench.report.target = target;
  bench.report.prompts = prompts;
  bench.report.requests = bench.requests;
  bench.report.is_complete = true;
  if (bench.details) bench.report.details = json_array();
  tn_error error = {0};
  tn_status status = measure(&bench, &error);
  finish(&bench);
  return status == TN_OK ? tn_cli_finish_output() : tn_cli_failed(&error);
}
