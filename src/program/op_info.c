/* The op table and the element types as data (see driver.h). */
#include "tenon/driver.h"

static const tn_op_info op_infos[TN_OP_LIMIT] = {
#define TN_OP(number, NAME, name, revision, min_in, max_in, max_out, attributes, tolerance, text) \
  [number] = {number, revision, min_in, max_in, max_out, sizeof(attributes), tolerance, #name, text},
#include "tenon/ops.def"
#undef TN_OP
};

const tn_op_info *tn_op_info_of(uint32_t opcode) {
  return opcode < TN_OP_LIMIT && op_infos[opcode].name ? &op_infos[opcode] : NULL;
}

uint64_t tn_row_bytes(uint32_t dtype, uint64_t cols) {
  static const struct {
    uint32_t elements, bytes;
  } formats[TN_DTYPE_COUNT] = {
#define X(number, NAME, name, elements, bytes) [number] = {elements, bytes},
      TN_DTYPES(X)
#undef X
  };
  if (dtype == TN_Q8A) return TN_Q8A_ROW_BYTES(cols);
  if (dtype >= TN_DTYPE_COUNT || cols % formats[dtype].elements) return 0;
  return cols / formats[dtype].elements * formats[dtype].bytes;
}
