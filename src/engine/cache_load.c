/* Loading a saved prefix cache (see cache_file.h). */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "engine/cache_format.h"

/* A file in memory, and where reading is. */
typedef struct loader {
  tn_kv *kv;
  const char *name;
  const unsigned char *data;
  size_t at, end; /* end: where the checksum begins */
  cache_header header;
  uint32_t *nodes; /* of each node of the file: that of the cache, in use; TN_NO_NODE: not loaded */
} loader;

/* ---- the file as a whole ---- */

static tn_status check_whole(loader *l, size_t size, tn_error *error) {
  cache_header *header = &l->header;
  size_t magic = size < sizeof header->magic ? size : sizeof header->magic;
  if (size && memcmp(l->data, CACHE_MAGIC, magic) != 0)
    return tn_fail(error, TN_E_INVALID, "%s: not a saved cache of tenon", l->name);
  if (size < sizeof *header + sizeof(uint64_t))
    return tn_fail(error, TN_E_FORMAT, "%s: %zu bytes: it was cut off", l->name, size);
  memcpy(header, l->data, sizeof *header);
  if (header->version != CACHE_VERSION)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: version %u of the format; this tenon reads %u", l->name,
                   header->version, CACHE_VERSION);
  if (header->bytes != size)
    return tn_fail(error, TN_E_FORMAT, "%s: %zu bytes, %llu expected: it was cut off or altered", l->name, size,
                   (unsigned long long)header->bytes);
  uint64_t checksum;
  l->end = size - sizeof checksum;
  memcpy(&checksum, l->data + l->end, sizeof checksum);
  if (checksum != tn_cache_checksum(l->data, l->end))
    return tn_fail(error, TN_E_FORMAT, "%s: the checksum is wrong: the file was altered", l->name);
  l->at = sizeof *header;
  if (header->note_bytes > l->end - l->at || memchr(l->data + l->at, 0, header->note_bytes))
    return tn_fail(error, TN_E_FORMAT, "%s: a note of %u bytes is not in it", l->name, header->note_bytes);
  return TN_OK;
}

/* Of the model, configuration and geometry of this cache? */
static tn_status check_origin(const loader *l, tn_error *error) {
  const cache_header *header = &l->header;
  cache_header own;
  tn_status status = cache_describe(l->kv, &own, error);
  if (status != TN_OK) return status;
  if (header->model != own.model)
    return tn_fail(error, TN_E_UNSUPPORTED,
                   "%s: saved with another model: its weights have fingerprint %016llx, not %016llx", l->name,
                   (unsigned long long)header->model, (unsigned long long)own.model);
  if (header->configuration != own.configuration)
    return tn_fail(error, TN_E_UNSUPPORTED,
                   "%s: saved in another configuration (device, KV type, activations, passes or version of tenon)",
                   l->name);
  if (header->page_slots != own.page_slots || header->group_count != own.group_count ||
      header->state_bytes != own.state_bytes || header->vocabulary != own.vocabulary ||
      memcmp(header->page_bytes, own.page_bytes, sizeof own.page_bytes) != 0 ||
      memcmp(header->windows, own.windows, sizeof own.windows) != 0)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: its pages have another form", l->name);
  return TN_OK;
}

/* ---- nodes ---- */

/* The next node; *salt and *parts_at point into the file. False: it isn't sound. */
static bool read_node(loader *l, uint32_t number, cache_node *node, const char **salt, const unsigned char **parts_at) {
  if (l->end - l->at < sizeof *node) return false;
  memcpy(node, l->data + l->at, sizeof *node);
  l->at += sizeof *node;
  uint32_t known = CACHE_HAS_STATE | ((1u << l->header.group_count) - 1);
  bool is_first = node->parent == CACHE_NO_PARENT;
  if ((!is_first && node->parent >= number) || (node->parts & ~known) || node->reserved) return false;
  if (node->parts & CACHE_HAS_STATE && !l->header.state_bytes) return false;
  if (node->salt_bytes > (is_first ? TN_SALT_BYTES : 0) || node->salt_bytes > l->end - l->at) return false;
  for (uint32_t i = 0; i < TN_PAGE_SLOTS; i++)
    if (node->tokens[i] < 0 || (uint32_t)node->tokens[i] >= l->header.vocabulary) return false;
  *salt = (const char *)l->data + l->at;
  l->at += node->salt_bytes;
  *parts_at = l->data + l->at;
  uint64_t bytes = cache_part_bytes(&l->header, node->parts);
  if (bytes > l->end - l->at || memchr(*salt, 0, node->salt_bytes)) return false;
  l->at += bytes;
  return true;
}

static tn_status check_nodes(loader *l, tn_error *error) {
  cache_node node;
  const char *salt;
  const unsigned char *parts;
  size_t begin = l->at;
  for (uint32_t i = 0; i < l->header.node_count; i++)
    if (!read_node(l, i, &node, &salt, &parts))
      return tn_fail(error, TN_E_FORMAT, "%s: node %u of %u is not sound", l->name, i, l->header.node_count);
  if (l->at != l->end)
    return tn_fail(error, TN_E_FORMAT, "%s: %zu bytes behind the last node", l->name, l->end - l->at);
  l->at = begin;
  return TN_OK;
}

typedef enum taken { TAKEN, NO_ROOM, FAILED } taken;

/* Pages of the node's parts, filled from the file; none are held when this gives anything but TAKEN. */
static taken take_pages(loader *l, const cache_node *node, const unsigned char **parts, uint32_t *pages,
                        tn_error *error) {
  tn_kv *kv = l->kv;
  taken answer = TAKEN;
  uint32_t g = 0;
  for (; g < kv->info.group_count; g++) {
    pages[g] = TN_NO_PAGE;
    if (!(node->parts >> g & 1)) continue;
    pages[g] = tn_pages_take(kv->pages, g);
    if (pages[g] == TN_NO_PAGE) answer = NO_ROOM;
    if (answer == TAKEN && tn_runner_write_page(kv->runner, g, pages[g], *parts, error) != TN_OK) answer = FAILED;
    *parts += kv->info.groups[g].page_bytes;
  }
  while (answer != TAKEN && g-- > 0)
    if (pages[g] != TN_NO_PAGE) tn_pages_release(kv->pages, g, pages[g]);
  return answer;
}

/* Gives a node in use the snapshot of the file, if a slot is free. */
static tn_status load_state(loader *l, uint32_t node, const unsigned char *from, tn_error *error) {
  tn_kv *kv = l->kv;
  if (tn_prefix_state(kv->prefix, node) != TN_NO_STATE) return TN_OK;
  uint32_t slot = tn_states_take(kv->states);
  if (slot == TN_NO_STATE) return TN_OK;
  tn_status status = tn_runner_write_state(kv->runner, slot, from, error);
  if (status == TN_OK) tn_prefix_keep_state(kv->prefix, node, slot);
  tn_states_release(kv->states, slot);
  return status;
}

/* Makes the next node of the file one of the cache. *node: it, in use; TN_NO_NODE: it found no room. */
static tn_status load_node(loader *l, uint32_t number, uint32_t *node, tn_error *error) {
  tn_prefix *prefix = l->kv->prefix;
  cache_node from = {0};
  const char *salt_text = "";
  const unsigned char *parts = NULL;
  read_node(l, number, &from, &salt_text, &parts); /* it is sound: check_nodes */
  *node = TN_NO_NODE;
  uint32_t parent = from.parent == CACHE_NO_PARENT ? TN_NO_NODE : l->nodes[from.parent];
  if (from.parent != CACHE_NO_PARENT && parent == TN_NO_NODE) return TN_OK;
  char *text = tn_copy_text(salt_text, from.salt_bytes);
  tn_salt *salt = text && *text ? tn_salt_create(text) : NULL;
  bool complete = text && (salt || !*text);
  free(text);
  if (!complete) return tn_fail(error, TN_E_MEMORY, "%s: no memory for a salt", l->name);
  taken pages_taken = TAKEN;
  uint32_t pages[TN_MAX_GROUPS];
  *node = tn_prefix_find(prefix, salt, parent, from.tokens);
  if (*node != TN_NO_NODE) {
    tn_prefix_use(prefix, *node);
    parts += cache_part_bytes(&l->header, from.parts & ~CACHE_HAS_STATE);
  } else if ((pages_taken = take_pages(l, &from, &parts, pages, error)) == TAKEN) {
    *node = tn_prefix_add(prefix, salt, parent, from.tokens, pages);
    for (uint32_t g = 0; g < l->kv->info.group_count; g++)
      if (pages[g] != TN_NO_PAGE) tn_pages_release(l->kv->pages, g, pages[g]);
  }
  tn_salt_release(salt);
  if (pages_taken == FAILED) return error->status;
  bool has_state = *node != TN_NO_NODE && from.parts & CACHE_HAS_STATE;
  return has_state ? load_state(l, *node, parts, error) : TN_OK;
}

static tn_status load_nodes(loader *l, uint64_t *tokens, tn_error *error) {
  tn_status status = TN_OK;
  uint32_t count = 0;
  for (; count < l->header.node_count && status == TN_OK; count++) {
    status = load_node(l, count, &l->nodes[count], error);
    if (l->nodes[count] != TN_NO_NODE) *tokens += TN_PAGE_SLOTS;
  }
  /* from the last to the first, so that those used last are so again */
  while (count-- > 0)
    if (l->nodes[count] != TN_NO_NODE) tn_prefix_unuse(l->kv->prefix, l->nodes[count]);
  return status;
}

tn_status tn_cache_load_bytes(tn_kv *kv, const char *name, const void *data, size_t size, char **note, uint64_t *tokens,
                              tn_error *error) {
  loader l = {.kv = kv, .name = name, .data = data};
  tn_error own = {0};
  uint64_t loaded = 0;
  if (note) *note = NULL;
  if (tokens) *tokens = 0;
  if (!error) error = &own;
  if (!kv->prefix) return tn_fail(error, TN_E_UNSUPPORTED, "%s: there is no prefix cache to load it into", name);
  tn_status status = check_whole(&l, size, error);
  if (status != TN_OK) return status;
  if (note && !(*note = tn_copy_text(l.data + l.at, l.header.note_bytes)))
    return tn_fail(error, TN_E_MEMORY, "%s: no memory for a note of %u bytes", name, l.header.note_bytes);
  l.at += l.header.note_bytes;
  status = check_origin(&l, error);
  if (status == TN_OK) status = check_nodes(&l, error);
  if (status != TN_OK) return status;
  l.nodes = tn_calloc(l.header.node_count, sizeof *l.nodes);
  if (!l.nodes) return tn_fail(error, TN_E_MEMORY, "%s: no memory for %u pages", name, l.header.node_count);
  status = load_nodes(&l, &loaded, error);
  free(l.nodes);
  if (tokens) *tokens = loaded;
  return status;
}

tn_status tn_cache_load(tn_kv *kv, const char *path, char **note, uint64_t *tokens, tn_error *error) {
  tn_file_map map;
  if (note) *note = NULL;
  if (tokens) *tokens = 0;
  tn_status status = tn_file_map_open(&map, path, error);
  if (status != TN_OK) return status;
  status = tn_cache_load_bytes(kv, path, map.data, map.size, note, tokens, error);
  tn_file_map_close(&map);
  return status;
}
