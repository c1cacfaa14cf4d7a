/* tenon inspect: what a model file holds, what graph it becomes, where it would run and how much memory it would take.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "model/model.h"
#include "tools/inspect_placement.h"
#include "tools/runner_tool.h"

/* What a process needs beside weights, KV and arena: code, tokenizer, graph, thread stacks, engine queues. */
#define FIXED_BYTES ((uint64_t)64 << 20)
#define MAX_TEXT_SHOWN 60
#define MAX_ELEMENTS_SHOWN 6

typedef struct inspect_tool {
  tn_runner_tool runner;
  bool graph, dot, placement, json;
  uint32_t context, sequences;
  tn_buf graphs; /* printed after each pass */
} inspect_tool;

/* ---- metadata ---- */

/* A text cut for people, control characters replaced. */
static void print_text(tn_text text) {
  size_t shown = text.bytes < MAX_TEXT_SHOWN ? text.bytes : MAX_TEXT_SHOWN;
  putchar('"');
  for (size_t i = 0; i < shown; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c == '\n')
      fputs("\\n", stdout);
    else if (c < 0x20 || c == 0x7f)
      printf("\\x%02x", c);
    else
      putchar(c);
  }
  printf("\"%s", shown < text.bytes ? "..." : "");
}

static void print_element(const tn_gguf_array *array, size_t i) {
  if (array->type == TN_GGUF_STRING)
    print_text(tn_gguf_array_text(array, i));
  else if (array->type == TN_GGUF_ARRAY)
    printf("[%zu elements]", tn_gguf_array_array(array, i).count);
  else
    printf("%.9g", tn_gguf_array_f64(array, i));
}

static void print_key(const tn_gguf_key *key) {
  printf("  %-44s %-7s ", key->name, tn_gguf_type_name(key->type));
  switch (key->type) {
    case TN_GGUF_STRING: print_text(key->text); break;
    case TN_GGUF_ARRAY:
      printf("[%zu %s]", key->array.count, tn_gguf_type_name(key->array.type));
      for (size_t i = 0; i < key->array.count && i < MAX_ELEMENTS_SHOWN; i++) {
        printf("%s", i ? ", " : " ");
        print_element(&key->array, i);
      }
      if (key->array.count > MAX_ELEMENTS_SHOWN) printf(", ...");
      break;
    case TN_GGUF_F32:
    case TN_GGUF_F64: printf("%.9g", key->f); break;
    case TN_GGUF_I8:
    case TN_GGUF_I16:
    case TN_GGUF_I32:
    case TN_GGUF_I64: printf("%lld", (long long)key->i); break;
    case TN_GGUF_BOOL: printf("%s", key->u ? "true" : "false"); break;
    default: printf("%llu", (unsigned long long)key->u); break;
  }
  putchar('\n');
}

/* A value of config.json; of an array how many elements it has. */
static void print_config_value(const tn_config_value *value) {
  printf("  %-44s ", value->path);
  switch (value->kind) {
    case TN_JSON_STRING: print_text(value->text); break;
    case TN_JSON_NUMBER: printf("%.9g", value->number); break;
    case TN_JSON_BOOLEAN: printf("%s", value->boolean ? "true" : "false"); break;
    case TN_JSON_ARRAY: printf("[%zu elements]", value->item_count); break;
    default: printf("null"); break;
  }
  putchar('\n');
}

static void print_file(const tn_container *file) {
  const tn_gguf *gguf = file->gguf;
  if (gguf)
    printf("%s: GGUF version %u, %zu keys, %zu tensors, %zu bytes\n\nMetadata\n", gguf->path, gguf->version,
           gguf->key_count, gguf->tensor_count, gguf->size);
  else
    printf("%s: safetensors, %zu tensors, %llu bytes\n\nconfig.json\n", file->path, file->tensor_count,
           (unsigned long long)file->tensor_bytes);
  for (size_t i = 0; gguf && i < gguf->key_count; i++) print_key(gguf->keys + i);
  for (size_t i = 0; i < file->config.count; i++) print_config_value(file->config.values + i);
  printf("\nTensors\n");
  for (size_t i = 0; i < file->tensor_count; i++) {
    const tn_file_tensor *tensor = file->tensors + i;
    char dims[96] = "";
    size_t at = 0;
    for (uint32_t d = 0; d < tensor->rank && d < TN_FILE_TENSOR_RANK && at < sizeof dims; d++)
      at += (size_t)snprintf(dims + at, sizeof dims - at, "%s%lld", d ? ", " : "", (long long)tensor->dims[d]);
    printf("  %-44s %-7s [%s] %zu bytes\n", tensor->name, tn_dtype_name(tensor->dtype), dims, tensor->bytes);
  }
}

/* ---- graph, placement, memory ---- */

static void keep_graph(void *context, const char *pass, const tn_graph *graph) {
  tn_buf *out = context;
  tn_buf_printf(out, "\n== after %s ==\n", pass);
  tn_graph_print(graph, out);
}

static void print_graphs(const inspect_tool *tool) {
  tn_graph *graph;
  tn_error error = {0};
  const tn_model_form form = {.context = tn_model_hyper(tool->runner.model)->context, .kv_dtype = TN_F16};
  if (tn_model_build(tool->runner.model, &form, &graph, &error) == TN_OK) {
    tn_buf first;
    tn_buf_init(&first);
    tn_graph_print(graph, &first);
    printf("\n== as built ==\n%s", first.data);
    tn_buf_finish(&first);
    tn_graph_destroy(graph);
  }
  if (tool->graphs.data) fputs(tool->graphs.data, stdout);
}

static int print_placement(const inspect_tool *tool) {
  json_t *placement = tn_placement_json(tool->runner.runner);
  if (!placement) return tn_cli_fail("out of memory");
  if (tool->json) {
    json_dumpf(placement, stdout, JSON_INDENT(2));
    putchar('\n');
  } else {
    tn_placement_print(placement);
  }
  json_decref(placement);
  return 0;
}

/* ---- KV, by group ---- */

/* Layers of a group whose KV memory is alike. */
typedef struct kv_kind {
  const tn_graph_value *value; /* the state of the first */
  uint32_t layers;             /* that have KV of their own */
  uint32_t readers;            /* layers that attend to it, their own or not */
} kv_kind;

#define MAX_KV_KINDS 16

static bool are_alike(const tn_graph_value *a, const tn_graph_value *b) {
  return a->group == b->group && a->dtype == b->dtype && !memcmp(a->dims, b->dims, sizeof a->dims);
}

static kv_kind *kind_of(kv_kind *kinds, size_t count, const tn_graph_value *value) {
  for (size_t i = 0; i < count; i++)
    if (are_alike(kinds[i].value, value)) return kinds + i;
  return NULL;
}

/* The kinds of KV in a graph, in the order of the layers; how many there are, at most MAX_KV_KINDS. */
static size_t find_kv(const tn_graph *graph, kv_kind *kinds) {
  size_t count = 0;
  for (tn_ref i = 0; i < graph->value_count; i++) {
    const tn_graph_value *value = graph->values + i;
    if (value->kind != TN_VALUE_STATE || value->rank != 4) continue;
    kv_kind *kind = kind_of(kinds, count, value);
    if (!kind && count == MAX_KV_KINDS) continue;
    if (!kind) *(kind = kinds + count++) = (kv_kind){.value = value};
    kind->layers++;
  }
  for (size_t i = 0; i < graph->op_count; i++) {
    const tn_graph_op *op = graph->ops + i;
    bool masked = op->opcode == TN_OP_ATTENTION_MASKED;
    if (op->opcode != TN_OP_ATTENTION && !masked) continue;
    kv_kind *kind = kind_of(kinds, count, graph->values + op->inputs[masked ? 3 : 1]);
    if (kind) kind->readers++;
  }
  return count;
}

static const char *type_of_kv(const tn_graph_value *value) {
  return value->dtype == TN_I8 ? "int8" : tn_dtype_name(value->dtype);
}

/* What one position takes in one layer: the elements, and of int8 two scales a head. */
static uint64_t position_bytes(const tn_graph_value *value) {
  uint64_t heads = (uint64_t)value->dims[0], elements = heads * (uint64_t)(value->dims[1] + value->dims[2]);
  return value->dtype == TN_I8 ? elements + heads * 2 * sizeof(float) : tn_row_bytes(value->dtype, elements);
}

static json_t *kv_json(const tn_runner *runner) {
  const tn_graph *graph = tn_runner_graph(runner);
  kv_kind kinds[MAX_KV_KINDS];
  size_t count = find_kv(graph, kinds);
  json_t *all = json_array();
  for (size_t i = 0; i < count; i++) {
    const tn_graph_value *value = kinds[i].value;
    json_array_append_new(
        all, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:I, s:i, s:i}", "group", (int)value->group, "layers",
                       (int)kinds[i].layers, "readers", (int)kinds[i].readers, "heads", (int)value->dims[0], "key",
                       (int)value->dims[1], "value", (int)value->dims[2], "type", type_of_kv(value), "position",
                       (json_int_t)(kinds[i].layers * position_bytes(value)), "window",
                       (int)graph->groups[value->group].window, "pages",
                       (int)tn_runner_describe(runner)->groups[value->group].pages));
  }
  return all;
}

static void print_kv(const tn_runner *runner) {
  const tn_runner_info *info = tn_runner_describe(runner);
  const tn_graph *graph = tn_runner_graph(runner);
  kv_kind kinds[MAX_KV_KINDS];
  size_t count = find_kv(graph, kinds);
  for (size_t i = 0; i < count; i++) {
    const tn_graph_value *value = kinds[i].value;
    uint32_t window = graph->groups[value->group].window;
    printf("    group %u: %u layer%s of %d head%s of %d + %d in %s, %llu bytes a position, %u pages", value->group,
           kinds[i].layers, kinds[i].layers == 1 ? "" : "s", value->dims[0], value->dims[0] == 1 ? "" : "s",
           value->dims[1], value->dims[2], type_of_kv(value),
           (unsigned long long)(kinds[i].layers * position_bytes(value)), info->groups[value->group].pages);
    if (kinds[i].readers > kinds[i].layers) printf("; %u more layers read it", kinds[i].readers - kinds[i].layers);
    if (window) printf("; window of %u, pages behind it are freed", window);
    if (graph->kv_dtype != value->dtype) printf("; a low-rank latent isn't held in int8");
    putchar('\n');
  }
}

static void print_memory(const tn_runner *runner, uint32_t sequences) {
  const tn_runner_info *info = tn_runner_describe(runner);
  uint64_t total = info->weight_bytes + info->kv_bytes + info->arena_bytes + FIXED_BYTES;
  printf("\nMemory on %s, %u threads, context %u, %u sequence%s, %u rows a step\n", info->device, info->threads,
         info->max_context, sequences, sequences == 1 ? "" : "s", info->max_rows);
  printf("  weights  %12llu bytes, as packed\n", (unsigned long long)info->weight_bytes);
  printf("  KV       %12llu bytes, in pages of %u positions; taken as they fill\n", (unsigned long long)info->kv_bytes,
         TN_PAGE_SLOTS);
  print_kv(runner);
  printf("  arena    %12llu bytes\n", (unsigned long long)info->arena_bytes);
  printf("  fixed    %12llu bytes at most\n", (unsigned long long)FIXED_BYTES);
  printf("  total    %12llu bytes\n", (unsigned long long)total);
}

static int print_json(const inspect_tool *tool) {
  const tn_container *file = tn_model_container(tool->runner.model);
  const tn_runner_info *info = tn_runner_describe(tool->runner.runner);
  tn_model_info model = TN_MODEL_INFO;
  tn_model_describe(tool->runner.model, &model);
  json_t *tensors = json_array();
  for (size_t i = 0; i < file->tensor_count; i++) {
    const tn_file_tensor *tensor = file->tensors + i;
    json_t *dims = json_array();
    for (uint32_t d = 0; d < tensor->rank && d < TN_FILE_TENSOR_RANK; d++)
      json_array_append_new(dims, json_integer(tensor->dims[d]));
    json_array_append_new(
        tensors, json_pack("{s:s, s:s, s:o, s:I}", "name", tensor->name, "type", tn_dtype_name(tensor->dtype), "dims",
                           dims, "bytes", (json_int_t)tensor->bytes));
  }
  json_t *all =
      json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:o, s:{s:s, s:i, s:I, s:I, s:i, s:I, s:I, s:I}}", "file",
                file->path, "family", model.family, "name", model.name, "layers", (int)model.layers, "vocabulary",
                (int)model.vocabulary, "context", (int)model.context, "parameters", (json_int_t)model.parameters,
                "tensors", tensors, "memory", "device", info->device, "context", (int)info->max_context, "weights",
                (json_int_t)info->weight_bytes, "kv", (json_int_t)info->kv_bytes, "pages", (int)info->pages, "arena",
                (json_int_t)info->arena_bytes, "fixed", (json_int_t)FIXED_BYTES, "total",
                (json_int_t)(info->weight_bytes + info->kv_bytes + info->arena_bytes + FIXED_BYTES));
  if (!all) return tn_cli_fail("the file holds text that is not UTF-8");
  json_object_set_new(json_object_get(all, "memory"), "kv_groups", kv_json(tool->runner.runner));
  json_dumpf(all, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(all);
  return tn_cli_finish_output();
}

static tn_status plan(inspect_tool *tool, tn_error *error) {
  tn_model_info model = TN_MODEL_INFO;
  tn_model_describe(tool->runner.model, &model);
  uint32_t context = tool->context ? tool->context : model.context;
  uint32_t chunk = tool->runner.chunk ? tool->runner.chunk : 512;
  uint64_t pages = (uint64_t)((context + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS) * tool->sequences;
  const tn_runner_options options = {.device = tool->runner.device,
                                     .place = tool->runner.place,
                                     .fit_pages = tool->runner.place != NULL,
                                     .threads = tool->runner.threads,
                                     .kv = tool->runner.kv,
                                     .activations = tool->runner.activations,
                                     .passes = tool->runner.passes,
                                     .max_rows = chunk,
                                     .max_sequences = tool->sequences,
                                     .max_context = context,
                                     .pages = pages > UINT32_MAX ? UINT32_MAX : (uint32_t)pages,
                                     .windows = TN_WINDOWS_PER_SEQUENCE * tool->sequences,
                                     .plan_only = true,
                                     .observe = tool->graph ? keep_graph : NULL,
                                     .observe_context = &tool->graphs};
  return tn_runner_create(tool->runner.model, &options, &tool->runner.runner, error);
}

static int print_all(inspect_tool *tool) {
  if (tool->json && !tool->placement) return print_json(tool);
  if (tool->dot) {
    tn_buf dot;
    tn_buf_init(&dot);
    tn_graph_dot(tn_runner_graph(tool->runner.runner), &dot);
    if (dot.data) fputs(dot.data, stdout);
    tn_buf_finish(&dot);
  } else if (tool->graph) {
    print_graphs(tool);
  } else if (tool->placement) {
    if (print_placement(tool)) return 1;
  } else {
    print_file(tn_model_container(tool->runner.model));
    if (print_placement(tool)) return 1;
    print_memory(tool->runner.runner, tool->sequences);
  }
  return tn_cli_finish_output();
}

int tn_command_inspect(int argc, char **argv) {
  inspect_tool tool = {.sequences = 1};
  const tn_cli_option options[] = {
      {"graph", 0, TN_CLI_FLAG, &tool.graph, NULL, "the graph as built and after each pass", 0, 0},
      {"dot", 0, TN_CLI_FLAG, &tool.dot, NULL, "the graph after the passes, for Graphviz", 0, 0},
      {"placement", 0, TN_CLI_FLAG, &tool.placement, NULL,
       "which part runs on which device, what crosses, what fell back", 0, 0},
      {"json", 0, TN_CLI_FLAG, &tool.json, NULL, "tensors and memory, or the placement, as JSON", 0, 0},
      {"ctx", 0, TN_CLI_U32, &tool.context, "N", "context that memory is counted for", 1, 1 << 28},
      {"sequences", 0, TN_CLI_U32, &tool.sequences, "N", "sequences that memory is counted for", 1, 4096},
      TN_RUNNER_TOOL_OPTIONS(tool.runner),
  };
  const tn_cli_command command = {
      "inspect",
      "FILE [options]",
      "What a model file holds, what graph it becomes, where it would run, and the memory it would take.",
      options,
      TN_COUNT(options),
      1,
      1};
  const char *path;
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (tool.graph + tool.dot + (tool.placement || tool.json) > 1) {
    fprintf(stderr, "tenon inspect: give one of --graph, --dot, and --placement or --json\n");
    return 2;
  }
  tn_error error = {0};
  tn_buf_init(&tool.graphs);
  tn_status status = tn_model_open(path, &tool.runner.model, &error);
  if (status == TN_OK) status = plan(&tool, &error);
  int result = status == TN_OK ? print_all(&tool) : tn_cli_fail(error.message);
  tn_buf_finish(&tool.graphs);
  tn_runner_tool_close(&tool.runner);
  return result;
}
