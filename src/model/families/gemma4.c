/* gemma4: Gemma 4 in its three forms. gemma3 with plain norm weights, a weightless norm of v, scores not scaled, and
 * heads of other sizes on full layers, whose positions turn a part of the head and whose values may be the keys. Beside
 * that, each where the file has it: an input of its own for every layer (per-layer embeddings), last layers that use
 * the keys and values of earlier ones, experts beside the feed-forward block, and a factor on every layer's output. */
#include <math.h>
#include <stdio.h>
#include "model/build.h"
#include "model/experts.h"
#include "model/layer_input.h"

typedef struct head_hyper {
  uint32_t dim, kv_heads;
} head_hyper;

typedef struct gemma4_hyper {
  head_hyper full, sliding;
  bool values_are_keys;             /* on full layers (a folder says so, GGUF leaves the tensor out) */
  uint32_t ffn[TN_MAX_LAYERS];      /* width of the feed-forward block */
  uint32_t kv_layer[TN_MAX_LAYERS]; /* whose keys and values a layer uses */
  uint32_t layer_input;             /* width of the per-layer embeddings; 0: none */
} gemma4_hyper;

/* The full layers' heads in config.json: by keys of their own, or as what layer after layer has instead of the usual.
 */
static void read_full_heads(tn_hyper_reader *reader, const tn_hyper *hyper, gemma4_hyper *own) {
  const tn_config *config = &reader->file->config;
  if (!tn_config_has(config, "per_layer_config") && !tn_config_has_object(config, "per_layer_config")) {
    own->full.dim = tn_hyper_u32_or(reader, NULL, "global_head_dim", 512);
    uint32_t kv_heads = tn_hyper_u32_or(reader, NULL, "num_global_key_value_heads", hyper->kv_heads);
    own->full.kv_heads = own->values_are_keys ? kv_heads : hyper->kv_heads;
    return;
  }
  own->full = own->sliding;
  for (uint32_t i = 0, full = 0; i < hyper->layers && reader->status == TN_OK; i++) {
    /* layer 5 may be called "05" */
    char by[40], key[64];
    snprintf(by, sizeof by, "per_layer_config.%u", i);
    if (!tn_config_has_object(config, by)) snprintf(by, sizeof by, "per_layer_config.%02u", i);
    snprintf(key, sizeof key, "%s.head_dim", by);
    head_hyper heads = {tn_hyper_u32_or(reader, NULL, key, hyper->key_dim), 0};
    snprintf(key, sizeof key, "%s.num_key_value_heads", by);
    heads.kv_heads = tn_hyper_u32_or(reader, NULL, key, hyper->kv_heads);
    head_hyper *same = hyper->kinds[i] == TN_LAYER_FULL ? &own->full : &own->sliding;
    if (hyper->kinds[i] == TN_LAYER_FULL && !full++) own->full = heads;
    tn_hyper_demand(reader, heads.dim == same->dim && heads.kv_heads == same->kv_heads, NULL, by, heads.dim,
                    "the same heads in all layers of a kind");
  }
}

/* Both kinds of heads. GGUF has the full ones' sizes under the usual keys, config.json the sliding ones'. */
static void read_heads(tn_hyper_reader *reader, tn_hyper *hyper, gemma4_hyper *own) {
  if (tn_hyper_is_folder(reader)) {
    own->values_are_keys = tn_hyper_bool_or(reader, NULL, "attention_k_eq_v", false);
    own->sliding = (head_hyper){hyper->key_dim, hyper->kv_heads};
    read_full_heads(reader, hyper, own);
  } else {
    double kv_heads[TN_MAX_LAYERS];
    uint32_t count = tn_hyper_list(reader, "attention.head_count_kv", NULL, kv_heads, TN_MAX_LAYERS);
    own->full = own->sliding = (head_hyper){hyper->key_dim, hyper->kv_heads};
    own->sliding.dim = tn_hyper_u32_or(reader, "attention.key_length_swa", NULL, hyper->key_dim);
    tn_hyper_ignore(reader, "attention.value_length_swa", NULL);
    tn_hyper_demand(reader, count <= 1 || count == hyper->layers, "attention.head_count_kv", NULL, count,
                    "one for each layer");
    for (uint32_t i = 0; i < count && count > 1 && reader->status == TN_OK; i++)
      (hyper->kinds[i] == TN_LAYER_FULL ? &own->full : &own->sliding)->kv_heads = (uint32_t)kv_heads[i];
  }
  const head_hyper *heads[] = {&own->full, &own->sliding};
  for (int i = 0; i < 2; i++) {
    tn_hyper_demand(reader, heads[i]->kv_heads && hyper->heads % heads[i]->kv_heads == 0, "attention.head_count_kv",
                    "num_key_value_heads", heads[i]->kv_heads, "a divisor of the heads");
    tn_hyper_demand(reader, heads[i]->dim >= 2 && heads[i]->dim <= 1024, "attention.key_length_swa", "global_head_dim",
                    heads[i]->dim, "2 .. 1024");
  }
}

static void read_positions(tn_hyper_reader *reader, tn_hyper *hyper, const gemma4_hyper *own) {
  tn_hyper_demand_rope(reader);
  hyper->key_dim = own->sliding.dim;
  if (tn_hyper_is_folder(reader)) tn_hyper_read_rope(reader, hyper, "sliding_attention", &hyper->rope_sliding);
  hyper->key_dim = own->full.dim;
  tn_hyper_read_rope(reader, hyper, "full_attention", &hyper->rope);
  if (tn_hyper_is_folder(reader)) return;
  hyper->rope_sliding = hyper->rope;
  hyper->rope_sliding.theta = tn_hyper_f32_or(reader, "rope.freq_base_swa", NULL, 10000);
  hyper->rope_sliding.rotary = hyper->rope_sliding.span =
      tn_hyper_u32_or(reader, "rope.dimension_count_swa", NULL, own->sliding.dim);
  tn_hyper_demand(reader, hyper->rope_sliding.rotary <= own->sliding.dim && hyper->rope_sliding.rotary % 2 == 0,
                  "rope.dimension_count_swa", NULL, hyper->rope_sliding.rotary, "an even width up to the head's size");
}

/* Widths of the layers, and whose keys and values each uses: the last layers of each kind share. */
static void read_layers(tn_hyper_reader *reader, const tn_hyper *hyper, gemma4_hyper *own) {
  double widths[TN_MAX_LAYERS];
  uint32_t shared = tn_hyper_read_shared_kv(reader, hyper, own->kv_layer);
  bool doubled = tn_hyper_bool_or(reader, NULL, "use_double_wide_mlp", false);
  uint32_t count = tn_hyper_list(reader, "feed_forward_length", NULL, widths, TN_MAX_LAYERS);
  tn_hyper_demand(reader, count <= 1 || count == hyper->layers, "feed_forward_length", NULL, count,
                  "one for each layer");
  if (reader->status != TN_OK) return;
  for (uint32_t i = 0; i < hyper->layers; i++)
    own->ffn[i] = count > 1 ? (uint32_t)widths[i] : hyper->ffn * (doubled && i >= hyper->layers - shared ? 2 : 1);
}

/* What GGUF calls the heads and widths, which config.json has under other names. */
static void tell_layers(tn_hyper_reader *reader, const tn_hyper *hyper, const gemma4_hyper *own) {
  double kv_heads[TN_MAX_LAYERS], widths[TN_MAX_LAYERS];
  for (uint32_t i = 0; i < hyper->layers; i++) {
    kv_heads[i] = (hyper->kinds[i] == TN_LAYER_FULL ? &own->full : &own->sliding)->kv_heads;
    widths[i] = own->ffn[i];
  }
  tn_hyper_tell_list(reader, "attention.head_count_kv", TN_NOTE_WHOLE, kv_heads, hyper->layers);
  tn_hyper_tell_list(reader, "feed_forward_length", TN_NOTE_WHOLE, widths, hyper->layers);
  tn_hyper_tell(reader, "attention.key_length", TN_NOTE_WHOLE, own->full.dim);
  tn_hyper_tell(reader, "attention.value_length", TN_NOTE_WHOLE, own->full.dim);
  tn_hyper_tell(reader, "attention.key_length_swa", TN_NOTE_WHOLE, own->sliding.dim);
  tn_hyper_tell(reader, "attention.value_length_swa", TN_NOTE_WHOLE, own->sliding.dim);
  tn_hyper_tell(reader, "rope.dimension_count_swa", TN_NOTE_WHOLE, hyper->rope_sliding.rotary);
}

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->varied = true;
  hyper->activation = TN_ACTIVATION_GELU_TANH;
  tn_hyper_read_common(reader, hyper);
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 512);
  tn_hyper_read_kinds(reader, hyper, "attention.sliding_window_pattern", TN_LAYER_SLIDING, 6);
  gemma4_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (reader->status != TN_OK) return;
  if (tn_hyper_is_folder(reader)) hyper->kinds[hyper->layers - 1] = TN_LAYER_FULL; /* whatever is listed */
  hyper->own = own;
  read_heads(reader, hyper, own);
  read_positions(reader, hyper, own);
  read_layers(reader, hyper, own);
  tell_layers(reader, hyper, own);
  own->layer_input = tn_hyper_u32_or(reader, "embedding_length_per_layer_input", "hidden_size_per_layer_input", 0);
  hyper->attention_scale = 1;
  hyper->embedding_scale = sqrtf((float)hyper->width);
  hyper->logits_softcap = tn_hyper_f32_or(reader, "final_logit_softcapping", "final_logit_softcapping", 0);
  tn_hyper_read_experts(reader, hyper);
  hyper->experts.normalise = true;
  if (tn_hyper_is_folder(reader) && !tn_hyper_bool_or(reader, NULL, "enable_moe_block", false))
    hyper->experts.count = 0;
  tn_text both_ways = tn_hyper_text_or(reader, NULL, "use_bidirectional_attention", "vision");
  tn_hyper_demand(reader, tn_text_is(both_ways, "vision"), NULL, "use_bidirectional_attention", 1, "null or vision");
}

static tn_ref attention_part(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  const gemma4_hyper *own = h->own;
  bool is_full = h->kinds[layer] == TN_LAYER_FULL;
  const head_hyper *heads = is_full ? &own->full : &own->sliding;
  tn_attention_block a = tn_block_attention_of(build, layer);
  a.key_dim = a.value_dim = heads->dim;
  a.kv_heads = heads->kv_heads;
  tn_ref q = tn_block_linear(build, x, a.heads * a.key_dim, "attn_q", layer);
  q = tn_block_head_norm(build, q, a.key_dim, "attn_q_norm", layer);
  tn_ref y;
  if (own->kv_layer[layer] == layer) {
    bool has_values = tn_container_is_folder(build->file) ? !(own->values_are_keys && is_full)
                                                          : tn_build_has(build, "blk.%u.attn_v.weight", layer);
    tn_ref k = tn_block_linear(build, x, a.kv_heads * a.key_dim, "attn_k", layer);
    tn_ref v = has_values ? tn_block_linear(build, x, a.kv_heads * a.value_dim, "attn_v", layer) : k;
    k = tn_block_head_norm(build, k, a.key_dim, "attn_k_norm", layer);
    y = tn_block_attend(build, layer, q, k, tn_block_plain_norm(build, v, a.value_dim), &a);
  } else {
    y = tn_block_attend_shared(build, own->kv_layer[layer], q, &a);
  }
  return tn_block_linear(build, y, h->width, "attn_output", layer);
}

/* Experts, beside the feed-forward block and each with norms of its own. They are chosen by what comes before the
 * norms.
 */
static tn_ref expert_part(tn_build *build, tn_ref x, tn_ref dense, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  tn_expert_block experts = tn_block_experts_of(build, layer);
  experts.expert_scale = tn_build_vector(build, h->experts.count, "blk.%u.ffn_down_exps.scale", layer);
  tn_ref r = tn_block_plain_norm(build, x, 0);
  r = tn_mul(build->graph, r, tn_build_vector(build, h->width, "blk.%u.ffn_gate_inp.scale", layer));
  r = tn_scale(build->graph, r, 1 / sqrtf((float)h->width));
  tn_ref scores = tn_block_linear(build, r, h->experts.count, "ffn_gate_inp", layer);
  tn_ref y = tn_block_norm(build, x, "pre_ffw_norm_2", layer);
  y = tn_block_experts(build, y, scores, &experts, TN_NO_VALUE);
  return tn_add(build->graph, tn_block_norm(build, dense, "post_ffw_norm_1", layer),
                tn_block_norm(build, y, "post_ffw_norm_2", layer));
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const gemma4_hyper *own = build->hyper->own;
  tn_graph *graph = build->graph;
  tn_ref y = attention_part(build, tn_block_norm(build, x, "attn_norm", layer), layer);
  x = tn_add(graph, x, tn_block_norm(build, y, "post_attention_norm", layer));
  y = tn_block_gated_ffn(build, tn_block_norm(build, x, "ffn_norm", layer), own->ffn[layer], layer);
  if (build->hyper->experts.count) y = expert_part(build, x, y, layer);
  x = tn_add(graph, x, tn_block_norm(build, y, "post_ffw_norm", layer));
  if (own->layer_input) x = tn_add(graph, x, tn_block_layer_input(build, x, own->layer_input, layer));
  return tn_mul(graph, x, tn_build_vector(build, 1, "blk.%u.layer_output_scale.weight", layer));
}

static void build_graph(tn_build *build) {
  const gemma4_hyper *own = build->hyper->own;
  tn_ref x = tn_build_embedding(build);
  if (own->layer_input) build->shared = tn_build_layer_inputs(build, x, own->layer_input);
  tn_build_decoder(build, x, block);
}

static const char *const architectures[] = {"gemma4", NULL};
static const char *const model_types[] = {"gemma4_text", "gemma4", NULL};
static const tn_tensor_name names[] = {{"per_layer_token_embd", "embed_tokens_per_layer", 0},
                                       {"per_layer_model_proj", "per_layer_model_projection", 0},
                                       {"per_layer_proj_norm", "per_layer_projection_norm", 0},
                                       {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", 0},
                                       {"blk.#.ffn_norm", "layers.#.pre_feedforward_layernorm", 0},
                                       {"blk.#.post_ffw_norm", "layers.#.post_feedforward_layernorm", 0},
                                       {"blk.#.pre_ffw_norm_2", "layers.#.pre_feedforward_layernorm_2", 0},
                                       {"blk.#.post_ffw_norm_1", "layers.#.post_feedforward_layernorm_1", 0},
                                       {"blk.#.post_ffw_norm_2", "layers.#.post_feedforward_layernorm_2", 0},
                                       {"blk.#.ffn_gate_inp.scale", "layers.#.router.scale", 0},
                                       {"blk.#.ffn_gate_inp", "layers.#.router.proj", 0},
                                       {"blk.#.ffn_gate_up_exps.weight", "layers.#.experts.gate_up_proj", 0},
                                       {"blk.#.ffn_down_exps.weight", "layers.#.experts.down_proj", 0},
                                       {"blk.#.ffn_down_exps.scale", "layers.#.router.per_expert_scale", 0},
                                       {"blk.#.inp_gate", "layers.#.per_layer_input_gate", 0},
                                       {"blk.#.proj", "layers.#.per_layer_projection", 0},
                                       {"blk.#.post_norm", "layers.#.post_per_layer_input_norm", 0},
                                       {"blk.#.layer_output_scale.weight", "layers.#.layer_scalar", 0},
                                       {0}};
static const char *const aliases[][2] = {{"num_experts_per_tok", "top_k_experts"}, {0}};
/* Layers that share keys and values may have their own all the same. */
static const char *const unused[] = {"layers.#.self_attn.k_proj.weight",
                                     "layers.#.self_attn.v_proj.weight",
                                     "layers.#.self_attn.k_norm.weight",
                                     "blk.#.attn_k.weight",
                                     "blk.#.attn_v.weight",
                                     "blk.#.attn_k_norm.weight",
                                     NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {
    {"tie_word_embeddings", 1, NULL}, {"num_key_value_heads", 4, NULL}, {"head_dim", 256, NULL}, {0}};
const tn_family tn_family_gemma4 = {.name = "gemma4",
                                    .architectures = architectures,
                                    .model_types = model_types,
                                    .names = names,
                                    .aliases = aliases,
                                    .unused = unused,
                                    .defaults = defaults,
                                    .configure = configure,
                                    .build = build_graph,
                                    .turns_part = true};
