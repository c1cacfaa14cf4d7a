/* A step: the rows of several sequences run as one batch, whole or not at all.
 *
 *   tn_step_begin(step);
 *   tn_step_add(step, ledger, tokens, count, first_logits, &entry, error);   ... for each sequence
 *   tn_step_run(step, error);
 *   logits = tn_step_logits(step, entry, row);                               ... read
 *   tn_step_commit(step, entry) or tn_step_rollback(step, entry);            ... for each entry
 *
 * Until its commit an entry has changed nothing but the page reservation of its ledger. When run fails, every entry has
 * been rolled back. Nothing is allocated after tn_step_init.
 *
 * tn_step_run is tn_step_submit and tn_step_wait. Between them the step is in flight, and where the runner overlaps
 * (runner.h) another one can be made, submitted too, and waited for after it. It may hold sequences of the first one
 * again, whose next rows then stand behind those in flight, if the model has no recurrent states and if the first one's
 * rows will be committed whole; when the first one fails, the second one has to be rolled back. */
#ifndef TENON_ENGINE_STEP_H
#define TENON_ENGINE_STEP_H

#include <stdint.h>
#include "engine/ledger.h"

#define TN_NO_ENTRY UINT32_MAX

typedef struct tn_step_entry {
  tn_ledger *ledger; /* NULL once committed or rolled back */
  const int32_t *tokens;
  uint32_t count;
  uint32_t first_logits;  /* rows from this one on want logits */
  uint32_t logits_before; /* logits rows of the entries before */
  uint32_t in_flight;     /* its rows, from submit to commit or rollback */
} tn_step_entry;

typedef struct tn_step {
  tn_kv *kv;
  tn_batch batch;
  tn_row *rows;
  tn_sequence *sequences;
  uint32_t *pages;
  uint32_t *logits_rows;
  tn_step_entry *entries; /* one a sequence of the batch */
  const float *logits;    /* [R, vocabulary] after a run */
} tn_step;

tn_status tn_step_init(tn_step *step, tn_kv *kv, tn_error *error);
void tn_step_finish(tn_step *step);

void tn_step_begin(tn_step *step);
/* Adds `count` >= 1 tokens behind a ledger that is not in the step yet, and reserves their slots. Rows from
 * `first_logits` on (count: none) give logits. `tokens` must stay until the commit. On failure the step is as before:
 * TN_E_LIMIT when the rows don't fit into the step; else see tn_ledger_reserve. *entry (may be NULL): its number. */
tn_status tn_step_add(tn_step *step, tn_ledger *ledger, const int32_t *tokens, uint32_t count, uint32_t first_logits,
                      uint32_t *entry, tn_error *error);
/* Runs the batch to its end; a step without rows is done at once. On failure everything is rolled back. */
tn_status tn_step_run(tn_step *step, tn_error *error);
tn_status tn_step_submit(tn_step *step, tn_error *error);
tn_status tn_step_wait(tn_step *step, tn_error *error);
/* Logits [vocabulary] of row `row` (>= first_logits) of an entry, until the next submit. */
const float *tn_step_logits(const tn_step *step, uint32_t entry, uint32_t row);
void tn_step_commit(tn_step *step, uint32_t entry);
/* Commits only the first `count` of the entry's tokens (the rest were drafts that proved wrong). Where the model has
 * recurrent states, which have taken all rows in, the entry is rolled back instead: its good rows run again. */
void tn_step_commit_part(tn_step *step, uint32_t entry, uint32_t count);
void tn_step_rollback(tn_step *step, uint32_t entry);
void tn_step_rollback_all(tn_step *step);

/* Room that is left in the step. */
uint32_t tn_step_rows_left(const tn_step *step);
uint32_t tn_step_logits_left(const tn_step *step);

#endif
