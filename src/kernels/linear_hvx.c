/* Linear with q8a activations over block layouts on Hexagon, whose vectors have no floats.
 *
 * Two panels are taken together, so that a vector has a word for each of their 32 rows. The integer dot product of a
 * block of 32 columns is what every target computes: eight vrmpy. What other targets do with it in floats, one
 * conversion, one multiplication of scales and one fma, is done here in integers, eight blocks at a time:
 *
 *   A group is eight blocks (256 columns, counted from column 0). Over a group each lane has one exponent x, and so has
 *   each row of activations: the weights' scales d of the lane become integers D, d = D 2^(x - 16), the row's scales
 *   integers S, and a block adds
 *       t = dot D / 2^16 (+ sum M, with a minimum m = M 2^x)        rounded down
 *       sum = sum + t S / 2^31                                      rounded to nearest
 *   |t| is below 2^30 (2^31 with a minimum) and S below 2^28 (2^27), so that eight blocks stay below 2^30. D has 22
 * bits or more for the largest scale of the group, and a smaller one loses what it would lose beside the larger ones in
 * a float sum too.
 *
 *   Behind each group its sum is added to the running total, a number in two words: 30 bits, and an exponent. At the
 *   end the total is rounded to a float once.
 *
 * So the order is that of the other targets, K in blocks of 32 in order, with other roundings between, which are those
 * of a float sum or finer. What becomes of a row depends on that row and on the weights alone, and a lane's on its own
 * weights: neither on the rows beside it nor on which panels are taken together. Products of zeros are exactly zero.
 * Scales that are no finite numbers make their row, or their lane, NaN.
 *
 * A row's part of a block (20 instructions or so for 1024 multiplications and additions) has to pay for as little as
 * possible beside it: a group is unpacked once for up to TN_TILE_ROWS rows, then taken through eight rows at a time,
 * whose sums, and the weights of a block, stay in registers. */
#include "kernels/internal.h"

#if TN_ISA_hvx
#include "kernels/math.h"

#define GROUP 8u             /* blocks */
#define ROWS 8               /* rows whose sums stay in registers */
#define MINIMUM_BITS 18      /* of M: times a sum of 32 int8 below 2^30 */
#define NOTHING (-(1 << 20)) /* exponent of a total of 0 */

typedef HVX_Vector word; /* 32 lanes of 32 bits: two panels */

/* A row's part of a block. */
typedef struct record {
  uint64_t q[TN_BLOCK / 8]; /* eight quants each */
  uint64_t scale; /* lower half: S. Upper half, what the sum begins with: -offset * sum of q; with halves the sums
                     of both, 16 bits each; with a minimum the sum twice, 16 bits each */
} record;

/* Of a block of weights: D and D >> 16; M, or the halves' factors (a word has both), and these times -offset. */
enum { D, D_HIGH, SECOND, SECOND_HIGH, WORDS };

/* A block of weights, unpacked. */
typedef struct unpacked {
  word w[8];          /* as tn_load_quants has them */
  word scales[WORDS]; /* by the names above */
} unpacked;

/* The sum so far of a row: total 2^exponent. */
typedef struct running {
  word total, exponent;
} running;

/* What a slab begins with; the records follow, [blocks][rows], then the rows' exponents, [groups][rows]. */
typedef struct head {
  unpacked blocks[GROUP];
  running rows[TN_TILE_ROWS];
  uint32_t not_finite[TN_TILE_ROWS]; /* rows with a scale that is no finite number */
} head;
_Static_assert(sizeof(head) + 128 <= TN_SLAB_HEAD_BYTES, "the slab's head");
_Static_assert(sizeof(record) + sizeof(int32_t) <= TN_SLAB_BLOCK_BYTES(1), "a row's part of a block");

static head *head_of(void *slab) {
  return (head *)(((uintptr_t)slab + 127) / 128 * 128);
}
static record *records_of(head *h) {
  return (record *)(void *)(h + 1);
}

TN_INLINE word load(const void *p) {
  return *(const HVX_UVector *)p;
}
TN_INLINE word splat(int32_t x) {
  return Q6_V_vsplat_R(x);
}

/* ---- activations ---- */

#define FIXED_BLOCKS 32u /* as many as there are lanes */

/* Of up to FIXED_BLOCKS blocks of a row: what their records have beside the quants, and in the place of each group's
 * first block the largest exponent of its scales, as a float has it, at least 1. */
typedef struct fixed_scales {
  _Alignas(128) uint64_t scales[FIXED_BLOCKS];
  uint32_t largest[FIXED_BLOCKS];
} fixed_scales;

/* `count` words, or 32 where there are more, and zeros. */
static inline word load_some(const void *p, uint32_t count) {
  if (count >= FIXED_BLOCKS) return load(p);
  word some = splat(0);
  __builtin_memcpy(&some, p, count * sizeof(int32_t));
  return some;
}

/* In each lane the larger of its value and that of the lane whose number differs in one bit: 4 << bit in each byte. */
static inline word larger(word x, int32_t bits) {
  return Q6_Vw_vmax_VwVw(x, Q6_V_vdelta_VV(x, splat(bits)));
}

/* S = scale 2^(150 + spare - largest), rounded down; scales below 2^-126 are taken for 0. */
static inline void fix_scales(const float *scales, const int32_t *sums, uint32_t count, tn_layout_shape shape,
                              fixed_scales *to) {
  const word zero = splat(0), bits = load_some(scales, count), sum = load_some(sums, count);
  const word exponent = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(bits, 23), splat(255)), sign = Q6_Vw_vasr_VwR(bits, 31);
  word largest = Q6_Vw_vmax_VwVw(exponent, splat(1));
  largest = larger(larger(larger(largest, 0x04040404), 0x08080808), 0x10101010);
  word fraction = Q6_V_vor_VV(Q6_V_vand_VV(bits, splat(0x7fffff)), splat(0x800000));
  word shift = Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(largest, exponent), splat(31));
  fraction = Q6_Vw_vasr_VwVw(Q6_Vw_vasl_VwR(fraction, shape.minimum ? 3 : 4), shift);
  fraction = Q6_V_vmux_QVV(Q6_Q_vcmp_eq_VwVw(exponent, zero), zero, fraction);
  fraction = Q6_Vw_vsub_VwVw(Q6_V_vxor_VV(fraction, sign), sign);
  word first = shape.minimum  ? Q6_Vh_vshuffe_VhVh(sum, sum)
               : shape.halves ? sum
                              : Q6_Vw_vmpyi_VwRb(sum, (int32_t)((256u - shape.offset) * 0x01010101u));
  HVX_VectorPair both = Q6_W_vshuff_VVR(first, fraction, -4);
  word *out = (word *)(void *)to;
  out[0] = Q6_V_lo_W(both);
  out[1] = Q6_V_hi_W(both);
  out[2] = largest;
}

/* `scale`, which has the sum of q in its upper half, with the sums of both halves of q there, 16 bits each. */
static inline uint64_t with_halves(uint64_t scale, const uint64_t *q) {
  const int64_t ones = 0x0101010101010101;
  int64_t fours = Q6_P_vrmpybsuacc_PP(Q6_P_vrmpybsu_PP((int64_t)q[2], ones), (int64_t)q[3], ones);
  uint32_t second = (uint32_t)fours + (uint32_t)(fours >> 32), first = (uint32_t)(scale >> 32) - second;
  return (scale & 0xffffffffu) | (uint64_t)((first & 0xffffu) | second << 16) << 32;
}

/* `count` records of a row, `stride` apart. */
static inline void put_records(const uint64_t *quants, const uint64_t *scales, uint32_t count, const bool halves,
                               record *to, uint32_t stride) {
  for (uint32_t b = 0; b < count; b++, quants += TN_BLOCK / 8, to += stride) {
    const uint64_t q[TN_BLOCK / 8] = {quants[0], quants[1], quants[2], quants[3]}, scale = scales[b];
    *to = (record){{q[0], q[1], q[2], q[3]}, halves ? with_halves(scale, q) : scale};
  }
}

void tn_slab_blocks(void *slab, const tn_activations *x, uint32_t rows, uint32_t columns, tn_layout_shape shape) {
  const uint32_t blocks = columns / TN_BLOCK;
  const int32_t spare = shape.minimum ? 3 : 4;
  head *h = head_of(slab);
  record *records = records_of(h);
  int32_t *exponents = (int32_t *)(void *)(records + blocks * rows);
  fixed_scales ready;
  for (uint32_t r = 0; r < rows; r++) {
    const uint64_t *quants = (const uint64_t *)__builtin_assume_aligned(x[r].values, 8);
    h->not_finite[r] = 0;
    for (uint32_t b = 0; b < blocks; b += FIXED_BLOCKS) {
      const uint32_t count = blocks - b < FIXED_BLOCKS ? blocks - b : FIXED_BLOCKS;
      record *to = records + b * rows + r;
      fix_scales(x[r].scales + b, x[r].sums + b, count, shape, &ready);
      /* A sum of t S / 2^31 stands for its product with 2^(x + exponent). */
      for (uint32_t i = 0; i < count; i += GROUP) {
        exponents[(b + i) / GROUP * rows + r] = (int32_t)ready.largest[i] + 31 - 150 - spare;
        h->not_finite[r] |= ready.largest[i] == 255;
      }
      if (shape.halves)
        put_records(quants + b * (TN_BLOCK / 8), ready.scales, count, true, to, rows);
      else
        put_records(quants + b * (TN_BLOCK / 8), ready.scales, count, false, to, rows);
    }
  }
}

/* ---- weights ---- */

/* Vectors of one panel and of the other become two that have the same step of both. */
TN_INLINE void pair(const uint8_t *a, const uint8_t *b, word *first, word *second) {
  HVX_VectorPair both = Q6_W_vshuff_VVR(load(b), load(a), 64);
  *first = Q6_V_lo_W(both);
  *second = Q6_V_hi_W(both);
}

/* Each byte of x, below 16, becomes what the table has there. */
TN_INLINE word look_up(const uint8_t *table, word x) {
  uint16_t wide[16]; /* as the instruction wants its table: a byte in each half word */
  for (int i = 0; i < 16; i++) wide[i] = table[i];
  word values = splat(0);
  __builtin_memcpy(&values, wide, sizeof wide);
  return Q6_Vb_vlut32_VbVbR(x, values, 0);
}

TN_INLINE void unpack_quants(const tn_layout_shape f, const uint8_t *a, const uint8_t *b, word *w) {
  if (f.bits == 8) {
    for (int v = 0; v < 8; v += 2) pair(a + v * 64, b + v * 64, &w[v], &w[v + 1]);
    return;
  }
  const word low = splat(0x0f0f0f0f), upper = splat(0x30303030);
  for (int v = 0; v < 4; v += 2) {
    word both[2];
    pair(a + v * 64, b + v * 64, &both[0], &both[1]);
    for (int i = 0; i < 2; i++) {
      w[v + i] = Q6_V_vand_VV(both[i], low);
      w[v + i + 4] = Q6_Vub_vlsr_VubR(both[i], 4);
    }
  }
  for (int v = 0; v < 8 && f.codes; v++) w[v] = look_up(tn_layout_values((tn_layout_codes)f.codes), w[v]);
  if (f.bits == 4) return;
  word halves[2];
  pair(a + 256, b + 256, &halves[0], &halves[1]);
  for (int i = 0; i < 2; i++) {
    w[4 * i] = Q6_V_vor_VV(w[4 * i], Q6_V_vand_VV(Q6_Vw_vasl_VwR(halves[i], 4), upper));
    w[4 * i + 1] = Q6_V_vor_VV(w[4 * i + 1], Q6_V_vand_VV(Q6_Vw_vasl_VwR(halves[i], 2), upper));
    w[4 * i + 2] = Q6_V_vor_VV(w[4 * i + 2], Q6_V_vand_VV(halves[i], upper));
    w[4 * i + 3] = Q6_V_vor_VV(w[4 * i + 3], Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(halves[i], 2), upper));
  }
}

/* Scales as integers times powers of two. `largest`: exponent of what isn't finite, `seen` keeps the largest seen. */
typedef struct number {
  word m, e;
} number;

TN_INLINE number take_apart(word bits, const bool floats, word *seen) {
  const int width = floats ? 23 : 10;
  const word one = splat(1);
  word sign = floats ? Q6_Vw_vasr_VwR(bits, 31) : Q6_Vw_vasr_VwR(Q6_Vw_vasl_VwR(bits, 16), 31);
  word exponent = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(bits, width), splat(floats ? 255 : 31));
  word leading = Q6_Vw_vasl_VwR(Q6_Vw_vmin_VwVw(exponent, one), width);
  word magnitude = Q6_V_vor_VV(Q6_V_vand_VV(bits, splat((1 << width) - 1)), leading);
  *seen = Q6_Vw_vmax_VwVw(*seen, exponent);
  return (number){Q6_Vw_vsub_VwVw(Q6_V_vxor_VV(magnitude, sign), sign),
                  Q6_Vw_vadd_VwVw(Q6_Vw_vmax_VwVw(exponent, one), splat(floats ? -150 : -25))};
}

/* 16 scales of two panels, and 16 minima where there are. */
TN_INLINE void take_scales(const tn_layout_shape f, const uint8_t *a, const uint8_t *b, number *d, number *m,
                           word *seen) {
  HVX_VectorPair both = Q6_W_vshuff_VVR(load(b), load(a), 32);
  word low = Q6_V_lo_W(Q6_Wuw_vunpack_Vuh(Q6_V_lo_W(both))), high = Q6_V_lo_W(Q6_Wuw_vunpack_Vuh(Q6_V_hi_W(both)));
  *d = take_apart(f.scale_bf16 ? Q6_Vw_vasl_VwR(low, 16) : low, f.scale_bf16, seen);
  if (f.minimum) *m = take_apart(high, false, seen);
}

/* Two rows of 16 factors of two panels. */
TN_INLINE void take_factors(const uint8_t *a, const uint8_t *b, word *first, word *second) {
  HVX_VectorPair both = Q6_W_vshuff_VVR(load(b), load(a), 16);
  *first = Q6_V_lo_W(Q6_Ww_vunpack_Vh(Q6_V_lo_W(Q6_Wh_vunpack_Vb(Q6_V_lo_W(both)))));
  *second = Q6_V_lo_W(Q6_Ww_vunpack_Vh(Q6_V_lo_W(Q6_Wh_vunpack_Vb(Q6_V_hi_W(both)))));
}

TN_INLINE word times(word m, word factor) {
  return Q6_Vw_vmpyieacc_VwVwVh(splat(0), m, factor);
}

/* m 2^(e - unit), e + mantissa bits - unit at most `bits`, rounded down. */
TN_INLINE word fixed(number n, const int mantissa_bits, const int bits, word unit) {
  const int spare = bits - mantissa_bits;
  word m = spare > 0 ? Q6_Vw_vasl_VwR(n.m, spare) : n.m;
  word shift = Q6_Vw_vsub_VwVw(unit, Q6_Vw_vadd_VwVw(n.e, splat(spare > 0 ? -spare : 0)));
  return Q6_Vw_vasr_VwVw(m, Q6_Vw_vmin_VwVw(shift, splat(31)));
}

/* Bits that a dot product of 32 columns with a row may have; with halves, of both times their factors. */
TN_INLINE int dot_bits(const tn_layout_shape f) {
  if (f.halves) return 24;
  if (f.codes == TN_CODES_E2M1 || f.bits == 6) return f.minimum ? 17 : 16;
  if (f.codes || f.bits == 8) return 19;
  return f.minimum ? 16 : 15;
}

/* Unpacks `count` blocks of a group of two panels from block `begin` on; returns the lanes' exponents. */
TN_INLINE word unpack_group(const tn_layout_shape f, const uint8_t *a, const uint8_t *b, uint32_t begin, uint32_t count,
                            unpacked *to, word *seen) {
  const int most = 46 - dot_bits(f), bits = most < 30 ? most : 30;
  const int mantissa = f.scale_bf16 ? 24 : !f.factors || f.halves ? 11 : f.minimum ? 18 : 16;
  word x = splat(NOTHING), least = splat(NOTHING);
  number first = {x, x}, second = {x, x};
  if (f.factors) {
    uint32_t shared = (uint32_t)tn_layout_group_at(f, begin);
    take_scales(f, a + shared, b + shared, &first, &second, seen);
  }
  for (uint32_t i = 0; i < count; i++) {
    uint32_t quants = (uint32_t)tn_layout_quants_at(f, begin + i);
    uint32_t scales = (uint32_t)tn_layout_scales_at(f, begin + i);
    word factor = x, second_factor = x;
    if (f.factors)
      take_factors(a + scales, b + scales, &factor, &second_factor);
    else
      take_scales(f, a + scales, b + scales, &first, &second, seen);
    unpack_quants(f, a + quants, b + quants, to[i].w);
    to[i].scales[D] = f.factors && !f.halves ? times(first.m, factor) : first.m;
    to[i].scales[D_HIGH] = first.e;
    x = Q6_Vw_vmax_VwVw(x, first.e);
    if (f.halves) {
      to[i].scales[SECOND] = Q6_Vh_vshuffe_VhVh(second_factor, factor);
      to[i].scales[SECOND_HIGH] = Q6_Vh_vsub_VhVh(splat(0), Q6_Vh_vasl_VhR(to[i].scales[SECOND], 5));
    } else if (f.minimum) {
      to[i].scales[SECOND] = f.factors ? times(second.m, second_factor) : second.m;
      to[i].scales[SECOND_HIGH] = second.e;
      least = Q6_Vw_vmax_VwVw(least, second.e);
    }
  }
  x = Q6_Vw_vadd_VwVw(x, splat(mantissa + 16 - bits));
  if (f.minimum) x = Q6_Vw_vmax_VwVw(x, Q6_Vw_vadd_VwVw(least, splat(mantissa - MINIMUM_BITS)));
  const word unit = Q6_Vw_vadd_VwVw(x, splat(-16));
  for (uint32_t i = 0; i < count; i++) {
    to[i].scales[D] = fixed((number){to[i].scales[D], to[i].scales[D_HIGH]}, mantissa, bits, unit);
    to[i].scales[D_HIGH] = Q6_Vw_vasr_VwR(to[i].scales[D], 16);
    if (f.minimum) { /* to nearest: the sums it is multiplied by are not small */
      second = (number){to[i].scales[SECOND], to[i].scales[SECOND_HIGH]};
      word doubled = fixed(second, mantissa, MINIMUM_BITS + 1, Q6_Vw_vadd_VwVw(x, splat(-1)));
      to[i].scales[SECOND] = Q6_Vw_vavg_VwVw_rnd(doubled, splat(0));
    }
  }
  return x;
}

/* ---- a group ---- */

TN_INLINE int32_t four(const record *r, const int v) {
  return (int32_t)(v % 2 ? r->q[v / 2] >> 32 : r->q[v / 2]);
}

/* Dot product of vectors [begin, begin + count) with a row; `start` NULL: from zero. */
TN_INLINE word dot(const word *w, const record *r, const int begin, const int count, const int32_t *start) {
  word acc = start ? Q6_Vw_vrmpyacc_VwVubRb(splat(*start), w[begin], four(r, begin))
                   : Q6_Vw_vrmpy_VubRb(w[begin], four(r, begin));
#pragma clang loop unroll(full)
  for (int v = begin + 1; v < begin + count; v++) acc = Q6_Vw_vrmpyacc_VwVubRb(acc, w[v], four(r, v));
  return acc;
}

/* dot D / 2^16, rounded down */
TN_INLINE word scaled(word dot, word d, word d_high) {
  return Q6_Vw_vmpyieacc_VwVwVh(Q6_Vw_vmpye_VwVuh(dot, d), dot, d_high);
}

/* a b / 2^31, rounded to nearest */
TN_INLINE word fraction_product(word a, word b) {
  return Q6_Vw_vmpyoacc_VwVwVh_s1_rnd_sat_shift(Q6_Vw_vmpye_VwVuh(a, b), a, b);
}

/* t of one block and one row; `begin` is the upper half of its record's scale. */
TN_INLINE word term(const tn_layout_shape f, const word *w, const word *scales, const record *r, int32_t begin) {
  if (f.halves) {
    word sum = Q6_Vw_vmpyio_VwVh(dot(w, r, 4, 4, NULL), scales[SECOND]);
    sum = Q6_Vw_vmpyieacc_VwVwVh(sum, dot(w, r, 0, 4, NULL), scales[SECOND]);
    sum = Q6_Vw_vdmpyacc_VwVhRh_sat(sum, scales[SECOND_HIGH], begin);
    return scaled(sum, scales[D], scales[D_HIGH]);
  }
  if (f.minimum) {
    word sum = scaled(dot(w, r, 0, 8, NULL), scales[D], scales[D_HIGH]);
    return Q6_Vw_vmpyiacc_VwVwRh(sum, scales[SECOND], begin);
  }
  return scaled(dot(w, r, 0, 8, &begin), scales[D], scales[D_HIGH]);
}

/* Adds a group's sum, which stands for sum 2^exponent, to a running total; |sum| and |total| below 2^30. */
TN_INLINE void add_group(word sum, word exponent, running *to) {
  const word most = splat(31);
  word common = Q6_Vw_vmax_VwVw(exponent, to->exponent);
  word a = Q6_Vw_vasr_VwVw(to->total, Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(common, to->exponent), most));
  word b = Q6_Vw_vasr_VwVw(sum, Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(common, exponent), most));
  word both = Q6_Vw_vadd_VwVw(a, b);
  word up = Q6_Vw_vsub_VwVw(Q6_Vw_vnormamt_Vw(both), splat(1));
  to->total = Q6_Vw_vasl_VwVw(both, up);
  to->exponent = Q6_Vw_vsub_VwVw(common, up);
}

/* `rows` rows through `count` blocks. stride: records from block to block. */
TN_INLINE void run_group(const int rows, const tn_layout_shape f, const unpacked *blocks, uint32_t count,
                         const record *records, uint32_t stride, word x, const int32_t *exponents, running *to) {
  word sums[ROWS];
#pragma clang loop unroll(full)
  for (int r = 0; r < rows; r++) sums[r] = splat(0);
#pragma clang loop unroll(disable)
  for (uint32_t b = 0; b < count; b++, blocks++, records += stride) {
    word w[8];
    const word *scales = blocks->scales;
    __asm__("" : "+r"(scales)); /* one address: all of a block is within the eight vectors an instruction reaches */
#pragma clang loop unroll(full)
    for (int v = 0; v < 8; v++) w[v] = scales[v - 8];
#pragma clang loop unroll(full)
    for (int r = 0; r < rows; r++) {
      const uint64_t scale = records[r].scale;
      const word t = term(f, w, scales, records + r, (int32_t)(scale >> 32));
      sums[r] = Q6_Vw_vadd_VwVw(sums[r], fraction_product(t, splat((int32_t)scale)));
    }
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < rows; r++) add_group(sums[r], Q6_Vw_vadd_VwVw(x, splat(exponents[r])), &to[r]);
}

/* total 2^exponent as a float; numbers too small for one with 24 bits become 0. */
TN_INLINE word rounded(word total, word exponent) {
  const word sign = Q6_Vw_vasr_VwR(total, 31), one = splat(1);
  word magnitude = Q6_Vw_vsub_VwVw(Q6_V_vxor_VV(total, sign), sign); /* 2^29 .. 2^30, or 0 */
  word odd = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(magnitude, 6), one);
  word fraction = Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(magnitude, Q6_Vw_vadd_VwVw(splat(31), odd)), 6);
  word biased = Q6_Vw_vadd_VwVw(exponent, splat(6 + 150));
  word bits = Q6_Vw_vadd_VwVw(Q6_Vw_vasl_VwR(Q6_Vw_vsub_VwVw(biased, one), 23), fraction);
  HVX_VectorPred tiny = Q6_Q_or_QQ(Q6_Q_vcmp_gt_VwVw(one, biased), Q6_Q_vcmp_eq_VwVw(magnitude, splat(0)));
  bits = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(biased, splat(254)), splat(0x7f800000), bits);
  bits = Q6_V_vmux_QVV(tiny, splat(0), bits);
  return Q6_V_vor_VV(bits, Q6_Vw_vasl_VwR(sign, 31));
}

/* Two panels against all rows of a slab; b is a where there is but one. All but the pointers and counts are constants
 * where it is used. */
TN_INLINE void tile(const tn_layout_shape f, uint32_t columns, const uint8_t *a, const uint8_t *b, head *h,
                    uint32_t rows) {
  const uint32_t blocks = columns / TN_BLOCK;
  const record *records = records_of(h);
  const int32_t *exponents = (const int32_t *)(const void *)(records + blocks * rows);
  word seen = splat(0);
  for (uint32_t r = 0; r < rows; r++) {
    h->rows[r] = (running){splat(0), splat(NOTHING)};
  }
  for (uint32_t begin = 0; begin < blocks; begin += GROUP, exponents += rows) {
    uint32_t count = blocks - begin < GROUP ? blocks - begin : GROUP, r = 0;
    word x = unpack_group(f, a, b, begin, count, h->blocks, &seen);
    const record *from = records + begin * rows;
#define TN_RUN(n) \
  for (; r + n <= rows; r += n) run_group(n, f, h->blocks, count, from + r, rows, x, exponents + r, &h->rows[r])
    TN_RUN(ROWS);
    TN_RUN(4);
    TN_RUN(2);
    TN_RUN(1);
#undef TN_RUN
  }
  HVX_VectorPred bad = Q6_Q_vcmp_eq_VwVw(seen, splat(f.scale_bf16 ? 255 : 31));
  for (uint32_t r = 0; r < rows; r++) {
    word y = Q6_V_vmux_QVV(bad, splat(0x7fc00000), rounded(h->rows[r].total, h->rows[r].exponent));
    h->rows[r].total = h->not_finite[r] ? splat(0x7fc00000) : y;
  }
}

/* One function a layout. */
#define TN_TILE(layout)                                                                                     \
  static void tile_##layout(uint32_t columns, const uint8_t *a, const uint8_t *b, head *h, uint32_t rows) { \
    tile(tn_layout_shape_of(TN_LAYOUT_##layout), columns, a, b, h, rows);                                   \
  }
TN_EACH_BLOCK_LAYOUT(TN_TILE)

/* The rows' totals, by now floats of two panels, to out[panels][rows][16]. */
static void put_out(const running *from, uint32_t rows, uint32_t panels, float *out) {
  float *second = panels > 1 ? out + rows * TN_LANES : NULL;
  uint32_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    HVX_VectorPair both = Q6_W_vshuff_VVR(from[r + 1].total, from[r].total, 64);
    *(HVX_UVector *)(void *)(out + r * TN_LANES) = Q6_V_lo_W(both);
    if (second) *(HVX_UVector *)(void *)(second + r * TN_LANES) = Q6_V_hi_W(both);
  }
  if (r == rows) return;
  const float *last = (const float *)(const void *)&from[r].total;
  __builtin_memcpy(out + r * TN_LANES, last, TN_LANES * sizeof(float));
  if (second) __builtin_memcpy(second + r * TN_LANES, last + TN_LANES, TN_LANES * sizeof(float));
}

#define TN_TILE_CASE(layout) \
  case TN_LAYOUT_##layout: tile_##layout(columns, panel, second, h, rows); break;
void tn_tile_blocks(const tn_matrix *matrix, const uint8_t *panel, uint32_t panels, void *slab, uint32_t rows,
                    float *out) {
  head *h = head_of(slab);
  const uint32_t columns = matrix->columns;
  const uint8_t *second = panels > 1 ? panel + matrix->panel_bytes : panel;
  switch (matrix->kind) {
    TN_EACH_BLOCK_LAYOUT(TN_TILE_CASE)
    default: return;
  }
  put_out(h->rows, rows, panels, out);
}

#endif
