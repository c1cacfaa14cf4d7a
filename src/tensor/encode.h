/* From float to the formats that tenon writes. Not for the inner loops: the scales are searched for (see fit.h). */
#ifndef TENON_TENSOR_ENCODE_H
#define TENON_TENSOR_ENCODE_H

#include "tensor/dtype.h"

/* Whether tn_encode_row writes the type: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K MXFP4 MXFP6. */
bool tn_can_encode(tn_dtype dtype);

/* Encodes a row of `count` floats to `dst` (tn_dtype_row_bytes long, any alignment). What a float becomes depends on
 * its block alone. False when the type can't be written, `count` isn't whole blocks, or a value is NaN, infinite or
 * beyond what the type's scale can express; `dst` then holds nothing of use. */
bool tn_encode_row(tn_dtype dtype, const float *src, void *dst, size_t count);

#endif
