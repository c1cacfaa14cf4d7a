/* The short floating-point formats, and bits of floats. Freestanding; exact in both directions but for the one rounding
 * to nearest, ties to even, of a narrowing.
 *
 *   f32      s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm   bias 127
 *   f16      s eeeee mmmmmmmmmm                   bias 15
 *   bf16     s eeeeeeee mmmmmmm                   bias 127: the upper half of an f32
 *   f8_e4m3  s eeee mmm                           bias 7; no infinity, all ones is NaN, largest 448
 *   f8_e5m2  s eeeee mm                           bias 15: the upper half of an f16
 *   e8m0     eeeeeeee                             bias 127: a power of two, 255 is NaN
 * The 8-bit formats: OCP 8-bit Floating Point Specification (OFP8); e8m0: OCP Microscaling Formats (MX). */
#ifndef TENON_TENSOR_HALF_H
#define TENON_TENSOR_HALF_H

#include <stdint.h>

static inline uint32_t tn_float_bits(float value) {
  union {
    float f;
    uint32_t u;
  } both = {.f = value};
  return both.u;
}

static inline float tn_float_of_bits(uint32_t bits) {
  union {
    uint32_t u;
    float f;
  } both = {.u = bits};
  return both.f;
}

/* The value of an f16. A NaN keeps its payload and becomes quiet. */
static inline float tn_f16_to_f32(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude > 0x7c00) return tn_float_of_bits(sign | 0x7fc00000u | magnitude << 13);
  if (magnitude == 0x7c00) return tn_float_of_bits(sign | 0x7f800000u);
  if (magnitude >= 0x0400) return tn_float_of_bits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
  float tiny = (float)magnitude * 0x1p-24f; /* zero or subnormal: exact */
  return tn_float_of_bits(sign | tn_float_bits(tiny));
}

/* `value` rounded to f16; beyond 65504 (by half a unit) infinity. A NaN stays a NaN. */
static inline uint16_t tn_f32_to_f16(float value) {
  uint32_t bits = tn_float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00); /* 65536 and above */
  if (magnitude < 0x38800000u) {                                  /* below 2^-14: a multiple of 2^-24 */
    float shifted = tn_float_of_bits(magnitude) + 0.5f;           /* units of 0.5 are 2^-24: the addition rounds */
    return (uint16_t)(sign | (tn_float_bits(shifted) - tn_float_bits(0.5f)));
  }
  uint32_t odd = magnitude >> 13 & 1;
  return (uint16_t)(sign | ((magnitude - ((127u - 15u) << 23) + 0xfff + odd) >> 13));
}

static inline float tn_bf16_to_f32(uint16_t upper) {
  return tn_float_of_bits((uint32_t)upper << 16);
}

/* `value` rounded to bf16. A NaN stays a NaN. */
static inline uint16_t tn_f32_to_bf16(float value) {
  uint32_t bits = tn_float_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float tn_e5m2_to_f32(uint8_t byte) {
  return tn_f16_to_f32((uint16_t)(byte << 8));
}

static inline float tn_e4m3_to_f32(uint8_t byte) {
  uint32_t sign = (uint32_t)(byte & 0x80) << 24, magnitude = byte & 0x7f;
  if (magnitude == 0x7f) return tn_float_of_bits(sign | 0x7fc00000u);
  if (magnitude >= 0x08) return tn_float_of_bits(sign | ((magnitude << 20) + ((127u - 7u) << 23)));
  float tiny = (float)magnitude * 0x1p-9f;
  return tn_float_of_bits(sign | tn_float_bits(tiny));
}

/* 2^(byte - 127), exact (2^-127 is a subnormal float); NaN for 255. */
static inline float tn_e8m0_to_f32(uint8_t byte) {
  if (byte == 255) return tn_float_of_bits(0x7fc00000u);
  return tn_float_of_bits(byte ? (uint32_t)byte << 23 : 0x00400000u);
}

#endif
