/* Finds the tokens that a text begins with: token texts in byte order, narrowed down one byte at a time. */
#ifndef TENON_TEXT_PREFIX_INDEX_H
#define TENON_TEXT_PREFIX_INDEX_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"

/* Longer texts are refused, so that looking at every place of a text stays cheap. */
#define TN_PREFIX_LONGEST 1024

typedef struct tn_prefix_entry {
  const char *data; /* must outlive the index */
  uint32_t bytes;
  int32_t id;
} tn_prefix_entry;

/* Start with a zeroed one; add; then sort once; immutable from then on. */
typedef struct tn_prefix_index {
  tn_prefix_entry *entries;
  size_t count, capacity;
  uint32_t first[257]; /* entries that begin with byte b: [first[b], first[b + 1]) */
} tn_prefix_index;

/* Empty texts are not added. TN_E_LIMIT: longer than TN_PREFIX_LONGEST. */
tn_status tn_prefix_index_add(tn_prefix_index *index, tn_text text, int32_t id, tn_error *error);
/* Of equal texts the one with the highest id stays. */
void tn_prefix_index_sort(tn_prefix_index *index);
void tn_prefix_index_finish(tn_prefix_index *index);

/* A walk along a text: start with tn_prefix_start at its first byte, then tn_prefix_next for each further one. */
typedef struct tn_prefix_walk {
  size_t low, high, depth;
} tn_prefix_walk;

/* Both: false when no token begins like this. */
bool tn_prefix_start(const tn_prefix_index *index, tn_prefix_walk *walk, char byte);
bool tn_prefix_next(const tn_prefix_index *index, tn_prefix_walk *walk, char byte);

/* The id of the token that is exactly what was walked; -1: none is. */
static inline int32_t tn_prefix_here(const tn_prefix_index *index, const tn_prefix_walk *walk) {
  const tn_prefix_entry *entry = &index->entries[walk->low];
  return entry->bytes == walk->depth ? entry->id : -1;
}

/* The longest token that `text` begins with: its id and length, or -1. */
int32_t tn_prefix_longest(const tn_prefix_index *index, tn_text text, size_t *bytes);

#endif
