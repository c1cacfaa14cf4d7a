/* Counters and histograms of the server, in Prometheus' text form. Safe from any thread. */
#ifndef TENON_SERVER_METRICS_H
#define TENON_SERVER_METRICS_H

#include "base/memory.h"
#include "base/os.h"
#include "tenon/tenon.h"

#define TN_BUCKETS 18

typedef struct tn_histogram {
  uint64_t counts[TN_BUCKETS + 1]; /* by bucket, the last is +Inf; not cumulated */
  double sum;
} tn_histogram;

typedef struct tn_metrics {
  tn_mutex *lock;
  uint64_t replies[6];  /* by the status' first digit */
  uint64_t finished[5]; /* by tn_finish */
  uint64_t prompt_tokens, completion_tokens;
  tn_histogram first_token, between_tokens, per_token, whole, queue; /* seconds */
} tn_metrics;

bool tn_metrics_init(tn_metrics *metrics); /* false when memory is out */
void tn_metrics_finish(tn_metrics *metrics);

void tn_metrics_reply(tn_metrics *metrics, unsigned status);
/* A token came `ns` after its request (first) or after the token before it. */
void tn_metrics_token(tn_metrics *metrics, bool is_first, uint64_t ns);
/* An answer ended; `output` is its last. */
void tn_metrics_end(tn_metrics *metrics, const tn_output *output);
/* An answer was given up before its end. */
void tn_metrics_cancelled(tn_metrics *metrics);

/* Appends everything to `out`, the engine's numbers too. */
void tn_metrics_print(tn_metrics *metrics, tn_engine *engine, tn_buf *out);

#endif
