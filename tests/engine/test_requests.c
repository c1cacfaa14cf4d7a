/* Requests through the public functions on a real, tiny model: what a request answers, log-probabilities as bytes,
 * depends neither on its neighbours, nor on preemption, cached prefixes, chunks or the device's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "count_allocations.h"
#include "tenon/tenon.h"
#include "support/engine.h"

#define REQUESTS 6u
#define ANSWER 40u
#define TOP 3u

typedef struct answer {
  int32_t tokens[ANSWER];
  float logprobs[ANSWER];
  tn_top_logprob top[ANSWER][TOP];
  uint32_t count;
  tn_output last;
} answer;

static tn_model *model;

static const char *overlap = "off";

static tn_engine *start(const tn_engine_options *given) {
  tn_engine_options options = *given;
  options.overlap = overlap;
  return must_start(model, &options);
}

static tn_request *submit(tn_engine *engine, uint32_t number) {
  int32_t prompt[100];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++) prompt[i] = (int32_t)((i * 31u + (i < 40 ? 0 : number * 17u)) % 300u);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = prompt;
  options.token_count = 45 + 9 * number;
  options.max_tokens = ANSWER;
  options.ignore_eos = 1;
  options.logprobs = 1;
  options.top_logprobs = TOP;
  options.temperature = number % 2 ? 1.0f : 0.0f;
  options.top_p = number % 3 ? 0.9f : 1.0f;
  options.repeat_penalty = number == 5 ? 1.3f : 1.0f;
  options.seed = number;
  return must_submit(engine, &options);
}

static void pull(tn_request *request, answer *got) {
  memset(got, 0, sizeof *got);
  while (tn_request_next(request, &got->last, UINT64_MAX) == TN_OK && got->last.kind == TN_OUTPUT_TEXT) {
    if (got->last.token < 0) continue; /* half a character at the end */
    assert_true(got->count < ANSWER && got->last.top_count == TOP);
    got->tokens[got->count] = got->last.token;
    got->logprobs[got->count] = got->last.logprob;
    memcpy(got->top[got->count], got->last.top, sizeof got->top[0]);
    got->count++;
  }
  if (got->last.kind != TN_OUTPUT_DONE) fail_msg("%s", got->last.error.message);
  assert_int_equal(got->last.finish, TN_FINISH_LENGTH);
  assert_int_equal(got->last.completion_tokens, ANSWER);
}

static void same(const answer *a, const answer *b) {
  assert_int_equal(a->count, b->count);
  assert_memory_equal(a->tokens, b->tokens, sizeof a->tokens);
  assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
  assert_memory_equal(a->top, b->top, sizeof a->top);
}

static answer alone[REQUESTS];

static void run_together(tn_engine *engine) {
  tn_request *requests[REQUESTS];
  for (uint32_t i = 0; i < REQUESTS; i++) requests[i] = submit(engine, i);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    answer got;
    pull(requests[i], &got);
    same(&got, &alone[i]);
    tn_request_destroy(requests[i]);
  }
}

/* Each alone in an engine of its own without a cache: what everything else is compared with. */
static int run_alone(void **state) {
  (void)state;
  tn_error error;
  if (tn_model_open(TEST_DATA "/golden/llama/model.gguf", &model, &error) != TN_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 192;
  options.no_prefix_cache = 1;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    tn_engine *engine = start(&options);
    tn_request *request = submit(engine, i);
    pull(request, &alone[i]);
    tn_request_destroy(request);
    tn_engine_destroy(engine);
  }
  return 0;
}

static int close_model(void **state) {
  (void)state;
  tn_model_close(model);
  return 0;
}

static void neighbours_change_nothing(void **state) {
  (void)state;
  for (uint32_t chunk = 5; chunk < 600; chunk *= 10) {
    tn_engine_options options = TN_ENGINE_OPTIONS;
    options.context = 192;
    options.chunk = chunk;
    tn_engine *engine = start(&options);
    run_together(engine);
    tn_engine_destroy(engine);
  }
}

static void cached_prefixes_change_nothing(void **state) {
  (void)state;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 192;
  tn_engine *engine = start(&options);
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < REQUESTS; i++) {
      answer got;
      tn_request *request = submit(engine, i);
      pull(request, &got);
      same(&got, &alone[i]);
      uint32_t prompt = 45 + 9 * i;
      assert_int_equal(got.last.cached_tokens, round ? (prompt - 1) / 32 * 32 : i ? 32 : 0);
      tn_request_destroy(request);
    }
  }
  tn_engine_destroy(engine);
}

/* KV memory for one and a half sequences, and six of them: they take turns, and nobody can tell. */
static void preemption_changes_nothing(void **state) {
  (void)state;
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 192;
  options.max_sequences = 1;
  tn_engine *engine = start(&options);
  tn_engine_describe(engine, &info);
  tn_engine_destroy(engine);
  options.max_sequences = REQUESTS;
  options.kv_bytes = info.kv_bytes / info.pages * 7;
  engine = start(&options);
  run_together(engine);
  do tn_engine_describe(engine, &info);
  while (info.running > 0); /* the step that gave the last output may not have ended */
  assert_int_equal(info.pages, 7);
  assert_true(info.preemptions > 0);
  assert_int_equal(info.pages_used, 0);
  tn_engine_destroy(engine);
}

static void private_memory_changes_nothing(void **state) {
  (void)state;
  answer want[REQUESTS];
  const char *devices[] = {"reference", "reference,private-memory=1"};
  for (int d = 0; d < 2; d++) {
    tn_engine_options options = TN_ENGINE_OPTIONS;
    options.context = 192;
    options.device = devices[d];
    tn_engine *engine = start(&options);
    tn_request *requests[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) requests[i] = submit(engine, i);
    for (uint32_t i = 0; i < REQUESTS; i++) {
      answer got;
      pull(requests[i], d ? &got : &want[i]);
      if (d) same(&got, &want[i]);
      tn_request_destroy(requests[i]);
    }
    tn_engine_destroy(engine);
  }
}

static void impossible_sizes_are_refused(void **state) {
  (void)state;
  tn_engine *engine;
  tn_error error;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 192;
  options.kv_bytes = 70000;
  assert_int_equal(tn_engine_create(model, &options, &engine, &error), TN_E_LIMIT);
  assert_non_null(strstr(error.message, "192"));
  options.kv_bytes = 1;
  assert_int_equal(tn_engine_create(model, &options, &engine, &error), TN_E_LIMIT);
  options.kv_bytes = 0;
  options.context = 1 << 20;
  assert_int_equal(tn_engine_create(model, &options, &engine, &error), TN_E_LIMIT);
  assert_non_null(strstr(error.message, "1048576"));
  options.context = 0;
  options.chunk = 1 << 20;
  assert_int_equal(tn_engine_create(model, &options, &engine, &error), TN_E_LIMIT);
  options.chunk = 0;
  options.max_sequences = 1 << 20;
  assert_int_equal(tn_engine_create(model, &options, &engine, &error), TN_E_LIMIT);
  options.max_sequences = 0;
  options.kv = "f17";
  assert_int_equal(tn_engine_create(model, &options, &engine, &error), TN_E_INVALID);
  options.kv = NULL;
  options.device = "abacus";
  assert_true(tn_engine_create(model, &options, &engine, &error) < 0);
  assert_non_null(strstr(error.message, "abacus"));
  assert_null(engine);
}

/* Between the second token and the last, counted over the whole process. */
static void steps_allocate_nothing(void **state) {
  (void)state;
  if (!COUNTS_ALLOCATIONS) skip();
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 192;
  tn_engine *engine = start(&options);
  tn_request *requests[REQUESTS];
  tn_output output = TN_OUTPUT;
  for (uint32_t i = 0; i < REQUESTS; i++) requests[i] = submit(engine, i);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    tn_request_next(requests[i], &output, UINT64_MAX);
    tn_request_next(requests[i], &output, UINT64_MAX);
  }
  unsigned before = atomic_load(&allocations);
  for (uint32_t i = 0; i < REQUESTS; i++)
    while (tn_request_next(requests[i], &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    }
  assert_int_equal(atomic_load(&allocations), before);
  for (uint32_t i = 0; i < REQUESTS; i++) tn_request_destroy(requests[i]);
  tn_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(neighbours_change_nothing),    cmocka_unit_test(cached_prefixes_change_nothing),
      cmocka_unit_test(preemption_changes_nothing),   cmocka_unit_test(private_memory_changes_nothing),
      cmocka_unit_test(impossible_sizes_are_refused), cmocka_unit_test(steps_allocate_nothing),
  };
  int failed = cmocka_run_group_tests_name("one step after the other", tests, run_alone, NULL);
  overlap = "on"; /* the answers are to be those from before */
  return failed + cmocka_run_group_tests_name("steps in flight", tests, NULL, close_model);
}
