/* The kit finds every fault that the faulty driver can be given, in the part where it belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/kit.h"
#include "device/faulty/internal.h"

static const struct {
  const char *name;
} faults[TN_FAULT_COUNT] = {
#define X(NAME, name, text) [TN_FAULT_##NAME] = {name},
    TN_FAULTS(X)
#undef X
};

/* The op, or the seam, whose cases must show the fault. */
static const char *const shown_by[TN_FAULT_COUNT] = {
    [TN_FAULT_TAIL] = "add",
    [TN_FAULT_IGNORED_SCALE] = "linear",
    [TN_FAULT_IGNORED_ACTIVATION] = "activation",
    [TN_FAULT_IGNORED_WINDOW] = "attention",
    [TN_FAULT_IGNORED_SOFTCAP] = "attention",
    [TN_FAULT_IGNORED_EPSILON] = "norm",
    [TN_FAULT_IGNORED_BIAS] = "linear",
    [TN_FAULT_IGNORED_SINKS] = "attention",
    [TN_FAULT_WRONG_PAIRING] = "rope",
    [TN_FAULT_SWAPPED_HEADS] = "attention",
    [TN_FAULT_WRONG_PAGE] = "kv_write",
    [TN_FAULT_WRONG_POSITION] = "rope_table",
    [TN_FAULT_WRONG_ROW] = "select_rows",
    [TN_FAULT_BATCH_DEPENDENT] = "linear",
    [TN_FAULT_LAST_BIT] = "linear",
    [TN_FAULT_SATURATION] = "linear",
    [TN_FAULT_LOST_NAN] = "linear",
    [TN_FAULT_UNINITIALISED] = "mul",
    [TN_FAULT_WRITES_OUTSIDE] = "slice",
    [TN_FAULT_WRITES_INPUT] = "concat",
    [TN_FAULT_STALE_WEIGHT] = "seam",
    [TN_FAULT_IGNORED_ROW_MAP] = "linear",
    [TN_FAULT_IGNORED_TRANSPOSE] = "linear",
    [TN_FAULT_IGNORED_ADD] = "linear",
    [TN_FAULT_WRONG_ORDER] = "seam",
    [TN_FAULT_LATE] = "scale",
    [TN_FAULT_ODD_COPY] = "seam",
    [TN_FAULT_ROUNDED_OFFSET] = "seam",
    [TN_FAULT_DIRTY_MEMORY] = "seam",
    [TN_FAULT_ENDLESS_MEMORY] = "seam",
    [TN_FAULT_IGNORED_DEADLINE] = "seam",
    [TN_FAULT_SILENT] = "seam",
    [TN_FAULT_UNCHECKED] = "seam",
    [TN_FAULT_ACCEPTS_ANYTHING] = "seam",
};

static void every_fault_is_found(const char *device) {
  static tn_kit_summary summary;
  for (int fault = TN_FAULT_NONE + 1; fault < TN_FAULT_COUNT; fault++) {
    char spec[100];
    tn_error error = {0};
    if (!shown_by[fault]) fail_msg("%s: no part of the kit is named that shows it", faults[fault].name);
    const tn_kit_options options = {.op = shown_by[fault]};
    snprintf(spec, sizeof spec, "faulty:%s,fault=%s", device, faults[fault].name);
    if (tn_kit_run(spec, &options, &summary, &error)) fail_msg("%s: %s", spec, error.message);
    if (!summary.failed) fail_msg("%s: %s did not show it", spec, shown_by[fault]);
  }
}

static void on_the_reference(void **state) {
  (void)state;
  every_fault_is_found("reference");
}

static void on_the_cpu(void **state) {
  (void)state;
  every_fault_is_found("cpu");
}

static void an_unknown_fault_names_them_all(void **state) {
  (void)state;
  tn_opened_device *device;
  tn_error error = {0};
  assert_int_equal(tn_device_open("faulty:cpu,fault=list", NULL, 0, &device, &error), TN_E_INVALID);
  for (int fault = TN_FAULT_NONE + 1; fault < TN_FAULT_COUNT; fault++)
    if (!strstr(error.message, faults[fault].name)) fail_msg("%s is not in '%s'", faults[fault].name, error.message);
  assert_true(TN_FAULT_COUNT > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_the_reference),
      cmocka_unit_test(on_the_cpu),
      cmocka_unit_test(an_unknown_fault_names_them_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
