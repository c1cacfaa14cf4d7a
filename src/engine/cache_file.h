/* The prefix cache on disk: what tn_prefix holds, or the path of one sequence in it (a session), with the bytes of
 * pages and snapshots.
 *
 *   header   magic, version, fingerprints of model and configuration, geometry, sizes
 *   note     text of whoever saved it
 *   nodes    each behind its parent, those used last first: parent, salt, tokens, then the bytes of each page it has
 * and of its snapshot checksum over everything before
 *
 * All numbers are little-endian. A file is written under a temporary name and renamed when it is whole. A load checks
 * the whole file, checksum and structure, before the first byte reaches the cache; then each page is written to the
 * device before its node is made, so that a failure leaves only whole nodes behind. */
#ifndef TENON_ENGINE_CACHE_FILE_H
#define TENON_ENGINE_CACHE_FILE_H

#include "engine/kv.h"

/* What is saved. */
typedef struct tn_cache_saving {
  const int32_t *tokens; /* the path of these alone; NULL: everything */
  uint32_t count;
  const tn_salt *salt;
  const char *note; /* NULL: "" */
} tn_cache_saving;

/* TN_E_UNSUPPORTED: there is no prefix cache. On failure what was at `path` is still there. */
tn_status tn_cache_save(tn_kv *kv, const tn_cache_saving *saving, const char *path, tn_error *error);

/* Adds what a file holds to the cache, those used last first, as far as free pages reach. TN_E_NOT_FOUND, TN_E_IO;
 * TN_E_FORMAT: no such file, or cut off or altered; TN_E_UNSUPPORTED: of another version, model, configuration or
 * geometry. *note (may be NULL) is the note, free() it; also given when the file is whole and only its KV can't be
 * used, else NULL. *tokens (may be NULL): how many the cache now knows of the file's. */
tn_status tn_cache_load(tn_kv *kv, const char *path, char **note, uint64_t *tokens, tn_error *error);
/* The same of a file in memory; errors call it `name`. */
tn_status tn_cache_load_bytes(tn_kv *kv, const char *name, const void *data, size_t size, char **note, uint64_t *tokens,
                              tn_error *error);

/* The checksum that stands behind the first `size` bytes of a file. */
uint64_t tn_cache_checksum(const void *data, size_t size);

#endif
