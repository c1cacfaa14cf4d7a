/* What a family builds its graph with: weights bound by name and checked, and the blocks that families share. */
#ifndef TENON_MODEL_BUILD_H
#define TENON_MODEL_BUILD_H

#include "graph/graph.h"
#include "model/hyper.h"
#include "model/names.h"

typedef struct tn_build {
  tn_graph *graph;
  const tn_container *file;
  tn_container_use *use; /* tensors get marked as they are bound; NULL: nobody counts */
  const struct tn_family *family;
  const tn_hyper *hyper;
  uint32_t context;          /* positions the graph is for */
  tn_ref rope, rope_sliding; /* tables of full and of sliding layers, made by tn_build_decoder */
  tn_ref shared;             /* what a family computes once for all layers, if it does */
  struct tn_name_list *seen; /* gets the GGUF name of every tensor that is bound; NULL: nobody asks */
} tn_build;

/* Names in the order they were first asked for. */
typedef struct tn_name_list {
  char (*names)[TN_MAX_NAME];
  size_t count, capacity;
  bool failed; /* memory was out */
} tn_name_list;
void tn_build_note(tn_build *build, const char *name);

/* A number of config.json that a family's implementation has when the file doesn't. */
typedef struct tn_default {
  const char *name;
  double number;
  const char *model_type; /* only of these; NULL: of all */
} tn_default;

/* A family: the code that reads and builds one architecture, or a few that differ little. */
typedef struct tn_family {
  const char *name;
  const char *const *architectures; /* values of general.architecture in GGUF, NULL behind the last */
  const char *const *model_types;   /* values of model_type in config.json; NULL: no such form */
  const tn_tensor_name *names;      /* tensors of a folder whose names are not common; may be NULL */
  const char *const (*aliases)[2];  /* {usual, own} names in config.json; may be NULL */
  const tn_default *defaults;       /* what its config.json may leave out, NULL name behind the last; may be NULL */
  const char *const *unused; /* tensors (tn_name_matches, a folder's without their prefix) that may be there and are not
                                needed; may be NULL */
  /* Reads and checks hyper-parameters; errors stick to the reader. */
  void (*configure)(tn_hyper_reader *reader, tn_hyper *hyper);
  /* Builds the whole graph, tn_graph_set_logits included; errors stick to the graph. */
  void (*build)(tn_build *build);
  bool turns_part; /* config.json may have rotary positions turn a part of each head */
} tn_family;

/* The family of a GGUF architecture or of a model_type of config.json, or NULL. */
const tn_family *tn_family_of(tn_text name, bool is_folder);
/* The names of all architectures (model types) known, comma separated, into `out`. */
void tn_family_list(bool is_folder, char *out, size_t capacity);

/* ---- weights: names are GGUF tensor names, formatted; names.h translates for a folder ---- */

/* The matrix of exactly [rows, cols] (out, in features); one of one row may be stored as a vector. The same name gives
 * the same weight. */
__attribute__((format(printf, 4, 5))) tn_ref tn_build_matrix(tn_build *build, uint32_t rows, uint32_t cols,
                                                             const char *format, ...);
/* The vector of exactly `count` values. */
__attribute__((format(printf, 3, 4))) tn_ref tn_build_vector(tn_build *build, uint32_t count, const char *format, ...);
/* Rows [begin, begin + count) of the matrix of exactly [rows, cols], as a weight of its own; and the same of a vector.
 */
__attribute__((format(printf, 6, 7))) tn_ref tn_build_rows(tn_build *build, uint32_t rows, uint32_t cols,
                                                           uint32_t begin, uint32_t count, const char *format, ...);
__attribute__((format(printf, 5, 6))) tn_ref tn_build_slice(tn_build *build, uint32_t total, uint32_t begin,
                                                            uint32_t count, const char *format, ...);
/* Every `period`-th run of `run` rows from row `begin` on (`count` rows in all) of the matrix of exactly [rows, cols]:
 * what belongs together where a projection holds its parts head by head. */
__attribute__((format(printf, 8, 9))) tn_ref tn_build_strided_rows(tn_build *build, uint32_t rows, uint32_t cols,
                                                                   uint32_t begin, uint32_t run, uint32_t period,
                                                                   uint32_t count, const char *format, ...);
/* The table of [rows, cols] of which the file may have fewer rows, or more: those that are missing are its first. */
__attribute__((format(printf, 4, 5))) tn_ref tn_build_table(tn_build *build, uint32_t rows, uint32_t cols,
                                                            const char *format, ...);
/* Matrix `index` of the tensor of exactly [count, rows, cols]; or of the tensors, where there is one for each. */
__attribute__((format(printf, 6, 7))) tn_ref tn_build_cube_part(tn_build *build, uint32_t count, uint32_t rows,
                                                                uint32_t cols, uint32_t index, const char *format, ...);
/* The weight of exactly [count, rows, cols]: a matrix for each of `count` heads. */
__attribute__((format(printf, 5, 6))) tn_ref tn_build_cube(tn_build *build, uint32_t count, uint32_t rows,
                                                           uint32_t cols, const char *format, ...);
/* Rows map[0], map[1], ... (`count`, the map stays) of the matrix `name` of exactly [rows, cols], as the weight `made`,
 * which GGUF has under that name. */
tn_ref tn_build_mapped_rows(tn_build *build, uint32_t rows, uint32_t cols, const uint32_t *map, uint32_t count,
                            const char *made, const char *name);
/* Some rows of every head of a matrix [heads * total, cols]. */
typedef struct tn_head_rows {
  uint32_t total, begin, count; /* rows of a head; those taken */
  bool transposed;              /* each head's part is taken transposed, [cols, count] */
} tn_head_rows;
/* A weight [heads, count, cols] (transposed: [heads, cols, count]) of the matrix `name`; `made` as above. */
tn_ref tn_build_head_rows(tn_build *build, uint32_t heads, uint32_t cols, const tn_head_rows *part, const char *made,
                          const char *name);
/* All `count` values of a tensor of any shape, in order, as a vector. */
__attribute__((format(printf, 3, 4))) tn_ref tn_build_flat(tn_build *build, uint32_t count, const char *format, ...);
/* Decodes the `count` values of a small tensor into `out`; false with the graph failed. */
__attribute__((format(printf, 4, 5))) bool tn_build_read(tn_build *build, uint32_t count, float *out,
                                                         const char *format, ...);
/* The tensor called `gguf` in GGUF, where there is one for each that of `expert`, marked as used; NULL with the graph
 * failed. */
const tn_file_tensor *tn_build_tensor(tn_build *build, const char *gguf, uint32_t expert, uint32_t *form);
/* Are the tensor's values those of weights: numbers with a fraction, or blocks? False with the graph failed. */
bool tn_build_is_weight(tn_build *build, const tn_file_tensor *tensor);
/* Is there such a tensor? */
__attribute__((format(printf, 2, 3))) bool tn_build_has(const tn_build *build, const char *format, ...);

/* ---- blocks (block.c): parts of layer `layer` by the names blk.LAYER.NAME ---- */

/* x W^T with NAME.weight [rows, width of x], plus NAME.bias where the file has one. */
tn_ref tn_block_linear(tn_build *build, tn_ref x, uint32_t rows, const char *name, uint32_t layer);
/* The same with rows [begin, begin + count) of NAME.weight and NAME.bias, which have `total`. */
tn_ref tn_block_linear_rows(tn_build *build, tn_ref x, uint32_t total, uint32_t begin, uint32_t count, const char *name,
                            uint32_t layer);
/* RMS norm (or what the family's norm_kind says, with NAME.bias) of the rows with NAME.weight. */
tn_ref tn_block_norm(tn_build *build, tn_ref x, const char *name, uint32_t layer);
/* RMS norm of every run of `group` values with NAME.weight [group]. */
tn_ref tn_block_head_norm(tn_build *build, tn_ref x, uint32_t group, const char *name, uint32_t layer);

/* RMS norm of every run of `group` values (0: of the row) without a weight. */
tn_ref tn_block_plain_norm(tn_build *build, tn_ref x, uint32_t group);

/* Attention of one layer. */
typedef struct tn_attention_block {
  uint32_t heads, kv_heads, key_dim, value_dim;
  uint32_t window; /* 0: full */
  float scale, softcap;
  tn_ref rope;   /* table, or none */
  tn_ref sinks;  /* [heads], or none */
  bool low_rank; /* keys and values are a latent that all heads unfold: f16 where KV is asked for in int8 */
} tn_attention_block;
/* What the hyper-parameters say of the layer's. */
tn_attention_block tn_block_attention_of(const tn_build *build, uint32_t layer);
/* q, k, v [T, heads * dim] -> attention output [T, heads * value_dim]: turned, written to the layer's KV pages,
 * attended. */
tn_ref tn_block_attend(tn_build *build, uint32_t layer, tn_ref q, tn_ref k, tn_ref v, const tn_attention_block *a);
/* The same for a layer that reads the keys and values of layer `kv_layer`, of the same kind. */
tn_ref tn_block_attend_shared(tn_build *build, uint32_t kv_layer, tn_ref q, const tn_attention_block *a);
/* attn_q, attn_k, attn_v of x, their norms where the family has them, attention, attn_output. */
tn_ref tn_block_attention(tn_build *build, tn_ref x, uint32_t layer, const tn_attention_block *a);

/* down(activation(gate x) * (up x)) with the layer's ffn_gate, ffn_up, ffn_down of width `ffn`. */
tn_ref tn_block_gated_ffn(tn_build *build, tn_ref x, uint32_t ffn, uint32_t layer);
/* x plus y times the residual scale. */
tn_ref tn_block_residual(tn_build *build, tn_ref x, tn_ref y);
/* The block of most: x += attention(attn_norm x), x += ffn(ffn_norm x), experts where the layer has them. */
tn_ref tn_block_pre_norm(tn_build *build, tn_ref x, uint32_t layer);
/* The same with a norm behind each part as well: x += post_attention_norm(attention(attn_norm x)),
 * x += post_ffw_norm(ffn(ffn_norm x)). */
tn_ref tn_block_pre_post_norm(tn_build *build, tn_ref x, uint32_t layer);

/* The embedding of every row's token, times its scale. */
tn_ref tn_build_embedding(tn_build *build);
/* All layers by `block`, with the rope tables that they use. */
tn_ref tn_build_layers(tn_build *build, tn_ref x, tn_ref (*block)(tn_build *build, tn_ref x, uint32_t layer));
/* The output norm and the head of x; names the logits. */
void tn_build_head(tn_build *build, tn_ref x);
/* All layers by `block`, the output norm and the head (output.weight, or the embedding where it is tied). */
void tn_build_decoder(tn_build *build, tn_ref x, tn_ref (*block)(tn_build *build, tn_ref x, uint32_t layer));

#endif
