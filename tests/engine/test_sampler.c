/* The sampler against a plain one that sorts everything in double precision, and its promises one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/random.h"
#include "engine/sampler.h"

#define V 300u

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static void fill_logits(float *logits, uint64_t seed, float scale) {
  for (uint32_t i = 0; i < V; i++) logits[i] = ((float)(next_random(&seed) % 4096) / 4096.0f - 0.5f) * scale;
}

static const tn_sampling PLAIN = {.repeat_penalty = 1.0f, .dry = {.base = 1.75f}, .temperature = 1.0f, .top_p = 1.0f};

static tn_sampler *make_sampler(void) {
  tn_sampler *sampler;
  assert_int_equal(tn_sampler_create(V, &sampler, NULL), TN_OK);
  return sampler;
}

static tn_sample draw_one(tn_sampler *sampler, const tn_draw *draw) {
  tn_sample sample;
  tn_error error;
  if (tn_sampler_draw(sampler, draw, &sample, &error) != TN_OK) fail_msg("%s", error.message);
  return sample;
}

/* Vectors of the authors' implementation (Random123, kat_vectors). */
static void philox_matches_its_vectors(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], expected[4];
  } vectors[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < TN_COUNT(vectors); i++) {
    tn_random_block counter;
    memcpy(counter.word, vectors[i].counter, sizeof counter.word);
    tn_random_block block = tn_random(counter, (uint64_t)vectors[i].key[1] << 32 | vectors[i].key[0]);
    assert_memory_equal(block.word, vectors[i].expected, sizeof block.word);
  }
}

/* ---- a plain sampler ---- */

typedef struct ranked {
  double value;
  int32_t token;
} ranked;

static int by_rank(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return x->token < y->token ? -1 : 1;
}

/* Probability of each token after temperature, top-k, top-p and min-p. */
static void plain_probabilities(const float *logits, const tn_sampling *sampling, double *probabilities) {
  ranked order[V];
  uint32_t count = V;
  for (uint32_t i = 0; i < V; i++) order[i] = (ranked){(double)logits[i] / (double)sampling->temperature, (int32_t)i};
  qsort(order, V, sizeof *order, by_rank);
  if (sampling->top_k && sampling->top_k < count) count = sampling->top_k;
  double sum = 0, passed = 0;
  for (uint32_t i = 0; i < count; i++) sum += exp(order[i].value - order[0].value);
  for (uint32_t i = 0; i < count && sampling->top_p < 1.0f; i++) {
    passed += exp(order[i].value - order[0].value) / sum;
    if (passed >= (double)sampling->top_p) count = i + 1;
  }
  while (count > 1 && exp(order[count - 1].value - order[0].value) < (double)sampling->min_p) count--;
  sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += exp(order[i].value - order[0].value);
  memset(probabilities, 0, V * sizeof *probabilities);
  for (uint32_t i = 0; i < count; i++) probabilities[order[i].token] = exp(order[i].value - order[0].value) / sum;
}

/* Draws often enough that every frequency must be within 6 standard deviations, and forbidden tokens never come. */
static void frequencies_are_the_probabilities(void **state) {
  (void)state;
  static const struct {
    float temperature, top_p, min_p, scale;
    uint32_t top_k;
  } cases[] = {
      {1.0f, 1.0f, 0.0f, 4, 0},   {0.7f, 1.0f, 0.0f, 8, 0},    {1.5f, 0.8f, 0.0f, 8, 0},   {1.0f, 1.0f, 0.0f, 8, 13},
      {1.0f, 0.5f, 0.0f, 8, 20},  {0.8f, 0.95f, 0.05f, 8, 40}, {1.0f, 1.0f, 0.2f, 8, 0},   {2.0f, 0.9f, 0.1f, 20, 0},
      {1.0f, 0.0f, 0.0f, 8, 0},   {1.0f, 1.0f, 1.0f, 8, 0},    {1.0f, 0.999f, 0.0f, 1, 0}, {1e-30f, 1.0f, 0.0f, 8, 0},
      {1.0f, 0.3f, 0.0f, 0, 100},
  };
  enum { DRAWS = 20000 };
  tn_sampler *sampler = make_sampler();
  for (size_t c = 0; c < TN_COUNT(cases); c++) {
    tn_sampling sampling = PLAIN;
    sampling.temperature = cases[c].temperature;
    sampling.top_p = cases[c].top_p;
    sampling.min_p = cases[c].min_p;
    sampling.top_k = cases[c].top_k;
    sampling.seed = c;
    float logits[V];
    double probabilities[V];
    uint32_t counts[V] = {0};
    fill_logits(logits, c + 1, cases[c].scale);
    plain_probabilities(logits, &sampling, probabilities);
    for (uint32_t i = 0; i < DRAWS; i++)
      counts[draw_one(sampler, &(tn_draw){.sampling = &sampling, .logits = logits, .token_count = i}).token]++;
    for (uint32_t i = 0; i < V; i++) {
      double expected = probabilities[i] * DRAWS, deviation = sqrt(expected * (1 - probabilities[i]));
      if (probabilities[i] == 0 ? counts[i] > 0 : fabs(counts[i] - expected) > 6 * deviation + 1)
        fail_msg("case %zu: token %u came %u times, expected %g", c, i, counts[i], expected);
    }
  }
  tn_sampler_destroy(sampler);
}

static void greedy_takes_the_lowest_of_equals(void **state) {
  (void)state;
  tn_sampler *sampler = make_sampler();
  float logits[V] = {0};
  logits[17] = logits[200] = 5.0f;
  tn_sampling sampling = PLAIN;
  sampling.temperature = 0;
  assert_int_equal(draw_one(sampler, &(tn_draw){.sampling = &sampling, .logits = logits}).token, 17);
  sampling.temperature = 1;
  sampling.top_k = 1;
  assert_int_equal(draw_one(sampler, &(tn_draw){.sampling = &sampling, .logits = logits}).token, 17);
  tn_sampler_destroy(sampler);
}

/* The key is (seed, choice, position): nothing else, and all of it. */
static void draws_depend_on_their_key_alone(void **state) {
  (void)state;
  tn_sampler *sampler = make_sampler();
  float logits[V] = {0}, other[V];
  fill_logits(other, 5, 8);
  uint32_t differ[3] = {0};
  for (uint32_t position = 0; position < 100; position++) {
    tn_sampling sampling = PLAIN;
    sampling.seed = 0x123456789abcdefu;
    tn_draw draw = {.sampling = &sampling, .logits = logits, .token_count = position};
    int32_t token = draw_one(sampler, &draw).token;
    draw.logits = other;
    draw_one(sampler, &draw);
    draw.logits = logits;
    assert_int_equal(draw_one(sampler, &draw).token, token);
    sampling.seed ^= 1ull << 40;
    differ[0] += draw_one(sampler, &draw).token != token;
    sampling.seed ^= 1ull << 40;
    sampling.choice = 1;
    differ[1] += draw_one(sampler, &draw).token != token;
    sampling.choice = 0;
    draw.token_count += 1000;
    differ[2] += draw_one(sampler, &draw).token != token;
  }
  for (int i = 0; i < 3; i++) assert_true(differ[i] > 90);
  tn_sampler_destroy(sampler);
}

static void bias_and_bans(void **state) {
  (void)state;
  tn_sampler *sampler = make_sampler();
  float logits[V] = {0};
  logits[1] = 3;
  logits[2] = 2;
  const tn_logit_bias bias[] = {{1, -2}, {5, 2.5f}};
  tn_sampling sampling = PLAIN;
  sampling.temperature = 0;
  sampling.logit_bias = bias;
  sampling.logit_bias_count = 2;
  tn_draw draw = {.sampling = &sampling, .logits = logits};
  assert_int_equal(draw_one(sampler, &draw).token, 5);
  draw.banned = (const int32_t[]){5, 2};
  draw.banned_count = 2;
  assert_int_equal(draw_one(sampler, &draw).token, 1);
  tn_logit_bias never[V];
  for (int32_t i = 0; i < (int32_t)V; i++) never[i] = (tn_logit_bias){i, -INFINITY};
  sampling.logit_bias = never;
  sampling.logit_bias_count = V;
  tn_sample sample;
  tn_error error;
  assert_int_equal(tn_sampler_draw(sampler, &draw, &sample, &error), TN_E_INVALID);
  tn_sampler_destroy(sampler);
}

static void penalties_lower_what_was_said(void **state) {
  (void)state;
  tn_sampler *sampler = make_sampler();
  float logits[V];
  for (uint32_t i = 0; i < V; i++) logits[i] = -9;
  logits[1] = 4;
  logits[2] = 3;
  logits[3] = 1.5f;
  const int32_t tokens[] = {3, 1, 2, 1, 1, 2};
  tn_sampling sampling = PLAIN;
  sampling.temperature = 0;
  tn_draw draw = {.sampling = &sampling, .logits = logits, .tokens = tokens, .token_count = 6, .prompt_count = 2};
  const struct {
    float repeat;
    uint32_t last;
    float presence, frequency;
    int32_t expected;
  } cases[] = {
      {1, 64, 0, 0, 1},    {2, 64, 0, 0, 1},       /* 2, 1.5, 0.75 */
      {2, 3, 0, 0, 1},                             /* 1 and 2 halved: 2, 1.5, 1.5 */
      {3, 5, 0, 0, 3},                             /* 3 lies behind the last 5: 1.33, 1, 1.5 */
      {2, 0, 0, 0, 1},     {1, 64, 0, 1.25f, 1},   /* 1 twice, 2 twice in the answer: 1.5, 0.5, 1.5 */
      {1, 64, 0, 1.3f, 3}, {1, 64, 2.6f, 0, 3},    /* 1.4, 0.4, 1.5 */
      {1, 64, -1, 0, 1},   {1, 64, 1.6f, 0.5f, 3}, /* 1.4, 0.4, 1.5 */
  };
  for (size_t c = 0; c < TN_COUNT(cases); c++) {
    sampling.repeat_penalty = cases[c].repeat;
    sampling.repeat_last = cases[c].last;
    sampling.presence_penalty = cases[c].presence;
    sampling.frequency_penalty = cases[c].frequency;
    int32_t token = draw_one(sampler, &draw).token;
    if (token != cases[c].expected) fail_msg("case %zu: token %d, expected %d", c, token, cases[c].expected);
  }
  tn_sampler_destroy(sampler);
}

/* Whatever the sampling does, log-probabilities are those of the logits themselves. */
static void logprobs_are_of_the_untouched_logits(void **state) {
  (void)state;
  tn_sampler *sampler = make_sampler();
  float logits[V];
  fill_logits(logits, 3, 10);
  tn_sampling sampling = PLAIN;
  sampling.temperature = 0.3f;
  sampling.top_k = 2;
  sampling.logprobs = 1;
  sampling.top_logprobs = 20;
  double sum = 0;
  for (uint32_t i = 0; i < V; i++) sum += exp((double)logits[i]);
  ranked order[V];
  for (uint32_t i = 0; i < V; i++) order[i] = (ranked){(double)logits[i], (int32_t)i};
  qsort(order, V, sizeof *order, by_rank);
  const int32_t banned = order[0].token;
  tn_sample sample =
      draw_one(sampler, &(tn_draw){.sampling = &sampling, .logits = logits, .banned = &banned, .banned_count = 1});
  assert_true(fabs((double)sample.logprob - ((double)logits[sample.token] - log(sum))) < 1e-5);
  assert_int_equal(sample.top_count, 20);
  for (uint32_t i = 0; i < 20; i++) {
    assert_int_equal(sample.top[i].token, order[i].token);
    assert_true(fabs((double)sample.top[i].logprob - (order[i].value - log(sum))) < 1e-5);
  }
  tn_sampler_destroy(sampler);
}

static void rubbish_is_an_error(void **state) {
  (void)state;
  tn_sampler *sampler = make_sampler();
  static const float wrong[] = {NAN, INFINITY};
  for (size_t i = 0; i < 2; i++) {
    float logits[V] = {0};
    logits[V - 1] = wrong[i];
    tn_sample sample;
    tn_error error;
    tn_draw draw = {.sampling = &PLAIN, .logits = logits};
    assert_int_equal(tn_sampler_draw(sampler, &draw, &sample, &error), TN_E_INTERNAL);
    assert_non_null(strstr(error.message, "token 299"));
  }
  tn_sampler_destroy(sampler);
}

static void wrong_values_are_named(void **state) {
  (void)state;
  tn_error error;
  assert_int_equal(tn_sampling_check(&PLAIN, V, &error), TN_OK);
  const tn_logit_bias outside = {300, 1}, infinite = {1, INFINITY};
  struct {
    tn_sampling sampling;
    const char *name;
  } cases[] = {
      {PLAIN, "temperature"},    {PLAIN, "top_p"},     {PLAIN, "min_p"},
      {PLAIN, "repeat_penalty"}, {PLAIN, "presence"},  {PLAIN, "frequency"},
      {PLAIN, "top_logprobs"},   {PLAIN, "token 300"}, {PLAIN, "token 1 is inf"},
  };
  cases[0].sampling.temperature = NAN;
  cases[1].sampling.top_p = 1.5f;
  cases[2].sampling.min_p = -0.1f;
  cases[3].sampling.repeat_penalty = 0;
  cases[4].sampling.presence_penalty = INFINITY;
  cases[5].sampling.frequency_penalty = -INFINITY;
  cases[6].sampling.top_logprobs = 21;
  cases[7].sampling.logit_bias = &outside;
  cases[8].sampling.logit_bias = &infinite;
  cases[7].sampling.logit_bias_count = cases[8].sampling.logit_bias_count = 1;
  for (size_t i = 0; i < TN_COUNT(cases); i++) {
    assert_int_equal(tn_sampling_check(&cases[i].sampling, V, &error), TN_E_INVALID);
    if (!strstr(error.message, cases[i].name)) fail_msg("\"%s\" does not name %s", error.message, cases[i].name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_matches_its_vectors),
      cmocka_unit_test(frequencies_are_the_probabilities),
      cmocka_unit_test(greedy_takes_the_lowest_of_equals),
      cmocka_unit_test(draws_depend_on_their_key_alone),
      cmocka_unit_test(bias_and_bans),
      cmocka_unit_test(penalties_lower_what_was_said),
      cmocka_unit_test(logprobs_are_of_the_untouched_logits),
      cmocka_unit_test(rubbish_is_an_error),
      cmocka_unit_test(wrong_values_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
