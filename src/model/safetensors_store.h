/* Inside the safetensors reader: what safetensors.c gathers from the headers that safetensors_header.c reads. */
#ifndef TENON_MODEL_SAFETENSORS_STORE_H
#define TENON_MODEL_SAFETENSORS_STORE_H

#include "base/memory.h"
#include "base/os.h"
#include "base/text.h"
#include "model/safetensors.h"

typedef struct tn_safetensors_shard {
  const char *path;    /* in the arena */
  const uint8_t *data; /* the whole file */
  size_t size;
  tn_file_map map; /* empty for a file in memory */
} tn_safetensors_shard;

struct tn_safetensors_store {
  tn_safetensors file; /* what the caller sees */
  tn_arena arena;      /* names and paths */
  tn_file_tensor *tensors;
  size_t tensor_count, tensor_capacity;
  tn_safetensors_shard *shards;
  size_t shard_count, shard_capacity;
};

/* Reads and checks the header of one file and appends its tensors to the store. `error` must not be NULL. */
tn_status tn_safetensors_read_shard(struct tn_safetensors_store *store, const tn_safetensors_shard *shard,
                                    tn_error *error);

#endif
