/* The functions of kernels/math.h, sixteen at a time: the same steps, so the same bits lane by lane. */
#ifndef TENON_KERNELS_VECTOR_MATH_H
#define TENON_KERNELS_VECTOR_MATH_H

#include "kernels/math.h"
#include "kernels/simd/simd.h"
#include "tenon/device.h"

/* a * b + c rounded twice, as the scalar functions do it. */
TN_INLINE vf tn_step(vf a, vf b, float c) {
  return vf_add(vf_mul(a, b), vf_set1(c));
}

/* The largest of `magnitudes`, the bits of floats that are not negative, as int8 and wider integers are scaled by it:
 * NaN where one is infinite or NaN (on the bits, that is larger still), 0 below TN_INT8_TINY. */
TN_INLINE float tn_largest_of(vi magnitudes) {
  uint32_t bits = (uint32_t)vi_largest(magnitudes);
  float largest = tn_float_of_bits(bits);
  return bits >= 0x7f800000u ? TN_NAN : largest < TN_INT8_TINY ? 0.0f : largest;
}

/* 2^n for -126 <= n <= 127. */
TN_INLINE vf tn_powers_of_two(vi n) {
  return vf_bits(vi_shift_left(vi_add(n, vi_set1(127)), 23));
}

/* exp of `count` <= 4 vectors side by side, step by step: each step waits for the one before, and only so much of what
 * comes later can begin meanwhile. */
#define TN_EACH_VECTOR _Pragma("GCC unroll 4") for (int i = 0; i < count; i++)
TN_INLINE void tn_exps_of(const int count, vf *x) {
  vf r[4], p[4];
  vi n[4];
  TN_EACH_VECTOR x[i] = vf_min(vf_set1(TN_EXP_MAX), x[i]); /* NaN passes: it stands second */
  TN_EACH_VECTOR x[i] = vf_max(vf_set1(TN_EXP_MIN), x[i]);
  TN_EACH_VECTOR p[i] = tn_step(x[i], vf_set1(TN_LOG2_E), TN_ROUND_MAGIC);
  TN_EACH_VECTOR p[i] = vf_sub(p[i], vf_set1(TN_ROUND_MAGIC));
  TN_EACH_VECTOR n[i] = vi_round(p[i]);
  TN_EACH_VECTOR r[i] = vf_sub(x[i], vf_mul(p[i], vf_set1(TN_LN2_HIGH)));
  TN_EACH_VECTOR r[i] = vf_sub(r[i], vf_mul(p[i], vf_set1(TN_LN2_LOW)));
  TN_EACH_VECTOR p[i] = tn_step(vf_set1(TN_EXP_P4), r[i], TN_EXP_P3);
  TN_EACH_VECTOR p[i] = tn_step(p[i], r[i], TN_EXP_P2);
  TN_EACH_VECTOR p[i] = tn_step(p[i], r[i], TN_EXP_P1);
  TN_EACH_VECTOR p[i] = tn_step(p[i], r[i], TN_EXP_P0);
  TN_EACH_VECTOR p[i] = vf_mul(p[i], vf_mul(r[i], r[i]));
  TN_EACH_VECTOR p[i] = vf_add(vf_add(p[i], r[i]), vf_set1(1.0f));
  TN_EACH_VECTOR {
    vi half = vi_shift_right_signed(n[i], 1);
    x[i] = vf_mul(vf_mul(p[i], tn_powers_of_two(half)), tn_powers_of_two(vi_sub(n[i], half)));
  }
}
#undef TN_EACH_VECTOR

TN_INLINE vf tn_exps(vf x) {
  tn_exps_of(1, &x);
  return x;
}

/* sign(s) on the magnitude m >= 0 */
TN_INLINE vf tn_with_signs(vf m, vf s) {
  return vf_bits(vi_xor(vi_bits(m), vi_and(vi_bits(s), vi_set1((int32_t)0x80000000u))));
}

TN_INLINE vf tn_tanhs(vf x) {
  vf a = vf_abs(x);
  vf z = vf_mul(x, x);
  vf p = vf_set1(TN_TANH_P4);
  p = tn_step(p, z, TN_TANH_P3);
  p = tn_step(p, z, TN_TANH_P2);
  p = tn_step(p, z, TN_TANH_P1);
  p = tn_step(p, z, TN_TANH_P0);
  vf small = vf_add(a, vf_mul(a, vf_mul(z, p)));
  vf one = vf_set1(1.0f);
  vf large = vf_sub(one, vf_div(vf_set1(2.0f), vf_add(tn_exps(vf_add(a, a)), one)));
  return tn_with_signs(vf_select(vf_less(a, vf_set1(TN_TANH_SMALL)), small, large), x);
}

TN_INLINE vf tn_erfs(vf x) {
  vf a = vf_abs(x);
  vf z = vf_mul(x, x);
  vf p = vf_set1(TN_ERF_P6);
  p = tn_step(p, z, TN_ERF_P5);
  p = tn_step(p, z, TN_ERF_P4);
  p = tn_step(p, z, TN_ERF_P3);
  p = tn_step(p, z, TN_ERF_P2);
  p = tn_step(p, z, TN_ERF_P1);
  p = tn_step(p, z, TN_ERF_P0);
  vf small = vf_add(x, vf_mul(x, p));
  vf capped = vf_select(vf_less(vf_set1(4.0f), a), vf_set1(4.0f), a);
  vf q = vf_set1(TN_ERF_Q6);
  q = tn_step(q, capped, TN_ERF_Q5);
  q = tn_step(q, capped, TN_ERF_Q4);
  q = tn_step(q, capped, TN_ERF_Q3);
  q = tn_step(q, capped, TN_ERF_Q2);
  q = tn_step(q, capped, TN_ERF_Q1);
  q = tn_step(q, capped, TN_ERF_Q0);
  vf large = tn_with_signs(vf_sub(vf_set1(1.0f), tn_exps(q)), x);
  return vf_select(vf_less(a, vf_set1(1.0f)), small, large);
}

/* The activations of device.h. */
TN_INLINE vf tn_activated(vf x, uint32_t activation) {
  const vf one = vf_set1(1.0f);
  const vf minus = vf_bits(vi_xor(vi_bits(x), vi_set1((int32_t)0x80000000u)));
  switch (activation) {
    case TN_ACTIVATION_SILU: return vf_div(x, vf_add(one, tn_exps(minus)));
    case TN_ACTIVATION_GELU_TANH: {
      vf cube = vf_mul(vf_mul(x, x), x);
      vf inner = vf_mul(vf_set1(0.797884561f), vf_add(x, vf_mul(vf_set1(0.044715f), cube)));
      return vf_mul(vf_mul(vf_set1(0.5f), x), vf_add(one, tn_tanhs(inner)));
    }
    case TN_ACTIVATION_GELU:
      return vf_mul(vf_mul(vf_set1(0.5f), x), vf_add(one, tn_erfs(vf_mul(x, vf_set1(0.707106781f)))));
    case TN_ACTIVATION_RELU: return vf_max(vf_zero(), x);
    case TN_ACTIVATION_SIGMOID: return vf_div(one, vf_add(one, tn_exps(minus)));
    case TN_ACTIVATION_TANH: return tn_tanhs(x);
    default: return x;
  }
}

#endif
