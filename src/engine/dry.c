#include "engine/dry.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "text/tokenizer.h"

#define MOST_PENALTY 1e9f

struct tn_breakers {
  const tn_tokenizer *tokenizer;
  size_t count, longest; /* bytes of the longest */
  tn_text *texts;
  char *bytes;
};

/* ---- sequence breakers ---- */

static const char *const usual[] = {"\n", ":", "\"", "*"};

static tn_status check_texts(const tn_vocabulary *vocabulary, const char *const *texts, size_t count, tn_error *error) {
  if (count > TN_MAX_BREAKERS)
    return tn_fail(error, TN_E_LIMIT, "dry_sequence_breakers: %zu given, at most %u are taken", count, TN_MAX_BREAKERS);
  if (count && !vocabulary->tokenizer)
    return tn_fail(error, TN_E_INVALID, "dry_sequence_breakers: the model has no tokenizer");
  for (size_t i = 0; i < count; i++) {
    if (!texts[i] || !texts[i][0]) return tn_fail(error, TN_E_INVALID, "dry_sequence_breakers: text %zu is empty", i);
    if (strlen(texts[i]) > TN_MAX_BREAKER_BYTES)
      return tn_fail(error, TN_E_LIMIT, "dry_sequence_breakers: text %zu has %zu bytes, at most %u are taken", i,
                     strlen(texts[i]), TN_MAX_BREAKER_BYTES);
  }
  return TN_OK;
}

tn_status tn_breakers_create(const tn_vocabulary *vocabulary, const char *const *texts, size_t count,
                             tn_breakers **breakers, tn_error *error) {
  *breakers = NULL;
  if (!texts) {
    texts = usual;
    count = vocabulary->tokenizer ? TN_COUNT(usual) : 0;
  }
  tn_status status = check_texts(vocabulary, texts, count, error);
  if (status != TN_OK || !count) return status;
  tn_breakers *made = calloc(1, sizeof *made);
  if (made) {
    made->tokenizer = vocabulary->tokenizer;
    made->texts = tn_calloc(count, sizeof *made->texts);
    made->bytes = tn_calloc(count, TN_MAX_BREAKER_BYTES);
  }
  if (!made || !made->texts || !made->bytes) {
    tn_breakers_destroy(made);
    return tn_fail(error, TN_E_MEMORY, "no memory for %zu sequence breakers", count);
  }
  for (size_t i = 0; i < count; i++) {
    size_t bytes = strlen(texts[i]);
    char *copy = memcpy(made->bytes + i * TN_MAX_BREAKER_BYTES, texts[i], bytes);
    made->texts[made->count++] = (tn_text){copy, bytes};
    if (bytes > made->longest) made->longest = bytes;
  }
  *breakers = made;
  return TN_OK;
}

void tn_breakers_destroy(tn_breakers *breakers) {
  if (!breakers) return;
  free(breakers->texts);
  free(breakers->bytes);
  free(breakers);
}

/* Does a breaker end in bytes [begin, end) of the text? */
static bool ends_in(const tn_breakers *breakers, const tn_buf *text, size_t begin, size_t end) {
  for (size_t i = 0; i < breakers->count; i++) {
    tn_text breaker = breakers->texts[i];
    for (size_t stop = begin + 1 > breaker.bytes ? begin + 1 : breaker.bytes; stop <= end; stop++)
      if (!memcmp(text->data + stop - breaker.bytes, breaker.data, breaker.bytes)) return true;
  }
  return false;
}

/* Tokens behind the last one in which a breaker ends, at most TN_DRY_LONGEST. Breakers may begin some tokens before. */
static bool find_limit(const tn_breakers *breakers, const int32_t *tokens, uint32_t count, tn_buf *text,
                       uint32_t *limit) {
  uint32_t seen = count < TN_DRY_LONGEST ? count : TN_DRY_LONGEST;
  uint32_t lead = (uint32_t)breakers->longest - 1 < count - seen ? (uint32_t)breakers->longest - 1 : count - seen;
  size_t ends[TN_DRY_LONGEST + TN_MAX_BREAKER_BYTES];
  const int32_t *from = tokens + (count - seen - lead);
  tn_buf_clear(text);
  for (uint32_t i = 0; i < seen + lead; i++) {
    if (!tn_tokenizer_token_bytes(breakers->tokenizer, from[i], text)) return false;
    ends[i] = text->size;
  }
  *limit = 0;
  while (*limit < seen) {
    uint32_t i = seen + lead - 1 - *limit;
    if (ends_in(breakers, text, i ? ends[i - 1] : 0, ends[i])) break;
    ++*limit;
  }
  return true;
}

static bool holds_breaker(const tn_breakers *breakers, int32_t token, tn_buf *text, bool *holds) {
  tn_buf_clear(text);
  if (!tn_tokenizer_token_bytes(breakers->tokenizer, token, text)) return false;
  *holds = ends_in(breakers, text, 0, text->size);
  return true;
}

/* ---- matches ---- */

/* How many tokens that end with tokens[at] are the last ones of the sequence, at most `limit`. */
static uint32_t match_length(const int32_t *tokens, uint32_t count, uint32_t at, uint32_t limit) {
  uint32_t length = 0;
  while (length < limit && length <= at && tokens[at - length] == tokens[count - 1 - length]) length++;
  return length;
}

static float penalty_of(const tn_dry *dry, uint32_t length) {
  double penalty = (double)dry->multiplier;
  for (uint32_t i = dry->allowed_length; i < length; i++) penalty *= (double)dry->base;
  return penalty < (double)MOST_PENALTY ? (float)penalty : MOST_PENALTY;
}

bool tn_dry_apply(const tn_dry *dry, const int32_t *tokens, uint32_t count, float *values, uint32_t *lengths,
                  tn_buf *text) {
  uint32_t last = dry->last_n < count ? dry->last_n : count, limit = last < TN_DRY_LONGEST ? last : TN_DRY_LONGEST;
  bool complete = true;
  tokens += count - last;
  if (dry->breakers && last) complete = find_limit(dry->breakers, tokens, last, text, &limit);
  if (!complete || !limit || limit < dry->allowed_length) return complete;
  for (uint32_t i = 0; i + 1 < last; i++) {
    uint32_t length = match_length(tokens, last, i, limit), *longest = &lengths[tokens[i + 1]];
    if (length && length >= dry->allowed_length && length > *longest) *longest = length;
  }
  for (uint32_t i = 1; i < last; i++) {
    uint32_t *longest = &lengths[tokens[i]];
    bool is_breaker = false;
    if (!*longest) continue;
    if (dry->breakers && !holds_breaker(dry->breakers, tokens[i], text, &is_breaker)) complete = false;
    if (!is_breaker) values[tokens[i]] -= penalty_of(dry, *longest);
    *longest = 0;
  }
  return complete;
}
