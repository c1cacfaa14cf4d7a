/* Binding weights and building the blocks that families share (see build.h). */
#include "model/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME 200

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

/* The tensor `name`, of exactly these dims (fastest first), marked as used; NULL with the graph failed. */
static const tn_file_tensor *find_tensor(tn_build *build, const char *name, uint32_t rank, uint32_t cols,
                                         uint32_t rows) {
  tn_graph *graph = build->graph;
  const tn_file_tensor *tensor = NULL;
  if (graph->error.status != TN_OK) return NULL;
  if (tn_gguf_get_tensor(build->gguf, build->use, name, &tensor, &graph->error) != TN_OK) return NULL;
  bool fits = tensor->rank == rank && tensor->dims[0] == cols && (rank == 1 || tensor->dims[1] == rows);
  if (fits) return tensor;
  char found[100] = "", wanted[48];
  size_t at = 0;
  for (uint32_t d = 0; d < tensor->rank && at < sizeof found; d++)
    at += (size_t)snprintf(found + at, sizeof found - at, "%s%lld", d ? ", " : "", (long long)tensor->dims[d]);
  if (rank == 1)
    snprintf(wanted, sizeof wanted, "%u", cols);
  else
    snprintf(wanted, sizeof wanted, "%u, %u", cols, rows);
  tn_graph_fail(graph, TN_E_FORMAT, "%s: tensor %s has the shape [%s], expected [%s]", build->gguf->path, name, found,
                wanted);
  return NULL;
}

static tn_ref bind_rows(tn_build *build, const char *tensor_name, const char *weight_name, uint32_t rows, uint32_t cols,
                        uint32_t begin, uint32_t count) {
  tn_ref known = find_weight(build->graph, weight_name);
  if (known != TN_NO_VALUE) return known;
  const tn_file_tensor *tensor = find_tensor(build, tensor_name, 2, cols, rows);
  if (!tensor) return TN_NO_VALUE;
  const tn_weight_source source = {.size = sizeof source,
                                   .dtype = tensor->dtype,
                                   .data = tensor->data,
                                   .rows = rows,
                                   .cols = cols,
                                   .row_begin = begin,
                                   .row_count = count,
                                   .col_count = cols};
  return tn_graph_weight(build->graph, weight_name, tensor->dtype, 2, (uint64_t[]){count, cols}, &source, 1);
}

static tn_ref bind_vector(tn_build *build, const char *tensor_name, const char *weight_name, uint32_t total,
                          uint32_t begin, uint32_t count) {
  tn_ref known = find_weight(build->graph, weight_name);
  if (known != TN_NO_VALUE) return known;
  const tn_file_tensor *tensor = find_tensor(build, tensor_name, 1, total, 1);
  if (!tensor) return TN_NO_VALUE;
  if (tensor->dtype != TN_F32 && tensor->dtype != TN_F16 && tensor->dtype != TN_BF16) {
    tn_graph_fail(build->graph, TN_E_UNSUPPORTED, "%s: tensor %s is a vector in %s, expected f32, f16 or bf16",
                  build->gguf->path, tensor_name, tn_dtype_name(tensor->dtype));
    return TN_NO_VALUE;
  }
  const tn_weight_source source = {.size = sizeof source,
                                   .dtype = tensor->dtype,
                                   .data = tensor->data,
                                   .rows = 1,
                                   .cols = total,
                                   .row_count = 1,
                                   .col_begin = begin,
                                   .col_count = count};
  return tn_graph_weight(build->graph, weight_name, tensor->dtype, 1, &(uint64_t){count}, &source, 1);
}

tn_ref tn_build_matrix(tn_build *build, uint32_t rows, uint32_t cols, const char *format, ...) {
  char name[MAX_NAME];
  FORMAT_NAME(name, format);
  return bind_rows(build, name, name, rows, cols, 0, rows);
}

tn_ref tn_build_vector(tn_build *build, uint32_t count, const char *format, ...) {
  char name[MAX_NAME];
  FORMAT_NAME(name, format);
  return bind_vector(build, name, name, count, 0, count);
}

tn_ref tn_build_rows(tn_build *build, uint32_t rows, uint32_t cols, uint32_t begin, uint32_t count, const char *format,
                     ...) {
  char name[MAX_NAME], part[MAX_NAME + 32];
  FORMAT_NAME(name, format);
  snprintf(part, sizeof part, "%s[%u:%u]", name, begin, begin + count);
  return bind_rows(build, name, part, rows, cols, begin, count);
}

tn_ref tn_build_slice(tn_build *build, uint32_t total, uint32_t begin, uint32_t count, const char *format, ...) {
  char name[MAX_NAME], part[MAX_NAME + 32];
  FORMAT_NAME(name, format);
  snprintf(part, sizeof part, "%s[%u:%u]", name, begin, begin + count);
  return bind_vector(build, name, part, total, begin, count);
}

bool tn_build_has(const tn_build *build, const char *format, ...) {
  char name[MAX_NAME];
  FORMAT_NAME(name, format);
  return tn_gguf_find_tensor(build->gguf, name) != NULL;
}

void tn_build_rope_table(tn_build *build) {
  const tn_hyper *hyper = build->hyper;
  uint32_t half = hyper->rotary / 2;
  float frequencies[512];
  const tn_file_tensor *factors = NULL;
  if (build->graph->error.status != TN_OK) return;
  if (tn_build_has(build, "rope_freqs.weight")) {
    factors = find_tensor(build, "rope_freqs.weight", 1, half, 1);
    if (factors && factors->dtype != TN_F32)
      tn_graph_fail(build->graph, TN_E_FORMAT, "%s: tensor rope_freqs.weight is %s, expected f32", build->gguf->path,
                    tn_dtype_name(factors->dtype));
    if (build->graph->error.status != TN_OK) return;
  }
  for (uint32_t m = 0; m < half; m++) {
    float factor = 1.0f;
    if (factors) memcpy(&factor, factors->data + m * sizeof factor, sizeof factor);
    if (!(factor > 0)) {
      tn_graph_fail(build->graph, TN_E_FORMAT,
                    "%s: tensor rope_freqs.weight: value %u is %g, expected a positive number", build->gguf->path, m,
                    (double)factor);
      return;
    }
    double frequency = pow((double)hyper->rope_theta, -2.0 * m / hyper->rotary);
    frequencies[m] = (float)(frequency / (double)factor / (double)hyper->rope_linear_factor);
  }
  build->rope_table =
      tn_rope_table(build->graph, tn_graph_numbers(build->graph, "rope.frequencies", frequencies, half), 1.0f);
}

tn_ref tn_block_attention(tn_build *build, uint32_t layer, tn_ref q, tn_ref k, tn_ref v, uint32_t window) {
  const tn_hyper *hyper = build->hyper;
  tn_graph *graph = build->graph;
  char name[32];
  snprintf(name, sizeof name, "kv.%u", layer);
  if (build->rope_table != TN_NO_VALUE) {
    q = tn_rope(graph, q, build->rope_table, hyper->key_dim, build->pairing);
    k = tn_rope(graph, k, build->rope_table, hyper->key_dim, build->pairing);
  }
  tn_ref kv =
      tn_graph_kv(graph, name, tn_graph_group_of(graph, window), hyper->kv_heads, hyper->key_dim, hyper->value_dim);
  tn_kv_write(graph, k, v, kv);
  return tn_attention(graph, q, kv, TN_NO_VALUE, hyper->heads, 1.0f / sqrtf((float)hyper->key_dim), 0.0f);
}

tn_ref tn_block_gated_ffn(tn_build *build, uint32_t layer, tn_ref x, tn_activation activation) {
  const tn_hyper *hyper = build->hyper;
  tn_graph *graph = build->graph;
  tn_ref gate = tn_linear(graph, x, tn_build_matrix(build, hyper->ffn, hyper->width, "blk.%u.ffn_gate.weight", layer),
                          TN_NO_VALUE);
  tn_ref up =
      tn_linear(graph, x, tn_build_matrix(build, hyper->ffn, hyper->width, "blk.%u.ffn_up.weight", layer), TN_NO_VALUE);
  tn_ref product = tn_activate(graph, gate, up, activation);
  return tn_linear(graph, product, tn_build_matrix(build, hyper->width, hyper->ffn, "blk.%u.ffn_down.weight", layer),
                   TN_NO_VALUE);
}

void tn_build_head(tn_build *build, tn_ref x) {
  const tn_hyper *hyper = build->hyper;
  const char *name = tn_build_has(build, "output.weight") ? "output.weight" : "token_embd.weight";
  tn_ref rows = tn_select_rows(build->graph, x);
  tn_graph_set_logits(
      build->graph,
      tn_linear(build->graph, rows, tn_build_matrix(build, hyper->vocabulary, hyper->width, "%s", name), TN_NO_VALUE));
}
