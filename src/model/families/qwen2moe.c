/* qwen2moe: qwen2 with experts, whose weights stay as the softmax gives them, beside a shared one under a sigmoid gate.
 */
#include "model/build.h"

/* Where layer_types doesn't list them, every second of the lower layers slides, the first of them first. */
static void read_window(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_upper_window(reader, hyper);
  uint32_t most = tn_hyper_u32_or(reader, NULL, "max_window_layers", 28);
  if (!tn_hyper_is_folder(reader) || tn_hyper_has(reader, NULL, "layer_types") || !hyper->window) return;
  for (uint32_t i = 0; i < hyper->layers; i++)
    hyper->kinds[i] = i % 2 == 0 && i < most ? TN_LAYER_SLIDING : TN_LAYER_FULL;
}

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  read_window(reader, hyper);
  tn_hyper_read_experts(reader, hyper);
  hyper->experts.scoring = TN_MOE_SOFTMAX;
  hyper->experts.normalise = tn_hyper_bool_or(reader, "expert_weights_norm", "norm_topk_prob", false);
  tn_hyper_ignore(reader, NULL, "mlp_only_layers"); /* their layers have no router */
  tn_hyper_ignore(reader, NULL, "decoder_sparse_step");
  tn_hyper_ignore(reader, NULL, "qkv_bias");
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_norm);
}

static const char *const architectures[] = {"qwen2moe", NULL};
static const char *const model_types[] = {"qwen2_moe", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"num_key_value_heads", 16, NULL}, {0}};
const tn_family tn_family_qwen2moe = {.name = "qwen2moe",
                                      .architectures = architectures,
                                      .model_types = model_types,
                                      .defaults = defaults,
                                      .configure = configure,
                                      .build = build_graph};
