/* A tensor as a model file describes it: what the GGUF and the safetensors reader have in common. */
#ifndef TENON_MODEL_FILE_TENSOR_H
#define TENON_MODEL_FILE_TENSOR_H

#include "tensor/dtype.h"

enum { TN_FILE_TENSOR_RANK = 4 };

/* `dims[0]` is the fastest dimension (a matrix [out, in] in row-major order has dims {in, out}); dims from `rank` on
 * are 1. The elements lie at `data`, which the reader that gave this owns, in whole rows without gaps. `data` is
 * aligned only as the file aligned it: read numbers with memcpy.
 *
 * What tenon has no use for may still lie in a file next to what it needs, so it is described as far as possible: a
 * tensor with a dimension of 0 has no data; one with more than four dimensions (safetensors only) has the
 * product of the rest in the last of `dims`; one of an unknown type (safetensors only) has the dtype
 * TN_DTYPE_COUNT. The readers' get functions refuse all three. */
typedef struct tn_file_tensor {
  const char *name;
  tn_dtype dtype;
  uint32_t rank;
  int64_t dims[TN_FILE_TENSOR_RANK];
  const uint8_t *data; /* NULL when empty */
  size_t bytes;        /* 0 for a tensor with a dimension of 0 */
} tn_file_tensor;

#endif
