/* Shape rules: one function an op, by the name ops.def gives it.
 *
 * A rule sees the operands of one op, dims possibly symbolic, and says whether they fit together. It knows nothing of
 * memory. */
#include <stdbool.h>
#include "program/line.h"
#include "tenon/driver.h"

typedef struct rule_call {
  const tn_op_query *query;
  const tn_value_desc *in, *out;
  tn_line *why;
} rule_call;

static bool refuse(rule_call *call, const char *why) {
  tn_line_put(call->why, why);
  return false;
}

static bool is_float(const tn_value_desc *value) {
  return value->dtype == TN_F32;
}
static bool is_weight(const tn_value_desc *value) {
  return value->kind == TN_VALUE_WEIGHT;
}

/* A matrix of activations [rows, cols] in f32. */
static bool is_rows(const tn_value_desc *value) {
  return value->rank == 2 && is_float(value) && value->dims[1] > 0;
}

/* A matrix of what linears take. */
static bool is_activations(const tn_value_desc *value) {
  return value->rank == 2 && (is_float(value) || value->dtype == TN_Q8A || value->dtype == TN_BF16) &&
         value->dims[1] > 0;
}

/* A vector weight of `count` values. */
static bool is_vector(const tn_value_desc *value, int32_t count) {
  return is_weight(value) && value->rank == 1 && value->dims[0] == count;
}

/* Token rows: T, or their number where a program is made for one. */
static bool is_token_rows(int32_t dim) {
  return dim == TN_DIM_T || dim > 0;
}

static bool same_shape(const tn_value_desc *a, const tn_value_desc *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* x[M,K] -> y[M,K], both f32. */
static bool elementwise(rule_call *call) {
  if (!is_rows(&call->in[0])) return refuse(call, "input 0 must be f32 [rows, cols]");
  if (!is_float(&call->out[0]) || !same_shape(&call->in[0], &call->out[0]))
    return refuse(call, "output must have the shape of input 0");
  return true;
}

static bool tn_shape_embed(rule_call *call) {
  const tn_embed_attributes *attributes = call->query->attributes;
  if (!is_weight(&call->in[0]) || call->in[0].rank != 2) return refuse(call, "input 0 must be a weight [V, K]");
  if (!is_rows(&call->out[0]) || !is_token_rows(call->out[0].dims[0]) || call->out[0].dims[1] != call->in[0].dims[1])
    return refuse(call, "output must be f32 [T, K]");
  if (attributes->source > TN_EMBED_POSITION) return refuse(call, "unknown source");
  return true;
}

static bool tn_shape_select_rows(rule_call *call) {
  if (!is_rows(&call->in[0]) || !is_token_rows(call->in[0].dims[0])) return refuse(call, "input must be f32 [T, K]");
  if (!is_rows(&call->out[0]) || call->out[0].dims[0] != TN_DIM_R || call->out[0].dims[1] != call->in[0].dims[1])
    return refuse(call, "output must be f32 [R, K]");
  return true;
}

static bool tn_shape_linear(rule_call *call) {
  const tn_linear_attributes *attributes = call->query->attributes;
  const tn_value_desc *x = &call->in[0], *w = &call->in[1], *bias = &call->in[2], *residual = &call->in[3];
  if (!is_activations(x)) return refuse(call, "x must be f32, q8a or bf16 [M, K]");
  if (!is_weight(w) || w->rank != 2) return refuse(call, "W must be a weight [N, K]");
  if (w->dims[1] != x->dims[1]) return refuse(call, "x and W disagree in K");
  if (attributes->activation > TN_ACTIVATION_TANH) return refuse(call, "unknown activation");
  if (attributes->gated > 1) return refuse(call, "gated must be 0 or 1");
  int64_t columns = 0;
  for (uint32_t i = 0; i < call->query->output_count; i++) {
    const tn_value_desc *y = &call->out[i];
    if (!is_rows(y) || y->dims[0] != x->dims[0]) return refuse(call, "outputs must be f32 [M, N]");
    columns += y->dims[1];
  }
  if (attributes->gated) columns *= 2;
  if (columns != w->dims[0]) return refuse(call, "the outputs' widths do not add up to the rows of W");
  if (bias->present && !is_vector(bias, w->dims[0])) return refuse(call, "bias must be a weight [rows of W]");
  if (residual->present) {
    if (call->query->output_count != 1) return refuse(call, "a residual goes with one output");
    if (!is_float(residual) || !same_shape(residual, &call->out[0]))
      return refuse(call, "residual must have the shape of the output");
  }
  return true;
}

static bool tn_shape_norm(rule_call *call) {
  const tn_norm_attributes *attributes = call->query->attributes;
  if (!is_rows(&call->in[0])) return refuse(call, "x must be f32 [M, K]");
  if ((call->out[0].dtype != TN_F32 && call->out[0].dtype != TN_Q8A) || !same_shape(&call->in[0], &call->out[0]))
    return refuse(call, "output must be f32 or q8a with the shape of x");
  if (attributes->kind > TN_NORM_LAYER) return refuse(call, "unknown kind");
  int32_t cols = call->in[0].dims[1];
  int32_t group = attributes->group ? (int32_t)attributes->group : cols;
  if (group <= 0 || cols % group) return refuse(call, "the row is not a whole number of groups");
  for (uint32_t i = 1; i < 3; i++)
    if (call->in[i].present && !is_vector(&call->in[i], group) && !is_vector(&call->in[i], cols))
      return refuse(call, "weight and bias must have a value for each of the group or of the row");
  if (!(attributes->epsilon >= 0)) return refuse(call, "epsilon must not be negative");
  return true;
}

static bool binary(rule_call *call, bool single) {
  if (!elementwise(call)) return false;
  const tn_value_desc *b = &call->in[1];
  if (is_weight(b) ? is_vector(b, call->in[0].dims[1]) || (single && is_vector(b, 1))
                   : is_float(b) && same_shape(b, &call->in[0]))
    return true;
  return refuse(call, "input 1 must have the shape of input 0 or be a weight of its width");
}

static bool tn_shape_add(rule_call *call) {
  return binary(call, false);
}
static bool tn_shape_mul(rule_call *call) {
  return binary(call, true);
}

static bool tn_shape_activation(rule_call *call) {
  const tn_activation_attributes *attributes = call->query->attributes;
  if (!elementwise(call)) return false;
  if (attributes->activation > TN_ACTIVATION_TANH) return refuse(call, "unknown activation");
  const tn_value_desc *b = &call->in[1];
  if (b->present && (!is_float(b) || !same_shape(b, &call->in[0]))) return refuse(call, "b must have the shape of x");
  return true;
}

static bool tn_shape_scale(rule_call *call) {
  return elementwise(call);
}

static bool tn_shape_softcap(rule_call *call) {
  const tn_scalar_attributes *attributes = call->query->attributes;
  if (!(attributes->value > 0)) return refuse(call, "the cap must be positive");
  return elementwise(call);
}

static bool tn_shape_quantise(rule_call *call) {
  if (!is_rows(&call->in[0])) return refuse(call, "x must be f32 [M, K]");
  if ((call->out[0].dtype != TN_Q8A && call->out[0].dtype != TN_BF16) || !same_shape(&call->in[0], &call->out[0]))
    return refuse(call, "output must be q8a or bf16 with the shape of x");
  return true;
}

static bool tn_shape_slice(rule_call *call) {
  const tn_slice_attributes *attributes = call->query->attributes;
  if (!is_rows(&call->in[0]) || !is_rows(&call->out[0]) || call->out[0].dims[0] != call->in[0].dims[0])
    return refuse(call, "operands must be f32 [M, K] and [M, N]");
  if ((int64_t)attributes->begin + call->out[0].dims[1] > call->in[0].dims[1])
    return refuse(call, "columns past the end of x");
  return true;
}

static bool tn_shape_concat(rule_call *call) {
  int64_t columns = 0;
  for (uint32_t i = 0; i < call->query->input_count; i++) {
    if (!is_rows(&call->in[i]) || call->in[i].dims[0] != call->out[0].dims[0])
      return refuse(call, "inputs must be f32 [M, K]");
    columns += call->in[i].dims[1];
  }
  if (!is_rows(&call->out[0]) || call->out[0].dims[1] != columns)
    return refuse(call, "the inputs' widths do not add up to the output's");
  return true;
}

static bool tn_shape_rope_table(rule_call *call) {
  const tn_rope_table_attributes *attributes = call->query->attributes;
  if (!attributes->rotary || attributes->rotary % 2) return refuse(call, "rotary must be even and positive");
  if (!is_vector(&call->in[0], (int32_t)(attributes->rotary / 2)))
    return refuse(call, "frequencies must be a weight [rotary / 2]");
  if (!is_rows(&call->out[0]) || !is_token_rows(call->out[0].dims[0]) ||
      call->out[0].dims[1] != (int32_t)attributes->rotary)
    return refuse(call, "output must be f32 [T, rotary]");
  return true;
}

static bool is_rope_table(const tn_value_desc *table, int32_t rows, uint32_t rotary) {
  return is_rows(table) && table->dims[0] == rows && table->dims[1] == (int32_t)rotary;
}

static bool tn_shape_rope(rule_call *call) {
  const tn_rope_attributes *attributes = call->query->attributes;
  if (!elementwise(call)) return false;
  if (!is_token_rows(call->in[0].dims[0])) return refuse(call, "x must have T rows");
  if (!attributes->head_dim || call->in[0].dims[1] % (int32_t)attributes->head_dim)
    return refuse(call, "the row is not a whole number of heads");
  if (!attributes->rotary || attributes->rotary % 2 || attributes->rotary > attributes->head_dim)
    return refuse(call, "rotary must be even, positive and at most the head's size");
  if (attributes->pairing > TN_ROPE_ADJACENT) return refuse(call, "unknown pairing");
  if (!is_rope_table(&call->in[1], call->in[0].dims[0], attributes->rotary))
    return refuse(call, "table must be f32 [T, rotary]");
  return true;
}

/* A KV state of these heads. */
static bool has_heads(const tn_value_desc *state, uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim) {
  return state->kind == TN_VALUE_STATE && state->rank == 4 && state->dims[0] == (int32_t)kv_heads &&
         state->dims[1] == (int32_t)key_dim && state->dims[2] == (int32_t)value_dim;
}

/* The same in pages. */
static bool is_kv(const tn_value_desc *state, uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim) {
  return has_heads(state, kv_heads, key_dim, value_dim) && state->dims[3] == (int32_t)TN_PAGE_SLOTS;
}

/* The columns of `rows` new rows, head after head. */
static bool are_columns(const tn_value_desc *columns, uint32_t kv_heads, int64_t rows, uint32_t dim) {
  return columns->rank == 2 && columns->dims[0] == (int32_t)kv_heads && columns->dims[1] == rows * (int64_t)dim;
}

static bool tn_shape_kv_write(rule_call *call) {
  const tn_kv_write_attributes *a = call->query->attributes;
  if (!a->kv_heads || !a->key_dim || !a->value_dim || a->group >= TN_MAX_GROUPS)
    return refuse(call, "heads, dims or group out of range");
  if (!is_kv(&call->in[2], a->kv_heads, a->key_dim, a->value_dim))
    return refuse(call, "the state does not have these heads");
  if (!is_rows(&call->in[0]) || call->in[0].dims[0] != TN_DIM_T ||
      call->in[0].dims[1] != (int64_t)a->kv_heads * a->key_dim)
    return refuse(call, "k must be f32 [T, kv heads * key dim]");
  if (!is_rows(&call->in[1]) || call->in[1].dims[0] != TN_DIM_T ||
      call->in[1].dims[1] != (int64_t)a->kv_heads * a->value_dim)
    return refuse(call, "v must be f32 [T, kv heads * value dim]");
  if (a->rotary % 2 || a->rotary > a->key_dim || a->pairing > TN_ROPE_ADJACENT)
    return refuse(call, "rotary must be even and at most the key's size");
  if ((a->rotary > 0) != (call->in[3].present != 0)) return refuse(call, "a rope table goes with rotary > 0");
  if (a->rotary && !is_rope_table(&call->in[3], TN_DIM_T, a->rotary))
    return refuse(call, "table must be f32 [T, rotary]");
  return true;
}

static bool tn_shape_attention(rule_call *call) {
  const tn_attention_attributes *a = call->query->attributes;
  if (!a->heads || !a->kv_heads || a->heads % a->kv_heads || a->group >= TN_MAX_GROUPS)
    return refuse(call, "heads must be a multiple of kv heads");
  if (!is_kv(&call->in[1], a->kv_heads, a->key_dim, a->value_dim))
    return refuse(call, "the state does not have these heads");
  if (!is_rows(&call->in[0]) || call->in[0].dims[0] != TN_DIM_T ||
      call->in[0].dims[1] != (int64_t)a->heads * a->key_dim)
    return refuse(call, "q must be f32 [T, heads * key dim]");
  if (!is_rows(&call->out[0]) || call->out[0].dims[0] != TN_DIM_T ||
      call->out[0].dims[1] != (int64_t)a->heads * a->value_dim)
    return refuse(call, "output must be f32 [T, heads * value dim]");
  if (call->in[2].present && !is_vector(&call->in[2], (int32_t)a->heads))
    return refuse(call, "sinks must be a weight [heads]");
  if (!(a->softcap >= 0)) return refuse(call, "softcap must not be negative");
  return true;
}

static bool tn_shape_kv_columns(rule_call *call) {
  const tn_kv_write_attributes *a = call->query->attributes;
  const tn_value_desc *k = &call->in[0], *v = &call->in[1], *keys = &call->out[0], *values = &call->out[1];
  int64_t rows = k->dims[0];
  if (!a->kv_heads || !a->key_dim || !a->value_dim) return refuse(call, "heads or dims out of range");
  if (!is_rows(k) || rows <= 0 || k->dims[1] != (int64_t)a->kv_heads * a->key_dim)
    return refuse(call, "k must be f32 [rows, kv heads * key dim], rows a number");
  if (!is_rows(v) || v->dims[0] != rows || v->dims[1] != (int64_t)a->kv_heads * a->value_dim)
    return refuse(call, "v must be f32 [rows, kv heads * value dim]");
  if (call->query->output_count != 2 || !are_columns(keys, a->kv_heads, rows, a->key_dim) ||
      !are_columns(values, a->kv_heads, rows, a->value_dim) || keys->dtype != values->dtype || keys->dtype == TN_I8)
    return refuse(call, "outputs must be [kv heads, rows * dim] of one type, not int8");
  if (a->rotary % 2 || a->rotary > a->key_dim || a->pairing > TN_ROPE_ADJACENT)
    return refuse(call, "rotary must be even and at most the key's size");
  if ((a->rotary > 0) != (call->in[2].present != 0)) return refuse(call, "a rope table goes with rotary > 0");
  if (a->rotary && !is_rope_table(&call->in[2], k->dims[0], a->rotary))
    return refuse(call, "table must be f32 [rows, rotary]");
  return true;
}

static bool tn_shape_attention_masked(rule_call *call) {
  const tn_attention_attributes *a = call->query->attributes;
  const tn_value_desc *q = &call->in[0], *state = &call->in[3], *mask = &call->in[4], *y = &call->out[0];
  int64_t rows = q->dims[0];
  if (!a->heads || !a->kv_heads || a->heads % a->kv_heads) return refuse(call, "heads must be a multiple of kv heads");
  if (a->window) return refuse(call, "the mask says what a window closes");
  if (!is_rows(q) || rows <= 0 || q->dims[1] != (int64_t)a->heads * a->key_dim)
    return refuse(call, "q must be f32 [rows, heads * key dim], rows a number");
  if (state->dtype != call->in[1].dtype || state->dtype != call->in[2].dtype ||
      !are_columns(&call->in[1], a->kv_heads, rows, a->key_dim) ||
      !are_columns(&call->in[2], a->kv_heads, rows, a->value_dim))
    return refuse(call, "keys and values must be [kv heads, rows * dim] in the state's type");
  if (state->dtype == TN_I8) return refuse(call, "int8 KV is there in pages only");
  if (!has_heads(state, a->kv_heads, a->key_dim, a->value_dim) || state->dims[3] <= 0)
    return refuse(call, "the state does not have these heads");
  if (!is_rows(mask) || mask->dims[0] != rows || mask->dims[1] != (int64_t)state->dims[3] + rows)
    return refuse(call, "mask must be f32 [rows, slots + rows]");
  if (!is_rows(y) || y->dims[0] != rows || y->dims[1] != (int64_t)a->heads * a->value_dim)
    return refuse(call, "output must be f32 [rows, heads * value dim]");
  if (call->in[5].present && !is_vector(&call->in[5], (int32_t)a->heads))
    return refuse(call, "sinks must be a weight [heads]");
  if (!(a->softcap >= 0)) return refuse(call, "softcap must not be negative");
  return true;
}

/* Experts chosen for the rows of x: i32 [M, U]. */
static bool is_choice(const tn_value_desc *experts, int32_t rows) {
  return experts->rank == 2 && experts->dtype == TN_I32 && experts->dims[0] == rows && experts->dims[1] > 0;
}

static bool tn_shape_moe_route(rule_call *call) {
  const tn_moe_route_attributes *a = call->query->attributes;
  const tn_value_desc *x = &call->in[0], *weights = &call->out[0], *experts = &call->out[1];
  if (!is_rows(x) || x->dims[1] > (int32_t)TN_MAX_EXPERTS) return refuse(call, "x must be f32 [M, experts]");
  if (call->query->output_count != 2 || !is_rows(weights) || weights->dims[0] != x->dims[0] ||
      weights->dims[1] > x->dims[1])
    return refuse(call, "weights must be f32 [M, chosen experts]");
  if (!is_choice(experts, x->dims[0]) || experts->dims[1] != weights->dims[1])
    return refuse(call, "experts must be i32 with the shape of the weights");
  for (uint32_t i = 1; i < 3; i++)
    if (call->in[i].present && !is_vector(&call->in[i], x->dims[1]))
      return refuse(call, "bias and scale must be weights [experts]");
  if (a->scoring > TN_MOE_SOFTMAX_OF_CHOSEN || a->normalise > 1) return refuse(call, "unknown scoring");
  if (a->groups > 1 && ((uint32_t)x->dims[1] % a->groups || !a->groups_used || a->groups_used > a->groups ||
                        (uint64_t)weights->dims[1] > (uint64_t)x->dims[1] / a->groups * a->groups_used))
    return refuse(call, "the groups do not divide the experts or hold too few");
  return true;
}

static bool tn_shape_moe_linear(rule_call *call) {
  const tn_moe_linear_attributes *a = call->query->attributes;
  const tn_value_desc *x = &call->in[0], *w = &call->in[1], *experts = &call->in[2], *y = &call->out[0];
  if (!is_activations(x)) return refuse(call, "x must be f32, q8a or bf16 [M, K]");
  if (!is_choice(experts, x->dims[0])) return refuse(call, "experts must be i32 [M, chosen experts]");
  if (!is_weight(w) || w->rank != 3 || w->dims[0] > (int32_t)TN_MAX_EXPERTS)
    return refuse(call, "W must be a weight [experts, N, K]");
  if (a->each > 1 || a->gated > 1 || a->activation > TN_ACTIVATION_TANH) return refuse(call, "unknown attribute");
  if (x->dims[1] != (int64_t)w->dims[2] * (a->each ? experts->dims[1] : 1))
    return refuse(call, "x and W disagree in K");
  if (a->each && x->dtype == TN_Q8A && w->dims[2] % (int32_t)TN_Q8A_BLOCK)
    return refuse(call, "the parts of a q8a x must be whole blocks");
  if (a->gated && w->dims[1] % 2) return refuse(call, "a gated W must have an even number of rows");
  int64_t columns = a->gated ? w->dims[1] / 2 : w->dims[1];
  if (!is_rows(y) || y->dims[0] != x->dims[0] || y->dims[1] != columns * experts->dims[1])
    return refuse(call, "output must be f32 [M, chosen experts * N]");
  if (!(a->limit >= 0) || (a->limit > 0 && !a->gated)) return refuse(call, "a limit goes with a gate");
  const tn_value_desc *bias = &call->in[3];
  if (bias->present && (!is_weight(bias) || bias->rank != 1 || bias->dims[0] != (int64_t)w->dims[0] * w->dims[1]))
    return refuse(call, "bias must be a weight [experts * N]");
  return true;
}

static bool tn_shape_moe_combine(rule_call *call) {
  const tn_value_desc *y = &call->in[0], *weights = &call->in[1], *z = &call->out[0];
  if (!is_rows(y) || !is_rows(weights) || !is_rows(z)) return refuse(call, "operands must be f32 [M, K]");
  if (weights->dims[0] != y->dims[0] || z->dims[0] != y->dims[0])
    return refuse(call, "operands must have the same rows");
  if ((int64_t)z->dims[1] * weights->dims[1] != y->dims[1])
    return refuse(call, "the parts of y must have the output's width");
  return true;
}

/* A recurrent state of `heads` matrices. */
static bool is_recurrent(const tn_value_desc *state, int64_t heads, int64_t key_dim, int64_t value_dim) {
  return state->kind == TN_VALUE_STATE && is_float(state) && state->rank == 3 && state->dims[0] == heads &&
         state->dims[1] == key_dim && state->dims[2] == value_dim;
}

static bool tn_shape_short_conv(rule_call *call) {
  const tn_short_conv_attributes *a = call->query->attributes;
  if (!elementwise(call)) return false;
  int64_t channels = call->in[0].dims[1];
  if (call->in[0].dims[0] != TN_DIM_T) return refuse(call, "x must have T rows");
  if (a->taps < 2 || a->taps > 64 || a->activation > TN_ACTIVATION_TANH) return refuse(call, "taps must be 2 .. 64");
  if (!is_weight(&call->in[1]) || call->in[1].rank != 1 || call->in[1].dims[0] != channels * a->taps)
    return refuse(call, "W must be a weight [channels * taps]");
  if (!is_recurrent(&call->in[2], 1, (int64_t)a->taps - 1, channels))
    return refuse(call, "the state must be f32 [1, taps - 1, channels]");
  return true;
}

static bool tn_shape_delta_rule(rule_call *call) {
  const tn_delta_rule_attributes *a = call->query->attributes;
  if (!a->key_heads || !a->value_heads || a->value_heads % a->key_heads || !a->key_dim || !a->value_dim ||
      a->value_heads > 4096 || a->key_dim > 4096 || a->value_dim > 4096 || a->tiled > 1 || !(a->epsilon >= 0))
    return refuse(call, "heads or dims out of range");
  int64_t key_width = (int64_t)a->key_heads * a->key_dim, value_width = (int64_t)a->value_heads * a->value_dim;
  const int64_t widths[] = {2 * key_width + value_width, a->value_heads, a->value_heads};
  for (uint32_t i = 0; i < 3; i++)
    if (!is_rows(&call->in[i]) || call->in[i].dims[0] != TN_DIM_T || call->in[i].dims[1] != widths[i])
      return refuse(call, "qkv, a and b must be f32 [T, ..] of the heads' widths");
  for (uint32_t i = 3; i < 5; i++)
    if (!is_vector(&call->in[i], (int32_t)a->value_heads))
      return refuse(call, "A and dt must be weights [value heads]");
  if (!is_recurrent(&call->in[5], a->value_heads, a->key_dim, a->value_dim))
    return refuse(call, "the state must be f32 [value heads, key dim, value dim]");
  if (!is_rows(&call->out[0]) || call->out[0].dims[0] != TN_DIM_T || call->out[0].dims[1] != value_width)
    return refuse(call, "output must be f32 [T, value heads * value dim]");
  return true;
}

static bool tn_shape_head_linear(rule_call *call) {
  const tn_head_linear_attributes *a = call->query->attributes;
  const tn_value_desc *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
  if (!is_activations(x) || !is_rows(y) || x->dims[0] != y->dims[0])
    return refuse(call, "x must be f32, q8a or bf16 [M, ..], the output f32");
  if (a->pass && !is_float(x)) return refuse(call, "values are passed on of an f32 x");
  if (!is_weight(w) || w->rank != 3) return refuse(call, "W must be a weight [heads, N, K]");
  if (x->dims[1] != w->dims[0] * ((int64_t)w->dims[2] + a->pass)) return refuse(call, "x must be [M, heads * (K + P)]");
  if (x->dtype == TN_Q8A && w->dims[2] % (int32_t)TN_Q8A_BLOCK)
    return refuse(call, "the heads of a q8a x must be whole blocks");
  if (y->dims[1] != w->dims[0] * ((int64_t)w->dims[1] + a->pass))
    return refuse(call, "output must be [M, heads * (P + N)]");
  return true;
}

static bool check_values(rule_call *call, const tn_op_info *info) {
  const tn_op_query *query = call->query;
  if (query->input_count < info->min_inputs || query->input_count > info->max_inputs)
    return refuse(call, "wrong number of inputs");
  if (query->output_count > info->max_outputs || (info->max_outputs && !query->output_count))
    return refuse(call, "wrong number of outputs");
  if (query->attribute_bytes < info->attribute_bytes) return refuse(call, "attributes too short");
  for (uint32_t i = 0; i < query->input_count + query->output_count; i++) {
    bool is_input = i < query->input_count;
    const tn_value_desc *value = is_input ? &call->in[i] : &call->out[i - query->input_count];
    if (!value->present) {
      if (is_input && i >= info->min_inputs) continue;
      return refuse(call, "a required operand is absent");
    }
    if (value->dtype >= TN_DTYPE_COUNT || value->rank < 1 || value->rank > 4) return refuse(call, "bad operand");
    for (uint32_t d = 0; d < value->rank; d++)
      if (value->dims[d] == 0 || value->dims[d] < TN_DIM_C) return refuse(call, "bad dimension");
  }
  return true;
}

tn_status tn_shape_check(const tn_op_query *query, char *message, uint64_t capacity) {
  static bool (*const rules[TN_OP_LIMIT])(rule_call *) = {
#define TN_OP(number, NAME, name, revision, min_in, max_in, max_out, attributes, tolerance, text) \
  [number] = tn_shape_##name,
#include "tenon/ops.def"
#undef TN_OP
  };
  tn_line why = tn_line_begin(message, capacity);
  const tn_op_info *info = tn_op_info_of(query->opcode);
  if (!info) {
    tn_line_put(&why, "unknown opcode ");
    tn_line_number(&why, query->opcode);
    return TN_E_INVALID;
  }
  tn_line_put(&why, info->name);
  tn_line_put(&why, ": ");
  rule_call call = {query, query->inputs, query->outputs, &why};
  if (query->revision > info->revision) {
    tn_line_put(&why, "revision newer than this build's");
    return TN_E_INVALID;
  }
  return check_values(&call, info) && rules[query->opcode](&call) ? TN_OK : TN_E_INVALID;
}
