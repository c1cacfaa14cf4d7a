/* kv_write: this step's keys and values go into the pages of their sequences, rounded to the pages' dtype. */
#include "kernels/math.h"
#include "kernels/reference/pages.h"
#include "kernels/reference/rope.h"

/* A key, turned where there is a table, or a value. */
typedef struct head_vector {
  const float *x, *turn;
  uint32_t count, half, pairing;
} head_vector;

static float value_of(const head_vector *v, uint32_t i) {
  return v->turn ? tn_turned_value(v->x, i, v->half, v->pairing, v->turn) : v->x[i];
}

/* The scale of int8 values, and what they are multiplied by before they are rounded (device.h). */
static float scale_of(const head_vector *v, float *inverse) {
  float most = 0.0f;
  for (uint32_t i = 0; i < v->count && most == most; i++) {
    float magnitude = tn_abs(value_of(v, i));
    if (magnitude > most || magnitude != magnitude) most = magnitude;
  }
  *inverse = 0.0f;
  if (!(most < TN_INFINITY)) return TN_NAN;
  if (most < TN_INT8_TINY) return 0.0f;
  *inverse = 127.0f / most;
  return most / 127.0f;
}

/* Elements at .. at + count - 1 of a page, and the scale of int8 ones; NULL for others. */
static void put(const tn_tensor *state, void *page, uint64_t at, float *scale, const head_vector *v) {
  float inverse = 1.0f;
  if (scale) *scale = scale_of(v, &inverse);
  for (uint32_t i = 0; i < v->count; i++)
    tn_page_set(state->dtype, page, at + i, inverse == 0.0f ? 0.0f : value_of(v, i) * inverse);
}

static void write_row(void *argument, uint32_t t, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_kv_write_attributes *a = call->attributes;
  const tn_tensor *state = &call->inputs[2], *table = tn_input(call, 3);
  const tn_batch *batch = call->batch;
  const tn_sequence *sequence = &batch->sequences[batch->rows[t].sequence];
  int scaled = state->dtype == TN_I8;
  uint32_t within;
  void *page = tn_page_of(state, batch, sequence, a->group, tn_slot_of_row(batch, t), &within);
  const float *turn = table && a->rotary ? tn_floats(table, t) : NULL;
  for (uint32_t head = 0; head < a->kv_heads; head++) {
    const head_vector key = {tn_floats(&call->inputs[0], t) + head * a->key_dim, turn, a->key_dim, a->rotary / 2,
                             a->pairing};
    const head_vector value = {.x = tn_floats(&call->inputs[1], t) + head * a->value_dim, .count = a->value_dim};
    put(state, page, tn_key_index(state, head, within), scaled ? tn_key_scale(state, page, head, within) : NULL, &key);
    put(state, page, tn_value_index(state, head, within), scaled ? tn_value_scale(state, page, head, within) : NULL,
        &value);
  }
}

/* k[T,Hk*Dk], v[T,Hk*Dv], pages, table[T,rotary]? */
tn_status tn_reference_kv_write(const tn_kernel_call *call) {
  tn_for_each(call, write_row, call->batch->row_count);
  return TN_OK;
}
