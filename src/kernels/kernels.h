/* The fast kernels of one instruction set, as a device driver sees them. */
#ifndef TENON_KERNELS_KERNELS_H
#define TENON_KERNELS_KERNELS_H

#include "tenon/driver.h"

typedef struct tn_kernel_set {
  const char *name; /* "portable", "avx512vnni", "neon-i8mm", ... */
  const tn_kernel_table *table;
  /* Bytes of workspace that the op needs for each of `workers` workers, for sequences of up to `context` positions. */
  uint64_t (*workspace)(const tn_op_query *query, uint32_t context, uint32_t workers);
  /* Run `rounds` rounds of nothing but integer dot products (float fma, products of bf16 pairs) in registers and return
   * how many operations (multiplications and additions) that was: what the peaks are measured with; 0 where the
   * processor has no such instruction. `sink` keeps the result alive. */
  uint64_t (*spin_int8)(uint64_t rounds, int32_t *sink);
  uint64_t (*spin_f32)(uint64_t rounds, float *sink);
  uint64_t (*spin_bf16)(uint64_t rounds, float *sink);
  /* Reads `bytes` (a multiple of 1024) at `data` once. */
  void (*spin_read)(const void *data, uint64_t bytes, int32_t *sink);
} tn_kernel_set;

const tn_kernel_set *tn_kernel_set_portable(void);
#if defined(__x86_64__)
const tn_kernel_set *tn_kernel_set_avx2(void);
const tn_kernel_set *tn_kernel_set_avxvnni(void);
const tn_kernel_set *tn_kernel_set_avx512vnni(void);
#elif defined(__hexagon__)
const tn_kernel_set *tn_kernel_set_hvx(void);
#elif defined(__aarch64__)
const tn_kernel_set *tn_kernel_set_neon(void);
const tn_kernel_set *tn_kernel_set_neon_dotprod(void);
const tn_kernel_set *tn_kernel_set_neon_i8mm(void);
#endif

#endif
