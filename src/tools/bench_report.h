/* What `tenon bench serve` says about its points: numbers by the definitions of docs/benchmarking.md, as lines of a
 * terminal, JSON, CSV and a page with charts. */
#ifndef TENON_TOOLS_BENCH_REPORT_H
#define TENON_TOOLS_BENCH_REPORT_H

#include "tools/bench_load.h"

#define TN_BENCH_PERCENTILES 8
#define TN_BENCH_TIMES 4

/* The times of a request, in ms. */
typedef enum tn_bench_time {
  TN_BENCH_TTFT, /* to the first part of the answer */
  TN_BENCH_TPOT, /* per token after the first */
  TN_BENCH_ITL,  /* between two parts: several a request */
  TN_BENCH_E2EL  /* to the last part of the answer */
} tn_bench_time;
extern const char *const tn_bench_time_names[TN_BENCH_TIMES]; /* "ttft", ... */

typedef struct tn_bench_goals {
  double ms[TN_BENCH_TIMES]; /* 0: none; ITL has none */
  bool any;
} tn_bench_goals;

/* A distribution: all values in rising order, and what is told of them. */
typedef struct tn_bench_distribution {
  double *values;
  size_t count;
  double mean, median, deviation, percentiles[TN_BENCH_PERCENTILES];
} tn_bench_distribution;

/* A point's numbers; NAN for what can't be told. */
typedef struct tn_bench_summary {
  bool is_complete;
  double rate;          /* asked for; 0: none */
  uint32_t concurrency; /* asked for; 0: no limit */
  double duration;      /* seconds */
  size_t completed, failed, unfinished;
  uint64_t input_tokens, cached_tokens, output_tokens;
  double request_throughput, request_goodput, output_throughput, total_throughput, steady_throughput;
  tn_bench_distribution times[TN_BENCH_TIMES];
  char *first_error; /* of those that failed, or NULL */
} tn_bench_summary;

/* All that was measured, and how. */
typedef struct tn_bench_report {
  const tn_bench_target *target;
  const tn_bench_prompts *prompts;
  tn_bench_goals goals;
  double percentiles[TN_BENCH_PERCENTILES];
  size_t percentile_count;
  uint64_t seed;
  size_t requests;
  bool is_complete; /* false: interrupted */
  tn_bench_summary *points;
  size_t count;
  json_t *details; /* an array for each point's requests, or NULL */
} tn_bench_report;

/* Adds a point's numbers to the report (which has room), its requests to the details. False: memory is out. */
bool tn_bench_report_add(tn_bench_report *report, const tn_bench_point *point);
void tn_bench_report_finish(tn_bench_report *report);

/* The p-th percentile of `count` values in rising order, between neighbours linearly; NAN of none. */
double tn_bench_percentile(const double *values, size_t count, double p);

void tn_bench_report_print(const tn_bench_report *report, const tn_bench_summary *point); /* to stdout */
json_t *tn_bench_report_json(const tn_bench_report *report);                              /* NULL: memory is out */
/* These append; memory being out shows in out->failed. */
void tn_bench_report_csv(const tn_bench_report *report, tn_buf *out);
void tn_bench_report_html(const tn_bench_report *report, tn_buf *out);

#endif
