/* linear: y = x W^T with everything that may follow it.
 *
 * One task computes one column of y for all rows. Rows of x are taken a tile at a time, so that a piece of the weight
 * row is decoded once per tile; the sum over k stays in order and each row has an accumulator of its own, so the tile's
 * size shows in no result. Order of arithmetic: f32 or bf16 input: acc = acc + x[k] * w[k] for k in order, in float,
 * product and sum rounded apart; q8a input, integer block formats (w = d q + m): for each block of 32 in order acc =
 * acc + (d * scale) * (sum of q_w q_x, exact); then, with m, acc = acc + (m * scale) * sum q8a input, other formats:
 * acc = acc + w[k] * (scale * q[k]) for k in order */
#include "kernels/reference/integer_block.h"
#include "kernels/reference/reference.h"
#include "tensor/decode.h"
#include "tensor/half.h"

/* Values decoded at a time: a whole number of blocks of every format. */
#define CHUNK 256u
#define TILE 8u

/* acc[r] += x[first + r][begin .. begin + count) . w, k in order. */
static void add_products(const tn_tensor *x, uint32_t first, uint32_t rows, uint32_t begin, const float *w,
                         uint32_t count, float *acc) {
  const float *row[TILE];
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

/* Row n of the weight, decoded to float piece by piece, times rows first .. first + rows of x. */
static void float_tile(const tn_tensor *x, const tn_tensor *weight, uint32_t n, uint32_t first, uint32_t rows,
                       float *acc) {
  float w[CHUNK];
  uint32_t cols = tn_cols(weight);
  const char *from = tn_row_at(weight, n);
  for (uint32_t begin = 0; begin < cols; begin += CHUNK) {
    uint32_t count = cols - begin < CHUNK ? cols - begin : CHUNK;
    tn_decode_row((tn_dtype)weight->dtype, from + tn_row_bytes(weight->dtype, begin), w, count);
    if (x->dtype == TN_Q8A) {
      add_quantised_products(x, first, rows, begin, w, count, acc);
    } else if (x->dtype == TN_BF16) {
      add_bf16_products(x, first, rows, begin, w, count, acc);
    } else {
      add_products(x, first, rows, begin, w, count, acc);
    }
  }
}

/* Row n of a weight of integer blocks times rows of a q8a x: integers within a block, floats between blocks. */
static void integer_tile(const tn_tensor *x, const tn_tensor *weight, uint32_t n, uint32_t first, uint32_t rows,
                         float *acc) {
  const char *from = tn_row_at(weight, n);
  uint64_t block_bytes = tn_row_bytes(weight->dtype, TN_Q8A_BLOCK);
  for (uint32_t block = 0; block < tn_cols(weight) / TN_Q8A_BLOCK; block++) {
    tn_integer_block w;
    tn_integer_block_of(weight->dtype, from + block * block_bytes, &w);
    for (uint32_t r = 0; r < rows; r++) {
      tn_q8a_row row = tn_q8a_row_of(tn_row_at(x, first + r), tn_cols(x));
      acc[r] = tn_integer_block_add(acc[r], &w, row.q + block * TN_Q8A_BLOCK, row.scale[block], row.sum[block]);
    }
  }
}

/* acc[r] = x[first + r] . W[n] */
static void product_tile(const tn_kernel_call *call, uint32_t n, uint32_t first, uint32_t rows, float *acc) {
  const tn_tensor *x = &call->inputs[0], *weight = &call->inputs[1];
  for (uint32_t r = 0; r < rows; r++) acc[r] = 0.0f;
  if (x->dtype == TN_Q8A && tn_is_integer_block(weight->dtype)) {
    integer_tile(x, weight, n, first, rows, acc);
  } else {
    float_tile(x, weight, n, first, rows, acc);
  }
}

/* The place of column n of the product: the outputs share the columns in order. */
static float *output_at(const tn_kernel_call *call, uint32_t m, uint32_t n) {
  uint32_t output = 0;
  while (n >= tn_cols(&call->outputs[output])) n -= tn_cols(&call->outputs[output++]);
  return tn_floats(&call->outputs[output], m) + n;
}

static uint32_t total_columns(const tn_kernel_call *call) {
  uint32_t columns = 0;
  for (uint32_t i = 0; i < call->output_count; i++) columns += tn_cols(&call->outputs[i]);
  return columns;
}

/* Column n of y, all rows. */
static void linear_column(void *argument, uint32_t n, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_linear_attributes *a = call->attributes;
  const tn_tensor *bias = tn_input(call, 2), *residual = tn_input(call, 3);
  const float *b = bias ? bias->data : NULL;
  uint32_t rows = tn_rows(&call->inputs[0]), value_row = n + total_columns(call);
  float gate[TILE], value[TILE];
  for (uint32_t first = 0; first < rows; first += TILE) {
    uint32_t count = rows - first < TILE ? rows - first : TILE;
    product_tile(call, n, first, count, gate);
    if (a->gated) product_tile(call, value_row, first, count, value);
    for (uint32_t r = 0; r < count; r++) {
      float y = tn_reference_activate(a->activation, b ? gate[r] + b[n] : gate[r]);
      if (a->gated) y *= b ? value[r] + b[value_row] : value[r];
      y *= a->scale;
      if (residual) y += tn_floats(residual, first + r)[n];
      *output_at(call, first + r, n) = y;
    }
  }
}

/* x[M,K], W[N or 2N,K], bias[N or 2N]?, residual[M,N]? -> y[M,N] */
tn_status tn_reference_linear(const tn_kernel_call *call) {
  tn_for_each(call, linear_column, total_columns(call));
  return TN_OK;
}
