/* Encoders for single numbers and for blocks of 32 (see encode.h); those of 256 are in encode_k.c. The formats are
 * drawn in blocks.h. */
#include "tensor/encode.h"

#include "tensor/blocks.h"
#include "tensor/encode_k.h"
#include "tensor/fit.h"
#include "tensor/half.h"

static float largest_magnitude(const float *x, int count) {
  float largest = 0;
  for (int i = 0; i < count; i++) largest = tn_magnitude(x[i]) > largest ? tn_magnitude(x[i]) : largest;
  return largest;
}

/* Puts q of element i of 32 in its half byte. */
static void put_nibble32(uint8_t *qs, int i, int q) {
  qs[i % 16] = (uint8_t)(qs[i % 16] | q << 4 * (i / 16));
}

static bool encode_q8_0(const float *x, void *dst) {
  tn_block_q8_0 *b = dst;
  uint16_t d;
  if (!tn_scale_to_f16(largest_magnitude(x, 32) / 127, &d)) return false;
  b->d = d;
  float inverse = tn_inverse(tn_f16_to_f32(d));
  for (int i = 0; i < 32; i++) b->qs[i] = (int8_t)tn_quantise(x[i] * inverse, -127, 127);
  return true;
}

/* d for Q4_0 and Q5_0, and the integers for it, from 0. */
static bool quantise_symmetric(const float *x, int low, int high, uint16_t *d, int q[32]) {
  float w[32];
  tn_fit_weights(x, 32, w);
  if (!tn_scale_to_f16(tn_fit_scale(x, w, 32, low, high), d)) return false;
  float inverse = tn_inverse(tn_f16_to_f32(*d));
  for (int i = 0; i < 32; i++) q[i] = tn_quantise(x[i] * inverse, low, high) - low;
  return true;
}

/* d and m for Q4_1 and Q5_1, and the integers for them. */
static bool quantise_affine(const float *x, int high, uint16_t *d, uint16_t *m, int q[32]) {
  float w[32], scale, offset;
  tn_fit_weights(x, 32, w);
  tn_fit_affine(x, w, 32, high, false, &scale, &offset);
  if (!tn_scale_to_f16(scale, d) || !tn_scale_to_f16(offset, m)) return false;
  float inverse = tn_inverse(tn_f16_to_f32(*d));
  for (int i = 0; i < 32; i++) q[i] = tn_quantise((x[i] - tn_f16_to_f32(*m)) * inverse, 0, high);
  return true;
}

static bool encode_q4_0(const float *x, void *dst) {
  uint16_t d;
  int q[32];
  if (!quantise_symmetric(x, -8, 7, &d, q)) return false;
  tn_block_q4_0 block = {.d = d};
  for (int i = 0; i < 32; i++) put_nibble32(block.qs, i, q[i]);
  *(tn_block_q4_0 *)dst = block;
  return true;
}

static bool encode_q4_1(const float *x, void *dst) {
  uint16_t d, m;
  int q[32];
  if (!quantise_affine(x, 15, &d, &m, q)) return false;
  tn_block_q4_1 block = {.d = d, .m = m};
  for (int i = 0; i < 32; i++) put_nibble32(block.qs, i, q[i]);
  *(tn_block_q4_1 *)dst = block;
  return true;
}

static bool encode_q5_0(const float *x, void *dst) {
  uint16_t d;
  int q[32];
  if (!quantise_symmetric(x, -16, 15, &d, q)) return false;
  tn_block_q5_0 block = {.d = d};
  for (int i = 0; i < 32; i++) {
    put_nibble32(block.qs, i, q[i] & 15);
    block.qh |= (uint32_t)(q[i] >> 4) << i;
  }
  *(tn_block_q5_0 *)dst = block;
  return true;
}

static bool encode_q5_1(const float *x, void *dst) {
  uint16_t d, m;
  int q[32];
  if (!quantise_affine(x, 31, &d, &m, q)) return false;
  tn_block_q5_1 block = {.d = d, .m = m};
  for (int i = 0; i < 32; i++) {
    put_nibble32(block.qs, i, q[i] & 15);
    block.qh |= (uint32_t)(q[i] >> 4) << i;
  }
  *(tn_block_q5_1 *)dst = block;
  return true;
}

/* ---- MX: a shared power of two, elements with exponents of their own ---- */

/* The code (without sign) of the E2Mx number nearest to v >= 0, ties to even, the largest for all beyond. Codes count
 * through the numbers in order: steps of 2^-x up to 2, twice that up to 4, four times that from there. */
static int encode_e2(float v, int mantissa_bits) {
  int half = 1 << mantissa_bits, code;
  if (v < 2)
    code = tn_quantise(v * (float)half, 0, 2 * half);
  else if (v < 4)
    code = tn_quantise(v * (float)half / 2, half, 2 * half) + half;
  else
    code = tn_quantise(v * (float)half / 4, half, 2 * half) + 2 * half;
  return code < 4 * half ? code : 4 * half - 1;
}

/* The value of a code. */
static float decode_e2(int code, int mantissa_bits) {
  int half = 1 << mantissa_bits, exponent = code / half, mantissa = code % half;
  int steps = exponent ? (half + mantissa) << (exponent - 1) : mantissa;
  return (float)steps / (float)half;
}

/* The shared exponent for x (below 2^127 all): that of the largest value, where it may be cut off at the largest
 * number, or the next higher, whichever gives the smaller square error; and the codes, signs on top. */
static uint8_t quantise_e2(const float *x, int mantissa_bits, int codes[32]) {
  enum { LARGEST_EXPONENT = 2 };
  float largest = largest_magnitude(x, 32), best_error = 0;
  int base = (int)(tn_float_bits(largest) >> 23) - LARGEST_EXPONENT, best = base > 0 ? base : 0;
  for (int e = best, tries = 0; tries < 2; tries++, e++) {
    /* Errors are compared in units of the first exponent. */
    float inverse = tn_e8m0_to_f32((uint8_t)(254 - e)), error = 0;
    for (int i = 0; i < 32; i++) {
      float v = tn_magnitude(x[i]) * inverse, difference = decode_e2(encode_e2(v, mantissa_bits), mantissa_bits) - v;
      error += difference * difference * (float)(1 << 2 * tries);
    }
    if (tries == 0 || error < best_error) {
      best = e;
      best_error = error;
    }
  }
  if (largest == 0) best = 127;
  float inverse = tn_e8m0_to_f32((uint8_t)(254 - best));
  for (int i = 0; i < 32; i++) {
    codes[i] = encode_e2(tn_magnitude(x[i]) * inverse, mantissa_bits);
    if (x[i] < 0 && codes[i]) codes[i] |= 4 << mantissa_bits;
  }
  return (uint8_t)best;
}

static bool encode_mxfp4(const float *x, void *dst) {
  int codes[32];
  tn_block_mxfp4 block = {.e = quantise_e2(x, 1, codes)};
  for (int i = 0; i < 32; i++) put_nibble32(block.qs, i, codes[i]);
  *(tn_block_mxfp4 *)dst = block;
  return true;
}

static bool encode_mxfp6(const float *x, void *dst) {
  int codes[32];
  tn_block_mxfp6 block = {.e = quantise_e2(x, 3, codes)};
  for (int i = 0; i < 32; i++) {
    put_nibble32(block.qs, i, codes[i] & 15);
    block.qh[i % 8] = (uint8_t)(block.qh[i % 8] | (codes[i] >> 4) << 2 * (i / 8));
  }
  *(tn_block_mxfp6 *)dst = block;
  return true;
}

/* ---- plain types ---- */

static bool encode_f32(const float *x, void *dst) {
  struct TN_PACKED {
    float value;
  } *out = dst;
  out->value = *x;
  return true;
}

static bool encode_f16(const float *x, void *dst) {
  struct TN_PACKED {
    uint16_t value;
  } *out = dst;
  uint16_t half;
  if (!tn_scale_to_f16(*x, &half)) return false;
  out->value = half;
  return true;
}

static bool encode_bf16(const float *x, void *dst) {
  struct TN_PACKED {
    uint16_t value;
  } *out = dst;
  out->value = tn_f32_to_bf16(*x);
  return (out->value & 0x7fff) < 0x7f80;
}

/* ---- choosing ---- */

typedef bool encode_function(const float *x, void *dst);

static encode_function *const encoders[TN_DTYPE_COUNT] = {
    [TN_F32] = encode_f32,      [TN_F16] = encode_f16,     [TN_BF16] = encode_bf16,    [TN_Q8_0] = encode_q8_0,
    [TN_Q4_0] = encode_q4_0,    [TN_Q4_1] = encode_q4_1,   [TN_Q5_0] = encode_q5_0,    [TN_Q5_1] = encode_q5_1,
    [TN_MXFP4] = encode_mxfp4,  [TN_MXFP6] = encode_mxfp6, [TN_Q4_K] = tn_encode_q4_k, [TN_Q5_K] = tn_encode_q5_k,
    [TN_Q6_K] = tn_encode_q6_k,
};

bool tn_can_encode(tn_dtype dtype) {
  return (uint32_t)dtype < TN_DTYPE_COUNT && encoders[dtype];
}

bool tn_encode_row(tn_dtype dtype, const float *src, void *dst, size_t count) {
  size_t bytes;
  if (!tn_can_encode(dtype) || !tn_dtype_row_bytes(dtype, count, &bytes)) return false;
  for (size_t i = 0; i < count; i++)
    if ((tn_float_bits(src[i]) & 0x7f800000u) == 0x7f800000u) return false; /* NaN or infinite */
  size_t elements = tn_dtype_block_elements(dtype), size = tn_dtype_block_bytes(dtype);
  for (size_t b = 0; b < count / elements; b++)
    if (!encoders[dtype](src + b * elements, (uint8_t *)dst + b * size)) return false;
  return true;
}
