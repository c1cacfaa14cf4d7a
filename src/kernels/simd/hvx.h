/* Hexagon with HVX (v67, vectors of 128 bytes): integer vectors, but floats only in the scalar unit. See simd.h for
 * what each primitive means.
 *
 * A vf and a vi are sixteen scalars: what the elementwise kernels do is little beside the matrix products, and those
 * whose activations are integers have tiles of their own, in vectors (linear_hvx.c). vf_fma is the scalar unit's,
 * rounded once. */
#ifndef TENON_KERNELS_SIMD_HVX_H
#define TENON_KERNELS_SIMD_HVX_H

#include <hexagon_protos.h>
#include <hexagon_types.h>
#include <stddef.h>
#include <stdint.h>

#define TN_TILE_ROWS 64
/* Of linear_hvx.c: panels of a tile, bytes of a slab. */
#define TN_BLOCK_PANELS 2u
#define TN_SLAB_BLOCK_BYTES(rows) ((uint64_t)(rows)*44u)
#define TN_SLAB_HEAD_BYTES 29184u
#define TN_FLOAT_ROWS 1
#define TN_FLOAT_PANELS 1
#define TN_QUERIES 1
#define TN_QUERY_SUMS 2

typedef struct vf {
  float of[16];
} vf;
typedef struct vi {
  int32_t of[16];
} vi;

/* A value of `type` whose lane i is `expression`. */
#define TN_LANEWISE(type, expression)                       \
  type result;                                              \
  for (int i = 0; i < 16; i++) result.of[i] = (expression); \
  return result

static inline float tn_lane_float(int32_t bits) {
  union {
    int32_t bits;
    float value;
  } u = {bits};
  return u.value;
}
static inline int32_t tn_lane_bits(float value) {
  union {
    float value;
    int32_t bits;
  } u = {value};
  return u.bits;
}

static inline vf vf_set1(float x) {
  TN_LANEWISE(vf, x);
}
static inline vf vf_zero(void) {
  TN_LANEWISE(vf, 0.0f);
}
/* Copied, not assigned: what lies there may be known to others by another type. */
static inline vf vf_load(const float *p) {
  vf x;
  __builtin_memcpy(&x, __builtin_assume_aligned(p, 4), sizeof x);
  return x;
}
static inline void vf_store(float *p, vf x) {
  __builtin_memcpy(__builtin_assume_aligned(p, 4), &x, sizeof x);
}
#define TN_OWN_COPY 1
/* Where they go to one half of an aligned vector: by one load and one store. What lies within 128 bytes of `from` is
 * loaded too, so it is only for memory that reaches so far. */
static inline void vf_copy(float *to, const float *from) {
  uintptr_t at = (uintptr_t)to;
  if (at % 64) {
    vf_store(to, vf_load(from));
    return;
  }
  HVX_Vector x = Q6_V_vror_VR(*(const HVX_UVector *)(const void *)from, -(int)(at % 128));
  HVX_VectorPred lower = Q6_Q_vsetq_R(64);
  HVX_Vector *line = (HVX_Vector *)(at / 128 * 128);
  if (at % 128)
    Q6_vmem_QnRIV(lower, line, x);
  else
    Q6_vmem_QRIV(lower, line, x);
}
static inline vf vf_load_part(const float *p, size_t n) {
  TN_LANEWISE(vf, (size_t)i < n ? p[i] : 0.0f);
}
static inline void vf_store_part(float *p, size_t n, vf x) {
  for (size_t i = 0; i < 16; i++)
    if (i < n) p[i] = x.of[i];
}
static inline vf vf_add(vf x, vf y) {
  TN_LANEWISE(vf, x.of[i] + y.of[i]);
}
static inline vf vf_sub(vf x, vf y) {
  TN_LANEWISE(vf, x.of[i] - y.of[i]);
}
static inline vf vf_mul(vf x, vf y) {
  TN_LANEWISE(vf, x.of[i] * y.of[i]);
}
static inline vf vf_div(vf x, vf y) {
  TN_LANEWISE(vf, x.of[i] / y.of[i]);
}
static inline vf vf_fma(vf x, vf y, vf z) {
  TN_LANEWISE(vf, __builtin_fmaf(x.of[i], y.of[i], z.of[i]));
}
/* The compiler takes a comparison and a choice for sfmax and sfmin, which return the number where one is NaN. */
static inline vf vf_max(vf x, vf y) {
  TN_LANEWISE(vf, y.of[i] == y.of[i] ? __builtin_HEXAGON_F2_sfmax(x.of[i], y.of[i]) : y.of[i]);
}
static inline vf vf_min(vf x, vf y) {
  TN_LANEWISE(vf, y.of[i] == y.of[i] ? __builtin_HEXAGON_F2_sfmin(x.of[i], y.of[i]) : y.of[i]);
}
static inline vf vf_abs(vf x) {
  TN_LANEWISE(vf, __builtin_fabsf(x.of[i]));
}

static inline vi vi_set1(int32_t x) {
  TN_LANEWISE(vi, x);
}
static inline vi vi_zero(void) {
  TN_LANEWISE(vi, 0);
}
static inline vi vi_load(const void *p) {
  vi x;
  __builtin_memcpy(&x, __builtin_assume_aligned(p, 4), sizeof x);
  return x;
}
static inline void vi_store(void *p, vi x) {
  __builtin_memcpy(__builtin_assume_aligned(p, 4), &x, sizeof x);
}
static inline vi vi_add(vi x, vi y) {
  TN_LANEWISE(vi, (int32_t)((uint32_t)x.of[i] + (uint32_t)y.of[i]));
}
static inline vi vi_sub(vi x, vi y) {
  TN_LANEWISE(vi, (int32_t)((uint32_t)x.of[i] - (uint32_t)y.of[i]));
}
static inline vi vi_max(vi x, vi y) {
  TN_LANEWISE(vi, x.of[i] > y.of[i] ? x.of[i] : y.of[i]);
}
static inline vi vi_and(vi x, vi y) {
  TN_LANEWISE(vi, x.of[i] & y.of[i]);
}
static inline vi vi_xor(vi x, vi y) {
  TN_LANEWISE(vi, x.of[i] ^ y.of[i]);
}
static inline vi vi_shift_left(vi x, unsigned n) {
  TN_LANEWISE(vi, (int32_t)((uint32_t)x.of[i] << n));
}
static inline vi vi_shift_right(vi x, unsigned n) {
  TN_LANEWISE(vi, (int32_t)((uint32_t)x.of[i] >> n));
}
static inline vi vi_shift_right_signed(vi x, unsigned n) {
  TN_LANEWISE(vi, x.of[i] >> n);
}
static inline vi vi_look_up(const uint8_t table[16], vi x) {
  vi result = x;
  uint8_t *bytes = (uint8_t *)result.of;
  for (int i = 0; i < 64; i++) bytes[i] = table[bytes[i]];
  return result;
}
static inline void vi_store_i8(void *p, vi x) {
  for (int i = 0; i < 16; i++) ((int8_t *)p)[i] = (int8_t)x.of[i];
}
static inline vi vi_first(size_t n) {
  TN_LANEWISE(vi, (size_t)i < n ? -1 : 0);
}

static inline vf vf_bits(vi x) {
  TN_LANEWISE(vf, tn_lane_float(x.of[i]));
}
static inline vi vi_bits(vf x) {
  TN_LANEWISE(vi, tn_lane_bits(x.of[i]));
}
static inline vf vf_from_vi(vi x) {
  TN_LANEWISE(vf, (float)x.of[i]);
}
/* 1.5 * 2^23 pushes the fraction out of the float, rounding to nearest even. */
static inline vi vi_round(vf x) {
  TN_LANEWISE(vi, tn_lane_bits(x.of[i] + 12582912.0f) - 0x4b400000);
}
static inline vi vf_less(vf x, vf y) {
  TN_LANEWISE(vi, x.of[i] < y.of[i] ? -1 : 0);
}
static inline vf vf_select(vi mask, vf x, vf y) {
  TN_LANEWISE(vf, mask.of[i] ? x.of[i] : y.of[i]);
}

static inline float vf_sum(vf x) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) x.of[i] += x.of[i + half];
  return x.of[0];
}
static inline float vf_largest(vf x) {
  float largest = x.of[0];
  for (int i = 1; i < 16; i++) largest = x.of[i] > largest ? x.of[i] : largest;
  return largest;
}
static inline int32_t vi_sum(vi x) {
  uint32_t sum = 0;
  for (int i = 0; i < 16; i++) sum += (uint32_t)x.of[i];
  return (int32_t)sum;
}
static inline int32_t vi_largest(vi x) {
  int32_t largest = x.of[0];
  for (int i = 1; i < 16; i++) largest = x.of[i] > largest ? x.of[i] : largest;
  return largest;
}

/* The half's exponent and fraction, moved to their place in a float, are 2^112 times too small - subnormals too. */
static inline float tn_lane_f16(uint32_t half) {
  float value = tn_lane_float((int32_t)((half & 0x7fffu) << 13)) * 0x1p112f;
  int32_t bits = tn_lane_bits(value);
  if (value >= 65536.0f) bits |= 0x7f800000;
  return tn_lane_float(bits | (int32_t)((half & 0x8000u) << 16));
}
static inline vf vf_load_f16(const uint16_t *p) {
  TN_LANEWISE(vf, tn_lane_f16(p[i]));
}
static inline vf vf_load_bf16(const uint16_t *p) {
  TN_LANEWISE(vf, tn_lane_float((int32_t)((uint32_t)p[i] << 16)));
}
static inline vf vf_load_i8(const int8_t *p) {
  TN_LANEWISE(vf, (float)p[i]);
}

static inline uint16_t tn_round_f16(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { /* a subnormal half: adding 0.5 leaves its fraction, rounded, in the lowest bits */
    float shifted = tn_lane_float((int32_t)magnitude) + 0.5f;
    return (uint16_t)(sign | ((uint32_t)tn_lane_bits(shifted) - 0x3f000000u));
  }
  return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}
static inline void vf_store_f16(uint16_t *p, vf x) {
  for (int i = 0; i < 16; i++) p[i] = tn_round_f16((uint32_t)tn_lane_bits(x.of[i]));
}
static inline void vf_store_bf16(uint16_t *p, vf x) {
  for (int i = 0; i < 16; i++) {
    uint32_t bits = (uint32_t)tn_lane_bits(x.of[i]);
    bits = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    p[i] = (uint16_t)(bits >> 16);
  }
}

/* Sums in the lower half of a vector. */
typedef HVX_Vector vd;
static inline HVX_Vector tn_vector_of(vi x) {
  _Alignas(128) vi whole[2] = {x, {{0}}};
  return *(const HVX_Vector *)(const void *)whole;
}
static inline vd vd_begin(int32_t start) {
  return Q6_V_vsplat_R(start);
}
static inline vd vd_add_bytes(vd acc, vi w, const int8_t *four) {
  int32_t bytes;
  __builtin_memcpy(&bytes, four, 4);
  return Q6_Vw_vrmpyacc_VwVubRb(acc, tn_vector_of(w), bytes);
}
static inline vd vd_add_nibbles(vd acc, vi w, const int8_t *four) {
  return vd_add_bytes(acc, w, four);
}
static inline vi vd_end_bytes(vd acc, int32_t start) {
  (void)start;
  _Alignas(128) vi whole[2];
  *(HVX_Vector *)(void *)whole = acc;
  return whole[0];
}
static inline vi vd_end_nibbles(vd acc, int32_t start) {
  return vd_end_bytes(acc, start);
}

#include "kernels/simd/wide.h"

static inline void tn_prefetch(const void *p) {
  __builtin_prefetch(p);
}

/* Into the second-level cache only. */
__attribute__((always_inline)) static inline void tn_prefetch_far(const void *p) {
  __builtin_prefetch(p);
}

#endif
