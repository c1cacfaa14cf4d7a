/* qwen3next: Qwen3-Next, the layers of Qwen 3.5 with experts. A folder holds the projections of a recurrent layer fused
 * and grouped by key head (q, k, the group's v, its z; then b and a); GGUF has them apart, but for b and a. */
#include <stdio.h>
#include "model/build.h"
#include "model/experts.h"
#include "model/recurrent.h"

static void configure(tn_hyper_reader *reader, tn_hyper *hyper) {
  tn_hyper_read_common(reader, hyper);
  tn_hyper_read_rope(reader, hyper, NULL, &hyper->rope);
  uint32_t interval = tn_hyper_u32_or(reader, "full_attention_interval", "full_attention_interval", 4);
  tn_hyper_read_kinds(reader, hyper, "attention.recurrent_layers", TN_LAYER_RECURRENT, interval);
  tn_hyper_read_experts(reader, hyper);
  hyper->experts.normalise =
      tn_hyper_bool_or(reader, "expert_weights_norm", "norm_topk_prob", true); /* GGUF: the published ones have it */
  tn_hyper_ignore(reader, NULL, "mlp_only_layers");                            /* their layers have no router */
  tn_hyper_ignore(reader, NULL, "decoder_sparse_step");
  tn_recurrent_hyper *own = tn_hyper_own(reader, sizeof *own);
  if (reader->status != TN_OK) return;
  tn_hyper_read_recurrent(reader, own);
  hyper->own = own;
}

/* Of each key head's b and a, which lie in turn, the first or the second part. */
static tn_ref project_part(tn_build *build, tn_ref x, bool is_second, uint32_t layer) {
  const tn_recurrent_hyper *r = build->hyper->own;
  uint32_t group = r->value_heads / r->key_heads;
  tn_ref rows = tn_build_strided_rows(build, 2 * r->value_heads, build->hyper->width, is_second ? group : 0, group,
                                      2 * group, r->value_heads, "blk.%u.ssm_ba.weight", layer);
  return tn_linear(build->graph, x, rows, TN_NO_VALUE);
}

/* A run of rows of every key head's group. */
typedef struct row_run {
  uint32_t begin, count;
} row_run;

/* Rows of the fused projection as the weight that GGUF calls `name`: the first run of all groups, the second of all...
 */
static tn_ref project_runs(tn_build *build, tn_ref x, const row_run *runs, uint32_t run_count, const char *name,
                           uint32_t layer) {
  const tn_recurrent_hyper *r = build->hyper->own;
  uint32_t period = 2 * r->key_dim + 2 * (r->value_heads / r->key_heads) * r->value_dim;
  uint32_t count = 0, rows = r->key_heads * period, *map = tn_arena_array(&build->graph->arena, rows, sizeof *map);
  char made[40], fused[40];
  snprintf(made, sizeof made, "blk.%u.%s.weight", layer, name);
  snprintf(fused, sizeof fused, "blk.%u.attn_qkvz.weight", layer);
  for (uint32_t i = 0; i < run_count && map; i++)
    for (uint32_t k = 0; k < r->key_heads * runs[i].count; k++)
      map[count++] = k / runs[i].count * period + runs[i].begin + k % runs[i].count;
  if (!map) tn_graph_fail(build->graph, TN_E_MEMORY, "graph: out of memory");
  return tn_linear(build->graph, x, tn_build_mapped_rows(build, rows, build->hyper->width, map, count, made, fused),
                   TN_NO_VALUE);
}

static tn_ref recurrent_part(tn_build *build, tn_ref x, uint32_t layer) {
  const tn_recurrent_hyper *r = build->hyper->own;
  uint32_t k = r->key_dim, v = r->value_heads / r->key_heads * r->value_dim;
  tn_ref qkv, z;
  if (tn_container_is_folder(build->file)) {
    qkv = project_runs(build, x, (const row_run[]){{0, k}, {k, k}, {2 * k, v}}, 3, "attn_qkv", layer);
    z = project_runs(build, x, &(const row_run){2 * k + v, v}, 1, "attn_gate", layer);
  } else {
    qkv = tn_block_linear(build, x, r->key_heads * (2 * k + v), "attn_qkv", layer);
    z = tn_block_linear(build, x, r->key_heads * v, "attn_gate", layer);
  }
  tn_ref b = project_part(build, x, false, layer), a = project_part(build, x, true, layer);
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

static const char *const architectures[] = {"qwen3next", NULL};
static const char *const model_types[] = {"qwen3_next", NULL};
static const tn_tensor_name names[] = {
    {"output_norm", "norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_norm", "layers.#.input_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.post_attention_norm", "layers.#.post_attention_layernorm", TN_FORM_ADD_ONE},
    {"blk.#.attn_q_norm", "layers.#.self_attn.q_norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_k_norm", "layers.#.self_attn.k_norm", TN_FORM_ADD_ONE},
    {"blk.#.attn_qkvz", "layers.#.linear_attn.in_proj_qkvz", TN_FORM_MADE},
    {"blk.#.ssm_ba", "layers.#.linear_attn.in_proj_ba", 0},
    {"blk.#.ssm_conv1d", "layers.#.linear_attn.conv1d", 0},
    {"blk.#.ssm_a", "layers.#.linear_attn.A_log", TN_FORM_MADE},
    {"blk.#.ssm_dt.bias", "layers.#.linear_attn.dt_bias", 0},
    {"blk.#.ssm_norm", "layers.#.linear_attn.norm", 0},
    {"blk.#.ssm_out", "layers.#.linear_attn.out_proj", 0},
    {0}};
/* What config.json may leave out, as transformers has it. */
static const tn_default defaults[] = {{"head_dim", 256, NULL},
                                      {"partial_rotary_factor", 0.25, NULL},
                                      {"num_key_value_heads", 2, NULL},
                                      TN_RECURRENT_DEFAULTS,
                                      {0}};
const tn_family tn_family_qwen3next = {.name = "qwen3next",
                                       .architectures = architectures,
                                       .model_types = model_types,
                                       .names = names,
                                       .defaults = defaults,
                                       .configure = configure,
                                       .build = build_graph,
                                       .turns_part = true};
