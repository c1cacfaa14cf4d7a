/* A model's files behind one face: a GGUF file, perhaps split over several, or a folder with config.json and
 * safetensors.
 *
 * Families name tensors as GGUF does; for a folder, names.h translates. Hyper-parameters go by a name for each form
 * (hyper.h). */
#ifndef TENON_MODEL_CONTAINER_H
#define TENON_MODEL_CONTAINER_H

#include "model/config.h"
#include "model/gguf.h"
#include "model/safetensors.h"

typedef struct tn_container {
  char *path;     /* as given to open */
  tn_gguf *gguf;  /* of a GGUF file, else NULL; of a split one the first part, which has the keys */
  tn_gguf **more; /* the other parts of a split file */
  uint32_t more_count;
  tn_file_tensor *merged;        /* of a split file: the tensors of all parts */
  tn_safetensors *safetensors;   /* of a folder, else NULL */
  tn_config config;              /* of a folder */
  const tn_file_tensor *tensors; /* of either */
  size_t tensor_count;
  uint64_t tensor_bytes; /* of all tensors together */
} tn_container;

/* Which keys and tensors somebody asked for, one byte each. */
typedef struct tn_container_use {
  tn_gguf_use gguf; /* of a GGUF file; unless it is split, its tensors are `tensors` */
  uint8_t *values;  /* of config.json */
  uint8_t *tensors;
} tn_container_use;

/* Opens `path`: a folder, or else a GGUF file; of a split one the first part (NAME-00001-of-0000N.gguf), the others lie
 * beside it. The caller closes it, after a failure too. */
tn_status tn_container_open(tn_container *container, const char *path, tn_error *error);
void tn_container_close(tn_container *container);
static inline bool tn_container_is_folder(const tn_container *container) {
  return container->safetensors != NULL;
}

tn_status tn_container_use_init(tn_container_use *use, const tn_container *container, tn_error *error);
void tn_container_use_finish(tn_container_use *use, const tn_container *container);

/* The tensor with this name in the file, or NULL. */
const tn_file_tensor *tn_container_find_tensor(const tn_container *container, const char *name);
/* The tensor `name`, marked in `use` (may be NULL); errors as of the readers' get functions. */
tn_status tn_container_get_tensor(const tn_container *container, tn_container_use *use, const char *name,
                                  const tn_file_tensor **out, tn_error *error);
/* Appends a line for each file of tensors: path, bytes, and when it was changed. Two containers whose lines are equal
 * hold the same tensors. */
void tn_container_stamp(const tn_container *container, tn_buf *out);
/* Where the byte at `data` lies: in which of those files, and where in it. False when in none. */
bool tn_container_place(const tn_container *container, const void *data, size_t *file, uint64_t *offset);
/* Lets the pages of a tensor's data go. */
void tn_container_release(const tn_container *container, const tn_file_tensor *tensor);

#endif
