/* short_conv and delta_rule: ops with a memory of their own for each sequence.
 *
 * The memory of a sequence is one slot of the state: an op reads slot state_read, walks the sequence's rows of this
 * step in order, and leaves what comes out in slot state_write (which may be the same). A sequence that has no rows
 * behind it (kv_length 0) begins with zeros, whatever the slot holds. Sums run in the same order for every row, so that
 * how a prompt is cut into steps changes no bit.
 *
 * Memory of short_conv: f32 [taps - 1][C], the oldest input first. Of delta_rule: f32 [Hv][Dv][Dk], so that the column
 * of S that belongs to one value lies together. */
#include "kernels/math.h"
#include "kernels/reference/reference.h"

#define CHANNELS_A_TASK 64u
#define COLUMNS_A_TASK 16u

static float *slot_of(const tn_tensor *state, uint32_t slot) {
  return (float *)(void *)((char *)state->data + slot * state->row_bytes);
}

/* ---- short_conv ---- */

/* The input `back` rows before row t of the sequence's step: of this step, remembered, or zero. */
static float input_before(const tn_tensor *x, const tn_sequence *sequence, const float *memory, uint32_t history,
                          uint32_t row, uint32_t back, uint32_t c) {
  if (back <= row) return tn_floats(x, sequence->first_row + row - back)[c];
  if (!sequence->kv_length) return 0.0f;
  return memory[(history + row - back) * tn_cols(x) + c];
}

static void conv_part(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_short_conv_attributes *a = call->attributes;
  const tn_tensor *x = &call->inputs[0], *state = &call->inputs[2];
  uint32_t channels = tn_cols(x), parts = (channels + CHANNELS_A_TASK - 1) / CHANNELS_A_TASK, history = a->taps - 1;
  const tn_sequence *sequence = &call->batch->sequences[index / parts];
  uint32_t begin = index % parts * CHANNELS_A_TASK;
  uint32_t end = begin + CHANNELS_A_TASK < channels ? begin + CHANNELS_A_TASK : channels;
  const float *old = slot_of(state, sequence->state_read);
  float *new = slot_of(state, sequence->state_write);
  for (uint32_t c = begin; c < end; c++) {
    const float *w = (const float *)call->inputs[1].data + c * a->taps;
    for (uint32_t row = 0; row < sequence->row_count; row++) {
      float sum = 0.0f;
      for (uint32_t j = 0; j < a->taps; j++) sum += w[j] * input_before(x, sequence, old, history, row, history - j, c);
      tn_floats(&call->outputs[0], sequence->first_row + row)[c] = tn_reference_activate(a->activation, sum);
    }
    /* from the oldest on: what is written lies before all that is still to be read, even in the same slot */
    for (uint32_t i = 0; i < history; i++)
      new[i * channels + c] = input_before(x, sequence, old, history, sequence->row_count - 1, history - 1 - i, c);
  }
}

/* x[T,C], W[C*taps], state -> y[T,C] */
tn_status tn_reference_short_conv(const tn_kernel_call *call) {
  uint32_t parts = (tn_cols(&call->inputs[0]) + CHANNELS_A_TASK - 1) / CHANNELS_A_TASK;
  tn_for_each(call, conv_part, call->batch->sequence_count * parts);
  return TN_OK;
}

/* ---- delta_rule ---- */

/* 1 / sqrt(x . x + epsilon) */
static float inverse_length(const float *x, uint32_t count, float epsilon) {
  float sum = 0.0f;
  for (uint32_t i = 0; i < count; i++) sum += x[i] * x[i];
  return tn_rsqrt(sum + epsilon);
}

/* What one row does to columns [begin, end) of one head's memory. */
typedef struct delta_row {
  const float *q, *k, *v; /* of the head */
  float decay, rate;      /* exp(A softplus(a + dt)), sigmoid(b) */
  float q_scale, k_scale; /* 1 / length, q's over sqrt(Dk) too */
  float *y;
} delta_row;

static delta_row row_of(const tn_kernel_call *call, uint32_t t, uint32_t head) {
  const tn_delta_rule_attributes *a = call->attributes;
  uint32_t per_key = a->value_heads / a->key_heads, key_width = a->key_heads * a->key_dim;
  uint32_t key_head = a->tiled ? head % a->key_heads : head / per_key;
  const float *x = tn_floats(&call->inputs[0], t);
  float alpha = tn_floats(&call->inputs[1], t)[head] + ((const float *)call->inputs[4].data)[head];
  delta_row row = {.q = x + key_head * a->key_dim,
                   .k = x + key_width + key_head * a->key_dim,
                   .v = x + 2 * key_width + head * a->value_dim,
                   .y = tn_floats(&call->outputs[0], t) + head * a->value_dim};
  row.decay = tn_exp(((const float *)call->inputs[3].data)[head] * tn_softplus(alpha));
  row.rate = 1.0f / (1.0f + tn_exp(-tn_floats(&call->inputs[2], t)[head]));
  row.q_scale = inverse_length(row.q, a->key_dim, a->epsilon) * tn_rsqrt((float)a->key_dim);
  row.k_scale = inverse_length(row.k, a->key_dim, a->epsilon);
  return row;
}

/* Column d of the memory, `s`, moves on by one row. */
static void step_column(const delta_row *row, uint32_t key_dim, uint32_t d, float *s) {
  float remembered = 0.0f, y = 0.0f;
  for (uint32_t i = 0; i < key_dim; i++) {
    s[i] *= row->decay;
    remembered += s[i] * (row->k[i] * row->k_scale);
  }
  float change = row->rate * (row->v[d] - remembered);
  for (uint32_t i = 0; i < key_dim; i++) {
    s[i] += row->k[i] * row->k_scale * change;
    y += s[i] * (row->q[i] * row->q_scale);
  }
  row->y[d] = y;
}

static void delta_part(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_delta_rule_attributes *a = call->attributes;
  uint32_t parts = (a->value_dim + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK;
  const tn_sequence *sequence = &call->batch->sequences[index / parts / a->value_heads];
  uint32_t head = index / parts % a->value_heads, begin = index % parts * COLUMNS_A_TASK;
  uint32_t end = begin + COLUMNS_A_TASK < a->value_dim ? begin + COLUMNS_A_TASK : a->value_dim;
  uint64_t at = ((uint64_t)head * a->value_dim + begin) * a->key_dim, count = (uint64_t)(end - begin) * a->key_dim;
  const float *old = slot_of(&call->inputs[5], sequence->state_read) + at;
  float *memory = slot_of(&call->inputs[5], sequence->state_write) + at;
  for (uint64_t i = 0; i < count; i++) memory[i] = sequence->kv_length ? old[i] : 0.0f;
  for (uint32_t r = 0; r < sequence->row_count; r++) {
    delta_row row = row_of(call, sequence->first_row + r, head);
    for (uint32_t d = begin; d < end; d++) step_column(&row, a->key_dim, d, memory + (d - begin) * a->key_dim);
  }
}

/* qkv, a, b, A, dt, state -> y[T,Hv*Dv] */
tn_status tn_reference_delta_rule(const tn_kernel_call *call) {
  const tn_delta_rule_attributes *a = call->attributes;
  uint32_t parts = (a->value_dim + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK;
  tn_for_each(call, delta_part, call->batch->sequence_count * a->value_heads * parts);
  return TN_OK;
}
