/* A scheduler over a runner without a model, and requests to it whose answers are known: whatever happens, every
 * request's tokens are those of a plain run, every page is accounted for after each step, and none is held at the end.
 */
#ifndef TENON_TESTS_SCHEDULER_RIG_H
#define TENON_TESTS_SCHEDULER_RIG_H

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

/* Tests run twice: one step after the other, and with steps in flight (RUN_BOTH_WAYS). */
static bool rig_overlaps;

#define RUN_BOTH_WAYS(tests)                                                    \
  (cmocka_run_group_tests_name("one step after the other", tests, NULL, NULL) + \
   (rig_overlaps = true, cmocka_run_group_tests_name("steps in flight", tests, NULL, NULL)))

static inline void rig_init_drafting(test_rig *rig, fake_config config, uint32_t max_running, tn_kv_options kv,
                                     test_drafting drafting) {
  config.overlaps = config.overlaps || rig_overlaps;
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

static inline void rig_init(test_rig *rig, fake_config config, uint32_t max_running, tn_kv_options kv) {
  rig_init_drafting(rig, config, max_running, kv, (test_drafting){0});
}

static inline void rig_finish(test_rig *rig) {
  tn_scheduler_finish(&rig->scheduler);
  tn_runner_destroy(rig->runner);
}

static inline void check(test_rig *rig) {
  check_accounting(&rig->scheduler.kv, rig->scheduler.ledgers, rig->scheduler.max_running);
}

static inline bool step(test_rig *rig) {
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

static inline void expect(const test_rig *rig, test_job *job) {
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

static inline void submit(test_rig *rig, test_job *job) {
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
static inline void make_job(test_job *job, uint32_t count, uint32_t common, uint32_t max_tokens, uint64_t *random) {
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
static inline void never_end(test_job *job) {
  static const tn_logit_bias no_end = {.token = 3, .bias = -100.0f};
  job->options.logit_bias = &no_end;
  job->options.logit_bias_count = 1;
}

/* A token of the prompt with its log-probability, the first without. */
static inline void check_score(const fake_config *config, test_job *job, const tn_output *output) {
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
static inline void drain(test_job *job) {
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

static inline void finish_job(test_job *job) {
  drain(job);
  assert_true(job->is_done);
  tn_request_cancel(job->request);
  tn_request_release(job->request);
  job->request = NULL;
}

static inline void assert_whole(const test_job *job) {
  if (job->last.kind == TN_OUTPUT_ERROR) fail_msg("%s", job->last.error.message);
  assert_int_equal(job->last.finish, job->expected_finish);
  assert_int_equal(job->got, job->expected_count);
  assert_int_equal(job->scored, job->options.prompt_logprobs ? job->options.token_count : 0);
}

static inline void assert_nothing_held(test_rig *rig) {
  for (uint32_t g = 0; g < rig->config.group_count; g++)
    assert_int_equal(tn_pages_free(rig->scheduler.kv.pages, g) + tn_pages_cached(rig->scheduler.kv.pages, g),
                     tn_pages_total(rig->scheduler.kv.pages, g));
  if (rig->drafter) assert_int_equal(fake_held(&rig->drafter->drafter), 0);
}

static const fake_config PLAIN = {
    .max_rows = 64, .max_sequences = 8, .max_logits_rows = 64, .max_context = 512, .pages = 128, .group_count = 1};

/* Steps and drains until all have ended, in at most `most` steps. */
static inline void finish_all(test_rig *rig, test_job *jobs, uint32_t count, uint32_t most) {
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

#endif
