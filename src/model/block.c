/* The blocks that families share (see build.h). */
#include <math.h>
#include <stdio.h>
#include "model/build.h"
#include "model/experts.h"
#include "model/rope.h"

tn_ref tn_block_linear(tn_build *build, tn_ref x, uint32_t rows, const char *name, uint32_t layer) {
  if (build->graph->error.status != TN_OK) return TN_NO_VALUE;
  uint32_t cols = tn_graph_cols(build->graph, x);
  tn_ref bias = TN_NO_VALUE;
  if (tn_build_has(build, "blk.%u.%s.bias", layer, name))
    bias = tn_build_vector(build, rows, "blk.%u.%s.bias", layer, name);
  return tn_linear(build->graph, x, tn_build_matrix(build, rows, cols, "blk.%u.%s.weight", layer, name), bias);
}

tn_ref tn_block_linear_rows(tn_build *build, tn_ref x, uint32_t total, uint32_t begin, uint32_t count, const char *name,
                            uint32_t layer) {
  if (build->graph->error.status != TN_OK) return TN_NO_VALUE;
  uint32_t cols = tn_graph_cols(build->graph, x);
  tn_ref bias = TN_NO_VALUE;
  if (tn_build_has(build, "blk.%u.%s.bias", layer, name))
    bias = tn_build_slice(build, total, begin, count, "blk.%u.%s.bias", layer, name);
  return tn_linear(build->graph, x, tn_build_rows(build, total, cols, begin, count, "blk.%u.%s.weight", layer, name),
                   bias);
}

tn_ref tn_block_norm(tn_build *build, tn_ref x, const char *name, uint32_t layer) {
  if (build->graph->error.status != TN_OK) return TN_NO_VALUE;
  uint32_t cols = tn_graph_cols(build->graph, x), kind = build->hyper->norm_kind;
  tn_ref weight = tn_build_vector(build, cols, "blk.%u.%s.weight", layer, name), bias = TN_NO_VALUE;
  if (kind == TN_NORM_LAYER) bias = tn_build_vector(build, cols, "blk.%u.%s.bias", layer, name);
  return tn_norm(build->graph, x, weight, bias, kind, 0, build->hyper->norm_epsilon);
}

tn_ref tn_block_head_norm(tn_build *build, tn_ref x, uint32_t group, const char *name, uint32_t layer) {
  tn_ref weight = tn_build_vector(build, group, "blk.%u.%s.weight", layer, name);
  return tn_norm(build->graph, x, weight, TN_NO_VALUE, TN_NORM_RMS, group, build->hyper->norm_epsilon);
}

tn_ref tn_block_plain_norm(tn_build *build, tn_ref x, uint32_t group) {
  return tn_norm(build->graph, x, TN_NO_VALUE, TN_NO_VALUE, TN_NORM_RMS, group, build->hyper->norm_epsilon);
}

tn_attention_block tn_block_attention_of(const tn_build *build, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  bool slides = h->kinds[layer] == TN_LAYER_SLIDING;
  return (tn_attention_block){.heads = h->heads,
                              .kv_heads = h->kv_heads,
                              .key_dim = h->key_dim,
                              .value_dim = h->value_dim,
                              .window = slides ? h->window : 0,
                              .scale = h->attention_scale > 0 ? h->attention_scale : 1.0f / sqrtf((float)h->key_dim),
                              .softcap = h->attention_softcap,
                              .rope = slides && build->rope_sliding != TN_NO_VALUE ? build->rope_sliding : build->rope,
                              .sinks = TN_NO_VALUE};
}

/* The KV pages of a layer, made if new. */
static tn_ref layer_kv(tn_build *build, uint32_t layer, const tn_attention_block *a) {
  tn_graph *graph = build->graph;
  char name[32];
  snprintf(name, sizeof name, "kv.%u", layer);
  for (tn_ref i = 0; i < graph->value_count; i++)
    if (graph->values[i].kind == TN_VALUE_STATE && !strcmp(graph->values[i].name, name)) return i;
  tn_ref kv = tn_graph_kv(graph, name, tn_graph_group_of(graph, a->window), a->kv_heads, a->key_dim, a->value_dim);
  if (kv != TN_NO_VALUE && a->low_rank && graph->kv_dtype == TN_I8) graph->values[kv].dtype = TN_F16;
  return kv;
}

static tn_ref turned(tn_build *build, tn_ref x, const tn_attention_block *a) {
  if (a->rope == TN_NO_VALUE) return x;
  return tn_rope(build->graph, x, a->rope, a->key_dim, build->hyper->rope.pairing);
}

static tn_ref attend(tn_build *build, tn_ref q, tn_ref kv, const tn_attention_block *a) {
  return tn_attention(build->graph, q, kv, a->sinks, a->heads, a->scale, a->softcap);
}

tn_ref tn_block_attend_shared(tn_build *build, uint32_t kv_layer, tn_ref q, const tn_attention_block *a) {
  return attend(build, turned(build, q, a), layer_kv(build, kv_layer, a), a);
}

tn_ref tn_block_attend(tn_build *build, uint32_t layer, tn_ref q, tn_ref k, tn_ref v, const tn_attention_block *a) {
  tn_ref kv = layer_kv(build, layer, a);
  q = turned(build, q, a); /* before the pages are written, so that what touches them stays together */
  tn_kv_write(build->graph, turned(build, k, a), v, kv);
  return attend(build, q, kv, a);
}

tn_ref tn_block_attention(tn_build *build, tn_ref x, uint32_t layer, const tn_attention_block *a) {
  tn_ref q = tn_block_linear(build, x, a->heads * a->key_dim, "attn_q", layer);
  tn_ref k = tn_block_linear(build, x, a->kv_heads * a->key_dim, "attn_k", layer);
  tn_ref v = tn_block_linear(build, x, a->kv_heads * a->value_dim, "attn_v", layer);
  switch (build->hyper->qk_norm) {
    case TN_QK_NORM_HEAD:
      q = tn_block_head_norm(build, q, a->key_dim, "attn_q_norm", layer);
      k = tn_block_head_norm(build, k, a->key_dim, "attn_k_norm", layer);
      break;
    case TN_QK_NORM_ROW:
      q = tn_block_norm(build, q, "attn_q_norm", layer);
      k = tn_block_norm(build, k, "attn_k_norm", layer);
      break;
    case TN_QK_NORM_NONE: break;
  }
  tn_ref y = tn_block_attend(build, layer, q, k, v, a);
  return tn_block_linear(build, y, build->hyper->width, "attn_output", layer);
}

tn_ref tn_block_gated_ffn(tn_build *build, tn_ref x, uint32_t ffn, uint32_t layer) {
  if (!ffn)
    tn_graph_fail(build->graph, TN_E_FORMAT, "%s: intermediate_size (GGUF: feed_forward_length) is missing or 0",
                  build->file->path);
  tn_ref gate = tn_block_linear(build, x, ffn, "ffn_gate", layer);
  tn_ref up = tn_block_linear(build, x, ffn, "ffn_up", layer);
  tn_ref product = tn_activate(build->graph, gate, up, build->hyper->activation);
  return tn_block_linear(build, product, build->hyper->width, "ffn_down", layer);
}

tn_ref tn_block_residual(tn_build *build, tn_ref x, tn_ref y) {
  if (build->hyper->residual_scale != 1.0f) y = tn_scale(build->graph, y, build->hyper->residual_scale);
  return tn_add(build->graph, x, y);
}

tn_ref tn_block_pre_norm(tn_build *build, tn_ref x, uint32_t layer) {
  tn_attention_block attention = tn_block_attention_of(build, layer);
  tn_ref y = tn_block_norm(build, x, "attn_norm", layer);
  x = tn_block_residual(build, x, tn_block_attention(build, y, layer, &attention));
  y = tn_block_norm(build, x, "ffn_norm", layer);
  return tn_block_residual(build, x, tn_block_ffn(build, y, layer));
}

tn_ref tn_block_pre_post_norm(tn_build *build, tn_ref x, uint32_t layer) {
  tn_attention_block attention = tn_block_attention_of(build, layer);
  tn_ref y = tn_block_norm(build, x, "attn_norm", layer);
  y = tn_block_attention(build, y, layer, &attention);
  x = tn_add(build->graph, x, tn_block_norm(build, y, "post_attention_norm", layer));
  y = tn_block_norm(build, x, "ffn_norm", layer);
  y = tn_block_gated_ffn(build, y, build->hyper->ffn, layer);
  return tn_add(build->graph, x, tn_block_norm(build, y, "post_ffw_norm", layer));
}

tn_ref tn_build_embedding(tn_build *build) {
  const tn_hyper *h = build->hyper;
  return tn_embed(build->graph, tn_build_matrix(build, h->vocabulary, h->width, "token_embd.weight"), TN_EMBED_TOKEN,
                  h->embedding_scale);
}

/* The head's matrix; a copy that a tied model's file has all the same is known and unused. */
static tn_ref head_matrix(tn_build *build) {
  const tn_hyper *h = build->hyper;
  bool has_own = tn_build_has(build, "output.weight");
  if (h->tied == 0 || (h->tied < 0 && has_own)) return tn_build_matrix(build, h->vocabulary, h->width, "output.weight");
  if (has_own) tn_build_matrix(build, h->vocabulary, h->width, "output.weight");
  return tn_build_matrix(build, h->vocabulary, h->width, "token_embd.weight");
}

void tn_build_head(tn_build *build, tn_ref x) {
  const tn_hyper *h = build->hyper;
  tn_graph *graph = build->graph;
  tn_graph_end_layers(graph, "head");
  tn_ref bias = TN_NO_VALUE;
  if (h->norm_kind == TN_NORM_LAYER) bias = tn_build_vector(build, h->width, "output_norm.bias");
  x = tn_norm(graph, x, tn_build_vector(build, h->width, "output_norm.weight"), bias, h->norm_kind, 0, h->norm_epsilon);
  tn_ref logits = tn_linear(graph, tn_select_rows(graph, x), head_matrix(build), TN_NO_VALUE);
  if (h->logits_scale != 1.0f) logits = tn_scale(graph, logits, h->logits_scale);
  if (h->logits_softcap > 0) logits = tn_softcap(graph, logits, h->logits_softcap);
  tn_graph_set_logits(graph, logits);
}

tn_ref tn_build_layers(tn_build *build, tn_ref x, tn_ref (*block)(tn_build *build, tn_ref x, uint32_t layer)) {
  const tn_hyper *h = build->hyper;
  build->rope = tn_rope_build(build, &h->rope, "rope.frequencies", "rope_freqs.weight");
  build->rope_sliding = tn_rope_build(build, &h->rope_sliding, "rope.frequencies_sliding", NULL);
  for (uint32_t layer = 0; layer < h->layers; layer++) {
    tn_graph_begin_layer(build->graph, layer);
    x = block(build, x, layer);
  }
  return x;
}

void tn_build_decoder(tn_build *build, tn_ref x, tn_ref (*block)(tn_build *build, tn_ref x, uint32_t layer)) {
  tn_build_head(build, tn_build_layers(build, x, block));
}
