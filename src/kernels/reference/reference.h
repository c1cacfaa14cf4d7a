/* What the reference kernels share: reaching operands, walking rows, and one declaration per op.
 *
 * A reference kernel is the meaning of its op: plain scalar C, one file per idea, every loop in the order the sums are
 * taken. Nothing here is fast. Work is split over rows, columns or heads, never over a sum, so no result depends on
 * the number of workers or on the rows beside it.
 * Operands come checked (tn_shape_check); a vector weight (bias, norm weight, frequencies, sinks) is dense f32. */
#ifndef TENON_KERNELS_REFERENCE_H
#define TENON_KERNELS_REFERENCE_H

#include "tenon/driver.h"

#define TN_OP(number, NAME, name, revision, min_in, max_in, max_out, attributes, tolerance, text) \
  tn_status tn_reference_##name(const tn_kernel_call *call);
#include "tenon/ops.def"
#undef TN_OP

/* y = f(x) of a tn_activation. */
float tn_reference_activate(uint32_t activation, float x);

#define TN_PRODUCT_ROWS 8u
/* y[r] = x . w for at most TN_PRODUCT_ROWS rows of x (f32, bf16 or q8a) from `first` on, of each as many columns from
 * `column` on as the weight has (q8a: from the begin of a block on), and row `n` of the weight, counted over all its
 * matrices. */
void tn_reference_product(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t column, const tn_tensor *weight,
                          uint32_t n, float *y);

/* Quantises `count` <= 32 values to block `block` of a q8a row of `cols` values; values past count are zeros.
 * q = x (127 / amax) to nearest, ties to even; scale = amax / 127. A block of only tiny values (amax < 2^-100, where
 * 127 / amax would overflow) is all zeros; a block holding an infinity or NaN gets q = 0, scale NaN, so that nothing
 * computed from it looks like a number. */
void tn_reference_quantise_block(const float *values, uint32_t count, void *row, uint32_t cols, uint32_t block);

/* One q8a row of `cols` values, taken apart (device.h draws it). */
typedef struct tn_q8a_row {
  int8_t *q;
  float *scale;
  int32_t *sum;
} tn_q8a_row;
static inline tn_q8a_row tn_q8a_row_of(void *row, uint32_t cols) {
  uint64_t padded = ((uint64_t)cols + TN_Q8A_BLOCK - 1) / TN_Q8A_BLOCK * TN_Q8A_BLOCK;
  char *bytes = row;
  tn_q8a_row parts;
  parts.q = (int8_t *)bytes;
  parts.scale = (float *)(void *)(bytes + padded);
  parts.sum = (int32_t *)(void *)(bytes + padded + padded / TN_Q8A_BLOCK * 4);
  return parts;
}

/* Columns and rows of an operand seen as a matrix; a vector is one row. */
static inline uint32_t tn_cols(const tn_tensor *tensor) {
  return tensor->dims[tensor->rank - 1];
}
static inline uint32_t tn_rows(const tn_tensor *tensor) {
  uint32_t rows = 1;
  for (uint32_t i = 0; i + 1 < tensor->rank; i++) rows *= tensor->dims[i];
  return rows;
}
/* Where row `row` begins. */
static inline void *tn_row_at(const tn_tensor *tensor, uint32_t row) {
  return (char *)tensor->data + row * tensor->row_bytes;
}
static inline float *tn_floats(const tn_tensor *tensor, uint32_t row) {
  return tn_row_at(tensor, row);
}
/* Input `index` of a call, or NULL where it is absent. */
static inline const tn_tensor *tn_input(const tn_kernel_call *call, uint32_t index) {
  return index < call->input_count && call->inputs[index].data ? &call->inputs[index] : NULL;
}

/* Runs body(call, index, worker) for every index below count, over the call's workers if it has any. */
static inline void tn_for_each(const tn_kernel_call *call, void (*body)(void *call, uint32_t index, uint32_t worker),
                               uint32_t count) {
  void *argument = (void *)(uintptr_t)call;
  if (call->parallel) {
    call->parallel->run(call->parallel->context, body, argument, count);
    return;
  }
  for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
}

#endif
