/* The saved prefix cache on tiny models of families that keep different things: an engine that loads it answers as the
 * one that saved it, log-probabilities as bytes, and skips what it knows; other models and configurations refuse it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tenon/tenon.h"
#include "support/engine.h"

#define ANSWER 40u

typedef struct answer {
  int32_t tokens[ANSWER];
  float logprobs[ANSWER];
  uint32_t count, cached;
} answer;

static char path[64];

static tn_model *open_model(const char *name) {
  char file[400];
  tn_model *model;
  tn_error error;
  snprintf(file, sizeof file, "%s/golden/%s/model.gguf", TEST_DATA, name);
  if (tn_model_open(file, &model, &error) != TN_OK) fail_msg("%s", error.message);
  return model;
}

static tn_engine_options plain(void) {
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 192;
  options.max_sequences = 3;
  return options;
}

static void expect(tn_status status, tn_status wanted, const tn_error *error, const char *words) {
  if (status != wanted) fail_msg("%d: %s", (int)status, error->message);
  if (words) assert_non_null(strstr(error->message, words));
}

static tn_request *ask(tn_engine *engine, uint32_t number, answer *got) {
  int32_t prompt[100];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++) prompt[i] = (int32_t)((i * 31u + number * 17u + i * i) % 300u);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = prompt;
  options.token_count = 70 + number;
  options.max_tokens = ANSWER;
  options.ignore_eos = options.logprobs = 1;
  options.temperature = 1.0f;
  options.seed = number;
  tn_request *request;
  tn_error error;
  expect(tn_engine_submit(engine, &options, &request, &error), TN_OK, &error, NULL);
  *got = (answer){0};
  tn_output output = TN_OUTPUT;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    if (output.token < 0) continue;
    got->tokens[got->count] = output.token;
    got->logprobs[got->count++] = output.logprob;
  }
  if (output.kind != TN_OUTPUT_DONE) fail_msg("%s", output.error.message);
  got->cached = output.cached_tokens;
  return request;
}

static void ask_again(tn_engine *engine, uint32_t number, const answer *before, uint32_t cached) {
  answer got;
  tn_request_destroy(ask(engine, number, &got));
  assert_int_equal(got.cached, cached);
  assert_memory_equal(got.tokens, before->tokens, sizeof got.tokens);
  assert_memory_equal(got.logprobs, before->logprobs, sizeof got.logprobs);
}

static void loaded_answers_like_saved(void **state) {
  (void)state;
  static const char *const models[] = {"llama", "gemma3", "gptoss-mxfp4", "qwen35", "qwen3next", "gemma4-ple"};
  static const char *const types[] = {"int8", NULL, "f32", "int8", NULL, "bf16"};
  for (size_t m = 0; m < TN_COUNT(models); m++) {
    tn_model *model = open_model(models[m]);
    tn_error error;
    tn_engine_options options = plain();
    options.kv = types[m];
    options.device = m % 2 ? "reference,private-memory=1" : NULL;
    answer answers[2];
    tn_engine *engine = must_start(model, &options);
    for (uint32_t i = 0; i < 2; i++) tn_request_destroy(ask(engine, i, &answers[i]));
    expect(tn_engine_save_cache(engine, path, &error), TN_OK, &error, NULL);
    tn_engine_destroy(engine);
    options.context = 160; /* sizes of memory are no part of the configuration */
    options.chunk = 16;
    engine = must_start(model, &options);
    expect(tn_engine_load_cache(engine, path, &error), TN_OK, &error, NULL);
    for (uint32_t i = 0; i < 2; i++) ask_again(engine, i, &answers[i], 64);
    tn_engine_destroy(engine);
    tn_model_close(model);
  }
}

static void a_session_has_its_note(void **state) {
  (void)state;
  tn_model *model = open_model("qwen35");
  tn_error error;
  tn_engine_options options = plain();
  answer answers[2];
  char *note;
  tn_engine *engine = must_start(model, &options);
  tn_request_destroy(ask(engine, 0, &answers[0]));
  tn_request *request = ask(engine, 1, &answers[1]);
  expect(tn_engine_save_session(engine, request, "said so far", path, &error), TN_OK, &error, NULL);
  tn_request_destroy(request);
  tn_engine_destroy(engine);
  engine = must_start(model, &options);
  expect(tn_engine_load_session(engine, path, &note, &error), TN_OK, &error, NULL);
  assert_string_equal(note, "said so far");
  tn_free(note);
  ask_again(engine, 0, &answers[0], 0);
  ask_again(engine, 1, &answers[1], 64);
  expect(tn_engine_save_session(engine, NULL, "nothing said", path, &error), TN_OK, &error, NULL);
  tn_engine_destroy(engine);
  options.kv = "f32";
  engine = must_start(model, &options);
  expect(tn_engine_load_session(engine, path, &note, &error), TN_E_UNSUPPORTED, &error, "another configuration");
  assert_string_equal(note, "nothing said"); /* the note is good all the same */
  tn_free(note);
  tn_engine_destroy(engine);
  tn_model_close(model);
}

static void refused_by(const char *name, const tn_engine_options *options, const char *words) {
  tn_model *model = open_model(name);
  tn_engine *engine = must_start(model, options);
  tn_error error;
  tn_engine_info info = TN_ENGINE_INFO;
  expect(tn_engine_load_cache(engine, path, &error), TN_E_UNSUPPORTED, &error, words);
  tn_engine_describe(engine, &info);
  assert_int_equal(info.pages_cached, 0);
  tn_engine_destroy(engine);
  tn_model_close(model);
}

static void others_refuse_it(void **state) {
  (void)state;
  tn_model *model = open_model("llama");
  tn_engine_options options = plain();
  tn_error error;
  answer got;
  tn_engine *engine = must_start(model, &options);
  tn_request_destroy(ask(engine, 0, &got));
  expect(tn_engine_save_cache(engine, path, &error), TN_OK, &error, NULL);
  expect(tn_engine_save_cache(engine, "/nowhere/at/all", &error), TN_E_NOT_FOUND, &error, "/nowhere/at/all");
  expect(tn_engine_load_cache(engine, "/nowhere/at/all", &error), TN_E_NOT_FOUND, &error, "/nowhere/at/all");
  tn_engine_destroy(engine);
  tn_model_close(model);
  refused_by("llama-gqa3", &options, "another model");
  refused_by("qwen35", &options, "another model");
  options.kv = "f32";
  refused_by("llama", &options, "another configuration");
  options.kv = NULL;
  options.activations = "float";
  refused_by("llama", &options, "another configuration");
  options.activations = NULL;
  options.device = "reference";
  refused_by("llama", &options, "another configuration");
  options.device = NULL;
  options.no_prefix_cache = 1;
  refused_by("llama", &options, "no prefix cache");
}

static int name_file(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/tenon-test-cache-%d.kv", (int)getpid());
  return 0;
}

static int remove_file(void **state) {
  (void)state;
  return remove(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loaded_answers_like_saved),
      cmocka_unit_test(a_session_has_its_note),
      cmocka_unit_test(others_refuse_it),
  };
  return cmocka_run_group_tests(tests, name_file, remove_file);
}
