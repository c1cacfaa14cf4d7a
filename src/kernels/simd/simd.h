/* The vector layer that the fast kernels are written over.
 *
 * One logical width everywhere: a `vf` is 16 floats, a `vi` is 16 int32, whatever registers the target has, because the
 * compute layouts interleave 16 rows (kernels/layout.h). One header per instruction set defines these primitives;
 * cmake/kernels.cmake compiles the kernels once for each. A new target is a new header with the same functions:
 *
 *   vf_set1 vf_zero vf_load vf_store             16 floats, no alignment needed
 *   vf_load_part vf_store_part                   the first n of 16 (0 <= n <= 16): nothing beyond is touched, lanes are
 * 0 vf_add vf_sub vf_mul vf_div vf_max vf_min vf_abs vf_fma(a, b, c)                              a * b + c, rounded
 * once where the target can, always the same way vf_load_f16 vf_load_bf16 vf_store_f16 vf_store_bf16   16 halves;
 * stores round to nearest even, and keep NaN vf_from_vi, vi_round                         convert; round to nearest
 * even, for |x| < 2^22 vf_bits, vi_bits                             the same bits as the other type vf_less(a, b),
 * vf_select(mask, a, b), vi_first(n)   masks are vi with lanes 0 or -1 vf_sum, vf_largest, vi_sum, vi_largest       of
 * all lanes, in a fixed order vi_set1 vi_zero vi_load vi_store vi_add vi_sub vi_max vi_and vi_xor vi_shift_left
 * vi_shift_right (logical) vi_shift_right_signed vi_load_u8 vi_load_i8 vi_store_i8            16 bytes widened,
 * narrowed vi_dot(acc, w, four)                         acc[l] += sum over j < 4 of (uint8)w[l].byte[j] *
 * (int8)four[j]; exact vi_dot_nibbles                               the same for bytes of w below 16 (targets may have
 * a faster way) tn_prefetch(address)
 *
 *   TN_TILE_ROWS      rows of activations that a matrix tile keeps in registers
 *   TN_FLOAT_ROWS     ... that the float tile of TN_FLOAT_PANELS panels keeps */
#ifndef TENON_KERNELS_SIMD_H
#define TENON_KERNELS_SIMD_H

#include <stddef.h>
#include <stdint.h>

#if TN_ISA_avx512vnni
#include "kernels/simd/avx512vnni.h"
#else
#include "kernels/simd/portable.h"
#endif

#define TN_LANES 16u
/* Forced inlining: tile kernels are plain functions of their sizes, made constant by the caller. */
#define TN_INLINE static inline __attribute__((always_inline))

/* A name of its own for each instruction set: tn_linear -> tn_linear_avx512vnni. */
#define TN_PASTE(a, b) a##_##b
#define TN_PASTE_EXPANDED(a, b) TN_PASTE(a, b)
#define TN_FOR_ISA(name) TN_PASTE_EXPANDED(name, TN_ISA)

#endif
