/* Describing a folder as GGUF: the tensors, each under its GGUF name with where its rows come from (see export.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "model/export_parts.h"
#include "model/recurrent.h"

static tn_export_tensor *new_tensor(tn_exporter *e, const char *gguf, tn_dtype dtype, uint64_t bytes) {
  tn_export_tensor *tensor = TN_PUSH(e->out->tensors, e->out->count, e->out->capacity);
  const char *name = tensor ? tn_arena_copy(&e->out->arena, gguf, strlen(gguf)) : NULL;
  if (!name) return NULL;
  *tensor = (tn_export_tensor){.about = {.name = name, .dtype = dtype, .bytes = bytes},
                               .value = {.name = name, .kind = TN_VALUE_WEIGHT}};
  return tensor;
}

/* Where the rows of a GGUF tensor come from. */
static tn_weight_source *new_sources(tn_exporter *e, tn_export_tensor *tensor, uint32_t count) {
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

/* The same of MXFP4 blocks, two values a byte. */
static tn_weight_source whole_blocks(const tn_file_tensor *from, uint64_t rows, uint64_t cols) {
  tn_weight_source source = whole_matrix(from, rows, cols, false);
  source.cols = cols / 2;
  return source;
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

/* ---- orders that differ ---- */

/* Row 2m + s of a head in GGUF is row s * half + m of the folder's: pairs lie side by side there. */
static const uint32_t *permuted_rows(tn_exporter *e, uint64_t rows) {
  uint32_t head = e->hyper->key_dim, half = head / 2;
  uint32_t *map = tn_arena_array(&e->out->arena, rows, sizeof *map);
  for (uint64_t i = 0; map && i < rows; i++) {
    uint32_t within = (uint32_t)(i % head);
    map[i] = (uint32_t)(i - within) + within % 2 * half + within / 2;
  }
  return map;
}

static bool is_permuted(const tn_exporter *e, const char *name) {
  return e->record.permuted && (strstr(name, ".attn_q.") || strstr(name, ".attn_k."));
}

/* Of `count` rows (or columns) the last belong to the value heads, one or value_dim to each: head h of GGUF uses key
 * head h % key_heads, in a folder the heads of a key head lie together. */
static const uint32_t *tiled(tn_exporter *e, uint64_t count) {
  const tn_recurrent_hyper *r = e->hyper->own;
  uint32_t group = r->value_heads / r->key_heads, of_values = r->value_heads * r->value_dim;
  uint32_t unit = count < of_values ? 1 : r->value_dim;
  uint64_t begin = count - (uint64_t)r->value_heads * unit;
  uint32_t *map = count >= r->value_heads ? tn_arena_array(&e->out->arena, count, sizeof *map) : NULL;
  for (uint64_t i = 0; map && i < count; i++) {
    uint32_t head = i < begin ? 0 : (uint32_t)(i - begin) / unit;
    uint32_t from = head % r->key_heads * group + head / r->key_heads;
    map[i] = (uint32_t)(i < begin ? i : begin + (uint64_t)from * unit + (i - begin) % unit);
  }
  return map;
}

/* Every second of `count` rows from `begin` on: gate and up in turn. */
static const uint32_t *alternate(tn_exporter *e, uint64_t begin, uint64_t count) {
  uint32_t *map = tn_arena_array(&e->out->arena, count, sizeof *map);
  for (uint64_t i = 0; map && i < count; i++) map[i] = (uint32_t)(begin + 2 * i);
  return map;
}

/* ---- tensors ---- */

static tn_status reorder(tn_exporter *e, tn_export_tensor *tensor, tn_weight_source *source, uint32_t form) {
  if (form & TN_FORM_VALUE_HEADS) {
    source->row_map = tiled(e, source->row_count);
    return source->row_map ? TN_OK : tn_export_no_memory(e);
  }
  if (form & TN_FORM_VALUE_COLS) {
    tensor->col_map = tiled(e, source->col_count);
    return tensor->col_map ? TN_OK : tn_export_no_memory(e);
  }
  if (!is_permuted(e, tensor->about.name)) return TN_OK;
  if (e->hyper->rope.rotary != e->hyper->key_dim || source->row_count % e->hyper->key_dim)
    return tn_export_cannot(e, tensor->about.name);
  source->row_map = permuted_rows(e, source->row_count);
  return source->row_map ? TN_OK : tn_export_no_memory(e);
}

/* A tensor that the folder has in one piece. */
static tn_status describe_whole(tn_exporter *e, const char *gguf, const tn_file_tensor *from, uint32_t form) {
  bool transposed = form & TN_FORM_TRANSPOSED && from->rank > 1, has_blocks = form & TN_FORM_BLOCKS;
  uint64_t cols = (uint64_t)from->dims[transposed ? 1 : 0], rows = (uint64_t)from->dims[transposed ? 0 : 1];
  uint64_t matrices = (uint64_t)from->dims[2];
  uint32_t rank = from->rank;
  if (has_blocks) { /* [16, blocks, rows, matrices] */
    cols = (uint64_t)from->dims[1] * 32;
    rows = (uint64_t)from->dims[2];
    matrices = (uint64_t)from->dims[3];
    rank = 3;
  } else if (rank == 3 && rows == 1) { /* the taps of a convolution */
    rows = matrices;
    matrices = 1;
    rank = 2;
  }
  if (rank > 3) return tn_export_cannot(e, from->name);
  tn_export_tensor *tensor =
      new_tensor(e, gguf, has_blocks ? TN_MXFP4 : from->dtype, has_blocks ? from->bytes / 16 * 17 : from->bytes);
  if (!tensor) return tn_export_no_memory(e);
  shape(tensor, rank, cols, rows, matrices);
  bool by_matrix = transposed && rank == 3;
  tn_weight_source *sources = new_sources(e, tensor, by_matrix ? (uint32_t)matrices : 1);
  if (!sources) return tn_export_no_memory(e);
  for (uint64_t i = 0; by_matrix && i < matrices; i++) {
    sources[i] = whole_matrix(from, rows, cols, true);
    sources[i].data = from->data + i * (from->bytes / matrices);
    sources[i].into_row = i * rows;
  }
  if (by_matrix) return TN_OK;
  uint64_t stored = rank == 1 ? cols : rows * matrices;
  *sources =
      has_blocks ? whole_blocks(from, stored, cols) : whole_matrix(from, stored, rank == 1 ? 1 : cols, transposed);
  sources->add = form & TN_FORM_ADD_ONE ? 1.0f : 0.0f;
  return reorder(e, tensor, sources, form);
}

/* One tensor for each expert, stacked. */
static tn_status describe_stacked(tn_exporter *e, const char *gguf, const tn_file_tensor *first) {
  uint32_t count = 0;
  tn_name name = {.found = true};
  while (name.found) tn_name_find(e->file, e->family, gguf, ++count, &name);
  uint64_t rows = (uint64_t)first->dims[1], cols = (uint64_t)first->dims[0];
  tn_export_tensor *tensor = new_tensor(e, gguf, first->dtype, first->bytes * count);
  if (!tensor) return tn_export_no_memory(e);
  shape(tensor, 3, cols, rows, count);
  tn_weight_source *sources = new_sources(e, tensor, count);
  if (!sources) return tn_export_no_memory(e);
  for (uint32_t i = 0; i < count; i++) {
    const tn_file_tensor *from;
    tn_name_find(e->file, e->family, gguf, i, &name);
    tn_status status = tn_container_get_tensor(e->file, NULL, name.text, &from, e->error);
    if (status != TN_OK) return status;
    sources[i] = whole_matrix(from, rows, cols, false);
    sources[i].into_row = i * rows;
  }
  return TN_OK;
}

/* Gate or up of all experts, which the folder has in one tensor, gate rows first or in turn: a matrix for each expert,
 * or (their biases) a vector. */
static tn_status describe_half(tn_exporter *e, const char *gguf, const tn_file_tensor *from, uint32_t form) {
  bool transposed = form & TN_FORM_TRANSPOSED, in_turn = form & TN_FORM_ALTERNATE, has_blocks = form & TN_FORM_BLOCKS;
  bool is_bias = from->rank == 2, is_up = strstr(gguf, "_up_") != NULL;
  const int64_t *dims = from->dims + (has_blocks ? 1 : 0);
  uint64_t experts = (uint64_t)dims[is_bias ? 1 : 2], both = (uint64_t)dims[is_bias || transposed ? 0 : 1];
  uint64_t cols = is_bias ? 1 : (uint64_t)dims[transposed ? 1 : 0] * (has_blocks ? 32 : 1), half = both / 2;
  tn_export_tensor *tensor =
      new_tensor(e, gguf, has_blocks ? TN_MXFP4 : from->dtype, (has_blocks ? from->bytes / 16 * 17 : from->bytes) / 2);
  if (!tensor) return tn_export_no_memory(e);
  shape(tensor, 3, cols, half, experts);
  if (is_bias) { /* columns of numbers */
    tensor->about.rank = 2;
    memcpy(tensor->about.dims, (const int64_t[]){(int64_t)half, (int64_t)experts, 1, 1}, sizeof tensor->about.dims);
  }
  tn_weight_source *sources = new_sources(e, tensor, (uint32_t)experts);
  const uint32_t *map = in_turn ? alternate(e, is_up, half) : NULL;
  if (!sources || (in_turn && !map)) return tn_export_no_memory(e);
  for (uint64_t i = 0; i < experts; i++) {
    sources[i] = has_blocks ? whole_blocks(from, both, cols) : whole_matrix(from, both, cols, transposed);
    sources[i].data = from->data + i * (from->bytes / experts);
    sources[i].row_begin = is_up && !in_turn ? half : 0;
    sources[i].row_count = half;
    sources[i].row_map = map;
    sources[i].into_row = i * half;
  }
  return TN_OK;
}

static const tn_graph_value *find_weight(const tn_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].kind == TN_VALUE_WEIGHT && !strcmp(graph->values[i].name, name)) return graph->values + i;
  return NULL;
}

/* What the graph has made of the folder's tensors. */
static tn_status describe_made(tn_exporter *e, const tn_graph_value *made, uint32_t form) {
  const int32_t *dims = made->dims;
  uint64_t count = 1;
  for (uint32_t d = 0; d < made->rank; d++) count *= (uint64_t)dims[d];
  tn_export_tensor *tensor =
      new_tensor(e, made->name, (tn_dtype)made->dtype, count * tn_dtype_block_bytes((tn_dtype)made->dtype));
  if (!tensor) return tn_export_no_memory(e);
  if (made->rank > 1) {
    uint64_t matrices = made->rank == 3 ? (uint64_t)dims[0] : 1;
    shape(tensor, made->rank, (uint64_t)dims[made->rank - 1], (uint64_t)dims[made->rank - 2], matrices);
    tensor->value.sources = made->sources;
    tensor->value.source_count = made->source_count;
    return TN_OK;
  }
  const tn_file_tensor numbers = {.dtype = TN_F32, .data = made->sources->data};
  tn_weight_source *source = new_sources(e, tensor, 1);
  if (!source) return tn_export_no_memory(e);
  shape(tensor, 1, count, 1, 1);
  *source = whole_matrix(&numbers, count, 1, false);
  return reorder(e, tensor, source, form);
}

static tn_status describe_tensor(tn_exporter *e, const char *gguf) {
  tn_name name;
  const tn_file_tensor *from;
  if (!strcmp(gguf, "output.weight") && e->hyper->tied == 1) return TN_OK; /* a copy of the embedding */
  tn_name_find(e->file, e->family, gguf, 0, &name);
  if (!name.found || name.form & TN_FORM_MADE) {
    const tn_graph_value *made = find_weight(e->graph, gguf);
    if (made) return describe_made(e, made, name.form);
    if (name.found) return TN_OK; /* only its parts are made */
  }
  tn_status status = tn_container_get_tensor(e->file, NULL, name.text, &from, e->error);
  if (status != TN_OK) return status;
  if (name.form & (TN_FORM_GATE_UP | TN_FORM_ALTERNATE)) return describe_half(e, gguf, from, name.form);
  if (name.each) return describe_stacked(e, gguf, from);
  return describe_whole(e, gguf, from, name.form);
}

/* Tensors that the graph does without, and readers that bind all of a layer's the same way don't. */
static tn_status describe_unused(tn_exporter *e) {
  tn_status status = TN_OK;
  for (const char *const *pattern = e->family->unused; pattern && *pattern; pattern++)
    for (uint32_t layer = 0; layer < e->hyper->layers && !strncmp(*pattern, "blk.#.", 6) && status == TN_OK; layer++) {
      char gguf[TN_MAX_NAME];
      tn_name name;
      snprintf(gguf, sizeof gguf, "blk.%u.%s", layer, *pattern + 6);
      tn_name_find(e->file, e->family, gguf, 0, &name);
      bool is_there = !name.found;
      for (size_t i = 0; i < e->names.count && !is_there; i++) is_there = !strcmp(e->names.names[i], gguf);
      if (!is_there) status = describe_tensor(e, gguf);
    }
  return status;
}

/* ---- numbers of config.json ---- */

static tn_status put_numbers(tn_exporter *e, const char *name, const float *numbers, uint32_t count) {
  tn_export_tensor *tensor = new_tensor(e, name, TN_F32, count * sizeof *numbers);
  if (!tensor) return tn_export_no_memory(e);
  shape(tensor, 1, count, 1, 1);
  const tn_file_tensor from = {.dtype = TN_F32, .data = (const uint8_t *)numbers};
  tn_weight_source *source = new_sources(e, tensor, 1);
  if (!source) return tn_export_no_memory(e);
  *source = whole_matrix(&from, count, 1, false);
  return TN_OK;
}

/* The frequencies that a graph's first rope table has, or NULL. */
static const float *frequencies_of(const tn_graph *graph, uint32_t *count) {
  const tn_graph_value *value = find_weight(graph, "rope.frequencies");
  if (!value) return NULL;
  *count = (uint32_t)value->dims[0];
  return value->sources->data;
}

/* Scalings that GGUF has as what each frequency is divided by; where nothing turns, by a lot. */
static tn_status put_divisors(tn_exporter *e) {
  uint32_t count = 0;
  const tn_rope_hyper *rope = &e->hyper->rope;
  bool is_tensor = rope->scaling == TN_ROPE_LLAMA3 || rope->scaling == TN_ROPE_PROPORTIONAL;
  const float *frequencies = is_tensor ? frequencies_of(e->graph, &count) : NULL;
  if (!frequencies) return TN_OK;
  float *divisors = tn_arena_array(&e->out->arena, count, sizeof *divisors);
  if (!divisors) return tn_export_no_memory(e);
  for (uint32_t m = 0; m < count; m++)
    divisors[m] =
        frequencies[m] > 0 ? (float)(pow((double)rope->theta, -2.0 * m / rope->span) / (double)frequencies[m]) : 1e30f;
  return put_numbers(e, "rope_freqs.weight", divisors, count);
}

/* longrope's two sets of factors. */
static tn_status put_factors(tn_exporter *e) {
  static const char *const sets[][2] = {{"long_factor", "rope_factors_long.weight"},
                                        {"short_factor", "rope_factors_short.weight"}};
  const tn_rope_hyper *rope = &e->hyper->rope;
  tn_status status = TN_OK;
  for (size_t s = 0; s < TN_COUNT(sets) && rope->scaling == TN_ROPE_LONG && status == TN_OK; s++) {
    char name[100];
    snprintf(name, sizeof name, "%s%s", rope->prefix, sets[s][0]);
    const tn_config_value *factors = tn_config_find(&e->file->config, name);
    uint32_t count = rope->rotary / 2;
    float *numbers = tn_arena_array(&e->out->arena, count, sizeof *numbers);
    if (!numbers) return tn_export_no_memory(e);
    if (!factors || factors->item_count != count) return tn_export_cannot(e, name);
    for (uint32_t m = 0; m < count; m++) numbers[m] = (float)factors->items[m].number;
    status = put_numbers(e, sets[s][1], numbers, count);
  }
  return status;
}

tn_status tn_export_tensors(tn_exporter *e) {
  tn_status status = TN_OK;
  for (size_t i = 0; i < e->names.count && status == TN_OK; i++) status = describe_tensor(e, e->names.names[i]);
  if (status == TN_OK) status = describe_unused(e);
  if (status == TN_OK) status = put_divisors(e);
  return status == TN_OK ? put_factors(e) : status;
}
