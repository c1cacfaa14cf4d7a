/* A folder as GGUF: the keys, and every tensor under its GGUF name in the form that GGUF has it in. What a family's
 * table of names (names.h) says, and what it reads under GGUF's names (hyper.h), serves both directions. */
#ifndef TENON_MODEL_EXPORT_H
#define TENON_MODEL_EXPORT_H

#include "model/gguf_write.h"
#include "model/model.h"

/* A tensor to be written. */
typedef struct tn_export_tensor {
  tn_file_tensor about;    /* name, rank and dims as GGUF has them, dtype and bytes as the folder has them; no data */
  tn_graph_value value;    /* the same, and where its rows come from, for tn_model_convert; a vector is a column here */
  const uint32_t *col_map; /* column c is column col_map[c] of those rows; NULL: they are in order */
} tn_export_tensor;

typedef struct tn_export {
  tn_gguf_keys keys;
  tn_export_tensor *tensors;
  size_t count, capacity;
  const char **rare; /* keys that other readers don't know */
  size_t rare_count, rare_capacity;
  tn_graph *graph; /* of the folder: some tensors are what it has made */
  tn_arena arena;
  bool drops_normalizer; /* tokenizer.json normalizes text, which GGUF can't say: composed text alone tokenizes alike */
} tn_export;

/* Describes the open folder `model` as GGUF. Without `with_text` the tokenizer and the chat template are left out.
 * TN_E_UNSUPPORTED names what GGUF, or tenon, has no way to say. The
 * caller finishes it, after a failure too. */
tn_status tn_export_open(tn_export *out, const tn_model *model, bool with_text, tn_error *error);
void tn_export_finish(tn_export *out);

/* Notes a key that others don't know; its name must stay. */
tn_status tn_export_note_rare(tn_export *out, const char *name, tn_error *error);

/* ---- export_compare.c ---- */
/* Does the GGUF file `made` compute what the folder `model` does? Both graphs are compared op by op, with their
 * attributes and the shapes and names of their weights, and their tokenizers (if `with_text`) on a text of many
 * scripts. TN_E_UNSUPPORTED names the first difference: something that GGUF can't say. */
tn_status tn_export_compare(const tn_model *model, const tn_model *made, bool with_text, tn_error *error);

/* ---- export_vocab.c ---- */
/* Appends tokenizer.ggml.* and the chat template. TN_E_UNSUPPORTED: a tokenizer that is neither byte-level BPE, cut
 * into words as a pre-tokenizer with a name does, nor SentencePiece's BPE or unigram in a form that GGUF has. */
tn_status tn_export_text(tn_export *out, const tn_model *model, tn_error *error);
/* Do both tokenizers give the same ids for a text of many scripts? */
bool tn_export_same_ids(const tn_tokenizer *a, const tn_tokenizer *b);
/* And for this text, control tokens recognised? */
bool tn_export_same_ids_of(const tn_tokenizer *a, const tn_tokenizer *b, tn_text text);

#endif
