/* What the compiler expects of a C library and doesn't find here: memory, integer division, floats that the processor
 * has no instruction for. Compiled without builtins, so that none of these becomes a call of itself. */
#include <stddef.h>
#include <stdint.h>

/* ---- memory ---- */

typedef uint64_t eight __attribute__((may_alias));

void *memset(void *to, int byte, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);

void *memset(void *to, int byte, size_t bytes) {
  uint8_t *at = to;
  for (; bytes && (uintptr_t)at % 8; bytes--) *at++ = (uint8_t)byte;
  const uint64_t pattern = (uint8_t)byte * UINT64_C(0x0101010101010101);
  for (; bytes >= 8; bytes -= 8, at += 8) *(eight *)(void *)at = pattern;
  for (; bytes; bytes--) *at++ = (uint8_t)byte;
  return to;
}

void *memcpy(void *to, const void *from, size_t bytes) {
  uint8_t *at = to;
  const uint8_t *source = from;
  if (((uintptr_t)at ^ (uintptr_t)source) % 8 == 0) {
    for (; bytes && (uintptr_t)at % 8; bytes--) *at++ = *source++;
    for (; bytes >= 8; bytes -= 8, at += 8, source += 8) *(eight *)(void *)at = *(const eight *)(const void *)source;
  }
  for (; bytes; bytes--) *at++ = *source++;
  return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
  uint8_t *at = to;
  const uint8_t *source = from;
  if (at <= source || at >= source + bytes) return memcpy(to, from, bytes);
  while (bytes--) at[bytes] = source[bytes];
  return to;
}

int memcmp(const void *a, const void *b, size_t bytes) {
  const uint8_t *x = a, *y = b;
  for (; bytes; bytes--, x++, y++)
    if (*x != *y) return *x < *y ? -1 : 1;
  return 0;
}

/* The compiler's own memcpy of at least 32 bytes, a multiple of 8, likely aligned. */
void __hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void *to, const void *from, size_t bytes);
void __hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
}

/* ---- integer division: shift and subtract ---- */

typedef struct quotient32 {
  uint32_t quotient, rest;
} quotient32;
typedef struct quotient64 {
  uint64_t quotient, rest;
} quotient64;

static inline quotient32 divide32(uint32_t a, uint32_t b) {
  quotient32 r = {0, a};
  if (!b || a < b) return r;
  int shift = __builtin_clz(b) - __builtin_clz(a);
  b <<= shift;
  for (; shift >= 0; shift--, b >>= 1) {
    r.quotient <<= 1;
    if (r.rest < b) continue;
    r.rest -= b;
    r.quotient |= 1;
  }
  return r;
}

static inline quotient64 divide64(uint64_t a, uint64_t b) {
  quotient64 r = {0, a};
  if (!b || a < b) return r;
  if (!(a >> 32)) {
    quotient32 small = divide32((uint32_t)a, (uint32_t)b);
    return (quotient64){small.quotient, small.rest};
  }
  int shift = __builtin_clzll(b) - __builtin_clzll(a);
  b <<= shift;
  for (; shift >= 0; shift--, b >>= 1) {
    r.quotient <<= 1;
    if (r.rest < b) continue;
    r.rest -= b;
    r.quotient |= 1;
  }
  return r;
}

static inline uint32_t magnitude32(int32_t x) {
  return x < 0 ? 0 - (uint32_t)x : (uint32_t)x;
}
static inline uint64_t magnitude64(int64_t x) {
  return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b);
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b);
int32_t __hexagon_divsi3(int32_t a, int32_t b);
int32_t __hexagon_modsi3(int32_t a, int32_t b);
uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b);
uint64_t __hexagon_umoddi3(uint64_t a, uint64_t b);
int64_t __hexagon_divdi3(int64_t a, int64_t b);
int64_t __hexagon_moddi3(int64_t a, int64_t b);

uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b) {
  return divide32(a, b).quotient;
}
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b) {
  return divide32(a, b).rest;
}
int32_t __hexagon_divsi3(int32_t a, int32_t b) {
  uint32_t quotient = divide32(magnitude32(a), magnitude32(b)).quotient;
  return (int32_t)((a ^ b) < 0 ? 0 - quotient : quotient);
}
int32_t __hexagon_modsi3(int32_t a, int32_t b) {
  uint32_t rest = divide32(magnitude32(a), magnitude32(b)).rest;
  return (int32_t)(a < 0 ? 0 - rest : rest);
}
uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b) {
  return divide64(a, b).quotient;
}
uint64_t __hexagon_umoddi3(uint64_t a, uint64_t b) {
  return divide64(a, b).rest;
}
int64_t __hexagon_divdi3(int64_t a, int64_t b) {
  uint64_t quotient = divide64(magnitude64(a), magnitude64(b)).quotient;
  return (int64_t)((a ^ b) < 0 ? 0 - quotient : quotient);
}
int64_t __hexagon_moddi3(int64_t a, int64_t b) {
  uint64_t rest = divide64(magnitude64(a), magnitude64(b)).rest;
  return (int64_t)(a < 0 ? 0 - rest : rest);
}
