/* Any bytes as a safetensors file: it is refused with a message, or everything it describes can be read and covers the
 * data. */
#include <stdlib.h>
#include <string.h>
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensor(const tn_safetensors *file, const tn_file_tensor *tensor) {
  tn_error error;
  const tn_file_tensor *found;
  if (tn_safetensors_find(file, tensor->name) != tensor) abort();
  volatile unsigned sum = 0;
  for (size_t i = 0; i < tensor->bytes; i++) sum += tensor->data[i];
  (void)sum;
  tn_status status = tn_safetensors_get(file, NULL, tensor->name, &found, &error);
  if (status == TN_OK ? found != tensor : error.status != status) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_error error = {0};
  tn_safetensors *file;
  if (tn_safetensors_open_memory(&file, "fuzz.safetensors", data, size, &error) != TN_OK) {
    if (file || !error.status || strncmp(error.message, "fuzz.safetensors: ", 18) != 0) abort();
    return 0;
  }
  uint64_t header;
  memcpy(&header, data, sizeof header);
  size_t covered = 0;
  for (size_t i = 0; i < file->tensor_count; i++) {
    read_tensor(file, &file->tensors[i]);
    covered += file->tensors[i].bytes;
  }
  if (covered != size - 8 - header) abort();
  tn_safetensors_close(file);
  return 0;
}
