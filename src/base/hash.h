/* A fast 64-bit hash for tables and fingerprints of data in memory: not cryptographic. The same bytes give the same
 * value on every little-endian machine. */
#ifndef TENON_BASE_HASH_H
#define TENON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Both halves of the 128-bit product, folded: one multiplication mixes all 128 input bits. */
static inline uint64_t tn_hash_mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t tn_hash_bytes(const void *data, size_t bytes, uint64_t seed) {
  const unsigned char *p = data;
  uint64_t hash = seed ^ UINT64_C(0x9e3779b97f4a7c15) ^ bytes;
  uint64_t a = 0, b = 0;
  for (; bytes > 16; p += 16, bytes -= 16) {
    memcpy(&a, p, 8);
    memcpy(&b, p + 8, 8);
    hash = tn_hash_mix(a ^ UINT64_C(0xa0761d6478bd642f), b ^ hash);
  }
  a = b = 0;
  if (bytes >= 8) {
    memcpy(&a, p, 8);
    memcpy(&b, p + bytes - 8, 8);
  } else if (bytes >= 4) {
    uint32_t low, high;
    memcpy(&low, p, 4);
    memcpy(&high, p + bytes - 4, 4);
    a = low;
    b = high;
  } else if (bytes) {
    a = (uint64_t)p[0] << 16 | (uint64_t)p[bytes / 2] << 8 | p[bytes - 1];
  }
  return tn_hash_mix(a ^ UINT64_C(0xe7037ed1a0b428db), tn_hash_mix(b ^ UINT64_C(0x8ebc6af09c88c6e3), hash));
}

static inline uint64_t tn_hash_pair(uint32_t a, uint32_t b) {
  return tn_hash_mix(((uint64_t)a << 32 | b) ^ UINT64_C(0xa0761d6478bd642f), UINT64_C(0xe7037ed1a0b428db));
}

#endif
