/* The elementary functions of the kernels: exp, log, tanh, erf, sin, cos, sqrt.
 *
 * Freestanding and without libm, so that every target - a DSP included - gets the same bits. Each function is a range
 * reduction and one polynomial, written as plain multiplications and additions in a fixed order (Horner, highest power
 * first; the build never contracts them to fma); a vector version that does the same steps gives the same bits. The
 * polynomials are minimax fits over the reduced range, made for this file; the fit's own error stands with each.
 * Inputs: all finite floats and infinities; NaN gives NaN. Subnormal inputs and results are kept. */
#ifndef TENON_KERNELS_MATH_H
#define TENON_KERNELS_MATH_H

#include <stdint.h>

#include "tensor/half.h"

#define TN_INFINITY __builtin_inff()
#define TN_NAN __builtin_nanf("")

/* Adding and taking away 1.5 * 2^23 rounds a float of magnitude below 2^22 to the nearest integer, ties to even. */
#define TN_ROUND_MAGIC 12582912.0f
/* 2^-100: where no magnitude reaches it, int8 values are zeros (127 / it would overflow soon). */
#define TN_INT8_TINY 7.88860905e-31f
/* The same for doubles below 2^51: 1.5 * 2^52. */
#define TN_ROUND_MAGIC_F64 6755399441055744.0

static inline float tn_abs(float x) {
  return tn_float_of_bits(tn_float_bits(x) & 0x7fffffffu);
}

/* `magnitude` (not negative) with the sign of `sign`. */
static inline float tn_with_sign(float magnitude, float sign) {
  return tn_float_of_bits(tn_float_bits(magnitude) | (tn_float_bits(sign) & 0x80000000u));
}

/* Correctly rounded. */
static inline float tn_sqrt(float x) {
  return __builtin_sqrtf(x);
}

/* 1 / sqrt(x): two correctly rounded operations. */
static inline float tn_rsqrt(float x) {
  return 1.0f / __builtin_sqrtf(x);
}

/* 2^n for -126 <= n <= 127. */
static inline float tn_power_of_two(int32_t n) {
  return tn_float_of_bits((uint32_t)(n + 127) << 23);
}

/* e^x, within 1 ulp. x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 P(r), fit 3e-9. ln 2 comes in two parts,
 * the first short enough that n times it is exact. 2^n is applied in two halves, so results down to the smallest
 * subnormal and up to infinity come out right. */
#define TN_EXP_MAX 89.0f
#define TN_EXP_MIN -104.0f
#define TN_LOG2_E 1.44269504f
#define TN_LN2_HIGH 0.693359375f
#define TN_LN2_LOW -2.12194440e-4f
#define TN_EXP_P0 0.49999994f
#define TN_EXP_P1 0.1666652f
#define TN_EXP_P2 0.041668393f
#define TN_EXP_P3 0.008368781f
#define TN_EXP_P4 0.0013814465f
static inline float tn_exp(float x) {
  if (x != x) return x;
  if (x > TN_EXP_MAX) x = TN_EXP_MAX;
  if (x < TN_EXP_MIN) x = TN_EXP_MIN;
  float rounded = (x * TN_LOG2_E + TN_ROUND_MAGIC) - TN_ROUND_MAGIC;
  float r = (x - rounded * TN_LN2_HIGH) - rounded * TN_LN2_LOW;
  float p = TN_EXP_P4;
  p = p * r + TN_EXP_P3;
  p = p * r + TN_EXP_P2;
  p = p * r + TN_EXP_P1;
  p = p * r + TN_EXP_P0;
  float e = (p * (r * r) + r) + 1.0f;
  int32_t n = (int32_t)rounded;
  int32_t half = n >> 1;
  return e * tn_power_of_two(half) * tn_power_of_two(n - half);
}

/* Natural logarithm, within 1 ulp. x = 2^n m with sqrt(1/2) <= m < sqrt(2), f = m - 1;
 * log m = f - f^2/2 + f^3 P(f), fit 1e-8 of f^3. log 0 = -inf, negative x give NaN. */
#define TN_LOG_P0 0.33333316f
#define TN_LOG_P1 -0.2500081f
#define TN_LOG_P2 0.20002286f
#define TN_LOG_P3 -0.16624554f
#define TN_LOG_P4 0.14181197f
#define TN_LOG_P5 -0.13128768f
#define TN_LOG_P6 0.12881622f
#define TN_LOG_P7 -0.07859546f
static inline float tn_log(float x) {
  if (x != x || x == TN_INFINITY) return x;
  if (x == 0.0f) return -TN_INFINITY;
  if (x < 0.0f) return TN_NAN;
  int32_t n = 0;
  if (x < 1.17549435e-38f) {
    x *= 8388608.0f;
    n = -23;
  }
  uint32_t bits = tn_float_bits(x) - 0x3f3504f3u; /* relative to sqrt(1/2) */
  n += (int32_t)bits >> 23;
  float f = tn_float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = TN_LOG_P7;
  p = p * f + TN_LOG_P6;
  p = p * f + TN_LOG_P5;
  p = p * f + TN_LOG_P4;
  p = p * f + TN_LOG_P3;
  p = p * f + TN_LOG_P2;
  p = p * f + TN_LOG_P1;
  p = p * f + TN_LOG_P0;
  float square = f * f;
  float rest = p * (f * square) + (float)n * TN_LN2_LOW;
  rest = rest - 0.5f * square;
  return (rest + f) + (float)n * TN_LN2_HIGH;
}

/* log(1 + exp(x)), x itself where exp would be too large to matter */
static inline float tn_softplus(float x) {
  return x > 20.0f ? x : tn_log(1.0f + tn_exp(x));
}

/* Hyperbolic tangent, within 2 ulp. Small: x + x z P(z), z = x^2 < 0.55^2, fit 1e-9; else 1 - 2 / (e^2|x| + 1). */
#define TN_TANH_SMALL 0.55f
#define TN_TANH_P0 -0.3333332f
#define TN_TANH_P1 0.13332602f
#define TN_TANH_P2 -0.05385386f
#define TN_TANH_P3 0.021077754f
#define TN_TANH_P4 -0.006282467f
static inline float tn_tanh(float x) {
  float a = tn_abs(x);
  if (a < TN_TANH_SMALL) {
    float z = x * x;
    float p = TN_TANH_P4;
    p = p * z + TN_TANH_P3;
    p = p * z + TN_TANH_P2;
    p = p * z + TN_TANH_P1;
    p = p * z + TN_TANH_P0;
    return tn_with_sign(a + a * (z * p), x);
  }
  if (x != x) return x;
  return tn_with_sign(1.0f - 2.0f / (tn_exp(a + a) + 1.0f), x);
}

/* The error function, within 2 ulp. |x| < 1: x + x P(x^2), fit 1e-9; else 1 - e^Q(|x|), where Q
 * fits log(1 - erf) on 1..4. */
#define TN_ERF_P0 0.12837917f
#define TN_ERF_P1 -0.37612626f
#define TN_ERF_P2 0.112836f
#define TN_ERF_P3 -0.026854444f
#define TN_ERF_P4 0.005189535f
#define TN_ERF_P5 -0.000802084f
#define TN_ERF_P6 7.889115e-05f
#define TN_ERF_Q0 -0.00035370892f
#define TN_ERF_Q1 -1.12704f
#define TN_ERF_Q2 -0.6382256f
#define TN_ERF_Q3 -0.10303743f
#define TN_ERF_Q4 0.021805352f
#define TN_ERF_Q5 -0.0029396156f
#define TN_ERF_Q6 0.0001855749f
static inline float tn_erf(float x) {
  float a = tn_abs(x);
  if (a < 1.0f) {
    float z = x * x;
    float p = TN_ERF_P6;
    p = p * z + TN_ERF_P5;
    p = p * z + TN_ERF_P4;
    p = p * z + TN_ERF_P3;
    p = p * z + TN_ERF_P2;
    p = p * z + TN_ERF_P1;
    p = p * z + TN_ERF_P0;
    return x + x * p;
  }
  if (x != x) return x;
  if (a > 4.0f) a = 4.0f;
  float q = TN_ERF_Q6;
  q = q * a + TN_ERF_Q5;
  q = q * a + TN_ERF_Q4;
  q = q * a + TN_ERF_Q3;
  q = q * a + TN_ERF_Q2;
  q = q * a + TN_ERF_Q1;
  q = q * a + TN_ERF_Q0;
  return tn_with_sign(1.0f - tn_exp(q), x);
}

/* Sine and cosine, within 1 ulp for |x| <= 1e6, absolute error below 1e-7 up to 1e9, NaN beyond. Worked in double:
 * x = n pi/2 + r, |r| <= pi/4, with pi/2 in two parts of which the first has 33 bits, so n times it is exact up to n =
 * 2^20; then sin r = r + r z S(z) (fit 5e-15) and cos r = 1 - z/2 + z^2 C(z) (fit 1e-13), z = r^2. */
#define TN_TWO_OVER_PI 0.6366197723675814
#define TN_HALF_PI_HIGH 1.5707963267341256
#define TN_HALF_PI_LOW 6.077100506506192e-11
static inline void tn_sin_cos(float x, float *sine, float *cosine) {
  if (!(tn_abs(x) <= 1e9f)) {
    *sine = *cosine = TN_NAN;
    return;
  }
  double angle = (double)x;
  double n = (angle * TN_TWO_OVER_PI + TN_ROUND_MAGIC_F64) - TN_ROUND_MAGIC_F64;
  double r = (angle - n * TN_HALF_PI_HIGH) - n * TN_HALF_PI_LOW;
  double z = r * r;
  double s = -0x1.a9646cbbe5ddcp-26;
  s = s * z + 0x1.71d7764b3766bp-19;
  s = s * z - 0x1.a019f94e303a1p-13;
  s = s * z + 0x1.1111110c9999ep-7;
  s = s * z - 0x1.555555555237ep-3;
  float sin_r = (float)(r + r * (z * s));
  double c = -0x1.2429081bcb69cp-22;
  c = c * z + 0x1.a01117871ee49p-16;
  c = c * z - 0x1.6c16b88be82bfp-10;
  c = c * z + 0x1.5555554f42829p-5;
  float cos_r = (float)((1.0 - 0.5 * z) + z * z * c);
  uint32_t quadrant = (uint32_t)(int32_t)n & 3u;
  float a = quadrant & 1u ? cos_r : sin_r, b = quadrant & 1u ? sin_r : cos_r;
  *sine = quadrant & 2u ? -a : a;
  *cosine = quadrant == 1u || quadrant == 2u ? -b : b;
}

static inline float tn_sin(float x) {
  float sine, cosine;
  tn_sin_cos(x, &sine, &cosine);
  return sine;
}

static inline float tn_cos(float x) {
  float sine, cosine;
  tn_sin_cos(x, &sine, &cosine);
  return cosine;
}

#endif
