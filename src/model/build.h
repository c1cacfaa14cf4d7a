/* What a family builds its graph with: weights bound by name and checked, and the blocks that families share. */
#ifndef TENON_MODEL_BUILD_H
#define TENON_MODEL_BUILD_H

#include "graph/graph.h"
#include "model/gguf.h"
#include "model/hyper.h"

typedef struct tn_build {
  tn_graph *graph;
  const tn_gguf *gguf;
  tn_gguf_use *use; /* tensors get marked as they are bound */
  const tn_hyper *hyper;
  tn_ref rope_table; /* made by tn_build_rope_table, read by tn_block_attention */
  tn_rope_pairing pairing;
} tn_build;

/* A family: the code that reads and builds one architecture. */
typedef struct tn_family {
  const char *name;
  const char *const *architectures; /* values of general.architecture, NULL behind the last */
  /* Reads and checks hyper-parameters; errors stick to the reader. */
  void (*configure)(tn_hyper_reader *reader, tn_hyper *hyper);
  /* Builds the whole graph, tn_graph_set_logits included; errors stick to the graph. */
  void (*build)(tn_build *build);
} tn_family;

/* The family of an architecture, or NULL. */
const tn_family *tn_family_of(tn_text architecture);
/* The names of all architectures known, comma separated, into `out`. */
void tn_family_list(char *out, size_t capacity);

/* ---- weights: names are GGUF tensor names, formatted ---- */

/* The matrix of exactly [rows, cols] (out, in features). The same name gives the same weight. */
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
/* Is there such a tensor? */
__attribute__((format(printf, 2, 3))) bool tn_build_has(const tn_build *build, const char *format, ...);

/* ---- blocks ---- */

/* cos and sin of every row's position for the rotary width, base and scaling of the hyper-parameters; a tensor
 * rope_freqs.weight, where the file has one, divides the frequencies. */
void tn_build_rope_table(tn_build *build);

/* q, k, v [T, heads * dim] -> attention output [T, heads * value_dim]: turned by the rope table where there is one,
 * written to the layer's KV pages, attended in full or in a window. */
tn_ref tn_block_attention(tn_build *build, uint32_t layer, tn_ref q, tn_ref k, tn_ref v, uint32_t window);

/* down(activation(gate x) * (up x)) with the layer's ffn_gate, ffn_up, ffn_down. */
tn_ref tn_block_gated_ffn(tn_build *build, uint32_t layer, tn_ref x, tn_activation activation);

/* The rows that want logits times the output matrix (output.weight, or token_embd.weight where the head is tied). */
void tn_build_head(tn_build *build, tn_ref x);

#endif
