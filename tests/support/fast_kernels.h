/* Help for tests of the fast kernels: every set that this machine runs, buffers that end at a page nobody may touch,
 * and weights packed both ways. */
#ifndef TENON_TESTS_FAST_KERNELS_H
#define TENON_TESTS_FAST_KERNELS_H

#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "base/os.h"
#include "device/cpu/pool.h"
#include "kernels/kernels.h"
#include "kernels/pack/pack.h"
#include "support/kernel_call.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

#define MAX_SETS 8

/* Of 1, 2 and 3 workers, from make_pools to end_pools: what a group of tests begins and ends with. */
static tn_pool *pools[3];

static inline int make_pools(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 3; i++)
    if (!(pools[i] = tn_pool_create(i + 1))) return -1;
  return 0;
}

static inline int end_pools(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 3; i++) tn_pool_destroy(pools[i]);
  return 0;
}

static inline uint32_t fast_sets(const tn_kernel_set *sets[MAX_SETS]) {
  uint32_t count = 0;
  sets[count++] = tn_kernel_set_portable();
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets[count++] = tn_kernel_set_avx2();
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"))
    sets[count++] = tn_kernel_set_avx512vnni();
#elif defined(__aarch64__)
  sets[count++] = tn_kernel_set_neon();
  if (tn_machine_has(TN_CPU_DOTPROD)) sets[count++] = tn_kernel_set_neon_dotprod();
  if (tn_machine_has(TN_CPU_I8MM)) sets[count++] = tn_kernel_set_neon_i8mm();
#endif
  return count;
}

/* Every guarded mapping, so that those made since a mark can go. */
#define MAX_GUARDED 20000
static struct {
  void *base[MAX_GUARDED];
  size_t bytes[MAX_GUARDED], count;
} guarded_list;

/* `bytes` bytes, aligned to 4 (to 64 if bytes is a multiple of it), whose end is the end of what may be touched.
 * Filled with 0xff: NaNs as floats. */
static inline void *guarded(size_t bytes) {
  size_t pages = (bytes + 4095) / 4096 + 1, total = (pages + 1) * 4096;
  uint8_t *base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || guarded_list.count == MAX_GUARDED) abort();
  memset(base, 0xff, pages * 4096);
  mprotect(base + pages * 4096, 4096, PROT_NONE);
  guarded_list.base[guarded_list.count] = base;
  guarded_list.bytes[guarded_list.count++] = total;
  return base + pages * 4096 - (bytes + 3) / 4 * 4;
}

/* Unmaps what was made when fewer than `mark` mappings were there: mark = guarded_list.count of then. */
static inline void release_guarded(size_t mark) {
  while (guarded_list.count > mark) {
    guarded_list.count--;
    munmap(guarded_list.base[guarded_list.count], guarded_list.bytes[guarded_list.count]);
  }
}

/* A matrix operand in guarded memory of its own. */
static inline tn_tensor guarded_matrix(uint32_t dtype, uint32_t rows, uint32_t cols) {
  tn_tensor tensor = matrix_of(NULL, dtype, rows, cols);
  tensor.data = guarded(rows * tensor.row_bytes);
  return tensor;
}

static inline void copy_rows(tn_tensor *to, const tn_tensor *from) {
  memcpy(to->data, from->data, to->row_bytes * (to->rank > 1 ? to->dims[0] : 1));
}

/* Random blocks of any format, with scales near 1/16 so that no sum overflows. */
static inline void random_weights(test_random *random, uint32_t dtype, uint8_t *to, size_t bytes) {
  size_t block = tn_dtype_block_bytes((tn_dtype)dtype);
  for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)random_u32(random);
  for (size_t at = 0; at < bytes; at += block) {
    uint16_t d = tn_f32_to_f16(random_float(random, 0.0625f)), m = tn_f32_to_f16(random_float(random, 0.5f));
    float value = random_float(random, 1);
    double wide = (double)value;
    switch (dtype) {
      case TN_F32: memcpy(to + at, &value, 4); break;
      case TN_F64: memcpy(to + at, &wide, 8); break;
      case TN_F16: memcpy(to + at, &m, 2); break;
      case TN_BF16: m = tn_f32_to_bf16(value), memcpy(to + at, &m, 2); break;
      case TN_F8_E4M3:
      case TN_F8_E5M2: to[at] &= 0xb7; break; /* no NaN */
      case TN_Q4_1:
      case TN_Q5_1:
      case TN_Q4_K:
      case TN_Q5_K: memcpy(to + at, &d, 2), memcpy(to + at + 2, &m, 2); break;
      case TN_Q2_K: memcpy(to + at + block - 4, &d, 2), memcpy(to + at + block - 2, &m, 2); break;
      case TN_Q3_K:
      case TN_Q6_K: memcpy(to + at + block - 2, &d, 2); break;
      case TN_MXFP4:
      case TN_MXFP6: to[at] = (uint8_t)(120 + to[at] % 8); break;
      default: memcpy(to + at, &d, 2); break;
    }
  }
}

/* A weight of one source, packed for the reference kernels and for the fast ones. */
typedef struct two_weights {
  tn_tensor plain, fast;
} two_weights;

static inline tn_tensor pack_fast(const tn_weight_desc *desc, const tn_weight_source *sources, uint32_t count,
                                  const tn_parallel *parallel) {
  const char *why;
  tn_weight_layout layout;
  tn_tensor tensor = {.dtype = desc->dtype, .rank = desc->rank, .kind = TN_VALUE_WEIGHT};
  for (uint32_t i = 0; i < desc->rank; i++) tensor.dims[i] = (uint32_t)desc->dims[i];
  if (tn_packed_layout(desc, &layout, &why) != TN_OK) abort();
  tensor.data = guarded(layout.bytes);
  tensor.layout = layout.id;
  if (tn_packed_pack(desc, &layout, sources, count, tensor.data, parallel, &why) != TN_OK) {
    fprintf(stderr, "%s\n", why);
    abort();
  }
  return tensor;
}

static inline two_weights random_matrix(test_random *random, uint32_t dtype, uint32_t rows, uint32_t cols,
                                        uint32_t uses, const tn_parallel *parallel) {
  size_t bytes = rows * tn_row_bytes(dtype, cols);
  uint8_t *stored = guarded(bytes);
  random_weights(random, dtype, stored, bytes);
  tn_weight_desc desc = {.size = sizeof desc, .dtype = dtype, .rank = 2, .uses = uses, .dims = {rows, cols}};
  tn_weight_source source = {.size = sizeof source,
                             .dtype = dtype,
                             .data = stored,
                             .rows = rows,
                             .cols = cols,
                             .row_count = rows,
                             .col_count = cols};
  return (two_weights){weight_of(stored, dtype, rows, cols), pack_fast(&desc, &source, 1, parallel)};
}

/* Runs a fast kernel on a pool with a workspace of `bytes` a worker, filled with NaNs. */
static inline tn_status run_fast(const tn_kernel_set *set, tn_kernel_call *call, tn_pool *pool, uint64_t bytes) {
  call->parallel = tn_pool_parallel(pool);
  call->workspace_bytes = (bytes + 127) / 64 * 64;
  size_t mark = guarded_list.count;
  call->workspace = guarded(call->workspace_bytes * call->parallel->workers);
  tn_status status = set->table->kernel[call->opcode](call);
  release_guarded(mark);
  return status;
}

static inline double float_error(const float *got, const float *want, size_t count) {
  double difference = 0, power = 0;
  for (size_t i = 0; i < count; i++) {
    difference += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    power += (double)want[i] * (double)want[i];
  }
  return power > 0 ? difference / power : difference;
}

#endif
