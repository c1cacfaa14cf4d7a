/* One query head over one tile of KV columns, and its merge into what the tiles before gave. This is the order of
 * arithmetic of attention and attention_masked:
 *   m = max score, s = sum of exp(score - m), a[d] = sum of exp(score - m) v[d]     columns in order of position
 * and with what there is so far, (M, S, A) and N = max(M, m),
 *   S = S exp(M - N) + s exp(m - N), A likewise, M = N                              tiles in order
 * (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).
 * A sink adds exp(sink - N) to the denominator and nothing to the numerator. */
#ifndef TENON_KERNELS_REFERENCE_ATTEND_H
#define TENON_KERNELS_REFERENCE_ATTEND_H

#include "kernels/math.h"
#include "kernels/reference/pages.h"

/* The columns of a tile that a row sees, at most one a slot, by rising position. */
typedef struct tn_tile {
  uint32_t dtype, count;
  struct {
    const void *key, *value; /* what the indices count from */
    uint64_t key_at, value_at;
    float key_scale, value_scale; /* of int8 KV, else 1 */
  } column[TN_PAGE_SLOTS];
  float weight[TN_PAGE_SLOTS];
  float max, sum;
} tn_tile;

/* What the tiles so far gave; y has value_dim values. */
typedef struct tn_attended {
  float max, sum, *y;
} tn_attended;

static inline tn_attended tn_attended_begin(const tn_attention_attributes *a, float *y) {
  for (uint32_t d = 0; d < a->value_dim; d++) y[d] = 0.0f;
  return (tn_attended){-TN_INFINITY, 0.0f, y};
}

/* Scores of q against the tile's keys, turned into weights relative to their maximum. */
static inline void tn_score_tile(const tn_attention_attributes *a, const float *q, tn_tile *tile) {
  tile->max = -TN_INFINITY;
  for (uint32_t j = 0; j < tile->count; j++) {
    float dot = 0.0f;
    for (uint32_t d = 0; d < a->key_dim; d++)
      dot += q[d] * tn_page_get(tile->dtype, tile->column[j].key, tile->column[j].key_at + d);
    float score = dot * tile->column[j].key_scale * a->scale;
    if (a->softcap > 0.0f) score = a->softcap * tn_tanh(score / a->softcap);
    tile->weight[j] = score;
    if (score > tile->max) tile->max = score;
  }
  tile->sum = 0.0f;
  for (uint32_t j = 0; j < tile->count; j++) {
    tile->weight[j] = tn_exp(tile->weight[j] - tile->max);
    tile->sum += tile->weight[j];
  }
}

/* Scores a tile that is not empty and merges it. */
static inline void tn_attend_tile(const tn_attention_attributes *a, const float *q, tn_tile *tile,
                                  tn_attended *attended) {
  tn_score_tile(a, q, tile);
  float merged = tile->max > attended->max ? tile->max : attended->max;
  float keep = tn_exp(attended->max - merged), take = tn_exp(tile->max - merged);
  for (uint32_t d = 0; d < a->value_dim; d++) {
    float partial = 0.0f;
    for (uint32_t j = 0; j < tile->count; j++)
      partial += tile->weight[j] * tile->column[j].value_scale *
                 tn_page_get(tile->dtype, tile->column[j].value, tile->column[j].value_at + d);
    attended->y[d] = attended->y[d] * keep + partial * take;
  }
  attended->sum = attended->sum * keep + tile->sum * take;
  attended->max = merged;
}

/* y /= sum, with the head's sink in the denominator where there is one. */
static inline void tn_attended_finish(const tn_attention_attributes *a, const tn_tensor *sinks, uint32_t head,
                                      tn_attended *attended) {
  float keep = 1.0f, sum = attended->sum;
  if (sinks) {
    float sink = ((const float *)sinks->data)[head];
    float merged = sink > attended->max ? sink : attended->max;
    keep = tn_exp(attended->max - merged);
    sum = sum * keep + tn_exp(sink - merged);
  }
  for (uint32_t d = 0; d < a->value_dim; d++) attended->y[d] = attended->y[d] * keep / sum;
}

#endif
