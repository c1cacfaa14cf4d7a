#include "tensor/dtype.h"

#define NAME_OF(number, NAME, name, elements, bytes) name,
#define ELEMENTS_OF(number, NAME, name, elements, bytes) elements,
#define BYTES_OF(number, NAME, name, elements, bytes) bytes,
static const char *const names[] = {TN_DTYPES(NAME_OF)};
static const uint16_t block_elements[] = {TN_DTYPES(ELEMENTS_OF)};
static const uint16_t block_bytes[] = {TN_DTYPES(BYTES_OF)};

static bool is_dtype(tn_dtype dtype) {
  return (uint32_t)dtype < TN_DTYPE_COUNT;
}

const char *tn_dtype_name(tn_dtype dtype) {
  return is_dtype(dtype) ? names[dtype] : "?";
}

size_t tn_dtype_block_elements(tn_dtype dtype) {
  return is_dtype(dtype) ? block_elements[dtype] : 0;
}

size_t tn_dtype_block_bytes(tn_dtype dtype) {
  return is_dtype(dtype) ? block_bytes[dtype] : 0;
}

/* Equal but for the case of ASCII letters; `lower` is in lower case. */
static bool equal_in_any_case(const char *lower, const char *text) {
  for (; *lower; lower++, text++) {
    char c = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
    if (c != *lower) return false;
  }
  return !*text;
}

tn_dtype tn_dtype_find(const char *name) {
  int i = 0;
  while (i < TN_DTYPE_COUNT && !equal_in_any_case(names[i], name)) i++;
  return (tn_dtype)i;
}

bool tn_dtype_row_bytes(tn_dtype dtype, size_t elements, size_t *bytes) {
  if (!is_dtype(dtype)) return false;
  size_t blocks = elements / block_elements[dtype], block = block_bytes[dtype];
  if (dtype == TN_Q8A) {
    blocks += elements % TN_Q8A_BLOCK != 0;
    block = TN_Q8A_ROW_BYTES(TN_Q8A_BLOCK);
  } else if (elements % block_elements[dtype]) {
    return false;
  }
  return !__builtin_mul_overflow(blocks, block, bytes);
}
