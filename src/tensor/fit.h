/* Finding the scales of quantised groups: least squares over a grid of candidates. Used by the encoders only.
 *
 * The error that is minimised is sum w (x - x')^2. Rounding to integers makes it a function with many small valleys, so
 * a number of inverse scales around the one that just covers the range is tried: each gives integers, the integers give
 * the best scale in closed form, and the best of all wins. */
#ifndef TENON_TENSOR_FIT_H
#define TENON_TENSOR_FIT_H

#include "tensor/half.h"
#include <stdbool.h>

static inline float tn_magnitude(float x) {
  return x < 0 ? -x : x;
}

/* 1 / scale, 0 for a scale of 0: the values of a group without a scale all become 0. */
static inline float tn_inverse(float scale) {
  return scale != 0 ? 1 / scale : 0;
}

/* A scale as f16; false when it isn't finite there. */
static inline bool tn_scale_to_f16(float scale, uint16_t *half) {
  *half = tn_f32_to_f16(scale);
  return (*half & 0x7fff) < 0x7c00;
}

/* `value` rounded to nearest, ties to even, within low..high (both within +-2^22). A NaN gives low. */
static inline int tn_quantise(float value, int low, int high) {
  float bounded = value > (float)low ? value : (float)low;
  bounded = bounded < (float)high ? bounded : (float)high;
  const float shift = 0x1.8p23f; /* at this size floats are whole numbers, so the addition rounds */
  return (int)((bounded + shift) - shift);
}

/* Weights for `count` values: |x| plus its mean, so that large weights of the model count more but small ones are not
 * given up. */
void tn_fit_weights(const float *x, int count, float *w);

/* d for x ~ d q with q in low..high (low < 0 < high); its sign is free. 0 when all x are 0. */
float tn_fit_scale(const float *x, const float *w, int count, int low, int high);

/* d >= 0 and m for x ~ d q + m with q in 0..high; with `below_zero` m is at most 0. */
void tn_fit_affine(const float *x, const float *w, int count, int high, bool below_zero, float *d, float *m);

/* sum w (x - x')^2 for x' = d q + m with q in low..high the nearest integers. */
float tn_fit_error(const float *x, const float *w, int count, int low, int high, float d, float m);

#endif
