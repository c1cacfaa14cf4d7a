/* Cuts a text into words, by a list of steps; each step cuts the words of the step before. */
#ifndef TENON_TEXT_PRETOKENIZE_H
#define TENON_TEXT_PRETOKENIZE_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"
#include "text/pattern.h"

/* A word: bytes [start, end) of the text. */
typedef struct tn_word {
  uint32_t start, end;
} tn_word;

typedef struct tn_words {
  tn_word *words;
  size_t count, capacity;
} tn_words;

/* What becomes of what a pattern matches ("the-final--countdown", '-'). */
typedef enum tn_split_behavior {
  TN_SPLIT_REMOVED,       /* the final countdown */
  TN_SPLIT_ISOLATED,      /* the - final - - countdown */
  TN_SPLIT_WITH_PREVIOUS, /* the- final- - countdown */
  TN_SPLIT_WITH_NEXT,     /* the -final - -countdown */
  TN_SPLIT_CONTIGUOUS     /* the - final -- countdown */
} tn_split_behavior;

typedef enum tn_cut_kind {
  TN_CUT_PATTERN,      /* pattern, behavior; `invert`: what it doesn't match takes the place of what it does */
  TN_CUT_SPACE_FIRST,  /* a blank in front of each word that has none (byte level's add_prefix_space) */
  TN_CUT_METASPACE,    /* blanks become `mark`; one in front if `prefix` (only at the start of the whole text if
                          `first_only`);    a cut in front of each mark if `split` */
  TN_CUT_LENGTH,       /* every `length` characters */
  TN_CUT_SCRIPTS,      /* where the script changes; Hiragana and Katakana count as Han */
  TN_CUT_DIGIT_TRIPLES /* runs of digits, in groups of three from the right. `boundary`: only if no word character
                          follows; `between`: what is around the run stays with its first and last group, unless that is
                          whole */
} tn_cut_kind;

typedef struct tn_cut {
  tn_cut_kind kind;
  tn_pattern *pattern;
  tn_split_behavior behavior;
  bool invert, prefix, first_only, split, boundary, between;
  uint32_t categories; /* what a digit is */
  tn_text mark;        /* in the arena */
  size_t length;
} tn_cut;

typedef struct tn_pretokenizer {
  tn_cut *cuts;
  size_t count, capacity;
  tn_arena arena;
} tn_pretokenizer;

void tn_pretokenizer_finish(tn_pretokenizer *pretokenizer);

/* One thread's working memory; start with a zeroed one. */
typedef struct tn_pretokenizer_work {
  tn_words words, next;
  tn_buf text; /* the text the words lie in */
  tn_buf kinds, spare;
} tn_pretokenizer_work;
void tn_pretokenizer_work_finish(tn_pretokenizer_work *work);

/* Cuts `text` (less than 2^31 bytes); `at_start`: it is the start of the whole input. The words are in work->words and
 * lie in *cut_text, which is `text` itself unless a step had to change it. */
tn_status tn_pretokenize(const tn_pretokenizer *pretokenizer, tn_pretokenizer_work *work, tn_pattern_run *run,
                         tn_text text, bool at_start, tn_text *cut_text, tn_error *error);

#endif
