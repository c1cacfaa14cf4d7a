/* Regular expressions of pre-tokenizers.
 *
 * A pattern comes from a file, so it is parsed here and only what is known goes on. Every character class in it (and
 * every literal) is a set of characters under one pinned Unicode version; characters that no class tells apart form one
 * *kind*. There are never more than 256 kinds, so a text becomes a string of one byte per character, the pattern
 * becomes one over such bytes, and PCRE2 compiles that: no Unicode, no UTF-8 checks, no quadratic re-checking,
 * and the same pieces whatever version of PCRE2 a machine has.
 *
 * Syntax: Oniguruma's default (Ruby), as tokenizer.json uses: groups, alternatives, quantifiers (greedy, lazy,
 * possessive), classes with nesting and &&, \p{..}, \s \d \w \h \b, look-around, (?i), anchors. Back references and
 * recursion are refused. As there, `X{n,m}+` means (X{n,m})+ and ^ $ are about lines. */
#ifndef TENON_TEXT_PATTERN_H
#define TENON_TEXT_PATTERN_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"

/* Immutable once compiled; shared by threads. */
typedef struct tn_pattern tn_pattern;

/* Compiles `source`. TN_E_FORMAT: wrong syntax; TN_E_UNSUPPORTED: a construct that isn't; TN_E_LIMIT: too large. The
 * message quotes the place. */
tn_status tn_pattern_compile(tn_pattern **out, tn_text source, tn_error *error);
void tn_pattern_free(tn_pattern *pattern);

/* Appends one byte per character of `text` to `kinds`: its kind. An invalid byte counts as one character (U+FFFD).
 * False when memory is out. */
bool tn_pattern_kinds(const tn_pattern *pattern, tn_text text, tn_buf *kinds);

/* What one thread needs to run patterns on one text: start with a zeroed one, set `bytes`. */
typedef struct tn_pattern_run {
  size_t bytes;      /* of the whole text: how much time it may take */
  uint64_t deadline; /* of tn_clock_ns; 0: not looked at the clock yet */
  unsigned calls;
  struct pcre2_real_match_data_8 *data;
  struct pcre2_real_match_context_8 *context;
  struct pcre2_real_jit_stack_8 *stack;
} tn_pattern_run;
void tn_pattern_run_finish(tn_pattern_run *run);

/* The first match in kinds[0, count) that starts at `from` or later. *found tells whether there is one, at
 * [*start, *end). TN_E_LIMIT when the pattern needs too many steps there, or the
 * run too much time in all (a pattern may be quadratic in ways that no count of steps sees); TN_E_MEMORY. */
tn_status tn_pattern_find(const tn_pattern *pattern, tn_pattern_run *run, const char *kinds, size_t count, size_t from,
                          bool *found, size_t *start, size_t *end, tn_error *error);

#endif
