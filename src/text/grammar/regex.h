/* ECMA-262 style regular expressions as expressions over bytes.
 *
 * Supported: literals and escapes, `.`, classes with ranges, \d \w \s and their complements, \p{...} of general
 * categories, groups (capturing, named, non-capturing), alternation, quantifiers (lazy ones mean the same language),
 * `^` and `$`, look-ahead. Refused by name: back references, look-behind, word boundaries, assertions inside a
 * repetition. */
#ifndef TENON_TEXT_GRAMMAR_REGEX_H
#define TENON_TEXT_GRAMMAR_REGEX_H

#include "text/grammar/chars.h"

/* The texts, spelled as `spelling` says, that match `pattern`: as a whole, or when `search` anywhere inside (JSON
 * schema's reading of `pattern`). */
tn_status tn_regex_expr(tn_exprs *x, const char *pattern, size_t size, bool search, tn_spelling spelling,
                        tn_expr *result, tn_error *error);

#endif
