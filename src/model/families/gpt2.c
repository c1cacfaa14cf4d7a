/* gpt2: learned positions, LayerNorm with bias, one matrix for q, k and v, a GELU (tanh form) feed-forward, tied head.
 */
#include <stdio.h>
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  hyper->norm_epsilon = tn_hyper_f32(reader, "attention.layer_norm_epsilon");
}

static tn_ref norm(tn_build *build, tn_ref x, const char *name, uint32_t layer) {
  uint32_t width = build->hyper->width;
  return tn_norm(build->graph, x, tn_build_vector(build, width, "blk.%u.%s.weight", layer, name),
                 tn_build_vector(build, width, "blk.%u.%s.bias", layer, name), TN_NORM_LAYER, 0,
                 build->hyper->norm_epsilon);
}

/* Rows [begin, begin + count) of the fused q, k, v projection. */
static tn_ref project_part(tn_build *build, tn_ref x, uint32_t total, uint32_t begin, uint32_t count, uint32_t layer) {
  return tn_linear(build->graph, x,
                   tn_build_rows(build, total, build->hyper->width, begin, count, "blk.%u.attn_qkv.weight", layer),
                   tn_build_slice(build, total, begin, count, "blk.%u.attn_qkv.bias", layer));
}

static tn_ref project(tn_build *build, tn_ref x, uint32_t rows, uint32_t cols, const char *name, uint32_t layer) {
  return tn_linear(build->graph, x, tn_build_matrix(build, rows, cols, "blk.%u.%s.weight", layer, name),
                   tn_build_vector(build, rows, "blk.%u.%s.bias", layer, name));
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  tn_graph *graph = build->graph;
  uint32_t q_rows = h->heads * h->key_dim, k_rows = h->kv_heads * h->key_dim, v_rows = h->kv_heads * h->value_dim;
  uint32_t total = q_rows + k_rows + v_rows;
  tn_ref a = norm(build, x, "attn_norm", layer);
  tn_ref q = project_part(build, a, total, 0, q_rows, layer);
  tn_ref k = project_part(build, a, total, q_rows, k_rows, layer);
  tn_ref v = project_part(build, a, total, q_rows + k_rows, v_rows, layer);
  a = tn_block_attention(build, layer, q, k, v, 0);
  x = tn_add(graph, x, project(build, a, h->width, h->heads * h->value_dim, "attn_output", layer));
  a = norm(build, x, "ffn_norm", layer);
  a = tn_activate(graph, project(build, a, h->ffn, h->width, "ffn_up", layer), TN_NO_VALUE, TN_ACTIVATION_GELU_TANH);
  return tn_add(graph, x, project(build, a, h->width, h->ffn, "ffn_down", layer));
}

static void build_graph(tn_build *build) {
  const tn_hyper *h = build->hyper;
  tn_graph *graph = build->graph;
  char name[32];
  tn_ref x =
      tn_embed(graph, tn_build_matrix(build, h->vocabulary, h->width, "token_embd.weight"), TN_EMBED_TOKEN, 1.0f);
  x = tn_add(
      graph, x,
      tn_embed(graph, tn_build_matrix(build, h->context, h->width, "position_embd.weight"), TN_EMBED_POSITION, 1.0f));
  for (uint32_t layer = 0; layer < h->layers; layer++) {
    snprintf(name, sizeof name, "layer %u", layer);
    tn_graph_set_layer(graph, name);
    x = block(build, x, layer);
  }
  tn_graph_set_layer(graph, "head");
  x = tn_norm(graph, x, tn_build_vector(build, h->width, "output_norm.weight"),
              tn_build_vector(build, h->width, "output_norm.bias"), TN_NORM_LAYER, 0, h->norm_epsilon);
  tn_build_head(build, x);
}

static const char *const architectures[] = {"gpt2", NULL};
const tn_family tn_family_gpt2 = {"gpt2", architectures, configure, build_graph};
