/* A runner without a model: its "KV memory" holds the token of every slot, and the logits of a row are a hash over the
 * tokens that the row sees through its page tables; with recurrent states, also over what it finds in its slot of them,
 * a hash over all tokens before. So any mistake with pages, tables, lengths or windows changes the
 * logits, and what a sequence must answer can be computed without an engine (fake_expected).
 *
 * It defines runner.h's functions for the test program that includes it. Faults: steps and page copies fail at
 * chosen counts; the device is lost, and a reopened one is empty; a batch with a chosen token fails each time. A
 * failed step leaves rubbish in the slots it was to fill, as runner.h allows. */
#ifndef TESTS_ENGINE_FAKE_RUNNER_H
#define TESTS_ENGINE_FAKE_RUNNER_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "engine/runner.h"

#define FAKE_VOCABULARY 61u
#define FAKE_RUBBISH (-77)

/* What a runner may expect of a batch; on any thread, in any build. */
#define FAKE_CHECK(condition)                                         \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                        \
    }                                                                 \
  } while (0)

typedef struct fake_config {
  uint32_t max_rows, max_sequences, max_logits_rows, max_context, pages;
  uint32_t group_count;
  uint32_t windows[TN_MAX_GROUPS];
  uint32_t window_pages; /* of each group with a window; 0: `pages` */
  uint32_t state_slots;  /* 0: no recurrent states */
  bool overlaps;
} fake_config;

typedef struct fake_faults {
  uint64_t fail_step;    /* number of the submit that fails, from 1; 0: none */
  uint64_t fail_steps;   /* that many in a row (0 means 1) */
  tn_status step_status; /* with this */
  uint64_t fail_copy;    /* number of the page copy that fails */
  bool fail_reopen;
  int32_t poison; /* steps with this token fail, always; 0: none */
  uint64_t nan_step;
} fake_faults;

struct tn_runner {
  tn_runner_info info;
  int32_t *slots[TN_MAX_GROUPS]; /* [pages * TN_PAGE_SLOTS] */
  uint64_t *states;              /* [state_slots] */
  float *logits;                 /* [2][max_logits_rows, vocabulary] */
  uint64_t submits, waits, copies, reopened;
  tn_status pending[2]; /* of the steps in flight */
  bool is_lost;
  bool is_closed; /* lost, and not opened again: it takes no steps */
  fake_faults faults;
  uint64_t model, configuration; /* fingerprints */
  uint64_t *clock;               /* of a simulation: each step takes step_ns and row_ns a row; or NULL */
  uint64_t step_ns, row_ns, taken_ns[2];
};

static uint64_t fake_mix(uint64_t hash, int32_t token, uint32_t position) {
  return tn_hash_mix(hash ^ (uint64_t)(uint32_t)token, 0x9e3779b97f4a7c15u + position * 2u);
}

static void fake_logits(uint64_t hash, float *logits) {
  for (uint32_t v = 0; v < FAKE_VOCABULARY; v++) {
    uint64_t bits = tn_hash_mix(hash ^ 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu + 2u * v);
    logits[v] = (float)(bits >> 40) * 0x1p-24f * 8.0f;
  }
}

/* Logits at the end of `tokens`, by the tokens themselves. */
__attribute__((unused)) static void fake_expected(const fake_config *config, const int32_t *tokens, uint32_t count,
                                                  float *logits) {
  uint64_t hash = 1;
  for (uint32_t g = 0; g < config->group_count; g++) {
    uint32_t window = config->windows[g], first = window && count > window ? count - window : 0;
    for (uint32_t i = first; i < count; i++) hash = fake_mix(hash, tokens[i], i);
    hash += g;
  }
  uint64_t state = 1;
  for (uint32_t i = 0; config->state_slots && i < count; i++) state = fake_mix(state, tokens[i], i);
  fake_logits(hash + (config->state_slots ? state : 0), logits);
}

static tn_runner *fake_create(const fake_config *config) {
  tn_runner *runner = calloc(1, sizeof *runner);
  runner->info = (tn_runner_info){.vocabulary = FAKE_VOCABULARY,
                                  .max_rows = config->max_rows,
                                  .max_sequences = config->max_sequences,
                                  .max_logits_rows = config->max_logits_rows,
                                  .max_context = config->max_context,
                                  .pages = config->pages,
                                  .group_count = config->group_count,
                                  .state_slots = config->state_slots,
                                  .state_bytes = config->state_slots ? sizeof(uint64_t) : 0,
                                  .threads = 1,
                                  .batch_invariant = true,
                                  .overlaps = config->overlaps,
                                  .device = "fake"};
  for (uint32_t g = 0; g < config->group_count; g++) {
    uint32_t pages = config->windows[g] && config->window_pages ? config->window_pages : config->pages;
    runner->info.groups[g] =
        (tn_runner_group){.window = config->windows[g], .pages = pages, .page_bytes = TN_PAGE_SLOTS * 4};
    runner->slots[g] = calloc((size_t)pages * TN_PAGE_SLOTS, sizeof(int32_t));
  }
  runner->states = calloc(config->state_slots + 1, sizeof *runner->states);
  runner->logits = calloc((size_t)config->max_logits_rows * FAKE_VOCABULARY, 2 * sizeof(float));
  return runner;
}

void tn_runner_destroy(tn_runner *runner) {
  if (!runner) return;
  for (uint32_t g = 0; g < runner->info.group_count; g++) free(runner->slots[g]);
  free(runner->states);
  free(runner->logits);
  free(runner);
}

const tn_runner_info *tn_runner_describe(const tn_runner *runner) {
  return &runner->info;
}

static int32_t *fake_slot(tn_runner *runner, const tn_batch *batch, const tn_sequence *sequence, uint32_t group,
                          uint32_t slot) {
  uint32_t at = sequence->pages[group] + slot / TN_PAGE_SLOTS;
  FAKE_CHECK(at < batch->page_count && batch->pages[at] < runner->info.groups[group].pages);
  return &runner->slots[group][(size_t)batch->pages[at] * TN_PAGE_SLOTS + slot % TN_PAGE_SLOTS];
}

static bool fake_fails(tn_runner *runner, const tn_batch *batch) {
  tn_status *pending = &runner->pending[runner->submits % 2];
  const fake_faults *faults = &runner->faults;
  uint64_t row = faults->fail_steps ? faults->fail_steps : 1;
  if (runner->is_lost) {
    *pending = TN_E_DEVICE_LOST;
    return true;
  }
  *pending = TN_OK;
  if (faults->fail_step && runner->submits >= faults->fail_step && runner->submits < faults->fail_step + row)
    *pending = faults->step_status;
  for (uint32_t i = 0; i < batch->row_count && faults->poison; i++)
    if (batch->rows[i].token == faults->poison) *pending = faults->step_status;
  runner->is_lost = *pending == TN_E_DEVICE_LOST;
  return *pending != TN_OK;
}

static uint64_t fake_row_hash(tn_runner *runner, const tn_batch *batch, const tn_sequence *sequence, uint32_t count) {
  uint64_t hash = 1;
  for (uint32_t g = 0; g < runner->info.group_count; g++) {
    uint32_t window = runner->info.groups[g].window, first = window && count > window ? count - window : 0;
    for (uint32_t i = first; i < count; i++) hash = fake_mix(hash, *fake_slot(runner, batch, sequence, g, i), i);
    hash += g;
  }
  return hash;
}

/* What sequence `number` reads; nobody else's slot may be written in this step. */
static uint64_t fake_state(tn_runner *runner, const tn_batch *batch, uint32_t number) {
  const tn_sequence *sequence = &batch->sequences[number];
  if (!runner->info.state_slots) return 1;
  FAKE_CHECK(sequence->state_read < runner->info.state_slots && sequence->state_write < runner->info.state_slots);
  for (uint32_t s = 0; s < batch->sequence_count; s++)
    FAKE_CHECK(batch->sequences[s].state_read != sequence->state_write &&
               (s == number || batch->sequences[s].state_write != sequence->state_write));
  return sequence->kv_length ? runner->states[sequence->state_read] : 1;
}

tn_status tn_runner_submit(tn_runner *runner, const tn_batch *batch, tn_error *error) {
  if (runner->submits - runner->waits == (runner->info.overlaps ? 2 : 1))
    return tn_fail(error, TN_E_BUSY, "no more steps can be in flight");
  if (runner->is_closed) return tn_fail(error, TN_E_DEVICE_LOST, "fake device is closed");
  FAKE_CHECK(batch->row_count > 0 && batch->row_count <= runner->info.max_rows);
  FAKE_CHECK(batch->sequence_count <= runner->info.max_sequences &&
             batch->logits_count <= runner->info.max_logits_rows);
  runner->submits++;
  runner->taken_ns[runner->submits % 2] = runner->step_ns + batch->row_count * runner->row_ns;
  float *logits_of_step =
      runner->logits + (size_t)(runner->submits % 2) * runner->info.max_logits_rows * FAKE_VOCABULARY;
  bool fails = fake_fails(runner, batch);
  uint32_t logits_done = 0, rows_done = 0;
  for (uint32_t s = 0; s < batch->sequence_count; s++) {
    const tn_sequence *sequence = &batch->sequences[s];
    FAKE_CHECK(sequence->first_row == rows_done && sequence->row_count > 0);
    uint64_t state = fake_state(runner, batch, s);
    for (uint32_t i = 0; i < sequence->row_count; i++) {
      const tn_row *row = &batch->rows[sequence->first_row + i];
      uint32_t slot = sequence->kv_length + i;
      FAKE_CHECK(row->sequence == s && row->position[0] == (int32_t)slot && slot < runner->info.max_context);
      FAKE_CHECK(batch->context > slot);
      for (uint32_t g = 0; g < runner->info.group_count; g++)
        *fake_slot(runner, batch, sequence, g, slot) = fails ? FAKE_RUBBISH : row->token;
      state = fake_mix(state, row->token, slot);
      if (!row->wants_logits) continue;
      FAKE_CHECK(batch->logits_rows[logits_done] == sequence->first_row + i);
      float *logits = logits_of_step + (size_t)logits_done++ * FAKE_VOCABULARY;
      uint64_t recurrent = runner->info.state_slots ? state : 0;
      if (!fails) fake_logits(fake_row_hash(runner, batch, sequence, slot + 1) + recurrent, logits);
      if (runner->faults.nan_step == runner->submits) logits[7] = NAN;
    }
    if (runner->info.state_slots) runner->states[sequence->state_write] = fails ? 0 : state;
    rows_done += sequence->row_count;
  }
  FAKE_CHECK(rows_done == batch->row_count && logits_done == batch->logits_count);
  return TN_OK;
}

tn_status tn_runner_wait(tn_runner *runner, uint64_t deadline_ns, const float **logits, tn_error *error) {
  (void)deadline_ns;
  FAKE_CHECK(runner->waits < runner->submits);
  uint64_t step = ++runner->waits;
  if (runner->clock) *runner->clock += runner->taken_ns[step % 2];
  *logits = runner->logits + (size_t)(step % 2) * runner->info.max_logits_rows * FAKE_VOCABULARY;
  if (runner->pending[step % 2] != TN_OK)
    return tn_fail(error, runner->pending[step % 2], "fake fault in step %d", (int)step);
  return TN_OK;
}

tn_status tn_runner_copy_page(tn_runner *runner, uint32_t group, uint32_t from, uint32_t to, tn_error *error) {
  if (++runner->copies == runner->faults.fail_copy) return tn_fail(error, TN_E_INTERNAL, "fake fault in a copy");
  memcpy(runner->slots[group] + (size_t)to * TN_PAGE_SLOTS, runner->slots[group] + (size_t)from * TN_PAGE_SLOTS,
         TN_PAGE_SLOTS * sizeof(int32_t));
  return TN_OK;
}

tn_status tn_runner_read_page(tn_runner *runner, uint32_t group, uint32_t page, void *to, tn_error *error) {
  if (++runner->copies == runner->faults.fail_copy) return tn_fail(error, TN_E_INTERNAL, "fake fault in a copy");
  memcpy(to, runner->slots[group] + (size_t)page * TN_PAGE_SLOTS, TN_PAGE_SLOTS * sizeof(int32_t));
  return TN_OK;
}

tn_status tn_runner_write_page(tn_runner *runner, uint32_t group, uint32_t page, const void *from, tn_error *error) {
  if (++runner->copies == runner->faults.fail_copy) return tn_fail(error, TN_E_INTERNAL, "fake fault in a copy");
  memcpy(runner->slots[group] + (size_t)page * TN_PAGE_SLOTS, from, TN_PAGE_SLOTS * sizeof(int32_t));
  return TN_OK;
}

tn_status tn_runner_read_state(tn_runner *runner, uint32_t slot, void *to, tn_error *error) {
  if (++runner->copies == runner->faults.fail_copy) return tn_fail(error, TN_E_INTERNAL, "fake fault in a copy");
  memcpy(to, &runner->states[slot], sizeof runner->states[slot]);
  return TN_OK;
}

tn_status tn_runner_write_state(tn_runner *runner, uint32_t slot, const void *from, tn_error *error) {
  if (++runner->copies == runner->faults.fail_copy) return tn_fail(error, TN_E_INTERNAL, "fake fault in a copy");
  memcpy(&runner->states[slot], from, sizeof runner->states[slot]);
  return TN_OK;
}

tn_status tn_runner_fingerprint(tn_runner *runner, uint64_t *model, uint64_t *configuration, tn_error *error) {
  (void)error;
  *model = runner->model;
  *configuration = runner->configuration;
  return TN_OK;
}

tn_status tn_runner_reopen(tn_runner *runner, tn_error *error) {
  runner->reopened++;
  runner->is_closed = runner->faults.fail_reopen;
  if (runner->is_closed) return tn_fail(error, TN_E_DEVICE_LOST, "fake device stays lost");
  runner->is_lost = false;
  for (uint32_t g = 0; g < runner->info.group_count; g++)
    for (size_t i = 0; i < (size_t)runner->info.groups[g].pages * TN_PAGE_SLOTS; i++)
      runner->slots[g][i] = FAKE_RUBBISH;
  for (uint32_t s = 0; s < runner->info.state_slots; s++) runner->states[s] = 0;
  return TN_OK;
}

/* A small generator for tests, always the same. */
__attribute__((unused)) static uint32_t fake_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

#endif
