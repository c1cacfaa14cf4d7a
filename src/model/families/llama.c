/* llama: Llama 2, 3, 3.x, SmolLM2, Mistral, Mixtral and all that call themselves so. Pre-norm blocks of grouped-query
 * attention with rotary positions and a SiLU-gated feed-forward, in Mixtral by experts. GGUF holds q and k with rows
 * permuted for adjacent pairs. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  hyper->rope.pairing = tn_hyper_permuted_pairing(reader);
  bool is_plain =
      tn_hyper_is_folder(reader) && !strcmp(reader->architecture, "llama"); /* the others may have a window */
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", is_plain ? NULL : "sliding_window", 0);
  for (uint32_t i = 0; i < hyper->layers && hyper->window; i++) hyper->kinds[i] = TN_LAYER_SLIDING;
  tn_hyper_read_experts(reader, hyper);
  hyper->experts.scoring = TN_MOE_SOFTMAX_OF_CHOSEN;
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_norm);
}

static const char *const architectures[] = {"llama", NULL};
static const char *const model_types[] = {"llama", "mistral", "mixtral", NULL};
static const tn_tensor_name names[] = {{"blk.#.ffn_gate_inp", "layers.#.block_sparse_moe.gate", 0},
                                       {"blk.#.ffn_gate_exps", "layers.#.block_sparse_moe.experts.%.w1", 0},
                                       {"blk.#.ffn_up_exps", "layers.#.block_sparse_moe.experts.%.w3", 0},
                                       {"blk.#.ffn_down_exps", "layers.#.block_sparse_moe.experts.%.w2", 0},
                                       {0}};
static const char *const unused[] = {"layers.#.self_attn.rotary_emb.inv_freq", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"rms_norm_eps", 1e-5, "mixtral"},     {"rope_theta", 1e6, "mixtral"},
                                      {"num_key_value_heads", 8, "mixtral"}, {"num_key_value_heads", 8, "mistral"},
                                      {"sliding_window", 4096, "mistral"},   {0}};
const tn_family tn_family_llama = {.name = "llama",
                                   .architectures = architectures,
                                   .model_types = model_types,
                                   .names = names,
                                   .unused = unused,
                                   .defaults = defaults,
                                   .configure = configure,
                                   .build = build_graph};
