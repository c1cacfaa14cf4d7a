/* Weight blocks, as they lie in files (tensor/blocks.h draws them), taken apart: 32 columns at a time become integers q
 * and, for each half of 16, a scale d and an offset m: value = d q + m. */

typedef struct block32 {
  char16 low, high; /* q of columns 0..15 and 16..31 */
  float d0, d1, m0, m1;
} block32;

static int is_blocks(uint dtype) {
  return dtype >= DTYPE_Q4_0 && dtype <= DTYPE_MXFP4 || dtype == DTYPE_MXFP6;
}
/* Do the halves have scales of their own? */
static int has_halves(uint dtype) {
  return dtype == DTYPE_Q2_K || dtype == DTYPE_Q3_K || dtype == DTYPE_Q6_K;
}
static int has_offsets(uint dtype) {
  return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q2_K || dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K;
}

static float half_at(constant_memory at) {
  return tn_f16_to_f32((ushort)(at[0] | at[1] << 8));
}

/* Integers of 32 columns from 16 bytes: the lower halves first. */
static void take_nibbles(constant_memory at, block32 *b) {
  uchar16 n = vload16(0, at);
  b->low = as_char16(n & (uchar)15);
  b->high = as_char16(n >> (uchar)4);
}

/* Bit i of `bits` for element i, times 16. */
static char16 fifth_bits(uint bits) {
  const uint16 places = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return convert_char16(((uint16)(bits) >> places & 1u) << 4u);
}

static void take_q5(constant_memory quants, constant_memory fifth, block32 *b) {
  uint bits = (uint)fifth[0] | (uint)fifth[1] << 8 | (uint)fifth[2] << 16 | (uint)fifth[3] << 24;
  take_nibbles(quants, b);
  b->low |= fifth_bits(bits);
  b->high |= fifth_bits(bits >> 16);
}

static void take_iq4(constant_memory at, block32 *b) {
  const char16 steps = (char16)(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
  take_nibbles(at, b);
  b->low = shuffle(steps, as_uchar16(b->low));
  b->high = shuffle(steps, as_uchar16(b->high));
}

/* Twice an E2M1 number. */
static void take_mxfp4(constant_memory at, block32 *b) {
  const char16 twice = (char16)(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  take_nibbles(at, b);
  b->low = shuffle(twice, as_uchar16(b->low));
  b->high = shuffle(twice, as_uchar16(b->high));
}

/* Eight times an E2M3 number: s ee mmm. */
static char16 e2m3_eighths(char16 code) {
  char16 e = code >> (char)3 & (char)3, m = code & (char)7;
  char16 normal = (m + (char)8) << (e - (char)1 & (char)3);
  char16 magnitude = select(m, normal, e > (char)0);
  return select(magnitude, -magnitude, (code & (char)32) != (char)0);
}

static void take_mxfp6(constant_memory at, block32 *b) {
  uchar8 upper = vload8(0, at + 16);
  take_nibbles(at, b);
  char8 upper0 = as_char8(upper & (uchar)3), upper1 = as_char8(upper >> (uchar)2 & (uchar)3);
  char8 upper2 = as_char8(upper >> (uchar)4 & (uchar)3), upper3 = as_char8(upper >> (uchar)6 & (uchar)3);
  b->low = e2m3_eighths(b->low | (char16)(upper0, upper1) << (char)4);
  b->high = e2m3_eighths(b->high | (char16)(upper2, upper3) << (char)4);
}

/* Pairs of bits: those at bit `shift` of 32 bytes. */
static void take_pairs(constant_memory at, uint shift, block32 *b) {
  b->low = as_char16(vload16(0, at) >> (uchar)shift & (uchar)3);
  b->high = as_char16(vload16(1, at) >> (uchar)shift & (uchar)3);
}
/* Nibbles of 32 bytes: the lower (0) or upper (1) halves. */
static void take_halves(constant_memory at, uint upper, block32 *b) {
  b->low = as_char16(vload16(0, at) >> (uchar)(4 * upper) & (uchar)15);
  b->high = as_char16(vload16(1, at) >> (uchar)(4 * upper) & (uchar)15);
}
/* Bit `bit` of 32 bytes, times 2^place. */
static void add_bits(constant_memory at, uint bit, uint place, block32 *b) {
  b->low |= as_char16((vload16(0, at) >> (uchar)bit & (uchar)1) << (uchar)place);
  b->high |= as_char16((vload16(1, at) >> (uchar)bit & (uchar)1) << (uchar)place);
}

/* S and M of group g of Q4_K and Q5_K. */
static void take_group_scales(constant_memory scales, uint g, float d, float m, block32 *b) {
  int s, o;
  if (g < 4) {
    s = scales[g] & 63;
    o = scales[g + 4] & 63;
  } else {
    s = (scales[g + 4] & 15) | scales[g - 4] >> 6 << 4;
    o = scales[g + 4] >> 4 | scales[g] >> 6 << 4;
  }
  b->d0 = b->d1 = d * (float)s;
  b->m0 = b->m1 = -(m * (float)o);
}

static void take_q2_k(constant_memory at, uint g, block32 *b) {
  float d = half_at(at + 80), m = half_at(at + 82);
  uint first = at[2 * g], second = at[2 * g + 1];
  take_pairs(at + 16 + g / 4 * 32, 2 * (g % 4), b);
  b->d0 = d * (float)(first & 15);
  b->d1 = d * (float)(second & 15);
  b->m0 = -(m * (float)(first >> 4));
  b->m1 = -(m * (float)(second >> 4));
}

static float q3_k_scale(constant_memory scales, uint group, float d) {
  int s = (scales[group % 8] >> 4 * (group / 8) & 15) | (scales[8 + group % 4] >> 2 * (group / 4) & 3) << 4;
  return d * (float)(s - 32);
}

static void take_q3_k(constant_memory at, uint g, block32 *b) {
  float d = half_at(at + 108);
  take_pairs(at + 32 + g / 4 * 32, 2 * (g % 4), b);
  add_bits(at, g, 2, b);
  b->low -= (char)4;
  b->high -= (char)4;
  b->d0 = q3_k_scale(at + 96, 2 * g, d);
  b->d1 = q3_k_scale(at + 96, 2 * g + 1, d);
}

static void take_q6_k(constant_memory at, uint g, block32 *b) {
  block32 upper;
  uint half_of = g / 4;
  float d = half_at(at + 208);
  take_halves(at + 64 * half_of + g % 2 * 32, g % 4 / 2, b);
  take_pairs(at + 128 + 32 * half_of, 2 * (g % 4), &upper);
  b->low = (b->low | upper.low << (char)4) - (char)32;
  b->high = (b->high | upper.high << (char)4) - (char)32;
  b->d0 = d * (float)(char)at[192 + 2 * g];
  b->d1 = d * (float)(char)at[192 + 2 * g + 1];
}

static void take_iq4_xs(constant_memory at, uint g, block32 *b) {
  uint upper = (uint)at[2] | (uint)at[3] << 8;
  int s = (at[4 + g / 2] >> 4 * (g % 2) & 15) | (int)(upper >> 2 * g & 3) << 4;
  take_iq4(at + 8 + 16 * g, b);
  b->d0 = b->d1 = half_at(at) * (float)(s - 32);
}

/* Columns 32 number .. + 31 of a row of blocks. */
static block32 load_block(uint dtype, constant_memory row, uint number) {
  block32 b;
  constant_memory at;
  uint g = number % 8;
  b.m0 = b.m1 = 0.0f;
  switch (dtype) {
    case DTYPE_Q8_0:
      at = row + (ulong)number * 34;
      b.d0 = b.d1 = half_at(at);
      b.low = as_char16(vload16(0, at + 2));
      b.high = as_char16(vload16(0, at + 18));
      break;
    case DTYPE_Q4_0:
      at = row + (ulong)number * 18;
      b.d0 = b.d1 = half_at(at);
      take_nibbles(at + 2, &b);
      b.low -= (char)8;
      b.high -= (char)8;
      break;
    case DTYPE_Q4_1:
      at = row + (ulong)number * 20;
      b.d0 = b.d1 = half_at(at);
      b.m0 = b.m1 = half_at(at + 2);
      take_nibbles(at + 4, &b);
      break;
    case DTYPE_Q5_0:
      at = row + (ulong)number * 22;
      b.d0 = b.d1 = half_at(at);
      take_q5(at + 6, at + 2, &b);
      b.low -= (char)16;
      b.high -= (char)16;
      break;
    case DTYPE_Q5_1:
      at = row + (ulong)number * 24;
      b.d0 = b.d1 = half_at(at);
      b.m0 = b.m1 = half_at(at + 2);
      take_q5(at + 8, at + 4, &b);
      break;
    case DTYPE_IQ4_NL:
      at = row + (ulong)number * 18;
      b.d0 = b.d1 = half_at(at);
      take_iq4(at + 2, &b);
      break;
    case DTYPE_MXFP4:
      at = row + (ulong)number * 17;
      b.d0 = b.d1 = tn_e8m0_to_f32(at[0]) * 0.5f;
      take_mxfp4(at + 1, &b);
      break;
    case DTYPE_MXFP6:
      at = row + (ulong)number * 25;
      b.d0 = b.d1 = tn_e8m0_to_f32(at[0]) * 0.125f;
      take_mxfp6(at + 1, &b);
      break;
    case DTYPE_Q2_K: take_q2_k(row + (ulong)(number / 8) * 84, g, &b); break;
    case DTYPE_Q3_K: take_q3_k(row + (ulong)(number / 8) * 110, g, &b); break;
    case DTYPE_Q4_K:
      at = row + (ulong)(number / 8) * 144;
      take_halves(at + 16 + g / 2 * 32, g % 2, &b);
      take_group_scales(at + 4, g, half_at(at), half_at(at + 2), &b);
      break;
    case DTYPE_Q5_K:
      at = row + (ulong)(number / 8) * 176;
      take_halves(at + 48 + g / 2 * 32, g % 2, &b);
      add_bits(at + 16, g, 4, &b);
      take_group_scales(at + 4, g, half_at(at), half_at(at + 2), &b);
      break;
    case DTYPE_Q6_K: take_q6_k(row + (ulong)(number / 8) * 210, g, &b); break;
    default: take_iq4_xs(row + (ulong)(number / 8) * 136, g, &b); break;
  }
  return b;
}

/* The values of 32 columns, of any format; zeros from `count` on, which only plain types can have. */
static void load_weights(uint dtype, constant_memory row, uint column, uint count, float16 *low, float16 *high) {
  if (is_blocks(dtype)) {
    block32 b = load_block(dtype, row, column / 32);
    *low = b.d0 * convert_float16(b.low) + b.m0;
    *high = b.d1 * convert_float16(b.high) + b.m1;
  } else {
    load32(dtype, row, column, count, low, high);
  }
}
