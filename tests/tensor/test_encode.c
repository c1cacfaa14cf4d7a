/* tensor/encode.h: what is encoded decodes to something close, as close as each format allows, and what can't be said
 * is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tensor/decode.h"
#include "tensor/encode.h"

static const tn_dtype encodable[] = {TN_F32,  TN_F16,  TN_BF16, TN_Q8_0, TN_Q4_0,  TN_Q4_1, TN_Q5_0,
                                     TN_Q5_1, TN_Q4_K, TN_Q5_K, TN_Q6_K, TN_MXFP4, TN_MXFP6};

enum { COUNT = 256 * 64 };

/* Roughly normal numbers: twelve uniform ones added, less six. */
static float *normal_numbers(float scale) {
  float *x = malloc(COUNT * sizeof *x);
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < COUNT; i++) {
    float sum = -6;
    for (int k = 0; k < 12; k++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      sum += (float)(state >> 40) * 0x1p-24f;
    }
    x[i] = scale * sum;
  }
  return x;
}

/* Encodes and decodes in place of `out`; the encoded row is handed back too when wanted. */
static void round_trip(tn_dtype dtype, const float *x, size_t count, float *out) {
  size_t bytes = 0;
  assert_true(tn_dtype_row_bytes(dtype, count, &bytes));
  char *row = malloc(bytes + 1);
  row[bytes] = 0x5a;
  assert_true(tn_encode_row(dtype, x, row, count));
  assert_int_equal(row[bytes], 0x5a);
  assert_true(tn_decode_row(dtype, row, out, count));
  free(row);
}

static double relative_error(tn_dtype dtype, const float *x) {
  float *out = malloc(COUNT * sizeof *out);
  round_trip(dtype, x, COUNT, out);
  double error = 0, power = 0;
  for (size_t i = 0; i < COUNT; i++) {
    error += ((double)out[i] - x[i]) * ((double)out[i] - x[i]);
    power += (double)x[i] * x[i];
  }
  free(out);
  return sqrt(error / power);
}

/* The bounds are a little above what was measured. Rounding with the plain scale (largest value / highest integer) goes
 * beyond those of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and MXFP4. */
static void errors_are_what_the_formats_allow(void **state) {
  (void)state;
  static const struct {
    tn_dtype dtype;
    double bound;
  } cases[] = {
      {TN_F32, 0},       {TN_F16, 0.0003},  {TN_BF16, 0.002},  {TN_Q8_0, 0.0053}, {TN_Q4_0, 0.081},
      {TN_Q4_1, 0.071},  {TN_Q5_0, 0.0402}, {TN_Q5_1, 0.0342}, {TN_Q4_K, 0.0715}, {TN_Q5_K, 0.0352},
      {TN_Q6_K, 0.0171}, {TN_MXFP4, 0.114}, {TN_MXFP6, 0.029},
  };
  static const float scales[] = {1.0f, 0.02f, 300.0f};
  for (size_t s = 0; s < TN_COUNT(scales); s++) {
    float *x = normal_numbers(scales[s]);
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
      double error = relative_error(cases[i].dtype, x);
      if (getenv("TENON_TEST_VERBOSE")) print_message("%s %.5f\n", tn_dtype_name(cases[i].dtype), error);
      if (!(error <= cases[i].bound)) fail_msg("%s: relative error %f", tn_dtype_name(cases[i].dtype), error);
    }
    free(x);
  }
}

static void zeros_and_tiny_values_stay_small(void **state) {
  (void)state;
  static const float values[] = {0.0f, -0.0f, 1e-40f, -1e-30f, 1e-9f};
  float x[256], out[256];
  for (size_t v = 0; v < TN_COUNT(values); v++) {
    for (int i = 0; i < 256; i++) x[i] = i % 3 ? values[v] : 0;
    for (size_t t = 0; t < TN_COUNT(encodable); t++) {
      round_trip(encodable[t], x, 256, out);
      for (int i = 0; i < 256; i++) assert_true(fabsf(out[i] - x[i]) <= 1.01f * fabsf(values[v]));
    }
  }
}

/* One value far from all others, in every place of a block: it must survive, and the others must not take its place. */
static void every_element_has_its_place(void **state) {
  (void)state;
  float x[256], out[256];
  for (size_t t = 0; t < TN_COUNT(encodable); t++)
    for (int place = 0; place < 256; place++)
      for (int sign = -1; sign <= 1; sign += 2) {
        for (int i = 0; i < 256; i++) x[i] = 0;
        x[place] = (float)(3 * sign);
        round_trip(encodable[t], x, 256, out);
        for (int i = 0; i < 256; i++)
          if (!(fabsf(out[i] - x[i]) <= 0.02f))
            fail_msg("%s: element %d is %f", tn_dtype_name(encodable[t]), i, (double)out[i]);
      }
}

static void constant_blocks_are_kept(void **state) {
  (void)state;
  float x[256], out[256];
  for (size_t t = 0; t < TN_COUNT(encodable); t++)
    for (int sign = -1; sign <= 1; sign += 2) {
      for (int i = 0; i < 256; i++) x[i] = 0.75f * (float)sign;
      round_trip(encodable[t], x, 256, out);
      for (int i = 0; i < 256; i++) assert_true(fabsf(out[i] - x[i]) < 0.01f);
    }
}

/* What a format can say exactly comes back exactly, when the largest value has the largest integer. */
static void exact_values_are_kept(void **state) {
  (void)state;
  static const struct {
    tn_dtype dtype;
    int low, high;
    float d, m;
  } cases[] = {{TN_Q8_0, -127, 127, 0.25f, 0}, {TN_Q4_0, -8, 7, 0.125f, 0}, {TN_Q5_0, -16, 15, -2, 0},
               {TN_Q4_1, 0, 15, 0.5f, -3},     {TN_Q5_1, 0, 31, 0.5f, 9},   {TN_Q6_K, -32, 31, 0.5f, 0},
               {TN_Q4_K, 0, 15, 63, -63},      {TN_Q5_K, 0, 31, 63, -126}};
  for (size_t c = 0; c < TN_COUNT(cases); c++) {
    float x[256], out[256];
    for (int i = 0; i < 256; i++) {
      int steps = cases[c].high - cases[c].low;
      int q = i % 16 == 0 ? cases[c].low : i % 16 == 1 ? cases[c].high : cases[c].low + i * 7 % (steps + 1);
      x[i] = cases[c].d * (float)q + cases[c].m;
    }
    round_trip(cases[c].dtype, x, 256, out);
    for (int i = 0; i < 256; i++)
      if (out[i] != x[i])
        fail_msg("%s: element %d is %f, not %f", tn_dtype_name(cases[c].dtype), i, (double)out[i], (double)x[i]);
  }
}

static void mx_values_are_kept_at_every_exponent(void **state) {
  (void)state;
  static const float fp4[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
  float x[32], out[32];
  for (int e = -120; e <= 120; e += 8) {
    for (int i = 0; i < 32; i++) x[i] = ldexpf(i & 8 ? -fp4[i % 8] : fp4[i % 8], e);
    round_trip(TN_MXFP4, x, 32, out);
    for (int i = 0; i < 32; i++) assert_true(out[i] == x[i]);
    for (int i = 0; i < 32; i++) {
      float value = i < 8 ? (float)i / 8 : ldexpf(1 + (float)(i % 8) / 8, i / 8 - 1);
      x[i] = ldexpf(i & 1 ? -value : value, e);
    }
    round_trip(TN_MXFP6, x, 32, out);
    for (int i = 0; i < 32; i++) assert_true(out[i] == x[i]);
  }
}

static void what_cannot_be_said_is_refused(void **state) {
  (void)state;
  float x[256] = {0};
  uint8_t row[1024];
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  for (size_t t = 0; t < TN_COUNT(encodable); t++) {
    assert_true(tn_can_encode(encodable[t]));
    for (size_t b = 0; b < TN_COUNT(bad); b++) {
      x[200] = bad[b];
      assert_false(tn_encode_row(encodable[t], x, row, 256));
    }
    x[200] = 3e38f;
    bool wide =
        encodable[t] == TN_F32 || encodable[t] == TN_BF16 || encodable[t] == TN_MXFP4 || encodable[t] == TN_MXFP6;
    assert_int_equal(tn_encode_row(encodable[t], x, row, 256), wide);
    x[200] = 0;
  }
  x[0] = 3.4e38f; /* rounds to infinity in bf16 */
  assert_false(tn_encode_row(TN_BF16, x, row, 1));
  assert_false(tn_encode_row(TN_Q4_0, x, row, 33));
  assert_false(tn_can_encode(TN_Q2_K));
  assert_false(tn_encode_row(TN_Q2_K, x, row, 256));
  assert_false(tn_can_encode(TN_DTYPE_COUNT));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_are_what_the_formats_allow),
      cmocka_unit_test(zeros_and_tiny_values_stay_small),
      cmocka_unit_test(every_element_has_its_place),
      cmocka_unit_test(constant_blocks_are_kept),
      cmocka_unit_test(exact_values_are_kept),
      cmocka_unit_test(mx_values_are_kept_at_every_exponent),
      cmocka_unit_test(what_cannot_be_said_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
