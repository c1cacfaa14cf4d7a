/* What targets with vectors of four lanes share: a vf and a vi are four of them, in the compiler's own vector types.
 * See simd.h for what each primitive means; portable.h and neon.h add the rest. */
#ifndef TENON_KERNELS_SIMD_QUARTERS_H
#define TENON_KERNELS_SIMD_QUARTERS_H

#include <stddef.h>
#include <stdint.h>

typedef float tn_f4 __attribute__((vector_size(16)));
typedef int32_t tn_i4 __attribute__((vector_size(16)));
typedef uint32_t tn_u4 __attribute__((vector_size(16)));

typedef struct vf {
  tn_f4 a, b, c, d;
} vf;
typedef struct vi {
  tn_i4 a, b, c, d;
} vi;

/* `expression` of the quarter Q of each operand, for all four quarters. */
#define TN_QUARTERS(type, expression)                          \
  (type) {                                                     \
    expression(a), expression(b), expression(c), expression(d) \
  }

static inline vf vf_set1(float x) {
  tn_f4 v = {x, x, x, x};
  return (vf){v, v, v, v};
}
static inline vf vf_zero(void) {
  return vf_set1(0.0f);
}
static inline vf vf_load(const float *p) {
  vf x;
  __builtin_memcpy(&x.a, p, 16);
  __builtin_memcpy(&x.b, p + 4, 16);
  __builtin_memcpy(&x.c, p + 8, 16);
  __builtin_memcpy(&x.d, p + 12, 16);
  return x;
}
static inline void vf_store(float *p, vf x) {
  __builtin_memcpy(p, &x.a, 16);
  __builtin_memcpy(p + 4, &x.b, 16);
  __builtin_memcpy(p + 8, &x.c, 16);
  __builtin_memcpy(p + 12, &x.d, 16);
}
static inline vf vf_load_part(const float *p, size_t n) {
  float whole[16] = {0};
  for (size_t i = 0; i < n; i++) whole[i] = p[i];
  return vf_load(whole);
}
static inline void vf_store_part(float *p, size_t n, vf x) {
  float whole[16];
  vf_store(whole, x);
  for (size_t i = 0; i < n; i++) p[i] = whole[i];
}
static inline vf vf_add(vf x, vf y) {
#define EACH(q) x.q + y.q
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
static inline vf vf_sub(vf x, vf y) {
#define EACH(q) x.q - y.q
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
static inline vf vf_mul(vf x, vf y) {
#define EACH(q) x.q *y.q
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
static inline vf vf_div(vf x, vf y) {
#define EACH(q) x.q / y.q
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
static inline vf vf_bits(vi x) {
#define EACH(q) (tn_f4) x.q
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
static inline vi vi_bits(vf x) {
#define EACH(q) (tn_i4) x.q
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vf_less(vf x, vf y) {
#define EACH(q) x.q < y.q
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_set1(int32_t x) {
  tn_i4 v = {x, x, x, x};
  return (vi){v, v, v, v};
}
static inline vi vi_zero(void) {
  return vi_set1(0);
}
static inline vi vi_load(const void *p) {
  vi x;
  const char *bytes = (const char *)p;
  __builtin_memcpy(&x.a, bytes, 16);
  __builtin_memcpy(&x.b, bytes + 16, 16);
  __builtin_memcpy(&x.c, bytes + 32, 16);
  __builtin_memcpy(&x.d, bytes + 48, 16);
  return x;
}
static inline void vi_store(void *p, vi x) {
  char *bytes = (char *)p;
  __builtin_memcpy(bytes, &x.a, 16);
  __builtin_memcpy(bytes + 16, &x.b, 16);
  __builtin_memcpy(bytes + 32, &x.c, 16);
  __builtin_memcpy(bytes + 48, &x.d, 16);
}
static inline vi vi_add(vi x, vi y) {
#define EACH(q) x.q + y.q
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_sub(vi x, vi y) {
#define EACH(q) x.q - y.q
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_and(vi x, vi y) {
#define EACH(q) x.q &y.q
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_xor(vi x, vi y) {
#define EACH(q) x.q ^ y.q
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_shift_left(vi x, unsigned n) {
#define EACH(q) (tn_i4)((tn_u4)x.q << n)
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_shift_right(vi x, unsigned n) {
#define EACH(q) (tn_i4)((tn_u4)x.q >> n)
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vi vi_shift_right_signed(vi x, unsigned n) {
#define EACH(q) x.q >> (int)n
  return TN_QUARTERS(vi, EACH);
#undef EACH
}
static inline vf vf_abs(vf x) {
  return vf_bits(vi_and(vi_bits(x), vi_set1(0x7fffffff)));
}
static inline vi vi_first(size_t n) {
  int32_t whole[16];
  for (size_t i = 0; i < 16; i++) whole[i] = i < n ? -1 : 0;
  return vi_load(whole);
}

static inline vf vf_from_vi(vi x) {
#define EACH(q) __builtin_convertvector(x.q, tn_f4)
  return TN_QUARTERS(vf, EACH);
#undef EACH
}
static inline float vf_sum(vf x) {
  tn_f4 s = (x.a + x.c) + (x.b + x.d);
  return (s[0] + s[2]) + (s[1] + s[3]);
}
static inline int32_t vi_sum(vi x) {
  tn_i4 s = (x.a + x.c) + (x.b + x.d);
  return (s[0] + s[2]) + (s[1] + s[3]);
}

#endif
