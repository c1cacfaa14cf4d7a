/* Safetensors: the reader, for one file or several with an index.
 *
 *   u64 N   N bytes of JSON: {"name": {"dtype": "BF16", "shape": [out, in], "data_offsets": [begin, end]}, ...,
 *           "__metadata__": {...}}, perhaps with spaces behind   data, where the offsets count from
 *
 * Files are mapped, checked whole, and described by a value that never changes afterwards, in the same form as GGUF's.
 * As the format demands, the tensors must cover the data without overlap and without holes, so a file that was cut off
 * or has something behind it is refused. Format: the safetensors documentation of Hugging Face. */
#ifndef TENON_MODEL_SAFETENSORS_H
#define TENON_MODEL_SAFETENSORS_H

#include "base/memory.h"
#include "model/file_tensor.h"
#include "tenon/status.h"

enum {
  TN_SAFETENSORS_MAX_HEADER = 100000000, /* bytes of JSON, the limit of the format */
  TN_SAFETENSORS_MAX_TENSORS = 1 << 20,
  TN_SAFETENSORS_MAX_SHARDS = 4096
};

typedef struct tn_safetensors {
  const char *path; /* as given to open */
  size_t tensor_count;
  const tn_file_tensor *tensors; /* sorted by name */
  struct tn_safetensors_store *store;
} tn_safetensors;

/* Opens `path`: a .safetensors file; an index (a name that ends in .json) whose shards lie beside it; or a folder with
 * model.safetensors.index.json or model.safetensors in it. On success *out is set and the caller closes it; on failure
 * *out is NULL and the error names the file, the tensor, and what was expected (TN_E_FORMAT, TN_E_LIMIT, TN_E_MEMORY,
 * or what mapping gives: a shard that isn't there is TN_E_NOT_FOUND). */
tn_status tn_safetensors_open(tn_safetensors **out, const char *path, tn_error *error);
/* The same over one file in memory, which must stay until tn_safetensors_close; `name` stands for the path in errors.
 */
tn_status tn_safetensors_open_memory(tn_safetensors **out, const char *name, const void *data, size_t size,
                                     tn_error *error);
void tn_safetensors_close(tn_safetensors *file); /* NULL is fine */
/* Lets the pages of a tensor's data go (they are read again when touched). Does nothing for a file in memory. */
void tn_safetensors_release(const tn_safetensors *file, const tn_file_tensor *tensor);

/* Appends a line for each file to `out`: path, bytes, and when it was changed. */
void tn_safetensors_stamp(const tn_safetensors *file, tn_buf *out);
/* Where the byte at `data` lies: in which file, counted as above, and where in it. False when in none. */
bool tn_safetensors_place(const tn_safetensors *file, const void *data, size_t *shard, uint64_t *offset);

/* The tensor called `name`, or NULL. */
const tn_file_tensor *tn_safetensors_find(const tn_safetensors *file, const char *name);
/* The tensor `name`; `used`, if not NULL, is an array of tensor_count bytes where its place is set to 1. TN_E_NOT_FOUND
 * when absent, TN_E_UNSUPPORTED when its type is none of tenon's or it has more than four dimensions, TN_E_FORMAT when
 * a dimension is 0. */
tn_status tn_safetensors_get(const tn_safetensors *file, uint8_t *used, const char *name, const tn_file_tensor **out,
                             tn_error *error);

#endif
