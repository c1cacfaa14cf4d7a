/* Tokens that are found in the text itself, before anything else happens to it: control tokens, and what a user of the
 * vocabulary added. */
#ifndef TENON_TEXT_ADDED_TOKENS_H
#define TENON_TEXT_ADDED_TOKENS_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"
#include "text/prefix_index.h"

typedef struct tn_added_token {
  int32_t id;
  tn_text text;     /* must outlive this; in normal form if `normalized` */
  bool special;     /* only recognised in trusted text */
  bool left, right; /* takes white space at its left, right */
  bool single_word; /* only where no word character touches it */
  bool normalized;  /* looked for after normalization */
} tn_added_token;

/* Start with a zeroed one; add; sort once; immutable from then on. */
typedef struct tn_added_tokens {
  tn_added_token *tokens;
  size_t count, capacity;
  tn_prefix_index raw, normal; /* values are indices into tokens */
} tn_added_tokens;

tn_status tn_added_tokens_add(tn_added_tokens *added, const tn_added_token *token, tn_error *error);
void tn_added_tokens_sort(tn_added_tokens *added);
void tn_added_tokens_finish(tn_added_tokens *added);

/* Text to look through. `trust` is one byte per byte, or NULL: all of it is as `trusted` says. */
typedef struct tn_added_search {
  const tn_added_tokens *added;
  bool normalized; /* look for those that are looked for after normalization; else for the others */
  tn_text text;
  const char *trust;
  bool trusted;
} tn_added_search;

/* The next token at or behind `from`: at [*start, *end), white space it takes included. Leftmost first, then longest.
 * NULL: there is none. */
const tn_added_token *tn_added_tokens_find(const tn_added_search *search, size_t from, size_t *start, size_t *end);

#endif
