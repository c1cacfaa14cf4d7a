#include "engine/step.h"

#include <assert.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"

tn_status tn_step_init(tn_step *step, tn_kv *kv, tn_error *error) {
  *step = (tn_step){.kv = kv};
  const tn_runner_info *info = &kv->info;
  size_t pages = (size_t)info->max_sequences * info->group_count;
  step->rows = tn_calloc(info->max_rows, sizeof *step->rows);
  step->sequences = tn_calloc(info->max_sequences, sizeof *step->sequences);
  step->logits_rows = tn_calloc(info->max_logits_rows, sizeof *step->logits_rows);
  step->entries = tn_calloc(info->max_sequences, sizeof *step->entries);
  if (tn_mul_size(pages, tn_pages_of(info->max_context), &pages)) step->pages = tn_calloc(pages, sizeof *step->pages);
  if (!step->rows || !step->sequences || !step->logits_rows || !step->entries || !step->pages) {
    tn_step_finish(step);
    return tn_fail(error, TN_E_MEMORY, "no memory for a step of %u rows and %u sequences", info->max_rows,
                   info->max_sequences);
  }
  tn_step_begin(step);
  return TN_OK;
}

void tn_step_finish(tn_step *step) {
  free(step->rows);
  free(step->sequences);
  free(step->logits_rows);
  free(step->entries);
  free(step->pages);
  *step = (tn_step){0};
}

void tn_step_begin(tn_step *step) {
  step->batch = (tn_batch){.size = sizeof step->batch,
                           .rows = step->rows,
                           .sequences = step->sequences,
                           .pages = step->pages,
                           .logits_rows = step->logits_rows};
  step->logits = NULL;
}

/* Appends the ledger's page tables. Entries behind a window are never read; they are 0 so that every number is valid.
 */
static void append_tables(tn_step *step, const tn_ledger *ledger, tn_sequence *sequence) {
  for (uint32_t g = 0; g < step->kv->info.group_count; g++) {
    sequence->pages[g] = step->batch.page_count;
    uint32_t *table = step->pages + step->batch.page_count;
    for (uint32_t i = 0; i < ledger->page_count; i++)
      table[i] = ledger->tables[g][i] == TN_NO_PAGE ? 0 : ledger->tables[g][i];
    step->batch.page_count += ledger->page_count;
  }
}

tn_status tn_step_add(tn_step *step, tn_ledger *ledger, const int32_t *tokens, uint32_t count, uint32_t first_logits,
                      uint32_t *entry, tn_error *error) {
  assert(count > 0 && first_logits <= count && ledger->kv == step->kv);
  tn_batch *batch = &step->batch;
  if (count > tn_step_rows_left(step) || count - first_logits > tn_step_logits_left(step) ||
      batch->sequence_count == step->kv->info.max_sequences)
    return tn_fail(error, TN_E_LIMIT, "%u rows of which %u give logits don't fit into the step", count,
                   count - first_logits);
  assert(!ledger->in_flight || !step->kv->states);
  tn_status status = tn_ledger_reserve(ledger, count, error);
  if (status != TN_OK) return status;
  uint32_t before = ledger->length + ledger->in_flight;
  uint32_t number = batch->sequence_count++;
  step->entries[number] = (tn_step_entry){.ledger = ledger,
                                          .tokens = tokens,
                                          .count = count,
                                          .first_logits = first_logits,
                                          .logits_before = batch->logits_count};
  tn_sequence *sequence = &step->sequences[number];
  *sequence = (tn_sequence){.first_row = batch->row_count,
                            .row_count = count,
                            .kv_length = before,
                            .state_read = ledger->state_read,
                            .state_write = ledger->state_write};
  append_tables(step, ledger, sequence);
  for (uint32_t i = 0; i < count; i++) {
    int32_t position = (int32_t)(before + i);
    step->rows[batch->row_count] = (tn_row){.token = tokens[i],
                                            .position = {position, position, position, position},
                                            .sequence = number,
                                            .wants_logits = i >= first_logits};
    if (i >= first_logits) step->logits_rows[batch->logits_count++] = batch->row_count;
    batch->row_count++;
  }
  if (before + count > batch->context) batch->context = before + count;
  if (entry) *entry = number;
  return TN_OK;
}

void tn_step_rollback_all(tn_step *step) {
  for (uint32_t i = 0; i < step->batch.sequence_count; i++) tn_step_rollback(step, i);
}

tn_status tn_step_submit(tn_step *step, tn_error *error) {
  if (step->batch.row_count == 0) return TN_OK;
  tn_status status = tn_runner_submit(step->kv->runner, &step->batch, error);
  if (status != TN_OK) {
    tn_step_rollback_all(step);
    return status;
  }
  for (uint32_t i = 0; i < step->batch.sequence_count; i++) {
    step->entries[i].in_flight = step->entries[i].count;
    step->entries[i].ledger->in_flight += step->entries[i].count;
  }
  return TN_OK;
}

tn_status tn_step_wait(tn_step *step, tn_error *error) {
  if (step->batch.row_count == 0) return TN_OK;
  tn_status status = tn_runner_wait(step->kv->runner, UINT64_MAX, &step->logits, error);
  if (status != TN_OK) tn_step_rollback_all(step);
  return status;
}

tn_status tn_step_run(tn_step *step, tn_error *error) {
  tn_status status = tn_step_submit(step, error);
  return status == TN_OK ? tn_step_wait(step, error) : status;
}

const float *tn_step_logits(const tn_step *step, uint32_t entry, uint32_t row) {
  const tn_step_entry *of = &step->entries[entry];
  assert(step->logits && row >= of->first_logits && row < of->count);
  size_t index = of->logits_before + (row - of->first_logits);
  return step->logits + index * step->kv->info.vocabulary;
}

/* Its rows are in flight no more. */
static void land(tn_step_entry *entry) {
  entry->ledger->in_flight -= entry->in_flight;
  entry->in_flight = 0;
}

void tn_step_commit(tn_step *step, uint32_t entry) {
  tn_step_commit_part(step, entry, step->entries[entry].count);
}

void tn_step_commit_part(tn_step *step, uint32_t entry, uint32_t count) {
  tn_step_entry *of = &step->entries[entry];
  assert(of->ledger && count <= of->count);
  if (count < of->count && step->kv->states) {
    tn_step_rollback(step, entry);
    return;
  }
  land(of);
  tn_ledger_commit(of->ledger, of->tokens, count);
  tn_ledger_keep_states(of->ledger);
  of->ledger = NULL;
}

void tn_step_rollback(tn_step *step, uint32_t entry) {
  tn_step_entry *of = &step->entries[entry];
  if (of->ledger) {
    land(of);
    tn_ledger_rollback(of->ledger);
  }
  of->ledger = NULL;
}

uint32_t tn_step_rows_left(const tn_step *step) {
  return step->kv->info.max_rows - step->batch.row_count;
}

uint32_t tn_step_logits_left(const tn_step *step) {
  return step->kv->info.max_logits_rows - step->batch.logits_count;
}
