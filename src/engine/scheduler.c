#include "engine/scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/draws.h"
#include "engine/plan.h"

static tn_status init_flight(tn_flight *flight, tn_kv *kv, uint32_t max_running, tn_error *error) {
  tn_status status = tn_step_init(&flight->step, kv, error);
  if (status != TN_OK) return status;
  flight->requests = tn_calloc(max_running, sizeof *flight->requests);
  flight->planned = tn_calloc(max_running, sizeof *flight->planned);
  if (flight->requests && flight->planned) return TN_OK;
  return tn_fail(error, TN_E_MEMORY, "no memory for a step of %u requests", max_running);
}

static void finish_flight(tn_flight *flight) {
  tn_step_finish(&flight->step);
  free(flight->requests);
  free(flight->planned);
}

tn_status tn_scheduler_init(tn_scheduler *scheduler, tn_runner *runner, const tn_scheduler_options *options,
                            tn_error *error) {
  *scheduler = (tn_scheduler){.chunk = options->chunk, .max_running = options->max_running};
  tn_status status = tn_speculation_init(&scheduler->speculation, options->drafter, &options->speculation,
                                         options->max_running, error);
  if (status == TN_OK) status = tn_kv_init(&scheduler->kv, runner, &options->kv, error);
  if (status != TN_OK) goto fail;
  assert(options->chunk > 0 && options->chunk <= scheduler->kv.info.max_rows);
  assert(options->max_running > 0 && options->max_running <= scheduler->kv.info.max_sequences);
  scheduler->overlaps = scheduler->kv.info.overlaps;
  scheduler->defers = scheduler->overlaps && (!options->drafter || options->drafter->is_free);
  for (uint32_t i = 0; i < TN_MOST_IN_FLIGHT && status == TN_OK; i++)
    status = init_flight(&scheduler->flights[i], &scheduler->kv, options->max_running, error);
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

/* Gives out the token that a request has not told yet, and prepares its next draw. Sets `ending` if it is over. */
static void tell(tn_request *request) {
  if (!request->has_untold) return;
  tn_finish finish = TN_FINISH_NONE;
  const uint32_t *allowed;
  uint32_t count;
  if (tn_request_tell(request, &finish, &request->failure) != TN_OK) finish = TN_FINISH_ERROR;
  request->ending = finish;
  if (finish == TN_FINISH_NONE && tn_request_is_held(request))
    tn_constraint_allowed(request->constraint, &allowed, &count, NULL); /* a failure shows again at the draw */
}

static bool is_in_flight(const tn_request *request) {
  return request->ledger && request->ledger->in_flight > 0;
}

/* Ends one that is known to be over. */
static void end_known(tn_scheduler *scheduler, tn_request *request) {
  bool failed = request->ending == TN_FINISH_ERROR;
  end_running(scheduler, request, request->ending, failed ? &request->failure : NULL);
}

/* Ends those who are over and have no rows in flight. */
static void end_all_known(tn_scheduler *scheduler) {
  for (uint32_t i = scheduler->running_count; i-- > 0;)
    if (scheduler->running[i]->ending != TN_FINISH_NONE && !is_in_flight(scheduler->running[i]))
      end_known(scheduler, scheduler->running[i]);
}

static void tell_all(tn_scheduler *scheduler) {
  for (uint32_t i = 0; i < scheduler->running_count; i++) tell(scheduler->running[i]);
  end_all_known(scheduler);
}

/* Back into the queue, unless it is over; it will compute its tokens anew. */
static void put_back(tn_scheduler *scheduler, tn_request *request) {
  tell(request);
  if (request->ending != TN_FINISH_NONE) {
    end_known(scheduler, request);
    return;
  }
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
  for (; scheduler->flying; scheduler->flying--) {
    tn_flight *flight = &scheduler->flights[scheduler->oldest];
    tn_step_wait(&flight->step, NULL);
    tn_step_rollback_all(&flight->step);
    scheduler->oldest = (scheduler->oldest + 1) % TN_MOST_IN_FLIGHT;
  }
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
  for (uint32_t i = 0; i < TN_MOST_IN_FLIGHT; i++) finish_flight(&scheduler->flights[i]);
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
    request->is_overdue = is_over(request, now, &error);
    if (!request->is_overdue || is_in_flight(request)) continue;
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

/* Preempts the youngest running request if its priority is below that of `request`, and it isn't in flight. */
static bool make_way(tn_scheduler *scheduler, const tn_request *request) {
  if (scheduler->running_count == 0) return false;
  tn_request *youngest = scheduler->running[scheduler->running_count - 1];
  if (youngest->priority >= request->priority) return false;
  if (is_in_flight(youngest)) {
    scheduler->is_kept_out = true;
    return false;
  }
  preempt(scheduler, youngest);
  return true;
}

/* In order of age: one that finds no room keeps the younger ones out too, so that it isn't starved by small ones. Those
 * of lower priority make way for it. */
static void admit_waiting(tn_scheduler *scheduler) {
  scheduler->is_kept_out = false;
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

/* Its pending rows behind those in flight, up to where a snapshot is to be kept. */
static uint32_t runnable(const tn_request *request) {
  const tn_ledger *ledger = request->ledger;
  uint32_t pending = tn_request_pending(request);
  uint32_t room = tn_ledger_next_snapshot(ledger, ledger->length) - ledger->length;
  if (request->ending != TN_FINISH_NONE || request->is_overdue) return 0;
  if (ledger->in_flight && (ledger->kv->states || tn_request_is_scoring(request))) return 0;
  pending = pending > ledger->in_flight ? pending - ledger->in_flight : 0;
  return pending < room ? pending : room;
}

/* How many of these need no logits. */
static uint32_t silent_rows(const tn_request *request) {
  uint32_t silent = tn_request_silent(request), in_flight = request->ledger->in_flight;
  return silent > in_flight ? silent - in_flight : 0;
}

static void plan_rows(tn_scheduler *scheduler, const tn_request *suspect) {
  for (uint32_t i = 0; i < scheduler->running_count; i++) {
    tn_request *request = scheduler->running[i];
    scheduler->pending[i] = !suspect || suspect == request ? runnable(request) : 0;
    scheduler->silent[i] = silent_rows(request);
  }
  tn_plan(scheduler->pending, scheduler->silent, scheduler->planned, scheduler->running_count, scheduler->chunk,
          scheduler->kv.info.max_logits_rows, &scheduler->turn);
  for (uint32_t i = 0; i < scheduler->running_count; i++) scheduler->running[i]->planned = scheduler->planned[i];
}

/* Does the planned step cost nothing if it is launched behind the one in flight? It does where those who draw in the
 * first would have joined it, had it waited. */
static bool is_worth_a_second(const tn_scheduler *scheduler) {
  uint32_t decoding = 0;
  for (uint32_t i = 0; i < scheduler->running_count; i++)
    decoding += scheduler->planned[i] == 1 && scheduler->silent[i] == 0;
  bool first_draws = scheduler->flights[scheduler->oldest].step.batch.logits_count > 0;
  return !first_draws || decoding == scheduler->kv.info.max_logits_rows || decoding == scheduler->chunk;
}

/* Whose pages go when there are none left for `request`: the youngest's. Those older than it keep theirs, unless they
 * don't run in this step anyway because a suspect runs alone. */
static tn_request *pick_victim(const tn_scheduler *scheduler, const tn_request *request, bool is_alone) {
  tn_request *youngest = scheduler->running[scheduler->running_count - 1];
  if (youngest != request) return youngest;
  return is_alone && scheduler->running_count > 1 ? scheduler->running[scheduler->running_count - 2] : NULL;
}

static tn_status add_request(tn_flight *flight, tn_request *request, tn_error *error) {
  const tn_ledger *ledger = request->ledger;
  uint32_t silent = silent_rows(request), entry;
  uint32_t first_logits = silent < request->planned ? silent : request->planned;
  tn_status status = tn_step_add(&flight->step, request->ledger, request->tokens + ledger->length + ledger->in_flight,
                                 request->planned + request->draft_count, first_logits, &entry, error);
  if (status != TN_OK) return status;
  flight->requests[entry] = request;
  flight->planned[entry] = request->planned;
  return TN_OK;
}

/* Puts the planned and drafted rows into the step, the oldest request's first; so those preempted for it are not in the
 * step yet. Nobody is preempted for drafts. One that finds no pages stays out of this step. On failure *culprit is the
 * request whose pages could not be had. */
static tn_status add_rows(tn_scheduler *scheduler, tn_flight *flight, bool is_alone, tn_request **culprit,
                          tn_error *error) {
  for (uint32_t i = 0; i < scheduler->running_count; i++) {
    tn_request *request = scheduler->running[i], *victim;
    tn_status status = TN_E_MEMORY;
    while (request->planned && status == TN_E_MEMORY) {
      status = add_request(flight, request, error);
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

/* The same behind a step in flight: all of it as planned, or nothing. */
static bool add_second(tn_scheduler *scheduler, tn_flight *flight) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < scheduler->running_count && status == TN_OK; i++)
    if (scheduler->running[i]->planned) status = add_request(flight, scheduler->running[i], NULL);
  if (status != TN_OK) tn_step_rollback_all(&flight->step);
  return status == TN_OK && flight->step.batch.row_count;
}

/* ---- after the step ---- */

/* Samples and commits one request's entry of the step. */
static void finish_rows(tn_scheduler *scheduler, tn_flight *flight, uint32_t entry) {
  tn_request *request = flight->requests[entry];
  uint32_t planned = flight->planned[entry];
  if (request->ending != TN_FINISH_NONE || atomic_load(&request->cancelled)) { /* it ends where it is */
    tn_step_rollback(&flight->step, entry);
    return;
  }
  if (request->suspect_until <= request->ledger->length + planned) request->suspect_until = 0;
  bool is_last = planned == tn_request_pending(request), draws = is_last && !request->has_no_answer;
  tn_error error;
  tn_finish finish = is_last && !draws ? TN_FINISH_LENGTH : TN_FINISH_NONE;
  tn_status status = TN_OK;
  uint32_t rows = planned;
  if (tn_request_is_scoring(request)) status = tn_score_prompt(scheduler, flight, entry, &error);
  if (status != TN_OK)
    rows = 0;
  else if (draws)
    status = tn_draw_tokens(scheduler, flight, entry, &rows, &finish, &error);
  if (rows)
    tn_step_commit_part(&flight->step, entry, rows);
  else
    tn_step_rollback(&flight->step, entry);
  if (status != TN_OK) {
    end_running(scheduler, request, TN_FINISH_ERROR, &error);
  } else if (finish != TN_FINISH_NONE) {
    end_running(scheduler, request, finish, NULL);
  }
}

static void finish_step(tn_scheduler *scheduler, tn_flight *flight) {
  const tn_batch *batch = &flight->step.batch;
  scheduler->counters.steps++;
  scheduler->counters.rows += batch->row_count;
  for (uint32_t entry = 0; entry < batch->sequence_count; entry++) finish_rows(scheduler, flight, entry);
  tn_speculation_end(&scheduler->speculation, batch->row_count);
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
static void handle_failure(tn_scheduler *scheduler, tn_flight *flight, tn_request *culprit, const tn_error *error) {
  tn_request *failed_alone = NULL;
  uint32_t concerned = 0;
  scheduler->counters.failures++;
  tn_log(TN_LOG_WARN, "a step failed: %s", error->message);
  tn_step_rollback_all(&flight->step);
  for (uint32_t i = 0; i < (culprit ? 1 : flight->step.batch.sequence_count); i++) {
    tn_request *request = culprit ? culprit : flight->requests[i];
    uint32_t reached = request->ledger->length + (culprit ? culprit->planned : flight->planned[i]);
    if (request->ending != TN_FINISH_NONE) continue;
    concerned++;
    if (request->suspect_until) failed_alone = request;
    if (request->suspect_until < reached) request->suspect_until = reached;
  }
  if (concerned == 1 && failed_alone) end_running(scheduler, failed_alone, TN_FINISH_ERROR, error);
  if (error->status == TN_E_DEVICE_LOST) reopen(scheduler);
}

/* ---- steps on their way ---- */

/* Makes a step and submits it. False when there is nothing to be launched, or when that failed. */
static bool launch(tn_scheduler *scheduler) {
  bool is_second = scheduler->flying > 0;
  tn_flight *flight = &scheduler->flights[(scheduler->oldest + scheduler->flying) % TN_MOST_IN_FLIGHT];
  admit_waiting(scheduler);
  const tn_request *suspect = oldest_suspect(scheduler);
  if (is_second && (suspect || scheduler->is_kept_out || scheduler->speculation.drafter)) return false;
  uint32_t turn = scheduler->turn;
  plan_rows(scheduler, suspect);
  if (is_second && !is_worth_a_second(scheduler)) {
    scheduler->turn = turn;
    return false;
  }
  tn_speculation_draft(&scheduler->speculation, scheduler->running, scheduler->running_count, scheduler->chunk,
                       scheduler->kv.info.max_logits_rows, !suspect);
  tn_request *culprit = NULL;
  tn_step_begin(&flight->step);
  flight->error = (tn_error){0};
  if (is_second) {
    if (!add_second(scheduler, flight)) return false;
  } else if (add_rows(scheduler, flight, suspect != NULL, &culprit, &flight->error) != TN_OK) {
    handle_failure(scheduler, flight, culprit, &flight->error);
    return false;
  }
  if (!flight->step.batch.row_count) return false;
  tn_speculation_look_ahead(&scheduler->speculation);
  flight->start_ns = tn_clock_ns();
  if (tn_step_submit(&flight->step, &flight->error) != TN_OK) {
    /* a second one is made again, as the first, where it fails for good */
    if (!is_second) handle_failure(scheduler, flight, NULL, &flight->error);
    return false;
  }
  scheduler->flying++;
  scheduler->counters.second_steps += is_second;
  return true;
}

/* Waits for the step in flight that was launched first, draws and commits. */
static void land(tn_scheduler *scheduler) {
  tn_flight *flight = &scheduler->flights[scheduler->oldest];
  tn_status status = tn_step_wait(&flight->step, &flight->error);
  uint64_t now = tn_clock_ns();
  uint64_t taken = now - (flight->start_ns > scheduler->landed_ns ? flight->start_ns : scheduler->landed_ns);
  scheduler->landed_ns = now;
  scheduler->oldest = (scheduler->oldest + 1) % TN_MOST_IN_FLIGHT;
  scheduler->flying--;
  if (status == TN_OK) {
    scheduler->counters.device_ns += taken;
    tn_speculation_ran(&scheduler->speculation, flight->step.batch.row_count, taken);
    finish_step(scheduler, flight);
  } else {
    /* what was launched behind it may stand on its rows */
    tn_flight *second = &scheduler->flights[scheduler->oldest];
    if (scheduler->flying) {
      tn_step_wait(&second->step, NULL);
      tn_step_rollback_all(&second->step);
    }
    scheduler->flying = 0;
    handle_failure(scheduler, flight, NULL, &flight->error);
  }
  end_all_known(scheduler);
}

void tn_scheduler_settle(tn_scheduler *scheduler) {
  while (scheduler->flying) land(scheduler);
  tell_all(scheduler);
}

bool tn_scheduler_step(tn_scheduler *scheduler) {
  end_overdue(scheduler);
  bool was_launched = scheduler->flying < (scheduler->overlaps ? TN_MOST_IN_FLIGHT : 1) && launch(scheduler);
  tell_all(scheduler);
  bool waits = scheduler->overlaps && was_launched && scheduler->flying == 1 && !scheduler->speculation.drafter;
  if (scheduler->flying && !waits) land(scheduler);
  return scheduler->flying > 0 || scheduler->running_count > 0 || scheduler->waiting_count > 0;
}
