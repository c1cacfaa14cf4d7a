/* model/sound.h: a scale that is no number, in any block of any format, is found where it is; what is sound is taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/sound.h"
#include "tensor/dtype.h"

#define ROWS 9
#define COLS 2560

typedef struct stage {
  tn_file_tensor tensor;
  tn_container file;
  tn_weight_source source;
  tn_graph_value weight;
  uint8_t *data;
  size_t bytes;
} stage;

/* A matrix of random codes with scales of 0, as the only tensor of a file. */
static void set_up(stage *s, tn_dtype dtype) {
  size_t row_bytes;
  assert_true(tn_dtype_row_bytes(dtype, COLS, &row_bytes));
  memset(s, 0, sizeof *s);
  s->bytes = ROWS * row_bytes;
  s->data = calloc(1, s->bytes);
  assert_non_null(s->data);
  s->tensor = (tn_file_tensor){.name = "the.weight", .dtype = dtype, .rank = 2, .dims = {COLS, ROWS, 1, 1}};
  s->tensor.data = s->data;
  s->tensor.bytes = s->bytes;
  s->file.path = "model.gguf";
  s->file.tensors = &s->tensor;
  s->file.tensor_count = 1;
  s->source = (tn_weight_source){.size = sizeof s->source, .dtype = dtype, .data = s->data, .rows = ROWS, .cols = COLS};
  s->source.row_count = ROWS;
  s->source.col_count = COLS;
  s->weight.name = "merged";
  s->weight.rank = 2;
  s->weight.sources = &s->source;
  s->weight.source_count = 1;
}

static tn_status check(const stage *s, tn_error *error) {
  const tn_scales none = {0};
  *error = (tn_error){0};
  return tn_sound_check(&s->weight, &s->file, &none, error);
}

/* The formats with the places of their f16 scales in a block, as GGUF has them. */
static const struct {
  tn_dtype dtype;
  int count;
  size_t at[2];
} formats[] = {{TN_Q8_0, 1, {0}},    {TN_Q4_0, 1, {0}},      {TN_Q4_1, 2, {0, 2}}, {TN_Q5_0, 1, {0}},
               {TN_Q5_1, 2, {0, 2}}, {TN_Q2_K, 2, {80, 82}}, {TN_Q3_K, 1, {108}},  {TN_Q4_K, 2, {0, 2}},
               {TN_Q5_K, 2, {0, 2}}, {TN_Q6_K, 1, {208}},    {TN_IQ4_NL, 1, {0}},  {TN_IQ4_XS, 1, {0}}};

static void must_name(const stage *s, size_t block) {
  tn_error error;
  char expected[80];
  snprintf(expected, sizeof expected, "model.gguf: tensor the.weight: block %zu has", block);
  assert_int_equal(check(s, &error), TN_E_FORMAT);
  if (strncmp(error.message, expected, strlen(expected))) fail_msg("%s, expected %s", error.message, expected);
}

static void blocks_with_f16_scales(void **state) {
  (void)state;
  static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00, 0xffff}, good[] = {0x7bff, 0xfbff, 0x8000, 1};
  for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
    stage s;
    tn_error error;
    set_up(&s, formats[f].dtype);
    size_t bytes = tn_dtype_block_bytes(formats[f].dtype), blocks = s.bytes / bytes;
    memset(s.data, 0xff, s.bytes); /* all codes that there are */
    for (size_t b = 0; b < blocks; b++)
      for (int i = 0; i < formats[f].count; i++) memcpy(s.data + b * bytes + formats[f].at[i], good + b % 4, 2);
    assert_int_equal(check(&s, &error), TN_OK);
    const size_t places[] = {0, blocks / 2, blocks - 1};
    for (size_t p = 0; p < 3; p++)
      for (int i = 0; i < formats[f].count; i++)
        for (size_t v = 0; v < 4; v++) {
          uint8_t *at = s.data + places[p] * bytes + formats[f].at[i], kept[2];
          memcpy(kept, at, 2);
          memcpy(at, bad + v, 2);
          must_name(&s, places[p]);
          memcpy(at, kept, 2);
        }
    free(s.data);
  }
}

static void blocks_with_powers_of_two(void **state) {
  (void)state;
  static const tn_dtype dtypes[] = {TN_MXFP4, TN_MXFP6};
  for (size_t f = 0; f < 2; f++) {
    stage s;
    tn_error error;
    set_up(&s, dtypes[f]);
    size_t bytes = tn_dtype_block_bytes(dtypes[f]);
    memset(s.data, 0xff, s.bytes);
    for (size_t b = 0; b < s.bytes / bytes; b++) s.data[b * bytes] = 200;
    assert_int_equal(check(&s, &error), TN_OK);
    s.data[17 * bytes] = 255;
    must_name(&s, 17);
    free(s.data);
  }
}

/* Rows of a tensor that the weight doesn't view are another weight's to refuse. */
static void only_what_is_viewed(void **state) {
  (void)state;
  stage s;
  tn_error error;
  set_up(&s, TN_Q8_0);
  size_t row_blocks = COLS / 32;
  s.data[(3 * row_blocks + 7) * 34 + 1] = 0x7e;
  s.source.row_begin = 4;
  s.source.row_count = 5;
  assert_int_equal(check(&s, &error), TN_OK);
  s.source.row_begin = 3;
  must_name(&s, 3 * row_blocks + 7);
  free(s.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_with_f16_scales),
      cmocka_unit_test(blocks_with_powers_of_two),
      cmocka_unit_test(only_what_is_viewed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
