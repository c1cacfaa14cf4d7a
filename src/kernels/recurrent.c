/* short_conv and delta_rule; kernels/reference/recurrent.c tells what they compute and how their memories lie.
 *
 * short_conv: channels in lanes. delta_rule: a column of the memory along the lanes, read twice for each row: once for
 * its products with k and q, once to move it on; y follows from those products and k . q. */
#include "kernels/internal.h"
#include "kernels/math.h"
#include "kernels/vector_math.h"

#define VECTORS_A_TASK 4u /* of channels */
#define COLUMNS_A_TASK 32u
#define COLUMNS 4 /* taken together */

static float *slot_of(const tn_tensor *state, uint32_t slot) {
  return (float *)(void *)tn_row_at(state, slot);
}

/* ---- short_conv ---- */

/* Where the input of channels from c on lies, `back` rows before row `row` of the sequence's step; NULL: it is zero. */
TN_INLINE const float *input_before(const tn_tensor *x, const tn_sequence *sequence, const float *memory,
                                    uint32_t history, uint32_t row, uint32_t back, uint32_t c) {
  if (back <= row) return tn_floats(x, sequence->first_row + row - back) + c;
  return sequence->kv_length ? memory + (uint64_t)(history + row - back) * tn_columns(x) + c : NULL;
}

/* 16 channels from c on, or as many as are left; `w`: room for taps vectors. */
static void conv_channels(const tn_kernel_call *call, const tn_sequence *sequence, uint32_t c, float *w) {
  const tn_short_conv_attributes *a = (const tn_short_conv_attributes *)call->attributes;
  const tn_tensor *x = &call->inputs[0], *state = &call->inputs[2];
  const uint32_t channels = tn_columns(x), left = channels - c, history = a->taps - 1;
  const float *weights = (const float *)call->inputs[1].data + (uint64_t)c * a->taps;
  const float *old = slot_of(state, sequence->state_read);
  float *next = slot_of(state, sequence->state_write) + c;
  for (uint32_t j = 0; j < a->taps; j++)
    for (uint32_t l = 0; l < TN_LANES; l++) w[j * TN_LANES + l] = l < left ? weights[l * a->taps + j] : 0.0f;
  for (uint32_t row = 0; row < sequence->row_count; row++) {
    vf sum = vf_zero();
    for (uint32_t j = 0; j < a->taps; j++) {
      const float *input = input_before(x, sequence, old, history, row, history - j, c);
      if (input) sum = vf_fma(vf_load(w + j * TN_LANES), tn_load_some(input, left), sum);
    }
    tn_store_some(tn_floats(&call->outputs[0], sequence->first_row + row) + c, left, tn_activated(sum, a->activation));
  }
  /* from the oldest on: what is written lies before all that is still to be read, even in the same slot */
  for (uint32_t i = 0; i < history; i++) {
    const float *input = input_before(x, sequence, old, history, sequence->row_count - 1, history - 1 - i, c);
    tn_store_some(next + (uint64_t)i * channels, left, input ? tn_load_some(input, left) : vf_zero());
  }
}

static uint32_t conv_parts(const tn_kernel_call *call) {
  return (tn_columns(&call->inputs[0]) + VECTORS_A_TASK * TN_LANES - 1) / (VECTORS_A_TASK * TN_LANES);
}

static void conv_part(void *argument, uint32_t index, uint32_t worker) {
  const tn_kernel_call *call = (const tn_kernel_call *)argument;
  uint32_t parts = conv_parts(call), begin = index % parts * VECTORS_A_TASK * TN_LANES;
  float *w = (float *)(void *)((uint8_t *)call->workspace + worker * call->workspace_bytes);
  for (uint32_t v = 0; v < VECTORS_A_TASK && begin + v * TN_LANES < tn_columns(&call->inputs[0]); v++)
    conv_channels(call, &call->batch->sequences[index / parts], begin + v * TN_LANES, w);
}

uint64_t tn_short_conv_workspace(const tn_op_query *query) {
  return (uint64_t)((const tn_short_conv_attributes *)query->attributes)->taps * TN_LANES * sizeof(float);
}

tn_status tn_short_conv(const tn_kernel_call *call) {
  uint64_t taps = ((const tn_short_conv_attributes *)call->attributes)->taps;
  tn_share(call, conv_part, (void *)(uintptr_t)call, call->batch->sequence_count * conv_parts(call),
           taps * tn_columns(&call->inputs[0]) * tn_rows(&call->inputs[0]));
  return TN_OK;
}

/* ---- delta_rule ---- */

typedef struct delta_job {
  const tn_kernel_call *call;
  const tn_delta_rule_attributes *a;
  uint32_t columns_a_task, parts; /* of a head */
} delta_job;

/* What one row does to the memory of one head. */
typedef struct delta_row {
  float *q, *k; /* of length 1, q over sqrt(Dk) too; the caller's memory */
  const float *v;
  float *y;
  float decay, rate; /* exp(A softplus(a + dt)), sigmoid(b) */
  float kq;          /* k . q */
} delta_row;

static float dot(const float *a, const float *b, uint32_t count) {
  vf sum = vf_zero();
  for (uint32_t i = 0; i < count; i += TN_LANES)
    sum = vf_fma(tn_load_some(a + i, count - i), tn_load_some(b + i, count - i), sum);
  return vf_sum(sum);
}

static void scale_into(float *to, const float *from, uint32_t count, float factor) {
  for (uint32_t i = 0; i < count; i += TN_LANES)
    tn_store_some(to + i, count - i, vf_mul(tn_load_some(from + i, count - i), vf_set1(factor)));
}

static void load_row(const delta_job *job, uint32_t t, uint32_t head, delta_row *row) {
  const tn_kernel_call *call = job->call;
  const tn_delta_rule_attributes *a = job->a;
  uint32_t key_head = a->tiled ? head % a->key_heads : head / (a->value_heads / a->key_heads);
  uint32_t key_width = a->key_heads * a->key_dim;
  const float *x = tn_floats(&call->inputs[0], t), *q = x + key_head * a->key_dim, *k = q + key_width;
  float alpha = tn_floats(&call->inputs[1], t)[head] + ((const float *)call->inputs[4].data)[head];
  row->v = x + 2 * key_width + head * a->value_dim;
  row->y = tn_floats(&call->outputs[0], t) + head * a->value_dim;
  row->decay = tn_exp(((const float *)call->inputs[3].data)[head] * tn_softplus(alpha));
  row->rate = 1.0f / (1.0f + tn_exp(-tn_floats(&call->inputs[2], t)[head]));
  float q_scale = tn_rsqrt(dot(q, q, a->key_dim) + a->epsilon) * tn_rsqrt((float)a->key_dim);
  scale_into(row->q, q, a->key_dim, q_scale);
  scale_into(row->k, k, a->key_dim, tn_rsqrt(dot(k, k, a->key_dim) + a->epsilon));
  row->kq = dot(row->k, row->q, a->key_dim);
}

/* `count` columns of the memory from column d on, lying at `s`, move on by one row. */
TN_INLINE void step_columns(const int count, const delta_row *row, uint32_t key_dim, uint32_t d, float *s) {
  vf with_k[COLUMNS], with_q[COLUMNS], change[COLUMNS];
  const vf decay = vf_set1(row->decay);
#pragma GCC unroll 4
  for (int c = 0; c < count; c++) with_k[c] = with_q[c] = vf_zero();
  for (uint32_t i = 0; i < key_dim; i += TN_LANES) {
    const vf k = tn_load_some(row->k + i, key_dim - i), q = tn_load_some(row->q + i, key_dim - i);
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {
      const vf old = tn_load_some(s + (uint64_t)c * key_dim + i, key_dim - i);
      with_k[c] = vf_fma(old, k, with_k[c]);
      with_q[c] = vf_fma(old, q, with_q[c]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < count; c++) {
    float delta = row->rate * (row->v[d + (uint32_t)c] - row->decay * vf_sum(with_k[c]));
    row->y[d + (uint32_t)c] = row->decay * vf_sum(with_q[c]) + delta * row->kq;
    change[c] = vf_set1(delta);
  }
  for (uint32_t i = 0; i < key_dim; i += TN_LANES) {
    const vf k = tn_load_some(row->k + i, key_dim - i);
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {
      float *at = s + (uint64_t)c * key_dim + i;
      tn_store_some(at, key_dim - i, vf_fma(k, change[c], vf_mul(decay, tn_load_some(at, key_dim - i))));
    }
  }
}

static void delta_part(void *argument, uint32_t index, uint32_t worker) {
  const delta_job *job = (const delta_job *)argument;
  const tn_kernel_call *call = job->call;
  const uint32_t key_dim = job->a->key_dim, value_dim = job->a->value_dim, heads = job->a->value_heads;
  const tn_sequence *sequence = &call->batch->sequences[index / job->parts / heads];
  uint32_t head = index / job->parts % heads, begin = index % job->parts * job->columns_a_task;
  uint32_t end = begin + job->columns_a_task < value_dim ? begin + job->columns_a_task : value_dim;
  uint64_t at = ((uint64_t)head * value_dim + begin) * key_dim,
           bytes = (uint64_t)(end - begin) * key_dim * sizeof(float);
  const float *old = slot_of(&call->inputs[5], sequence->state_read) + at;
  float *memory = slot_of(&call->inputs[5], sequence->state_write) + at;
  if (!sequence->kv_length)
    __builtin_memset(memory, 0, bytes);
  else if (memory != old)
    __builtin_memcpy(memory, old, bytes);
  float *space = (float *)(void *)((uint8_t *)call->workspace + worker * call->workspace_bytes);
  delta_row row = {.q = space, .k = space + key_dim};
  for (uint32_t r = 0; r < sequence->row_count; r++) {
    load_row(job, sequence->first_row + r, head, &row);
    uint32_t d = begin;
    for (; d + COLUMNS <= end; d += COLUMNS)
      step_columns(COLUMNS, &row, key_dim, d, memory + (uint64_t)(d - begin) * key_dim);
    for (; d < end; d++) step_columns(1, &row, key_dim, d, memory + (uint64_t)(d - begin) * key_dim);
  }
}

uint64_t tn_delta_rule_workspace(const tn_op_query *query) {
  return (uint64_t)((const tn_delta_rule_attributes *)query->attributes)->key_dim * 2 * sizeof(float);
}

tn_status tn_delta_rule(const tn_kernel_call *call) {
  delta_job job = {.call = call, .a = (const tn_delta_rule_attributes *)call->attributes};
  uint32_t heads = call->batch->sequence_count * job.a->value_heads;
  /* whole heads where there are enough: what a row of a head needs is made once for each part */
  job.columns_a_task = heads >= 4 * call->parallel->workers ? job.a->value_dim : COLUMNS_A_TASK;
  job.parts = (job.a->value_dim + job.columns_a_task - 1) / job.columns_a_task;
  tn_share(call, delta_part, &job, heads * job.parts,
           (uint64_t)job.a->value_heads * job.a->value_dim * job.a->key_dim * tn_rows(&call->inputs[0]));
  return TN_OK;
}
