/* moe_linear and head_linear of every instruction set: each part of each row comes out, byte for byte, as the fast
 * linear has it for that row and that matrix, whatever rows and workers there are; and linear is held to the reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fast_kernels.h"

#define MATRICES 9u

typedef struct group_case {
  uint32_t x_dtype, w_dtype, columns, width; /* K, N */
  uint32_t rows, chosen, each, gated, activation;
} group_case;

/* All matrices, packed; and one of them. */
static tn_tensor pack_matrices(const group_case *c, test_random *random) {
  uint32_t rows = c->gated ? 2 * c->width : c->width, all = MATRICES * rows;
  size_t bytes = all * tn_row_bytes(c->w_dtype, c->columns);
  uint8_t *stored = guarded(bytes);
  random_weights(random, c->w_dtype, stored, bytes);
  tn_weight_desc desc = {.size = sizeof desc, .dtype = c->w_dtype, .rank = 3, .dims = {MATRICES, rows, c->columns}};
  desc.uses = (c->x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR) | (c->gated ? TN_USE_GATED : 0);
  tn_weight_source source = {.size = sizeof source,
                             .dtype = c->w_dtype,
                             .data = stored,
                             .rows = all,
                             .cols = c->columns,
                             .row_count = all,
                             .col_count = c->columns};
  return pack_fast(&desc, &source, 1, tn_pool_parallel(pools[1]));
}

static tn_tensor matrix_at(const tn_tensor *matrices, uint32_t number) {
  tn_matrix m = tn_matrix_of(matrices->layout, matrices->dims[1], matrices->dims[2]);
  tn_tensor one = *matrices;
  one.rank = 2;
  one.dims[0] = matrices->dims[1];
  one.dims[1] = matrices->dims[2];
  one.data = (uint8_t *)matrices->data + number * m.panels * m.panel_bytes;
  return one;
}

/* Random rows as the case's type has them. */
static tn_tensor activations(const group_case *c, test_random *random, uint32_t rows, uint32_t columns) {
  tn_tensor floats = guarded_matrix(TN_F32, rows, columns), x = guarded_matrix(c->x_dtype, rows, columns);
  random_floats(random, floats.data, (size_t)rows * columns, 1);
  if (c->x_dtype == TN_F32) return floats;
  tn_kernel_call call = {
      .opcode = TN_OP_QUANTISE, .input_count = 1, .output_count = 1, .inputs = {floats}, .outputs = {x}};
  assert_int_equal(run_reference(&call), TN_OK);
  return x;
}

/* Part `part` of every row of x, a matrix of its own. */
static tn_tensor part_of(const tn_tensor *x, uint32_t part, uint32_t columns) {
  tn_tensor to = guarded_matrix(x->dtype, x->dims[0], columns);
  for (uint32_t r = 0; r < x->dims[0]; r++) {
    uint8_t *row = (uint8_t *)to.data + r * to.row_bytes, *from = (uint8_t *)x->data + r * x->row_bytes;
    if (x->dtype == TN_Q8A) {
      uint32_t blocks = x->dims[1] / 32, own = columns / 32;
      memcpy(row, from + part * columns, columns);
      memcpy(row + columns, from + blocks * 32 + part * own * 4, own * 4);
      memcpy(row + columns + own * 4, from + blocks * 36 + part * own * 4, own * 4);
    } else {
      memcpy(row, from + part * to.row_bytes, to.row_bytes);
    }
  }
  return to;
}

static tn_value_desc desc_of(const tn_tensor *tensor) {
  tn_value_desc desc = {1, tensor->kind, tensor->dtype, tensor->rank, {0}};
  for (uint32_t d = 0; d < tensor->rank; d++) desc.dims[d] = (int32_t)tensor->dims[d];
  return desc;
}

static void run_with_workspace(const tn_kernel_set *set, tn_kernel_call *call, uint32_t workers) {
  tn_op_query query = {.opcode = call->opcode, .input_count = call->input_count};
  for (uint32_t i = 0; i < call->input_count; i++) query.inputs[i] = desc_of(&call->inputs[i]);
  assert_int_equal(run_fast(set, call, pools[workers - 1], set->workspace(&query, 0, workers)), TN_OK);
}

/* What the fast linear makes of rows of x and matrix `number`. */
static tn_tensor linear_of(const group_case *c, const tn_kernel_set *set, const tn_tensor *x, const tn_tensor *matrices,
                           uint32_t number) {
  const tn_linear_attributes attributes = {sizeof attributes, c->activation, c->gated, 1};
  tn_kernel_call call = {.opcode = TN_OP_LINEAR, .input_count = 2, .output_count = 1, .attributes = &attributes};
  call.inputs[0] = *x;
  call.inputs[1] = matrix_at(matrices, number);
  call.outputs[0] = guarded_matrix(TN_F32, x->dims[0], c->width);
  run_with_workspace(set, &call, 1);
  return call.outputs[0];
}

static uint32_t chosen_by(uint32_t row, uint32_t part) {
  return (row * 7 / 3 + part * 4) % (row % 5 ? MATRICES : MATRICES / 2); /* some matrices more often than others */
}

/* The last `rows` rows: each part as in `want`, by [part][matrix]. */
static void check_experts(const group_case *c, const tn_kernel_set *set, const tn_tensor *x, const tn_tensor *matrices,
                          tn_tensor (*want)[MATRICES], uint32_t rows, uint32_t workers) {
  const tn_moe_linear_attributes attributes = {sizeof attributes, c->each, c->activation, c->gated, 0, 0};
  uint32_t first = c->rows - rows;
  tn_kernel_call call = {.opcode = TN_OP_MOE_LINEAR, .input_count = 3, .output_count = 1, .attributes = &attributes};
  call.inputs[0] = guarded_matrix(x->dtype, rows, x->dims[1]);
  memcpy(call.inputs[0].data, (uint8_t *)x->data + first * x->row_bytes, rows * x->row_bytes);
  call.inputs[1] = *matrices;
  call.inputs[2] = guarded_matrix(TN_I32, rows, c->chosen);
  int32_t *experts = call.inputs[2].data;
  for (uint32_t i = 0; i < rows * c->chosen; i++) experts[i] = (int32_t)chosen_by(first + i / c->chosen, i % c->chosen);
  call.outputs[0] = guarded_matrix(TN_F32, rows, c->chosen * c->width);
  run_with_workspace(set, &call, workers);
  for (uint32_t i = 0; i < rows * c->chosen; i++) {
    const tn_tensor *made = &want[c->each ? i % c->chosen : 0][experts[i]];
    assert_memory_equal((uint8_t *)call.outputs[0].data + i * made->row_bytes,
                        (uint8_t *)made->data + (first + i / c->chosen) * made->row_bytes, made->row_bytes);
  }
  experts[rows * c->chosen - 1] = MATRICES;
  assert_int_equal(run_fast(set, &call, pools[0], 1 << 20), TN_E_INVALID);
}

static void check_case(const group_case *c) {
  size_t mark = guarded_list.count;
  test_random random = {c->w_dtype * 131 + c->columns};
  tn_tensor matrices = pack_matrices(c, &random), want[8][MATRICES], parts[8];
  tn_tensor x = activations(c, &random, c->rows, c->each ? c->chosen * c->columns : c->columns);
  for (uint32_t p = 0; p < (c->each ? c->chosen : 1); p++) parts[p] = part_of(&x, p, c->columns);
  const tn_kernel_set *sets[MAX_SETS];
  uint32_t count = fast_sets(sets);
  for (uint32_t s = 0; s < count; s++) {
    for (uint32_t p = 0; p < (c->each ? c->chosen : 1); p++)
      for (uint32_t n = 0; n < MATRICES; n++) want[p][n] = linear_of(c, sets[s], &parts[p], &matrices, n);
    check_experts(c, sets[s], &x, &matrices, want, c->rows, 1);
    check_experts(c, sets[s], &x, &matrices, want, c->rows, 3);
    check_experts(c, sets[s], &x, &matrices, want, 13, 2);
    check_experts(c, sets[s], &x, &matrices, want, 1, 2);
  }
  release_guarded(mark);
}

static const uint32_t formats[] = {TN_F32,  TN_F16,  TN_BF16, TN_Q8_0, TN_Q4_0,   TN_Q4_1,   TN_Q5_0,  TN_Q5_1,
                                   TN_Q4_K, TN_Q5_K, TN_Q6_K, TN_Q3_K, TN_IQ4_NL, TN_IQ4_XS, TN_MXFP4, TN_MXFP6};

static void test_experts(void **state) {
  (void)state;
  for (uint32_t i = 0; i < sizeof formats / sizeof *formats; i++)
    for (uint32_t form = 0; form < 4; form++) {
      group_case c = {.w_dtype = formats[i], .columns = 256, .width = 20, .rows = 90, .chosen = 2};
      c.x_dtype = formats[i] == TN_BF16 ? TN_BF16 : i % 3 || form % 2 ? TN_Q8A : TN_F32;
      c.each = form % 2;
      c.gated = form / 2;
      c.activation = c.gated ? TN_ACTIVATION_SILU : TN_ACTIVATION_NONE;
      check_case(&c);
    }
}

/* More parts than are sorted at a time, and matrices of more panels than a task has. */
static void test_bands(void **state) {
  (void)state;
  group_case c = {
      .x_dtype = TN_Q8A, .w_dtype = TN_Q4_0, .columns = 32, .width = 17, .rows = 1100, .chosen = 4, .gated = 1};
  check_case(&c);
  c = (group_case){.x_dtype = TN_Q8A, .w_dtype = TN_Q4_1, .columns = 64, .width = 700, .rows = 40, .chosen = 3};
  c.each = 1;
  check_case(&c);
}

static void test_heads(void **state) {
  (void)state;
  static const uint32_t x_dtypes[] = {TN_F32, TN_Q8A, TN_BF16}, w_dtypes[] = {TN_F16, TN_Q8_0, TN_BF16};
  for (uint32_t i = 0; i < 3; i++) {
    size_t mark = guarded_list.count;
    test_random random = {i};
    group_case c = {.x_dtype = x_dtypes[i], .w_dtype = w_dtypes[i], .columns = 64, .width = 20, .rows = 27};
    tn_tensor matrices = pack_matrices(&c, &random), x = activations(&c, &random, c.rows, MATRICES * c.columns);
    const tn_head_linear_attributes attributes = {sizeof attributes, 0};
    tn_kernel_call call = {.opcode = TN_OP_HEAD_LINEAR, .input_count = 2, .output_count = 1, .attributes = &attributes};
    call.inputs[0] = x;
    call.inputs[1] = matrices;
    call.outputs[0] = guarded_matrix(TN_F32, c.rows, MATRICES * c.width);
    const tn_kernel_set *sets[MAX_SETS];
    uint32_t count = fast_sets(sets);
    for (uint32_t s = 0; s < count; s++) {
      run_with_workspace(sets[s], &call, 1 + s % 3);
      for (uint32_t h = 0; h < MATRICES; h++) {
        tn_tensor part = part_of(&x, h, c.columns), want = linear_of(&c, sets[s], &part, &matrices, h);
        for (uint32_t r = 0; r < c.rows; r++)
          assert_memory_equal((uint8_t *)call.outputs[0].data + (r * MATRICES + h) * want.row_bytes,
                              (uint8_t *)want.data + r * want.row_bytes, want.row_bytes);
      }
    }
    release_guarded(mark);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_experts), cmocka_unit_test(test_bands),
                                     cmocka_unit_test(test_heads)};
  return cmocka_run_group_tests(tests, make_pools, end_pools);
}
