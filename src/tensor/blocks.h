/* The quantised block formats, as they lie in files, bit for bit. All but MXFP6 are those of GGUF; MX formats follow
 * the OCP Microscaling Formats specification (which leaves the order of the bits to us for MXFP6).
 *
 * How to read the diagrams: bytes go from left to right, `lo` and `hi` are the halves of a byte, `j` counts bytes
 * within the field, and what stands below a half is the number of the element it belongs to. d and m are f16 numbers
 * unless said otherwise; x is the value of an element, q its integer. */
#ifndef TENON_TENSOR_BLOCKS_H
#define TENON_TENSOR_BLOCKS_H

#include "tensor/dtype.h"

/* No padding and no alignment: blocks follow each other at any address. */
#define TN_PACKED __attribute__((packed))

/* ---- 32 elements a block ---- */

/* x = d q, q = -128..127
 *   | d | q0 q1 .. q31 |                                 34 bytes, 8.5 bits an element */
typedef struct TN_PACKED tn_block_q8_0 {
  uint16_t d;
  int8_t qs[32];
} tn_block_q8_0;

/* x = d (q - 8), q = 0..15
 *   | d | byte j: lo  hi   |                             18 bytes, 4.5 bits
 *                 j   j+16                              */
typedef struct TN_PACKED tn_block_q4_0 {
  uint16_t d;
  uint8_t qs[16];
} tn_block_q4_0;

/* x = d q + m, q = 0..15; nibbles as in Q4_0
 *   | d | m | nibbles |                                  20 bytes, 5 bits */
typedef struct TN_PACKED tn_block_q4_1 {
  uint16_t d, m;
  uint8_t qs[16];
} tn_block_q4_1;

/* x = d (q - 16), q = 0..31; the low four bits as in Q4_0, the fifth of element j is bit j of the little-endian qh
 *   | d | qh, 32 bits | nibbles |                        22 bytes, 5.5 bits */
typedef struct TN_PACKED tn_block_q5_0 {
  uint16_t d;
  uint32_t qh;
  uint8_t qs[16];
} tn_block_q5_0;

/* x = d q + m, q = 0..31 as in Q5_0
 *   | d | m | qh, 32 bits | nibbles |                    24 bytes, 6 bits */
typedef struct TN_PACKED tn_block_q5_1 {
  uint16_t d, m;
  uint32_t qh;
  uint8_t qs[16];
} tn_block_q5_1;

/* x = d table[q], table of 16 uneven steps (TN_IQ4_VALUES); nibbles as in Q4_0
 *   | d | nibbles |                                      18 bytes, 4.5 bits */
typedef struct TN_PACKED tn_block_iq4_nl {
  uint16_t d;
  uint8_t qs[16];
} tn_block_iq4_nl;

/* x = 2^(e - 127) v, v an E2M1 number: s ee m, values 0 .5 1 1.5 2 3 4 6; nibbles as in Q4_0
 *   | e | nibbles |                                      17 bytes, 4.25 bits */
typedef struct TN_PACKED tn_block_mxfp4 {
  uint8_t e;
  uint8_t qs[16];
} tn_block_mxfp4;

/* x = 2^(e - 127) v, v an E2M3 number: s ee mmm, bias 1, largest 7.5. The low four bits of each number (e mmm)
 * are nibbles as in Q4_0, the upper two (s e) pairs of bits:
 *   | e | nibbles | byte j: bits 10  32  54   76  |      25 bytes, 6.25 bits
 *                                j   j+8 j+16 j+24     */
typedef struct TN_PACKED tn_block_mxfp6 {
  uint8_t e;
  uint8_t qs[16];
  uint8_t qh[8];
} tn_block_mxfp6;

/* ---- 256 elements a block: eight groups of 32 or sixteen of 16 with scales of their own ---- */

/* x = d S q - m M, q = 0..3; byte g of `scales` holds S (lo) and M (hi) of the 16 elements from 16 g
 *   | scales, 16 | half h (32 bytes), byte j: bits 10       32     54     76    | d | m |     84 bytes, 2.625 bits
 *                                             128h + j  + 32   + 64   + 96                   */
typedef struct TN_PACKED tn_block_q2_k {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d, m;
} tn_block_q2_k;

/* x = d (S - 32) (q - 4), q = 0..7: the low two bits as in Q2_K, the third of element 32 k + j is bit k of byte j
 * of `hmask`. S of group g (16 elements), 6 bits in 12 bytes:
 *   low 4 bits:  byte g % 8, lo for g < 8, hi for the others
 *   high 2 bits: byte 8 + g % 4, bits 2 (g / 4) and up
 *   | hmask, 32 | qs, 64 | scales, 12 | d |              110 bytes, 3.4375 bits */
typedef struct TN_PACKED tn_block_q3_k {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
} tn_block_q3_k;

/* x = d S q - m M, q = 0..15, S and M (6 bits) of the 32 elements from 32 g in 12 bytes:
 *   byte g      (g < 4): bits 5..0 S[g],          bits 7..6 high bits of S[g + 4]
 *   byte g + 4  (g < 4): bits 5..0 M[g],          bits 7..6 high bits of M[g + 4]
 *   byte g + 8  (g < 4): lo: low bits of S[g + 4]  hi: low bits of M[g + 4]
 *   | d | m | scales, 12 | quarter k (32 bytes), byte j: lo      hi      |   144 bytes, 4.5 bits
 *                                                        64k + j + 32     */
typedef struct TN_PACKED tn_block_q4_k {
  uint16_t d, m;
  uint8_t scales[12];
  uint8_t qs[128];
} tn_block_q4_k;

/* As Q4_K with q = 0..31; the fifth bit of element 32 g + j is bit g of byte j of qh
 *   | d | m | scales, 12 | qh, 32 | nibbles as in Q4_K |   176 bytes, 5.5 bits */
typedef struct TN_PACKED tn_block_q5_k {
  uint16_t d, m;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
} tn_block_q5_k;

/* x = d S (q - 32), q = 0..63, S an int8 for the 16 elements from 16 g. For each half h (128 elements):
 *   ql, 64 bytes:  byte j:      lo 128h + j        hi 128h + 64 + j
 *   qh, 32 bytes:  byte j: bits 10 128h + j   32 + 32   54 + 64   76 + 96
 *   | ql, 128 | qh, 64 | scales, 16 | d |                  210 bytes, 6.5625 bits */
typedef struct TN_PACKED tn_block_q6_k {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
} tn_block_q6_k;

/* x = d (S - 32) table[q] with the table of IQ4_NL; S of group g (32 elements) has its low 4 bits in scales_l, byte g /
 * 2, lo for even g, and its high 2 bits in scales_h, bits 2 g and up | d | scales_h, 16 bits | scales_l, 4 | group g
 * (16 bytes), byte j: lo      hi     |   136 bytes, 4.25 bits 32g + j + 16    */
typedef struct TN_PACKED tn_block_iq4_xs {
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
} tn_block_iq4_xs;

/* The steps of IQ4_NL and IQ4_XS. */
#define TN_IQ4_VALUES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

#endif
