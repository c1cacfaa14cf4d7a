/* The fast kernels of every instruction set but linear and attention: against the reference kernels, at odd widths, and
 * byte for byte against themselves over row counts and thread counts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/vector_math.h"
#include "support/fast_kernels.h"

#define ROWS 23u

static const uint32_t widths[] = {1, 5, 16, 31, 32, 33, 72, 100, 576};
#define WIDTHS (sizeof widths / sizeof *widths)

/* Room for any of these ops. */
#define WORKSPACE 65536u

/* A call whose first `moving` inputs have a row for each output row. */
typedef struct op_case {
  tn_kernel_call call;
  uint32_t moving;
  double tolerance;
} op_case;

static tn_tensor rows_of(const tn_tensor *whole, uint32_t first, uint32_t rows) {
  tn_tensor part = *whole;
  part.dims[0] = rows;
  part.data = guarded(rows * part.row_bytes);
  memcpy(part.data, (char *)whole->data + first * part.row_bytes, rows * part.row_bytes);
  return part;
}

static tn_tensor fresh(const tn_tensor *like, uint32_t rows) {
  tn_tensor tensor = *like;
  tensor.dims[0] = rows;
  tensor.data = guarded(rows * tensor.row_bytes);
  return tensor;
}

/* Values of an output as floats. */
static void values_of(const tn_tensor *y, float *to) {
  uint32_t columns = y->dims[1];
  for (uint32_t r = 0; r < y->dims[0]; r++) {
    const char *row = (char *)y->data + r * y->row_bytes;
    const float *scales = (const float *)(const void *)(row + (columns + 31) / 32 * 32);
    for (uint32_t k = 0; k < columns; k++)
      to[r * columns + k] =
          y->dtype == TN_Q8A ? (float)(int8_t)row[k] * scales[k / 32] : ((const float *)(const void *)row)[k];
  }
}

static void check_op(op_case *c) {
  size_t mark = guarded_list.count;
  tn_tensor y = c->call.outputs[0];
  static float want[ROWS * 2048], got[ROWS * 2048];
  c->call.outputs[0] = fresh(&y, ROWS);
  assert_int_equal(run_reference(&c->call), TN_OK);
  values_of(&c->call.outputs[0], want);
  tn_tensor reference = c->call.outputs[0];
  const tn_kernel_set *sets[MAX_SETS];
  uint32_t count = fast_sets(sets);
  for (uint32_t s = 0; s < count; s++) {
    tn_kernel_call whole = c->call;
    whole.outputs[0] = fresh(&y, ROWS);
    assert_int_equal(run_fast(sets[s], &whole, pools[0], WORKSPACE), TN_OK);
    values_of(&whole.outputs[0], got);
    if (c->tolerance > 0) {
      double error = float_error(got, want, ROWS * y.dims[1]);
      if (!(error < c->tolerance)) {
        fail_msg("%s: op %u, %u columns: error %g", sets[s]->name, whole.opcode, y.dims[1], error);
      }
    } else {
      assert_memory_equal(whole.outputs[0].data, reference.data, ROWS * y.row_bytes);
    }
    for (uint32_t rows = 1; rows <= ROWS; rows += 7) {
      tn_kernel_call part = c->call;
      uint32_t first = ROWS - rows;
      for (uint32_t i = 0; i < c->moving; i++) part.inputs[i] = rows_of(&c->call.inputs[i], first, rows);
      part.outputs[0] = fresh(&y, rows);
      assert_int_equal(run_fast(sets[s], &part, pools[rows % 3], WORKSPACE), TN_OK);
      assert_memory_equal(part.outputs[0].data, (char *)whole.outputs[0].data + first * y.row_bytes,
                          rows * y.row_bytes);
    }
  }
  c->call.outputs[0] = y;
  release_guarded(mark);
}

static tn_tensor random_rows(test_random *random, uint32_t columns, float range) {
  tn_tensor tensor = guarded_matrix(TN_F32, ROWS, columns);
  random_floats(random, tensor.data, ROWS * columns, range);
  return tensor;
}

static tn_tensor random_vector(test_random *random, uint32_t count) {
  tn_tensor tensor = vector_of(guarded(count * 4), count);
  random_floats(random, tensor.data, count, 1);
  return tensor;
}

static void test_norm(void **state) {
  (void)state;
  test_random random = {1};
  for (uint32_t w = 0; w < WIDTHS; w++) {
    for (uint32_t variant = 0; variant < 12; variant++) {
      uint32_t groups = variant % 3 == 2 ? 3 : 1, columns = widths[w] * groups;
      tn_norm_attributes attributes = {sizeof attributes, variant % 2, groups > 1 ? widths[w] : 0, 1e-5f};
      op_case c = {.moving = 1, .tolerance = 1e-9};
      c.call = (tn_kernel_call){.opcode = TN_OP_NORM, .input_count = 3, .output_count = 1, .attributes = &attributes};
      c.call.inputs[0] = random_rows(&random, columns, 3);
      if (variant % 3) c.call.inputs[1] = random_vector(&random, variant % 4 ? columns : widths[w]);
      if (variant % 4 > 1) c.call.inputs[2] = random_vector(&random, columns);
      c.call.outputs[0] = matrix_of(NULL, TN_F32, ROWS, columns);
      check_op(&c);
      c.call.outputs[0] = matrix_of(NULL, TN_Q8A, ROWS, columns);
      c.tolerance = 1e-5; /* a value that lies on the edge may round the other way */
      check_op(&c);
    }
  }
}

static void test_quantise(void **state) {
  (void)state;
  test_random random = {2};
  for (uint32_t w = 0; w < WIDTHS; w++) {
    op_case c = {.moving = 1};
    c.call = (tn_kernel_call){.opcode = TN_OP_QUANTISE, .input_count = 1, .output_count = 1};
    c.call.inputs[0] = random_rows(&random, widths[w], 100);
    float *x = c.call.inputs[0].data;
    x[0] = INFINITY;
    if (widths[w] > 40) {
      x[40] = NAN;
      for (uint32_t i = 0; i < 32; i++) x[2 * widths[w] + i] = i % 2 ? -63.5f : 127.0f; /* ties */
      for (uint32_t i = 0; i < 32; i++) x[3 * widths[w] + i] = 1e-38f;
      for (uint32_t i = 0; i < 32; i++) x[4 * widths[w] + i] = -0.0f;
      for (uint32_t i = 0; i < 32; i++) x[5 * widths[w] + i] = 3e38f;
    }
    c.call.outputs[0] = matrix_of(NULL, TN_Q8A, ROWS, widths[w]);
    check_op(&c);
  }
}

static void test_elementwise(void **state) {
  (void)state;
  test_random random = {3};
  for (uint32_t w = 0; w < WIDTHS; w++) {
    uint32_t columns = widths[w];
    tn_tensor a = random_rows(&random, columns, 4), b = random_rows(&random, columns, 4);
    tn_tensor vector = random_vector(&random, columns), single = random_vector(&random, 1);
    tn_tensor y = matrix_of(NULL, TN_F32, ROWS, columns);
    tn_no_attributes none = {sizeof none};
    tn_scalar_attributes scalar = {sizeof scalar, 2.5f};
    op_case c = {.moving = 2};
    c.call = (tn_kernel_call){.opcode = TN_OP_ADD,
                              .input_count = 2,
                              .output_count = 1,
                              .attributes = &none,
                              .inputs = {a, b},
                              .outputs = {y}};
    check_op(&c);
    c.call.opcode = TN_OP_MUL;
    check_op(&c);
    c.moving = 1;
    c.call.inputs[1] = vector;
    check_op(&c);
    c.call.opcode = TN_OP_ADD;
    check_op(&c);
    c.call.opcode = TN_OP_MUL;
    c.call.inputs[1] = single;
    check_op(&c);
    c.call.input_count = 1;
    c.call.attributes = &scalar;
    c.call.opcode = TN_OP_SCALE;
    check_op(&c);
    c.call.opcode = TN_OP_SOFTCAP;
    c.tolerance = 1e-12;
    check_op(&c);
    for (uint32_t activation = 0; activation <= TN_ACTIVATION_TANH; activation++) {
      tn_activation_attributes attributes = {sizeof attributes, activation};
      op_case gated = {.moving = 2, .tolerance = 1e-12};
      gated.call = (tn_kernel_call){.opcode = TN_OP_ACTIVATION,
                                    .input_count = 2,
                                    .output_count = 1,
                                    .attributes = &attributes,
                                    .inputs = {a, b},
                                    .outputs = {y}};
      check_op(&gated);
      gated.call.input_count = gated.moving = 1;
      check_op(&gated);
    }
  }
}

static void test_columns(void **state) {
  (void)state;
  test_random random = {4};
  tn_tensor a = random_rows(&random, 72, 4), b = random_rows(&random, 5, 4), d = random_rows(&random, 33, 4);
  tn_slice_attributes attributes = {sizeof attributes, 7};
  op_case c = {.moving = 1};
  c.call = (tn_kernel_call){.opcode = TN_OP_SLICE,
                            .input_count = 1,
                            .output_count = 1,
                            .attributes = &attributes,
                            .inputs = {a},
                            .outputs = {matrix_of(NULL, TN_F32, ROWS, 50)}};
  check_op(&c);
  c.moving = 3;
  c.call = (tn_kernel_call){.opcode = TN_OP_CONCAT,
                            .input_count = 3,
                            .output_count = 1,
                            .inputs = {a, b, d},
                            .outputs = {matrix_of(NULL, TN_F32, ROWS, 110)}};
  check_op(&c);
}

static void test_select_rows(void **state) {
  (void)state;
  test_random random = {5};
  const uint32_t chosen[] = {0, 4, 22};
  tn_batch batch = {.size = sizeof batch, .row_count = ROWS, .logits_count = 3, .logits_rows = chosen};
  tn_kernel_call call = {.opcode = TN_OP_SELECT_ROWS, .input_count = 1, .output_count = 1, .batch = &batch};
  call.inputs[0] = random_rows(&random, 37, 1);
  const tn_kernel_set *sets[MAX_SETS];
  for (uint32_t s = 0, count = fast_sets(sets); s < count; s++) {
    call.outputs[0] = guarded_matrix(TN_F32, 3, 37);
    assert_int_equal(run_fast(sets[s], &call, pools[1], 0), TN_OK);
    for (uint32_t r = 0; r < 3; r++)
      assert_memory_equal((char *)call.outputs[0].data + r * 37 * 4, (char *)call.inputs[0].data + chosen[r] * 37 * 4,
                          37 * 4);
  }
}

static void test_rope(void **state) {
  (void)state;
  test_random random = {6};
  static const uint32_t dims[][2] = {{64, 64}, {64, 32}, {80, 20}, {128, 128}, {6, 2}, {40, 40}};
  tn_row rows[ROWS] = {{0}};
  for (uint32_t r = 0; r < ROWS; r++) rows[r].position[0] = (int32_t)(r * r * 97);
  tn_batch batch = {.size = sizeof batch, .row_count = ROWS, .rows = rows};
  for (uint32_t i = 0; i < 6; i++) {
    uint32_t head_dim = dims[i][0], rotary = dims[i][1];
    tn_rope_table_attributes table = {sizeof table, rotary, 1.25f};
    tn_tensor frequencies = random_vector(&random, rotary / 2);
    tn_kernel_call call = {.opcode = TN_OP_ROPE_TABLE,
                           .input_count = 1,
                           .output_count = 1,
                           .attributes = &table,
                           .batch = &batch,
                           .inputs = {frequencies}};
    call.outputs[0] = guarded_matrix(TN_F32, ROWS, rotary);
    assert_int_equal(run_reference(&call), TN_OK);
    tn_tensor turns = call.outputs[0];
    const tn_kernel_set *sets[MAX_SETS];
    for (uint32_t s = 0, count = fast_sets(sets); s < count; s++) {
      call.outputs[0] = guarded_matrix(TN_F32, ROWS, rotary);
      assert_int_equal(run_fast(sets[s], &call, pools[2], 0), TN_OK);
      assert_memory_equal(call.outputs[0].data, turns.data, ROWS * rotary * 4);
    }
    for (uint32_t pairing = 0; pairing < 2; pairing++) {
      tn_rope_attributes attributes = {sizeof attributes, head_dim, rotary, pairing};
      op_case c = {.moving = 2};
      c.call = (tn_kernel_call){
          .opcode = TN_OP_ROPE, .input_count = 2, .output_count = 1, .attributes = &attributes, .batch = &batch};
      c.call.inputs[0] = random_rows(&random, head_dim * 3, 2);
      c.call.inputs[1] = turns;
      c.call.outputs[0] = matrix_of(NULL, TN_F32, ROWS, head_dim * 3);
      check_op(&c);
    }
  }
}

/* An op that works in place gives what it gives out of place. */
static void test_in_place(void **state) {
  (void)state;
  test_random random = {7};
  tn_activation_attributes attributes = {sizeof attributes, TN_ACTIVATION_SILU};
  tn_kernel_call call = {.opcode = TN_OP_ACTIVATION, .input_count = 2, .output_count = 1, .attributes = &attributes};
  call.inputs[0] = random_rows(&random, 45, 2);
  call.inputs[1] = random_rows(&random, 45, 2);
  const tn_kernel_set *sets[MAX_SETS];
  for (uint32_t s = 0, count = fast_sets(sets); s < count; s++) {
    call.outputs[0] = guarded_matrix(TN_F32, ROWS, 45);
    assert_int_equal(run_fast(sets[s], &call, pools[1], 0), TN_OK);
    tn_kernel_call inside = call;
    inside.inputs[0] = rows_of(&call.inputs[0], 0, ROWS);
    inside.outputs[0] = inside.inputs[0];
    assert_int_equal(run_fast(sets[s], &inside, pools[1], 0), TN_OK);
    assert_memory_equal(inside.outputs[0].data, call.outputs[0].data, ROWS * 45 * 4);
  }
}

/* The vector forms of the elementary functions give the bits of the scalar ones. */
static void test_vector_math(void **state) {
  (void)state;
  test_random random = {8};
  for (int i = 0; i < 20000; i++) {
    float x[16], y[16];
    for (int k = 0; k < 16; k++) {
      x[k] = random_float(&random, i % 2 ? 10.0f : 150.0f);
      if (i % 3 == 0) x[k] = tn_float_of_bits(random_u32(&random));
    }
    if (i == 0) x[0] = INFINITY, x[1] = -INFINITY, x[2] = 0.0f, x[3] = -0.0f;
    vf_store(y, tn_exps(vf_load(x)));
    for (int k = 0; k < 16; k++) assert_true(y[k] == tn_exp(x[k]) || (x[k] != x[k] && y[k] != y[k]));
    vf_store(y, tn_tanhs(vf_load(x)));
    for (int k = 0; k < 16; k++) assert_true(y[k] == tn_tanh(x[k]) || (x[k] != x[k] && y[k] != y[k]));
    vf_store(y, tn_erfs(vf_load(x)));
    for (int k = 0; k < 16; k++) assert_true(y[k] == tn_erf(x[k]) || (x[k] != x[k] && y[k] != y[k]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_norm),     cmocka_unit_test(test_quantise),    cmocka_unit_test(test_elementwise),
      cmocka_unit_test(test_columns),  cmocka_unit_test(test_select_rows), cmocka_unit_test(test_rope),
      cmocka_unit_test(test_in_place), cmocka_unit_test(test_vector_math),
  };
  return cmocka_run_group_tests(tests, make_pools, end_pools);
}
