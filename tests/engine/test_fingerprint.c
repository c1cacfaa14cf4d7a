/* What a saved cache is told from others by: a runner's fingerprints. Pages that a device keeps in another layout are
 * those of another configuration, though all else is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "device/registry.h"
#include "engine/runner_internal.h"

static const tn_driver *real;

static tn_status other_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_status status = real->state_layout(device, desc, layout);
  layout->id++;
  return status;
}

static void layouts_are_part_of_the_configuration(void **state) {
  (void)state;
  static const char *const names[] = {"llama", "qwen35"}; /* the latter has recurrent states too */
  for (size_t n = 0; n < TN_COUNT(names); n++) {
    char path[512];
    tn_model *model;
    tn_runner *runner;
    uint64_t models[3], configurations[3];
    snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, names[n]);
    assert_int_equal(tn_model_open(path, &model, NULL), TN_OK);
    const tn_runner_options options = {
        .device = "cpu", .max_rows = 8, .max_sequences = 1, .max_context = 64, .pages = 4, .state_slots = 6};
    assert_int_equal(tn_runner_create(model, &options, &runner, NULL), TN_OK);
    tn_opened_device *opened = opened_of(runner, 0);
    real = opened->driver;
    tn_driver other = *real;
    other.state_layout = other_layout;
    for (int i = 0; i < 3; i++) {
      opened->driver = i == 1 ? &other : real;
      assert_int_equal(tn_runner_fingerprint(runner, models + i, configurations + i, NULL), TN_OK);
    }
    assert_true(models[0] == models[1] && models[0] == models[2]);
    assert_true(configurations[0] != configurations[1] && configurations[0] == configurations[2]);
    opened->driver = real;
    tn_runner_destroy(runner);
    tn_model_close(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(layouts_are_part_of_the_configuration)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
