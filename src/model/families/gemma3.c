/* gemma3: gemma2 with RMS norms of q and k instead of soft caps, five sliding layers for a full one, and a rotary base
 * of its own for the sliding ones, which are not scaled. Gemma team, Gemma 3, 2025. */
#include <math.h>
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->activation = TN_ACTIVATION_GELU_TANH;
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, "full_attention", &hyper->rope);
  tn_hyper_read_sliding_rope(reader, hyper, 10000);
  hyper->qk_norm = TN_QK_NORM_HEAD;
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 4096);
  uint32_t interval = tn_hyper_u32_or(reader, NULL, "sliding_window_pattern", 6);
  tn_hyper_read_kinds(reader, hyper, "attention.sliding_window_pattern", TN_LAYER_SLIDING, interval);
  tn_hyper_ignore(reader, "attn_logit_softcapping", "attn_logit_softcapping"); /* gemma2's; its scores have no cap */
  hyper->logits_softcap = tn_hyper_f32_or(reader, "final_logit_softcapping", "final_logit_softcapping", 0);
  bool both_ways = tn_hyper_bool_or(reader, NULL, "use_bidirectional_attention", false);
  tn_hyper_demand(reader, !both_ways, NULL, "use_bidirectional_attention", 1, "false");
  tn_hyper_ignore(reader, NULL, "cache_implementation");
  if (reader->status != TN_OK) return;
  hyper->embedding_scale = sqrtf((float)hyper->width);
  /* The scores' scale is no usual key of GGUF: 1 / sqrt of the head's size, but for the 27B model (62 layers). */
  uint32_t by = hyper->layers == 62 ? hyper->width / hyper->heads : hyper->key_dim;
  tn_hyper_read_query_scale(reader, hyper, by);
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_post_norm);
}

static const char *const architectures[] = {"gemma3", NULL};
static const char *const model_types[] = {"gemma3_text", "gemma3", NULL};
static const tn_tensor_name names[] = {
    {"output_norm", "norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_norm", "layers.#.input_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.attn_q_norm", "layers.#.self_attn.q_norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_k_norm", "layers.#.self_attn.k_norm", TN_FORM_ADD_ONE},
    {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.ffn_norm", "layers.#.pre_feedforward_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.post_ffw_norm", "layers.#.post_feedforward_layernorm", TN_FORM_ADD_ONE},
    {0}};
/* The published multimodal ones leave most of text_config out. */
static const tn_default defaults[] = {{"num_attention_heads", 8, NULL},
                                      {"num_key_value_heads", 4, NULL},
                                      {"head_dim", 256, NULL},
                                      {"max_position_embeddings", 131072, NULL},
                                      {"query_pre_attn_scalar", 256, NULL},
                                      {"rope_theta", 1e6, NULL},
                                      {"tie_word_embeddings", 1, NULL},
                                      {0}};
const tn_family tn_family_gemma3 = {.name = "gemma3",
                                    .architectures = architectures,
                                    .model_types = model_types,
                                    .names = names,
                                    .defaults = defaults,
                                    .configure = configure,
                                    .build = build_graph};
