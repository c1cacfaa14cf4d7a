/* qwen3moe: qwen3 with experts in its layers, weighted by a softmax over all of them; but for the layers that
 * mlp_only_layers and decoder_sparse_step leave dense. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  tn_hyper_read_upper_window(reader, hyper);
  if (hyper->window) memset(hyper->kinds, TN_LAYER_SLIDING, hyper->layers); /* max_window_layers doesn't count here */
  hyper->qk_norm = TN_QK_NORM_HEAD;
  tn_hyper_read_experts(reader, hyper);
  hyper->experts.scoring = TN_MOE_SOFTMAX;
  hyper->experts.normalise = tn_hyper_bool_or(reader, "expert_weights_norm", "norm_topk_prob",
                                              !tn_hyper_is_folder(reader)); /* GGUF: the published models have it */
  tn_hyper_ignore(reader, NULL, "mlp_only_layers");                         /* their layers have no router */
  tn_hyper_ignore(reader, NULL, "decoder_sparse_step");
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_norm);
}

static const char *const architectures[] = {"qwen3moe", NULL};
static const char *const model_types[] = {"qwen3_moe", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"num_key_value_heads", 4, NULL}, {0}};
const tn_family tn_family_qwen3moe = {.name = "qwen3moe",
                                      .architectures = architectures,
                                      .model_types = model_types,
                                      .defaults = defaults,
                                      .configure = configure,
                                      .build = build_graph};
