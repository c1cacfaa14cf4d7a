/* norm and quantise: the ops that reduce a row, and the activation format q8a.
 *
 * Sums run over the group in order, in double, so that the reference stands above what any order of floats gives. */
#include "kernels/math.h"
#include "kernels/reference/reference.h"
#include "tensor/half.h"

void tn_reference_quantise_block(const float *values, uint32_t count, void *row, uint32_t cols, uint32_t block) {
  tn_q8a_row y = tn_q8a_row_of(row, cols);
  int8_t *q = y.q + block * TN_Q8A_BLOCK;
  float amax = 0.0f;
  for (uint32_t i = 0; i < count; i++) {
    float magnitude = tn_abs(values[i]);
    if (magnitude > amax || magnitude != magnitude) amax = magnitude;
    if (amax != amax) break;
  }
  int finite = amax < TN_INFINITY;
  int zero = !finite || amax < TN_INT8_TINY;
  float inverse = zero ? 0.0f : 127.0f / amax;
  int32_t sum = 0;
  for (uint32_t i = 0; i < TN_Q8A_BLOCK; i++) {
    float rounded = zero || i >= count ? 0.0f : (values[i] * inverse + TN_ROUND_MAGIC) - TN_ROUND_MAGIC;
    q[i] = (int8_t)rounded;
    sum += q[i];
  }
  y.scale[block] = finite ? (zero ? 0.0f : amax / 127.0f) : TN_NAN;
  y.sum[block] = sum;
}

static void quantise_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  uint32_t cols = tn_cols(&call->inputs[0]);
  const float *x = tn_floats(&call->inputs[0], m);
  void *y = tn_row_at(&call->outputs[0], m);
  if (call->outputs[0].dtype == TN_BF16) {
    for (uint32_t c = 0; c < cols; c++) ((uint16_t *)y)[c] = tn_f32_to_bf16(x[c]);
    return;
  }
  for (uint32_t c = 0; c < cols; c += TN_Q8A_BLOCK) {
    uint32_t count = cols - c < TN_Q8A_BLOCK ? cols - c : TN_Q8A_BLOCK;
    tn_reference_quantise_block(x + c, count, y, cols, c / TN_Q8A_BLOCK);
  }
}

/* x[M,K] f32 -> y[M,K] q8a or bf16 */
tn_status tn_reference_quantise(const tn_kernel_call *call) {
  tn_for_each(call, quantise_row, tn_rows(&call->inputs[0]));
  return TN_OK;
}

/* The factor and the shift of one group: y = (x - mean) * inverse. */
static void group_statistics(const tn_norm_attributes *a, const float *x, uint32_t count, float *mean, float *inverse) {
  double shift = 0, squares = 0;
  if (a->kind == TN_NORM_LAYER) {
    for (uint32_t i = 0; i < count; i++) shift += (double)x[i];
    shift /= count;
  }
  for (uint32_t i = 0; i < count; i++) {
    double centred = (double)x[i] - shift;
    squares += centred * centred;
  }
  *mean = (float)shift;
  *inverse = tn_rsqrt((float)(squares / count + (double)a->epsilon));
}

/* One row. A q8a output is the f32 output quantised: values gather in a block until it is full. */
static void norm_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_norm_attributes *a = call->attributes;
  const tn_tensor *weight = tn_input(call, 1), *bias = tn_input(call, 2), *out = &call->outputs[0];
  const float *w = weight ? weight->data : NULL, *b = bias ? bias->data : NULL;
  uint32_t w_cols = weight ? tn_cols(weight) : 1, b_cols = bias ? tn_cols(bias) : 1;
  uint32_t cols = tn_cols(&call->inputs[0]), group = a->group ? a->group : cols;
  const float *x = tn_floats(&call->inputs[0], m);
  float block[TN_Q8A_BLOCK], mean = 0, inverse = 0;
  for (uint32_t c = 0; c < cols; c++) {
    if (c % group == 0) group_statistics(a, x + c, group, &mean, &inverse);
    float y = (x[c] - mean) * inverse;
    if (w) y *= w[c % w_cols];
    if (b) y += b[c % b_cols];
    if (out->dtype == TN_F32) {
      tn_floats(out, m)[c] = y;
      continue;
    }
    block[c % TN_Q8A_BLOCK] = y;
    if (c % TN_Q8A_BLOCK == TN_Q8A_BLOCK - 1 || c == cols - 1) {
      tn_reference_quantise_block(block, c % TN_Q8A_BLOCK + 1, tn_row_at(out, m), cols, c / TN_Q8A_BLOCK);
    }
  }
}

/* x[M,K], weight[K or group]?, bias[K or group]? -> y[M,K] f32 or q8a */
tn_status tn_reference_norm(const tn_kernel_call *call) {
  tn_for_each(call, norm_row, tn_rows(&call->inputs[0]));
  return TN_OK;
}
