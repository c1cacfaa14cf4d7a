/* Help for tests of kernels: operands, random numbers, and a parallel runner that takes the tasks in a bad order. */
#ifndef TENON_TESTS_KERNEL_CALL_H
#define TENON_TESTS_KERNEL_CALL_H

#include <stdlib.h>
#include <string.h>

#include "tenon/driver.h"

typedef struct test_random {
  uint64_t state;
} test_random;

static inline uint32_t random_u32(test_random *random) {
  random->state = random->state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = random->state >> 16;
  return (uint32_t)(x ^ x >> 21);
}

/* A float between -range and range. */
static inline float random_float(test_random *random, float range) {
  return ((float)(random_u32(random) >> 8) / 8388608.0f - 1.0f) * range;
}

static inline void random_floats(test_random *random, float *to, size_t count, float range) {
  for (size_t i = 0; i < count; i++) to[i] = random_float(random, range);
}

/* A matrix operand over `data`, rows without gaps. */
static inline tn_tensor matrix_of(void *data, uint32_t dtype, uint32_t rows, uint32_t cols) {
  return (tn_tensor){
      .data = data, .dtype = dtype, .rank = 2, .dims = {rows, cols}, .row_bytes = tn_row_bytes(dtype, cols)};
}
/* A weight matrix in the plain layout. */
static inline tn_tensor weight_of(void *data, uint32_t dtype, uint32_t rows, uint32_t cols) {
  tn_tensor tensor = matrix_of(data, dtype, rows, cols);
  tensor.kind = TN_VALUE_WEIGHT;
  tensor.layout = TN_LAYOUT_PLAIN;
  return tensor;
}
/* A vector weight: f32 in memory. */
static inline tn_tensor vector_of(float *data, uint32_t count) {
  return (tn_tensor){.data = data,
                     .dtype = TN_F32,
                     .rank = 1,
                     .dims = {count},
                     .row_bytes = count * 4,
                     .layout = TN_LAYOUT_PLAIN,
                     .kind = TN_VALUE_WEIGHT};
}

/* Runs the tasks from both ends inwards, as if by three workers. */
static inline void run_out_of_order(void *context, void (*body)(void *argument, uint32_t index, uint32_t worker),
                                    void *argument, uint32_t count) {
  (void)context;
  for (uint32_t i = 0; i < count; i++) body(argument, i % 2 ? i / 2 : count - 1 - i / 2, i % 3);
}
static const tn_parallel out_of_order = {.workers = 3, .run = run_out_of_order};

/* Runs the reference kernel of an op: once in order, once out of order into the same output, which must come out the
 * same. Not for calls that work in place. */
static inline tn_status run_reference(tn_kernel_call *call) {
  tn_kernel kernel = tn_reference_kernels()->kernel[call->opcode];
  call->parallel = NULL;
  tn_status status = kernel(call);
  if (status || !call->output_count) return status;
  const tn_tensor *y = &call->outputs[0];
  size_t bytes = y->row_bytes * (y->rank > 1 ? y->dims[0] : 1);
  void *copy = malloc(bytes + 1);
  memcpy(copy, y->data, bytes);
  memset(y->data, 0xee, bytes);
  call->parallel = &out_of_order;
  status = kernel(call);
  if (memcmp(copy, y->data, bytes) != 0) status = TN_E_INTERNAL;
  free(copy);
  return status;
}

/* Sum of squared differences over the sum of squares of what is wanted. */
static inline double mean_square_error(const float *got, const double *want, size_t count) {
  double difference = 0, power = 0;
  for (size_t i = 0; i < count; i++) {
    difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
    power += want[i] * want[i];
  }
  return power > 0 ? difference / power : difference;
}

#endif
