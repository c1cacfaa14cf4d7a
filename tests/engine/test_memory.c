/* The host runs out of memory at each allocation in turn: opening a model, making an engine and submitting fail with a
 * clear error and leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "count_allocations.h"
#include "tenon/tenon.h"

static const char *const PATH = TEST_DATA "/golden/llama/model.gguf";

static void check_error(tn_status status, const tn_error *error, const char *what, unsigned at) {
  if (status == TN_OK || (error->status == status && error->message[0])) return;
  fail_msg("%s, allocation %u: status %d without a message", what, at, status);
}

/* Opens, makes, submits and answers with allocation `at` failing (0: none). True when nothing failed. */
static bool run(unsigned at) {
  tn_error error = {0};
  tn_model *model = NULL;
  tn_engine *engine = NULL;
  tn_request *request = NULL;
  tn_output output = {0};
  const int32_t tokens[] = {5, 6, 7};
  const char *stop[] = {"never"};
  const tn_logit_bias bias = {3, -1};
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 64;
  options.max_sequences = 2;
  options.chunk = 16;
  options.device = "reference";
  tn_request_options asked = TN_REQUEST_OPTIONS;
  asked.tokens = tokens;
  asked.token_count = 3;
  asked.max_tokens = 3;
  asked.stop = stop;
  asked.stop_count = 1;
  asked.logit_bias = &bias;
  asked.logit_bias_count = 1;
  asked.cache_salt = "salt";
  asked.top_logprobs = 2;
  atomic_store(&fail_at, at ? atomic_load(&allocations) + at : 0);
  tn_status status = tn_model_open(PATH, &model, &error);
  check_error(status, &error, "open", at);
  if (status == TN_OK) {
    status = tn_engine_create(model, &options, &engine, &error);
    check_error(status, &error, "create", at);
  }
  if (status == TN_OK) {
    status = tn_engine_submit(engine, &asked, &request, &error);
    check_error(status, &error, "submit", at);
  }
  atomic_store(&fail_at, 0);
  if (status == TN_OK) {
    while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    }
    if (output.kind == TN_OUTPUT_ERROR) check_error(output.error.status, &output.error, "answer", at);
  }
  tn_request_destroy(request);
  tn_engine_destroy(engine);
  tn_model_close(model);
  return status == TN_OK;
}

static void each_allocation_fails(void **state) {
  (void)state;
  if (!COUNTS_ALLOCATIONS) skip();
  assert_true(run(0)); /* what libraries keep for good is there after this */
  unsigned before = atomic_load(&allocations);
  assert_true(run(0));
  unsigned count = atomic_load(&allocations) - before;
  assert_true(count > 200);
  int living_before = atomic_load(&living);
  unsigned failures = 0;
  for (unsigned at = 1; at <= count; at++) {
    failures += !run(at); /* where the answer doesn't need it, a failed allocation may well be got over */
    int left = atomic_load(&living) - living_before;
    if (left) fail_msg("allocation %u of %u: %d blocks left behind", at, count, left);
  }
  assert_true(failures > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
