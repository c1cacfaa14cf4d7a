/* gptoss: gpt-oss. Sliding and full layers in turn, a learned sink in every head's softmax, YaRN positions, biases
 * everywhere, experts with a clamped SwiGLU: min(g, 7) sigmoid(1.702 g) (clamp(u, -7, 7) + 1). A folder holds gate and
 * up rows in turn, plain ones transposed, or MXFP4 blocks with their scales apart. OpenAI, gpt-oss model card, 2025. */
#include "model/build.h"
#include "model/experts.h"

typedef struct gptoss_hyper {
  float limit, alpha;
} gptoss_hyper;

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_demand_rope(reader);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 128);
  tn_hyper_read_kinds(reader, hyper, "attention.sliding_window_pattern", TN_LAYER_SLIDING, 2);
  tn_hyper_read_experts(reader, hyper);
  hyper->experts.scoring = TN_MOE_SOFTMAX_OF_CHOSEN;
  gptoss_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (!own) return;
  own->limit = tn_hyper_f32_or(reader, "swiglu_limit", "swiglu_limit", 7.0f);
  own->alpha = tn_hyper_f32_or(reader, "swiglu_alpha", "swiglu_alpha", 1.702f);
  tn_hyper_demand(reader, own->limit > 0, "swiglu_limit", "swiglu_limit", (double)own->limit, "a positive number");
  tn_hyper_ignore(reader, NULL, "experts_per_token");      /* num_experts_per_tok once more */
  tn_hyper_ignore(reader, NULL, "initial_context_length"); /* original_max_position_embeddings once more */
  hyper->own = own;
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  const gptoss_hyper *own = h->own;
  tn_attention_block attention = tn_block_attention_of(build, layer);
  attention.sinks = tn_build_vector(build, h->heads, "blk.%u.attn_sinks.weight", layer);
  tn_ref y = tn_block_norm(build, x, "attn_norm", layer);
  x = tn_add(build->graph, x, tn_block_attention(build, y, layer, &attention));
  y = tn_block_norm(build, x, "post_attention_norm", layer);
  tn_ref scores = tn_block_linear(build, y, h->experts.count, "ffn_gate_inp", layer);
  tn_expert_block experts = tn_block_experts_of(build, layer);
  experts.limit = own->limit;
  experts.alpha = own->alpha;
  return tn_add(build->graph, x, tn_block_experts(build, y, scores, &experts, TN_NO_VALUE));
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), block);
}

static const char *const architectures[] = {"gpt-oss", NULL};
static const char *const model_types[] = {"gpt_oss", NULL};
static const tn_tensor_name names[] = {
    {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", 0},
    {"blk.#.ffn_gate_inp", "layers.#.mlp.router", 0},
    {"blk.#.ffn_gate_exps.weight", "layers.#.mlp.experts.gate_up_proj", TN_FORM_ALTERNATE | TN_FORM_TRANSPOSED},
    {"blk.#.ffn_gate_exps.weight", "layers.#.mlp.experts.gate_up_proj_blocks", TN_FORM_ALTERNATE | TN_FORM_BLOCKS},
    {"blk.#.ffn_gate_exps.bias", "layers.#.mlp.experts.gate_up_proj_bias", TN_FORM_ALTERNATE},
    {"blk.#.ffn_up_exps.weight", "layers.#.mlp.experts.gate_up_proj", TN_FORM_ALTERNATE | TN_FORM_TRANSPOSED},
    {"blk.#.ffn_up_exps.weight", "layers.#.mlp.experts.gate_up_proj_blocks", TN_FORM_ALTERNATE | TN_FORM_BLOCKS},
    {"blk.#.ffn_up_exps.bias", "layers.#.mlp.experts.gate_up_proj_bias", TN_FORM_ALTERNATE},
    {"blk.#.ffn_down_exps.weight", "layers.#.mlp.experts.down_proj", TN_FORM_TRANSPOSED},
    {"blk.#.ffn_down_exps.weight", "layers.#.mlp.experts.down_proj_blocks", TN_FORM_BLOCKS},
    {"blk.#.ffn_down_exps.bias", "layers.#.mlp.experts.down_proj_bias", 0},
    {0}};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"rms_norm_eps", 1e-5, NULL},
                                      {"rope_theta", 150000, NULL},
                                      {"head_dim", 64, NULL},
                                      {"num_key_value_heads", 8, NULL},
                                      {0}};
const tn_family tn_family_gptoss = {.name = "gpt-oss",
                                    .architectures = architectures,
                                    .model_types = model_types,
                                    .names = names,
                                    .defaults = defaults,
                                    .configure = configure,
                                    .build = build_graph};
