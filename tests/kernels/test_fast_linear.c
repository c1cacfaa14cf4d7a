/* The fast linear kernels of every instruction set: against the reference kernel for every format, and byte for byte
 * against themselves over row counts and thread counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fast_kernels.h"

#define MOST_ROWS 40u

typedef struct linear_case {
  uint32_t x_dtype, w_dtype, columns; /* K */
  uint32_t widths[4], outputs;
  uint32_t activation, gated;
  float scale;
  int bias, residual;
} linear_case;

static uint32_t total_width(const linear_case *c) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < c->outputs; i++) total += c->widths[i];
  return total;
}

static void set_outputs(const linear_case *c, tn_kernel_call *call, uint32_t rows) {
  for (uint32_t i = 0; i < c->outputs; i++) call->outputs[i] = guarded_matrix(TN_F32, rows, c->widths[i]);
}

/* The first `rows` rows of the case on a set: equal, byte for byte, to those of `whole`, which has all rows. */
static void check_rows(const linear_case *c, const tn_kernel_set *set, const tn_kernel_call *whole, uint32_t first,
                       uint32_t rows, tn_pool *pool, uint64_t workspace) {
  tn_kernel_call call = *whole;
  call.inputs[0] = guarded_matrix(c->x_dtype, rows, c->columns);
  memcpy(call.inputs[0].data, (char *)whole->inputs[0].data + first * call.inputs[0].row_bytes,
         rows * call.inputs[0].row_bytes);
  if (c->residual) {
    call.inputs[3] = guarded_matrix(TN_F32, rows, total_width(c));
    memcpy(call.inputs[3].data, (char *)whole->inputs[3].data + first * call.inputs[3].row_bytes,
           rows * call.inputs[3].row_bytes);
  }
  set_outputs(c, &call, rows);
  assert_int_equal(run_fast(set, &call, pool, workspace), TN_OK);
  for (uint32_t i = 0; i < c->outputs; i++)
    assert_memory_equal(call.outputs[i].data, (char *)whole->outputs[i].data + first * call.outputs[i].row_bytes,
                        rows * call.outputs[i].row_bytes);
}

static uint64_t workspace_of(const linear_case *c, const tn_kernel_set *set) {
  tn_op_query query = {.opcode = TN_OP_LINEAR, .rows_max = MOST_ROWS};
  query.inputs[0] = (tn_value_desc){1, TN_VALUE_SCRATCH, c->x_dtype, 2, {TN_DIM_T, (int32_t)c->columns}};
  return set->workspace(&query, 0, 3);
}

static void check_case(const linear_case *c) {
  size_t mark = guarded_list.count;
  test_random random = {c->w_dtype * 977 + c->columns * 31 + c->widths[0]};
  uint32_t width = total_width(c), weight_rows = c->gated ? 2 * width : width;
  uint32_t uses = (c->x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR) | (c->gated ? TN_USE_GATED : 0);
  two_weights w = random_matrix(&random, c->w_dtype, weight_rows, c->columns, uses, tn_pool_parallel(pools[1]));
  tn_linear_attributes attributes = {sizeof attributes, c->activation, c->gated, c->scale};
  tn_kernel_call call = {
      .opcode = TN_OP_LINEAR, .input_count = 4, .output_count = c->outputs, .attributes = &attributes};
  tn_tensor floats = guarded_matrix(TN_F32, MOST_ROWS, c->columns);
  random_floats(&random, floats.data, MOST_ROWS * c->columns, 1);
  call.inputs[0] = floats;
  if (c->x_dtype == TN_Q8A) {
    tn_kernel_call quantise = {.opcode = TN_OP_QUANTISE, .input_count = 1, .output_count = 1, .inputs = {floats}};
    quantise.outputs[0] = call.inputs[0] = guarded_matrix(TN_Q8A, MOST_ROWS, c->columns);
    assert_int_equal(run_reference(&quantise), TN_OK);
  }
  if (c->bias) {
    call.inputs[2] = vector_of(guarded(weight_rows * 4), weight_rows);
    random_floats(&random, call.inputs[2].data, weight_rows, 1);
  }
  if (c->residual) {
    call.inputs[3] = guarded_matrix(TN_F32, MOST_ROWS, width);
    random_floats(&random, call.inputs[3].data, MOST_ROWS * width, 1);
  }
  call.inputs[1] = w.plain;
  set_outputs(c, &call, MOST_ROWS);
  assert_int_equal(run_reference(&call), TN_OK);
  const tn_kernel_set *sets[MAX_SETS];
  uint32_t count = fast_sets(sets);
  for (uint32_t s = 0; s < count; s++) {
    tn_kernel_call fast = call;
    uint64_t workspace = workspace_of(c, sets[s]);
    fast.inputs[1] = w.fast;
    set_outputs(c, &fast, MOST_ROWS);
    assert_int_equal(run_fast(sets[s], &fast, pools[0], workspace), TN_OK);
    for (uint32_t i = 0; i < c->outputs; i++) {
      double error = float_error(fast.outputs[i].data, call.outputs[i].data, MOST_ROWS * c->widths[i]);
      if (!(error < 1e-10)) {
        fail_msg("%s: x %u, w %u, K %u, output %u of %u columns: error %g", sets[s]->name, c->x_dtype, c->w_dtype,
                 c->columns, i, c->widths[i], error);
      }
    }
    for (uint32_t rows = 1; rows <= 14; rows++) check_rows(c, sets[s], &fast, rows, rows, pools[rows % 3], workspace);
    check_rows(c, sets[s], &fast, 0, 25, pools[1], workspace);
    check_rows(c, sets[s], &fast, 0, MOST_ROWS, pools[2], workspace);
  }
  release_guarded(mark);
}

static const uint32_t formats[] = {TN_F32,    TN_F16,   TN_BF16,  TN_Q8_0,    TN_Q4_0,    TN_Q4_1, TN_Q5_0,
                                   TN_Q5_1,   TN_Q4_K,  TN_Q5_K,  TN_Q6_K,    TN_Q2_K,    TN_Q3_K, TN_IQ4_NL,
                                   TN_IQ4_XS, TN_MXFP4, TN_MXFP6, TN_F8_E4M3, TN_F8_E5M2, TN_F64};

static void test_formats(void **state) {
  (void)state;
  for (uint32_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    for (uint32_t activations = 0; activations < 2; activations++) {
      linear_case c = {.x_dtype = activations ? TN_Q8A : TN_F32,
                       .w_dtype = formats[i],
                       .columns = 256,
                       .widths = {37},
                       .outputs = 1,
                       .scale = 1};
      check_case(&c);
      c.columns = 768;
      c.widths[0] = 48;
      check_case(&c);
    }
  }
}

static void test_shapes(void **state) {
  (void)state;
  static const uint32_t float_columns[] = {1, 8, 33, 72}, block_columns[] = {32, 64, 96, 576};
  static const uint32_t widths[] = {1, 15, 16, 17, 100, 300};
  for (uint32_t k = 0; k < 4; k++) {
    for (uint32_t n = 0; n < 6; n++) {
      linear_case c = {.x_dtype = TN_F32,
                       .w_dtype = TN_F16,
                       .columns = float_columns[k],
                       .widths = {widths[n]},
                       .outputs = 1,
                       .scale = 1};
      check_case(&c);
      c.x_dtype = TN_Q8A;
      c.w_dtype = TN_F32;
      check_case(&c);
      c.w_dtype = TN_Q4_1;
      c.columns = block_columns[k];
      check_case(&c);
      c.w_dtype = TN_Q8_0;
      check_case(&c);
    }
  }
}

static void test_epilogues(void **state) {
  (void)state;
  for (uint32_t activation = 0; activation <= TN_ACTIVATION_TANH; activation++) {
    for (uint32_t gated = 0; gated < 2; gated++) {
      linear_case c = {.x_dtype = TN_Q8A,
                       .w_dtype = TN_Q4_1,
                       .columns = 64,
                       .widths = {40},
                       .outputs = 1,
                       .activation = activation,
                       .gated = gated,
                       .scale = 1.5f,
                       .bias = 1,
                       .residual = 1};
      check_case(&c);
      c.x_dtype = TN_F32;
      c.w_dtype = TN_Q8_0;
      c.residual = 0;
      check_case(&c);
      c.w_dtype = TN_F16;
      c.bias = 0;
      check_case(&c);
    }
  }
}

static void test_outputs(void **state) {
  (void)state;
  static const uint32_t widths[][4] = {{16, 16, 32}, {48, 5, 5}, {1, 2, 3, 4}, {90, 30, 30}};
  for (uint32_t i = 0; i < 4; i++) {
    linear_case c = {
        .x_dtype = TN_Q8A, .w_dtype = TN_Q4_0, .columns = 96, .outputs = i == 2 ? 4 : 3, .scale = 1, .bias = 1};
    memcpy(c.widths, widths[i], sizeof c.widths);
    check_case(&c);
    c.x_dtype = TN_F32;
    check_case(&c);
  }
}

/* Activations and weights at their largest: nothing may saturate. */
static void test_extremes(void **state) {
  (void)state;
  const uint32_t columns = 576, rows = 16;
  const tn_kernel_set *sets[MAX_SETS];
  uint32_t count = fast_sets(sets);
  for (int sign = 0; sign < 4; sign++) {
    uint8_t *stored = guarded(rows * tn_row_bytes(TN_Q8_0, columns));
    for (uint32_t b = 0; b < rows * columns / 32; b++) {
      uint16_t d = tn_f32_to_f16(1.0f);
      memcpy(stored + b * 34, &d, 2);
      memset(stored + b * 34 + 2, sign & 1 ? 127 : -128, 32);
    }
    tn_weight_desc desc = {sizeof desc, TN_Q8_0, 2, TN_USE_LINEAR_Q8A, {rows, columns}};
    tn_weight_source source = {.size = sizeof source,
                               .dtype = TN_Q8_0,
                               .data = stored,
                               .rows = rows,
                               .cols = columns,
                               .row_count = rows,
                               .col_count = columns};
    tn_tensor floats = guarded_matrix(TN_F32, 1, columns), x = guarded_matrix(TN_Q8A, 1, columns);
    for (uint32_t i = 0; i < columns; i++) ((float *)floats.data)[i] = sign & 2 ? 127.0f : -127.0f;
    tn_kernel_call quantise = {
        .opcode = TN_OP_QUANTISE, .input_count = 1, .output_count = 1, .inputs = {floats}, .outputs = {x}};
    assert_int_equal(run_reference(&quantise), TN_OK);
    tn_linear_attributes attributes = {sizeof attributes, 0, 0, 1};
    tn_kernel_call call = {.opcode = TN_OP_LINEAR, .input_count = 2, .output_count = 1, .attributes = &attributes};
    call.inputs[0] = x;
    call.inputs[1] = pack_fast(&desc, &source, 1, tn_pool_parallel(pools[0]));
    call.outputs[0] = guarded_matrix(TN_F32, 1, rows);
    linear_case c = {.x_dtype = TN_Q8A, .columns = columns};
    for (uint32_t s = 0; s < count; s++) {
      assert_int_equal(run_fast(sets[s], &call, pools[0], workspace_of(&c, sets[s])), TN_OK);
      float want = (sign & 1 ? 127.0f : -128.0f) * (sign & 2 ? 127.0f : -127.0f) * (float)columns;
      for (uint32_t n = 0; n < rows; n++) assert_true(((float *)call.outputs[0].data)[n] == want);
    }
  }
}

/* Several sources, a row map, column ranges, transposition: what comes out is what plain packing gives. */
static void test_sources(void **state) {
  (void)state;
  test_random random = {5};
  const uint32_t columns = 64;
  float *stored = guarded(100 * 160 * 4);
  uint32_t map[10];
  random_floats(&random, stored, 100 * 160, 1);
  for (uint32_t i = 0; i < 10; i++) map[i] = random_u32(&random) % 100;
  tn_weight_source sources[] = {
      {.size = sizeof(tn_weight_source),
       .dtype = TN_F32,
       .data = stored,
       .rows = 100,
       .cols = 160,
       .row_begin = 7,
       .row_count = 20,
       .col_begin = 32,
       .col_count = columns},
      {.size = sizeof(tn_weight_source),
       .dtype = TN_F32,
       .data = stored,
       .rows = 100,
       .cols = 160,
       .row_map = map,
       .row_count = 10,
       .col_begin = 3,
       .col_count = columns,
       .into_row = 20},
      {.size = sizeof(tn_weight_source),
       .dtype = TN_F32,
       .data = stored,
       .rows = 100,
       .cols = 160,
       .row_begin = 50,
       .row_count = 30,
       .col_begin = 11,
       .col_count = columns,
       .transposed = 1,
       .into_row = 30},
  };
  for (uint32_t gated = 0; gated < 2; gated++) {
    tn_weight_desc desc = {sizeof desc, TN_F32, 2, TN_USE_LINEAR | (gated ? TN_USE_GATED : 0), {60, columns}};
    tn_kernel_call call = {.opcode = TN_OP_LINEAR, .input_count = 2, .output_count = 1};
    tn_linear_attributes attributes = {sizeof attributes, 0, gated, 1};
    call.attributes = &attributes;
    call.inputs[0] = guarded_matrix(TN_F32, 3, columns);
    random_floats(&random, call.inputs[0].data, 3 * columns, 1);
    tn_tensor plain = weight_of(guarded(60 * columns * 4), TN_F32, 60, columns);
    assert_int_equal(tn_plain_pack(&desc, sources, 3, plain.data), TN_OK);
    call.inputs[1] = plain;
    call.outputs[0] = guarded_matrix(TN_F32, 3, gated ? 30 : 60);
    assert_int_equal(run_reference(&call), TN_OK);
    tn_tensor want = call.outputs[0];
    call.inputs[1] = pack_fast(&desc, sources, 3, tn_pool_parallel(pools[2]));
    call.outputs[0] = guarded_matrix(TN_F32, 3, gated ? 30 : 60);
    linear_case c = {.x_dtype = TN_F32, .columns = columns};
    const tn_kernel_set *sets[MAX_SETS];
    uint32_t count = fast_sets(sets);
    for (uint32_t s = 0; s < count; s++) {
      assert_int_equal(run_fast(sets[s], &call, pools[1], workspace_of(&c, sets[s])), TN_OK);
      assert_true(float_error(call.outputs[0].data, want.data, 3 * want.dims[1]) < 1e-12);
    }
  }
}

/* embed reads the same packed copy: exactly the decoded rows. */
static void test_embed(void **state) {
  (void)state;
  for (uint32_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    test_random random = {formats[i] + 100};
    const uint32_t rows = 45, columns = 512;
    tn_row batch_rows[9] = {0};
    for (uint32_t r = 0; r < 9; r++) batch_rows[r].token = (int32_t)(random_u32(&random) % rows);
    batch_rows[0].token = 44;
    tn_batch batch = {.size = sizeof batch, .row_count = 9, .rows = batch_rows};
    tn_embed_attributes attributes = {sizeof attributes, TN_EMBED_TOKEN, 3.0f};
    two_weights w =
        random_matrix(&random, formats[i], rows, columns, TN_USE_EMBED | TN_USE_LINEAR_Q8A, tn_pool_parallel(pools[1]));
    tn_kernel_call call = {
        .opcode = TN_OP_EMBED, .input_count = 1, .output_count = 1, .attributes = &attributes, .batch = &batch};
    call.inputs[0] = w.plain;
    call.outputs[0] = guarded_matrix(TN_F32, 9, columns);
    assert_int_equal(run_reference(&call), TN_OK);
    tn_tensor want = call.outputs[0];
    const tn_kernel_set *sets[MAX_SETS];
    uint32_t count = fast_sets(sets);
    call.inputs[0] = w.fast;
    for (uint32_t s = 0; s < count; s++) {
      call.outputs[0] = guarded_matrix(TN_F32, 9, columns);
      assert_int_equal(run_fast(sets[s], &call, pools[2], 0), TN_OK);
      for (uint32_t k = 0; k < 9 * columns; k++)
        assert_true(((float *)call.outputs[0].data)[k] == ((float *)want.data)[k]);
      int32_t token = batch_rows[3].token;
      batch_rows[3].token = (int32_t)rows;
      assert_int_equal(run_fast(sets[s], &call, pools[0], 0), TN_E_INVALID);
      batch_rows[3].token = token;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formats), cmocka_unit_test(test_shapes),   cmocka_unit_test(test_epilogues),
      cmocka_unit_test(test_outputs), cmocka_unit_test(test_extremes), cmocka_unit_test(test_sources),
      cmocka_unit_test(test_embed),
  };
  return cmocka_run_group_tests(tests, make_pools, end_pools);
}
