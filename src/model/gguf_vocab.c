#include "model/gguf_vocab.h"

#include <stdlib.h>

#include "base/error.h"

#define KEY(name) "tokenizer.ggml." name

typedef struct reader {
  const tn_gguf *gguf;
  tn_gguf_use *use;
  tn_error *error;
} reader;

static tn_status out_of_memory(const reader *r) {
  return tn_fail(r->error, TN_E_MEMORY, "%s: out of memory for the vocabulary", r->gguf->path);
}

static tn_status read_kind(const reader *r, tn_vocab *vocab) {
  static const struct {
    const char *model;
    tn_vocab_kind kind;
  } kinds[] = {{"gpt2", TN_VOCAB_BPE},
               {"gemma4", TN_VOCAB_BPE},
               {"llama", TN_VOCAB_SPM},
               {"t5", TN_VOCAB_UNIGRAM},
               {"bert", TN_VOCAB_WORDPIECE}};
  tn_text model;
  tn_status status = tn_gguf_get_string(r->gguf, r->use, KEY("model"), &model, r->error);
  if (status != TN_OK) return status;
  for (size_t i = 0; i < TN_COUNT(kinds); i++) {
    if (!tn_text_is(model, kinds[i].model)) continue;
    tn_vocab_init(vocab, kinds[i].kind);
    status = tn_gguf_opt_string(r->gguf, r->use, KEY("pre"), &vocab->pre, r->error);
    if (tn_text_is(model, "gemma4")) vocab->pre = TN_TEXT("gemma4");
    return status;
  }
  return tn_fail(r->error, TN_E_UNSUPPORTED, "%s: " KEY("model") " '%.*s' is not supported", r->gguf->path,
                 (int)(model.bytes < 100 ? model.bytes : 100), model.data);
}

/* Tokens and merges, as views into the file. */
static tn_status read_texts(const reader *r, tn_gguf_vocab *out) {
  tn_gguf_array tokens, merges = {0};
  tn_status status = tn_gguf_get_array(r->gguf, r->use, KEY("tokens"), TN_GGUF_STRING, &tokens, r->error);
  if (status == TN_OK) status = tn_gguf_opt_array(r->gguf, r->use, KEY("merges"), TN_GGUF_STRING, &merges, r->error);
  if (status != TN_OK) return status;
  size_t total;
  if (!tn_add_size(tokens.count, merges.count, &total)) return out_of_memory(r);
  out->texts = tn_calloc(total, sizeof *out->texts);
  if (!out->texts) return out_of_memory(r);
  tn_text *next = out->texts;
  for (tn_gguf_cursor at = {&tokens, 0, 0}; tn_gguf_next_text(&at, next);) next++;
  if (merges.count)
    for (tn_gguf_cursor at = {&merges, 0, 0}; tn_gguf_next_text(&at, next);) next++;
  out->vocab.count = tokens.count;
  out->vocab.tokens = out->texts;
  out->vocab.merge_count = merges.count;
  out->vocab.merges = out->texts + tokens.count;
  return TN_OK;
}

static tn_status too_short(const reader *r, const char *key, size_t have, size_t want) {
  return tn_fail(r->error, TN_E_FORMAT, "%s: %s has %zu elements for %zu tokens", r->gguf->path, key, have, want);
}

static tn_status read_scores_and_types(const reader *r, tn_gguf_vocab *out) {
  tn_gguf_array scores = {0}, types = {0};
  size_t count = out->vocab.count;
  tn_status status = tn_gguf_opt_array(r->gguf, r->use, KEY("scores"), TN_GGUF_TYPE_COUNT, &scores, r->error);
  if (status == TN_OK) status = tn_gguf_opt_array(r->gguf, r->use, KEY("token_type"), TN_GGUF_I64, &types, r->error);
  if (status != TN_OK) return status;
  if (scores.count && (scores.type == TN_GGUF_STRING || scores.type == TN_GGUF_ARRAY))
    return tn_fail(r->error, TN_E_FORMAT, "%s: " KEY("scores") " must be numbers", r->gguf->path);
  if (scores.count && scores.count < count) return too_short(r, KEY("scores"), scores.count, count);
  if (types.count && types.count < count) return too_short(r, KEY("token_type"), types.count, count);
  if (scores.count) {
    if (!(out->scores = tn_calloc(count, sizeof *out->scores))) return out_of_memory(r);
    for (size_t i = 0; i < count; i++) out->scores[i] = (float)tn_gguf_array_f64(&scores, i);
  }
  if (types.count) {
    if (!(out->types = tn_calloc(count, sizeof *out->types))) return out_of_memory(r);
    for (size_t i = 0; i < count; i++) {
      int64_t type = tn_gguf_array_i64(&types, i);
      out->types[i] = type >= 0 && type <= TN_TOKEN_BYTE ? (int32_t)type : 0;
    }
  }
  out->vocab.scores = out->scores;
  out->vocab.types = out->types;
  return TN_OK;
}

/* Which tokens take white space around them: two lists of ids, where a file says so (a key of tenon's own). */
static tn_status read_strips(const reader *r, tn_gguf_vocab *out) {
  static const char *const keys[] = {KEY("strips_left"), KEY("strips_right")};
  size_t count = out->vocab.count;
  for (unsigned side = 0; side < TN_COUNT(keys); side++) {
    tn_gguf_array ids = {0};
    tn_status status = tn_gguf_opt_array(r->gguf, r->use, keys[side], TN_GGUF_I64, &ids, r->error);
    if (status != TN_OK) return status;
    if (ids.data && !out->strips && !(out->strips = tn_calloc(count, 1))) return out_of_memory(r);
    for (size_t i = 0; i < ids.count; i++) {
      int64_t id = tn_gguf_array_i64(&ids, i);
      if (id < 0 || (uint64_t)id >= count)
        return tn_fail(r->error, TN_E_FORMAT, "%s: %s[%zu] is %lld, expected one of %zu tokens", r->gguf->path,
                       keys[side], i, (long long)id, count);
      out->strips[id] |= (uint8_t)(side ? TN_STRIPS_RIGHT : TN_STRIPS_LEFT);
    }
  }
  out->vocab.strips = out->strips;
  return TN_OK;
}

static tn_status read_roles(const reader *r, tn_vocab *vocab) {
  static const char *const keys[TN_ROLE_COUNT] = {
      [TN_ROLE_BOS] = KEY("bos_token_id"),
      [TN_ROLE_EOS] = KEY("eos_token_id"),
      [TN_ROLE_EOT] = KEY("eot_token_id"),
      [TN_ROLE_EOM] = KEY("eom_token_id"),
      [TN_ROLE_UNKNOWN] = KEY("unknown_token_id"),
      [TN_ROLE_SEPARATOR] = KEY("seperator_token_id"), /* as GGUF spells it */
      [TN_ROLE_PADDING] = KEY("padding_token_id"),
      [TN_ROLE_MASK] = KEY("mask_token_id"),
  };
  for (int role = 0; role < TN_ROLE_COUNT; role++) {
    int64_t id = TN_UNSET;
    tn_status status = tn_gguf_opt_i64(r->gguf, r->use, keys[role], &id, r->error);
    if (status != TN_OK) return status;
    /* Some files name 2^32 - 1, or an id of another vocabulary, for "none". */
    vocab->roles[role] = id >= 0 && (uint64_t)id < vocab->count ? (int32_t)id : TN_UNSET;
  }
  return TN_OK;
}

static tn_status read_flags(const reader *r, tn_vocab *vocab) {
  const struct {
    const char *key;
    int *target;
  } flags[] = {{KEY("add_bos_token"), &vocab->add_bos},
               {KEY("add_eos_token"), &vocab->add_eos},
               {KEY("add_sep_token"), &vocab->add_separator},
               {KEY("add_space_prefix"), &vocab->add_space_prefix},
               {KEY("remove_extra_whitespaces"), &vocab->remove_extra_whitespaces},
               {KEY("normalizer.lowercase"), &vocab->lowercase},
               {KEY("normalizer.strip_accents"), &vocab->strip_accents}};
  for (size_t i = 0; i < TN_COUNT(flags); i++) {
    if (!tn_gguf_find(r->gguf, flags[i].key)) continue;
    bool value = false;
    tn_status status = tn_gguf_get_bool(r->gguf, r->use, flags[i].key, &value, r->error);
    if (status != TN_OK) return status;
    *flags[i].target = value;
  }
  tn_gguf_array charsmap = {0};
  tn_status status = TN_OK;
  const struct {
    const char *key;
    bool *target;
  } rare[] = {{KEY("byte_fallback"), &vocab->byte_fallback}, {KEY("charsmap_by_cluster"), &vocab->charsmap_by_cluster}};
  for (size_t i = 0; i < TN_COUNT(rare) && status == TN_OK; i++)
    if (tn_gguf_find(r->gguf, rare[i].key))
      status = tn_gguf_get_bool(r->gguf, r->use, rare[i].key, rare[i].target, r->error);
  if (status != TN_OK) return status;
  status = tn_gguf_opt_string(r->gguf, r->use, KEY("normal_form"), &vocab->normal_form, r->error);
  if (status != TN_OK) return status;
  status = tn_gguf_opt_array(r->gguf, r->use, KEY("precompiled_charsmap"), TN_GGUF_I64, &charsmap, r->error);
  if (status != TN_OK) return status;
  if (charsmap.count && charsmap.type != TN_GGUF_U8 && charsmap.type != TN_GGUF_I8)
    return tn_fail(r->error, TN_E_FORMAT, "%s: " KEY("precompiled_charsmap") " must be bytes", r->gguf->path);
  vocab->charsmap = charsmap.data;
  vocab->charsmap_bytes = charsmap.count;
  return TN_OK;
}

tn_status tn_gguf_vocab_read(tn_gguf_vocab *out, const tn_gguf *gguf, tn_gguf_use *use, tn_error *error) {
  *out = (tn_gguf_vocab){0};
  reader r = {gguf, use, error};
  tn_status status = read_kind(&r, &out->vocab);
  if (status == TN_OK) status = read_texts(&r, out);
  if (status == TN_OK) status = read_scores_and_types(&r, out);
  if (status == TN_OK) status = read_strips(&r, out);
  if (status == TN_OK) status = read_roles(&r, &out->vocab);
  if (status == TN_OK) status = read_flags(&r, &out->vocab);
  if (status == TN_OK) status = tn_gguf_opt_string(gguf, use, "general.name", &out->vocab.name, error);
  if (status == TN_OK) status = tn_gguf_opt_string(gguf, use, "general.architecture", &out->vocab.architecture, error);
  return status;
}

void tn_gguf_vocab_finish(tn_gguf_vocab *vocab) {
  free(vocab->texts);
  free(vocab->scores);
  free(vocab->types);
  free(vocab->strips);
  *vocab = (tn_gguf_vocab){0};
}

tn_status tn_tokenizer_from_gguf(tn_tokenizer **out, const tn_gguf *gguf, tn_gguf_use *use, tn_error *error) {
  *out = NULL;
  tn_gguf_vocab vocab;
  tn_error inner = {0};
  tn_status status = tn_gguf_vocab_read(&vocab, gguf, use, error);
  if (status == TN_OK) {
    status = tn_tokenizer_create(out, &vocab.vocab, &inner);
    if (status != TN_OK) tn_fail(error, status, "%s: tokenizer: %s", gguf->path, inner.message);
  }
  tn_gguf_vocab_finish(&vocab);
  return status;
}
