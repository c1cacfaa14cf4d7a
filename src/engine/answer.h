/* From the tokens of an answer to the text that is shown: half characters and possible stop strings are held back, end
 * tokens and stop strings are never shown. A thin layer over the text folder's streaming detokeniser and stop
 * matcher. Nothing is allocated after tn_answer_init. */
#ifndef TENON_ENGINE_ANSWER_H
#define TENON_ENGINE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

struct tn_tokenizer;

/* What the engine knows of the model's tokens. */
typedef struct tn_vocabulary {
  uint32_t size;
  const struct tn_tokenizer *tokenizer; /* NULL: answers have no text */
  const int32_t *end_tokens;            /* those that end an answer */
  size_t end_count;
  size_t longest_piece; /* bytes of text that one token can release */
} tn_vocabulary;

bool tn_vocabulary_ends(const tn_vocabulary *vocabulary, int32_t token);

typedef struct tn_answer tn_answer;

/* TN_E_INVALID: stop strings without a tokenizer, or an empty one. The strings are copied. */
tn_status tn_answer_create(const tn_vocabulary *vocabulary, const char *const *stop, size_t stop_count,
                           tn_answer **answer, tn_error *error);
void tn_answer_destroy(tn_answer *answer);

/* The next token. *text: what it released (zero-terminated, until the next call), not including a stop string. Answers
 * true when a stop string is complete: the answer ends there. */
bool tn_answer_put(tn_answer *answer, int32_t token, const char **text, size_t *bytes);
/* What is still held back when the answer ends without a stop string. */
void tn_answer_flush(tn_answer *answer, const char **text, size_t *bytes);

#endif
