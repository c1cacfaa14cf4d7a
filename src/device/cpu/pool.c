/* How a job is handed out (see pool.h).
 *
 * `ticket` holds the job's number in its upper half and the next piece in its lower half. A worker reads the job's
 * fields and then takes a piece by compare-and-swap: if that succeeds, the job with that number was still unfinished,
 * so the fields it read are that job's. Numbers go round after 2^32 jobs, long after any read. */
#include "device/cpu/pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/os.h"

#define SPIN_NS 20000u    /* how long an idle worker looks for a job before it sleeps */
#define SPINS_A_CLOCK 32u /* pauses between two looks at the clock */
#define PIECE_MASK 0xffffffffull

typedef void tn_pool_body(void *argument, uint32_t index, uint32_t worker);

typedef struct tn_pool_worker {
  tn_pool *pool;
  tn_thread *thread;
  uint32_t number;
} tn_pool_worker;

struct tn_pool {
  _Alignas(64) _Atomic uint64_t ticket;
  _Atomic(tn_pool_body *) body;
  _Atomic(void *) argument;
  _Atomic uint32_t count;
  _Alignas(64) _Atomic uint32_t done; /* pieces of this job that are complete */
  _Atomic uint32_t sleepers;          /* workers that wait for `wake` */
  _Atomic bool caller_sleeps;         /* the caller waits for `finished` */
  _Atomic bool quit;
  tn_mutex *mutex;
  tn_cond *wake, *finished;
  tn_parallel parallel;
  uint32_t started;
  tn_pool_worker workers[];
};

static inline void spin_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Takes and runs pieces of the current job while there are any. */
static void work(tn_pool *pool, uint32_t worker) {
  uint64_t ticket = atomic_load(&pool->ticket);
  for (;;) {
    tn_pool_body *body = atomic_load(&pool->body);
    void *argument = atomic_load(&pool->argument);
    uint32_t count = atomic_load(&pool->count), index = (uint32_t)(ticket & PIECE_MASK);
    if (index >= count) return;
    if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1)) continue;
    body(argument, index, worker);
    ticket = ticket + 1;
    if (atomic_fetch_add(&pool->done, 1) + 1 == count && worker && atomic_load(&pool->caller_sleeps)) {
      tn_mutex_lock(pool->mutex);
      tn_cond_broadcast(pool->finished);
      tn_mutex_unlock(pool->mutex);
    }
  }
}

static bool has_work(tn_pool *pool) {
  return (atomic_load(&pool->ticket) & PIECE_MASK) < atomic_load(&pool->count) || atomic_load(&pool->quit);
}

/* Spins until `ready` or SPIN_NS have passed; whether it came. */
static bool spin(tn_pool *pool, bool (*ready)(tn_pool *pool)) {
  uint64_t until = 0;
  for (;;) {
    for (uint32_t i = 0; i < SPINS_A_CLOCK; i++) {
      if (ready(pool)) return true;
      spin_pause();
    }
    uint64_t now = tn_clock_ns();
    if (!until)
      until = now + SPIN_NS;
    else if (now > until)
      return false;
  }
}

static void worker_main(void *argument) {
  tn_pool_worker *self = argument;
  tn_pool *pool = self->pool;
  while (!atomic_load(&pool->quit)) {
    if (!spin(pool, has_work)) {
      tn_mutex_lock(pool->mutex);
      atomic_fetch_add(&pool->sleepers, 1);
      while (!has_work(pool)) tn_cond_wait(pool->wake, pool->mutex, UINT64_MAX);
      atomic_fetch_sub(&pool->sleepers, 1);
      tn_mutex_unlock(pool->mutex);
    }
    work(pool, self->number);
  }
}

static bool is_finished(tn_pool *pool) {
  return atomic_load(&pool->done) == atomic_load(&pool->count);
}

static void run(void *context, tn_pool_body *body, void *argument, uint32_t count) {
  tn_pool *pool = context;
  if (count <= 1 || pool->parallel.workers == 1) {
    for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
    return;
  }
  /* The last job is finished, so nobody takes a piece until the new ticket stands: it is set last. While the fields
   * change the old ticket is at its old count; it must look used up under the new count too. */
  uint64_t ticket = atomic_load(&pool->ticket);
  atomic_store(&pool->ticket, ticket | PIECE_MASK);
  atomic_store(&pool->done, 0);
  atomic_store(&pool->body, body);
  atomic_store(&pool->argument, argument);
  atomic_store(&pool->count, count);
  atomic_store(&pool->ticket, ((ticket >> 32) + 1) << 32);
  if (atomic_load(&pool->sleepers)) {
    tn_mutex_lock(pool->mutex);
    tn_cond_broadcast(pool->wake);
    tn_mutex_unlock(pool->mutex);
  }
  work(pool, 0);
  if (spin(pool, is_finished)) return;
  tn_mutex_lock(pool->mutex);
  atomic_store(&pool->caller_sleeps, true);
  while (!is_finished(pool)) tn_cond_wait(pool->finished, pool->mutex, UINT64_MAX);
  atomic_store(&pool->caller_sleeps, false);
  tn_mutex_unlock(pool->mutex);
}

tn_pool *tn_pool_create(uint32_t workers) {
  size_t bytes = tn_round_up(sizeof(tn_pool) + workers * sizeof(tn_pool_worker), 64);
  tn_pool *pool = aligned_alloc(64, bytes);
  if (!pool) return NULL;
  memset(pool, 0, bytes);
  pool->mutex = tn_mutex_create();
  pool->wake = tn_cond_create();
  pool->finished = tn_cond_create();
  pool->parallel = (tn_parallel){.context = pool, .workers = workers, .run = run};
  bool ok = pool->mutex && pool->wake && pool->finished;
  for (uint32_t i = 1; ok && i < workers; i++) {
    tn_pool_worker *worker = &pool->workers[i];
    char name[32];
    snprintf(name, sizeof name, "tenon-cpu-%u", i);
    *worker = (tn_pool_worker){.pool = pool, .number = i};
    worker->thread = tn_thread_start(name, worker_main, worker);
    ok = worker->thread != NULL;
    if (ok) pool->started++;
  }
  if (!ok) {
    tn_pool_destroy(pool);
    pool = NULL;
  }
  return pool;
}

void tn_pool_destroy(tn_pool *pool) {
  if (!pool) return;
  if (pool->started) {
    tn_mutex_lock(pool->mutex);
    atomic_store(&pool->quit, true);
    tn_cond_broadcast(pool->wake);
    tn_mutex_unlock(pool->mutex);
  }
  for (uint32_t i = 1; i <= pool->started; i++) tn_thread_join(pool->workers[i].thread);
  tn_cond_destroy(pool->finished);
  tn_cond_destroy(pool->wake);
  tn_mutex_destroy(pool->mutex);
  free(pool);
}

const tn_parallel *tn_pool_parallel(tn_pool *pool) {
  return &pool->parallel;
}
