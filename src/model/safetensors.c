/* Safetensors files and their index (see safetensors.h); the headers are read in safetensors_header.c. */
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/json_reader.h"
#include "model/safetensors_store.h"

#define INDEX_NAME "model.safetensors.index.json"
#define FILE_NAME "model.safetensors"

typedef struct tn_safetensors_store store_t;

static tn_status no_memory(const store_t *store, tn_error *error) {
  return tn_fail(error, TN_E_MEMORY, "%s: out of memory", store->file.path ? store->file.path : "safetensors");
}

/* "folder/name" in the arena, with the folder as far as `folder_bytes` (0: the current folder). */
static char *join(store_t *store, const char *folder, size_t folder_bytes, tn_text name) {
  char *path = tn_arena_alloc(&store->arena, folder_bytes + name.bytes + 2);
  if (!path) return NULL;
  memcpy(path, folder, folder_bytes);
  if (folder_bytes && folder[folder_bytes - 1] != '/') path[folder_bytes++] = '/';
  memcpy(path + folder_bytes, name.data, name.bytes);
  return path;
}

/* Notes a file to be read; `path` lies in the arena (NULL: memory was out there). */
static tn_status add_shard(store_t *store, const char *path, tn_error *error) {
  tn_safetensors_shard *shard = path ? TN_PUSH(store->shards, store->shard_count, store->shard_capacity) : NULL;
  if (!shard) return no_memory(store, error);
  shard->path = path;
  return TN_OK;
}

/* Maps the files that were noted and reads their headers. */
static tn_status load_shards(store_t *store, tn_error *error) {
  tn_status status = TN_OK;
  for (size_t i = 0; i < store->shard_count && status == TN_OK; i++) {
    tn_safetensors_shard *shard = &store->shards[i];
    status = tn_file_map_open(&shard->map, shard->path, error);
    if (status != TN_OK) break;
    shard->data = shard->map.data;
    shard->size = shard->map.size;
    status = tn_safetensors_read_shard(store, shard, error);
  }
  return status;
}

/* ---- finding ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const tn_file_tensor *)a)->name, ((const tn_file_tensor *)b)->name);
}

/* Puts the tensors of all shards in order of their names. */
static tn_status sort_tensors(store_t *store, tn_error *error) {
  tn_file_tensor *tensors = store->tensors;
  size_t count = store->tensor_count;
  if (count) qsort(tensors, count, sizeof *tensors, by_name);
  for (size_t i = 1; i < count; i++)
    if (!by_name(&tensors[i - 1], &tensors[i]))
      return tn_fail(error, TN_E_FORMAT, "%s: tensor '%.100s' appears twice", store->file.path, tensors[i].name);
  store->file.tensors = tensors;
  store->file.tensor_count = count;
  return TN_OK;
}

const tn_file_tensor *tn_safetensors_find(const tn_safetensors *file, const char *name) {
  if (!file->tensor_count) return NULL;
  tn_file_tensor wanted = {.name = name};
  return bsearch(&wanted, file->tensors, file->tensor_count, sizeof wanted, by_name);
}

tn_status tn_safetensors_get(const tn_safetensors *file, uint8_t *used, const char *name, const tn_file_tensor **out,
                             tn_error *error) {
  *out = NULL;
  const tn_file_tensor *tensor = tn_safetensors_find(file, name);
  if (!tensor) return tn_fail(error, TN_E_NOT_FOUND, "%s: tensor '%s' is missing", file->path, name);
  if (used) used[tensor - file->tensors] = 1;
  if (tensor->dtype == TN_DTYPE_COUNT)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: tensor '%.100s' has a type that tenon does not use", file->path, name);
  if (tensor->rank > TN_FILE_TENSOR_RANK)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: tensor '%.100s' has %" PRIu32 " dimensions, expected at most %d",
                   file->path, name, tensor->rank, TN_FILE_TENSOR_RANK);
  if (!tensor->bytes)
    return tn_fail(error, TN_E_FORMAT, "%s: tensor '%.100s': a dimension is 0, expected at least 1", file->path, name);
  *out = tensor;
  return TN_OK;
}

/* ---- the index ---- */

/* What the index says: which tensor lies in which shard. */
typedef struct index_entry {
  const char *tensor;
  size_t shard;
} index_entry;

typedef struct shard_index {
  const char *path;
  size_t folder_bytes; /* of the path, up to its last slash */
  index_entry *entries;
  size_t count, capacity;
} shard_index;

/* The number of the shard with that file name, noted now if it is new. */
static bool find_shard(store_t *store, const shard_index *index, tn_json *json, tn_text name, size_t *number) {
  for (*number = store->shard_count; *number > 0; --*number) /* the latest first: entries mostly come in runs */
    if (tn_text_is(name, store->shards[*number - 1].path + index->folder_bytes)) {
      --*number;
      return true;
    }
  if (!name.bytes || memchr(name.data, '/', name.bytes) || memchr(name.data, 0, name.bytes))
    return tn_json_fail(json, TN_E_FORMAT, "the shard's name is not that of a file beside the index");
  if (store->shard_count == TN_SAFETENSORS_MAX_SHARDS)
    return tn_json_fail(json, TN_E_LIMIT, "more than %d shards", TN_SAFETENSORS_MAX_SHARDS);
  *number = store->shard_count;
  if (add_shard(store, join(store, index->path, index->folder_bytes, name), NULL) == TN_OK) return true;
  return tn_json_fail(json, TN_E_MEMORY, "out of memory");
}

static bool read_weight_map(store_t *store, shard_index *index, tn_json *json) {
  tn_text key, shard;
  for (tn_json_object(json); tn_json_key(json, &key);) {
    if (index->count == TN_SAFETENSORS_MAX_TENSORS)
      return tn_json_fail(json, TN_E_LIMIT, "more than %d tensors", TN_SAFETENSORS_MAX_TENSORS);
    index_entry *entry = TN_PUSH(index->entries, index->count, index->capacity);
    if (entry) entry->tensor = tn_arena_copy(&store->arena, key.data, key.bytes);
    if (!entry || !entry->tensor) return tn_json_fail(json, TN_E_MEMORY, "out of memory");
    if (!tn_json_string(json, &shard) || !find_shard(store, index, json, shard, &entry->shard)) return false;
  }
  return json->status == TN_OK;
}

static tn_status read_index(store_t *store, shard_index *index, tn_error *error) {
  tn_file_map map;
  tn_status status = tn_file_map_open(&map, index->path, error);
  if (status != TN_OK) return status;
  tn_json json;
  tn_text key;
  tn_json_init(&json, map.data, map.size, error);
  for (tn_json_object(&json); tn_json_key(&json, &key);) {
    if (tn_text_is(key, "weight_map"))
      read_weight_map(store, index, &json);
    else
      tn_json_skip(&json, NULL);
  }
  status = tn_json_end(&json);
  tn_file_map_close(&map);
  if (status != TN_OK) return tn_error_prefix(error, "%s", index->path);
  if (!index->count) return tn_fail(error, TN_E_FORMAT, "%s: 'weight_map' is missing or empty", index->path);
  return TN_OK;
}

/* Every tensor of the index must be there. */
static tn_status check_index(const store_t *store, const shard_index *index, tn_error *error) {
  for (size_t i = 0; i < index->count; i++) {
    const index_entry *entry = &index->entries[i];
    if (!tn_safetensors_find(&store->file, entry->tensor))
      return tn_fail(error, TN_E_FORMAT, "%s: tensor '%.100s' should be in %s, but is not", index->path, entry->tensor,
                     store->shards[entry->shard].path);
  }
  return TN_OK;
}

static tn_status open_index(store_t *store, const char *path, tn_error *error) {
  const char *slash = strrchr(path, '/');
  shard_index index = {.path = path, .folder_bytes = slash ? (size_t)(slash - path) + 1 : 0};
  tn_status status = read_index(store, &index, error);
  if (status == TN_OK) status = load_shards(store, error);
  if (status == TN_OK) status = sort_tensors(store, error);
  if (status == TN_OK) status = check_index(store, &index, error);
  free(index.entries);
  return status;
}

/* ---- opening and closing ---- */

static store_t *create_store(const char *path, tn_error *error) {
  store_t *store = tn_calloc(1, sizeof *store);
  if (store) {
    tn_arena_init(&store->arena, 0);
    store->file = (tn_safetensors){.path = tn_arena_copy(&store->arena, path, strlen(path)), .store = store};
    if (store->file.path) return store;
    tn_safetensors_close(&store->file);
  }
  tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  return NULL;
}

static tn_status open_file(store_t *store, const char *path, tn_error *error) {
  tn_status status = add_shard(store, path, error);
  if (status == TN_OK) status = load_shards(store, error);
  if (status == TN_OK) status = sort_tensors(store, error);
  return status;
}

static tn_status open_folder(store_t *store, const char *folder, tn_error *error) {
  const char *index = join(store, folder, strlen(folder), TN_TEXT(INDEX_NAME));
  const char *file = join(store, folder, strlen(folder), TN_TEXT(FILE_NAME));
  if (!index || !file) return no_memory(store, error);
  if (tn_path_exists(index)) return open_index(store, index, error);
  if (tn_path_exists(file)) return open_file(store, file, error);
  return tn_fail(error, TN_E_NOT_FOUND, "%s: no " INDEX_NAME " and no " FILE_NAME " in it", folder);
}

/* Gives the store to the caller, or ends it. */
static tn_status hand_over(store_t *store, tn_status status, tn_safetensors **out) {
  if (status == TN_OK)
    *out = &store->file;
  else
    tn_safetensors_close(&store->file);
  return status;
}

tn_status tn_safetensors_open(tn_safetensors **out, const char *path, tn_error *error) {
  tn_error ignored;
  if (!error) error = &ignored;
  *out = NULL;
  store_t *store = create_store(path, error);
  if (!store) return TN_E_MEMORY;
  tn_status status;
  size_t bytes = strlen(path);
  if (tn_path_is_directory(path))
    status = open_folder(store, store->file.path, error);
  else if (bytes > 5 && !strcmp(path + bytes - 5, ".json"))
    status = open_index(store, store->file.path, error);
  else
    status = open_file(store, store->file.path, error);
  return hand_over(store, status, out);
}

tn_status tn_safetensors_open_memory(tn_safetensors **out, const char *name, const void *data, size_t size,
                                     tn_error *error) {
  tn_error ignored;
  if (!error) error = &ignored;
  *out = NULL;
  store_t *store = create_store(name, error);
  if (!store) return TN_E_MEMORY;
  tn_safetensors_shard shard = {.path = store->file.path, .data = data, .size = size};
  tn_status status = tn_safetensors_read_shard(store, &shard, error);
  if (status == TN_OK) status = sort_tensors(store, error);
  return hand_over(store, status, out);
}

void tn_safetensors_close(tn_safetensors *file) {
  if (!file) return;
  store_t *store = file->store;
  for (size_t i = 0; i < store->shard_count; i++) tn_file_map_close(&store->shards[i].map);
  free(store->shards);
  free(store->tensors);
  tn_arena_finish(&store->arena);
  free(store);
}

void tn_safetensors_stamp(const tn_safetensors *file, tn_buf *out) {
  for (size_t i = 0; i < file->store->shard_count; i++)
    tn_file_map_stamp(&file->store->shards[i].map, file->store->shards[i].path, out);
}

bool tn_safetensors_place(const tn_safetensors *file, const void *data, size_t *shard, uint64_t *offset) {
  for (*shard = 0; *shard < file->store->shard_count; ++*shard)
    if (tn_file_map_place(&file->store->shards[*shard].map, data, offset)) return true;
  return false;
}

void tn_safetensors_release(const tn_safetensors *file, const tn_file_tensor *tensor) {
  for (size_t i = 0; tensor->data && i < file->store->shard_count; i++) {
    const tn_file_map *map = &file->store->shards[i].map;
    uintptr_t begin = (uintptr_t)map->data, at = (uintptr_t)tensor->data;
    if (map->data && at >= begin && at - begin < map->size) {
      tn_file_map_release(map, at - begin, tensor->bytes);
      return;
    }
  }
}
