/* attention: causal softmax attention over the pages, one task per row and query head.
 *
 * The slots a row sees are cut in tiles of TN_PAGE_SLOTS, counted from slot 0 of the sequence, whatever the window
 * closes. A tile on its own gives
 *   m = max score, s = sum of exp(score - m), a[d] = sum of exp(score - m) v[d]     slots in order
 * and is merged into the running (M, S, A): with N = max(M, m),
 *   S = S exp(M - N) + s exp(m - N), A likewise, M = N                              tiles in order
 * (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). So a row's result depends on its own
 * slots alone: not on the batch, on how the prompt was cut, or on who computed which tile.
 * A sink adds exp(sink - N) to the denominator and nothing to the numerator. */
#include "kernels/math.h"
#include "kernels/reference/pages.h"

typedef struct tn_tile {
  const void *page;
  uint32_t open, count; /* slots open .. count - 1 of the page are seen */
  float weight[TN_PAGE_SLOTS];
  float max, sum;
} tn_tile;

/* Scores of one query head against the tile's keys, turned into weights relative to their maximum. */
static void score_tile(const tn_kernel_call *call, const float *q, uint32_t kv_head, tn_tile *tile) {
  const tn_attention_attributes *a = call->attributes;
  const tn_tensor *state = &call->inputs[1];
  tile->max = -TN_INFINITY;
  for (uint32_t j = tile->open; j < tile->count; j++) {
    uint64_t key = tn_key_index(state, kv_head, j);
    float dot = 0.0f;
    for (uint32_t d = 0; d < a->key_dim; d++) dot += q[d] * tn_page_get(state->dtype, tile->page, key + d);
    float score = dot * a->scale;
    if (a->softcap > 0.0f) score = a->softcap * tn_tanh(score / a->softcap);
    tile->weight[j] = score;
    if (score > tile->max) tile->max = score;
  }
  tile->sum = 0.0f;
  for (uint32_t j = tile->open; j < tile->count; j++) {
    tile->weight[j] = tn_exp(tile->weight[j] - tile->max);
    tile->sum += tile->weight[j];
  }
}

/* Merges the tile into (*max, *sum, y[value_dim]). */
static void merge_tile(const tn_kernel_call *call, uint32_t kv_head, const tn_tile *tile, float *max, float *sum,
                       float *y) {
  const tn_attention_attributes *a = call->attributes;
  const tn_tensor *state = &call->inputs[1];
  float merged = tile->max > *max ? tile->max : *max;
  float keep = tn_exp(*max - merged), take = tn_exp(tile->max - merged);
  for (uint32_t d = 0; d < a->value_dim; d++) {
    float partial = 0.0f;
    for (uint32_t j = tile->open; j < tile->count; j++) {
      partial += tile->weight[j] * tn_page_get(state->dtype, tile->page, tn_value_index(state, kv_head, j) + d);
    }
    y[d] = y[d] * keep + partial * take;
  }
  *sum = *sum * keep + tile->sum * take;
  *max = merged;
}

/* y /= sum, with the head's sink in the denominator where there is one. */
static void finish_head(const tn_tensor *sinks, uint32_t head, float max, float sum, uint32_t value_dim, float *y) {
  float keep = 1.0f;
  if (sinks) {
    float sink = ((const float *)sinks->data)[head];
    float merged = sink > max ? sink : max;
    keep = tn_exp(max - merged);
    sum = sum * keep + tn_exp(sink - merged);
  }
  for (uint32_t d = 0; d < value_dim; d++) y[d] = y[d] * keep / sum;
}

static void attention_head(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_attention_attributes *a = call->attributes;
  const tn_batch *batch = call->batch;
  uint32_t t = index / a->heads, head = index % a->heads, kv_head = head / (a->heads / a->kv_heads);
  const tn_sequence *sequence = &batch->sequences[batch->rows[t].sequence];
  uint32_t last = tn_slot_of_row(batch, t);
  uint32_t first = a->window && last >= a->window ? last - a->window + 1 : 0;
  const float *q = tn_floats(&call->inputs[0], t) + head * a->key_dim;
  float *y = tn_floats(&call->outputs[0], t) + head * a->value_dim;
  float max = -TN_INFINITY, sum = 0.0f;
  for (uint32_t d = 0; d < a->value_dim; d++) y[d] = 0.0f;
  for (uint32_t begin = first / TN_PAGE_SLOTS * TN_PAGE_SLOTS; begin <= last; begin += TN_PAGE_SLOTS) {
    tn_tile tile;
    uint32_t within;
    tile.page = tn_page_of(&call->inputs[1], batch, sequence, a->group, begin, &within);
    tile.open = first > begin ? first - begin : 0;
    tile.count = last - begin < TN_PAGE_SLOTS ? last - begin + 1 : TN_PAGE_SLOTS;
    score_tile(call, q, kv_head, &tile);
    merge_tile(call, kv_head, &tile, &max, &sum, y);
  }
  finish_head(tn_input(call, 2), head, max, sum, a->value_dim, y);
}

/* q[T,H*Dk], pages, sinks[H]? -> y[T,H*Dv] */
tn_status tn_reference_attention(const tn_kernel_call *call) {
  const tn_attention_attributes *a = call->attributes;
  tn_for_each(call, attention_head, call->batch->row_count * a->heads);
  return TN_OK;
}
