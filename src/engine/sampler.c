#include "engine/sampler.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "engine/candidates.h"
#include "engine/random.h"

struct tn_sampler {
  uint32_t vocabulary;
  const float *values;      /* [vocabulary]: the logits as the stages have changed them */
  float *own;               /* [vocabulary]: room for them where one does; the logits themselves stay as they are */
  float best;               /* the greatest of them */
  float *weights;           /* [vocabulary]: work space for exponentials */
  tn_candidate *candidates; /* what top-k, top-p or min-p have kept, in no order; count 0: all of `values` */
  uint32_t candidate_count;
  uint32_t *counts; /* [vocabulary]: 0 between draws */
  tn_buf text;      /* of the last tokens, where DRY looks for its breakers */
  bool is_out_of_memory;
};

/* What such texts usually take. */
#define USUAL_TEXT 4096u

typedef struct stage {
  const char *name;
  bool (*is_wanted)(const tn_draw *draw);
  void (*apply)(tn_sampler *sampler, const tn_draw *draw);
} stage;

tn_status tn_sampler_create(uint32_t vocabulary, tn_sampler **sampler, tn_error *error) {
  *sampler = NULL;
  tn_sampler *made = calloc(1, sizeof *made);
  if (made) {
    made->vocabulary = vocabulary;
    made->own = tn_calloc(vocabulary, sizeof *made->own);
    made->weights = tn_calloc(vocabulary, sizeof *made->weights);
    made->candidates = tn_calloc(vocabulary, sizeof *made->candidates);
    made->counts = tn_calloc(vocabulary, sizeof *made->counts);
    tn_buf_init(&made->text);
  }
  if (!made || !tn_buf_reserve(&made->text, USUAL_TEXT) || !made->own || !made->weights || !made->candidates ||
      !made->counts) {
    tn_sampler_destroy(made);
    return tn_fail(error, TN_E_MEMORY, "no memory for a sampler of %u tokens", vocabulary);
  }
  *sampler = made;
  return TN_OK;
}

void tn_sampler_destroy(tn_sampler *sampler) {
  if (!sampler) return;
  free(sampler->own);
  free(sampler->weights);
  free(sampler->candidates);
  free(sampler->counts);
  tn_buf_finish(&sampler->text);
  free(sampler);
}

#define MOST_BIAS 1e9f

static tn_status check_range(const char *name, float value, float least, float most, tn_error *error) {
  if (value >= least && value <= most) return TN_OK;
  return tn_fail(error, TN_E_INVALID, "%s is %g; it must be from %g to %g", name, (double)value, (double)least,
                 (double)most);
}

tn_status tn_sampling_check(const tn_sampling *sampling, uint32_t vocabulary, tn_error *error) {
  const struct {
    const char *name;
    float value, least, most;
  } ranges[] = {
      {"temperature", sampling->temperature, 0.0f, 100.0f},
      {"top_p", sampling->top_p, 0.0f, 1.0f},
      {"min_p", sampling->min_p, 0.0f, 1.0f},
      {"repeat_penalty", sampling->repeat_penalty, 0.01f, 100.0f},
      {"presence_penalty", sampling->presence_penalty, -100.0f, 100.0f},
      {"frequency_penalty", sampling->frequency_penalty, -100.0f, 100.0f},
      {"dry_multiplier", sampling->dry.multiplier, 0.0f, 100.0f},
      {"dry_base", sampling->dry.base, 1.0f, 100.0f},
      {"dry_allowed_length", (float)sampling->dry.allowed_length, 0.0f, (float)TN_DRY_LONGEST},
      {"xtc_probability", sampling->xtc_probability, 0.0f, 1.0f},
      {"xtc_threshold", sampling->xtc_threshold, 0.0f, 1.0f},
  };
  for (size_t i = 0; i < TN_COUNT(ranges); i++) {
    tn_status status = check_range(ranges[i].name, ranges[i].value, ranges[i].least, ranges[i].most, error);
    if (status != TN_OK) return status;
  }
  if (sampling->top_logprobs > TN_MAX_TOP_LOGPROBS)
    return tn_fail(error, TN_E_INVALID, "top_logprobs is %u; at most %u can be had", sampling->top_logprobs,
                   TN_MAX_TOP_LOGPROBS);
  for (size_t i = 0; i < sampling->logit_bias_count; i++) {
    const tn_logit_bias *bias = &sampling->logit_bias[i];
    if (bias->token < 0 || (uint32_t)bias->token >= vocabulary)
      return tn_fail(error, TN_E_INVALID, "logit_bias names token %d; the vocabulary has %u", bias->token, vocabulary);
    if (!(bias->bias <= MOST_BIAS && (bias->bias >= -MOST_BIAS || bias->bias == -INFINITY)))
      return tn_fail(error, TN_E_INVALID, "logit_bias of token %d is %g; it must be from %g to %g, or -infinity",
                     bias->token, (double)bias->bias, (double)-MOST_BIAS, (double)MOST_BIAS);
  }
  return TN_OK;
}

/* ---- stages ---- */

static bool wants_bias(const tn_draw *draw) {
  return draw->sampling->logit_bias_count > 0 || draw->banned_count > 0;
}

static void apply_bias(tn_sampler *sampler, const tn_draw *draw) {
  for (size_t i = 0; i < draw->sampling->logit_bias_count; i++)
    sampler->own[draw->sampling->logit_bias[i].token] += draw->sampling->logit_bias[i].bias;
  for (size_t i = 0; i < draw->banned_count; i++)
    if ((uint32_t)draw->banned[i] < sampler->vocabulary) sampler->own[draw->banned[i]] = -INFINITY;
}

static bool wants_repeat_penalty(const tn_draw *draw) {
  return draw->sampling->repeat_penalty != 1.0f && draw->sampling->repeat_last > 0;
}

/* Keskar et al., "CTRL" (2019), section 4.1, with negative logits multiplied: a logit always goes down. */
static void apply_repeat_penalty(tn_sampler *sampler, const tn_draw *draw) {
  uint32_t last = draw->sampling->repeat_last < draw->token_count ? draw->sampling->repeat_last : draw->token_count;
  const int32_t *tokens = draw->tokens + (draw->token_count - last);
  for (uint32_t i = 0; i < last; i++) {
    if (sampler->counts[tokens[i]]++) continue;
    float *value = &sampler->own[tokens[i]];
    *value = *value > 0 ? *value / draw->sampling->repeat_penalty : *value * draw->sampling->repeat_penalty;
  }
  for (uint32_t i = 0; i < last; i++) sampler->counts[tokens[i]] = 0;
}

static bool wants_count_penalties(const tn_draw *draw) {
  return draw->sampling->presence_penalty != 0.0f || draw->sampling->frequency_penalty != 0.0f;
}

static void apply_count_penalties(tn_sampler *sampler, const tn_draw *draw) {
  const int32_t *answer = draw->tokens + draw->prompt_count;
  uint32_t count = draw->token_count - draw->prompt_count;
  for (uint32_t i = 0; i < count; i++) sampler->counts[answer[i]]++;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t *times = &sampler->counts[answer[i]];
    if (*times == 0) continue;
    sampler->own[answer[i]] -= draw->sampling->presence_penalty + (float)*times * draw->sampling->frequency_penalty;
    *times = 0;
  }
}

static bool wants_dry(const tn_draw *draw) {
  return draw->sampling->dry.multiplier > 0.0f && draw->sampling->dry.last_n > 0;
}

static void apply_dry(tn_sampler *sampler, const tn_draw *draw) {
  if (!tn_dry_apply(&draw->sampling->dry, draw->tokens, draw->token_count, sampler->own, sampler->counts,
                    &sampler->text))
    sampler->is_out_of_memory = true;
}

static bool wants_grammar(const tn_draw *draw) {
  return draw->allowed != NULL;
}

static void apply_grammar(tn_sampler *sampler, const tn_draw *draw) {
  for (uint32_t i = 0; i < sampler->vocabulary; i++)
    if (i >= draw->allowed_count || !(draw->allowed[i / 32] >> (i % 32) & 1)) sampler->own[i] = -INFINITY;
}

static bool wants_temperature(const tn_draw *draw) {
  return draw->sampling->temperature != 1.0f;
}

/* Relative to the best, so that no temperature overflows. */
static void apply_temperature(tn_sampler *sampler, const tn_draw *draw) {
  for (uint32_t i = 0; i < sampler->vocabulary; i++)
    sampler->own[i] = (sampler->values[i] - sampler->best) / draw->sampling->temperature;
  sampler->values = sampler->own;
  sampler->best = 0;
}

static bool wants_top_k(const tn_draw *draw) {
  return draw->sampling->top_k > 0;
}

static void apply_top_k(tn_sampler *sampler, const tn_draw *draw) {
  if (draw->sampling->top_k >= sampler->vocabulary) return;
  sampler->candidate_count =
      tn_select_best(sampler->values, sampler->vocabulary, sampler->candidates, draw->sampling->top_k);
}

/* Makes candidates of all values that are at least `least`, or drops the candidates that aren't. */
static void keep_from(tn_sampler *sampler, float least) {
  tn_candidate *candidates = sampler->candidates;
  uint32_t count = sampler->candidate_count, kept = 0;
  for (uint32_t i = 0; i < count; i++)
    if (candidates[i].value >= least) candidates[kept++] = candidates[i];
  if (!count) kept = tn_values_from(sampler->values, sampler->vocabulary, least, candidates);
  sampler->candidate_count = kept;
}

static double weight_of_candidates(const tn_sampler *sampler, float best) {
  double sum = 0;
  for (uint32_t i = 0; i < sampler->candidate_count; i++)
    sum += (double)tn_exp_below(sampler->candidates[i].value - best);
  return sum;
}

static bool wants_top_p(const tn_draw *draw) {
  return draw->sampling->top_p < 1.0f;
}

/* Holtzman et al., "The curious case of neural text degeneration" (2020): the fewest best tokens that reach p. */
static void apply_top_p(tn_sampler *sampler, const tn_draw *draw) {
  double p = (double)draw->sampling->top_p, sum = 0;
  const tn_candidate *candidates = sampler->candidates;
  for (uint32_t i = 0; i < sampler->candidate_count; i++) {
    float weight = tn_exp_below(candidates[i].value - sampler->best);
    sampler->weights[candidates[i].token] = weight;
    sum += (double)weight;
  }
  if (!sampler->candidate_count) {
    /* Tokens below (1 - p) / V of the mass have less than 1 - p together, so the others reach p without them; the half
     * makes up for rounding. */
    sum = tn_exponentials(sampler->values, sampler->vocabulary, sampler->best, sampler->weights);
    keep_from(sampler, sampler->best + (float)log(0.5 * (1.0 - p) * sum / sampler->vocabulary));
  }
  sampler->candidate_count = tn_select_mass(sampler->candidates, sampler->candidate_count, sampler->weights, p * sum);
}

static bool wants_min_p(const tn_draw *draw) {
  return draw->sampling->min_p > 0.0f;
}

/* Keeps the tokens that have at least min_p times the probability of the best one. */
static void apply_min_p(tn_sampler *sampler, const tn_draw *draw) {
  keep_from(sampler, sampler->best + logf(draw->sampling->min_p));
}

static bool wants_xtc(const tn_draw *draw) {
  return draw->sampling->xtc_probability > 0.0f;
}

/* "Exclude top choices", by p-e-w (text-generation-webui, pull request 6335, 2024): by its chance, of the tokens that
 * have at least the threshold's probability only the least likely one is kept. */
static void apply_xtc(tn_sampler *sampler, const tn_draw *draw) {
  const tn_sampling *sampling = draw->sampling;
  double chance = tn_random_chance(sampling->seed, sampling->choice, draw->token_count);
  if (chance >= (double)sampling->xtc_probability) return;
  if (!sampler->candidate_count) keep_from(sampler, -FLT_MAX);
  tn_candidate *candidates = sampler->candidates, least = {.token = -1};
  float best = sampler->best;
  double wanted = (double)sampling->xtc_threshold * weight_of_candidates(sampler, best);
  for (uint32_t i = 0; i < sampler->candidate_count; i++) {
    if ((double)tn_exp_below(candidates[i].value - best) < wanted) continue;
    if (least.token < 0 || tn_candidate_is_better(least, candidates[i])) least = candidates[i];
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < sampler->candidate_count; i++)
    if (least.token < 0 || !tn_candidate_is_better(candidates[i], least)) candidates[kept++] = candidates[i];
  sampler->candidate_count = kept;
}

/* Stages that change the values, then those that scale and choose; greedy sampling needs the first group only. */
static const stage VALUE_STAGES[] = {
    {"logit_bias", wants_bias, apply_bias},
    {"repeat_penalty", wants_repeat_penalty, apply_repeat_penalty},
    {"presence_frequency", wants_count_penalties, apply_count_penalties},
    {"dry", wants_dry, apply_dry},
    {"grammar", wants_grammar, apply_grammar},
};
static const stage CHOICE_STAGES[] = {
    {"temperature", wants_temperature, apply_temperature},
    {"top_k", wants_top_k, apply_top_k},
    {"top_p", wants_top_p, apply_top_p},
    {"min_p", wants_min_p, apply_min_p},
    {"xtc", wants_xtc, apply_xtc},
};

static void apply_stages(tn_sampler *sampler, const tn_draw *draw, const stage *stages, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (stages[i].is_wanted(draw)) stages[i].apply(sampler, draw);
}

/* The first group, on a copy of the logits if there is anything to be done. */
static void change_values(tn_sampler *sampler, const tn_draw *draw) {
  bool is_sound, is_wanted = false;
  for (size_t i = 0; i < TN_COUNT(VALUE_STAGES); i++) is_wanted = is_wanted || VALUE_STAGES[i].is_wanted(draw);
  if (!is_wanted) return;
  memcpy(sampler->own, draw->logits, sampler->vocabulary * sizeof *sampler->own);
  sampler->values = sampler->own;
  apply_stages(sampler, draw, VALUE_STAGES, TN_COUNT(VALUE_STAGES));
  sampler->best = tn_greatest(sampler->values, sampler->vocabulary, &is_sound);
}

/* ---- the draw ---- */

static int32_t draw_candidate(const tn_sampler *sampler, double random) {
  float best = -INFINITY;
  for (uint32_t i = 0; i < sampler->candidate_count; i++)
    if (sampler->candidates[i].value > best) best = sampler->candidates[i].value;
  double wanted = random * weight_of_candidates(sampler, best), passed = 0;
  int32_t last = 0;
  for (uint32_t i = 0; i < sampler->candidate_count && passed <= wanted; i++) {
    double weight = (double)tn_exp_below(sampler->candidates[i].value - best);
    if (weight > 0) last = sampler->candidates[i].token;
    passed += weight;
  }
  return last;
}

/* Among all tokens, in the order of their ids. */
static int32_t draw_value(tn_sampler *sampler, double random) {
  double wanted = random * tn_exponentials(sampler->values, sampler->vocabulary, sampler->best, sampler->weights);
  return (int32_t)tn_index_at_mass(sampler->weights, sampler->vocabulary, wanted);
}

/* Log-probabilities by the untouched logits, whose greatest is `best`: of the sample's token, and of the best `wanted`.
 */
static void add_logprobs(const tn_sampler *sampler, const float *logits, float best, uint32_t wanted,
                         tn_sample *sample) {
  double log_sum = log(tn_exponentials(logits, sampler->vocabulary, best, sampler->weights));
  sample->logprob = (float)((double)(logits[sample->token] - best) - log_sum);
  if (!wanted) return;
  tn_candidate top[TN_MAX_TOP_LOGPROBS];
  sample->top_count = tn_select_best(logits, sampler->vocabulary, top, wanted);
  for (uint32_t i = 0; i < sample->top_count; i++)
    sample->top[i] = (tn_top_logprob){top[i].token, (float)((double)(top[i].value - best) - log_sum)};
}

static tn_status name_unsound(const float *logits, uint32_t vocabulary, uint32_t position, tn_error *error) {
  uint32_t token = 0;
  while (token + 1 < vocabulary && logits[token] < INFINITY) token++;
  return tn_fail(error, TN_E_INTERNAL, "the logit of token %u at position %u is %g", token, position,
                 (double)logits[token]);
}

tn_status tn_sampler_draw(tn_sampler *sampler, const tn_draw *draw, tn_sample *sample, tn_error *error) {
  bool is_sound;
  float best = tn_greatest(draw->logits, sampler->vocabulary, &is_sound);
  sample->top_count = 0;
  sample->logprob = 0;
  if (!is_sound) return name_unsound(draw->logits, sampler->vocabulary, draw->token_count, error);
  sampler->values = draw->logits;
  sampler->best = best;
  sampler->candidate_count = 0;
  sampler->is_out_of_memory = false;
  change_values(sampler, draw);
  if (sampler->is_out_of_memory)
    return tn_fail(error, TN_E_MEMORY, "no memory for the text that DRY looks at, at position %u", draw->token_count);
  if (sampler->best == -INFINITY)
    return tn_fail(error, TN_E_INVALID, "no token is allowed at position %u", draw->token_count);
  if (draw->sampling->temperature > 0) {
    apply_stages(sampler, draw, CHOICE_STAGES, TN_COUNT(CHOICE_STAGES));
    double random = tn_random_draw(draw->sampling->seed, draw->sampling->choice, draw->token_count);
    sample->token = sampler->candidate_count ? draw_candidate(sampler, random) : draw_value(sampler, random);
  } else {
    sample->token = (int32_t)tn_index_of(sampler->values, sampler->vocabulary, sampler->best);
  }
  if (draw->sampling->logprobs || draw->sampling->top_logprobs)
    add_logprobs(sampler, draw->logits, best, draw->sampling->top_logprobs, sample);
  return TN_OK;
}

tn_status tn_sampler_score(tn_sampler *sampler, const float *logits, int32_t token, uint32_t position, uint32_t top,
                           tn_sample *sample, tn_error *error) {
  bool is_sound;
  float best = tn_greatest(logits, sampler->vocabulary, &is_sound);
  if (!is_sound) return name_unsound(logits, sampler->vocabulary, position, error);
  sample->token = token;
  sample->top_count = 0;
  add_logprobs(sampler, logits, best, top, sample);
  return TN_OK;
}
