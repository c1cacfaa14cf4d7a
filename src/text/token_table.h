/* The texts of all tokens, by id and by text. Built once, then read by many threads. */
#ifndef TENON_TEXT_TOKEN_TABLE_H
#define TENON_TEXT_TOKEN_TABLE_H

#include "base/memory.h"
#include "base/text.h"

/* Texts lie behind one another in `blob`. An id without a token has the empty text and `present` 0. The hash table uses
 * open addressing: a slot holds the upper half of the text's hash and id + 1; 0 is free. When a text is set
 * twice the last id wins, as in the references. */
typedef struct tn_token_table {
  tn_buf blob;
  uint32_t *starts, *sizes;
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
  return (tn_text){table->blob.data + table->starts[id], table->sizes[id]};
}

/* The id of a text that was set findable; -1 if there is none. */
int32_t tn_token_table_find(const tn_token_table *table, tn_text text);

#endif
