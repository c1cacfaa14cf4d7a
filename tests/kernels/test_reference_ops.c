/* The small reference kernels against hand-made numbers and naive double arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/reference/reference.h"
#include "support/kernel_call.h"

static void embed_decodes_and_scales(void **state) {
  (void)state;
  uint8_t table[3][34]; /* q8_0, 3 rows of 32 */
  for (int v = 0; v < 3; v++) {
    uint16_t half = 0x3800; /* 0.5 */
    memcpy(table[v], &half, 2);
    for (int k = 0; k < 32; k++) table[v][2 + k] = (uint8_t)(int8_t)(v * 10 + k - 16);
  }
  tn_row rows[] = {{.token = 2, .position = {1}}, {.token = 0, .position = {2}}};
  tn_batch batch = {.size = sizeof batch, .row_count = 2, .rows = rows};
  tn_embed_attributes attributes = {sizeof attributes, TN_EMBED_TOKEN, 3.0f};
  float y[2 * 32];
  tn_kernel_call call = {
      .opcode = TN_OP_EMBED, .input_count = 1, .output_count = 1, .attributes = &attributes, .batch = &batch};
  call.inputs[0] = weight_of(table, TN_Q8_0, 3, 32);
  call.outputs[0] = matrix_of(y, TN_F32, 2, 32);
  assert_int_equal(run_reference(&call), TN_OK);
  for (int k = 0; k < 32; k++) {
    assert_true(y[k] == 1.5f * (float)(20 + k - 16));
    assert_true(y[32 + k] == 1.5f * (float)(k - 16));
  }
  attributes.source = TN_EMBED_POSITION;
  assert_int_equal(run_reference(&call), TN_OK);
  assert_true(y[0] == 1.5f * -6.0f && y[32] == 1.5f * 4.0f);
  rows[1].position[0] = 3;
  assert_int_equal(run_reference(&call), TN_E_INVALID);
}

static void columns_and_rows_move(void **state) {
  (void)state;
  float x[3 * 5], z[3 * 2], y[3 * 7];
  for (int i = 0; i < 15; i++) x[i] = (float)i;
  for (int i = 0; i < 6; i++) z[i] = (float)(100 + i);
  uint32_t wanted[] = {0, 2};
  tn_batch batch = {.size = sizeof batch, .row_count = 3, .logits_count = 2, .logits_rows = wanted};
  tn_kernel_call call = {.opcode = TN_OP_SELECT_ROWS, .input_count = 1, .output_count = 1, .batch = &batch};
  call.inputs[0] = matrix_of(x, TN_F32, 3, 5);
  call.outputs[0] = matrix_of(y, TN_F32, 2, 5);
  assert_int_equal(run_reference(&call), TN_OK);
  assert_memory_equal(y, x, 5 * sizeof *x);
  assert_memory_equal(y + 5, x + 10, 5 * sizeof *x);

  tn_slice_attributes slice = {sizeof slice, 1};
  call.opcode = TN_OP_SLICE;
  call.attributes = &slice;
  call.outputs[0] = matrix_of(y, TN_F32, 3, 3);
  assert_int_equal(run_reference(&call), TN_OK);
  for (int m = 0; m < 3; m++) assert_memory_equal(y + 3 * m, x + 5 * m + 1, 3 * sizeof *x);

  call.opcode = TN_OP_CONCAT;
  call.input_count = 2;
  call.inputs[1] = matrix_of(z, TN_F32, 3, 2);
  call.outputs[0] = matrix_of(y, TN_F32, 3, 7);
  assert_int_equal(run_reference(&call), TN_OK);
  for (int m = 0; m < 3; m++) {
    assert_memory_equal(y + 7 * m, x + 5 * m, 5 * sizeof *x);
    assert_memory_equal(y + 7 * m + 5, z + 2 * m, 2 * sizeof *x);
  }
}

enum { M = 3, K = 37 };

static void elementwise_ops_agree_with_double(void **state) {
  (void)state;
  test_random random = {1};
  float a[M * K], b[M * K], w[K], single[1] = {-1.25f}, y[M * K];
  double want[M * K];
  random_floats(&random, a, M * K, 4);
  random_floats(&random, b, M * K, 4);
  random_floats(&random, w, K, 4);
  tn_kernel_call call = {.input_count = 2, .output_count = 1};
  call.inputs[0] = matrix_of(a, TN_F32, M, K);
  call.outputs[0] = matrix_of(y, TN_F32, M, K);
  const tn_tensor seconds[] = {matrix_of(b, TN_F32, M, K), vector_of(w, K), vector_of(single, 1)};
  for (int second = 0; second < 3; second++) {
    for (int multiply = second == 2; multiply < 2; multiply++) {
      call.opcode = multiply ? TN_OP_MUL : TN_OP_ADD;
      call.inputs[1] = seconds[second];
      for (int i = 0; i < M * K; i++) {
        double other = (double)(second == 0 ? b[i] : second == 1 ? w[i % K] : single[0]);
        want[i] = multiply ? (double)a[i] * other : (double)a[i] + other;
      }
      assert_int_equal(run_reference(&call), TN_OK);
      assert_true(mean_square_error(y, want, M * K) < 1e-13);
    }
  }
  tn_scalar_attributes value = {sizeof value, 2.5f};
  call.attributes = &value;
  call.input_count = 1;
  call.opcode = TN_OP_SCALE;
  for (int i = 0; i < M * K; i++) want[i] = (double)a[i] * 2.5;
  assert_int_equal(run_reference(&call), TN_OK);
  assert_true(mean_square_error(y, want, M * K) < 1e-13);
  call.opcode = TN_OP_SOFTCAP;
  for (int i = 0; i < M * K; i++) want[i] = 2.5 * tanh((double)a[i] / 2.5);
  assert_int_equal(run_reference(&call), TN_OK);
  assert_true(mean_square_error(y, want, M * K) < 1e-13);
}

static double activate(uint32_t activation, double x) {
  switch (activation) {
    case TN_ACTIVATION_SILU: return x / (1 + exp(-x));
    case TN_ACTIVATION_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case TN_ACTIVATION_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case TN_ACTIVATION_RELU: return x > 0 ? x : 0;
    case TN_ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case TN_ACTIVATION_TANH: return tanh(x);
    default: return x;
  }
}

static void activations_agree_with_double(void **state) {
  (void)state;
  test_random random = {2};
  float x[M * K], b[M * K], y[M * K];
  double want[M * K];
  random_floats(&random, x, M * K, 6);
  random_floats(&random, b, M * K, 2);
  tn_activation_attributes attributes = {sizeof attributes, 0};
  tn_kernel_call call = {.opcode = TN_OP_ACTIVATION, .output_count = 1, .attributes = &attributes};
  call.inputs[0] = matrix_of(x, TN_F32, M, K);
  call.inputs[1] = matrix_of(b, TN_F32, M, K);
  call.outputs[0] = matrix_of(y, TN_F32, M, K);
  for (uint32_t kind = TN_ACTIVATION_NONE; kind <= TN_ACTIVATION_TANH; kind++) {
    for (uint32_t factor = 0; factor < 2; factor++) {
      attributes.activation = kind;
      call.input_count = 1 + factor;
      for (int i = 0; i < M * K; i++) want[i] = activate(kind, (double)x[i]) * (factor ? (double)b[i] : 1);
      assert_int_equal(run_reference(&call), TN_OK);
      assert_true(mean_square_error(y, want, M * K) < 1e-12);
    }
  }
  assert_true(isnan(tn_reference_activate(TN_ACTIVATION_RELU, NAN)));
}

/* Rms or layer norm of each group of a row, in double. */
static void norm_in_double(const float *x, const float *w, uint32_t w_count, const float *b, uint32_t b_count,
                           const tn_norm_attributes *a, uint32_t cols, double *y) {
  uint32_t group = a->group ? a->group : cols;
  for (uint32_t begin = 0; begin < cols; begin += group) {
    double mean = 0, square = 0;
    for (uint32_t i = 0; i < group && a->kind == TN_NORM_LAYER; i++) mean += (double)x[begin + i] / group;
    for (uint32_t i = 0; i < group; i++) square += pow((double)x[begin + i] - mean, 2) / group;
    for (uint32_t i = 0; i < group; i++) {
      uint32_t c = begin + i;
      y[c] = ((double)x[c] - mean) / sqrt(square + (double)a->epsilon);
      y[c] = y[c] * (w ? (double)w[c % w_count] : 1) + (b ? (double)b[c % b_count] : 0);
    }
  }
}

static void norms_agree_with_double(void **state) {
  (void)state;
  enum { COLS = 42 };
  test_random random = {3};
  float x[M * COLS], w[COLS], b[COLS], y[M * COLS];
  double want[M * COLS];
  random_floats(&random, x, M * COLS, 5);
  random_floats(&random, w, COLS, 2);
  random_floats(&random, b, COLS, 2);
  const uint32_t groups[] = {0, 14, 42};
  for (uint32_t kind = 0; kind < 2; kind++) {
    for (uint32_t i = 0; i < 3; i++) {
      for (uint32_t operands = 0; operands < 4; operands++) {
        tn_norm_attributes a = {sizeof a, kind, groups[i], 1e-5f};
        uint32_t w_count = i == 1 ? 14 : COLS, b_count = COLS;
        tn_kernel_call call = {.opcode = TN_OP_NORM, .input_count = 3, .output_count = 1, .attributes = &a};
        call.inputs[0] = matrix_of(x, TN_F32, M, COLS);
        if (operands & 1) call.inputs[1] = vector_of(w, w_count);
        if (operands & 2) call.inputs[2] = vector_of(b, b_count);
        call.outputs[0] = matrix_of(y, TN_F32, M, COLS);
        for (int m = 0; m < M; m++) {
          norm_in_double(x + m * COLS, operands & 1 ? w : NULL, w_count, operands & 2 ? b : NULL, b_count, &a, COLS,
                         want + m * COLS);
        }
        assert_int_equal(run_reference(&call), TN_OK);
        assert_true(mean_square_error(y, want, M * COLS) < 1e-13);
      }
    }
  }
}

static void a_block_is_quantised_as_drawn(void **state) {
  (void)state;
  float x[35] = {0};
  x[0] = 127.0f;
  x[1] = 2.5f; /* ties go to even */
  x[2] = 3.5f;
  x[3] = -2.5f;
  x[4] = -127.0f;
  x[33] = -0.25f;
  x[34] = 0.0625f; /* 31.75 steps of 0.25 / 127 */
  _Alignas(8) uint8_t bytes[2 * 40];
  assert_int_equal(TN_Q8A_ROW_BYTES(35), sizeof bytes);
  tn_kernel_call call = {.opcode = TN_OP_QUANTISE, .input_count = 1, .output_count = 1};
  call.inputs[0] = matrix_of(x, TN_F32, 1, 35);
  call.outputs[0] = matrix_of(bytes, TN_Q8A, 1, 35);
  assert_int_equal(run_reference(&call), TN_OK);
  const int8_t *q = (const int8_t *)bytes;
  const float *scale = (const float *)(const void *)(bytes + 64);
  const int32_t *sum = (const int32_t *)(const void *)(bytes + 72);
  const int8_t first[] = {127, 2, 4, -2, -127};
  assert_memory_equal(q, first, sizeof first);
  assert_true(scale[0] == 1.0f && sum[0] == 4);
  assert_int_equal(q[33], -127);
  assert_int_equal(q[34], 32);
  for (int i = 35; i < 64; i++) assert_int_equal(q[i], 0);
  assert_true(scale[1] == 0.25f / 127.0f && sum[1] == -95);
}

static void odd_values_quantise_safely(void **state) {
  (void)state;
  _Alignas(8) uint8_t bytes[40];
  const float *scale = (const float *)(const void *)(bytes + 32);
  float x[32] = {0};
  tn_reference_quantise_block(x, 32, bytes, 32, 0);
  assert_true(*scale == 0.0f && bytes[0] == 0);
  x[3] = 1e-40f;
  tn_reference_quantise_block(x, 32, bytes, 32, 0);
  assert_true(*scale == 0.0f && bytes[3] == 0);
  x[5] = 3e38f;
  tn_reference_quantise_block(x, 32, bytes, 32, 0);
  assert_true(*scale == 3e38f / 127.0f && (int8_t)bytes[5] == 127);
  x[5] = -INFINITY;
  tn_reference_quantise_block(x, 32, bytes, 32, 0);
  assert_true(isnan(*scale) && bytes[5] == 0);
  x[5] = 1.0f;
  x[7] = NAN;
  x[9] = 2.0f;
  tn_reference_quantise_block(x, 32, bytes, 32, 0);
  assert_true(isnan(*scale) && bytes[9] == 0);
}

static void a_norm_may_quantise_on_its_way(void **state) {
  (void)state;
  enum { COLS = 84 };
  test_random random = {4};
  float x[M * COLS], y[M * COLS], w[COLS];
  random_floats(&random, x, M * COLS, 5);
  random_floats(&random, w, COLS, 2);
  _Alignas(8) uint8_t apart[M * TN_Q8A_ROW_BYTES(COLS)], at_once[M * TN_Q8A_ROW_BYTES(COLS)];
  tn_norm_attributes a = {sizeof a, TN_NORM_RMS, 28, 1e-5f};
  tn_kernel_call call = {.opcode = TN_OP_NORM, .input_count = 2, .output_count = 1, .attributes = &a};
  call.inputs[0] = matrix_of(x, TN_F32, M, COLS);
  call.inputs[1] = vector_of(w, COLS);
  call.outputs[0] = matrix_of(y, TN_F32, M, COLS);
  assert_int_equal(run_reference(&call), TN_OK);
  tn_kernel_call quantise = {.opcode = TN_OP_QUANTISE, .input_count = 1, .output_count = 1};
  quantise.inputs[0] = call.outputs[0];
  quantise.outputs[0] = matrix_of(apart, TN_Q8A, M, COLS);
  assert_int_equal(run_reference(&quantise), TN_OK);
  call.outputs[0] = matrix_of(at_once, TN_Q8A, M, COLS);
  assert_int_equal(run_reference(&call), TN_OK);
  assert_memory_equal(at_once, apart, sizeof apart);
}

static void rope_turns_pairs(void **state) {
  (void)state;
  enum { HEADS = 3, DIM = 10, ROTARY = 6 };
  test_random random = {5};
  float frequency[ROTARY / 2] = {1.0f, 0.125f, 0.01f}, table[2 * ROTARY], x[2 * HEADS * DIM], y[2 * HEADS * DIM];
  random_floats(&random, x, 2 * HEADS * DIM, 3);
  tn_row rows[] = {{.position = {7, 7, 7, 7}}, {.position = {123456, 0, 0, 0}}};
  tn_batch batch = {.size = sizeof batch, .row_count = 2, .rows = rows};
  tn_rope_table_attributes make = {sizeof make, ROTARY, 1.5f};
  tn_kernel_call call = {
      .opcode = TN_OP_ROPE_TABLE, .input_count = 1, .output_count = 1, .attributes = &make, .batch = &batch};
  call.inputs[0] = vector_of(frequency, ROTARY / 2);
  call.outputs[0] = matrix_of(table, TN_F32, 2, ROTARY);
  assert_int_equal(run_reference(&call), TN_OK);
  for (int t = 0; t < 2; t++) {
    for (int m = 0; m < ROTARY / 2; m++) {
      double angle = (double)((float)rows[t].position[0] * frequency[m]);
      assert_true(fabs((double)table[t * ROTARY + m] - 1.5 * cos(angle)) < 3e-7);
      assert_true(fabs((double)table[t * ROTARY + ROTARY / 2 + m] - 1.5 * sin(angle)) < 3e-7);
    }
  }
  for (uint32_t pairing = 0; pairing < 2; pairing++) {
    tn_rope_attributes turn = {sizeof turn, DIM, ROTARY, pairing};
    double want[2 * HEADS * DIM];
    for (int i = 0; i < 2 * HEADS * DIM; i++) want[i] = (double)x[i];
    for (int head = 0; head < 2 * HEADS; head++) {
      for (int m = 0; m < ROTARY / 2; m++) {
        int first = head * DIM + (pairing == TN_ROPE_HALF ? m : 2 * m);
        int second = head * DIM + (pairing == TN_ROPE_HALF ? m + ROTARY / 2 : 2 * m + 1);
        double cosine = (double)table[head / HEADS * ROTARY + m];
        double sine = (double)table[head / HEADS * ROTARY + ROTARY / 2 + m];
        want[first] = (double)x[first] * cosine - (double)x[second] * sine;
        want[second] = (double)x[first] * sine + (double)x[second] * cosine;
      }
    }
    tn_kernel_call rope = {
        .opcode = TN_OP_ROPE, .input_count = 2, .output_count = 1, .attributes = &turn, .batch = &batch};
    rope.inputs[0] = matrix_of(x, TN_F32, 2, HEADS * DIM);
    rope.inputs[1] = matrix_of(table, TN_F32, 2, ROTARY);
    rope.outputs[0] = matrix_of(y, TN_F32, 2, HEADS * DIM);
    assert_int_equal(run_reference(&rope), TN_OK);
    assert_true(mean_square_error(y, want, 2 * HEADS * DIM) < 1e-13);
    float in_place[2 * HEADS * DIM];
    memcpy(in_place, x, sizeof x);
    rope.inputs[0].data = rope.outputs[0].data = in_place;
    assert_int_equal(tn_reference_kernels()->kernel[TN_OP_ROPE](&rope), TN_OK);
    assert_memory_equal(in_place, y, sizeof y);
  }
}

/* A query for a linear of these dtypes, as a graph would ask. */
static tn_op_query linear_query(const tn_linear_attributes *a, uint32_t x, uint32_t w) {
  tn_op_query query = {.size = sizeof query,
                       .opcode = TN_OP_LINEAR,
                       .revision = 1,
                       .input_count = 2,
                       .output_count = 1,
                       .rows_min = 1,
                       .rows_max = 8,
                       .attribute_bytes = sizeof *a,
                       .attributes = a};
  query.inputs[0] = (tn_value_desc){1, TN_VALUE_SCRATCH, x, 2, {TN_DIM_T, 256}};
  query.inputs[1] = (tn_value_desc){1, TN_VALUE_WEIGHT, w, 2, {16, 256}};
  query.outputs[0] = (tn_value_desc){1, TN_VALUE_SCRATCH, TN_F32, 2, {TN_DIM_T, 16}};
  return query;
}

static void supports_says_what_is_true(void **state) {
  (void)state;
  for (uint32_t opcode = 0; opcode < TN_OP_LIMIT; opcode++) {
    assert_int_equal(tn_op_info_of(opcode) != NULL, tn_reference_kernels()->kernel[opcode] != NULL);
  }
  tn_linear_attributes a = {sizeof a, TN_ACTIVATION_SILU, 0, 1.0f};
  tn_op_query query = linear_query(&a, TN_F32, TN_Q4_K);
  assert_int_equal(tn_reference_supports(&query), TN_OK);
  query = linear_query(&a, TN_Q8A, TN_Q8_0);
  assert_int_equal(tn_reference_supports(&query), TN_OK);
  query.revision = 2;
  assert_int_equal(tn_reference_supports(&query), TN_E_UNSUPPORTED);
  query = linear_query(&a, TN_F16, TN_Q8_0);
  assert_int_equal(tn_reference_supports(&query), TN_E_UNSUPPORTED);
  query = linear_query(&a, TN_F32, TN_Q8A);
  assert_int_equal(tn_reference_supports(&query), TN_E_UNSUPPORTED);
  query = linear_query(&a, TN_F32, TN_F32);
  query.attribute_bytes += 4; /* an attribute of a later version */
  assert_int_equal(tn_reference_supports(&query), TN_E_UNSUPPORTED);
  query = linear_query(&a, TN_F32, TN_F32);
  a.activation = 99;
  assert_int_equal(tn_reference_supports(&query), TN_E_UNSUPPORTED);
  query.opcode = 63;
  assert_int_equal(tn_reference_supports(&query), TN_E_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(embed_decodes_and_scales),
      cmocka_unit_test(columns_and_rows_move),
      cmocka_unit_test(elementwise_ops_agree_with_double),
      cmocka_unit_test(activations_agree_with_double),
      cmocka_unit_test(norms_agree_with_double),
      cmocka_unit_test(a_block_is_quantised_as_drawn),
      cmocka_unit_test(odd_values_quantise_safely),
      cmocka_unit_test(a_norm_may_quantise_on_its_way),
      cmocka_unit_test(rope_turns_pairs),
      cmocka_unit_test(supports_says_what_is_true),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
