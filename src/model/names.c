/* Translating tensor names (see names.h). */
#include "model/names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include "model/build.h"

/* What most families call their tensors. */
static const tn_tensor_name common[] = {
    {"token_embd", "embed_tokens", 0},
    {"output_norm", "norm", 0},
    {"output", "lm_head", 0},
    {"blk.#.attn_norm", "layers.#.input_layernorm", 0},
    {"blk.#.attn_q", "layers.#.self_attn.q_proj", 0},
    {"blk.#.attn_k", "layers.#.self_attn.k_proj", 0},
    {"blk.#.attn_v", "layers.#.self_attn.v_proj", 0},
    {"blk.#.attn_qkv", "layers.#.self_attn.qkv_proj", 0},
    {"blk.#.attn_output", "layers.#.self_attn.o_proj", 0},
    {"blk.#.attn_q_norm", "layers.#.self_attn.q_norm", 0},
    {"blk.#.attn_k_norm", "layers.#.self_attn.k_norm", 0},
    {"blk.#.attn_sinks.weight", "layers.#.self_attn.sinks", 0},
    {"blk.#.ffn_norm", "layers.#.post_attention_layernorm", 0},
    {"blk.#.ffn_gate", "layers.#.mlp.gate_proj", 0},
    {"blk.#.ffn_up", "layers.#.mlp.up_proj", 0},
    {"blk.#.ffn_down", "layers.#.mlp.down_proj", 0},
    {"blk.#.ffn_gate_inp", "layers.#.mlp.gate", 0},
    {"blk.#.ffn_gate_exps", "layers.#.mlp.experts.%.gate_proj", 0},
    {"blk.#.ffn_up_exps", "layers.#.mlp.experts.%.up_proj", 0},
    {"blk.#.ffn_down_exps", "layers.#.mlp.experts.%.down_proj", 0},
    {"blk.#.ffn_gate_exps.weight", "layers.#.mlp.experts.gate_up_proj", TN_FORM_GATE_UP},
    {"blk.#.ffn_up_exps.weight", "layers.#.mlp.experts.gate_up_proj", TN_FORM_GATE_UP},
    {"blk.#.ffn_down_exps.weight", "layers.#.mlp.experts.down_proj", 0},
    {"blk.#.ffn_gate_shexp", "layers.#.mlp.shared_expert.gate_proj", 0},
    {"blk.#.ffn_up_shexp", "layers.#.mlp.shared_expert.up_proj", 0},
    {"blk.#.ffn_down_shexp", "layers.#.mlp.shared_expert.down_proj", 0},
    {"blk.#.ffn_gate_inp_shexp", "layers.#.mlp.shared_expert_gate", 0},
};

static const char *const prefixes[] = {"model.",       "model.language_model.", "language_model.model.",
                                       "transformer.", "language_model.",       ""};

const char *tn_name_without_prefix(const char *name) {
  size_t longest = 0;
  for (size_t i = 0; i < TN_COUNT(prefixes); i++) {
    size_t size = strlen(prefixes[i]);
    if (size > longest && !strncmp(name, prefixes[i], size)) longest = size;
  }
  return name + longest;
}

bool tn_name_of_scales(const char *blocks, char scales[TN_MAX_NAME]) {
  static const char end[] = "_blocks";
  size_t bytes = strlen(blocks), end_bytes = sizeof end - 1;
  if (bytes < end_bytes || bytes >= TN_MAX_NAME || strcmp(blocks + bytes - end_bytes, end)) return false;
  snprintf(scales, TN_MAX_NAME, "%.*s_scales", (int)(bytes - end_bytes), blocks);
  return true;
}

/* Matches `name` against a pattern's beginning; `*number` is what '#' stood for. Returns what is left of the name, or
 * NULL. */
static const char *match(const char *pattern, const char *name, unsigned long *number) {
  while (*pattern && *pattern != '*') {
    if (*pattern == '#') {
      char *end;
      if (!isdigit((unsigned char)*name)) return NULL;
      *number = strtoul(name, &end, 10);
      name = end;
    } else if (*pattern != *name++) {
      return NULL;
    }
    pattern++;
  }
  return name;
}

bool tn_name_matches(const char *pattern, const char *name) {
  unsigned long number;
  const char *rest = match(pattern, name, &number);
  size_t size = strlen(pattern);
  return rest && (!*rest || (size && pattern[size - 1] == '*'));
}

/* Writes a folder's name: prefix, pattern with its numbers, suffix. */
static void write_name(char *to, const char *prefix, const char *pattern, unsigned long layer, uint32_t expert,
                       const char *suffix) {
  size_t at = (size_t)snprintf(to, TN_MAX_NAME, "%s", prefix);
  for (; *pattern && at + 24 < TN_MAX_NAME; pattern++) {
    if (*pattern == '#')
      at += (size_t)sprintf(to + at, "%lu", layer);
    else if (*pattern == '%')
      at += (size_t)sprintf(to + at, "%u", expert);
    else
      to[at++] = *pattern;
  }
  snprintf(to + at, TN_MAX_NAME - at, "%s", suffix);
}

/* Tries one pair. The first that fits at all stays in `name` for the error message. */
static void try_pair(const tn_container *file, const tn_tensor_name *pair, const char *gguf, uint32_t expert,
                     tn_name *name, bool *known) {
  unsigned long layer = 0;
  const char *suffix = match(pair->gguf, gguf, &layer);
  if (!suffix || (*suffix && *suffix != '.')) return;
  for (size_t i = 0; i < TN_COUNT(prefixes) && !name->found; i++) {
    char text[TN_MAX_NAME];
    write_name(text, prefixes[i], pair->folder, layer, expert, suffix);
    bool found = tn_safetensors_find(file->safetensors, text) != NULL;
    if (!found && *known) continue;
    memcpy(name->text, text, sizeof text);
    name->form = pair->form;
    name->each = strchr(pair->folder, '%') != NULL;
    name->found = found;
    *known = true;
  }
}

void tn_name_find(const tn_container *file, const tn_family *family, const char *gguf, uint32_t expert, tn_name *name) {
  *name = (tn_name){0};
  snprintf(name->text, sizeof name->text, "%s", gguf);
  if (!tn_container_is_folder(file)) {
    name->found = tn_container_find_tensor(file, gguf) != NULL;
    return;
  }
  bool known = false;
  for (const tn_tensor_name *pair = family->names; pair && pair->gguf && !name->found; pair++)
    try_pair(file, pair, gguf, expert, name, &known);
  if (known) return; /* what a family says replaces what is common */
  for (size_t i = 0; i < TN_COUNT(common) && !name->found; i++) try_pair(file, common + i, gguf, expert, name, &known);
}
