/* Compute layouts: how the fast kernels want weight matrices stored.
 *
 * A matrix [N rows (output features), K columns] is cut into panels of 16 rows (the last one padded with zero rows),
 * and a panel's values are interleaved so that one vector holds one step along K of all 16 rows: lane l is row l.
 *
 * Float layouts (F32, F16): K steps of 16 values. BF16: steps of two columns, as instructions that multiply pairs want
 * them; the last one of an odd K has a zero column.
 *
 *     step k:       | row 0, k | row 1, k | ... | row 15, k |
 *     BF16, step i: | row 0, 2i | row 0, 2i + 1 | row 1, 2i | ... | row 15, 2i + 1 |
 *
 * Block layouts: blocks of 32 columns, the scales in front of the quants, so that a panel is read from its begin to its
 * end. Where the scales of a block take 32 bytes, two blocks share a line of them:
 *
 *     | scales, 64 or 128 bytes | quants |
 *     | scales of b, 32 bytes | scales of b + 1 | quants of b | quants of b + 1 |     (the last one may be alone)
 *
 * A block of 4-bit quants is 4 vectors of 64 bytes, of 6-bit ones 6, of 8-bit ones 8. `q` is unsigned; the value is
 * (q - offset) * d, or q * d + m.
 *
 *     nibbles, vector v < 4, lane l:  bits  0-3   k = 4v      bits  4-7   k = 16 + 4v
 *                                     bits  8-11  k = 4v + 1  bits 12-15  k = 16 + 4v + 1
 *                                     bits 16-19  k = 4v + 2  bits 20-23  k = 16 + 4v + 2
 *                                     bits 24-27  k = 4v + 3  bits 28-31  k = 16 + 4v + 3
 *     sixes, vectors 0 .. 3:          as nibbles, the lower four bits
 *            vector 4, lane l, byte j: bits 2i, 2i + 1: the upper two of k = 4i + j, i < 4
 *            vector 5, lane l, byte j: bits 2i, 2i + 1: the upper two of k = 16 + 4i + j
 *     bytes, vector v < 8, lane l:    byte j      k = 4v + j
 *     scales of a block:              16 d, then 16 m where there are (f16 or bf16)
 *
 * Where nibbles are codes, q is what tn_layout_values has at that place.
 *
 * With factors (the K-quants) a scale is the product, which a float holds exactly, of an f16 that 8 blocks share and an
 * int8 of the block. Such a group of 256 columns:
 *
 *     | 16 f16 for d | 16 f16 for m, or nothing | 8 blocks' factors, 32 bytes each | 8 blocks' quants |
 *
 *     factors of a block:             16 int8 for d, then 16 int8 for m; with halves: for k < 16, then for k >= 16
 *
 * A gated matrix (2N rows: gate, then value) is stored in pairs of panels: 16 gate rows, then their 16 value rows. */
#ifndef TENON_KERNELS_LAYOUT_H
#define TENON_KERNELS_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include "tenon/device.h"

#define TN_PANEL_ROWS 16u
#define TN_BLOCK 32u

/* Goes up whenever weights of any kind below come to lie differently: what was packed before is packed anew. */
#define TN_LAYOUT_VERSION 5u

/* Numbers are stored beside packed weights and never change their meaning. */
typedef enum tn_layout_kind {
  TN_LAYOUT_NONE = 0,
  TN_LAYOUT_VECTOR = 1, /* dense f32 */
  TN_LAYOUT_F32 = 2,
  TN_LAYOUT_F16 = 3,
  TN_LAYOUT_BF16 = 4,
  TN_LAYOUT_NIBBLE_D16 = 5,  /* (q - 8) d: Q4_0 */
  TN_LAYOUT_NIBBLE_DM16 = 6, /* q d + m: Q4_1 */
  TN_LAYOUT_BYTE_D16 = 7,    /* (q - 128) d: Q8_0 */
  TN_LAYOUT_SIX_D16 = 12,    /* (q - 16) d: Q5_0 */
  TN_LAYOUT_SIX_DM16 = 13,   /* q d + m: Q5_1 */
  TN_LAYOUT_NIBBLE_DMK = 16, /* q d + m, with factors: Q4_K */
  TN_LAYOUT_SIX_DMK = 17,    /* q d + m, with factors: Q5_K */
  TN_LAYOUT_SIX_HALVES = 18, /* (q - 32) d, with factors of 16 columns: Q6_K, Q3_K */
  TN_LAYOUT_BYTE_B16 = 20,   /* (q - 128) d, d in bf16: MXFP6 */
  TN_LAYOUT_IQ4_D16 = 21,    /* codes, (q - 128) d: IQ4_NL */
  TN_LAYOUT_IQ4_DK = 22,     /* codes, (q - 128) d, with factors: IQ4_XS */
  TN_LAYOUT_E2M1_B16 = 23,   /* codes, (q - 12) d, d in bf16: MXFP4 */
  TN_LAYOUT_KINDS
} tn_layout_kind;
/* `what` of the name of each block layout. */
#define TN_EACH_BLOCK_LAYOUT(what)                                                                              \
  what(NIBBLE_D16) what(NIBBLE_DM16) what(BYTE_D16) what(SIX_D16) what(SIX_DM16) what(NIBBLE_DMK) what(SIX_DMK) \
      what(SIX_HALVES) what(BYTE_B16) what(IQ4_D16) what(IQ4_DK) what(E2M1_B16)

#define TN_LAYOUT_GATED 0x100u /* added to the id: pairs of panels */

typedef enum tn_layout_codes { TN_CODES_NONE, TN_CODES_IQ4, TN_CODES_E2M1 } tn_layout_codes;

/* What makes the layouts differ. */
typedef struct tn_layout_shape {
  uint8_t step_bytes; /* float layouts: bytes of a value; 0: a block layout */
  uint8_t bits;       /* of a quant: 4, 6 or 8 */
  uint8_t codes;      /* nibbles stand for values of a table: tn_layout_codes */
  uint8_t scale_bf16; /* scales are bf16, else f16 */
  uint8_t minimum;    /* there is an m */
  uint8_t halves;     /* two factors a block, of 16 columns each */
  uint8_t factors;    /* scales are products of a group's f16 and a block's int8 */
  uint8_t offset;     /* taken from q */
} tn_layout_shape;

static inline tn_layout_shape tn_layout_shape_of(uint32_t kind) {
  switch (kind) {
    case TN_LAYOUT_F32: return (tn_layout_shape){.step_bytes = 4};
    case TN_LAYOUT_F16: return (tn_layout_shape){.step_bytes = 2};
    case TN_LAYOUT_BF16: return (tn_layout_shape){.step_bytes = 2};
    case TN_LAYOUT_NIBBLE_D16: return (tn_layout_shape){.bits = 4, .offset = 8};
    case TN_LAYOUT_NIBBLE_DM16: return (tn_layout_shape){.bits = 4, .minimum = 1};
    case TN_LAYOUT_BYTE_D16: return (tn_layout_shape){.bits = 8, .offset = 128};
    case TN_LAYOUT_SIX_D16: return (tn_layout_shape){.bits = 6, .offset = 16};
    case TN_LAYOUT_SIX_DM16: return (tn_layout_shape){.bits = 6, .minimum = 1};
    case TN_LAYOUT_NIBBLE_DMK: return (tn_layout_shape){.bits = 4, .minimum = 1, .factors = 1};
    case TN_LAYOUT_SIX_DMK: return (tn_layout_shape){.bits = 6, .minimum = 1, .factors = 1};
    case TN_LAYOUT_SIX_HALVES: return (tn_layout_shape){.bits = 6, .halves = 1, .factors = 1, .offset = 32};
    case TN_LAYOUT_BYTE_B16: return (tn_layout_shape){.bits = 8, .scale_bf16 = 1, .offset = 128};
    case TN_LAYOUT_IQ4_D16: return (tn_layout_shape){.bits = 4, .codes = TN_CODES_IQ4, .offset = 128};
    case TN_LAYOUT_IQ4_DK: return (tn_layout_shape){.bits = 4, .codes = TN_CODES_IQ4, .factors = 1, .offset = 128};
    case TN_LAYOUT_E2M1_B16: return (tn_layout_shape){.bits = 4, .codes = TN_CODES_E2M1, .scale_bf16 = 1, .offset = 12};
    default: return (tn_layout_shape){0};
  }
}

static inline uint32_t tn_layout_quant_bytes(tn_layout_shape shape) {
  return TN_PANEL_ROWS * TN_BLOCK * shape.bits / 8u;
}
#define TN_GROUP_BLOCKS 8u       /* with factors: blocks that share the f16 scales */
#define TN_GROUP_SCALE_BYTES 64u /* of those */
/* Bits that q may have: what nibbles are codes of are bytes. */
static inline int tn_layout_value_bits(tn_layout_shape shape) {
  return shape.codes ? 8 : shape.bits;
}

/* With factors: the block's share of the group's. */
static inline uint32_t tn_layout_scale_bytes(tn_layout_shape shape) {
  if (shape.factors) return TN_PANEL_ROWS * 2u + TN_GROUP_SCALE_BYTES / TN_GROUP_BLOCKS;
  return TN_PANEL_ROWS * 2u * (shape.minimum ? 2u : 1u);
}

/* q by code: of IQ4 its value + 128, of E2M1 twice its value + 12. */
static inline const uint8_t *tn_layout_values(tn_layout_codes codes) {
  static const uint8_t iq4[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
  static const uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  return codes == TN_CODES_IQ4 ? iq4 : e2m1;
}

/* Column `k` < 32 of lane `lane` in the quants of a block. */
static inline int tn_layout_quant(tn_layout_shape shape, const uint8_t *quants, uint32_t lane, uint32_t k) {
  if (shape.bits == 8) return quants[k / 4 * 64 + lane * 4 + k % 4];
  uint32_t within = k % 16;
  int byte = quants[within / 4 * 64 + lane * 4 + within % 4], low = k < 16 ? byte & 15 : byte >> 4;
  if (shape.codes) return tn_layout_values((tn_layout_codes)shape.codes)[low];
  if (shape.bits == 4) return low;
  return low | (quants[256 + k / 16 * 64 + lane * 4 + k % 4] >> (within / 4 * 2) & 3) << 4;
}

/* With factors: where the group of block `block` begins in a panel: its f16 scales. */
static inline uint64_t tn_layout_group_at(tn_layout_shape shape, uint32_t block) {
  uint64_t bytes = tn_layout_quant_bytes(shape) + tn_layout_scale_bytes(shape);
  return block / TN_GROUP_BLOCKS * TN_GROUP_BLOCKS * bytes;
}

/* Where the scales (with factors: the factors) and the quants of block `block` begin in a panel. */
static inline uint64_t tn_layout_scales_at(tn_layout_shape shape, uint32_t block) {
  uint64_t quants = tn_layout_quant_bytes(shape), scales = tn_layout_scale_bytes(shape);
  if (shape.factors)
    return tn_layout_group_at(shape, block) + TN_GROUP_SCALE_BYTES + block % TN_GROUP_BLOCKS * TN_PANEL_ROWS * 2u;
  if (scales >= 64) return block * (quants + scales);
  return block / 2 * (2 * quants + 64) + block % 2 * scales;
}
static inline uint64_t tn_layout_quants_at(tn_layout_shape shape, uint32_t block) {
  uint64_t quants = tn_layout_quant_bytes(shape), scales = tn_layout_scale_bytes(shape);
  if (shape.factors)
    return tn_layout_group_at(shape, block) + TN_GROUP_BLOCKS * scales + block % TN_GROUP_BLOCKS * quants;
  if (scales >= 64) return block * (quants + scales) + scales;
  return block / 2 * (2 * quants + 64) + 64 + block % 2 * quants;
}

/* A packed matrix: sizes of its parts. */
typedef struct tn_matrix {
  uint32_t kind; /* tn_layout_kind */
  bool gated;
  uint32_t rows, columns; /* N (of a gated one: of gate and value together) and K */
  uint32_t panels;        /* of a gated one: pairs times two */
  uint64_t panel_bytes;
} tn_matrix;

static inline tn_matrix tn_matrix_of(uint32_t layout_id, uint32_t rows, uint32_t columns) {
  tn_matrix m = {
      .kind = layout_id & 0xffu, .gated = (layout_id & TN_LAYOUT_GATED) != 0, .rows = rows, .columns = columns};
  tn_layout_shape shape = tn_layout_shape_of(m.kind);
  uint32_t half = m.gated ? rows / 2 : rows;
  m.panels = (uint32_t)(((uint64_t)half + TN_PANEL_ROWS - 1) / TN_PANEL_ROWS) * (m.gated ? 2u : 1u);
  uint64_t blocks = columns / TN_BLOCK;
  if (shape.step_bytes)
    m.panel_bytes = ((uint64_t)columns * TN_PANEL_ROWS * shape.step_bytes + 63) / 64 * 64; /* BF16: whole pairs */
  else
    m.panel_bytes = blocks * tn_layout_quant_bytes(shape) + (blocks * tn_layout_scale_bytes(shape) + 63) / 64 * 64;
  return m;
}

/* Number of the value of column `k`, lane `lane` in a panel of a float layout. */
static inline uint64_t tn_layout_float_at(uint32_t kind, uint32_t lane, uint32_t k) {
  if (kind == TN_LAYOUT_BF16) return (uint64_t)(k / 2) * 2 * TN_PANEL_ROWS + lane * 2 + k % 2;
  return (uint64_t)k * TN_PANEL_ROWS + lane;
}

/* Where row `row` of the matrix lies. */
static inline void tn_matrix_place(const tn_matrix *m, uint32_t row, uint32_t *panel, uint32_t *lane) {
  uint32_t half = m->rows / 2, second = m->gated && row >= half, within = second ? row - half : row;
  *lane = within % TN_PANEL_ROWS;
  *panel = m->gated ? within / TN_PANEL_ROWS * 2 + second : within / TN_PANEL_ROWS;
}

#endif
