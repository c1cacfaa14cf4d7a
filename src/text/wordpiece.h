/* WordPiece (BERT): from the left, always the longest token that fits; a word that can't be covered is one unknown
 * token. With an empty set of continuing pieces it is a plain list of words. */
#ifndef TENON_TEXT_WORDPIECE_H
#define TENON_TEXT_WORDPIECE_H

#include "text/ids.h"
#include "text/prefix_index.h"

typedef struct tn_wordpiece {
  tn_prefix_index first;      /* pieces that begin a word */
  tn_prefix_index continuing; /* pieces inside a word, without their mark ("##") */
  int32_t unknown_id;         /* -1: nothing comes out */
  size_t longest_word;        /* characters; longer words are unknown */
} tn_wordpiece;

/* Appends the tokens of one word. False when memory is out. */
bool tn_wordpiece_encode(const tn_wordpiece *wordpiece, tn_text word, tn_ids *ids);

#endif
