/* gemma3n: Gemma 3n (text). The residual is a few streams side by side (AltUp: Baykal et al., Alternating updates,
 * 2023): a layer predicts all of them from each other, works on one, and corrects all by what came out differently.
 * Beside attention stands a low-rank path (LAuReL: Menghani et al., 2024); the gates of the lower layers keep only what
 * lies far above their row's mean; every layer has an input of its own; the last ones use the keys and values of
 * earlier ones. */
#include <math.h>
#include <stdio.h>
#include "model/build.h"
#include "model/layer_input.h"

#define MAX_STREAMS 8u
#define TINY 1e-30f /* keeps a row of zeros from dividing by zero, and changes no other */

typedef struct gemma3n_hyper {
  uint32_t streams, active; /* how many, and the one that layers work on */
  uint32_t rank;            /* of the low-rank path */
  uint32_t layer_input;     /* width of the per-layer embeddings */
  bool scales;              /* the corrected stream is scaled before the layer's input is mixed in */
  uint32_t ffn[TN_MAX_LAYERS];
  uint32_t kv_layer[TN_MAX_LAYERS]; /* whose keys and values a layer uses */
  float cut[TN_MAX_LAYERS];         /* deviations above the mean below which a gate is zero; -INFINITY: none */
} gemma3n_hyper;

/* The point below which the part q of a normal distribution lies. */
static double normal_quantile(double q) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; i++) {
    double middle = (low + high) / 2;
    if (erfc(-middle / sqrt(2)) / 2 < q)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* config.json says which part of the gates is zero, GGUF how many deviations that is. */
static void read_sparsity(tn_hyper_reader *reader, const tn_hyper *hyper, gemma3n_hyper *own) {
  static const char *const gguf = "activation_sparsity_scale", *const config = "activation_sparsity_pattern";
  double values[TN_MAX_LAYERS];
  bool is_folder = tn_hyper_is_folder(reader);
  uint32_t count = tn_hyper_list(reader, gguf, config, values, TN_MAX_LAYERS);
  tn_hyper_demand(reader, count <= 1 || count == hyper->layers, gguf, config, count, "one for each layer");
  for (uint32_t i = 0; i < hyper->layers && reader->status == TN_OK; i++) {
    double value = count > 1 ? values[i] : count ? values[0] : hyper->layers > 10 && i < 10 ? 0.95 : 0;
    if (!is_folder && !count) value = -INFINITY;
    tn_hyper_demand(reader, is_folder ? value >= 0 && value < 1 : value < 40, gguf, config, value, "0 .. below 1");
    if (is_folder) value = value > 0 ? normal_quantile(value) : -INFINITY;
    own->cut[i] = (float)value;
    values[i] = value;
  }
  tn_hyper_tell_list(reader, gguf, TN_NOTE_FLOAT, values, hyper->layers);
}

static void read_streams(tn_hyper_reader *reader, gemma3n_hyper *own) {
  own->streams = tn_hyper_u32_or(reader, "altup.num_inputs", "altup_num_inputs", 4);
  own->active = tn_hyper_u32_or(reader, "altup.active_idx", "altup_active_idx", 0);
  own->scales = tn_hyper_rare_bool(reader, "altup.correct_scale", "altup_correct_scale", true);
  tn_hyper_ignore(reader, NULL, "altup_coef_clip"); /* for training */
  tn_hyper_demand(reader, own->streams >= 2 && own->streams <= MAX_STREAMS, "altup.num_inputs", "altup_num_inputs",
                  own->streams, "2 .. 8");
  tn_hyper_demand(reader, own->active < own->streams, "altup.active_idx", "altup_active_idx", own->active,
                  "one of the streams");
  const tn_file_tensor *left = tn_container_find_tensor(reader->file, "blk.0.laurel_l.weight"); /* GGUF has no key */
  own->rank = left && left->rank == 2 && left->dims[1] <= (1 << 16) ? (uint32_t)left->dims[1] : 64;
  own->rank = tn_hyper_u32_or(reader, NULL, "laurel_rank", own->rank);
  tn_hyper_demand(reader, own->rank >= 1 && own->rank <= (1 << 16), NULL, "laurel_rank", own->rank, "1 .. 2^16");
  own->layer_input = tn_hyper_u32_or(reader, "embedding_length_per_layer_input", "hidden_size_per_layer_input", 256);
  tn_hyper_demand(reader, own->layer_input >= 1 && own->layer_input <= (1 << 16), "embedding_length_per_layer_input",
                  "hidden_size_per_layer_input", own->layer_input, "1 .. 2^16");
}

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  double widths[TN_MAX_LAYERS];
  hyper->varied = true;
  hyper->activation = TN_ACTIVATION_GELU_TANH;
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, "full_attention", &hyper->rope);
  tn_hyper_read_sliding_rope(reader, hyper, 10000);
  hyper->window = tn_hyper_u32_or(reader, "attention.sliding_window", "sliding_window", 512);
  tn_hyper_read_kinds(reader, hyper, "attention.sliding_window_pattern", TN_LAYER_SLIDING, 5);
  hyper->logits_softcap = tn_hyper_f32_or(reader, "final_logit_softcapping", "final_logit_softcapping", 0);
  tn_hyper_demand(reader, hyper->kv_heads >= 1 && hyper->heads % hyper->kv_heads == 0, "attention.head_count_kv",
                  "num_key_value_heads", hyper->kv_heads, "a divisor of the heads");
  gemma3n_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (reader->status != TN_OK) return;
  hyper->own = own;
  read_streams(reader, own);
  read_sparsity(reader, hyper, own);
  tn_hyper_read_shared_kv(reader, hyper, own->kv_layer);
  uint32_t count = tn_hyper_list(reader, "feed_forward_length", "intermediate_size", widths, TN_MAX_LAYERS);
  tn_hyper_demand(reader, count == 1 || count == hyper->layers, "feed_forward_length", "intermediate_size", count,
                  "one for each layer");
  for (uint32_t i = 0; i < hyper->layers && reader->status == TN_OK; i++)
    own->ffn[i] = (uint32_t)(count > 1 ? widths[i] : widths[0]);
  hyper->attention_scale = 1;
  hyper->embedding_scale = sqrtf((float)hyper->width);
}

/* A row of `count` numbers, each `value`, as a matrix of one row. */
static tn_ref constant_row(tn_build *build, uint32_t count, float value, const char *name) {
  tn_graph *graph = build->graph;
  float *numbers = tn_arena_array(&graph->arena, count, sizeof *numbers);
  if (!numbers) {
    tn_graph_fail(graph, TN_E_MEMORY, "graph: out of memory");
    return TN_NO_VALUE;
  }
  for (uint32_t i = 0; i < count; i++) numbers[i] = value;
  const tn_weight_source source = {.size = sizeof source,
                                   .dtype = TN_F32,
                                   .data = numbers,
                                   .rows = 1,
                                   .cols = count,
                                   .row_count = 1,
                                   .col_count = count};
  return tn_graph_weight(graph, name, TN_F32, 2, (uint64_t[]){1, count}, &source, 1);
}

/* One number a row: the length of x that `normed`, x divided by it, has lost; sum(x * normed) / columns. */
static tn_ref length_of(tn_build *build, tn_ref x, tn_ref normed, const char *name) {
  if (build->graph->error.status != TN_OK) return TN_NO_VALUE;
  uint32_t cols = tn_graph_cols(build->graph, x);
  tn_ref mean = constant_row(build, cols, 1 / (float)cols, name);
  return tn_linear(build->graph, tn_mul(build->graph, x, normed), mean, TN_NO_VALUE);
}

static tn_ref unit_rms(tn_build *build, tn_ref x) {
  return tn_norm(build->graph, x, TN_NO_VALUE, TN_NO_VALUE, TN_NORM_RMS, 0, TINY);
}

/* x times one number a row. */
static tn_ref times(tn_build *build, tn_ref x, tn_ref factor) {
  return tn_moe_combine(build->graph, x, factor);
}

static tn_ref stream(tn_build *build, tn_ref streams, uint32_t number) {
  return tn_slice(build->graph, streams, number * build->hyper->width, build->hyper->width);
}

/* Matrix `number` of those that make streams of the embedding, or one stream of them again. */
static tn_ref stream_matrix(tn_build *build, const char *name, uint32_t number) {
  const gemma3n_hyper *own = build->hyper->own;
  uint32_t width = build->hyper->width;
  return tn_build_cube_part(build, own->streams - 1, width, width, number, "%s.weight", name);
}

/* The embedding, and behind it what its projections make of it, as long as it is: [T, streams * width]. */
static tn_ref split(tn_build *build, tn_ref x) {
  const gemma3n_hyper *own = build->hyper->own;
  tn_ref length = length_of(build, x, unit_rms(build, x), "altup.mean");
  tn_ref streams[MAX_STREAMS] = {x};
  for (uint32_t i = 1; i < own->streams; i++) {
    tn_ref y = tn_linear(build->graph, x, stream_matrix(build, "altup_proj", i - 1), TN_NO_VALUE);
    streams[i] = times(build, unit_rms(build, y), length);
  }
  return tn_concat(build->graph, streams, own->streams);
}

/* The mean of all streams, those behind the first projected and made as long as the first. */
static tn_ref join(tn_build *build, tn_ref streams) {
  const gemma3n_hyper *own = build->hyper->own;
  tn_ref sum = stream(build, streams, 0);
  tn_ref length = length_of(build, sum, unit_rms(build, sum), "altup.mean_out");
  for (uint32_t i = 1; i < own->streams; i++) {
    tn_ref y = tn_linear(build->graph, stream(build, streams, i), stream_matrix(build, "altup_unembd_proj", i - 1),
                         TN_NO_VALUE);
    sum = tn_add(build->graph, sum, times(build, unit_rms(build, y), length));
  }
  return tn_scale(build->graph, sum, 1 / (float)own->streams);
}

/* What a row is about, a number from -1 to 1 for each stream: the coefficients follow from it. */
static tn_ref modalities(tn_build *build, tn_ref x, uint32_t layer) {
  const gemma3n_hyper *own = build->hyper->own;
  tn_ref y = tn_block_norm(build, x, "altup_router_norm", layer);
  y = tn_scale(build->graph, y, 1 / (float)build->hyper->width);
  y = tn_block_linear(build, y, own->streams, "altup_router", layer);
  return tn_activate(build->graph, y, TN_NO_VALUE, TN_ACTIVATION_TANH);
}

/* Every stream plus a mixture of all. */
static void predict(tn_build *build, tn_ref streams, uint32_t layer, tn_ref *predicted) {
  const gemma3n_hyper *own = build->hyper->own;
  uint32_t n = own->streams;
  tn_ref m = modalities(build, stream(build, streams, own->active), layer);
  tn_ref mix = tn_block_linear(build, m, n * n, "altup_predict_coef", layer);
  for (uint32_t i = 0; i < n; i++) {
    tn_ref y = tn_moe_combine(build->graph, streams, tn_slice(build->graph, mix, i * n, n));
    predicted[i] = tn_add(build->graph, stream(build, streams, i), y);
  }
}

/* Every stream moves by its part, one plus a coefficient, of what the layer made different in the active one. */
static void correct(tn_build *build, tn_ref made, uint32_t layer, tn_ref *streams) {
  const gemma3n_hyper *own = build->hyper->own;
  tn_graph *graph = build->graph;
  uint32_t n = own->streams;
  float ones[MAX_STREAMS];
  char name[32];
  for (uint32_t i = 0; i < n; i++) ones[i] = 1;
  snprintf(name, sizeof name, "blk.%u.altup_ones", layer);
  tn_ref change = tn_add(graph, made, tn_scale(graph, streams[own->active], -1));
  tn_ref matrix = tn_build_matrix(build, n, n, "blk.%u.altup_correct_coef.weight", layer);
  tn_ref parts = tn_linear(graph, modalities(build, made, layer), matrix, tn_graph_numbers(graph, name, ones, n));
  for (uint32_t i = 0; i < n; i++)
    streams[i] = tn_add(graph, streams[i], times(build, change, tn_slice(graph, parts, i, 1)));
}

static tn_ref attention_part(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_hyper *h = build->hyper;
  const gemma3n_hyper *own = h->own;
  tn_attention_block a = tn_block_attention_of(build, layer);
  tn_ref q = tn_block_linear(build, x, a.heads * a.key_dim, "attn_q", layer), y;
  q = tn_block_head_norm(build, q, a.key_dim, "attn_q_norm", layer);
  if (own->kv_layer[layer] == layer) {
    tn_ref k = tn_block_linear(build, x, a.kv_heads * a.key_dim, "attn_k", layer);
    tn_ref v = tn_block_linear(build, x, a.kv_heads * a.value_dim, "attn_v", layer);
    k = tn_block_head_norm(build, k, a.key_dim, "attn_k_norm", layer);
    y = tn_block_attend(build, layer, q, k, tn_block_plain_norm(build, v, a.value_dim), &a);
  } else {
    y = tn_block_attend_shared(build, own->kv_layer[layer], q, &a);
  }
  return tn_block_linear(build, y, h->width, "attn_output", layer);
}

/* relu(gate - (mean + cut * deviation)): deviation times relu of the normed row minus cut. */
static tn_ref sparse(tn_build *build, tn_ref gate, float cut, uint32_t layer) {
  tn_graph *graph = build->graph;
  char name[40];
  if (graph->error.status != TN_OK) return TN_NO_VALUE;
  uint32_t cols = tn_graph_cols(graph, gate);
  snprintf(name, sizeof name, "blk.%u.ffn_mean", layer);
  tn_ref normed = tn_norm(graph, gate, TN_NO_VALUE, TN_NO_VALUE, TN_NORM_LAYER, 0, TINY);
  tn_ref deviation = length_of(build, gate, normed, name);
  float *bias = tn_arena_array(&graph->arena, cols, sizeof *bias);
  for (uint32_t i = 0; bias && i < cols; i++) bias[i] = -cut;
  if (!bias) tn_graph_fail(graph, TN_E_MEMORY, "graph: out of memory");
  snprintf(name, sizeof name, "blk.%u.ffn_cut", layer);
  if (graph->error.status != TN_OK) return TN_NO_VALUE;
  tn_ref y = tn_add(graph, normed, tn_graph_numbers(graph, name, bias, cols));
  return times(build, tn_activate(graph, y, TN_NO_VALUE, TN_ACTIVATION_RELU), deviation);
}

static tn_ref ffn_part(tn_build *build, tn_ref x, uint32_t layer) {
  const gemma3n_hyper *own = build->hyper->own;
  tn_ref gate = tn_block_linear(build, x, own->ffn[layer], "ffn_gate", layer);
  tn_ref up = tn_block_linear(build, x, own->ffn[layer], "ffn_up", layer);
  if (isfinite(own->cut[layer])) gate = sparse(build, gate, own->cut[layer], layer);
  tn_ref y = tn_activate(build->graph, gate, up, build->hyper->activation);
  return tn_block_linear(build, y, build->hyper->width, "ffn_down", layer);
}

static tn_ref block(tn_build *build, tn_ref x, uint32_t layer) {
  const gemma3n_hyper *own = build->hyper->own;
  tn_graph *graph = build->graph;
  tn_ref streams[MAX_STREAMS];
  predict(build, x, layer, streams);
  tn_ref active = streams[own->active], normed = tn_block_norm(build, active, "attn_norm", layer);
  tn_ref low = tn_block_linear(build, normed, own->rank, "laurel_l", layer);
  low = tn_block_norm(build, tn_block_linear(build, low, build->hyper->width, "laurel_r", layer), "laurel_post_norm",
                      layer);
  tn_ref y = tn_block_norm(build, attention_part(build, normed, layer), "post_attention_norm", layer);
  y = tn_add(graph, tn_add(graph, active, y), tn_add(graph, normed, low));
  y = tn_scale(graph, y, 1 / sqrtf(2));
  tn_ref z = ffn_part(build, tn_block_norm(build, y, "ffn_norm", layer), layer);
  y = tn_add(graph, y, tn_block_norm(build, z, "post_ffw_norm", layer));
  correct(build, y, layer, streams);
  y = streams[own->active];
  if (own->scales)
    y = tn_mul(graph, y, tn_build_vector(build, build->hyper->width, "blk.%u.altup_correct_scale.weight", layer));
  y = tn_block_layer_input(build, y, own->layer_input, layer);
  for (uint32_t i = 1; i < own->streams; i++) streams[i] = tn_add(graph, streams[i], y);
  return tn_concat(graph, streams, own->streams);
}

static void build_graph(tn_build *build) {
  const gemma3n_hyper *own = build->hyper->own;
  tn_ref x = tn_build_embedding(build);
  build->shared = tn_build_layer_inputs(build, x, own->layer_input);
  tn_build_head(build, join(build, tn_build_layers(build, split(build, x), block)));
}

static const char *const architectures[] = {"gemma3n", NULL};
static const char *const model_types[] = {"gemma3n_text", "gemma3n", NULL};
static const tn_tensor_name names[] = {{"altup_proj", "altup_projections.%", 0},
                                       {"altup_unembd_proj", "altup_unembed_projections.%", 0},
                                       {"per_layer_token_embd", "embed_tokens_per_layer", 0},
                                       {"per_layer_model_proj", "per_layer_model_projection", 0},
                                       {"per_layer_proj_norm", "per_layer_projection_norm", 0},
                                       {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", 0},
                                       {"blk.#.ffn_norm", "layers.#.pre_feedforward_layernorm", 0},
                                       {"blk.#.post_ffw_norm", "layers.#.post_feedforward_layernorm", 0},
                                       {"blk.#.inp_gate", "layers.#.per_layer_input_gate", 0},
                                       {"blk.#.proj", "layers.#.per_layer_projection", 0},
                                       {"blk.#.post_norm", "layers.#.post_per_layer_input_norm", 0},
                                       {"blk.#.laurel_l", "layers.#.laurel.linear_left", 0},
                                       {"blk.#.laurel_r", "layers.#.laurel.linear_right", 0},
                                       {"blk.#.laurel_post_norm", "layers.#.laurel.post_laurel_norm", 0},
                                       {"blk.#.altup_router_norm", "layers.#.altup.router_norm", 0},
                                       {"blk.#.altup_router", "layers.#.altup.modality_router", 0},
                                       {"blk.#.altup_predict_coef", "layers.#.altup.prediction_coefs", 0},
                                       {"blk.#.altup_correct_coef", "layers.#.altup.correction_coefs", 0},
                                       {"blk.#.altup_correct_scale.weight", "layers.#.altup.correct_output_scale", 0},
                                       {0}};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {
    {"num_attention_heads", 8, NULL},         {"num_key_value_heads", 2, NULL}, {"head_dim", 256, NULL},
    {"max_position_embeddings", 32768, NULL}, {"rope_theta", 1e6, NULL},        {"final_logit_softcapping", 30, NULL},
    {"num_kv_shared_layers", 15, NULL},       {"tie_word_embeddings", 1, NULL}, {0}};
/* Layers that share keys and values may have their own all the same; the scale where it isn't used. */
static const char *const unused[] = {"layers.#.self_attn.k_proj.weight",
                                     "layers.#.self_attn.v_proj.weight",
                                     "layers.#.self_attn.k_norm.weight",
                                     "layers.#.altup.correct_output_scale",
                                     "blk.#.attn_k.weight",
                                     "blk.#.attn_v.weight",
                                     "blk.#.attn_k_norm.weight",
                                     NULL};
const tn_family tn_family_gemma3n = {.name = "gemma3n",
                                     .architectures = architectures,
                                     .model_types = model_types,
                                     .names = names,
                                     .defaults = defaults,
                                     .unused = unused,
                                     .configure = configure,
                                     .build = build_graph};
