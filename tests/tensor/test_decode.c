/* tensor/decode.h and half.h against the vectors of make_vectors.py (bit for bit) and against arithmetic done another
 * way. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/os.h"
#include "tensor/blocks.h"
#include "tensor/decode.h"
#include "tensor/half.h"

/* Equal bits, except that every NaN equals every other. */
static bool same(float a, float b) {
  return (isnan(a) && isnan(b)) || tn_float_bits(a) == tn_float_bits(b);
}

static void check_vectors(tn_dtype dtype) {
  char path[256];
  snprintf(path, sizeof path, TEST_DATA "/formats/%s.bin", tn_dtype_name(dtype));
  char *data;
  size_t size;
  tn_error error;
  if (tn_file_read(path, 1 << 20, &data, &size, &error) != TN_OK) fail_msg("%s", error.message);
  uint32_t blocks;
  memcpy(&blocks, data, sizeof blocks);
  size_t elements = tn_dtype_block_elements(dtype), bytes = tn_dtype_block_bytes(dtype), count = blocks * elements;
  assert_true(blocks > 0);
  assert_int_equal(size, 4 + blocks * bytes + count * 4);
  const char *expected = data + 4 + blocks * bytes;
  /* At every offset, so that no alignment is assumed. */
  char *moved = malloc(blocks * bytes + 8);
  float *out = malloc(count * sizeof *out);
  for (size_t offset = 0; offset < 8; offset += 3) {
    memcpy(moved + offset, data + 4, blocks * bytes);
    assert_true(tn_decode_row(dtype, moved + offset, out, count));
    for (size_t i = 0; i < count; i++) {
      float wanted;
      memcpy(&wanted, expected + 4 * i, sizeof wanted);
      if (!same(out[i], wanted))
        fail_msg("%s: element %zu of block %zu is %a, expected %a", tn_dtype_name(dtype), i % elements, i / elements,
                 (double)out[i], (double)wanted);
    }
  }
  free(moved);
  free(out);
  free(data);
}

static void formats_decode_bit_for_bit(void **state) {
  (void)state;
  static const tn_dtype types[] = {TN_Q8_0, TN_Q4_0, TN_Q4_1, TN_Q5_0, TN_Q5_1, TN_IQ4_NL, TN_MXFP4,   TN_MXFP6,
                                   TN_Q2_K, TN_Q3_K, TN_Q4_K, TN_Q5_K, TN_Q6_K, TN_IQ4_XS, TN_F8_E4M3, TN_F8_E5M2};
  for (size_t i = 0; i < TN_COUNT(types); i++) check_vectors(types[i]);
}

static void plain_types_decode(void **state) {
  (void)state;
  float out[3];
  assert_true(tn_decode_row(TN_F32, (const float[]){1.5f, -0.f, INFINITY}, out, 3));
  assert_true(out[0] == 1.5f && signbit(out[1]) && isinf(out[2]));
  assert_true(tn_decode_row(TN_F64, (const double[]){0.1, 1e300, -2}, out, 3));
  assert_true(out[0] == 0.1f && isinf(out[1]) && out[2] == -2);
  assert_true(tn_decode_row(TN_I8, (const int8_t[]){-128, 0, 127}, out, 3));
  assert_true(out[0] == -128 && out[1] == 0 && out[2] == 127);
  assert_true(tn_decode_row(TN_U8, (const uint8_t[]){255, 0, 127}, out, 3));
  assert_true(out[0] == 255);
  assert_true(tn_decode_row(TN_I16, (const int16_t[]){-32768, 1, 2}, out, 3));
  assert_true(out[0] == -32768 && out[2] == 2);
  assert_true(tn_decode_row(TN_I32, (const int32_t[]){INT32_MIN, 1, 2}, out, 3));
  assert_true(out[0] == -0x1p31f && out[2] == 2);
  assert_true(tn_decode_row(TN_I64, (const int64_t[]){INT64_MIN, 1, 2}, out, 3));
  assert_true(out[0] == -0x1p63f && out[2] == 2);
}

static void activations_decode(void **state) {
  (void)state;
  enum { COUNT = 40 };
  uint8_t row[TN_Q8A_ROW_BYTES(COUNT)] = {0};
  assert_int_equal(sizeof row, 80);
  for (int i = 0; i < COUNT; i++) row[i] = (uint8_t)(i - 20);
  memcpy(row + 64, (const float[]){0.5f, 2.0f}, 8);
  float out[COUNT];
  assert_true(tn_decode_row(TN_Q8A, row, out, COUNT));
  for (int i = 0; i < COUNT; i++) assert_true(out[i] == (float)(i - 20) * (i < 32 ? 0.5f : 2.0f));
}

static void rows_must_be_whole_blocks(void **state) {
  (void)state;
  uint8_t block[256] = {0};
  float out[256] = {7};
  assert_false(tn_decode_row(TN_Q4_0, block, out, 31));
  assert_false(tn_decode_row(TN_Q6_K, block, out, 128));
  assert_false(tn_decode_row(TN_DTYPE_COUNT, block, out, 32));
  assert_true(out[0] == 7);
  assert_true(tn_decode_row(TN_Q4_0, block, out, 0));
  size_t bytes = 0;
  assert_false(tn_dtype_row_bytes(TN_F64, SIZE_MAX / 4, &bytes));
  assert_true(tn_dtype_row_bytes(TN_Q4_K, 512, &bytes) && bytes == 288);
  assert_true(tn_dtype_row_bytes(TN_Q8A, 33, &bytes) && bytes == 80);
}

static void names_are_found(void **state) {
  (void)state;
  for (int i = 0; i < TN_DTYPE_COUNT; i++) assert_int_equal(tn_dtype_find(tn_dtype_name((tn_dtype)i)), i);
  assert_int_equal(tn_dtype_find("Q4_K"), TN_Q4_K);
  assert_int_equal(tn_dtype_find("q4"), TN_DTYPE_COUNT);
  assert_int_equal(tn_dtype_find("q4_kk"), TN_DTYPE_COUNT);
  assert_string_equal(tn_dtype_name(TN_DTYPE_COUNT), "?");
}

static void scales_that_are_not_finite_show(void **state) {
  (void)state;
  tn_block_mxfp4 mx = {.e = 255};
  tn_block_q4_0 q4 = {.d = 0x7c00};
  float out[32];
  assert_true(tn_decode_row(TN_MXFP4, &mx, out, 32));
  for (int i = 0; i < 32; i++) assert_true(isnan(out[i]));
  assert_true(tn_decode_row(TN_Q4_0, &q4, out, 32));
  for (int i = 0; i < 32; i++) assert_true(isinf(out[i]) && out[i] < 0);
}

/* ---- half.h ---- */

static float half_by_arithmetic(uint16_t half) {
  int exponent = half >> 10 & 31, mantissa = half & 1023;
  double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
  if (exponent == 31) magnitude = mantissa ? NAN : INFINITY;
  return (float)(half & 0x8000 ? -magnitude : magnitude);
}

static void halves_widen_and_come_back(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 65536; i++) {
    float value = tn_f16_to_f32((uint16_t)i);
    assert_true(same(value, half_by_arithmetic((uint16_t)i)));
    if (isnan(value))
      assert_true(isnan(tn_f16_to_f32(tn_f32_to_f16(value))));
    else
      assert_int_equal(tn_f32_to_f16(value), i);
    value = tn_bf16_to_f32((uint16_t)i);
    assert_int_equal(tn_float_bits(value), i << 16);
    if (isnan(value))
      assert_true(isnan(tn_bf16_to_f32(tn_f32_to_bf16(value))));
    else
      assert_int_equal(tn_f32_to_bf16(value), i);
  }
}

/* Between two neighbours: what is nearer wins, and the even one in the middle. */
static void narrowing_rounds_to_nearest_even(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 0x7bff; i++) {
    float low = tn_f16_to_f32((uint16_t)i), high = tn_f16_to_f32((uint16_t)(i + 1)), middle = (low + high) / 2;
    uint32_t even = i + (i & 1);
    assert_int_equal(tn_f32_to_f16(middle), even);
    assert_int_equal(tn_f32_to_f16(nextafterf(middle, 0)), i);
    assert_int_equal(tn_f32_to_f16(nextafterf(middle, INFINITY)), i + 1);
    assert_int_equal(tn_f32_to_f16(-middle), even | 0x8000);
  }
  assert_int_equal(tn_f32_to_f16(65519.996f), 0x7bff);
  assert_int_equal(tn_f32_to_f16(65520), 0x7c00);
  assert_int_equal(tn_f32_to_f16(1e30f), 0x7c00);
  assert_int_equal(tn_f32_to_f16(-INFINITY), 0xfc00);
  assert_int_equal(tn_f32_to_f16(0x1p-25f), 0);
  assert_int_equal(tn_f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
  assert_int_equal(tn_f32_to_f16(0x1p-149f), 0);
  for (uint32_t i = 0; i < 0x7f80; i += 7) {
    uint32_t even = i + (i & 1);
    assert_int_equal(tn_f32_to_bf16(tn_float_of_bits(i << 16 | 0x8000)), even);
    assert_int_equal(tn_f32_to_bf16(tn_float_of_bits(i << 16 | 0x7fff)), i);
    assert_int_equal(tn_f32_to_bf16(tn_float_of_bits(i << 16 | 0x8001)), i + 1);
  }
  assert_true(isnan(tn_bf16_to_f32(tn_f32_to_bf16(tn_float_of_bits(0x7f800001)))));
}

static void powers_of_two(void **state) {
  (void)state;
  for (int i = 0; i < 255; i++) assert_true(tn_e8m0_to_f32((uint8_t)i) == (float)ldexp(1, i - 127));
  assert_true(isnan(tn_e8m0_to_f32(255)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(formats_decode_bit_for_bit),
      cmocka_unit_test(plain_types_decode),
      cmocka_unit_test(activations_decode),
      cmocka_unit_test(rows_must_be_whole_blocks),
      cmocka_unit_test(names_are_found),
      cmocka_unit_test(scales_that_are_not_finite_show),
      cmocka_unit_test(halves_widen_and_come_back),
      cmocka_unit_test(narrowing_rounds_to_nearest_even),
      cmocka_unit_test(powers_of_two),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
