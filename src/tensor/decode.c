/* The reference decoders (see decode.h); each follows the bit diagram of its format in blocks.h. */
#include "tensor/decode.h"

#include "tensor/blocks.h"
#include "tensor/half.h"

static const int8_t iq4_values[16] = {TN_IQ4_VALUES};

/* The low (0) or high (1) half of a byte. */
static inline int nibble(uint8_t byte, int high) {
  return high ? byte >> 4 : byte & 15;
}

/* The nibble of element i of 32 where byte j holds the elements j and j + 16. */
static inline int nibble32(const uint8_t *qs, int i) {
  return nibble(qs[i % 16], i / 16);
}

static inline int bit(uint32_t bits, int i) {
  return bits >> i & 1;
}

/* ---- blocks of 32 ---- */

static void decode_q8_0(const void *src, float *dst) {
  const tn_block_q8_0 *b = src;
  float d = tn_f16_to_f32(b->d);
  for (int i = 0; i < 32; i++) dst[i] = d * (float)b->qs[i];
}

static void decode_q4_0(const void *src, float *dst) {
  const tn_block_q4_0 *b = src;
  float d = tn_f16_to_f32(b->d);
  for (int i = 0; i < 32; i++) dst[i] = d * (float)(nibble32(b->qs, i) - 8);
}

static void decode_q4_1(const void *src, float *dst) {
  const tn_block_q4_1 *b = src;
  float d = tn_f16_to_f32(b->d), m = tn_f16_to_f32(b->m);
  for (int i = 0; i < 32; i++) dst[i] = d * (float)nibble32(b->qs, i) + m;
}

static void decode_q5_0(const void *src, float *dst) {
  const tn_block_q5_0 *b = src;
  float d = tn_f16_to_f32(b->d);
  for (int i = 0; i < 32; i++) dst[i] = d * (float)((nibble32(b->qs, i) | bit(b->qh, i) << 4) - 16);
}

static void decode_q5_1(const void *src, float *dst) {
  const tn_block_q5_1 *b = src;
  float d = tn_f16_to_f32(b->d), m = tn_f16_to_f32(b->m);
  for (int i = 0; i < 32; i++) dst[i] = d * (float)(nibble32(b->qs, i) | bit(b->qh, i) << 4) + m;
}

static void decode_iq4_nl(const void *src, float *dst) {
  const tn_block_iq4_nl *b = src;
  float d = tn_f16_to_f32(b->d);
  for (int i = 0; i < 32; i++) dst[i] = d * (float)iq4_values[nibble32(b->qs, i)];
}

static void decode_mxfp4(const void *src, float *dst) {
  static const float values[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
  const tn_block_mxfp4 *b = src;
  float scale = tn_e8m0_to_f32(b->e);
  for (int i = 0; i < 32; i++) dst[i] = scale * values[nibble32(b->qs, i)];
}

/* An E2M3 number: 2^(e - 1) (1 + m / 8) with e and m in place in the bits of a float; without e in eighths. */
static float e2m3_to_f32(uint32_t code) {
  uint32_t magnitude = code & 31;
  float value = magnitude >= 8 ? tn_float_of_bits((magnitude << 20) + ((127u - 1u) << 23)) : (float)magnitude * 0.125f;
  return code & 32 ? -value : value;
}

static void decode_mxfp6(const void *src, float *dst) {
  const tn_block_mxfp6 *b = src;
  float scale = tn_e8m0_to_f32(b->e);
  for (int i = 0; i < 32; i++) {
    int high = b->qh[i % 8] >> 2 * (i / 8) & 3;
    dst[i] = scale * e2m3_to_f32((uint32_t)(nibble32(b->qs, i) | high << 4));
  }
}

/* ---- blocks of 256 ---- */

/* The two bits of element i of 256 in the 64 bytes of Q2_K and Q3_K: each half of 128 has 32 bytes, and each group of
 * 32 its bits. */
static inline int pair256(const uint8_t *qs, int i) {
  return qs[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
}

/* The nibble of element i of 256 where each quarter has 32 bytes, the second 32 elements of it in the high halves. */
static inline int nibble256(const uint8_t *qs, int i) {
  return nibble(qs[i / 64 * 32 + i % 32], i / 32 % 2);
}

static void decode_q2_k(const void *src, float *dst) {
  const tn_block_q2_k *b = src;
  float d = tn_f16_to_f32(b->d), m = tn_f16_to_f32(b->m);
  for (int g = 0; g < 16; g++) {
    float scale = d * (float)nibble(b->scales[g], 0), offset = m * (float)nibble(b->scales[g], 1);
    for (int i = 16 * g; i < 16 * g + 16; i++) dst[i] = scale * (float)pair256(b->qs, i) - offset;
  }
}

static void decode_q3_k(const void *src, float *dst) {
  const tn_block_q3_k *b = src;
  float d = tn_f16_to_f32(b->d);
  for (int g = 0; g < 16; g++) {
    int s = nibble(b->scales[g % 8], g / 8) | (b->scales[8 + g % 4] >> 2 * (g / 4) & 3) << 4;
    float scale = d * (float)(s - 32);
    for (int i = 16 * g; i < 16 * g + 16; i++) {
      int q = pair256(b->qs, i) | bit(b->hmask[i % 32], i / 32) << 2;
      dst[i] = scale * (float)(q - 4);
    }
  }
}

/* S and M of group g of Q4_K and Q5_K. */
static void group_scales(const uint8_t *scales, int g, int *s, int *m) {
  if (g < 4) {
    *s = scales[g] & 63;
    *m = scales[g + 4] & 63;
  } else {
    *s = nibble(scales[g + 4], 0) | scales[g - 4] >> 6 << 4;
    *m = nibble(scales[g + 4], 1) | scales[g] >> 6 << 4;
  }
}

static void decode_q4_k(const void *src, float *dst) {
  const tn_block_q4_k *b = src;
  float d = tn_f16_to_f32(b->d), m = tn_f16_to_f32(b->m);
  for (int g = 0; g < 8; g++) {
    int s, o;
    group_scales(b->scales, g, &s, &o);
    float scale = d * (float)s, offset = m * (float)o;
    for (int i = 32 * g; i < 32 * g + 32; i++) dst[i] = scale * (float)nibble256(b->qs, i) - offset;
  }
}

static void decode_q5_k(const void *src, float *dst) {
  const tn_block_q5_k *b = src;
  float d = tn_f16_to_f32(b->d), m = tn_f16_to_f32(b->m);
  for (int g = 0; g < 8; g++) {
    int s, o;
    group_scales(b->scales, g, &s, &o);
    float scale = d * (float)s, offset = m * (float)o;
    for (int i = 32 * g; i < 32 * g + 32; i++) {
      int q = nibble256(b->qs, i) | bit(b->qh[i % 32], g) << 4;
      dst[i] = scale * (float)q - offset;
    }
  }
}

static void decode_q6_k(const void *src, float *dst) {
  const tn_block_q6_k *b = src;
  float d = tn_f16_to_f32(b->d);
  for (int g = 0; g < 16; g++) {
    float scale = d * (float)b->scales[g];
    for (int i = 16 * g; i < 16 * g + 16; i++) {
      int half = i / 128, in_half = i % 128;
      int low = nibble(b->ql[64 * half + in_half % 64], in_half / 64);
      int high = b->qh[32 * half + in_half % 32] >> 2 * (in_half / 32) & 3;
      dst[i] = scale * (float)((low | high << 4) - 32);
    }
  }
}

static void decode_iq4_xs(const void *src, float *dst) {
  const tn_block_iq4_xs *b = src;
  float d = tn_f16_to_f32(b->d);
  for (int g = 0; g < 8; g++) {
    int s = nibble(b->scales_l[g / 2], g % 2) | (b->scales_h >> 2 * g & 3) << 4;
    float scale = d * (float)(s - 32);
    for (int i = 0; i < 32; i++) dst[32 * g + i] = scale * (float)iq4_values[nibble32(b->qs + 16 * g, i)];
  }
}

/* ---- plain types, and activations ---- */

/* Element i of a packed array: the bytes may lie at any address. */
#define ELEMENT(type, src, i) (((const struct __attribute__((packed)) { type value; } *)(src))[i].value)

#define DECODE_PLAIN(name, type, convert)                                       \
  static void decode_##name(const void *src, float *dst, size_t count) {        \
    for (size_t i = 0; i < count; i++) dst[i] = convert(ELEMENT(type, src, i)); \
  }
DECODE_PLAIN(f32, float, (float))
DECODE_PLAIN(f16, uint16_t, tn_f16_to_f32)
DECODE_PLAIN(bf16, uint16_t, tn_bf16_to_f32)
DECODE_PLAIN(f64, double, (float))
DECODE_PLAIN(i8, int8_t, (float))
DECODE_PLAIN(u8, uint8_t, (float))
DECODE_PLAIN(i16, int16_t, (float))
DECODE_PLAIN(i32, int32_t, (float))
DECODE_PLAIN(i64, int64_t, (float))
DECODE_PLAIN(f8_e4m3, uint8_t, tn_e4m3_to_f32)
DECODE_PLAIN(f8_e5m2, uint8_t, tn_e5m2_to_f32)

/* A whole row of `count` activations (its scales lie behind its bytes, see tenon/device.h). */
static void decode_q8a(const void *src, float *dst, size_t count) {
  size_t padded = (count + TN_Q8A_BLOCK - 1) / TN_Q8A_BLOCK * TN_Q8A_BLOCK;
  const int8_t *q = src;
  const int8_t *scales = q + padded;
  for (size_t i = 0; i < count; i++) dst[i] = (float)q[i] * ELEMENT(float, scales, i / TN_Q8A_BLOCK);
}

/* ---- choosing ---- */

typedef void decode_plain_function(const void *src, float *dst, size_t count);
typedef void decode_block_function(const void *src, float *dst);

static const struct {
  decode_plain_function *plain;
  decode_block_function *block;
} decoders[TN_DTYPE_COUNT] = {
    [TN_F32] = {.plain = decode_f32},         [TN_F16] = {.plain = decode_f16},
    [TN_BF16] = {.plain = decode_bf16},       [TN_F64] = {.plain = decode_f64},
    [TN_I8] = {.plain = decode_i8},           [TN_U8] = {.plain = decode_u8},
    [TN_I16] = {.plain = decode_i16},         [TN_I32] = {.plain = decode_i32},
    [TN_I64] = {.plain = decode_i64},         [TN_F8_E4M3] = {.plain = decode_f8_e4m3},
    [TN_F8_E5M2] = {.plain = decode_f8_e5m2}, [TN_Q8A] = {.plain = decode_q8a},
    [TN_Q8_0] = {.block = decode_q8_0},       [TN_Q4_0] = {.block = decode_q4_0},
    [TN_Q4_1] = {.block = decode_q4_1},       [TN_Q5_0] = {.block = decode_q5_0},
    [TN_Q5_1] = {.block = decode_q5_1},       [TN_IQ4_NL] = {.block = decode_iq4_nl},
    [TN_MXFP4] = {.block = decode_mxfp4},     [TN_MXFP6] = {.block = decode_mxfp6},
    [TN_Q2_K] = {.block = decode_q2_k},       [TN_Q3_K] = {.block = decode_q3_k},
    [TN_Q4_K] = {.block = decode_q4_k},       [TN_Q5_K] = {.block = decode_q5_k},
    [TN_Q6_K] = {.block = decode_q6_k},       [TN_IQ4_XS] = {.block = decode_iq4_xs},
};

/* The structs are the blocks of the table, to the byte. */
#define CHECK(NAME, name) _Static_assert(sizeof(tn_block_##name) == BYTES_##NAME, "size of a block")
enum {
#define BYTES_OF(number, NAME, name, elements, bytes) BYTES_##NAME = bytes,
  TN_DTYPES(BYTES_OF)
};
CHECK(Q8_0, q8_0);
CHECK(Q4_0, q4_0);
CHECK(Q4_1, q4_1);
CHECK(Q5_0, q5_0);
CHECK(Q5_1, q5_1);
CHECK(IQ4_NL, iq4_nl);
CHECK(MXFP4, mxfp4);
CHECK(MXFP6, mxfp6);
CHECK(Q2_K, q2_k);
CHECK(Q3_K, q3_k);
CHECK(Q4_K, q4_k);
CHECK(Q5_K, q5_k);
CHECK(Q6_K, q6_k);
CHECK(IQ4_XS, iq4_xs);

bool tn_decode_row(tn_dtype dtype, const void *src, float *dst, size_t count) {
  size_t bytes;
  if (!tn_dtype_row_bytes(dtype, count, &bytes)) return false;
  if (decoders[dtype].plain) {
    decoders[dtype].plain(src, dst, count);
    return true;
  }
  size_t elements = tn_dtype_block_elements(dtype), size = tn_dtype_block_bytes(dtype);
  for (size_t b = 0; b < count / elements; b++)
    decoders[dtype].block((const uint8_t *)src + b * size, dst + b * elements);
  return true;
}
