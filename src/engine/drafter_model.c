/* A model as drafter: its own runner, KV and sequences. It draws as the target will, from its own logits with the same
 * keys, which makes it agree as often as two distributions allow.
 *
 * A sequence's ledger holds what has been executed of it, drafts included; when the target decided otherwise, the
 * ledger is shortened to what both have in common and the rest is computed. A prompt is caught up with in steps of
 * bounded size, without drafts as long as it lasts. Where the ledger can't be shortened (recurrent states, contiguous
 * KV) drafts are never committed: round i runs all i drafts so far from the verified state.
 *
 * Looking ahead: while the target verifies, a thread goes on as if all drafts were accepted, guesses the target's own
 * token too and drafts behind it. If that is how it comes, the next drafts are there already. */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "engine/drafter.h"
#include "engine/runner.h"
#include "engine/step.h"

#define CONFIDENCE 2u

/* What was drafted ahead of a sequence. */
typedef struct ahead {
  int32_t *tokens; /* [capacity + room]: the sequence, the drafts handed out, and what was drafted behind them */
  tn_sampling sampling;
  tn_draft draft; /* count 0: nothing */
} ahead;

#define AHEAD_ROOM (2 * TN_MAX_DRAFT + 2)

typedef struct model_drafter {
  tn_drafter drafter;
  tn_runner *runner;
  tn_kv kv;
  tn_step step;
  tn_sampler *sampler;
  float *logits; /* [vocabulary]: a row made as long as the target's; NULL: it is */
  uint32_t vocabulary, max_sequences;
  tn_ledger *ledgers;
  tn_draft **work; /* [max_sequences] */
  uint32_t *entries;
  bool keeps_drafts; /* executed drafts stay in the ledger */
  atomic_uint pages_used;

  /* looking ahead */
  ahead *aheads; /* [max_sequences]; NULL: doesn't */
  tn_draft **ahead_work;
  uint32_t ahead_count;
  tn_thread *thread;
  tn_mutex *lock;
  tn_cond *changed;
  bool is_wanted, is_ending; /* under the lock */
  atomic_bool is_stopped;    /* ends after the step that runs */
} model_drafter;

/* ---- a sequence's ledger ---- */

static void count_pages(model_drafter *of) {
  uint32_t used = 0;
  for (uint32_t g = 0; g < of->kv.info.group_count; g++)
    used += tn_pages_total(of->kv.pages, g) - tn_pages_free(of->kv.pages, g) - tn_pages_cached(of->kv.pages, g);
  atomic_store(&of->pages_used, used);
}

/* Makes the ledger a beginning of the sequence, short of its last token. False when the drafter can't follow it: it is
 * too long, or has tokens that the drafter doesn't know. */
static bool follow(model_drafter *of, const tn_draft *draft) {
  tn_ledger *ledger = of->ledgers + draft->sequence;
  uint32_t common = 0, most = draft->token_count - 1;
  if (draft->token_count + draft->wanted > ledger->capacity) return false;
  if (ledger->length < most) most = ledger->length;
  while (common < most && ledger->tokens[common] == draft->tokens[common]) common++;
  for (uint32_t i = common; i < draft->token_count; i++)
    if ((uint32_t)draft->tokens[i] >= of->kv.info.vocabulary) return false;
  if (common < ledger->length && tn_ledger_truncate(ledger, common, NULL) != TN_OK) tn_ledger_clear(ledger);
  if (ledger->length == 0) {
    tn_ledger_clear(ledger);
    tn_ledger_attach(ledger, draft->salt, draft->tokens, draft->token_count);
  }
  return true;
}

static bool is_at_work(tn_draft *const *work, uint32_t count, uint32_t sequence) {
  for (uint32_t i = 0; i < count; i++)
    if (work[i]->sequence == sequence) return true;
  return false;
}

/* Takes the pages of a sequence that isn't being drafted. False when there is none. */
static bool give_up_idle(model_drafter *of, tn_draft *const *work, uint32_t count) {
  for (uint32_t s = 0; s < of->max_sequences; s++) {
    if (!of->ledgers[s].length || is_at_work(work, count, s)) continue;
    tn_ledger_clear(of->ledgers + s);
    return true;
  }
  return false;
}

/* ---- drafting ---- */

static tn_status draw(model_drafter *of, tn_draft *draft, uint32_t entry, uint32_t row, tn_error *error) {
  const float *logits = tn_step_logits(&of->step, entry, row);
  tn_sampling sampling = *draft->sampling;
  sampling.logprobs = sampling.top_logprobs = 0;
  if (of->logits) {
    memcpy(of->logits, logits, of->kv.info.vocabulary * sizeof *logits);
    logits = of->logits;
  }
  uint32_t count = draft->token_count + draft->count;
  tn_draw how = {.sampling = &sampling,
                 .logits = logits,
                 .tokens = draft->tokens,
                 .token_count = count,
                 .prompt_count = draft->prompt_count};
  tn_sample sample;
  bool is_over = false;
  tn_status status = TN_OK;
  if (draft->constraint) status = tn_constraint_allowed(draft->constraint, &how.allowed, &how.allowed_count, error);
  if (status == TN_OK) status = tn_sampler_draw(of->sampler, &how, &sample, error);
  if (status == TN_OK && draft->constraint)
    status = tn_constraint_accept(draft->constraint, sample.token, &is_over, error);
  if (status != TN_OK) return status;
  draft->tokens[count] = sample.token;
  draft->count++;
  if (is_over || (uint32_t)sample.token >= of->kv.info.vocabulary) draft->wanted = draft->count;
  return TN_OK;
}

static void begin(model_drafter *of, uint32_t count) {
  tn_step_begin(&of->step);
  for (uint32_t i = 0; i < count; i++) of->entries[i] = TN_NO_ENTRY;
}

/* Adds rows for a sequence; entries[i] stays TN_NO_ENTRY where they found no room. */
static tn_status add(model_drafter *of, tn_draft **work, uint32_t count, uint32_t i, uint32_t rows,
                     uint32_t first_logits, tn_error *error) {
  tn_ledger *ledger = of->ledgers + work[i]->sequence;
  tn_status status;
  do {
    status =
        tn_step_add(&of->step, ledger, work[i]->tokens + ledger->length, rows, first_logits, &of->entries[i], error);
  } while (status == TN_E_MEMORY && give_up_idle(of, work, count));
  return status == TN_E_MEMORY || status == TN_E_LIMIT ? TN_OK : status;
}

/* Puts what the drafter has not seen of a sequence into the step, as far as there is room; its end with logits. */
static tn_status add_missing(model_drafter *of, tn_draft **work, uint32_t count, uint32_t i, tn_error *error) {
  const tn_ledger *ledger = of->ledgers + work[i]->sequence;
  uint32_t missing = work[i]->behind, left = tn_step_rows_left(&of->step), rows = missing < left ? missing : left;
  uint32_t next = tn_ledger_next_snapshot(ledger, ledger->length) - ledger->length;
  if (rows > next) rows = next;
  bool is_whole = rows == missing && tn_step_logits_left(&of->step);
  if (rows == missing && !is_whole) rows--;
  return rows ? add(of, work, count, i, rows, is_whole ? rows - 1 : rows, error) : TN_OK;
}

/* Executes what the drafter has not seen yet, at most one step of it, those with little to go first; who is complete
 * gets a first draft. */
static tn_status catch_up(model_drafter *of, tn_draft **work, uint32_t count, tn_error *error) {
  tn_status status = TN_OK;
  begin(of, count);
  for (uint32_t i = 0; i < count; i++)
    work[i]->behind = follow(of, work[i]) ? work[i]->token_count - of->ledgers[work[i]->sequence].length : 0;
  for (uint32_t far = 0; far < 2; far++)
    for (uint32_t i = 0; i < count && status == TN_OK; i++)
      if (work[i]->behind && (work[i]->behind > TN_MAX_DRAFT + 1) == far)
        status = add_missing(of, work, count, i, error);
  if (status == TN_OK) status = tn_step_run(&of->step, error);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t entry = of->entries[i];
    if (entry == TN_NO_ENTRY) continue;
    const tn_step_entry *rows = of->step.entries + entry;
    if (status == TN_OK && rows->first_logits < rows->count) status = draw(of, work[i], entry, rows->count - 1, error);
    if (status == TN_OK)
      tn_step_commit(&of->step, entry);
    else
      tn_step_rollback(&of->step, entry);
  }
  return status;
}

/* One more draft for everybody that has `round` of them and wants more. *any: somebody did. */
static tn_status run_round(model_drafter *of, tn_draft **work, uint32_t count, uint32_t round, bool *any,
                           tn_error *error) {
  tn_status status = TN_OK;
  *any = false;
  begin(of, count);
  for (uint32_t i = 0; i < count && status == TN_OK; i++) {
    if (work[i]->count != round || work[i]->wanted == round) continue;
    uint32_t rows = of->keeps_drafts ? 1 : round;
    status = add(of, work, count, i, rows, rows - 1, error);
    *any = *any || of->entries[i] != TN_NO_ENTRY;
  }
  if (status == TN_OK && *any) status = tn_step_run(&of->step, error);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t entry = of->entries[i];
    if (entry == TN_NO_ENTRY) continue;
    if (status == TN_OK) status = draw(of, work[i], entry, of->step.entries[entry].count - 1, error);
    if (status == TN_OK && of->keeps_drafts)
      tn_step_commit(&of->step, entry);
    else
      tn_step_rollback(&of->step, entry);
  }
  return status;
}

static tn_status run_drafts(model_drafter *of, tn_draft **work, uint32_t count, tn_error *error) {
  for (uint32_t i = 0; i < count; i++) work[i]->count = 0;
  tn_status status = count ? catch_up(of, work, count, error) : TN_OK;
  bool any = count > 0;
  for (uint32_t round = 1; round <= 2 * TN_MAX_DRAFT && any && status == TN_OK && !atomic_load(&of->is_stopped);
       round++)
    status = run_round(of, work, count, round, &any, error);
  count_pages(of);
  return status;
}

/* After a failure: the device once more if it was lost; all sequences begin anew. */
static void recover(model_drafter *of, tn_status status) {
  for (uint32_t s = 0; s < of->max_sequences; s++) tn_ledger_clear(of->ledgers + s);
  if (status != TN_E_DEVICE_LOST) return;
  if (of->kv.prefix) tn_prefix_clear(of->kv.prefix);
  tn_runner_reopen(of->runner, NULL);
}

/* ---- looking ahead ---- */

/* Stops what runs ahead, and waits for its end. */
static void settle(model_drafter *of) {
  if (!of->thread) return;
  atomic_store(&of->is_stopped, true);
  tn_mutex_lock(of->lock);
  while (of->is_wanted) tn_cond_wait(of->changed, of->lock, UINT64_MAX);
  tn_mutex_unlock(of->lock);
  atomic_store(&of->is_stopped, false);
}

static void run_ahead(void *argument) {
  model_drafter *of = argument;
  tn_mutex_lock(of->lock);
  while (!of->is_ending) {
    if (!of->is_wanted) {
      tn_cond_wait(of->changed, of->lock, UINT64_MAX);
      continue;
    }
    tn_mutex_unlock(of->lock);
    tn_status status = run_drafts(of, of->ahead_work, of->ahead_count, NULL);
    if (status != TN_OK) {
      for (uint32_t i = 0; i < of->ahead_count; i++) of->ahead_work[i]->count = 0;
      recover(of, status);
    }
    tn_mutex_lock(of->lock);
    of->is_wanted = false;
    tn_cond_broadcast(of->changed);
  }
  tn_mutex_unlock(of->lock);
}

/* Keeps what was handed out, to go on from there. */
static void remember(model_drafter *of, const tn_draft *draft) {
  ahead *to = of->aheads + draft->sequence;
  uint32_t known = draft->token_count + draft->count, capacity = of->ledgers[draft->sequence].capacity;
  to->draft.count = 0;
  if (!draft->count || draft->constraint || draft->sampling->logit_bias_count || draft->sampling->dry.breakers ||
      known + AHEAD_ROOM > capacity)
    return;
  memcpy(to->tokens, draft->tokens, known * sizeof *to->tokens);
  to->sampling = *draft->sampling;
  to->draft = *draft;
  to->draft.tokens = to->tokens;
  to->draft.sampling = &to->sampling;
  to->draft.token_count = known;
  to->draft.wanted = draft->wanted + 1;
  to->draft.count = 0;
  of->ahead_work[of->ahead_count++] = &to->draft;
}

/* Were these drafts made already? */
static bool take_ahead(model_drafter *of, tn_draft *draft) {
  if (!of->aheads) return false;
  const tn_draft *made = &of->aheads[draft->sequence].draft;
  uint32_t known = made->token_count + made->count;
  if (!made->count || draft->constraint || known <= draft->token_count || draft->token_count <= made->token_count)
    return false;
  if (memcmp(made->tokens, draft->tokens, draft->token_count * sizeof *made->tokens) != 0) return false;
  draft->count = known - draft->token_count < draft->wanted ? known - draft->token_count : draft->wanted;
  memcpy(draft->tokens + draft->token_count, made->tokens + draft->token_count, draft->count * sizeof *draft->tokens);
  return true;
}

static void look_ahead(tn_drafter *drafter) {
  model_drafter *of = (model_drafter *)drafter;
  if (!of->ahead_count) return;
  tn_mutex_lock(of->lock);
  of->is_wanted = true;
  tn_cond_broadcast(of->changed);
  tn_mutex_unlock(of->lock);
}

/* ---- the drafter's functions ---- */

static tn_status draft(tn_drafter *drafter, tn_draft *drafts, uint32_t count, tn_error *error) {
  model_drafter *of = (model_drafter *)drafter;
  uint32_t working = 0;
  settle(of);
  for (uint32_t i = 0; i < count; i++) {
    drafts[i].confidence = drafter->confidence;
    drafts[i].count = 0;
    if (!take_ahead(of, drafts + i)) of->work[working++] = drafts + i;
  }
  tn_status status = run_drafts(of, of->work, working, error);
  if (status != TN_OK) recover(of, status);
  of->ahead_count = 0;
  for (uint32_t i = 0; of->aheads && i < count && status == TN_OK; i++) remember(of, drafts + i);
  return status;
}

static void forget(tn_drafter *drafter, uint32_t sequence) {
  model_drafter *of = (model_drafter *)drafter;
  settle(of);
  tn_ledger_clear(of->ledgers + sequence);
  if (of->aheads) of->aheads[sequence].draft.count = 0;
  /* it may have been drafted in this very step, before it was preempted: nobody runs ahead of it then */
  for (uint32_t i = 0; i < of->ahead_count; i++)
    if (of->ahead_work[i]->sequence == sequence) of->ahead_work[i--] = of->ahead_work[--of->ahead_count];
  count_pages(of);
}

static uint32_t pages_used(tn_drafter *drafter) {
  return atomic_load(&((model_drafter *)drafter)->pages_used);
}

static const tn_runner *runner_of(const tn_drafter *drafter) {
  return ((const model_drafter *)drafter)->runner;
}

static void destroy(tn_drafter *drafter) {
  model_drafter *of = (model_drafter *)drafter;
  settle(of);
  if (of->thread) {
    tn_mutex_lock(of->lock);
    of->is_ending = true;
    tn_cond_broadcast(of->changed);
    tn_mutex_unlock(of->lock);
    tn_thread_join(of->thread);
  }
  tn_mutex_destroy(of->lock);
  tn_cond_destroy(of->changed);
  for (uint32_t s = 0; of->aheads && s < of->max_sequences; s++) free(of->aheads[s].tokens);
  for (uint32_t s = 0; of->ledgers && s < of->max_sequences; s++) tn_ledger_finish(of->ledgers + s);
  free(of->aheads);
  free(of->ahead_work);
  free(of->ledgers);
  free(of->work);
  free(of->entries);
  free(of->logits);
  tn_sampler_destroy(of->sampler);
  tn_step_finish(&of->step);
  tn_kv_finish(&of->kv);
  tn_runner_destroy(of->runner);
  free(of);
}

/* ---- making one ---- */

static tn_status begin_looking_ahead(model_drafter *of, tn_error *error) {
  of->aheads = tn_calloc(of->max_sequences, sizeof *of->aheads);
  of->ahead_work = tn_calloc(of->max_sequences, sizeof *of->ahead_work);
  bool complete = of->aheads && of->ahead_work;
  for (uint32_t s = 0; complete && s < of->max_sequences; s++) {
    of->aheads[s].tokens = tn_calloc(of->ledgers[s].capacity + AHEAD_ROOM, sizeof(int32_t));
    complete = of->aheads[s].tokens != NULL;
  }
  of->lock = tn_mutex_create();
  of->changed = tn_cond_create();
  if (complete && of->lock && of->changed) of->thread = tn_thread_start("tenon-drafter", run_ahead, of);
  if (!of->thread) return tn_fail(error, TN_E_MEMORY, "no memory for a drafter, or no thread");
  of->drafter.look_ahead = look_ahead;
  return TN_OK;
}

static tn_status take_memory(model_drafter *of, tn_error *error) {
  tn_status status = tn_step_init(&of->step, &of->kv, error);
  if (status == TN_OK) status = tn_sampler_create(of->vocabulary, &of->sampler, error);
  if (status != TN_OK) return status;
  of->ledgers = tn_calloc(of->max_sequences, sizeof *of->ledgers);
  of->work = tn_calloc(of->max_sequences, sizeof *of->work);
  of->entries = tn_calloc(of->max_sequences, sizeof *of->entries);
  bool is_shorter = of->kv.info.vocabulary < of->vocabulary;
  if (is_shorter) of->logits = tn_calloc(of->vocabulary, sizeof *of->logits);
  if (!of->ledgers || !of->work || !of->entries || (is_shorter && !of->logits))
    return tn_fail(error, TN_E_MEMORY, "no memory for a drafter of %u sequences", of->max_sequences);
  for (uint32_t i = of->kv.info.vocabulary; i < of->vocabulary; i++) of->logits[i] = -INFINITY;
  for (uint32_t s = 0; s < of->max_sequences && status == TN_OK; s++)
    status = tn_ledger_init(of->ledgers + s, &of->kv, tn_kv_capacity(&of->kv), error);
  return status;
}

tn_status tn_drafter_model_create(tn_runner *runner, const tn_drafter_model_options *options, tn_drafter **drafter,
                                  tn_error *error) {
  *drafter = NULL;
  model_drafter *made = calloc(1, sizeof *made);
  if (!made) {
    tn_runner_destroy(runner);
    return tn_fail(error, TN_E_MEMORY, "no memory for a drafter");
  }
  made->drafter = (tn_drafter){.name = "model",
                               .confidence = CONFIDENCE,
                               .draft = draft,
                               .forget = forget,
                               .pages_used = pages_used,
                               .runner = runner_of,
                               .destroy = destroy};
  made->runner = runner;
  made->vocabulary = options->vocabulary;
  made->max_sequences = options->max_sequences;
  made->keeps_drafts = !tn_runner_describe(runner)->state_slots;
  assert(options->max_sequences <= tn_runner_describe(runner)->max_sequences);
  tn_status status = tn_kv_init(&made->kv, runner, NULL, error);
  if (status == TN_OK) status = take_memory(made, error);
  if (status == TN_OK && options->looks_ahead && made->keeps_drafts) status = begin_looking_ahead(made, error);
  if (status != TN_OK) {
    destroy(&made->drafter);
    return status;
  }
  *drafter = &made->drafter;
  return TN_OK;
}
