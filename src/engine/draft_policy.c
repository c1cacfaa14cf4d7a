#include "engine/draft_policy.h"

#include <string.h>

#define PRIOR_WEIGHT 2.0 /* tries that what is thought at first counts as */
#define MEMORY 0.97      /* what is left of a count when another one comes */
#define FREE_ROW 0.03    /* of a pass: what a row more is thought to cost before it was measured */
#define SURE_PASSES 4u   /* measurements before one is relied on */
#define LEAST_GAIN 1.02  /* expected tokens per second over plain ones for drafts to be made */
#define REMEASURE 64u    /* steps with drafts between two without, to know what those cost */
#define LEAST_PATIENCE 16u
#define MOST_PATIENCE 256u
#define PROBE 2u       /* drafts of a try */
#define LOSS 0.01      /* of all time, and */
#define GRACE 4.0      /* so many passes, may be lost */
#define CREDIT 16.0    /* passes gained that are remembered */
#define HORIZON 4000.0 /* passes of "all time" */

void tn_draft_policy_init(tn_draft_policy *policy, uint32_t fixed) {
  *policy = (tn_draft_policy){.fixed = fixed, .patience = LEAST_PATIENCE};
}

/* Of a draft of which nothing is known, by how sure the drafter is. */
static const double first_odds[TN_DRAFT_CLASSES] = {0.35, 0.5, 0.7, 0.85};

double tn_draft_policy_odds(const tn_draft_policy *policy, uint32_t confidence, uint32_t position) {
  double odds = first_odds[confidence];
  for (uint32_t i = 0; i <= position; i++) {
    const tn_draft_odds *seen = &policy->odds[confidence][i];
    odds = (seen->accepted + PRIOR_WEIGHT * odds) / (seen->tried + PRIOR_WEIGHT);
  }
  return odds;
}

/* The nearest measured number of rows from `rows` on, downwards or upwards; 0: none. */
static uint32_t measured(const tn_draft_policy *policy, uint32_t rows, int direction) {
  for (; rows > 0 && rows <= TN_MAX_LOGITS_ROWS; rows += (uint32_t)direction)
    if (policy->passes[rows]) return rows;
  return 0;
}

/* By the nearest measured ones: between two on a line; above all with the slope from the fewest to the most, or
 * hopefully. */
static double estimate(const tn_draft_policy *policy, uint32_t rows) {
  const double *ns = policy->pass_ns;
  uint32_t below = measured(policy, rows, -1), above = measured(policy, rows, 1);
  if (below == rows) return ns[rows];
  if (!below) return above ? ns[above] : 0;
  if (above) return ns[below] + (ns[above] - ns[below]) * (rows - below) / (above - below);
  uint32_t fewest = measured(policy, 1, 1);
  double slope = ns[below] * FREE_ROW;
  if (fewest < below && ns[below] > ns[fewest]) slope = (ns[below] - ns[fewest]) / (below - fewest);
  return ns[below] + slope * (rows - below);
}

/* More rows never take less: what says so was measured at another time, when everything went faster. */
double tn_draft_policy_pass(const tn_draft_policy *policy, uint32_t rows) {
  if (rows > TN_MAX_LOGITS_ROWS) rows = TN_MAX_LOGITS_ROWS;
  double ns = estimate(policy, rows);
  for (uint32_t fewer = 1; fewer < rows; fewer++)
    if (policy->passes[fewer] && policy->pass_ns[fewer] > ns) ns = policy->pass_ns[fewer];
  return ns;
}

/* ---- choosing ---- */

static void choose_fixed(const tn_draft_policy *policy, tn_draft_wish *wishes, uint32_t count, uint32_t rows_left) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t wanted = policy->fixed < wishes[i].most ? policy->fixed : wishes[i].most;
    wishes[i].chosen = wanted < rows_left ? wanted : rows_left;
    rows_left -= wishes[i].chosen;
  }
}

/* Rows one by one where they are likeliest to be accepted; the best of all these choices. True if it beats none. */
static bool choose_paying(const tn_draft_policy *policy, tn_draft_wish *wishes, uint32_t count, uint32_t sequences,
                          uint32_t rows, uint32_t rows_left) {
  double survival[TN_MAX_LOGITS_ROWS], tokens = sequences;
  double best = tokens / tn_draft_policy_pass(policy, rows) * LEAST_GAIN;
  uint8_t taken[TN_MAX_LOGITS_ROWS] = {0};
  uint32_t depth = 0;
  bool pays = false;
  for (uint32_t i = 0; i < count; i++) survival[i] = tn_draft_policy_odds(policy, wishes[i].confidence, 0);
  for (uint32_t added = 1; added <= rows_left; added++) {
    uint32_t at = count;
    for (uint32_t i = 0; i < count; i++)
      if (taken[i] < wishes[i].most && (at == count || survival[i] > survival[at])) at = i;
    if (at == count) break;
    tokens += survival[at];
    if (++taken[at] > depth) depth = taken[at];
    if (taken[at] < wishes[at].most) survival[at] *= tn_draft_policy_odds(policy, wishes[at].confidence, taken[at]);
    double rate = tokens / (tn_draft_policy_pass(policy, rows + added) + depth * policy->round_ns);
    if (rate <= best) continue;
    best = rate;
    pays = true;
    for (uint32_t i = 0; i < count; i++) wishes[i].chosen = taken[i];
  }
  return pays;
}

static bool may_lose(const tn_draft_policy *policy) {
  return policy->gained_ns > -(LOSS * policy->all_ns + GRACE * tn_draft_policy_pass(policy, 1));
}

/* Drafts that aren't expected to pay, to see whether that is still so. */
static void probe(tn_draft_policy *policy, tn_draft_wish *wishes, uint32_t count, uint32_t rows_left) {
  if (++policy->idle < policy->patience) return;
  policy->idle = 0;
  policy->patience = 2 * policy->patience < MOST_PATIENCE ? 2 * policy->patience : MOST_PATIENCE;
  tn_draft_wish *one = wishes + policy->tries++ % count;
  one->chosen = one->most < PROBE ? one->most : PROBE;
  if (one->chosen > rows_left) one->chosen = rows_left;
}

void tn_draft_policy_choose(tn_draft_policy *policy, tn_draft_wish *wishes, uint32_t count, uint32_t sequences,
                            uint32_t rows, uint32_t rows_left) {
  for (uint32_t i = 0; i < count; i++) wishes[i].chosen = 0;
  if (policy->fixed) {
    choose_fixed(policy, wishes, count, rows_left);
    return;
  }
  if (!count || count > TN_MAX_LOGITS_ROWS || rows > TN_MAX_LOGITS_ROWS) return;
  if (policy->passes[rows] < SURE_PASSES) return;
  if (policy->since_plain >= REMEASURE || !may_lose(policy)) return;
  if (choose_paying(policy, wishes, count, sequences, rows, rows_left)) {
    policy->idle = 0;
    policy->patience = LEAST_PATIENCE;
  } else {
    probe(policy, wishes, count, rows_left);
  }
}

/* ---- learning ---- */

/* Goes quickly to less and slowly to more, as what disturbs a measurement only makes it longer. */
static double follow(double known, double seen) {
  if (seen < known) return known + (seen - known) * 0.3;
  return known + ((seen < 2 * known ? seen : 2 * known) - known) * 0.1;
}

void tn_draft_policy_learn_pass(tn_draft_policy *policy, uint32_t rows, uint64_t ns) {
  if (!rows || rows > TN_MAX_LOGITS_ROWS) return;
  double *known = &policy->pass_ns[rows], seen = (double)ns;
  if (policy->passes[rows] >= SURE_PASSES)
    *known = follow(*known, seen);
  else if (!policy->passes[rows] || seen < *known) /* the first ones may find everything cold */
    *known = seen;
  if (policy->passes[rows] < UINT32_MAX) policy->passes[rows]++;
}

void tn_draft_policy_learn_rounds(tn_draft_policy *policy, uint32_t rounds, uint64_t ns) {
  if (!rounds) return;
  double seen = (double)ns / rounds;
  policy->round_ns = policy->round_ns > 0 ? follow(policy->round_ns, seen) : seen;
}

/* What isn't tried is forgotten, so that bad luck at a position doesn't keep it from being tried again. */
void tn_draft_policy_learn_odds(tn_draft_policy *policy, uint32_t confidence, uint32_t compared, uint32_t accepted) {
  for (uint32_t i = 0; i < TN_MAX_DRAFT; i++) {
    tn_draft_odds *odds = &policy->odds[confidence][i];
    odds->tried = odds->tried * MEMORY + (i < compared);
    odds->accepted = odds->accepted * MEMORY + (i < accepted);
  }
}

void tn_draft_policy_learn_step(tn_draft_policy *policy, uint32_t sequences, uint32_t rows, uint32_t rounds,
                                uint32_t tokens) {
  double pass = tn_draft_policy_pass(policy, 1), ns = tn_draft_policy_pass(policy, rows) + rounds * policy->round_ns;
  policy->since_plain = rounds ? policy->since_plain + 1 : 0;
  policy->all_ns += ns;
  if (policy->all_ns > HORIZON * pass) policy->all_ns = HORIZON * pass;
  if (!rounds || !sequences) {
    policy->gained_ns *= 1 - 4 / HORIZON;
    return;
  }
  policy->gained_ns += tn_draft_policy_pass(policy, sequences) * tokens / sequences - ns;
  if (policy->gained_ns > CREDIT * pass) policy->gained_ns = CREDIT * pass;
}
