/* One sequence run by hand over a runner: for tools (logits, perplexity) and for tests that compare logits as bytes.
 * The engine itself uses the same parts (kv.h, ledger.h, step.h) with many ledgers. */
#ifndef TENON_ENGINE_CONTEXT_H
#define TENON_ENGINE_CONTEXT_H

#include "engine/step.h"

typedef struct tn_context {
  tn_kv kv;
  tn_step step;
  tn_ledger ledger;
} tn_context;

/* Called with the logits [vocabulary] of the token at `position`; a failure ends the run. */
typedef tn_status (*tn_context_logits)(void *user, uint32_t position, const float *logits, tn_error *error);

/* An empty sequence that may grow to the capacity of the runner's KV memory. `runner` must outlive it, and nobody else
 * may use its pages. `options` NULL: the defaults. */
tn_status tn_context_init(tn_context *context, tn_runner *runner, const tn_kv_options *options, tn_error *error);
void tn_context_finish(tn_context *context);

/* Runs `count` tokens behind those present, at most `chunk` rows a step (0: as many as the runner takes). `on_logits`
 * (may be NULL) is called for the tokens from number `first_logits` on, in order. On failure the tokens of the steps
 * that went well are present. */
tn_status tn_context_feed(tn_context *context, const int32_t *tokens, uint32_t count, uint32_t chunk,
                          uint32_t first_logits, tn_context_logits on_logits, void *user, tn_error *error);

#endif
