/* Recent words and their tokens: in running text most words come again soon. One thread's own; bounded. */
#ifndef TENON_TEXT_WORD_CACHE_H
#define TENON_TEXT_WORD_CACHE_H

#include "base/memory.h"
#include "base/text.h"

#define TN_WORD_CACHE_LONGEST 64 /* bytes of a word worth keeping */

typedef struct tn_word_cache tn_word_cache;

tn_word_cache *tn_word_cache_create(void); /* NULL when memory is out */
void tn_word_cache_destroy(tn_word_cache *cache);

/* `hash` is any good hash of the word. On true, *ids is valid until the next add. */
bool tn_word_cache_find(const tn_word_cache *cache, tn_text word, uint64_t hash, const int32_t **ids, size_t *count);
void tn_word_cache_add(tn_word_cache *cache, tn_text word, uint64_t hash, const int32_t *ids, size_t count);

#endif
