/* What moe_linear and head_linear compute of one part of a row. The order of the sums is linear's. */
#include "kernels/reference/integer_block.h"
#include "kernels/reference/reference.h"
#include "tensor/decode.h"
#include "tensor/half.h"

/* Values decoded at a time: a whole number of blocks of every format. */
#define CHUNK 256u

/* `count` values of row m of f32, bf16 or q8a from column `first` on. */
static void read_values(const tn_tensor *x, uint32_t m, uint32_t first, float *values, uint32_t count) {
  if (x->dtype == TN_Q8A) {
    tn_q8a_row row = tn_q8a_row_of(tn_row_at(x, m), tn_cols(x));
    for (uint32_t k = 0; k < count; k++) values[k] = row.scale[(first + k) / TN_Q8A_BLOCK] * (float)row.q[first + k];
  } else if (x->dtype == TN_BF16) {
    const uint16_t *row = tn_row_at(x, m);
    for (uint32_t k = 0; k < count; k++) values[k] = tn_bf16_to_f32(row[first + k]);
  } else {
    for (uint32_t k = 0; k < count; k++) values[k] = tn_floats(x, m)[first + k];
  }
}

static float integer_product(const tn_tensor *x, uint32_t m, uint32_t column, const tn_tensor *weight, uint32_t n) {
  tn_q8a_row row = tn_q8a_row_of(tn_row_at(x, m), tn_cols(x));
  const char *from = tn_row_at(weight, n);
  uint64_t block_bytes = tn_row_bytes(weight->dtype, TN_Q8A_BLOCK);
  float acc = 0.0f;
  for (uint32_t i = 0; i < tn_cols(weight) / TN_Q8A_BLOCK; i++) {
    uint32_t block = column / TN_Q8A_BLOCK + i;
    tn_integer_block w;
    tn_integer_block_of(weight->dtype, from + i * block_bytes, &w);
    acc = tn_integer_block_add(acc, &w, row.q + block * TN_Q8A_BLOCK, row.scale[block], row.sum[block]);
  }
  return acc;
}

float tn_reference_part_product(const tn_tensor *x, uint32_t m, uint32_t column, const tn_tensor *weight, uint32_t n) {
  if (x->dtype == TN_Q8A && tn_is_integer_block(weight->dtype)) return integer_product(x, m, column, weight, n);
  float w[CHUNK], values[CHUNK], acc = 0.0f;
  uint32_t cols = tn_cols(weight);
  const char *from = tn_row_at(weight, n);
  for (uint32_t begin = 0; begin < cols; begin += CHUNK) {
    uint32_t count = cols - begin < CHUNK ? cols - begin : CHUNK;
    tn_decode_row((tn_dtype)weight->dtype, from + tn_row_bytes(weight->dtype, begin), w, count);
    read_values(x, m, column + begin, values, count);
    for (uint32_t k = 0; k < count; k++) acc += values[k] * w[k];
  }
  return acc;
}
