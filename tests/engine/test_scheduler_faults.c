/* The scheduler while steps fail, the device is lost, or logits are no numbers (scheduler_rig.h). */
#include "scheduler_rig.h"

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

/* A dead device takes no steps at all. Whoever was to be in one is cancelled, or makes way, before the next. */
static void whoever_leaves_a_dead_device_is_gone(void **state) {
  (void)state;
  for (uint32_t way = 0; way < 2; way++) {
    test_rig rig;
    rig_init(&rig, PLAIN, 1, (tn_kv_options)TN_KV_OPTIONS);
    rig.runner->faults = (fake_faults){.fail_step = 1, .step_status = TN_E_DEVICE_LOST, .fail_reopen = true};
    static test_job jobs[3];
    uint64_t random = 16;
    for (uint32_t i = 0; i < 3; i++) make_job(&jobs[i], 200, 0, 20, &random);
    submit(&rig, &jobs[0]);
    while (step(&rig)) {
    }
    finish_job(&jobs[0]);
    submit(&rig, &jobs[1]);
    step(&rig);
    if (way == 0) tn_request_cancel(jobs[1].request);
    if (way == 0) tn_request_release(jobs[1].request); /* nobody waits for it any more */
    jobs[2].options.priority = way ? 1 : 0;
    submit(&rig, &jobs[2]);
    while (step(&rig)) {
    }
    if (way) finish_job(&jobs[1]);
    finish_job(&jobs[2]);
    assert_int_equal(jobs[2].last.error.status, TN_E_DEVICE_LOST);
    assert_nothing_held(&rig);
    rig_finish(&rig);
  }
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

int main(void) {
  tn_log_set_level(TN_LOG_ERROR); /* the warnings are expected */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_failed_step_costs_nobody),         cmocka_unit_test(only_the_culprit_fails),
      cmocka_unit_test(dead_device_fails_all_and_later_ones), cmocka_unit_test(whoever_leaves_a_dead_device_is_gone),
      cmocka_unit_test(not_a_number_is_an_error_of_one),
  };
  return RUN_BOTH_WAYS(tests);
}
