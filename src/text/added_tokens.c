#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

tn_status tn_added_tokens_add(tn_added_tokens *added, const tn_added_token *token, tn_error *error) {
  tn_added_token *slot = TN_PUSH(added->tokens, added->count, added->capacity);
  if (!slot) return tn_fail(error, TN_E_MEMORY, "out of memory for added tokens");
  *slot = *token;
  return tn_prefix_index_add(token->normalized ? &added->normal : &added->raw, token->text, (int32_t)added->count - 1,
                             error);
}

void tn_added_tokens_sort(tn_added_tokens *added) {
  tn_prefix_index_sort(&added->raw);
  tn_prefix_index_sort(&added->normal);
}

void tn_added_tokens_finish(tn_added_tokens *added) {
  tn_prefix_index_finish(&added->raw);
  tn_prefix_index_finish(&added->normal);
  free(added->tokens);
}

static uint32_t character_before(tn_text text, size_t at) {
  size_t start = at - 1;
  uint32_t c;
  while (start > 0 && at - start < 4 && ((unsigned char)text.data[start] & 0xc0) == 0x80) start--;
  tn_utf8_step(text.data + start, at - start, &c);
  return c;
}

static uint32_t character_at(tn_text text, size_t at, size_t *bytes) {
  uint32_t c;
  *bytes = tn_utf8_step(text.data + at, text.bytes - at, &c);
  return c;
}

static bool stands_alone(tn_text text, size_t start, size_t end) {
  size_t bytes;
  return (start == 0 || !tn_unicode_word(character_before(text, start))) &&
         (end == text.bytes || !tn_unicode_word(character_at(text, end, &bytes)));
}

/* How far the mark `trusted` is uniform over [start, end): 1 all trusted, 0 all untrusted, -1 mixed. */
static int trust_of(const tn_added_search *search, size_t start, size_t end) {
  if (!search->trust) return search->trusted;
  const char *trust = search->trust + start;
  if (memchr(trust, 0, end - start) == NULL) return 1;
  return memchr(trust, 1, end - start) == NULL ? 0 : -1;
}

/* The token at `at`, or NULL; then *end is where to look on. */
static const tn_added_token *token_at(const tn_added_search *search, const tn_prefix_index *index, size_t at,
                                      size_t *end) {
  const tn_added_token *longest = NULL, *allowed = NULL;
  size_t longest_end = at + 1, allowed_end = at;
  tn_prefix_walk walk;
  bool more = tn_prefix_start(index, &walk, search->text.data[at]);
  for (; more; more = at + walk.depth < search->text.bytes &&
                      tn_prefix_next(index, &walk, search->text.data[at + walk.depth])) {
    int32_t number = tn_prefix_here(index, &walk);
    if (number < 0) continue;
    longest = &search->added->tokens[number];
    longest_end = at + walk.depth;
    if (longest->special && trust_of(search, at, longest_end) != 1) continue;
    allowed = longest;
    allowed_end = longest_end;
  }
  if (longest == allowed) {
    *end = longest_end;
    return allowed;
  }
  /* A control token in text that nobody trusts is ordinary text as a whole; one that only reaches into such text
   * hides nothing. */
  if (trust_of(search, at, longest_end) == 0) {
    *end = longest_end;
    return NULL;
  }
  *end = allowed ? allowed_end : at + 1;
  return allowed;
}

const tn_added_token *tn_added_tokens_find(const tn_added_search *search, size_t from, size_t *start, size_t *end) {
  const tn_prefix_index *index = search->normalized ? &search->added->normal : &search->added->raw;
  if (!index->count) return NULL;
  tn_text text = search->text;
  for (size_t at = from, stop; at < text.bytes; at = stop) {
    unsigned byte = (unsigned char)text.data[at];
    stop = at + 1;
    if (index->first[byte] == index->first[byte + 1]) continue;
    const tn_added_token *token = token_at(search, index, at, &stop);
    if (!token || (token->single_word && !stands_alone(text, at, stop))) continue;
    *start = at;
    *end = stop;
    while (token->left && *start > from && tn_unicode_space(character_before(text, *start)))
      for ((*start)--; *start > from && ((unsigned char)text.data[*start] & 0xc0) == 0x80;) (*start)--;
    for (size_t bytes; token->right && *end < text.bytes && tn_unicode_space(character_at(text, *end, &bytes));)
      *end += bytes;
    return token;
  }
  return NULL;
}
