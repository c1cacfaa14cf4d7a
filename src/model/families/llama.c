/* llama: Llama 2, 3, 3.x, SmolLM2, Mistral and all that call themselves so. Pre-norm blocks of grouped-query attention
 * with rotary positions and a SiLU-gated feed-forward. GGUF holds q and k with rows permuted for adjacent pairs. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  hyper->rope.pairing = tn_hyper_permuted_pairing(reader);
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 0); /* Mistral: all layers */
  for (uint32_t i = 0; i < hyper->layers && hyper->window; i++) hyper->kinds[i] = TN_LAYER_SLIDING;
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_norm);
}

static const char *const architectures[] = {"llama", NULL};
static const char *const model_types[] = {"llama", "mistral", NULL};
static const char *const unused[] = {"model.layers.#.self_attn.rotary_emb.inv_freq", NULL};
const tn_family tn_family_llama = {.name = "llama",
                                   .architectures = architectures,
                                   .model_types = model_types,
                                   .unused = unused,
                                   .configure = configure,
                                   .build = build_graph};
