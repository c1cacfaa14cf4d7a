/* Saving the prefix cache (see cache_file.h). */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/os.h"
#include "engine/cache_format.h"

tn_status cache_describe(tn_kv *kv, cache_header *header, tn_error *error) {
  *header = (cache_header){.magic = CACHE_MAGIC,
                           .version = CACHE_VERSION,
                           .page_slots = TN_PAGE_SLOTS,
                           .state_bytes = kv->info.state_bytes,
                           .group_count = kv->info.group_count,
                           .vocabulary = kv->info.vocabulary};
  for (uint32_t g = 0; g < kv->info.group_count; g++) {
    header->page_bytes[g] = kv->info.groups[g].page_bytes;
    header->windows[g] = kv->info.groups[g].window;
  }
  return tn_runner_fingerprint(kv->runner, &header->model, &header->configuration, error);
}

uint64_t cache_part_bytes(const cache_header *header, uint32_t parts) {
  uint64_t bytes = parts & CACHE_HAS_STATE ? header->state_bytes : 0;
  for (uint32_t g = 0; g < header->group_count; g++)
    if (parts >> g & 1) bytes += header->page_bytes[g];
  return bytes;
}

uint64_t cache_add_block(uint64_t checksum, const void *block, size_t bytes) {
  return tn_hash_bytes(block, bytes, checksum);
}

uint64_t tn_cache_checksum(const void *data, size_t size) {
  uint64_t checksum = 0;
  for (size_t at = 0; at < size; at += CACHE_BLOCK)
    checksum = cache_add_block(checksum, (const char *)data + at, size - at < CACHE_BLOCK ? size - at : CACHE_BLOCK);
  return checksum;
}

typedef struct saver {
  tn_kv *kv;
  tn_file_writer *writer;
  uint64_t checksum;
  uint32_t *nodes; /* what is saved, each behind its parent */
  uint32_t count;
  uint32_t *numbers;    /* of each node of the prefix cache: its number in the file */
  unsigned char *block; /* [CACHE_BLOCK]: what waits to be written */
  size_t filled;
  unsigned char *part; /* a page or a snapshot */
} saver;

/* ---- what to save ---- */

/* The nodes that stand for the first full pages of the tokens. */
static void find_path(saver *s, const tn_cache_saving *saving) {
  uint32_t parent = TN_NO_NODE;
  for (uint32_t i = 0; i < saving->count / TN_PAGE_SLOTS; i++) {
    uint32_t node = tn_prefix_find(s->kv->prefix, saving->salt, parent, saving->tokens + (size_t)i * TN_PAGE_SLOTS);
    if (node == TN_NO_NODE) break;
    s->nodes[s->count++] = parent = node;
  }
}

static tn_status choose_nodes(saver *s, const tn_cache_saving *saving, tn_error *error) {
  if (saving->tokens) {
    find_path(s, saving);
    return TN_OK;
  }
  s->count = tn_prefix_count(s->kv->prefix);
  return tn_prefix_list(s->kv->prefix, s->nodes, error);
}

static cache_node describe_node(const saver *s, uint32_t node) {
  const tn_prefix *prefix = s->kv->prefix;
  uint32_t parent = tn_prefix_parent(prefix, node);
  size_t salt_bytes;
  tn_salt_text(tn_prefix_salt(prefix, node), &salt_bytes);
  cache_node described = {.parent = parent == TN_NO_NODE ? CACHE_NO_PARENT : s->numbers[parent],
                          .salt_bytes = (uint32_t)salt_bytes};
  for (uint32_t g = 0; g < s->kv->info.group_count; g++)
    if (tn_prefix_page(prefix, node, g) != TN_NO_PAGE) described.parts |= 1u << g;
  if (tn_prefix_state(prefix, node) != TN_NO_STATE) described.parts |= CACHE_HAS_STATE;
  memcpy(described.tokens, tn_prefix_tokens(prefix, node), sizeof described.tokens);
  return described;
}

/* ---- writing ---- */

static tn_status flush_block(saver *s, tn_error *error) {
  s->checksum = cache_add_block(s->checksum, s->block, s->filled);
  tn_status status = tn_file_writer_append(s->writer, s->block, s->filled, error);
  s->filled = 0;
  return status;
}

static tn_status put(saver *s, const void *data, size_t bytes, tn_error *error) {
  const unsigned char *from = data;
  tn_status status = TN_OK;
  while (bytes && status == TN_OK) {
    size_t room = CACHE_BLOCK - s->filled, some = bytes < room ? bytes : room;
    memcpy(s->block + s->filled, from, some);
    s->filled += some;
    from += some;
    bytes -= some;
    if (s->filled == CACHE_BLOCK) status = flush_block(s, error);
  }
  return status;
}

static tn_status put_node(saver *s, uint32_t number, tn_error *error) {
  uint32_t node = s->nodes[number];
  s->numbers[node] = number;
  const cache_node described = describe_node(s, node);
  size_t salt_bytes;
  const char *salt = tn_salt_text(tn_prefix_salt(s->kv->prefix, node), &salt_bytes);
  tn_status status = put(s, &described, sizeof described, error);
  if (status == TN_OK) status = put(s, salt, salt_bytes, error);
  for (uint32_t g = 0; g < s->kv->info.group_count && status == TN_OK; g++) {
    if (!(described.parts >> g & 1)) continue;
    status = tn_runner_read_page(s->kv->runner, g, tn_prefix_page(s->kv->prefix, node, g), s->part, error);
    if (status == TN_OK) status = put(s, s->part, s->kv->info.groups[g].page_bytes, error);
  }
  if (status == TN_OK && described.parts & CACHE_HAS_STATE) {
    status = tn_runner_read_state(s->kv->runner, tn_prefix_state(s->kv->prefix, node), s->part, error);
    if (status == TN_OK) status = put(s, s->part, s->kv->info.state_bytes, error);
  }
  return status;
}

static tn_status put_all(saver *s, const tn_cache_saving *saving, tn_error *error) {
  const char *note = saving->note ? saving->note : "";
  cache_header header;
  tn_status status = cache_describe(s->kv, &header, error);
  if (status != TN_OK) return status;
  if (strlen(note) > CACHE_MOST_NOTE)
    return tn_fail(error, TN_E_LIMIT, "a note of %zu bytes; at most %u are kept", strlen(note), CACHE_MOST_NOTE);
  header.node_count = s->count;
  header.note_bytes = (uint32_t)strlen(note);
  header.bytes = sizeof header + header.note_bytes + sizeof s->checksum;
  for (uint32_t i = 0; i < s->count; i++) {
    const cache_node node = describe_node(s, s->nodes[i]);
    header.bytes += sizeof node + node.salt_bytes + cache_part_bytes(&header, node.parts);
  }
  status = put(s, &header, sizeof header, error);
  if (status == TN_OK) status = put(s, note, header.note_bytes, error);
  for (uint32_t i = 0; i < s->count && status == TN_OK; i++) status = put_node(s, i, error);
  if (status == TN_OK && s->filled) status = flush_block(s, error);
  return status == TN_OK ? tn_file_writer_append(s->writer, &s->checksum, sizeof s->checksum, error) : status;
}

static tn_status take_room(saver *s, tn_error *error) {
  uint64_t most = s->kv->info.state_bytes;
  for (uint32_t g = 0; g < s->kv->info.group_count; g++)
    if (s->kv->info.groups[g].page_bytes > most) most = s->kv->info.groups[g].page_bytes;
  uint32_t capacity = tn_prefix_capacity(s->kv->prefix);
  s->nodes = tn_calloc(capacity, sizeof *s->nodes);
  s->numbers = tn_calloc(capacity, sizeof *s->numbers);
  s->block = tn_calloc(CACHE_BLOCK, 1);
  s->part = tn_calloc(most + 1, 1);
  bool complete = s->nodes && s->numbers && s->block && s->part;
  return complete ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory to save the prefix cache");
}

tn_status tn_cache_save(tn_kv *kv, const tn_cache_saving *saving, const char *path, tn_error *error) {
  saver s = {.kv = kv};
  if (!kv->prefix) return tn_fail(error, TN_E_UNSUPPORTED, "%s: there is no prefix cache to save", path);
  tn_status status = take_room(&s, error);
  if (status == TN_OK) status = choose_nodes(&s, saving, error);
  if (status == TN_OK) status = tn_file_writer_open(&s.writer, path, error);
  if (status == TN_OK) {
    status = tn_file_writer_keep_private(s.writer, error);
    if (status == TN_OK) status = put_all(&s, saving, error);
    if (status == TN_OK) {
      status = tn_file_writer_commit(s.writer, error);
    } else {
      tn_file_writer_discard(s.writer);
    }
  }
  free(s.nodes);
  free(s.numbers);
  free(s.block);
  free(s.part);
  return status;
}
