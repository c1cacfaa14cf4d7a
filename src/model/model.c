/* Opening a model: everything that can be checked is checked here, before any weight is touched (see model.h, tenon.h).
 */
#include "model/model.h"
#include "model/sound.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/sampling.h"

struct tn_model {
  tn_container file;
  tn_arena arena; /* what a family keeps of its hyper-parameters */
  const tn_family *family;
  tn_hyper hyper;
  uint64_t parameters;
  tn_scales scales; /* of 8-bit floats */
  tn_model_text text;
  tn_sampling_advice advice;
};

static int cut(tn_text text) {
  return (int)(text.bytes < 60 ? text.bytes : 60);
}

/* The architecture's name: general.architecture, or the model_type of config.json. */
static tn_status read_architecture(const tn_model *model, tn_container_use *use, tn_text *name, tn_error *error) {
  const tn_container *file = &model->file;
  if (!tn_container_is_folder(file))
    return tn_gguf_get_string(file->gguf, &use->gguf, "general.architecture", name, error);
  const tn_config_value *value = tn_config_find(&file->config, "model_type");
  if (!value || value->kind != TN_JSON_STRING)
    return tn_fail(error, TN_E_FORMAT, "%s: model_type is missing or no string", file->config.path);
  *name = value->text;
  return TN_OK;
}

static tn_status find_family(tn_model *model, tn_text name, tn_error *error) {
  bool is_folder = tn_container_is_folder(&model->file);
  model->family = tn_family_of(name, is_folder);
  if (model->family) return TN_OK;
  char known[400];
  tn_family_list(is_folder, known, sizeof known);
  return tn_fail(error, TN_E_UNSUPPORTED, "%s: %s is \"%.*s\", expected one of %s",
                 is_folder ? model->file.config.path : model->file.path,
                 is_folder ? "model_type" : "general.architecture", cut(name), name.data, known);
}

static tn_status configure(tn_model *model, tn_container_use *use, tn_text architecture, tn_error *error) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", cut(architecture), architecture.data);
  tn_hyper_reader reader = {&model->file, use, name, model->family, &model->arena, error, TN_OK, NULL};
  model->family->configure(&reader, &model->hyper);
  tn_hyper_finish(&reader);
  return reader.status;
}

static tn_status build(const tn_model *model, tn_container_use *use, tn_name_list *seen, uint32_t context,
                       uint32_t kv_dtype, tn_graph **out, tn_error *error) {
  *out = NULL;
  tn_graph *graph = tn_graph_create();
  if (!graph) return tn_fail(error, TN_E_MEMORY, "%s: out of memory for the graph", model->file.path);
  graph->kv_dtype = kv_dtype;
  tn_build context_of_build = {.graph = graph,
                               .file = &model->file,
                               .use = use,
                               .family = model->family,
                               .hyper = &model->hyper,
                               .context = context,
                               .rope = TN_NO_VALUE,
                               .rope_sliding = TN_NO_VALUE,
                               .shared = TN_NO_VALUE,
                               .seen = seen};
  model->family->build(&context_of_build);
  tn_status status = tn_graph_status(graph, error);
  if (status != TN_OK)
    tn_graph_destroy(graph);
  else
    *out = graph;
  return status;
}

/* May a tensor be left over? What a family names, and the parts for images, sound and drafts in a folder. */
static bool is_known_unused(const tn_model *model, const char *name) {
  static const char *const parts[] = {"model.visual.*",
                                      "vision_tower.*",
                                      "multi_modal_projector.*",
                                      "model.vision_tower.*",
                                      "model.embed_vision.*",
                                      "model.audio_tower.*",
                                      "model.embed_audio.*",
                                      "model.multi_modal_projector.*",
                                      "mtp.*"};
  bool is_folder = tn_container_is_folder(&model->file);
  const char *short_name = is_folder ? tn_name_without_prefix(name) : name;
  unsigned long layer;
  if (sscanf(short_name, is_folder ? "layers.%lu." : "blk.%lu.", &layer) == 1 && layer >= model->hyper.layers &&
      layer - model->hyper.layers < model->hyper.draft_layers)
    return true;
  for (const char *const *pattern = model->family->unused; pattern && *pattern; pattern++)
    if (tn_name_matches(*pattern, short_name)) return true;
  if (!is_folder && tn_name_matches("rope_factors_*", name)) return true; /* those for contexts of the other kind */
  for (size_t i = 0; i < TN_COUNT(parts) && is_folder; i++)
    if (tn_name_matches(parts[i], name)) return true;
  return false;
}

/* Builds the graph once to see that every tensor it binds is there in its shape, and that no tensor is left over. */
static tn_status check_tensors(tn_model *model, tn_container_use *use, tn_error *error) {
  tn_graph *graph;
  tn_status status = build(model, use, NULL, model->hyper.context, TN_F16, &graph, error);
  if (status != TN_OK) return status;
  for (size_t i = 0; i < model->file.tensor_count && status == TN_OK; i++) {
    const tn_file_tensor *tensor = model->file.tensors + i;
    uint64_t count = 1;
    for (uint32_t d = 0; d < tensor->rank && d < TN_FILE_TENSOR_RANK; d++) count *= (uint64_t)tensor->dims[d];
    if (use->tensors[i])
      model->parameters += count;
    else if (count && !is_known_unused(model, tensor->name) &&
             !tn_scales_is_scale(&model->scales, &model->file, tensor->name))
      status = tn_fail(error, TN_E_FORMAT,
                       "%s: tensor %s is not used by the %s family; the model would not be what the file says",
                       model->file.path, tensor->name, model->family->name);
  }
  tn_graph_destroy(graph);
  return status;
}

/* Tokens that text can become must have rows of the embedding. Control tokens without one there may be (Gemma's for
 * images): a request that has them is refused. */
static tn_status check_vocabulary(const tn_model *model, tn_error *error) {
  const tn_tokenizer *tokenizer = model->text.tokenizer;
  size_t count = tokenizer ? tn_tokenizer_size(tokenizer) : 0;
  for (size_t id = model->hyper.vocabulary; id < count; id++) {
    tn_text token = tn_tokenizer_token_text(tokenizer, (int32_t)id);
    if (!token.bytes || tn_tokenizer_is_special(tokenizer, (int32_t)id)) continue;
    bool is_folder = tn_container_is_folder(&model->file);
    return tn_fail(error, TN_E_FORMAT,
                   "%s%s: token %zu \"%.*s\" has no row in the model's embedding, expected ids below vocab_size %u",
                   model->file.path, is_folder ? "/tokenizer.json" : ": tokenizer.ggml.tokens", id, cut(token),
                   token.data, model->hyper.vocabulary);
  }
  return TN_OK;
}

tn_status tn_model_open(const char *path, tn_model **out, tn_error *error) {
  *out = NULL;
  tn_model *model = tn_calloc(1, sizeof *model);
  if (!model) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  tn_arena_init(&model->arena, 0);
  tn_container_use use = {0};
  tn_text architecture;
  tn_status status = tn_container_open(&model->file, path, error);
  if (status == TN_OK) status = tn_container_use_init(&use, &model->file, error);
  if (status == TN_OK) status = read_architecture(model, &use, &architecture, error);
  if (status == TN_OK) status = find_family(model, architecture, error);
  if (status == TN_OK) status = tn_scales_open(&model->scales, &model->file, error);
  if (status == TN_OK) status = configure(model, &use, architecture, error);
  if (status == TN_OK) status = check_tensors(model, &use, error);
  if (status == TN_OK) status = tn_model_text_open(&model->text, &model->file, &use, error);
  if (status == TN_OK) status = check_vocabulary(model, error);
  if (status == TN_OK) status = tn_sampling_read(&model->advice, &model->file, error);
  tn_container_use_finish(&use, &model->file);
  if (status != TN_OK)
    tn_model_close(model);
  else
    *out = model;
  return status;
}

void tn_model_close(tn_model *model) {
  if (!model) return;
  tn_model_text_close(&model->text);
  tn_scales_finish(&model->scales);
  tn_container_close(&model->file);
  tn_arena_finish(&model->arena);
  free(model);
}

const tn_container *tn_model_container(const tn_model *model) {
  return &model->file;
}
const tn_hyper *tn_model_hyper(const tn_model *model) {
  return &model->hyper;
}
const tn_family *tn_model_family(const tn_model *model) {
  return model->family;
}
const tn_tokenizer *tn_model_tokenizer(const tn_model *model) {
  return model->text.tokenizer;
}
const tn_model_text *tn_model_texts(const tn_model *model) {
  return &model->text;
}

tn_status tn_model_build(const tn_model *model, const tn_model_form *form, tn_graph **graph, tn_error *error) {
  tn_status status = build(model, NULL, NULL, form->context, form->kv_dtype, graph, error);
  if (status != TN_OK) return status;
  status = tn_convert_plan(*graph, &model->file, &model->scales, form->weights, form->exact, error);
  if (status == TN_OK) return TN_OK;
  tn_graph_destroy(*graph);
  *graph = NULL;
  return status;
}

tn_status tn_model_convert(const tn_model *model, const tn_graph_value *weight, uint8_t **memory,
                           tn_weight_source *source, tn_error *error) {
  return tn_convert(weight, &model->file, &model->scales, memory, source, error);
}

tn_status tn_model_check_weight(const tn_model *model, const tn_graph_value *weight, tn_error *error) {
  return tn_sound_check(weight, &model->file, &model->scales, error);
}

tn_status tn_model_read_again(const tn_model *model, tn_hyper_record *record, tn_name_list *names, tn_arena *arena,
                              tn_graph **graph, tn_error *error) {
  tn_container_use use = {0};
  tn_text architecture;
  tn_hyper *hyper = tn_arena_alloc(arena, sizeof *hyper);
  *graph = NULL;
  tn_status status = hyper ? tn_container_use_init(&use, &model->file, error)
                           : tn_fail(error, TN_E_MEMORY, "%s: out of memory", model->file.path);
  if (status == TN_OK) status = read_architecture(model, &use, &architecture, error);
  if (status == TN_OK) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", cut(architecture), architecture.data);
    tn_hyper_reader reader = {&model->file, &use, name, model->family, arena, error, TN_OK, record};
    model->family->configure(&reader, hyper);
    status = reader.status;
  }
  if (status == TN_OK) status = build(model, NULL, names, model->hyper.context, TN_F16, graph, error);
  tn_container_use_finish(&use, &model->file);
  return status;
}

void tn_model_release(const tn_model *model, const void *data) {
  for (size_t i = 0; i < model->file.tensor_count; i++)
    if (model->file.tensors[i].data == data) tn_container_release(&model->file, model->file.tensors + i);
}

void tn_model_describe(const tn_model *model, tn_model_info *info) {
  uint32_t size = info->size;
  tn_model_info full = {.size = size,
                        .layers = model->hyper.layers,
                        .width = model->hyper.width,
                        .vocabulary = model->hyper.vocabulary,
                        .context = model->hyper.context,
                        .has_tokenizer = model->text.tokenizer != NULL,
                        .has_chat_template = model->text.chat != NULL,
                        .parameters = model->parameters,
                        .temperature = model->advice.temperature,
                        .top_p = model->advice.top_p,
                        .min_p = model->advice.min_p,
                        .repeat_penalty = model->advice.repeat_penalty,
                        .top_k = model->advice.top_k,
                        .file_bytes = model->file.gguf ? model->file.gguf->size : model->file.tensor_bytes};
  tn_text name = TN_TEXT("");
  snprintf(full.family, sizeof full.family, "%s", model->family->name);
  if (model->file.gguf && tn_gguf_opt_string(model->file.gguf, NULL, "general.name", &name, NULL) == TN_OK)
    snprintf(full.name, sizeof full.name, "%.*s", (int)(name.bytes < 120 ? name.bytes : 120), name.data);
  memcpy(info, &full, size < sizeof full ? size : sizeof full);
}
