/* GGUF files and model folders behind one face (see container.h). */
#include "model/container.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/os.h"

static tn_status open_folder(tn_container *container, const char *path, tn_error *error) {
  char config[4096];
  int bytes = snprintf(config, sizeof config, "%s/config.json", path);
  if (bytes < 0 || (size_t)bytes >= sizeof config) return tn_fail(error, TN_E_LIMIT, "%s: the path is too long", path);
  tn_status status = tn_config_open(&container->config, config, error);
  if (status == TN_OK) status = tn_safetensors_open(&container->safetensors, path, error);
  if (status != TN_OK) return status;
  container->tensors = container->safetensors->tensors;
  container->tensor_count = container->safetensors->tensor_count;
  return TN_OK;
}

tn_status tn_container_open(tn_container *container, const char *path, tn_error *error) {
  tn_status status;
  *container = (tn_container){.path = tn_copy_text(path, strlen(path))};
  if (!container->path) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  if (tn_path_is_directory(path)) {
    status = open_folder(container, path, error);
  } else {
    status = tn_gguf_open(&container->gguf, path, error);
    if (status == TN_OK) {
      container->tensors = container->gguf->tensors;
      container->tensor_count = container->gguf->tensor_count;
    }
  }
  for (size_t i = 0; i < container->tensor_count; i++) container->tensor_bytes += container->tensors[i].bytes;
  return status;
}

void tn_container_close(tn_container *container) {
  tn_gguf_close(container->gguf);
  tn_safetensors_close(container->safetensors);
  tn_config_close(&container->config);
  free(container->path);
  *container = (tn_container){0};
}

tn_status tn_container_use_init(tn_container_use *use, const tn_container *container, tn_error *error) {
  *use = (tn_container_use){0};
  if (container->gguf) {
    tn_status status = tn_gguf_use_init(&use->gguf, container->gguf, error);
    use->tensors = use->gguf.tensors;
    return status;
  }
  use->values = tn_calloc(container->config.count ? container->config.count : 1, 1);
  use->tensors = tn_calloc(container->tensor_count ? container->tensor_count : 1, 1);
  return use->values && use->tensors ? TN_OK : tn_fail(error, TN_E_MEMORY, "%s: out of memory", container->path);
}

void tn_container_use_finish(tn_container_use *use, const tn_container *container) {
  if (container->gguf) {
    tn_gguf_use_finish(&use->gguf);
  } else {
    free(use->values);
    free(use->tensors);
  }
  *use = (tn_container_use){0};
}

const tn_file_tensor *tn_container_find_tensor(const tn_container *container, const char *name) {
  return container->gguf ? tn_gguf_find_tensor(container->gguf, name)
                         : tn_safetensors_find(container->safetensors, name);
}

tn_status tn_container_get_tensor(const tn_container *container, tn_container_use *use, const char *name,
                                  const tn_file_tensor **out, tn_error *error) {
  if (container->gguf) return tn_gguf_get_tensor(container->gguf, use ? &use->gguf : NULL, name, out, error);
  return tn_safetensors_get(container->safetensors, use ? use->tensors : NULL, name, out, error);
}

void tn_container_release(const tn_container *container, const tn_file_tensor *tensor) {
  if (container->gguf)
    tn_gguf_release(container->gguf, tensor);
  else
    tn_safetensors_release(container->safetensors, tensor);
}
