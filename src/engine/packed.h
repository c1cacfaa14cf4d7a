/* The packed form of a device's weights, stored on disk, so that a later start need not pack them, and a model larger
 * than memory runs from its file.
 *
 *   "TNPACKED"  u32 version  u32 key bytes  u64 data at  u64 data bytes  u64 pieces
 *   key         text that names everything the data depends on: it is compared in full
 *   zeros       to `data at`
 *   data        the device's weight memory, byte for byte
 *   u64 hash of each piece of the data, then u64 hash of the head, the key and those hashes
 *
 * Numbers are little endian. A file that is another version, of another key, cut off or altered is no error: it counts
 * as none and is written anew. It appears under its name only when it is whole. */
#ifndef TENON_ENGINE_PACKED_H
#define TENON_ENGINE_PACKED_H

#include <stdbool.h>
#include <stdint.h>
#include "base/memory.h"
#include "base/os.h"

#define TN_PACKED_VERSION 1u
#define TN_PACKED_PIECE ((uint64_t)4 << 20) /* most bytes under one hash */

typedef struct tn_packed_piece {
  uint64_t offset, bytes; /* in the data */
} tn_packed_piece;

typedef struct tn_packed {
  char *path;
  tn_buf key;
  tn_packed_piece *pieces;
  size_t piece_count, piece_capacity;
  uint64_t data_bytes;
} tn_packed;

/* Fill `key` and `data_bytes`, add the weights in rising order, then set the path. */
void tn_packed_init(tn_packed *packed);
void tn_packed_finish(tn_packed *packed);
/* Notes that the data has a weight of `bytes` at `offset`; false when memory is out. */
bool tn_packed_add(tn_packed *packed, uint64_t offset, uint64_t bytes);

/* Is there a file at `path` with this key? Its data then begins at *data_at, and *hashes (free() it) are those of the
 * pieces. `reason` says why not. */
bool tn_packed_find(const tn_packed *packed, uint64_t *data_at, uint64_t **hashes, char *reason, size_t capacity);
/* Does `data` have these hashes? Looks at every byte, on all processors. */
bool tn_packed_verify(const tn_packed *packed, const uint8_t *data, const uint64_t *hashes);

/* Writing, weight after weight in the order of tn_packed_add. Open refuses with both numbers when the disk would be
 * left with less than a little. Every open writer ends with commit or discard. */
typedef struct tn_packed_writer {
  const tn_packed *packed;
  tn_file_writer *file;
  uint64_t *hashes;
  size_t next;      /* piece */
  uint64_t written; /* bytes of data */
} tn_packed_writer;
tn_status tn_packed_writer_open(tn_packed_writer *writer, const tn_packed *packed, tn_error *error);
tn_status tn_packed_writer_append(tn_packed_writer *writer, const uint8_t *weight, uint64_t bytes, tn_error *error);
tn_status tn_packed_writer_commit(tn_packed_writer *writer, tn_error *error);
void tn_packed_writer_discard(tn_packed_writer *writer);

/* Writing from memory that stays as it is, on a thread of its own. Failures are logged: the next start tries again. */
typedef struct tn_packed_store tn_packed_store;
/* Takes over `packed`, after a failure too. `data` must stay until the store has ended. NULL when it can't begin. */
tn_packed_store *tn_packed_store_start(tn_packed *packed, const uint8_t *data);
/* Waits a few seconds for it, then gives it up. NULL is allowed. */
void tn_packed_store_end(tn_packed_store *store);

#endif
