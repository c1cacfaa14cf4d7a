/* Speculation: the scheduler's rows of drafted tokens. Before a step the drafter (drafter.h) continues the sequences
 * that decode, as far as the policy (draft_policy.h) expects it to pay; the step runs these rows behind the known ones;
 * then the scheduler draws position after position as always, and a draft is accepted while it equals the draw. So
 * answers are those without speculation, bit for bit.
 *
 * Drafts never cost anybody memory: they get the rows and pages that are left. A drafter that fails is left alone after
 * a while; requests don't notice. */
#ifndef TENON_ENGINE_SPECULATE_H
#define TENON_ENGINE_SPECULATE_H

#include <stdbool.h>
#include "engine/draft_policy.h"
#include "engine/request.h"

/* Of a model whose state has taken in rows that were rejected, the accepted ones run again with the next step; with
 * more of them than this a sequence makes a step without drafts. */
#define TN_MOST_REPLAYED 8u

typedef struct tn_speculation_counters {
  uint64_t steps; /* with drafts */
  uint64_t drafted, accepted;
  uint64_t drafted_at[TN_MAX_DRAFT], accepted_at[TN_MAX_DRAFT];
  uint64_t draft_ns; /* spent drafting */
} tn_speculation_counters;

typedef struct tn_speculation {
  tn_drafter *drafter; /* NULL: no speculation */
  tn_draft_policy policy;
  double accept; /* > 0: drafts are accepted with this probability, whatever was drawn: for measurements */
  uint32_t max_sequences;
  tn_draft *drafts; /* [max_sequences] */
  tn_draft_wish *wishes;
  struct tn_request **drafting;
  uint32_t drafting_count;
  size_t *marks;     /* where their grammars stand */
  uint32_t failures; /* in a row */
  /* the step being made */
  bool is_measured; /* nobody prefills */
  uint32_t sequences, rounds, tokens;
  tn_speculation_counters counters;
} tn_speculation;

typedef struct tn_speculation_options {
  uint32_t k; /* drafts of each sequence; 0: as many as pay */
  double accept;
} tn_speculation_options;

/* Takes over the drafter, which may be NULL, also on failure. */
tn_status tn_speculation_init(tn_speculation *speculation, tn_drafter *drafter, const tn_speculation_options *options,
                              uint32_t max_sequences, tn_error *error);
void tn_speculation_finish(tn_speculation *speculation);

/* Sets `draft_count` of every request and writes drafts behind its tokens, for those that are about to have all their
 * pending rows run and decode. `rows`: of the step at most, logits rows of it at most. Without `is_allowed` nothing is
 * drafted. */
void tn_speculation_draft(tn_speculation *speculation, struct tn_request *const *requests, uint32_t count,
                          uint32_t rows, uint32_t logits_rows, bool is_allowed);
/* The step is about to run. */
void tn_speculation_look_ahead(tn_speculation *speculation);
/* Its rows have run; tn_speculation_verified follows for each request that drew tokens, then tn_speculation_end. */
void tn_speculation_ran(tn_speculation *speculation, uint32_t rows, uint64_t ns);
/* Is the draft of the request's next position what the target drew? With synthetic acceptance it is by chance alone,
 * and the draw is made to be the draft then. */
bool tn_speculation_accepts(const tn_speculation *speculation, const struct tn_request *request, int32_t draft,
                            tn_sample *drawn);
/* Of the request's drafts `compared` were looked at and the first `accepted` were accepted. */
void tn_speculation_verified(tn_speculation *speculation, const struct tn_request *request, uint32_t compared,
                             uint32_t accepted);
void tn_speculation_end(tn_speculation *speculation, uint32_t rows);
/* A sequence's tokens are no longer of interest. */
void tn_speculation_forget(tn_speculation *speculation, uint32_t sequence);

#endif
