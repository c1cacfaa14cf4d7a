/* The scheduler: answers, sharing, preemption, priorities, limits, cancels (scheduler_rig.h). */
#include "scheduler_rig.h"

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

/* A long prompt's pieces follow each other without a gap. One that is cancelled has no more of them. */
static void cancel_ends_a_chain_of_pieces(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.max_rows = 8;
  test_rig rig;
  rig_init(&rig, config, 2, (tn_kv_options)TN_KV_OPTIONS);
  static test_job job;
  uint64_t random = 17;
  make_job(&job, 300, 0, 100, &random);
  submit(&rig, &job);
  for (uint32_t i = 0; i < 6; i++) step(&rig);
  tn_request_cancel(job.request);
  uint64_t submits = rig.runner->submits;
  for (uint32_t i = 0; i < 3; i++) step(&rig);
  assert_int_equal(rig.runner->submits, submits);
  finish_job(&job);
  assert_int_equal(job.last.finish, TN_FINISH_CANCELLED);
  assert_nothing_held(&rig);
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
      cmocka_unit_test(cancel_ends_a_chain_of_pieces),
      cmocka_unit_test(late_request_ends_with_an_error),
      cmocka_unit_test(prompt_too_long_is_refused),
  };
  return RUN_BOTH_WAYS(tests);
}
