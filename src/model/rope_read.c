/* Reading rotary positions from GGUF metadata (rope.*) or config.json: rope_parameters, rope_scaling (see hyper.h). */
#include <stdio.h>
#include "base/error.h"
#include "model/build.h"
#include "model/hyper.h"
#include "model/names.h"

typedef struct rope_reader {
  tn_hyper_reader *reader;
  tn_rope_hyper *rope;
  const char *prefix; /* in config.json */
} rope_reader;

/* A number below the prefix, or the one at the top of config.json under the same name. */
static float number(rope_reader *in, const char *gguf, const char *config, float otherwise) {
  char key[100];
  if (!tn_hyper_is_folder(in->reader)) return tn_hyper_f32_or(in->reader, gguf, NULL, otherwise);
  snprintf(key, sizeof key, "%s%s", in->prefix, config);
  otherwise = tn_hyper_f32_or(in->reader, NULL, config, otherwise);
  return tn_hyper_f32_or(in->reader, NULL, key, otherwise);
}

/* Positions before scaling. What config.json says at the top counts before what it says among the rotary positions. */
static float original_context(rope_reader *in, const tn_hyper *hyper) {
  char key[100];
  float otherwise = (float)hyper->context;
  if (!tn_hyper_is_folder(in->reader))
    return (float)tn_hyper_u32_or(in->reader, "rope.scaling.original_context_length", NULL, hyper->context);
  snprintf(key, sizeof key, "%soriginal_max_position_embeddings", in->prefix);
  otherwise = tn_hyper_f32_or(in->reader, NULL, key, otherwise);
  return tn_hyper_f32_or(in->reader, NULL, "original_max_position_embeddings", otherwise);
}

/* A number that must be there. */
static float required(rope_reader *in, const char *gguf, const char *config) {
  char key[100];
  snprintf(key, sizeof key, "%s%s", in->prefix, config);
  bool at_top = tn_hyper_is_folder(in->reader) && tn_hyper_has(in->reader, NULL, config);
  return tn_hyper_f32(in->reader, gguf, at_top ? config : key);
}

/* GGUF files of others never say it. */
static bool rare_truth(rope_reader *in, const char *gguf, const char *config, bool usual) {
  char key[100];
  snprintf(key, sizeof key, "%s%s", in->prefix, config);
  return tn_hyper_rare_bool(in->reader, gguf, key, usual);
}

static void ignore(rope_reader *in, const char *config) {
  char key[100];
  snprintf(key, sizeof key, "%s%s", in->prefix, config);
  tn_hyper_ignore(in->reader, NULL, key);
}

static void choose_prefix(rope_reader *in, const char *kind) {
  const tn_config *config = &in->reader->file->config;
  char by_kind[80];
  snprintf(by_kind, sizeof by_kind, "rope_parameters.%s", kind ? kind : "");
  const char *prefix = "rope_scaling.";
  if (kind && tn_config_has_object(config, by_kind))
    prefix = !strcmp(kind, "full_attention") ? "rope_parameters.full_attention." : "rope_parameters.sliding_attention.";
  else if (tn_config_has_object(config, "rope_parameters"))
    prefix = "rope_parameters.";
  in->prefix = in->rope->prefix = prefix;
}

static tn_text scaling_type(rope_reader *in) {
  char key[100];
  tn_hyper_reader *reader = in->reader;
  if (!tn_hyper_is_folder(reader)) {
    bool has_tables = tn_container_find_tensor(reader->file, "rope_factors_long.weight") != NULL;
    return tn_hyper_text_or(reader, "rope.scaling.type", NULL, has_tables ? "longrope" : "none");
  }
  snprintf(key, sizeof key, "%stype", in->prefix);
  tn_text type = tn_hyper_text_or(reader, NULL, key, "default");
  snprintf(key, sizeof key, "%srope_type", in->prefix);
  return tn_hyper_has(reader, NULL, key) ? tn_hyper_text_or(reader, NULL, key, "default") : type;
}

static void read_yarn(rope_reader *in) {
  tn_rope_hyper *rope = in->rope;
  rope->beta_fast = number(in, "rope.scaling.yarn_beta_fast", "beta_fast", 32);
  rope->beta_slow = number(in, "rope.scaling.yarn_beta_slow", "beta_slow", 1);
  rope->truncate = rare_truth(in, "rope.scaling.yarn_truncate", "truncate", true);
  rope->attention_factor = number(in, "rope.scaling.yarn_attn_factor", "attention_factor", 0);
  rope->mscale = number(in, NULL, "mscale", 0);
  rope->mscale_all = number(in, NULL, "mscale_all_dim", 0);
  float extension = number(in, "rope.scaling.yarn_ext_factor", "ext_factor", 1);
  tn_hyper_demand(in->reader, extension == 1 || extension == -1, "rope.scaling.yarn_ext_factor", "ext_factor",
                  (double)extension, "1");
}

static void read_long(rope_reader *in) {
  ignore(in, "long_factor");
  ignore(in, "short_factor");
  in->rope->factor = number(in, NULL, "factor", 0);
  in->rope->attention_factor = number(in, "rope.scaling.attn_factor", "attention_factor", 0);
}

static void read_scaling(rope_reader *in, tn_text type, uint32_t context) {
  static const struct {
    const char *name;
    tn_rope_scaling scaling;
  } known[] = {{"none", TN_ROPE_UNSCALED}, {"default", TN_ROPE_UNSCALED}, {"mrope", TN_ROPE_UNSCALED},
               {"linear", TN_ROPE_LINEAR}, {"llama3", TN_ROPE_LLAMA3},    {"yarn", TN_ROPE_YARN},
               {"longrope", TN_ROPE_LONG}, {"su", TN_ROPE_LONG},          {"proportional", TN_ROPE_PROPORTIONAL}};
  tn_rope_hyper *rope = in->rope;
  size_t k = 0;
  while (k < TN_COUNT(known) && !tn_text_is(type, known[k].name)) k++;
  if (k == TN_COUNT(known)) {
    bool is_folder = tn_hyper_is_folder(in->reader);
    in->reader->status = tn_fail(in->reader->error, TN_E_UNSUPPORTED,
                                 "%s: %s%s is \"%.*s\", expected %s, linear, llama3, yarn, longrope or proportional",
                                 is_folder ? in->reader->file->config.path : in->reader->file->path, in->prefix,
                                 is_folder ? "rope_type" : "rope.scaling.type",
                                 (int)(type.bytes < 40 ? type.bytes : 40), type.data, is_folder ? "default" : "none");
    return;
  }
  rope->scaling = known[k].scaling;
  if (rope->scaling == TN_ROPE_YARN) read_yarn(in);
  if (rope->scaling == TN_ROPE_LONG) read_long(in);
  if (rope->scaling == TN_ROPE_LLAMA3) {
    rope->low_freq = required(in, NULL, "low_freq_factor");
    rope->high_freq = required(in, NULL, "high_freq_factor");
    tn_hyper_demand(in->reader, rope->low_freq > 0 && rope->high_freq > rope->low_freq, NULL, "high_freq_factor",
                    (double)rope->high_freq, "more than low_freq_factor");
  }
  if (rope->scaling != TN_ROPE_UNSCALED && rope->scaling != TN_ROPE_LONG) {
    if (rope->scaling == TN_ROPE_LINEAR || rope->scaling == TN_ROPE_LLAMA3)
      rope->factor = required(in, "rope.scaling.factor", "factor");
    else
      rope->factor = number(in, "rope.scaling.factor", "factor",
                            rope->scaling == TN_ROPE_YARN ? (float)context / rope->original_context : 1);
    tn_hyper_demand(in->reader, rope->factor >= 1e-3f && rope->factor <= 1e6f, "rope.scaling.factor", "factor",
                    (double)rope->factor, "a positive number");
  }
  tn_hyper_demand(in->reader, rope->scaling < TN_ROPE_LLAMA3 || rope->original_context > 1,
                  "rope.scaling.original_context_length", "original_max_position_embeddings",
                  (double)rope->original_context, "more than 1");
}

void tn_hyper_read_rope(tn_hyper_reader *reader, const tn_hyper *hyper, const char *kind, tn_rope_hyper *rope) {
  rope_reader in = {reader, rope, ""};
  *rope = (tn_rope_hyper){.pairing = TN_ROPE_HALF, .factor = 1, .truncate = true, .prefix = ""};
  if (reader->status != TN_OK) return;
  if (tn_hyper_is_folder(reader)) choose_prefix(&in, kind);
  rope->theta = number(&in, "rope.freq_base", "rope_theta", 10000.0f);
  rope->part = number(&in, NULL, "partial_rotary_factor", 1);
  rope->original_context = original_context(&in, hyper);
  tn_hyper_demand(reader, rope->part > 0 && rope->part <= 1, NULL, "partial_rotary_factor", (double)rope->part,
                  "more than 0 and at most 1");
  tn_hyper_demand(reader, rope->part == 1 || reader->family->turns_part, NULL, "partial_rotary_factor",
                  (double)rope->part, "1: this model type turns whole heads");
  if (reader->status != TN_OK) return;
  tn_text type = scaling_type(&in);
  if (reader->status == TN_OK) read_scaling(&in, type, hyper->context);
  float part = rope->scaling == TN_ROPE_PROPORTIONAL ? 1 : rope->part;
  rope->span = tn_hyper_u32_or(reader, "rope.dimension_count", NULL, (uint32_t)(part * (float)hyper->key_dim));
  rope->rotary = rope->span + rope->span % 2; /* a part of a head may be odd: a pair more turns */
  tn_hyper_demand(reader, rope->theta > 0 && rope->theta < 1e30f, "rope.freq_base", "rope_theta", (double)rope->theta,
                  "a positive number");
  bool may_be_odd = rope->rotary < hyper->key_dim;
  tn_hyper_demand(reader,
                  rope->rotary >= 2 && rope->rotary <= hyper->key_dim && (may_be_odd || rope->span == rope->rotary),
                  "rope.dimension_count", part < 1 ? "partial_rotary_factor" : "head_dim",
                  part < 1 ? (double)part : rope->span, "what lets an even part of the head turn");
}

void tn_hyper_read_sliding_rope(tn_hyper_reader *reader, tn_hyper *hyper, float theta) {
  if (tn_hyper_is_folder(reader) && tn_config_has_object(&reader->file->config, "rope_parameters.sliding_attention")) {
    tn_hyper_read_rope(reader, hyper, "sliding_attention", &hyper->rope_sliding);
    return;
  }
  hyper->rope_sliding = hyper->rope;
  hyper->rope_sliding.scaling = TN_ROPE_UNSCALED;
  hyper->rope_sliding.attention_factor = 0;
  hyper->rope_sliding.theta = theta > 0 ? tn_hyper_f32_or(reader, "rope.freq_base_swa", "rope_local_base_freq", theta)
                                        : tn_hyper_f32_or(reader, "rope.freq_base_swa", NULL, hyper->rope.theta);
}

void tn_hyper_demand_rope(tn_hyper_reader *reader) {
  if (reader->status != TN_OK || !tn_hyper_is_folder(reader)) return;
  const tn_config *config = &reader->file->config;
  if (tn_config_has_object(config, "rope_parameters") || tn_config_has_object(config, "rope_scaling") ||
      tn_config_has(config, "rope_scaling"))
    return;
  reader->status =
      tn_fail(reader->error, TN_E_NOT_FOUND, "%s: rope_parameters (or rope_scaling) is missing", config->path);
}
