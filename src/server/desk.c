#include "server/desk.h"

#include "server/internal.h"

#define LARGE_BYTES ((size_t)64 << 10)
#define LARGE_AT_ONCE (TN_DESK_THREADS / 2)

static void append(tn_desk_line *line, tn_exchange *exchange) {
  exchange->next_at_desk = NULL;
  if (line->last)
    line->last->next_at_desk = exchange;
  else
    line->first = exchange;
  line->last = exchange;
}

static tn_exchange *take_first(tn_desk_line *line) {
  tn_exchange *exchange = line->first;
  line->first = exchange->next_at_desk;
  if (!line->first) line->last = NULL;
  return exchange;
}

/* The next to be worked on, NULL when there is none that may be. Under the lock. */
static tn_exchange *take(tn_desk *desk, bool *is_large) {
  *is_large = !desk->small.first;
  if (desk->small.first) return take_first(&desk->small);
  if (!desk->large.first || desk->large_under == LARGE_AT_ONCE) return NULL;
  desk->large_under++;
  return take_first(&desk->large);
}

static void run(void *argument) {
  tn_desk *desk = argument;
  tn_mutex_lock(desk->lock);
  while (!desk->is_ending || desk->present) {
    bool is_large;
    tn_exchange *exchange = take(desk, &is_large);
    if (!exchange) {
      tn_cond_wait(desk->wake, desk->lock, UINT64_MAX);
      continue;
    }
    tn_mutex_unlock(desk->lock);
    desk->work(exchange);
    exchange->is_at_desk = false;
    MHD_resume_connection(exchange->connection); /* from here on it may be gone */
    if (is_large) tn_memory_give_back();         /* many small pieces, which the C library would keep */
    tn_mutex_lock(desk->lock);
    desk->present--;
    if (is_large) desk->large_under--;
    if (is_large || desk->is_ending) tn_cond_broadcast(desk->wake);
  }
  tn_mutex_unlock(desk->lock);
}

bool tn_desk_init(tn_desk *desk, void (*work)(tn_exchange *exchange)) {
  *desk = (tn_desk){.work = work, .lock = tn_mutex_create(), .wake = tn_cond_create()};
  bool good = desk->lock && desk->wake;
  for (size_t i = 0; i < TN_DESK_THREADS && good; i++) {
    desk->threads[i] = tn_thread_start("tenon-desk", run, desk);
    good = desk->threads[i] != NULL;
  }
  return good;
}

void tn_desk_stop(tn_desk *desk) {
  tn_mutex_lock(desk->lock);
  desk->is_ending = true;
  tn_cond_broadcast(desk->wake);
  tn_mutex_unlock(desk->lock);
  for (size_t i = 0; i < TN_DESK_THREADS && desk->threads[i]; i++) {
    tn_thread_join(desk->threads[i]);
    desk->threads[i] = NULL;
  }
}

void tn_desk_finish(tn_desk *desk) {
  if (desk->lock && desk->wake) tn_desk_stop(desk);
  tn_cond_destroy(desk->wake);
  tn_mutex_destroy(desk->lock);
}

bool tn_desk_give(tn_desk *desk, tn_exchange *exchange, size_t bytes) {
  tn_mutex_lock(desk->lock);
  bool is_open = !desk->is_ending;
  if (is_open) {
    exchange->is_at_desk = true;
    MHD_suspend_connection(exchange->connection);
    append(bytes < LARGE_BYTES ? &desk->small : &desk->large, exchange);
    desk->present++;
    tn_cond_broadcast(desk->wake);
  }
  tn_mutex_unlock(desk->lock);
  return is_open;
}

bool tn_desk_is_busy(tn_desk *desk) {
  tn_mutex_lock(desk->lock);
  bool is_busy = desk->present > 0;
  tn_mutex_unlock(desk->lock);
  return is_busy;
}
