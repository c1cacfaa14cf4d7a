/* The `model` of a tokenizer.json: BPE, Unigram, WordPiece and WordLevel. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/json_parts.h"

/* The ids of a file's tokens may have gaps; a small file must not make large tables. */
#define GAPS_PER_FILE 65536

typedef tn_json_model model;

static tn_status out_of_memory(const model *m) {
  return tn_fail(m->error, TN_E_MEMORY, "out of memory for a vocabulary");
}

static void take_string(tn_json *json, model *m, tn_text *target) {
  tn_text text;
  bool failed = false;
  if (tn_json_null(json) || !tn_json_string(json, &text)) return;
  *target = tn_keep_text(&m->tokenizer->arena, text, &failed);
  if (failed) tn_json_fail(json, TN_E_MEMORY, "out of memory");
}

static void take_flag(tn_json *json, bool *target) {
  if (!tn_json_null(json)) tn_json_boolean(json, target);
}

static tn_status read_fields(model *m, tn_text json_text) {
  tn_json json;
  tn_json_init(&json, json_text.data, json_text.bytes, m->error);
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key);) {
      if (tn_text_is(key, "type"))
        take_string(&json, m, &m->type);
      else if (tn_text_is(key, "unk_token"))
        take_string(&json, m, &m->unknown);
      else if (tn_text_is(key, "continuing_subword_prefix"))
        take_string(&json, m, &m->prefix);
      else if (tn_text_is(key, "end_of_word_suffix"))
        take_string(&json, m, &m->suffix);
      else if (tn_text_is(key, "byte_fallback"))
        take_flag(&json, &m->byte_fallback);
      else if (tn_text_is(key, "fuse_unk"))
        take_flag(&json, &m->fuse_unknown);
      else if (tn_text_is(key, "ignore_merges"))
        take_flag(&json, &m->ignore_merges);
      else if (tn_text_is(key, "max_input_chars_per_word"))
        tn_json_integer(&json, &m->longest_word);
      else if (tn_text_is(key, "unk_id") && !tn_json_null(&json))
        tn_json_integer(&json, &m->unknown_id);
      else if (tn_text_is(key, "vocab"))
        tn_json_skip(&json, &m->vocab);
      else if (tn_text_is(key, "merges"))
        tn_json_skip(&json, &m->merges);
      else if (!tn_text_is(key, "unk_id"))
        tn_json_skip(&json, NULL);
    }
  tn_status status = tn_json_end(&json);
  if (status != TN_OK || m->type.data) return status;
  /* Old files leave the type out. */
  if (m->merges.bytes)
    m->type = TN_TEXT("BPE");
  else if (m->vocab.bytes && m->vocab.data[0] == '[')
    m->type = TN_TEXT("Unigram");
  else if (m->prefix.data)
    m->type = TN_TEXT("WordPiece");
  else
    m->type = TN_TEXT("WordLevel");
  return TN_OK;
}

static bool add_token(tn_json *json, model *m, tn_text text, int64_t id, size_t seen) {
  if (id < 0 || (uint64_t)id > seen + m->vocab.bytes / 4 + GAPS_PER_FILE)
    return tn_json_fail(json, TN_E_FORMAT, "token id %lld in a vocabulary of %zu bytes", (long long)id, m->vocab.bytes);
  if (!tn_token_table_set(&m->tokenizer->texts, (size_t)id, text, true))
    return tn_json_fail(json, TN_E_MEMORY, "out of memory for a vocabulary");
  return true;
}

/* {"text": id, ...} */
static tn_status read_vocabulary(model *m) {
  tn_json json;
  tn_json_init(&json, m->vocab.data, m->vocab.bytes, m->error);
  size_t seen = 0;
  int64_t id;
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key); seen++)
      if (tn_json_integer(&json, &id)) add_token(&json, m, key, id, seen);
  tn_status status = tn_json_end(&json);
  return status != TN_OK ? tn_error_prefix(m->error, "vocab"), status : TN_OK;
}

/* [["text", score], ...] */
static tn_status read_scored_vocabulary(model *m) {
  tn_json json;
  tn_json_init(&json, m->vocab.data, m->vocab.bytes, m->error);
  double *scores = NULL;
  size_t count = 0, capacity = 0;
  tn_text text;
  if (tn_json_array(&json))
    while (tn_json_item(&json)) {
      double *score = TN_PUSH(scores, count, capacity);
      if (!score) {
        tn_json_fail(&json, TN_E_MEMORY, "out of memory for a vocabulary");
        break;
      }
      if (!tn_json_array(&json)) break;
      if (tn_json_item(&json) && tn_json_string(&json, &text)) add_token(&json, m, text, (int64_t)count - 1, count);
      if (tn_json_item(&json)) tn_json_number(&json, score);
      if (tn_json_item(&json)) tn_json_fail(&json, TN_E_FORMAT, "expected a token and its score");
    }
  tn_status status = tn_json_end(&json);
  if (status == TN_OK && m->tokenizer->texts.count != count)
    status = tn_fail(m->error, TN_E_FORMAT, "expected a token and its score");
  m->tokenizer->scores = scores;
  m->scored = count;
  return status != TN_OK ? tn_error_prefix(m->error, "vocab"), status : TN_OK;
}

/* ---- BPE ---- */

/* One merge: "left right" or ["left", "right"]. `left` is working memory. */
static tn_status read_merge(model *m, tn_json *json, tn_buf *left) {
  tn_text first, second;
  tn_bpe *bpe = &m->tokenizer->bpe;
  if (tn_json_peek(json) == TN_JSON_STRING) {
    if (!tn_json_string(json, &first)) return json->status;
    const char *blank = first.bytes ? memchr(first.data, ' ', first.bytes) : NULL;
    if (!blank) return tn_fail(m->error, TN_E_FORMAT, "merges[%zu]: two parts are expected", bpe->merge_count);
    size_t bytes = (size_t)(blank - first.data);
    return tn_bpe_add_merge(bpe, (tn_text){first.data, bytes}, (tn_text){blank + 1, first.bytes - bytes - 1}, m->error);
  }
  if (!tn_json_array(json)) return json->status;
  if (!tn_json_item(json) || !tn_json_string(json, &first)) goto bad;
  if (first.data == json->strings.data) { /* the next string takes the reader's buffer */
    tn_buf_clear(left);
    if (!tn_buf_append(left, first.data, first.bytes)) return out_of_memory(m);
    first.data = left->data;
  }
  if (!tn_json_item(json) || !tn_json_string(json, &second) || tn_json_item(json)) goto bad;
  return json->status != TN_OK ? json->status : tn_bpe_add_merge(bpe, first, second, m->error);
bad:
  if (json->status != TN_OK) return json->status;
  return tn_fail(m->error, TN_E_FORMAT, "merges[%zu]: two parts are expected", bpe->merge_count);
}

static tn_status read_merges(model *m) {
  tn_json json;
  tn_buf left;
  tn_buf_init(&left);
  tn_json_init(&json, m->merges.data, m->merges.bytes, m->error);
  tn_status status = TN_OK;
  if (tn_json_array(&json))
    while (status == TN_OK && tn_json_item(&json)) status = read_merge(m, &json, &left);
  tn_buf_finish(&left);
  tn_status end = tn_json_end(&json);
  return status != TN_OK ? status : end;
}

/* The id of the unknown token; -1 if none is named. */
static tn_status find_unknown(const model *m, int32_t *id) {
  *id = -1;
  if (!m->unknown.data) return TN_OK;
  *id = tn_token_table_find(&m->tokenizer->texts, m->unknown);
  return TN_OK;
}

static tn_status build_bpe(model *m) {
  tn_tokenizer *tokenizer = m->tokenizer;
  tn_bpe *bpe = &tokenizer->bpe;
  tokenizer->model = TN_MODEL_BPE;
  bpe->table = &tokenizer->texts;
  bpe->vocab_count = tokenizer->vocab_count;
  bpe->special = tokenizer->special;
  bpe->byte_fallback = m->byte_fallback;
  bpe->ignore_merges = m->ignore_merges;
  bpe->fuse_unknown = m->fuse_unknown;
  bpe->last_merge_wins = true;
  bpe->word_prefix = m->prefix;
  bpe->word_suffix = m->suffix;
  tn_status status = find_unknown(m, &bpe->unknown_id);
  bpe->unknown = bpe->unknown_id >= 0 ? TN_BPE_UNKNOWN_UNK : TN_BPE_UNKNOWN_DROP;
  if (status == TN_OK) status = tn_bpe_prepare(bpe, m->merges.bytes / 24, m->error);
  return status == TN_OK ? read_merges(m) : status;
}

/* ---- the others ---- */

static tn_status build_unigram(model *m) {
  tn_tokenizer *tokenizer = m->tokenizer;
  tn_unigram *unigram = &tokenizer->unigram;
  tokenizer->model = TN_MODEL_UNIGRAM;
  if (m->unknown_id >= (int64_t)tokenizer->vocab_count || m->unknown_id < -1)
    return tn_fail(m->error, TN_E_FORMAT, "unk_id %lld in a vocabulary of %zu", (long long)m->unknown_id,
                   tokenizer->vocab_count);
  unigram->unknown_id = (int32_t)m->unknown_id;
  unigram->byte_fallback = m->byte_fallback;
  unigram->scores = tokenizer->scores;
  double lowest = 0;
  for (size_t id = 0; id < m->scored; id++) {
    if (id == 0 || tokenizer->scores[id] < lowest) lowest = tokenizer->scores[id];
    if (tokenizer->special[id]) continue;
    tn_status status =
        tn_prefix_index_add(&unigram->tokens, tn_token_table_text(&tokenizer->texts, id), (int32_t)id, m->error);
    if (status != TN_OK) return status;
  }
  unigram->unknown_score = lowest - 10;
  tn_prefix_index_sort(&unigram->tokens);
  for (unsigned byte = 0; byte < 256; byte++) {
    char name[] = "<0x00>";
    name[3] = "0123456789ABCDEF"[byte >> 4];
    name[4] = "0123456789ABCDEF"[byte & 15];
    unigram->byte_ids[byte] = tn_token_table_find(&tokenizer->texts, tn_text_of(name));
  }
  return TN_OK;
}

static tn_status build_wordpiece(model *m, bool whole_words) {
  tn_tokenizer *tokenizer = m->tokenizer;
  tn_wordpiece *wordpiece = &tokenizer->wordpiece;
  tokenizer->model = TN_MODEL_WORDPIECE;
  tn_status status = find_unknown(m, &wordpiece->unknown_id);
  wordpiece->longest_word = m->longest_word >= 0 ? (size_t)m->longest_word : 0;
  if (whole_words) wordpiece->longest_word = SIZE_MAX;
  tn_text mark = m->prefix.data ? m->prefix : TN_TEXT("##");
  for (size_t id = 0; id < tokenizer->vocab_count && status == TN_OK; id++) {
    if (tokenizer->special[id]) continue;
    tn_text text = tn_token_table_text(&tokenizer->texts, id);
    status = tn_prefix_index_add(&wordpiece->first, text, (int32_t)id, m->error);
    bool continues = text.bytes >= mark.bytes && memcmp(text.data, mark.data, mark.bytes) == 0;
    if (status == TN_OK && continues && !whole_words)
      status = tn_prefix_index_add(&wordpiece->continuing, (tn_text){text.data + mark.bytes, text.bytes - mark.bytes},
                                   (int32_t)id, m->error);
  }
  tn_prefix_index_sort(&wordpiece->first);
  tn_prefix_index_sort(&wordpiece->continuing);
  return status;
}

static bool is_unigram(const model *m) {
  return tn_text_is(m->type, "Unigram");
}

tn_status tn_json_model_read(tn_json_model *m, tn_tokenizer *tokenizer, tn_text json, tn_error *error) {
  *m = (tn_json_model){.tokenizer = tokenizer, .unknown_id = -1, .longest_word = 100, .error = error};
  tn_status status = read_fields(m, json);
  if (status != TN_OK) return status;
  if (!m->vocab.bytes) return tn_fail(error, TN_E_FORMAT, "model: vocab is missing");
  return is_unigram(m) ? read_scored_vocabulary(m) : read_vocabulary(m);
}

tn_status tn_json_model_build(tn_json_model *m) {
  tn_text type = m->type;
  if (tn_text_is(type, "BPE")) return build_bpe(m);
  int shown = (int)(type.bytes < 60 ? type.bytes : 60);
  if (m->tokenizer->bpe.byte_level)
    return tn_fail(m->error, TN_E_UNSUPPORTED, "ByteLevel words with a model of type '%.*s'", shown, type.data);
  if (is_unigram(m)) return build_unigram(m);
  if (tn_text_is(type, "WordPiece")) return build_wordpiece(m, false);
  if (tn_text_is(type, "WordLevel")) return build_wordpiece(m, true);
  return tn_fail(m->error, TN_E_UNSUPPORTED, "model type '%.*s' is not supported", shown, type.data);
}
