/* The header of one safetensors file (see safetensors.h): tensors with their place, held against the file's size and
 * each other. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/json_reader.h"
#include "model/safetensors_store.h"

/* The types of the format. Those without a dtype are measured, so that the rest of the file can be used. */
static const struct {
  const char *name;
  uint8_t bits;
  uint8_t dtype;
} types[] = {
    {"F32", 32, TN_F32},
    {"F16", 16, TN_F16},
    {"BF16", 16, TN_BF16},
    {"F64", 64, TN_F64},
    {"F8_E4M3", 8, TN_F8_E4M3},
    {"F8_E5M2", 8, TN_F8_E5M2},
    {"I8", 8, TN_I8},
    {"U8", 8, TN_U8},
    {"I16", 16, TN_I16},
    {"I32", 32, TN_I32},
    {"I64", 64, TN_I64},
    {"BOOL", 8, TN_DTYPE_COUNT},
    {"U16", 16, TN_DTYPE_COUNT},
    {"U32", 32, TN_DTYPE_COUNT},
    {"U64", 64, TN_DTYPE_COUNT},
    {"C64", 64, TN_DTYPE_COUNT},
    {"F8_E8M0", 8, TN_DTYPE_COUNT},
    {"F4", 4, TN_DTYPE_COUNT},
    {"F6_E2M3", 6, TN_DTYPE_COUNT},
    {"F6_E3M2", 6, TN_DTYPE_COUNT},
};

/* One entry of the header, as it stands there. */
typedef struct entry {
  int type; /* place in `types`, -1 while none was given */
  uint64_t elements;
  bool has_shape, overflows;
  int64_t begin, end; /* -1 while none were given */
} entry;

typedef struct header {
  struct tn_safetensors_store *store;
  const tn_safetensors_shard *shard;
  const uint8_t *data; /* begins here */
  size_t data_size;
  tn_json json;
  tn_error *error;
} header;

/* A fault in what the header says about `name`, in JSON that is well-formed. */
#define FAIL(h, name, format, ...) \
  tn_fail((h)->error, TN_E_FORMAT, "%s: tensor '%.100s': " format, (h)->shard->path, name, __VA_ARGS__)

/* ---- the JSON ---- */

static bool read_type(tn_json *json, entry *e) {
  tn_text name;
  if (!tn_json_string(json, &name)) return false;
  for (size_t i = 0; i < TN_COUNT(types); i++)
    if (tn_text_is(name, types[i].name)) e->type = (int)i;
  if (e->type >= 0) return true;
  return tn_json_fail(json, TN_E_FORMAT, "dtype '%.*s' is none of the format", (int)(name.bytes < 40 ? name.bytes : 40),
                      name.data);
}

/* The shape, slowest dimension first in the file, is turned round. */
static bool read_shape(tn_json *json, entry *e, tn_file_tensor *tensor) {
  e->has_shape = true;
  e->elements = 1;
  tensor->rank = 0;
  bool empty = false;
  int64_t dims[TN_FILE_TENSOR_RANK] = {1, 1, 1, 1};
  for (tn_json_array(json); tn_json_item(json);) {
    int64_t size;
    if (!tn_json_integer(json, &size)) return false;
    if (size < 0) return tn_json_fail(json, TN_E_FORMAT, "a dimension is negative");
    empty = empty || size == 0;
    if (size && __builtin_mul_overflow(e->elements, (uint64_t)size, &e->elements)) e->overflows = true;
    /* dims[3] is the latest; what falls out at the front joins the slowest that is kept. */
    int64_t slowest = dims[0];
    memmove(dims, dims + 1, sizeof dims - sizeof *dims);
    dims[TN_FILE_TENSOR_RANK - 1] = size;
    if (__builtin_mul_overflow(dims[0], slowest, &dims[0])) e->overflows = true;
    tensor->rank++;
  }
  if (empty) e->elements = 0;
  for (int d = 0; d < TN_FILE_TENSOR_RANK; d++) tensor->dims[d] = dims[TN_FILE_TENSOR_RANK - 1 - d];
  return json->status == TN_OK;
}

static bool read_offsets(tn_json *json, entry *e) {
  int64_t offsets[2] = {-1, -1};
  int count = 0;
  for (tn_json_array(json); tn_json_item(json); count++)
    if (count == 2 || !tn_json_integer(json, &offsets[count]))
      return tn_json_fail(json, TN_E_FORMAT, "data_offsets has more than two numbers");
  if (json->status == TN_OK && (count != 2 || offsets[0] < 0 || offsets[1] < offsets[0]))
    return tn_json_fail(json, TN_E_FORMAT,
                        "data_offsets must be two numbers, the first at least 0 and the second not below it");
  e->begin = offsets[0];
  e->end = offsets[1];
  return json->status == TN_OK;
}

static bool read_entry(tn_json *json, entry *e, tn_file_tensor *tensor) {
  *e = (entry){.type = -1, .begin = -1, .end = -1};
  tn_text key;
  for (tn_json_object(json); tn_json_key(json, &key);) {
    if (tn_text_is(key, "dtype"))
      read_type(json, e);
    else if (tn_text_is(key, "shape"))
      read_shape(json, e, tensor);
    else if (tn_text_is(key, "data_offsets"))
      read_offsets(json, e);
    else
      tn_json_skip(json, NULL);
  }
  if (json->status == TN_OK && (e->type < 0 || !e->has_shape || e->begin < 0))
    tn_json_fail(json, TN_E_FORMAT, "dtype, shape or data_offsets is missing");
  return json->status == TN_OK;
}

/* ---- what it means ---- */

/* Holds the entry against itself and the file. */
static tn_status place(header *h, const entry *e, tn_file_tensor *tensor) {
  uint64_t bits, size = (uint64_t)(e->end - e->begin);
  if (e->overflows || __builtin_mul_overflow(e->elements, (uint64_t)types[e->type].bits, &bits))
    return FAIL(h, tensor->name, "the product of its dimensions overflows %s", "64 bits");
  if (bits % 8 || bits / 8 != size)
    return FAIL(h, tensor->name,
                "%" PRIu64 " elements of %s are %" PRIu64 " bits, but its data_offsets span %" PRIu64 " bytes",
                e->elements, types[e->type].name, bits, size);
  if ((uint64_t)e->end > h->data_size)
    return FAIL(h, tensor->name, "its data ends at byte %" PRIi64 ", but the file has %zu bytes of data", e->end,
                h->data_size);
  tensor->dtype = (tn_dtype)types[e->type].dtype;
  tensor->bytes = (size_t)size;
  if (size) tensor->data = h->data + e->begin;
  return TN_OK;
}

static tn_status read_tensor(header *h, tn_text key) {
  struct tn_safetensors_store *store = h->store;
  if (store->tensor_count == TN_SAFETENSORS_MAX_TENSORS)
    return tn_fail(h->error, TN_E_LIMIT, "%s: more than %d tensors", h->shard->path, TN_SAFETENSORS_MAX_TENSORS);
  if (key.bytes && memchr(key.data, 0, key.bytes))
    return tn_fail(h->error, TN_E_FORMAT, "%s: the name of a tensor contains a zero character", h->shard->path);
  tn_file_tensor *tensor = TN_PUSH(store->tensors, store->tensor_count, store->tensor_capacity);
  char *name = tn_arena_copy(&store->arena, key.data, key.bytes);
  if (!tensor || !name) return tn_fail(h->error, TN_E_MEMORY, "%s: out of memory", h->shard->path);
  tensor->name = name;
  entry e;
  if (!read_entry(&h->json, &e, tensor)) return tn_error_prefix(h->error, "%s: tensor '%.100s'", h->shard->path, name);
  return place(h, &e, tensor);
}

static tn_status read_json(header *h, size_t bytes) {
  tn_json *json = &h->json;
  tn_json_init(json, h->data - bytes, bytes, h->error);
  tn_status status = TN_OK;
  tn_text key;
  for (tn_json_object(json); status == TN_OK && tn_json_key(json, &key);) {
    if (tn_text_is(key, "__metadata__"))
      tn_json_skip(json, NULL);
    else
      status = read_tensor(h, key);
  }
  tn_status ended = tn_json_end(json);
  if (status != TN_OK || ended == TN_OK) return status;
  return tn_error_prefix(h->error, "%s: header", h->shard->path);
}

/* ---- the data as a whole ---- */

static int by_place(const void *a, const void *b) {
  const uint8_t *x = (*(const tn_file_tensor *const *)a)->data, *y = (*(const tn_file_tensor *const *)b)->data;
  return (x > y) - (x < y);
}

/* The tensors from `first` on must cover the data, each byte once. */
static tn_status check_cover(header *h, size_t first) {
  struct tn_safetensors_store *store = h->store;
  size_t count = 0;
  const tn_file_tensor **sorted = tn_calloc(store->tensor_count - first + 1, sizeof *sorted);
  if (!sorted) return tn_fail(h->error, TN_E_MEMORY, "%s: out of memory", h->shard->path);
  for (size_t i = first; i < store->tensor_count; i++)
    if (store->tensors[i].data) sorted[count++] = &store->tensors[i];
  qsort(sorted, count, sizeof *sorted, by_place);
  tn_status status = TN_OK;
  size_t covered = 0;
  for (size_t i = 0; i < count && status == TN_OK; i++) {
    size_t begin = (size_t)(sorted[i]->data - h->data);
    if (begin < covered)
      status = FAIL(h, sorted[i]->name, "its data overlaps that of tensor '%.100s'", sorted[i - 1]->name);
    else if (begin > covered)
      status = FAIL(h, sorted[i]->name, "%zu bytes in front of its data belong to no tensor", begin - covered);
    covered = begin + sorted[i]->bytes;
  }
  if (status == TN_OK && covered != h->data_size)
    status = tn_fail(h->error, TN_E_FORMAT,
                     "%s: the tensors end at byte %zu of the data, but the file has %zu bytes of data", h->shard->path,
                     covered, h->data_size);
  free(sorted);
  return status;
}

tn_status tn_safetensors_read_shard(struct tn_safetensors_store *store, const tn_safetensors_shard *shard,
                                    tn_error *error) {
  uint64_t bytes;
  if (shard->size < sizeof bytes)
    return tn_fail(error, TN_E_FORMAT, "%s: has %zu bytes, expected at least the 8 of a safetensors header's size",
                   shard->path, shard->size);
  memcpy(&bytes, shard->data, sizeof bytes);
  if (bytes > TN_SAFETENSORS_MAX_HEADER)
    return tn_fail(error, TN_E_LIMIT, "%s: a safetensors header of %" PRIu64 " bytes, at most %d are allowed",
                   shard->path, bytes, TN_SAFETENSORS_MAX_HEADER);
  if (bytes > shard->size - sizeof bytes)
    return tn_fail(error, TN_E_FORMAT, "%s: a safetensors header of %" PRIu64 " bytes, but the file has %zu more",
                   shard->path, bytes, shard->size - sizeof bytes);
  size_t head = sizeof bytes + (size_t)bytes, first = store->tensor_count;
  header h = {
      .store = store, .shard = shard, .data = shard->data + head, .data_size = shard->size - head, .error = error};
  tn_status status = read_json(&h, (size_t)bytes);
  return status == TN_OK ? check_cover(&h, first) : status;
}
