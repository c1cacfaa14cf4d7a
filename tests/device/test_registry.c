/* Device specs, and loading drivers that are right and drivers that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/registry.h"

#define MODULE TEST_MODULES "/module-device-driver.so"

static void expect_failure(const char *spec, tn_status status, const char *text) {
  tn_opened_device *device;
  tn_error error = {0};
  assert_int_equal(tn_device_open(spec, NULL, 0, &device, &error), status);
  assert_null(device);
  assert_int_equal(error.status, status);
  if (!strstr(error.message, text)) fail_msg("'%s' does not say '%s'", error.message, text);
}

static tn_opened_device *open_device(const char *spec) {
  tn_opened_device *device;
  tn_error error = {0};
  if (tn_device_open(spec, NULL, 0, &device, &error)) fail_msg("%s: %s", spec, error.message);
  return device;
}

static void built_in_devices_open(void **state) {
  (void)state;
  tn_opened_device *device = open_device("reference");
  assert_string_equal(device->driver->name, "reference");
  assert_string_equal(device->properties.name, "reference");
  assert_true(device->properties.batch_invariant);
  assert_false(device->properties.contiguous_kv);
  assert_string_equal(device->properties.rows, "any");
  assert_int_equal(device->properties.threads, 1);
  assert_int_equal(device->properties.alignment, 64);
  assert_true(device->properties.memory_total >= device->properties.memory_free);
  tn_opened_device *second = open_device("reference:0,private-memory=1"); /* opening twice is allowed */
  assert_string_equal(second->properties.name, "reference, private memory");
  assert_string_equal(second->label, "reference:0");
  tn_device_close(device);
  tn_device_close(second);
  device = open_device("faulty:reference:0,fail-alloc=7,private-memory=1,threads=1");
  assert_string_equal(device->driver->name, "faulty");
  assert_string_equal(device->properties.name, "reference, private memory");
  tn_device_close(device);
  tn_device_close(NULL);
}

static void options_of_the_caller_yield_to_the_spec(void **state) {
  (void)state;
  const tn_option options[] = {{"private-memory", "0"}, {"threads", "1"}};
  tn_opened_device *device;
  assert_int_equal(tn_device_open("reference,private-memory=1", options, 2, &device, NULL), TN_OK);
  assert_string_equal(device->properties.name, "reference, private memory");
  tn_device_close(device);
  const tn_option wrong[] = {{"threads", "2"}};
  tn_error error;
  assert_int_equal(tn_device_open("reference", wrong, 1, &device, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "device reference: open: threads=2"));
}

static void malformed_specs_are_refused(void **state) {
  (void)state;
  expect_failure("", TN_E_INVALID, "names no driver");
  expect_failure(":0", TN_E_INVALID, "names no driver");
  expect_failure("faulty:", TN_E_INVALID, "names no driver");
  expect_failure("nonesuch", TN_E_NOT_FOUND, "no driver is called 'nonesuch'");
  expect_failure("nonesuch", TN_E_NOT_FOUND, "reference");
  expect_failure("reference:", TN_E_INVALID, "no device number");
  expect_failure("reference:x", TN_E_INVALID, "'x' is no device number");
  expect_failure("reference:-1", TN_E_INVALID, "no device number");
  expect_failure("reference:1", TN_E_NOT_FOUND, "there is no device 1, the driver sees 1");
  expect_failure("reference,", TN_E_INVALID, "not key=value");
  expect_failure("reference,private-memory", TN_E_INVALID, "'private-memory' is not key=value");
  expect_failure("reference,=1", TN_E_INVALID, "not key=value");
  expect_failure("reference,threads=1,threads=1", TN_E_INVALID, "given twice");
  expect_failure("reference,private-memory=2", TN_E_INVALID, "private-memory=2");
  expect_failure("reference,fail-alloc=1", TN_E_INVALID, "fail-alloc=1");
  expect_failure("faulty:reference,fail-alloc=x", TN_E_INVALID, "fail-alloc=x");
  expect_failure("faulty:reference,color=red", TN_E_INVALID, "color=red");
  expect_failure("faulty", TN_E_NOT_FOUND, "no driver is called 'faulty'");
}

static void libraries_load_by_path(void **state) {
  (void)state;
  setenv("TEST_DRIVER", "good", 1);
  tn_opened_device *device = open_device(MODULE);
  assert_string_equal(device->driver->name, "module");
  assert_null(device->driver->record); /* its table ends before that */
  tn_device_close(device);
  device = open_device("faulty:" MODULE ":0,fail-copy=3");
  tn_device_close(device);
  setenv("TEST_DRIVER", "longer", 1);
  device = open_device(MODULE ":0");
  tn_device_close(device);
}

/* The loader maps what its headers name; the process would die of the first touch behind the file's end. */
static void a_library_cut_off_is_refused(void **state) {
  (void)state;
  static const size_t sizes[] = {40, 100, 3000, 9000};
  static unsigned char bytes[9000];
  const char *cut = TEST_MODULES "/test-registry-cut.so";
  FILE *whole = fopen(MODULE, "rb");
  assert_non_null(whole);
  assert_int_equal(fread(bytes, 1, sizeof bytes, whole), sizeof bytes);
  fclose(whole);
  for (size_t i = 0; i < TN_COUNT(sizes); i++) {
    FILE *file = fopen(cut, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizes[i], file), sizes[i]);
    fclose(file);
    expect_failure(cut, TN_E_FORMAT, "cannot load");
  }
  remove(cut);
}

static void libraries_that_are_no_drivers_are_refused(void **state) {
  (void)state;
  expect_failure("./no-such-driver.so", TN_E_NOT_FOUND, "./no-such-driver.so: no such file");
  expect_failure("no-such-driver.so", TN_E_NOT_FOUND, "no-such-driver.so: no such file");
  expect_failure(TEST_MODULES "/CMakeFiles/../Makefile.not", TN_E_NOT_FOUND, "no such file");
  const char *text = TEST_MODULES "/test-registry-text.so";
  FILE *file = fopen(text, "w");
  assert_non_null(file);
  fputs("not a library\n", file);
  fclose(file);
  expect_failure(text, TN_E_FORMAT, "cannot load");
  remove(text);
  expect_failure(TEST_MODULES "/module-device-empty.so", TN_E_FORMAT, "does not export tn_driver_entry");
}

static void drivers_that_lie_are_refused(void **state) {
  (void)state;
  const struct {
    const char *behaviour, *text;
    tn_status status;
  } cases[] = {
      {"null", "gave no table", TN_E_FORMAT},
      {"newer", "speaks abi 2 to 3 of the device interface, tenon speaks 1", TN_E_UNSUPPORTED},
      {"short", "expected at least", TN_E_FORMAT},
      {"hole", "lacks the function execute", TN_E_FORMAT},
      {"nameless", "lacks a name", TN_E_FORMAT},
      {"no-devices", "the driver sees 0: nothing is plugged in", TN_E_NOT_FOUND},
      {"enumerate-fails", "enumerate: the bus is down", TN_E_IO},
      {"open-fails", "open: it is broken", TN_E_DEVICE_LOST},
      {"open-garbage", "open: the driver answered a status that does not exist", TN_E_INTERNAL},
      {"open-nothing", "open: the driver gave no device", TN_E_INTERNAL},
      {"no-properties", "property name", TN_E_NOT_FOUND},
      {"bad-alignment", "alignment is 48", TN_E_INTERNAL},
      {"bad-kv", "property kv is 'magnetic'", TN_E_INTERNAL},
      {"wrong-type", "property cores is not a whole number", TN_E_INTERNAL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setenv("TEST_DRIVER", cases[i].behaviour, 1);
    expect_failure(MODULE, cases[i].status, cases[i].text);
    expect_failure(MODULE, cases[i].status, MODULE);
  }
}

static void answers_are_not_trusted(void **state) {
  (void)state;
  tn_error error;
  tn_buffer *buffer;
  tn_queue *queue;
  setenv("TEST_DRIVER", "alloc-garbage", 1);
  tn_opened_device *device = open_device(MODULE);
  assert_int_equal(tn_device_alloc(device, 123, &buffer, &error), TN_E_INTERNAL);
  assert_non_null(strstr(error.message, "alloc of 123 bytes: the driver answered a status that does not exist"));
  tn_device_close(device);
  setenv("TEST_DRIVER", "alloc-nothing", 1);
  device = open_device(MODULE);
  assert_int_equal(tn_device_alloc(device, 123, &buffer, &error), TN_E_INTERNAL);
  assert_non_null(strstr(error.message, "alloc: the driver gave no result"));
  assert_int_equal(tn_device_queue_create(device, &queue, NULL), TN_OK);
  tn_device_queue_destroy(device, queue);
  tn_device_close(device);
}

/* What needs no hardware of its own is there once; of the others there may be none, for a reason that is told. */
static void drivers_can_be_listed(void **state) {
  (void)state;
  size_t count = 0, everywhere = 0;
  const tn_driver *table;
  for (; (table = tn_builtin_driver(count)); count++) {
    tn_loaded_driver loaded;
    uint32_t devices;
    char reason[64] = "";
    assert_int_equal(tn_driver_load(table->name, &loaded, NULL), TN_OK);
    assert_int_equal(tn_driver_count(&loaded, &devices, reason, sizeof reason, NULL), TN_OK);
    assert_true(devices > 0 || *reason);
    if (!strcmp(table->name, "cpu") || !strcmp(table->name, "reference")) {
      assert_int_equal(devices, 1);
      everywhere++;
    }
    tn_driver_unload(&loaded);
  }
  assert_int_equal(everywhere, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(built_in_devices_open),
      cmocka_unit_test(options_of_the_caller_yield_to_the_spec),
      cmocka_unit_test(malformed_specs_are_refused),
      cmocka_unit_test(libraries_load_by_path),
      cmocka_unit_test(libraries_that_are_no_drivers_are_refused),
      cmocka_unit_test(a_library_cut_off_is_refused),
      cmocka_unit_test(drivers_that_lie_are_refused),
      cmocka_unit_test(answers_are_not_trusted),
      cmocka_unit_test(drivers_can_be_listed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
