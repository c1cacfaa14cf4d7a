/* A model: its file or folder, its hyper-parameters, tokenizer and chat template; immutable once open. */
#ifndef TENON_MODEL_MODEL_H
#define TENON_MODEL_MODEL_H

#include "graph/graph.h"
#include "model/build.h"
#include "model/model_text.h"
#include "tenon/tenon.h"

const tn_container *tn_model_container(const tn_model *model);
const tn_gguf *tn_model_file(const tn_model *model); /* NULL where the model is a folder */
const tn_hyper *tn_model_hyper(const tn_model *model);
const tn_family *tn_model_family(const tn_model *model);
const tn_tokenizer *tn_model_tokenizer(const tn_model *model); /* NULL: none */
const tn_model_text *tn_model_texts(const tn_model *model);    /* the same, its chat template, and why not */

/* A fresh graph of the model for up to `context` positions with KV of kv_dtype (maxima not yet set); the caller
 * destroys it. Where a model scales its positions by the context (longrope), this is the one. */
tn_status tn_model_build(const tn_model *model, uint32_t context, uint32_t kv_dtype, tn_graph **graph, tn_error *error);

/* Lets the file pages of the tensor that holds `data` go, once it has been packed. */
void tn_model_release(const tn_model *model, const void *data);

#endif
