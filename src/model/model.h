/* A model: its file or folder, its hyper-parameters, tokenizer and chat template; immutable once open. */
#ifndef TENON_MODEL_MODEL_H
#define TENON_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/build.h"
#include "model/convert.h"
#include "model/model_text.h"
#include "tenon/tenon.h"

const tn_container *tn_model_container(const tn_model *model);
const tn_hyper *tn_model_hyper(const tn_model *model);
const tn_family *tn_model_family(const tn_model *model);
const tn_tokenizer *tn_model_tokenizer(const tn_model *model); /* NULL: none */
const tn_model_text *tn_model_texts(const tn_model *model);    /* the same, its chat template, and why not */

/* How a graph is to be built. */
typedef struct tn_model_form {
  uint32_t context;    /* positions it is for: where a model scales them by the context (longrope), this is the one */
  uint32_t kv_dtype;   /* of KV memory */
  const char *weights; /* the format that float matrices become, see tn_convert_plan; NULL: as they are */
  bool exact;          /* formats that lose nothing where the file's own can't be computed with */
} tn_model_form;

/* A fresh graph of the model (maxima not yet set); the caller destroys it. */
tn_status tn_model_build(const tn_model *model, const tn_model_form *form, tn_graph **graph, tn_error *error);
/* The rows of a weight that becomes another format than its sources have (tn_convert_needed): see tn_convert. */
tn_status tn_model_convert(const tn_model *model, const tn_graph_value *weight, uint8_t **memory,
                           tn_weight_source *source, tn_error *error);

/* Refuses a weight with a float, or a block with a scale, that is no number: see sound.h. */
tn_status tn_model_check_weight(const tn_model *model, const tn_graph_value *weight, tn_error *error);

/* Reads a folder's hyper-parameters and tensor names once more, for whoever writes it as GGUF: what was read under
 * GGUF's names (values in `arena`), the GGUF names of the tensors, and the graph. The caller frees all three. */
tn_status tn_model_read_again(const tn_model *model, tn_hyper_record *record, tn_name_list *names, tn_arena *arena,
                              tn_graph **graph, tn_error *error);

/* Lets the file pages of the tensor that holds `data` go, once it has been packed. */
void tn_model_release(const tn_model *model, const void *data);

#endif
