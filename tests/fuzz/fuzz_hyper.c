/* Any config.json beside a file of a few tensors: each family reads its hyper-parameters and builds its graph, or says
 * what is wrong. Nothing is divided by a zero, multiplied past a range or read past a list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An embedding of five rows of six, a head and a norm. */
static const char header[] =
    "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[5,6],\"data_offsets\":[0,120]},"
    "\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[5,6],\"data_offsets\":[120,240]},"
    "\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[5,6],\"data_offsets\":[240,360]},"
    "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[360,384]}}";

static void open_tensors(tn_container *file) {
  static uint8_t bytes[sizeof header + 7 + 384];
  uint64_t length = sizeof header - 1;
  tn_error error;
  memcpy(bytes, &length, sizeof length);
  memcpy(bytes + sizeof length, header, sizeof header - 1);
  if (tn_safetensors_open_memory(&file->safetensors, "fuzz", bytes, sizeof bytes, &error) != TN_OK) abort();
  file->tensors = file->safetensors->tensors;
  file->tensor_count = file->safetensors->tensor_count;
}

static void build_graph(const tn_container *file, tn_container_use *use, const tn_family *family,
                        const tn_hyper *hyper) {
  tn_graph *graph = tn_graph_create();
  if (!graph) return;
  graph->kv_dtype = TN_F16;
  tn_build build = {.graph = graph,
                    .file = file,
                    .use = use,
                    .family = family,
                    .hyper = hyper,
                    .context = hyper->context,
                    .rope = TN_NO_VALUE,
                    .rope_sliding = TN_NO_VALUE,
                    .shared = TN_NO_VALUE};
  tn_error error = {0};
  family->build(&build);
  if (tn_graph_status(graph, &error) != TN_OK && !error.message[0]) abort();
  tn_graph_destroy(graph);
}

static void read_model(tn_container *file, tn_text type) {
  tn_container_use use = {0};
  tn_error error = {0};
  tn_arena arena;
  char name[64];
  const tn_family *family = tn_family_of(type, true);
  tn_hyper *hyper = calloc(1, sizeof *hyper);
  tn_arena_init(&arena, 0);
  snprintf(name, sizeof name, "%.*s", (int)(type.bytes < 60 ? type.bytes : 60), type.data);
  if (family && hyper && tn_container_use_init(&use, file, &error) == TN_OK) {
    tn_hyper_reader reader = {.file = file,
                              .use = &use,
                              .architecture = name,
                              .family = family,
                              .arena = &arena,
                              .error = &error,
                              .status = TN_OK};
    family->configure(&reader, hyper);
    tn_hyper_finish(&reader);
    if (reader.status == TN_OK)
      build_graph(file, &use, family, hyper);
    else if (error.status != reader.status || !error.message[0])
      abort();
  }
  tn_container_use_finish(&use, file);
  tn_arena_finish(&arena);
  free(hyper);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_error error = {0};
  tn_container file = {.path = strdup("fuzz")};
  open_tensors(&file);
  if (tn_config_open_memory(&file.config, "config.json", data, size, &error) == TN_OK) {
    const tn_config_value *type = tn_config_find(&file.config, "model_type");
    if (type && type->kind == TN_JSON_STRING) read_model(&file, type->text);
  }
  tn_container_close(&file);
  return 0;
}
