/* Requests on tiny models whose sequences hold more than pages, or pages of several kinds: recurrent states, windows,
 * experts, shared keys and values. What a request answers, log-probabilities as bytes, is the same alone, beside
 * others, in small steps and after a preemption. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tenon/tenon.h"

#define REQUESTS 4u
#define ANSWER 24u

typedef struct answer {
  int32_t tokens[ANSWER];
  float logprobs[ANSWER];
  uint32_t count;
} answer;

static const char *const models[] = {"qwen35",     "qwen3next",    "gemma3",   "gemma4-ple",
                                     "gemma4-moe", "gptoss-mxfp4", "deepseek3"};

static tn_engine *start(const tn_model *model, const tn_engine_options *options) {
  tn_engine *engine;
  tn_error error;
  if (tn_engine_create(model, options, &engine, &error) != TN_OK) fail_msg("%s", error.message);
  return engine;
}

static tn_request *submit(tn_engine *engine, uint32_t number) {
  int32_t prompt[64];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++) prompt[i] = (int32_t)((i * 31u + number * 17u) % 300u);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = prompt;
  options.token_count = 20 + 13 * number;
  options.max_tokens = ANSWER;
  options.ignore_eos = 1;
  options.logprobs = 1;
  options.temperature = number % 2 ? 1.0f : 0.0f;
  options.seed = number;
  tn_request *request;
  tn_error error;
  if (tn_engine_submit(engine, &options, &request, &error) != TN_OK) fail_msg("%s", error.message);
  return request;
}

static answer pull(tn_request *request) {
  answer got = {0};
  tn_output output = TN_OUTPUT;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    if (output.token < 0) continue; /* half a character at the end */
    assert_true(got.count < ANSWER);
    got.tokens[got.count] = output.token;
    got.logprobs[got.count++] = output.logprob;
  }
  if (output.kind != TN_OUTPUT_DONE) fail_msg("%s", output.error.message);
  assert_int_equal(got.count, ANSWER);
  tn_request_destroy(request);
  return got;
}

static void run_together(const tn_model *model, const tn_engine_options *options, const answer *alone, bool has_room) {
  tn_engine *engine = start(model, options);
  for (int round = 0; round < 2; round++) {
    tn_request *requests[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) requests[i] = submit(engine, i);
    for (uint32_t i = 0; i < REQUESTS; i++) {
      answer got = pull(requests[i]);
      assert_memory_equal(got.tokens, alone[i].tokens, sizeof got.tokens);
      assert_memory_equal(got.logprobs, alone[i].logprobs, sizeof got.logprobs);
    }
  }
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(engine, &info);
  if (has_room) assert_true(info.cached_tokens >= 3 * 32); /* the longer prompts of the second round */
  assert_int_equal(info.pages_used, 0);
  tn_engine_destroy(engine);
}

static void check_model(const char *name, const char *kv) {
  char path[300];
  tn_model *model;
  tn_error error;
  answer alone[REQUESTS];
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  print_message("%s, KV in %s\n", name, kv);
  snprintf(path, sizeof path, "%s/golden/%s%s", TEST_DATA, name, strcmp(name, "deepseek3") ? "/model.gguf" : "");
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  options.kv = kv;
  options.context = 128;
  options.max_sequences = 1;
  options.no_prefix_cache = 1;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    tn_engine *engine = start(model, &options);
    alone[i] = pull(submit(engine, i));
    tn_engine_describe(engine, &info);
    tn_engine_destroy(engine);
  }
  options.max_sequences = REQUESTS;
  options.no_prefix_cache = 0;
  run_together(model, &options, alone, true);
  options.chunk = 7;
  run_together(model, &options, alone, true);
  options.kv_bytes = info.kv_bytes + info.kv_bytes / 2; /* for one and a half: they take turns */
  run_together(model, &options, alone, false);
  tn_model_close(model);
}

static void neighbours_steps_and_turns_change_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < TN_COUNT(models); i++) check_model(models[i], "f16");
  for (size_t i = 0; i < TN_COUNT(models); i += 2) check_model(models[i], "int8");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(neighbours_steps_and_turns_change_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
