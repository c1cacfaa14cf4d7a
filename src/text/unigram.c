#include "text/unigram.h"

#include <stdlib.h>

#include "base/utf8.h"

#define UNREACHED INT32_MIN
#define UNKNOWN (-1) /* a character without token */

/* A way to `end` whose last token is `id` from `start`: taken if it is the first or better. */
static void offer(tn_unigram_node *nodes, size_t start, size_t end, double score, int32_t id) {
  tn_unigram_node *node = &nodes[end];
  if (node->id != UNREACHED && score <= node->score) return;
  *node = (tn_unigram_node){score, (uint32_t)start, id};
}

static void find_best(const tn_unigram *unigram, tn_unigram_node *nodes, tn_text word) {
  for (size_t i = 0; i <= word.bytes; i++) nodes[i] = (tn_unigram_node){0, 0, UNREACHED};
  for (size_t at = 0, bytes; at < word.bytes; at += bytes) {
    uint32_t codepoint;
    bytes = tn_utf8_step(word.data + at, word.bytes - at, &codepoint);
    double here = nodes[at].score;
    bool single = false; /* a token is exactly this character */
    tn_prefix_walk walk;
    bool more = tn_prefix_start(&unigram->tokens, &walk, word.data[at]);
    while (more) {
      int32_t id = tn_prefix_here(&unigram->tokens, &walk);
      if (id >= 0) {
        offer(nodes, at, at + walk.depth, here + unigram->scores[id], id);
        single |= walk.depth == bytes;
      }
      more = at + walk.depth < word.bytes && tn_prefix_next(&unigram->tokens, &walk, word.data[at + walk.depth]);
    }
    if (!single) offer(nodes, at, at + bytes, here + unigram->unknown_score, UNKNOWN);
  }
}

/* The tokens of a run of unknown characters. */
static bool add_unknown(const tn_unigram *unigram, tn_text run, tn_ids *ids) {
  bool bytes = unigram->byte_fallback;
  for (size_t i = 0; i < run.bytes && bytes; i++) bytes = unigram->byte_ids[(unsigned char)run.data[i]] >= 0;
  if (!bytes) return unigram->unknown_id < 0 || tn_ids_add(ids, unigram->unknown_id);
  for (size_t i = 0; i < run.bytes; i++)
    if (!tn_ids_add(ids, unigram->byte_ids[(unsigned char)run.data[i]])) return false;
  return true;
}

void tn_unigram_find_bytes(tn_unigram *unigram, const tn_token_table *texts) {
  for (unsigned byte = 0; byte < 256; byte++) {
    char name[] = "<0x00>";
    name[3] = "0123456789ABCDEF"[byte >> 4];
    name[4] = "0123456789ABCDEF"[byte & 15];
    unigram->byte_ids[byte] = tn_token_table_find(texts, tn_text_of(name));
  }
}

bool tn_unigram_encode(const tn_unigram *unigram, tn_unigram_work *work, tn_text word, tn_ids *ids) {
  if (work->capacity < word.bytes + 1) {
    tn_unigram_node *nodes = tn_calloc(word.bytes + 1, sizeof *nodes);
    if (!nodes) return false;
    free(work->nodes);
    work->nodes = nodes;
    work->capacity = word.bytes + 1;
  }
  tn_unigram_node *nodes = work->nodes;
  find_best(unigram, nodes, word);
  /* Turn the chain of beginnings around: nodes[start].score is done with, so keep the end of each token in `start`. */
  size_t end = word.bytes;
  int32_t id = UNREACHED;
  uint32_t next = 0;
  for (;;) {
    tn_unigram_node *node = &nodes[end];
    size_t start = node->start;
    int32_t own = node->id;
    node->id = id; /* the token that begins here and ends at `next` */
    node->start = next;
    if (end == 0) break;
    id = own;
    next = (uint32_t)end;
    end = start;
  }
  for (size_t at = 0; at < word.bytes;) {
    size_t stop = nodes[at].start;
    if (nodes[at].id != UNKNOWN) {
      if (!tn_ids_add(ids, nodes[at].id)) return false;
    } else {
      while (stop < word.bytes && nodes[stop].id == UNKNOWN) stop = nodes[stop].start;
      if (!add_unknown(unigram, (tn_text){word.data + at, stop - at}, ids)) return false;
    }
    at = stop;
  }
  return true;
}
