/* Opening a model: everything that can be checked is checked here, before any weight is touched (see model.h, tenon.h).
 */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tn_model {
  tn_gguf *gguf;
  const tn_family *family;
  tn_hyper hyper;
  uint64_t parameters;
};

static tn_status find_family(tn_model *model, tn_gguf_use *use, tn_text *architecture, tn_error *error) {
  tn_status status = tn_gguf_get_string(model->gguf, use, "general.architecture", architecture, error);
  if (status != TN_OK) return status;
  model->family = tn_family_of(*architecture);
  if (model->family) return TN_OK;
  char known[300];
  tn_family_list(known, sizeof known);
  return tn_fail(error, TN_E_UNSUPPORTED, "%s: general.architecture is \"%.*s\", expected one of %s", model->gguf->path,
                 (int)(architecture->bytes < 60 ? architecture->bytes : 60), architecture->data, known);
}

static tn_status configure(tn_model *model, tn_gguf_use *use, tn_text architecture, tn_error *error) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)architecture.bytes, architecture.data);
  tn_hyper_reader reader = {model->gguf, use, name, error, TN_OK};
  model->family->configure(&reader, &model->hyper);
  if (reader.status == TN_OK) tn_hyper_finish(&reader);
  return reader.status;
}

static tn_status build(const tn_model *model, tn_gguf_use *use, uint32_t kv_dtype, tn_graph **out, tn_error *error) {
  *out = NULL;
  tn_graph *graph = tn_graph_create();
  if (!graph) return tn_fail(error, TN_E_MEMORY, "%s: out of memory for the graph", model->gguf->path);
  graph->kv_dtype = kv_dtype;
  tn_build context = {
      .graph = graph, .gguf = model->gguf, .use = use, .hyper = &model->hyper, .rope_table = TN_NO_VALUE};
  model->family->build(&context);
  tn_status status = tn_graph_status(graph, error);
  if (status != TN_OK)
    tn_graph_destroy(graph);
  else
    *out = graph;
  return status;
}

/* Builds the graph once to see that every tensor it binds is there in its shape, and that no tensor is left over. */
static tn_status check_tensors(tn_model *model, tn_gguf_use *use, tn_error *error) {
  tn_graph *graph;
  tn_status status = build(model, use, TN_F16, &graph, error);
  if (status != TN_OK) return status;
  for (size_t i = 0; i < model->gguf->tensor_count && status == TN_OK; i++) {
    const tn_file_tensor *tensor = model->gguf->tensors + i;
    uint64_t count = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) count *= (uint64_t)tensor->dims[d];
    model->parameters += count;
    if (!use->tensors[i] && count)
      status = tn_fail(error, TN_E_FORMAT,
                       "%s: tensor %s is not used by the %s family; the model would not be what the file says",
                       model->gguf->path, tensor->name, model->family->name);
  }
  tn_graph_destroy(graph);
  return status;
}

tn_status tn_model_open(const char *path, tn_model **out, tn_error *error) {
  *out = NULL;
  tn_model *model = tn_calloc(1, sizeof *model);
  if (!model) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  tn_gguf_use use = {0};
  tn_text architecture;
  tn_status status = tn_gguf_open(&model->gguf, path, error);
  if (status == TN_OK) status = tn_gguf_use_init(&use, model->gguf, error);
  if (status == TN_OK) status = find_family(model, &use, &architecture, error);
  if (status == TN_OK) status = configure(model, &use, architecture, error);
  if (status == TN_OK) status = check_tensors(model, &use, error);
  tn_gguf_use_finish(&use);
  if (status != TN_OK)
    tn_model_close(model);
  else
    *out = model;
  return status;
}

void tn_model_close(tn_model *model) {
  if (!model) return;
  tn_gguf_close(model->gguf);
  free(model);
}

const tn_gguf *tn_model_file(const tn_model *model) {
  return model->gguf;
}
const tn_hyper *tn_model_hyper(const tn_model *model) {
  return &model->hyper;
}
const tn_family *tn_model_family(const tn_model *model) {
  return model->family;
}

tn_status tn_model_build(const tn_model *model, uint32_t kv_dtype, tn_graph **graph, tn_error *error) {
  return build(model, NULL, kv_dtype, graph, error);
}

void tn_model_release(const tn_model *model, const void *data) {
  for (size_t i = 0; i < model->gguf->tensor_count; i++)
    if (model->gguf->tensors[i].data == data) tn_gguf_release(model->gguf, model->gguf->tensors + i);
}

void tn_model_describe(const tn_model *model, tn_model_info *info) {
  uint32_t size = info->size;
  tn_model_info full = {.size = size,
                        .layers = model->hyper.layers,
                        .width = model->hyper.width,
                        .vocabulary = model->hyper.vocabulary,
                        .context = model->hyper.context,
                        .parameters = model->parameters,
                        .file_bytes = model->gguf->size};
  tn_text name = TN_TEXT("");
  snprintf(full.family, sizeof full.family, "%s", model->family->name);
  if (tn_gguf_opt_string(model->gguf, NULL, "general.name", &name, NULL) == TN_OK)
    snprintf(full.name, sizeof full.name, "%.*s", (int)(name.bytes < 120 ? name.bytes : 120), name.data);
  memcpy(info, &full, size < sizeof full ? size : sizeof full);
}
