/* Rows of activations times one row of a weight: what linear, moe_linear and head_linear are made of.
 *
 * A piece of the weight row is decoded once for all rows that are given; the sum over k stays in order and each row has
 * an accumulator of its own, so their number shows in no result. Order of arithmetic:
 *   f32 or bf16 input: acc = acc + x[k] * w[k] for k in order, in float, product and sum rounded apart
 *   q8a input, integer block formats (w = d q + m): for each block of 32 in order acc = acc + (d * scale) * (sum of
 *     q_w q_x, exact); then, with m, acc = acc + (m * scale) * sum
 *   q8a input, other formats: acc = acc + w[k] * (scale * q[k]) for k in order */
#include "kernels/reference/integer_block.h"
#include "kernels/reference/reference.h"
#include "tensor/decode.h"
#include "tensor/half.h"

/* Values decoded at a time: a whole number of blocks of every format. */
#define CHUNK 256u

/* acc[r] += x[first + r][begin .. begin + count) . w, k in order. */
static void add_products(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t begin, const float *w,
                         uint32_t count, float *acc) {
  const float *row[TN_PRODUCT_ROWS];
  for (uint32_t r = 0; r < rows; r++) row[r] = tn_floats(x, first + r) + begin;
  for (uint32_t k = 0; k < count; k++) {
    for (uint32_t r = 0; r < rows; r++) acc[r] += row[r][k] * w[k];
  }
}

/* The same where x is q8a. */
static void add_quantised_products(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t begin, const float *w,
                                   uint32_t count, float *acc) {
  for (uint32_t r = 0; r < rows; r++) {
    tn_q8a_row row = tn_q8a_row_of(tn_row_at(x, first + r), tn_cols(x));
    for (uint32_t k = begin; k < begin + count; k++) {
      acc[r] += w[k - begin] * (row.scale[k / TN_Q8A_BLOCK] * (float)row.q[k]);
    }
  }
}

/* The same where x is bf16. */
static void add_bf16_products(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t begin, const float *w,
                              uint32_t count, float *acc) {
  for (uint32_t r = 0; r < rows; r++) {
    const uint16_t *row = (const uint16_t *)(const void *)tn_row_at(x, first + r) + begin;
    for (uint32_t k = 0; k < count; k++) acc[r] += tn_bf16_to_f32(row[k]) * w[k];
  }
}

/* The weight decoded to float piece by piece. */
static void float_product(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t column, const tn_tensor *weight,
                          uint32_t n, float *acc) {
  float w[CHUNK];
  uint32_t cols = tn_cols(weight);
  const char *from = tn_row_at(weight, n);
  for (uint32_t begin = 0; begin < cols; begin += CHUNK) {
    uint32_t count = cols - begin < CHUNK ? cols - begin : CHUNK;
    tn_decode_row((tn_dtype)weight->dtype, from + tn_row_bytes(weight->dtype, begin), w, count);
    if (x->dtype == TN_Q8A)
      add_quantised_products(x, first, rows, column + begin, w, count, acc);
    else if (x->dtype == TN_BF16)
      add_bf16_products(x, first, rows, column + begin, w, count, acc);
    else
      add_products(x, first, rows, column + begin, w, count, acc);
  }
}

/* Integers within a block, floats between blocks. */
static void integer_product(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t column, const tn_tensor *weight,
                            uint32_t n, float *acc) {
  const char *from = tn_row_at(weight, n);
  uint64_t block_bytes = tn_row_bytes(weight->dtype, TN_Q8A_BLOCK);
  for (uint32_t i = 0; i < tn_cols(weight) / TN_Q8A_BLOCK; i++) {
    uint32_t block = column / TN_Q8A_BLOCK + i;
    tn_integer_block w;
    tn_integer_block_of(weight->dtype, from + i * block_bytes, &w);
    for (uint32_t r = 0; r < rows; r++) {
      tn_q8a_row row = tn_q8a_row_of(tn_row_at(x, first + r), tn_cols(x));
      acc[r] = tn_integer_block_add(acc[r], &w, row.q + block * TN_Q8A_BLOCK, row.scale[block], row.sum[block]);
    }
  }
}

void tn_reference_product(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t column, const tn_tensor *weight,
                          uint32_t n, float *y) {
  for (uint32_t r = 0; r < rows; r++) y[r] = 0.0f;
  if (x->dtype == TN_Q8A && tn_is_integer_block(weight->dtype))
    integer_product(x, first, rows, column, weight, n, y);
  else
    float_product(x, first, rows, column, weight, n, y);
}
