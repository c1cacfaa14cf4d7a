/* Choosing among many values, against libm and a plain sort. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/candidates.c" /* itself, so that each of its instruction sets can be called */

#define MOST 400u

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static int by_rank(const void *a, const void *b) {
  const tn_candidate *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return x->token < y->token ? -1 : 1;
}

static void exponentials_are_near_libm(void **state) {
  (void)state;
  for (float x = 0; x > -86.9f; x -= 0.0031f) {
    double wanted = exp((double)x);
    assert_true(fabs((double)tn_exp_below(x) - wanted) <= 2e-7 * wanted);
  }
  assert_true(tn_exp_below(0.0f) == 1.0f);
  assert_true(tn_exp_below(-1e-9f) == 1.0f);
  assert_true(tn_exp_below(-88.0f) == 0.0f);
  assert_true(tn_exp_below(-1e30f) == 0.0f);
  assert_true(tn_exp_below(-INFINITY) == 0.0f);
}

/* Every length, so that whole vectors and what is left over are met; ties, and values that never count. */
static void passes_agree_with_plain_loops(void **state) {
  (void)state;
  uint64_t random = 3;
  float values[MOST], weights[MOST];
  for (uint32_t count = 1; count < MOST; count++) {
    float best = -INFINITY;
    double sum = 0;
    uint32_t index = 0;
    for (uint32_t i = 0; i < count; i++) {
      values[i] = next_random(&random) % 7 ? (float)(next_random(&random) % 50) - 25.0f : -INFINITY;
      if (values[i] > best) {
        best = values[i];
        index = i;
      }
    }
    bool is_sound = false;
    assert_true(tn_greatest(values, count, &is_sound) == best);
    assert_true(is_sound);
    assert_int_equal(tn_index_of(values, count, best), index);
    float least = (float)(next_random(&random) % 50) - 25.0f;
    tn_candidate from[MOST];
    uint32_t found = tn_values_from(values, count, least, from), matched = 0;
    for (uint32_t i = 0; i < count; i++) {
      if (values[i] < least) continue;
      assert_true(matched < found && from[matched].token == (int32_t)i && from[matched].value == values[i]);
      matched++;
    }
    assert_int_equal(found, matched);
    if (best == -INFINITY) continue;
    double got = tn_exponentials(values, count, best, weights);
    for (uint32_t i = 0; i < count; i++) {
      assert_true(weights[i] == tn_exp_below(values[i] - best));
      sum += (double)weights[i];
    }
    assert_true(fabs(got - sum) <= 1e-12 * sum);
    uint32_t at = next_random(&random) % count;
    values[at] = next_random(&random) % 2 ? NAN : INFINITY;
    tn_greatest(values, count, &is_sound);
    assert_false(is_sound);
  }
}

static void selections_agree_with_a_sort(void **state) {
  (void)state;
  uint64_t random = 4;
  for (int round = 0; round < 3000; round++) {
    uint32_t count = 1 + next_random(&random) % MOST, levels = 1 + next_random(&random) % 60;
    float values[MOST], weights[MOST];
    tn_candidate sorted[MOST], got[MOST];
    for (uint32_t i = 0; i < count; i++) {
      values[i] = -(float)(next_random(&random) % levels) * 0.37f;
      sorted[i] = got[i] = (tn_candidate){values[i], (int32_t)i};
    }
    qsort(sorted, count, sizeof *sorted, by_rank);
    double total = 0, mass, passed = 0;
    tn_exponentials(values, count, sorted[0].value, weights);
    for (uint32_t i = 0; i < count; i++) total += (double)tn_exp_below(sorted[i].value - sorted[0].value);
    mass = total * (double)(next_random(&random) % 1000) / 1000;
    uint32_t wanted = 0;
    do passed += (double)tn_exp_below(sorted[wanted++].value - sorted[0].value);
    while (wanted < count && passed < mass);
    uint32_t kept = tn_select_mass(got, count, weights, mass);
    if (fabs(passed - mass) > 1e-9) assert_int_equal(kept, wanted);
    qsort(got, kept, sizeof *got, by_rank);
    assert_memory_equal(got, sorted, kept * sizeof *got);
    uint32_t k = 1 + next_random(&random) % count;
    assert_int_equal(tn_select_best(values, count, got, k), k);
    assert_memory_equal(got, sorted, k * sizeof *got);
  }
}

/* Weights are halves, so that sums are exact and every way to add them agrees. */
static void masses_are_reached_where_they_are(void **state) {
  (void)state;
  uint64_t random = 6;
  static float weights[2000];
  for (int round = 0; round < 2000; round++) {
    uint32_t count = 1 + next_random(&random) % 2000, rare = 1 + next_random(&random) % 400, last = 0;
    double total = 0, passed = 0;
    for (uint32_t i = 0; i < count; i++) {
      weights[i] = next_random(&random) % rare ? 0.0f : (float)(next_random(&random) % 8) * 0.5f;
      if (weights[i] > 0) last = i;
      total += (double)weights[i];
    }
    double wanted = total * (double)(next_random(&random) % 1001) / 1000;
    uint32_t expected = 0;
    while (expected < count && (passed += (double)weights[expected]) <= wanted) expected++;
    assert_int_equal(tn_index_at_mass(weights, count, wanted), expected < count ? expected : last);
  }
}

#if defined(__x86_64__)
/* Whatever vectors the machine has, the bits are the same. */
static void instruction_sets_agree(void **state) {
  (void)state;
  enum { COUNT = 1003 };
  static float values[COUNT], weights[3][COUNT];
  uint64_t random = 8;
  for (uint32_t i = 0; i < COUNT; i++) values[i] = -(float)next_random(&random) * 0x1p-25f;
  bool has[] = {true, __builtin_cpu_supports("avx2"), __builtin_cpu_supports("avx512f")};
  double (*const exponentials[])(const float *, uint32_t, float, float *) = {exponentials_any, exponentials_avx2,
                                                                             exponentials_avx512};
  double (*const masses[])(const float *, uint32_t) = {mass_any, mass_avx2, mass_avx512};
  uint32_t (*const next_blocks[])(const float *, uint32_t, uint32_t, float) = {next_block_any, next_block_avx2,
                                                                               next_block_avx512};
  float (*const greatests[])(const float *, uint32_t, bool *) = {greatest_any, greatest_avx2, greatest_avx512};
  for (uint32_t set = 1; set < 3; set++) {
    bool sound[2];
    if (!has[set]) continue;
    double sum = exponentials[0](values, COUNT, 0.0f, weights[0]),
           same = exponentials[set](values, COUNT, 0.0f, weights[set]);
    assert_memory_equal(&sum, &same, sizeof sum);
    assert_memory_equal(weights[0], weights[set], sizeof weights[0]);
    sum = masses[0](weights[0], COUNT / LANES * LANES);
    same = masses[set](weights[0], COUNT / LANES * LANES);
    assert_memory_equal(&sum, &same, sizeof sum);
    for (float least = -64.0f; least < 0; least += 0.37f)
      assert_int_equal(next_blocks[0](values, 0, COUNT, least), next_blocks[set](values, 0, COUNT, least));
    assert_true(greatests[0](values, COUNT, &sound[0]) == greatests[set](values, COUNT, &sound[1]));
    assert_true(sound[0] && sound[1]);
  }
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(exponentials_are_near_libm),
#if defined(__x86_64__)
    cmocka_unit_test(instruction_sets_agree),
#endif
    cmocka_unit_test(passes_agree_with_plain_loops),
    cmocka_unit_test(selections_agree_with_a_sort),
    cmocka_unit_test(masses_are_reached_where_they_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
