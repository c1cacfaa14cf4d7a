/* From any element type to float: the reference decoders. They are written to be read and define what a format means;
 * the fast kernels are held against them. Freestanding (no library calls), so they also run inside a device. */
#ifndef TENON_TENSOR_DECODE_H
#define TENON_TENSOR_DECODE_H

#include "tensor/dtype.h"

/* Decodes `count` elements of a row at `src` (any alignment) to `dst`. The products are taken in float in the order of
 * the formulas of blocks.h, left to right. False, with nothing written, when `count` isn't whole blocks or the type is
 * none. */
bool tn_decode_row(tn_dtype dtype, const void *src, float *dst, size_t count);

#endif
