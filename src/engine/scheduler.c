#include "engine/scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/plan.h"

tn_status tn_scheduler_init(tn_scheduler *scheduler, tn_runner *runner, const tn_scheduler_options *options,
                            tn_error *error) {
  *scheduler = (tn_scheduler){.chunk = options->chunk, .max_running = options->max_running};
  tn_status status = tn_speculation_init(&scheduler->speculation, options->drafter, &options->speculation,
                                         options->max_running, error);
  if (status == TN_OK) status = tn_kv_init(&scheduler->kv, runner, &options->kv, error);
  if (status != TN_OK) goto fail;
  assert(options->chunk > 0 && options->chunk <= scheduler->kv.info.max_rows);
  assert(options->max_running > 0 && options->max_running <= scheduler->kv.info.max_sequences);
  status = tn_step_init(&scheduler->step, &scheduler->kv, error);
  if (status == TN_OK) status = tn_sampler_create(scheduler->kv.info.vocabulary, &scheduler->sampler, error);
  if (status != TN_OK) goto fail;
  scheduler->ledgers = tn_calloc(options->max_running, sizeof *scheduler->ledgers);
  scheduler->free_ledgers = tn_calloc(options->max_running, sizeof *scheduler->free_ledgers);
  scheduler->running = tn_calloc(options->max_running, sizeof *scheduler->running);
  scheduler->pending = tn_calloc(options->max_running, sizeof *scheduler->pending);
  scheduler->silent = tn_calloc(options->max_running, sizeof *scheduler->silent);
  scheduler->planned = tn_calloc(options->max_running, sizeof *scheduler->planned);
  if (!scheduler->ledgers || !scheduler->free_ledgers || !scheduler->running || !scheduler->pending ||
      !scheduler->silent || !scheduler->planned) {
    status = tn_fail(error, TN_E_MEMORY, "no memory for %u running requests", options->max_running);
    goto fail;
  }
  uint32_t capacity = tn_kv_capacity(&scheduler->kv);
  for (uint32_t i = 0; i < options->max_running; i++) {
    status = tn_ledger_init(&scheduler->ledgers[i], &scheduler->kv, capacity, error);
    if (status != TN_OK) goto fail;
    scheduler->free_ledgers[scheduler->free_ledger_count++] = &scheduler->ledgers[i];
  }
  return TN_OK;
fail:
  tn_scheduler_finish(scheduler);
  return status;
}

/* ---- a request's way through: queue, running, preempted, ended ---- */

static bool is_older(const tn_request *a, const tn_request *b) {
  return a->priority != b->priority ? a->priority > b->priority : a->arrival < b->arrival;
}

static void enqueue(tn_scheduler *scheduler, tn_request *request) {
  tn_request **link = &scheduler->waiting;
  while (*link && is_older(*link, request)) link = &(*link)->next;
  request->next = *link;
  *link = request;
  scheduler->waiting_count++;
}

static void dequeue(tn_scheduler *scheduler, tn_request **link) {
  tn_request *request = *link;
  *link = request->next;
  request->next = NULL;
  scheduler->waiting_count--;
}

void tn_scheduler_add(tn_scheduler *scheduler, tn_request *request) {
  enqueue(scheduler, request);
}

/* Out of the running ones; its pages go back, those published stay in the cache. */
static void stop_running(tn_scheduler *scheduler, tn_request *request) {
  uint32_t at = 0;
  while (scheduler->running[at] != request) at++;
  scheduler->running_count--;
  memmove(&scheduler->running[at], &scheduler->running[at + 1],
          (scheduler->running_count - at) * sizeof *scheduler->running);
  tn_speculation_forget(&scheduler->speculation, request->sequence);
  tn_ledger_clear(request->ledger);
  scheduler->free_ledgers[scheduler->free_ledger_count++] = request->ledger;
  request->ledger = NULL;
}

/* The last output of a request that is neither running nor waiting any more. */
static void end_request(tn_scheduler *scheduler, tn_request *request, tn_finish finish, const tn_error *error) {
  if (scheduler->on_released) scheduler->on_released(scheduler->context);
  tn_request_end(request, finish, error);
  tn_request_release(request);
}

static void end_running(tn_scheduler *scheduler, tn_request *request, tn_finish finish, const tn_error *error) {
  stop_running(scheduler, request);
  end_request(scheduler, request, finish, error);
}

static void end_waiting(tn_scheduler *scheduler, tn_request **link, tn_finish finish, const tn_error *error) {
  tn_request *request = *link;
  dequeue(scheduler, link);
  end_request(scheduler, request, finish, error);
}

/* Back into the queue; it will compute its tokens anew. */
static void put_back(tn_scheduler *scheduler, tn_request *request) {
  stop_running(scheduler, request);
  enqueue(scheduler, request);
}

static void preempt(tn_scheduler *scheduler, tn_request *request) {
  put_back(scheduler, request);
  scheduler->counters.preemptions++;
}

void tn_scheduler_fail_all(tn_scheduler *scheduler, const tn_error *error) {
  while (scheduler->running_count)
    end_running(scheduler, scheduler->running[scheduler->running_count - 1], TN_FINISH_ERROR, error);
  while (scheduler->waiting) end_waiting(scheduler, &scheduler->waiting, TN_FINISH_ERROR, error);
}

void tn_scheduler_finish(tn_scheduler *scheduler) {
  while (scheduler->running_count)
    end_running(scheduler, scheduler->running[scheduler->running_count - 1], TN_FINISH_CANCELLED, NULL);
  while (scheduler->waiting) end_waiting(scheduler, &scheduler->waiting, TN_FINISH_CANCELLED, NULL);
  for (uint32_t i = 0; scheduler->ledgers && i < scheduler->max_running; i++) tn_ledger_finish(&scheduler->ledgers[i]);
  free(scheduler->ledgers);
  free(scheduler->free_ledgers);
  free(scheduler->running);
  free(scheduler->pending);
  free(scheduler->silent);
  free(scheduler->planned);
  tn_speculation_finish(&scheduler->speculation);
  tn_sampler_destroy(scheduler->sampler);
  tn_step_finish(&scheduler->step);
  tn_kv_finish(&scheduler->kv);
  *scheduler = (tn_scheduler){0};
}

/* ---- cancelled and late ones ---- */

/* Is the request to end now, not by its own doing? *error is set if that is an error. */
static bool is_over(const tn_request *request, uint64_t now, tn_error *error) {
  error->status = TN_OK;
  if (atomic_load(&request->cancelled)) return true;
  if (now < request->deadline_ns) return false;
  tn_fail(error, TN_E_TIMEOUT, "the request's time of %.3f s was over after %u tokens",
          (double)(request->deadline_ns - request->submit_ns) * 1e-9, tn_request_answered(request));
  return true;
}

static void end_overdue(tn_scheduler *scheduler) {
  uint64_t now = tn_clock_ns();
  tn_error error;
  for (uint32_t i = scheduler->running_count; i-- > 0;) {
    tn_request *request = scheduler->running[i];
    if (!is_over(request, now, &error)) continue;
    end_running(scheduler, request, error.status ? TN_FINISH_ERROR : TN_FINISH_CANCELLED, error.status ? &error : NULL);
  }
  for (tn_request **link = &scheduler->waiting; *link;) {
    if (is_over(*link, now, &error)) {
      end_waiting(scheduler, link, error.status ? TN_FINISH_ERROR : TN_FINISH_CANCELLED, error.status ? &error : NULL);
    } else {
      link = &(*link)->next;
    }
  }
}

/* ---- admission ---- */

/* How many of the request's tokens it may find in the cache, and one more: rows whose logits it still wants must be
 * computed. */
static uint32_t findable(const tn_request *request) {
  return tn_request_is_scoring(request) ? request->scored : request->token_count;
}

/* The next length, above `present` and what the ledger has left behind already, at which others find more of it. */
static uint32_t next_landing(const tn_ledger *ledger, uint32_t present) {
  if (present < ledger->length) present = ledger->length;
  if (ledger->kv->states) return tn_ledger_next_snapshot(ledger, present);
  return (present / TN_PAGE_SLOTS + 1) * TN_PAGE_SLOTS;
}

/* Is a running request about to publish more of this one's tokens, behind the `present` ones found? Then this one waits
 * and shares the pages instead of computing them as well. */
static bool has_forerunner(const tn_scheduler *scheduler, const tn_request *request, uint32_t present) {
  for (uint32_t i = 0; scheduler->kv.prefix && i < scheduler->running_count; i++) {
    const tn_request *other = scheduler->running[i];
    uint32_t wanted = next_landing(other->ledger, present);
    if (findable(request) > wanted && other->ledger->length < wanted && other->token_count >= wanted &&
        tn_salt_equal(other->salt, request->salt) &&
        memcmp(request->tokens, other->tokens, wanted * sizeof *request->tokens) == 0)
      return true;
  }
  return false;
}

typedef enum admission { ADMITTED, HAS_TO_WAIT, NO_ROOM } admission;

static admission admit(tn_scheduler *scheduler, tn_request **link) {
  tn_request *request = *link;
  tn_ledger *ledger = scheduler->free_ledgers[scheduler->free_ledger_count - 1];
  uint32_t present = tn_ledger_attach(ledger, request->salt, request->tokens, findable(request));
  admission answer = ADMITTED;
  if (has_forerunner(scheduler, request, present)) {
    answer = HAS_TO_WAIT;
  } else if (!tn_kv_fits(&scheduler->kv, request->token_count, present / TN_PAGE_SLOTS, scheduler->running_count > 0)) {
    answer = NO_ROOM;
  }
  if (answer != ADMITTED) {
    tn_ledger_clear(ledger);
    return answer;
  }
  scheduler->free_ledger_count--;
  dequeue(scheduler, link);
  uint32_t at = scheduler->running_count++;
  for (; at > 0 && is_older(request, scheduler->running[at - 1]); at--)
    scheduler->running[at] = scheduler->running[at - 1];
  scheduler->running[at] = request;
  request->ledger = ledger;
  ledger->landmark = (request->prompt_count - 1) / TN_PAGE_SLOTS * TN_PAGE_SLOTS;
  request->sequence = (uint32_t)(ledger - scheduler->ledgers);
  if (!request->was_admitted) {
    request->was_admitted = true;
    request->admit_ns = tn_clock_ns();
    request->cached_count = present;
    scheduler->counters.cached_tokens += present;
  }
  return ADMITTED;
}

/* Preempts the youngest running request if its priority is below that of `request`. */
static bool make_way(tn_scheduler *scheduler, const tn_request *request) {
  if (scheduler->running_count == 0) return false;
  tn_request *youngest = scheduler->running[scheduler->running_count - 1];
  if (youngest->priority >= request->priority) return false;
  preempt(scheduler, youngest);
  return true;
}

/* In order of age: one that finds no room keeps the younger ones out too, so that it isn't starved by small ones. Those
 * of lower priority make way for it. */
static void admit_waiting(tn_scheduler *scheduler) {
  for (tn_request **link = &scheduler->waiting; *link;) {
    admission answer = NO_ROOM;
    if (scheduler->free_ledger_count)
      answer = admit(scheduler, link);
    else if (has_forerunner(scheduler, *link, 0)) /* nobody makes way for one that would only wait */
      answer = HAS_TO_WAIT;
    if (answer == NO_ROOM && !make_way(scheduler, *link)) break;
    if (answer == HAS_TO_WAIT) link = &(*link)->next;
  }
}

/* ---- a step's rows ---- */

static tn_request *oldest_suspect(const tn_scheduler *scheduler) {
  for (uint32_t i = 0; i < scheduler->running_count; i++)
    if (scheduler->running[i]->suspect_until) return scheduler->running[i];
  return NULL;
}

/* Its pending rows, up to where a snapshot is to be kept. */
static uint32_t runnable(const tn_request *request) {
  uint32_t pending = tn_request_pending(request), length = request->ledger->length;
  uint32_t room = tn_ledger_next_snapshot(request->ledger, length) - length;
  return pending < room ? pending : room;
}

static void plan_rows(tn_scheduler *scheduler, const tn_request *suspect) {
  for (uint32_t i = 0; i < scheduler->running_count; i++) {
    tn_request *request = scheduler->running[i];
    request->entry = TN_NO_ENTRY;
    scheduler->pending[i] = !suspect || suspect == request ? runnable(request) : 0;
    scheduler->silent[i] = tn_request_silent(request);
  }
  tn_plan(scheduler->pending, scheduler->silent, scheduler->planned, scheduler->running_count, scheduler->chunk,
          scheduler->kv.info.max_logits_rows, &scheduler->turn);
  for (uint32_t i = 0; i < scheduler->running_count; i++) scheduler->running[i]->planned = scheduler->planned[i];
}

/* Whose pages go when there are none left for `request`: the youngest's. Those older than it keep theirs, unless they
 * don't run in this step anyway because a suspect runs alone. */
static tn_request *pick_victim(const tn_scheduler *scheduler, const tn_request *request, bool is_alone) {
  tn_request *youngest = scheduler->running[scheduler->running_count - 1];
  if (youngest != request) return youngest;
  return is_alone && scheduler->running_count > 1 ? scheduler->running[scheduler->running_count - 2] : NULL;
}

/* Puts the planned and drafted rows into the step, the oldest request's first; so those preempted for it are not in the
 * step yet. Nobody is preempted for drafts. One that finds no pages stays out of this step. On failure *culprit is the
 * request whose pages could not be had. */
static tn_status add_rows(tn_scheduler *scheduler, bool is_alone, tn_request **culprit, tn_error *error) {
  tn_step_begin(&scheduler->step);
  for (uint32_t i = 0; i < scheduler->running_count; i++) {
    tn_request *request = scheduler->running[i], *victim;
    tn_status status = TN_E_MEMORY;
    while (request->planned && status == TN_E_MEMORY) {
      uint32_t silent = tn_request_silent(request),
               first_logits = silent < request->planned ? silent : request->planned;
      status = tn_step_add(&scheduler->step, request->ledger, request->tokens + request->ledger->length,
                           request->planned + request->draft_count, first_logits, &request->entry, error);
      if (status == TN_OK) break;
      if (status == TN_E_MEMORY && request->draft_count) {
        request->draft_count = 0;
        continue;
      }
      *culprit = request;
      if (status != TN_E_MEMORY) return status;
      victim = pick_victim(scheduler, request, is_alone);
      if (!victim) break;
      preempt(scheduler, victim);
      if (scheduler->running[i] != request) i--;
    }
  }
  *culprit = NULL;
  return TN_OK;
}

/* ---- after the step ---- */

/* Draws the request's next token from row `row` of its part of the step. */
static tn_status draw_token(tn_scheduler *scheduler, tn_request *request, uint32_t row, tn_error *error) {
  bool is_held = tn_request_is_held(request);
  bool bans_end = tn_request_must_go_on(request) ||
                  (!request->ignore_end && !is_held && tn_request_answered(request) < request->min_tokens);
  tn_draw draw = {.sampling = &request->sampling,
                  .logits = tn_step_logits(&scheduler->step, request->entry, row),
                  .tokens = request->tokens,
                  .token_count = request->token_count,
                  .prompt_count = request->prompt_count,
                  .banned = bans_end ? request->vocabulary->end_tokens : NULL,
                  .banned_count = bans_end ? request->vocabulary->end_count : 0};
  tn_status status = TN_OK;
  if (is_held) status = tn_constraint_allowed(request->constraint, &draw.allowed, &draw.allowed_count, error);
  return status == TN_OK ? tn_sampler_draw(scheduler->sampler, &draw, &scheduler->sample, error) : status;
}

/* Gives out the log-probabilities of prompt tokens that the step's rows tell. */
static tn_status score_prompt(tn_scheduler *scheduler, tn_request *request, tn_error *error) {
  tn_status status = TN_OK;
  uint32_t present = request->ledger->length;
  if (request->scored == 0) tn_request_put_score(request, NULL);
  for (uint32_t row = tn_request_silent(request); row < request->planned && status == TN_OK; row++) {
    uint32_t next = present + row + 1;
    if (next >= request->prompt_count) break;
    status = tn_sampler_score(scheduler->sampler, tn_step_logits(&scheduler->step, request->entry, row),
                              request->tokens[next], next, request->sampling.top_logprobs, &scheduler->sample, error);
    if (status == TN_OK) tn_request_put_score(request, &scheduler->sample);
  }
  return status;
}

/* Draws tokens as long as they are those drafted, the first one that isn't included. *rows: how many of the rows were
 * of the answer. */
static tn_status draw_tokens(tn_scheduler *scheduler, tn_request *request, uint32_t *rows, tn_finish *finish,
                             tn_error *error) {
  uint32_t accepted = 0, compared = 0;
  bool is_accepted = true;
  tn_status status = TN_OK;
  *rows = 0;
  while (is_accepted && status == TN_OK && *finish == TN_FINISH_NONE) {
    status = draw_token(scheduler, request, request->planned - 1 + accepted, error);
    if (status != TN_OK) break;
    *rows = request->planned + accepted;
    is_accepted = false;
    if (accepted < request->draft_count) {
      int32_t draft = request->tokens[request->token_count];
      is_accepted = tn_speculation_accepts(&scheduler->speculation, request, draft, &scheduler->sample);
      accepted += is_accepted;
      compared++;
    }
    status = tn_request_put(request, &scheduler->sample, finish, error);
  }
  if (*rows) tn_speculation_verified(&scheduler->speculation, request, compared, accepted);
  return status;
}

/* Samples and commits one request's part of the step. False when the request has ended. */
static bool finish_rows(tn_scheduler *scheduler, tn_request *request) {
  if (request->suspect_until <= request->ledger->length + request->planned) request->suspect_until = 0;
  bool is_last = request->planned == tn_request_pending(request), draws = is_last && !request->has_no_answer;
  tn_error error;
  tn_finish finish = is_last && !draws ? TN_FINISH_LENGTH : TN_FINISH_NONE;
  tn_status status = TN_OK;
  uint32_t rows = request->planned;
  if (tn_request_is_scoring(request)) status = score_prompt(scheduler, request, &error);
  if (status != TN_OK)
    rows = 0;
  else if (draws)
    status = draw_tokens(scheduler, request, &rows, &finish, &error);
  if (rows)
    tn_step_commit_part(&scheduler->step, request->entry, rows);
  else
    tn_step_rollback(&scheduler->step, request->entry);
  if (status != TN_OK) {
    end_running(scheduler, request, TN_FINISH_ERROR, &error);
  } else if (finish != TN_FINISH_NONE) {
    end_running(scheduler, request, finish, NULL);
  }
  return status == TN_OK && finish == TN_FINISH_NONE;
}

static void finish_step(tn_scheduler *scheduler) {
  if (scheduler->step.batch.row_count == 0) return;
  scheduler->counters.steps++;
  scheduler->counters.rows += scheduler->step.batch.row_count;
  for (uint32_t i = 0; i < scheduler->running_count;) {
    tn_request *request = scheduler->running[i];
    if (request->entry == TN_NO_ENTRY || finish_rows(scheduler, request)) i++;
  }
  tn_speculation_end(&scheduler->speculation, scheduler->step.batch.row_count);
}

/* Executes the step's rows; how long that takes is counted, and told to the speculation. */
static tn_status run_rows(tn_scheduler *scheduler, tn_error *error) {
  tn_speculation_look_ahead(&scheduler->speculation);
  uint64_t start = tn_clock_ns();
  tn_status status = tn_step_run(&scheduler->step, error);
  uint64_t taken = tn_clock_ns() - start;
  if (status != TN_OK) return status;
  scheduler->counters.device_ns += taken;
  tn_speculation_ran(&scheduler->speculation, scheduler->step.batch.row_count, taken);
  return TN_OK;
}

/* Opens a lost device again. All KV is gone: every request begins anew with the tokens it has. */
static void reopen(tn_scheduler *scheduler) {
  tn_error error;
  while (scheduler->running_count) put_back(scheduler, scheduler->running[scheduler->running_count - 1]);
  if (scheduler->kv.prefix) tn_prefix_clear(scheduler->kv.prefix);
  scheduler->counters.reopenings++;
  if (tn_runner_reopen(scheduler->kv.runner, &error) == TN_OK) return;
  tn_error_prefix(&error, "the device was lost and can't be opened again");
  tn_scheduler_fail_all(scheduler, &error);
}

/* The step changed nothing. Those it concerns run alone next, and end with the error if that fails as well. Concerned
 * is the culprit, or without one everybody in the step. */
static void handle_failure(tn_scheduler *scheduler, tn_request *culprit, const tn_error *error) {
  scheduler->counters.failures++;
  tn_log(TN_LOG_WARN, "a step failed: %s", error->message);
  tn_request *failed_alone = NULL;
  uint32_t concerned = 0;
  for (uint32_t i = 0; i < scheduler->running_count; i++) {
    tn_request *request = scheduler->running[i];
    bool is_concerned = culprit ? request == culprit : request->entry != TN_NO_ENTRY;
    if (request->entry != TN_NO_ENTRY) tn_step_rollback(&scheduler->step, request->entry);
    if (!is_concerned) continue;
    concerned++;
    if (request->suspect_until) failed_alone = request;
    uint32_t reached = request->ledger->length + request->planned;
    if (request->suspect_until < reached) request->suspect_until = reached;
  }
  if (concerned == 1 && failed_alone) end_running(scheduler, failed_alone, TN_FINISH_ERROR, error);
  if (error->status == TN_E_DEVICE_LOST) reopen(scheduler);
}

bool tn_scheduler_step(tn_scheduler *scheduler) {
  end_overdue(scheduler);
  admit_waiting(scheduler);
  const tn_request *suspect = oldest_suspect(scheduler);
  plan_rows(scheduler, suspect);
  tn_speculation_draft(&scheduler->speculation, scheduler->running, scheduler->running_count, scheduler->chunk,
                       scheduler->kv.info.max_logits_rows, !suspect);
  tn_error error = {0};
  tn_request *culprit;
  tn_status status = add_rows(scheduler, suspect != NULL, &culprit, &error);
  if (status == TN_OK) status = run_rows(scheduler, &error);
  if (status == TN_OK) {
    finish_step(scheduler);
  } else {
    handle_failure(scheduler, culprit, &error);
  }
  return scheduler->running_count > 0 || scheduler->waiting_count > 0;
}
