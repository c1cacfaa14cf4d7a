/* GGUF files and model folders behind one face (see container.h). */
#include "model/container.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/os.h"

static tn_status open_folder(tn_container *container, const char *path, tn_error *error) {
  static const char *const texts[] = {"generation_config.json", "tokenizer.json", "tokenizer_config.json",
                                      "chat_template.jinja", "config.json"};
  char config[4096];
  for (size_t i = 0; i < TN_COUNT(texts); i++) {
    int bytes = snprintf(config, sizeof config, "%s/%s", path, texts[i]);
    if (bytes < 0 || (size_t)bytes >= sizeof config)
      return tn_fail(error, TN_E_LIMIT, "%s: the path is too long", path);
    if (tn_path_is_endless(config))
      return tn_fail(error, TN_E_FORMAT, "%s: is a pipe or a device, expected a regular file", config);
  }
  tn_status status = tn_config_open(&container->config, config, error);
  if (status == TN_OK) status = tn_safetensors_open(&container->safetensors, path, error);
  if (status != TN_OK) return status;
  container->tensors = container->safetensors->tensors;
  container->tensor_count = container->safetensors->tensor_count;
  return TN_OK;
}

#define MAX_PARTS 1024u
#define PART_NAME "-00001-of-%05u.gguf"

/* Opens part `number` of a split file, whose path is that of the first but for the number. */
static tn_status open_part(tn_container *container, uint32_t number, uint32_t count, tn_error *error) {
  char end[40];
  snprintf(end, sizeof end, PART_NAME, count);
  size_t bytes = strlen(container->path), end_bytes = strlen(end);
  if (bytes < end_bytes || strcmp(container->path + bytes - end_bytes, end))
    return tn_fail(error, TN_E_FORMAT, "%s: is part of a file split in %u, expected a name ending in %s",
                   container->path, count, end);
  char *path = tn_copy_text(container->path, bytes);
  if (!path) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", container->path);
  snprintf(end, sizeof end, "%05u", number + 1);
  memcpy(path + bytes - end_bytes + 1, end, 5);
  tn_gguf *part = NULL;
  uint32_t stated = 0;
  tn_status status = tn_gguf_open(&part, path, error);
  if (status == TN_OK) {
    container->more[container->more_count++] = part;
    status = tn_gguf_get_u32(part, NULL, "split.no", &stated, error);
    if (status == TN_OK && stated != number)
      status = tn_fail(error, TN_E_FORMAT, "%s: split.no is %u, expected %u", path, stated, number);
  }
  free(path);
  return status;
}

static tn_status merge_tensors(tn_container *container, tn_error *error) {
  size_t count = container->gguf->tensor_count, at = 0;
  for (uint32_t i = 0; i < container->more_count; i++) count += container->more[i]->tensor_count;
  container->merged = tn_calloc(count ? count : 1, sizeof *container->merged);
  if (!container->merged) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", container->path);
  for (uint32_t i = 0; i <= container->more_count; i++) {
    const tn_gguf *part = i ? container->more[i - 1] : container->gguf;
    for (size_t k = 0; k < part->tensor_count; k++) {
      for (uint32_t j = 0; j < i; j++)
        if (tn_gguf_find_tensor(j ? container->more[j - 1] : container->gguf, part->tensors[k].name))
          return tn_fail(error, TN_E_FORMAT, "%s: tensor %s is in an earlier part too", part->path,
                         part->tensors[k].name);
      container->merged[at++] = part->tensors[k];
    }
  }
  container->tensors = container->merged;
  container->tensor_count = count;
  uint32_t stated = (uint32_t)count;
  tn_status status = tn_gguf_opt_u32(container->gguf, NULL, "split.tensors.count", &stated, error);
  if (status == TN_OK && stated != count)
    status = tn_fail(error, TN_E_FORMAT, "%s: split.tensors.count is %u, but the parts have %zu tensors",
                     container->path, stated, count);
  return status;
}

static tn_status open_gguf(tn_container *container, tn_error *error) {
  uint32_t count = 1, number = 0;
  tn_status status = tn_gguf_open(&container->gguf, container->path, error);
  if (status != TN_OK) return status;
  container->tensors = container->gguf->tensors;
  container->tensor_count = container->gguf->tensor_count;
  status = tn_gguf_opt_u32(container->gguf, NULL, "split.count", &count, error);
  if (status == TN_OK) status = tn_gguf_opt_u32(container->gguf, NULL, "split.no", &number, error);
  if (status != TN_OK || count <= 1) return status;
  if (number || count > MAX_PARTS)
    return tn_fail(error, TN_E_FORMAT, "%s: split.no is %u and split.count %u, expected the first of at most %u parts",
                   container->path, number, count, MAX_PARTS);
  container->more = tn_calloc(count, sizeof *container->more);
  if (!container->more) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", container->path);
  for (uint32_t i = 1; i < count && status == TN_OK; i++) status = open_part(container, i, count, error);
  return status == TN_OK ? merge_tensors(container, error) : status;
}

tn_status tn_container_open(tn_container *container, const char *path, tn_error *error) {
  tn_status status;
  *container = (tn_container){.path = tn_copy_text(path, strlen(path))};
  if (!container->path) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  status = tn_path_is_directory(path) ? open_folder(container, path, error) : open_gguf(container, error);
  for (size_t i = 0; i < container->tensor_count; i++) container->tensor_bytes += container->tensors[i].bytes;
  return status;
}

void tn_container_close(tn_container *container) {
  for (uint32_t i = 0; i < container->more_count; i++) tn_gguf_close(container->more[i]);
  free(container->more);
  free(container->merged);
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
    if (status == TN_OK && container->merged) {
      use->tensors = tn_calloc(container->tensor_count ? container->tensor_count : 1, 1);
      if (!use->tensors) status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", container->path);
    }
    return status;
  }
  use->values = tn_calloc(container->config.count ? container->config.count : 1, 1);
  use->tensors = tn_calloc(container->tensor_count ? container->tensor_count : 1, 1);
  return use->values && use->tensors ? TN_OK : tn_fail(error, TN_E_MEMORY, "%s: out of memory", container->path);
}

void tn_container_use_finish(tn_container_use *use, const tn_container *container) {
  if (container->gguf) {
    if (container->merged) free(use->tensors);
    tn_gguf_use_finish(&use->gguf);
  } else {
    free(use->values);
    free(use->tensors);
  }
  *use = (tn_container_use){0};
}

/* The part of a split file that has the tensor; the first where none has. */
static const tn_gguf *part_of(const tn_container *container, const char *name) {
  for (uint32_t i = 0; i < container->more_count; i++)
    if (tn_gguf_find_tensor(container->more[i], name)) return container->more[i];
  return container->gguf;
}

const tn_file_tensor *tn_container_find_tensor(const tn_container *container, const char *name) {
  return container->gguf ? tn_gguf_find_tensor(part_of(container, name), name)
                         : tn_safetensors_find(container->safetensors, name);
}

tn_status tn_container_get_tensor(const tn_container *container, tn_container_use *use, const char *name,
                                  const tn_file_tensor **out, tn_error *error) {
  if (!container->gguf) return tn_safetensors_get(container->safetensors, use ? use->tensors : NULL, name, out, error);
  if (!container->merged) return tn_gguf_get_tensor(container->gguf, use ? &use->gguf : NULL, name, out, error);
  tn_status status = tn_gguf_get_tensor(part_of(container, name), NULL, name, out, error);
  for (size_t i = 0; status == TN_OK && use && i < container->tensor_count; i++)
    if (container->merged[i].data == (*out)->data && !strcmp(container->merged[i].name, name)) use->tensors[i] = 1;
  return status;
}

void tn_container_release(const tn_container *container, const tn_file_tensor *tensor) {
  if (container->gguf)
    tn_gguf_release(part_of(container, tensor->name), tensor);
  else
    tn_safetensors_release(container->safetensors, tensor);
}

void tn_container_stamp(const tn_container *container, tn_buf *out) {
  if (container->safetensors) tn_safetensors_stamp(container->safetensors, out);
  if (container->gguf) tn_gguf_stamp(container->gguf, out);
  for (uint32_t i = 0; i < container->more_count; i++) tn_gguf_stamp(container->more[i], out);
}

bool tn_container_place(const tn_container *container, const void *data, size_t *file, uint64_t *offset) {
  if (container->safetensors) return tn_safetensors_place(container->safetensors, data, file, offset);
  *file = 0;
  bool found = container->gguf && tn_gguf_place(container->gguf, data, offset);
  for (uint32_t i = 0; i < container->more_count && !found; i++) {
    *file = i + 1;
    found = tn_gguf_place(container->more[i], data, offset);
  }
  return found;
}
