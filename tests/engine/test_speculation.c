/* Answers with speculation are those without, tokens and log-probabilities as bytes: tiny models of a plain, a
 * windowed, an expert and a recurrent family, temperature 0 and 1, n-gram lookup, the model itself and a model that
 * knows nothing as drafters, several sequences at once, on `cpu` and on `reference` with private memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "tenon/tenon.h"
#include "support/engine.h"

#define REQUESTS 4u
#define ANSWER 24u

typedef struct answer {
  int32_t tokens[ANSWER];
  float logprobs[ANSWER], second[ANSWER];
  uint32_t count;
} answer;

static const char *path_of(const char *name, char path[300]) {
  snprintf(path, 300, "%s/golden/%s/model.gguf", TEST_DATA, name);
  return path;
}

static tn_request *submit(tn_engine *engine, uint32_t number) {
  int32_t prompt[64];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++) prompt[i] = (int32_t)((i % 12 * 31u + number * 17u) % 300u);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = prompt;
  options.token_count = 20 + 13 * number;
  options.max_tokens = ANSWER;
  options.ignore_eos = 1;
  options.logprobs = 1;
  options.top_logprobs = 2;
  options.temperature = number % 2 ? 1.0f : 0.0f;
  options.top_k = number == 3 ? 2 : 0; /* so that a drafter is right at times */
  options.repeat_penalty = number == 2 ? 1.3f : 1.0f;
  options.frequency_penalty = number == 3 ? 0.5f : 0.0f;
  options.dry_multiplier = number == 2 ? 0.8f : 0.0f;
  options.xtc_probability = number == 1 ? 0.5f : 0.0f;
  options.seed = number;
  return must_submit(engine, &options);
}

static answer pull(tn_request *request) {
  answer got = {0};
  tn_output output = TN_OUTPUT;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    if (output.token < 0) continue; /* half a character at the end */
    assert_true(got.count < ANSWER);
    got.tokens[got.count] = output.token;
    got.second[got.count] = output.top[1].logprob;
    got.logprobs[got.count++] = output.logprob;
  }
  if (output.kind != TN_OUTPUT_DONE) fail_msg("%s", output.error.message);
  assert_int_equal(got.count, ANSWER);
  tn_request_destroy(request);
  return got;
}

/* The engine's thread says how it stands after the step that ended the last request. */
static tn_engine_info settled(tn_engine *engine) {
  tn_engine_info info = TN_ENGINE_INFO;
  do tn_engine_describe(engine, &info);
  while (info.running || info.waiting);
  return info;
}

/* All of them together, the second time behind cached prefixes. */
static tn_engine_info run_rounds(const tn_model *model, const tn_engine_options *options, const answer *alone,
                                 uint32_t rounds) {
  tn_engine *engine = must_start(model, options);
  for (uint32_t round = 0; round < rounds; round++) {
    tn_request *requests[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) requests[i] = submit(engine, i);
    for (uint32_t i = 0; i < REQUESTS; i++) {
      answer got = pull(requests[i]);
      assert_memory_equal(&got, &alone[i], sizeof got);
    }
  }
  tn_engine_info info = settled(engine);
  assert_int_equal(info.pages_used, 0);
  assert_int_equal(info.draft_pages_used, 0);
  for (uint32_t i = 0; i < TN_DRAFT_POSITIONS; i++) {
    assert_true(info.accepted_at[i] <= info.drafted_at[i]);
    if (i) assert_true(info.drafted_at[i] <= info.drafted_at[i - 1]);
  }
  tn_engine_destroy(engine);
  return info;
}

/* A model, and one that shares its vocabulary and nothing else. */
typedef struct pair {
  const char *name, *stranger;
} pair;

static tn_engine_info run(const tn_model *model, const tn_engine_options *options, const answer *alone) {
  return run_rounds(model, options, alone, 1);
}

static void check_model(pair of, const char *device, const char *kv, bool is_thorough) {
  const char *name = of.name;
  char path[300], other[300];
  tn_model *model;
  tn_error error;
  answer alone[REQUESTS];
  bool has_pages = !strstr(device, "toy");
  print_message("%s on %s, %s\n", name, device, kv);
  if (tn_model_open(path_of(name, path), &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.device = device;
  options.kv = kv;
  options.context = 128;
  options.max_sequences = 1;
  options.no_prefix_cache = 1;
  tn_engine *engine = must_start(model, &options);
  for (uint32_t i = 0; i < REQUESTS; i++) alone[i] = pull(submit(engine, i));
  tn_engine_info plain = settled(engine);
  tn_engine_destroy(engine);
  options.max_sequences = REQUESTS;
  options.no_prefix_cache = 0;
  options.draft = "ngram";
  for (options.draft_k = is_thorough ? 0 : 5; options.draft_k <= 15; options.draft_k += 5) run(model, &options, alone);
  options.draft = path;
  options.draft_k = 4;
  tn_engine_info itself = run(model, &options, alone);
  assert_true(itself.accepted_tokens * 10 >= itself.drafted_tokens * 9); /* some are cut off by an answer's end */
  options.draft_device = "cpu,threads=1";                                /* it looks ahead */
  itself = run(model, &options, alone);
  assert_true(itself.accepted_tokens > 0);
  options.kv_bytes = plain.kv_bytes + plain.kv_bytes / 2; /* and some are preempted in the step that drafted them */
  if (has_pages) run(model, &options, alone);
  options.kv_bytes = 0;
  options.draft_device = NULL;
  options.draft_k = 0;
  if (is_thorough) run_rounds(model, &options, alone, 2);
  options.draft = path_of(of.stranger, other);
  options.draft_k = 3;
  tn_engine_info stranger = run(model, &options, alone);
  assert_true(stranger.accepted_tokens < stranger.drafted_tokens);
  if (is_thorough) options.chunk = 7;
  run(model, &options, alone);
  options.kv_bytes = plain.kv_bytes + plain.kv_bytes / 2; /* for one and a half: they take turns */
  if (has_pages) run(model, &options, alone);
  tn_model_close(model);
}

static const pair PAIRS[] = {{"llama", "gpt2"},          {"gemma3", "gemma4-ple"}, {"gemma4-moe", "gemma3"},
                             {"gptoss-mxfp4", "qwen35"}, {"qwen35", "llama"},      {"qwen3next", "qwen35"}};

static void holds_on_cpu(void **state) {
  (void)state;
  for (size_t i = 0; i < TN_COUNT(PAIRS); i++) check_model(PAIRS[i], "cpu", "f16", true);
}

static void holds_with_small_kv(void **state) {
  (void)state;
  for (size_t i = 0; i < TN_COUNT(PAIRS); i++) check_model(PAIRS[i], "cpu", "int8", false);
}

static void holds_in_private_memory(void **state) {
  (void)state;
  for (size_t i = 0; i < TN_COUNT(PAIRS); i++)
    for (size_t kv = 0; kv < 2; kv++) check_model(PAIRS[i], "reference,private-memory=1", kv ? "int8" : "f16", false);
}

/* A device of fixed shapes, whose KV is contiguous: as target, and as drafter. */
static void holds_on_fixed_shapes(void **state) {
  (void)state;
  check_model((pair){"llama", "gpt2"}, TEST_MODULES "/module-device-toy.so", "f32", false);
}

/* `threads` are the target's; a device of its own that has no choice of them drafts all the same. What the drafting
 * model takes is told beside what the target takes. */
static void threads_are_of_the_target(void **state) {
  (void)state;
  char path[300];
  tn_model *model;
  tn_error error;
  if (tn_model_open(path_of("llama", path), &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 128;
  options.threads = 2;
  tn_engine *engine = must_start(model, &options);
  answer plain = pull(submit(engine, 0));
  tn_engine_info info = settled(engine);
  assert_int_equal(info.threads, 2);
  assert_int_equal(info.draft_weight_bytes + info.draft_kv_bytes + info.draft_arena_bytes, 0);
  tn_engine_destroy(engine);
  options.draft = path;
  options.draft_device = "reference";
  engine = must_start(model, &options);
  answer drafted = pull(submit(engine, 0));
  assert_memory_equal(&drafted, &plain, sizeof plain);
  tn_engine_info both = settled(engine);
  assert_int_equal(both.threads, 2);
  assert_true(both.weight_bytes == info.weight_bytes && both.kv_bytes == info.kv_bytes);
  assert_true(both.draft_weight_bytes > 0 && both.draft_kv_bytes > 0 && both.draft_arena_bytes > 0);
  tn_engine_destroy(engine);
  tn_model_close(model);
}

/* What can't be had is refused, and says why. */
static void refuses(const tn_model *model, const tn_engine_options *options, const char *why) {
  tn_engine *engine;
  tn_error error;
  if (tn_engine_create(model, options, &engine, &error) == TN_OK) fail_msg("made, without saying \"%s\"", why);
  if (!strstr(error.message, why)) fail_msg("\"%s\" doesn't say \"%s\"", error.message, why);
}

static void wrong_pairs_are_refused(void **state) {
  (void)state;
  char path[300], other[300];
  tn_model *model;
  tn_error error;
  if (tn_model_open(path_of("gemma3", path), &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 1; /* every prompt would be too long */
  refuses(model, &options, "context is 1");
  options.context = 64;
  options.draft = path_of("llama", other);
  refuses(model, &options, "can't draft: its vocabulary");
  options.draft = "nowhere.gguf";
  refuses(model, &options, "nowhere.gguf");
  options.draft = "ngram";
  options.draft_device = "cpu";
  refuses(model, &options, "draft_device");
  options.draft_device = NULL;
  options.draft_k = 16;
  refuses(model, &options, "at most 15");
  options.draft_k = 0;
  options.draft_accept = 1.5f;
  refuses(model, &options, "draft_accept");
  options.draft_accept = 0;
  options.draft = NULL;
  options.draft_k = 3;
  refuses(model, &options, "need a drafter");
  tn_model_close(model);
}

int main(void) {
  tn_log_set_level(TN_LOG_ERROR);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_on_cpu),
      cmocka_unit_test(holds_with_small_kv),
      cmocka_unit_test(holds_in_private_memory),
      cmocka_unit_test(holds_on_fixed_shapes),
      cmocka_unit_test(threads_are_of_the_target),
      cmocka_unit_test(wrong_pairs_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
