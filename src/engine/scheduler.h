/* The scheduler: which rows run in the next step. One thread calls it; it knows nothing of threads, models or text
 * files, only of requests and the runner.
 *
 * A step is: end what was cancelled or timed out; admit; plan rows; draft (speculate.h); reserve pages, preempting the
 * youngest when none are left; execute; sample; commit. It is launched, is in flight, and lands. Age is the order of
 * (priority, arrival), and survives preemption: the oldest request always goes on, so every request that was admitted
 * ends.
 *
 * A step that fails has changed nothing. As it can't be told which of its requests made it fail, all of them become
 * suspects and run alone next; a suspect that gets past the rows that failed is cleared, one that fails again ends
 * with that error. So a fault that passes costs a step and nobody's answer, and one that stays costs only those that
 * cause it. A lost device is opened again at once, everything is computed anew from the tokens, and suspects are
 * treated the same; if it can't be opened again every request ends with the error.
 *
 * Where the runner overlaps, what can wait is done while a step is in flight: the texts of the tokens drawn in the one
 * before, their stop strings, outputs and grammars. A request that turns out to be over then has a row too many in
 * flight, which is dropped. And a second step is launched behind the first one where it costs nothing, because nobody
 * could join it by waiting: when the first one draws no tokens, or when the second one is full. Its rows belong to
 * others than those of the first, or are the next ones of a prompt. Nobody is preempted for it, and nobody ends or is
 * preempted while rows of his are in flight. */
#ifndef TENON_ENGINE_SCHEDULER_H
#define TENON_ENGINE_SCHEDULER_H

#include "engine/request.h"
#include "engine/speculate.h"
#include "engine/step.h"

typedef struct tn_scheduler_counters {
  uint64_t steps, rows, preemptions, cached_tokens, failures, reopenings;
  uint64_t device_ns;    /* of steps that did not fail */
  uint64_t second_steps; /* launched while another one was in flight */
} tn_scheduler_counters;

/* A step on its way. */
typedef struct tn_flight {
  tn_step step;
  struct tn_request **requests; /* [max_running]: whose each entry is */
  uint32_t *planned;            /* [max_running]: rows of each entry that aren't drafts */
  tn_error error;
  uint64_t start_ns;
} tn_flight;

typedef struct tn_scheduler {
  tn_kv kv;
  tn_flight flights[TN_MOST_IN_FLIGHT];
  uint32_t flying, oldest; /* how many are in flight, and which of them lands first */
  bool overlaps;
  bool defers;        /* texts wait until the next step is in flight */
  bool is_kept_out;   /* somebody waits for others that can't be preempted while they are in flight */
  uint64_t landed_ns; /* when the last step landed */
  tn_sampler *sampler;
  uint32_t chunk;       /* rows of a step at most */
  uint32_t max_running; /* requests with a ledger */
  tn_ledger *ledgers;   /* [max_running] */
  tn_ledger **free_ledgers;
  uint32_t free_ledger_count;
  struct tn_request **running; /* [max_running], the oldest first */
  uint32_t running_count;
  struct tn_request *waiting; /* the oldest first */
  uint32_t waiting_count;
  uint32_t *pending, *silent, *planned; /* [max_running]: work space of planning (plan.h) */
  uint32_t turn;                        /* where the next step begins to hand out rows when not all can have one */
  tn_sample sample;
  tn_speculation speculation;
  tn_scheduler_counters counters;
  /* called when a request holds nothing any more, before its last output; or NULL */
  void (*on_released)(void *context);
  void *context;
} tn_scheduler;

typedef struct tn_scheduler_options {
  uint32_t max_running; /* at most the runner's max_sequences */
  uint32_t chunk;       /* at most the runner's max_rows */
  tn_kv_options kv;
  tn_drafter *drafter; /* the scheduler's from tn_scheduler_init on, also when that fails; NULL: no speculation */
  tn_speculation_options speculation;
} tn_scheduler_options;

tn_status tn_scheduler_init(tn_scheduler *scheduler, tn_runner *runner, const tn_scheduler_options *options,
                            tn_error *error);
/* Ends all requests as cancelled. */
void tn_scheduler_finish(tn_scheduler *scheduler);

/* Queues a request, whose `arrival` is set; the scheduler owns one reference from now on. */
void tn_scheduler_add(tn_scheduler *scheduler, struct tn_request *request);
/* One step, or where the runner overlaps perhaps only the launch of one: call again. False when no request is left. */
bool tn_scheduler_step(tn_scheduler *scheduler);
/* Lands what is in flight, and tells all that was drawn. */
void tn_scheduler_settle(tn_scheduler *scheduler);

/* Ends every request with `error`; nothing may be in flight. */
void tn_scheduler_fail_all(tn_scheduler *scheduler, const tn_error *error);

#endif
