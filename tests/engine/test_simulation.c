/* Arrival traces replayed against the scheduler with a clock of the test's own: a step takes a fixed time and some more
 * for each row, nothing else takes any. So waiting times can be promised, and are the same in every run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_runner.h"
#include "accounting.h"
#include "base/log.h"
#include "base/os.h"
#include "engine/scheduler.h"

#define MS UINT64_C(1000000)
#define STEP_NS (2 * MS)
#define ROW_NS (MS / 10)
#define MOST 400u

static uint64_t now; /* the simulated time */

uint64_t tn_clock_ns(void) {
  return now;
}

static const tn_vocabulary VOCABULARY = {.size = FAKE_VOCABULARY};

typedef struct arrival {
  uint64_t at_ms;
  uint32_t prompt, answer; /* tokens */
  int32_t priority;
  uint64_t timeout_ms, cancel_ms; /* after arrival; 0: none */
} arrival;

typedef struct outcome {
  tn_request *request;
  uint64_t arrived, first, last, longest_gap, ended;
  uint32_t tokens;
  tn_output end;
  bool is_done;
} outcome;

typedef struct simulation {
  fake_config config;
  uint32_t running; /* at most */
  const arrival *trace;
  uint32_t count;
  tn_runner *runner;
  tn_scheduler scheduler;
  outcome outcomes[MOST];
} simulation;

static const fake_config PLAIN = {
    .max_rows = 64, .max_sequences = 16, .max_logits_rows = 64, .max_context = 4096, .pages = 400, .group_count = 1};

/* The longest time that a step can take. */
static uint64_t longest_step(const simulation *s) {
  return STEP_NS + s->config.max_rows * ROW_NS;
}

static void arrive(simulation *s, const tn_request_limits *limits, uint32_t number) {
  const arrival *from = &s->trace[number];
  static int32_t tokens[4096];
  uint64_t random = number;
  for (uint32_t i = 0; i < from->prompt; i++) tokens[i] = (int32_t)(fake_random(&random) % FAKE_VOCABULARY);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.max_tokens = from->answer;
  options.priority = from->priority;
  options.timeout_ns = from->timeout_ms * MS;
  outcome *to = &s->outcomes[number];
  *to = (outcome){.arrived = now};
  assert_int_equal(tn_request_create(limits, &options, tokens, from->prompt, &to->request, NULL), TN_OK);
  to->request->arrival = number;
  tn_scheduler_add(&s->scheduler, to->request);
}

/* Takes what a request has said by now. */
static void listen(outcome *of) {
  tn_output output;
  while (of->request && !of->is_done && tn_outputs_next(of->request->outputs, &output, 0) == TN_OK) {
    if (output.kind != TN_OUTPUT_TEXT) {
      of->is_done = true;
      of->end = output;
      of->ended = now;
      return;
    }
    if (of->tokens++ == 0) {
      of->first = now;
    } else if (now - of->last > of->longest_gap) {
      of->longest_gap = now - of->last;
    }
    of->last = now;
  }
}

static void simulate(simulation *s) {
  now = 1;
  s->runner = fake_create(&s->config);
  s->runner->clock = &now;
  s->runner->step_ns = STEP_NS;
  s->runner->row_ns = ROW_NS;
  tn_scheduler_options options = {.max_running = s->running, .chunk = s->config.max_rows, .kv = TN_KV_OPTIONS};
  assert_int_equal(tn_scheduler_init(&s->scheduler, s->runner, &options, NULL), TN_OK);
  const tn_request_limits limits = {&VOCABULARY, tn_kv_capacity(&s->scheduler.kv), NULL};
  uint32_t arrived = 0;
  bool has_work = false;
  while (has_work || arrived < s->count) {
    if (!has_work && s->trace[arrived].at_ms * MS > now) now = s->trace[arrived].at_ms * MS;
    while (arrived < s->count && s->trace[arrived].at_ms * MS <= now) arrive(s, &limits, arrived++);
    for (uint32_t i = 0; i < arrived; i++) {
      outcome *of = &s->outcomes[i];
      if (s->trace[i].cancel_ms && now >= of->arrived + s->trace[i].cancel_ms * MS) tn_request_cancel(of->request);
    }
    has_work = tn_scheduler_step(&s->scheduler);
    check_accounting(&s->scheduler.kv, s->scheduler.ledgers, s->scheduler.max_running);
    for (uint32_t i = 0; i < arrived; i++) listen(&s->outcomes[i]);
  }
  for (uint32_t i = 0; i < s->count; i++) {
    assert_true(s->outcomes[i].is_done);
    tn_request_cancel(s->outcomes[i].request);
    tn_request_release(s->outcomes[i].request);
  }
  tn_scheduler_finish(&s->scheduler);
  tn_runner_destroy(s->runner);
}

static void assert_whole(const simulation *s, uint32_t number) {
  const outcome *of = &s->outcomes[number];
  if (of->end.kind == TN_OUTPUT_ERROR) fail_msg("request %u: %s", number, of->end.error.message);
  assert_int_equal(of->tokens, s->trace[number].answer);
}

/* ---- traces ---- */

static simulation sim;

/* `count` requests with exponential gaps of `mean_ms` (to the millisecond). */
static void make_poisson(arrival *trace, uint32_t count, double mean_ms, uint64_t seed) {
  double at = 0;
  for (uint32_t i = 0; i < count; i++) {
    at += -mean_ms * log(1.0 - fake_random(&seed) * 0x1p-31);
    trace[i] =
        (arrival){.at_ms = (uint64_t)at, .prompt = 1 + fake_random(&seed) % 200, .answer = 1 + fake_random(&seed) % 60};
  }
}

static int by_size(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* At about two thirds of what the machine can do nobody waits long, and a second replay is the same to the nanosecond.
 */
static void steady_arrivals_wait_little(void **state) {
  (void)state;
  static arrival trace[MOST];
  static uint64_t waits[MOST], firsts[MOST];
  make_poisson(trace, MOST, 25, 7);
  for (int round = 0; round < 2; round++) {
    sim = (simulation){.config = PLAIN, .running = 16, .trace = trace, .count = MOST};
    simulate(&sim);
    for (uint32_t i = 0; i < MOST; i++) {
      assert_whole(&sim, i);
      waits[i] = sim.outcomes[i].first - sim.outcomes[i].arrived;
      if (round) assert_int_equal(firsts[i], sim.outcomes[i].first);
      firsts[i] = sim.outcomes[i].first;
    }
  }
  qsort(waits, MOST, sizeof *waits, by_size);
  assert_true(waits[MOST / 2] < 6 * longest_step(&sim));
  assert_true(waits[MOST * 95 / 100] < 25 * longest_step(&sim));
}

/* A prompt of 3000 tokens doesn't hold up short ones, and short ones don't starve it: a quarter of the rows is its. */
static void long_and_short_prompts_get_along(void **state) {
  (void)state;
  static arrival trace[200];
  trace[0] = (arrival){.at_ms = 0, .prompt = 3000, .answer = 5};
  for (uint32_t i = 1; i < 200; i++) trace[i] = (arrival){.at_ms = 1 + i * 9, .prompt = 40, .answer = 4};
  sim = (simulation){.config = PLAIN, .running = 16, .trace = trace, .count = 200};
  simulate(&sim);
  for (uint32_t i = 0; i < 200; i++) assert_whole(&sim, i);
  for (uint32_t i = 1; i < 200; i++)
    assert_true(sim.outcomes[i].first - sim.outcomes[i].arrived <= 5 * longest_step(&sim));
  assert_true(sim.outcomes[0].first <= (3000 / 16 + 40) * longest_step(&sim));
}

/* Too much work: each request is whole, or ends with an error when the step under way at its time is done. */
static void late_requests_end_in_time(void **state) {
  (void)state;
  static arrival trace[200];
  uint32_t late = 0, whole = 0;
  make_poisson(trace, 200, 16, 9);
  for (uint32_t i = 0; i < 200; i++) trace[i].timeout_ms = 100 + 10 * (i % 30);
  sim = (simulation){.config = PLAIN, .running = 8, .trace = trace, .count = 200};
  simulate(&sim);
  for (uint32_t i = 0; i < 200; i++) {
    const outcome *of = &sim.outcomes[i];
    /* the step under way when its time is over, and the one behind which its end is heard */
    assert_true(of->ended <= of->arrived + trace[i].timeout_ms * MS + 2 * longest_step(&sim));
    if (of->end.kind == TN_OUTPUT_ERROR) {
      assert_int_equal(of->end.error.status, TN_E_TIMEOUT);
      late++;
    } else {
      assert_whole(&sim, i);
      whole++;
    }
  }
  assert_true(late > 20 && whole > 20);
}

/* A flood of requests of low priority doesn't show to those of high priority, and is all worked off in the end. */
static void priorities_pass_a_flood(void **state) {
  (void)state;
  static arrival trace[120];
  for (uint32_t i = 0; i < 120; i++) {
    bool is_high = i >= 60 && i % 6 == 0;
    trace[i] = (arrival){.at_ms = i < 60 ? 0 : i, .prompt = 60, .answer = is_high ? 5 : 40, .priority = is_high};
  }
  sim = (simulation){.config = PLAIN, .running = 8, .trace = trace, .count = 120};
  sim.config.pages = 30;
  simulate(&sim);
  for (uint32_t i = 0; i < 120; i++) {
    assert_whole(&sim, i);
    if (trace[i].priority) assert_true(sim.outcomes[i].first - sim.outcomes[i].arrived <= 6 * longest_step(&sim));
  }
}

/* More answers under way than rows that give logits: all go on in turn. */
static void answers_take_turns(void **state) {
  (void)state;
  static arrival trace[12];
  for (uint32_t i = 0; i < 12; i++) trace[i] = (arrival){.prompt = 10, .answer = 100};
  sim = (simulation){.config = PLAIN, .running = 12, .trace = trace, .count = 12};
  sim.config.max_logits_rows = 5;
  simulate(&sim);
  for (uint32_t i = 0; i < 12; i++) {
    assert_whole(&sim, i);
    assert_true(sim.outcomes[i].longest_gap <= (12 / 5 + 1) * longest_step(&sim));
  }
}

/* Whoever is cancelled, waiting, in its prompt or in its answer, ends with the next step. */
static void cancelled_ones_end_with_the_next_step(void **state) {
  (void)state;
  static arrival trace[100];
  uint32_t cancelled = 0;
  make_poisson(trace, 100, 10, 3);
  for (uint32_t i = 0; i < 100; i += 3) trace[i].cancel_ms = 1 + i * 7 % 200;
  sim = (simulation){.config = PLAIN, .running = 8, .trace = trace, .count = 100};
  simulate(&sim);
  for (uint32_t i = 0; i < 100; i++) {
    const outcome *of = &sim.outcomes[i];
    if (of->end.finish == TN_FINISH_CANCELLED) {
      cancelled++;
      assert_true(of->ended <= of->arrived + trace[i].cancel_ms * MS + 2 * longest_step(&sim));
    } else {
      assert_whole(&sim, i);
    }
  }
  assert_true(cancelled > 10);
}

int main(void) {
  tn_log_set_level(TN_LOG_ERROR);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steady_arrivals_wait_little), cmocka_unit_test(long_and_short_prompts_get_along),
      cmocka_unit_test(late_requests_end_in_time),   cmocka_unit_test(priorities_pass_a_flood),
      cmocka_unit_test(answers_take_turns),          cmocka_unit_test(cancelled_ones_end_with_the_next_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
