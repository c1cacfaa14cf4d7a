/* From a row of logits to a token: a table of stages in fixed order (logit bias, penalties, DRY, grammar,
 * temperature, top-k, top-p, min-p, XTC), then one draw.
 *
 * The draw's random number and XTC's are a function of (seed, choice, position) alone (random.h), so the same request
 * gives the same text whatever else runs. Log-probabilities come from the untouched logits. Nothing is allocated after
 * tn_sampler_create; a draw costs O(V), and O(m log V) for the m tokens that top-k or top-p keep; DRY at most 50
 * times the tokens it looks back over. */
#ifndef TENON_ENGINE_SAMPLER_H
#define TENON_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>
#include "engine/dry.h"
#include "tenon/tenon.h"

#define TN_MAX_TOP_LOGPROBS 20u

/* How a request wants its tokens drawn; fields as in tn_request_options. */
typedef struct tn_sampling {
  const tn_logit_bias *logit_bias;
  size_t logit_bias_count;
  float repeat_penalty;
  uint32_t repeat_last; /* 0: none */
  float presence_penalty, frequency_penalty;
  tn_dry dry;
  float temperature;
  uint32_t top_k;
  float top_p, min_p;
  float xtc_probability, xtc_threshold;
  uint64_t seed;
  uint32_t choice;
  uint32_t logprobs, top_logprobs;
} tn_sampling;

/* What one draw stands on. */
typedef struct tn_draw {
  const tn_sampling *sampling;
  const float *logits;   /* [vocabulary], left as they are */
  const int32_t *tokens; /* the sequence so far */
  uint32_t token_count;  /* the draw is for this position */
  uint32_t prompt_count; /* of them from the prompt */
  const int32_t *banned; /* tokens that may not be drawn (end tokens before min_tokens); others than the vocabulary's
                            don't count */
  size_t banned_count;
  const uint32_t *allowed; /* NULL: all; else bit (id % 32) of word id / 32 for ids below allowed_count, none above */
  uint32_t allowed_count;
} tn_draw;

typedef struct tn_sample {
  int32_t token;
  float logprob; /* 0 unless asked for */
  uint32_t top_count;
  tn_top_logprob top[TN_MAX_TOP_LOGPROBS]; /* best first; of equals the lower id first */
} tn_sample;

typedef struct tn_sampler tn_sampler;

/* Work space for draws from `vocabulary` logits; shared by all requests of a thread. */
tn_status tn_sampler_create(uint32_t vocabulary, tn_sampler **sampler, tn_error *error);
void tn_sampler_destroy(tn_sampler *sampler);

/* Values in their ranges? TN_E_INVALID names the field, the value and the range. */
tn_status tn_sampling_check(const tn_sampling *sampling, uint32_t vocabulary, tn_error *error);

/* Draws a token. TN_E_INTERNAL: a logit is NaN or +infinite; TN_E_INVALID: bias and bans leave no token;
 * TN_E_MEMORY. */
tn_status tn_sampler_draw(tn_sampler *sampler, const tn_draw *draw, tn_sample *sample, tn_error *error);
/* What the logits [vocabulary] say of a token that is given, the one at `position`: its log-probability and the best
 * `top` alternatives. TN_E_INTERNAL as above. */
tn_status tn_sampler_score(tn_sampler *sampler, const float *logits, int32_t token, uint32_t position, uint32_t top,
                           tn_sample *sample, tn_error *error);

#endif
