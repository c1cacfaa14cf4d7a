/* The vocabulary as a trie in preorder: the walk over it is a scan through an array that skips refused subtrees.
 *
 * Tokens are sorted by their bytes, so those of a subtree lie together. Each node knows what its subtree's tokens are
 * made of; a state that takes any number of such characters takes the whole subtree unseen.
 *
 * A control token is in the trie as its spelling between two bytes TN_CONTROL_MARK, which no text has: so only a part
 * of a grammar that speaks of the token itself allows it, and nothing that is spelled does. */
#ifndef TENON_TEXT_GRAMMAR_VOCAB_H
#define TENON_TEXT_GRAMMAR_VOCAB_H

#include <stdatomic.h>
#include "text/grammar/char_tokens.h"
#include "text/grammar/expr.h"
#include "text/grammar/grammar.h"

enum {
  TN_NODE_WHOLE = 1,  /* the path to the node is UTF-8 and ends between two characters */
  TN_NODE_TORN = 2,   /* the path to some token at or below it isn't even a beginning of UTF-8 */
  TN_NODE_WIDE = 4,   /* characters above 127 below it */
  TN_NODE_PATH_OK = 8 /* the path is a prefix of UTF-8 */
};

typedef struct tn_trie_node {
  uint32_t end;    /* the next node that isn't below this one */
  uint32_t tokens; /* first token at or below it; those below `end` begin at nodes[end].tokens */
  uint16_t depth;  /* bytes from the root */
  uint8_t byte;
  uint8_t flags;
} tn_trie_node;

/* What the tokens below a node are made of, the path to it left aside. */
typedef struct tn_trie_below {
  uint64_t ascii[2]; /* their bytes under 128 */
  uint32_t chars;    /* characters of the longest; a piece of one counts as one */
} tn_trie_below;

struct tn_grammar_vocab {
  atomic_uint references;
  uint32_t count; /* token ids */
  size_t words;
  tn_trie_node *nodes; /* node 0 is the root; one more at the end bounds the last tokens */
  tn_trie_below *below;
  uint32_t node_count, depth;
  uint32_t *order; /* ids of the tokens in the trie, sorted by bytes */
  uint32_t *ends, end_count;
  char *bytes; /* of all tokens, by id: token i is bytes[first[i] .. first[i + 1]); none: it is never allowed */
  uint32_t *first;
  tn_char_tokens strings; /* those that are nothing special inside a JSON string */
};

void tn_grammar_vocab_keep(tn_grammar_vocab *vocab);
/* True when the id ends a generation. */
bool tn_grammar_vocab_is_end(const tn_grammar_vocab *vocab, uint32_t token);

#endif
