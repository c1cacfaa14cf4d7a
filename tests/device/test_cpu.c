/* The cpu device for itself: its pool, options, properties, and what it refuses to pack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/os.h"
#include "device/cpu/driver.h"
#include "device/cpu/pool.h"

typedef struct count_job {
  _Atomic uint32_t hits[1000];
  _Atomic uint32_t busy[8]; /* bodies that run now, by worker */
  uint32_t workers;
  _Atomic bool wrong;
} count_job;

static void count_piece(void *argument, uint32_t index, uint32_t worker) {
  count_job *job = argument;
  if (worker >= job->workers || atomic_fetch_add(&job->busy[worker], 1)) atomic_store(&job->wrong, true);
  atomic_fetch_add(&job->hits[index], 1);
  for (volatile int spin = 0; spin < (int)(index % 7) * 20;) spin = spin + 1;
  atomic_fetch_sub(&job->busy[worker], 1);
}

/* Every piece runs once, with a worker number that is nobody else's, for jobs of all sizes in quick succession and
 * after pauses in which the workers fall asleep. */
static void every_piece_runs_once(void **state) {
  (void)state;
  for (uint32_t workers = 1; workers <= 5; workers++) {
    tn_pool *pool = tn_pool_create(workers);
    const tn_parallel *parallel = tn_pool_parallel(pool);
    assert_int_equal(parallel->workers, workers);
    for (uint32_t round = 0; round < 600; round++) {
      static count_job job;
      memset(&job, 0, sizeof job);
      job.workers = workers;
      uint32_t count = round * 37 % 1000;
      if (round % 100 == 99) tn_sleep_ns(1000000);
      parallel->run(parallel->context, count_piece, &job, count);
      for (uint32_t i = 0; i < 1000; i++) assert_int_equal(job.hits[i], i < count);
      assert_false(job.wrong);
    }
    tn_pool_destroy(pool);
  }
}

static void options_are_read_or_refused(void **state) {
  (void)state;
  static const char *const wrong[][2] = {{"threads", "0"},  {"threads", "257"}, {"threads", "-1"},
                                         {"threads", "2x"}, {"threads", ""},    {"thread", "2"}};
  const tn_driver *cpu = tn_cpu_driver();
  tn_device *device;
  for (size_t i = 0; i < TN_COUNT(wrong); i++) {
    tn_option option = {wrong[i][0], wrong[i][1]};
    assert_int_equal(cpu->open(0, &option, 1, &device), TN_E_INVALID);
    assert_non_null(strstr(cpu->last_error(NULL), "threads"));
  }
  assert_int_equal(cpu->open(1, NULL, 0, &device), TN_E_NOT_FOUND);
  tn_option three = {"threads", "3"};
  tn_property value = {.size = sizeof value};
  assert_int_equal(cpu->open(0, &three, 1, &device), TN_OK);
  assert_int_equal(cpu->get(device, "threads", &value), TN_OK);
  assert_int_equal(value.u64, 3);
  cpu->close(device);
  assert_int_equal(cpu->open(0, NULL, 0, &device), TN_OK);
  assert_int_equal(cpu->get(device, "threads", &value), TN_OK);
  assert_int_equal(value.u64, tn_machine_cpus());
  cpu->close(device);
}

static void an_instruction_set_can_be_forced(void **state) {
  (void)state;
  const tn_driver *cpu = tn_cpu_driver();
  tn_device *device;
  tn_property value = {.size = sizeof value};
  setenv("TENON_CPU", "portable", 1);
  assert_int_equal(cpu->open(0, NULL, 0, &device), TN_OK);
  assert_int_equal(cpu->get(device, "instruction_set", &value), TN_OK);
  assert_string_equal(value.text, "portable");
  cpu->close(device);
  setenv("TENON_CPU", "vax", 1);
  assert_int_not_equal(cpu->open(0, NULL, 0, &device), TN_OK);
  assert_non_null(strstr(cpu->last_error(NULL), "vax"));
  unsetenv("TENON_CPU");
}

static void peaks_are_plausible(void **state) {
  (void)state;
  const tn_driver *cpu = tn_cpu_driver();
  tn_device *device;
  tn_property value = {.size = sizeof value};
  assert_int_equal(cpu->open(0, NULL, 0, &device), TN_OK);
  static const char *const names[] = {"peak_int8_ops", "peak_f32_ops", "peak_bytes"};
  for (size_t i = 0; i < TN_COUNT(names); i++) {
    assert_int_equal(cpu->get(device, names[i], &value), TN_OK);
    assert_int_equal(value.type, TN_PROPERTY_F64);
    assert_true(value.f64 > 1e8 && value.f64 < 1e16);
    double again = value.f64;
    assert_int_equal(cpu->get(device, names[i], &value), TN_OK);
    assert_true(value.f64 == again);
  }
  cpu->close(device);
}

/* Weights that can't be packed are refused with a reason, before anything is written. */
static void sources_that_make_no_sense_are_refused(void **state) {
  (void)state;
  const tn_driver *cpu = tn_cpu_driver();
  tn_device *device;
  tn_queue *queue;
  tn_buffer *buffer;
  static uint8_t stored[64 * 34 * 4];
  static const uint32_t map[] = {0, 64};
  assert_int_equal(cpu->open(0, NULL, 0, &device), TN_OK);
  assert_int_equal(cpu->queue_create(device, &queue), TN_OK);
  tn_weight_desc desc = {sizeof desc, TN_Q8_0, 2, TN_USE_LINEAR_Q8A, {32, 64}};
  tn_weight_layout layout = {.size = sizeof layout};
  assert_int_equal(cpu->weight_layout(device, &desc, &layout), TN_OK);
  assert_int_equal(cpu->alloc(device, layout.bytes, &buffer), TN_OK);
  const tn_weight_source good = {
      .size = sizeof good, .dtype = TN_Q8_0, .data = stored, .rows = 64, .cols = 128, .row_count = 32, .col_count = 64};
  tn_weight_source bad[12];
  for (size_t i = 0; i < TN_COUNT(bad); i++) bad[i] = good;
  bad[0].data = NULL;
  bad[1].dtype = TN_F32;
  bad[2].row_begin = 33;
  bad[3].row_count = 33;
  bad[4].into_row = 1;
  bad[5].col_begin = 96;
  bad[6].col_begin = 16;
  bad[7].col_count = 32;
  bad[8].transposed = 1;
  bad[9].row_map = map, bad[9].row_count = 2;
  bad[10].add = 1;
  bad[11].cols = 100;
  assert_int_equal(cpu->weight_pack(queue, &desc, &layout, &good, 1, buffer, 0), TN_OK);
  uint8_t *copy = malloc(layout.bytes);
  memcpy(copy, cpu->host_pointer(device, buffer), layout.bytes);
  memset(stored, 0x11, sizeof stored);
  for (size_t i = 0; i < TN_COUNT(bad); i++) {
    assert_int_not_equal(cpu->weight_pack(queue, &desc, &layout, &bad[i], 1, buffer, 0), TN_OK);
    assert_non_null(strstr(cpu->last_error(device), "a source"));
    assert_memory_equal(copy, cpu->host_pointer(device, buffer), layout.bytes);
  }
  assert_int_not_equal(cpu->weight_pack(queue, &desc, &layout, &good, 1, buffer, 64), TN_OK);
  layout.id++;
  assert_int_not_equal(cpu->weight_pack(queue, &desc, &layout, &good, 1, buffer, 0), TN_OK);
  desc.uses = TN_USE_LINEAR | TN_USE_GATED;
  desc.dims[0] = 33;
  assert_int_not_equal(cpu->weight_layout(device, &desc, &layout), TN_OK);
  free(copy);
  cpu->free(device, buffer);
  cpu->queue_destroy(queue);
  cpu->close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_piece_runs_once),
      cmocka_unit_test(options_are_read_or_refused),
      cmocka_unit_test(an_instruction_set_can_be_forced),
      cmocka_unit_test(peaks_are_plausible),
      cmocka_unit_test(sources_that_make_no_sense_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
