/* Groups with a window have as many pages as their sequences' windows need, whatever the context: the bytes are those
 * counted, and every equality holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "equalities.h"
#include "model/model.h"

#define TOKENS 75u
#define ROWS 64u

static tn_runner *must_make(const tn_model *model, const char *device, uint32_t windows, uint64_t kv_bytes) {
  tn_error error;
  tn_runner *runner;
  const tn_runner_options options = {.device = device,
                                     .max_rows = ROWS,
                                     .max_sequences = 8,
                                     .max_context = 96,
                                     .pages = 400,
                                     .windows = windows,
                                     .kv_bytes = kv_bytes};
  if (tn_runner_create(model, &options, &runner, &error) != TN_OK) fail_msg("%s", error.message);
  return runner;
}

/* Checks the pages of each group against `pages` of those without a window, and the bytes. */
static void check_sizes(const tn_runner_info *info, uint32_t windows) {
  uint64_t bytes = 0;
  bool has_window = false;
  for (uint32_t g = 0; g < info->group_count; g++) {
    uint32_t window = info->groups[g].window, most = windows * ((window + ROWS + 32 + 64) / 32);
    assert_int_equal(info->groups[g].pages, window && most < info->pages ? most : info->pages);
    bytes += info->groups[g].pages * info->groups[g].page_bytes;
    has_window = has_window || window;
  }
  assert_true(has_window);
  assert_int_equal(info->kv_bytes, bytes);
}

static void check_model(const char *name, const char *device) {
  char path[300];
  tn_model *model;
  tn_error error;
  int32_t tokens[TOKENS];
  snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_runner *plain = must_make(model, device, 0, 0), *runner = must_make(model, device, 12, 0);
  uint64_t all = tn_runner_describe(plain)->kv_bytes, less = tn_runner_describe(runner)->kv_bytes;
  assert_int_equal(tn_runner_describe(plain)->pages, 400);
  assert_int_equal(tn_runner_describe(runner)->pages, 400);
  check_sizes(tn_runner_describe(runner), 12);
  assert_true(less < all);
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)((i * 37u + i * i) % 300u);
  float *wanted = equal_all(plain, tokens, TOKENS), *got = equal_all(runner, tokens, TOKENS);
  assert_memory_equal(got, wanted, (size_t)TOKENS * tn_runner_describe(plain)->vocabulary * sizeof *got);
  free(wanted);
  free(got);
  tn_runner_destroy(plain);
  tn_runner_destroy(runner);
  /* what windows don't take is there for the others: as many pages as fit, not one more */
  for (uint64_t most = less / 7; most < all + all / 7; most += less / 5) {
    runner = must_make(model, device, 12, most);
    const tn_runner_info *info = tn_runner_describe(runner);
    check_sizes(info, 12);
    uint64_t one_more = 0;
    for (uint32_t g = 0; g < info->group_count; g++)
      one_more += info->groups[g].pages < info->pages ? 0 : info->groups[g].page_bytes;
    assert_true(info->kv_bytes <= most && (info->pages == 400 || info->kv_bytes + one_more > most));
    tn_runner_destroy(runner);
  }
  tn_model_close(model);
}

static void holds_on_cpu(void **state) {
  (void)state;
  check_model("gemma3", "cpu");
  check_model("gptoss-mxfp4", "cpu");
}

static void holds_in_private_memory(void **state) {
  (void)state;
  check_model("gemma4-ple", "reference,private-memory=1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_on_cpu),
      cmocka_unit_test(holds_in_private_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
