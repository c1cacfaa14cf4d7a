/* Packed weights are stored on disk under TN_LAYOUT_VERSION (kernels/layout.h): whoever changes how weights of any
 * format lie must raise it, or old files would be taken for new ones. This holds a digest of every packed format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// after the headers above
#include <cmocka.h>
#include "base/hash.h"
#include "device/registry.h"
#include "kernels/layout.h"
#include "tensor/dtype.h"

enum { ROWS = 40, COLS = 512 };
#define VERSION 5u
#define DIGEST UINT64_C(0xe9190455299a3b93)

static uint64_t digest_of(tn_opened_device *device, tn_queue *queue, tn_dtype dtype, uint32_t uses, uint64_t seed) {
  size_t row_bytes;
  assert_true(tn_dtype_row_bytes(dtype, COLS, &row_bytes));
  uint8_t *data = malloc(ROWS * row_bytes);
  for (size_t i = 0; i < ROWS * row_bytes; i++) data[i] = (uint8_t)(tn_hash_pair((uint32_t)i, dtype) >> 7 & 0x3f);
  const tn_weight_desc desc = {.size = sizeof desc, .dtype = dtype, .rank = 2, .uses = uses, .dims = {ROWS, COLS}};
  const tn_weight_source source = {.size = sizeof source,
                                   .dtype = dtype,
                                   .data = data,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .row_count = ROWS,
                                   .col_count = COLS};
  tn_weight_layout layout = {.size = sizeof layout};
  tn_buffer *buffer;
  tn_error error = {0};
  assert_int_equal(tn_device_weight_layout(device, &desc, &layout, &error), TN_OK);
  assert_int_equal(tn_device_alloc(device, layout.bytes, &buffer, &error), TN_OK);
  assert_int_equal(tn_device_weight_pack(device, queue, &desc, &layout, &source, 1, buffer, 0, &error), TN_OK);
  seed = tn_hash_bytes(tn_device_host_pointer(device, buffer), layout.bytes, seed ^ layout.id);
  tn_device_free(device, buffer);
  free(data);
  return seed;
}

static void test_version(void **state) {
  (void)state;
  tn_opened_device *device;
  tn_queue *queue;
  tn_error error = {0};
  assert_int_equal(tn_device_open("cpu", NULL, 0, &device, &error), TN_OK);
  assert_int_equal(tn_device_queue_create(device, &queue, &error), TN_OK);
  static const tn_dtype formats[] = {TN_F32,  TN_F16,    TN_BF16,   TN_Q4_0,  TN_Q4_1, TN_Q5_0,
                                     TN_Q5_1, TN_Q8_0,   TN_Q2_K,   TN_Q3_K,  TN_Q4_K, TN_Q5_K,
                                     TN_Q6_K, TN_IQ4_NL, TN_IQ4_XS, TN_MXFP4, TN_MXFP6};
  uint64_t digest = 0;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    digest = digest_of(device, queue, formats[i], TN_USE_LINEAR | TN_USE_EMBED, digest);
    digest = digest_of(device, queue, formats[i], TN_USE_LINEAR | TN_USE_GATED, digest);
  }
  tn_device_queue_destroy(device, queue);
  tn_device_close(device);
  if (digest != DIGEST || TN_LAYOUT_VERSION != VERSION)
    fail_msg(
        "packed weights have the digest %#llx under version %u; this test knows %#llx under %u. If the layouts have "
        "changed, raise TN_LAYOUT_VERSION, and write both numbers down here",
        (unsigned long long)digest, TN_LAYOUT_VERSION, (unsigned long long)DIGEST, VERSION);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_version)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
