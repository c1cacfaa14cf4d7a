/* The scheduler over a runner without a model: whatever happens (full pools, preemption, cancels, failing steps, lost
 * devices), every request's tokens are those of a plain run, every page is accounted for after each step, and none is
 * held at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_drafter.h"
#include "accounting.h"
#include "base/log.h"
#include "engine/scheduler.h"

#define MAX_TOKENS 600u

static const int32_t END_TOKENS[] = {3};
static const tn_vocabulary VOCABULARY = {.size = FAKE_VOCABULARY, .end_tokens = END_TOKENS, .end_count = 1};

typedef struct test_rig {
  fake_config config;
  tn_runner *runner;
  tn_scheduler scheduler;
  tn_request_limits limits;
  uint64_t arrivals;
  fake_drafter *drafter; /* NULL: no speculation */
} test_rig;

/* How many drafts of 16 are right, and the k asked for. */
typedef struct test_drafting {
  bool is_on;
  uint32_t right, k;
} test_drafting;

static void rig_init_drafting(test_rig *rig, fake_config config, uint32_t max_running, tn_kv_options kv,
                              test_drafting drafting) {
  *rig = (test_rig){.config = config, .runner = fake_create(&config)};
  tn_scheduler_options options = {.max_running = max_running, .chunk = config.max_rows, .kv = kv};
  if (drafting.is_on) {
    rig->drafter = fake_drafter_create(&config, drafting.right);
    options.drafter = &rig->drafter->drafter;
    options.speculation.k = drafting.k;
  }
  assert_int_equal(tn_scheduler_init(&rig->scheduler, rig->runner, &options, NULL), TN_OK);
  rig->limits = (tn_request_limits){&VOCABULARY, tn_kv_capacity(&rig->scheduler.kv), NULL};
}

static void rig_init(test_rig *rig, fake_config config, uint32_t max_running, tn_kv_options kv) {
  rig_init_drafting(rig, config, max_running, kv, (test_drafting){0});
}

static void rig_finish(test_rig *rig) {
  tn_scheduler_finish(&rig->scheduler);
  tn_runner_destroy(rig->runner);
}

static void check(test_rig *rig) {
  check_accounting(&rig->scheduler.kv, rig->scheduler.ledgers, rig->scheduler.max_running);
}

static bool step(test_rig *rig) {
  bool more = tn_scheduler_step(&rig->scheduler);
  check(rig);
  return more;
}

/* ---- a request, what it must answer, and what it does answer ---- */

typedef struct test_job {
  const fake_config *config; /* of the rig it was submitted to */
  tn_request_options options;
  int32_t prompt[MAX_TOKENS];
  tn_request *request;
  int32_t expected[MAX_TOKENS];
  uint32_t expected_count;
  tn_finish expected_finish;
  uint32_t got, scored; /* tokens of the answer, and of the prompt with their log-probabilities */
  bool is_done, was_cancelled;
  tn_output last;
} test_job;

static void expect(const test_rig *rig, test_job *job) {
  tn_sampler *sampler;
  assert_int_equal(tn_sampler_create(FAKE_VOCABULARY, &sampler, NULL), TN_OK);
  int32_t tokens[2 * MAX_TOKENS];
  uint32_t count = (uint32_t)job->options.token_count, prompt = count;
  memcpy(tokens, job->prompt, count * sizeof *tokens);
  uint32_t limit = job->options.no_answer ? 0 : rig->limits.capacity - count;
  if (job->options.max_tokens && job->options.max_tokens < limit) limit = job->options.max_tokens;
  tn_sampling sampling = {.logit_bias = job->options.logit_bias,
                          .logit_bias_count = job->options.logit_bias_count,
                          .repeat_penalty = job->options.repeat_penalty,
                          .repeat_last = job->options.repeat_last,
                          .temperature = job->options.temperature,
                          .top_k = job->options.top_k,
                          .top_p = job->options.top_p,
                          .seed = job->options.seed};
  job->expected_finish = TN_FINISH_LENGTH;
  job->expected_count = 0;
  while (job->expected_count < limit && job->expected_finish == TN_FINISH_LENGTH) {
    float logits[FAKE_VOCABULARY];
    fake_expected(&rig->config, tokens, count, logits);
    tn_draw draw = {
        .sampling = &sampling, .logits = logits, .tokens = tokens, .token_count = count, .prompt_count = prompt};
    tn_sample sample;
    assert_int_equal(tn_sampler_draw(sampler, &draw, &sample, NULL), TN_OK);
    tokens[count++] = job->expected[job->expected_count++] = sample.token;
    if (sample.token == END_TOKENS[0]) job->expected_finish = TN_FINISH_STOP;
  }
  tn_sampler_destroy(sampler);
}

static void submit(test_rig *rig, test_job *job) {
  tn_error error = {0};
  if (tn_request_create(&rig->limits, &job->options, job->prompt, job->options.token_count, &job->request, &error) !=
      TN_OK)
    fail_msg("%s", error.message);
  job->request->arrival = rig->arrivals++;
  job->got = job->scored = 0;
  job->is_done = job->was_cancelled = false;
  job->config = &rig->config;
  expect(rig, job);
  tn_scheduler_add(&rig->scheduler, job->request);
}

/* A prompt of `count` tokens, the first `common` the same for all jobs. */
static void make_job(test_job *job, uint32_t count, uint32_t common, uint32_t max_tokens, uint64_t *random) {
  *job = (test_job){.options = TN_REQUEST_OPTIONS};
  for (uint32_t i = 0; i < count; i++)
    job->prompt[i] = i < common ? (int32_t)(4 + i * 7 % 50) : (int32_t)(4 + fake_random(random) % 50);
  job->options.token_count = count;
  job->options.max_tokens = max_tokens;
  job->options.temperature = fake_random(random) % 2 ? 1.0f : 0.0f;
  job->options.top_k = fake_random(random) % 2 ? 10 : 0;
  job->options.seed = fake_random(random);
}

/* The answer has all its max_tokens. */
static void never_end(test_job *job) {
  static const tn_logit_bias no_end = {.token = 3, .bias = -100.0f};
  job->options.logit_bias = &no_end;
  job->options.logit_bias_count = 1;
}

/* A token of the prompt with its log-probability, the first without. */
static void check_score(const fake_config *config, test_job *job, const tn_output *output) {
  assert_true(job->options.prompt_logprobs && job->got == 0 && job->scored < job->options.token_count);
  uint32_t at = job->scored++;
  assert_int_equal(output->token, job->prompt[at]);
  assert_int_equal(output->top_count, at ? job->options.top_logprobs : 0);
  if (at == 0) {
    assert_true(isnan(output->logprob));
    return;
  }
  float logits[FAKE_VOCABULARY];
  tn_sampler *sampler;
  tn_sample sample;
  assert_int_equal(tn_sampler_create(FAKE_VOCABULARY, &sampler, NULL), TN_OK);
  fake_expected(config, job->prompt, at, logits);
  assert_int_equal(tn_sampler_score(sampler, logits, output->token, at, 1, &sample, NULL), TN_OK);
  assert_memory_equal(&output->logprob, &sample.logprob, sizeof sample.logprob);
  if (output->top_count) assert_int_equal(output->top[0].token, sample.top[0].token);
  tn_sampler_destroy(sampler);
}

/* Takes what has come, and compares. */
static void drain(test_job *job) {
  while (job->request && !job->is_done) {
    tn_output output;
    if (tn_outputs_next(job->request->outputs, &output, 0) == TN_E_TIMEOUT) return;
    if (output.kind == TN_OUTPUT_PROMPT) {
      check_score(job->config, job, &output);
    } else if (output.kind == TN_OUTPUT_TEXT) {
      assert_true(job->got < job->expected_count);
      assert_int_equal(output.token, job->expected[job->got]);
      job->got++;
    } else {
      job->is_done = true;
      job->last = output;
      assert_int_equal(output.completion_tokens, job->got);
      assert_int_equal(output.prompt_tokens, job->options.token_count);
    }
  }
}

static void finish_job(test_job *job) {
  drain(job);
  assert_true(job->is_done);
  tn_request_cancel(job->request);
  tn_request_release(job->request);
  job->request = NULL;
}

static void assert_whole(const test_job *job) {
  if (job->last.kind == TN_OUTPUT_ERROR) fail_msg("%s", job->last.error.message);
  assert_int_equal(job->last.finish, job->expected_finish);
  assert_int_equal(job->got, job->expected_count);
  assert_int_equal(job->scored, job->options.prompt_logprobs ? job->options.token_count : 0);
}

static void assert_nothing_held(test_rig *rig) {
  for (uint32_t g = 0; g < rig->config.group_count; g++)
    assert_int_equal(tn_pages_free(rig->scheduler.kv.pages, g) + tn_pages_cached(rig->scheduler.kv.pages, g),
                     rig->config.pages);
  if (rig->drafter) assert_int_equal(fake_held(&rig->drafter->drafter), 0);
}

static const fake_config PLAIN = {
    .max_rows = 64, .max_sequences = 8, .max_logits_rows = 64, .max_context = 512, .pages = 128, .group_count = 1};

/* Steps and drains until all have ended, in at most `most` steps. */
static void finish_all(test_rig *rig, test_job *jobs, uint32_t count, uint32_t most) {
  uint32_t steps = 0;
  while (step(rig)) {
    for (uint32_t i = 0; i < count; i++) drain(&jobs[i]);
    assert_true(++steps < most);
  }
  for (uint32_t i = 0; i < count; i++) {
    finish_job(&jobs[i]);
    assert_whole(&jobs[i]);
  }
}

/* ---- tests ---- */

static void one_request_answers(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 8, (tn_kv_options)TN_KV_OPTIONS);
  uint64_t random = 1;
  static test_job job;
  make_job(&job, 100, 0, 50, &random);
  submit(&rig, &job);
  while (step(&rig)) drain(&job);
  finish_job(&job);
  assert_whole(&job);
  assert_int_equal(job.last.cached_tokens, 0);
  submit(&rig, &job); /* again: all full pages but the last token's are found */
  while (step(&rig)) drain(&job);
  finish_job(&job);
  assert_whole(&job);
  assert_int_equal(job.last.cached_tokens, 96);
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

/* 30 requests that need 200 pages together, in a pool of 40. */
static void finish_in_small_pool(test_drafting drafting) {
  fake_config config = PLAIN;
  config.pages = 40;
  config.max_sequences = 30;
  test_rig rig;
  rig_init_drafting(&rig, config, 30, (tn_kv_options)TN_KV_OPTIONS, drafting);
  static test_job jobs[30];
  uint64_t random = 2;
  uint32_t pages = 0;
  for (uint32_t i = 0; i < 30; i++) {
    make_job(&jobs[i], 20 + fake_random(&random) % 120, i % 3 ? 64 : 0, 150, &random);
    submit(&rig, &jobs[i]);
    pages += tn_pages_of((uint32_t)jobs[i].options.token_count + 150);
  }
  assert_true(pages >= 200);
  finish_all(&rig, jobs, 30, 20000);
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

static void small_pool_finishes_all(void **state) {
  (void)state;
  finish_in_small_pool((test_drafting){0});
  finish_in_small_pool((test_drafting){true, 11, 4});
}

/* The pool holds two of them whole, yet three run; the youngest gives way and resumes. */
static void preempted_resumes_equal(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.pages = 12;
  test_rig rig;
  rig_init(&rig, config, 8, (tn_kv_options)TN_KV_OPTIONS);
  static test_job jobs[3];
  uint64_t random = 5;
  for (uint32_t i = 0; i < 3; i++) {
    make_job(&jobs[i], 40, 0, 140, &random);
    submit(&rig, &jobs[i]);
  }
  while (step(&rig)) {
  }
  for (uint32_t i = 0; i < 3; i++) {
    finish_job(&jobs[i]);
    assert_whole(&jobs[i]);
  }
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

/* Several answers to one prompt hold its full pages once, whatever kinds of layers the model has; counted while they
 * run. */
static void answers_hold_the_prompt_once(void **state) {
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    fake_config config = PLAIN;
    if (kind & 1) {
      config.group_count = 2;
      config.windows[1] = 100;
    }
    if (kind & 2) config.state_slots = 16 + 8;
    test_rig rig;
    rig_init(&rig, config, 8, (tn_kv_options)TN_KV_OPTIONS);
    static test_job jobs[8];
    for (uint32_t i = 0; i < 8; i++) {
      uint64_t random = 9;
      make_job(&jobs[i], 200, 0, 20, &random);
      jobs[i].options.temperature = 1;
      jobs[i].options.seed = i;
      submit(&rig, &jobs[i]);
    }
    uint32_t most[2] = {0};
    while (step(&rig))
      for (uint32_t g = 0; g < config.group_count; g++) {
        const tn_pages *pages = rig.scheduler.kv.pages;
        uint32_t used = config.pages - tn_pages_free(pages, g) - tn_pages_cached(pages, g);
        if (used > most[g]) most[g] = used;
      }
    for (uint32_t i = 0; i < 8; i++) finish_job(&jobs[i]);
    /* six full pages of the prompt for all (of a window, four), and one for each answer */
    assert_int_equal(most[0], 6 + 8);
    if (config.group_count > 1) assert_true(most[1] <= 6 + 8);
    rig_finish(&rig);
  }
}

static void answers_to_one_prompt_share_pages(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 8, (tn_kv_options)TN_KV_OPTIONS);
  static test_job jobs[4];
  for (uint32_t i = 0; i < 4; i++) {
    uint64_t random = 9;
    make_job(&jobs[i], 200, 0, 3, &random);
    submit(&rig, &jobs[i]);
  }
  while (step(&rig)) {
  }
  for (uint32_t i = 0; i < 4; i++) {
    finish_job(&jobs[i]);
    assert_whole(&jobs[i]);
    assert_int_equal(jobs[i].last.cached_tokens, i ? 192 : 0);
  }
  assert_int_equal(rig.scheduler.counters.rows, 200 + 3 * 8 + 4 * (jobs[0].got - 1));
  rig_finish(&rig);
}

/* Each token of a prompt with its log-probability: in pieces of as many rows as give logits, whatever is cached, beside
 * others, after a preemption in its midst; with an answer or without. */
static void prompts_have_logprobs(void **state) {
  (void)state;
  for (uint32_t run = 0; run < 8; run++) {
    fake_config config = PLAIN;
    config.max_logits_rows = run % 2 ? 5 : 64;
    bool is_tight = run & 4; /* job 0 comes last, and takes the pages of the others */
    if (is_tight) config.pages = 9;
    test_rig rig;
    rig_init(&rig, config, 8, (tn_kv_options)TN_KV_OPTIONS);
    static test_job jobs[4];
    for (uint32_t k = 0; k < 4; k++) {
      uint32_t i = is_tight ? 3 - k : k;
      uint64_t random = is_tight ? i : 30;
      make_job(&jobs[i], i == 3 ? 1 : 200, 0, 20, &random);
      jobs[i].options.priority = is_tight && i == 0;
      jobs[i].options.prompt_logprobs = i != 0;
      jobs[i].options.top_logprobs = i == 1 ? 3 : 0;
      jobs[i].options.no_answer = (run & 2) != 0 && i > 0;
      submit(&rig, &jobs[i]);
      while (i == is_tight && jobs[i].scored + jobs[i].got < (is_tight ? 100u : 10u)) {
        step(&rig);
        drain(&jobs[i]);
      }
    }
    while (step(&rig))
      for (uint32_t i = 0; i < 4; i++) drain(&jobs[i]);
    for (uint32_t i = 0; i < 4; i++) {
      finish_job(&jobs[i]);
      assert_whole(&jobs[i]);
      assert_int_equal(jobs[i].last.cached_tokens, 0);
    }
    if (is_tight) assert_true(rig.scheduler.counters.preemptions > 0);
    assert_nothing_held(&rig);
    rig_finish(&rig);
  }
}

static const fake_config RECURRENT = {.max_rows = 64,
                                      .max_sequences = 8,
                                      .max_logits_rows = 64,
                                      .max_context = 512,
                                      .pages = 128,
                                      .group_count = 1,
                                      .state_slots = 16 + 12};

/* With recurrent states: the answers to one prompt go on from the snapshot at its last full page, a next turn from that
 * of the last full page of the answer; one that parts before a snapshot begins anew. */
static void snapshots_are_found(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, RECURRENT, 8, (tn_kv_options)TN_KV_OPTIONS);
  static test_job jobs[4], turn;
  for (uint32_t i = 0; i < 4; i++) {
    uint64_t random = 9;
    make_job(&jobs[i], 200, 0, 70, &random);
    jobs[i].options.seed = i;
    jobs[i].options.temperature = 1;
    submit(&rig, &jobs[i]);
  }
  while (step(&rig)) {
  }
  for (uint32_t i = 0; i < 4; i++) {
    finish_job(&jobs[i]);
    assert_whole(&jobs[i]);
    assert_int_equal(jobs[i].last.cached_tokens, i ? 192 : 0);
  }
  uint64_t random = 10;
  make_job(&turn, 300, 0, 5, &random);
  memcpy(turn.prompt, jobs[2].prompt, 200 * sizeof *turn.prompt);
  memcpy(turn.prompt + 200, jobs[2].expected, jobs[2].expected_count * sizeof *turn.prompt);
  submit(&rig, &turn);
  while (step(&rig)) {
  }
  finish_job(&turn);
  assert_whole(&turn);
  assert_int_equal(turn.last.cached_tokens, (200 + jobs[2].expected_count - 1) / 32 * 32);
  make_job(&turn, 300, 0, 5, &random);
  memcpy(turn.prompt, jobs[2].prompt, 150 * sizeof *turn.prompt);
  submit(&rig, &turn);
  while (step(&rig)) {
  }
  finish_job(&turn);
  assert_whole(&turn);
  assert_int_equal(turn.last.cached_tokens, 0);
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

static void salts_separate(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 8, (tn_kv_options)TN_KV_OPTIONS);
  const char *salts[] = {"red", NULL, "blue", "red", "", "blue"};
  for (uint32_t i = 0; i < 6; i++) {
    static test_job job;
    uint64_t random = 9;
    make_job(&job, 70, 0, 3, &random);
    job.options.cache_salt = salts[i];
    submit(&rig, &job);
    while (step(&rig)) {
    }
    finish_job(&job);
    assert_whole(&job);
    assert_int_equal(job.last.cached_tokens, i < 3 ? 0 : 64);
  }
  rig_finish(&rig);
}

static void priority_goes_first(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 1, (tn_kv_options)TN_KV_OPTIONS);
  static test_job jobs[3];
  uint64_t random = 10;
  for (uint32_t i = 0; i < 3; i++) {
    make_job(&jobs[i], 10, 0, 5, &random);
    jobs[i].options.priority = (int32_t)i;
    submit(&rig, &jobs[i]);
  }
  while (!jobs[2].is_done) {
    step(&rig);
    drain(&jobs[2]);
    drain(&jobs[0]);
    assert_int_equal(jobs[0].got, 0);
  }
  while (step(&rig)) {
  }
  for (uint32_t i = 0; i < 3; i++) finish_job(&jobs[i]);
  rig_finish(&rig);
}

/* Steps of one row: a young request that decodes finds no page, and the oldest, which holds most, must go on before it
 * although its prompt isn't done. */
static void oldest_goes_on_row_by_row(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.max_rows = 1;
  config.pages = 6;
  test_rig rig;
  rig_init(&rig, config, 2, (tn_kv_options)TN_KV_OPTIONS);
  static test_job jobs[2];
  uint64_t random = 3;
  make_job(&jobs[0], 150, 0, 20, &random);
  make_job(&jobs[1], 10, 0, 100, &random);
  never_end(&jobs[1]);
  submit(&rig, &jobs[0]);
  for (uint32_t i = 0; i < 100; i++) step(&rig);
  submit(&rig, &jobs[1]);
  finish_all(&rig, jobs, 2, 2000);
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

/* All places are taken, and who comes would only wait for the pages of one of the same prompt: nobody makes way for it
 * until it could run. */
static void nobody_makes_way_for_one_that_waits(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.max_rows = 16;
  test_rig rig;
  rig_init(&rig, config, 2, (tn_kv_options)TN_KV_OPTIONS);
  static test_job jobs[3];
  uint64_t random = 4;
  make_job(&jobs[0], 200, 200, 20, &random);
  make_job(&jobs[1], 5, 0, 60, &random);
  make_job(&jobs[2], 200, 200, 20, &random);
  jobs[1].options.priority = -1;
  never_end(&jobs[1]);
  submit(&rig, &jobs[0]);
  submit(&rig, &jobs[1]);
  step(&rig);
  submit(&rig, &jobs[2]);
  finish_all(&rig, jobs, 3, 2000);
  assert_int_equal(rig.scheduler.counters.preemptions, 1);
  assert_int_equal(jobs[2].last.cached_tokens, 192);
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

/* One place and KV for one: who comes with a higher priority takes it, and the other goes on afterwards as if nothing
 * had happened. Of equal priority nobody is disturbed. */
static void lower_priority_makes_way(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.pages = 5;
  for (uint32_t places = 1; places <= 2; places++) {
    test_rig rig;
    rig_init(&rig, config, places, (tn_kv_options)TN_KV_OPTIONS);
    static test_job jobs[3];
    uint64_t random = 21;
    for (uint32_t i = 0; i < 3; i++) {
      make_job(&jobs[i], 70, 0, 60, &random);
      jobs[i].options.priority = i == 1 ? 5 : 0;
    }
    submit(&rig, &jobs[0]);
    while (jobs[0].got < 2) {
      step(&rig);
      drain(&jobs[0]);
    }
    submit(&rig, &jobs[2]);
    step(&rig);
    assert_int_equal(rig.scheduler.counters.preemptions, 0);
    submit(&rig, &jobs[1]);
    while (!jobs[1].is_done) {
      step(&rig);
      drain(&jobs[1]);
    }
    assert_true(rig.scheduler.counters.preemptions > 0);
    while (step(&rig)) {
    }
    for (uint32_t i = 0; i < 3; i++) {
      finish_job(&jobs[i]);
      assert_whole(&jobs[i]);
    }
    assert_nothing_held(&rig);
    rig_finish(&rig);
  }
}

static void cancel_ends_within_a_step(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 2, (tn_kv_options)TN_KV_OPTIONS);
  static test_job jobs[3];
  uint64_t random = 11;
  for (uint32_t i = 0; i < 3; i++) {
    make_job(&jobs[i], 300, 0, 100, &random);
    submit(&rig, &jobs[i]);
  }
  step(&rig);
  tn_request_cancel(jobs[1].request); /* in its prefill */
  tn_request_cancel(jobs[2].request); /* in the queue */
  step(&rig);
  for (uint32_t i = 1; i < 3; i++) {
    finish_job(&jobs[i]);
    assert_int_equal(jobs[i].last.kind, TN_OUTPUT_DONE);
    assert_int_equal(jobs[i].last.finish, TN_FINISH_CANCELLED);
  }
  while (step(&rig)) {
  }
  finish_job(&jobs[0]);
  assert_whole(&jobs[0]);
  rig_finish(&rig);
}

static void late_request_ends_with_an_error(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 2, (tn_kv_options)TN_KV_OPTIONS);
  static test_job job;
  uint64_t random = 12;
  make_job(&job, 300, 0, 100, &random);
  job.options.timeout_ns = 1;
  submit(&rig, &job);
  assert_false(step(&rig));
  finish_job(&job);
  assert_int_equal(job.last.kind, TN_OUTPUT_ERROR);
  assert_int_equal(job.last.error.status, TN_E_TIMEOUT);
  rig_finish(&rig);
}

static void prompt_too_long_is_refused(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.pages = 4;
  test_rig rig;
  rig_init(&rig, config, 2, (tn_kv_options)TN_KV_OPTIONS);
  assert_int_equal(rig.limits.capacity, 128);
  int32_t tokens[200] = {0};
  tn_request_options options = TN_REQUEST_OPTIONS;
  tn_request *request;
  tn_error error;
  assert_int_equal(tn_request_create(&rig.limits, &options, tokens, 128, &request, &error), TN_E_TOO_LONG);
  assert_non_null(strstr(error.message, "128 tokens"));
  tokens[5] = FAKE_VOCABULARY;
  assert_int_equal(tn_request_create(&rig.limits, &options, tokens, 127, &request, &error), TN_E_INVALID);
  assert_int_equal(tn_request_create(&rig.limits, &options, tokens, 0, &request, &error), TN_E_INVALID);
  rig_finish(&rig);
}

/* Every step of a run with three requests fails in turn, once: nobody notices. */
static void one_failed_step_costs_nobody(void **state) {
  (void)state;
  static const tn_status statuses[] = {TN_E_INTERNAL, TN_E_DEVICE_LOST};
  for (uint32_t kind = 0; kind < 2; kind++) {
    for (uint64_t at = 1; at < 40; at++) {
      test_rig rig;
      rig_init(&rig, PLAIN, 8, (tn_kv_options)TN_KV_OPTIONS);
      rig.runner->faults = (fake_faults){.fail_step = at, .step_status = statuses[kind]};
      static test_job jobs[3];
      uint64_t random = 13;
      for (uint32_t i = 0; i < 3; i++) {
        make_job(&jobs[i], 50 + 40 * i, 0, 20, &random);
        submit(&rig, &jobs[i]);
      }
      while (step(&rig)) {
      }
      for (uint32_t i = 0; i < 3; i++) {
        finish_job(&jobs[i]);
        assert_whole(&jobs[i]);
      }
      assert_int_equal(rig.scheduler.counters.failures, rig.runner->submits >= at);
      assert_nothing_held(&rig);
      rig_finish(&rig);
    }
  }
}

/* A request whose rows always fail ends alone; the others go on, and their tokens are right. */
static void only_the_culprit_fails(void **state) {
  (void)state;
  static const tn_status statuses[] = {TN_E_INTERNAL, TN_E_DEVICE_LOST};
  for (uint32_t kind = 0; kind < 2; kind++) {
    test_rig rig;
    rig_init(&rig, PLAIN, 8, (tn_kv_options)TN_KV_OPTIONS);
    rig.runner->faults = (fake_faults){.poison = 2, .step_status = statuses[kind]};
    static test_job jobs[3];
    uint64_t random = 14;
    for (uint32_t i = 0; i < 3; i++) {
      make_job(&jobs[i], 90, 0, 20, &random);
      static const tn_logit_bias never_poison = {2, -INFINITY};
      jobs[i].options.logit_bias = &never_poison;
      jobs[i].options.logit_bias_count = 1;
      if (i == 1) jobs[i].prompt[80] = 2;
      submit(&rig, &jobs[i]);
    }
    while (step(&rig)) {
    }
    for (uint32_t i = 0; i < 3; i++) finish_job(&jobs[i]);
    assert_whole(&jobs[0]);
    assert_whole(&jobs[2]);
    assert_int_equal(jobs[1].last.kind, TN_OUTPUT_ERROR);
    assert_int_equal(jobs[1].last.error.status, statuses[kind]);
    assert_int_equal(jobs[1].got, 0);
    rig_finish(&rig);
  }
}

static void dead_device_fails_all_and_later_ones(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 2, (tn_kv_options)TN_KV_OPTIONS);
  rig.runner->faults = (fake_faults){.fail_step = 3, .step_status = TN_E_DEVICE_LOST, .fail_reopen = true};
  static test_job jobs[3];
  uint64_t random = 15;
  for (uint32_t i = 0; i < 3; i++) {
    make_job(&jobs[i], 90, 0, 20, &random);
    submit(&rig, &jobs[i]);
  }
  while (step(&rig)) {
  }
  for (uint32_t i = 0; i < 3; i++) {
    finish_job(&jobs[i]);
    assert_int_equal(jobs[i].last.error.status, TN_E_DEVICE_LOST);
  }
  submit(&rig, &jobs[0]);
  while (step(&rig)) {
  }
  finish_job(&jobs[0]);
  assert_int_equal(jobs[0].last.error.status, TN_E_DEVICE_LOST);
  rig.runner->faults = (fake_faults){0}; /* the device is back */
  submit(&rig, &jobs[0]);
  while (step(&rig)) {
  }
  finish_job(&jobs[0]);
  assert_whole(&jobs[0]);
  rig_finish(&rig);
}

static void not_a_number_is_an_error_of_one(void **state) {
  (void)state;
  test_rig rig;
  rig_init(&rig, PLAIN, 2, (tn_kv_options)TN_KV_OPTIONS);
  rig.runner->faults = (fake_faults){.nan_step = 3};
  static test_job job;
  uint64_t random = 15;
  make_job(&job, 10, 0, 20, &random);
  submit(&rig, &job);
  while (step(&rig)) {
  }
  finish_job(&job);
  assert_int_equal(job.last.kind, TN_OUTPUT_ERROR);
  assert_int_equal(job.got, 2);
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

/* Random arrivals, cancels and faults; pools from roomy to tight; one group, windows, both; colliding hashes. */
static void random_schedule(uint64_t seed, fake_config config, tn_kv_options kv, test_drafting drafting,
                            uint32_t steps) {
  enum { JOBS = 12 };
  static test_job jobs[JOBS];
  test_rig rig;
  uint64_t random = seed;
  rig_init_drafting(&rig, config, 1 + fake_random(&random) % config.max_sequences, kv, drafting);
  memset(jobs, 0, sizeof jobs);
  uint32_t finished = 0, cancelled = 0, failed = 0;
  for (uint32_t number = 0; number < steps || rig.scheduler.running_count || rig.scheduler.waiting_count; number++) {
    test_job *job = &jobs[fake_random(&random) % JOBS];
    if (!job->request && number < steps) {
      uint32_t count = 1 + fake_random(&random) % (rig.limits.capacity - 2 < 250 ? rig.limits.capacity - 2 : 250);
      make_job(job, count, fake_random(&random) % 200, fake_random(&random) % 100, &random);
      job->options.priority = fake_random(&random) % 8 ? 0 : 1;
      job->options.prompt_logprobs = fake_random(&random) % 6 == 0;
      submit(&rig, job);
    } else if (job->request && fake_random(&random) % 40 == 0) {
      tn_request_cancel(job->request);
      job->was_cancelled = true;
    }
    if (fake_random(&random) % 50 == 0)
      rig.runner->faults = (fake_faults){.fail_step = rig.runner->submits + 1,
                                         .step_status = fake_random(&random) % 4 ? TN_E_INTERNAL : TN_E_DEVICE_LOST};
    step(&rig);
    assert_true(number < 100 * steps);
    for (uint32_t i = 0; i < JOBS; i++) {
      if (!jobs[i].request) continue;
      drain(&jobs[i]);
      if (!jobs[i].is_done) continue;
      if (jobs[i].was_cancelled && jobs[i].last.finish == TN_FINISH_CANCELLED) {
        cancelled++;
      } else if (jobs[i].last.kind == TN_OUTPUT_ERROR) { /* it failed, and again when alone */
        assert_non_null(strstr(jobs[i].last.error.message, "fake fault"));
        failed++;
      } else {
        assert_whole(&jobs[i]);
        finished++;
      }
      finish_job(&jobs[i]);
    }
  }
  assert_true(finished > 10 && cancelled > 0 && failed < 10);
  const tn_speculation_counters *counters = &rig.scheduler.speculation.counters;
  if (drafting.is_on && drafting.k) {
    assert_true(counters->drafted > 0);
    assert_true((counters->accepted > 0) == (drafting.right > 0));
    assert_true((counters->accepted < counters->drafted) == (drafting.right < 16));
  }
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

static fake_config config_of(uint64_t seed, tn_kv_options *kv) {
  fake_config config = PLAIN;
  *kv = (tn_kv_options)TN_KV_OPTIONS;
  config.pages = seed % 3 == 0 ? 14 : seed % 3 == 1 ? 24 : 90;
  config.max_rows = seed % 2 ? 64 : 17;
  config.max_logits_rows = seed % 4 == 3 ? 3 : 64;
  if (seed % 4 >= 2) {
    config.group_count = 2;
    config.windows[1] = 40;
  }
  if (seed % 5 == 4) config.windows[0] = 70;
  if (seed % 4 == 1) kv->hash_mask = 1;
  if (seed % 6 == 5) kv->prefix_cache = false;
  if (seed % 3 == 1) config.state_slots = 16 + (uint32_t)seed / 3;
  return config;
}

static void random_schedules_keep_all_promises(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 12; seed++) {
    tn_kv_options kv;
    fake_config config = config_of(seed, &kv);
    random_schedule(seed, config, kv, (test_drafting){0}, 800);
  }
}

/* The same while drafting: right and wrong drafts, k given or found, of models with and without recurrent states. */
static void random_schedules_with_drafts(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 24; seed++) {
    tn_kv_options kv;
    fake_config config = config_of(seed, &kv);
    if (seed % 5 == 3) config.state_slots = 17;
    static const uint32_t ks[] = {3, 0, 15, 1, 7};
    test_drafting drafting = {true, (uint32_t)(seed * 5 % 17), ks[seed % 5]};
    random_schedule(seed, config, kv, drafting, 900);
  }
}

/* With k right drafts a step gives k + 1 tokens, and no page is taken that isn't needed. */
static void right_drafts_save_steps(void **state) {
  (void)state;
  for (uint32_t slots = 0; slots <= 20; slots += 20) {
    fake_config config = PLAIN;
    config.state_slots = slots;
    test_rig rig;
    rig_init_drafting(&rig, config, 1, (tn_kv_options)TN_KV_OPTIONS, (test_drafting){true, 16, 4});
    static test_job job;
    uint64_t random = 3;
    make_job(&job, 40, 0, 101, &random);
    job.options.temperature = 1;
    job.options.ignore_eos = 1;
    submit(&rig, &job);
    job.expected_count = 0; /* not ended by the end token: compared below by count alone */
    while (step(&rig)) {
    }
    tn_output output;
    while (tn_outputs_next(job.request->outputs, &output, 0) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    }
    assert_int_equal(output.completion_tokens, 101);
    tn_request_cancel(job.request);
    tn_request_release(job.request);
    const tn_speculation_counters *counters = &rig.scheduler.speculation.counters;
    assert_int_equal(counters->accepted, counters->drafted);
    assert_true(counters->drafted >= 60);
    assert_true(rig.scheduler.counters.steps < 40); /* some calls of the drafter give less than was asked for */
    assert_nothing_held(&rig);
    rig_finish(&rig);
  }
}

/* A drafter that fails is left alone; a step that fails with drafts runs again without. */
static void failing_drafters_cost_nobody(void **state) {
  (void)state;
  test_rig rig;
  rig_init_drafting(&rig, PLAIN, 2, (tn_kv_options)TN_KV_OPTIONS, (test_drafting){true, 12, 3});
  rig.drafter->fail_from = 5;
  rig.runner->faults = (fake_faults){.fail_step = 6, .step_status = TN_E_INTERNAL};
  static test_job jobs[2];
  uint64_t random = 33;
  for (uint32_t i = 0; i < 2; i++) {
    make_job(&jobs[i], 30, 0, 60, &random);
    submit(&rig, &jobs[i]);
  }
  while (step(&rig)) {
  }
  for (uint32_t i = 0; i < 2; i++) {
    finish_job(&jobs[i]);
    assert_whole(&jobs[i]);
  }
  assert_int_equal(rig.drafter->calls, 4 + 8);
  assert_true(rig.scheduler.counters.failures == 1);
  assert_nothing_held(&rig);
  rig_finish(&rig);
}

/* A pool that has just the pages that plain runs need: drafts preempt nobody. */
static void drafts_preempt_nobody(void **state) {
  (void)state;
  for (uint32_t drafts = 0; drafts < 2; drafts++) {
    fake_config config = PLAIN;
    config.pages = 8;
    test_rig rig;
    rig_init_drafting(&rig, config, 2, (tn_kv_options){false, UINT64_MAX}, (test_drafting){drafts, 8, 15});
    static test_job jobs[2];
    for (uint32_t i = 0; i < 2; i++) {
      uint64_t random = 34 + i;
      make_job(&jobs[i], 33, 0, 90, &random);
      submit(&rig, &jobs[i]);
    }
    while (step(&rig)) {
    }
    for (uint32_t i = 0; i < 2; i++) {
      finish_job(&jobs[i]);
      assert_whole(&jobs[i]);
    }
    assert_int_equal(rig.scheduler.counters.preemptions, 0);
    assert_nothing_held(&rig);
    rig_finish(&rig);
  }
}

int main(void) {
  tn_log_set_level(TN_LOG_ERROR); /* the warnings are expected */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_request_answers),
      cmocka_unit_test(small_pool_finishes_all),
      cmocka_unit_test(preempted_resumes_equal),
      cmocka_unit_test(answers_hold_the_prompt_once),
      cmocka_unit_test(answers_to_one_prompt_share_pages),
      cmocka_unit_test(prompts_have_logprobs),
      cmocka_unit_test(snapshots_are_found),
      cmocka_unit_test(salts_separate),
      cmocka_unit_test(priority_goes_first),
      cmocka_unit_test(oldest_goes_on_row_by_row),
      cmocka_unit_test(nobody_makes_way_for_one_that_waits),
      cmocka_unit_test(lower_priority_makes_way),
      cmocka_unit_test(cancel_ends_within_a_step),
      cmocka_unit_test(late_request_ends_with_an_error),
      cmocka_unit_test(prompt_too_long_is_refused),
      cmocka_unit_test(one_failed_step_costs_nobody),
      cmocka_unit_test(only_the_culprit_fails),
      cmocka_unit_test(dead_device_fails_all_and_later_ones),
      cmocka_unit_test(not_a_number_is_an_error_of_one),
      cmocka_unit_test(random_schedules_keep_all_promises),
      cmocka_unit_test(random_schedules_with_drafts),
      cmocka_unit_test(right_drafts_save_steps),
      cmocka_unit_test(failing_drafters_cost_nobody),
      cmocka_unit_test(drafts_preempt_nobody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
