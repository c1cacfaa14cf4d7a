/* Inside the cache file: what saving and loading share (cache_file.h). */
#ifndef TENON_ENGINE_CACHE_FORMAT_H
#define TENON_ENGINE_CACHE_FORMAT_H

#include "engine/cache_file.h"

#define CACHE_MAGIC "tenon kv"
#define CACHE_VERSION 1u
#define CACHE_NO_PARENT UINT32_MAX
#define CACHE_HAS_STATE (1u << 31) /* of cache_node.parts; bit g: a page of group g */
#define CACHE_MOST_NOTE ((uint32_t)64 << 20)

typedef struct cache_header {
  char magic[8];
  uint32_t version, page_slots;
  uint64_t model, configuration; /* tn_runner_fingerprint */
  uint64_t bytes;                /* of the file, checksum included */
  uint64_t state_bytes;          /* of a snapshot */
  uint32_t group_count, node_count;
  uint32_t note_bytes, vocabulary;
  uint64_t page_bytes[TN_MAX_GROUPS];
  uint32_t windows[TN_MAX_GROUPS];
} cache_header;

/* Followed by the salt, the pages in the order of their groups, and the snapshot. */
typedef struct cache_node {
  uint32_t parent; /* number of the node in the file; CACHE_NO_PARENT: a first page */
  uint32_t salt_bytes;
  uint32_t parts;
  uint32_t reserved; /* 0 */
  int32_t tokens[TN_PAGE_SLOTS];
} cache_node;

/* The header of files of this kv, the sizes left 0. */
tn_status cache_describe(tn_kv *kv, cache_header *header, tn_error *error);
/* Bytes of the pages and the snapshot of a node with `parts`. */
uint64_t cache_part_bytes(const cache_header *header, uint32_t parts);
/* The checksum of bytes that come piece by piece. */
#define CACHE_BLOCK ((size_t)1 << 16)
uint64_t cache_add_block(uint64_t checksum, const void *block, size_t bytes);

#endif
