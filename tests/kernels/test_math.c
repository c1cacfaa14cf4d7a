/* kernels/math.h against the double functions of libm, in units of the last place, over dense grids and odd values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/math.h"

/* The distance of `got` from `want` in ulps of a float near `want`. */
static double ulps(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  float nearest = (float)want;
  if (got == nearest) return 0;
  if (isinf(nearest) || isinf(got) || isnan(got)) return INFINITY;
  int exponent;
  frexp(want, &exponent);
  if (exponent < -125) exponent = -125;
  return fabs(got - want) / ldexp(1.0, exponent - 24);
}

/* The worst distance over `count` points from `low` to `high` at equal steps. */
static double worst(float (*function)(float), double (*truth)(double), float low, float high, int count) {
  double most = 0;
  for (int i = 0; i <= count; i++) {
    float x = (float)(low + ((double)high - low) * i / count);
    double distance = ulps(function(x), truth((double)x));
    if (distance > most) most = distance;
  }
  return most;
}

/* The worst distance over the floats between two bit patterns, every `step`-th one: even over the exponents. */
static double worst_bits(float (*function)(float), double (*truth)(double), float low, float high, uint32_t step) {
  double most = 0;
  for (uint32_t bits = tn_float_bits(low); bits <= tn_float_bits(high); bits += step) {
    float x = tn_float_of_bits(bits);
    double distance = ulps(function(x), truth((double)x));
    if (distance > most) most = distance;
  }
  return most;
}

#define assert_ulps(limit, expression)                                                         \
  do {                                                                                         \
    double distance = (expression);                                                            \
    if (!(distance <= (limit))) fail_msg("%s: %g ulp, want %g", #expression, distance, limit); \
  } while (0)

static void exp_is_close(void **state) {
  (void)state;
  assert_ulps(1.0, worst(tn_exp, exp, -104, 89, 300007));
  assert_ulps(1.0, worst(tn_exp, exp, -1, 1, 100003));
  assert_ulps(1.0, worst_bits(tn_exp, exp, 1e-30f, 80, 5003));
  assert_true(tn_exp(0) == 1.0f);
  assert_true(tn_exp(-INFINITY) == 0.0f && tn_exp(-1e30f) == 0.0f);
  assert_true(tn_exp(INFINITY) == INFINITY && tn_exp(88.8f) == INFINITY);
  assert_true(tn_exp(-103.0f) > 0.0f);
  assert_true(isnan(tn_exp(NAN)));
}

static void log_is_close(void **state) {
  (void)state;
  assert_ulps(1.0, worst_bits(tn_log, log, 1e-45f, 3e38f, 4099));
  assert_ulps(1.0, worst(tn_log, log, 0.5f, 2, 200003));
  assert_true(tn_log(1) == 0.0f);
  assert_true(tn_log(0) == -INFINITY && tn_log(INFINITY) == INFINITY);
  assert_true(isnan(tn_log(-1)) && isnan(tn_log(NAN)) && isnan(tn_log(-INFINITY)));
}

static void tanh_is_close(void **state) {
  (void)state;
  assert_ulps(2.0, worst(tn_tanh, tanh, -10, 10, 200003));
  assert_ulps(2.0, worst_bits(tn_tanh, tanh, 1e-40f, 20, 5003));
  assert_true(tn_tanh(INFINITY) == 1.0f && tn_tanh(-INFINITY) == -1.0f && tn_tanh(-50) == -1.0f);
  assert_true(signbit(tn_tanh(-0.0f)) && isnan(tn_tanh(NAN)));
}

static void erf_is_close(void **state) {
  (void)state;
  assert_ulps(2.0, worst(tn_erf, erf, -5, 5, 200003));
  assert_ulps(2.0, worst_bits(tn_erf, erf, 1e-35f, 6, 5003));
  assert_true(tn_erf(INFINITY) == 1.0f && tn_erf(-INFINITY) == -1.0f && isnan(tn_erf(NAN)));
}

static void sine_and_cosine_are_close(void **state) {
  (void)state;
  assert_ulps(1.0, worst(tn_sin, sin, -10, 10, 200003));
  assert_ulps(1.0, worst(tn_cos, cos, -10, 10, 200003));
  assert_ulps(1.0, worst(tn_sin, sin, -1e6f, 1e6f, 300007));
  assert_ulps(1.0, worst(tn_cos, cos, -1e6f, 1e6f, 300007));
  assert_ulps(1.0, worst_bits(tn_sin, sin, 1e-40f, 1e6f, 5003));
  assert_ulps(1.0, worst_bits(tn_cos, cos, 1e-40f, 1e6f, 5003));
  for (float x = 1e6f; x < 1e9f; x *= 1.0007f) {
    assert_true(fabs(tn_sin(x) - sin((double)x)) < 1e-7);
    assert_true(fabs(tn_cos(x) - cos((double)x)) < 1e-7);
  }
  assert_true(tn_sin(0) == 0.0f && tn_cos(0) == 1.0f);
  assert_true(isnan(tn_sin(INFINITY)) && isnan(tn_cos(NAN)) && isnan(tn_sin(2e9f)));
}

static void roots_are_exact(void **state) {
  (void)state;
  assert_ulps(0.5, worst_bits(tn_sqrt, sqrt, 1e-45f, 3e38f, 4099));
  assert_true(tn_sqrt(9) == 3.0f && tn_rsqrt(4) == 0.5f && isnan(tn_sqrt(-1)));
}

/* The functions promise the same bits on every target; these were written down once. */
static void bits_stay(void **state) {
  (void)state;
  uint32_t sum = 2166136261u;
  for (int i = -4000; i <= 4000; i++) {
    float x = (float)i * 0.01237f;
    float values[] = {tn_exp(x), tn_log(tn_abs(x)), tn_tanh(x), tn_erf(x), tn_sin(x * 1000), tn_cos(x * 1000)};
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) sum = (sum ^ tn_float_bits(values[k])) * 16777619u;
  }
  assert_int_equal(sum, 0xc2a828b7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exp_is_close), cmocka_unit_test(log_is_close),    cmocka_unit_test(tanh_is_close),
      cmocka_unit_test(erf_is_close), cmocka_unit_test(roots_are_exact), cmocka_unit_test(sine_and_cosine_are_close),
      cmocka_unit_test(bits_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
