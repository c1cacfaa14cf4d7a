/* The equalities on the default model as shipped (the path is in TENON_TEST_MODEL): 4-bit weights with 8-bit
 * activations and plain floats, on the cpu, by KV dtype and number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/equalities.h"
#include "engine/runner.h"
#include "tenon/tenon.h"

#define TOKENS 70u

static tn_model *model;
static uint32_t token_count = TOKENS; /* or the number that is the first argument: more than a page, at most TOKENS */

static float *check(const char *device, const char *kv, const char *activations, bool all) {
  tn_error error;
  tn_runner_options options = {.device = device,
                               .kv = kv,
                               .activations = activations,
                               .max_rows = 128,
                               .max_sequences = 8,
                               .max_context = 96,
                               .pages = 24};
  tn_runner *runner;
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  int32_t tokens[TOKENS];
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)((i * 7919u + i * i) % 49000u);
  float *alone = all ? equal_all(runner, tokens, token_count) : equal_run(runner, tokens, token_count, 1, 0);
  tn_runner_destroy(runner);
  return alone;
}

static void holds_by_kv_and_activations(void **state) {
  (void)state;
  free(check("cpu", "f32", "auto", true));
  free(check("cpu", "f16", "float", true));
  free(check("cpu", "int8", "auto", true));
}

static void holds_with_one_thread_and_two(void **state) {
  (void)state;
  float *one = check("cpu,threads=1", "f16", "auto", true);
  float *two = check("cpu,threads=2", "f16", "auto", false);
  assert_memory_equal(one, two, (size_t)token_count * 49152 * sizeof(float));
  free(one);
  free(two);
}

static int open_model(void **state) {
  (void)state;
  tn_error error;
  if (tn_model_open(getenv("TENON_TEST_MODEL"), &model, &error) == TN_OK) return 0;
  fprintf(stderr, "%s\n", error.message);
  return 1;
}

static int close_model(void **state) {
  (void)state;
  tn_model_close(model);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1) token_count = (uint32_t)atoi(argv[1]);
  if (token_count <= TN_PAGE_SLOTS || token_count > TOKENS) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_by_kv_and_activations),
      cmocka_unit_test(holds_with_one_thread_and_two),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
