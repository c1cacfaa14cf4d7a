/* head_linear: every head of a row goes through a matrix of its own. Sums as linear's. */
#include "kernels/reference/reference.h"

static void one_head(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_head_linear_attributes *a = call->attributes;
  const tn_tensor *weight = &call->inputs[1];
  uint32_t heads = weight->dims[0], rows = weight->dims[1], cols = weight->dims[2];
  uint32_t m = index / heads, head = index % heads;
  const tn_tensor *x = &call->inputs[0];
  uint32_t column = head * (cols + a->pass);
  float *y = tn_floats(&call->outputs[0], m) + head * (a->pass + rows);
  for (uint32_t i = 0; i < a->pass; i++) y[i] = tn_floats(x, m)[column + cols + i];
  for (uint32_t n = 0; n < rows; n++) tn_reference_product(x, m, 1, column, weight, head * rows + n, y + a->pass + n);
}

/* x[M,H*(K+P)] in f32 or, where P is 0, bf16 or q8a, W[H,N,K] -> y[M,H*(P+N)] */
tn_status tn_reference_head_linear(const tn_kernel_call *call) {
  tn_for_each(call, one_head, tn_rows(&call->inputs[0]) * call->inputs[1].dims[0]);
  return TN_OK;
}
