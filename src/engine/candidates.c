#include "engine/candidates.h"

#include <math.h>
#include <string.h>

/* Parts of a sum, and values looked at together (candidates_passes.inc). */
#define LANES 16u
#define MOST_BELOW 87.0f

/* Makes x, none above 0, e^x, in any vector: x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of
 * degree 7 (the rest is below 1e-8), 2^n by its bits. ln 2 is split in two so that n times the first part is exact. */
#define EXP_OF_VECTOR(x, floats, ints)                                             \
  do {                                                                             \
    ints is_above_ = (x) >= -MOST_BELOW;                                           \
    floats bounded_ = (floats)((ints)(x)&is_above_);                               \
    ints exponent_ = __builtin_convertvector(bounded_ * 1.44269504f - 0.5f, ints); \
    floats n_ = __builtin_convertvector(exponent_, floats);                        \
    floats r_ = bounded_ - n_ * 0.693359375f;                                      \
    r_ = r_ - n_ * -2.12194440e-4f;                                                \
    floats sum_ = r_ * (1.0f / 5040) + 1.0f / 720;                                 \
    sum_ = sum_ * r_ + 1.0f / 120;                                                 \
    sum_ = sum_ * r_ + 1.0f / 24;                                                  \
    sum_ = sum_ * r_ + 1.0f / 6;                                                   \
    sum_ = sum_ * r_ + 0.5f;                                                       \
    sum_ = sum_ * r_ + 1.0f;                                                       \
    sum_ = sum_ * r_ + 1.0f;                                                       \
    floats power_ = (floats)((exponent_ + 127) << 23);                             \
    (x) = (floats)((ints)(sum_ * power_) & is_above_);                             \
  } while (0)

float tn_exp_below(float x) {
  typedef float floats __attribute__((vector_size(4 * sizeof(float))));
  typedef int32_t ints __attribute__((vector_size(4 * sizeof(int32_t))));
  floats vector = {x};
  EXP_OF_VECTOR(vector, floats, ints);
  return vector[0];
}

/* ---- passes over all values, in the widest vectors that the machine has ---- */

#if defined(__x86_64__)
#define PASS(name) name##_avx512
#define TARGET __attribute__((target("avx512f")))
#define WIDTH 16u
#define DOUBLES 8u
#include "engine/candidates_passes.inc"
#define PASS(name) name##_avx2
#define TARGET __attribute__((target("avx2")))
#define WIDTH 8u
#define DOUBLES 4u
#include "engine/candidates_passes.inc"
#define WIDEST(name) \
  (__builtin_cpu_supports("avx512f") ? name##_avx512 : __builtin_cpu_supports("avx2") ? name##_avx2 : name##_any)
#else
#define WIDEST(name) name##_any
#endif
#define PASS(name) name##_any
#define TARGET
#define WIDTH 4u
#define DOUBLES 4u
#include "engine/candidates_passes.inc"

float tn_greatest(const float *values, uint32_t count, bool *is_sound) {
  return WIDEST(greatest)(values, count, is_sound);
}

uint32_t tn_index_of(const float *values, uint32_t count, float wanted) {
  uint32_t at = WIDEST(next_block)(values, 0, count, wanted);
  for (; at < count; at++)
    if (values[at] == wanted) return at;
  return 0;
}

double tn_exponentials(const float *values, uint32_t count, float best, float *weights) {
  return WIDEST(exponentials)(values, count, best, weights);
}

uint32_t tn_values_from(const float *values, uint32_t count, float least, tn_candidate *found) {
  uint32_t kept = 0;
  for (uint32_t at = 0; at < count;) {
    at = WIDEST(next_block)(values, at, count, least);
    uint32_t end = count - at < LANES ? count : at + LANES;
    for (; at < end; at++)
      if (values[at] >= least) found[kept++] = (tn_candidate){values[at], (int32_t)at};
  }
  return kept;
}

/* ---- where a mass is reached ---- */

/* Sums of blocks first; one weight behind the other only within the block in which the mass is reached. */
#define MASS_BLOCK 256u

/* The last index in [begin, end) that weighs anything; `begin` if none does. */
static uint32_t last_weight(const float *weights, uint32_t begin, uint32_t end) {
  while (end > begin + 1 && weights[end - 1] <= 0) end--;
  return end > begin ? end - 1 : begin;
}

uint32_t tn_index_at_mass(const float *weights, uint32_t count, double wanted) {
  double passed = 0;
  uint32_t at = 0;
  for (; count - at > MASS_BLOCK; at += MASS_BLOCK) {
    double mass = WIDEST(mass)(weights + at, MASS_BLOCK);
    if (passed + mass > wanted) break;
    passed += mass;
  }
  bool is_last = count - at <= MASS_BLOCK;
  uint32_t end = is_last ? count : at + MASS_BLOCK;
  for (uint32_t i = at; i < end; i++) {
    passed += (double)weights[i];
    if (passed > wanted) return i;
  }
  return last_weight(weights, is_last ? 0 : at, end);
}

/* ---- the best k: a heap with the worst of them on top ---- */

/* Restores a heap of `count` candidates in which only `at` may stand too high. */
static void sift_down(tn_candidate *heap, uint32_t count, uint32_t at) {
  tn_candidate moved = heap[at];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count && tn_candidate_is_better(heap[child], heap[child + 1])) child++;
    if (tn_candidate_is_better(heap[child], moved)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

static void make_heap(tn_candidate *heap, uint32_t count) {
  for (uint32_t i = count / 2; i-- > 0;) sift_down(heap, count, i);
}

/* Makes of a heap an array, best first. */
static void sort_heap(tn_candidate *heap, uint32_t count) {
  while (count > 1) {
    tn_candidate worst = heap[0];
    heap[0] = heap[--count];
    heap[count] = worst;
    sift_down(heap, count, 0);
  }
}

uint32_t tn_select_best(const float *values, uint32_t count, tn_candidate *best, uint32_t wanted) {
  uint32_t kept = 0, i = 0;
  for (; i < count && kept < wanted; i++)
    if (values[i] > -INFINITY) best[kept++] = (tn_candidate){values[i], (int32_t)i};
  make_heap(best, kept);
  while (i < count && kept) {
    if (i % LANES == 0) i = WIDEST(next_block)(values, i, count, best[0].value);
    uint32_t end = i / LANES * LANES + LANES;
    for (; i < count && i < end; i++) {
      if (!(values[i] > best[0].value)) continue;
      best[0] = (tn_candidate){values[i], (int32_t)i};
      sift_down(best, kept, 0);
    }
  }
  sort_heap(best, kept);
  return kept;
}

/* ---- the fewest that reach a mass: quickselect by weight instead of by rank ---- */

static void swap(tn_candidate *a, tn_candidate *b) {
  tn_candidate kept = *a;
  *a = *b;
  *b = kept;
}

/* Brings those of candidates[begin..end) that are better than the one in the middle to the front and it behind them.
 * Gives its place, and in *mass the weight of those before it. */
static uint32_t partition(tn_candidate *candidates, uint32_t begin, uint32_t end, const float *weights, double *mass) {
  swap(&candidates[begin + (end - begin) / 2], &candidates[end - 1]);
  tn_candidate pivot = candidates[end - 1];
  uint32_t place = begin;
  *mass = 0;
  for (uint32_t i = begin; i < end - 1; i++) {
    if (!tn_candidate_is_better(candidates[i], pivot)) continue;
    *mass += (double)weights[candidates[i].token];
    swap(&candidates[i], &candidates[place++]);
  }
  swap(&candidates[place], &candidates[end - 1]);
  return place;
}

uint32_t tn_select_mass(tn_candidate *candidates, uint32_t count, const float *weights, double mass) {
  uint32_t begin = 0, end = count; /* the cut lies between them; those before `begin` are taken off the mass */
  while (begin < end) {
    double before;
    uint32_t place = partition(candidates, begin, end, weights, &before);
    if (before >= mass && place > begin) {
      end = place;
      continue;
    }
    mass -= before + (double)weights[candidates[place].token];
    begin = place + 1;
    if (mass <= 0) return begin;
  }
  return end;
}
