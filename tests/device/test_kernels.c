/* Kernels without a model, events and counters: the example kernel on every built-in device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "support/tiny_model.h"

static const char *const specs[] = {"cpu,threads=1", "cpu,threads=3", "reference", "reference,private-memory=1"};
#define BLOB TEST_MODULES "/module-device-vector-add.so"
#define COUNT 100003u

static tn_opened_device *open_device(const char *spec) {
  tn_opened_device *device;
  tn_error error = {0};
  if (tn_device_open(spec, NULL, 0, &device, &error)) fail_msg("%s", error.message);
  return device;
}

/* What the launches of one device work with. */
typedef struct harness {
  tn_opened_device *device;
  tn_queue *queue;
  void *module, *function;
  tn_buffer *buffers[4];
  float *x, *z;
} harness;

static void harness_start(harness *h, const char *spec) {
  tn_error error = {0};
  char *blob;
  size_t bytes;
  const uint64_t count = COUNT;
  memset(h, 0, sizeof *h);
  h->device = open_device(spec);
  assert_int_equal(tn_file_read(BLOB, 1 << 24, &blob, &bytes, &error), TN_OK);
  assert_int_equal(tn_device_queue_create(h->device, &h->queue, &error), TN_OK);
  if (tn_device_kernel_load(h->device, blob, bytes, &h->module, &error)) fail_msg("%s", error.message);
  free(blob);
  assert_int_equal(tn_device_kernel_function(h->device, h->module, "vector_add", &h->function, &error), TN_OK);
  h->x = malloc(COUNT * sizeof *h->x);
  h->z = malloc(COUNT * sizeof *h->z);
  for (uint32_t i = 0; i < COUNT; i++) h->x[i] = (float)i;
  for (int i = 0; i < 4; i++)
    assert_int_equal(tn_device_alloc(h->device, i < 3 ? COUNT * sizeof *h->x : sizeof count, &h->buffers[i], &error),
                     TN_OK);
  for (int i = 0; i < 2; i++)
    assert_int_equal(tn_device_copy_in(h->device, h->queue, h->buffers[i], 0, h->x, COUNT * sizeof *h->x, &error),
                     TN_OK);
  assert_int_equal(tn_device_copy_in(h->device, h->queue, h->buffers[3], 0, &count, sizeof count, &error), TN_OK);
}

/* The loader would map what the headers name, and the first touch behind the end would be the process's last. */
static void refuses_a_cut_blob(tn_opened_device *device) {
  char *blob;
  size_t bytes;
  tn_error error;
  void *module;
  assert_int_equal(tn_file_read(BLOB, 1 << 24, &blob, &bytes, &error), TN_OK);
  assert_int_equal(tn_device_kernel_load(device, blob, 3000, &module, &error), TN_E_FORMAT);
  assert_non_null(strstr(error.message, "ends before its contents"));
  free(blob);
}

static void harness_finish(harness *h) {
  tn_device_kernel_unload(h->device, h->module);
  for (int i = 0; i < 4; i++) tn_device_free(h->device, h->buffers[i]);
  tn_device_queue_destroy(h->device, h->queue);
  tn_device_close(h->device);
  free(h->x);
  free(h->z);
}

static void vectors_are_added(void **state) {
  (void)state;
  static const uint32_t shapes[][2] = {{1, 1}, {3, 1}, {1, 7}, {4, 5}, {64, 8}};
  for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
    harness h;
    tn_error error = {0};
    harness_start(&h, specs[s]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      const tn_launch launch = {sizeof launch, shapes[i][0], shapes[i][1], (void *const *)h.buffers, 4};
      assert_int_equal(tn_device_fill(h.device, h.queue, h.buffers[2], 0, 0xff, COUNT * 4, &error), TN_OK);
      assert_int_equal(tn_device_kernel_launch(h.device, h.queue, h.function, &launch, &error), TN_OK);
      assert_int_equal(tn_device_copy_out(h.device, h.queue, h.z, h.buffers[2], 0, COUNT * 4, &error), TN_OK);
      assert_int_equal(tn_device_synchronize(h.device, h.queue, UINT64_MAX, &error), TN_OK);
      for (uint32_t k = 0; k < COUNT; k++) assert_true(h.z[k] == 2 * (float)k);
    }
    harness_finish(&h);
  }
}

static void nonsense_is_refused(void **state) {
  (void)state;
  for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
    harness h;
    void *other;
    tn_error error = {0};
    harness_start(&h, specs[s]);
    assert_int_equal(tn_device_kernel_function(h.device, h.module, "vector_sub", &other, &error), TN_E_NOT_FOUND);
    assert_non_null(strstr(error.message, "vector_sub"));
    assert_int_equal(tn_device_kernel_load(h.device, "not a library", 13, &other, &error), TN_E_FORMAT);
    assert_non_null(strstr(error.message, "cannot be loaded"));
    refuses_a_cut_blob(h.device);
    static const uint32_t wrong[][2] = {{0, 1}, {1, 0}, {1u << 20, 1u << 20}};
    for (int i = 0; i < 3; i++) {
      const tn_launch launch = {sizeof launch, wrong[i][0], wrong[i][1], (void *const *)h.buffers, 4};
      assert_int_equal(tn_device_kernel_launch(h.device, h.queue, h.function, &launch, &error), TN_E_INVALID);
    }
    harness_finish(&h);
  }
  tn_opened_device *device = open_device("faulty:cpu");
  void *module;
  tn_error error = {0};
  assert_int_equal(tn_device_kernel_load(device, "", 0, &module, &error), TN_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "the driver has no kernel launches"));
  tn_device_close(device);
}

/* Every split of a number of items covers them once, in shares that differ by one at most. */
static void work_ranges_cover_everything(void **state) {
  (void)state;
  static const uint64_t counts[] = {0, 1, 7, 64, 1000, UINT64_C(1) << 40};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (uint32_t cores = 1; cores < 6; cores++)
      for (uint32_t threads = 1; threads < 5; threads++) {
        uint64_t next = 0, least = counts[c] / (cores * threads);
        for (uint32_t i = 0; i < cores * threads; i++) {
          const tn_kernel_place place = {sizeof place, i / threads, cores, i % threads, threads};
          uint64_t begin, end;
          tn_work_range(&place, counts[c], &begin, &end);
          assert_int_equal(begin, next);
          assert_true(end - begin == least || end - begin == least + 1);
          next = end;
        }
        assert_int_equal(next, counts[c]);
      }
}

static void events_are_reached(void **state) {
  (void)state;
  static const char *const all[] = {"cpu", "reference", "faulty:cpu"};
  for (size_t s = 0; s < sizeof all / sizeof *all; s++) {
    tn_opened_device *device = open_device(all[s]);
    tn_queue *queue;
    tn_event *event;
    tn_error error = {0};
    assert_int_equal(tn_device_queue_create(device, &queue, &error), TN_OK);
    assert_int_equal(tn_device_record(device, queue, &event, &error), TN_OK);
    assert_int_equal(tn_device_wait(device, event, tn_clock_ns() + 1000000000u, &error), TN_OK);
    tn_device_event_destroy(device, event);
    tn_device_queue_destroy(device, queue);
    tn_device_close(device);
  }
}

static void every_op_is_counted(void **state) {
  (void)state;
  static const char *const all[] = {"cpu", "reference,private-memory=1", "faulty:reference"};
  const int32_t tokens[] = {1, 2, 3};
  for (size_t s = 0; s < sizeof all / sizeof *all; s++) {
    tiny_rig rig;
    tn_error error = {0};
    float logits[3 * TINY_VOCABULARY];
    tn_op_counter counters[64];
    uint32_t count = 0;
    assert_int_equal(tiny_start(&rig, all[s], &error), TN_OK);
    assert_int_equal(tiny_step(&rig, tokens, 0, 1, UINT64_MAX, logits, &error), TN_OK);
    assert_int_equal(tn_device_counters(rig.device, rig.queue, NULL, &count, &error), TN_OK);
    assert_int_equal(count, 0); /* measuring begins here */
    uint64_t before = tn_clock_ns();
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(tiny_step(&rig, tokens, i, 1, UINT64_MAX, logits, &error), TN_OK);
    uint64_t after = tn_clock_ns();
    uint32_t ops = rig.program->op_count;
    count = 3; /* too little room: nothing is lost */
    assert_int_equal(tn_device_counters(rig.device, rig.queue, counters, &count, &error), TN_OK);
    assert_int_equal(count, 2 * ops);
    count = 64;
    assert_int_equal(tn_device_counters(rig.device, rig.queue, counters, &count, &error), TN_OK);
    assert_int_equal(count, 2 * ops);
    for (uint32_t i = 0; i < count; i++) {
      assert_int_equal(counters[i].op, i % ops);
      assert_true(counters[i].start_ns >= (i ? counters[i - 1].end_ns : before));
      assert_true(counters[i].end_ns >= counters[i].start_ns && counters[i].end_ns <= after);
    }
    assert_int_equal(counters[1].bytes, 3 * TINY_WIDTH * 4); /* norm: x, weight, y */
    count = 64;
    assert_int_equal(tn_device_counters(rig.device, rig.queue, counters, &count, &error), TN_OK);
    assert_int_equal(count, 0);
    tiny_finish_rig(&rig);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors_are_added),
      cmocka_unit_test(nonsense_is_refused),
      cmocka_unit_test(work_ranges_cover_everything),
      cmocka_unit_test(events_are_reached),
      cmocka_unit_test(every_op_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
