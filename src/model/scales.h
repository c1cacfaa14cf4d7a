/* Scales that folders hold apart from their values: F8 tensors whose values mean value * scale, with the scales in a
 * tensor beside them, and what config.json says of it (quantization_config).
 *
 *   NAME.weight        F8_E4M3 or F8_E5M2, [rows, cols], or [experts, rows, cols]
 *   NAME.weight_scale  or NAME.weight_scale_inv (which is multiplied by, too): one number; one for each row; or one for
 *                      each block of weight_block_size, [rows / block rows, cols / block cols] rounded up
 *
 *   NAME_blocks        u8, MXFP4: 16 bytes for each 32 values, element 2j in the low and 2j + 1 in the high nibble of
 * byte j; [experts, rows, blocks, 16] NAME_scales        u8, for each block 127 more than the power of two
 *
 * Known: quant_method "fp8" (DeepSeek, Qwen) and "compressed-tensors" in float-quantized form. How activations were to
 * be quantised is read over: here they stay as precise as `--activations` says. */
#ifndef TENON_MODEL_SCALES_H
#define TENON_MODEL_SCALES_H

#include "base/memory.h"
#include "model/container.h"

/* The scales of one tensor: that of its value (row, col) is number row / rows * per_row + col / cols. Rows count over
 * all experts. */
typedef struct tn_tensor_scales {
  const tn_file_tensor *tensor, *scales;
  uint64_t rows, cols, per_row;
  uint64_t matrix_rows, matrix_blocks; /* where blocks begin anew with each expert's rows; 0: they don't */
} tn_tensor_scales;

typedef struct tn_scales {
  bool demanded; /* every F8 tensor must have scales */
  uint32_t block_rows, block_cols;
  tn_tensor_scales *items; /* in the order of the tensors' data */
  size_t count, capacity;
} tn_scales;

/* Reads quantization_config and finds the scales of every F8 tensor of a folder; of a GGUF file there are none. A
 * method or a key that isn't known is refused by name, and so are scales of the wrong shape or type. The caller
 * finishes it, after a failure too. */
tn_status tn_scales_open(tn_scales *scales, const tn_container *file, tn_error *error);
void tn_scales_finish(tn_scales *scales);

/* The scales of the tensor that holds the byte at `data`, or NULL. */
const tn_tensor_scales *tn_scales_at(const tn_scales *scales, const void *data);
/* The scale of value (row, col) of the tensor. */
float tn_scale_of(const tn_tensor_scales *scales, uint64_t row, uint64_t col);
/* The largest magnitude among them. */
float tn_scales_largest(const tn_tensor_scales *scales);
/* Rows of MXFP4 as blocks.h draws it, from blocks and scales apart: `count` blocks from number `first` on. */
void tn_scales_join_blocks(const tn_tensor_scales *blocks, uint64_t first, uint64_t count, uint8_t *out);
/* Does the tensor hold scales, of weights or of activations? */
bool tn_scales_is_scale(const tn_scales *scales, const tn_container *file, const char *name);

#endif
