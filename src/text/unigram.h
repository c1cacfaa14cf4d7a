/* Unigram language model (SentencePiece): of all ways to cut a text into tokens, the one with the highest sum of scores
 * (Kudo 2018, "Subword Regularization", section 3.2), found by dynamic programming from left to right. */
#ifndef TENON_TEXT_UNIGRAM_H
#define TENON_TEXT_UNIGRAM_H

#include "text/ids.h"
#include "text/prefix_index.h"
#include "text/token_table.h"

typedef struct tn_unigram {
  tn_prefix_index tokens; /* those that text may become */
  const double *scores;   /* [vocab] log probabilities */
  double unknown_score;   /* of a character without token: the lowest score of all, less 10 */
  int32_t unknown_id;     /* -1: there is none, such characters are dropped */
  int32_t byte_ids[256];  /* <0xXX> tokens, -1: none */
  bool byte_fallback;     /* unknown characters become these where there are all of them */
} tn_unigram;

typedef struct tn_unigram_node {
  double score;   /* of the best way to get here */
  uint32_t start; /* where its last token begins */
  int32_t id;     /* that token, or a negative mark */
} tn_unigram_node;

/* One thread's working memory; start with a zeroed one, free `nodes`. */
typedef struct tn_unigram_work {
  tn_unigram_node *nodes;
  size_t count, capacity;
} tn_unigram_work;

/* Looks the <0xXX> tokens up. */
void tn_unigram_find_bytes(tn_unigram *unigram, const tn_token_table *texts);

/* Appends the tokens of one word. Neighbouring unknown characters are one unknown token. False when memory is out. */
bool tn_unigram_encode(const tn_unigram *unigram, tn_unigram_work *work, tn_text word, tn_ids *ids);

#endif
