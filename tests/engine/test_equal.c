/* The equalities on tiny models of each family, on every device and in every KV dtype. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/runner.h"
#include "equalities.h"
#include "tenon/tenon.h"

#define TOKENS 75u

static const char *const MODELS[] = {"llama",        "llama-gqa3", "llama-rope3-tied", "gpt2",     "gemma4-ple",
                                     "gptoss-mxfp4", "qwen35",     "qwen3next",        "deepseek3"};
static const char *const KV[] = {"f16", "f32", "bf16", "int8"};

/* Where a model runs: on a device, or spread over several; and what its weights become there, NULL: nothing. */
typedef struct home {
  const char *device, *place, *weights;
} home;

static float *check_placed(const char *name, home where, const char *kv) {
  char path[512];
  bool is_folder = !strcmp(name, "deepseek3") || !strcmp(name, "qwen3moe");
  snprintf(path, sizeof path, "%s/golden/%s%s", TEST_DATA, name, is_folder ? "" : "/model.gguf");
  tn_error error;
  tn_model *model;
  equal_ok(tn_model_open(path, &model, &error), &error);
  tn_runner_options options = {.device = where.device,
                               .place = where.place,
                               .weights = where.weights,
                               .kv = kv,
                               .max_rows = 64,
                               .max_sequences = 8,
                               .max_context = 96,
                               .pages = 24,
                               .state_slots = 18,
                               .snapshots = 3};
  tn_runner *runner;
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  int32_t tokens[TOKENS];
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)((i * 37u + i * i) % 300u);
  float *alone = equal_all(runner, tokens, TOKENS);
  tn_runner_destroy(runner);
  tn_model_close(model);
  return alone;
}

static float *check_model(const char *name, const char *device, const char *kv) {
  return check_placed(name, (home){.device = device}, kv);
}

static void check_device(const char *device) {
  for (size_t m = 0; m < TN_COUNT(MODELS); m++)
    for (size_t k = 0; k < TN_COUNT(KV); k++) free(check_model(MODELS[m], device, KV[k]));
}

static void holds_on_cpu(void **state) {
  (void)state;
  check_device("cpu");
}

static void holds_in_private_memory(void **state) {
  (void)state;
  check_device("reference,private-memory=1");
}

/* One model's logits are the same bytes on both devices, whatever the KV's type. */
static void check_same(const char *device, const char *other) {
  static const char *const kv[] = {"f16", "int8"};
  for (size_t k = 0; k < TN_COUNT(kv); k++) {
    float *here = check_model("llama", device, kv[k]);
    float *there = check_model("llama", other, kv[k]);
    assert_memory_equal(here, there, TOKENS * 320 * sizeof(float));
    free(here);
    free(there);
  }
}

/* Private memory changes nothing but where it lies. */
static void private_memory_is_the_reference(void **state) {
  (void)state;
  check_same("reference", "reference,private-memory=1");
}

static void threads_change_nothing(void **state) {
  (void)state;
  check_same("cpu,threads=1", "cpu,threads=2");
}

/* Experts of 4, 8 and 16 bits, which take 8-bit activations and bf16 ones: with any number of threads. */
static void experts_hold_in_every_type(void **state) {
  (void)state;
  static const char *const models[] = {"qwen3moe", "gemma4-moe"}, *const weights[] = {"q4_0", "q8_0", "mxfp4", NULL};
  for (size_t m = 0; m < TN_COUNT(models); m++)
    for (size_t w = 0; w < TN_COUNT(weights); w++) {
      float *one = check_placed(models[m], (home){.device = "cpu,threads=1", .weights = weights[w]}, "f16");
      float *two = check_placed(models[m], (home){.device = "cpu,threads=2", .weights = weights[w]}, "f16");
      assert_memory_equal(one, two, TOKENS * 320 * sizeof(float));
      free(one);
      free(two);
    }
}

/* Each model spread over several devices of one kind gives the bits of one of them, however they lie. */
static void placement_changes_nothing(void **state) {
  (void)state;
  static const char *const models[] = {"llama", "gemma4-ple", "qwen35", "gptoss-mxfp4"};
  static const struct {
    const char *device, *place;
  } spread[] = {
      {"cpu,threads=1", "0=cpu,threads=1,1=cpu,threads=2,rest=cpu"},
      {"reference", "layer 1=reference,private-memory=1,rest=reference"},
      {"reference", "0-1=reference,private-memory=1,rest=faulty:reference"},
  };
  for (size_t m = 0; m < TN_COUNT(models); m++)
    for (size_t s = 0; s < TN_COUNT(spread); s++) {
      const char *kv = KV[(m + s) % TN_COUNT(KV)];
      float *alone = check_model(models[m], spread[s].device, kv);
      float *placed = check_placed(models[m], (home){.place = spread[s].place}, kv);
      assert_memory_equal(placed, alone, TOKENS * 320 * sizeof(float));
      free(alone);
      free(placed);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_on_cpu),
      cmocka_unit_test(holds_in_private_memory),
      cmocka_unit_test(private_memory_is_the_reference),
      cmocka_unit_test(threads_change_nothing),
      cmocka_unit_test(experts_hold_in_every_type),
      cmocka_unit_test(placement_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
