#include "text/token_table.h"

#include <stdlib.h>

void tn_token_table_finish(tn_token_table *table) {
  tn_buf_finish(&table->blob);
  free(table->places);
  free(table->slots);
  *table = (tn_token_table){0};
}

static bool grow_ids(tn_token_table *table, size_t wanted) {
  if (wanted <= table->capacity) return true;
  if (wanted > INT32_MAX) return false;
  size_t capacity = table->capacity * 2 > wanted ? table->capacity * 2 : wanted;
  tn_token_place *places = realloc(table->places, capacity * sizeof *places);
  if (!places) return false;
  table->places = places;
  table->capacity = capacity;
  return true;
}

#define HASH_HALF UINT64_C(0xffffffff00000000)

/* The slot of a text, or the free one where it belongs. */
static uint64_t *find_slot(const tn_token_table *table, tn_text text, uint64_t hash) {
  size_t mask = table->slot_count - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    uint64_t slot = table->slots[i];
    if (!slot) return &table->slots[i];
    if (((slot ^ hash) & HASH_HALF) == 0 && tn_text_equal(tn_token_table_text(table, (uint32_t)slot - 1), text))
      return &table->slots[i];
  }
}

static bool grow_slots(tn_token_table *table, size_t tokens) {
  size_t wanted = table->slot_count ? table->slot_count : 64;
  while (wanted / 2 < tokens) wanted *= 2;
  if (wanted == table->slot_count) return true;
  uint64_t *slots = tn_calloc(wanted, sizeof *slots), *old = table->slots;
  if (!slots) return false;
  size_t old_count = table->slot_count;
  table->slots = slots;
  table->slot_count = wanted;
  for (size_t i = 0; i < old_count; i++) {
    if (!old[i]) continue;
    tn_text text = tn_token_table_text(table, (uint32_t)old[i] - 1);
    *find_slot(table, text, tn_token_table_hash(text)) = old[i];
  }
  free(old);
  return true;
}

bool tn_token_table_reserve(tn_token_table *table, size_t tokens, size_t bytes) {
  return grow_ids(table, tokens) && grow_slots(table, tokens) && tn_buf_reserve(&table->blob, bytes);
}

bool tn_token_table_set(tn_token_table *table, size_t id, tn_text text, bool findable) {
  if (id >= INT32_MAX || !grow_ids(table, id + 1) || !grow_slots(table, table->used + 1)) return false;
  for (; table->count <= id; table->count++) table->places[table->count] = (tn_token_place){0, 0};
  if (table->blob.size + text.bytes > UINT32_MAX) return false;
  uint32_t start = (uint32_t)table->blob.size;
  if (!tn_buf_append(&table->blob, text.data, text.bytes)) return false;
  table->places[id] = (tn_token_place){start, (uint32_t)text.bytes};
  if (!findable) return true;
  uint64_t hash = tn_token_table_hash(text), *slot = find_slot(table, text, hash);
  table->used += *slot == 0;
  *slot = (hash & HASH_HALF) | ((uint32_t)id + 1);
  return true;
}

int32_t tn_token_table_find_hashed(const tn_token_table *table, tn_text text, uint64_t hash) {
  if (!table->slot_count) return -1;
  return (int32_t)(uint32_t)*find_slot(table, text, hash) - 1;
}

int32_t tn_token_table_find(const tn_token_table *table, tn_text text) {
  return tn_token_table_find_hashed(table, text, tn_token_table_hash(text));
}
