/* Steps in flight (see runner.h). Where the host has time while the device works, a thread of the runner's own executes
 * the steps: its caller prepares the next one, or tells what the last one gave, meanwhile. Elsewhere a step runs in the
 * call that submits it, or as asynchronously as the device likes. */
#include "base/os.h"
#include "engine/runner_internal.h"

/* Is there a processor that the devices leave free? On one that they own already, a second thread would only take their
 * time, and keep the others of a parallel step waiting. */
static bool has_time(const tn_runner *runner) {
  uint64_t threads = 0;
  for (uint32_t d = 0; d < runner->device_count; d++) threads += opened_of(runner, d)->properties.threads;
  return threads < tn_machine_cpus();
}

tn_status tn_runner_choose_overlap(tn_runner *runner, tn_error *error) {
  const char *wanted = runner->options.overlap ? runner->options.overlap : "off";
  bool overlaps = !strcmp(wanted, "on") || (!strcmp(wanted, "auto") && has_time(runner));
  if (strcmp(wanted, "on") && strcmp(wanted, "off") && strcmp(wanted, "auto"))
    return tn_fail(error, TN_E_INVALID, "overlap: \"%.40s\" given, expected auto, on or off", wanted);
  runner->logits_sets = overlaps && !has_profile(runner) ? TN_MOST_IN_FLIGHT : 1;
  return TN_OK;
}

/* ---- the lane's thread ---- */

static tn_status execute(tn_runner *runner, runner_ticket *ticket, uint32_t set) {
  tn_status status = tn_runner_run_shape(runner, runner->shapes, ticket->batch, set, &ticket->logits, &ticket->error);
  return status == TN_OK ? tn_runner_finish_shape(runner, runner->shapes, UINT64_MAX, &ticket->error) : status;
}

static void run_lane(void *argument) {
  tn_runner *runner = argument;
  runner_lane *lane = &runner->lane;
  tn_mutex_lock(lane->lock);
  while (!lane->is_ending) {
    if (lane->executed == lane->submitted) {
      tn_cond_wait(lane->changed, lane->lock, UINT64_MAX);
      continue;
    }
    uint32_t set = (uint32_t)(lane->executed % TN_MOST_IN_FLIGHT);
    tn_mutex_unlock(lane->lock);
    lane->tickets[set].status = execute(runner, lane->tickets + set, set);
    tn_mutex_lock(lane->lock);
    lane->executed++;
    tn_cond_broadcast(lane->changed);
  }
  tn_mutex_unlock(lane->lock);
}

tn_status tn_runner_start_lane(tn_runner *runner, tn_error *error) {
  runner_lane *lane = &runner->lane;
  if (runner->logits_sets == 1 || runner->options.plan_only) return TN_OK;
  lane->lock = tn_mutex_create();
  lane->changed = tn_cond_create();
  if (lane->lock && lane->changed) lane->thread = tn_thread_start("tenon-device", run_lane, runner);
  return lane->thread ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory, or no thread, to execute steps");
}

void tn_runner_end_lane(tn_runner *runner) {
  runner_lane *lane = &runner->lane;
  tn_runner_settle(runner);
  if (lane->thread) {
    tn_mutex_lock(lane->lock);
    lane->is_ending = true;
    tn_cond_broadcast(lane->changed);
    tn_mutex_unlock(lane->lock);
    tn_thread_join(lane->thread);
  }
  tn_mutex_destroy(lane->lock);
  tn_cond_destroy(lane->changed);
  *lane = (runner_lane){0};
}

void tn_runner_settle(tn_runner *runner) {
  runner_lane *lane = &runner->lane;
  if (!lane->thread) return;
  tn_mutex_lock(lane->lock);
  while (lane->executed != lane->submitted) tn_cond_wait(lane->changed, lane->lock, UINT64_MAX);
  tn_mutex_unlock(lane->lock);
}

/* ---- its caller ---- */

tn_status tn_runner_hand_over(tn_runner *runner, const tn_batch *batch, tn_error *error) {
  runner_lane *lane = &runner->lane;
  tn_status status = TN_OK;
  if (lane->thread) {
    tn_mutex_lock(lane->lock);
    lane->tickets[lane->submitted++ % TN_MOST_IN_FLIGHT] = (runner_ticket){.batch = batch};
    tn_cond_broadcast(lane->changed);
    tn_mutex_unlock(lane->lock);
    return TN_OK;
  }
  const float **logits = &lane->tickets[0].logits;
  status = has_profile(runner) ? tn_runner_run_regions(runner, batch, logits, error)
                               : tn_runner_run_shape(runner, runner->shapes, batch, 0, logits, error);
  if (status == TN_OK) lane->submitted++;
  return status;
}

static tn_status wait_for_lane(runner_lane *lane, uint64_t deadline_ns, const float **logits, tn_error *error) {
  runner_ticket *ticket = lane->tickets + lane->waited % TN_MOST_IN_FLIGHT;
  bool is_done = true;
  tn_mutex_lock(lane->lock);
  while (lane->executed == lane->waited && is_done) is_done = tn_cond_wait(lane->changed, lane->lock, deadline_ns);
  is_done = lane->executed != lane->waited;
  tn_mutex_unlock(lane->lock);
  if (!is_done) return tn_fail(error, TN_E_TIMEOUT, "runner: the step is still running");
  lane->waited++;
  if (ticket->status == TN_OK)
    *logits = ticket->logits;
  else if (error)
    *error = ticket->error;
  return ticket->status;
}

tn_status tn_runner_wait(tn_runner *runner, uint64_t deadline_ns, const float **logits, tn_error *error) {
  runner_lane *lane = &runner->lane;
  if (lane->submitted == lane->waited) return tn_fail(error, TN_E_INVALID, "runner: no step is in flight");
  if (lane->thread) return wait_for_lane(lane, deadline_ns, logits, error);
  tn_status status = has_profile(runner) ? TN_OK /* run to its end when it was submitted */
                                         : tn_runner_finish_shape(runner, runner->shapes, deadline_ns, error);
  if (status != TN_E_TIMEOUT) lane->waited++;
  if (status == TN_OK) *logits = lane->tickets[0].logits;
  return status;
}
