/* Ops that work value by value: add, mul, activation, scale, softcap. An output may be the very input. */
#include "kernels/math.h"
#include "kernels/reference/reference.h"

float tn_reference_activate(uint32_t activation, float x) {
  switch (activation) {
    case TN_ACTIVATION_SILU: return x / (1.0f + tn_exp(-x));
    case TN_ACTIVATION_GELU_TANH: {
      float inner = 0.797884561f * (x + 0.044715f * (x * x * x)); /* sqrt(2 / pi) */
      return 0.5f * x * (1.0f + tn_tanh(inner));
    }
    case TN_ACTIVATION_GELU: return 0.5f * x * (1.0f + tn_erf(x * 0.707106781f)); /* 1 / sqrt 2 */
    case TN_ACTIVATION_RELU: return x > 0.0f || x != x ? x : 0.0f;
    case TN_ACTIVATION_SIGMOID: return 1.0f / (1.0f + tn_exp(-x));
    case TN_ACTIVATION_TANH: return tn_tanh(x);
    default: return x;
  }
}

/* The operand that row m of `a` meets in b[M,K], W[K] or W[1]: its first value, and the step to the next. */
static const float *second_operand(const tn_tensor *b, uint32_t m, uint32_t *step) {
  if (b->rank > 1) {
    *step = 1;
    return tn_floats(b, m);
  }
  *step = tn_cols(b) > 1;
  return b->data;
}

static void add_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  uint32_t step;
  const float *a = tn_floats(&call->inputs[0], m), *b = second_operand(&call->inputs[1], m, &step);
  float *y = tn_floats(&call->outputs[0], m);
  for (uint32_t k = 0; k < tn_cols(&call->inputs[0]); k++) y[k] = a[k] + b[k * step];
}

/* a[M,K], b[M,K] or W[K] -> y[M,K] */
tn_status tn_reference_add(const tn_kernel_call *call) {
  tn_for_each(call, add_row, tn_rows(&call->outputs[0]));
  return TN_OK;
}

static void mul_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  uint32_t step;
  const float *a = tn_floats(&call->inputs[0], m), *b = second_operand(&call->inputs[1], m, &step);
  float *y = tn_floats(&call->outputs[0], m);
  for (uint32_t k = 0; k < tn_cols(&call->inputs[0]); k++) y[k] = a[k] * b[k * step];
}

/* a[M,K], b[M,K] or W[K] or W[1] -> y[M,K] */
tn_status tn_reference_mul(const tn_kernel_call *call) {
  tn_for_each(call, mul_row, tn_rows(&call->outputs[0]));
  return TN_OK;
}

static void activation_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_activation_attributes *a = call->attributes;
  const tn_tensor *factor = tn_input(call, 1);
  const float *x = tn_floats(&call->inputs[0], m), *b = factor ? tn_floats(factor, m) : NULL;
  float *y = tn_floats(&call->outputs[0], m);
  for (uint32_t k = 0; k < tn_cols(&call->inputs[0]); k++) {
    float value = tn_reference_activate(a->activation, x[k]);
    y[k] = b ? value * b[k] : value;
  }
}

/* x[M,K], b[M,K]? -> y[M,K] */
tn_status tn_reference_activation(const tn_kernel_call *call) {
  tn_for_each(call, activation_row, tn_rows(&call->outputs[0]));
  return TN_OK;
}

static void scale_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_scalar_attributes *a = call->attributes;
  const float *x = tn_floats(&call->inputs[0], m);
  float *y = tn_floats(&call->outputs[0], m);
  for (uint32_t k = 0; k < tn_cols(&call->inputs[0]); k++) y[k] = x[k] * a->value;
}

/* x[M,K] -> y[M,K] */
tn_status tn_reference_scale(const tn_kernel_call *call) {
  tn_for_each(call, scale_row, tn_rows(&call->outputs[0]));
  return TN_OK;
}

static void softcap_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_scalar_attributes *a = call->attributes;
  const float *x = tn_floats(&call->inputs[0], m);
  float *y = tn_floats(&call->outputs[0], m);
  for (uint32_t k = 0; k < tn_cols(&call->inputs[0]); k++) y[k] = a->value * tn_tanh(x[k] / a->value);
}

/* x[M,K] -> y[M,K] */
tn_status tn_reference_softcap(const tn_kernel_call *call) {
  tn_for_each(call, softcap_row, tn_rows(&call->outputs[0]));
  return TN_OK;
}
