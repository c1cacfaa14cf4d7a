/* olmo2: OLMo 2 and 3. A norm behind every sublayer and none before; RMS norm of q and k over the whole projection.
 * OLMo 3 adds three sliding layers for a full one; only the full ones have their positions scaled. Team OLMo, 2 OLMo 2
 * furious, 2024. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, "full_attention", &hyper->rope);
  hyper->qk_norm = TN_QK_NORM_ROW;
  bool may_slide = !tn_hyper_is_folder(reader) || strcmp(reader->architecture, "olmo2") != 0;
  if (may_slide) {
    hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 0);
    tn_hyper_read_kinds(reader, hyper, "attention.sliding_window_pattern", TN_LAYER_SLIDING, hyper->window ? 4 : 0);
  }
  tn_hyper_read_sliding_rope(reader, hyper, 0);
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  tn_attention_block attention = tn_block_attention_of(build, layer);
  tn_ref y = tn_block_attention(build, x, layer, &attention);
  x = tn_add(build->graph, x, tn_block_norm(build, y, "post_attention_norm", layer));
  y = tn_block_gated_ffn(build, x, build->hyper->ffn, layer);
  return tn_add(build->graph, x, tn_block_norm(build, y, "post_ffw_norm", layer));
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), block);
}

static const char *const architectures[] = {"olmo2", NULL};
static const char *const model_types[] = {"olmo2", "olmo3", NULL};
static const tn_tensor_name names[] = {{"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", 0},
                                       {"blk.#.post_ffw_norm", "layers.#.post_feedforward_layernorm", 0},
                                       {0}};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {
    {"rms_norm_eps", 1e-5, NULL}, {"rope_theta", 5e5, "olmo3"}, {"sliding_window", 4096, "olmo3"}, {0}};
const tn_family tn_family_olmo2 = {.name = "olmo2",
                                   .architectures = architectures,
                                   .model_types = model_types,
                                   .names = names,
                                   .defaults = defaults,
                                   .configure = configure,
                                   .build = build_graph};
