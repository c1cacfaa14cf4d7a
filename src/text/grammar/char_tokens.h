/* The tokens made of given characters only, and where the trie leaves them.
 *
 * Most of a mask inside a string is this set. It is made once for each set of characters (that of JSON strings when the
 * vocabulary is made), and used by every state that goes on with such characters. */
#ifndef TENON_TEXT_GRAMMAR_CHAR_TOKENS_H
#define TENON_TEXT_GRAMMAR_CHAR_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tn_grammar_vocab;

typedef struct tn_char_class {
  uint64_t ascii[2]; /* characters under 128 */
  bool wide;         /* all characters above as well */
} tn_char_class;

/* A node of the trie whose byte is no part of such a character while the path to it is `chars` of them. */
typedef struct tn_leaving {
  uint32_t node, chars;
} tn_leaving;

typedef struct tn_char_tokens {
  tn_char_class class_;
  uint32_t *bits; /* the set, as a mask; a token that ends inside a character is in it when that can be completed */
  uint32_t *by_length; /* the same ids, those of most characters first */
  uint32_t *longer;    /* longer[n]: how many have more than n characters, n <= most */
  uint32_t most;       /* characters of the longest */
  tn_leaving *leaving;
  size_t leaving_count, leaving_capacity;
} tn_char_tokens;

/* False when memory is out (finish it in any case). */
bool tn_char_tokens_make(tn_char_tokens *set, const struct tn_grammar_vocab *vocab, tn_char_class class_);
void tn_char_tokens_finish(tn_char_tokens *set);
/* Bytes held. */
size_t tn_char_tokens_bytes(const tn_char_tokens *set, const struct tn_grammar_vocab *vocab);
/* Writes the tokens of at most `chars` characters to `bits`. */
void tn_char_tokens_copy(const tn_char_tokens *set, const struct tn_grammar_vocab *vocab, uint32_t chars,
                         uint32_t *bits);

static inline bool tn_same_class(const tn_char_class *a, const tn_char_class *b) {
  return a->ascii[0] == b->ascii[0] && a->ascii[1] == b->ascii[1] && a->wide == b->wide;
}
static inline bool tn_in_class(const tn_char_class *c, uint8_t byte) {
  return byte < 128 ? c->ascii[byte >> 6] >> (byte & 63) & 1 : c->wide;
}

#endif
