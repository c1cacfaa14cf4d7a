/* Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3" (SC 2011). A number is a function of its key and counter alone, so a draw doesn't depend on what else was
 * drawn before. */
#ifndef TENON_ENGINE_RANDOM_H
#define TENON_ENGINE_RANDOM_H

#include <stdint.h>

typedef struct tn_random_block {
  uint32_t word[4];
} tn_random_block;

static inline tn_random_block tn_random(tn_random_block counter, uint64_t key) {
  uint32_t key_low = (uint32_t)key, key_high = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t even = (uint64_t)counter.word[0] * 0xD2511F53u;
    uint64_t odd = (uint64_t)counter.word[2] * 0xCD9E8D57u;
    counter = (tn_random_block){{(uint32_t)(odd >> 32) ^ counter.word[1] ^ key_low, (uint32_t)odd,
                                 (uint32_t)(even >> 32) ^ counter.word[3] ^ key_high, (uint32_t)even}};
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return counter;
}

/* Uniform in [0, 1), 53 bits. */
static inline double tn_random_unit(uint32_t high, uint32_t low) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

/* For the draw of one token. */
static inline double tn_random_draw(uint64_t seed, uint32_t choice, uint32_t position) {
  tn_random_block block = tn_random((tn_random_block){{position, choice, 0, 0}}, seed);
  return tn_random_unit(block.word[0], block.word[1]);
}

/* Another one of the same position, for a stage that leaves something to chance (XTC). */
static inline double tn_random_chance(uint64_t seed, uint32_t choice, uint32_t position) {
  tn_random_block block = tn_random((tn_random_block){{position, choice, 0, 0}}, seed);
  return tn_random_unit(block.word[2], block.word[3]);
}

#endif
