#include "server/metrics.h"

#include <string.h>

/* Upper bounds in seconds: from single tokens of small models to whole answers. */
static const double bounds[TN_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25,
                                          0.5,   1,      2.5,   5,    10,    30,   60,    120, 600};

bool tn_metrics_init(tn_metrics *metrics) {
  *metrics = (tn_metrics){.lock = tn_mutex_create()};
  return metrics->lock != NULL;
}

void tn_metrics_finish(tn_metrics *metrics) {
  tn_mutex_destroy(metrics->lock);
}

static void observe(tn_histogram *histogram, uint64_t ns) {
  double seconds = (double)ns / 1e9;
  size_t bucket = 0;
  while (bucket < TN_BUCKETS && seconds > bounds[bucket]) bucket++;
  histogram->counts[bucket]++;
  histogram->sum += seconds;
}

void tn_metrics_reply(tn_metrics *metrics, unsigned status) {
  tn_mutex_lock(metrics->lock);
  metrics->replies[status / 100 < 6 ? status / 100 : 0]++;
  tn_mutex_unlock(metrics->lock);
}

void tn_metrics_token(tn_metrics *metrics, bool is_first, uint64_t ns) {
  tn_mutex_lock(metrics->lock);
  observe(is_first ? &metrics->first_token : &metrics->between_tokens, ns);
  metrics->completion_tokens++;
  tn_mutex_unlock(metrics->lock);
}

void tn_metrics_end(tn_metrics *metrics, const tn_output *output) {
  tn_mutex_lock(metrics->lock);
  metrics->finished[output->kind == TN_OUTPUT_ERROR || output->finish > TN_FINISH_ERROR ? TN_FINISH_ERROR
                                                                                        : output->finish]++;
  metrics->prompt_tokens += output->prompt_tokens;
  observe(&metrics->queue, output->queue_ns);
  observe(&metrics->whole, output->queue_ns + output->prefill_ns + output->decode_ns);
  if (output->completion_tokens > 1) observe(&metrics->per_token, output->decode_ns / (output->completion_tokens - 1));
  tn_mutex_unlock(metrics->lock);
}

void tn_metrics_cancelled(tn_metrics *metrics) {
  tn_mutex_lock(metrics->lock);
  metrics->finished[TN_FINISH_CANCELLED]++;
  tn_mutex_unlock(metrics->lock);
}

/* ---- printing ---- */

static void print_head(tn_buf *out, const char *name, const char *type, const char *help) {
  tn_buf_printf(out, "# HELP tenon_%s %s\n# TYPE tenon_%s %s\n", name, help, name, type);
}

static void print_number(tn_buf *out, const char *name, const char *type, const char *help, double value) {
  print_head(out, name, type, help);
  tn_buf_printf(out, "tenon_%s %.17g\n", name, value);
}

static void print_histogram(tn_buf *out, const char *name, const char *help, const tn_histogram *histogram) {
  uint64_t count = 0;
  print_head(out, name, "histogram", help);
  for (size_t i = 0; i < TN_BUCKETS; i++) {
    count += histogram->counts[i];
    tn_buf_printf(out, "tenon_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)count);
  }
  count += histogram->counts[TN_BUCKETS];
  tn_buf_printf(out, "tenon_%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)count);
  tn_buf_printf(out, "tenon_%s_sum %.17g\ntenon_%s_count %llu\n", name, histogram->sum, name,
                (unsigned long long)count);
}

static void print_positions(tn_buf *out, const char *name, const char *help,
                            const uint64_t counts[TN_DRAFT_POSITIONS]) {
  print_head(out, name, "counter", help);
  for (unsigned i = 0; i < TN_DRAFT_POSITIONS && (i == 0 || counts[i]); i++)
    tn_buf_printf(out, "tenon_%s{position=\"%u\"} %llu\n", name, i, (unsigned long long)counts[i]);
}

/* Of an engine that speculates, zeros of others. */
static void print_drafts(const tn_engine_info *info, tn_buf *out) {
  print_number(out, "draft_tokens_total", "counter", "Tokens drafted and verified.", (double)info->drafted_tokens);
  print_number(out, "draft_accepted_tokens_total", "counter", "Drafted tokens that were accepted.",
               (double)info->accepted_tokens);
  print_number(out, "draft_steps_total", "counter", "Steps that verified drafts.", (double)info->draft_steps);
  print_number(out, "draft_seconds_total", "counter", "Time spent drafting.", (double)info->draft_ns / 1e9);
  print_positions(out, "draft_position_tokens_total", "Tokens drafted by position behind the last token.",
                  info->drafted_at);
  print_positions(out, "draft_position_accepted_tokens_total", "Those of them that were accepted.", info->accepted_at);
}

static void print_engine(tn_engine *engine, tn_buf *out) {
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(engine, &info);
  print_number(out, "requests_running", "gauge", "Answers being made.", info.running);
  print_number(out, "requests_waiting", "gauge", "Answers waiting for their turn.", info.waiting);
  print_number(out, "kv_pages", "gauge", "Pages of KV memory.", info.pages);
  print_number(out, "kv_pages_used", "gauge", "Pages held by running requests.", info.pages_used);
  print_number(out, "kv_pages_cached", "gauge", "Pages held by the prefix cache only.", info.pages_cached);
  if (info.states) {
    print_number(out, "states", "gauge", "Slots of recurrent states.", info.states);
    print_number(out, "states_cached", "gauge", "Slots that hold a snapshot of the prefix cache.", info.states_cached);
  }
  print_number(out, "kv_cache_usage_ratio", "gauge", "Share of the pages held by running requests.",
               info.pages ? (double)info.pages_used / info.pages : 0);
  print_number(out, "prefix_cache_hit_tokens_total", "counter", "Prompt tokens found in the prefix cache.",
               (double)info.cached_tokens);
  print_number(out, "preemptions_total", "counter", "Requests that made way for others.", (double)info.preemptions);
  print_number(out, "engine_steps_total", "counter", "Steps of the engine.", (double)info.steps);
  print_number(out, "engine_device_seconds_total", "counter", "What the steps took on the device.",
               (double)info.device_ns / 1e9);
  print_number(out, "engine_step_seconds", "gauge", "How long the step under way has been running.",
               (double)info.step_ns / 1e9);
  print_number(out, "engine_rows_total", "counter", "Token rows computed.", (double)info.rows);
  print_number(out, "engine_failed_steps_total", "counter", "Steps that failed and were run again.",
               (double)info.failed_steps);
  print_drafts(&info, out);
}

void tn_metrics_print(tn_metrics *metrics, tn_engine *engine, tn_buf *out) {
  static const char *const reasons[5] = {NULL, "stop", "length", "cancelled", "error"};
  tn_mutex_lock(metrics->lock);
  tn_metrics now = *metrics;
  tn_mutex_unlock(metrics->lock);
  print_head(out, "http_replies_total", "counter", "HTTP replies by the first digit of their status.");
  for (unsigned i = 2; i < 6; i++)
    tn_buf_printf(out, "tenon_http_replies_total{status=\"%uxx\"} %llu\n", i, (unsigned long long)now.replies[i]);
  print_head(out, "requests_finished_total", "counter", "Answers by the reason of their end.");
  for (unsigned i = 1; i < 5; i++)
    tn_buf_printf(out, "tenon_requests_finished_total{reason=\"%s\"} %llu\n", reasons[i],
                  (unsigned long long)now.finished[i]);
  print_number(out, "prompt_tokens_total", "counter", "Prompt tokens of ended answers.", (double)now.prompt_tokens);
  print_number(out, "generation_tokens_total", "counter", "Tokens made.", (double)now.completion_tokens);
  print_histogram(out, "time_to_first_token_seconds", "From the request to its first token.", &now.first_token);
  print_histogram(out, "inter_token_latency_seconds", "Between two tokens of an answer.", &now.between_tokens);
  print_histogram(out, "time_per_output_token_seconds",
                  "From an answer's first token to its end, divided by the tokens behind the first.", &now.per_token);
  print_histogram(out, "request_queue_time_seconds", "Waiting for admission.", &now.queue);
  print_histogram(out, "e2e_request_latency_seconds", "From the request to its last token.", &now.whole);
  print_engine(engine, out);
}
