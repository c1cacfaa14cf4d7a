#include "engine/packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

#define DATA_ALIGNMENT ((uint64_t)65536) /* what a device's map asks for */
#define MOST_KEY ((uint64_t)256 << 20)
#define DISK_RESERVE ((uint64_t)256 << 20) /* left free, and a sixteenth of what is written */
#define MAX_CHECKERS 8u
#define STORE_PATIENCE_NS UINT64_C(5000000000)

static const char magic[8] = {'T', 'N', 'P', 'A', 'C', 'K', 'E', 'D'};

typedef struct packed_head {
  char magic[8];
  uint32_t version, key_bytes;
  uint64_t data_at, data_bytes, pieces;
} packed_head;

static packed_head head_of(const tn_packed *packed) {
  packed_head head = {.version = TN_PACKED_VERSION,
                      .key_bytes = (uint32_t)packed->key.size,
                      .data_at = tn_round_up(sizeof head + packed->key.size, DATA_ALIGNMENT),
                      .data_bytes = packed->data_bytes,
                      .pieces = packed->piece_count};
  memcpy(head.magic, magic, sizeof magic);
  return head;
}

static uint64_t file_bytes(const packed_head *head) {
  return head->data_at + head->data_bytes + (head->pieces + 1) * sizeof(uint64_t);
}

/* Over the head, the key, and the hashes of the pieces. */
static uint64_t seal_of(const packed_head *head, const tn_packed *packed, const uint64_t *hashes) {
  uint64_t seal = tn_hash_bytes(head, sizeof *head, TN_PACKED_VERSION);
  seal = tn_hash_bytes(packed->key.data, packed->key.size, seal);
  return tn_hash_bytes(hashes, head->pieces * sizeof *hashes, seal);
}

static uint64_t hash_piece(const uint8_t *data, uint64_t bytes) {
  return tn_hash_bytes(data, bytes, bytes);
}

void tn_packed_init(tn_packed *packed) {
  *packed = (tn_packed){0};
  tn_buf_init(&packed->key);
  packed->key.limit = MOST_KEY;
}

void tn_packed_finish(tn_packed *packed) {
  tn_buf_finish(&packed->key);
  free(packed->pieces);
  free(packed->path);
  *packed = (tn_packed){0};
}

bool tn_packed_add(tn_packed *packed, uint64_t offset, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += TN_PACKED_PIECE) {
    tn_packed_piece *piece = TN_PUSH(packed->pieces, packed->piece_count, packed->piece_capacity);
    if (!piece) return false;
    *piece = (tn_packed_piece){offset + done, bytes - done < TN_PACKED_PIECE ? bytes - done : TN_PACKED_PIECE};
  }
  return true;
}

/* ---- reading ---- */

/* Why the file isn't that of `packed`, or NULL. */
static const char *file_fault(const tn_packed *packed, const tn_file_map *map) {
  const packed_head head = head_of(packed);
  packed_head found;
  if (map->size < sizeof found) return "it is cut off";
  memcpy(&found, map->data, sizeof found);
  if (memcmp(found.magic, magic, sizeof magic)) return "it is no packed form";
  if (found.version != head.version) return "it is of another version";
  if (memcmp(&found, &head, sizeof head)) return "it is of other weights";
  if (map->size != file_bytes(&head)) return "it has another size than it says";
  if (memcmp(map->data + sizeof head, packed->key.data, packed->key.size))
    return "it is of another model file, device or version";
  return NULL;
}

bool tn_packed_find(const tn_packed *packed, uint64_t *data_at, uint64_t **out, char *reason, size_t capacity) {
  tn_file_map map;
  tn_error error = {0};
  *out = NULL;
  if (tn_file_map_open(&map, packed->path, &error) != TN_OK) {
    snprintf(reason, capacity, "%s", error.message);
    return false;
  }
  const char *fault = file_fault(packed, &map);
  const packed_head head = head_of(packed);
  uint64_t *hashes = fault ? NULL : tn_calloc(packed->piece_count + 1, sizeof *hashes);
  if (hashes) {
    memcpy(hashes, map.data + head.data_at + head.data_bytes, (packed->piece_count + 1) * sizeof *hashes);
    if (hashes[packed->piece_count] != seal_of(&head, packed, hashes)) fault = "its checksums are altered";
  } else if (!fault) {
    fault = "memory is out";
  }
  tn_file_map_close(&map);
  if (!fault) {
    *data_at = head.data_at;
    *out = hashes;
    return true;
  }
  free(hashes);
  snprintf(reason, capacity, "%s: %s", packed->path, fault);
  return false;
}

typedef struct checker {
  const tn_packed *packed;
  const uint8_t *data;
  const uint64_t *hashes;
  size_t first, step;
  bool equal;
} checker;

static void check_pieces(void *argument) {
  checker *c = argument;
  c->equal = true;
  for (size_t i = c->first; i < c->packed->piece_count && c->equal; i += c->step) {
    const tn_packed_piece *piece = c->packed->pieces + i;
    c->equal = hash_piece(c->data + piece->offset, piece->bytes) == c->hashes[i];
  }
}

bool tn_packed_verify(const tn_packed *packed, const uint8_t *data, const uint64_t *hashes) {
  checker checkers[MAX_CHECKERS];
  tn_thread *threads[MAX_CHECKERS] = {NULL};
  size_t count = tn_machine_cpus() < MAX_CHECKERS ? tn_machine_cpus() : MAX_CHECKERS;
  for (size_t i = count; i-- > 0;) {
    checkers[i] = (checker){.packed = packed, .data = data, .hashes = hashes, .first = i, .step = count};
    if (i) threads[i] = tn_thread_start("check weights", check_pieces, checkers + i);
    if (!threads[i]) check_pieces(checkers + i);
  }
  bool equal = true;
  for (size_t i = 0; i < count; i++) {
    if (threads[i]) tn_thread_join(threads[i]);
    equal = equal && checkers[i].equal;
  }
  return equal;
}

/* ---- writing ---- */

/* The folder of `path`, made if it isn't there, has room for the file. */
static tn_status check_room(const char *path, uint64_t bytes, tn_error *error) {
  const char *slash = strrchr(path, '/');
  char *folder = slash && slash > path ? tn_copy_text(path, (size_t)(slash - path)) : tn_copy_text(".", 1);
  if (!folder) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  tn_status status = tn_folder_make(folder, error);
  uint64_t needed = bytes + bytes / 16 + DISK_RESERVE, present = status == TN_OK ? tn_disk_free(folder) : 0;
  if (status == TN_OK && present < needed)
    status = tn_fail(error, TN_E_LIMIT, "%s: the packed form needs %llu bytes on disk, %llu are free", folder,
                     (unsigned long long)needed, (unsigned long long)present);
  free(folder);
  return status;
}

static tn_status append_zeros(tn_packed_writer *writer, uint64_t count, tn_error *error) {
  static const uint8_t zeros[4096];
  while (count) {
    size_t part = count < sizeof zeros ? (size_t)count : sizeof zeros;
    tn_status status = tn_file_writer_append(writer->file, zeros, part, error);
    if (status != TN_OK) return status;
    count -= part;
  }
  return TN_OK;
}

tn_status tn_packed_writer_open(tn_packed_writer *writer, const tn_packed *packed, tn_error *error) {
  const packed_head head = head_of(packed);
  *writer = (tn_packed_writer){.packed = packed, .hashes = tn_calloc(packed->piece_count + 1, sizeof(uint64_t))};
  if (!writer->hashes) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = check_room(packed->path, file_bytes(&head), error);
  if (status == TN_OK) status = tn_file_writer_open(&writer->file, packed->path, error);
  if (status == TN_OK) status = tn_file_writer_append(writer->file, &head, sizeof head, error);
  if (status == TN_OK) status = tn_file_writer_append(writer->file, packed->key.data, packed->key.size, error);
  if (status == TN_OK) status = append_zeros(writer, head.data_at - sizeof head - packed->key.size, error);
  if (status != TN_OK) tn_packed_writer_discard(writer);
  return status;
}

tn_status tn_packed_writer_append(tn_packed_writer *writer, const uint8_t *weight, uint64_t bytes, tn_error *error) {
  tn_status status = TN_OK;
  for (uint64_t done = 0; done < bytes && status == TN_OK;) {
    const tn_packed_piece *piece = writer->packed->pieces + writer->next;
    writer->hashes[writer->next++] = hash_piece(weight + done, piece->bytes);
    status = append_zeros(writer, piece->offset - writer->written, error);
    if (status == TN_OK) status = tn_file_writer_append(writer->file, weight + done, piece->bytes, error);
    writer->written = piece->offset + piece->bytes;
    done += piece->bytes;
  }
  return status;
}

tn_status tn_packed_writer_commit(tn_packed_writer *writer, tn_error *error) {
  const packed_head head = head_of(writer->packed);
  writer->hashes[head.pieces] = seal_of(&head, writer->packed, writer->hashes);
  tn_status status = append_zeros(writer, head.data_bytes - writer->written, error);
  if (status == TN_OK)
    status = tn_file_writer_append(writer->file, writer->hashes, (head.pieces + 1) * sizeof *writer->hashes, error);
  if (status == TN_OK) {
    status = tn_file_writer_commit(writer->file, error);
    writer->file = NULL;
  }
  tn_packed_writer_discard(writer);
  return status;
}

void tn_packed_writer_discard(tn_packed_writer *writer) {
  tn_file_writer_discard(writer->file);
  free(writer->hashes);
  *writer = (tn_packed_writer){0};
}

/* ---- in the background ---- */

struct tn_packed_store {
  tn_packed packed;
  const uint8_t *data;
  tn_thread *thread;
  tn_mutex *mutex;
  tn_cond *cond;
  bool ended, given_up; /* under the mutex */
};

static bool is_given_up(tn_packed_store *store) {
  tn_mutex_lock(store->mutex);
  bool given_up = store->given_up;
  tn_mutex_unlock(store->mutex);
  return given_up;
}

static void store_weights(void *argument) {
  tn_packed_store *store = argument;
  tn_packed_writer writer;
  tn_error error = {0};
  tn_status status = tn_packed_writer_open(&writer, &store->packed, &error);
  bool given_up = false, open = status == TN_OK;
  for (size_t i = 0; status == TN_OK && !given_up && i < store->packed.piece_count; i++) {
    const tn_packed_piece *piece = store->packed.pieces + i;
    status = tn_packed_writer_append(&writer, store->data + piece->offset, piece->bytes, &error);
    given_up = is_given_up(store);
  }
  if (open && (status != TN_OK || given_up))
    tn_packed_writer_discard(&writer);
  else if (open)
    status = tn_packed_writer_commit(&writer, &error);
  if (status != TN_OK)
    tn_log(TN_LOG_INFO, "the packed weights were not stored: %s", error.message);
  else if (!given_up)
    tn_log(TN_LOG_INFO, "packed weights stored in %s", store->packed.path);
  tn_mutex_lock(store->mutex);
  store->ended = true;
  tn_cond_broadcast(store->cond);
  tn_mutex_unlock(store->mutex);
}

tn_packed_store *tn_packed_store_start(tn_packed *packed, const uint8_t *data) {
  tn_packed_store *store = tn_calloc(1, sizeof *store);
  if (!store) {
    tn_packed_finish(packed);
    return NULL;
  }
  store->packed = *packed;
  *packed = (tn_packed){0};
  store->data = data;
  store->mutex = tn_mutex_create();
  store->cond = tn_cond_create();
  if (store->mutex && store->cond) store->thread = tn_thread_start("store weights", store_weights, store);
  if (store->thread) return store;
  store->ended = true;
  tn_packed_store_end(store);
  return NULL;
}

void tn_packed_store_end(tn_packed_store *store) {
  if (!store) return;
  if (store->thread) {
    uint64_t deadline = tn_clock_ns() + STORE_PATIENCE_NS;
    tn_mutex_lock(store->mutex);
    while (!store->ended && tn_cond_wait(store->cond, store->mutex, deadline)) continue;
    store->given_up = true;
    tn_mutex_unlock(store->mutex);
    tn_thread_join(store->thread);
  }
  if (store->mutex) tn_mutex_destroy(store->mutex);
  if (store->cond) tn_cond_destroy(store->cond);
  tn_packed_finish(&store->packed);
  free(store);
}
