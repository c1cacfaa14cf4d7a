/* GGUF, version 3: writing the head of a file that has the keys of another and tensors of other types. */
#ifndef TENON_MODEL_GGUF_WRITE_H
#define TENON_MODEL_GGUF_WRITE_H

#include "base/memory.h"
#include "model/gguf.h"

/* A tensor as it will be: name and dims of `from`, in another type. */
typedef struct tn_gguf_tensor_plan {
  const tn_file_tensor *from;
  tn_dtype dtype;
  uint64_t bytes;
  uint64_t offset; /* set by tn_gguf_write_head: from where the tensors begin */
} tn_gguf_tensor_plan;

/* Keys to be written. */
typedef struct tn_gguf_keys {
  tn_buf bytes; /* tn_buf_init; a failed append shows in it */
  uint64_t count;
} tn_gguf_keys;

void tn_gguf_put_u32(tn_gguf_keys *keys, const char *name, uint32_t value);
void tn_gguf_put_f32(tn_gguf_keys *keys, const char *name, float value);
void tn_gguf_put_bool(tn_gguf_keys *keys, const char *name, bool value);
void tn_gguf_put_text(tn_gguf_keys *keys, const char *name, tn_text value);
/* An array of `count` numbers that lie in `bytes` bytes, and of texts. */
void tn_gguf_put_array(tn_gguf_keys *keys, const char *name, tn_gguf_type type, uint64_t count, const void *data,
                       size_t bytes);
void tn_gguf_put_texts(tn_gguf_keys *keys, const char *name, const tn_text *texts, size_t count);

/* The same for keys that were put together; what tn_gguf_write_head sets must not be among them. */
tn_status tn_gguf_write_keys(tn_gguf_keys *keys, uint32_t alignment, tn_dtype main_type, tn_gguf_tensor_plan *tensors,
                             size_t count, tn_buf *out, tn_error *error);

/* Appends to `out` everything in front of the tensor data, padding included. Keys are those of `gguf`;
 * general.file_type becomes that of `main_type`, general.quantization_version 2, and MXFP6 anywhere adds tenon.format.
 * The data of tensor i belongs `offset` bytes behind the head, each padded to gguf->alignment. */
tn_status tn_gguf_write_head(const tn_gguf *gguf, tn_dtype main_type, tn_gguf_tensor_plan *tensors, size_t count,
                             tn_buf *out, tn_error *error);

#endif
