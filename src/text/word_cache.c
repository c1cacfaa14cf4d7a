#include "text/word_cache.h"

#include <stdlib.h>
#include <string.h>

/* One slot a word, found by its hash; a newcomer takes the slot. Tokens that fit lie in the slot itself. */
#define SLOTS 8192u
#define SLOT_IDS 8

typedef struct slot {
  uint64_t hash;
  uint8_t bytes, count; /* bytes 0: free */
  char word[TN_WORD_CACHE_LONGEST];
  int32_t ids[SLOT_IDS];
} slot;

struct tn_word_cache {
  slot slots[SLOTS];
};

tn_word_cache *tn_word_cache_create(void) {
  return tn_calloc(1, sizeof(tn_word_cache));
}

void tn_word_cache_destroy(tn_word_cache *cache) {
  free(cache);
}

bool tn_word_cache_find(const tn_word_cache *cache, tn_text word, uint64_t hash, const int32_t **ids, size_t *count) {
  const slot *s = &cache->slots[hash % SLOTS];
  if (s->hash != hash || s->bytes != word.bytes || memcmp(s->word, word.data, word.bytes) != 0) return false;
  *ids = s->ids;
  *count = s->count;
  return word.bytes > 0;
}

void tn_word_cache_add(tn_word_cache *cache, tn_text word, uint64_t hash, const int32_t *ids, size_t count) {
  if (count > SLOT_IDS || word.bytes > TN_WORD_CACHE_LONGEST) return;
  slot *s = &cache->slots[hash % SLOTS];
  s->hash = hash;
  s->bytes = (uint8_t)word.bytes;
  s->count = (uint8_t)count;
  memcpy(s->word, word.data, word.bytes);
  if (count) memcpy(s->ids, ids, count * sizeof *ids);
}
