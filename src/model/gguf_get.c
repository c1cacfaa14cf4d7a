/* Looking things up in an open GGUF file (see gguf.h): by name with the type checked, and elements of arrays. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "model/gguf_store.h"

#define TYPE_NAME(NAME, name, bytes) #name,
#define TYPE_BYTES(NAME, name, bytes) bytes,
static const char *const type_names[] = {TN_GGUF_TYPES(TYPE_NAME)};
static const uint8_t type_bytes[] = {TN_GGUF_TYPES(TYPE_BYTES)};

const char *tn_gguf_type_name(tn_gguf_type type) {
  return (uint32_t)type < TN_GGUF_TYPE_COUNT ? type_names[type] : "?";
}

size_t tn_gguf_type_bytes(tn_gguf_type type) {
  return type_bytes[type];
}

static bool is_float(tn_gguf_type type) {
  return type == TN_GGUF_F32 || type == TN_GGUF_F64;
}

static bool is_signed(tn_gguf_type type) {
  return type == TN_GGUF_I8 || type == TN_GGUF_I16 || type == TN_GGUF_I32 || type == TN_GGUF_I64;
}

static bool is_unsigned(tn_gguf_type type) {
  return type == TN_GGUF_U8 || type == TN_GGUF_U16 || type == TN_GGUF_U32 || type == TN_GGUF_U64;
}

int64_t tn_gguf_load_integer(tn_gguf_type type, const uint8_t *at) {
  uint64_t bits = 0;
  size_t size = type_bytes[type];
  memcpy(&bits, at, size);
  unsigned unused = 64 - 8 * (unsigned)size;
  return is_signed(type) ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

double tn_gguf_load_float(tn_gguf_type type, const uint8_t *at) {
  if (type == TN_GGUF_F64) {
    double value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  float value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* ---- names ---- */

static int compare_key(const void *name, const void *key) {
  return strcmp(name, (*(const tn_gguf_key *const *)key)->name);
}

static int compare_tensor(const void *name, const void *tensor) {
  return strcmp(name, (*(const tn_file_tensor *const *)tensor)->name);
}

const tn_gguf_key *tn_gguf_find(const tn_gguf *gguf, const char *name) {
  if (!gguf->key_count) return NULL;
  const tn_gguf_key **sorted = gguf->store->keys_by_name;
  const tn_gguf_key **found = bsearch(name, sorted, gguf->key_count, sizeof *sorted, compare_key);
  return found ? *found : NULL;
}

const tn_file_tensor *tn_gguf_find_tensor(const tn_gguf *gguf, const char *name) {
  if (!gguf->tensor_count) return NULL;
  const tn_file_tensor **sorted = gguf->store->tensors_by_name;
  const tn_file_tensor **found = bsearch(name, sorted, gguf->tensor_count, sizeof *sorted, compare_tensor);
  return found ? *found : NULL;
}

tn_status tn_gguf_use_init(tn_gguf_use *use, const tn_gguf *gguf, tn_error *error) {
  *use = (tn_gguf_use){
      .gguf = gguf, .keys = tn_calloc(gguf->key_count + 1, 1), .tensors = tn_calloc(gguf->tensor_count + 1, 1)};
  if (use->keys && use->tensors) return TN_OK;
  tn_gguf_use_finish(use);
  return tn_fail(error, TN_E_MEMORY, "%s: out of memory", gguf->path);
}

void tn_gguf_use_finish(tn_gguf_use *use) {
  free(use->keys);
  free(use->tensors);
  *use = (tn_gguf_use){0};
}

/* ---- values by key ---- */

/* The key, marked; NULL where it is absent, and then *status is the error if it was `required`. */
static const tn_gguf_key *find_marked(const tn_gguf *gguf, tn_gguf_use *use, const char *name, const char *wanted,
                                      bool required, tn_status *status, tn_error *error) {
  *status = TN_OK;
  const tn_gguf_key *key = tn_gguf_find(gguf, name);
  if (key && use) use->keys[key - gguf->keys] = 1;
  if (!key && required)
    *status = tn_fail(error, TN_E_NOT_FOUND, "%s: key '%s' is missing, expected %s", gguf->path, name, wanted);
  return key;
}

/* The error that `key` holds something else than `wanted`. */
static tn_status wrong_value(const tn_gguf *gguf, const tn_gguf_key *key, const char *wanted, tn_error *error) {
  char found[64] = "";
  if (is_unsigned(key->type) || key->type == TN_GGUF_BOOL)
    snprintf(found, sizeof found, " %" PRIu64, key->u);
  else if (is_signed(key->type))
    snprintf(found, sizeof found, " %" PRIi64, key->i);
  else if (is_float(key->type))
    snprintf(found, sizeof found, " %g", key->f);
  else if (key->type == TN_GGUF_ARRAY)
    snprintf(found, sizeof found, " of %zu %s", key->array.count, tn_gguf_type_name(key->array.type));
  return tn_fail(error, TN_E_FORMAT, "%s: key '%.100s' is %s%s, expected %s", gguf->path, key->name,
                 tn_gguf_type_name(key->type), found, wanted);
}

static bool to_u64(const tn_gguf_key *key, uint64_t limit, uint64_t *out) {
  bool fits = is_unsigned(key->type) || (is_signed(key->type) && key->i >= 0);
  if (!fits || key->u > limit) return false;
  *out = key->u;
  return true;
}

static tn_status read_u32(const tn_gguf *gguf, tn_gguf_use *use, const char *name, bool required, uint32_t *out,
                          tn_error *error) {
  static const char wanted[] = "an unsigned 32-bit integer";
  tn_status status;
  const tn_gguf_key *key = find_marked(gguf, use, name, wanted, required, &status, error);
  uint64_t value = 0;
  if (!key) return status;
  if (!to_u64(key, UINT32_MAX, &value)) return wrong_value(gguf, key, wanted, error);
  *out = (uint32_t)value;
  return TN_OK;
}

static tn_status read_u64(const tn_gguf *gguf, tn_gguf_use *use, const char *name, bool required, uint64_t *out,
                          tn_error *error) {
  static const char wanted[] = "an unsigned integer";
  tn_status status;
  const tn_gguf_key *key = find_marked(gguf, use, name, wanted, required, &status, error);
  if (!key) return status;
  return to_u64(key, UINT64_MAX, out) ? TN_OK : wrong_value(gguf, key, wanted, error);
}

static tn_status read_i64(const tn_gguf *gguf, tn_gguf_use *use, const char *name, bool required, int64_t *out,
                          tn_error *error) {
  static const char wanted[] = "a signed 64-bit integer";
  tn_status status;
  const tn_gguf_key *key = find_marked(gguf, use, name, wanted, required, &status, error);
  if (!key) return status;
  if (!is_signed(key->type) && !(is_unsigned(key->type) && key->u <= INT64_MAX))
    return wrong_value(gguf, key, wanted, error);
  *out = key->i;
  return TN_OK;
}

static tn_status read_f32(const tn_gguf *gguf, tn_gguf_use *use, const char *name, bool required, float *out,
                          tn_error *error) {
  static const char wanted[] = "a floating-point number";
  tn_status status;
  const tn_gguf_key *key = find_marked(gguf, use, name, wanted, required, &status, error);
  if (!key) return status;
  if (!is_float(key->type)) return wrong_value(gguf, key, wanted, error);
  *out = (float)key->f;
  return TN_OK;
}

static tn_status read_bool(const tn_gguf *gguf, tn_gguf_use *use, const char *name, bool required, bool *out,
                           tn_error *error) {
  static const char wanted[] = "a boolean";
  tn_status status;
  const tn_gguf_key *key = find_marked(gguf, use, name, wanted, required, &status, error);
  if (!key) return status;
  if (key->type != TN_GGUF_BOOL) return wrong_value(gguf, key, wanted, error);
  *out = key->u != 0;
  return TN_OK;
}

static tn_status read_string(const tn_gguf *gguf, tn_gguf_use *use, const char *name, bool required, tn_text *out,
                             tn_error *error) {
  static const char wanted[] = "a string";
  tn_status status;
  const tn_gguf_key *key = find_marked(gguf, use, name, wanted, required, &status, error);
  if (!key) return status;
  if (key->type != TN_GGUF_STRING) return wrong_value(gguf, key, wanted, error);
  *out = key->text;
  return TN_OK;
}

static bool elements_match(tn_gguf_type type, tn_gguf_type wanted) {
  if (wanted == TN_GGUF_TYPE_COUNT) return true;
  if (wanted == TN_GGUF_I64) return is_signed(type) || is_unsigned(type) || type == TN_GGUF_BOOL;
  if (wanted == TN_GGUF_F32) return is_float(type);
  return type == wanted;
}

static tn_status read_array(const tn_gguf *gguf, tn_gguf_use *use, const char *name, tn_gguf_type wanted, bool required,
                            tn_gguf_array *out, tn_error *error) {
  const char *description = wanted == TN_GGUF_TYPE_COUNT ? "an array"
                            : wanted == TN_GGUF_STRING   ? "an array of strings"
                            : wanted == TN_GGUF_I64      ? "an array of integers"
                            : wanted == TN_GGUF_F32      ? "an array of floating-point numbers"
                            : wanted == TN_GGUF_ARRAY    ? "an array of arrays"
                                                         : "an array of another type";
  tn_status status;
  const tn_gguf_key *key = find_marked(gguf, use, name, description, required, &status, error);
  if (!key) return status;
  if (key->type != TN_GGUF_ARRAY || !elements_match(key->array.type, wanted))
    return wrong_value(gguf, key, description, error);
  *out = key->array;
  return TN_OK;
}

/* The required and the optional form of each. */
#define DEFINE_GETTERS(name, type)                                                                                   \
  tn_status tn_gguf_get_##name(const tn_gguf *gguf, tn_gguf_use *use, const char *key, type *out, tn_error *error) { \
    return read_##name(gguf, use, key, true, out, error);                                                            \
  }                                                                                                                  \
  tn_status tn_gguf_opt_##name(const tn_gguf *gguf, tn_gguf_use *use, const char *key, type *out, tn_error *error) { \
    return read_##name(gguf, use, key, false, out, error);                                                           \
  }
DEFINE_GETTERS(u32, uint32_t)
DEFINE_GETTERS(u64, uint64_t)
DEFINE_GETTERS(i64, int64_t)
DEFINE_GETTERS(f32, float)
DEFINE_GETTERS(bool, bool)
DEFINE_GETTERS(string, tn_text)

tn_status tn_gguf_get_array(const tn_gguf *gguf, tn_gguf_use *use, const char *key, tn_gguf_type wanted,
                            tn_gguf_array *out, tn_error *error) {
  return read_array(gguf, use, key, wanted, true, out, error);
}

tn_status tn_gguf_opt_array(const tn_gguf *gguf, tn_gguf_use *use, const char *key, tn_gguf_type wanted,
                            tn_gguf_array *out, tn_error *error) {
  return read_array(gguf, use, key, wanted, false, out, error);
}

tn_status tn_gguf_get_tensor(const tn_gguf *gguf, tn_gguf_use *use, const char *name, const tn_file_tensor **out,
                             tn_error *error) {
  *out = NULL;
  const tn_file_tensor *tensor = tn_gguf_find_tensor(gguf, name);
  if (!tensor) return tn_fail(error, TN_E_NOT_FOUND, "%s: tensor '%s' is missing", gguf->path, name);
  if (use) use->tensors[tensor - gguf->tensors] = 1;
  for (uint32_t d = 0; d < tensor->rank; d++)
    if (!tensor->dims[d])
      return tn_fail(error, TN_E_FORMAT, "%s: tensor '%.100s': dimension %" PRIu32 " is 0, expected at least 1",
                     gguf->path, name, d);
  *out = tensor;
  return TN_OK;
}

/* ---- elements of an array ---- */

/* The string at `offset` of the array's bytes, which were checked when the file was opened. */
static tn_text text_at(const tn_gguf_array *array, size_t offset) {
  return (tn_text){(const char *)array->data + offset + 8, (size_t)tn_gguf_load_u64(array->data + offset)};
}

bool tn_gguf_next_text(tn_gguf_cursor *cursor, tn_text *text) {
  assert(cursor->array->type == TN_GGUF_STRING);
  if (cursor->next >= cursor->array->count) return false;
  *text = text_at(cursor->array, cursor->offset);
  cursor->offset += 8 + text->bytes;
  cursor->next++;
  return true;
}

tn_text tn_gguf_array_text(const tn_gguf_array *array, size_t i) {
  assert(i < array->count);
  tn_gguf_cursor cursor = {array, 0, 0};
  if (array->index) {
    cursor.next = i / TN_GGUF_INDEX_STEP * TN_GGUF_INDEX_STEP;
    cursor.offset = array->index[i / TN_GGUF_INDEX_STEP];
  }
  tn_text text = {0};
  while (cursor.next <= i && tn_gguf_next_text(&cursor, &text)) {
  }
  return text;
}

int64_t tn_gguf_array_i64(const tn_gguf_array *array, size_t i) {
  assert(i < array->count && elements_match(array->type, TN_GGUF_I64));
  int64_t value = tn_gguf_load_integer(array->type, array->data + i * type_bytes[array->type]);
  return array->type == TN_GGUF_U64 && value < 0 ? INT64_MAX : value;
}

double tn_gguf_array_f64(const tn_gguf_array *array, size_t i) {
  assert(i < array->count);
  if (!is_float(array->type)) return (double)tn_gguf_array_i64(array, i);
  return tn_gguf_load_float(array->type, array->data + i * type_bytes[array->type]);
}

/* The array whose header lies at `data`; `depth` arrays are around it. */
static tn_gguf_array array_at(const uint8_t *data, unsigned depth) {
  tn_gguf_array array = {
      .type = (tn_gguf_type)tn_gguf_load_u32(data), .count = (size_t)tn_gguf_load_u64(data + 4), .data = data + 12};
  if (type_bytes[array.type]) {
    array.bytes = array.count * type_bytes[array.type];
  } else if (array.type == TN_GGUF_STRING) {
    for (size_t i = 0; i < array.count; i++) array.bytes += 8 + text_at(&array, array.bytes).bytes;
  } else {
    assert(depth < TN_GGUF_MAX_DEPTH);
    for (size_t i = 0; i < array.count; i++) array.bytes += 12 + array_at(array.data + array.bytes, depth + 1).bytes;
  }
  return array;
}

tn_gguf_array tn_gguf_array_array(const tn_gguf_array *array, size_t i) {
  assert(i < array->count && array->type == TN_GGUF_ARRAY);
  const uint8_t *data = array->data;
  for (size_t before = 0; before < i; before++) data += 12 + array_at(data, 0).bytes;
  return array_at(data, 0);
}
