#include "engine/speculate.h"

#include <stdlib.h>
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/random.h"

#define MOST_FAILURES 8u /* of a drafter, one after the other */
/* Laid over the seed, so that synthetic acceptance and the draws have nothing in common. */
#define ACCEPT_KEY 0x5bd1e9955bd1e995u

tn_status tn_speculation_init(tn_speculation *speculation, tn_drafter *drafter, const tn_speculation_options *options,
                              uint32_t max_sequences, tn_error *error) {
  *speculation = (tn_speculation){.drafter = drafter, .accept = options->accept, .max_sequences = max_sequences};
  if (!drafter) return TN_OK;
  tn_draft_policy_init(&speculation->policy, options->k < TN_MAX_DRAFT ? options->k : TN_MAX_DRAFT);
  speculation->drafts = tn_calloc(max_sequences, sizeof *speculation->drafts);
  speculation->wishes = tn_calloc(max_sequences, sizeof *speculation->wishes);
  speculation->drafting = tn_calloc(max_sequences, sizeof(tn_request *));
  speculation->marks = tn_calloc(max_sequences, sizeof *speculation->marks);
  if (speculation->drafts && speculation->wishes && speculation->drafting && speculation->marks) return TN_OK;
  tn_speculation_finish(speculation);
  return tn_fail(error, TN_E_MEMORY, "no memory to draft for %u sequences", max_sequences);
}

void tn_speculation_finish(tn_speculation *speculation) {
  if (speculation->drafter) speculation->drafter->destroy(speculation->drafter);
  free(speculation->drafts);
  free(speculation->wishes);
  free(speculation->drafting);
  free(speculation->marks);
  *speculation = (tn_speculation){0};
}

void tn_speculation_forget(tn_speculation *speculation, uint32_t sequence) {
  if (speculation->drafter) speculation->drafter->forget(speculation->drafter, sequence);
}

/* ---- before the step ---- */

/* It is about to draw a token, and has drawn one before: what is pending are single tokens. */
static bool decodes(const tn_request *request) {
  uint32_t pending = tn_request_pending(request);
  return request->planned == pending && pending <= TN_MOST_REPLAYED && tn_request_answered(request) > 0;
}

/* Most drafts behind a sequence. The last token that there is room for needs none behind it, and a step doesn't run
 * past a length at which the ledger keeps a recurrent state. */
static uint32_t room_behind(const tn_request *request) {
  uint32_t room = request->token_limit - request->token_count - 1;
  uint32_t next = tn_ledger_next_snapshot(request->ledger, request->ledger->length) - request->token_count;
  return room < next ? room : next;
}

/* Who can be drafted for; `rows` and `logits_rows` become what the others leave. Nobody in a step that prefills. */
static void collect(tn_speculation *speculation, tn_request *const *requests, uint32_t count, uint32_t *rows,
                    uint32_t *logits_rows) {
  speculation->is_measured = true;
  for (uint32_t i = 0; i < count; i++) {
    tn_request *request = requests[i];
    if (!request->planned) continue;
    uint32_t silent = tn_request_silent(request);
    *rows -= request->planned;
    *logits_rows -= request->planned > silent ? request->planned - silent : 0;
    if (!decodes(request)) {
      speculation->is_measured = false;
      continue;
    }
    speculation->sequences++;
    uint32_t room = room_behind(request);
    if (!room) continue;
    speculation->wishes[speculation->drafting_count] = (tn_draft_wish){
        .most = room < TN_MAX_DRAFT ? room : TN_MAX_DRAFT, .confidence = speculation->drafter->confidence};
    speculation->drafting[speculation->drafting_count++] = request;
  }
  if (!speculation->is_measured) speculation->drafting_count = 0;
}

static void choose(tn_speculation *speculation, uint32_t rows_of_all, uint32_t rows_left) {
  tn_draft_policy_choose(&speculation->policy, speculation->wishes, speculation->drafting_count, speculation->sequences,
                         rows_of_all, rows_left);
}

/* The drafter walks along the grammars of those that are held to one, and they go back. */
static tn_status call_drafter(tn_speculation *speculation, tn_error *error) {
  tn_draft *drafts = speculation->drafts;
  uint32_t count = speculation->drafting_count;
  for (uint32_t i = 0; i < count; i++)
    if (drafts[i].constraint) speculation->marks[i] = tn_constraint_mark(drafts[i].constraint);
  tn_status status = count ? speculation->drafter->draft(speculation->drafter, drafts, count, error) : TN_OK;
  for (uint32_t i = 0; i < count; i++)
    if (drafts[i].constraint) tn_constraint_return(drafts[i].constraint, speculation->marks[i]);
  return status;
}

/* Asks the drafter for what was wished for, or chosen of it. */
static tn_status ask(tn_speculation *speculation, bool for_chosen, tn_error *error) {
  uint32_t asked = 0, count = speculation->drafting_count;
  for (uint32_t i = 0; i < count; i++) {
    tn_request *request = speculation->drafting[i];
    tn_draft_wish *wish = speculation->wishes + i;
    uint32_t wanted = for_chosen ? wish->chosen : wish->most;
    if (!wanted) continue;
    speculation->drafting[asked] = request;
    speculation->drafts[asked++] = (tn_draft){.sequence = request->sequence,
                                              .tokens = request->tokens,
                                              .token_count = request->token_count,
                                              .prompt_count = request->prompt_count,
                                              .sampling = &request->sampling,
                                              .salt = request->salt,
                                              .constraint = tn_request_is_held(request) ? request->constraint : NULL,
                                              .wanted = wanted};
  }
  speculation->drafting_count = asked;
  return call_drafter(speculation, error);
}

/* Cuts drafts behind a token that would end the answer. */
static void cut_at_end(const tn_request *request, tn_draft *draft) {
  for (uint32_t i = 0; i < draft->count && !request->ignore_end; i++)
    if (tn_vocabulary_ends(request->vocabulary, draft->tokens[draft->token_count + i])) draft->count = i + 1;
}

/* Cuts drafts where they leave the grammar. */
static void cut_at_grammar(tn_draft *draft) {
  if (!draft->count || !draft->constraint) return;
  size_t mark = tn_constraint_mark(draft->constraint);
  bool is_over = false;
  uint32_t good = 0;
  while (good < draft->count && !is_over &&
         tn_constraint_accept(draft->constraint, draft->tokens[draft->token_count + good], &is_over, NULL) == TN_OK)
    good++;
  draft->count = good;
  tn_constraint_return(draft->constraint, mark);
}

static void drafter_failed(tn_speculation *speculation, const tn_error *error) {
  tn_log(TN_LOG_WARN, "the drafter failed: %s", error->message);
  if (++speculation->failures < MOST_FAILURES) return;
  tn_log(TN_LOG_WARN, "the drafter failed %u times in a row: no more speculation", speculation->failures);
}

static tn_status make_drafts(tn_speculation *speculation, uint32_t rows_of_all, uint32_t rows_left, tn_error *error) {
  bool is_free = speculation->drafter->is_free;
  uint64_t start = tn_clock_ns();
  if (!is_free) choose(speculation, rows_of_all, rows_left);
  tn_status status = ask(speculation, !is_free, error);
  uint32_t count = speculation->drafting_count, rounds = 0, behind = 0;
  for (uint32_t i = 0; i < count && status == TN_OK; i++) {
    tn_draft *draft = speculation->drafts + i;
    if (draft->count > rounds) rounds = draft->count;
    if (draft->behind > behind) behind = draft->behind;
    cut_at_end(speculation->drafting[i], draft);
    if (is_free) cut_at_grammar(draft);
    speculation->wishes[i] =
        (tn_draft_wish){.most = draft->count, .confidence = draft->confidence, .chosen = draft->count};
  }
  if (status != TN_OK) return status;
  if (is_free) choose(speculation, rows_of_all, rows_left);
  uint64_t ns = tn_clock_ns() - start;
  speculation->counters.draft_ns += ns;
  /* to catch up with a prompt takes its time once and tells nothing of a round */
  if (!is_free && behind <= TN_MAX_DRAFT + 1) tn_draft_policy_learn_rounds(&speculation->policy, rounds, ns);
  for (uint32_t i = 0; i < count; i++) {
    speculation->drafting[i]->draft_count = speculation->wishes[i].chosen;
    speculation->drafting[i]->confidence = speculation->drafts[i].confidence;
    if (speculation->wishes[i].chosen > speculation->rounds) speculation->rounds = speculation->wishes[i].chosen;
  }
  return TN_OK;
}

void tn_speculation_draft(tn_speculation *speculation, tn_request *const *requests, uint32_t count, uint32_t rows,
                          uint32_t logits_rows, bool is_allowed) {
  tn_error error;
  for (uint32_t i = 0; i < count; i++) requests[i]->draft_count = 0;
  speculation->drafting_count = speculation->sequences = speculation->rounds = speculation->tokens = 0;
  speculation->is_measured = false;
  if (!speculation->drafter || !is_allowed) return;
  uint32_t rows_before = rows;
  collect(speculation, requests, count, &rows, &logits_rows);
  if (!speculation->drafting_count || speculation->failures >= MOST_FAILURES) return;
  if (make_drafts(speculation, rows_before - rows, rows < logits_rows ? rows : logits_rows, &error) == TN_OK)
    speculation->failures = 0;
  else
    drafter_failed(speculation, &error);
}

void tn_speculation_look_ahead(tn_speculation *speculation) {
  if (speculation->rounds && speculation->drafter->look_ahead) speculation->drafter->look_ahead(speculation->drafter);
}

/* ---- behind it ---- */

void tn_speculation_ran(tn_speculation *speculation, uint32_t rows, uint64_t ns) {
  if (speculation->is_measured) tn_draft_policy_learn_pass(&speculation->policy, rows, ns);
}

bool tn_speculation_accepts(const tn_speculation *speculation, const tn_request *request, int32_t draft,
                            tn_sample *drawn) {
  if (speculation->accept <= 0 || tn_request_is_held(request)) return drawn->token == draft;
  if (tn_random_draw(request->sampling.seed ^ ACCEPT_KEY, request->sampling.choice, request->token_count) >=
      speculation->accept)
    return false;
  drawn->token = draft;
  return true;
}

void tn_speculation_verified(tn_speculation *speculation, const tn_request *request, uint32_t compared,
                             uint32_t accepted) {
  tn_speculation_counters *counters = &speculation->counters;
  speculation->tokens += accepted + 1;
  if (!request->draft_count) return;
  counters->drafted += request->draft_count;
  counters->accepted += accepted;
  for (uint32_t i = 0; i < request->draft_count; i++) counters->drafted_at[i]++;
  for (uint32_t i = 0; i < accepted; i++) counters->accepted_at[i]++;
  tn_draft_policy_learn_odds(&speculation->policy, request->confidence, compared, accepted);
}

void tn_speculation_end(tn_speculation *speculation, uint32_t rows) {
  if (!speculation->is_measured) return;
  if (speculation->rounds) speculation->counters.steps++;
  tn_draft_policy_learn_step(&speculation->policy, speculation->sequences, rows, speculation->rounds,
                             speculation->tokens);
}
