#include "model/export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "text/tokenizer_parts.h"

typedef struct exporter {
  tn_export *out;
  const tn_model *model;
  const tn_container *file;
  const tn_hyper *hyper;
  const tn_family *family;
  tn_hyper_record record;
  tn_name_list names;
  const char *architecture; /* GGUF's */
  tn_error *error;
} exporter;

static tn_status no_memory(const exporter *e) {
  return tn_fail(e->error, TN_E_MEMORY, "%s: out of memory", e->file->path);
}

static tn_status cannot(const exporter *e, const char *what) {
  return tn_fail(e->error, TN_E_UNSUPPORTED, "%s: %s can't be written as GGUF", e->file->path, what);
}

/* ---- keys ---- */

static const char *key(const exporter *e, const char *name) {
  char text[160];
  int bytes = snprintf(text, sizeof text, "%s.%s", e->architecture, name);
  const char *kept = tn_arena_copy(&e->out->arena, text, (size_t)bytes);
  return kept ? kept : "";
}

static bool is_later(const exporter *e, size_t at) {
  for (size_t i = at + 1; i < e->record.count; i++)
    if (!strcmp(e->record.notes[i].gguf, e->record.notes[at].gguf)) return true;
  return false;
}

static tn_status put_list(exporter *e, const tn_hyper_note *note) {
  int32_t *whole = tn_arena_array(&e->out->arena, note->count, sizeof *whole);
  if (!whole) return no_memory(e);
  for (uint32_t i = 0; i < note->count; i++) {
    if (note->values[i] != (double)(int32_t)note->values[i]) return cannot(e, note->gguf);
    whole[i] = (int32_t)note->values[i];
  }
  tn_gguf_put_array(&e->out->keys, key(e, note->gguf), TN_GGUF_I32, note->count, whole, note->count * sizeof *whole);
  return TN_OK;
}

/* What was read of config.json under names that GGUF has. */
static tn_status put_notes(exporter *e) {
  tn_status status = e->record.failed ? no_memory(e) : TN_OK;
  for (size_t i = 0; i < e->record.count && status == TN_OK; i++) {
    const tn_hyper_note *note = e->record.notes + i;
    if (is_later(e, i) || !strncmp(note->gguf, "rope.scaling.", 13)) continue;
    if (note->count)
      status = put_list(e, note);
    else if (!strcmp(note->gguf, "expert_count")) /* which goes by two names in config.json */
      tn_gguf_put_u32(&e->out->keys, key(e, note->gguf), e->hyper->experts.count);
    else if (note->kind == TN_NOTE_WHOLE)
      tn_gguf_put_u32(&e->out->keys, key(e, note->gguf), (uint32_t)note->values[0]);
    else if (note->kind == TN_NOTE_FLOAT)
      tn_gguf_put_f32(&e->out->keys, key(e, note->gguf), (float)note->values[0]);
    else
      tn_gguf_put_bool(&e->out->keys, key(e, note->gguf), note->values[0] != 0);
  }
  return status;
}

/* Rotary positions. llama3's scaling is a tensor, see put_divisors. */
static tn_status put_rope(exporter *e) {
  const tn_rope_hyper *rope = &e->hyper->rope;
  tn_gguf_keys *keys = &e->out->keys;
  if (!rope->rotary) return TN_OK;
  tn_gguf_put_f32(keys, key(e, "rope.freq_base"), rope->theta);
  if (rope->scaling == TN_ROPE_UNSCALED || rope->scaling == TN_ROPE_LLAMA3) return TN_OK;
  if (rope->scaling != TN_ROPE_LINEAR && rope->scaling != TN_ROPE_YARN)
    return cannot(e, rope->scaling == TN_ROPE_LONG ? "rope_scaling longrope" : "this rope_scaling");
  bool is_yarn = rope->scaling == TN_ROPE_YARN;
  tn_gguf_put_text(keys, key(e, "rope.scaling.type"), is_yarn ? TN_TEXT("yarn") : TN_TEXT("linear"));
  tn_gguf_put_f32(keys, key(e, "rope.scaling.factor"), rope->factor);
  if (!is_yarn) return TN_OK;
  tn_gguf_put_u32(keys, key(e, "rope.scaling.original_context_length"), (uint32_t)rope->original_context);
  tn_gguf_put_f32(keys, key(e, "rope.scaling.yarn_beta_fast"), rope->beta_fast);
  tn_gguf_put_f32(keys, key(e, "rope.scaling.yarn_beta_slow"), rope->beta_slow);
  return TN_OK;
}

static tn_status put_kinds(exporter *e) {
  uint8_t slides[TN_MAX_LAYERS];
  bool any = false;
  for (uint32_t i = 0; i < e->hyper->layers; i++) {
    slides[i] = e->hyper->kinds[i] == TN_LAYER_SLIDING;
    any = any || slides[i];
  }
  if (any && !e->record.has_kinds) return cannot(e, "the window of its layers");
  if (any)
    tn_gguf_put_array(&e->out->keys, key(e, "attention.sliding_window_pattern"), TN_GGUF_BOOL, e->hyper->layers, slides,
                      e->hyper->layers);
  return TN_OK;
}

static tn_status put_keys(exporter *e) {
  const char *path = e->file->path;
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && path[begin - 1] != '/') begin--;
  tn_gguf_put_text(&e->out->keys, "general.architecture", tn_text_of(e->architecture));
  tn_gguf_put_text(&e->out->keys, "general.name", (tn_text){path + begin, end - begin});
  tn_status status = put_notes(e);
  if (status == TN_OK) status = put_rope(e);
  if (status == TN_OK) status = put_kinds(e);
  return status;
}

/* ---- tensors ---- */

/* Where the rows of a GGUF tensor come from. */
static tn_weight_source *new_sources(exporter *e, tn_export_tensor *tensor, uint32_t count) {
  tn_weight_source *sources = tn_arena_array(&e->out->arena, count, sizeof *sources);
  tensor->value.sources = sources;
  tensor->value.source_count = sources ? count : 0;
  return sources;
}

/* A view of all of a matrix [rows, cols], stored the other way round if `transposed`. */
static tn_weight_source whole_matrix(const tn_file_tensor *from, uint64_t rows, uint64_t cols, bool transposed) {
  return (tn_weight_source){.size = sizeof(tn_weight_source),
                            .dtype = from->dtype,
                            .data = from->data,
                            .rows = transposed ? cols : rows,
                            .cols = transposed ? rows : cols,
                            .row_count = rows,
                            .col_count = cols,
                            .transposed = transposed};
}

/* Row 2m + s of a head in GGUF is row s * half + m of the folder's: pairs lie side by side there. */
static const uint32_t *permuted_rows(exporter *e, uint64_t rows) {
  uint32_t head = e->hyper->key_dim, half = head / 2;
  uint32_t *map = tn_arena_array(&e->out->arena, rows, sizeof *map);
  for (uint64_t i = 0; map && i < rows; i++) {
    uint32_t within = (uint32_t)(i % head);
    map[i] = (uint32_t)(i - within) + within % 2 * half + within / 2;
  }
  return map;
}

static bool is_permuted(const exporter *e, const char *name) {
  return e->record.permuted && (strstr(name, ".attn_q.") || strstr(name, ".attn_k."));
}

static void shape(tn_export_tensor *tensor, uint32_t rank, uint64_t cols, uint64_t rows, uint64_t matrices) {
  tensor->about.rank = rank;
  tensor->about.dims[0] = (int64_t)cols;
  tensor->about.dims[1] = (int64_t)rows;
  tensor->about.dims[2] = (int64_t)matrices;
  tensor->about.dims[3] = 1;
  tensor->value.rank = rank == 3 ? 3 : 2;
  if (rank == 1) { /* a column */
    tensor->value.dims[0] = (int32_t)cols;
    tensor->value.dims[1] = 1;
  } else if (rank == 2) {
    tensor->value.dims[0] = (int32_t)rows;
    tensor->value.dims[1] = (int32_t)cols;
  } else {
    tensor->value.dims[0] = (int32_t)matrices;
    tensor->value.dims[1] = (int32_t)rows;
    tensor->value.dims[2] = (int32_t)cols;
  }
}

/* A tensor that the folder has in one piece. */
static tn_status describe_whole(exporter *e, tn_export_tensor *tensor, const tn_file_tensor *from, uint32_t form) {
  bool transposed = form & TN_FORM_TRANSPOSED, is_vector = from->rank == 1;
  uint64_t rows = (uint64_t)from->dims[transposed ? 0 : 1], cols = (uint64_t)from->dims[transposed ? 1 : 0];
  uint64_t matrices = (uint64_t)from->dims[2];
  if (from->rank > 3 || (from->rank == 3 && transposed)) return cannot(e, from->name);
  shape(tensor, from->rank, cols, rows, matrices);
  tn_weight_source *source = new_sources(e, tensor, 1);
  if (!source) return no_memory(e);
  uint64_t stored = is_vector ? cols : rows * matrices;
  *source = whole_matrix(from, stored, is_vector ? 1 : cols, transposed);
  source->add = form & TN_FORM_ADD_ONE ? 1.0f : 0.0f;
  if (!is_permuted(e, tensor->about.name)) return TN_OK;
  if (e->hyper->rope.rotary != e->hyper->key_dim || stored % e->hyper->key_dim) return cannot(e, from->name);
  source->row_map = permuted_rows(e, stored);
  return source->row_map ? TN_OK : no_memory(e);
}

/* One tensor for each expert, stacked. */
static tn_status describe_stacked(exporter *e, tn_export_tensor *tensor, const tn_file_tensor *first) {
  uint32_t experts = e->hyper->experts.count;
  uint64_t rows = (uint64_t)first->dims[1], cols = (uint64_t)first->dims[0];
  shape(tensor, 3, cols, rows, experts);
  tn_weight_source *sources = new_sources(e, tensor, experts);
  if (!sources) return no_memory(e);
  for (uint32_t i = 0; i < experts; i++) {
    tn_name name;
    const tn_file_tensor *from;
    tn_name_find(e->file, e->family, tensor->about.name, i, &name);
    tn_status status = tn_container_get_tensor(e->file, NULL, name.text, &from, e->error);
    if (status != TN_OK) return status;
    sources[i] = whole_matrix(from, rows, cols, false);
    sources[i].into_row = i * rows;
  }
  return TN_OK;
}

/* Gate or up of all experts, which the folder has in one tensor, gate rows first. */
static tn_status describe_half(exporter *e, tn_export_tensor *tensor, const tn_file_tensor *from, bool transposed) {
  uint64_t both = (uint64_t)from->dims[transposed ? 0 : 1], cols = (uint64_t)from->dims[transposed ? 1 : 0];
  uint32_t experts = (uint32_t)from->dims[2];
  shape(tensor, 3, cols, both / 2, experts);
  tn_weight_source *sources = new_sources(e, tensor, experts);
  if (!sources) return no_memory(e);
  for (uint32_t i = 0; i < experts; i++) {
    sources[i] = whole_matrix(from, both, cols, transposed);
    sources[i].data = from->data + i * (from->bytes / experts);
    sources[i].row_begin = strstr(tensor->about.name, "_up_") ? both / 2 : 0;
    sources[i].row_count = both / 2;
    sources[i].into_row = i * (both / 2);
  }
  return TN_OK;
}

static tn_status describe_tensor(exporter *e, const char *gguf) {
  tn_name name;
  const tn_file_tensor *from;
  tn_export_tensor *tensor = TN_PUSH(e->out->tensors, e->out->count, e->out->capacity);
  if (!tensor) return no_memory(e);
  tn_name_find(e->file, e->family, gguf, 0, &name);
  tn_status status = tn_container_get_tensor(e->file, NULL, name.text, &from, e->error);
  if (status != TN_OK) return status;
  tensor->about.name = tn_arena_copy(&e->out->arena, gguf, strlen(gguf));
  if (!tensor->about.name) return no_memory(e);
  tensor->about.dtype = from->dtype;
  tensor->about.bytes = from->bytes;
  tensor->value.name = tensor->about.name;
  tensor->value.kind = TN_VALUE_WEIGHT;
  bool transposed = name.form & TN_FORM_TRANSPOSED;
  if (name.form & (TN_FORM_BLOCKS | TN_FORM_ALTERNATE)) return cannot(e, from->name);
  if (name.form & TN_FORM_GATE_UP) {
    tensor->about.bytes /= 2;
    return describe_half(e, tensor, from, transposed);
  }
  if (strstr(gguf, "_exps.") && from->rank == 2) {
    tensor->about.bytes *= e->hyper->experts.count;
    return describe_stacked(e, tensor, from);
  }
  return describe_whole(e, tensor, from, name.form);
}

/* The frequencies that a graph's first rope table has, or NULL. */
static const float *frequencies_of(const tn_graph *graph, uint32_t *count) {
  for (size_t i = 0; i < graph->op_count; i++) {
    if (graph->ops[i].opcode != TN_OP_ROPE_TABLE) continue;
    const tn_graph_value *value = graph->values + graph->ops[i].inputs[0];
    *count = (uint32_t)value->dims[0];
    return value->sources->data;
  }
  return NULL;
}

/* llama3's scaling as GGUF has it: what each frequency is divided by. */
static tn_status put_divisors(exporter *e, const tn_graph *graph) {
  uint32_t count = 0;
  const tn_rope_hyper *rope = &e->hyper->rope;
  const float *frequencies = rope->scaling == TN_ROPE_LLAMA3 ? frequencies_of(graph, &count) : NULL;
  if (!frequencies) return TN_OK;
  float *divisors = tn_arena_array(&e->out->arena, count, sizeof *divisors);
  tn_export_tensor *tensor = TN_PUSH(e->out->tensors, e->out->count, e->out->capacity);
  if (!divisors || !tensor) return no_memory(e);
  for (uint32_t m = 0; m < count; m++)
    divisors[m] = (float)(pow((double)rope->theta, -2.0 * m / rope->span) / (double)frequencies[m]);
  tensor->about = (tn_file_tensor){.name = "rope_freqs.weight", .dtype = TN_F32, .bytes = count * sizeof *divisors};
  tensor->value = (tn_graph_value){.name = tensor->about.name, .kind = TN_VALUE_WEIGHT};
  shape(tensor, 1, count, 1, 1);
  const tn_file_tensor from = {.dtype = TN_F32, .data = (const uint8_t *)divisors};
  tn_weight_source *source = new_sources(e, tensor, 1);
  if (!source) return no_memory(e);
  *source = whole_matrix(&from, count, 1, false);
  return TN_OK;
}

tn_status tn_export_open(tn_export *out, const tn_model *model, bool with_text, tn_error *error) {
  *out = (tn_export){0};
  tn_buf_init(&out->keys.bytes);
  tn_arena_init(&out->arena, 0);
  exporter e = {.out = out,
                .model = model,
                .file = tn_model_container(model),
                .hyper = tn_model_hyper(model),
                .family = tn_model_family(model),
                .error = error};
  e.architecture = e.family->architectures[0];
  if (!e.family->exports)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: the %s family can't be written as GGUF", e.file->path, e.family->name);
  tn_graph *graph = NULL;
  tn_status status = tn_model_read_again(model, &e.record, &e.names, &out->arena, &graph, error);
  if (status == TN_OK) status = put_keys(&e);
  bool has_text = with_text && tn_model_tokenizer(model);
  out->drops_normalizer = has_text && tn_model_tokenizer(model)->normalizer.count > 0;
  if (status == TN_OK && with_text) status = tn_export_text(&out->keys, model, error);
  if (status == TN_OK && !has_text) tn_gguf_put_text(&out->keys, "tokenizer.ggml.model", TN_TEXT("none"));
  for (size_t i = 0; i < e.names.count && status == TN_OK; i++) status = describe_tensor(&e, e.names.names[i]);
  if (status == TN_OK) status = put_divisors(&e, graph);
  if (status == TN_OK && (out->keys.bytes.failed || e.names.failed)) status = no_memory(&e);
  tn_graph_destroy(graph);
  free(e.record.notes);
  free(e.names.names);
  return status;
}

void tn_export_finish(tn_export *out) {
  tn_buf_finish(&out->keys.bytes);
  free(out->tensors);
  tn_arena_finish(&out->arena);
  *out = (tn_export){0};
}

/* ---- holding the result against the folder ---- */

/* Attributes without what differs by the order of rows: which values are pairs. */
static void plain_attributes(const tn_graph_op *op, unsigned char out[TN_MAX_ATTRIBUTE_BYTES]) {
  memcpy(out, op->attributes, TN_MAX_ATTRIBUTE_BYTES);
  if (op->opcode == TN_OP_ROPE) ((tn_rope_attributes *)(void *)out)->pairing = 0;
  if (op->opcode == TN_OP_KV_WRITE) ((tn_kv_write_attributes *)(void *)out)->pairing = 0;
}

static bool same_shape(const tn_graph_value *a, const tn_graph_value *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims);
}

/* Numbers that were computed: nearly equal, for a key of GGUF is a float. */
static bool same_numbers(const tn_graph_value *a, const tn_graph_value *b) {
  const float *x = a->sources->data, *y = b->sources->data;
  for (int32_t i = 0; i < a->dims[0]; i++)
    if (fabsf(x[i] - y[i]) > 1e-5f * fabsf(x[i])) return false;
  return true;
}

static bool same_value(const tn_graph *a, const tn_graph *b, tn_ref from, tn_ref made) {
  if (from == TN_NO_VALUE || made == TN_NO_VALUE) return from == made;
  const tn_graph_value *x = a->values + from, *y = b->values + made;
  if (x->kind != y->kind || !same_shape(x, y)) return false;
  if (x->kind != TN_VALUE_WEIGHT)
    return x->kind != TN_VALUE_STATE || a->groups[x->group].window == b->groups[y->group].window;
  bool is_computed = x->rank == 1 && !strchr(x->name, ':') && strstr(x->name, "frequencies");
  return !strcmp(x->name, y->name) && (!is_computed || same_numbers(x, y));
}

static bool same_op(const tn_graph *a, const tn_graph *b, const tn_graph_op *x, const tn_graph_op *y) {
  _Alignas(8) unsigned char first[TN_MAX_ATTRIBUTE_BYTES], second[TN_MAX_ATTRIBUTE_BYTES];
  plain_attributes(x, first);
  plain_attributes(y, second);
  bool same = x->opcode == y->opcode && x->input_count == y->input_count && x->output_count == y->output_count &&
              !memcmp(first, second, sizeof first);
  for (uint32_t i = 0; same && i < x->input_count; i++) same = same_value(a, b, x->inputs[i], y->inputs[i]);
  for (uint32_t i = 0; same && i < x->output_count; i++) same = same_value(a, b, x->outputs[i], y->outputs[i]);
  return same;
}

tn_status tn_export_compare(const tn_model *model, const tn_model *made, bool with_text, tn_error *error) {
  const tn_model_form form = {.context = tn_model_hyper(model)->context, .kv_dtype = TN_F16};
  const char *path = tn_model_container(model)->path;
  tn_graph *a = NULL, *b = NULL;
  tn_status status = TN_OK;
  if (tn_model_hyper(made)->context != form.context)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: its context can't be said in GGUF", path);
  status = tn_model_build(model, &form, &a, error);
  if (status == TN_OK) status = tn_model_build(made, &form, &b, error);
  if (status == TN_OK && a->op_count != b->op_count)
    status =
        tn_fail(error, TN_E_UNSUPPORTED, "%s: GGUF can't say all of config.json: read back it has %zu ops, not %zu",
                path, b->op_count, a->op_count);
  for (size_t i = 0; status == TN_OK && i < a->op_count; i++)
    if (!same_op(a, b, a->ops + i, b->ops + i))
      status = tn_fail(error, TN_E_UNSUPPORTED,
                       "%s: GGUF can't say all of config.json: read back, op %zu (%s %s) is another", path, i,
                       tn_op_info_of(a->ops[i].opcode)->name, a->ops[i].name);
  tn_graph_destroy(a);
  tn_graph_destroy(b);
  if (status == TN_OK && with_text && tn_model_tokenizer(model) &&
      (!tn_model_tokenizer(made) || !tn_export_same_ids(tn_model_tokenizer(model), tn_model_tokenizer(made))))
    status = tn_fail(error, TN_E_UNSUPPORTED, "%s: its tokenizer can't be said in GGUF", path);
  return status;
}
