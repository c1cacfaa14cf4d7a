/* Writing the head of a GGUF file (see gguf_write.h; gguf.h draws the format). */
#include "model/gguf_write.h"

#include "base/error.h"

static void put_u32(tn_buf *out, uint32_t value) {
  tn_buf_append(out, &value, sizeof value);
}
static void put_u64(tn_buf *out, uint64_t value) {
  tn_buf_append(out, &value, sizeof value);
}
static void put_text(tn_buf *out, tn_text text) {
  put_u64(out, text.bytes);
  tn_buf_append(out, text.data, text.bytes);
}

static void begin_key(tn_gguf_keys *keys, const char *name, tn_gguf_type type) {
  put_text(&keys->bytes, tn_text_of(name));
  put_u32(&keys->bytes, type);
  keys->count++;
}

void tn_gguf_put_u32(tn_gguf_keys *keys, const char *name, uint32_t value) {
  begin_key(keys, name, TN_GGUF_U32);
  put_u32(&keys->bytes, value);
}

void tn_gguf_put_f32(tn_gguf_keys *keys, const char *name, float value) {
  begin_key(keys, name, TN_GGUF_F32);
  tn_buf_append(&keys->bytes, &value, sizeof value);
}

void tn_gguf_put_bool(tn_gguf_keys *keys, const char *name, bool value) {
  begin_key(keys, name, TN_GGUF_BOOL);
  tn_buf_putc(&keys->bytes, (char)value);
}

void tn_gguf_put_text(tn_gguf_keys *keys, const char *name, tn_text value) {
  begin_key(keys, name, TN_GGUF_STRING);
  put_text(&keys->bytes, value);
}

void tn_gguf_put_array(tn_gguf_keys *keys, const char *name, tn_gguf_type type, uint64_t count, const void *data,
                       size_t bytes) {
  begin_key(keys, name, TN_GGUF_ARRAY);
  put_u32(&keys->bytes, type);
  put_u64(&keys->bytes, count);
  tn_buf_append(&keys->bytes, data, bytes);
}

void tn_gguf_put_texts(tn_gguf_keys *keys, const char *name, const tn_text *texts, size_t count) {
  tn_gguf_put_array(keys, name, TN_GGUF_STRING, count, NULL, 0);
  for (size_t i = 0; i < count; i++) put_text(&keys->bytes, texts[i]);
}

/* Integers are stored in their own width, the lowest bytes first. */
static void put_key(tn_buf *out, const tn_gguf_key *key) {
  static const uint8_t widths[] = {
#define WIDTH(NAME, name, bytes) bytes,
      TN_GGUF_TYPES(WIDTH)
#undef WIDTH
  };
  put_text(out, tn_text_of(key->name));
  put_u32(out, key->type);
  switch (key->type) {
    case TN_GGUF_STRING: put_text(out, key->text); break;
    case TN_GGUF_ARRAY:
      put_u32(out, key->array.type);
      put_u64(out, key->array.count);
      tn_buf_append(out, key->array.data, key->array.bytes);
      break;
    case TN_GGUF_F32: {
      float value = (float)key->f;
      tn_buf_append(out, &value, sizeof value);
      break;
    }
    case TN_GGUF_F64: tn_buf_append(out, &key->f, sizeof key->f); break;
    default: tn_buf_append(out, &key->u, widths[key->type]); break;
  }
}

/* llama.cpp's number for "mostly of this type"; none is known for MXFP6. */
static uint32_t file_type_of(tn_dtype dtype) {
  switch (dtype) {
    case TN_F32: return 0;
    case TN_F16: return 1;
    case TN_Q4_0: return 2;
    case TN_Q4_1: return 3;
    case TN_Q8_0: return 7;
    case TN_Q5_0: return 8;
    case TN_Q5_1: return 9;
    case TN_Q4_K: return 14;
    case TN_Q5_K: return 16;
    case TN_Q6_K: return 18;
    case TN_BF16: return 32;
    case TN_MXFP4: return 38;
    default: return 1024; /* "guessed" */
  }
}

static bool is_replaced(const char *name) {
  return !strcmp(name, "general.file_type") || !strcmp(name, "general.quantization_version") ||
         !strcmp(name, "tenon.format");
}

tn_status tn_gguf_write_keys(tn_gguf_keys *keys, uint32_t alignment, tn_dtype main_type, tn_gguf_tensor_plan *tensors,
                             size_t count, tn_buf *out, tn_error *error) {
  uint64_t offset = 0;
  bool has_own_format = false;
  for (size_t i = 0; i < count; i++) has_own_format = has_own_format || tensors[i].dtype == TN_MXFP6;
  tn_gguf_put_u32(keys, "general.file_type", file_type_of(main_type));
  tn_gguf_put_u32(keys, "general.quantization_version", 2);
  if (has_own_format) tn_gguf_put_text(keys, "tenon.format", TN_TEXT("mxfp6"));
  tn_buf_append(out, "GGUF", 4);
  put_u32(out, 3);
  put_u64(out, count);
  put_u64(out, keys->count);
  tn_buf_append(out, keys->bytes.data, keys->bytes.size);
  for (size_t i = 0; i < count; i++) {
    uint32_t number;
    if (!tn_gguf_number_of(tensors[i].dtype, &number))
      return tn_fail(error, TN_E_UNSUPPORTED, "tensor %s: GGUF has no %s", tensors[i].from->name,
                     tn_dtype_name(tensors[i].dtype));
    tensors[i].offset = offset;
    put_text(out, tn_text_of(tensors[i].from->name));
    put_u32(out, tensors[i].from->rank);
    for (uint32_t d = 0; d < tensors[i].from->rank; d++) put_u64(out, (uint64_t)tensors[i].from->dims[d]);
    put_u32(out, number);
    put_u64(out, offset);
    offset += tn_round_up(tensors[i].bytes, alignment);
  }
  while (out->size % alignment && !out->failed) tn_buf_putc(out, 0);
  return out->failed || keys->bytes.failed ? tn_fail(error, TN_E_MEMORY, "out of memory for the head of the file")
                                           : TN_OK;
}

tn_status tn_gguf_write_head(const tn_gguf *gguf, tn_dtype main_type, tn_gguf_tensor_plan *tensors, size_t count,
                             tn_buf *out, tn_error *error) {
  tn_gguf_keys keys = {0};
  tn_buf_init(&keys.bytes);
  for (size_t i = 0; i < gguf->key_count; i++) {
    if (is_replaced(gguf->keys[i].name)) continue;
    put_key(&keys.bytes, gguf->keys + i);
    keys.count++;
  }
  tn_status status = tn_gguf_write_keys(&keys, gguf->alignment, main_type, tensors, count, out, error);
  tn_buf_finish(&keys.bytes);
  return status;
}
