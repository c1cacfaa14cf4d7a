/* The conformance kit on the built-in devices: every op has cases, the reference is equal to itself, the cpu passes
 * with every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/host.h"
#include "conformance/kit.h"
#include "conformance/makers.h"
#include "tensor/decode.h"

static void print_failure(void *context, const tn_kit_result *result) {
  (void)context;
  if (result->verdict == TN_KIT_FAILED) print_message("%s: %s: %s\n", result->part, result->name, result->why);
}

static void run_kit(const char *spec, tn_kit_summary *summary) {
  const tn_kit_options options = {.on_result = print_failure};
  tn_error error = {0};
  if (tn_kit_run(spec, &options, summary, &error)) fail_msg("%s", error.message);
}

/* How many cases an op has, and how many of them are of one row, and of more. */
typedef struct case_count {
  uint32_t all, one_row, rows;
} case_count;

static bool count_case(void *context, const tn_case *c) {
  case_count *count = context;
  tn_error error = {0};
  tn_program *program = tn_case_program(c, &error); /* checked against the op's shape rule */
  if (!program) fail_msg("%s: %s", tn_op_info_of(c->opcode)->name, error.message);
  free(program);
  count->all++;
  count->one_row += c->row_count == 1;
  count->rows += c->row_count > 1;
  return true;
}

static void every_op_has_cases(void **state) {
  (void)state;
  for (uint32_t opcode = 0; opcode < TN_OP_LIMIT; opcode++) {
    const tn_op_info *info = tn_op_info_of(opcode);
    if (!info) continue;
    tn_make *make = tn_maker_of(opcode);
    if (!make) fail_msg("op %s has no cases: add a maker (src/conformance/makers.h)", info->name);
    case_count count = {0};
    tn_maker maker = {.emit = count_case, .context = &count};
    make(&maker);
    if (maker.out_of_memory || count.all < 10 || !count.one_row || !count.rows)
      fail_msg("op %s: %u cases, %u of one row, %u of more", info->name, count.all, count.one_row, count.rows);
  }
}

#define MOST_COLS 1024u

static void decode_q8a(const uint8_t *row, float *to, uint32_t cols) {
  for (uint32_t i = 0; i < cols; i++) {
    float scale;
    memcpy(&scale, row + (cols + 31) / 32 * 32 + i / 32 * 4, sizeof scale);
    to[i] = (float)(int8_t)row[i] * scale;
  }
}

/* x . w where neither a product nor a sum on the way, from the front or from the back, is rounded by a float. */
static float exact_product(const float *x, const float *w, uint32_t cols) {
  double forwards = 0, backwards = 0;
  for (uint32_t i = 0; i < cols; i++) {
    forwards += (double)x[i] * (double)w[i];
    backwards += (double)x[cols - 1 - i] * (double)w[cols - 1 - i];
    assert_true((double)(float)forwards == forwards && (double)(float)backwards == backwards);
  }
  assert_true(forwards == backwards);
  return (float)forwards;
}

static bool check_exact(void *context, const tn_case *c) {
  uint32_t *count = context;
  if (c->tolerance > 0) return true;
  ++*count;
  const tn_case_value *x = &c->values[0], *w = &c->values[1], *y = &c->values[2];
  uint32_t cols = (uint32_t)x->dims[1], width = (uint32_t)y->dims[1];
  float inputs[MOST_COLS], weights[MOST_COLS];
  tn_case_results results;
  tn_error error = {0};
  assert_true(cols <= MOST_COLS && tn_case_results_init(&results, c));
  if (tn_case_run_on_host(c, (tn_schedule){0}, &results, &error)) fail_msg("%s: %s", c->name, error.message);
  const float *got = (const float *)(const void *)results.rows[0];
  for (uint32_t row = 0; row < c->row_count; row++) {
    decode_q8a(x->data + row * x->row_bytes, inputs, cols);
    for (uint32_t n = 0; n < width; n++) {
      const uint8_t *stored = w->sources[0].data;
      tn_decode_row((tn_dtype)w->dtype, stored + n * tn_row_bytes(w->dtype, cols), weights, cols);
      if (exact_product(inputs, weights, cols) != got[row * width + n]) fail_msg("%s: row %u, %u", c->name, row, n);
    }
  }
  tn_case_results_finish(&results);
  return true;
}

/* The cases that every device must give the same bits for leave none to choose. */
static void exact_cases_are_exact(void **state) {
  (void)state;
  uint32_t count = 0;
  tn_maker maker = {.emit = check_exact, .context = &count};
  tn_maker_of(TN_OP_LINEAR)(&maker);
  assert_true(count >= 3 * 14); /* of each block format: one row, few, many */
}

static void the_reference_passes_whole(void **state) {
  (void)state;
  static const char *const specs[] = {"reference,private-memory=1", "faulty:reference"};
  static tn_kit_summary summary;
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    run_kit(specs[i], &summary);
    assert_int_equal(summary.failed, 0);
    assert_int_equal(summary.fallback + summary.hidden, 0);
    assert_true(summary.passed > 1000);
  }
}

static void the_cpu_passes_with_every_instruction_set(void **state) {
  (void)state;
  static const char *const sets[] = {"portable", "avx2",         "avxvnni",   "avx512vnni",
                                     "neon",     "neon-dotprod", "neon-i8mm", ""};
  static tn_kit_summary summary;
  uint32_t ran = 0;
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    tn_opened_device *device;
    tn_error error = {0};
    setenv("TENON_CPU", sets[i], 1);
    if (tn_device_open("cpu", NULL, 0, &device, &error) != TN_OK) continue; /* not of this machine or this build */
    tn_device_close(device);
    run_kit("cpu,threads=3", &summary);
    assert_int_equal(summary.failed, 0);
    assert_true(summary.passed > 1000);
    ran++;
  }
  unsetenv("TENON_CPU");
  assert_true(ran >= 2);
}

static void an_unknown_op_is_refused(void **state) {
  (void)state;
  static tn_kit_summary summary;
  const tn_kit_options options = {.op = "linaer"};
  tn_error error = {0};
  assert_int_equal(tn_kit_run("reference", &options, &summary, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "linaer"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_has_cases),         cmocka_unit_test(exact_cases_are_exact),
      cmocka_unit_test(the_reference_passes_whole), cmocka_unit_test(the_cpu_passes_with_every_instruction_set),
      cmocka_unit_test(an_unknown_op_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
