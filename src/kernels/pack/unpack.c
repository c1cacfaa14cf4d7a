/* Taking blocks apart (see unpack.h); tensor/blocks.h draws the formats. All of it is exact: products of a half and a
 * small integer fit a float. */
#include "kernels/pack/unpack.h"

#include "tensor/blocks.h"
#include "tensor/half.h"

#define BYTE_OFFSET 128
#define SIX_OFFSET 32

/* Element i where byte j holds the elements j and j + 16. */
static inline int nibble32(const uint8_t *qs, int i) {
  return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

static void unpack_q4(const uint8_t *qs, tn_unpacked *out) {
  for (int i = 0; i < 32; i++) out->q[i] = (uint8_t)nibble32(qs, i);
}

static void unpack_q5(const uint8_t *qs, uint32_t fifth, tn_unpacked *out) {
  for (int i = 0; i < 32; i++) out->q[i] = (uint8_t)(nibble32(qs, i) | (int)(fifth >> i & 1) << 4);
}

/* Eight times the value of an E2M3 number. */
static int e2m3_eighths(int code) {
  int e = code >> 3 & 3, m = code & 7, magnitude = e ? (8 + m) << (e - 1) : m;
  return code & 32 ? -magnitude : magnitude;
}

static void unpack_mxfp6(const tn_block_mxfp6 *b, tn_unpacked *out) {
  for (int i = 0; i < 32; i++) {
    int code = nibble32(b->qs, i) | (b->qh[i % 8] >> 2 * (i / 8) & 3) << 4;
    out->q[i] = (uint8_t)(e2m3_eighths(code) + BYTE_OFFSET);
  }
  out->d16 = tn_f32_to_bf16(tn_e8m0_to_f32(b->e) * 0.125f);
}

static void unpack_mxfp4(const tn_block_mxfp4 *b, tn_unpacked *out) {
  unpack_q4(b->qs, out);
  out->d16 = tn_f32_to_bf16(tn_e8m0_to_f32(b->e) * 0.5f);
}

/* S and M of group g of Q4_K and Q5_K. */
static void group_scales(const uint8_t *scales, int g, int *s, int *m) {
  if (g < 4) {
    *s = scales[g] & 63;
    *m = scales[g + 4] & 63;
  } else {
    *s = (scales[g + 4] & 15) | scales[g - 4] >> 6 << 4;
    *m = scales[g + 4] >> 4 | scales[g] >> 6 << 4;
  }
}

/* Group g of Q4_K (qh NULL) and Q5_K. */
static void unpack_k45(const uint8_t *qs, const uint8_t *qh, const uint8_t *scales, uint16_t d, uint16_t m, int g,
                       tn_unpacked *out) {
  int s, o;
  for (int i = 0; i < 32; i++) {
    uint8_t byte = qs[g / 2 * 32 + i];
    out->q[i] = g % 2 ? byte >> 4 : byte & 15;
    if (qh) out->q[i] = (uint8_t)(out->q[i] | (qh[i] >> g & 1) << 4);
  }
  group_scales(scales, g, &s, &o);
  out->d16 = d;
  out->m16 = m ^ 0x8000u; /* it is taken away */
  out->factors[0] = (int8_t)s;
  out->factors[1] = (int8_t)o;
}

static void unpack_q6_k(const tn_block_q6_k *b, int g, tn_unpacked *out) {
  for (int i = 0; i < 32; i++) {
    int half = g / 4, in_half = g % 4 * 32 + i;
    uint8_t low = b->ql[64 * half + in_half % 64];
    int high = b->qh[32 * half + i] >> 2 * (g % 4) & 3;
    out->q[i] = (uint8_t)((in_half / 64 ? low >> 4 : low & 15) | high << 4);
  }
  out->d16 = b->d;
  out->factors[0] = b->scales[2 * g];
  out->factors[1] = b->scales[2 * g + 1];
}

static int8_t q3_scale(const tn_block_q3_k *b, int group16) {
  int low = b->scales[group16 % 8] >> 4 * (group16 / 8) & 15;
  int s = low | (b->scales[8 + group16 % 4] >> 2 * (group16 / 4) & 3) << 4;
  return (int8_t)(s - 32);
}

static void unpack_q3_k(const tn_block_q3_k *b, int g, tn_unpacked *out) {
  for (int i = 0; i < 32; i++) {
    int q = (b->qs[g / 4 * 32 + i] >> 2 * (g % 4) & 3) | (b->hmask[i] >> g & 1) << 2;
    out->q[i] = (uint8_t)(q - 4 + SIX_OFFSET);
  }
  out->d16 = b->d;
  out->factors[0] = q3_scale(b, 2 * g);
  out->factors[1] = q3_scale(b, 2 * g + 1);
}

static void unpack_iq4_xs(const tn_block_iq4_xs *b, int g, tn_unpacked *out) {
  int s = (b->scales_l[g / 2] >> 4 * (g % 2) & 15) | (b->scales_h >> 2 * g & 3) << 4;
  unpack_q4(b->qs + 16 * g, out);
  out->d16 = b->d;
  out->factors[0] = (int8_t)(s - 32);
  out->factors[1] = 0;
}

void tn_unpack_block(uint32_t dtype, const uint8_t *row, uint32_t block, tn_unpacked *out) {
  size_t elements = tn_dtype_block_elements((tn_dtype)dtype);
  const void *at = row + 32 * (size_t)block / elements * tn_dtype_block_bytes((tn_dtype)dtype);
  int g = (int)(block % 8);
  switch (dtype) {
    case TN_Q4_0: {
      const tn_block_q4_0 *b = at;
      unpack_q4(b->qs, out);
      out->d16 = b->d;
      break;
    }
    case TN_Q4_1: {
      const tn_block_q4_1 *b = at;
      unpack_q4(b->qs, out);
      out->d16 = b->d;
      out->m16 = b->m;
      break;
    }
    case TN_Q8_0: {
      const tn_block_q8_0 *b = at;
      for (int i = 0; i < 32; i++) out->q[i] = (uint8_t)(b->qs[i] + BYTE_OFFSET);
      out->d16 = b->d;
      break;
    }
    case TN_Q5_0: {
      const tn_block_q5_0 *b = at;
      unpack_q5(b->qs, b->qh, out);
      out->d16 = b->d;
      break;
    }
    case TN_Q5_1: {
      const tn_block_q5_1 *b = at;
      unpack_q5(b->qs, b->qh, out);
      out->d16 = b->d;
      out->m16 = b->m;
      break;
    }
    case TN_IQ4_NL: {
      const tn_block_iq4_nl *b = at;
      unpack_q4(b->qs, out);
      out->d16 = b->d;
      break;
    }
    case TN_Q4_K: {
      const tn_block_q4_k *b = at;
      unpack_k45(b->qs, NULL, b->scales, b->d, b->m, g, out);
      break;
    }
    case TN_Q5_K: {
      const tn_block_q5_k *b = at;
      unpack_k45(b->qs, b->qh, b->scales, b->d, b->m, g, out);
      break;
    }
    case TN_Q6_K: unpack_q6_k(at, g, out); break;
    case TN_Q3_K: unpack_q3_k(at, g, out); break;
    case TN_IQ4_XS: unpack_iq4_xs(at, g, out); break;
    case TN_MXFP4: unpack_mxfp4(at, out); break;
    case TN_MXFP6: unpack_mxfp6(at, out); break;
    default: break;
  }
}
