/* A run of three requests on a device whose calls fail, each in turn: the engine can't be made and says why, or every
 * request has the tokens of a run without faults, as what fails once is run again; and the next run works. Leaks are
 * the sanitizer's to find. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/memory.h"
#include "tenon/tenon.h"
#include "support/engine.h"

#define REQUESTS 3u
#define ANSWER 12u

typedef struct answers {
  bool created;
  int32_t tokens[REQUESTS][ANSWER];
  uint32_t counts[REQUESTS];
  bool failed[REQUESTS];
  uint64_t steps, failed_steps, accepted;
} answers;

#define TOY TEST_MODULES "/module-device-toy.so"
#define MODEL TEST_DATA "/golden/llama/model.gguf"

static tn_model *model;
/* The model itself drafts, on this device; NULL: nothing does. */
static const char *drafting_on;

static tn_status submit(tn_engine *engine, uint32_t number, tn_request **request, tn_error *error) {
  int32_t prompt[60];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++) prompt[i] = (int32_t)((i * 31u + number * 17u) % 300u);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = prompt;
  options.token_count = 20 + 15 * number;
  options.max_tokens = ANSWER;
  options.temperature = number ? 1.0f : 0.0f;
  options.seed = number;
  return tn_engine_submit(engine, &options, request, error);
}

static void pull(tn_request *request, answers *got, uint32_t number) {
  tn_output output = TN_OUTPUT;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT)
    if (output.token >= 0) got->tokens[number][got->counts[number]++] = output.token;
  got->failed[number] = output.kind == TN_OUTPUT_ERROR;
  if (got->failed[number]) assert_true(output.error.status < 0 && output.error.message[0]);
}

static const char *overlap = "off"; /* of the engine's options */

/* "0=DEVICE,rest=DEVICE" instead of one device. */
static bool is_placement(const char *text) {
  return text[0] >= '0' && text[0] <= '9';
}

static answers run(const char *device) {
  answers got = {0};
  tn_error error = {0};
  tn_engine *engine;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.overlap = overlap;
  if (is_placement(device))
    options.place = device;
  else
    options.device = device;
  options.context = 96;
  options.max_sequences = REQUESTS;
  options.chunk = 16;
  options.kv_bytes = 8 << 20;
  if (drafting_on) {
    options.draft = MODEL;
    options.draft_k = 3;
    options.draft_device = drafting_on;
  }
  if (tn_engine_create(model, &options, &engine, &error) != TN_OK) {
    assert_true(error.status < 0 && error.message[0]);
    return got;
  }
  got.created = true;
  tn_request *requests[REQUESTS];
  for (uint32_t i = 0; i < REQUESTS; i++) assert_int_equal(submit(engine, i, &requests[i], &error), TN_OK);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    pull(requests[i], &got, i);
    tn_request_destroy(requests[i]);
  }
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(engine, &info);
  got.steps = info.steps;
  got.failed_steps = info.failed_steps;
  got.accepted = info.accepted_tokens;
  tn_engine_destroy(engine);
  return got;
}

static void compare(const answers *got, const answers *wanted, const char *device) {
  for (uint32_t i = 0; i < REQUESTS; i++) {
    if (got->failed[i]) fail_msg("%s: request %u failed", device, i);
    assert_int_equal(got->counts[i], wanted->counts[i]);
    assert_memory_equal(got->tokens[i], wanted->tokens[i], got->counts[i] * sizeof(int32_t));
  }
}

/* Answers on a device with a fault, or none as it can't be opened; whether the fault was noticed. */
static bool notices(const char *faulty, const answers *wanted) {
  answers got = run(faulty);
  if (got.created) compare(&got, wanted, faulty);
  return !got.created || got.failed_steps > 0;
}

/* Fails the first `count` calls of a kind, one in each run. At least one fault must have been noticed. */
static void fail_each(const char *device, const char *kind, uint32_t count) {
  answers wanted = run(device);
  assert_true(wanted.created);
  uint32_t noticed = 0;
  for (uint32_t at = 1; at <= count; at++) {
    char faulty[128];
    snprintf(faulty, sizeof faulty, "faulty:%s,%s=%u", device, kind, at);
    noticed += notices(faulty, &wanted);
  }
  assert_true(noticed > 0);
  answers again = run(device);
  compare(&again, &wanted, device);
}

/* Each kind of call that can fail. */
static const char *const KINDS[] = {"fail-execute", "fail-copy",    "fail-synchronize", "lose-at",
                                    "fail-alloc",   "fail-prepare", "fail-pack"};
static const char *const DEVICES[] = {"cpu", "reference,private-memory=1"};

static void each_call_of_the_start_fails(void **state) {
  (void)state;
  for (size_t d = 0; d < TN_COUNT(DEVICES); d++) {
    fail_each(DEVICES[d], "fail-alloc", 12);
    fail_each(DEVICES[d], "fail-pack", 30);
    fail_each(DEVICES[d], "fail-prepare", 2);
  }
}

/* One failed step is run again: nobody ends with an error. */
static void each_call_of_the_steps_fails(void **state) {
  (void)state;
  for (size_t d = 0; d < TN_COUNT(DEVICES); d++) {
    uint32_t steps = (uint32_t)run(DEVICES[d]).steps;
    assert_true(steps > ANSWER);
    fail_each(DEVICES[d], "fail-execute", steps + 2);
    fail_each(DEVICES[d], "late=1,fail-execute", 3);
    fail_each(DEVICES[d], "fail-synchronize", steps + 2);
  }
  fail_each(DEVICES[1], "fail-copy", 20);
}

/* The device is opened again, and everything computed anew. */
static void device_is_lost_at_each_step(void **state) {
  (void)state;
  for (size_t d = 0; d < TN_COUNT(DEVICES); d++) fail_each(DEVICES[d], "lose-at", 20);
}

/* One of several devices fails: all are got over as if it were the only one. */
static void one_device_of_several_fails(void **state) {
  (void)state;
  static const char *const places[] = {
      "0=faulty:cpu,threads=1%s,1=reference,private-memory=1,rest=cpu,threads=1",
      "0=cpu,threads=1,1=faulty:reference,private-memory=1%s,rest=cpu,threads=1",
  };
  char place[200], fault[40];
  for (size_t p = 0; p < TN_COUNT(places); p++) {
    snprintf(place, sizeof place, places[p], "");
    answers wanted = run(place);
    assert_true(wanted.created);
    for (size_t k = 0; k < TN_COUNT(KINDS); k++) {
      uint32_t noticed = 0;
      for (uint32_t at = 1; at <= 9; at += 2) {
        snprintf(fault, sizeof fault, ",%s=%u", KINDS[k], at);
        snprintf(place, sizeof place, places[p], fault);
        noticed += notices(place, &wanted);
      }
      if (!noticed) fail_msg("%s was not noticed", place);
    }
  }
}

/* A recurrent model on a card of fixed shapes: KV in regions, states in slots on another device. Either device fails;
 * and nothing is read that no step wrote. */
static void fixed_shapes_fail(void **state) {
  (void)state;
  static const char *const places[] = {"0=faulty:" TOY "%s,rest=reference",
                                       "0=" TOY ",rest=faulty:reference,private-memory=1%s"};
  char place[300], fault[40];
  tn_model *plain = model;
  tn_error error;
  if (tn_model_open(TEST_DATA "/golden/qwen35/model.gguf", &model, &error) != TN_OK) fail_msg("%s", error.message);
  for (size_t p = 0; p < TN_COUNT(places); p++) {
    snprintf(place, sizeof place, places[p], "");
    answers wanted = run(place);
    assert_true(wanted.created);
    snprintf(place, sizeof place, places[p], ",fault=dirty-memory");
    answers dirty = run(place);
    assert_true(dirty.created);
    compare(&dirty, &wanted, place);
    for (size_t k = 0; k < TN_COUNT(KINDS); k++) {
      uint32_t noticed = 0;
      for (uint32_t at = 1; at <= 60; at *= 4) {
        snprintf(fault, sizeof fault, ",%s=%u", KINDS[k], at);
        snprintf(place, sizeof place, places[p], fault);
        noticed += notices(place, &wanted);
      }
      if (!noticed) fail_msg("%s was not noticed", place);
    }
  }
  tn_model_close(model);
  model = plain;
}

/* While another device drafts, ahead of the steps. */
static void steps_fail_while_drafting(void **state) {
  (void)state;
  for (size_t d = 0; d < TN_COUNT(DEVICES); d++) {
    drafting_on = NULL;
    answers plain = run(DEVICES[d]);
    drafting_on = "cpu,threads=1";
    answers wanted = run(DEVICES[d]);
    compare(&wanted, &plain, DEVICES[d]);
    assert_true(wanted.accepted > 0);
    fail_each(DEVICES[d], "fail-execute", (uint32_t)wanted.steps);
    fail_each(DEVICES[d], "lose-at", 8);
  }
  drafting_on = NULL;
}

/* What fails where the drafting model runs is nobody's loss. */
static void drafting_devices_fail(void **state) {
  (void)state;
  static const char *const kinds[] = {"fail-execute", "fail-synchronize", "lose-at", "fail-count=1000,fail-execute"};
  uint32_t created = 0;
  drafting_on = NULL;
  answers plain = run("cpu");
  for (size_t k = 0; k < TN_COUNT(kinds); k++)
    for (uint32_t at = 1; at <= 9; at += 2) {
      char faulty[128];
      snprintf(faulty, sizeof faulty, "faulty:reference,private-memory=1,%s=%u", kinds[k], at);
      drafting_on = faulty;
      answers got = run("cpu");
      if (!got.created) continue; /* weights are copied there first */
      created++;
      assert_true(got.failed_steps == 0);
      compare(&got, &plain, faulty);
    }
  assert_true(created >= 5 * TN_COUNT(kinds) - 2);
  for (uint32_t at = 1; at <= 12; at++) {
    char faulty[128];
    snprintf(faulty, sizeof faulty, "faulty:cpu,fail-alloc=%u", at);
    drafting_on = faulty;
    answers got = run("cpu");
    if (got.created) compare(&got, &plain, faulty);
  }
  drafting_on = NULL;
}

/* ---- a pool too small for all ---- */

#define CROWD 30u
#define LONG_ANSWER 150u
#define POOL 40u

typedef struct crowd {
  int32_t tokens[CROWD][LONG_ANSWER];
  uint32_t counts[CROWD];
  tn_engine_info info;
} crowd;

/* Thirty requests of seven or eight pages each, some with a common beginning. */
static tn_request *submit_one(tn_engine *engine, uint32_t number, const int32_t *common) {
  int32_t prompt[90];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++)
    prompt[i] = number % 3 && i < 64 ? common[i] : (int32_t)((i * 31u + number * 17u) % 300u);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = prompt;
  options.token_count = 66 + number % 24;
  options.max_tokens = LONG_ANSWER;
  options.ignore_eos = 1;
  options.temperature = number % 2 ? 1.0f : 0.0f;
  options.seed = number;
  return must_submit(engine, &options);
}

static void run_crowd(const char *device, uint64_t kv_bytes, crowd *got) {
  int32_t common[64];
  tn_error error;
  tn_engine *engine;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.device = device;
  options.overlap = overlap;
  options.context = 256;
  options.max_sequences = CROWD;
  options.kv_bytes = kv_bytes;
  *got = (crowd){.info = TN_ENGINE_INFO};
  for (uint32_t i = 0; i < TN_COUNT(common); i++) common[i] = (int32_t)(i * 7u % 300u);
  if (tn_engine_create(model, &options, &engine, &error) != TN_OK) fail_msg("%s", error.message);
  tn_request *requests[CROWD];
  for (uint32_t i = 0; i < CROWD; i++) requests[i] = submit_one(engine, i, common);
  for (uint32_t i = 0; i < CROWD; i++) {
    tn_output output = TN_OUTPUT;
    while (tn_request_next(requests[i], &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT)
      if (output.token >= 0) got->tokens[i][got->counts[i]++] = output.token;
    if (output.kind != TN_OUTPUT_DONE) fail_msg("%s: request %u: %s", device, i, output.error.message);
    tn_request_destroy(requests[i]);
  }
  tn_engine_describe(engine, &got->info);
  tn_engine_destroy(engine);
}

/* 40 pages for requests that need more than 200: all finish with the tokens of a roomy pool, and no page stays held;
 * the same when steps fail and the device is lost among them. */
static void a_small_pool_serves_all(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "faulty:cpu,fail-execute=100", "faulty:cpu,fail-synchronize=333",
                                        "faulty:cpu,lose-at=500"};
  static crowd roomy, got;
  run_crowd("cpu", (uint64_t)64 << 20, &roomy);
  assert_int_equal(roomy.info.preemptions, 0);
  uint64_t page_bytes = roomy.info.kv_bytes / roomy.info.pages;
  for (size_t d = 0; d < TN_COUNT(devices); d++) {
    run_crowd(devices[d], POOL * page_bytes, &got);
    assert_int_equal(got.info.pages, POOL);
    assert_int_equal(got.info.pages_used, 0);
    assert_true(got.info.preemptions > 0);
    assert_int_equal(got.info.failed_steps > 0, d > 0);
    assert_memory_equal(got.counts, roomy.counts, sizeof got.counts);
    assert_memory_equal(got.tokens, roomy.tokens, sizeof got.tokens);
  }
}

static int open_model(void **state) {
  (void)state;
  tn_error error;
  tn_log_set_level(TN_LOG_ERROR); /* the warnings are expected */
  if (tn_model_open(MODEL, &model, &error) == TN_OK) return 0;
  fprintf(stderr, "%s\n", error.message);
  return 1;
}

static int close_model(void **state) {
  (void)state;
  tn_model_close(model);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_call_of_the_start_fails),
      cmocka_unit_test(each_call_of_the_steps_fails),
      cmocka_unit_test(device_is_lost_at_each_step),
      cmocka_unit_test(steps_fail_while_drafting),
      cmocka_unit_test(one_device_of_several_fails),
      cmocka_unit_test(drafting_devices_fail),
      cmocka_unit_test(fixed_shapes_fail),
      cmocka_unit_test(a_small_pool_serves_all),
  };
  const struct CMUnitTest in_flight[] = {
      cmocka_unit_test(each_call_of_the_steps_fails),
      cmocka_unit_test(device_is_lost_at_each_step),
      cmocka_unit_test(a_small_pool_serves_all),
  };
  int failed = cmocka_run_group_tests_name("one step after the other", tests, open_model, NULL);
  overlap = "on";
  return failed + cmocka_run_group_tests_name("steps in flight", in_flight, NULL, close_model);
}
