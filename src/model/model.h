/* A model: one file, its hyper-parameters, tokenizer and chat template; immutable once open. */
#ifndef TENON_MODEL_MODEL_H
#define TENON_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/build.h"
#include "tenon/tenon.h"

const tn_gguf *tn_model_file(const tn_model *model);
const tn_hyper *tn_model_hyper(const tn_model *model);
const tn_family *tn_model_family(const tn_model *model);

/* A fresh graph of the model with KV of kv_dtype (maxima not yet set); the caller destroys it. */
tn_status tn_model_build(const tn_model *model, uint32_t kv_dtype, tn_graph **graph, tn_error *error);

/* Lets the file pages of the tensor that holds `data` go, once it has been packed. */
void tn_model_release(const tn_model *model, const void *data);

#endif
