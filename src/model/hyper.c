/* Reading hyper-parameters by name from GGUF metadata or config.json (see hyper.h). */
#include "model/hyper.h"

#include <stdio.h>
#include "base/error.h"
#include "model/build.h"

#define MAX_KEY 160

static const char *key_of(const tn_hyper_reader *reader, const char *name, char *key) {
  snprintf(key, MAX_KEY, "%s.%s", reader->architecture, name);
  return key;
}

static void note(tn_hyper_reader *reader, tn_status status) {
  if (reader->status == TN_OK) reader->status = status;
}

/* The error is only written by the first failure. */
static tn_error *error_of(const tn_hyper_reader *reader) {
  return reader->status == TN_OK ? reader->error : NULL;
}

/* Notes what a folder says, for GGUF's name. */
static void record(tn_hyper_reader *reader, const char *gguf, tn_note_kind kind, const double *values, uint32_t count) {
  tn_hyper_record *all = reader->record;
  if (!all || !gguf || reader->status != TN_OK) return;
  size_t stored = count ? count : 1;
  tn_hyper_note *note = TN_PUSH(all->notes, all->count, all->capacity);
  double *copy = note ? tn_arena_array(reader->arena, stored, sizeof *copy) : NULL;
  all->failed = all->failed || !copy;
  if (!copy) return;
  memcpy(copy, values, stored * sizeof *copy);
  *note = (tn_hyper_note){.gguf = gguf, .kind = kind, .values = copy, .count = count};
}

static void record_one(tn_hyper_reader *reader, const char *gguf, tn_note_kind kind, double value) {
  record(reader, gguf, kind, &value, 0);
}

void tn_hyper_tell(tn_hyper_reader *reader, const char *gguf, tn_note_kind kind, double value) {
  record_one(reader, gguf, kind, value);
}

void tn_hyper_tell_list(tn_hyper_reader *reader, const char *gguf, tn_note_kind kind, const double *values,
                        uint32_t count) {
  record(reader, gguf, kind, values, count);
}

void tn_hyper_mark_rare(tn_hyper_reader *reader) {
  tn_hyper_record *all = reader->record;
  if (all && all->count) all->notes[all->count - 1].rare = true;
}

/* What this family's config.json calls `name`. */
static const char *own_name(const tn_hyper_reader *reader, const char *name) {
  const char *const(*alias)[2] = reader->family->aliases;
  for (; alias && (*alias)[0]; alias++)
    if (!strcmp((*alias)[0], name)) return (*alias)[1];
  return name;
}

/* The value of config.json, marked; NULL where it is absent. */
static const tn_config_value *config_value(tn_hyper_reader *reader, const char *name) {
  const tn_config *config = &reader->file->config;
  const tn_config_value *value = name ? tn_config_find(config, own_name(reader, name)) : NULL;
  if (value && reader->use) reader->use->values[value - config->values] = 1;
  return value;
}

/* What the family has where config.json says nothing, or NULL. An explicit null says "none". */
static const tn_default *default_of(const tn_hyper_reader *reader, const char *name) {
  const tn_default *known = reader->family->defaults;
  for (; known && known->name && name; known++)
    if (!strcmp(known->name, name) && (!known->model_type || !strcmp(known->model_type, reader->architecture)))
      return tn_config_has(&reader->file->config, own_name(reader, name)) ? NULL : known;
  return NULL;
}

/* Is `value` of the wanted kind? An error if it is of another; absent is no error. */
static bool is_kind(tn_hyper_reader *reader, const tn_config_value *value, tn_json_kind kind) {
  if (!value) return false;
  if (value->kind == kind) return true;
  note(reader, tn_fail(error_of(reader), TN_E_FORMAT, "%s: %s is %s, expected %s", reader->file->config.path,
                       value->path, tn_config_kind_name(value->kind), tn_config_kind_name(kind)));
  return false;
}

static void missing(tn_hyper_reader *reader, const char *config) {
  if (reader->status == TN_OK)
    reader->status = tn_fail(reader->error, TN_E_NOT_FOUND, "%s: %s is missing", reader->file->config.path,
                             config ? own_name(reader, config) : "a value only GGUF has");
}

bool tn_hyper_has(const tn_hyper_reader *reader, const char *gguf, const char *config) {
  char key[MAX_KEY];
  if (tn_hyper_is_folder(reader)) return config && tn_config_find(&reader->file->config, own_name(reader, config));
  return gguf && tn_gguf_find(reader->file->gguf, key_of(reader, gguf, key));
}

bool tn_hyper_has_null(const tn_hyper_reader *reader, const char *config) {
  const tn_config *from = &reader->file->config;
  return tn_config_has(from, own_name(reader, config)) && !tn_config_find(from, own_name(reader, config));
}

void tn_hyper_ignore(tn_hyper_reader *reader, const char *gguf, const char *config) {
  char key[MAX_KEY];
  if (tn_hyper_is_folder(reader)) {
    config_value(reader, config);
    return;
  }
  const tn_gguf_key *found = gguf ? tn_gguf_find(reader->file->gguf, key_of(reader, gguf, key)) : NULL;
  if (found) reader->use->gguf.keys[found - reader->file->gguf->keys] = 1;
}

static uint32_t config_u32(tn_hyper_reader *reader, const char *gguf, const char *config, uint32_t otherwise) {
  const tn_config_value *value = config_value(reader, config);
  const tn_default *known = value ? NULL : default_of(reader, config);
  if (known) return (uint32_t)known->number;
  if (!is_kind(reader, value, TN_JSON_NUMBER)) return otherwise;
  bool fits = value->number >= 0 && value->number <= UINT32_MAX && value->number == (double)(uint32_t)value->number;
  tn_hyper_demand(reader, fits, gguf, config, value->number, "a whole number");
  return fits ? (uint32_t)value->number : otherwise;
}

uint32_t tn_hyper_u32_or(tn_hyper_reader *reader, const char *gguf, const char *config, uint32_t otherwise) {
  char key[MAX_KEY];
  if (tn_hyper_is_folder(reader)) {
    uint32_t value = config_u32(reader, gguf, config, otherwise);
    record_one(reader, gguf, TN_NOTE_WHOLE, value);
    return value;
  }
  if (gguf)
    note(reader, tn_gguf_opt_u32(reader->file->gguf, &reader->use->gguf, key_of(reader, gguf, key), &otherwise,
                                 error_of(reader)));
  return otherwise;
}

float tn_hyper_f32_or(tn_hyper_reader *reader, const char *gguf, const char *config, float otherwise) {
  char key[MAX_KEY];
  if (tn_hyper_is_folder(reader)) {
    const tn_config_value *value = config_value(reader, config);
    const tn_default *known = value ? NULL : default_of(reader, config);
    if (known)
      otherwise = (float)known->number;
    else if (is_kind(reader, value, TN_JSON_NUMBER))
      otherwise = (float)value->number;
    record_one(reader, gguf, TN_NOTE_FLOAT, (double)otherwise);
    return otherwise;
  }
  if (gguf)
    note(reader, tn_gguf_opt_f32(reader->file->gguf, &reader->use->gguf, key_of(reader, gguf, key), &otherwise,
                                 error_of(reader)));
  return otherwise;
}

uint32_t tn_hyper_u32(tn_hyper_reader *reader, const char *gguf, const char *config) {
  char key[MAX_KEY];
  uint32_t value = 0;
  if (!tn_hyper_is_folder(reader)) {
    note(reader,
         tn_gguf_get_u32(reader->file->gguf, &reader->use->gguf, key_of(reader, gguf, key), &value, error_of(reader)));
    return value;
  }
  if (!tn_hyper_has(reader, gguf, config) && !default_of(reader, config)) missing(reader, config);
  return tn_hyper_u32_or(reader, gguf, config, 0);
}

float tn_hyper_f32(tn_hyper_reader *reader, const char *gguf, const char *config) {
  char key[MAX_KEY];
  float value = 0;
  if (!tn_hyper_is_folder(reader)) {
    note(reader,
         tn_gguf_get_f32(reader->file->gguf, &reader->use->gguf, key_of(reader, gguf, key), &value, error_of(reader)));
    return value;
  }
  if (!tn_hyper_has(reader, gguf, config) && !default_of(reader, config)) missing(reader, config);
  return tn_hyper_f32_or(reader, gguf, config, 0);
}

bool tn_hyper_bool_or(tn_hyper_reader *reader, const char *gguf, const char *config, bool otherwise) {
  char key[MAX_KEY];
  if (tn_hyper_is_folder(reader)) {
    const tn_config_value *value = config_value(reader, config);
    const tn_default *known = value ? NULL : default_of(reader, config);
    if (known)
      otherwise = known->number != 0;
    else if (is_kind(reader, value, TN_JSON_BOOLEAN))
      otherwise = value->boolean;
    record_one(reader, gguf, TN_NOTE_BOOL, otherwise);
    return otherwise;
  }
  if (gguf)
    note(reader, tn_gguf_opt_bool(reader->file->gguf, &reader->use->gguf, key_of(reader, gguf, key), &otherwise,
                                  error_of(reader)));
  return otherwise;
}

bool tn_hyper_rare_bool(tn_hyper_reader *reader, const char *gguf, const char *config, bool usual) {
  bool is_folder = tn_hyper_is_folder(reader);
  bool value = tn_hyper_bool_or(reader, is_folder ? NULL : gguf, config, usual);
  if (is_folder && value != usual) {
    tn_hyper_tell(reader, gguf, TN_NOTE_BOOL, value);
    tn_hyper_mark_rare(reader);
  }
  return value;
}

uint32_t tn_hyper_rare_u32(tn_hyper_reader *reader, const char *gguf, const char *config, uint32_t usual) {
  bool is_folder = tn_hyper_is_folder(reader);
  uint32_t value = tn_hyper_u32_or(reader, is_folder ? NULL : gguf, config, usual);
  if (is_folder && value != usual) {
    tn_hyper_tell(reader, gguf, TN_NOTE_WHOLE, value);
    tn_hyper_mark_rare(reader);
  }
  return value;
}

tn_text tn_hyper_text_or(tn_hyper_reader *reader, const char *gguf, const char *config, const char *otherwise) {
  char key[MAX_KEY];
  tn_text text = tn_text_of(otherwise);
  if (tn_hyper_is_folder(reader)) {
    const tn_config_value *value = config_value(reader, config);
    return is_kind(reader, value, TN_JSON_STRING) ? value->text : text;
  }
  if (gguf)
    note(reader, tn_gguf_opt_string(reader->file->gguf, &reader->use->gguf, key_of(reader, gguf, key), &text,
                                    error_of(reader)));
  return text;
}

static uint32_t config_list(tn_hyper_reader *reader, const char *config, double *out, uint32_t capacity) {
  const tn_config_value *value = config_value(reader, config);
  const tn_default *known = value ? NULL : default_of(reader, config);
  if (known) out[0] = known->number;
  if (!value) return known != NULL;
  const tn_config_value *items = value->kind == TN_JSON_ARRAY ? value->items : value;
  size_t count = value->kind == TN_JSON_ARRAY ? value->item_count : 1;
  tn_hyper_demand(reader, count <= capacity, NULL, config, (double)count, "fewer values");
  for (size_t i = 0; i < count && reader->status == TN_OK; i++) {
    if (items[i].kind == TN_JSON_BOOLEAN)
      out[i] = items[i].boolean;
    else if (is_kind(reader, items + i, TN_JSON_NUMBER))
      out[i] = items[i].number;
  }
  return reader->status == TN_OK ? (uint32_t)count : 0;
}

uint32_t tn_hyper_list(tn_hyper_reader *reader, const char *gguf, const char *config, double *out, uint32_t capacity) {
  char key[MAX_KEY];
  if (tn_hyper_is_folder(reader)) {
    uint32_t count = config_list(reader, config, out, capacity);
    if (count) record(reader, gguf, TN_NOTE_WHOLE, out, count == 1 ? 0 : count);
    return count;
  }
  const tn_gguf_key *found = gguf ? tn_gguf_find(reader->file->gguf, key_of(reader, gguf, key)) : NULL;
  if (!found) return 0;
  if (found->type != TN_GGUF_ARRAY) {
    float number = 0;
    uint32_t whole = 0;
    bool is_float = found->type == TN_GGUF_F32 || found->type == TN_GGUF_F64;
    if (is_float)
      number = tn_hyper_f32(reader, gguf, config);
    else
      whole = tn_hyper_u32(reader, gguf, config);
    out[0] = is_float ? (double)number : whole;
    return reader->status == TN_OK;
  }
  tn_gguf_array array = {0};
  tn_gguf_type wanted =
      found->array.type == TN_GGUF_F32 || found->array.type == TN_GGUF_F64 ? TN_GGUF_F32 : TN_GGUF_I64;
  note(reader,
       tn_gguf_get_array(reader->file->gguf, &reader->use->gguf, found->name, wanted, &array, error_of(reader)));
  if (reader->status != TN_OK) return 0;
  tn_hyper_demand(reader, array.count <= capacity, gguf, config, (double)array.count, "fewer values");
  if (reader->status != TN_OK) return 0;
  for (size_t i = 0; i < array.count; i++)
    out[i] = wanted == TN_GGUF_F32 ? tn_gguf_array_f64(&array, i) : (double)tn_gguf_array_i64(&array, i);
  return (uint32_t)array.count;
}

void tn_hyper_demand(tn_hyper_reader *reader, bool holds, const char *gguf, const char *config, double value,
                     const char *expected) {
  if (holds || reader->status != TN_OK) return;
  if (tn_hyper_is_folder(reader))
    reader->status = tn_fail(reader->error, TN_E_FORMAT, "%s: %s is %g, expected %s", reader->file->config.path,
                             own_name(reader, config ? config : gguf), value, expected);
  else
    reader->status = tn_fail(reader->error, TN_E_FORMAT, "%s: %s.%s is %g, expected %s", reader->file->path,
                             reader->architecture, gguf ? gguf : config, value, expected);
}

void *tn_hyper_own(tn_hyper_reader *reader, size_t bytes) {
  void *own = tn_arena_alloc(reader->arena, bytes);
  if (!own) note(reader, tn_fail(error_of(reader), TN_E_MEMORY, "%s: out of memory", reader->file->path));
  return own;
}

/* ---- what was left unread ---- */

static bool ends_with(const char *text, const char *end) {
  size_t a = strlen(text), b = strlen(end);
  return a >= b && !strcmp(text + a - b, end);
}

static bool is_any_of(const char *name, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

static void finish_gguf(tn_hyper_reader *reader) {
  static const char *const harmless[] = {"rope.scaling.finetuned", "tensor_data_layout",
                                         "rope.scaling.original_context_length"};
  const tn_gguf *gguf = reader->file->gguf;
  size_t prefix = strlen(reader->architecture);
  for (size_t i = 0; i < gguf->key_count && reader->status == TN_OK; i++) {
    const char *name = gguf->keys[i].name;
    if (reader->use->gguf.keys[i] || strncmp(name, reader->architecture, prefix) || name[prefix] != '.') continue;
    if (!is_any_of(name + prefix + 1, harmless, TN_COUNT(harmless)))
      reader->status =
          tn_fail(reader->error, TN_E_UNSUPPORTED,
                  "%s: key %s is not known for this architecture; it may change the mathematics", gguf->path, name);
  }
}

/* Values of config.json that change nothing of what a model computes for text. */
static bool is_harmless(const tn_config_value *value, const char *name) {
  static const char *const names[] = {"attention_bias",
                                      "mlp_bias", /* the tensors are there or not */
                                      "architectures",
                                      "model_type",
                                      "transformers_version",
                                      "torch_dtype",
                                      "dtype",
                                      "use_cache",
                                      "initializer_range",
                                      "initializer_factor",
                                      "pretraining_tp",
                                      "tokenizer_class",
                                      "auto_map",
                                      "output_router_logits",
                                      "router_aux_loss_coef",
                                      "router_jitter_noise",
                                      "mamba_ssm_dtype",
                                      "vocab_size_per_layer_input",
                                      "output_attentions",
                                      "output_hidden_states",
                                      "return_dict",
                                      "finetuning_task",
                                      "name_or_path",
                                      "is_encoder_decoder",
                                      "is_decoder",
                                      "use_return_dict",
                                      "problem_type",
                                      "transformers.js_config",
                                      "unsloth_fixed",
                                      "unsloth_version",
                                      "mm_tokens_per_image",
                                      "aux_loss_alpha",
                                      "seq_aux",
                                      "language_model_only"};
  static const char *const ends[] = {"_token_id",     "_token_ids", "_token_index", "_dropout",          "_pdrop",
                                     "_dropout_prob", "_dropout_p", "_init_std",    "_initializer_range"};
  static const char *const parts[] = {"vision_config.",          "audio_config.", "quantization_config.",
                                      "task_specific_params.",   "id2label.",     "label2id.",
                                      "transformers.js_config.", "auto_map.",     "generation_config."};
  if (value->kind == TN_JSON_NULL || value->kind == TN_JSON_OBJECT || name[0] == '_' || !strncmp(name, "summary_", 8))
    return true;
  if (is_any_of(name, names, TN_COUNT(names))) return true;
  for (size_t i = 0; i < TN_COUNT(ends); i++)
    if (ends_with(name, ends[i])) return true;
  for (size_t i = 0; i < TN_COUNT(parts); i++)
    if (!strncmp(name, parts[i], strlen(parts[i]))) return true;
  return false;
}

static void finish_folder(tn_hyper_reader *reader) {
  const tn_config *config = &reader->file->config;
  for (size_t i = 0; i < config->count && reader->status == TN_OK; i++) {
    const char *name = config->values[i].path;
    if (config->nested && !strncmp(name, "text_config.", 12)) name += 12;
    if (reader->use->values[i] || is_harmless(config->values + i, name)) continue;
    /* said at the top once more than inside text_config */
    const tn_config_value *inner = tn_config_find(config, name);
    if (inner && inner != config->values + i && reader->use->values[inner - config->values]) continue;
    reader->status = tn_fail(reader->error, TN_E_UNSUPPORTED,
                             "%s: key %s is not known for this model type; it may change the mathematics", config->path,
                             config->values[i].path);
  }
}

void tn_hyper_finish(tn_hyper_reader *reader) {
  if (reader->status != TN_OK) return;
  if (tn_hyper_is_folder(reader))
    finish_folder(reader);
  else
    finish_gguf(reader);
}
