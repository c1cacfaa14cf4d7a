/* Encoders for the blocks of 256 (drawn in blocks.h): each group is fitted on its own, the groups' scales become
 * integers of one block scale, and then each integer scale is tried one up and one down, because its rounding matters
 * more than the fit that came before. */
#include "tensor/encode_k.h"

#include "tensor/blocks.h"
#include "tensor/fit.h"
#include "tensor/half.h"

static int clamp(int value, int low, int high) {
  return value < low ? low : value > high ? high : value;
}

/* ---- Q4_K and Q5_K: x ~ d S q - m M ---- */

enum { GROUPS = 8, GROUP = 32, SCALE_MAX = 63 };

typedef struct affine_block {
  uint16_t d, m;
  int scales[GROUPS], mins[GROUPS];
  int q[GROUPS * GROUP];
} affine_block;

/* The best S and M for a group near those given, and its integers. */
static void refine_group(const float *x, float d, float m, int high, int *s, int *o, int *q) {
  float w[GROUP], best_error = 0;
  int best_s = *s, best_o = *o;
  tn_fit_weights(x, GROUP, w);
  for (int i = 0; i < 9; i++) {
    int try_s = clamp(*s + i / 3 - 1, 0, SCALE_MAX), try_o = clamp(*o + i % 3 - 1, 0, SCALE_MAX);
    float error = tn_fit_error(x, w, GROUP, 0, high, d * (float)try_s, -(m * (float)try_o));
    if (i == 0 || error < best_error) {
      best_error = error;
      best_s = try_s;
      best_o = try_o;
    }
  }
  *s = best_s;
  *o = best_o;
  float inverse = tn_inverse(d * (float)best_s), offset = m * (float)best_o;
  for (int i = 0; i < GROUP; i++) q[i] = tn_quantise((x[i] + offset) * inverse, 0, high);
}

static bool quantise_affine(const float *x, int high, affine_block *b) {
  float scales[GROUPS], mins[GROUPS], largest_scale = 0, largest_min = 0;
  for (int g = 0; g < GROUPS; g++) {
    float w[GROUP], m;
    tn_fit_weights(x + GROUP * g, GROUP, w);
    tn_fit_affine(x + GROUP * g, w, GROUP, high, true, &scales[g], &m);
    mins[g] = -m;
    largest_scale = scales[g] > largest_scale ? scales[g] : largest_scale;
    largest_min = mins[g] > largest_min ? mins[g] : largest_min;
  }
  if (!tn_scale_to_f16(largest_scale / SCALE_MAX, &b->d) || !tn_scale_to_f16(largest_min / SCALE_MAX, &b->m))
    return false;
  float d = tn_f16_to_f32(b->d), m = tn_f16_to_f32(b->m);
  for (int g = 0; g < GROUPS; g++) {
    b->scales[g] = tn_quantise(scales[g] * tn_inverse(d), 0, SCALE_MAX);
    b->mins[g] = tn_quantise(mins[g] * tn_inverse(m), 0, SCALE_MAX);
    refine_group(x + GROUP * g, d, m, high, &b->scales[g], &b->mins[g], b->q + GROUP * g);
  }
  return true;
}

static void pack_scales(const affine_block *b, uint8_t out[12]) {
  for (int g = 0; g < 4; g++) {
    out[g] = (uint8_t)(b->scales[g] | b->scales[g + 4] >> 4 << 6);
    out[g + 4] = (uint8_t)(b->mins[g] | b->mins[g + 4] >> 4 << 6);
    out[g + 8] = (uint8_t)((b->scales[g + 4] & 15) | (b->mins[g + 4] & 15) << 4);
  }
}

static void pack_nibbles(const affine_block *b, uint8_t out[128]) {
  for (int i = 0; i < 128; i++) {
    int low = i / 32 * 64 + i % 32;
    out[i] = (uint8_t)((b->q[low] & 15) | (b->q[low + 32] & 15) << 4);
  }
}

bool tn_encode_q4_k(const float *x, void *dst) {
  tn_block_q4_k *out = dst;
  affine_block b;
  if (!quantise_affine(x, 15, &b)) return false;
  out->d = b.d;
  out->m = b.m;
  pack_scales(&b, out->scales);
  pack_nibbles(&b, out->qs);
  return true;
}

bool tn_encode_q5_k(const float *x, void *dst) {
  tn_block_q5_k *out = dst;
  affine_block b;
  if (!quantise_affine(x, 31, &b)) return false;
  out->d = b.d;
  out->m = b.m;
  pack_scales(&b, out->scales);
  pack_nibbles(&b, out->qs);
  for (int j = 0; j < 32; j++) {
    int bits = 0;
    for (int g = 0; g < GROUPS; g++) bits |= b.q[32 * g + j] >> 4 << g;
    out->qh[j] = (uint8_t)bits;
  }
  return true;
}

/* ---- Q6_K: x ~ d S q, q = -32..31 ---- */

/* The best S for a group of 16 near the one given, and its integers. */
static int refine_symmetric(const float *x, float d, int s, int *q) {
  float w[16], best_error = 0;
  int best = s;
  tn_fit_weights(x, 16, w);
  for (int change = -1; change <= 1; change++) {
    int candidate = clamp(s + change, -128, 127);
    float error = tn_fit_error(x, w, 16, -32, 31, d * (float)candidate, 0);
    if (change == -1 || error < best_error) {
      best_error = error;
      best = candidate;
    }
  }
  float inverse = tn_inverse(d * (float)best);
  for (int i = 0; i < 16; i++) q[i] = tn_quantise(x[i] * inverse, -32, 31);
  return best;
}

bool tn_encode_q6_k(const float *x, void *dst) {
  tn_block_q6_k block = {0};
  float scales[16], extreme = 0;
  int q[256];
  for (int g = 0; g < 16; g++) {
    float w[16];
    tn_fit_weights(x + 16 * g, 16, w);
    scales[g] = tn_fit_scale(x + 16 * g, w, 16, -32, 31);
    if (tn_magnitude(scales[g]) > tn_magnitude(extreme)) extreme = scales[g];
  }
  uint16_t half;
  if (!tn_scale_to_f16(extreme / -128, &half)) return false; /* the largest scale is exactly -128 */
  block.d = half;
  float d = tn_f16_to_f32(half);
  for (int g = 0; g < 16; g++) {
    int s = tn_quantise(scales[g] * tn_inverse(d), -128, 127);
    block.scales[g] = (int8_t)refine_symmetric(x + 16 * g, d, s, q + 16 * g);
  }
  for (int i = 0; i < 256; i++) {
    int half_block = i / 128, place = i % 128, code = q[i] + 32;
    uint8_t *low = &block.ql[64 * half_block + place % 64], *high = &block.qh[32 * half_block + place % 32];
    *low = (uint8_t)(*low | (code & 15) << 4 * (place / 64));
    *high = (uint8_t)(*high | code >> 4 << 2 * (place / 32));
  }
  *(tn_block_q6_k *)dst = block;
  return true;
}
