/* Fast kv_write and attention of every instruction set: against the reference on pages of its own, and byte for byte
 * against themselves however the rows come: cut in chunks, beside other sequences, on other threads, in other pages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fast_kernels.h"

#define PAGES 64u
#define MOST 900u

typedef struct attention_case {
  uint32_t dtype, heads, kv_heads, key_dim, value_dim, rotary, pairing, window, length;
  float softcap;
  int sinks, steep; /* steep: queries of ones, keys of ones and minus ones in turn: the largest sums there are */
} attention_case;

/* Everything of one case: inputs of all positions of one sequence. */
typedef struct fixture {
  const attention_case *c;
  tn_tensor q, k, v, table, sinks;
} fixture;

static tn_tensor random_rows(test_random *random, uint32_t rows, uint32_t columns, float range) {
  tn_tensor tensor = guarded_matrix(TN_F32, rows, columns);
  random_floats(random, tensor.data, rows * columns, range);
  return tensor;
}

static tn_tensor part(const tn_tensor *whole, uint32_t first, uint32_t rows) {
  tn_tensor tensor = *whole;
  tensor.dims[0] = rows;
  tensor.data = guarded(rows * tensor.row_bytes + 1);
  memcpy(tensor.data, (char *)whole->data + first * tensor.row_bytes, rows * tensor.row_bytes);
  return tensor;
}

static tn_tensor pages_for(const attention_case *c, uint64_t page_bytes) {
  tn_tensor state = {.dtype = c->dtype,
                     .rank = 4,
                     .dims = {c->kv_heads, c->key_dim, c->value_dim, TN_PAGE_SLOTS},
                     .row_bytes = page_bytes,
                     .kind = TN_VALUE_STATE};
  state.data = guarded(PAGES * page_bytes);
  return state;
}

/* Two sequences: `rows` rows of the fixture from `begin` on behind `lead` rows of a sequence that repeats the first
 * ones in pages of its own. */
static void run_step(const fixture *f, const tn_kernel_set *set, tn_pool *pool, tn_tensor *state, uint32_t begin,
                     uint32_t rows, uint32_t lead, uint32_t first_page, float *y) {
  const attention_case *c = f->c;
  size_t mark = guarded_list.count;
  uint32_t total = rows + lead, tables[2 * PAGES];
  tn_row *batch_rows = calloc(total, sizeof *batch_rows);
  for (uint32_t p = 0; p < PAGES; p++) {
    tables[p] = p == 0 ? PAGES - 1 : 0;
    tables[PAGES + p] = p / 2 * 2 == p && p + 1 < 30 ? first_page + p + 1 : p % 2 ? first_page + p - 1 : first_page + p;
  }
  tn_sequence sequences[2] = {{.row_count = lead}, {.first_row = lead, .row_count = rows, .kv_length = begin}};
  tn_sequence *own = lead ? &sequences[1] : &sequences[0];
  if (!lead) sequences[0] = sequences[1];
  own->pages[1] = PAGES;
  for (uint32_t r = lead; r < total; r++) batch_rows[r].sequence = lead ? 1 : 0;
  uint32_t context = begin + rows > lead ? begin + rows : lead;
  tn_batch batch = {sizeof batch, total, lead ? 2u : 1u, 0, context, 2 * PAGES, batch_rows, sequences, tables, NULL};
  tn_tensor q = part(&f->q, begin, total), k = part(&f->k, begin, total), v = part(&f->v, begin, total);
  tn_tensor table = f->table;
  if (c->rotary) table = part(&f->table, begin, total);
  tn_tensor *all[] = {&q, &k, &v, &table};
  const tn_tensor *whole[] = {&f->q, &f->k, &f->v, &f->table};
  for (int i = 0; i < 4 && lead; i++) {
    if (!all[i]->data) continue;
    memmove((char *)all[i]->data + lead * all[i]->row_bytes, (char *)whole[i]->data + begin * all[i]->row_bytes,
            rows * all[i]->row_bytes);
    memcpy(all[i]->data, whole[i]->data, lead * all[i]->row_bytes);
  }
  tn_kv_write_attributes write = {sizeof write, 1, c->kv_heads, c->key_dim, c->value_dim, c->rotary, c->pairing};
  tn_kernel_call call = {.opcode = TN_OP_KV_WRITE,
                         .input_count = 4,
                         .attributes = &write,
                         .batch = &batch,
                         .inputs = {k, v, *state, table}};
  tn_attention_attributes attributes = {sizeof attributes, 1,      c->heads,   c->kv_heads, c->key_dim,
                                        c->value_dim,      0.125f, c->softcap, c->window};
  tn_kernel_call attend = {.opcode = TN_OP_ATTENTION,
                           .input_count = 3,
                           .output_count = 1,
                           .attributes = &attributes,
                           .batch = &batch,
                           .inputs = {q, *state, f->sinks}};
  attend.outputs[0] = guarded_matrix(TN_F32, total, c->heads * c->value_dim);
  if (set) {
    tn_op_query query = {.opcode = TN_OP_ATTENTION, .attributes = &attributes};
    uint64_t workspace = set->workspace(&query, MOST, tn_pool_parallel(pool)->workers);
    tn_op_query writing = {.opcode = TN_OP_KV_WRITE, .attributes = &write};
    writing.inputs[2] = (tn_value_desc){.dtype = c->dtype, .dims = {(int32_t)c->kv_heads, (int32_t)c->key_dim}};
    uint64_t write_workspace = set->workspace(&writing, MOST, tn_pool_parallel(pool)->workers);
    assert_int_equal(run_fast(set, &call, pool, write_workspace), TN_OK);
    assert_int_equal(run_fast(set, &attend, pool, workspace), TN_OK);
  } else {
    assert_int_equal(run_reference(&call), TN_OK);
    assert_int_equal(run_reference(&attend), TN_OK);
  }
  memcpy(y, (char *)attend.outputs[0].data + lead * attend.outputs[0].row_bytes, rows * attend.outputs[0].row_bytes);
  free(batch_rows);
  release_guarded(mark);
}

/* The whole sequence in steps of `chunk`, behind `lead` other rows. Pages hold NaN where nothing was written. */
static void run_all(const fixture *f, const tn_kernel_set *set, tn_pool *pool, uint64_t page_bytes, uint32_t chunk,
                    uint32_t lead, uint32_t first_page, float *y) {
  size_t mark = guarded_list.count;
  tn_tensor state = pages_for(f->c, page_bytes);
  for (uint32_t begin = 0; begin < f->c->length; begin += chunk) {
    uint32_t rows = f->c->length - begin < chunk ? f->c->length - begin : chunk;
    run_step(f, set, pool, &state, begin, rows, lead, first_page, y + begin * f->c->heads * f->c->value_dim);
  }
  release_guarded(mark);
}

static void check_case(const attention_case *c) {
  size_t mark = guarded_list.count;
  test_random random = {c->dtype + c->heads * 7 + c->key_dim * 31 + c->window};
  fixture f = {.c = c};
  uint32_t spare = c->length + 8;
  f.q = random_rows(&random, spare, c->heads * c->key_dim, 2);
  f.k = random_rows(&random, spare, c->kv_heads * c->key_dim, 2);
  f.v = random_rows(&random, spare, c->kv_heads * c->value_dim, 2);
  for (uint32_t i = 0; c->steep && i < spare * c->heads * c->key_dim; i++) ((float *)f.q.data)[i] = 1;
  for (uint32_t i = 0; c->steep && i < spare * c->kv_heads * c->key_dim; i++)
    ((float *)f.k.data)[i] = i / (c->kv_heads * c->key_dim) % 2 ? -1.0f : 1.0f;
  if (c->rotary) f.table = random_rows(&random, spare, c->rotary, 1);
  if (c->sinks) {
    f.sinks = vector_of(guarded(c->heads * 4), c->heads);
    random_floats(&random, f.sinks.data, c->heads, 2);
  }
  size_t count = (size_t)c->length * c->heads * c->value_dim;
  float *want = calloc(count, 4), *first = calloc(count, 4), *got = calloc(count, 4);
  tn_state_desc desc = {sizeof desc, c->dtype, c->kv_heads, c->key_dim, c->value_dim, TN_PAGE_SLOTS};
  tn_state_layout layout;
  assert_int_equal(tn_plain_state_layout(&desc, &layout), TN_OK);
  run_all(&f, NULL, NULL, layout.page_bytes, c->length, 0, 1, want);
  assert_true(isfinite(want[count - 1]));
  const tn_kernel_set *sets[MAX_SETS];
  uint32_t set_count = fast_sets(sets);
  tn_state_layout packed;
  const char *why;
  assert_int_equal(tn_packed_state_layout(&desc, &packed, &why), TN_OK);
  uint64_t own = packed.page_bytes;
  for (uint32_t s = 0; s < set_count; s++) {
    run_all(&f, sets[s], pools[0], own, c->length, 0, 1, first);
    double error = float_error(first, want, count);
    if (!(error < 1e-9)) fail_msg("%s: dtype %u, dims %u: error %g", sets[s]->name, c->dtype, c->key_dim, error);
    static const uint32_t chunks[] = {1, 2, 7, 32, 300};
    for (uint32_t i = 0; i < 5; i++) {
      if (chunks[i] < 3 && c->length > 400 && s + 1 < set_count) continue; /* the best set walks for all */
      run_all(&f, sets[s], pools[(i + 1) % 3], own, chunks[i], i % 2 ? 3 : 0, 1 + i, got);
      assert_memory_equal(got, first, count * 4);
    }
  }
  free(want);
  free(first);
  free(got);
  release_guarded(mark);
}

static void test_dtypes_and_heads(void **state) {
  (void)state;
  static const uint32_t dtypes[] = {TN_F32, TN_F16, TN_BF16, TN_I8};
  for (uint32_t i = 0; i < 4; i++) {
    check_case(&(attention_case){
        .dtype = dtypes[i], .heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .rotary = 64, .length = 70});
    check_case(
        &(attention_case){.dtype = dtypes[i], .heads = 4, .kv_heads = 4, .key_dim = 24, .value_dim = 40, .length = 45});
    check_case(&(attention_case){.dtype = dtypes[i],
                                 .heads = 8,
                                 .kv_heads = 1,
                                 .key_dim = 9,
                                 .value_dim = 7,
                                 .rotary = 4,
                                 .pairing = 1,
                                 .length = 40});
  }
}

static void test_attributes(void **state) {
  (void)state;
  check_case(&(attention_case){.dtype = TN_F16,
                               .heads = 6,
                               .kv_heads = 2,
                               .key_dim = 32,
                               .value_dim = 32,
                               .rotary = 32,
                               .window = 20,
                               .length = 90,
                               .softcap = 5,
                               .sinks = 1});
  check_case(&(attention_case){.dtype = TN_I8,
                               .heads = 5,
                               .kv_heads = 5,
                               .key_dim = 80,
                               .value_dim = 20,
                               .rotary = 40,
                               .window = 33,
                               .length = 90,
                               .softcap = 5,
                               .sinks = 1});
  check_case(&(attention_case){.dtype = TN_F32,
                               .heads = 4,
                               .kv_heads = 2,
                               .key_dim = 16,
                               .value_dim = 80,
                               .rotary = 8,
                               .pairing = 1,
                               .window = 1,
                               .length = 40});
  check_case(&(attention_case){
      .dtype = TN_F16, .heads = 60, .kv_heads = 1, .key_dim = 16, .value_dim = 16, .length = 35, .sinks = 1});
}

/* Sums of integers, whose ranges shrink where there are many dimensions, stay within 32 bits. */
static void test_many_dimensions(void **state) {
  (void)state;
  check_case(&(attention_case){
      .dtype = TN_I8, .heads = 2, .kv_heads = 2, .key_dim = 512, .value_dim = 16, .length = 40, .steep = 1});
  check_case(&(attention_case){
      .dtype = TN_I8, .heads = 2, .kv_heads = 1, .key_dim = 1000, .value_dim = 16, .length = 40, .steep = 1});
}

/* Longer than several tiles, so that single rows are cut into tiles over the threads. */
static void test_long(void **state) {
  (void)state;
  check_case(&(attention_case){
      .dtype = TN_F16, .heads = 6, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .rotary = 64, .length = 850});
  check_case(&(attention_case){
      .dtype = TN_F32, .heads = 2, .kv_heads = 2, .key_dim = 16, .value_dim = 16, .length = 800, .window = 300});
  check_case(&(attention_case){
      .dtype = TN_I8, .heads = 3, .kv_heads = 1, .key_dim = 20, .value_dim = 20, .rotary = 20, .length = 850});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dtypes_and_heads),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_many_dimensions),
      cmocka_unit_test(test_long),
  };
  return cmocka_run_group_tests(tests, make_pools, end_pools);
}
