/* The choice of how much to draft, over simulated machines: what a pass costs by its rows, and how often drafts are
 * accepted. Drafting must never cost more than 3 % of plain decoding's time, and must gain what can be gained. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/draft_policy.h"

#define PASS_NS 3e6

static uint64_t random_state;

static double random_number(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) * 0x1p-53;
}

typedef struct machine {
  double row;   /* what a row more costs, in passes of one row */
  double round; /* a round of drafting, in the same */
  double noise; /* measurements are up to so much longer */
} machine;

static double pass_ns(const machine *of, uint32_t rows) {
  return PASS_NS * (1 + of->row * (rows - 1));
}

/* Time of plain decoding over that of `steps` steps of `sequences` sequences, odds[i] being those of texts that change
 * at half time. */
static double speed_up(const machine *of, uint32_t sequences, const double odds[2], uint32_t most, uint32_t steps) {
  tn_draft_policy policy;
  double time = 0, plain = 0;
  random_state = 5;
  tn_draft_policy_init(&policy, 0);
  for (uint32_t step = 0; step < steps; step++) {
    tn_draft_wish wishes[8];
    for (uint32_t i = 0; i < sequences; i++) wishes[i] = (tn_draft_wish){.most = most, .confidence = 1};
    tn_draft_policy_choose(&policy, wishes, sequences, sequences, sequences, 64 - sequences);
    uint32_t rows = sequences, tokens = 0, rounds = 0;
    for (uint32_t i = 0; i < sequences; i++) {
      uint32_t accepted = 0;
      assert_true(wishes[i].chosen <= most);
      while (accepted < wishes[i].chosen && random_number() < odds[step > steps / 2]) accepted++;
      uint32_t compared = accepted < wishes[i].chosen ? accepted + 1 : accepted;
      if (wishes[i].chosen > rounds) rounds = wishes[i].chosen;
      tn_draft_policy_learn_odds(&policy, 1, compared, accepted);
      rows += wishes[i].chosen;
      tokens += accepted + 1;
    }
    double longer = 1 + of->noise * random_number();
    tn_draft_policy_learn_pass(&policy, rows, (uint64_t)(pass_ns(of, rows) * longer));
    if (rounds && of->round > 0)
      tn_draft_policy_learn_rounds(&policy, rounds, (uint64_t)(of->round * PASS_NS * rounds * longer));
    tn_draft_policy_learn_step(&policy, sequences, rows, rounds, tokens);
    time += pass_ns(of, rows) + of->round * PASS_NS * rounds;
    plain += pass_ns(of, sequences) * tokens / sequences;
  }
  return plain / time;
}

static void drafts_never_cost_much(void **state) {
  (void)state;
  static const double rows[] = {0, 0.1, 0.3, 1}, rounds[] = {0, 0.2};
  for (uint32_t r = 0; r < TN_COUNT(rows); r++)
    for (uint32_t d = 0; d < TN_COUNT(rounds); d++)
      for (uint32_t noisy = 0; noisy < 2; noisy++)
        for (uint32_t sequences = 1; sequences <= 8; sequences += 7)
          for (double odds = 0; odds < 1; odds += 0.3) {
            const machine of = {rows[r], rounds[d], noisy ? 0.5 : 0};
            const double both[2] = {odds, odds}, better[2] = {0, odds}, worse[2] = {odds, 0};
            const double *texts[] = {both, better, worse};
            for (uint32_t t = 0; t < 3; t++) {
              double gain = speed_up(&of, sequences, texts[t], 15, 2000);
              if (gain < 0.97)
                fail_msg("row %g, round %g, noise %g, %u sequences, odds %g then %g: %.3f of plain speed", of.row,
                         of.round, of.noise, sequences, texts[t][0], texts[t][1], gain);
            }
          }
}

static double power(double x, uint32_t n) {
  double product = 1;
  while (n--) product *= x;
  return product;
}

/* The best of all fixed choices. */
static double best_speed_up(const machine *of, double odds) {
  double best = 1;
  for (uint32_t k = 1; k <= 15; k++) {
    double tokens = (1 - power(odds, k + 1)) / (1 - odds), gain = tokens / (1 + of->row * k + of->round * k);
    best = gain > best ? gain : best;
  }
  return best;
}

static void drafts_gain_what_can_be_gained(void **state) {
  (void)state;
  static const double rows[] = {0.02, 0.1, 0.2}, rounds[] = {0, 0.1}, all_odds[] = {0.3, 0.6, 0.7, 0.85, 0.95};
  for (uint32_t r = 0; r < TN_COUNT(rows); r++)
    for (uint32_t d = 0; d < TN_COUNT(rounds); d++)
      for (uint32_t o = 0; o < TN_COUNT(all_odds); o++) {
        const machine of = {rows[r], rounds[d], 0.1};
        const double odds[2] = {all_odds[o], all_odds[o]};
        double gain = speed_up(&of, 1, odds, 15, 2000), best = best_speed_up(&of, odds[0]);
        if (gain < 0.92 * best)
          fail_msg("row %g, round %g, odds %g: %.3f of %.3f", of.row, of.round, odds[0], gain, best);
      }
}

static void fixed_is_fixed(void **state) {
  (void)state;
  tn_draft_policy policy;
  tn_draft_policy_init(&policy, 4);
  tn_draft_wish wishes[3] = {{.most = 15}, {.most = 2}, {.most = 15}};
  tn_draft_policy_choose(&policy, wishes, 3, 3, 3, 8);
  assert_int_equal(wishes[0].chosen, 4);
  assert_int_equal(wishes[1].chosen, 2);
  assert_int_equal(wishes[2].chosen, 2); /* what is left */
}

static void passes_are_interpolated(void **state) {
  (void)state;
  tn_draft_policy policy;
  tn_draft_policy_init(&policy, 0);
  assert_true(tn_draft_policy_pass(&policy, 3) == 0);
  tn_draft_policy_learn_pass(&policy, 2, 100);
  assert_true(tn_draft_policy_pass(&policy, 1) == 100 && tn_draft_policy_pass(&policy, 4) > 100);
  tn_draft_policy_learn_pass(&policy, 6, 200);
  assert_true(tn_draft_policy_pass(&policy, 4) == 150);
  assert_true(tn_draft_policy_pass(&policy, 8) == 250);
  tn_draft_policy_learn_pass(&policy, 10, 150); /* more rows don't take less */
  assert_true(tn_draft_policy_pass(&policy, 10) == 200);
}

/* The first passes find caches and pages cold. */
static void a_cold_start_is_forgotten(void **state) {
  (void)state;
  tn_draft_policy policy;
  tn_draft_policy_init(&policy, 0);
  for (uint32_t i = 0; i < 4; i++) {
    tn_draft_wish wish = {.most = 15, .confidence = 3};
    tn_draft_policy_choose(&policy, &wish, 1, 1, 1, 63);
    assert_int_equal(wish.chosen, 0);
    tn_draft_policy_learn_pass(&policy, 1, i ? 3000000 : 30000000);
  }
  assert_true(tn_draft_policy_pass(&policy, 1) == 3e6);
  tn_draft_wish wish = {.most = 15, .confidence = 3};
  tn_draft_policy_choose(&policy, &wish, 1, 1, 1, 63);
  assert_true(wish.chosen > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(drafts_never_cost_much),
      cmocka_unit_test(drafts_gain_what_can_be_gained),
      cmocka_unit_test(fixed_is_fixed),
      cmocka_unit_test(passes_are_interpolated),
      cmocka_unit_test(a_cold_start_is_forgotten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
