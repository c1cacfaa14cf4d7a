/* Inside the GGUF reader: what gguf.c builds and gguf_get.c looks things up in. */
#ifndef TENON_MODEL_GGUF_STORE_H
#define TENON_MODEL_GGUF_STORE_H

#include <string.h>
#include "base/memory.h"
#include "base/os.h"
#include "model/gguf.h"

struct tn_gguf_store {
  tn_gguf gguf; /* what the caller sees */
  tn_file_map map;
  tn_arena arena;
  tn_gguf_key *keys;
  tn_file_tensor *tensors;
  const tn_gguf_key **keys_by_name;
  const tn_file_tensor **tensors_by_name;
};

/* Numbers of the file are little endian, as every machine tenon runs on. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF numbers are read as they lie");

static inline uint32_t tn_gguf_load_u32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static inline uint64_t tn_gguf_load_u64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* Bytes of one element of a fixed-size type; 0 for strings and arrays. */
size_t tn_gguf_type_bytes(tn_gguf_type type);
/* One number at `at`: the integer (booleans included) or the floating-point value of a fixed-size type. */
int64_t tn_gguf_load_integer(tn_gguf_type type, const uint8_t *at);
double tn_gguf_load_float(tn_gguf_type type, const uint8_t *at);

#endif
