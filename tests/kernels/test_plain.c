/* The plain layout: sizes, and packing from sources cut, permuted, turned over and merged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/half.h"
#include "tenon/driver.h"

static tn_weight_desc matrix(uint32_t dtype, uint32_t uses, uint64_t rows, uint64_t cols) {
  return (tn_weight_desc){sizeof(tn_weight_desc), dtype, 2, uses, {rows, cols}};
}
static tn_weight_desc vector(uint32_t dtype, uint64_t count) {
  return (tn_weight_desc){sizeof(tn_weight_desc), dtype, 1, TN_USE_VECTOR, {count}};
}
static tn_weight_source whole(uint32_t dtype, const void *data, uint64_t rows, uint64_t cols) {
  return (tn_weight_source){.size = sizeof(tn_weight_source),
                            .dtype = dtype,
                            .data = data,
                            .rows = rows,
                            .cols = cols,
                            .row_count = rows,
                            .col_count = cols};
}

static void layout_is_the_source_row_after_row(void **state) {
  (void)state;
  tn_weight_layout layout;
  tn_weight_desc desc = matrix(TN_Q4_1, TN_USE_EMBED | TN_USE_LINEAR_Q8A, 10, 64);
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_OK);
  assert_int_equal(layout.id, TN_LAYOUT_PLAIN);
  assert_int_equal(layout.bytes, 10 * 40);
  assert_int_equal(tn_plain_row_bytes(&desc), 40);
  desc = vector(TN_BF16, 7);
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_OK);
  assert_int_equal(layout.bytes, 28);
  desc = (tn_weight_desc){sizeof desc, TN_F16, 3, TN_USE_LINEAR, {3, 5, 8}};
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_OK);
  assert_int_equal(layout.bytes, 3 * 5 * 16);

  desc = matrix(TN_Q4_1, TN_USE_LINEAR, 10, 65);
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_E_INVALID);
  desc = matrix(TN_F32, TN_USE_LINEAR, UINT64_MAX / 8, 4);
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_E_INVALID);
  desc = matrix(TN_F16, TN_USE_LINEAR | TN_USE_VECTOR, 4, 4);
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_E_UNSUPPORTED);
  desc = matrix(TN_Q8A, TN_USE_LINEAR, 4, 32);
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_E_UNSUPPORTED);
  desc = matrix(TN_DTYPE_COUNT, TN_USE_LINEAR, 4, 32);
  assert_int_equal(tn_plain_layout(&desc, &layout), TN_E_INVALID);
}

static void sources_merge_and_permute(void **state) {
  (void)state;
  float a[4][6], b[3][3], packed[5][3] = {{0}};
  for (int r = 0; r < 4; r++) {
    for (int c = 0; c < 6; c++) a[r][c] = (float)(10 * r + c);
  }
  for (int r = 0; r < 3; r++) {
    for (int c = 0; c < 3; c++) b[r][c] = (float)(100 + 10 * r + c);
  }
  const uint32_t map[] = {2, 0};
  tn_weight_source sources[] = {whole(TN_F32, a, 4, 6), whole(TN_F32, b, 3, 3)};
  sources[0].row_begin = 1; /* rows 1..3, columns 2..4, to the end of the weight */
  sources[0].row_count = 3;
  sources[0].col_begin = 2;
  sources[0].col_count = 3;
  sources[0].into_row = 2;
  sources[1].row_map = map;
  sources[1].row_count = 2;
  tn_weight_desc desc = matrix(TN_F32, TN_USE_LINEAR, 5, 3);
  assert_int_equal(tn_plain_pack(&desc, sources, 2, packed), TN_OK);
  const float want[5][3] = {{120, 121, 122}, {100, 101, 102}, {12, 13, 14}, {22, 23, 24}, {32, 33, 34}};
  assert_memory_equal(packed, want, sizeof want);
}

static void blocks_are_copied_whole(void **state) {
  (void)state;
  uint8_t stored[3][3][34], packed[2][2][34];
  for (size_t i = 0; i < sizeof stored; i++) ((uint8_t *)stored)[i] = (uint8_t)(i * 7);
  const uint32_t map[] = {2, 1};
  tn_weight_source source = whole(TN_Q8_0, stored, 3, 96);
  source.row_map = map;
  source.row_count = 2;
  source.col_begin = 32;
  source.col_count = 64;
  tn_weight_desc desc = matrix(TN_Q8_0, TN_USE_LINEAR_Q8A, 2, 64);
  assert_int_equal(tn_plain_pack(&desc, &source, 1, packed), TN_OK);
  assert_memory_equal(packed[0], stored[2][1], 68);
  assert_memory_equal(packed[1], stored[1][1], 68);
  source.col_begin = 16; /* inside a block */
  assert_int_equal(tn_plain_pack(&desc, &source, 1, packed), TN_E_UNSUPPORTED);
  source = whole(TN_Q8_0, stored, 64, 2);
  source.transposed = 1;
  assert_int_not_equal(tn_plain_pack(&desc, &source, 1, packed), TN_OK);
}

static void a_stored_transpose_is_turned_over(void **state) {
  (void)state;
  uint16_t stored[3][5], packed[2][3]; /* the weight is [5, 3]; take its rows 2 and 4 */
  for (int r = 0; r < 3; r++) {
    for (int c = 0; c < 5; c++) stored[r][c] = (uint16_t)(10 * r + c);
  }
  const uint32_t map[] = {2, 4};
  tn_weight_source source = whole(TN_F16, stored, 3, 5);
  source.transposed = 1;
  source.row_map = map;
  source.row_count = 2;
  source.col_count = 3;
  tn_weight_desc desc = matrix(TN_F16, TN_USE_LINEAR, 2, 3);
  assert_int_equal(tn_plain_pack(&desc, &source, 1, packed), TN_OK);
  const uint16_t want[2][3] = {{2, 12, 22}, {4, 14, 24}};
  assert_memory_equal(packed, want, sizeof want);
}

static void vectors_widen_and_add(void **state) {
  (void)state;
  uint16_t half[300], brain[2];
  float packed[302];
  for (int i = 0; i < 300; i++) half[i] = tn_f32_to_f16((float)i * 0.5f);
  brain[0] = tn_f32_to_bf16(-2);
  brain[1] = tn_f32_to_bf16(7);
  tn_weight_source sources[] = {whole(TN_F16, half, 1, 300), whole(TN_BF16, brain, 2, 1)}; /* a row and a column */
  sources[0].add = 1.0f;
  sources[1].into_row = 300;
  tn_weight_desc desc = vector(TN_F16, 302);
  assert_int_equal(tn_plain_pack(&desc, sources, 2, packed), TN_OK);
  for (int i = 0; i < 300; i++) assert_true(packed[i] == (float)i * 0.5f + 1.0f);
  assert_true(packed[300] == -2.0f && packed[301] == 7.0f);
}

static void sources_that_lead_outside_are_refused(void **state) {
  (void)state;
  float stored[4][4] = {{0}}, packed[4][4];
  tn_weight_desc desc = matrix(TN_F32, TN_USE_LINEAR, 4, 4);
  const uint32_t map[] = {0, 1, 2, 4};
  const tn_weight_source good = whole(TN_F32, stored, 4, 4);
  assert_int_equal(tn_plain_pack(&desc, &good, 1, packed), TN_OK);
  tn_weight_source bad[9];
  for (int i = 0; i < 9; i++) bad[i] = good;
  bad[0].into_row = 1;
  bad[1].row_begin = 1;
  bad[2].col_begin = 1;
  bad[3].row_map = map;
  bad[4].row_count = UINT64_MAX;
  bad[5].col_count = 3;
  bad[6].data = NULL;
  bad[7].dtype = 99;
  bad[8].into_row = UINT64_MAX;
  for (int i = 0; i < 9; i++) assert_int_equal(tn_plain_pack(&desc, &bad[i], 1, packed), TN_E_INVALID);
  tn_weight_source other = good;
  other.dtype = TN_I32;
  assert_int_equal(tn_plain_pack(&desc, &other, 1, packed), TN_E_UNSUPPORTED);
}

static void pages_have_the_plain_size(void **state) {
  (void)state;
  tn_state_layout layout;
  tn_state_desc desc = {sizeof desc, TN_F16, 3, 64, 48, TN_PAGE_SLOTS};
  assert_int_equal(tn_plain_state_layout(&desc, &layout), TN_OK);
  assert_int_equal(layout.page_bytes, 3 * 32 * (64 + 48) * 2);
  desc.dtype = TN_Q8_0;
  assert_int_equal(tn_plain_state_layout(&desc, &layout), TN_E_UNSUPPORTED);
  desc.dtype = TN_F16;
  desc.slots = 128; /* contiguous KV */
  assert_int_equal(tn_plain_state_layout(&desc, &layout), TN_OK);
  assert_int_equal(layout.page_bytes, 3 * 128 * (64 + 48) * 2);
  desc.kv_heads = 0;
  assert_int_equal(tn_plain_state_layout(&desc, &layout), TN_E_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layout_is_the_source_row_after_row),
      cmocka_unit_test(sources_merge_and_permute),
      cmocka_unit_test(blocks_are_copied_whole),
      cmocka_unit_test(a_stored_transpose_is_turned_over),
      cmocka_unit_test(vectors_widen_and_add),
      cmocka_unit_test(sources_that_lead_outside_are_refused),
      cmocka_unit_test(pages_have_the_plain_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
