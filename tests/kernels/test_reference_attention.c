/* kv_write and attention over scattered pages, against naive softmax attention in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/reference/pages.h"
#include "support/kernel_call.h"

enum { HEADS = 6, KV_HEADS = 2, KEY_DIM = 10, VALUE_DIM = 7, LENGTH = 75, PAGES = 8 };

/* One sequence of LENGTH tokens: keys and values of all of them, and the pages they are written to. */
typedef struct timeline {
  float keys[LENGTH * KV_HEADS * KEY_DIM], values[LENGTH * KV_HEADS * VALUE_DIM], queries[LENGTH * HEADS * KEY_DIM];
  float out[LENGTH * HEADS * VALUE_DIM];
  uint8_t *pages;
  tn_tensor state;
} timeline;

static const uint32_t page_table[] = {99, 5, 0, 7}; /* the sequence's begins at 1 */

static void setup(timeline *line, uint32_t dtype) {
  test_random random = {11};
  random_floats(&random, line->keys, sizeof line->keys / 4, 1.5f);
  random_floats(&random, line->values, sizeof line->values / 4, 2);
  random_floats(&random, line->queries, sizeof line->queries / 4, 1.5f);
  tn_state_desc desc = {sizeof desc, dtype, KV_HEADS, KEY_DIM, VALUE_DIM, TN_PAGE_SLOTS};
  tn_state_layout layout;
  assert_int_equal(tn_plain_state_layout(&desc, &layout), TN_OK);
  uint64_t scales = dtype == TN_I8 ? KV_HEADS * 32 * 2 * sizeof(float) : 0;
  assert_int_equal(layout.page_bytes, KV_HEADS * 32 * (KEY_DIM + VALUE_DIM) * tn_row_bytes(dtype, 1) + scales);
  line->pages = malloc(PAGES * layout.page_bytes);
  memset(line->pages, 0xff, PAGES * layout.page_bytes); /* NaN in every dtype */
  line->state = (tn_tensor){.data = line->pages,
                            .dtype = dtype,
                            .rank = 4,
                            .dims = {KV_HEADS, KEY_DIM, VALUE_DIM, TN_PAGE_SLOTS},
                            .row_bytes = layout.page_bytes,
                            .kind = TN_VALUE_STATE};
}

/* Runs tokens begin .. begin + count of the timeline as one step: writes, then attends. */
static void run_step(timeline *line, uint32_t begin, uint32_t count, tn_attention_attributes *a, float *sinks,
                     float *out) {
  tn_row rows[LENGTH] = {{0}};
  tn_sequence sequence = {.first_row = 0, .row_count = count, .kv_length = begin, .pages = {0, 1}};
  tn_batch batch = {.size = sizeof batch,
                    .row_count = count,
                    .sequence_count = 1,
                    .context = begin + count,
                    .page_count = 4,
                    .rows = rows,
                    .sequences = &sequence,
                    .pages = page_table};
  tn_kv_write_attributes w = {sizeof w, 1, KV_HEADS, KEY_DIM, VALUE_DIM, 0, 0};
  tn_kernel_call write = {.opcode = TN_OP_KV_WRITE, .input_count = 3, .attributes = &w, .batch = &batch};
  write.inputs[0] = matrix_of(line->keys + begin * KV_HEADS * KEY_DIM, TN_F32, count, KV_HEADS * KEY_DIM);
  write.inputs[1] = matrix_of(line->values + begin * KV_HEADS * VALUE_DIM, TN_F32, count, KV_HEADS * VALUE_DIM);
  write.inputs[2] = line->state;
  assert_int_equal(run_reference(&write), TN_OK);
  tn_kernel_call attend = {
      .opcode = TN_OP_ATTENTION, .input_count = 3, .output_count = 1, .attributes = a, .batch = &batch};
  attend.inputs[0] = matrix_of(line->queries + begin * HEADS * KEY_DIM, TN_F32, count, HEADS * KEY_DIM);
  attend.inputs[1] = line->state;
  if (sinks) attend.inputs[2] = vector_of(sinks, HEADS);
  attend.outputs[0] = matrix_of(out, TN_F32, count, HEADS * VALUE_DIM);
  assert_int_equal(run_reference(&attend), TN_OK);
}

/* Element d of a key or value as the pages hold it. */
static double rounded(uint32_t dtype, const float *vector, int count, int d) {
  float value = vector[d], most = 0;
  for (int i = 0; i < count; i++) most = fmaxf(most, fabsf(vector[i]));
  if (dtype == TN_I8) return nearbyint((double)(value * (127.0f / most))) * (double)(most / 127.0f);
  if (dtype == TN_F16) return (double)tn_f16_to_f32(tn_f32_to_f16(value));
  if (dtype == TN_BF16) return (double)tn_bf16_to_f32(tn_f32_to_bf16(value));
  return (double)value;
}

static void attend_in_double(const timeline *line, uint32_t dtype, const tn_attention_attributes *a, const float *sinks,
                             uint32_t t, uint32_t head, double *y) {
  uint32_t kv = head / (HEADS / KV_HEADS);
  double weight[LENGTH], sum = 0;
  for (uint32_t j = 0; j <= t; j++) {
    double dot = 0;
    for (int d = 0; d < KEY_DIM; d++) {
      dot += (double)line->queries[(t * HEADS + head) * KEY_DIM + d] *
             rounded(dtype, line->keys + (j * KV_HEADS + kv) * KEY_DIM, KEY_DIM, d);
    }
    double score = dot * (double)a->scale;
    if (a->softcap > 0) score = (double)a->softcap * tanh(score / (double)a->softcap);
    weight[j] = a->window && t - j >= a->window ? 0 : exp(score);
    sum += weight[j];
  }
  if (sinks) sum += exp((double)sinks[head]);
  for (int d = 0; d < VALUE_DIM; d++) {
    y[d] = 0;
    for (uint32_t j = 0; j <= t; j++) {
      y[d] += weight[j] / sum * rounded(dtype, line->values + (j * KV_HEADS + kv) * VALUE_DIM, VALUE_DIM, d);
    }
  }
}

static void attention_agrees_with_double(void **state) {
  (void)state;
  const uint32_t dtypes[] = {TN_F32, TN_F16, TN_BF16, TN_I8}, windows[] = {0, 1, 20, 40};
  float sinks[HEADS] = {0.5f, -1, 3, 0, 2, -20};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    for (int variant = 0; variant < 16; variant++) {
      timeline *line = calloc(1, sizeof *line);
      setup(line, dtypes[i]);
      tn_attention_attributes a = {
          sizeof a, 1, HEADS, KV_HEADS, KEY_DIM, VALUE_DIM, 0.6f, variant & 1 ? 1.5f : 0, windows[variant >> 2]};
      float *sink = variant & 2 ? sinks : NULL;
      run_step(line, 0, LENGTH, &a, sink, line->out);
      double *want = malloc(sizeof line->out / 4 * sizeof *want);
      for (uint32_t row = 0; row < LENGTH * HEADS; row++) {
        attend_in_double(line, dtypes[i], &a, sink, row / HEADS, row % HEADS, want + row * VALUE_DIM);
      }
      assert_true(mean_square_error(line->out, want, sizeof line->out / 4) < 1e-12);
      free(want);
      free(line->pages);
      free(line);
    }
  }
}

/* A key or a value of zeros, or of numbers too small for a scale, is zeros; what holds no number gives none. */
static void int8_takes_what_it_is_given(void **state) {
  (void)state;
  timeline *line = calloc(1, sizeof *line);
  setup(line, TN_I8);
  tn_attention_attributes a = {sizeof a, 1, HEADS, KV_HEADS, KEY_DIM, VALUE_DIM, 0.6f, 0, 0};
  float *values = line->values;
  memset(values, 0, VALUE_DIM * sizeof *values);
  for (int d = 0; d < VALUE_DIM; d++) values[KV_HEADS * VALUE_DIM + d] = 1e-38f;
  run_step(line, 0, 2, &a, NULL, line->out);
  for (int t = 0; t < 2; t++)
    for (int d = 0; d < VALUE_DIM; d++) assert_true(line->out[t * HEADS * VALUE_DIM + d] == 0);
  values[2 * KV_HEADS * VALUE_DIM] = INFINITY;
  line->keys[3 * KV_HEADS * KEY_DIM + KEY_DIM] = NAN;
  run_step(line, 2, 2, &a, NULL, line->out);
  for (int head = 0; head < HEADS; head++) {
    int first_kv_head = head < HEADS / KV_HEADS; /* the value of token 2; the key of token 3 is the other's */
    assert_int_equal(isnan(line->out[head * VALUE_DIM + 1]) != 0, first_kv_head);
    assert_true(isnan(line->out[(HEADS + head) * VALUE_DIM + 1]));
  }
  free(line->pages);
  free(line);
}

/* However a prompt is cut in steps, every row comes out in the same bits. */
static void chunks_of(uint32_t dtype) {
  timeline *line = calloc(1, sizeof *line);
  setup(line, dtype);
  tn_attention_attributes a = {sizeof a, 1, HEADS, KV_HEADS, KEY_DIM, VALUE_DIM, 0.6f, 0, 50};
  run_step(line, 0, LENGTH, &a, NULL, line->out);
  float *out = malloc(sizeof line->out);
  const uint32_t chunks[] = {1, 7, 31, 32, 33};
  for (int i = 0; i < 5; i++) {
    memset(line->pages, 0xff, PAGES * line->state.row_bytes);
    for (uint32_t begin = 0; begin < LENGTH; begin += chunks[i]) {
      uint32_t count = LENGTH - begin < chunks[i] ? LENGTH - begin : chunks[i];
      run_step(line, begin, count, &a, NULL, out + begin * HEADS * VALUE_DIM);
    }
    assert_memory_equal(out, line->out, sizeof line->out);
  }
  free(out);
  free(line->pages);
  free(line);
}

static void chunks_change_nothing(void **state) {
  (void)state;
  chunks_of(TN_F16);
  chunks_of(TN_I8);
}

/* Two sequences side by side give what each gives alone; their pages are their own. */
static void sequences_stand_apart(void **state) {
  (void)state;
  timeline *line = calloc(1, sizeof *line);
  setup(line, TN_F32);
  tn_attention_attributes a = {sizeof a, 0, HEADS, KV_HEADS, KEY_DIM, VALUE_DIM, 0.6f, 0, 0};
  enum { FIRST = 40, SECOND = 35 };
  tn_row rows[LENGTH] = {{0}};
  for (int t = FIRST; t < LENGTH; t++) rows[t].sequence = 1;
  const uint32_t pages[] = {2, 6, 1, 4};
  tn_sequence sequences[] = {{.first_row = 0, .row_count = FIRST, .pages = {0}},
                             {.first_row = FIRST, .row_count = SECOND, .pages = {2}}};
  tn_batch batch = {.size = sizeof batch,
                    .row_count = LENGTH,
                    .sequence_count = 2,
                    .context = FIRST,
                    .page_count = 4,
                    .rows = rows,
                    .sequences = sequences,
                    .pages = pages};
  tn_kv_write_attributes w = {sizeof w, 0, KV_HEADS, KEY_DIM, VALUE_DIM, 0, 0};
  tn_kernel_call write = {.opcode = TN_OP_KV_WRITE, .input_count = 3, .attributes = &w, .batch = &batch};
  write.inputs[0] = matrix_of(line->keys, TN_F32, LENGTH, KV_HEADS * KEY_DIM);
  write.inputs[1] = matrix_of(line->values, TN_F32, LENGTH, KV_HEADS * VALUE_DIM);
  write.inputs[2] = line->state;
  assert_int_equal(run_reference(&write), TN_OK);
  tn_kernel_call attend = {
      .opcode = TN_OP_ATTENTION, .input_count = 2, .output_count = 1, .attributes = &a, .batch = &batch};
  attend.inputs[0] = matrix_of(line->queries, TN_F32, LENGTH, HEADS * KEY_DIM);
  attend.inputs[1] = line->state;
  attend.outputs[0] = matrix_of(line->out, TN_F32, LENGTH, HEADS * VALUE_DIM);
  assert_int_equal(run_reference(&attend), TN_OK);

  timeline *alone = calloc(1, sizeof *alone);
  setup(alone, TN_F32);
  a.group = 1;
  memcpy(alone->keys, line->keys + FIRST * KV_HEADS * KEY_DIM, SECOND * KV_HEADS * KEY_DIM * 4);
  memcpy(alone->values, line->values + FIRST * KV_HEADS * VALUE_DIM, SECOND * KV_HEADS * VALUE_DIM * 4);
  memcpy(alone->queries, line->queries + FIRST * HEADS * KEY_DIM, SECOND * HEADS * KEY_DIM * 4);
  run_step(alone, 0, SECOND, &a, NULL, alone->out);
  assert_memory_equal(alone->out, line->out + FIRST * HEADS * VALUE_DIM, SECOND * HEADS * VALUE_DIM * 4);
  free(alone->pages);
  free(alone);
  free(line->pages);
  free(line);
}

/* Keys turned on their way into the pages are those that rope gives. */
static void kv_write_turns_keys(void **state) {
  (void)state;
  enum { ROTARY = 6, ROWS = 3 };
  test_random random = {12};
  float keys[ROWS * KV_HEADS * KEY_DIM], values[ROWS * KV_HEADS * VALUE_DIM], turned[ROWS * KV_HEADS * KEY_DIM];
  float table[ROWS * ROTARY];
  random_floats(&random, keys, ROWS * KV_HEADS * KEY_DIM, 1);
  random_floats(&random, values, ROWS * KV_HEADS * VALUE_DIM, 1);
  random_floats(&random, table, ROWS * ROTARY, 1);
  tn_row rows[ROWS] = {{0}};
  const uint32_t pages[] = {3};
  tn_sequence sequence = {.row_count = ROWS, .kv_length = 4};
  tn_batch batch = {.size = sizeof batch,
                    .row_count = ROWS,
                    .sequence_count = 1,
                    .context = 7,
                    .page_count = 1,
                    .rows = rows,
                    .sequences = &sequence,
                    .pages = pages};
  for (uint32_t pairing = 0; pairing < 2; pairing++) {
    timeline *line = calloc(1, sizeof *line);
    setup(line, TN_F32);
    tn_rope_attributes turn = {sizeof turn, KEY_DIM, ROTARY, pairing};
    tn_kernel_call rope = {
        .opcode = TN_OP_ROPE, .input_count = 2, .output_count = 1, .attributes = &turn, .batch = &batch};
    rope.inputs[0] = matrix_of(keys, TN_F32, ROWS, KV_HEADS * KEY_DIM);
    rope.inputs[1] = matrix_of(table, TN_F32, ROWS, ROTARY);
    rope.outputs[0] = matrix_of(turned, TN_F32, ROWS, KV_HEADS * KEY_DIM);
    assert_int_equal(run_reference(&rope), TN_OK);
    tn_kv_write_attributes w = {sizeof w, 0, KV_HEADS, KEY_DIM, VALUE_DIM, ROTARY, pairing};
    tn_kernel_call write = {.opcode = TN_OP_KV_WRITE, .input_count = 4, .attributes = &w, .batch = &batch};
    write.inputs[0] = rope.inputs[0];
    write.inputs[1] = matrix_of(values, TN_F32, ROWS, KV_HEADS * VALUE_DIM);
    write.inputs[2] = line->state;
    write.inputs[3] = rope.inputs[1];
    assert_int_equal(run_reference(&write), TN_OK);
    const float *page = (const float *)(const void *)(line->pages + 3 * line->state.row_bytes);
    for (uint32_t t = 0; t < ROWS; t++) {
      for (uint32_t head = 0; head < KV_HEADS; head++) {
        assert_memory_equal(page + (head * 32 + 4 + t) * KEY_DIM, turned + (t * KV_HEADS + head) * KEY_DIM,
                            KEY_DIM * 4);
        assert_memory_equal(page + KV_HEADS * 32 * KEY_DIM + (head * 32 + 4 + t) * VALUE_DIM,
                            values + (t * KV_HEADS + head) * VALUE_DIM, VALUE_DIM * 4);
      }
    }
    assert_true(isnan(page[3 * KEY_DIM]) && isnan(page[7 * KEY_DIM])); /* the neighbours are untouched */
    free(line->pages);
    free(line);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_agrees_with_double), cmocka_unit_test(int8_takes_what_it_is_given),
      cmocka_unit_test(chunks_change_nothing),        cmocka_unit_test(sequences_stand_apart),
      cmocka_unit_test(kv_write_turns_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
