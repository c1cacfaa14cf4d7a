/* What operands of cases hold: random numbers, the same on every machine, and the values that break kernels. */
#ifndef TENON_CONFORMANCE_FILL_H
#define TENON_CONFORMANCE_FILL_H

#include "conformance/case.h"

typedef enum tn_fill {
  TN_FILL_RANDOM,   /* -1 .. 1, every fifth row ten times as large */
  TN_FILL_ZERO,     /* zeros, every second one negative */
  TN_FILL_LARGE,    /* up to 1e4 in magnitude; q8a and integer weights: the largest quants, signs mixed */
  TN_FILL_TINY,     /* around the smallest normal float */
  TN_FILL_LARGEST,  /* q8a: all +127; float: all 1e4; integer weights: all quants at their largest */
  TN_FILL_SMALLEST, /* q8a: all -127; float: all -1e4; integer weights: all quants at their smallest */
  TN_FILL_NAN_ROW,  /* random, but the second row holds a NaN and the third an infinity */
  TN_FILL_COUNT
} tn_fill;

/* A few letters for the case's name; "" for random. */
const char *tn_fill_name(tn_fill fill);

/* Fills an input or the stored rows of a weight. The numbers follow from `seed`. */
void tn_case_fill(tn_case *c, uint32_t value, tn_fill fill, uint32_t seed);
/* Fills the activations `x` and the weight `w` of a linear with numbers that float arithmetic is exact with, whatever
 * its order: any quants, of q8a and of block formats, and scales that are powers of two, the same for a whole row. The
 * case's tolerance becomes 0. */
void tn_case_fill_exact(tn_case *c, uint32_t x, uint32_t x_seed, uint32_t w, uint32_t w_seed);
/* Numbers between `low` and `high`; for f32. */
void tn_case_fill_range(tn_case *c, uint32_t value, float low, float high, uint32_t seed);

#endif
