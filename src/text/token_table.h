/* The texts of all tokens, by id and by text. Built once, then read by many threads. */
#ifndef TENON_TEXT_TOKEN_TABLE_H
#define TENON_TEXT_TOKEN_TABLE_H

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

/* Where the text of a token lies. */
typedef struct tn_token_place {
  uint32_t start, bytes;
} tn_token_place;

/* Texts lie behind one another in `blob`. An id without a token has the empty text. The hash table uses
 * open addressing: a slot holds the upper half of the text's hash and id + 1; 0 is free. When a text is set
 * twice the last id wins, as in the references. */
typedef struct tn_token_table {
  tn_buf blob;
  tn_token_place *places; /* [count]; no bytes: no token */
  size_t count, capacity; /* ids */
  uint64_t *slots;
  size_t slot_count, used; /* a power of two; slots taken */
} tn_token_table;

void tn_token_table_finish(tn_token_table *table);

/* Room for `tokens` ids and `bytes` bytes of text in all. False when memory is out. */
bool tn_token_table_reserve(tn_token_table *table, size_t tokens, size_t bytes);

/* Gives `id` a text; ids in between get none. False when memory is out (or the texts pass 4 GiB). */
bool tn_token_table_set(tn_token_table *table, size_t id, tn_text text, bool findable);

static inline tn_text tn_token_table_text(const tn_token_table *table, size_t id) {
  return (tn_text){table->blob.data + table->places[id].start, table->places[id].bytes};
}

/* For many look-ups at once: the hash of a text, hints to the memory system in stages, and the look-up itself. */
static inline uint64_t tn_token_table_hash(tn_text text) {
  return tn_hash_bytes(text.data, text.bytes, 0);
}
#define TN_TOKEN_TABLE_STAGES 3 /* the slot; where the text lies; the text */
static inline void tn_token_table_expect(const tn_token_table *table, uint64_t hash, unsigned stage) {
  const uint64_t *slot = &table->slots[hash & (table->slot_count - 1)];
  uint32_t id = stage ? (uint32_t)*slot : 0;
  if (!stage) {
    __builtin_prefetch(slot);
  } else if (id) {
    const tn_token_place *place = &table->places[id - 1];
    __builtin_prefetch(stage == 1 ? (const void *)place : table->blob.data + place->start);
  }
}
int32_t tn_token_table_find_hashed(const tn_token_table *table, tn_text text, uint64_t hash);

/* The id of a text that was set findable; -1 if there is none. */
int32_t tn_token_table_find(const tn_token_table *table, tn_text text);

#endif
