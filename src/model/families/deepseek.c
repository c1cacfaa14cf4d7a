/* deepseek: DeepSeek V3 (GGUF: deepseek2). Multi-head latent attention in its absorbed form: keys and values of a token
 * are one vector c of `rank` numbers, and a part with positions that all heads share. A head's query goes through the
 * head's key matrix once, scores are taken on c, and what they weigh is c too, which the head's value matrix then
 * opens. Experts by sigmoid scores, chosen with a bias inside the best groups, beside shared ones; the first layers are
 * dense. DeepSeek-AI, DeepSeek-V3 technical report, 2024. */
#include <math.h>
#include <stdio.h>
#include "model/build.h"
#include "model/experts.h"

typedef struct deepseek_hyper {
  uint32_t q_rank;               /* 0: queries come straight from x */
  uint32_t rank;                 /* of c */
  uint32_t plain, turned, value; /* of a head: key part without and with positions, value */
  uint32_t dense_layers;
} deepseek_hyper;

/* The norms inside attention have this epsilon, whatever the model's is. */
#define INNER_EPSILON 1e-6f

static void read_heads(tn_hyper_reader *reader, tn_hyper *hyper, deepseek_hyper *own) {
  own->q_rank = tn_hyper_u32_or(reader, "attention.q_lora_rank", "q_lora_rank", 0);
  own->rank = tn_hyper_u32(reader, "attention.kv_lora_rank", "kv_lora_rank");
  own->turned = tn_hyper_u32(reader, "rope.dimension_count", "qk_rope_head_dim");
  if (tn_hyper_is_folder(reader)) {
    own->plain = tn_hyper_u32(reader, NULL, "qk_nope_head_dim");
    own->value = tn_hyper_u32(reader, NULL, "v_head_dim");
  } else {
    uint32_t key = tn_hyper_u32_or(reader, "attention.key_length_mla", NULL, hyper->key_dim);
    own->plain = key > own->turned ? key - own->turned : 0;
    own->value = tn_hyper_u32_or(reader, "attention.value_length_mla", NULL, hyper->value_dim);
  }
  tn_hyper_ignore(reader, NULL, "qk_head_dim");
  tn_hyper_tell(reader, "attention.head_count_kv", TN_NOTE_WHOLE, 1); /* of the absorbed form: c */
  tn_hyper_tell(reader, "attention.key_length", TN_NOTE_WHOLE, own->rank + own->turned);
  tn_hyper_tell(reader, "attention.value_length", TN_NOTE_WHOLE, own->rank);
  tn_hyper_tell(reader, "attention.key_length_mla", TN_NOTE_WHOLE, own->plain + own->turned);
  tn_hyper_tell(reader, "attention.value_length_mla", TN_NOTE_WHOLE, own->value);
  tn_hyper_demand(reader, own->rank >= 1 && own->rank <= 4096, "attention.kv_lora_rank", "kv_lora_rank", own->rank,
                  "1 .. 4096");
  tn_hyper_demand(reader, own->plain >= 1 && own->plain <= 1024, "attention.key_length_mla", "qk_nope_head_dim",
                  own->plain, "1 .. 1024");
  tn_hyper_demand(reader, own->value >= 1 && own->value <= 1024, "attention.value_length_mla", "v_head_dim", own->value,
                  "1 .. 1024");
  tn_hyper_demand(reader, own->turned >= 2 && own->turned <= 1024, "rope.dimension_count", "qk_rope_head_dim",
                  own->turned, "2 .. 1024");
  tn_hyper_demand(reader, own->q_rank <= (1u << 16), "attention.q_lora_rank", "q_lora_rank", own->q_rank,
                  "at most 2^16");
}

static void read_positions(tn_hyper_reader *reader, tn_hyper *hyper, const deepseek_hyper *own) {
  hyper->key_dim = own->turned;
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  bool adjacent = tn_hyper_rare_bool(reader, "rope.interleave", "rope_interleave", true);
  hyper->rope.pairing = adjacent ? TN_ROPE_ADJACENT : TN_ROPE_HALF;
  float multiplier = tn_hyper_f32_or(reader, "rope.scaling.yarn_log_multiplier", NULL, 0);
  if (multiplier > 0) hyper->rope.mscale = hyper->rope.mscale_all = 10 * multiplier;
  double scale = 1 / sqrt(own->plain + own->turned);
  if (hyper->rope.scaling == TN_ROPE_YARN && hyper->rope.mscale_all > 0) {
    double m = 0.1 * (double)hyper->rope.mscale_all * log((double)hyper->rope.factor) + 1;
    scale *= m * m;
  }
  hyper->attention_scale = (float)scale;
}

static void read_routing(tn_hyper_reader *reader, tn_hyper *hyper, deepseek_hyper *own) {
  tn_expert_hyper *e = &hyper->experts;
  bool is_folder = tn_hyper_is_folder(reader);
  tn_hyper_read_experts(reader, hyper);
  /* GGUF may leave the scoring out; a bias for the choice goes with sigmoids */
  char bias[40];
  snprintf(bias, sizeof bias, "blk.%u.exp_probs_b.bias", hyper->layers - 1);
  bool has_bias = tn_container_find_tensor(reader->file, bias) != NULL;
  uint32_t scoring = tn_hyper_u32_or(reader, "expert_gating_func", NULL, is_folder || has_bias ? 2 : 1);
  tn_text named = tn_hyper_text_or(reader, NULL, "scoring_func", "sigmoid");
  tn_hyper_demand(reader, scoring == 1 || scoring == 2, "expert_gating_func", NULL, scoring, "1 or 2");
  tn_hyper_demand(reader, tn_text_is(named, "sigmoid"), NULL, "scoring_func", 0, "sigmoid");
  tn_text method = tn_hyper_text_or(reader, NULL, "topk_method", "noaux_tc");
  tn_hyper_demand(reader, tn_text_is(method, "noaux_tc"), NULL, "topk_method", 0, "noaux_tc");
  uint32_t step = tn_hyper_u32_or(reader, NULL, "moe_layer_freq", 1);
  tn_hyper_demand(reader, step == 1, NULL, "moe_layer_freq", step, "1");
  tn_hyper_ignore(reader, NULL, "ep_size");
  e->scoring = scoring == 2 ? TN_MOE_SIGMOID : TN_MOE_SOFTMAX;
  e->normalise = tn_hyper_bool_or(reader, "expert_weights_norm", "norm_topk_prob", is_folder);
  e->scale = tn_hyper_f32_or(reader, "expert_weights_scale", "routed_scaling_factor", is_folder ? 2.5f : 1);
  e->groups = tn_hyper_u32_or(reader, "expert_group_count", "n_group", 1);
  e->groups_used = tn_hyper_u32_or(reader, "expert_group_used_count", "topk_group", 1);
  e->shared_ffn = e->ffn * tn_hyper_u32_or(reader, "expert_shared_count", "n_shared_experts", 0);
  own->dense_layers = tn_hyper_u32_or(reader, "leading_dense_block_count", "first_k_dense_replace", 0);
}

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  deepseek_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (reader->status != TN_OK) return;
  read_heads(reader, hyper, own);
  read_positions(reader, hyper, own);
  read_routing(reader, hyper, own);
  bool is_folder = tn_hyper_is_folder(reader); /* whose draft layers aren't among the layers, and aren't exported */
  hyper->draft_layers =
      tn_hyper_u32_or(reader, is_folder ? NULL : "nextn_predict_layers", "num_nextn_predict_layers", 0);
  tn_hyper_demand(reader, hyper->draft_layers < hyper->layers, "nextn_predict_layers", NULL, hyper->draft_layers,
                  "fewer than the layers");
  if (!is_folder && reader->status == TN_OK) hyper->layers -= hyper->draft_layers;
  hyper->own = own;
}

static tn_ref inner_norm(tn_build *build, tn_ref x, uint32_t cols, const char *name, uint32_t layer) {
  tn_ref weight = tn_build_vector(build, cols, "blk.%u.%s.weight", layer, name);
  return tn_norm(build->graph, x, weight, TN_NO_VALUE, TN_NORM_RMS, 0, INNER_EPSILON);
}

/* Queries [T, heads * (plain + turned)]. */
static tn_ref queries(tn_build *build, tn_ref x, uint32_t layer) {
  const deepseek_hyper *own = build->hyper->own;
  uint32_t rows = build->hyper->heads * (own->plain + own->turned);
  if (!own->q_rank) return tn_block_linear(build, x, rows, "attn_q", layer);
  tn_ref q = tn_block_linear(build, x, own->q_rank, "attn_q_a", layer);
  return tn_block_linear(build, inner_norm(build, q, own->q_rank, "attn_q_a_norm", layer), rows, "attn_q_b", layer);
}

/* The heads' key matrices, [heads, rank, plain] (a query turns into what is compared with c), and their value matrices
 * [heads, value, rank]. GGUF has them apart, a folder in one matrix: of each head the rows of the key, then the
 * value's. */
static tn_ref head_matrices(tn_build *build, bool is_key, uint32_t layer) {
  const deepseek_hyper *own = build->hyper->own;
  uint32_t heads = build->hyper->heads, rows = is_key ? own->rank : own->value, cols = is_key ? own->plain : own->rank;
  const char *name = is_key ? "attn_k_b" : "attn_v_b";
  if (tn_build_has(build, "blk.%u.%s.weight", layer, name))
    return tn_build_cube(build, heads, rows, cols, "blk.%u.%s.weight", layer, name);
  char made[40], fused[40];
  snprintf(made, sizeof made, "blk.%u.%s.weight", layer, name);
  snprintf(fused, sizeof fused, "blk.%u.attn_kv_b.weight", layer);
  tn_head_rows part = {.total = own->plain + own->value,
                       .begin = is_key ? 0 : own->plain,
                       .count = is_key ? own->plain : own->value,
                       .transposed = is_key};
  return tn_build_head_rows(build, heads, own->rank, &part, made, fused);
}

static tn_ref attention_part(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  const deepseek_hyper *own = h->own;
  tn_graph *graph = build->graph;
  tn_attention_block a = tn_block_attention_of(build, layer);
  a.kv_heads = 1;
  a.key_dim = own->turned + own->rank;
  a.value_dim = own->rank;
  a.low_rank = true;
  tn_ref q = tn_head_linear(graph, queries(build, x, layer), head_matrices(build, true, layer), own->turned);
  tn_ref kv = tn_block_linear(build, x, own->rank + own->turned, "attn_kv_a_mqa", layer);
  tn_ref c = inner_norm(build, tn_slice(graph, kv, 0, own->rank), own->rank, "attn_kv_a_norm", layer);
  const tn_ref key[] = {tn_slice(graph, kv, own->rank, own->turned), c};
  tn_ref y = tn_block_attend(build, layer, q, tn_concat(graph, key, 2), c, &a);
  y = tn_head_linear(graph, y, head_matrices(build, false, layer), 0);
  return tn_block_linear(build, y, h->width, "attn_output", layer);
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const deepseek_hyper *own = build->hyper->own;
  x = tn_add(build->graph, x, attention_part(build, tn_block_norm(build, x, "attn_norm", layer), layer));
  tn_ref y = tn_block_norm(build, x, "ffn_norm", layer);
  y = layer < own->dense_layers ? tn_block_gated_ffn(build, y, build->hyper->ffn, layer)
                                : tn_block_ffn(build, y, layer);
  return tn_add(build->graph, x, y);
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), block);
}

static const char *const architectures[] = {"deepseek2", NULL};
static const char *const model_types[] = {"deepseek_v3", NULL};
static const tn_tensor_name names[] = {{"blk.#.attn_q_a", "layers.#.self_attn.q_a_proj", 0},
                                       {"blk.#.attn_q_a_norm", "layers.#.self_attn.q_a_layernorm", 0},
                                       {"blk.#.attn_q_b", "layers.#.self_attn.q_b_proj", 0},
                                       {"blk.#.attn_kv_a_mqa", "layers.#.self_attn.kv_a_proj_with_mqa", 0},
                                       {"blk.#.attn_kv_a_norm", "layers.#.self_attn.kv_a_layernorm", 0},
                                       {"blk.#.attn_kv_b", "layers.#.self_attn.kv_b_proj", TN_FORM_MADE},
                                       {"blk.#.exp_probs_b.bias", "layers.#.mlp.gate.e_score_correction_bias", 0},
                                       {"blk.#.ffn_gate_shexp", "layers.#.mlp.shared_experts.gate_proj", 0},
                                       {"blk.#.ffn_up_shexp", "layers.#.mlp.shared_experts.up_proj", 0},
                                       {"blk.#.ffn_down_shexp", "layers.#.mlp.shared_experts.down_proj", 0},
                                       {0}};
static const char *const aliases[][2] = {{"num_experts", "n_routed_experts"}, {0}};
static const char *const unused[] = {"layers.#.self_attn.rotary_emb.inv_freq", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"q_lora_rank", 1536, NULL},
                                      {"n_group", 8, NULL},
                                      {"topk_group", 4, NULL},
                                      {"n_shared_experts", 1, NULL},
                                      {"first_k_dense_replace", 3, NULL},
                                      {0}};
const tn_family tn_family_deepseek = {.name = "deepseek",
                                      .architectures = architectures,
                                      .model_types = model_types,
                                      .names = names,
                                      .aliases = aliases,
                                      .unused = unused,
                                      .defaults = defaults,
                                      .configure = configure,
                                      .build = build_graph};
