/* What the fuzz targets of the grammar folder do with a text: make a grammar of it, and if it can be made, walk along
 * it at random (the same walk for the same text). From every state something must be able to follow, or the text to
 * end; and the mask must say exactly what can be taken. */
#ifndef TENON_FUZZ_WALK_GRAMMAR_H
#define TENON_FUZZ_WALK_GRAMMAR_H

#include <stdlib.h>
#include <string.h>
#include "text/grammar/grammar.h"

#define WALK_STEPS 40
#define WALK_END_TOKEN 256u

typedef tn_status (*walk_constructor)(tn_grammar **grammar, const char *text, size_t size, tn_error *error);

/* The 256 bytes as tokens, and a token that ends. */
static tn_grammar_vocab *walk_vocab(void) {
  static char bytes[256];
  tn_grammar_token tokens[257];
  uint32_t end = WALK_END_TOKEN;
  tn_grammar_vocab *vocab;
  for (unsigned i = 0; i < 256; i++) {
    bytes[i] = (char)i;
    tokens[i] = (tn_grammar_token){&bytes[i], 1, false};
  }
  tokens[WALK_END_TOKEN] = (tn_grammar_token){"</s>", 4, true};
  return tn_grammar_vocab_create(&vocab, tokens, 257, &end, 1, NULL) == TN_OK ? vocab : NULL;
}

/* One step; false when the text ended or the grammar gave up. */
static bool walk_step(tn_grammar_matcher *matcher, tn_grammar_vocab *vocab, uint32_t random) {
  uint32_t mask[9], options[256], count = 0;
  tn_status status = tn_grammar_mask(matcher, vocab, mask, NULL);
  if (status != TN_OK) return false;
  bool can_end = tn_grammar_can_end(matcher);
  if (can_end != (mask[8] & 1)) abort();
  for (uint32_t token = 0; token < 256; token++)
    if (mask[token >> 5] >> (token & 31) & 1) options[count++] = token;
  if (!count && !can_end) abort();
  if (!count) return false;
  uint32_t refused = random % 256;
  bool allowed = mask[refused >> 5] >> (refused & 31) & 1;
  status = tn_grammar_accept_token(matcher, vocab, refused, NULL);
  if (status == TN_OK) tn_grammar_rollback(matcher, 1);
  if (status != TN_E_LIMIT && (status == TN_OK) != allowed) abort();
  status = tn_grammar_accept_token(matcher, vocab, options[random / 256 % count], NULL);
  if (status != TN_OK && status != TN_E_LIMIT) abort();
  return status == TN_OK;
}

static int walk_grammar(walk_constructor make, const uint8_t *data, size_t size) {
  tn_grammar *grammar;
  tn_grammar_matcher *matcher;
  tn_error error = {0};
  uint64_t seed = size;
  char *text = malloc(size ? size : 1); /* of exactly this size, so that a read past the end is seen */
  if (!text) return 0;
  if (size) memcpy(text, data, size);
  tn_status status = make(&grammar, text, size, &error);
  free(text);
  if (status != TN_OK) {
    if (grammar || error.status != status || !error.message[0]) abort();
    return 0;
  }
  tn_grammar_vocab *vocab = walk_vocab();
  for (size_t i = 0; i < size; i++) seed = seed * 31 + data[i];
  if (vocab && tn_grammar_matcher_create(&matcher, grammar, NULL) == TN_OK) {
    for (int i = 0; i < WALK_STEPS; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      if (!walk_step(matcher, vocab, (uint32_t)(seed >> 33))) break;
    }
    tn_grammar_matcher_destroy(matcher);
  }
  tn_grammar_release(grammar);
  tn_grammar_vocab_release(vocab);
  return 0;
}

#endif
