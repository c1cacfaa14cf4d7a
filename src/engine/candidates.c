#include "engine/candidates.h"

#include <math.h>
#include <string.h>

/* The compiler's own vectors, as wide as every machine has them. */
#define WIDTH 4u
typedef float float_vector __attribute__((vector_size(WIDTH * sizeof(float))));
typedef double double_vector __attribute__((vector_size(WIDTH * sizeof(double))));
typedef int32_t int_vector __attribute__((vector_size(WIDTH * sizeof(int32_t))));

bool tn_values_are_sound(const float *values, uint32_t count) {
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < count; i++) wrong |= !(values[i] < INFINITY);
  return wrong == 0;
}

static float_vector load(const float *from) {
  float_vector values;
  memcpy(&values, from, sizeof values);
  return values;
}

/* Element by element, the greater one. */
static float_vector greater(float_vector a, float_vector b) {
  int_vector is_a = a > b;
  return (float_vector)(((int_vector)a & is_a) | ((int_vector)b & ~is_a));
}

#define PARTS 4u /* independent results, so that one pass needn't wait for the other */

float tn_greatest(const float *values, uint32_t count) {
  float best = -INFINITY;
  float_vector parts[PARTS];
  uint32_t whole = count / (PARTS * WIDTH) * (PARTS * WIDTH);
  for (uint32_t p = 0; p < PARTS; p++) parts[p] = (float_vector){-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  for (uint32_t i = 0; i < whole; i += PARTS * WIDTH)
    for (uint32_t p = 0; p < PARTS; p++) parts[p] = greater(load(values + i + p * WIDTH), parts[p]);
  for (uint32_t p = 0; p < PARTS; p++)
    for (uint32_t l = 0; l < WIDTH; l++) best = parts[p][l] > best ? parts[p][l] : best;
  for (uint32_t i = whole; i < count; i++) best = values[i] > best ? values[i] : best;
  return best;
}

uint32_t tn_index_of_greatest(const float *values, uint32_t count) {
  float best = tn_greatest(values, count);
  for (uint32_t i = 0; i < count; i++)
    if (values[i] == best) return i;
  return 0;
}

/* ---- exponentials ---- */

#define MOST_BELOW 87.0f

/* x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7 (the rest is below 1e-8), 2^n by its
 * bits. ln 2 is split in two so that n times the first part is exact. */
static float_vector exp_vector(float_vector x) {
  int_vector is_above = x >= -MOST_BELOW;
  x = (float_vector)((int_vector)x & is_above);
  int_vector exponent = __builtin_convertvector(x * 1.44269504f - 0.5f, int_vector);
  float_vector n = __builtin_convertvector(exponent, float_vector);
  float_vector r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float_vector sum = r * (1.0f / 5040) + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  float_vector power = (float_vector)((exponent + 127) << 23);
  return (float_vector)((int_vector)(sum * power) & is_above);
}

float tn_exp_below(float x) {
  return exp_vector((float_vector){x})[0];
}

double tn_exponentials(const float *values, uint32_t count, float best, float *weights) {
  double_vector lanes = {0};
  double sum = 0;
  uint32_t whole = count / WIDTH * WIDTH;
  for (uint32_t i = 0; i < whole; i += WIDTH) {
    float_vector x = exp_vector(load(values + i) - best);
    memcpy(weights + i, &x, sizeof x);
    lanes += __builtin_convertvector(x, double_vector);
  }
  for (uint32_t l = 0; l < WIDTH; l++) sum += lanes[l];
  for (uint32_t i = whole; i < count; i++) {
    weights[i] = tn_exp_below(values[i] - best);
    sum += (double)weights[i];
  }
  return sum;
}

/* ---- where a mass is reached ---- */

/* Sums of blocks first, in lanes; one behind the other only within the block in which the mass is reached. */
#define MASS_BLOCK 256u

static double block_mass(const float *weights) {
  double lanes[WIDTH] = {0}, sum = 0;
  for (uint32_t i = 0; i < MASS_BLOCK; i += WIDTH)
    for (uint32_t l = 0; l < WIDTH; l++) lanes[l] += (double)weights[i + l];
  for (uint32_t l = 0; l < WIDTH; l++) sum += lanes[l];
  return sum;
}

/* The last index in [begin, end) that weighs anything; `begin` if none does. */
static uint32_t last_weight(const float *weights, uint32_t begin, uint32_t end) {
  while (end > begin + 1 && weights[end - 1] <= 0) end--;
  return end > begin ? end - 1 : begin;
}

uint32_t tn_index_at_mass(const float *weights, uint32_t count, double wanted) {
  double passed = 0;
  uint32_t at = 0;
  for (; count - at > MASS_BLOCK; at += MASS_BLOCK) {
    double mass = block_mass(weights + at);
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
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (kept == wanted) {
      if (!(values[i] > best[0].value)) continue;
      best[0] = (tn_candidate){values[i], (int32_t)i};
      sift_down(best, kept, 0);
    } else if (values[i] > -INFINITY) {
      best[kept++] = (tn_candidate){values[i], (int32_t)i};
      if (kept == wanted) make_heap(best, kept);
    }
  }
  if (kept < wanted) make_heap(best, kept);
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
static uint32_t partition(tn_candidate *candidates, uint32_t begin, uint32_t end, float best, double *mass) {
  swap(&candidates[begin + (end - begin) / 2], &candidates[end - 1]);
  tn_candidate pivot = candidates[end - 1];
  uint32_t place = begin;
  *mass = 0;
  for (uint32_t i = begin; i < end - 1; i++) {
    if (!tn_candidate_is_better(candidates[i], pivot)) continue;
    *mass += (double)tn_exp_below(candidates[i].value - best);
    swap(&candidates[i], &candidates[place++]);
  }
  swap(&candidates[place], &candidates[end - 1]);
  return place;
}

uint32_t tn_select_mass(tn_candidate *candidates, uint32_t count, float best, double mass) {
  uint32_t begin = 0, end = count; /* the cut lies between them; those before `begin` are taken off the mass */
  while (begin < end) {
    double before;
    uint32_t place = partition(candidates, begin, end, best, &before);
    if (before >= mass && place > begin) {
      end = place;
      continue;
    }
    mass -= before + (double)tn_exp_below(candidates[place].value - best);
    begin = place + 1;
    if (mass <= 0) return begin;
  }
  return end;
}
