/* Builds a tokenizer from tokenizer.json and the configuration beside it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/os.h"
#include "text/json_parts.h"

/* The top level of the file: the small parts as JSON text, the model read at once. */
typedef struct sections {
  tn_text added_tokens, normalizer, pre_tokenizer, post_processor, decoder;
  tn_json_model model;
} sections;

static tn_status read_sections(sections *out, tn_tokenizer *tokenizer, tn_text file, tn_error *error) {
  *out = (sections){0};
  const struct {
    const char *name;
    tn_text *target;
  } texts[] = {{"added_tokens", &out->added_tokens},
               {"normalizer", &out->normalizer},
               {"pre_tokenizer", &out->pre_tokenizer},
               {"post_processor", &out->post_processor},
               {"decoder", &out->decoder}};
  tn_json json;
  tn_json_init(&json, file.data, file.bytes, error);
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key);) {
      if (tn_text_is(key, "model")) {
        tn_json_model_read(&out->model, tokenizer, &json, error);
        continue;
      }
      tn_text *target = NULL;
      for (size_t i = 0; i < TN_COUNT(texts); i++)
        if (tn_text_is(key, texts[i].name)) target = texts[i].target;
      tn_json_skip(&json, target);
    }
  tn_status status = tn_json_end(&json);
  if (status == TN_OK && !out->model.tokenizer) return tn_fail(error, TN_E_FORMAT, "\"model\" is missing");
  return status;
}

/* ---- added tokens ---- */

typedef struct added_list {
  tn_added_token *tokens; /* texts in the tokenizer's arena */
  size_t count, capacity;
} added_list;

static void read_added_token(tn_json *json, tn_tokenizer *tokenizer, tn_added_token *token) {
  int64_t id = -1;
  tn_text text;
  bool failed = false;
  token->normalized = true;
  if (tn_json_object(json))
    for (tn_text key; tn_json_key(json, &key);) {
      if (tn_text_is(key, "id"))
        tn_json_integer(json, &id);
      else if (tn_text_is(key, "single_word"))
        tn_json_boolean(json, &token->single_word);
      else if (tn_text_is(key, "lstrip"))
        tn_json_boolean(json, &token->left);
      else if (tn_text_is(key, "rstrip"))
        tn_json_boolean(json, &token->right);
      else if (tn_text_is(key, "normalized"))
        tn_json_boolean(json, &token->normalized);
      else if (tn_text_is(key, "special"))
        tn_json_boolean(json, &token->special);
      else if (!tn_text_is(key, "content"))
        tn_json_skip(json, NULL);
      else if (tn_json_string(json, &text))
        token->text = tn_keep_text(&tokenizer->arena, text, &failed);
    }
  if (failed) tn_json_fail(json, TN_E_MEMORY, "out of memory for added tokens");
  if (id < 0 || id >= INT32_MAX) tn_json_fail(json, TN_E_FORMAT, "an added token with id %lld", (long long)id);
  token->id = (int32_t)id;
}

static tn_status read_added(added_list *list, tn_tokenizer *tokenizer, tn_text json_text, tn_error *error) {
  if (!json_text.bytes || json_text.data[0] == 'n') return TN_OK;
  tn_json json;
  tn_json_init(&json, json_text.data, json_text.bytes, error);
  if (tn_json_array(&json))
    while (tn_json_item(&json)) {
      tn_added_token *token = TN_PUSH(list->tokens, list->count, list->capacity);
      if (!token) {
        tn_json_fail(&json, TN_E_MEMORY, "out of memory for added tokens");
        break;
      }
      read_added_token(&json, tokenizer, token);
    }
  return tn_json_end(&json);
}

/* Gives added tokens that the model doesn't know their place among the texts, where the model doesn't find them. */
static tn_status place_added(const added_list *list, tn_tokenizer *tokenizer, tn_error *error) {
  size_t limit = tokenizer->texts.count + list->count + 65536;
  tn_ids apart = {0};
  tn_status status = TN_OK;
  for (size_t i = 0; i < list->count && status == TN_OK; i++) {
    const tn_added_token *token = &list->tokens[i];
    if ((size_t)token->id >= limit)
      status = tn_fail(error, TN_E_FORMAT, "added token id %d in a vocabulary of %zu", (int)token->id,
                       tokenizer->texts.count);
    if (!token->text.bytes || status != TN_OK) continue;
    if ((size_t)token->id < tokenizer->texts.count &&
        tn_text_equal(tn_token_table_text(&tokenizer->texts, (size_t)token->id), token->text))
      continue;
    if (!tn_token_table_set(&tokenizer->texts, (size_t)token->id, token->text, false) || !tn_ids_add(&apart, token->id))
      status = tn_fail(error, TN_E_MEMORY, "out of memory for added tokens");
  }
  if (status == TN_OK && !tn_tokenizer_fix_vocabulary(tokenizer))
    status = tn_fail(error, TN_E_MEMORY, "out of memory for a vocabulary");
  for (size_t i = 0; i < list->count && status == TN_OK; i++)
    if (list->tokens[i].special && list->tokens[i].text.bytes) tokenizer->special[list->tokens[i].id] = 1;
  for (size_t i = 0; i < apart.count && status == TN_OK; i++) tokenizer->flags[apart.data[i]] |= TN_FLAG_APART;
  free(apart.data);
  return status;
}

/* A text as the normalizer leaves it, kept in the arena. */
static tn_status normalize_text(tn_tokenizer *tokenizer, tn_text *text, tn_error *error) {
  tn_marked_text marked = {0}, spare = {0};
  tn_pattern_run run = {0};
  bool failed = !tn_buf_append(&marked.text, text->data, text->bytes);
  tn_status status = failed ? TN_E_MEMORY : tn_normalize(&tokenizer->normalizer, &run, &marked, &spare, error);
  if (status == TN_OK) *text = tn_keep_text(&tokenizer->arena, (tn_text){marked.text.data, marked.text.size}, &failed);
  if (failed) status = tn_fail(error, TN_E_MEMORY, "out of memory for added tokens");
  tn_marked_text_finish(&marked);
  tn_marked_text_finish(&spare);
  tn_pattern_run_finish(&run);
  return status;
}

static tn_status index_added(const added_list *list, tn_tokenizer *tokenizer, tn_error *error) {
  tn_status status = TN_OK;
  for (size_t i = 0; i < list->count && status == TN_OK; i++) {
    tn_added_token token = list->tokens[i];
    if (!token.text.bytes) continue;
    if (token.normalized && tokenizer->normalizer.count) {
      status = normalize_text(tokenizer, &token.text, error);
      if (!tn_text_equal(token.text, list->tokens[i].text)) tokenizer->flags[token.id] |= TN_FLAG_NORMALIZED;
    }
    if (status == TN_OK) status = tn_added_tokens_add(&tokenizer->added, &token, error);
  }
  return status;
}

/* ---- the configuration ---- */

/* A token given by its text or as {"content": text}. */
static void take_role(tn_json *json, tn_tokenizer *tokenizer, tn_token_role role) {
  tn_text text = {NULL, 0};
  if (tn_json_null(json)) return;
  if (tn_json_peek(json) == TN_JSON_STRING) {
    tn_json_string(json, &text);
  } else if (tn_json_object(json)) {
    for (tn_text key; tn_json_key(json, &key);) {
      if (tn_text_is(key, "content") && tn_json_peek(json) == TN_JSON_STRING) {
        if (tn_json_string(json, &text)) tokenizer->roles[role] = tn_tokenizer_find(tokenizer, text);
      } else {
        tn_json_skip(json, NULL);
      }
    }
    return;
  }
  if (text.bytes) tokenizer->roles[role] = tn_tokenizer_find(tokenizer, text);
}

static void take_true(tn_json *json, bool *target) {
  if (tn_json_peek(json) == TN_JSON_BOOLEAN)
    tn_json_boolean(json, target);
  else
    tn_json_skip(json, NULL);
}

static tn_status read_config(tn_tokenizer *tokenizer, tn_text config, tn_error *error) {
  static const struct {
    const char *key;
    tn_token_role role;
  } roles[] = {{"bos_token", TN_ROLE_BOS},       {"eos_token", TN_ROLE_EOS},     {"unk_token", TN_ROLE_UNKNOWN},
               {"sep_token", TN_ROLE_SEPARATOR}, {"pad_token", TN_ROLE_PADDING}, {"mask_token", TN_ROLE_MASK}};
  if (!config.bytes) return TN_OK;
  bool add_bos = false, add_eos = false;
  tn_json json;
  tn_json_init(&json, config.data, config.bytes, error);
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key);) {
      size_t i = 0;
      while (i < TN_COUNT(roles) && !tn_text_is(key, roles[i].key)) i++;
      if (i < TN_COUNT(roles))
        take_role(&json, tokenizer, roles[i].role);
      else if (tn_text_is(key, "add_bos_token"))
        take_true(&json, &add_bos);
      else if (tn_text_is(key, "add_eos_token"))
        take_true(&json, &add_eos);
      else
        tn_json_skip(&json, NULL);
    }
  tn_status status = tn_json_end(&json);
  if (status != TN_OK) return status;
  /* The template of tokenizer.json says what goes around a text; only where it has none the configuration does. */
  bool good = true, silent = !tokenizer->before.count && !tokenizer->after.count;
  if (silent && add_bos && tokenizer->roles[TN_ROLE_BOS] >= 0)
    good = tn_ids_add(&tokenizer->before, tokenizer->roles[TN_ROLE_BOS]);
  if (silent && add_eos && tokenizer->roles[TN_ROLE_EOS] >= 0)
    good = good && tn_ids_add(&tokenizer->after, tokenizer->roles[TN_ROLE_EOS]);
  return good ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory for a tokenizer");
}

/* "eos_token_id" of generation_config.json, or else of config.json: a number or a list. */
static tn_status read_generation_config(tn_tokenizer *tokenizer, tn_text config, tn_error *error) {
  tn_json json;
  int64_t id;
  bool good = true;
  tn_json_init(&json, config.data, config.bytes, error);
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key);) {
      tn_json_kind kind = tn_json_peek(&json);
      if (!tn_text_is(key, "eos_token_id") || (kind != TN_JSON_NUMBER && kind != TN_JSON_ARRAY)) {
        tn_json_skip(&json, NULL);
      } else if (kind == TN_JSON_NUMBER) {
        if (tn_json_integer(&json, &id)) good = tn_tokenizer_add_end(tokenizer, id) && good;
      } else if (tn_json_array(&json)) {
        while (tn_json_item(&json))
          if (tn_json_integer(&json, &id)) good = tn_tokenizer_add_end(tokenizer, id) && good;
      }
    }
  tn_status status = tn_json_end(&json);
  return status == TN_OK && !good ? tn_fail(error, TN_E_MEMORY, "out of memory for a tokenizer") : status;
}

/* ---- the whole ---- */

static tn_status check_around(const tn_tokenizer *tokenizer, const tn_ids *ids, tn_error *error) {
  for (size_t i = 0; i < ids->count; i++)
    if ((size_t)ids->data[i] >= tokenizer->vocab_count)
      return tn_fail(error, TN_E_FORMAT, "post-processor: id %d in a vocabulary of %zu", (int)ids->data[i],
                     tokenizer->vocab_count);
  return TN_OK;
}

static tn_status build_steps(tn_tokenizer *tokenizer, const sections *parts, tn_error *error) {
  tn_status status = tn_json_parts_build(tokenizer, parts->normalizer, tn_json_build_normalizer, error);
  if (status == TN_OK) status = tn_json_parts_build(tokenizer, parts->pre_tokenizer, tn_json_build_pretokenizer, error);
  if (status == TN_OK) status = tn_json_parts_build(tokenizer, parts->decoder, tn_json_build_decoder, error);
  if (status == TN_OK)
    status = tn_json_parts_build(tokenizer, parts->post_processor, tn_json_build_postprocessor, error);
  if (status == TN_OK && !tokenizer->decode.count && !tokenizer->fused &&
      !tn_add_decode_step(&tokenizer->decode, TN_DECODE_SPACES))
    status = tn_fail(error, TN_E_MEMORY, "out of memory for a tokenizer");
  return status;
}

tn_status tn_tokenizer_from_json(tn_tokenizer **out, tn_text file, tn_text config, tn_error *error) {
  *out = NULL;
  tn_tokenizer *tokenizer = tn_tokenizer_new();
  if (!tokenizer) return tn_fail(error, TN_E_MEMORY, "out of memory for a tokenizer");
  sections parts;
  added_list added = {0};
  tn_status status = read_sections(&parts, tokenizer, file, error);
  if (status == TN_OK) status = build_steps(tokenizer, &parts, error);
  if (status == TN_OK) status = read_added(&added, tokenizer, parts.added_tokens, error);
  if (status == TN_OK) status = place_added(&added, tokenizer, error);
  if (status == TN_OK) status = tn_json_model_build(&parts.model);
  if (status == TN_OK) status = index_added(&added, tokenizer, error);
  if (status == TN_OK) status = check_around(tokenizer, &tokenizer->before, error);
  if (status == TN_OK) status = check_around(tokenizer, &tokenizer->after, error);
  if (status == TN_OK) status = read_config(tokenizer, config, error);
  if (status == TN_OK) status = tn_tokenizer_complete(tokenizer, error);
  free(added.tokens);
  if (status != TN_OK) {
    tn_tokenizer_destroy(tokenizer);
    return status;
  }
  *out = tokenizer;
  return TN_OK;
}

/* The path of a file beside `path`, or in it if it is a folder. NULL when memory is out. */
static char *beside(const char *path, const char *name) {
  tn_buf buf;
  tn_buf_init(&buf);
  const char *slash = strrchr(path, '/');
  if (tn_path_is_directory(path))
    tn_buf_printf(&buf, "%s/", path);
  else if (slash)
    tn_buf_append(&buf, path, (size_t)(slash - path) + 1);
  tn_buf_puts(&buf, name);
  char *result = tn_buf_take(&buf);
  tn_buf_finish(&buf);
  return result;
}

/* Maps a file beside `path` if it is there; an empty map otherwise. */
static tn_status map_beside(tn_file_map *map, const char *path, const char *name, tn_error *error) {
  *map = (tn_file_map){0};
  char *other = beside(path, name);
  if (!other) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  tn_status status = tn_path_exists(other) ? tn_file_map_open(map, other, error) : TN_OK;
  free(other);
  return status;
}

static tn_text map_text(const tn_file_map *map) {
  return (tn_text){(const char *)map->data, map->size};
}

tn_status tn_tokenizer_open_json(tn_tokenizer **out, const char *path, tn_error *error) {
  *out = NULL;
  tn_file_map file = {0}, config = {0}, generation = {0};
  tn_error inner = {0};
  char *json_path = tn_path_is_directory(path) ? beside(path, "tokenizer.json") : tn_copy_text(path, strlen(path));
  tn_status status =
      json_path ? tn_file_map_open(&file, json_path, error) : tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  if (status == TN_OK) status = map_beside(&config, json_path, "tokenizer_config.json", error);
  if (status == TN_OK) status = map_beside(&generation, json_path, "generation_config.json", error);
  if (status == TN_OK && !generation.size) status = map_beside(&generation, json_path, "config.json", error);
  if (status != TN_OK) goto done;
  status = tn_tokenizer_from_json(out, map_text(&file), map_text(&config), &inner);
  if (status == TN_OK && generation.size) {
    status = read_generation_config(*out, map_text(&generation), &inner);
    if (status != TN_OK) {
      tn_tokenizer_destroy(*out);
      *out = NULL;
    }
  }
  if (status != TN_OK) tn_fail(error, status, "%s: %s", json_path, inner.message);
done:
  tn_file_map_close(&file);
  tn_file_map_close(&config);
  tn_file_map_close(&generation);
  free(json_path);
  return status;
}
