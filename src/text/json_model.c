/* The `model` of a tokenizer.json: BPE, Unigram, WordPiece and WordLevel. */
#include <stdio.h>
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

/* Old files leave the type out. */
static tn_text guess_type(const model *m) {
  if (m->merges.bytes) return TN_TEXT("BPE");
  if (m->scored) return TN_TEXT("Unigram");
  return m->prefix.data ? TN_TEXT("WordPiece") : TN_TEXT("WordLevel");
}

static bool add_token(tn_json *json, model *m, tn_text text, int64_t id, size_t seen) {
  if (id < 0 || (uint64_t)id > 4 * seen + GAPS_PER_FILE)
    return tn_json_fail(json, TN_E_FORMAT, "vocab: token id %lld after %zu tokens", (long long)id, seen);
  if (!tn_token_table_set(&m->tokenizer->texts, (size_t)id, text, true))
    return tn_json_fail(json, TN_E_MEMORY, "out of memory for a vocabulary");
  return true;
}

/* {"text": id, ...} */
static void read_vocabulary(tn_json *json, model *m) {
  size_t seen = 0;
  int64_t id;
  if (tn_json_object(json))
    for (tn_text key; tn_json_key(json, &key); seen++)
      if (tn_json_integer(json, &id)) add_token(json, m, key, id, seen);
}

/* A score as the reference's JSON reader takes it: digits as an integer, then one division or multiplication by a power
 * of ten. That is rounded twice and may differ from the nearest double in the last bit, which decides between ways to
 * cut a text whose scores are equal but for that. */
static double score_of(tn_text digits) {
  uint64_t value = 0;
  int64_t exponent = 0;
  size_t at = digits.bytes && digits.data[0] == '-';
  bool negative = at, fraction = false, full = false;
  for (; at < digits.bytes && (digits.data[at] | 0x20) != 'e'; at++) {
    if (digits.data[at] == '.') {
      fraction = true;
      continue;
    }
    unsigned digit = (unsigned)(digits.data[at] - '0');
    full = full || value > (UINT64_MAX - digit) / 10;
    if (!full) value = value * 10 + digit;
    exponent += full ? !fraction : -(int64_t)fraction;
  }
  if (at < digits.bytes) exponent += strtol(digits.data + at + 1, NULL, 10);
  double result = (double)value;
  while (exponent < -308 && result != 0) {
    result /= 1e308;
    exponent += 308;
  }
  double power = 1;
  char text[32];
  snprintf(text, sizeof text, "1e%lld", (long long)(exponent < 0 ? -exponent : exponent));
  power = strtod(text, NULL);
  if (result != 0) result = exponent < 0 ? result / power : result * power;
  return negative ? -result : result;
}

/* Reads one; it must be a finite number. */
static bool take_score(tn_json *json, double *score) {
  tn_text digits;
  if (tn_json_peek(json) != TN_JSON_NUMBER || !tn_json_skip(json, &digits)) return false;
  *score = score_of(digits);
  return *score - *score == 0;
}

/* [["text", score], ...] */
static void read_scored_vocabulary(tn_json *json, model *m) {
  tn_tokenizer *tokenizer = m->tokenizer;
  size_t capacity = 0;
  tn_text text;
  if (!tn_json_array(json)) return;
  while (tn_json_item(json)) {
    double *score = TN_PUSH(tokenizer->scores, m->scored, capacity);
    bool whole = score && tn_json_array(json) && tn_json_item(json) && tn_json_string(json, &text) &&
                 add_token(json, m, text, (int64_t)m->scored - 1, m->scored) && tn_json_item(json) &&
                 take_score(json, score) && !tn_json_item(json);
    if (!score) tn_json_fail(json, TN_E_MEMORY, "out of memory for a vocabulary");
    if (!whole) tn_json_fail(json, TN_E_FORMAT, "vocab[%zu]: a token and its score are expected", m->scored - 1);
  }
}

/* Both kinds of vocabulary; given twice it is a fault, for half of one must not mix with half of the other. */
static void take_vocabulary(tn_json *json, model *m) {
  if (m->tokenizer->texts.count)
    tn_json_fail(json, TN_E_FORMAT, "vocab: given twice");
  else if (tn_json_peek(json) == TN_JSON_ARRAY)
    read_scored_vocabulary(json, m);
  else
    read_vocabulary(json, m);
}

static void take_field(tn_json *json, model *m, tn_text key) {
  if (tn_text_is(key, "type"))
    take_string(json, m, &m->type);
  else if (tn_text_is(key, "unk_token"))
    take_string(json, m, &m->unknown);
  else if (tn_text_is(key, "continuing_subword_prefix"))
    take_string(json, m, &m->prefix);
  else if (tn_text_is(key, "end_of_word_suffix"))
    take_string(json, m, &m->suffix);
  else if (tn_text_is(key, "byte_fallback"))
    take_flag(json, &m->byte_fallback);
  else if (tn_text_is(key, "fuse_unk"))
    take_flag(json, &m->fuse_unknown);
  else if (tn_text_is(key, "ignore_merges"))
    take_flag(json, &m->ignore_merges);
  else if (tn_text_is(key, "max_input_chars_per_word"))
    tn_json_integer(json, &m->longest_word);
  else if (tn_text_is(key, "unk_id"))
    (void)(tn_json_null(json) || tn_json_integer(json, &m->unknown_id));
  else if (tn_text_is(key, "vocab"))
    take_vocabulary(json, m);
  else if (tn_text_is(key, "merges") && tn_json_peek(json) == TN_JSON_ARRAY)
    tn_json_pass_array(json, &m->merges, &m->merge_count);
  else
    tn_json_skip(json, tn_text_is(key, "merges") ? &m->merges : NULL);
}

void tn_json_model_read(tn_json_model *m, tn_tokenizer *tokenizer, tn_json *json, tn_error *error) {
  *m = (tn_json_model){.tokenizer = tokenizer, .unknown_id = -1, .longest_word = 100, .error = error};
  size_t bytes = (size_t)(json->end - json->at);
  if (!tn_json_object(json)) return;
  /* About what a file of this size holds, so that tables needn't grow often. */
  if (!tn_token_table_reserve(&tokenizer->texts, bytes / 64, bytes / 16))
    tn_json_fail(json, TN_E_MEMORY, "out of memory for a vocabulary");
  for (tn_text key; tn_json_key(json, &key);) take_field(json, m, key);
  if (!tokenizer->texts.count) tn_json_fail(json, TN_E_FORMAT, "model: vocab is missing or empty");
  if (!m->type.data) m->type = guess_type(m);
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
  if (m->merges.bytes && tn_json_array(&json))
    while (status == TN_OK && tn_json_item(&json)) status = read_merge(m, &json, &left);
  tn_buf_finish(&left);
  if (status == TN_OK) status = tn_bpe_finish_merges(&m->tokenizer->bpe, m->error);
  tn_status end = tn_json_end(&json);
  return status != TN_OK || !m->merges.bytes ? status : end;
}

/* The id of the unknown token; -1 if none is named. */
static int32_t find_unknown(const model *m) {
  return m->unknown.data ? tn_token_table_find(&m->tokenizer->texts, m->unknown) : -1;
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
  bpe->unknown_id = find_unknown(m);
  bpe->unknown = bpe->unknown_id >= 0 ? TN_BPE_UNKNOWN_UNK : TN_BPE_UNKNOWN_DROP;
  if (m->byte_fallback && (m->prefix.bytes || m->suffix.bytes)) /* the reference writes the mark's bytes too */
    return tn_fail(m->error, TN_E_UNSUPPORTED, "byte_fallback together with marks of a word's parts");
  tn_status status = tn_bpe_prepare(bpe, m->merge_count, m->error);
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
    if (tokenizer->special[id] || tokenizer->flags[id] & TN_FLAG_APART) continue;
    tn_status status =
        tn_prefix_index_add(&unigram->tokens, tn_token_table_text(&tokenizer->texts, id), (int32_t)id, m->error);
    if (status != TN_OK) return status;
  }
  unigram->unknown_score = lowest - 10;
  tn_prefix_index_sort(&unigram->tokens);
  tn_unigram_find_bytes(unigram, &tokenizer->texts);
  return TN_OK;
}

static tn_status build_wordpiece(model *m, bool whole_words) {
  tn_tokenizer *tokenizer = m->tokenizer;
  tn_wordpiece *wordpiece = &tokenizer->wordpiece;
  tokenizer->model = TN_MODEL_WORDPIECE;
  wordpiece->unknown_id = find_unknown(m);
  tn_status status = TN_OK;
  wordpiece->longest_word = m->longest_word >= 0 ? (size_t)m->longest_word : 0;
  if (whole_words) wordpiece->longest_word = SIZE_MAX;
  tn_text mark = m->prefix.data ? m->prefix : TN_TEXT("##");
  for (size_t id = 0; id < tokenizer->vocab_count && status == TN_OK; id++) {
    if (tokenizer->special[id] || tokenizer->flags[id] & TN_FLAG_APART) continue;
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

tn_status tn_json_model_build(tn_json_model *m) {
  tn_text type = m->type;
  if (tn_text_is(type, "BPE")) return build_bpe(m);
  tn_json merges;
  tn_json_init(&merges, m->merges.data, m->merges.bytes, m->error);
  if (m->merges.bytes) tn_json_skip(&merges, NULL);
  if (tn_json_end(&merges) != TN_OK) return merges.status;
  int shown = (int)(type.bytes < 60 ? type.bytes : 60);
  if (m->tokenizer->bpe.byte_level)
    return tn_fail(m->error, TN_E_UNSUPPORTED, "ByteLevel words with a model of type '%.*s'", shown, type.data);
  if (tn_text_is(type, "Unigram")) return build_unigram(m);
  if (tn_text_is(type, "WordPiece")) return build_wordpiece(m, false);
  if (tn_text_is(type, "WordLevel")) return build_wordpiece(m, true);
  return tn_fail(m->error, TN_E_UNSUPPORTED, "model type '%.*s' is not supported", shown, type.data);
}
