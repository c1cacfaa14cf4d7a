/* How many tokens to draft: as many as pay. A pure calculation over what was measured, so that it can be tested with
 * numbers alone.
 *
 * Known are, all of them decaying, the odds that a draft is accepted by how sure the drafter was and by position, the
 * time of a pass by its rows, and the time of one round of drafting. Rows are added where they are likeliest to be
 * accepted as long as that raises the expected tokens per second. Beyond that a balance is kept of the time that drafts
 * gained and lost: when the losses pass a hundredth of all time, nothing is drafted until they don't any more. When
 * drafts don't pay a few are tried now and then, ever more rarely, as texts change. */
#ifndef TENON_ENGINE_DRAFT_POLICY_H
#define TENON_ENGINE_DRAFT_POLICY_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/drafter.h"
#include "tenon/device.h"

typedef struct tn_draft_odds {
  double tried, accepted;
} tn_draft_odds;

typedef struct tn_draft_policy {
  uint32_t fixed; /* drafts of each sequence whatever they cost; 0: as many as pay */
  tn_draft_odds odds[TN_DRAFT_CLASSES][TN_MAX_DRAFT];
  double pass_ns[TN_MAX_LOGITS_ROWS + 1]; /* by rows */
  uint32_t passes[TN_MAX_LOGITS_ROWS + 1];
  double round_ns;          /* of one more draft for every sequence; 0: not measured, or nothing */
  double all_ns, gained_ns; /* of late */
  uint32_t since_plain;     /* steps with drafts since the last one without */
  uint32_t idle, patience;  /* steps since the last try, and between tries */
  uint32_t tries;
} tn_draft_policy;

/* What a sequence could be given, and is. */
typedef struct tn_draft_wish {
  uint32_t most, confidence;
  uint32_t chosen;
} tn_draft_wish;

void tn_draft_policy_init(tn_draft_policy *policy, uint32_t fixed);

/* Chooses for each of `count` sequences, of `sequences` in the step whose rows without drafts are `rows`, among
 * `rows_left` more. */
void tn_draft_policy_choose(tn_draft_policy *policy, tn_draft_wish *wishes, uint32_t count, uint32_t sequences,
                            uint32_t rows, uint32_t rows_left);

/* A pass of `rows` rows, in a step that prefilled nothing, took so long. */
void tn_draft_policy_learn_pass(tn_draft_policy *policy, uint32_t rows, uint64_t ns);
/* `rounds` rounds of drafting took so long. */
void tn_draft_policy_learn_rounds(tn_draft_policy *policy, uint32_t rounds, uint64_t ns);
/* Of a sequence's drafts the first `accepted` were, and `compared` (one more, or all) were looked at. */
void tn_draft_policy_learn_odds(tn_draft_policy *policy, uint32_t confidence, uint32_t compared, uint32_t accepted);
/* A whole step: what it cost beside what its tokens had cost without drafts. */
void tn_draft_policy_learn_step(tn_draft_policy *policy, uint32_t sequences, uint32_t rows, uint32_t rounds,
                                uint32_t tokens);

/* Expected: that draft number `position` is accepted if those before it are; nanoseconds of a pass. */
double tn_draft_policy_odds(const tn_draft_policy *policy, uint32_t confidence, uint32_t position);
double tn_draft_policy_pass(const tn_draft_policy *policy, uint32_t rows);

#endif
