/* The reference device's private memory: the host can't touch it between calls, nobody can touch what lies behind it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/reference/driver.h"
#include "device/reference/internal.h"

/* Does reading this byte kill the process? Tried in a child. */
static bool reading_kills(const volatile uint8_t *address) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(STDERR_FILENO); /* a sanitizer would tell about it */
    uint8_t byte = *address;
    _exit(byte == 0 ? 0 : 3);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static tn_device *open_private(void) {
  const tn_option option = {"private-memory", "1"};
  tn_device *device;
  assert_int_equal(tn_reference_driver()->open(0, &option, 1, &device), TN_OK);
  return device;
}

static void the_host_cannot_touch_it(void **state) {
  (void)state;
  tn_device *device = open_private();
  tn_buffer *buffer, *later;
  assert_int_equal(tn_reference_alloc(device, 100, &buffer), TN_OK);
  assert_null(tn_reference_driver()->host_pointer(device, buffer));
  assert_true(reading_kills(buffer->data));
  assert_int_equal(tn_reference_enter(device), TN_OK);
  assert_false(reading_kills(buffer->data));
  assert_int_equal(tn_reference_alloc(device, 5000, &later), TN_OK); /* made while memory is open */
  assert_false(reading_kills(later->data));
  assert_int_equal(tn_reference_enter(device), TN_OK); /* another queue's call */
  tn_reference_leave(device);
  assert_false(reading_kills(buffer->data));
  tn_reference_leave(device);
  assert_true(reading_kills(buffer->data));
  assert_true(reading_kills(later->data + 4999));
  tn_reference_free(device, buffer);
  tn_reference_driver()->close(device); /* takes `later` along */
}

static void a_guard_lies_behind_each_buffer(void **state) {
  (void)state;
  tn_device *device = open_private();
  for (uint64_t bytes = 0; bytes <= 4096 + 64; bytes += 64) {
    tn_buffer *buffer;
    assert_int_equal(tn_reference_alloc(device, bytes, &buffer), TN_OK);
    assert_int_equal((uintptr_t)buffer->data % 64, 0);
    if (bytes % 1024 == 64 || bytes == 0) {
      assert_int_equal(tn_reference_enter(device), TN_OK);
      if (bytes) assert_false(reading_kills(buffer->data + bytes - 1));
      assert_true(reading_kills(buffer->data + bytes));
      tn_reference_leave(device);
    }
    tn_reference_free(device, buffer);
  }
  tn_reference_driver()->close(device);
}

static void plain_memory_is_the_hosts(void **state) {
  (void)state;
  tn_device *device;
  tn_buffer *buffer;
  assert_int_equal(tn_reference_driver()->open(0, NULL, 0, &device), TN_OK);
  assert_int_equal(tn_reference_alloc(device, 100, &buffer), TN_OK);
  assert_ptr_equal(tn_reference_driver()->host_pointer(device, buffer), buffer->data);
  memset(buffer->data, 7, 100);
  tn_reference_driver()->close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_host_cannot_touch_it),
      cmocka_unit_test(a_guard_lies_behind_each_buffer),
      cmocka_unit_test(plain_memory_is_the_hosts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
