/* Numbers of points, and their JSON, CSV and lines (see bench_report.h). */
#include "tools/bench_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/os.h"
#include "tenon/tenon.h"

const char *const tn_bench_time_names[TN_BENCH_TIMES] = {"ttft", "tpot", "itl", "e2el"};

/* ---- numbers ---- */

double tn_bench_percentile(const double *values, size_t count, double p) {
  if (!count) return NAN;
  double at = p / 100 * (double)(count - 1);
  size_t below = (size_t)at;
  if (below + 1 >= count) return values[count - 1];
  return values[below] + (at - (double)below) * (values[below + 1] - values[below]);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void describe(tn_bench_distribution *of, const tn_bench_report *report) {
  double sum = 0, squares = 0;
  if (of->count) qsort(of->values, of->count, sizeof *of->values, by_value);
  for (size_t i = 0; i < of->count; i++) sum += of->values[i];
  of->mean = of->count ? sum / (double)of->count : NAN;
  for (size_t i = 0; i < of->count; i++) squares += (of->values[i] - of->mean) * (of->values[i] - of->mean);
  of->deviation = of->count ? sqrt(squares / (double)of->count) : NAN;
  of->median = tn_bench_percentile(of->values, of->count, 50);
  for (size_t i = 0; i < report->percentile_count; i++)
    of->percentiles[i] = tn_bench_percentile(of->values, of->count, report->percentiles[i]);
}

/* A time of a request that was answered; NAN for time per token of an answer of one. */
static double time_of(const tn_bench_record *record, tn_bench_time which) {
  uint64_t first = record->deltas[0], last = record->deltas[record->delta_count - 1];
  switch (which) {
    case TN_BENCH_TTFT: return (double)(first - record->sent) / 1e6;
    case TN_BENCH_TPOT:
      return record->output_tokens > 1 ? (double)(last - first) / 1e6 / (record->output_tokens - 1) : NAN;
    default: return (double)(last - record->sent) / 1e6;
  }
}

/* Whether a request kept to all goals; a time per token that doesn't exist does. */
static bool is_in_time(const tn_bench_record *record, const tn_bench_goals *goals) {
  for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++)
    if (t != TN_BENCH_ITL && goals->ms[t] > 0 && time_of(record, t) > goals->ms[t]) return false;
  return true;
}

/* Tokens per second from when the first answer was whole until the last request was sent: what the server does while
 * its load is steady. A part of an answer counts as its share of the answer's tokens. NAN if that is less than half of
 * the point's time, too short to tell. */
static double steady_throughput(const tn_bench_point *point) {
  uint64_t begin = UINT64_MAX, end = 0;
  double tokens = 0;
  for (size_t i = 0; i < point->count; i++) {
    const tn_bench_record *record = point->records + i;
    if (record->is_good && record->end < begin) begin = record->end;
    if (record->is_sent && record->sent > end) end = record->sent;
  }
  if (begin >= end || end - begin < (point->end - point->begin) / 2) return NAN;
  for (size_t i = 0; i < point->count; i++) {
    const tn_bench_record *record = point->records + i;
    size_t within = 0;
    for (size_t d = 0; d < record->delta_count; d++) within += record->deltas[d] >= begin && record->deltas[d] < end;
    if (record->is_good) tokens += (double)within * record->output_tokens / (double)record->delta_count;
  }
  return tokens * 1e9 / (double)(end - begin);
}

static void add_gaps(tn_bench_distribution *gaps, const tn_bench_record *record) {
  for (size_t d = 1; d < record->delta_count; d++)
    gaps->values[gaps->count++] = (double)(record->deltas[d] - record->deltas[d - 1]) / 1e6;
}

/* Room for the values of each time. */
static bool reserve(tn_bench_summary *summary, const tn_bench_point *point) {
  size_t gaps = 1;
  bool ok = true;
  for (size_t i = 0; i < point->count; i++) gaps += point->records[i].delta_count;
  for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++) {
    size_t count = t == TN_BENCH_ITL ? gaps : point->count;
    summary->times[t].values = tn_calloc(count, sizeof(double));
    ok = ok && summary->times[t].values;
  }
  return ok;
}

static void count_records(tn_bench_summary *summary, const tn_bench_report *report, const tn_bench_point *point) {
  size_t in_time = 0;
  for (size_t i = 0; i < point->count; i++) {
    const tn_bench_record *record = point->records + i;
    summary->completed += record->is_good;
    summary->failed += record->is_done && !record->is_good;
    summary->unfinished += !record->is_done;
    if (*record->error && !summary->first_error)
      summary->first_error = tn_copy_text(record->error, strlen(record->error));
    if (!record->is_good) continue;
    summary->input_tokens += record->prompt_tokens;
    summary->cached_tokens += record->cached_tokens;
    summary->output_tokens += record->output_tokens;
    in_time += is_in_time(record, &report->goals);
    add_gaps(&summary->times[TN_BENCH_ITL], record);
    for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++) {
      double value = t == TN_BENCH_ITL ? NAN : time_of(record, t);
      if (!isnan(value)) summary->times[t].values[summary->times[t].count++] = value;
    }
  }
  double duration = summary->duration = (double)(point->end - point->begin) / 1e9;
  summary->request_throughput = (double)summary->completed / duration;
  summary->request_goodput = report->goals.any ? (double)in_time / duration : NAN;
  summary->output_throughput = (double)summary->output_tokens / duration;
  summary->total_throughput = (double)(summary->input_tokens + summary->output_tokens) / duration;
  summary->steady_throughput = steady_throughput(point);
}

static json_t *number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *detail(const tn_bench_point *point, const tn_bench_record *record) {
  json_t *gaps = json_array();
  for (size_t d = 1; d < record->delta_count; d++)
    json_array_append_new(gaps, json_real((double)(record->deltas[d] - record->deltas[d - 1]) / 1e6));
  return json_pack("{s:f, s:o, s:o, s:o, s:i, s:i, s:s?}", "sent_ms", (double)(record->sent - point->begin) / 1e6,
                   "ttft_ms", number(record->delta_count ? time_of(record, TN_BENCH_TTFT) : NAN), "e2el_ms",
                   number(record->delta_count ? time_of(record, TN_BENCH_E2EL) : NAN), "itl_ms", gaps, "input_tokens",
                   (int)record->prompt_tokens, "output_tokens", (int)record->output_tokens, "error",
                   *record->error ? record->error : NULL);
}

bool tn_bench_report_add(tn_bench_report *report, const tn_bench_point *point) {
  tn_bench_summary *summary = report->points + report->count++;
  *summary =
      (tn_bench_summary){.is_complete = point->is_complete, .rate = point->rate, .concurrency = point->concurrency};
  if (!reserve(summary, point)) return false;
  count_records(summary, report, point);
  for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++) describe(&summary->times[t], report);
  report->is_complete = report->is_complete && point->is_complete;
  if (!report->details) return true;
  json_t *requests = json_array();
  for (size_t i = 0; i < point->count; i++)
    if (point->records[i].is_sent) json_array_append_new(requests, detail(point, point->records + i));
  return json_array_append_new(report->details, requests) == 0;
}

void tn_bench_report_finish(tn_bench_report *report) {
  for (size_t i = 0; i < report->count; i++) {
    for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++) free(report->points[i].times[t].values);
    free(report->points[i].first_error);
  }
  free(report->points);
  json_decref(report->details);
}

/* ---- one schema for JSON and CSV ---- */

typedef struct field {
  char name[32];
  double value;
  bool is_whole;
} field;

#define MAX_FIELDS (16 + TN_BENCH_TIMES * (3 + TN_BENCH_PERCENTILES))

static size_t fields_of(const tn_bench_report *report, const tn_bench_summary *point, field *fields) {
  const field plain[] = {{"request_rate", point->rate > 0 ? point->rate : NAN, false},
                         {"max_concurrency", point->concurrency ? point->concurrency : NAN, true},
                         {"duration", point->duration, false},
                         {"completed", (double)point->completed, true},
                         {"failed", (double)point->failed, true},
                         {"unfinished", (double)point->unfinished, true},
                         {"total_input_tokens", (double)point->input_tokens, true},
                         {"total_cached_tokens", (double)point->cached_tokens, true},
                         {"total_output_tokens", (double)point->output_tokens, true},
                         {"request_throughput", point->request_throughput, false},
                         {"request_goodput", point->request_goodput, false},
                         {"output_throughput", point->output_throughput, false},
                         {"steady_output_throughput", point->steady_throughput, false},
                         {"total_token_throughput", point->total_throughput, false}};
  size_t count = TN_COUNT(plain);
  memcpy(fields, plain, sizeof plain);
  for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++) {
    const tn_bench_distribution *of = &point->times[t];
    const char *name = tn_bench_time_names[t];
    const double values[] = {of->mean, of->median, of->deviation};
    static const char *const kinds[] = {"mean", "median", "std"};
    for (size_t i = 0; i < 3; i++, count++) {
      snprintf(fields[count].name, sizeof fields->name, "%s_%s_ms", kinds[i], name);
      fields[count].value = values[i];
      fields[count].is_whole = false;
    }
    for (size_t i = 0; i < report->percentile_count; i++, count++) {
      snprintf(fields[count].name, sizeof fields->name, "p%g_%s_ms", report->percentiles[i], name);
      fields[count].value = of->percentiles[i];
      fields[count].is_whole = false;
    }
  }
  return count;
}

static json_t *point_json(const tn_bench_report *report, size_t number_of_point) {
  const tn_bench_summary *point = report->points + number_of_point;
  field fields[MAX_FIELDS];
  size_t count = fields_of(report, point, fields);
  json_t *json = json_pack("{s:b}", "complete", point->is_complete);
  for (size_t i = 0; i < count; i++)
    json_object_set_new(json, fields[i].name,
                        isfinite(fields[i].value) && fields[i].is_whole ? json_integer((json_int_t)fields[i].value)
                                                                        : number(fields[i].value));
  json_object_set_new(json, "first_error", point->first_error ? json_string(point->first_error) : json_null());
  if (report->details) json_object_set(json, "requests", json_array_get(report->details, number_of_point));
  return json;
}

json_t *tn_bench_report_json(const tn_bench_report *report) {
  char date[40], version[32];
  json_t *results = json_array(), *goals = json_object();
  for (size_t i = 0; i < report->count; i++) json_array_append_new(results, point_json(report, i));
  for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++)
    if (report->goals.ms[t] > 0) json_object_set_new(goals, tn_bench_time_names[t], json_real(report->goals.ms[t]));
  tn_local_time("%Y-%m-%dT%H:%M:%S%z", date, sizeof date);
  snprintf(version, sizeof version, "%d.%d.%d", TN_VERSION_MAJOR, TN_VERSION_MINOR, TN_VERSION_PATCH);
  const tn_bench_prompts *prompts = report->prompts;
  return json_pack("{s:s, s:s, s:s, s:b, s:{s:s, s:s, s:s, s:f, s:b}, s:{s:s, s:i, s:i, s:i, s:I, s:I}, s:o, s:o}",
                   "tool", "tenon bench serve", "version", version, "date", date, "complete", report->is_complete,
                   "server", "base_url", report->target->base, "model", report->target->model, "endpoint",
                   report->target->is_chat ? "chat/completions" : "completions", "temperature",
                   (double)report->target->temperature, "ignore_eos", report->target->ignore_eos, "dataset", "name",
                   tn_bench_prompts_name(prompts->kind), "input_tokens", (int)prompts->input_tokens, "output_tokens",
                   (int)prompts->output_tokens, "prefix_tokens", (int)prompts->prefix_tokens, "requests",
                   (json_int_t)report->requests, "seed", (json_int_t)report->seed, "goodput", goals, "results",
                   results);
}

void tn_bench_report_csv(const tn_bench_report *report, tn_buf *out) {
  field fields[MAX_FIELDS];
  for (size_t p = 0; p < report->count; p++) {
    size_t count = fields_of(report, report->points + p, fields);
    if (p == 0) {
      tn_buf_puts(out, "complete");
      for (size_t i = 0; i < count; i++) tn_buf_printf(out, ",%s", fields[i].name);
      tn_buf_putc(out, '\n');
    }
    tn_buf_printf(out, "%d", report->points[p].is_complete);
    for (size_t i = 0; i < count; i++) {
      tn_buf_putc(out, ',');
      if (isfinite(fields[i].value)) tn_buf_printf(out, fields[i].is_whole ? "%.0f" : "%.6g", fields[i].value);
    }
    tn_buf_putc(out, '\n');
  }
}

/* ---- lines ---- */

void tn_bench_report_print(const tn_bench_report *report, const tn_bench_summary *point) {
  if (point->rate > 0)
    printf("%g requests a second", point->rate);
  else
    printf("%u at once", point->concurrency);
  printf("%s: %zu answered, %zu failed", point->is_complete ? "" : " (interrupted)", point->completed, point->failed);
  if (point->unfinished) printf(", %zu unfinished", point->unfinished);
  printf(" in %.2f s\n", point->duration);
  if (point->first_error) printf("  first error: %s\n", point->first_error);
  printf("  %.2f requests/s", point->request_throughput);
  if (report->goals.any) printf(" (%.2f within the goals)", point->request_goodput);
  printf(", %.1f output tokens/s", point->output_throughput);
  if (!isnan(point->steady_throughput)) printf(" (%.1f while steady)", point->steady_throughput);
  printf(", %.1f tokens/s with prompts\n", point->total_throughput);
  printf("  tokens: %" PRIu64 " in prompts (%" PRIu64 " cached), %" PRIu64 " in answers\n", point->input_tokens,
         point->cached_tokens, point->output_tokens);
  printf("  %-6s %10s %10s", "ms", "mean", "median");
  for (size_t i = 0; i < report->percentile_count; i++) printf("   %7s%-2g", "p", report->percentiles[i]);
  putchar('\n');
  for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++) {
    const tn_bench_distribution *of = &point->times[t];
    if (!of->count) continue;
    printf("  %-6s %10.2f %10.2f", tn_bench_time_names[t], of->mean, of->median);
    for (size_t i = 0; i < report->percentile_count; i++) printf(" %11.2f", of->percentiles[i]);
    putchar('\n');
  }
  fflush(stdout);
}
