/* qwen35: Qwen 3.5, dense and with experts. Three recurrent layers (gated delta net) for one of full attention with an
 * output gate, rotary positions over a quarter of the head. A folder's norm weights are used as 1 + w, but for the one
 * of the recurrent layers. GGUF has the value heads in tiled order. */
#include "model/build.h"
#include "model/experts.h"
#include "model/recurrent.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  uint32_t interval = tn_hyper_u32_or(reader, "full_attention_interval", "full_attention_interval", 4);
  tn_hyper_read_kinds(reader, hyper, "attention.recurrent_layers", TN_LAYER_RECURRENT, interval);
  tn_hyper_read_experts(reader, hyper);
  hyper->experts.normalise = true;
  bool gated = tn_hyper_bool_or(reader, NULL, "attn_output_gate", true);
  tn_hyper_demand(reader, gated, NULL, "attn_output_gate", 0, "true");
  /* sections of the positions differ for images only, but other readers demand four; drafts are not made */
  double sections[4] = {0};
  tn_hyper_list(reader, "rope.dimension_sections", "rope_parameters.mrope_section", sections, 4);
  tn_hyper_tell_list(reader, "rope.dimension_sections", TN_NOTE_WHOLE, sections, 4);
  tn_hyper_ignore(reader, NULL, "rope_parameters.mrope_interleaved");
  tn_hyper_ignore(reader, NULL, "mtp_num_hidden_layers");
  tn_hyper_ignore(reader, NULL, "mtp_use_dedicated_embeddings");
  hyper->draft_layers = tn_hyper_u32_or(reader, "nextn_predict_layers", NULL, 0);
  tn_hyper_demand(reader, hyper->draft_layers < hyper->layers, "nextn_predict_layers", NULL, hyper->draft_layers,
                  "fewer than the layers");
  tn_recurrent_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (reader->status != TN_OK) return;
  hyper->layers -= hyper->draft_layers;
  tn_hyper_read_recurrent(reader, own);
  own->tiled = !tn_hyper_is_folder(reader);
  hyper->own = own;
}

static tn_ref recurrent_part(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_recurrent_hyper *r = build->hyper->own;
  uint32_t value_width = r->value_heads * r->value_dim;
  tn_ref qkv = tn_block_linear(build, x, 2 * r->key_heads * r->key_dim + value_width, "attn_qkv", layer);
  tn_ref z = tn_block_linear(build, x, value_width, "attn_gate", layer);
  tn_ref a = tn_block_linear(build, x, r->value_heads, "ssm_alpha", layer);
  tn_ref b = tn_block_linear(build, x, r->value_heads, "ssm_beta", layer);
  return tn_block_recurrent(build, layer, r, qkv, z, a, b);
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  tn_ref y = tn_block_norm(build, x, "attn_norm", layer);
  y = build->hyper->kinds[layer] == TN_LAYER_RECURRENT ? recurrent_part(build, y, layer)
                                                       : tn_block_gated_attention(build, y, layer);
  x = tn_add(build->graph, x, y);
  return tn_add(build->graph, x, tn_block_ffn(build, tn_block_norm(build, x, "post_attention_norm", layer), layer));
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), block);
}

static const char *const architectures[] = {"qwen35", "qwen35moe", NULL};
static const char *const model_types[] = {"qwen3_5_text", "qwen3_5", "qwen3_5_moe_text", "qwen3_5_moe", NULL};
static const tn_tensor_name names[] = {
    {"output_norm", "norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_norm", "layers.#.input_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.attn_q_norm", "layers.#.self_attn.q_norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_k_norm", "layers.#.self_attn.k_norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_qkv", "layers.#.linear_attn.in_proj_qkv", TN_FORM_VALUE_HEADS},
    {"blk.#.attn_gate", "layers.#.linear_attn.in_proj_z", TN_FORM_VALUE_HEADS},
    {"blk.#.ssm_alpha", "layers.#.linear_attn.in_proj_a", TN_FORM_VALUE_HEADS},
    {"blk.#.ssm_beta", "layers.#.linear_attn.in_proj_b", TN_FORM_VALUE_HEADS},
    {"blk.#.ssm_conv1d", "layers.#.linear_attn.conv1d", TN_FORM_VALUE_HEADS},
    {"blk.#.ssm_a", "layers.#.linear_attn.A_log", TN_FORM_MADE | TN_FORM_VALUE_HEADS},
    {"blk.#.ssm_dt.bias", "layers.#.linear_attn.dt_bias", TN_FORM_VALUE_HEADS},
    {"blk.#.ssm_norm", "layers.#.linear_attn.norm", 0},
    {"blk.#.ssm_out", "layers.#.linear_attn.out_proj", TN_FORM_VALUE_COLS},
    {0}};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"head_dim", 256, NULL},
                                      {"partial_rotary_factor", 0.25, NULL},
                                      {"num_key_value_heads", 4, "qwen3_5_text"},
                                      {"num_key_value_heads", 4, "qwen3_5"},
                                      {"num_key_value_heads", 2, NULL},
                                      TN_RECURRENT_DEFAULTS,
                                      {0}};
const tn_family tn_family_qwen35 = {.name = "qwen35",
                                    .architectures = architectures,
                                    .model_types = model_types,
                                    .names = names,
                                    .defaults = defaults,
                                    .configure = configure,
                                    .build = build_graph,
                                    .turns_part = true};
