/* Pattern source -> a list of parts: pieces of syntax that PCRE2 takes as they are, and sets of characters. */
#ifndef TENON_TEXT_PATTERN_PARSE_H
#define TENON_TEXT_PATTERN_PARSE_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"
#include "text/char_set.h"

#define TN_PATTERN_MAX_SETS 256
#define TN_PATTERN_MAX_BYTES 16384 /* of source */
#define TN_PATTERN_MAX_DEPTH 60    /* groups and classes */

/* `syntax` is text for PCRE2, or "" and the part is one character out of sets[set]. */
typedef struct tn_pattern_part {
  const char *syntax; /* in the arena, or static */
  unsigned set;
} tn_pattern_part;

typedef struct tn_pattern_parts {
  tn_pattern_part *parts;
  size_t count, capacity;
  tn_char_set sets[TN_PATTERN_MAX_SETS]; /* tidy, all different */
  size_t set_count;
  tn_arena arena;
} tn_pattern_parts;

/* Fills `*out`; call tn_pattern_parts_finish in any case. Errors as tn_pattern_compile. */
tn_status tn_pattern_parse(tn_pattern_parts *out, tn_text source, tn_error *error);
void tn_pattern_parts_finish(tn_pattern_parts *parts);

#endif
