/* Choosing among many values: the best k, the fewest that reach a mass, sums of exponentials. Plain functions over
 * arrays that the caller owns; the passes over a whole vocabulary use the widest vectors of the machine. Results depend
 * on the values alone, not on the machine: no libm, and every sum has its fixed order. */
#ifndef TENON_ENGINE_CANDIDATES_H
#define TENON_ENGINE_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

/* Ordered by value, of equals the lower token first. */
typedef struct tn_candidate {
  float value;
  int32_t token;
} tn_candidate;
static inline bool tn_candidate_is_better(tn_candidate a, tn_candidate b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

/* The greatest value; -infinity of none. *is_sound: every value is a number below +infinity; else the result is of no
 * use. */
float tn_greatest(const float *values, uint32_t count, bool *is_sound);
/* The first index of the value `wanted`, above which there is none; 0 where it isn't there. */
uint32_t tn_index_of(const float *values, uint32_t count, float wanted);

/* e^x for x <= 0 with a relative error below 2e-7; 0 below -87 (and for -infinity). */
float tn_exp_below(float x);
/* weights[i] = e^(values[i] - best), where no value is above `best`; gives their sum. */
double tn_exponentials(const float *values, uint32_t count, float best, float *weights);

/* The first index up to which the weights, none negative, sum up to more than `wanted`; the last one that weighs
 * anything where that is never so. */
uint32_t tn_index_at_mass(const float *weights, uint32_t count, double wanted);

/* All values that are at least `least`, by their index, into `found` [count]; returns how many. */
uint32_t tn_values_from(const float *values, uint32_t count, float least, tn_candidate *found);
/* The best `wanted` values, best first, into `best`; returns how many. Values of -infinity never count. */
uint32_t tn_select_best(const float *values, uint32_t count, tn_candidate *best, uint32_t wanted);
/* Moves the fewest best candidates that have together at least `mass` to the front, in no order, and returns how many.
 * A token weighs weights[token]: the more, the greater its value. */
uint32_t tn_select_mass(tn_candidate *candidates, uint32_t count, const float *weights, double mass);

#endif
