/* The vector layer that the fast kernels are written over.
 *
 * One logical width everywhere: a `vf` is 16 floats, a `vi` is 16 int32, whatever registers the target has, because the
 * compute layouts interleave 16 rows (kernels/layout.h). One header per instruction set defines these primitives;
 * cmake/kernels.cmake compiles the kernels once for each. A new target is a new header with the same functions.
 *
 * Floats
 *   vf_set1 vf_zero vf_load vf_store: 16 floats, no alignment needed
 *   vf_load_part vf_store_part: the first n of 16 (0 <= n <= 16); nothing beyond is touched, lanes are 0
 *   vf_add vf_sub vf_mul vf_div vf_max vf_min vf_abs; of max and min the second where one is NaN
 *   vf_fma(a, b, c): a * b + c, rounded once where the target can, always the same way
 *   vf_fma_one(a, one, c): vf_fma(a, vf_set1(*one), c)
 *   vf_load_f16 vf_load_bf16 vf_store_f16 vf_store_bf16: 16 halves; stores round to nearest even, and keep NaN
 *   vf_load_i8: 16 signed bytes
 *   vf_copy(to, from): 16 floats from one place to another that doesn't overlap it
 *   vf_sum: of all lanes, in a fixed order
 * Integers
 *   vi_set1 vi_zero vi_load vi_store vi_add vi_sub vi_max vi_and vi_xor
 *   vi_shift_left vi_shift_right (logical) vi_shift_right_signed; vi_store_i8: narrows to 16 bytes
 *   vi_sum, vi_largest: of all lanes
 *   vi_look_up(table, x): each byte of x, below 16, becomes table[it]
 * Between them
 *   vf_from_vi, vi_round: convert; round to nearest even, for |x| < 2^22
 *   vf_bits, vi_bits: the same bits as the other type
 *   vf_less(a, b), vi_first(n), vf_select(mask, a, b): masks are vi with lanes 0 or -1
 *   vf_largest: of all lanes, for numbers
 * Dot products of bytes; a target with TN_TILE_QUARTERS has none of these but a tile of its own (linear_quarters.h)
 *   vd: sums under way, at most eight additions between begin and end
 *   vd_begin(start), vd_add_bytes(acc, w, four): adds sum over j < 4 of (uint8)w[l].byte[j] * (int8)four[j] to lane l
 *   vd_end_bytes(acc, start): the sums plus start, which is given twice so that each target may take it where it likes
 *   vd_add_nibbles, vd_end_nibbles: the same for bytes of w below 16, at which most targets are faster
 *   All exact, for `four` in -127..127.
 * Dot products of bytes with 16-bit integers
 *   vw: sums under way
 *   vw_store(to, x): 16 integers of magnitude TN_WIDE_MOST at most, in 32 bytes, as vw_add takes them: four in 8 bytes
 *   vw_begin(total), vw_add(acc, w, four): adds sum over j < 4 of ((uint8)w[l].byte[j] - 128) * four[j] to lane l,
 * where `total` is the sum of all integers that are going to be added; vw_end(acc): the sums. All exact, modulo 2^32.
 * tn_prefetch(address), tn_prefetch_far(address): into the first, and only into the second cache
 *
 * And what fits its registers
 *   TN_TILE_ROWS: rows of activations in a matrix tile, at most 12 (linear_hvx.c: 64)
 *   TN_WEIGHTS_IN_REGISTERS: 1: a block's weights stay in registers while rows go by; 0: the rows' sums stay
 *   TN_TILE_QUARTERS: 1: vectors have four lanes and tiles take a panel a quarter at a time; with it
 *     TN_SLAB_PAIRS: 1: two rows of activations at once; TN_SIGNED_BYTES: 1: bytes of weights are used as q - 128
 *   TN_FLOAT_ROWS, TN_FLOAT_PANELS: rows, at most 6, and panels, 1 or 2, of a float tile
 *   TN_QUERIES: queries, at most 6, that attention takes together
 *   TN_QUERY_SUMS: vectors of sums that its loops keep in registers, at least two a query */
#ifndef TENON_KERNELS_SIMD_H
#define TENON_KERNELS_SIMD_H

#include <stddef.h>
#include <stdint.h>

#if TN_ISA_avx512vnni
#include "kernels/simd/avx512vnni.h"
#elif TN_ISA_avxvnni
#include "kernels/simd/avxvnni.h"
#elif TN_ISA_avx2
#include "kernels/simd/avx2.h"
#elif TN_ISA_hvx
#include "kernels/simd/hvx.h"
#elif TN_ISA_neon || TN_ISA_neon_dotprod || TN_ISA_neon_i8mm
#include "kernels/simd/neon.h"
#else
#include "kernels/simd/portable.h"
#endif

#define TN_LANES 16u
#define TN_WIDE_MOST 32639 /* 127 * 256 + 127 */
#ifndef TN_WIDE_SUMS
#define TN_WIDE_SUMS TN_QUERY_SUMS
#endif
#ifndef TN_OWN_FMA_ONE
static inline vf vf_fma_one(vf a, const float *one, vf c) {
  return vf_fma(a, vf_set1(*one), c);
}
#endif
#ifndef TN_OWN_COPY
static inline void vf_copy(float *to, const float *from) {
  vf_store(to, vf_load(from));
}
#endif
/* Forced inlining: tile kernels are plain functions of their sizes, made constant by the caller. */
#define TN_INLINE static inline __attribute__((always_inline))

/* A name of its own for each instruction set: tn_linear -> tn_linear_avx512vnni. */
#define TN_PASTE(a, b) a##_##b
#define TN_PASTE_EXPANDED(a, b) TN_PASTE(a, b)
#define TN_FOR_ISA(name) TN_PASTE_EXPANDED(name, TN_ISA)

#endif
