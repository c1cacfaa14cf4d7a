/* gemma2: embedding times sqrt(width), a norm before and behind every sublayer, sliding and full layers in turn, soft
 * caps on scores and logits, GELU. A folder's norm weights are used as 1 + w. Gemma team, Gemma 2, 2024. */
#include <math.h>
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->activation = TN_ACTIVATION_GELU_TANH;
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 4096);
  tn_hyper_read_kinds(reader, hyper, "attention.sliding_window_pattern", TN_LAYER_SLIDING, 2);
  hyper->attention_softcap = tn_hyper_f32_or(reader, "attn_logit_softcapping", "attn_logit_softcapping", 0);
  hyper->logits_softcap = tn_hyper_f32_or(reader, "final_logit_softcapping", "final_logit_softcapping", 0);
  tn_hyper_ignore(reader, NULL, "cache_implementation");
  if (reader->status != TN_OK) return;
  hyper->embedding_scale = sqrtf((float)hyper->width);
  /* The scores' scale is no usual key of GGUF: 1 / sqrt of the head's size, but for the 27B model (46 layers). */
  uint32_t by = hyper->layers == 46 ? hyper->width / hyper->heads : hyper->key_dim;
  tn_hyper_read_query_scale(reader, hyper, by);
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_post_norm);
}

static const char *const architectures[] = {"gemma2", NULL};
static const char *const model_types[] = {"gemma2", NULL};
static const tn_tensor_name names[] = {
    {"output_norm", "norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_norm", "layers.#.input_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.ffn_norm", "layers.#.pre_feedforward_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.post_ffw_norm", "layers.#.post_feedforward_layernorm", TN_FORM_ADD_ONE},
    {0}};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"num_attention_heads", 8, NULL},
                                      {"num_key_value_heads", 4, NULL},
                                      {"head_dim", 256, NULL},
                                      {"query_pre_attn_scalar", 256, NULL},
                                      {"attn_logit_softcapping", 50, NULL},
                                      {"final_logit_softcapping", 30, NULL},
                                      {"tie_word_embeddings", 1, NULL},
                                      {0}};
const tn_family tn_family_gemma2 = {.name = "gemma2",
                                    .architectures = architectures,
                                    .model_types = model_types,
                                    .names = names,
                                    .defaults = defaults,
                                    .configure = configure,
                                    .build = build_graph};
