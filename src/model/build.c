/* Binding weights by name, with their shapes checked (see build.h). */
#include "model/build.h"

#include <stdio.h>
#include "tensor/decode.h"

#define FORMAT_NAME(name, format)               \
  do {                                          \
    va_list list;                               \
    va_start(list, format);                     \
    vsnprintf(name, sizeof name, format, list); \
    va_end(list);                               \
  } while (0)

/* The weight already made under this name, or none. */
static tn_ref find_weight(const tn_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].kind == TN_VALUE_WEIGHT && !strcmp(graph->values[i].name, name)) return (tn_ref)i;
  return TN_NO_VALUE;
}

static void wrong_shape(tn_build *build, const tn_file_tensor *tensor, const char *wanted) {
  char found[100] = "";
  size_t at = 0;
  for (uint32_t d = 0; d < tensor->rank && at < sizeof found; d++)
    at += (size_t)snprintf(found + at, sizeof found - at, "%s%lld", d ? ", " : "", (long long)tensor->dims[d]);
  tn_graph_fail(build->graph, TN_E_FORMAT, "%s: tensor %s has the shape [%s], expected [%s] (fastest first)",
                build->file->path, tensor->name, found, wanted);
}

void tn_build_note(tn_build *build, const char *name) {
  tn_name_list *list = build->seen;
  if (!list) return;
  for (size_t i = list->count; i-- > 0;)
    if (!strcmp(list->names[i], name)) return;
  char(*slot)[TN_MAX_NAME] = TN_PUSH(list->names, list->count, list->capacity);
  if (slot)
    snprintf(*slot, TN_MAX_NAME, "%s", name);
  else
    list->failed = true;
}

const tn_file_tensor *tn_build_tensor(tn_build *build, const char *gguf, uint32_t expert, uint32_t *form) {
  const tn_file_tensor *tensor = NULL;
  tn_name name;
  if (build->graph->error.status != TN_OK) return NULL;
  tn_name_find(build->file, build->family, gguf, expert, &name);
  *form = name.form;
  tn_container_get_tensor(build->file, build->use, name.text, &tensor, &build->graph->error);
  if (!expert) tn_build_note(build, gguf);
  return tensor && tn_build_is_weight(build, tensor) ? tensor : NULL;
}

bool tn_build_is_weight(tn_build *build, const tn_file_tensor *tensor) {
  switch (tensor->dtype) {
    case TN_F64:
    case TN_U8:
    case TN_I8:
    case TN_I16:
    case TN_I32:
    case TN_I64:
      tn_graph_fail(build->graph, TN_E_UNSUPPORTED, "%s: tensor %s is %s, expected f32, f16, bf16 or a block format",
                    build->file->path, tensor->name, tn_dtype_name(tensor->dtype));
      return false;
    default: return true;
  }
}

/* A view of all of the matrix [rows, cols] as the file stores it; false with the graph failed. */
static bool view_matrix(tn_build *build, const char *name, uint32_t expert, uint32_t rows, uint32_t cols,
                        tn_weight_source *source) {
  uint32_t form = 0;
  const tn_file_tensor *tensor = tn_build_tensor(build, name, expert, &form);
  if (!tensor) return false;
  bool transposed = form & TN_FORM_TRANSPOSED;
  uint32_t fastest = transposed ? rows : cols, slowest = transposed ? cols : rows;
  bool is_row = tensor->rank == 1 && slowest == 1; /* a matrix of one row may be stored as a vector */
  if ((tensor->rank != 2 && !is_row) || tensor->dims[0] != fastest || tensor->dims[1] != slowest) {
    char wanted[48];
    snprintf(wanted, sizeof wanted, "%u, %u", fastest, slowest);
    wrong_shape(build, tensor, wanted);
    return false;
  }
  *source = (tn_weight_source){.size = sizeof *source,
                               .dtype = tensor->dtype,
                               .data = tensor->data,
                               .rows = slowest,
                               .cols = fastest,
                               .row_count = rows,
                               .col_count = cols,
                               .transposed = transposed};
  return true;
}

static tn_ref bind_rows(tn_build *build, const char *tensor_name, const char *weight_name, uint32_t rows, uint32_t cols,
                        uint32_t begin, uint32_t count) {
  tn_weight_source source;
  tn_ref known = find_weight(build->graph, weight_name);
  if (known != TN_NO_VALUE) return known;
  if (!view_matrix(build, tensor_name, 0, rows, cols, &source)) return TN_NO_VALUE;
  source.row_begin = begin;
  source.row_count = count;
  return tn_graph_weight(build->graph, weight_name, source.dtype, 2, (uint64_t[]){count, cols}, &source, 1);
}

/* `count` values from `begin` on of a tensor of `total` values, of any shape if `flat`. */
static tn_ref bind_vector(tn_build *build, const char *tensor_name, const char *weight_name, uint32_t total,
                          uint32_t begin, uint32_t count, bool flat) {
  uint32_t form = 0;
  tn_ref known = find_weight(build->graph, weight_name);
  if (known != TN_NO_VALUE) return known;
  const tn_file_tensor *tensor = tn_build_tensor(build, tensor_name, 0, &form);
  if (!tensor) return TN_NO_VALUE;
  uint64_t values = 1;
  for (uint32_t d = 0; d < tensor->rank; d++) values *= (uint64_t)tensor->dims[d];
  if (values != total || (!flat && tensor->rank != 1)) {
    char wanted[24];
    snprintf(wanted, sizeof wanted, "%u", total);
    wrong_shape(build, tensor, wanted);
    return TN_NO_VALUE;
  }
  if (tensor->dtype != TN_F32 && tensor->dtype != TN_F16 && tensor->dtype != TN_BF16) {
    tn_graph_fail(build->graph, TN_E_UNSUPPORTED, "%s: tensor %s is a vector in %s, expected f32, f16 or bf16",
                  build->file->path, tensor->name, tn_dtype_name(tensor->dtype));
    return TN_NO_VALUE;
  }
  const tn_weight_source source = {.size = sizeof source,
                                   .dtype = tensor->dtype,
                                   .data = tensor->data,
                                   .rows = 1,
                                   .cols = total,
                                   .row_count = 1,
                                   .col_begin = begin,
                                   .col_count = count,
                                   .add = form & TN_FORM_ADD_ONE ? 1.0f : 0.0f};
  return tn_graph_weight(build->graph, weight_name, tensor->dtype, 1, &(uint64_t){count}, &source, 1);
}

tn_ref tn_build_matrix(tn_build *build, uint32_t rows, uint32_t cols, const char *format, ...) {
  char name[TN_MAX_NAME];
  FORMAT_NAME(name, format);
  return bind_rows(build, name, name, rows, cols, 0, rows);
}

tn_ref tn_build_vector(tn_build *build, uint32_t count, const char *format, ...) {
  char name[TN_MAX_NAME];
  FORMAT_NAME(name, format);
  return bind_vector(build, name, name, count, 0, count, false);
}

tn_ref tn_build_rows(tn_build *build, uint32_t rows, uint32_t cols, uint32_t begin, uint32_t count, const char *format,
                     ...) {
  char name[TN_MAX_NAME], part[TN_MAX_NAME + 32];
  FORMAT_NAME(name, format);
  snprintf(part, sizeof part, "%s[%u:%u]", name, begin, begin + count);
  return bind_rows(build, name, part, rows, cols, begin, count);
}

tn_ref tn_build_slice(tn_build *build, uint32_t total, uint32_t begin, uint32_t count, const char *format, ...) {
  char name[TN_MAX_NAME], part[TN_MAX_NAME + 32];
  FORMAT_NAME(name, format);
  snprintf(part, sizeof part, "%s[%u:%u]", name, begin, begin + count);
  return bind_vector(build, name, part, total, begin, count, false);
}

/* The weight called `made` of the rows `map` of a matrix. */
static tn_ref bind_mapped(tn_build *build, uint32_t rows, uint32_t cols, const uint32_t *map, uint32_t count,
                          const char *made, const char *name) {
  tn_ref known = find_weight(build->graph, made);
  if (known != TN_NO_VALUE) return known;
  tn_weight_source source;
  if (!view_matrix(build, name, 0, rows, cols, &source)) return TN_NO_VALUE;
  source.row_map = map;
  source.row_count = count;
  return tn_graph_weight(build->graph, made, source.dtype, 2, (uint64_t[]){count, cols}, &source, 1);
}

tn_ref tn_build_strided_rows(tn_build *build, uint32_t rows, uint32_t cols, uint32_t begin, uint32_t run,
                             uint32_t period, uint32_t count, const char *format, ...) {
  char name[TN_MAX_NAME], part[TN_MAX_NAME + 48];
  FORMAT_NAME(name, format);
  snprintf(part, sizeof part, "%s[%u+%u/%u]", name, begin, run, period);
  uint32_t *map = tn_arena_array(&build->graph->arena, count, sizeof *map);
  if (!map) tn_graph_fail(build->graph, TN_E_MEMORY, "graph: out of memory");
  for (uint32_t i = 0; map && i < count; i++) map[i] = begin + i / run * period + i % run;
  return bind_mapped(build, rows, cols, map, count, part, name);
}

tn_ref tn_build_mapped_rows(tn_build *build, uint32_t rows, uint32_t cols, const uint32_t *map, uint32_t count,
                            const char *made, const char *name) {
  tn_ref weight = bind_mapped(build, rows, cols, map, count, made, name);
  tn_build_note(build, made);
  return weight;
}

tn_ref tn_build_table(tn_build *build, uint32_t rows, uint32_t cols, const char *format, ...) {
  char name[TN_MAX_NAME], part[TN_MAX_NAME + 32];
  tn_weight_source source;
  tn_name file_name;
  FORMAT_NAME(name, format);
  tn_name_find(build->file, build->family, name, 0, &file_name);
  const tn_file_tensor *tensor = file_name.found ? tn_container_find_tensor(build->file, file_name.text) : NULL;
  uint32_t stored = tensor && tensor->rank == 2 && tensor->dims[1] <= (1 << 24) ? (uint32_t)tensor->dims[1] : rows;
  snprintf(part, sizeof part, "%s[0:%u]", name, rows);
  if (stored >= rows) return bind_rows(build, name, stored > rows ? part : name, stored, cols, 0, rows);
  if (!view_matrix(build, name, 0, stored, cols, &source)) return TN_NO_VALUE;
  uint32_t *map = tn_arena_array(&build->graph->arena, rows, sizeof *map);
  if (!map) {
    tn_graph_fail(build->graph, TN_E_MEMORY, "graph: out of memory");
    return TN_NO_VALUE;
  }
  for (uint32_t i = 0; i < rows; i++) map[i] = i < stored ? i : 0;
  source.row_map = map;
  source.row_count = rows;
  return tn_graph_weight(build->graph, part, source.dtype, 2, (uint64_t[]){rows, cols}, &source, 1);
}

/* All rows of the tensor of exactly [count, rows, cols], one matrix behind the other; false with the graph failed. */
static bool view_cube(tn_build *build, const char *name, uint32_t count, uint32_t rows, uint32_t cols,
                      tn_weight_source *source) {
  uint32_t form = 0;
  const tn_file_tensor *tensor = tn_build_tensor(build, name, 0, &form);
  if (!tensor) return false;
  if (tensor->rank != 3 || tensor->dims[0] != cols || tensor->dims[1] != rows || tensor->dims[2] != count) {
    char wanted[48];
    snprintf(wanted, sizeof wanted, "%u, %u, %u", cols, rows, count);
    wrong_shape(build, tensor, wanted);
    return false;
  }
  *source = (tn_weight_source){.size = sizeof *source,
                               .dtype = tensor->dtype,
                               .data = tensor->data,
                               .rows = (uint64_t)count * rows,
                               .cols = cols,
                               .row_count = (uint64_t)count * rows,
                               .col_count = cols};
  return true;
}

tn_ref tn_build_cube_part(tn_build *build, uint32_t count, uint32_t rows, uint32_t cols, uint32_t index,
                          const char *format, ...) {
  char name[TN_MAX_NAME], part[TN_MAX_NAME + 32];
  tn_weight_source source;
  FORMAT_NAME(name, format);
  snprintf(part, sizeof part, "%s[%u]", name, index);
  tn_name of;
  tn_name_find(build->file, build->family, name, index, &of);
  if (of.each) {
    if (!view_matrix(build, name, index, rows, cols, &source)) return TN_NO_VALUE;
    return tn_graph_weight(build->graph, part, source.dtype, 2, (uint64_t[]){rows, cols}, &source, 1);
  }
  if (!view_cube(build, name, count, rows, cols, &source)) return TN_NO_VALUE;
  source.row_begin = (uint64_t)index * rows;
  source.row_count = rows;
  return tn_graph_weight(build->graph, part, source.dtype, 2, (uint64_t[]){rows, cols}, &source, 1);
}

tn_ref tn_build_cube(tn_build *build, uint32_t count, uint32_t rows, uint32_t cols, const char *format, ...) {
  char name[TN_MAX_NAME];
  tn_weight_source source;
  FORMAT_NAME(name, format);
  if (!view_cube(build, name, count, rows, cols, &source)) return TN_NO_VALUE;
  return tn_graph_weight(build->graph, name, source.dtype, 3, (uint64_t[]){count, rows, cols}, &source, 1);
}

tn_ref tn_build_head_rows(tn_build *build, uint32_t heads, uint32_t cols, const tn_head_rows *part, const char *made,
                          const char *name) {
  tn_weight_source whole;
  if (!view_matrix(build, name, 0, heads * part->total, cols, &whole)) return TN_NO_VALUE;
  tn_build_note(build, made);
  tn_weight_source *sources = tn_arena_array(&build->graph->arena, heads, sizeof *sources);
  if (!sources) {
    tn_graph_fail(build->graph, TN_E_MEMORY, "graph: out of memory");
    return TN_NO_VALUE;
  }
  uint32_t rows = part->transposed ? cols : part->count, columns = part->transposed ? part->count : cols;
  uint64_t row_bytes = tn_row_bytes(whole.dtype, cols);
  for (uint32_t h = 0; h < heads; h++)
    sources[h] =
        (tn_weight_source){.size = sizeof *sources,
                           .dtype = whole.dtype,
                           .data = (const uint8_t *)whole.data + ((uint64_t)h * part->total + part->begin) * row_bytes,
                           .rows = part->count,
                           .cols = cols,
                           .row_count = rows,
                           .col_count = columns,
                           .transposed = part->transposed,
                           .into_row = (uint64_t)h * rows};
  return tn_graph_weight(build->graph, made, whole.dtype, 3, (uint64_t[]){heads, rows, columns}, sources, heads);
}

tn_ref tn_build_flat(tn_build *build, uint32_t count, const char *format, ...) {
  char name[TN_MAX_NAME];
  FORMAT_NAME(name, format);
  return bind_vector(build, name, name, count, 0, count, true);
}

bool tn_build_read(tn_build *build, uint32_t count, float *out, const char *format, ...) {
  char name[TN_MAX_NAME];
  uint32_t form = 0;
  FORMAT_NAME(name, format);
  const tn_file_tensor *tensor = tn_build_tensor(build, name, 0, &form);
  if (!tensor) return false;
  if (tensor->rank != 1 || tensor->dims[0] != count) {
    char wanted[24];
    snprintf(wanted, sizeof wanted, "%u", count);
    wrong_shape(build, tensor, wanted);
    return false;
  }
  if (tn_decode_row(tensor->dtype, tensor->data, out, count)) return true;
  tn_graph_fail(build->graph, TN_E_FORMAT, "%s: tensor %s is %s, expected plain numbers", build->file->path,
                tensor->name, tn_dtype_name(tensor->dtype));
  return false;
}

bool tn_build_has(const tn_build *build, const char *format, ...) {
  char name[TN_MAX_NAME];
  tn_name file_name;
  FORMAT_NAME(name, format);
  tn_name_find(build->file, build->family, name, 0, &file_name);
  return file_name.found;
}
