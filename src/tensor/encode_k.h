/* Encoders of one block of 256 floats, for encode.c. `x` is finite; false when the block's scale doesn't fit an f16. */
#ifndef TENON_TENSOR_ENCODE_K_H
#define TENON_TENSOR_ENCODE_K_H

#include <stdbool.h>
#include <stdint.h>

bool tn_encode_q4_k(const float *x, void *dst);
bool tn_encode_q5_k(const float *x, void *dst);
bool tn_encode_q6_k(const float *x, void *dst);

#endif
