/* head_linear: every head of a row goes through a matrix of its own. Sums as linear's: acc = acc + x[k] * w[k], k in
 * order. */
#include "kernels/reference/reference.h"
#include "tensor/decode.h"

/* Values decoded at a time: a whole number of blocks of every format. */
#define CHUNK 256u

static float product(const tn_tensor *weight, uint32_t row, const float *x) {
  float w[CHUNK], acc = 0.0f;
  uint32_t cols = tn_cols(weight);
  const char *from = tn_row_at(weight, row);
  for (uint32_t begin = 0; begin < cols; begin += CHUNK) {
    uint32_t count = cols - begin < CHUNK ? cols - begin : CHUNK;
    tn_decode_row((tn_dtype)weight->dtype, from + tn_row_bytes(weight->dtype, begin), w, count);
    for (uint32_t k = 0; k < count; k++) acc += x[begin + k] * w[k];
  }
  return acc;
}

static void one_head(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_head_linear_attributes *a = call->attributes;
  const tn_tensor *weight = &call->inputs[1];
  uint32_t heads = weight->dims[0], rows = weight->dims[1], cols = weight->dims[2];
  uint32_t m = index / heads, head = index % heads;
  const float *x = tn_floats(&call->inputs[0], m) + head * (cols + a->pass);
  float *y = tn_floats(&call->outputs[0], m) + head * (a->pass + rows);
  for (uint32_t i = 0; i < a->pass; i++) y[i] = x[cols + i];
  for (uint32_t n = 0; n < rows; n++) y[a->pass + n] = product(weight, head * rows + n, x);
}

/* x[M,H*(K+P)], W[H,N,K] -> y[M,H*(P+N)] */
tn_status tn_reference_head_linear(const tn_kernel_call *call) {
  tn_for_each(call, one_head, tn_rows(&call->inputs[0]) * call->inputs[1].dims[0]);
  return TN_OK;
}
