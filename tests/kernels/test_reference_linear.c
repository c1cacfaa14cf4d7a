/* The reference linear against naive double arithmetic over decoded weights, for every weight format. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/reference/reference.h"
#include "support/kernel_call.h"
#include "tensor/blocks.h"
#include "tensor/decode.h"
#include "tensor/half.h"

/* Random blocks of any format, with scales near 1/16 so that no sum overflows. */
static void random_blocks(test_random *random, uint32_t dtype, uint8_t *to, size_t bytes) {
  size_t block = tn_dtype_block_bytes((tn_dtype)dtype);
  for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)random_u32(random);
  for (size_t at = 0; at < bytes; at += block) {
    uint16_t d = tn_f32_to_f16(random_float(random, 0.0625f)), m = tn_f32_to_f16(random_float(random, 0.5f));
    float value = random_float(random, 1);
    switch (dtype) {
      case TN_F32: memcpy(to + at, &value, 4); break;
      case TN_F16: memcpy(to + at, &m, 2); break;
      case TN_BF16: m = tn_f32_to_bf16(value), memcpy(to + at, &m, 2); break;
      case TN_Q4_1:
      case TN_Q5_1:
      case TN_Q4_K:
      case TN_Q5_K: memcpy(to + at + 2, &m, 2), memcpy(to + at, &d, 2); break;
      case TN_Q6_K: memcpy(to + at + offsetof(tn_block_q6_k, d), &d, 2); break;
      default: memcpy(to + at, &d, 2); break;
    }
  }
}

static double activate(uint32_t activation, double x) {
  return activation == TN_ACTIVATION_SILU ? x / (1 + exp(-x)) : x;
}

typedef struct linear_case {
  uint32_t x_dtype, w_dtype;
  uint32_t rows, cols;
  uint32_t widths[4], outputs; /* columns of each output */
  uint32_t activation, gated;
  float scale;
  int bias, residual;
} linear_case;

/* The value of element k of row m of x, as the kernel sees it. */
static double x_value(const tn_tensor *x, uint32_t m, uint32_t k) {
  if (x->dtype == TN_F32) return (double)tn_floats(x, m)[k];
  tn_q8a_row row = tn_q8a_row_of(tn_row_at(x, m), tn_cols(x));
  return (double)row.q[k] * (double)row.scale[k / 32];
}

static void check_linear(const linear_case *c) {
  test_random random = {c->w_dtype * 977 + c->rows * 31 + c->cols};
  uint32_t columns = 0;
  for (uint32_t i = 0; i < c->outputs; i++) columns += c->widths[i];
  uint32_t weight_rows = c->gated ? 2 * columns : columns;
  float *x = calloc(c->rows * c->cols, 4), *w = calloc(weight_rows * c->cols, 4), *bias = calloc(weight_rows, 4);
  float *residual = calloc(c->rows * columns, 4), *y = calloc(c->rows * columns, 4);
  double *want = calloc(c->rows * columns, sizeof *want);
  size_t weight_bytes = weight_rows * tn_row_bytes(c->w_dtype, c->cols);
  uint8_t *packed = malloc(weight_bytes), *quantised = malloc(c->rows * TN_Q8A_ROW_BYTES(c->cols));
  random_floats(&random, x, c->rows * c->cols, 1);
  random_floats(&random, bias, weight_rows, 1);
  random_floats(&random, residual, c->rows * columns, 1);
  random_blocks(&random, c->w_dtype, packed, weight_bytes);
  for (uint32_t n = 0; n < weight_rows; n++) {
    assert_true(
        tn_decode_row((tn_dtype)c->w_dtype, packed + n * tn_row_bytes(c->w_dtype, c->cols), w + n * c->cols, c->cols));
  }
  tn_linear_attributes a = {sizeof a, c->activation, c->gated, c->scale};
  tn_kernel_call call = {.opcode = TN_OP_LINEAR, .input_count = 4, .output_count = c->outputs, .attributes = &a};
  call.inputs[0] = matrix_of(x, TN_F32, c->rows, c->cols);
  if (c->x_dtype == TN_Q8A) {
    tn_kernel_call quantise = {.opcode = TN_OP_QUANTISE, .input_count = 1, .output_count = 1};
    quantise.inputs[0] = call.inputs[0];
    quantise.outputs[0] = call.inputs[0] = matrix_of(quantised, TN_Q8A, c->rows, c->cols);
    assert_int_equal(run_reference(&quantise), TN_OK);
  }
  call.inputs[1] = weight_of(packed, c->w_dtype, weight_rows, c->cols);
  if (c->bias) call.inputs[2] = vector_of(bias, weight_rows);
  if (c->residual) call.inputs[3] = matrix_of(residual, TN_F32, c->rows, columns);
  float *at = y;
  for (uint32_t i = 0; i < c->outputs; i++) {
    call.outputs[i] = matrix_of(at, TN_F32, c->rows, c->widths[i]);
    at += c->rows * c->widths[i];
  }
  assert_int_equal(run_reference(&call), TN_OK);

  uint32_t output = 0, column = 0;
  for (uint32_t n = 0; n < columns; n++, column++) {
    if (column == c->widths[output]) output++, column = 0;
    for (uint32_t m = 0; m < c->rows; m++) {
      double gate = c->bias ? (double)bias[n] : 0, value = c->bias && c->gated ? (double)bias[columns + n] : 0;
      for (uint32_t k = 0; k < c->cols; k++) {
        gate += x_value(&call.inputs[0], m, k) * (double)w[n * c->cols + k];
        if (c->gated) value += x_value(&call.inputs[0], m, k) * (double)w[(columns + n) * c->cols + k];
      }
      double result = activate(c->activation, gate) * (c->gated ? value : 1) * (double)c->scale;
      if (c->residual) result += (double)residual[m * columns + n];
      size_t index = (size_t)(tn_floats(&call.outputs[output], m) + column - y);
      want[index] = result;
    }
  }
  double error = mean_square_error(y, want, c->rows * columns);
  if (!(error < 1e-11)) {
    fail_msg("x %u, W %u [%u, %u], %u rows: error %g", c->x_dtype, c->w_dtype, weight_rows, c->cols, c->rows, error);
  }
  void *all[] = {x, w, bias, residual, y, want, packed, quantised};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void every_format_multiplies(void **state) {
  (void)state;
  const uint32_t formats[] = {TN_F32,  TN_F16,  TN_BF16, TN_Q8_0, TN_Q4_0, TN_Q4_1,
                              TN_Q5_0, TN_Q5_1, TN_Q4_K, TN_Q5_K, TN_Q6_K, TN_IQ4_NL};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    for (int quantised = 0; quantised < 2; quantised++) {
      linear_case c = {.x_dtype = quantised ? TN_Q8A : TN_F32,
                       .w_dtype = formats[i],
                       .cols = 512,
                       .widths = {7},
                       .outputs = 1,
                       .scale = 1};
      for (c.rows = 1; c.rows <= 17; c.rows += 8) check_linear(&c);
    }
  }
}

static void odd_widths_multiply(void **state) {
  (void)state;
  for (uint32_t cols = 1; cols <= 300; cols += 37) {
    for (int quantised = 0; quantised < 2; quantised++) {
      linear_case c = {.x_dtype = quantised ? TN_Q8A : TN_F32,
                       .w_dtype = TN_F16,
                       .rows = 3,
                       .cols = cols,
                       .widths = {5},
                       .outputs = 1,
                       .scale = 1};
      check_linear(&c);
    }
  }
}

static void everything_that_follows_is_applied(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 32; bits++) {
    linear_case c = {.x_dtype = bits & 1 ? TN_Q8A : TN_F32,
                     .w_dtype = TN_Q4_1,
                     .rows = 9,
                     .cols = 64,
                     .widths = {6},
                     .outputs = 1,
                     .activation = bits & 2 ? TN_ACTIVATION_SILU : TN_ACTIVATION_NONE,
                     .gated = bits >> 2 & 1,
                     .scale = 0.75f,
                     .bias = bits >> 3 & 1,
                     .residual = bits >> 4 & 1};
    check_linear(&c);
  }
}

static void outputs_share_the_columns(void **state) {
  (void)state;
  linear_case c = {.x_dtype = TN_Q8A,
                   .w_dtype = TN_Q8_0,
                   .rows = 5,
                   .cols = 96,
                   .widths = {9, 3, 3, 1},
                   .outputs = 4,
                   .scale = 1,
                   .bias = 1};
  check_linear(&c);
}

/* Small integers: the result is exact, whatever the order. */
static void integers_come_out_exact(void **state) {
  (void)state;
  float x[2][3] = {{1, 2, 3}, {-1, 0, 5}}, w[2][3] = {{1, 1, 1}, {2, -3, 4}}, y[2][2], bias[2] = {10, 20};
  tn_linear_attributes a = {sizeof a, TN_ACTIVATION_RELU, 0, 2.0f};
  tn_kernel_call call = {.opcode = TN_OP_LINEAR, .input_count = 3, .output_count = 1, .attributes = &a};
  call.inputs[0] = matrix_of(x, TN_F32, 2, 3);
  call.inputs[1] = weight_of(w, TN_F32, 2, 3);
  call.inputs[2] = vector_of(bias, 2);
  call.outputs[0] = matrix_of(y, TN_F32, 2, 2);
  assert_int_equal(run_reference(&call), TN_OK);
  const float want[2][2] = {{32, 56}, {28, 76}};
  assert_memory_equal(y, want, sizeof want);
}

/* A residual may be the very output, and the result of a row doesn't depend on its neighbours. */
static void rows_stand_alone(void **state) {
  (void)state;
  enum { ROWS = 19, COLS = 64, WIDTH = 5 };
  test_random random = {77};
  float x[ROWS * COLS], y[ROWS * WIDTH], one[WIDTH];
  uint8_t w[WIDTH * 2 * 34];
  random_floats(&random, x, ROWS * COLS, 1);
  random_blocks(&random, TN_Q8_0, w, sizeof w);
  random_floats(&random, y, ROWS * WIDTH, 1);
  tn_linear_attributes a = {sizeof a, TN_ACTIVATION_NONE, 0, 1.0f};
  float residual[ROWS * WIDTH];
  memcpy(residual, y, sizeof y);
  tn_kernel_call call = {.opcode = TN_OP_LINEAR, .input_count = 4, .output_count = 1, .attributes = &a};
  call.inputs[0] = matrix_of(x, TN_F32, ROWS, COLS);
  call.inputs[1] = weight_of(w, TN_Q8_0, WIDTH, COLS);
  call.inputs[3] = call.outputs[0] = matrix_of(y, TN_F32, ROWS, WIDTH);
  assert_int_equal(tn_reference_kernels()->kernel[TN_OP_LINEAR](&call), TN_OK);
  for (int m = 0; m < ROWS; m++) {
    call.inputs[0] = matrix_of(x + m * COLS, TN_F32, 1, COLS);
    call.inputs[3] = matrix_of(residual + m * WIDTH, TN_F32, 1, WIDTH);
    call.outputs[0] = matrix_of(one, TN_F32, 1, WIDTH);
    assert_int_equal(run_reference(&call), TN_OK);
    assert_memory_equal(one, y + m * WIDTH, sizeof one);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_format_multiplies),
      cmocka_unit_test(odd_widths_multiply),
      cmocka_unit_test(everything_that_follows_is_applied),
      cmocka_unit_test(outputs_share_the_columns),
      cmocka_unit_test(integers_come_out_exact),
      cmocka_unit_test(rows_stand_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
