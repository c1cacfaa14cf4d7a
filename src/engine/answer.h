/* From the tokens of an answer to the text that is shown: half characters and possible stop strings are held back, end
 * tokens, other special tokens and stop strings are never shown. A thin layer over the text folder's streaming
 * detokeniser and stop matcher. Nothing is allocated after tn_answer_create. */
#ifndef TENON_ENGINE_ANSWER_H
#define TENON_ENGINE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

struct tn_tokenizer;

/* What the engine knows of the model's tokens. */
typedef struct tn_vocabulary {
  uint32_t size;                        /* ids that the model gives: rows of its logits */
  const struct tn_tokenizer *tokenizer; /* NULL: answers have no text */
  const int32_t *end_tokens;            /* those that end an answer; they may lie beyond `size` */
  size_t end_count;
  size_t longest_piece; /* bytes of text that one token can release */
} tn_vocabulary;

/* `tokenizer` (may be NULL) must outlive the vocabulary. */
void tn_vocabulary_init(tn_vocabulary *vocabulary, uint32_t size, const struct tn_tokenizer *tokenizer);
bool tn_vocabulary_ends(const tn_vocabulary *vocabulary, int32_t token);

typedef struct tn_answer tn_answer;

/* TN_E_INVALID: stop strings without a tokenizer, or an empty one; TN_E_LIMIT: too many or too long ones. The strings
 * are copied. */
tn_status tn_answer_create(const tn_vocabulary *vocabulary, const char *const *stop, size_t stop_count,
                           tn_answer **answer, tn_error *error);
void tn_answer_destroy(tn_answer *answer);

/* The next token. *text: what it released (zero-terminated, until the next call), not including a stop string. Answers
 * true when a stop string is complete: the answer ends there. */
bool tn_answer_put(tn_answer *answer, int32_t token, const char **text, size_t *bytes);
/* What is still held back when the answer ends without a stop string. True when a half character that came to nothing
 * completed one even now. */
bool tn_answer_flush(tn_answer *answer, const char **text, size_t *bytes);
/* The index of the stop string that is complete; -1: none is. */
int tn_answer_stopped_by(const tn_answer *answer);

#endif
