/* Sums of bytes times 16-bit integers: how targets keep them (see simd.h for what each primitive means). A target says
 * which way before it includes this:
 *
 *   TN_WIDE_PAIRS   16-bit products: one vector of sums; it adds vw_add and vw_store
 *   TN_WIDE_SIGNED  signed bytes by signed bytes: an integer is 256 times one byte, its nearest multiple, plus another,
 *                   and each has sums of its own; it adds vw_add
 *   neither         unsigned by signed bytes: the same, in the dot products of bytes that the target has
 *
 * A target with a faster way of its own to split integers into bytes defines TN_OWN_WIDE_STORE and adds vw_store. */
#ifndef TENON_KERNELS_SIMD_WIDE_H
#define TENON_KERNELS_SIMD_WIDE_H

/* Bytes are stored plus 128: where they are taken as they are, sums begin with what that adds. */
static inline int32_t tn_wide_start(int32_t total) {
  return (int32_t)(0u - 128u * (uint32_t)total);
}

#if TN_WIDE_PAIRS
typedef vi vw;
static inline vw vw_begin(int32_t total) {
  return vi_set1(tn_wide_start(total));
}
static inline vi vw_end(vw acc) {
  return acc;
}
#elif TN_WIDE_SIGNED
typedef struct vw {
  vi high, low;
} vw;
static inline vw vw_begin(int32_t total) {
  (void)total;
  return (vw){vi_zero(), vi_zero()};
}
static inline vi vw_end(vw acc) {
  return vi_add(vi_shift_left(acc.high, 8), acc.low);
}
#else
typedef struct vw {
  vd high, low;
} vw;
static inline vw vw_begin(int32_t total) {
  return (vw){vd_begin(0), vd_begin(tn_wide_start(total))};
}
static inline vw vw_add(vw acc, vi w, const void *four) {
  const int8_t *bytes = (const int8_t *)four;
  return (vw){vd_add_bytes(acc.high, w, bytes), vd_add_bytes(acc.low, w, bytes + 4)};
}
static inline vi vw_end(vw acc) {
  return vi_add(vi_shift_left(vd_end_bytes(acc.high, 0), 8), vd_end_bytes(acc.low, 0));
}
#endif

#if !TN_WIDE_PAIRS && !defined(TN_OWN_WIDE_STORE)
static inline void vw_store(void *to, vi x) {
  int32_t whole[16];
  int8_t *bytes = (int8_t *)to;
  vi_store(whole, x);
  for (int i = 0; i < 16; i++) {
    int32_t high = (whole[i] + 128) >> 8;
    bytes[i / 4 * 8 + i % 4] = (int8_t)high;
    bytes[i / 4 * 8 + 4 + i % 4] = (int8_t)(whole[i] - high * 256);
  }
}
#endif

#endif
