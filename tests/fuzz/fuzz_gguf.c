/* Any bytes as a GGUF file: it is refused with a message, or everything it describes can be read. */
#include <stdlib.h>
#include <string.h>
#include "model/gguf.h"

/* Reading the ends of what is described is enough: a sanitizer sees any byte outside the input. */
static unsigned touch(const void *data, size_t bytes) {
  const uint8_t *at = data;
  return bytes ? at[0] + at[bytes - 1] : 0u;
}

static unsigned read_array(const tn_gguf_array *array, unsigned depth) {
  unsigned sum = touch(array->data, array->bytes);
  size_t count = array->count < 200 ? array->count : 200; /* an array of arrays costs the square */
  for (size_t i = 0; i < count; i++) {
    if (array->type == TN_GGUF_STRING) {
      tn_text text = tn_gguf_array_text(array, array->count - 1 - i);
      sum += touch(text.data, text.bytes);
    } else if (array->type != TN_GGUF_ARRAY) {
      sum += tn_gguf_array_f64(array, array->count - 1 - i) > 0;
    } else if (depth < TN_GGUF_MAX_DEPTH) {
      tn_gguf_array inner = tn_gguf_array_array(array, i);
      sum += read_array(&inner, depth + 1);
    }
  }
  tn_gguf_cursor cursor = {array, 0, 0};
  tn_text text;
  while (array->type == TN_GGUF_STRING && tn_gguf_next_text(&cursor, &text)) sum += touch(text.data, text.bytes);
  return sum;
}

static void read_key(const tn_gguf *gguf, tn_gguf_use *use, const tn_gguf_key *key) {
  tn_error error;
  uint32_t u32 = 0;
  int64_t i64 = 0;
  float f32 = 0;
  bool boolean = false;
  tn_text text = {0};
  tn_gguf_array array = {0};
  if (tn_gguf_find(gguf, key->name) != key) abort();
  tn_gguf_opt_u32(gguf, use, key->name, &u32, &error);
  tn_gguf_opt_i64(gguf, use, key->name, &i64, &error);
  tn_gguf_opt_f32(gguf, use, key->name, &f32, &error);
  tn_gguf_opt_bool(gguf, use, key->name, &boolean, &error);
  volatile unsigned sum = 0;
  if (tn_gguf_opt_string(gguf, use, key->name, &text, &error) == TN_OK) sum += touch(text.data, text.bytes);
  if (tn_gguf_opt_array(gguf, use, key->name, TN_GGUF_TYPE_COUNT, &array, &error) == TN_OK)
    sum += read_array(&array, 0);
  (void)sum;
  if (!use->keys[key - gguf->keys]) abort();
}

static void read_tensor(const tn_gguf *gguf, tn_gguf_use *use, const tn_file_tensor *tensor) {
  tn_error error;
  const tn_file_tensor *found;
  volatile unsigned sum = touch(tensor->data, tensor->bytes);
  (void)sum;
  tn_status status = tn_gguf_get_tensor(gguf, use, tensor->name, &found, &error);
  if (tensor->bytes ? status != TN_OK || found != tensor : status != TN_E_FORMAT) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_error error = {0};
  tn_gguf *gguf;
  if (tn_gguf_open_memory(&gguf, "fuzz.gguf", data, size, &error) != TN_OK) {
    if (gguf || !error.status || strncmp(error.message, "fuzz.gguf: ", 11) != 0) abort();
    return 0;
  }
  tn_gguf_use use;
  if (tn_gguf_use_init(&use, gguf, &error) == TN_OK) {
    for (size_t i = 0; i < gguf->key_count; i++) read_key(gguf, &use, &gguf->keys[i]);
    for (size_t i = 0; i < gguf->tensor_count; i++) read_tensor(gguf, &use, &gguf->tensors[i]);
    tn_gguf_use_finish(&use);
  }
  tn_gguf_close(gguf);
  return 0;
}
