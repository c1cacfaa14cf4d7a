/* The hyper-parameters that nearly all families have (see hyper.h). */
#include <math.h>
#include <stdio.h>
#include "base/error.h"
#include "model/build.h"
#include "model/hyper.h"
#include "model/names.h"

/* One number for all layers; where the file has one for each, the first, and they must agree unless varied. */
static uint32_t read_uniform(tn_hyper_reader *reader, const tn_hyper *hyper, const char *gguf, const char *config,
                             uint32_t otherwise) {
  double values[TN_MAX_LAYERS];
  uint32_t count = tn_hyper_list(reader, gguf, config, values, TN_MAX_LAYERS);
  if (!count) return otherwise;
  for (uint32_t i = 0; i < count; i++) {
    tn_hyper_demand(reader, values[i] >= 0 && values[i] <= (1 << 30), gguf, config, values[i], "a positive number");
    tn_hyper_demand(reader, hyper->varied || values[i] == values[0], gguf, config, values[i],
                    "the same number for every layer");
  }
  return reader->status == TN_OK ? (uint32_t)values[0] : otherwise;
}

/* Rows of the token embedding: the vocabulary of the logits. */
static uint32_t read_vocabulary(tn_hyper_reader *reader) {
  tn_name name;
  const tn_file_tensor *table = NULL;
  if (reader->status != TN_OK) return 0;
  tn_name_find(reader->file, reader->family, "token_embd.weight", 0, &name);
  reader->status = tn_container_get_tensor(reader->file, NULL, name.text, &table, reader->error);
  if (reader->status != TN_OK) return 0;
  if (table->rank != 2 || table->dims[1] > (1 << 24)) {
    reader->status = tn_fail(reader->error, TN_E_FORMAT, "%s: %s: expected a matrix of at most 2^24 rows",
                             reader->file->path, name.text);
    return 0;
  }
  return (uint32_t)table->dims[1];
}

/* A number of tn_activation in GGUF, which only tenon's own files have: another than the family's. */
static uint32_t read_rare_activation(tn_hyper_reader *reader, uint32_t usual) {
  uint32_t number = tn_hyper_u32_or(reader, "activation", NULL, usual);
  tn_hyper_demand(reader, number >= TN_ACTIVATION_SILU && number <= TN_ACTIVATION_RELU, "activation", NULL, number,
                  "1 .. 4");
  return number;
}

static uint32_t tell_activation(tn_hyper_reader *reader, uint32_t number, uint32_t usual) {
  if (number == usual) return number;
  tn_hyper_tell(reader, "activation", TN_NOTE_WHOLE, number);
  tn_hyper_mark_rare(reader);
  return number;
}

/* The activation that config.json names. */
static uint32_t read_activation(tn_hyper_reader *reader, uint32_t otherwise) {
  static const struct {
    const char *name;
    tn_activation activation;
  } known[] = {{"silu", TN_ACTIVATION_SILU},
               {"swish", TN_ACTIVATION_SILU},
               {"gelu_pytorch_tanh", TN_ACTIVATION_GELU_TANH},
               {"gelu_new", TN_ACTIVATION_GELU_TANH},
               {"gelu_fast", TN_ACTIVATION_GELU_TANH},
               {"gelu", TN_ACTIVATION_GELU},
               {"relu", TN_ACTIVATION_RELU}};
  if (!tn_hyper_is_folder(reader)) return read_rare_activation(reader, otherwise);
  tn_text name = tn_hyper_text_or(reader, NULL, "hidden_act", "");
  if (!strncmp(reader->family->name, "gemma", 5)) /* has both names; this is the one that counts */
    name = tn_hyper_text_or(reader, NULL, "hidden_activation", name.data);
  if (!name.bytes) return otherwise;
  for (size_t i = 0; i < TN_COUNT(known); i++)
    if (tn_text_is(name, known[i].name)) return tell_activation(reader, known[i].activation, otherwise);
  if (reader->status == TN_OK)
    reader->status = tn_fail(reader->error, TN_E_UNSUPPORTED,
                             "%s: hidden_act is \"%.*s\", expected silu, gelu, gelu_new, gelu_pytorch_tanh or relu",
                             reader->file->config.path, (int)(name.bytes < 40 ? name.bytes : 40), name.data);
  return TN_ACTIVATION_NONE;
}

/* Is the head the embedding: 1, 0, or -1 for "if there is no other". Of a model with a text part the whole model's word
 * counts, as in transformers, where it has one. */
static int read_tied(tn_hyper_reader *reader) {
  static const char *const name = "tie_word_embeddings";
  bool is_said = tn_hyper_has(reader, NULL, name), tied = tn_hyper_bool_or(reader, NULL, name, false);
  if (reader->status != TN_OK || !tn_hyper_is_folder(reader)) return -1;
  const tn_config_value *outer = tn_config_find_top(&reader->file->config, name);
  if (outer && outer->kind == TN_JSON_BOOLEAN) tied = outer->boolean;
  return is_said || tied ? tied : -1;
}

static void read_heads(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->heads = read_uniform(reader, hyper, "attention.head_count", "num_attention_heads", 0);
  if (!hyper->heads) tn_hyper_u32(reader, "attention.head_count", "num_attention_heads"); /* for its error */
  tn_hyper_demand(reader, hyper->heads >= 1 && hyper->heads <= 4096, "attention.head_count", "num_attention_heads",
                  hyper->heads, "1 .. 4096");
  if (reader->status != TN_OK) return;
  hyper->kv_heads = read_uniform(reader, hyper, "attention.head_count_kv", "num_key_value_heads", hyper->heads);
  tn_hyper_demand(reader, hyper->varied || (hyper->kv_heads >= 1 && hyper->heads % hyper->kv_heads == 0),
                  "attention.head_count_kv", "num_key_value_heads", hyper->kv_heads, "a divisor of the heads");
  uint32_t by_width = hyper->width / hyper->heads;
  hyper->key_dim = tn_hyper_u32_or(reader, "attention.key_length", "head_dim", by_width);
  hyper->value_dim = tn_hyper_u32_or(reader, "attention.value_length", NULL, hyper->key_dim);
  tn_hyper_demand(reader, hyper->key_dim >= 1 && hyper->key_dim <= 1024, "attention.key_length", "head_dim",
                  hyper->key_dim, "1 .. 1024");
  tn_hyper_demand(reader, hyper->value_dim >= 1 && hyper->value_dim <= 1024, "attention.value_length", "head_dim",
                  hyper->value_dim, "1 .. 1024");
}

void tn_hyper_read_common(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->embedding_scale = hyper->residual_scale = hyper->logits_scale = 1.0f;
  hyper->layers = tn_hyper_u32(reader, "block_count", "num_hidden_layers");
  hyper->context = tn_hyper_u32(reader, "context_length", "max_position_embeddings");
  hyper->width = tn_hyper_u32(reader, "embedding_length", "hidden_size");
  hyper->ffn = read_uniform(reader, hyper, "feed_forward_length", "intermediate_size", 0);
  tn_hyper_demand(reader, hyper->layers >= 1 && hyper->layers <= TN_MAX_LAYERS, "block_count", "num_hidden_layers",
                  hyper->layers, "1 .. 1024");
  tn_hyper_demand(reader, hyper->context >= 1 && hyper->context <= (1u << 28), "context_length",
                  "max_position_embeddings", hyper->context, "1 .. 2^28");
  tn_hyper_demand(reader, hyper->width >= 1 && hyper->width <= (1u << 20), "embedding_length", "hidden_size",
                  hyper->width, "1 .. 2^20");
  tn_hyper_demand(reader, hyper->ffn <= (1u << 24), "feed_forward_length", "intermediate_size", hyper->ffn,
                  "at most 2^24");
  read_heads(reader, hyper);
  hyper->norm_epsilon = tn_hyper_f32_or(reader, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6f);
  tn_hyper_demand(reader, hyper->norm_epsilon >= 0, "attention.layer_norm_rms_epsilon", "rms_norm_eps",
                  (double)hyper->norm_epsilon, "0 or more");
  hyper->activation = read_activation(reader, hyper->activation ? hyper->activation : TN_ACTIVATION_SILU);
  hyper->vocabulary = read_vocabulary(reader);
  uint32_t stated = tn_hyper_u32_or(reader, "vocab_size", "vocab_size", hyper->vocabulary);
  tn_hyper_demand(reader, stated == hyper->vocabulary, "vocab_size", "vocab_size", stated, "the rows of the embedding");
  hyper->tied = read_tied(reader);
}

static void unknown_kind(tn_hyper_reader *reader, tn_text kind) {
  if (reader->status == TN_OK)
    reader->status =
        tn_fail(reader->error, TN_E_UNSUPPORTED,
                "%s: layer_types has \"%.*s\", expected full_attention, sliding_attention or linear_attention",
                reader->file->config.path, (int)(kind.bytes < 40 ? kind.bytes : 40), kind.data);
}

/* layer_types of config.json; false where it is absent. */
static bool read_layer_types(tn_hyper_reader *reader, tn_hyper *hyper) {
  static const char *const names[] = {"full_attention", "sliding_attention", "linear_attention"};
  const tn_config *config = &reader->file->config;
  const tn_config_value *types = tn_config_find(config, "layer_types");
  if (!types) return false;
  reader->use->values[types - config->values] = 1;
  tn_hyper_demand(reader, types->item_count == hyper->layers, NULL, "layer_types", (double)types->item_count,
                  "one for each of num_hidden_layers");
  for (uint32_t i = 0; i < hyper->layers && reader->status == TN_OK; i++) {
    uint8_t kind = 0;
    while (kind < TN_COUNT(names) && !tn_text_is(types->items[i].text, names[kind])) kind++;
    if (kind == TN_COUNT(names)) unknown_kind(reader, types->items[i].text);
    hyper->kinds[i] = kind;
  }
  return true;
}

void tn_hyper_read_kinds(tn_hyper_reader *reader, tn_hyper *hyper, const char *gguf, tn_layer_kind other,
                         uint32_t interval) {
  double values[TN_MAX_LAYERS];
  if (reader->status != TN_OK) return;
  if (reader->record) reader->record->kinds = gguf;
  if (tn_hyper_is_folder(reader) && read_layer_types(reader, hyper)) return;
  uint32_t count = tn_hyper_list(reader, gguf, NULL, values, TN_MAX_LAYERS);
  if (count == 1 && hyper->layers != 1) interval = (uint32_t)values[0];
  tn_hyper_demand(reader, count <= 1 || count >= hyper->layers, gguf, "layer_types", count, "a value for each layer");
  for (uint32_t i = 0; i < hyper->layers && reader->status == TN_OK; i++) {
    bool is_other = count > 1 ? values[i] != 0 : interval && (i + 1) % interval != 0;
    hyper->kinds[i] = (uint8_t)(is_other ? other : TN_LAYER_FULL);
  }
}

tn_rope_pairing tn_hyper_permuted_pairing(const tn_hyper_reader *reader) {
  if (reader->record) reader->record->permuted = true;
  return tn_hyper_is_folder(reader) ? TN_ROPE_HALF : TN_ROPE_ADJACENT;
}

/* In GGUF only tenon's own files have such a window. */
static void read_rare_window(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", NULL, 0);
  if (hyper->window) tn_hyper_read_kinds(reader, hyper, "attention.sliding_window_pattern", TN_LAYER_SLIDING, 0);
}

void tn_hyper_read_upper_window(tn_hyper_reader *reader, tn_hyper *hyper) {
  if (!tn_hyper_is_folder(reader)) {
    read_rare_window(reader, hyper);
    return;
  }
  bool used = tn_hyper_bool_or(reader, NULL, "use_sliding_window", false);
  uint32_t window =
      tn_hyper_u32_or(reader, NULL, "sliding_window", tn_hyper_has_null(reader, "sliding_window") ? 0 : 4096);
  uint32_t first = tn_hyper_u32_or(reader, NULL, "max_window_layers", 28);
  bool listed = tn_hyper_has(reader, NULL, "layer_types");
  if (listed) tn_hyper_read_kinds(reader, hyper, NULL, TN_LAYER_SLIDING, 0);
  hyper->window = used ? window : 0;
  for (uint32_t i = 0; i < hyper->layers && !listed && hyper->window; i++)
    hyper->kinds[i] = i >= first ? TN_LAYER_SLIDING : TN_LAYER_FULL;
  if (!hyper->window || !reader->record) return;
  tn_hyper_tell(reader, "attention.sliding_window", TN_NOTE_WHOLE, hyper->window);
  tn_hyper_mark_rare(reader);
  reader->record->kinds = "attention.sliding_window_pattern";
  reader->record->rare_kinds = true;
}

static void tell_rare_float(tn_hyper_reader *reader, const char *gguf, float value) {
  tn_hyper_tell(reader, gguf, TN_NOTE_FLOAT, (double)value);
  tn_hyper_mark_rare(reader);
}

void tn_hyper_read_query_scale(tn_hyper_reader *reader, tn_hyper *hyper, uint32_t usual) {
  float by = tn_hyper_f32_or(reader, NULL, "query_pre_attn_scalar", (float)usual);
  hyper->attention_scale = 1 / sqrtf(by);
  if (!tn_hyper_is_folder(reader))
    hyper->attention_scale = tn_hyper_f32_or(reader, "attention.scale", NULL, hyper->attention_scale);
  else if (by != (float)usual)
    tell_rare_float(reader, "attention.scale", hyper->attention_scale);
  tn_hyper_demand(reader, hyper->attention_scale > 0 && hyper->attention_scale < 1e6f, "attention.scale",
                  "query_pre_attn_scalar", (double)by, "a positive number");
}

uint32_t tn_hyper_read_shared_kv(tn_hyper_reader *reader, const tn_hyper *hyper, uint32_t *kv_layer) {
  uint32_t shared = tn_hyper_u32_or(reader, "attention.shared_kv_layers", "num_kv_shared_layers", 0);
  tn_hyper_demand(reader, shared < hyper->layers, "attention.shared_kv_layers", "num_kv_shared_layers", shared,
                  "fewer than the layers");
  if (reader->status != TN_OK) return 0;
  uint32_t first = hyper->layers - shared;
  for (uint32_t i = 0; i < hyper->layers; i++) {
    uint32_t from = i < first ? i : first - 1;
    while (from && i >= first && hyper->kinds[from] != hyper->kinds[i]) from--;
    kv_layer[i] = from;
    tn_hyper_demand(reader, hyper->kinds[from] == hyper->kinds[i], "attention.shared_kv_layers", "num_kv_shared_layers",
                    shared, "a layer of each kind before the shared ones");
  }
  return shared;
}

void tn_hyper_read_experts(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_expert_hyper *e = &hyper->experts;
  e->count = tn_hyper_u32_or(reader, "expert_count", "num_experts", 0);
  if (!e->count) e->count = tn_hyper_u32_or(reader, NULL, "num_local_experts", 0);
  e->used = tn_hyper_u32_or(reader, "expert_used_count", "num_experts_per_tok", 0);
  e->ffn = tn_hyper_u32_or(reader, "expert_feed_forward_length", "moe_intermediate_size", hyper->ffn);
  e->shared_ffn = tn_hyper_u32_or(reader, "expert_shared_feed_forward_length", "shared_expert_intermediate_size", 0);
  e->scale = 1.0f;
  if (!e->count) return;
  tn_hyper_demand(reader, e->count <= 4096, "expert_count", "num_experts", e->count, "at most 4096");
  tn_hyper_demand(reader, e->used >= 1 && e->used <= e->count, "expert_used_count", "num_experts_per_tok", e->used,
                  "1 .. the number of experts");
  tn_hyper_demand(reader, e->ffn >= 1 && e->ffn <= (1u << 24), "expert_feed_forward_length", "moe_intermediate_size",
                  e->ffn, "1 .. 2^24");
}
