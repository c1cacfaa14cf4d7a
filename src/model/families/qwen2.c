/* qwen2: Qwen 2 and 2.5. llama with biases on q, k and v, which the file brings, and halves as rotary pairs. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  tn_hyper_read_upper_window(reader, hyper);
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_norm);
}

static const char *const names[] = {"qwen2", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"num_key_value_heads", 32, NULL}, {0}};
const tn_family tn_family_qwen2 = {.name = "qwen2",
                                   .architectures = names,
                                   .model_types = names,
                                   .defaults = defaults,
                                   .configure = configure,
                                   .build = build_graph};
