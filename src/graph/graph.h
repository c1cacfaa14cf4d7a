/* The graph: ops and values of one model, with symbolic dims, before any device is chosen.
 *
 * A family builds it, passes rewrite it, emit turns it into programs. Ops stand in execution order; every value is
 * written by one op (or is a weight or a state). One graph serves prefill, decode, batches and verification.
 *
 * Errors are sticky: a builder call on a graph that has failed does nothing, so a family's code needs no checks; ask
 * tn_graph_status at the end. Everything a graph hands out lives in its arena until tn_graph_destroy. */
#ifndef TENON_GRAPH_GRAPH_H
#define TENON_GRAPH_GRAPH_H

#include <stdbool.h>
#include "base/error.h"
#include "base/memory.h"
#include "tenon/driver.h"

typedef uint32_t tn_ref; /* number of a value; TN_NO_VALUE is "none" */

/* What the host puts into an input of a specialised graph before each step. */
typedef enum tn_feed {
  TN_FEED_NONE = 0,
  TN_FEED_MASK = 1, /* of attention_masked: which columns are open under `window` */
  TN_FEED_ROPE = 2  /* the rope_table of `frequencies` and `magnitude` */
} tn_feed;

/* Weights keep where their values come from; states keep their group. */
typedef struct tn_graph_value {
  uint8_t kind, dtype, rank; /* tn_value_kind (everything computed is SCRATCH until emit), tn_dtype */
  int32_t dims[4];
  const char *name;
  const tn_weight_source *sources; /* weights */
  uint32_t source_count;
  uint32_t group; /* states: layer group */
  bool is_logits; /* the graph's result */
  /* made by specialise: */
  bool leaves;       /* an output of its program, whoever reads it */
  tn_ref columns[2]; /* states: the keys and values of the step's rows */
  uint8_t feed;      /* inputs: tn_feed, and what it needs */
  uint32_t window;
  tn_ref frequencies;
  float magnitude;
} tn_graph_value;

#define TN_MAX_ATTRIBUTE_BYTES 64

/* The layer of an op that belongs to none: it stands before the layers (embeddings, rope tables), or behind them (the
 * last norm, the head). */
#define TN_BEFORE_LAYERS (UINT32_MAX - 1)
#define TN_BEHIND_LAYERS UINT32_MAX

typedef struct tn_graph_op {
  uint16_t opcode;
  uint8_t input_count, output_count;
  tn_ref inputs[TN_MAX_OPERANDS], outputs[TN_MAX_OPERANDS];
  _Alignas(8) unsigned char attributes[TN_MAX_ATTRIBUTE_BYTES];
  const char *name; /* the layer's name, for people */
  uint32_t layer;   /* its number, or one of the two above */
  /* set by place: where it runs, and where it would if that device had all it needs */
  uint32_t device, wanted;
} tn_graph_op;

typedef struct tn_graph_group {
  uint32_t window; /* 0: full attention */
} tn_graph_group;

typedef struct tn_graph {
  tn_arena arena;
  tn_graph_value *values;
  size_t value_count, value_capacity;
  tn_graph_op *ops;
  size_t op_count, op_capacity;
  tn_graph_group groups[TN_MAX_GROUPS];
  uint32_t group_count;
  uint32_t kv_dtype;                                              /* of every KV state made from now on */
  uint32_t pinned_rows;                                           /* what specialise made of T; 0: nothing */
  uint32_t max_rows, max_sequences, max_logits_rows, max_context; /* maxima that memory is planned for */
  tn_ref logits;
  const char *layer_name; /* given to ops built from now on, as is the next */
  uint32_t layer;
  tn_error error;
} tn_graph;

/* An empty graph; NULL when memory is out. */
tn_graph *tn_graph_create(void);
void tn_graph_destroy(tn_graph *graph);
/* TN_OK, or the first error of the build, copied to *error. */
tn_status tn_graph_status(const tn_graph *graph, tn_error *error);
/* Records an error (the first one stays). */
__attribute__((format(printf, 3, 4))) void tn_graph_fail(tn_graph *graph, tn_status status, const char *format, ...);

/* Ops built from now on belong to layer `layer`. */
void tn_graph_begin_layer(tn_graph *graph, uint32_t layer);
/* Ops built from now on stand behind the layers, in the part of this name; copied. */
void tn_graph_end_layers(tn_graph *graph, const char *name);

/* ---- values ---- */
/* A weight of `rank` dims (slowest first) in source format `dtype`; sources are copied, the data they point to is not.
 */
tn_ref tn_graph_weight(tn_graph *graph, const char *name, uint32_t dtype, uint32_t rank, const uint64_t *dims,
                       const tn_weight_source *sources, uint32_t source_count);
/* A vector of f32 numbers computed by the family; the numbers are copied. */
tn_ref tn_graph_numbers(tn_graph *graph, const char *name, const float *numbers, uint32_t count);
/* The number of the layer group with this window, made if new. */
uint32_t tn_graph_group_of(tn_graph *graph, uint32_t window);
/* The KV pages of one layer. */
tn_ref tn_graph_kv(tn_graph *graph, const char *name, uint32_t group, uint32_t kv_heads, uint32_t key_dim,
                   uint32_t value_dim);
/* The memory of one recurrent layer: a matrix [key_dim, value_dim] in f32 for each head. */
tn_ref tn_graph_recurrent(tn_graph *graph, const char *name, uint32_t heads, uint32_t key_dim, uint32_t value_dim);
/* A computed value; used by passes and by the builder below. */
tn_ref tn_graph_scratch(tn_graph *graph, uint32_t dtype, int32_t rows, int32_t cols, const char *name);

static inline uint32_t tn_graph_cols(const tn_graph *graph, tn_ref value) {
  const tn_graph_value *v = graph->values + value;
  return (uint32_t)v->dims[v->rank - 1];
}

/* ---- ops ----
 * Each returns its output; shapes are those of ops.def. */
tn_ref tn_embed(tn_graph *graph, tn_ref table, tn_embed_source source, float scale);
tn_ref tn_select_rows(tn_graph *graph, tn_ref x);
tn_ref tn_linear(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref bias);
tn_ref tn_norm(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref bias, tn_norm_kind kind, uint32_t group, float epsilon);
tn_ref tn_add(tn_graph *graph, tn_ref a, tn_ref b);
tn_ref tn_mul(tn_graph *graph, tn_ref a, tn_ref b);
tn_ref tn_activate(tn_graph *graph, tn_ref x, tn_ref b, tn_activation activation);
tn_ref tn_scale(tn_graph *graph, tn_ref x, float value);
tn_ref tn_softcap(tn_graph *graph, tn_ref x, float cap);
tn_ref tn_slice(tn_graph *graph, tn_ref x, uint32_t begin, uint32_t cols);
tn_ref tn_rope_table(tn_graph *graph, tn_ref frequencies, float magnitude);
tn_ref tn_rope(tn_graph *graph, tn_ref x, tn_ref table, uint32_t head_dim, tn_rope_pairing pairing);
void tn_kv_write(tn_graph *graph, tn_ref k, tn_ref v, tn_ref kv);
tn_ref tn_attention(tn_graph *graph, tn_ref q, tn_ref kv, tn_ref sinks, uint32_t heads, float scale, float softcap);
/* Mixture of experts: weights [T, used] and, in *experts, whom they belong to. */
tn_ref tn_moe_route(tn_graph *graph, tn_ref scores, tn_ref bias, tn_ref expert_scale, uint32_t used,
                    const tn_moe_route_attributes *attributes, tn_ref *experts);
tn_ref tn_moe_linear(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref experts, tn_ref bias,
                     const tn_moe_linear_attributes *attributes);
tn_ref tn_moe_combine(tn_graph *graph, tn_ref y, tn_ref weights);
tn_ref tn_concat(tn_graph *graph, const tn_ref *parts, uint32_t count);
/* Recurrent layers; the states' sizes say the rest. */
tn_ref tn_short_conv(tn_graph *graph, tn_ref x, tn_ref weight, tn_ref state, tn_activation activation);
tn_ref tn_delta_rule(tn_graph *graph, tn_ref qkv, tn_ref a, tn_ref b, tn_ref decay, tn_ref dt, tn_ref state,
                     const tn_delta_rule_attributes *attributes);
tn_ref tn_head_linear(tn_graph *graph, tn_ref x, tn_ref weight, uint32_t pass);
/* Names the result: logits [R, vocabulary]. */
void tn_graph_set_logits(tn_graph *graph, tn_ref logits);

/* ---- for passes ---- */
/* Inserts an empty op at position `at`; NULL when memory is out. Invalidates op pointers. */
tn_graph_op *tn_graph_insert_op(tn_graph *graph, size_t at);
void tn_graph_remove_op(tn_graph *graph, size_t at);
/* How many op inputs read the value (the logits count one more). */
uint32_t tn_graph_uses(const tn_graph *graph, tn_ref value);
/* Position of the op that writes the value, or SIZE_MAX. */
size_t tn_graph_producer(const tn_graph *graph, tn_ref value);
/* Does the op run without the padding rows of a specialised graph? Those do that move a recurrent state on. */
bool tn_graph_unpadded(const tn_graph *graph, const tn_graph_op *op);
/* Fills a query for one op, for `supports` and shape checks. The rows of an unpadded op are T. */
void tn_graph_query(const tn_graph *graph, const tn_graph_op *op, tn_op_query *query);

/* ---- printing ---- */
void tn_graph_print(const tn_graph *graph, tn_buf *out); /* one op a line */
void tn_graph_dot(const tn_graph *graph, tn_buf *out);   /* Graphviz */

#endif
