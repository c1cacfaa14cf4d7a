/* Tensor names: families use those of GGUF; a folder's safetensors have others, and hold some tensors in another form.
 *
 * A table of pairs translates, the family's own first, then the one that most families share. '#' stands for the layer.
 * A pair without a suffix (.weight, .bias) holds for any suffix, which is carried over. In a folder's name '%' stands
 * for the expert: then there is one tensor for each. The prefix of a folder ("model.", "model.language_model.", ...) is
 * found, not written. Where several pairs have one GGUF name, the first whose tensor is in the file counts. */
#ifndef TENON_MODEL_NAMES_H
#define TENON_MODEL_NAMES_H

#include "model/container.h"

#define TN_MAX_NAME 200

enum {
  TN_FORM_ADD_ONE = 1,      /* the vector is used as 1 + w */
  TN_FORM_TRANSPOSED = 2,   /* stored [in, out]; of experts [experts, in, out] */
  TN_FORM_GATE_UP = 4,      /* experts: 2N rows, gate rows first */
  TN_FORM_ALTERNATE = 8,    /* experts: 2N rows, gate and up in turn */
  TN_FORM_BLOCKS = 16,      /* experts: MXFP4 blocks [experts, rows, blocks, 16 bytes], scales apart in the tensor whose
                               name ends in _scales instead of _blocks */
  TN_FORM_MADE = 32,        /* GGUF has what the graph makes of it, under the names of the graph's weights */
  TN_FORM_VALUE_HEADS = 64, /* the last rows belong to the value heads of a recurrent layer: tiled in GGUF */
  TN_FORM_VALUE_COLS = 128  /* the same of columns */
};

typedef struct tn_tensor_name {
  const char *gguf, *folder;
  uint32_t form; /* TN_FORM_ bits */
} tn_tensor_name;

/* A name as the file has it. */
typedef struct tn_name {
  char text[TN_MAX_NAME];
  uint32_t form;
  bool each;  /* there is a tensor for each expert */
  bool found; /* the file has such a tensor */
} tn_name;

struct tn_family;
/* Translates the GGUF name `gguf` to the file's; where the file has no such tensor, `name` says what it should have. */
void tn_name_find(const tn_container *file, const struct tn_family *family, const char *gguf, uint32_t expert,
                  tn_name *name);

/* The name of the scales of MXFP4 blocks, NAME_scales for NAME_blocks; false for another name. */
bool tn_name_of_scales(const char *blocks, char scales[TN_MAX_NAME]);

/* What is left of a folder's tensor name behind its prefix. */
const char *tn_name_without_prefix(const char *name);

/* Does `name` match `pattern`, in which '#' stands for a number and a '*' at the end for anything? */
bool tn_name_matches(const char *pattern, const char *name);

#endif
