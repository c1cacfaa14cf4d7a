/* The pre-tokenizers that model files name: the patterns of each, and what else goes with the name. */
#ifndef TENON_TEXT_PRE_NAMES_H
#define TENON_TEXT_PRE_NAMES_H

#include "base/text.h"

#define TN_PRE_PATTERNS 6

typedef struct tn_pre_rules {
  const char *patterns[TN_PRE_PATTERNS]; /* each cuts the pieces of the one before; NULL ends the list. "digits" and
                                            "aya-digits" are no patterns but cuts of their own, see vocab_tokenizer.c */
  bool ignore_merges;                    /* a word that is a token is that token */
  bool add_bos;                          /* a text begins with BOS unless the file says otherwise */
  bool add_separator;                    /* and ends with the separator */
  bool spaces_as_mark;                   /* no byte alphabet: blanks become U+2581, other bytes without token <0xXX> */
} tn_pre_rules;

/* The rules of `name` ("" means "default"), or NULL if it is unknown. */
const tn_pre_rules *tn_pre_rules_named(tn_text name);
/* A name of the i-th set of rules; empty behind the last. */
tn_text tn_pre_rules_name(size_t i);

#endif
