/* One linear of 8-bit activations on the cpu device with one thread, so many times: something to count instructions of
 * (bench/arm-instructions). Arguments: FORMAT ROWS COLUMNS OUTPUTS TIMES. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance/bench.h"
#include "conformance/fill.h"
#include "tensor/dtype.h"

static tn_case *make_case(uint32_t format, uint32_t rows, uint32_t columns, uint32_t outputs) {
  tn_case *c = tn_case_create(TN_OP_LINEAR, rows, 1);
  if (!c) return NULL;
  const tn_linear_attributes attributes = {.size = sizeof attributes, .scale = 1};
  uint32_t x = tn_case_input(c, TN_Q8A, TN_DIM_T, columns);
  uint32_t w = tn_case_matrix(c, format, outputs, columns, TN_USE_LINEAR_Q8A);
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, outputs);
  tn_case_fill(c, x, TN_FILL_RANDOM, 1);
  tn_case_fill(c, w, TN_FILL_RANDOM, 2);
  tn_case_op(c, TN_OP_LINEAR, &attributes, TN_CASE_LIST(x, w), TN_CASE_LIST(y));
  return c;
}

int main(int argc, char **argv) {
  uint32_t format = argc == 6 ? tn_dtype_find(argv[1]) : TN_DTYPE_COUNT;
  if (format == TN_DTYPE_COUNT) {
    fprintf(stderr, "usage: bench-linear FORMAT ROWS COLUMNS OUTPUTS TIMES\n");
    return 2;
  }
  const tn_option option = {"threads", "1"};
  tn_opened_device *device = NULL;
  tn_error error = {0};
  double seconds;
  tn_case *c = make_case(format, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
  tn_status status = c ? tn_device_open("cpu", &option, 1, &device, &error) : TN_E_MEMORY;
  if (status == TN_OK) status = tn_case_time(device, c, UINT64_MAX, (uint32_t)atoi(argv[5]), &seconds, &error);
  if (status != TN_OK) fprintf(stderr, "bench-linear: %s\n", error.message);
  if (device) tn_device_close(device);
  tn_case_destroy(c);
  return status != TN_OK;
}
