/* What the elements of a tensor are: plain numbers, or blocks of quantised weights.
 *
 * A row is a run of elements along the fastest dimension. Quantised types store a row as whole blocks, so a row's
 * length must be a multiple of the block's elements. The table of types, TN_DTYPES, is in tenon/device.h. */
#ifndef TENON_TENSOR_DTYPE_H
#define TENON_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include "tenon/device.h"

/* The type's name in lower case ("q4_k"); "?" for a number that is none. */
const char *tn_dtype_name(tn_dtype dtype);
/* Elements and bytes of one block (1 and the element's size for plain types); 0 for a number that is no type, and 0
 * bytes for Q8A, whose rows are not made of blocks. */
size_t tn_dtype_block_elements(tn_dtype dtype);
size_t tn_dtype_block_bytes(tn_dtype dtype);
/* The type called `name`, in either case; TN_DTYPE_COUNT when there is none. */
tn_dtype tn_dtype_find(const char *name);
/* Bytes of a row of `elements`; false when it isn't whole blocks (Q8A pads and takes any number) or doesn't fit a
 * size_t. */
bool tn_dtype_row_bytes(tn_dtype dtype, size_t elements, size_t *bytes);

#endif
