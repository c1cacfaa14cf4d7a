/* The engine: a scheduler on a thread of its own, and the public functions around it. */
#ifndef TENON_ENGINE_ENGINE_H
#define TENON_ENGINE_ENGINE_H

#include "engine/answer.h"
#include "engine/runner.h"
#include "tenon/tenon.h"

/* What drafts for an engine; nothing: no speculation. */
typedef struct tn_engine_drafting {
  struct tn_drafter *drafter;
  tn_model *model; /* the drafter's; NULL: it has none */
} tn_engine_drafting;

/* Starts an engine over a runner and drafting that it owns from then on, also when this fails. `model` (may be NULL:
 * requests bring tokens) and what `vocabulary` points to must outlive it. Of `options`, those that the runner was not
 * made with: max_sequences, chunk (0: what the runner takes), queue, no_prefix_cache, draft_k, draft_accept. */
tn_status tn_engine_start(tn_runner *runner, tn_engine_drafting drafting, const tn_model *model,
                          const tn_vocabulary *vocabulary, const tn_engine_options *options, tn_engine **engine,
                          tn_error *error);

/* What speculation measured of a step's time by its rows, in the steps without prefill: passes[i] > 0 of i rows took
 * pass_ns[i]; and a round of drafting. */
typedef struct tn_engine_costs {
  double pass_ns[TN_MAX_LOGITS_ROWS + 1], round_ns;
  uint32_t passes[TN_MAX_LOGITS_ROWS + 1];
} tn_engine_costs;
void tn_engine_measured(tn_engine *engine, tn_engine_costs *costs);

#endif
