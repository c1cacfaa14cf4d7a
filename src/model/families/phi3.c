/* phi3: Phi 3 and 4. llama with one matrix for q, k and v and one for gate and up, rotary positions over a part of the
 * head, scaled by tables (longrope). Abdin et al., Phi-3 technical report, 2024. */
#include "model/build.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 0);
  for (uint32_t i = 0; i < hyper->layers && hyper->window; i++) hyper->kinds[i] = TN_LAYER_SLIDING;
  bool head_bias = tn_hyper_bool_or(reader, NULL, "lm_head_bias", false);
  tn_hyper_demand(reader, !head_bias, NULL, "lm_head_bias", 1, "false");
  tn_hyper_ignore(reader, NULL, "interpolate_factor"); /* no implementation reads these two */
  tn_hyper_ignore(reader, NULL, "full_attn_mod");
}

static tn_ref attention_part(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  const tn_attention_block attention = tn_block_attention_of(build, layer);
  uint32_t q_rows = h->heads * h->key_dim, k_rows = h->kv_heads * h->key_dim, v_rows = h->kv_heads * h->value_dim;
  uint32_t total = q_rows + k_rows + v_rows;
  tn_ref q = tn_block_linear_rows(build, x, total, 0, q_rows, "attn_qkv", layer);
  tn_ref k = tn_block_linear_rows(build, x, total, q_rows, k_rows, "attn_qkv", layer);
  tn_ref v = tn_block_linear_rows(build, x, total, q_rows + k_rows, v_rows, "attn_qkv", layer);
  return tn_block_linear(build, tn_block_attend(build, layer, q, k, v, &attention), h->width, "attn_output", layer);
}

static tn_ref ffn_part(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  tn_ref gate = tn_block_linear_rows(build, x, 2 * h->ffn, 0, h->ffn, "ffn_up", layer);
  tn_ref up = tn_block_linear_rows(build, x, 2 * h->ffn, h->ffn, h->ffn, "ffn_up", layer);
  return tn_block_linear(build, tn_activate(build->graph, gate, up, h->activation), h->width, "ffn_down", layer);
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  x = tn_add(build->graph, x, attention_part(build, tn_block_norm(build, x, "attn_norm", layer), layer));
  return tn_add(build->graph, x, ffn_part(build, tn_block_norm(build, x, "ffn_norm", layer), layer));
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), block);
}

static const char *const architectures[] = {"phi3", NULL};
static const char *const model_types[] = {"phi3", NULL};
static const tn_tensor_name names[] = {{"blk.#.ffn_up", "layers.#.mlp.gate_up_proj", 0}, {0}};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"rms_norm_eps", 1e-5, NULL}, {0}};
const tn_family tn_family_phi3 = {.name = "phi3",
                                  .architectures = architectures,
                                  .model_types = model_types,
                                  .names = names,
                                  .defaults = defaults,
                                  .configure = configure,
                                  .build = build_graph,
                                  .turns_part = true};
