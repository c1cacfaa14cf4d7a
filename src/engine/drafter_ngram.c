/* Drafts from the sequence itself: the longest end of it that stood there before, the latest place of equals, and what
 * followed. Texts that repeat themselves (code, JSON, answers that quote their prompt) are full of such places. It
 * keeps nothing, so there is nothing to forget; a look through the sequence costs microseconds. */
#include <stdlib.h>
#include "engine/drafter.h"

#define LONGEST 8u  /* tokens compared at most */
#define SHORTEST 2u /* fewer in common say nothing */

typedef struct ngram_drafter {
  tn_drafter drafter;
  bool always;
} ngram_drafter;

/* Tokens in common that end at `at` and at the end of the sequence. */
static uint32_t common_end(const int32_t *tokens, uint32_t count, uint32_t at) {
  uint32_t length = 0;
  while (length < LONGEST && length < at && tokens[at - 1 - length] == tokens[count - 1 - length]) length++;
  return length;
}

/* Where the latest longest match ends, below `count`; 0 when there is none. */
static uint32_t find(const int32_t *tokens, uint32_t count, uint32_t *length) {
  uint32_t best = 0;
  *length = SHORTEST - 1;
  for (uint32_t at = count - 1; at >= SHORTEST && *length < LONGEST; at--) {
    if (tokens[at - 1] != tokens[count - 1]) continue;
    uint32_t common = common_end(tokens, count, at);
    if (common <= *length) continue;
    *length = common;
    best = at;
  }
  return best;
}

/* 2, 3 to 4, 5 to 7, 8 tokens in common */
static uint32_t class_of(uint32_t length) {
  return length >= LONGEST ? 3 : length >= 5 ? 2 : length >= 3 ? 1 : 0;
}

static tn_status draft(tn_drafter *drafter, tn_draft *drafts, uint32_t count, tn_error *error) {
  (void)error;
  for (uint32_t i = 0; i < count; i++) {
    tn_draft *one = drafts + i;
    uint32_t length = 0, from = find(one->tokens, one->token_count, &length);
    if (!from && ((ngram_drafter *)drafter)->always) from = one->token_count - 1;
    one->confidence = class_of(length);
    one->count = from ? one->wanted : 0;
    /* what is drafted may be read again: the sequence goes on in circles */
    for (uint32_t d = 0; d < one->count; d++) one->tokens[one->token_count + d] = one->tokens[from + d];
  }
  return TN_OK;
}

static void forget(tn_drafter *drafter, uint32_t sequence) {
  (void)drafter;
  (void)sequence;
}

static void destroy(tn_drafter *drafter) {
  free(drafter);
}

tn_drafter *tn_drafter_ngram_create(bool always) {
  ngram_drafter *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->drafter = (tn_drafter){.name = "ngram", .is_free = true, .draft = draft, .forget = forget, .destroy = destroy};
  made->always = always;
  return &made->drafter;
}
