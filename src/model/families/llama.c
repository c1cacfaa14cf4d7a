/* llama: Llama 2, 3, 3.x, SmolLM2 and all that call themselves so. Pre-norm blocks of grouped-query attention with
 * rotary positions and a SiLU-gated feed-forward. The GGUF form holds q and k with rows permuted for adjacent pairs. */
#include <stdio.h>
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper);
  hyper->norm_epsilon = tn_hyper_f32(reader, "attention.layer_norm_rms_epsilon");
  uint32_t experts = tn_hyper_u32_or(reader, "expert_count", 0);
  if (experts && reader->status == TN_OK)
    reader->status =
        tn_fail(reader->error, TN_E_UNSUPPORTED, "%s: llama.expert_count is %u, expected 0 (dense models only)",
                reader->gguf->path, experts);
}

/* x W^T, plus the bias where the file has one. */
static tn_ref project(tn_build *build, tn_ref x, uint32_t rows, uint32_t cols, const char *name, uint32_t layer) {
  tn_ref bias = TN_NO_VALUE;
  if (tn_build_has(build, "blk.%u.%s.bias", layer, name))
    bias = tn_build_vector(build, rows, "blk.%u.%s.bias", layer, name);
  return tn_linear(build->graph, x, tn_build_matrix(build, rows, cols, "blk.%u.%s.weight", layer, name), bias);
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  tn_graph *graph = build->graph;
  tn_ref a = tn_norm(graph, x, tn_build_vector(build, h->width, "blk.%u.attn_norm.weight", layer), TN_NO_VALUE,
                     TN_NORM_RMS, 0, h->norm_epsilon);
  tn_ref q = project(build, a, h->heads * h->key_dim, h->width, "attn_q", layer);
  tn_ref k = project(build, a, h->kv_heads * h->key_dim, h->width, "attn_k", layer);
  tn_ref v = project(build, a, h->kv_heads * h->value_dim, h->width, "attn_v", layer);
  a = tn_block_attention(build, layer, q, k, v, 0);
  x = tn_add(graph, x, project(build, a, h->width, h->heads * h->value_dim, "attn_output", layer));
  a = tn_norm(graph, x, tn_build_vector(build, h->width, "blk.%u.ffn_norm.weight", layer), TN_NO_VALUE, TN_NORM_RMS, 0,
              h->norm_epsilon);
  return tn_add(graph, x, tn_block_gated_ffn(build, layer, a, TN_ACTIVATION_SILU));
}

static void build_graph(tn_build *build) {
  const tn_hyper *h = build->hyper;
  tn_graph *graph = build->graph;
  char name[32];
  build->pairing = TN_ROPE_ADJACENT;
  tn_build_rope_table(build);
  tn_ref x =
      tn_embed(graph, tn_build_matrix(build, h->vocabulary, h->width, "token_embd.weight"), TN_EMBED_TOKEN, 1.0f);
  for (uint32_t layer = 0; layer < h->layers; layer++) {
    snprintf(name, sizeof name, "layer %u", layer);
    tn_graph_set_layer(graph, name);
    x = block(build, x, layer);
  }
  tn_graph_set_layer(graph, "head");
  x = tn_norm(graph, x, tn_build_vector(build, h->width, "output_norm.weight"), TN_NO_VALUE, TN_NORM_RMS, 0,
              h->norm_epsilon);
  tn_build_head(build, x);
}

static const char *const architectures[] = {"llama", NULL};
const tn_family tn_family_llama = {"llama", architectures, configure, build_graph};
