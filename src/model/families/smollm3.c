/* smollm3: llama whose every fourth layer has no positions (Yang et al., RoPE to NoPE and back again, 2025). */
#include "model/build.h"

#define USUAL_INTERVAL 4u

typedef struct smollm3_hyper {
  bool turns[TN_MAX_LAYERS]; /* has the layer rotary positions? */
} smollm3_hyper;

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  double listed[TN_MAX_LAYERS];
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  hyper->rope.pairing = tn_hyper_permuted_pairing(reader);
  tn_hyper_read_upper_window(reader, hyper);
  uint32_t interval = tn_hyper_u32_or(reader, NULL, "no_rope_layer_interval", USUAL_INTERVAL);
  bool is_folder = tn_hyper_is_folder(reader), is_usual = true;
  uint32_t count = tn_hyper_list(reader, is_folder ? NULL : "no_rope_layers", "no_rope_layers", listed, TN_MAX_LAYERS);
  tn_hyper_demand(reader, !count || count == hyper->layers, NULL, "no_rope_layers", count, "one for each layer");
  tn_hyper_demand(reader, interval > 0, NULL, "no_rope_layer_interval", interval, "more than 0");
  smollm3_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (reader->status != TN_OK) return;
  for (uint32_t i = 0; i < hyper->layers; i++) {
    own->turns[i] = count ? listed[i] != 0 : (i + 1) % interval != 0;
    listed[i] = own->turns[i];
    is_usual = is_usual && own->turns[i] == ((i + 1) % USUAL_INTERVAL != 0);
  }
  if (!is_usual) {
    tn_hyper_tell_list(reader, "no_rope_layers", TN_NOTE_WHOLE, listed, hyper->layers);
    tn_hyper_mark_rare(reader);
  }
  if (is_folder && hyper->window && !tn_hyper_has(reader, NULL, "layer_types")) /* layers without positions slide */
    for (uint32_t i = 0; i < hyper->layers; i++) hyper->kinds[i] = own->turns[i] ? TN_LAYER_FULL : TN_LAYER_SLIDING;
  hyper->own = own;
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const smollm3_hyper *own = build->hyper->own;
  tn_attention_block attention = tn_block_attention_of(build, layer);
  if (!own->turns[layer]) attention.rope = TN_NO_VALUE;
  tn_ref y = tn_block_norm(build, x, "attn_norm", layer);
  x = tn_add(build->graph, x, tn_block_attention(build, y, layer, &attention));
  y = tn_block_norm(build, x, "ffn_norm", layer);
  return tn_add(build->graph, x, tn_block_gated_ffn(build, y, build->hyper->ffn, layer));
}

static void build_graph(tn_build *build) {
  tn_build_decoder(build, tn_build_embedding(build), block);
}

static const char *const names[] = {"smollm3", NULL};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {
    {"rope_theta", 2e6, NULL}, {"num_key_value_heads", 4, NULL}, {"tie_word_embeddings", 1, NULL}, {0}};
const tn_family tn_family_smollm3 = {.name = "smollm3",
                                     .architectures = names,
                                     .model_types = names,
                                     .defaults = defaults,
                                     .configure = configure,
                                     .build = build_graph};
