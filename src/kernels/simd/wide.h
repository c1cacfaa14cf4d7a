/* Sums of bytes times 16-bit integers, on targets that multiply bytes by bytes: an integer is 256 times one byte, its
 * nearest multiple, plus another, both signed, and each has sums of its own. See simd.h for what each primitive means.
 */
#ifndef TENON_KERNELS_SIMD_WIDE_H
#define TENON_KERNELS_SIMD_WIDE_H

typedef struct vw {
  vd high, low;
} vw;
static inline vw vw_begin(int32_t total) {
  return (vw){vd_begin(0), vd_begin((int32_t)(0u - 128u * (uint32_t)total))};
}
static inline vw vw_add(vw acc, vi w, const void *four) {
  const int8_t *bytes = (const int8_t *)four;
  return (vw){vd_add_bytes(acc.high, w, bytes), vd_add_bytes(acc.low, w, bytes + 4)};
}
static inline vi vw_end(vw acc) {
  return vi_add(vi_shift_left(vd_end_bytes(acc.high, 0), 8), vd_end_bytes(acc.low, 0));
}
#ifndef TN_OWN_WIDE_STORE
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
