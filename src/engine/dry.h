/* DRY, "don't repeat yourself": a penalty for tokens that would go on with what the sequence has already said, by
 * p-e-w (text-generation-webui, pull request 5677, 2024), with the parameters of that and of llama.cpp.
 *
 * Where the last tokens of the sequence stood before, n of them in a row, the token that followed there loses
 *   multiplier * base^(n - allowed_length)        if n >= allowed_length; for the longest n; n at most 50, the loss at
 * most 1e9 Looked at are the last `last_n` tokens. A sequence breaker is a text at which repeating is no fault (the end
 * of a line, a quotation mark): no match reaches back over a token in which one ends, and no token that holds one is
 * penalised. */
#ifndef TENON_ENGINE_DRY_H
#define TENON_ENGINE_DRY_H

#include <stddef.h>
#include <stdint.h>
#include "base/memory.h"
#include "engine/answer.h"

#define TN_DRY_LONGEST 50u       /* tokens of a match that count */
#define TN_MAX_BREAKERS 64u      /* sequence breakers of a request */
#define TN_MAX_BREAKER_BYTES 64u /* of one */

typedef struct tn_breakers tn_breakers;

/* Copies `texts`; NULL: the usual ones, "\n", ":", "\"" and "*", if there is a tokenizer. *breakers is NULL where there
 * are none. TN_E_INVALID: an empty text, or texts given without a tokenizer; TN_E_LIMIT: too many or too long ones. */
tn_status tn_breakers_create(const tn_vocabulary *vocabulary, const char *const *texts, size_t count,
                             tn_breakers **breakers, tn_error *error);
void tn_breakers_destroy(tn_breakers *breakers);

typedef struct tn_dry {
  float multiplier, base;
  uint32_t allowed_length, last_n;
  const tn_breakers *breakers; /* NULL: none */
} tn_dry;

/* Lowers `values` [vocabulary] as said above for the token behind tokens[0 .. count - 1]. `lengths` [vocabulary] is 0
 * before and after; `text` is work space. False when memory for the text is out. */
bool tn_dry_apply(const tn_dry *dry, const int32_t *tokens, uint32_t count, float *values, uint32_t *lengths,
                  tn_buf *text);

#endif
