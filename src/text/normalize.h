/* What is done to a text before it is cut into words: a list of steps. Each character keeps, through all of them, the
 * mark whether it came from a trusted span. */
#ifndef TENON_TEXT_NORMALIZE_H
#define TENON_TEXT_NORMALIZE_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"
#include "text/charsmap.h"
#include "text/normal_form.h"
#include "text/pattern.h"

/* A text and, per byte, whether it may be trusted. While all bytes are alike `trust` stays empty and `trusted` tells.
 */
typedef struct tn_marked_text {
  tn_buf text;
  tn_buf trust; /* one byte per byte of text, 0 or 1, if `mixed` */
  bool mixed, trusted;
  bool lost_front; /* normalization took off what it began with */
} tn_marked_text;

void tn_marked_text_finish(tn_marked_text *marked);

typedef enum tn_normal_kind {
  TN_NORMAL_FORM, /* form */
  TN_NORMAL_BASE, /* each character becomes the first of its canonical decomposition */
  TN_NORMAL_LOWERCASE,
  TN_NORMAL_STRIP,      /* white space at the left, the right */
  TN_NORMAL_REMOVE,     /* characters of `categories`, as `rules` has them */
  TN_NORMAL_REPLACE,    /* from (or pattern) by to */
  TN_NORMAL_PREPEND,    /* to, unless the text is empty */
  TN_NORMAL_CLEAN,      /* BERT: controls go, white space becomes a blank */
  TN_NORMAL_IDEOGRAPHS, /* BERT: blanks around each */
  TN_NORMAL_NMT,        /* SentencePiece's nmt rules: controls go, odd white space becomes a blank */
  TN_NORMAL_CHARSMAP,   /* map; `by_cluster` as the tokenizers library does it, else longest part first */
  TN_NORMAL_WORDS       /* SentencePiece unigram: `to` in front of words, runs of blanks become one if `merge` */
} tn_normal_kind;

/* Whose idea of the categories counts: ours, or that of the steps a vocabulary was made with (reference_table.h). */
typedef enum tn_category_rules { TN_RULES_OWN, TN_RULES_BERT, TN_RULES_ACCENTS } tn_category_rules;

typedef struct tn_normal_step {
  tn_normal_kind kind;
  tn_normal_form form;
  bool left, right, by_cluster, merge, prefix;
  uint32_t categories;
  tn_category_rules rules;
  tn_text from, to; /* in the normalizer's arena */
  tn_pattern *pattern;
  tn_charsmap *map;
} tn_normal_step;

typedef struct tn_normalizer {
  tn_normal_step *steps;
  size_t count, capacity;
  tn_arena arena;
} tn_normalizer;

void tn_normalizer_finish(tn_normalizer *normalizer);

/* A text may grow by this much through all steps: a list of replacements could double it again and again. */
#define TN_NORMAL_MAX_GROWTH 64
#define TN_NORMAL_MAX_EXTRA ((size_t)1 << 20) /* bytes, on top */

/* Runs all steps on `marked`; `spare` is working memory. TN_E_LIMIT: grows too much, or a pattern's limit; TN_E_MEMORY.
 */
tn_status tn_normalize(const tn_normalizer *normalizer, tn_pattern_run *run, tn_marked_text *marked,
                       tn_marked_text *spare, tn_error *error);

#endif
