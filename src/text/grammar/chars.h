/* Sets of Unicode characters, and the expressions for their bytes. */
#ifndef TENON_TEXT_GRAMMAR_CHARS_H
#define TENON_TEXT_GRAMMAR_CHARS_H

#include "text/grammar/expr.h"

#define TN_CHAR_LAST 0x10FFFFu

typedef struct tn_char_range {
  uint32_t first, last;
} tn_char_range;

/* A set under construction; ranges in any order. Zeroed = empty. */
typedef struct tn_chars {
  tn_char_range *ranges;
  size_t count, capacity;
} tn_chars;

/* How characters are written: as UTF-8, or as the inside of a JSON string. There every character has one spelling,
 * json.dumps' with ensure_ascii off, except that the hexadecimal digits of an escape may be of either case. */
typedef enum tn_spelling { TN_SPELL_UTF8, TN_SPELL_JSON } tn_spelling;

void tn_chars_finish(tn_chars *set);
bool tn_chars_add(tn_chars *set, uint32_t first, uint32_t last);
bool tn_chars_add_all(tn_chars *set, const tn_chars *more);
/* Sorts and joins the ranges. */
void tn_chars_settle(tn_chars *set);
/* Everything that isn't in the set (which is settled first). */
bool tn_chars_negate(tn_chars *set);
/* One character of the set (settled first); surrogates are never part of it. */
tn_expr tn_chars_expr(tn_exprs *x, tn_chars *set, tn_spelling spelling);
/* Any character at all, and one character. */
tn_expr tn_any_char(tn_exprs *x, tn_spelling spelling);
/* Any text in which `literal` (which may be empty: then any text at all) doesn't occur. */
tn_expr tn_text_without(tn_exprs *x, const char *literal, size_t size);
tn_expr tn_one_char(tn_exprs *x, uint32_t c, tn_spelling spelling);
/* A text's expression; the text is UTF-8 (bytes that aren't are TN_E_INVALID in x->status). */
tn_expr tn_spelled_text(tn_exprs *x, const char *text, size_t size, tn_spelling spelling);

/* Decodes one character of the UTF-8 at *at (< end) and moves on; UINT32_MAX when it isn't UTF-8. */
uint32_t tn_next_char(const char **at, const char *end);

#endif
