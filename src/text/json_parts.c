#include "text/json_parts.h"

#include "base/error.h"

#define MAX_PARTS 64 /* of one list: files have a handful */

static void keep_string(tn_json *json, tn_arena *arena, tn_text *target) {
  tn_text text;
  bool failed = false;
  if (tn_json_null(json) || !tn_json_string(json, &text)) return;
  *target = tn_keep_text(arena, text, &failed);
  if (failed) tn_json_fail(json, TN_E_MEMORY, "out of memory");
}

static void keep_flag(tn_json *json, int *target) {
  bool value;
  if (!tn_json_null(json) && tn_json_boolean(json, &value)) *target = value;
}

static void keep_number(tn_json *json, int64_t *target) {
  if (!tn_json_null(json)) tn_json_integer(json, target);
}

/* "text", {"String": "text"} or {"Regex": "expression"} */
static void keep_pattern(tn_json *json, tn_arena *arena, tn_json_part *part) {
  if (tn_json_peek(json) == TN_JSON_STRING) {
    keep_string(json, arena, &part->pattern);
    return;
  }
  if (!tn_json_object(json)) return;
  for (tn_text key; tn_json_key(json, &key);) {
    if (tn_text_is(key, "Regex"))
      part->is_expression = true;
    else if (!tn_text_is(key, "String"))
      tn_json_fail(json, TN_E_UNSUPPORTED, "a pattern that is neither String nor Regex");
    keep_string(json, arena, &part->pattern);
  }
}

/* Reads a field that is a text, flag or number; false if `key` is none of them. */
static bool read_field(tn_json *json, tn_text key, tn_arena *arena, tn_json_part *part) {
  const struct {
    const char *name;
    tn_text *target;
  } texts[] = {{"type", &part->type},
               {"content", &part->content},
               {"replacement", &part->replacement},
               {"prepend", &part->prepend},
               {"prepend_scheme", &part->prepend_scheme},
               {"behavior", &part->behavior},
               {"precompiled_charsmap", &part->charsmap},
               {"prefix", &part->prefix},
               {"suffix", &part->suffix},
               {"delimiter", &part->delimiter}};
  const struct {
    const char *name;
    int *target;
  } flags[] = {{"add_prefix_space", &part->add_prefix_space},
               {"use_regex", &part->use_regex},
               {"individual_digits", &part->individual_digits},
               {"split", &part->split},
               {"invert", &part->invert},
               {"strip_left", &part->strip_left},
               {"strip_right", &part->strip_right},
               {"lowercase", &part->lowercase},
               {"strip_accents", &part->strip_accents},
               {"clean_text", &part->clean_text},
               {"handle_chinese_chars", &part->handle_chinese_chars},
               {"cleanup", &part->cleanup}};
  const struct {
    const char *name;
    int64_t *target;
  } numbers[] = {{"start", &part->start}, {"stop", &part->stop}, {"length", &part->length}};
  for (size_t i = 0; i < TN_COUNT(texts); i++)
    if (tn_text_is(key, texts[i].name)) return keep_string(json, arena, texts[i].target), true;
  for (size_t i = 0; i < TN_COUNT(flags); i++)
    if (tn_text_is(key, flags[i].name)) return keep_flag(json, flags[i].target), true;
  for (size_t i = 0; i < TN_COUNT(numbers); i++)
    if (tn_text_is(key, numbers[i].name)) return keep_number(json, numbers[i].target), true;
  return false;
}

tn_status tn_json_part_read(tn_json_part *part, tn_text json_text, tn_arena *arena, tn_error *error) {
  *part = (tn_json_part){.length = 5};
  part->add_prefix_space = part->use_regex = part->individual_digits = part->split = part->invert = TN_UNSET;
  part->strip_left = part->strip_right = part->lowercase = part->strip_accents = TN_UNSET;
  part->clean_text = part->handle_chinese_chars = part->cleanup = TN_UNSET;
  tn_json json;
  tn_json_init(&json, json_text.data, json_text.bytes, error);
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key);) {
      if (read_field(&json, key, arena, part)) continue;
      if (tn_text_is(key, "pattern"))
        keep_pattern(&json, arena, part);
      else if (tn_text_is(key, "normalizers") || tn_text_is(key, "pretokenizers") || tn_text_is(key, "decoders") ||
               tn_text_is(key, "processors"))
        tn_json_skip(&json, &part->children);
      else if (tn_text_is(key, "single"))
        tn_json_skip(&json, &part->single);
      else if (tn_text_is(key, "special_tokens"))
        tn_json_skip(&json, &part->special_tokens);
      else if (tn_text_is(key, "cls"))
        tn_json_skip(&json, &part->cls);
      else if (tn_text_is(key, "sep"))
        tn_json_skip(&json, &part->sep);
      else
        tn_json_skip(&json, NULL);
    }
  return tn_json_end(&json);
}

static tn_status build_parts(tn_tokenizer *tokenizer, tn_text json_text, tn_json_build build, unsigned depth,
                             unsigned *built, tn_error *error) {
  if (!json_text.bytes || json_text.data[0] == 'n') return TN_OK; /* null */
  if (depth == TN_JSON_DEPTH) return tn_fail(error, TN_E_LIMIT, "Sequences nested more than %d deep", TN_JSON_DEPTH);
  tn_json_part part;
  tn_status status = tn_json_part_read(&part, json_text, &tokenizer->arena, error);
  if (status != TN_OK) return status;
  if (!tn_text_is(part.type, "Sequence")) {
    if (++*built > MAX_PARTS) return tn_fail(error, TN_E_LIMIT, "more than %d steps in one list", MAX_PARTS);
    return build(tokenizer, &part, error);
  }
  tn_json json;
  tn_json_init(&json, part.children.data, part.children.bytes, error);
  if (tn_json_array(&json))
    while (status == TN_OK && tn_json_item(&json)) {
      tn_text child;
      if (tn_json_skip(&json, &child)) status = build_parts(tokenizer, child, build, depth + 1, built, error);
    }
  tn_status end = tn_json_end(&json);
  return status != TN_OK ? status : end;
}

tn_status tn_json_parts_build(tn_tokenizer *tokenizer, tn_text json, tn_json_build build, tn_error *error) {
  unsigned built = 0;
  return build_parts(tokenizer, json, build, 0, &built, error);
}
