/* The scheduler over random schedules of everything at once: submit, cancel, share, preempt, fail (scheduler_rig.h). */
#include "scheduler_rig.h"

/* Random arrivals, cancels and faults; pools from roomy to tight; one group, windows, both; colliding hashes. Gives how
 * many steps were launched behind another. */
static uint64_t random_schedule(uint64_t seed, fake_config config, tn_kv_options kv, test_drafting drafting,
                                uint32_t steps) {
  enum { JOBS = 12 };
  static test_job jobs[JOBS];
  bool is_small = config.max_rows < 8;
  test_rig rig;
  uint64_t random = seed;
  rig_init_drafting(&rig, config, 1 + fake_random(&random) % config.max_sequences, kv, drafting);
  memset(jobs, 0, sizeof jobs);
  uint32_t finished = 0, cancelled = 0, failed = 0;
  for (uint32_t number = 0; number < steps || rig.scheduler.running_count || rig.scheduler.waiting_count; number++) {
    test_job *job = &jobs[fake_random(&random) % JOBS];
    bool is_due = !is_small || fake_random(&random) % 16 == 0; /* so that at times nobody prefills */
    if (!job->request && number < steps && is_due) {
      uint32_t count = 1 + fake_random(&random) % (rig.limits.capacity - 2 < 250 ? rig.limits.capacity - 2 : 250);
      make_job(job, count, fake_random(&random) % 200, fake_random(&random) % 100, &random);
      job->options.priority = fake_random(&random) % 8 ? 0 : 1;
      if (is_small) job->options.priority = (int32_t)(fake_random(&random) % 4) - 1;
      job->options.prompt_logprobs = fake_random(&random) % 6 == 0;
      submit(&rig, job);
    } else if (job->request && fake_random(&random) % 40 == 0) {
      tn_request_cancel(job->request);
      job->was_cancelled = true;
    }
    if (fake_random(&random) % (is_small ? 200 : 50) == 0) /* the same rows are longer under way */
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
  if (!(finished > 10 && cancelled > 0 && failed < 10))
    fail_msg("seed %u: %u finished, %u cancelled, %u failed", (unsigned)seed, finished, cancelled, failed);
  const tn_speculation_counters *counters = &rig.scheduler.speculation.counters;
  if (drafting.is_on && drafting.k) {
    assert_true(counters->drafted > 0);
    assert_true((counters->accepted > 0) == (drafting.right > 0));
    assert_true((counters->accepted < counters->drafted) == (drafting.right < 16));
  }
  uint64_t second_steps = rig.scheduler.counters.second_steps;
  assert_nothing_held(&rig);
  rig_finish(&rig);
  return second_steps;
}

static fake_config config_of(uint64_t seed, tn_kv_options *kv) {
  fake_config config = PLAIN;
  *kv = (tn_kv_options)TN_KV_OPTIONS;
  config.pages = seed % 3 == 0 ? 14 : seed % 3 == 1 ? 24 : 90;
  config.max_rows = seed % 2 ? 64 : 17;
  config.max_logits_rows = seed % 4 == 3 ? 3 : 64;
  if (seed % 4 >= 2) {
    config.group_count = 2;
    config.windows[1] = seed % 3 ? 34 : 40; /* behind a full page a row sees one slot of a page, or some */
    if (seed % 2) config.window_pages = 6 + (uint32_t)seed;
  }
  if (seed % 5 == 4) config.windows[0] = 70;
  if (seed % 4 == 1) kv->hash_mask = 1;
  if (seed % 6 == 5) kv->prefix_cache = false;
  if (seed % 3 == 1) config.state_slots = 16 + (uint32_t)seed / 3;
  return config;
}

static void random_schedules_keep_all_promises(void **state) {
  (void)state;
  uint64_t second_steps = 0;
  for (uint64_t seed = 1; seed <= 12; seed++) {
    tn_kv_options kv;
    fake_config config = config_of(seed, &kv);
    second_steps += random_schedule(seed, config, kv, (test_drafting){0}, 800);
  }
  assert_true((second_steps > 100) == rig_overlaps);
}

/* Steps of one to four rows: every prompt takes many, decoding sequences have to take turns, and the oldest must always
 * go on; with priorities, shared prefixes, preemption and, where there is room for them, drafts. */
static void random_schedules_of_small_steps(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    tn_kv_options kv;
    fake_config config = config_of(seed + 2, &kv);
    config.max_rows = 1 + (uint32_t)seed % 4;
    config.max_logits_rows = config.max_rows < 4 ? config.max_rows : 3;
    if (config.state_slots && config.state_slots < 17) config.state_slots = 17;
    test_drafting drafting = {config.max_rows > 2, (uint32_t)(seed * 5 % 17), 1 + (uint32_t)seed % 3};
    random_schedule(seed, config, kv, drafting, 2500);
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

int main(void) {
  tn_log_set_level(TN_LOG_ERROR); /* the warnings are expected */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_schedules_keep_all_promises),
      cmocka_unit_test(random_schedules_of_small_steps),
      cmocka_unit_test(random_schedules_with_drafts),
  };
  return RUN_BOTH_WAYS(tests);
}
