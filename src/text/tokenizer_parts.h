/* The inside of a tokenizer, for the files that build and run it. */
#ifndef TENON_TEXT_TOKENIZER_PARTS_H
#define TENON_TEXT_TOKENIZER_PARTS_H

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decode.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

#define TN_SPACE_MARK "\xe2\x96\x81" /* U+2581, SentencePiece's blank */

typedef enum tn_model_kind { TN_MODEL_BPE, TN_MODEL_UNIGRAM, TN_MODEL_WORDPIECE } tn_model_kind;

/* What is known of a token beside its text. */
#define TN_FLAG_PLAIN 1u      /* its text is its text: no step of decoding applies */
#define TN_FLAG_NORMALIZED 2u /* an added token whose text normalization changes: it decodes to what that gives */
#define TN_FLAG_APART 4u      /* an added token that the model doesn't know */

struct tn_tokenizer {
  tn_token_table texts; /* ids at and above vocab_count are symbols of the model, no tokens */
  size_t vocab_count;
  uint8_t *special; /* [vocab_count] 0 or 1 */
  uint8_t *flags;   /* [vocab_count] */
  tn_added_tokens added;
  tn_normalizer normalizer;
  tn_pretokenizer pretokenizer;
  tn_model_kind model;
  tn_bpe bpe;
  tn_unigram unigram;
  tn_wordpiece wordpiece;
  uint32_t *score_ranks; /* owned; see tn_bpe */
  double *scores;        /* owned; see tn_unigram */
  tn_ids before, after;  /* put around a text */
  tn_decode_steps decode;
  bool fused;             /* while decoders are built: a Fuse was seen */
  bool drops_first_blank; /* decoding a whole text takes off the blank that encoding put in front */
  int32_t roles[TN_ROLE_COUNT];
  tn_ids ends;
  uint64_t fingerprint;
  tn_arena arena; /* texts that the parts point to */
};

/* ---- for the builders ---- */

/* An empty tokenizer, all roles unset; NULL when memory is out. */
tn_tokenizer *tn_tokenizer_new(void);

/* Allocates `special` and `flags` for the ids that are there now. False when memory is out. */
bool tn_tokenizer_fix_vocabulary(tn_tokenizer *tokenizer);

/* The last step: sorts what must be sorted, finds the ids that end a generation by name and role, the fingerprint. */
tn_status tn_tokenizer_complete(tn_tokenizer *tokenizer, tn_error *error);

/* Whether a token called this ends a generation whatever its file says of it. */
bool tn_tokenizer_is_end_name(tn_text text);

/* Adds an id that ends a generation; one without token is ignored. False when memory is out. */
bool tn_tokenizer_add_end(tn_tokenizer *tokenizer, int64_t id);

/* Add a zeroed step; NULL when memory is out. */
tn_normal_step *tn_add_normal_step(tn_normalizer *normalizer, tn_normal_kind kind);
tn_cut *tn_add_cut(tn_pretokenizer *pretokenizer, tn_cut_kind kind);
tn_decode_step *tn_add_decode_step(tn_decode_steps *steps, tn_decode_kind kind);
/* Adds a cut by a pattern. */
tn_status tn_add_pattern_cut(tn_pretokenizer *pretokenizer, tn_text pattern, tn_split_behavior behavior, bool invert,
                             tn_error *error);
/* A copy of a text that lives as long as the arena; `*failed` is set when memory is out. */
tn_text tn_keep_text(tn_arena *arena, tn_text text, bool *failed);

#endif
