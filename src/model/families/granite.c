/* granite: llama with four factors, on the embedding, the scores, what every sublayer adds, and the logits. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  hyper->rope.pairing = tn_hyper_permuted_pairing(reader);
  hyper->embedding_scale = tn_hyper_f32_or(reader, "embedding_scale", "embedding_multiplier", 1);
  hyper->attention_scale = tn_hyper_f32_or(reader, "attention.scale", "attention_multiplier", 1);
  hyper->residual_scale = tn_hyper_f32_or(reader, "residual_scale", "residual_multiplier", 1);
  float divisor = tn_hyper_f32_or(reader, "logit_scale", "logits_scaling", 1);
  tn_hyper_demand(reader, divisor > 0, "logit_scale", "logits_scaling", (double)divisor, "a positive number");
  hyper->logits_scale = 1 / divisor;
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), tn_block_pre_norm);
}

static const char *const names[] = {"granite", NULL};
const tn_family tn_family_granite = {
    .name = "granite", .architectures = names, .model_types = names, .configure = configure, .build = build_graph};
