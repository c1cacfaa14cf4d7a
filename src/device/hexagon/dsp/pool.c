/* How a job is handed out (see pool.h).
 *
 * `ticket` has the number of the job in its upper half and the next piece in its lower one. A thread reads the job's
 * fields, then takes a piece by compare-and-swap of the ticket: where that succeeds, the job was still that job, so the
 * fields belong to it. The pieces a thread takes are counted in `done` when they have been run. */
#include "device/hexagon/dsp/pool.h"

#include "device/hexagon/dsp/system.h"

#define STACK_BYTES (512u << 10)
#define LOOKS 200u /* how often an idle thread looks for a job before it sleeps */
#define NO_PIECE 0xffffffffull

typedef void pool_body(void *argument, uint32_t index, uint32_t worker);

typedef struct pool_thread {
  _Alignas(64) uint32_t number;
  uint32_t instructions_begin, packets_begin;
  uint64_t instructions, packets; /* on pieces */
} pool_thread;

static struct {
  _Alignas(64) uint64_t ticket;
  pool_body *body;
  void *argument;
  uint32_t count;
  _Alignas(64) uint32_t done; /* pieces of this job that have been run; the caller sleeps on it */
  _Alignas(64) uint32_t jobs; /* goes up with each job; idle threads sleep on it */
  uint32_t sleepers, caller_sleeps;
  uint64_t waiting_instructions, waiting_packets;
  tn_hexagon_word *progress;
  tn_parallel parallel;
  pool_thread threads[TN_HEXAGON_MAX_THREADS];
} pool;

static _Alignas(128) uint8_t stacks[TN_HEXAGON_MAX_THREADS][STACK_BYTES];

#define GET(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define SET(word, value) __atomic_store_n(&(word), (value), __ATOMIC_SEQ_CST)

static void count_begin(pool_thread *thread) {
  thread->instructions_begin = tn_dsp_instructions();
  thread->packets_begin = tn_dsp_packets();
}

static void count_end(pool_thread *thread) {
  thread->instructions += tn_dsp_instructions() - thread->instructions_begin;
  thread->packets += tn_dsp_packets() - thread->packets_begin;
}

static void advance(uint32_t worker) {
  uint32_t *word = &pool.progress[worker].value;
  __atomic_store_n(word, *word + 1, __ATOMIC_RELAXED);
}

/* Takes and runs pieces of the current job while there are any. */
static void work(pool_thread *thread) {
  uint64_t ticket = GET(pool.ticket);
  for (;;) {
    pool_body *body = GET(pool.body);
    void *argument = GET(pool.argument);
    uint32_t count = GET(pool.count), index = (uint32_t)(ticket & NO_PIECE);
    if (index >= count) return;
    if (!__atomic_compare_exchange_n(&pool.ticket, &ticket, ticket + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    if (thread->number) count_begin(thread);
    body(argument, index, thread->number);
    if (thread->number) count_end(thread);
    advance(thread->number);
    ticket++;
    if (__atomic_add_fetch(&pool.done, 1, __ATOMIC_SEQ_CST) == count && thread->number && GET(pool.caller_sleeps))
      tn_dsp_ring(&pool.done, 0);
  }
}

static int has_work(void) {
  return (GET(pool.ticket) & NO_PIECE) < GET(pool.count);
}

static void thread_main(void *argument) {
  pool_thread *thread = argument;
  for (;;) {
    uint32_t looks = 0;
    while (!has_work() && looks++ < LOOKS) continue;
    uint32_t jobs = GET(pool.jobs);
    if (!has_work()) {
      __atomic_add_fetch(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
      if (!has_work()) tn_dsp_wait(&pool.jobs, jobs, 0);
      __atomic_sub_fetch(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
    }
    work(thread);
  }
}

static void wait_for_pieces(uint32_t count) {
  uint32_t instructions = tn_dsp_instructions(), packets = tn_dsp_packets(), looks = 0, done;
  while (GET(pool.done) != count && looks++ < LOOKS) continue;
  SET(pool.caller_sleeps, 1);
  while ((done = GET(pool.done)) != count) tn_dsp_wait(&pool.done, done, 0);
  SET(pool.caller_sleeps, 0);
  pool.waiting_instructions += tn_dsp_instructions() - instructions;
  pool.waiting_packets += tn_dsp_packets() - packets;
}

static void run(void *context, pool_body *body, void *argument, uint32_t count) {
  (void)context;
  if (count <= 1 || pool.parallel.workers == 1) {
    for (uint32_t i = 0; i < count; i++, advance(0)) body(argument, i, 0);
    return;
  }
  /* The last job is finished. While the fields change no piece can be taken: under the old ticket all look taken. */
  uint64_t ticket = GET(pool.ticket);
  SET(pool.ticket, ticket | NO_PIECE);
  SET(pool.done, 0);
  SET(pool.body, body);
  SET(pool.argument, argument);
  SET(pool.count, count);
  SET(pool.ticket, ((ticket >> 32) + 1) << 32);
  __atomic_add_fetch(&pool.jobs, 1, __ATOMIC_SEQ_CST);
  if (GET(pool.sleepers)) tn_dsp_ring(&pool.jobs, 0);
  work(&pool.threads[0]);
  wait_for_pieces(count);
}

int tn_dsp_pool_start(uint32_t threads, tn_hexagon_word *progress) {
  pool.parallel = (tn_parallel){.context = &pool, .workers = threads, .run = run};
  pool.progress = progress;
  for (uint32_t i = 1; i < threads; i++) {
    pool.threads[i].number = i;
    if (tn_dsp_start_thread(thread_main, &pool.threads[i], stacks[i] + STACK_BYTES) <= 0) return 0;
  }
  return 1;
}

const tn_parallel *tn_dsp_pool_parallel(void) {
  return &pool.parallel;
}

void tn_dsp_pool_progress(void) {
  advance(0);
}

tn_dsp_spent tn_dsp_pool_spent(void) {
  tn_dsp_spent spent = {.waiting_instructions = pool.waiting_instructions, .waiting_packets = pool.waiting_packets};
  for (uint32_t i = 1; i < pool.parallel.workers; i++) {
    spent.instructions += pool.threads[i].instructions;
    spent.packets += pool.threads[i].packets;
  }
  return spent;
}
