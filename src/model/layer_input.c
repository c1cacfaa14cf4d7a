/* Per-layer embeddings (see layer_input.h). */
#include "model/layer_input.h"

#include <math.h>

tn_ref tn_build_layer_inputs(tn_build *build, tn_ref x, uint32_t width) {
  const tn_hyper *h = build->hyper;
  tn_graph *graph = build->graph;
  uint32_t all = width * h->layers;
  tn_ref table = tn_build_table(build, h->vocabulary, all, "per_layer_token_embd.weight");
  tn_ref token = tn_embed(graph, table, TN_EMBED_TOKEN, sqrtf((float)width));
  tn_ref y = tn_linear(graph, x, tn_build_matrix(build, all, h->width, "per_layer_model_proj.weight"), TN_NO_VALUE);
  y = tn_norm(graph, tn_scale(graph, y, 1 / sqrtf((float)h->width)),
              tn_build_vector(build, width, "per_layer_proj_norm.weight"), TN_NO_VALUE, TN_NORM_RMS, width,
              h->norm_epsilon);
  return tn_scale(graph, tn_add(graph, y, token), 1 / sqrtf(2));
}

tn_ref tn_block_layer_input(tn_build *build, tn_ref x, uint32_t width, uint32_t layer) {
  tn_ref input = tn_slice(build->graph, build->shared, layer * width, width);
  tn_ref gate = tn_block_linear(build, x, width, "inp_gate", layer);
  tn_ref y = tn_activate(build->graph, gate, input, build->hyper->activation);
  return tn_block_norm(build, tn_block_linear(build, y, build->hyper->width, "proj", layer), "post_norm", layer);
}
