/* Requests on tiny models of every family; in those of the first list sequences hold more than pages, or pages of
 * several kinds: recurrent states, windows, experts, shared keys and values. What a request answers, log-probabilities
 * as bytes, is the same alone, beside others, in small steps and after a preemption. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tenon/tenon.h"
#include "support/engine.h"

#define REQUESTS 4u
#define ANSWER 24u
#define TOY TEST_MODULES "/module-device-toy.so"

typedef struct answer {
  int32_t tokens[ANSWER];
  float logprobs[ANSWER];
  uint32_t count;
} answer;

static const char *const models[] = {"qwen35",     "qwen3next",    "gemma3",    "gemma4-ple",
                                     "gemma4-moe", "gptoss-mxfp4", "deepseek3", "gpt2"};

/* Of data/shapes, made for few positions. */
static const char *const shapes[] = {
    "llama-groups3",      "granite-odd",         "smollm3-listed",  "mixtral-odd",       "mistral-wide-heads",
    "qwen2-yarn-window",  "qwen2moe-mixed",      "qwen3-listed",    "qwen3moe-window",   "qwen3next-dense",
    "qwen35-plain-heads", "qwen35moe-odd",       "gemma2-odd",      "gemma3-listed",     "gemma3n-odd",
    "gemma3n-streams",    "gemma4-shared-order", "gptoss-one-kv",   "phi3-partial-long", "olmo2-one-kv",
    "olmo3-odd",          "deepseek3-groups",    "deepseek3-direct"};

/* How long prompts and answers are, and which ids they have. */
typedef struct lengths {
  uint32_t prompt, more, answer, vocabulary, context;
} lengths;

static tn_request *submit(tn_engine *engine, const lengths *l, uint32_t number) {
  int32_t prompt[104];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++) prompt[i] = (int32_t)((i * 31u + number * 17u) % l->vocabulary);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = prompt;
  options.token_count = l->prompt + l->more * number;
  options.max_tokens = l->answer;
  options.ignore_eos = 1;
  options.logprobs = 1;
  options.temperature = number % 2 ? 1.0f : 0.0f;
  options.seed = number;
  return must_submit(engine, &options);
}

static answer pull(tn_request *request, const lengths *l) {
  answer got = {0};
  tn_output output = TN_OUTPUT;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    if (output.token < 0) continue; /* half a character at the end */
    assert_true(got.count < ANSWER);
    got.tokens[got.count] = output.token;
    got.logprobs[got.count++] = output.logprob;
  }
  if (output.kind != TN_OUTPUT_DONE) fail_msg("%s", output.error.message);
  assert_int_equal(got.count, l->answer);
  tn_request_destroy(request);
  return got;
}

static void run_together(const tn_model *model, const tn_engine_options *options, const lengths *l, const answer *alone,
                         bool has_room) {
  tn_engine *engine = must_start(model, options);
  for (int round = 0; round < 2; round++) {
    tn_request *requests[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) requests[i] = submit(engine, l, i);
    for (uint32_t i = 0; i < REQUESTS; i++) {
      answer got = pull(requests[i], l);
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

static void check_model(const char *path, const lengths *l, const char *kv, const char *place) {
  tn_model *model;
  tn_error error;
  answer alone[REQUESTS];
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  print_message("%s, KV in %s\n", path, kv);
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  options.kv = kv;
  options.place = place;
  options.context = l->context;
  options.max_sequences = 1;
  options.no_prefix_cache = 1;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    tn_engine *engine = must_start(model, &options);
    alone[i] = pull(submit(engine, l, i), l);
    tn_engine_describe(engine, &info);
    tn_engine_destroy(engine);
  }
  options.max_sequences = REQUESTS;
  options.no_prefix_cache = 0;
  run_together(model, &options, l, alone, true);
  options.chunk = 7;
  run_together(model, &options, l, alone, true);
  if (info.states) { /* room for two snapshots, of four sequences */
    options.snapshot_bytes = 2 * info.state_bytes + 1;
    tn_engine_info tight = TN_ENGINE_INFO;
    tn_engine *engine = must_start(model, &options);
    tn_engine_describe(engine, &tight);
    assert_int_equal(tight.states, 2 * REQUESTS + 2);
    tn_engine_destroy(engine);
    run_together(model, &options, l, alone, false);
  }
  options.kv_bytes = info.kv_bytes + info.kv_bytes / 2; /* for one and a half: they take turns */
  run_together(model, &options, l, alone, false);
  tn_model_close(model);
}

static void neighbours_steps_and_turns_change_nothing(void **state) {
  (void)state;
  const lengths l = {20, 13, ANSWER, 300, 128};
  char path[300];
  for (size_t i = 0; i < TN_COUNT(models); i++) {
    snprintf(path, sizeof path, "%s/golden/%s%s", TEST_DATA, models[i],
             strcmp(models[i], "deepseek3") ? "/model.gguf" : "");
    check_model(path, &l, "f16", NULL);
    if (i % 2 == 0) check_model(path, &l, "int8", NULL);
  }
}

static void so_for_every_family(void **state) {
  (void)state;
  const lengths l = {34, 4, 14, 60, 64};
  char path[300];
  for (size_t i = 0; i < TN_COUNT(shapes); i++) {
    snprintf(path, sizeof path, "%s/%s", TEST_SHAPES, shapes[i]);
    check_model(path, &l, "f16", NULL);
  }
}

/* Layers, and with them pages and states, lie on three devices, one of them in memory of its own. */
static void so_on_several_devices(void **state) {
  (void)state;
  static const char place[] = "0=cpu,threads=1,1-2=reference,private-memory=1,rest=cpu,threads=2";
  static const char *const placed[] = {"qwen35", "gemma4-ple", "llama"};
  const lengths l = {20, 13, ANSWER, 300, 128};
  char path[300];
  for (size_t i = 0; i < TN_COUNT(placed); i++) {
    snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, placed[i]);
    check_model(path, &l, i ? "int8" : "f16", place);
  }
}

/* On a card of fixed shapes: no prefix cache, no pages to be short of; KV in regions, recurrent states in slots. */
static void so_on_fixed_shapes(void **state) {
  (void)state;
  static const char *const places[] = {"rest=" TOY, "0=" TOY ",1=cpu,threads=1,rest=reference,private-memory=1",
                                       "rest=" TOY ",lacks=linear"};
  static const char *const fixed[] = {"qwen35", "qwen3next", "gemma4-ple"};
  const lengths l = {100, 1, ANSWER, 300, 256}; /* answers go over 128 */
  char path[300];
  for (size_t i = 0; i < TN_COUNT(fixed); i++) {
    tn_model *model;
    tn_error error;
    answer alone[REQUESTS];
    tn_engine_options options = TN_ENGINE_OPTIONS;
    snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, fixed[i]);
    if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
    options.place = places[i % TN_COUNT(places)];
    options.context = l.context;
    options.max_sequences = 1;
    for (uint32_t r = 0; r < REQUESTS; r++) {
      tn_engine *engine = must_start(model, &options);
      alone[r] = pull(submit(engine, &l, r), &l);
      tn_engine_destroy(engine);
    }
    options.max_sequences = REQUESTS - 1; /* regions are used again */
    run_together(model, &options, &l, alone, false);
    options.chunk = 7;
    run_together(model, &options, &l, alone, false);
    options.draft = "ngram";
    run_together(model, &options, &l, alone, false);
    tn_model_close(model);
  }
}

/* All layers see 12 positions: three pages are enough for a sequence of four, which gives them back as it goes. */
static void pages_behind_a_window_are_used_again(void **state) {
  (void)state;
  const lengths l = {100, 0, ANSWER, 300, 128};
  tn_model *model;
  tn_error error;
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  if (tn_model_open(TEST_DATA "/golden/mistral-window", &model, &error) != TN_OK) fail_msg("%s", error.message);
  options.context = l.context;
  options.max_sequences = 1;
  options.no_prefix_cache = 1;
  tn_engine *engine = must_start(model, &options);
  answer roomy = pull(submit(engine, &l, 1), &l);
  tn_engine_describe(engine, &info);
  tn_engine_destroy(engine);
  assert_int_equal(info.pages, 4);
  options.chunk = 1;
  options.kv_bytes = info.kv_bytes / info.pages * 3;
  engine = must_start(model, &options);
  answer tight = pull(submit(engine, &l, 1), &l);
  tn_engine_describe(engine, &info);
  assert_int_equal(info.pages, 3);
  assert_int_equal(info.context, l.context);
  assert_int_equal(info.preemptions, 0);
  assert_memory_equal(&tight, &roomy, sizeof tight);
  tn_engine_destroy(engine);
  tn_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(neighbours_steps_and_turns_change_nothing),
                                     cmocka_unit_test(so_for_every_family), cmocka_unit_test(so_on_several_devices),
                                     cmocka_unit_test(so_on_fixed_shapes),
                                     cmocka_unit_test(pages_behind_a_window_are_used_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
