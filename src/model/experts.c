/* Experts: binding their weights from the forms files have, and the block (see experts.h). */
#include "model/experts.h"

#include <stdio.h>

/* A list of sources of one weight that grows in the graph's arena. */
typedef struct source_list {
  tn_build *build;
  tn_weight_source *sources;
  uint32_t count, capacity;
  uint32_t dtype;
} source_list;

static void fail_memory(tn_build *build) {
  tn_graph_fail(build->graph, TN_E_MEMORY, "graph: out of memory");
}

static void push(source_list *list, const tn_file_tensor *tensor, const tn_weight_source *source) {
  if (list->build->graph->error.status != TN_OK) return;
  if (list->count == list->capacity) return fail_memory(list->build);
  if (list->count && list->dtype != tensor->dtype) {
    tn_graph_fail(list->build->graph, TN_E_UNSUPPORTED, "%s: tensor %s is %s, expected %s as the layer's other experts",
                  list->build->file->path, tensor->name, tn_dtype_name(tensor->dtype),
                  tn_dtype_name((tn_dtype)list->dtype));
    return;
  }
  list->dtype = tensor->dtype;
  list->sources[list->count++] = *source;
}

static bool has_shape(tn_build *build, const tn_file_tensor *tensor, uint32_t rank, uint64_t cols, uint64_t rows,
                      uint64_t experts) {
  if (tensor->rank == rank && (uint64_t)tensor->dims[0] == cols && (uint64_t)tensor->dims[1] == rows &&
      (rank == 2 || (uint64_t)tensor->dims[2] == experts))
    return true;
  tn_graph_fail(build->graph, TN_E_FORMAT,
                "%s: tensor %s has the shape [%lld, %lld, %lld], expected [%llu, %llu, %llu] (fastest first)",
                build->file->path, tensor->name, (long long)tensor->dims[0], (long long)tensor->dims[1],
                (long long)tensor->dims[2], (unsigned long long)cols, (unsigned long long)rows,
                (unsigned long long)(rank == 2 ? 1 : experts));
  return false;
}

/* Every second of `count` rows from `begin` on: gate and up in turn. */
static const uint32_t *alternate(tn_build *build, uint64_t begin, uint32_t count) {
  uint32_t *map = tn_arena_array(&build->graph->arena, count, sizeof *map);
  if (!map) fail_memory(build);
  for (uint32_t i = 0; map && i < count; i++) map[i] = (uint32_t)(begin + 2 * i);
  return map;
}

/* One tensor an expert: `rows` rows of each to row e * stride + at of the weight. */
static void push_single(source_list *list, const char *name, uint32_t experts, uint32_t rows, uint32_t cols,
                        uint32_t stride, uint32_t at) {
  for (uint32_t e = 0; e < experts; e++) {
    uint32_t form;
    const tn_file_tensor *tensor = tn_build_tensor(list->build, name, e, &form);
    if (!tensor || !has_shape(list->build, tensor, 2, cols, rows, 1)) return;
    push(list, tensor,
         &(tn_weight_source){.size = sizeof(tn_weight_source),
                             .dtype = tensor->dtype,
                             .data = tensor->data,
                             .rows = rows,
                             .cols = cols,
                             .row_count = rows,
                             .col_count = cols,
                             .into_row = (uint64_t)e * stride + at});
  }
}

/* How rows lie in a tensor that holds all experts. */
typedef struct fused_form {
  uint32_t rows; /* of one expert in the tensor */
  uint32_t begin, step;
  bool transposed; /* [experts, in, out] */
} fused_form;

/* All experts in one tensor: rows begin, begin + step, ... of each. */
static void push_fused(source_list *list, const char *name, const fused_form *f, uint32_t experts, uint32_t rows,
                       uint32_t cols, uint32_t stride, uint32_t at) {
  uint32_t form;
  tn_build *build = list->build;
  const tn_file_tensor *tensor = tn_build_tensor(build, name, 0, &form);
  uint64_t stored_cols = f->transposed ? f->rows : cols, stored_rows = f->transposed ? cols : f->rows;
  if (!tensor || !has_shape(build, tensor, 3, stored_cols, stored_rows, experts)) return;
  uint64_t expert_bytes = tensor->bytes / experts;
  const uint32_t *map = f->step > 1 ? alternate(build, f->begin, rows) : NULL;
  for (uint32_t e = 0; e < experts && build->graph->error.status == TN_OK; e++)
    push(list, tensor,
         &(tn_weight_source){.size = sizeof(tn_weight_source),
                             .dtype = tensor->dtype,
                             .data = tensor->data + e * expert_bytes,
                             .rows = stored_rows,
                             .cols = stored_cols,
                             .row_begin = f->begin,
                             .row_count = rows,
                             .col_count = cols,
                             .row_map = map,
                             .transposed = f->transposed,
                             .into_row = (uint64_t)e * stride + at});
}

/* The tensor of blocks of `rows` rows, and that of their scales, marked and checked; NULL with the graph failed. */
static const tn_file_tensor *blocks_of(tn_build *build, const char *name, uint64_t rows, uint32_t cols) {
  tn_name found;
  char scales_name[TN_MAX_NAME];
  const tn_file_tensor *blocks, *scales;
  uint64_t count = rows * (cols / 32);
  tn_error *error = &build->graph->error;
  if (error->status != TN_OK) return NULL;
  tn_name_find(build->file, build->family, name, 0, &found);
  tn_build_note(build, name);
  if (!tn_name_of_scales(found.text, scales_name) ||
      tn_container_get_tensor(build->file, build->use, found.text, &blocks, error) != TN_OK ||
      tn_container_get_tensor(build->file, build->use, scales_name, &scales, error) != TN_OK)
    return NULL;
  if (cols % 32 == 0 && blocks->dtype == TN_U8 && scales->dtype == TN_U8 && blocks->bytes == count * 16 &&
      scales->bytes == count)
    return blocks;
  tn_graph_fail(build->graph, TN_E_FORMAT, "%s: tensors %s and %s: expected %llu MXFP4 blocks and scales in u8",
                build->file->path, blocks->name, scales->name, (unsigned long long)count);
  return NULL;
}

/* The same as push_fused where the tensor is MXFP4 blocks, [experts, rows, blocks, 16]: u8 that becomes MXFP4 when the
 * weight is packed (convert.h). */
static void push_blocks(source_list *list, const char *name, const fused_form *f, uint32_t experts, uint32_t rows,
                        uint32_t cols, uint32_t stride, uint32_t at) {
  tn_build *build = list->build;
  const uint32_t *map = f->step > 1 ? alternate(build, f->begin, rows) : NULL;
  const tn_file_tensor *blocks = blocks_of(build, name, (uint64_t)experts * f->rows, cols);
  const tn_file_tensor described = {.name = name, .dtype = TN_MXFP4};
  for (uint32_t e = 0; e < experts && blocks && build->graph->error.status == TN_OK; e++)
    push(list, &described,
         &(tn_weight_source){.size = sizeof(tn_weight_source),
                             .dtype = TN_U8,
                             .data = blocks->data + (uint64_t)e * f->rows * (cols / 2),
                             .rows = f->rows,
                             .cols = cols / 2,
                             .row_begin = f->begin,
                             .row_count = rows,
                             .col_count = cols,
                             .row_map = map,
                             .into_row = (uint64_t)e * stride + at});
}

/* One of the three parts of the experts into rows e * stride + at of the weight. */
static void push_part(source_list *list, const char *part, uint32_t layer, uint32_t rows, uint32_t cols,
                      uint32_t stride, uint32_t at) {
  const tn_hyper *h = list->build->hyper;
  char name[TN_MAX_NAME];
  tn_name found;
  snprintf(name, sizeof name, "blk.%u.ffn_%s_exps.weight", layer, part);
  tn_name_find(list->build->file, list->build->family, name, 0, &found);
  fused_form form = {.rows = rows, .step = 1, .transposed = found.form & TN_FORM_TRANSPOSED};
  if (found.form & TN_FORM_GATE_UP) form = (fused_form){2 * rows, at, 1, form.transposed};
  if (found.form & TN_FORM_ALTERNATE) form = (fused_form){2 * rows, at ? 1 : 0, 2, form.transposed};
  const tn_file_tensor *tensor = found.found ? tn_container_find_tensor(list->build->file, found.text) : NULL;
  if (found.form & TN_FORM_BLOCKS)
    push_blocks(list, name, &form, h->experts.count, rows, cols, stride, at);
  else if (tensor && tensor->rank == 2)
    push_single(list, name, h->experts.count, rows, cols, stride, at);
  else
    push_fused(list, name, &form, h->experts.count, rows, cols, stride, at);
}

static tn_ref finish(source_list *list, const char *name, uint32_t experts, uint32_t rows, uint32_t cols) {
  if (list->build->graph->error.status != TN_OK) return TN_NO_VALUE;
  return tn_graph_weight(list->build->graph, name, list->dtype, 3, (uint64_t[]){experts, rows, cols}, list->sources,
                         list->count);
}

static source_list begin(tn_build *build) {
  source_list list = {.build = build, .capacity = 2 * build->hyper->experts.count};
  list.sources = tn_arena_array(&build->graph->arena, list.capacity, sizeof *list.sources);
  if (!list.sources) fail_memory(build);
  return list;
}

static tn_ref bind_gate_up(tn_build *build, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  uint32_t ffn = h->experts.ffn, experts = h->experts.count;
  char name[TN_MAX_NAME];
  source_list list = begin(build);
  snprintf(name, sizeof name, "blk.%u.ffn_gate_up_exps.weight", layer);
  if (tn_build_has(build, "%s", name)) {
    push_fused(&list, name, &(fused_form){2 * ffn, 0, 1, false}, experts, 2 * ffn, h->width, 2 * ffn, 0);
  } else {
    push_part(&list, "gate", layer, ffn, h->width, 2 * ffn, 0);
    push_part(&list, "up", layer, ffn, h->width, 2 * ffn, ffn);
  }
  return finish(&list, name, experts, 2 * ffn, h->width);
}

static tn_ref bind_down(tn_build *build, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  char name[TN_MAX_NAME];
  source_list list = begin(build);
  snprintf(name, sizeof name, "blk.%u.ffn_down_exps.weight", layer);
  push_part(&list, "down", layer, h->width, h->experts.ffn, h->width, 0);
  return finish(&list, name, h->experts.count, h->width, h->experts.ffn);
}

/* `count` biases of every expert, from a tensor [experts, total] (begin, begin + step, ...), to e * stride + at. */
static void push_bias(source_list *list, const char *name, const fused_form *f, uint32_t count, uint32_t stride,
                      uint32_t at) {
  uint32_t form, experts = list->build->hyper->experts.count;
  const tn_file_tensor *tensor = tn_build_tensor(list->build, name, 0, &form);
  if (!tensor || !has_shape(list->build, tensor, 2, f->rows, experts, 1)) return;
  uint64_t expert_bytes = tensor->bytes / experts;
  const uint32_t *map = f->step > 1 ? alternate(list->build, f->begin, count) : NULL;
  for (uint32_t e = 0; e < experts; e++)
    push(list, tensor,
         &(tn_weight_source){.size = sizeof(tn_weight_source),
                             .dtype = tensor->dtype,
                             .data = tensor->data + e * expert_bytes,
                             /* a column of numbers: as rows they can be picked */
                             .rows = f->rows,
                             .cols = 1,
                             .row_begin = f->begin,
                             .row_count = count,
                             .col_count = 1,
                             .row_map = map,
                             .into_row = (uint64_t)e * stride + at});
}

static tn_ref bind_bias(tn_build *build, uint32_t layer, bool is_down) {
  const tn_hyper *h = build->hyper;
  uint32_t ffn = h->experts.ffn, rows = is_down ? h->width : 2 * ffn;
  char name[TN_MAX_NAME];
  tn_name found;
  snprintf(name, sizeof name, "blk.%u.ffn_%s_exps.bias", layer, is_down ? "down" : "gate");
  if (build->graph->error.status != TN_OK || !tn_build_has(build, "%s", name)) return TN_NO_VALUE;
  source_list list = begin(build);
  if (is_down) {
    push_bias(&list, name, &(fused_form){h->width, 0, 1, false}, h->width, rows, 0);
  } else {
    tn_name_find(build->file, build->family, name, 0, &found);
    bool in_turn = found.form & TN_FORM_ALTERNATE;
    fused_form gate = {in_turn ? 2 * ffn : ffn, 0, in_turn ? 2 : 1, false};
    fused_form up = {gate.rows, in_turn ? 1 : 0, gate.step, false};
    push_bias(&list, name, &gate, ffn, rows, 0);
    snprintf(name, sizeof name, "blk.%u.ffn_up_exps.bias", layer);
    push_bias(&list, name, &up, ffn, rows, ffn);
  }
  if (build->graph->error.status != TN_OK) return TN_NO_VALUE;
  return tn_graph_weight(build->graph, name, list.dtype, 1, &(uint64_t){(uint64_t)h->experts.count * rows},
                         list.sources, list.count);
}

tn_expert_block tn_block_experts_of(tn_build *build, uint32_t layer) {
  return (tn_expert_block){.gate_up = bind_gate_up(build, layer),
                           .gate_up_bias = bind_bias(build, layer, false),
                           .down = bind_down(build, layer),
                           .down_bias = bind_bias(build, layer, true),
                           .expert_scale = TN_NO_VALUE};
}

tn_ref tn_block_experts(tn_build *build, tn_ref x, tn_ref scores, const tn_expert_block *e, tn_ref bias) {
  const tn_expert_hyper *h = &build->hyper->experts;
  tn_graph *graph = build->graph;
  const tn_moe_route_attributes route = {sizeof route, h->scoring, h->normalise, h->groups, h->groups_used, h->scale};
  const tn_moe_linear_attributes up = {sizeof up, 0, build->hyper->activation, 1, e->limit, e->alpha};
  const tn_moe_linear_attributes down = {sizeof down, 1, TN_ACTIVATION_NONE, 0, 0, 0};
  tn_ref chosen;
  tn_ref weights = tn_moe_route(graph, scores, bias, e->expert_scale, h->used, &route, &chosen);
  tn_ref y = tn_moe_linear(graph, x, e->gate_up, chosen, e->gate_up_bias, &up);
  y = tn_moe_linear(graph, y, e->down, chosen, e->down_bias, &down);
  return tn_moe_combine(graph, y, weights);
}

/* The expert that always runs. */
static tn_ref shared_expert(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  tn_graph *graph = build->graph;
  tn_ref gate = tn_block_linear(build, x, h->experts.shared_ffn, "ffn_gate_shexp", layer);
  tn_ref up = tn_block_linear(build, x, h->experts.shared_ffn, "ffn_up_shexp", layer);
  tn_ref y = tn_block_linear(build, tn_activate(graph, gate, up, h->activation), h->width, "ffn_down_shexp", layer);
  if (!tn_build_has(build, "blk.%u.ffn_gate_inp_shexp.weight", layer)) return y;
  /* one weight a row: the expert's output as the only part of a combination */
  tn_ref weight = tn_block_linear(build, x, 1, "ffn_gate_inp_shexp", layer);
  return tn_moe_combine(graph, y, tn_activate(graph, weight, TN_NO_VALUE, TN_ACTIVATION_SIGMOID));
}

tn_ref tn_block_ffn(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  if (!h->experts.count || !tn_build_has(build, "blk.%u.ffn_gate_inp.weight", layer))
    return tn_block_gated_ffn(build, x, h->ffn, layer);
  tn_expert_block experts = tn_block_experts_of(build, layer);
  tn_ref bias = TN_NO_VALUE;
  if (tn_build_has(build, "blk.%u.exp_probs_b.bias", layer))
    bias = tn_build_vector(build, h->experts.count, "blk.%u.exp_probs_b.bias", layer);
  tn_ref scores = tn_block_linear(build, x, h->experts.count, "ffn_gate_inp", layer);
  tn_ref y = tn_block_experts(build, x, scores, &experts, bias);
  return h->experts.shared_ffn ? tn_add(build->graph, y, shared_expert(build, x, layer)) : y;
}
