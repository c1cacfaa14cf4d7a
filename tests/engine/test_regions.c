/* Steps on a device with a shape profile (examples/driver-toy: 1 or 32 rows, KV of 128 or 512 slots): promotion from
 * one length to the next changes no bit, at any boundary; nor do chunks and neighbours; the specialised programs give
 * the bytes of the paged ones; padding moves no recurrent state on; what can't be had is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/equalities.h"
#include "engine/runner.h"
#include "tenon/tenon.h"

#define TOY TEST_MODULES "/module-device-toy.so"
#define CONTEXT 200u
#define TOKENS 175u
#define VOCABULARY 290 /* tokens are below it in all models used here */

/* With rope, learned positions, grouped heads, biases, windows, sinks, layers that share KV; 256 positions each. */
static const char *const MODELS[] = {"llama-linear-sharded", "llama-rope3-tied", "gemma3",
                                     "gptoss-plain",         "gemma4",           "gemma4-ple"};

/* With recurrent states, which the card leaves to the cpu. */
static const char *const RECURRENT[] = {"qwen35", "qwen35moe", "qwen3next"};

static tn_model *open_model(const char *name, const char *file) {
  char path[512];
  tn_error error;
  tn_model *model;
  snprintf(path, sizeof path, "%s/golden/%s%s", TEST_DATA, name, file);
  equal_ok(tn_model_open(path, &model, &error), &error);
  return model;
}

static tn_runner_options options_for(const char *device, const char *kv) {
  return (tn_runner_options){.device = device,
                             .kv = kv,
                             .activations = "float",
                             .max_rows = 160,
                             .max_sequences = 9,
                             .max_context = CONTEXT,
                             .pages = 63};
}

static void fill_tokens(int32_t *tokens) {
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)((i * 37u + i * i) % VOCABULARY);
}

/* Logits of the tokens in steps of `chunk` rows. */
static float *logits_of(const tn_model *model, const char *device, const char *kv, uint32_t chunk) {
  tn_error error;
  tn_runner *runner;
  int32_t tokens[TOKENS];
  const tn_runner_options options = options_for(device, kv);
  fill_tokens(tokens);
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  float *logits = equal_run(runner, tokens, TOKENS, chunk, 0);
  tn_runner_destroy(runner);
  return logits;
}

static void expect_same(const float *got, const float *wanted, uint32_t vocabulary, const char *what) {
  for (uint32_t i = 0; i < TOKENS; i++)
    equal_compare(got + (size_t)i * vocabulary, wanted + (size_t)i * vocabulary, vocabulary, what, i);
}

static uint32_t vocabulary_of(const tn_model *model) {
  tn_model_info info = TN_MODEL_INFO;
  tn_model_describe(model, &info);
  return info.vocabulary;
}

/* Pieces of 32 rows and of one meet the 128 slots in every way: they end below, at and behind it (96, 97, 100), the
 * last slot is filled by one row or by padding's neighbour (127, 1), the region is full when the next row comes (128).
 */
static const uint32_t CHUNKS[] = {1, 32, 96, 97, 100, 127, 128, 129, 7};

static void promotion_changes_no_bit(void **state) {
  (void)state;
  for (size_t m = 0; m < TN_COUNT(MODELS); m++) {
    tn_model *model = open_model(MODELS[m], "");
    uint32_t vocabulary = vocabulary_of(model);
    float *paged = logits_of(model, "reference", "f16", 32);
    float *native = logits_of(model, TOY ",length=512", "f16", 32);
    expect_same(native, paged, vocabulary, "512 slots and pages");
    for (size_t c = 0; c < TN_COUNT(CHUNKS); c++) {
      float *promoted = logits_of(model, TOY, "f16", CHUNKS[c]);
      expect_same(promoted, native, vocabulary, MODELS[m]);
      free(promoted);
    }
    free(native);
    free(paged);
    tn_model_close(model);
  }
}

static void holds_in_every_kv_dtype(void **state) {
  (void)state;
  static const char *const KV[] = {"f32", "bf16"};
  tn_model *model = open_model(MODELS[0], "");
  for (size_t k = 0; k < TN_COUNT(KV); k++) {
    float *paged = logits_of(model, "reference", KV[k], 32), *promoted = logits_of(model, TOY, KV[k], 127);
    expect_same(promoted, paged, vocabulary_of(model), KV[k]);
    free(paged);
    free(promoted);
  }
  tn_model_close(model);
}

/* Where the attention, and so the KV, is the cpu's; and where every second op is. */
static void promotion_holds_on_mixed_placements(void **state) {
  static const char *const LACKS[] = {"attention_masked", "kv_columns", "norm", "attention_masked@1", "kv_columns@32"};
  tn_model *model = open_model(*state, "");
  for (size_t i = 0; i < TN_COUNT(LACKS); i++) {
    char promoting[600], native[600];
    snprintf(promoting, sizeof promoting, "%s,lacks=%s", TOY, LACKS[i]);
    snprintf(native, sizeof native, "%s,length=512,lacks=%s", TOY, LACKS[i]);
    float *got = logits_of(model, promoting, "f16", 127), *wanted = logits_of(model, native, "f16", 32);
    expect_same(got, wanted, vocabulary_of(model), LACKS[i]);
    free(got);
    free(wanted);
  }
  tn_model_close(model);
}

/* A row at a time there is no padding. */
static void padding_moves_no_recurrent_state(void **state) {
  (void)state;
  for (size_t m = 0; m < TN_COUNT(RECURRENT); m++) {
    tn_model *model = open_model(RECURRENT[m], "");
    float *alone = logits_of(model, TOY ",length=512", "f16", 1);
    for (size_t c = 0; c < TN_COUNT(CHUNKS); c++) {
      float *chunks = logits_of(model, TOY, "f16", CHUNKS[c]);
      expect_same(chunks, alone, vocabulary_of(model), RECURRENT[m]);
      free(chunks);
    }
    free(alone);
    tn_model_close(model);
  }
}

static void chunks_and_neighbours_change_nothing(void **state) {
  tn_error error;
  tn_model *model = open_model(*state, "");
  const tn_runner_options options = options_for(TOY, "f16");
  tn_runner *runner;
  int32_t tokens[TOKENS];
  fill_tokens(tokens);
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  float *alone = equal_run(runner, tokens, 140, 1, 0);
  equal_chunks(runner, tokens, 140, alone);
  equal_batch(runner, tokens, 140, alone);
  free(alone);
  tn_runner_destroy(runner);
  tn_model_close(model);
}

static void the_context_is_cut_to_the_longest_length(void **state) {
  (void)state;
  tn_error error;
  tn_model *model = open_model(MODELS[0], "");
  tn_runner_options options = options_for(TOY ",length=128", "f16");
  tn_runner *runner;
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  assert_int_equal(tn_runner_describe(runner)->max_context, 128);
  tn_runner_destroy(runner);
  tn_model_close(model);
}

/* A refusal is a status and a sentence, not a wrong answer. */
static void what_cannot_be_had_is_refused(void **state) {
  (void)state;
  tn_error error;
  tn_runner *runner = NULL;
  tn_runner_options options = options_for(TOY, "f16");
  tn_model *model = open_model(MODELS[0], "");
  options.kv_bytes = 1000;
  assert_int_equal(tn_runner_create(model, &options, &runner, &error), TN_E_LIMIT);
  options.kv_bytes = 0;
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  assert_int_equal(tn_runner_copy_page(runner, 0, 1, 2, &error), TN_E_UNSUPPORTED);
  tn_runner_counter *counters;
  size_t count;
  assert_int_equal(tn_runner_counters(runner, &counters, &count, &error), TN_E_UNSUPPORTED);

  const tn_row row = {.token = 1, .position = {5, 5, 5, 5}, .wants_logits = 1};
  const tn_sequence sequence = {.row_count = 1, .kv_length = 5, .state_write = 1}; /* of KV that nobody wrote */
  const uint32_t first = 0;
  const tn_batch batch = {.size = sizeof batch,
                          .row_count = 1,
                          .sequence_count = 1,
                          .logits_count = 1,
                          .context = 6,
                          .rows = &row,
                          .sequences = &sequence,
                          .logits_rows = &first};
  assert_int_equal(tn_runner_submit(runner, &batch, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "holds 0 slots"));
  tn_runner_destroy(runner);
  tn_model_close(model);
}

static void int8_is_refused(void **state) {
  (void)state;
  tn_error error;
  tn_runner *runner;
  tn_model *model = open_model(MODELS[0], "");
  const tn_runner_options options = options_for(TOY, "int8");
  assert_int_equal(tn_runner_create(model, &options, &runner, &error), TN_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "int8"));
  tn_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(promotion_changes_no_bit),
      cmocka_unit_test(holds_in_every_kv_dtype),
      cmocka_unit_test_prestate(promotion_holds_on_mixed_placements, (void *)MODELS[0]),
      cmocka_unit_test_prestate(promotion_holds_on_mixed_placements, (void *)RECURRENT[0]),
      cmocka_unit_test(padding_moves_no_recurrent_state),
      cmocka_unit_test_prestate(chunks_and_neighbours_change_nothing, (void *)MODELS[0]),
      cmocka_unit_test_prestate(chunks_and_neighbours_change_nothing, (void *)RECURRENT[0]),
      cmocka_unit_test(the_context_is_cut_to_the_longest_length),
      cmocka_unit_test(what_cannot_be_had_is_refused),
      cmocka_unit_test(int8_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
