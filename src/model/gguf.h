/* GGUF, versions 2 and 3: the reader.
 *
 * A file is mapped, checked whole in one pass, and described by a value that never changes afterwards: keys with their
 * values, tensors with the place of their data. Nothing of the file's body is copied; strings and arrays point into the
 * map. Texts may hold any bytes. After `tn_gguf_open` has succeeded no access can leave the file. Format: the GGUF
 * specification in ggml's documentation.
 *
 *   "GGUF"  u32 version  u64 tensors  u64 keys
 *   keys    { string name, u32 type, value }            string = u64 bytes, bytes
 *   tensors { string name, u32 rank, u64 dims[rank], u32 type, u64 offset }
 *   padding to the alignment (general.alignment, 32 where absent), from where the offsets count
 *   tensor data, each at a multiple of the alignment
 *
 * Legal here: any power of two as alignment, array elements that are arrays, repeated texts in arrays, tensors with a
 * dimension of 0 as long as nobody asks for them. */
#ifndef TENON_MODEL_GGUF_H
#define TENON_MODEL_GGUF_H

#include "base/memory.h"
#include "base/text.h"
#include "model/file_tensor.h"
#include "tenon/status.h"

/* Types of values, numbered as in the file. X(NAME, name, bytes of one element or 0) */
#define TN_GGUF_TYPES(X) \
  X(U8, u8, 1)           \
  X(I8, i8, 1)           \
  X(U16, u16, 2)         \
  X(I16, i16, 2)         \
  X(U32, u32, 4)         \
  X(I32, i32, 4)         \
  X(F32, f32, 4)         \
  X(BOOL, bool, 1)       \
  X(STRING, string, 0)   \
  X(ARRAY, array, 0)     \
  X(U64, u64, 8)         \
  X(I64, i64, 8)         \
  X(F64, f64, 8)

typedef enum tn_gguf_type {
#define TN_GGUF_ENUM(NAME, name, bytes) TN_GGUF_##NAME,
  TN_GGUF_TYPES(TN_GGUF_ENUM)
#undef TN_GGUF_ENUM
      TN_GGUF_TYPE_COUNT
} tn_gguf_type;

/* An array inside the file. Elements are read by the functions below. */
typedef struct tn_gguf_array {
  tn_gguf_type type; /* of its elements */
  size_t count;
  const uint8_t *data; /* first element, unaligned */
  size_t bytes;
  const size_t *index; /* of strings: offset of every TN_GGUF_INDEX_STEP-th; NULL in nested arrays */
} tn_gguf_array;

enum {
  TN_GGUF_INDEX_STEP = 32,
  TN_GGUF_MAX_DEPTH = 4,        /* arrays in arrays */
  TN_GGUF_MAX_NAME = 65535,     /* bytes of a key or a tensor's name */
  TN_GGUF_MAX_ENTRIES = 1 << 20 /* keys, and tensors */
};

typedef struct tn_gguf_key {
  const char *name; /* zero-terminated */
  tn_gguf_type type;
  union {
    uint64_t u; /* U8 U16 U32 U64, BOOL as 0 or 1 */
    int64_t i;  /* I8 I16 I32 I64 */
    double f;   /* F32 F64 */
    tn_text text;
    tn_gguf_array array;
  };
} tn_gguf_key;

/* An open file. Read the fields freely; they stay the same until tn_gguf_close. */
typedef struct tn_gguf {
  const char *path;
  uint32_t version;
  uint32_t alignment;
  size_t size; /* bytes of the file */
  size_t key_count, tensor_count;
  const tn_gguf_key *keys;       /* in the file's order */
  const tn_file_tensor *tensors; /* in the file's order */
  struct tn_gguf_store *store;   /* the reader's own: the map, memory, name order */
} tn_gguf;

/* Which keys and tensors somebody asked for. Owned by whoever loads a model, so the description stays as it is. */
typedef struct tn_gguf_use {
  const tn_gguf *gguf;
  uint8_t *keys, *tensors; /* one byte each, 1 = used */
} tn_gguf_use;

/* Maps and checks `path`. On success *out is set and the caller closes it; on failure *out is NULL and the
 * error names the file, the key or tensor, and what was expected (TN_E_FORMAT; TN_E_LIMIT, TN_E_MEMORY, or what mapping
 * gives). */
tn_status tn_gguf_open(tn_gguf **out, const char *path, tn_error *error);
/* The same over `size` bytes of memory, which must stay until tn_gguf_close; `name` stands for the path in errors. */
tn_status tn_gguf_open_memory(tn_gguf **out, const char *name, const void *data, size_t size, tn_error *error);
void tn_gguf_close(tn_gguf *gguf); /* NULL is fine */
/* Lets the pages of a tensor's data go (they are read again when touched). Does nothing for a file in memory. */
void tn_gguf_release(const tn_gguf *gguf, const tn_file_tensor *tensor);

/* Appends a line to `out`: path, bytes, and when the file was changed. */
void tn_gguf_stamp(const tn_gguf *gguf, tn_buf *out);
/* Where in the file the byte at `data` lies; false when it isn't the file's. */
bool tn_gguf_place(const tn_gguf *gguf, const void *data, uint64_t *offset);

tn_status tn_gguf_use_init(tn_gguf_use *use, const tn_gguf *gguf, tn_error *error);
void tn_gguf_use_finish(tn_gguf_use *use);

const char *tn_gguf_type_name(tn_gguf_type type);
/* The number that tensors of a dtype have in files; false where there is none. */
bool tn_gguf_number_of(tn_dtype dtype, uint32_t *number);

/* The key or tensor called `name`, or NULL. Marks nothing. */
const tn_gguf_key *tn_gguf_find(const tn_gguf *gguf, const char *name);
const tn_file_tensor *tn_gguf_find_tensor(const tn_gguf *gguf, const char *name);

/* ---- values by key ----
 * `use` may be NULL; otherwise the key is marked. `get` demands the key: TN_E_NOT_FOUND when it is absent. `opt` leaves
 * *out as it is (so the caller puts the default there first) and gives TN_OK when it is absent. Both give TN_E_FORMAT,
 * with the key, the type and value found and the type wanted, when the value is of another kind. Integers of any width
 * and sign are taken where the value fits; f32 takes F32 and F64; the others take their own type only. */
tn_status tn_gguf_get_u32(const tn_gguf *gguf, tn_gguf_use *use, const char *key, uint32_t *out, tn_error *error);
tn_status tn_gguf_opt_u32(const tn_gguf *gguf, tn_gguf_use *use, const char *key, uint32_t *out, tn_error *error);
tn_status tn_gguf_get_u64(const tn_gguf *gguf, tn_gguf_use *use, const char *key, uint64_t *out, tn_error *error);
tn_status tn_gguf_opt_u64(const tn_gguf *gguf, tn_gguf_use *use, const char *key, uint64_t *out, tn_error *error);
tn_status tn_gguf_get_i64(const tn_gguf *gguf, tn_gguf_use *use, const char *key, int64_t *out, tn_error *error);
tn_status tn_gguf_opt_i64(const tn_gguf *gguf, tn_gguf_use *use, const char *key, int64_t *out, tn_error *error);
tn_status tn_gguf_get_f32(const tn_gguf *gguf, tn_gguf_use *use, const char *key, float *out, tn_error *error);
tn_status tn_gguf_opt_f32(const tn_gguf *gguf, tn_gguf_use *use, const char *key, float *out, tn_error *error);
tn_status tn_gguf_get_bool(const tn_gguf *gguf, tn_gguf_use *use, const char *key, bool *out, tn_error *error);
tn_status tn_gguf_opt_bool(const tn_gguf *gguf, tn_gguf_use *use, const char *key, bool *out, tn_error *error);
tn_status tn_gguf_get_string(const tn_gguf *gguf, tn_gguf_use *use, const char *key, tn_text *out, tn_error *error);
tn_status tn_gguf_opt_string(const tn_gguf *gguf, tn_gguf_use *use, const char *key, tn_text *out, tn_error *error);
/* `wanted` is the element type: TN_GGUF_STRING, TN_GGUF_ARRAY; TN_GGUF_I64 stands for integers and booleans of any
 * width, TN_GGUF_F32 for F32 and F64; TN_GGUF_TYPE_COUNT for any type. */
tn_status tn_gguf_get_array(const tn_gguf *gguf, tn_gguf_use *use, const char *key, tn_gguf_type wanted,
                            tn_gguf_array *out, tn_error *error);
tn_status tn_gguf_opt_array(const tn_gguf *gguf, tn_gguf_use *use, const char *key, tn_gguf_type wanted,
                            tn_gguf_array *out, tn_error *error);
/* The tensor `name`, marked in `use` (may be NULL). TN_E_NOT_FOUND when absent, TN_E_FORMAT when it has a dimension of
 * 0. */
tn_status tn_gguf_get_tensor(const tn_gguf *gguf, tn_gguf_use *use, const char *name, const tn_file_tensor **out,
                             tn_error *error);

/* ---- elements of an array ----
 * `i` must be below `count` and the element's type the wanted one (both asserted). A string costs at most
 * TN_GGUF_INDEX_STEP steps, and going through them in order with a cursor costs one each. */
tn_text tn_gguf_array_text(const tn_gguf_array *array, size_t i);
int64_t tn_gguf_array_i64(const tn_gguf_array *array, size_t i); /* U64 above INT64_MAX: INT64_MAX */
double tn_gguf_array_f64(const tn_gguf_array *array, size_t i);  /* any number */
tn_gguf_array tn_gguf_array_array(const tn_gguf_array *array, size_t i);

/* Through the strings of an array in order: start with {array, 0, 0}; false behind the last. */
typedef struct tn_gguf_cursor {
  const tn_gguf_array *array;
  size_t next;   /* number of the string that comes next */
  size_t offset; /* where it begins in array->data */
} tn_gguf_cursor;
bool tn_gguf_next_text(tn_gguf_cursor *cursor, tn_text *text);

#endif
