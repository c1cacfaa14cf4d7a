/* rope_table and rope: rotary position embedding.
 *
 * A position p turns the pair (a, b) number m of a head by the angle p * frequency[m]:
 *   a' = a cos - b sin, b' = a sin + b cos     (Su et al., RoFormer, 2021)
 * The angle is the f32 product of position and frequency, as models are trained with it. */
#include "kernels/math.h"
#include "kernels/reference/rope.h"

static void table_row(void *argument, uint32_t t, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_rope_table_attributes *a = call->attributes;
  const float *frequency = call->inputs[0].data;
  float position = (float)call->batch->rows[t].position[0];
  uint32_t half = a->rotary / 2;
  float *y = tn_floats(&call->outputs[0], t);
  for (uint32_t m = 0; m < half; m++) {
    float sine, cosine;
    tn_sin_cos(position * frequency[m], &sine, &cosine);
    y[m] = cosine * a->magnitude;
    y[half + m] = sine * a->magnitude;
  }
}

/* frequency[rotary/2] -> y[T,rotary] */
tn_status tn_reference_rope_table(const tn_kernel_call *call) {
  tn_for_each(call, table_row, call->batch->row_count);
  return TN_OK;
}

static void rope_row(void *argument, uint32_t t, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_rope_attributes *a = call->attributes;
  const float *table = tn_floats(&call->inputs[1], t);
  uint32_t cols = tn_cols(&call->inputs[0]), half = a->rotary / 2;
  for (uint32_t begin = 0; begin < cols; begin += a->head_dim) {
    const float *x = tn_floats(&call->inputs[0], t) + begin;
    float *y = tn_floats(&call->outputs[0], t) + begin;
    for (uint32_t i = 0; i < half; i++) {
      uint32_t first = a->pairing == TN_ROPE_HALF ? i : 2 * i;
      uint32_t second = a->pairing == TN_ROPE_HALF ? i + half : 2 * i + 1;
      float turned = tn_turned_value(x, first, half, a->pairing, table); /* y may be x: both before either is stored */
      y[second] = tn_turned_value(x, second, half, a->pairing, table);
      y[first] = turned;
    }
    for (uint32_t i = a->rotary; i < a->head_dim; i++) y[i] = x[i];
  }
}

/* x[T,H*D], table[T,rotary] -> y[T,H*D] */
tn_status tn_reference_rope(const tn_kernel_call *call) {
  tn_for_each(call, rope_row, tn_rows(&call->inputs[0]));
  return TN_OK;
}
