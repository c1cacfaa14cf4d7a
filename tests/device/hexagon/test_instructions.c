/* How many instructions the DSP takes for integer matrix products, counted by qemu: of a large linear in prefill, at
 * most one for so many multiplications and additions as a bound here says, in every format that is multiplied as
 * integers. Skipped where there is no DSP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conformance/bench.h"
#include "conformance/fill.h"
#include "conformance/makers.h"
#include "tensor/dtype.h"
#include "tenon/driver.h"

#define ROWS 64u
#define WIDTH 2048u
#define COLUMNS 2048u
#define MACS ((uint64_t)ROWS * WIDTH * COLUMNS)
#define MACS_AN_INSTRUCTION 32u /* at least */
#define TIMEOUT_NS 120000000000ull

static tn_case *large_linear(uint32_t format) {
  const tn_linear_attributes attributes = {sizeof attributes, TN_ACTIVATION_NONE, 0, 1};
  tn_case *c = tn_case_create(TN_OP_LINEAR, ROWS, 1);
  assert_non_null(c);
  uint32_t x = tn_case_input(c, TN_Q8A, TN_DIM_T, COLUMNS);
  uint32_t w = tn_case_matrix(c, format, WIDTH, COLUMNS, TN_USE_LINEAR_Q8A);
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, WIDTH);
  tn_case_fill(c, x, TN_FILL_RANDOM, 1);
  tn_case_fill(c, w, TN_FILL_RANDOM, 2);
  tn_case_op(c, TN_OP_LINEAR, &attributes, TN_CASE_LIST(x, w), TN_CASE_LIST(y));
  tn_case_say(c, "large");
  return c;
}

/* Instructions of one execution; 0 with a failed test otherwise. */
static uint64_t count(tn_opened_device *device, uint32_t format) {
  tn_case *c = large_linear(format);
  tn_case_results results;
  tn_bench bench;
  tn_error error = {0};
  tn_op_counter counter;
  uint64_t instructions = 0;
  uint32_t counted = 0;
  assert_true(tn_case_results_init(&results, c));
  tn_status status = tn_bench_start(&bench, device, c, TIMEOUT_NS, &error);
  if (status == TN_OK) status = tn_device_counters(device, bench.queue, NULL, &counted, &error);
  if (status == TN_OK) status = tn_bench_run(&bench, (tn_schedule){0}, 0xff, &results, &error);
  counted = 1;
  if (status == TN_OK) status = tn_device_counters(device, bench.queue, &counter, &counted, &error);
  if (status == TN_OK) status = tn_device_instructions(device, bench.queue, &instructions, counted, &error);
  if (status != TN_OK) fail_msg("%s", error.message);
  assert_int_equal(counted, 1);
  tn_bench_finish(&bench);
  tn_case_results_finish(&results);
  tn_case_destroy(c);
  return instructions;
}

static void large_linears_take_few_instructions(void **state) {
  static const uint32_t formats[] = {TN_Q8_0, TN_Q4_0, TN_Q4_1,   TN_Q5_0,   TN_Q5_1,  TN_Q3_K, TN_Q4_K,
                                     TN_Q5_K, TN_Q6_K, TN_IQ4_NL, TN_IQ4_XS, TN_MXFP4, TN_MXFP6};
  tn_opened_device *device = *state;
  for (size_t i = 0; i < TN_COUNT(formats); i++) {
    uint64_t instructions = count(device, formats[i]);
    printf("%s: 1/%.1f instructions for a multiplication and addition\n", tn_dtype_name((tn_dtype)formats[i]),
           (double)MACS / (double)instructions);
    assert_true(instructions > MACS / 256); /* a vector instruction does 128 of them: fewer weren't counted */
    assert_true(instructions * MACS_AN_INSTRUCTION <= MACS);
  }
}

int main(void) {
  tn_loaded_driver driver;
  char reason[200] = "";
  uint32_t sessions = 0;
  tn_error error;
  tn_opened_device *device;
  if (tn_driver_load("hexagon", &driver, NULL) != TN_OK) return 1;
  tn_driver_count(&driver, &sessions, reason, sizeof reason, NULL);
  if (!sessions) {
    printf("%s: no DSP: %s\n", getenv("TENON_DEVICES_REQUIRED") ? "failed" : "skipped", reason);
    return getenv("TENON_DEVICES_REQUIRED") ? 1 : 77;
  }
  const tn_option threads = {"threads", "2"}; /* each arranges the activations for itself */
  if (tn_device_open("hexagon", &threads, 1, &device, &error) != TN_OK) {
    printf("%s\n", error.message);
    return 1;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(large_linears_take_few_instructions, device)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tn_device_close(device);
  return failed;
}
