/* Byte pair encoding: a word becomes symbols (bytes or characters), and the best pair of neighbours is merged until
 * there is none left: lowest rank first, then leftmost. Ranks come from a list of merges, or (SentencePiece) from the
 * score of the merged token. A heap finds the best pair, so a word of n symbols costs n log n. */
#ifndef TENON_TEXT_BPE_H
#define TENON_TEXT_BPE_H

#include "tenon/status.h"
#include "text/ids.h"
#include "text/token_table.h"

/* What is done with a character that has no token of its own. */
typedef enum tn_bpe_unknown {
  TN_BPE_UNKNOWN_DROP, /* nothing comes out, and its neighbours become neighbours */
  TN_BPE_UNKNOWN_UNK,  /* the unknown token */
  TN_BPE_UNKNOWN_KEEP  /* it stays between its neighbours, may be part of a merge, and in the end becomes its bytes */
} tn_bpe_unknown;

typedef struct tn_bpe_pair {
  uint64_t key; /* (left << 32 | right) + 1; 0: free slot */
  uint32_t rank;
  int32_t merged;
} tn_bpe_pair;

/* A special token that merges lead to, and what it was merged from. */
typedef struct tn_bpe_special {
  int32_t id, left, right;
} tn_bpe_special;

/* Set the fields of the first group, then tn_bpe_prepare, tn_bpe_add_merge for each merge; immutable from then on. */
typedef struct tn_bpe {
  tn_token_table *table; /* the texts of the tokens, as the vocabulary writes them. Symbols that are no tokens, and only
                            exist between merges, are added behind `vocab_count` */
  size_t vocab_count;
  const uint8_t *special;      /* [vocab_count]: 1 for tokens that text never becomes */
  const uint32_t *score_ranks; /* [vocab_count] or NULL: merge what is a token, by this rank, instead of by a list */
  bool byte_level;      /* symbols are bytes, which the vocabulary writes in the byte alphabet; else characters */
  bool byte_fallback;   /* characters without token become <0xXX> tokens where there are all of them */
  bool ignore_merges;   /* a word that is a token is that token */
  bool fuse_unknown;    /* neighbouring unknown tokens become one */
  bool last_merge_wins; /* of equal pairs in the list; else the first */
  tn_bpe_unknown unknown;
  int32_t unknown_id;
  tn_text word_prefix, word_suffix; /* put in front of all symbols but the first, and behind the last (CLIP: "</w>") */

  size_t longest;        /* bytes of the longest token */
  int32_t byte_ids[256]; /* byte_level: the symbol of a byte; else the <0xXX> token; -1: none */
  bool splits_at_marker; /* a text may be cut in front of U+2581 where no token holds the byte before it together with
                            it */
  uint8_t joins_marker[32]; /* bit per byte that some token has in front of U+2581 */
  tn_bpe_pair *pairs;
  size_t pair_slots, pair_count, merge_count;
  tn_bpe_special *specials; /* such a token may be part of a larger one; where it is left over it comes apart again */
  size_t special_count, special_capacity;
  struct tn_bpe_batch *batch; /* merges that were added but not looked up yet */
} tn_bpe;

/* `merges`: about how many will be added. */
tn_status tn_bpe_prepare(tn_bpe *bpe, size_t merges, tn_error *error);
/* The next merge of the list. TN_E_FORMAT when a part (or the whole) is no token and `unknown` isn't KEEP; it may
 * come some merges later. */
tn_status tn_bpe_add_merge(tn_bpe *bpe, tn_text left, tn_text right, tn_error *error);
/* After the last merge. */
tn_status tn_bpe_finish_merges(tn_bpe *bpe, tn_error *error);
void tn_bpe_finish(tn_bpe *bpe);

/* One thread's working memory; start with a zeroed one. */
typedef struct tn_bpe_symbol {
  uint32_t start, bytes; /* in the word; bytes 0: merged away */
  int32_t previous, next;
  int32_t id; /* -1: no symbol of the table */
} tn_bpe_symbol;

typedef struct tn_bpe_work {
  tn_bpe_symbol *symbols;
  size_t symbol_count, symbol_capacity;
  struct tn_bpe_candidate *heap;
  size_t heap_count, heap_capacity;
  struct tn_word_cache *cache; /* of recent short words; NULL: none is kept */
  tn_buf key;
} tn_bpe_work;
void tn_bpe_work_finish(tn_bpe_work *work);
/* Remember recent words from now on (worth it for long texts). */
void tn_bpe_work_use_cache(tn_bpe_work *work);

/* The word has at least so many tokens; 0 where the vocabulary doesn't tell. Far quicker than encoding a long one. */
size_t tn_bpe_least(const tn_bpe *bpe, tn_text word);

/* Appends the tokens of one word (at most 2^31 bytes) to `ids`. False when memory is out. */
bool tn_bpe_encode(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, tn_ids *ids);

#endif
