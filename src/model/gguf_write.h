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

/* Appends to `out` everything in front of the tensor data, padding included. Keys are those of `gguf`;
 * general.file_type becomes that of `main_type`, general.quantization_version 2, and MXFP6 anywhere adds tenon.format.
 * The data of tensor i belongs `offset` bytes behind the head, each padded to gguf->alignment. */
tn_status tn_gguf_write_head(const tn_gguf *gguf, tn_dtype main_type, tn_gguf_tensor_plan *tensors, size_t count,
                             tn_buf *out, tn_error *error);

#endif
