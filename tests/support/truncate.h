/* Writes a GGUF model's first blocks, with its embeddings and head, as a model of its own: what it says resembles the
 * whole one's a little. */
#ifndef TESTS_SUPPORT_TRUNCATE_H
#define TESTS_SUPPORT_TRUNCATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "model/gguf_write.h"

static bool truncate_keeps(const tn_file_tensor *tensor, uint32_t blocks) {
  unsigned block;
  return sscanf(tensor->name, "blk.%u.", &block) != 1 || block < blocks;
}

/* The first `blocks` blocks of the model at `path` into a file at `to`. */
static tn_status truncate_model(const char *path, uint32_t blocks, const char *to, tn_error *error) {
  tn_gguf *gguf;
  tn_status status = tn_gguf_open(&gguf, path, error);
  if (status != TN_OK) return status;
  tn_gguf shorter = *gguf;
  tn_gguf_key *keys = calloc(gguf->key_count, sizeof *keys);
  tn_gguf_tensor_plan *tensors = calloc(gguf->tensor_count, sizeof *tensors);
  size_t count = 0;
  for (size_t i = 0; i < gguf->key_count; i++) {
    keys[i] = gguf->keys[i];
    if (strstr(keys[i].name, ".block_count")) keys[i].u = blocks;
  }
  shorter.keys = keys;
  for (size_t i = 0; i < gguf->tensor_count; i++)
    if (truncate_keeps(&gguf->tensors[i], blocks))
      tensors[count++] = (tn_gguf_tensor_plan){
          .from = &gguf->tensors[i], .dtype = gguf->tensors[i].dtype, .bytes = gguf->tensors[i].bytes};
  tn_buf head;
  tn_file_writer *writer = NULL;
  tn_buf_init(&head);
  status = tn_gguf_write_head(&shorter, TN_Q4_1, tensors, count, &head, error);
  if (status == TN_OK) status = tn_file_writer_open(&writer, to, error);
  if (status == TN_OK) status = tn_file_writer_append(writer, head.data, head.size, error);
  for (size_t i = 0; i < count && status == TN_OK; i++) {
    static const char padding[64];
    size_t bytes = tensors[i].bytes, over = bytes % gguf->alignment;
    status = tn_file_writer_append(writer, tensors[i].from->data, bytes, error);
    if (status == TN_OK && over) status = tn_file_writer_append(writer, padding, gguf->alignment - over, error);
  }
  if (status == TN_OK)
    status = tn_file_writer_commit(writer, error);
  else if (writer)
    tn_file_writer_discard(writer);
  tn_buf_finish(&head);
  free(keys);
  free(tensors);
  tn_gguf_close(gguf);
  return status;
}

#endif
