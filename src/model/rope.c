/* Frequencies of rotary positions and their scalings (see rope.h); reading them is in rope_read.c. */
#include "model/rope.h"

#include <math.h>
#include <stdio.h>

#define MAX_PAIRS 512u

static const double pi = 3.14159265358979323846;

static double llama3(const tn_rope_hyper *rope, double frequency) {
  double wavelength = 2 * pi / frequency, n = (double)rope->original_context;
  double low = (double)rope->low_freq, high = (double)rope->high_freq;
  if (wavelength < n / high) return frequency;
  if (wavelength > n / low) return frequency / (double)rope->factor;
  double blend = (n / wavelength - low) / (high - low);
  return frequency * ((1 - blend) / (double)rope->factor + blend);
}

/* The rotary index whose pair turns `turns` times over the original context. */
static double yarn_index(const tn_rope_hyper *rope, float turns) {
  return rope->span * log((double)rope->original_context / (2 * pi * (double)turns)) / (2 * log((double)rope->theta));
}

static double yarn(const tn_rope_hyper *rope, double frequency, uint32_t m) {
  double low = yarn_index(rope, rope->beta_fast), high = yarn_index(rope, rope->beta_slow);
  if (rope->truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = fmax(low, 0);
  high = fmin(high, rope->span - 1.0);
  if (low == high) high += 0.001;
  double ramp = fmin(fmax((m - low) / (high - low), 0), 1);
  return frequency * (1 - ramp) + frequency / (double)rope->factor * ramp;
}

static double frequency_of(const tn_rope_hyper *rope, uint32_t m) {
  double frequency = pow((double)rope->theta, -2.0 * m / rope->span);
  switch (rope->scaling) {
    case TN_ROPE_LINEAR: return frequency / (double)rope->factor;
    case TN_ROPE_LLAMA3: return llama3(rope, frequency);
    case TN_ROPE_YARN: return yarn(rope, frequency, m);
    case TN_ROPE_PROPORTIONAL:
      return m < (uint32_t)(rope->part * (float)rope->rotary / 2) ? frequency / (double)rope->factor : 0;
    default: return frequency;
  }
}

/* What a number of layers and a factor do to cos and sin. */
static double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double magnitude_of(const tn_rope_hyper *rope, uint32_t context) {
  double factor = (double)rope->factor, n = (double)rope->original_context;
  if (rope->attention_factor > 0) return (double)rope->attention_factor;
  if (rope->scaling == TN_ROPE_YARN) {
    if (rope->mscale > 0 && rope->mscale_all > 0)
      return yarn_magnitude(factor, (double)rope->mscale) / yarn_magnitude(factor, (double)rope->mscale_all);
    return yarn_magnitude(factor, 1);
  }
  if (rope->scaling == TN_ROPE_LONG) {
    double extension = factor > 0 ? factor : context / n;
    return extension <= 1 ? 1 : sqrt(1 + log(extension) / log(n));
  }
  return 1;
}

float tn_rope_magnitude(const tn_rope_hyper *rope, uint32_t context) {
  return (float)magnitude_of(rope, context);
}

/* Divides by the numbers of a tensor: rope_freqs and the long factors of GGUF. */
static void divide_by_tensor(tn_build *build, const char *tensor, float *frequencies, uint32_t pairs) {
  float divisors[MAX_PAIRS];
  if (!tn_build_read(build, pairs, divisors, "%s", tensor)) return;
  for (uint32_t m = 0; m < pairs; m++) {
    if (!(divisors[m] > 0)) {
      tn_graph_fail(build->graph, TN_E_FORMAT, "%s: tensor %s: value %u is %g, expected a positive number",
                    build->file->path, tensor, m, (double)divisors[m]);
      return;
    }
    frequencies[m] = (float)((double)frequencies[m] / (double)divisors[m]);
  }
}

/* The factors of longrope: GGUF has them as tensors, config.json as arrays. */
static void divide_by_long_factors(tn_build *build, const tn_rope_hyper *rope, float *frequencies, uint32_t pairs) {
  bool is_long = (float)build->context > rope->original_context;
  if (!tn_container_is_folder(build->file)) {
    divide_by_tensor(build, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight", frequencies, pairs);
    return;
  }
  char name[100];
  snprintf(name, sizeof name, "%s%s", rope->prefix, is_long ? "long_factor" : "short_factor");
  const tn_config_value *factors = tn_config_find(&build->file->config, name);
  if (!factors || factors->item_count != pairs) {
    tn_graph_fail(build->graph, TN_E_FORMAT, "%s: %s: expected %u numbers", build->file->config.path, name, pairs);
    return;
  }
  for (uint32_t m = 0; m < pairs; m++) {
    if (!(factors->items[m].number > 0)) {
      tn_graph_fail(build->graph, TN_E_FORMAT, "%s: %s: value %u is %g, expected a positive number",
                    build->file->config.path, name, m, factors->items[m].number);
      return;
    }
    frequencies[m] = (float)((double)frequencies[m] / factors->items[m].number);
  }
}

tn_ref tn_rope_build(tn_build *build, const tn_rope_hyper *rope, const char *name, const char *divisors) {
  float frequencies[MAX_PAIRS];
  uint32_t pairs = rope->rotary / 2;
  if (build->graph->error.status != TN_OK || !pairs) return TN_NO_VALUE;
  for (uint32_t m = 0; m < pairs; m++) frequencies[m] = (float)frequency_of(rope, m);
  if (divisors && tn_build_has(build, "%s", divisors)) divide_by_tensor(build, divisors, frequencies, pairs);
  if (rope->scaling == TN_ROPE_LONG) divide_by_long_factors(build, rope, frequencies, pairs);
  if (build->graph->error.status != TN_OK) return TN_NO_VALUE;
  tn_ref weight = tn_graph_numbers(build->graph, name, frequencies, pairs);
  return tn_rope_table(build->graph, weight, tn_rope_magnitude(rope, build->hyper->context));
}
