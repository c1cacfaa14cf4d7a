#include "text/grammar/char_tokens.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "text/grammar/vocab.h"

/* Notes the tokens (id, characters) of the class in `found`, two numbers each, and the nodes that leave it. `path` has
 * room for the characters begun at each depth. */
static bool scan(tn_char_tokens *set, const tn_grammar_vocab *v, uint32_t *path, uint32_t **found, size_t *count) {
  size_t capacity = 0;
  path[0] = 0;
  for (uint32_t i = 1; i < v->node_count;) {
    const tn_trie_node *node = &v->nodes[i];
    uint32_t begun = path[node->depth - 1];
    bool inside = (node->byte & 0xC0) == 0x80; /* a character goes on */
    if (!tn_in_class(&set->class_, node->byte) || !(node->flags & TN_NODE_PATH_OK)) {
      tn_leaving *slot = inside ? NULL : TN_PUSH(set->leaving, set->leaving_count, set->leaving_capacity);
      if (!slot && !inside) return false;
      if (slot) *slot = (tn_leaving){i, begun};
      i = node->end;
      continue;
    }
    path[node->depth] = begun += !inside;
    for (uint32_t t = node->tokens; t < v->nodes[i + 1].tokens; t++) {
      uint32_t *id = TN_PUSH(*found, *count, capacity), *chars = id ? TN_PUSH(*found, *count, capacity) : NULL;
      if (!chars) return false;
      (*found)[*count - 2] = v->order[t];
      *chars = begun;
    }
    if (begun > set->most) set->most = begun;
    i++;
  }
  return true;
}

bool tn_char_tokens_make(tn_char_tokens *set, const tn_grammar_vocab *v, tn_char_class class_) {
  *set = (tn_char_tokens){.class_ = class_};
  uint32_t *path = tn_calloc(v->depth + 1u, sizeof *path), *found = NULL;
  size_t count = 0;
  set->bits = tn_calloc(v->words, sizeof *set->bits);
  bool done = path && set->bits && scan(set, v, path, &found, &count);
  if (done) {
    set->longer = tn_calloc(set->most + 2u, sizeof *set->longer);
    set->by_length = tn_calloc(count / 2, sizeof *set->by_length);
    done = set->longer && set->by_length;
  }
  if (done) { /* sorted by counting */
    for (size_t i = 0; i < count; i += 2) set->longer[found[i + 1] - 1]++;
    for (uint32_t n = set->most; n-- > 0;) set->longer[n] += set->longer[n + 1];
    uint32_t *next = path; /* not needed any more; as long as a token has bytes, so long enough */
    for (uint32_t n = 0; n < set->most; n++) next[n] = set->longer[n + 1];
    for (size_t i = 0; i < count; i += 2) {
      set->bits[found[i] >> 5] |= (uint32_t)1 << (found[i] & 31);
      set->by_length[next[found[i + 1] - 1]++] = found[i];
    }
  }
  free(path);
  free(found);
  return done;
}

void tn_char_tokens_finish(tn_char_tokens *set) {
  free(set->bits);
  free(set->by_length);
  free(set->longer);
  free(set->leaving);
  *set = (tn_char_tokens){0};
}

size_t tn_char_tokens_bytes(const tn_char_tokens *set, const tn_grammar_vocab *v) {
  return v->words * sizeof *set->bits + set->longer[0] * sizeof *set->by_length +
         set->leaving_capacity * sizeof *set->leaving;
}

void tn_char_tokens_copy(const tn_char_tokens *set, const tn_grammar_vocab *v, uint32_t chars, uint32_t *bits) {
  memcpy(bits, set->bits, v->words * sizeof *bits);
  uint32_t too_long = chars <= set->most ? set->longer[chars] : 0;
  for (uint32_t i = 0; i < too_long; i++) bits[set->by_length[i] >> 5] &= ~((uint32_t)1 << (set->by_length[i] & 31));
}
