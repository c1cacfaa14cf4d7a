/* qwen3: qwen2 without biases, with an RMS norm of every q and k head before it is turned. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  tn_hyper_read_upper_window(reader, hyper);
  hyper->qk_norm = TN_QK_NORM_HEAD;
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_norm);
}

static const char *const names[] = {"qwen3", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"head_dim", 128, NULL}, {"num_key_value_heads", 32, NULL}, {0}};
const tn_family tn_family_qwen3 = {.name = "qwen3",
                                   .architectures = names,
                                   .model_types = names,
                                   .defaults = defaults,
                                   .configure = configure,
                                   .build = build_graph};
