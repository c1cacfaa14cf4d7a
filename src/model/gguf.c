/* Reading and checking a GGUF file (see gguf.h). One reader walks the file from front to back with the bytes that are
 * left as its budget; whatever the file claims is compared with that budget before it is believed. */
#include "model/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "model/gguf_store.h"

enum {
  KEY_MIN_BYTES = 8 + 4 + 1,        /* empty name, type, one byte */
  TENSOR_MIN_BYTES = 8 + 4 + 4 + 8, /* empty name, rank 0, type, offset */
  DEFAULT_ALIGNMENT = 32,
  MAX_ALIGNMENT = 1 << 30
};

/* The place in the file, and what is being read there, for messages. */
typedef struct reader {
  const uint8_t *start, *at;
  size_t left;
  const char *path;
  char subject[160];
  tn_error *error;
} reader;

static size_t position(const reader *r) {
  return (size_t)(r->at - r->start);
}

/* The next `size` bytes, or NULL and the error that the file ends inside `field`. */
static const uint8_t *take(reader *r, uint64_t size, const char *field) {
  if (size > r->left) {
    tn_fail(r->error, TN_E_FORMAT, "%s: %s: %s needs %" PRIu64 " bytes at byte %zu, but the file has %zu more", r->path,
            r->subject, field, size, position(r), r->left);
    return NULL;
  }
  const uint8_t *at = r->at;
  r->at += size;
  r->left -= (size_t)size;
  return at;
}

static bool take_u32(reader *r, const char *field, uint32_t *value) {
  const uint8_t *at = take(r, sizeof *value, field);
  if (at) *value = tn_gguf_load_u32(at);
  return at != NULL;
}

static bool take_u64(reader *r, const char *field, uint64_t *value) {
  const uint8_t *at = take(r, sizeof *value, field);
  if (at) *value = tn_gguf_load_u64(at);
  return at != NULL;
}

static bool take_text(reader *r, const char *field, tn_text *text) {
  uint64_t size = 0;
  if (!take_u64(r, field, &size)) return false;
  const uint8_t *at = take(r, size, field);
  if (!at) return false;
  *text = (tn_text){(const char *)at, (size_t)size};
  return true;
}

/* The name of a key or tensor, copied with a zero behind it. */
static bool take_name(reader *r, tn_arena *arena, const char **name) {
  tn_text text = {0};
  if (!take_text(r, "its name", &text)) return false;
  if (text.bytes > TN_GGUF_MAX_NAME) {
    tn_fail(r->error, TN_E_LIMIT, "%s: %s: its name is %zu bytes long, at most %d are allowed", r->path, r->subject,
            text.bytes, TN_GGUF_MAX_NAME);
    return false;
  }
  if (text.bytes && memchr(text.data, 0, text.bytes)) {
    tn_fail(r->error, TN_E_FORMAT, "%s: %s: its name contains a zero byte", r->path, r->subject);
    return false;
  }
  *name = tn_arena_copy(arena, text.data, text.bytes);
  if (!*name) tn_fail(r->error, TN_E_MEMORY, "%s: out of memory for %s", r->path, r->subject);
  return *name != NULL;
}

/* ---- values ---- */

static tn_status last_error(const reader *r) {
  return r->error->status;
}

static tn_status take_array(reader *r, tn_arena *arena, unsigned depth, tn_gguf_array *array);

/* Walks over the strings of an array; with an arena it remembers where every TN_GGUF_INDEX_STEP-th begins. */
static tn_status take_strings(reader *r, tn_arena *arena, tn_gguf_array *array) {
  size_t *index = NULL;
  if (arena) {
    index = tn_arena_array(arena, array->count / TN_GGUF_INDEX_STEP + 1, sizeof *index);
    if (!index) return tn_fail(r->error, TN_E_MEMORY, "%s: out of memory for %s", r->path, r->subject);
    array->index = index;
  }
  for (size_t i = 0; i < array->count; i++) {
    if (index && i % TN_GGUF_INDEX_STEP == 0) index[i / TN_GGUF_INDEX_STEP] = (size_t)(r->at - array->data);
    tn_text text;
    if (!take_text(r, "a string of the array", &text)) return last_error(r);
  }
  return TN_OK;
}

static tn_status take_nested(reader *r, unsigned depth, const tn_gguf_array *array) {
  if (depth + 1 >= TN_GGUF_MAX_DEPTH)
    return tn_fail(r->error, TN_E_LIMIT, "%s: %s: arrays are nested more than %d deep", r->path, r->subject,
                   TN_GGUF_MAX_DEPTH);
  for (size_t i = 0; i < array->count; i++) {
    tn_gguf_array inner;
    tn_status status = take_array(r, NULL, depth + 1, &inner);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

static tn_status check_booleans(reader *r, const uint8_t *at, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (at[i] > 1)
      return tn_fail(r->error, TN_E_FORMAT, "%s: %s: boolean is %u, expected 0 or 1", r->path, r->subject, at[i]);
  return TN_OK;
}

static tn_status take_type(reader *r, const char *field, tn_gguf_type *type) {
  uint32_t number = 0;
  if (!take_u32(r, field, &number)) return last_error(r);
  if (number >= TN_GGUF_TYPE_COUNT)
    return tn_fail(r->error, TN_E_FORMAT, "%s: %s: %s is %" PRIu32 ", expected 0 to %d", r->path, r->subject, field,
                   number, TN_GGUF_TYPE_COUNT - 1);
  *type = (tn_gguf_type)number;
  return TN_OK;
}

static tn_status take_array(reader *r, tn_arena *arena, unsigned depth, tn_gguf_array *array) {
  *array = (tn_gguf_array){0};
  tn_status status = take_type(r, "the type of its elements", &array->type);
  if (status != TN_OK) return status;
  uint64_t count = 0;
  if (!take_u64(r, "the array's length", &count)) return last_error(r);
  size_t element = tn_gguf_type_bytes(array->type);
  size_t least = element ? element : array->type == TN_GGUF_STRING ? 8 : 12;
  if (count > r->left / least)
    return tn_fail(r->error, TN_E_FORMAT,
                   "%s: %s: an array of %" PRIu64
                   " %s elements needs at least %zu bytes each, but the file has %zu more",
                   r->path, r->subject, count, tn_gguf_type_name(array->type), least, r->left);
  array->count = (size_t)count;
  array->data = r->at;
  if (array->type == TN_GGUF_STRING) {
    status = take_strings(r, arena, array);
  } else if (array->type == TN_GGUF_ARRAY) {
    status = take_nested(r, depth, array);
  } else {
    take(r, count * element, "the array");
    if (array->type == TN_GGUF_BOOL) status = check_booleans(r, array->data, array->count);
  }
  array->bytes = (size_t)(r->at - array->data);
  return status;
}

static tn_status take_value(reader *r, tn_arena *arena, tn_gguf_key *key) {
  tn_status status = take_type(r, "its type", &key->type);
  if (status != TN_OK) return status;
  if (key->type == TN_GGUF_STRING) return take_text(r, "its value", &key->text) ? TN_OK : last_error(r);
  if (key->type == TN_GGUF_ARRAY) return take_array(r, arena, 0, &key->array);
  const uint8_t *at = take(r, tn_gguf_type_bytes(key->type), "its value");
  if (!at) return last_error(r);
  if (key->type == TN_GGUF_BOOL) status = check_booleans(r, at, 1);
  if (key->type == TN_GGUF_F32 || key->type == TN_GGUF_F64)
    key->f = tn_gguf_load_float(key->type, at);
  else
    key->i = tn_gguf_load_integer(key->type, at);
  return status;
}

static int by_key_name(const void *a, const void *b) {
  return strcmp((*(const tn_gguf_key *const *)a)->name, (*(const tn_gguf_key *const *)b)->name);
}

static tn_status read_keys(reader *r, struct tn_gguf_store *store, size_t count) {
  store->keys = tn_arena_array(&store->arena, count, sizeof *store->keys);
  store->keys_by_name = tn_arena_array(&store->arena, count, sizeof *store->keys_by_name);
  if (!store->keys || !store->keys_by_name)
    return tn_fail(r->error, TN_E_MEMORY, "%s: out of memory for %zu keys", r->path, count);
  for (size_t i = 0; i < count; i++) {
    tn_gguf_key *key = &store->keys[i];
    snprintf(r->subject, sizeof r->subject, "key %zu of %zu", i + 1, count);
    if (!take_name(r, &store->arena, &key->name)) return last_error(r);
    snprintf(r->subject, sizeof r->subject, "key '%.100s'", key->name);
    tn_status status = take_value(r, &store->arena, key);
    if (status != TN_OK) return status;
    store->keys_by_name[i] = key;
  }
  qsort(store->keys_by_name, count, sizeof *store->keys_by_name, by_key_name);
  for (size_t i = 1; i < count; i++)
    if (!by_key_name(&store->keys_by_name[i - 1], &store->keys_by_name[i]))
      return tn_fail(r->error, TN_E_FORMAT, "%s: key '%.100s' appears twice", r->path, store->keys_by_name[i]->name);
  store->gguf.keys = store->keys;
  store->gguf.key_count = count;
  return TN_OK;
}

/* ---- tensors ---- */

/* The numbers that tensor types have in a file. Those above 0x544E0000 are tenon's own: other readers refuse them. */
static const struct {
  uint32_t number, dtype;
} dtype_numbers[] = {
    {0, TN_F32},     {1, TN_F16},     {2, TN_Q4_0},   {3, TN_Q4_1},           {6, TN_Q5_0},  {7, TN_Q5_1},
    {8, TN_Q8_0},    {10, TN_Q2_K},   {11, TN_Q3_K},  {12, TN_Q4_K},          {13, TN_Q5_K}, {14, TN_Q6_K},
    {20, TN_IQ4_NL}, {23, TN_IQ4_XS}, {24, TN_I8},    {25, TN_I16},           {26, TN_I32},  {27, TN_I64},
    {28, TN_F64},    {30, TN_BF16},   {39, TN_MXFP4}, {0x544E0006, TN_MXFP6},
};

static bool dtype_of_number(uint32_t number, tn_dtype *dtype) {
  for (size_t i = 0; i < TN_COUNT(dtype_numbers); i++)
    if (dtype_numbers[i].number == number) {
      *dtype = (tn_dtype)dtype_numbers[i].dtype;
      return true;
    }
  return false;
}

bool tn_gguf_number_of(tn_dtype dtype, uint32_t *number) {
  for (size_t i = 0; i < TN_COUNT(dtype_numbers); i++)
    if (dtype_numbers[i].dtype == dtype) {
      *number = dtype_numbers[i].number;
      return true;
    }
  return false;
}

static tn_status read_dims(reader *r, tn_file_tensor *tensor) {
  if (!take_u32(r, "its number of dimensions", &tensor->rank)) return last_error(r);
  if (tensor->rank > TN_FILE_TENSOR_RANK)
    return tn_fail(r->error, TN_E_FORMAT, "%s: %s has %" PRIu32 " dimensions, expected at most %d", r->path, r->subject,
                   tensor->rank, TN_FILE_TENSOR_RANK);
  for (uint32_t d = 0; d < TN_FILE_TENSOR_RANK; d++) {
    uint64_t size = 1;
    if (d < tensor->rank && !take_u64(r, "a dimension", &size)) return last_error(r);
    if (size > INT64_MAX)
      return tn_fail(r->error, TN_E_FORMAT, "%s: %s: dimension %" PRIu32 " is %" PRIu64 ", expected at most 2^63 - 1",
                     r->path, r->subject, d, size);
    tensor->dims[d] = (int64_t)size;
  }
  return TN_OK;
}

/* Sets `bytes` from the type and the dimensions. */
static tn_status measure(reader *r, tn_file_tensor *tensor) {
  size_t bytes = 0, rows = 1;
  size_t elements = (size_t)tensor->dims[0];
  if (elements % tn_dtype_block_elements(tensor->dtype))
    return tn_fail(r->error, TN_E_FORMAT, "%s: %s: rows of %zu elements, expected a multiple of %zu for type %s",
                   r->path, r->subject, elements, tn_dtype_block_elements(tensor->dtype), tn_dtype_name(tensor->dtype));
  bool fits = tn_dtype_row_bytes(tensor->dtype, elements, &bytes);
  for (int d = 1; d < TN_FILE_TENSOR_RANK; d++) fits = fits && tn_mul_size(rows, (size_t)tensor->dims[d], &rows);
  if (!fits || !tn_mul_size(bytes, rows, &bytes))
    return tn_fail(r->error, TN_E_FORMAT, "%s: %s: the product of its dimensions overflows", r->path, r->subject);
  tensor->bytes = bytes;
  return TN_OK;
}

static tn_status read_tensor(reader *r, tn_arena *arena, tn_file_tensor *tensor, uint64_t *offset) {
  if (!take_name(r, arena, &tensor->name)) return last_error(r);
  snprintf(r->subject, sizeof r->subject, "tensor '%.100s'", tensor->name);
  tn_status status = read_dims(r, tensor);
  if (status != TN_OK) return status;
  uint32_t number = 0;
  if (!take_u32(r, "its type", &number)) return last_error(r);
  if (!dtype_of_number(number, &tensor->dtype))
    return tn_fail(r->error, TN_E_FORMAT, "%s: %s has type number %" PRIu32 ", which tenon does not know", r->path,
                   r->subject, number);
  if (!take_u64(r, "its offset", offset)) return last_error(r);
  return measure(r, tensor);
}

static int by_tensor_name(const void *a, const void *b) {
  return strcmp((*(const tn_file_tensor *const *)a)->name, (*(const tn_file_tensor *const *)b)->name);
}

static int by_place(const void *a, const void *b) {
  const uint8_t *x = (*(const tn_file_tensor *const *)a)->data, *y = (*(const tn_file_tensor *const *)b)->data;
  return (x > y) - (x < y);
}

/* Finds each tensor's data; `offsets` count from `base`, the aligned end of the header. */
static tn_status place_tensors(reader *r, struct tn_gguf_store *store, const uint64_t *offsets, size_t base) {
  size_t alignment = store->gguf.alignment, size = store->gguf.size;
  for (size_t i = 0; i < store->gguf.tensor_count; i++) {
    tn_file_tensor *tensor = &store->tensors[i];
    if (offsets[i] % alignment)
      return tn_fail(r->error, TN_E_FORMAT,
                     "%s: tensor '%.100s': offset %" PRIu64 " is not a multiple of the alignment %zu", r->path,
                     tensor->name, offsets[i], alignment);
    if (!tensor->bytes) continue;
    size_t begin, end;
    bool fits = tn_add_size(base, (size_t)offsets[i], &begin) && tn_add_size(begin, tensor->bytes, &end);
    if (!fits || end > size)
      return tn_fail(r->error, TN_E_FORMAT,
                     "%s: tensor '%.100s': %zu bytes at offset %" PRIu64
                     " of the data (which begins at byte %zu) lie beyond the end of the file at byte %zu",
                     r->path, tensor->name, tensor->bytes, offsets[i], base, size);
    tensor->data = r->start + begin;
  }
  return TN_OK;
}

static tn_status check_overlap(reader *r, const struct tn_gguf_store *store) {
  const tn_file_tensor **sorted = store->tensors_by_name;
  size_t count = 0;
  for (size_t i = 0; i < store->gguf.tensor_count; i++)
    if (store->tensors[i].data) sorted[count++] = &store->tensors[i];
  qsort(sorted, count, sizeof *sorted, by_place);
  for (size_t i = 1; i < count; i++)
    if (sorted[i - 1]->bytes > (size_t)(sorted[i]->data - sorted[i - 1]->data))
      return tn_fail(r->error, TN_E_FORMAT, "%s: the data of tensors '%.100s' and '%.100s' overlap", r->path,
                     sorted[i - 1]->name, sorted[i]->name);
  return TN_OK;
}

static tn_status sort_tensors(reader *r, struct tn_gguf_store *store) {
  const tn_file_tensor **sorted = store->tensors_by_name;
  size_t count = store->gguf.tensor_count;
  for (size_t i = 0; i < count; i++) sorted[i] = &store->tensors[i];
  qsort(sorted, count, sizeof *sorted, by_tensor_name);
  for (size_t i = 1; i < count; i++)
    if (!by_tensor_name(&sorted[i - 1], &sorted[i]))
      return tn_fail(r->error, TN_E_FORMAT, "%s: tensor '%.100s' appears twice", r->path, sorted[i]->name);
  return TN_OK;
}

static tn_status read_tensors(reader *r, struct tn_gguf_store *store, size_t count) {
  tn_status status = TN_OK;
  uint64_t *offsets = tn_calloc(count + 1, sizeof *offsets);
  store->tensors = tn_arena_array(&store->arena, count, sizeof *store->tensors);
  store->tensors_by_name = tn_arena_array(&store->arena, count, sizeof *store->tensors_by_name);
  if (!offsets || !store->tensors || !store->tensors_by_name) {
    status = tn_fail(r->error, TN_E_MEMORY, "%s: out of memory for %zu tensors", r->path, count);
    goto done;
  }
  for (size_t i = 0; i < count; i++) {
    snprintf(r->subject, sizeof r->subject, "tensor %zu of %zu", i + 1, count);
    status = read_tensor(r, &store->arena, &store->tensors[i], &offsets[i]);
    if (status != TN_OK) goto done;
  }
  store->gguf.tensors = store->tensors;
  store->gguf.tensor_count = count;
  size_t base = tn_round_up(position(r), store->gguf.alignment);
  status = place_tensors(r, store, offsets, base);
  if (status == TN_OK) status = check_overlap(r, store);
  if (status == TN_OK) status = sort_tensors(r, store);
done:
  free(offsets);
  return status;
}

/* ---- the file ---- */

static tn_status read_version(reader *r, uint32_t *version) {
  const uint8_t *magic = take(r, 4, "the magic");
  if (!magic) return last_error(r);
  if (memcmp(magic, "GGUF", 4) != 0)
    return tn_fail(r->error, TN_E_FORMAT, "%s: begins with bytes %02x %02x %02x %02x, expected the magic 'GGUF'",
                   r->path, magic[0], magic[1], magic[2], magic[3]);
  if (!take_u32(r, "the version", version)) return last_error(r);
  if (*version == 2 || *version == 3) return TN_OK;
  if (__builtin_bswap32(*version) <= 3)
    return tn_fail(r->error, TN_E_UNSUPPORTED, "%s: is a big-endian GGUF file, expected little endian", r->path);
  return tn_fail(r->error, TN_E_UNSUPPORTED, "%s: GGUF version %" PRIu32 ", expected 2 or 3", r->path, *version);
}

static tn_status read_count(reader *r, const char *what, size_t least, size_t *count) {
  uint64_t number = 0;
  if (!take_u64(r, what, &number)) return last_error(r);
  if (number > r->left / least)
    return tn_fail(r->error, TN_E_FORMAT,
                   "%s: header: %s is %" PRIu64 ", more than the file's remaining %zu bytes can hold", r->path, what,
                   number, r->left);
  if (number > TN_GGUF_MAX_ENTRIES)
    return tn_fail(r->error, TN_E_LIMIT, "%s: header: %s is %" PRIu64 ", at most %d are read", r->path, what, number,
                   TN_GGUF_MAX_ENTRIES);
  *count = (size_t)number;
  return TN_OK;
}

static tn_status read_alignment(reader *r, tn_gguf *gguf) {
  gguf->alignment = DEFAULT_ALIGNMENT;
  tn_status status = tn_gguf_opt_u32(gguf, NULL, "general.alignment", &gguf->alignment, r->error);
  if (status != TN_OK) return status;
  if (!gguf->alignment || gguf->alignment > MAX_ALIGNMENT || (gguf->alignment & (gguf->alignment - 1)))
    return tn_fail(r->error, TN_E_FORMAT,
                   "%s: key 'general.alignment' is %" PRIu32 ", expected a power of two up to %d", r->path,
                   gguf->alignment, MAX_ALIGNMENT);
  return TN_OK;
}

static tn_status read_file(reader *r, struct tn_gguf_store *store) {
  tn_gguf *gguf = &store->gguf;
  size_t tensors = 0, keys = 0;
  tn_status status = read_version(r, &gguf->version);
  if (status == TN_OK) status = read_count(r, "the number of tensors", TENSOR_MIN_BYTES, &tensors);
  if (status == TN_OK) status = read_count(r, "the number of keys", KEY_MIN_BYTES, &keys);
  if (status == TN_OK) status = read_keys(r, store, keys);
  if (status == TN_OK) status = read_alignment(r, gguf);
  if (status == TN_OK) status = read_tensors(r, store, tensors);
  return status;
}

/* Reads `size` bytes at `data`; takes over `map`, which it closes on failure. */
static tn_status open_bytes(tn_gguf **out, const char *path, const void *data, size_t size, tn_file_map map,
                            tn_error *error) {
  tn_error ignored;
  if (!error) error = &ignored;
  tn_status status = TN_OK;
  struct tn_gguf_store *store = tn_calloc(1, sizeof *store);
  if (!store) {
    tn_file_map_close(&map);
    return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  }
  store->map = map;
  tn_arena_init(&store->arena, 0);
  store->gguf = (tn_gguf){.path = tn_arena_copy(&store->arena, path, strlen(path)), .size = size, .store = store};
  reader r = {.start = data, .at = data, .left = size, .path = path, .subject = "header", .error = error};
  if (store->gguf.path)
    status = read_file(&r, store);
  else
    status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  if (status == TN_OK)
    *out = &store->gguf;
  else
    tn_gguf_close(&store->gguf);
  return status;
}

tn_status tn_gguf_open(tn_gguf **out, const char *path, tn_error *error) {
  *out = NULL;
  tn_file_map map;
  tn_status status = tn_file_map_open(&map, path, error);
  if (status != TN_OK) return status;
  return open_bytes(out, path, map.data, map.size, map, error);
}

tn_status tn_gguf_open_memory(tn_gguf **out, const char *name, const void *data, size_t size, tn_error *error) {
  *out = NULL;
  return open_bytes(out, name, data, size, (tn_file_map){0}, error);
}

void tn_gguf_close(tn_gguf *gguf) {
  if (!gguf) return;
  struct tn_gguf_store *store = gguf->store;
  tn_file_map_close(&store->map);
  tn_arena_finish(&store->arena);
  free(store);
}

void tn_gguf_stamp(const tn_gguf *gguf, tn_buf *out) {
  tn_file_map_stamp(&gguf->store->map, gguf->path, out);
}

bool tn_gguf_place(const tn_gguf *gguf, const void *data, uint64_t *offset) {
  return tn_file_map_place(&gguf->store->map, data, offset);
}

void tn_gguf_release(const tn_gguf *gguf, const tn_file_tensor *tensor) {
  const tn_file_map *map = &gguf->store->map;
  if (map->data && tensor->data) tn_file_map_release(map, (size_t)(tensor->data - map->data), tensor->bytes);
}
