/* Blocks of 32 columns of every integer format, taken apart into what the compute layouts store. */
#ifndef TENON_KERNELS_PACK_UNPACK_H
#define TENON_KERNELS_PACK_UNPACK_H

#include <stdint.h>

/* q: unsigned, the layout's offset included, or a code. Scales as the layout of the dtype has them: d16, m16 as halves,
 * and, of layouts with factors, what they are multiplied by. */
typedef struct tn_unpacked {
  uint8_t q[32];
  uint16_t d16, m16;
  int8_t factors[2];
} tn_unpacked;

/* Columns 32 * block .. + 31 of the row of `dtype` at `row`; dtype is one whose layout is of blocks. */
void tn_unpack_block(uint32_t dtype, const uint8_t *row, uint32_t block, tn_unpacked *out);

#endif
