/* DRY and XTC against what a plain computation in Python made of the same sequences and logits
 * (tests/data/sampler/make.py), and what the two owe the sampler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/sampler.h"
#include "text/tokenizer.h"

#define VOCABULARY 15u
#define MOST 512u

typedef struct fixture {
  tn_tokenizer *tokenizer;
  tn_vocabulary vocabulary;
  tn_sampler *sampler;
  uint32_t dry_cases, xtc_cases;
} fixture;

/* Bytes of a text in hex, zero-terminated. */
static void read_hex(const char *hex, char *text) {
  for (; hex[0] && hex[1]; hex += 2) *text++ = (char)strtoul((char[]){hex[0], hex[1], 0}, NULL, 16);
  *text = 0;
}

static FILE *open_cases(void) {
  FILE *file = fopen(TEST_DATA "/sampler/cases.txt", "r");
  assert_non_null(file);
  return file;
}

static void make_tokenizer(fixture *f) {
  static char texts[VOCABULARY][16];
  tn_text tokens[VOCABULARY];
  float scores[VOCABULARY] = {0};
  char line[4096], hex[64];
  unsigned id, count = 0;
  FILE *file = open_cases();
  while (fgets(line, sizeof line, file) && sscanf(line, "token %u %63s", &id, hex) == 2) {
    assert_int_equal(id, count++);
    read_hex(hex, texts[id]);
    tokens[id] = (tn_text){texts[id], strlen(texts[id])};
  }
  fclose(file);
  assert_int_equal(count, VOCABULARY);
  tn_vocab vocab;
  tn_error error;
  tn_vocab_init(&vocab, TN_VOCAB_SPM);
  vocab.count = VOCABULARY;
  vocab.tokens = tokens;
  vocab.scores = scores;
  if (tn_tokenizer_create(&f->tokenizer, &vocab, &error) != TN_OK) fail_msg("%s", error.message);
  tn_vocabulary_init(&f->vocabulary, VOCABULARY, f->tokenizer);
}

/* ---- DRY ---- */

static tn_breakers *read_breakers(const fixture *f, char *list) {
  char texts[8][64];
  const char *given[8];
  size_t count = 0;
  tn_breakers *breakers;
  for (char *hex = strtok(list, ","); hex && strcmp(hex, "-"); hex = strtok(NULL, ",")) {
    read_hex(hex, texts[count]);
    given[count] = texts[count];
    count++;
  }
  assert_int_equal(tn_breakers_create(&f->vocabulary, given, count, &breakers, NULL), TN_OK);
  assert_int_equal(breakers != NULL, count > 0);
  return breakers;
}

static uint32_t read_tokens(char *list, int32_t *tokens) {
  uint32_t count = 0;
  for (char *id = strtok(list, ","); id; id = strtok(NULL, ",")) tokens[count++] = (int32_t)atoi(id);
  return count;
}

static void check_dry(fixture *f, const char *line) {
  static char breakers[256], ids[4096];
  int32_t tokens[MOST];
  tn_dry dry;
  int at = 0;
  assert_int_equal(sscanf(line, "dry %f %f %u %u %255s %4095s =%n", &dry.multiplier, &dry.base, &dry.allowed_length,
                          &dry.last_n, breakers, ids, &at),
                   6);
  tn_breakers *made = read_breakers(f, breakers);
  dry.breakers = made;
  uint32_t count = read_tokens(ids, tokens), lengths[VOCABULARY] = {0};
  float values[VOCABULARY] = {0};
  double want[VOCABULARY] = {0}, penalty;
  unsigned token;
  for (int more; sscanf(line + at, " %u:%lf%n", &token, &penalty, &more) == 2; at += more) want[token] = penalty;
  tn_buf text;
  tn_buf_init(&text);
  assert_true(tn_dry_apply(&dry, tokens, count, values, lengths, &text));
  for (uint32_t i = 0; i < VOCABULARY; i++) {
    if (fabs((double)-values[i] - want[i]) > 1e-5 * want[i])
      fail_msg("token %u loses %g, expected %g: %s", i, (double)-values[i], want[i], line);
    assert_int_equal(lengths[i], 0);
  }
  tn_buf_finish(&text);
  tn_breakers_destroy(made);
  f->dry_cases++;
}

/* ---- XTC ---- */

static void check_xtc(fixture *f, const char *line) {
  static char list[2048];
  float logits[VOCABULARY];
  uint32_t count = 0;
  unsigned long long seed;
  int at = 0;
  tn_sampling sampling = {.repeat_penalty = 1, .top_p = 1};
  assert_int_equal(sscanf(line, "xtc %f %f %f %llu %u %2047s =%n", &sampling.xtc_probability, &sampling.xtc_threshold,
                          &sampling.temperature, &seed, &sampling.choice, list, &at),
                   6);
  sampling.seed = seed;
  for (char *value = strtok(list, ","); value; value = strtok(NULL, ",")) logits[count++] = strtof(value, NULL);
  assert_int_equal(count, VOCABULARY);
  int want, more;
  for (uint32_t position = 0; sscanf(line + at, " %d%n", &want, &more) == 1; position++, at += more) {
    tn_sample sample;
    tn_error error;
    const tn_draw draw = {.sampling = &sampling, .logits = logits, .token_count = position};
    if (tn_sampler_draw(f->sampler, &draw, &sample, &error) != TN_OK) fail_msg("%s", error.message);
    if (sample.token != want) fail_msg("position %u: %d drawn, expected %d: %s", position, sample.token, want, line);
    f->xtc_cases++;
  }
}

static void stages_do_what_their_definitions_say(void **state) {
  fixture *f = *state;
  static char line[8192];
  FILE *file = open_cases();
  while (fgets(line, sizeof line, file)) {
    if (!strncmp(line, "dry ", 4)) check_dry(f, line);
    if (!strncmp(line, "xtc ", 4)) check_xtc(f, line);
  }
  fclose(file);
  assert_int_equal(f->dry_cases, 120);
  assert_int_equal(f->xtc_cases, 60 * 12);
}

/* ---- the rest ---- */

/* The usual breakers stand where none are named, and texts that can't be had are refused. */
static void breakers_are_checked(void **state) {
  fixture *f = *state;
  tn_breakers *breakers;
  tn_error error;
  tn_buf text;
  tn_buf_init(&text);
  assert_int_equal(tn_breakers_create(&f->vocabulary, NULL, 0, &breakers, &error), TN_OK);
  /* c d a, then c d: a was said behind c d. Behind a line end of their own they are new. */
  int32_t plain[] = {2, 3, 0, 2, 3}, broken[] = {2, 3, 0, 2, 6, 3};
  tn_dry dry = {.multiplier = 1, .base = 2, .allowed_length = 2, .last_n = UINT32_MAX, .breakers = breakers};
  float values[VOCABULARY] = {0};
  uint32_t lengths[VOCABULARY] = {0};
  assert_true(tn_dry_apply(&dry, plain, TN_COUNT(plain), values, lengths, &text));
  assert_true(values[0] == -1.0f);
  values[0] = 0;
  assert_true(tn_dry_apply(&dry, broken, TN_COUNT(broken), values, lengths, &text));
  for (uint32_t i = 0; i < VOCABULARY; i++) assert_true(values[i] == 0);
  tn_breakers_destroy(breakers);
  tn_buf_finish(&text);
  const char *empty[] = {"a", ""};
  assert_int_equal(tn_breakers_create(&f->vocabulary, empty, 2, &breakers, &error), TN_E_INVALID);
  assert_int_equal(tn_breakers_create(&f->vocabulary, empty, TN_MAX_BREAKERS + 1, &breakers, &error), TN_E_LIMIT);
  char endless[TN_MAX_BREAKER_BYTES + 2];
  memset(endless, 'a', sizeof endless - 1);
  endless[sizeof endless - 1] = 0;
  assert_int_equal(tn_breakers_create(&f->vocabulary, (const char *[]){endless}, 1, &breakers, &error), TN_E_LIMIT);
  const tn_vocabulary silent = {.size = VOCABULARY};
  assert_int_equal(tn_breakers_create(&silent, empty, 1, &breakers, &error), TN_E_INVALID);
  assert_int_equal(tn_breakers_create(&silent, NULL, 0, &breakers, &error), TN_OK);
  assert_null(breakers);
}

/* DRY counts for greedy draws too, XTC doesn't; the log-probabilities are of the untouched logits. */
static void greedy_takes_penalties_alone(void **state) {
  fixture *f = *state;
  float logits[VOCABULARY] = {0};
  const int32_t tokens[] = {2, 3, 0, 2, 3};
  logits[0] = 2;
  logits[1] = 1.5f;
  tn_sampling sampling = {.repeat_penalty = 1, .top_p = 1, .xtc_probability = 1, .logprobs = 1};
  const tn_draw draw = {.sampling = &sampling, .logits = logits, .tokens = tokens, .token_count = TN_COUNT(tokens)};
  tn_sample plain, dry;
  assert_int_equal(tn_sampler_draw(f->sampler, &draw, &plain, NULL), TN_OK);
  assert_int_equal(plain.token, 0);
  sampling.dry = (tn_dry){.multiplier = 1, .base = 1.75f, .allowed_length = 2, .last_n = 100};
  assert_int_equal(tn_sampler_draw(f->sampler, &draw, &dry, NULL), TN_OK);
  assert_int_equal(dry.token, 1);
  assert_true(dry.logprob == plain.logprob - 0.5f);
}

static void wrong_values_are_named(void **state) {
  (void)state;
  static const struct {
    const char *name;
    tn_dry dry;
    float probability, threshold;
  } wrong[] = {{"dry_multiplier", {-1, 1.75f, 2, 0, NULL}, 0, 0}, {"dry_multiplier", {NAN, 1.75f, 2, 0, NULL}, 0, 0},
               {"dry_base", {1, 0.5f, 2, 0, NULL}, 0, 0},         {"dry_allowed_length", {1, 2, 51, 0, NULL}, 0, 0},
               {"xtc_probability", {1, 2, 2, 0, NULL}, 1.5f, 0},  {"xtc_threshold", {1, 2, 2, 0, NULL}, 1, -0.1f}};
  for (size_t i = 0; i < TN_COUNT(wrong); i++) {
    tn_error error;
    tn_sampling sampling = {.repeat_penalty = 1, .top_p = 1, .dry = wrong[i].dry};
    sampling.xtc_probability = wrong[i].probability;
    sampling.xtc_threshold = wrong[i].threshold;
    assert_int_equal(tn_sampling_check(&sampling, VOCABULARY, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, wrong[i].name));
  }
}

int main(void) {
  fixture f = {0};
  make_tokenizer(&f);
  if (tn_sampler_create(VOCABULARY, &f.sampler, NULL) != TN_OK) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(stages_do_what_their_definitions_say, &f),
      cmocka_unit_test_prestate(breakers_are_checked, &f),
      cmocka_unit_test_prestate(greedy_takes_penalties_alone, &f),
      cmocka_unit_test(wrong_values_are_named),
  };
  int failures = cmocka_run_group_tests(tests, NULL, NULL);
  tn_sampler_destroy(f.sampler);
  tn_tokenizer_destroy(f.tokenizer);
  return failures;
}
