#include "text/prefix_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

tn_status tn_prefix_index_add(tn_prefix_index *index, tn_text text, int32_t id, tn_error *error) {
  if (text.bytes == 0) return TN_OK;
  if (text.bytes > TN_PREFIX_LONGEST)
    return tn_fail(error, TN_E_LIMIT, "token %d: %zu bytes of text, at most %d are taken", (int)id, text.bytes,
                   TN_PREFIX_LONGEST);
  tn_prefix_entry *entry = TN_PUSH(index->entries, index->count, index->capacity);
  if (!entry) return tn_fail(error, TN_E_MEMORY, "out of memory for an index of tokens");
  *entry = (tn_prefix_entry){text.data, (uint32_t)text.bytes, id};
  return TN_OK;
}

static int by_text(const void *a, const void *b) {
  const tn_prefix_entry *x = a, *y = b;
  int order = memcmp(x->data, y->data, x->bytes < y->bytes ? x->bytes : y->bytes);
  if (order) return order;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return (x->id < y->id) - (x->id > y->id);
}

void tn_prefix_index_sort(tn_prefix_index *index) {
  if (index->count) qsort(index->entries, index->count, sizeof *index->entries, by_text);
  size_t kept = 0;
  for (size_t i = 0; i < index->count; i++) {
    const tn_prefix_entry *entry = &index->entries[i], *last = kept ? &index->entries[kept - 1] : NULL;
    if (last && last->bytes == entry->bytes && memcmp(last->data, entry->data, entry->bytes) == 0) continue;
    index->entries[kept++] = *entry;
  }
  index->count = kept;
  size_t at = 0;
  for (unsigned byte = 0; byte < 256; byte++) {
    index->first[byte] = (uint32_t)at;
    while (at < kept && (unsigned char)index->entries[at].data[0] == byte) at++;
  }
  index->first[256] = (uint32_t)at;
}

void tn_prefix_index_finish(tn_prefix_index *index) {
  free(index->entries);
  index->entries = NULL;
  index->count = index->capacity = 0;
}

bool tn_prefix_start(const tn_prefix_index *index, tn_prefix_walk *walk, char byte) {
  unsigned first = (unsigned char)byte;
  *walk = (tn_prefix_walk){index->first[first], index->first[first + 1], 1};
  return walk->low < walk->high;
}

/* The first entry of [low, high) whose byte at `depth` is at least `byte`; entries that end there come before. */
static size_t lower_bound(const tn_prefix_index *index, size_t low, size_t high, size_t depth, unsigned byte) {
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const tn_prefix_entry *entry = &index->entries[middle];
    if (entry->bytes <= depth || (unsigned char)entry->data[depth] < byte)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool tn_prefix_next(const tn_prefix_index *index, tn_prefix_walk *walk, char byte) {
  unsigned next = (unsigned char)byte;
  walk->low = lower_bound(index, walk->low, walk->high, walk->depth, next);
  if (walk->low == walk->high) return false;
  walk->high = next == 255 ? walk->high : lower_bound(index, walk->low, walk->high, walk->depth, next + 1);
  walk->depth++;
  return walk->low < walk->high;
}

int32_t tn_prefix_longest(const tn_prefix_index *index, tn_text text, size_t *bytes) {
  tn_prefix_walk walk;
  int32_t best = -1;
  if (!text.bytes || !tn_prefix_start(index, &walk, text.data[0])) return -1;
  do {
    int32_t id = tn_prefix_here(index, &walk);
    if (id >= 0) {
      best = id;
      *bytes = walk.depth;
    }
  } while (walk.depth < text.bytes && tn_prefix_next(index, &walk, text.data[walk.depth]));
  return best;
}
