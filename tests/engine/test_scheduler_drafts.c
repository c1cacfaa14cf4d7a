/* The scheduler with drafts: right ones, failing drafters, little room (scheduler_rig.h). */
#include "scheduler_rig.h"

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
      cmocka_unit_test(right_drafts_save_steps),
      cmocka_unit_test(failing_drafters_cost_nobody),
      cmocka_unit_test(drafts_preempt_nobody),
  };
  return RUN_BOTH_WAYS(tests);
}
