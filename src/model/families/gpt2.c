/* gpt2: learned positions, LayerNorm with bias, one matrix for q, k and v, a GELU (tanh form) feed-forward, tied head.
 * A folder holds the matrices of the layers transposed. Radford et al., Language models are unsupervised multitask
 * learners, 2019. */
#include "model/build.h"

typedef struct gpt2_hyper {
  bool by_layer; /* scores are divided by the layer's number, from 1 */
} gpt2_hyper;

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->activation = TN_ACTIVATION_GELU_TANH;
  tn_hyper_read_common(reader, hyper);
  hyper->norm_kind = TN_NORM_LAYER;
  hyper->norm_epsilon = tn_hyper_f32(reader, "attention.layer_norm_epsilon", "layer_norm_epsilon");
  tn_hyper_demand(reader, hyper->norm_epsilon >= 0, "attention.layer_norm_epsilon", "layer_norm_epsilon",
                  (double)hyper->norm_epsilon, "0 or more");
  if (!hyper->ffn) hyper->ffn = 4 * hyper->width;
  const tn_file_tensor *up = tn_container_find_tensor(reader->file, "blk.0.ffn_up.weight");
  if (up && up->rank == 2 && up->dims[1] <= (1 << 24))
    hyper->ffn = (uint32_t)up->dims[1]; /* GGUF files say 4 * width */
  tn_hyper_tell(reader, "feed_forward_length", TN_NOTE_WHOLE, hyper->ffn);
  gpt2_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (!own) return;
  own->by_layer =
      tn_hyper_rare_bool(reader, "attention.scale_by_inverse_layer_idx", "scale_attn_by_inverse_layer_idx", false);
  hyper->own = own;
  bool scaled = tn_hyper_rare_bool(reader, "attention.scale_weights", "scale_attn_weights", true);
  bool crossed = tn_hyper_bool_or(reader, NULL, "add_cross_attention", false);
  tn_hyper_ignore(reader, NULL, "reorder_and_upcast_attn"); /* a matter of half precision */
  tn_hyper_ignore(reader, NULL, "n_ctx");
  if (!scaled) hyper->attention_scale = 1;
  tn_hyper_demand(reader, !crossed, NULL, "add_cross_attention", 1, "false");
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  tn_attention_block attention = tn_block_attention_of(build, layer);
  if (((const gpt2_hyper *)h->own)->by_layer) attention.scale /= (float)(layer + 1);
  uint32_t q_rows = h->heads * h->key_dim, k_rows = h->kv_heads * h->key_dim, v_rows = h->kv_heads * h->value_dim;
  uint32_t total = q_rows + k_rows + v_rows;
  tn_ref a = tn_block_norm(build, x, "attn_norm", layer);
  tn_ref q = tn_block_linear_rows(build, a, total, 0, q_rows, "attn_qkv", layer);
  tn_ref k = tn_block_linear_rows(build, a, total, q_rows, k_rows, "attn_qkv", layer);
  tn_ref v = tn_block_linear_rows(build, a, total, q_rows + k_rows, v_rows, "attn_qkv", layer);
  a = tn_block_attend(build, layer, q, k, v, &attention);
  x = tn_add(build->graph, x, tn_block_linear(build, a, h->width, "attn_output", layer));
  a = tn_block_linear(build, tn_block_norm(build, x, "ffn_norm", layer), h->ffn, "ffn_up", layer);
  a = tn_activate(build->graph, a, TN_NO_VALUE, h->activation);
  return tn_add(build->graph, x, tn_block_linear(build, a, h->width, "ffn_down", layer));
}

static void build_graph(tn_build *build) {
  const tn_hyper *h = build->hyper;
  tn_ref positions = tn_build_matrix(build, h->context, h->width, "position_embd.weight");
  tn_ref x =
      tn_add(build->graph, tn_build_embedding(build), tn_embed(build->graph, positions, TN_EMBED_POSITION, 1.0f));
  tn_build_decoder(build, x, block);
}

static const char *const architectures[] = {"gpt2", NULL};
static const char *const model_types[] = {"gpt2", NULL};
static const tn_tensor_name names[] = {{"token_embd", "wte", 0},
                                       {"position_embd", "wpe", 0},
                                       {"output_norm", "ln_f", 0},
                                       {"blk.#.attn_norm", "h.#.ln_1", 0},
                                       {"blk.#.attn_qkv", "h.#.attn.c_attn", TN_FORM_TRANSPOSED},
                                       {"blk.#.attn_output", "h.#.attn.c_proj", TN_FORM_TRANSPOSED},
                                       {"blk.#.ffn_norm", "h.#.ln_2", 0},
                                       {"blk.#.ffn_up", "h.#.mlp.c_fc", TN_FORM_TRANSPOSED},
                                       {"blk.#.ffn_down", "h.#.mlp.c_proj", TN_FORM_TRANSPOSED},
                                       {0}};
static const char *const aliases[][2] = {{"num_hidden_layers", "n_layer"},
                                         {"max_position_embeddings", "n_positions"},
                                         {"hidden_size", "n_embd"},
                                         {"intermediate_size", "n_inner"},
                                         {"num_attention_heads", "n_head"},
                                         {"hidden_act", "activation_function"},
                                         {0}};
static const char *const unused[] = {"h.#.attn.bias", "h.#.attn.masked_bias", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"tie_word_embeddings", 1, NULL}, {"layer_norm_epsilon", 1e-5, NULL}, {0}};
const tn_family tn_family_gpt2 = {.name = "gpt2",
                                  .architectures = architectures,
                                  .model_types = model_types,
                                  .names = names,
                                  .aliases = aliases,
                                  .unused = unused,
                                  .defaults = defaults,
                                  .configure = configure,
                                  .build = build_graph};
