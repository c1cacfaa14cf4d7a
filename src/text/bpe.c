#include "text/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/decode.h"
#include "text/word_cache.h"

#define MAX_SPECIALS 4096     /* special tokens that merges lead to: usually there are none */
#define MAX_DEPTH 32          /* of special tokens made of special tokens */
#define MARKER "\xe2\x96\x81" /* U+2581, SentencePiece's space */

/* A pair of neighbours that may be merged: lowest `order` first. */
typedef struct tn_bpe_candidate {
  uint64_t order; /* rank << 32 | number of its left symbol */
  uint32_t bytes; /* of both when it was found; otherwise it is out of date */
  int32_t merged;
} candidate;

static bool is_special(const tn_bpe *bpe, int32_t id) {
  return id >= 0 && (size_t)id < bpe->vocab_count && bpe->special[id];
}

/* The token of a text, if text may become it. */
static int32_t find_token(const tn_bpe *bpe, tn_text text) {
  int32_t id = tn_token_table_find(bpe->table, text);
  return is_special(bpe, id) ? -1 : id;
}

/* ---- making ---- */

/* Adds a symbol that is no token. Its id is at or above vocab_count. */
static int32_t add_symbol(tn_bpe *bpe, tn_text text) {
  size_t id = bpe->table->count;
  return tn_token_table_set(bpe->table, id, text, true) ? (int32_t)id : -1;
}

static bool find_byte_ids(tn_bpe *bpe) {
  for (unsigned byte = 0; byte < 256; byte++) {
    char name[8];
    size_t bytes = bpe->byte_level ? tn_byte_level_character((unsigned char)byte, name)
                                   : (size_t)snprintf(name, sizeof name, "<0x%02X>", byte);
    tn_text text = {name, bytes};
    bpe->byte_ids[byte] = bpe->byte_level ? find_token(bpe, text) : tn_token_table_find(bpe->table, text);
    if (bpe->byte_level && bpe->byte_ids[byte] < 0 && bpe->unknown == TN_BPE_UNKNOWN_KEEP) {
      bpe->byte_ids[byte] = add_symbol(bpe, text);
      if (bpe->byte_ids[byte] < 0) return false;
    }
  }
  return true;
}

/* Notes which bytes stand in front of the space marker inside a token. Where unknown characters are dropped, a marker
 * may come to stand behind any other, and no border is safe. */
static void find_marker_joins(tn_bpe *bpe) {
  if (bpe->unknown == TN_BPE_UNKNOWN_DROP) return;
  for (size_t id = 0; id < bpe->vocab_count; id++) {
    tn_text text = tn_token_table_text(bpe->table, id);
    for (size_t i = 1; i + 3 <= text.bytes; i++) {
      if (memcmp(text.data + i, MARKER, 3) != 0) continue;
      unsigned char before = (unsigned char)text.data[i - 1];
      bpe->joins_marker[before / 8] |= (uint8_t)(1u << before % 8);
    }
  }
  bpe->splits_at_marker = tn_token_table_find(bpe->table, TN_TEXT(MARKER)) >= 0;
}

tn_status tn_bpe_prepare(tn_bpe *bpe, size_t merges, tn_error *error) {
  for (size_t id = 0; id < bpe->vocab_count; id++)
    if (bpe->table->places[id].bytes > bpe->longest) bpe->longest = bpe->table->places[id].bytes;
  if (!find_byte_ids(bpe)) return tn_fail(error, TN_E_MEMORY, "out of memory for a vocabulary");
  if (!bpe->byte_level && !bpe->word_prefix.bytes && !bpe->word_suffix.bytes && !bpe->ignore_merges)
    find_marker_joins(bpe);
  size_t slots = 64;
  while (slots / 2 < merges) slots *= 2;
  bpe->pairs = tn_calloc(slots, sizeof *bpe->pairs);
  if (!bpe->pairs) return tn_fail(error, TN_E_MEMORY, "out of memory for %zu merges", merges);
  bpe->pair_slots = slots;
  return TN_OK;
}

static uint64_t pair_key(int32_t left, int32_t right) {
  return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

static size_t pair_slot(const tn_bpe *bpe, int32_t left, int32_t right) {
  return tn_hash_pair((uint32_t)left, (uint32_t)right) & (bpe->pair_slots - 1);
}

static tn_bpe_pair *find_pair(const tn_bpe *bpe, int32_t left, int32_t right) {
  const uint64_t key = pair_key(left, right);
  for (size_t i = pair_slot(bpe, left, right);; i = (i + 1) & (bpe->pair_slots - 1))
    if (bpe->pairs[i].key == key || bpe->pairs[i].key == 0) return &bpe->pairs[i];
}

static bool grow_pairs(tn_bpe *bpe) {
  tn_bpe_pair *old = bpe->pairs;
  size_t old_slots = bpe->pair_slots;
  tn_bpe_pair *pairs = tn_calloc(old_slots * 2, sizeof *pairs);
  if (!pairs) return false;
  bpe->pairs = pairs;
  bpe->pair_slots = old_slots * 2;
  for (size_t i = 0; i < old_slots; i++) {
    uint64_t key = old[i].key - 1;
    if (old[i].key) *find_pair(bpe, (int32_t)(key >> 32), (int32_t)(uint32_t)key) = old[i];
  }
  free(old);
  return true;
}

/* ---- merges: looked up in batches, so that the memory system works on many at a time ---- */

#define BATCH 32
#define BATCH_TEXT 240 /* bytes; longer merges are a batch of their own */

typedef struct pending_merge {
  tn_text left, right, whole;
  uint64_t left_hash, right_hash, whole_hash;
  int32_t left_id, right_id, whole_id;
  char *large; /* the text if it doesn't fit below */
  char text[BATCH_TEXT];
} pending_merge;

struct tn_bpe_batch {
  pending_merge merges[BATCH];
  size_t count;
};

static int32_t merge_symbol(tn_bpe *bpe, tn_text text, uint64_t hash, size_t number, tn_error *error) {
  int32_t id = tn_token_table_find_hashed(bpe->table, text, hash);
  if (id >= 0) return id;
  if (bpe->unknown != TN_BPE_UNKNOWN_KEEP) {
    tn_fail(error, TN_E_FORMAT, "merges[%zu]: '%.*s' is not in the vocabulary", number,
            (int)(text.bytes < 100 ? text.bytes : 100), text.data);
    return -1;
  }
  id = add_symbol(bpe, text);
  if (id < 0) tn_fail(error, TN_E_MEMORY, "out of memory for merges");
  return id;
}

static const tn_bpe_special *find_special(const tn_bpe *bpe, int32_t id) {
  for (size_t i = 0; i < bpe->special_count; i++)
    if (bpe->specials[i].id == id) return &bpe->specials[i];
  return NULL;
}

/* Keeps the first way to a special token. */
static bool note_special(tn_bpe *bpe, tn_bpe_special way) {
  if (find_special(bpe, way.id)) return true;
  tn_bpe_special *slot = TN_PUSH(bpe->specials, bpe->special_count, bpe->special_capacity);
  if (slot) *slot = way;
  return slot;
}

static tn_status find_symbols(tn_bpe *bpe, pending_merge *merge, size_t number, tn_error *error) {
  merge->left_id = merge_symbol(bpe, merge->left, merge->left_hash, number, error);
  if (merge->left_id < 0) return error->status;
  merge->right_id = merge_symbol(bpe, merge->right, merge->right_hash, number, error);
  if (merge->right_id < 0) return error->status;
  merge->whole_id = merge_symbol(bpe, merge->whole, merge->whole_hash, number, error);
  return merge->whole_id < 0 ? error->status : TN_OK;
}

static tn_status note_merge(tn_bpe *bpe, const pending_merge *merge, tn_error *error) {
  if (bpe->pair_count >= bpe->pair_slots / 2 && !grow_pairs(bpe))
    return tn_fail(error, TN_E_MEMORY, "out of memory for merges");
  tn_bpe_pair *pair = find_pair(bpe, merge->left_id, merge->right_id);
  uint32_t rank = (uint32_t)bpe->merge_count++;
  if (is_special(bpe, merge->whole_id)) {
    if (bpe->special_count == MAX_SPECIALS) return TN_OK; /* no more of these are merged */
    if (!note_special(bpe, (tn_bpe_special){merge->whole_id, merge->left_id, merge->right_id}))
      return tn_fail(error, TN_E_MEMORY, "out of memory for merges");
  }
  if (pair->key && !bpe->last_merge_wins) return TN_OK;
  bpe->pair_count += pair->key == 0;
  *pair = (tn_bpe_pair){pair_key(merge->left_id, merge->right_id), rank, merge->whole_id};
  return TN_OK;
}

/* One stage of hints for all texts of the batch; those of stage 0 need the hashes. */
static void expect(const tn_bpe *bpe, const struct tn_bpe_batch *batch, unsigned stage) {
  for (size_t i = 0; i < batch->count; i++) {
    tn_token_table_expect(bpe->table, batch->merges[i].left_hash, stage);
    tn_token_table_expect(bpe->table, batch->merges[i].right_hash, stage);
    tn_token_table_expect(bpe->table, batch->merges[i].whole_hash, stage);
  }
}

tn_status tn_bpe_finish_merges(tn_bpe *bpe, tn_error *error) {
  tn_error own = {0};
  if (!error) error = &own;
  struct tn_bpe_batch *batch = bpe->batch;
  if (!batch) return TN_OK;
  for (size_t i = 0; i < batch->count; i++) {
    pending_merge *merge = &batch->merges[i];
    merge->left_hash = tn_token_table_hash(merge->left);
    merge->right_hash = tn_token_table_hash(merge->right);
    merge->whole_hash = tn_token_table_hash(merge->whole);
  }
  for (unsigned stage = 0; stage < TN_TOKEN_TABLE_STAGES; stage++) expect(bpe, batch, stage);
  tn_status status = TN_OK;
  for (size_t i = 0; i < batch->count && status == TN_OK; i++) {
    pending_merge *merge = &batch->merges[i];
    status = find_symbols(bpe, merge, bpe->merge_count + i, error);
    if (status == TN_OK) __builtin_prefetch(&bpe->pairs[pair_slot(bpe, merge->left_id, merge->right_id)], 1);
  }
  for (size_t i = 0; i < batch->count; i++) {
    if (status == TN_OK) status = note_merge(bpe, &batch->merges[i], error);
    free(batch->merges[i].large);
    batch->merges[i].large = NULL;
  }
  batch->count = 0;
  return status;
}

tn_status tn_bpe_add_merge(tn_bpe *bpe, tn_text left, tn_text right, tn_error *error) {
  if (!bpe->batch && !(bpe->batch = tn_calloc(1, sizeof *bpe->batch)))
    return tn_fail(error, TN_E_MEMORY, "out of memory for merges");
  struct tn_bpe_batch *batch = bpe->batch;
  pending_merge *merge = &batch->merges[batch->count];
  /* left, right, and, where the right loses its mark, the whole once more */
  size_t prefix = bpe->word_prefix.bytes <= right.bytes ? bpe->word_prefix.bytes : 0;
  size_t bytes = (left.bytes + right.bytes) * (prefix ? 2 : 1);
  char *text = merge->text;
  if (bytes > sizeof merge->text && !(text = merge->large = malloc(bytes)))
    return tn_fail(error, TN_E_MEMORY, "out of memory for merges");
  if (left.bytes) memcpy(text, left.data, left.bytes);
  if (right.bytes) memcpy(text + left.bytes, right.data, right.bytes);
  merge->left = (tn_text){text, left.bytes};
  merge->right = (tn_text){text + left.bytes, right.bytes};
  merge->whole = (tn_text){text, left.bytes + right.bytes};
  if (prefix) {
    char *whole = text + left.bytes + right.bytes;
    memcpy(whole, text, left.bytes);
    memcpy(whole + left.bytes, merge->right.data + prefix, right.bytes - prefix);
    merge->whole = (tn_text){whole, left.bytes + right.bytes - prefix};
  }
  return ++batch->count == BATCH ? tn_bpe_finish_merges(bpe, error) : TN_OK;
}

void tn_bpe_finish(tn_bpe *bpe) {
  for (size_t i = 0; bpe->batch && i < bpe->batch->count; i++) free(bpe->batch->merges[i].large);
  free(bpe->batch);
  free(bpe->specials);
  free(bpe->pairs);
  bpe->batch = NULL;
  bpe->specials = NULL;
  bpe->pairs = NULL;
}

/* ---- the word's first symbols ---- */

static bool add_piece(tn_bpe_work *work, size_t start, size_t bytes, int32_t id) {
  tn_bpe_symbol *symbol = TN_PUSH(work->symbols, work->symbol_count, work->symbol_capacity);
  if (symbol) *symbol = (tn_bpe_symbol){.start = (uint32_t)start, .bytes = (uint32_t)bytes, .id = id};
  return symbol;
}

/* The symbol for the character at [start, start + bytes) of the word; -1: none. */
static int32_t character_id(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, size_t start, size_t bytes) {
  bool prefix = start > 0 && bpe->word_prefix.bytes, suffix = start + bytes == word.bytes && bpe->word_suffix.bytes;
  tn_text text = {word.data + start, bytes};
  char written[2];
  if (bpe->byte_level) text = (tn_text){written, tn_byte_level_character((unsigned char)word.data[start], written)};
  if (!prefix && !suffix) return find_token(bpe, text);
  tn_buf_clear(&work->key);
  if (prefix) tn_buf_append(&work->key, bpe->word_prefix.data, bpe->word_prefix.bytes);
  tn_buf_append(&work->key, text.data, text.bytes);
  if (suffix) tn_buf_append(&work->key, bpe->word_suffix.data, bpe->word_suffix.bytes);
  return work->key.failed ? -1 : find_token(bpe, (tn_text){work->key.data, work->key.size});
}

static bool has_byte_tokens(const tn_bpe *bpe, const char *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (bpe->byte_ids[(unsigned char)data[i]] < 0) return false;
  return true;
}

/* Unknown characters that have no symbol yet; bytes 0: none. */
typedef struct unknown_run {
  size_t start, bytes;
} unknown_run;

static bool flush_unknown(const tn_bpe *bpe, tn_bpe_work *work, unknown_run *run) {
  bool good = !run->bytes || add_piece(work, run->start, run->bytes, bpe->unknown_id);
  run->bytes = 0;
  return good;
}

/* A character without a symbol of its own. As in the reference, an unknown token is written down only before the next
 * known character, behind the byte tokens of the characters between, and with fuse_unk runs are one across these. */
static bool add_unknown(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, size_t start, size_t bytes,
                        unknown_run *run) {
  if (bpe->unknown == TN_BPE_UNKNOWN_KEEP) return add_piece(work, start, bytes, -1);
  if (!bpe->byte_level && bpe->byte_fallback && has_byte_tokens(bpe, word.data + start, bytes)) {
    for (size_t i = 0; i < bytes; i++)
      if (!add_piece(work, start + i, 1, bpe->byte_ids[(unsigned char)word.data[start + i]])) return false;
    return true;
  }
  if (bpe->unknown == TN_BPE_UNKNOWN_DROP) return true;
  if (run->bytes && bpe->fuse_unknown) {
    run->bytes += bytes;
    return true;
  }
  if (!flush_unknown(bpe, work, run)) return false;
  *run = (unknown_run){start, bytes};
  return true;
}

static bool split_symbols(const tn_bpe *bpe, tn_bpe_work *work, tn_text word) {
  work->symbol_count = 0;
  unknown_run run = {0};
  for (size_t at = 0, bytes; at < word.bytes; at += bytes) {
    uint32_t codepoint;
    int32_t id;
    if (bpe->byte_level && !bpe->word_suffix.bytes && !bpe->word_prefix.bytes) {
      bytes = 1;
      id = bpe->byte_ids[(unsigned char)word.data[at]];
    } else {
      bytes = bpe->byte_level ? 1 : tn_utf8_step(word.data + at, word.bytes - at, &codepoint);
      id = character_id(bpe, work, word, at, bytes);
    }
    if (id < 0 ? !add_unknown(bpe, work, word, at, bytes, &run)
               : !flush_unknown(bpe, work, &run) || !add_piece(work, at, bytes, id))
      return false;
  }
  if (!flush_unknown(bpe, work, &run)) return false;
  for (size_t i = 0; i < work->symbol_count; i++) {
    work->symbols[i].previous = (int32_t)i - 1;
    work->symbols[i].next = i + 1 < work->symbol_count ? (int32_t)i + 1 : -1;
  }
  return true;
}

/* ---- merging ---- */

static void sift_down(candidate *heap, size_t count, size_t i) {
  candidate moving = heap[i];
  for (size_t child; (child = 2 * i + 1) < count; i = child) {
    if (child + 1 < count && heap[child + 1].order < heap[child].order) child++;
    if (heap[child].order >= moving.order) break;
    heap[i] = heap[child];
  }
  heap[i] = moving;
}

static void sift_up(candidate *heap, size_t i) {
  candidate moving = heap[i];
  for (; i > 0 && heap[(i - 1) / 2].order > moving.order; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = moving;
}

/* Appends the pair of symbol `left` and its right neighbour to the heap's array if it may be merged. False when memory
 * is out; *added tells. */
static bool add_candidate(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, int32_t left, bool *added) {
  *added = false;
  if (left < 0) return true;
  const tn_bpe_symbol *a = &work->symbols[left];
  if (a->next < 0) return true;
  const tn_bpe_symbol *b = &work->symbols[a->next];
  uint32_t rank;
  int32_t merged;
  if (bpe->score_ranks) {
    if (a->bytes + b->bytes > bpe->longest) return true;
    merged = find_token(bpe, (tn_text){word.data + a->start, a->bytes + b->bytes});
    if (merged < 0 || (size_t)merged >= bpe->vocab_count) return true;
    rank = bpe->score_ranks[merged];
  } else {
    if (a->id < 0 || b->id < 0) return true;
    const tn_bpe_pair *pair = find_pair(bpe, a->id, b->id);
    if (!pair->key) return true;
    rank = pair->rank;
    merged = pair->merged;
  }
  candidate *c = TN_PUSH(work->heap, work->heap_count, work->heap_capacity);
  if (!c) return false;
  *c = (candidate){(uint64_t)rank << 32 | (uint32_t)left, a->bytes + b->bytes, merged};
  *added = true;
  return true;
}

static bool push_candidate(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, int32_t left) {
  bool added;
  if (!add_candidate(bpe, work, word, left, &added)) return false;
  if (added) sift_up(work->heap, work->heap_count - 1);
  return true;
}

static bool merge_all(const tn_bpe *bpe, tn_bpe_work *work, tn_text word) {
  work->heap_count = 0;
  bool added;
  for (size_t i = 0; i + 1 < work->symbol_count; i++)
    if (!add_candidate(bpe, work, word, (int32_t)i, &added)) return false;
  for (size_t i = work->heap_count / 2; i-- > 0;) sift_down(work->heap, work->heap_count, i);
  while (work->heap_count) {
    candidate best = work->heap[0];
    work->heap[0] = work->heap[--work->heap_count];
    if (work->heap_count) sift_down(work->heap, work->heap_count, 0);
    int32_t index = (int32_t)(uint32_t)best.order;
    tn_bpe_symbol *left = &work->symbols[index];
    if (!left->bytes || left->next < 0) continue;
    tn_bpe_symbol *right = &work->symbols[left->next];
    if (left->bytes + right->bytes != best.bytes) continue;
    left->bytes = best.bytes;
    left->id = best.merged;
    left->next = right->next;
    right->bytes = 0;
    if (right->next >= 0) work->symbols[right->next].previous = index;
    if (!push_candidate(bpe, work, word, left->previous) || !push_candidate(bpe, work, word, index)) return false;
  }
  return true;
}

/* ---- words ---- */

/* A symbol that is no token becomes the tokens of its bytes (those that exist), else the unknown token. */
static bool add_bytes(const tn_bpe *bpe, tn_text text, tn_ids *ids) {
  bool any = false;
  for (size_t i = 0; i < text.bytes; i++) {
    int32_t id = bpe->byte_ids[(unsigned char)text.data[i]];
    if (id < 0 || (size_t)id >= bpe->vocab_count) continue;
    if (!tn_ids_add(ids, id)) return false;
    any = true;
  }
  return any || bpe->unknown_id < 0 || bpe->byte_level || tn_ids_add(ids, bpe->unknown_id);
}

/* How many bytes of a word a token's text stands for. */
static size_t word_bytes(const tn_bpe *bpe, tn_text text) {
  size_t bytes = 0;
  for (size_t i = 0; i < text.bytes; i++) bytes += !bpe->byte_level || ((unsigned char)text.data[i] & 0xc0) != 0x80;
  return bytes;
}

/* Puts out a symbol whose text is `text`; a special token as what it was merged from. */
static bool add_result(const tn_bpe *bpe, int32_t id, tn_text text, unsigned depth, tn_ids *ids) {
  if (id < 0 || (size_t)id >= bpe->vocab_count) return add_bytes(bpe, text, ids);
  const tn_bpe_special *way = bpe->special[id] && id != bpe->unknown_id ? find_special(bpe, id) : NULL;
  if (!way) return tn_ids_add(ids, id);
  if (depth == MAX_DEPTH) return true; /* only a vocabulary of empty tokens is so deep */
  size_t left = word_bytes(bpe, tn_token_table_text(bpe->table, (size_t)way->left));
  if (left > text.bytes) left = text.bytes;
  return add_result(bpe, way->left, (tn_text){text.data, left}, depth + 1, ids) &&
         add_result(bpe, way->right, (tn_text){text.data + left, text.bytes - left}, depth + 1, ids);
}

/* The token that is the whole word; -1: there is none. */
static int32_t whole_word(const tn_bpe *bpe, tn_bpe_work *work, tn_text word) {
  if (!bpe->byte_level) return find_token(bpe, word);
  if (word.bytes > bpe->longest) return -1;
  tn_buf_clear(&work->key);
  for (size_t i = 0; i < word.bytes; i++) {
    char written[2];
    tn_buf_append(&work->key, written, tn_byte_level_character((unsigned char)word.data[i], written));
  }
  return work->key.failed ? -1 : find_token(bpe, (tn_text){work->key.data, work->key.size});
}

static bool encode_word(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, tn_ids *ids) {
  if (bpe->ignore_merges) {
    int32_t id = whole_word(bpe, work, word);
    if (id >= 0 && (size_t)id < bpe->vocab_count) return tn_ids_add(ids, id);
  }
  if (!split_symbols(bpe, work, word) || !merge_all(bpe, work, word)) return false;
  for (int32_t i = work->symbol_count ? 0 : -1; i >= 0; i = work->symbols[i].next) {
    const tn_bpe_symbol *symbol = &work->symbols[i];
    if (!add_result(bpe, symbol->id, (tn_text){word.data + symbol->start, symbol->bytes}, 0, ids)) return false;
  }
  return true;
}

static bool encode_cached(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, tn_ids *ids) {
  if (!work->cache || word.bytes > TN_WORD_CACHE_LONGEST) return encode_word(bpe, work, word, ids);
  const int32_t *known;
  size_t count;
  uint64_t hash = tn_hash_bytes(word.data, word.bytes, 0);
  if (tn_word_cache_find(work->cache, word, hash, &known, &count)) {
    for (size_t i = 0; i < count; i++)
      if (!tn_ids_add(ids, known[i])) return false;
    return true;
  }
  size_t before = ids->count;
  if (!encode_word(bpe, work, word, ids)) return false;
  tn_word_cache_add(work->cache, word, hash, ids->data + before, ids->count - before);
  return true;
}

size_t tn_bpe_least(const tn_bpe *bpe, tn_text word) {
  bool is_known[256]; /* bytes that are never left out, whatever they are merged to */
  size_t known = 0, sure = 0;
  for (size_t i = 0; i < TN_COUNT(is_known); i++) {
    is_known[i] = bpe->byte_ids[i] >= 0 && (size_t)bpe->byte_ids[i] < bpe->vocab_count;
    known += is_known[i];
  }
  if (!bpe->longest || !(bpe->byte_level || (bpe->byte_fallback && known == TN_COUNT(is_known)))) return 0;
  for (size_t i = 0; i < word.bytes; i++) sure += is_known[(unsigned char)word.data[i]];
  return (sure + bpe->longest - 1) / bpe->longest;
}

bool tn_bpe_encode(const tn_bpe *bpe, tn_bpe_work *work, tn_text word, tn_ids *ids) {
  if (!bpe->splits_at_marker) return encode_cached(bpe, work, word, ids);
  /* No merge can cross a border in front of a marker that no token has: the parts are encoded one by one. */
  size_t start = 0;
  for (size_t i = 1; i + 3 <= word.bytes; i++) {
    if (word.data[i] != MARKER[0] || memcmp(word.data + i, MARKER, 3) != 0) continue;
    unsigned char before = (unsigned char)word.data[i - 1];
    if (bpe->joins_marker[before / 8] >> (before % 8) & 1) continue;
    if (!encode_cached(bpe, work, (tn_text){word.data + start, i - start}, ids)) return false;
    start = i;
  }
  return start == word.bytes || encode_cached(bpe, work, (tn_text){word.data + start, word.bytes - start}, ids);
}

void tn_bpe_work_use_cache(tn_bpe_work *work) {
  if (!work->cache) work->cache = tn_word_cache_create();
}

void tn_bpe_work_finish(tn_bpe_work *work) {
  free(work->symbols);
  free(work->heap);
  tn_word_cache_destroy(work->cache);
  tn_buf_finish(&work->key);
  *work = (tn_bpe_work){0};
}
