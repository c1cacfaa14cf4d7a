/* The client of `tenon bench serve`: sends requests to a server of OpenAI's API and records when the parts of each
 * answer came. One thread over libcurl's multi interface, so that the client takes little from a server on the same
 * machine. */
#ifndef TENON_TOOLS_BENCH_LOAD_H
#define TENON_TOOLS_BENCH_LOAD_H

#include "tools/bench_prompts.h"

/* Where requests go and what they ask. */
typedef struct tn_bench_target {
  char *base;      /* "http://host:port/v1"; free() it */
  char *model;     /* free() it */
  const char *key; /* or NULL */
  bool is_chat, ignore_eos;
  float temperature;
  const json_t *extra; /* an object: further fields of each request, or NULL */
  uint32_t timeout_seconds;
} tn_bench_target;

/* One request and its answer. Times are tn_clock_ns. */
typedef struct tn_bench_record {
  bool is_sent, is_done, is_good; /* good: answered whole, with text in it */
  uint64_t sent, end;
  uint64_t *deltas; /* when each part of the text came */
  size_t delta_count, delta_capacity;
  uint32_t wanted, prompt_tokens, cached_tokens, output_tokens;
  bool has_usage; /* the counts are the server's */
  char error[200];
} tn_bench_record;

/* One measurement: `count` requests at a load. */
typedef struct tn_bench_point {
  double rate;          /* requests begun per second, at random times; 0: each as soon as one has ended */
  uint32_t concurrency; /* requests at once at most; 0: no limit */
  uint64_t seed;        /* of the times */
  uint64_t first;       /* number of the first prompt */
  size_t count;
  tn_bench_record *records; /* count of them, zeroed beforehand */
  uint64_t begin, end;
  bool is_complete; /* false: interrupted */
} tn_bench_point;

/* Told now and then how far a point is. */
typedef void (*tn_bench_progress)(void *context, const tn_bench_point *point, size_t done, size_t failed,
                                  uint64_t output_tokens);

/* Before all others and after all others, once. */
tn_status tn_bench_load_begin(tn_error *error);
void tn_bench_load_finish(void);

/* Fills target->base from the address a user gives, with or without "/v1", and target->model with the first of the
 * server's if `model` is NULL. Errors name the address: TN_E_IO (nobody there), TN_E_FORMAT (another kind of server).
 */
tn_status tn_bench_load_find(tn_bench_target *target, const char *url, const char *model, tn_error *error);

/* Runs a point until all is answered, or until interrupted (tn_interrupts()). Faults of single requests stand in their
 * records; an error is the client's own: TN_E_MEMORY, TN_E_INVALID (the prompts don't suit the endpoint). */
tn_status tn_bench_load_run(const tn_bench_target *target, const tn_bench_prompts *prompts, tn_bench_point *point,
                            tn_bench_progress progress, void *context, tn_error *error);
void tn_bench_point_finish(tn_bench_point *point); /* frees the records */

#endif
