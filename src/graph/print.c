/* Printing graphs for people: one op a line, or Graphviz. */
#include <string.h>
#include "graph/graph.h"

static const char *const dtype_names[TN_DTYPE_COUNT] = {
#define X(number, NAME, name, elements, bytes) [number] = name,
    TN_DTYPES(X)
#undef X
};
static const char *const activation_names[] = {"none", "silu", "gelu_tanh", "gelu", "relu", "sigmoid", "tanh"};

static void print_dim(int32_t dim, tn_buf *out) {
  static const char symbols[] = "TSRC";
  if (dim < 0)
    tn_buf_putc(out, symbols[-dim - 1]);
  else
    tn_buf_printf(out, "%d", dim);
}

static void print_type(const tn_graph_value *value, tn_buf *out) {
  tn_buf_puts(out, dtype_names[value->dtype]);
  for (uint32_t d = 0; d < value->rank; d++) {
    tn_buf_putc(out, d ? ',' : '[');
    print_dim(value->dims[d], out);
  }
  tn_buf_putc(out, ']');
}

static void print_input(const tn_graph *graph, tn_ref ref, tn_buf *out) {
  if (ref == TN_NO_VALUE) {
    tn_buf_puts(out, "-");
    return;
  }
  const tn_graph_value *value = graph->values + ref;
  if (value->kind == TN_VALUE_WEIGHT || value->kind == TN_VALUE_STATE) {
    tn_buf_printf(out, "%s ", value->name);
    print_type(value, out);
  } else {
    tn_buf_printf(out, "%%%u", ref);
  }
}

static void print_attributes(const tn_graph_op *op, tn_buf *out) {
  const void *a = op->attributes;
  switch (op->opcode) {
    case TN_OP_EMBED: {
      const tn_embed_attributes *e = a;
      if (e->source == TN_EMBED_POSITION) tn_buf_puts(out, " by=position");
      if (e->scale != 1.0f) tn_buf_printf(out, " scale=%g", (double)e->scale);
      break;
    }
    case TN_OP_LINEAR: {
      const tn_linear_attributes *l = a;
      if (l->activation) tn_buf_printf(out, " activation=%s", activation_names[l->activation]);
      if (l->gated) tn_buf_puts(out, " gated");
      if (l->scale != 1.0f) tn_buf_printf(out, " scale=%g", (double)l->scale);
      break;
    }
    case TN_OP_NORM: {
      const tn_norm_attributes *n = a;
      tn_buf_printf(out, " %s epsilon=%g", n->kind == TN_NORM_RMS ? "rms" : "layer", (double)n->epsilon);
      if (n->group) tn_buf_printf(out, " group=%u", n->group);
      break;
    }
    case TN_OP_ACTIVATION:
      tn_buf_printf(out, " %s", activation_names[((const tn_activation_attributes *)a)->activation]);
      break;
    case TN_OP_SCALE:
    case TN_OP_SOFTCAP: tn_buf_printf(out, " %g", (double)((const tn_scalar_attributes *)a)->value); break;
    case TN_OP_SLICE: tn_buf_printf(out, " begin=%u", ((const tn_slice_attributes *)a)->begin); break;
    case TN_OP_ROPE: {
      const tn_rope_attributes *r = a;
      tn_buf_printf(out, " %s head=%u rotary=%u", r->pairing == TN_ROPE_HALF ? "half" : "adjacent", r->head_dim,
                    r->rotary);
      break;
    }
    case TN_OP_KV_COLUMNS:
    case TN_OP_KV_WRITE: {
      const tn_kv_write_attributes *k = a;
      tn_buf_printf(out, " group=%u heads=%u", k->group, k->kv_heads);
      if (k->rotary)
        tn_buf_printf(out, " rope=%s rotary=%u", k->pairing == TN_ROPE_HALF ? "half" : "adjacent", k->rotary);
      break;
    }
    case TN_OP_ATTENTION_MASKED:
    case TN_OP_ATTENTION: {
      const tn_attention_attributes *t = a;
      tn_buf_printf(out, " group=%u heads=%u/%u scale=%g", t->group, t->heads, t->kv_heads, (double)t->scale);
      if (t->window) tn_buf_printf(out, " window=%u", t->window);
      if (t->softcap > 0) tn_buf_printf(out, " softcap=%g", (double)t->softcap);
      break;
    }
    case TN_OP_MOE_ROUTE: {
      static const char *const scorings[] = {"softmax", "sigmoid", "softmax_of_chosen"};
      const tn_moe_route_attributes *m = a;
      tn_buf_printf(out, " %s%s", scorings[m->scoring], m->normalise ? " normalised" : "");
      if (m->scale != 1.0f) tn_buf_printf(out, " scale=%g", (double)m->scale);
      if (m->groups > 1) tn_buf_printf(out, " groups=%u/%u", m->groups_used, m->groups);
      break;
    }
    case TN_OP_MOE_LINEAR: {
      const tn_moe_linear_attributes *m = a;
      if (m->activation) tn_buf_printf(out, " activation=%s", activation_names[m->activation]);
      tn_buf_printf(out, "%s%s", m->gated ? " gated" : "", m->each ? " each" : "");
      if (m->limit > 0) tn_buf_printf(out, " limit=%g alpha=%g", (double)m->limit, (double)m->alpha);
      break;
    }
    case TN_OP_HEAD_LINEAR: tn_buf_printf(out, " pass=%u", ((const tn_head_linear_attributes *)a)->pass); break;
    case TN_OP_SHORT_CONV: {
      const tn_short_conv_attributes *c = a;
      tn_buf_printf(out, " taps=%u", c->taps);
      if (c->activation) tn_buf_printf(out, " activation=%s", activation_names[c->activation]);
      break;
    }
    case TN_OP_DELTA_RULE: {
      const tn_delta_rule_attributes *d = a;
      tn_buf_printf(out, " heads=%u/%u%s", d->value_heads, d->key_heads, d->tiled ? " tiled" : "");
      break;
    }
    default: break;
  }
}

static void print_op(const tn_graph *graph, const tn_graph_op *op, tn_buf *out) {
  for (uint32_t i = 0; i < op->output_count; i++) {
    tn_buf_printf(out, "%s%%%u ", i ? ", " : "", op->outputs[i]);
    print_type(graph->values + op->outputs[i], out);
  }
  tn_buf_printf(out, "%s%s(", op->output_count ? " = " : "", tn_op_info_of(op->opcode)->name);
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (i) tn_buf_puts(out, ", ");
    print_input(graph, op->inputs[i], out);
  }
  tn_buf_putc(out, ')');
  print_attributes(op, out);
}

void tn_graph_print(const tn_graph *graph, tn_buf *out) {
  const char *layer = NULL;
  for (size_t i = 0; i < graph->op_count; i++) {
    const tn_graph_op *op = graph->ops + i;
    if (!layer || strcmp(layer, op->name)) tn_buf_printf(out, "%s:\n", op->name[0] ? op->name : "model");
    layer = op->name;
    tn_buf_puts(out, "  ");
    print_op(graph, op, out);
    tn_buf_putc(out, '\n');
  }
}

/* Text inside a Graphviz string: quotes and backslashes escaped. */
static void put_escaped(const char *text, tn_buf *out) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') tn_buf_putc(out, '\\');
    tn_buf_putc(out, *text);
  }
}

void tn_graph_dot(const tn_graph *graph, tn_buf *out) {
  tn_buf_puts(out, "digraph tenon {\n  node [shape=box, fontname=monospace];\n");
  for (size_t i = 0; i < graph->op_count; i++) {
    const tn_graph_op *op = graph->ops + i;
    tn_buf line;
    tn_buf_init(&line);
    print_attributes(op, &line);
    tn_buf_printf(out, "  op%zu [label=\"", i);
    put_escaped(op->name, out);
    tn_buf_printf(out, "\\n%s", tn_op_info_of(op->opcode)->name);
    put_escaped(line.data ? line.data : "", out);
    tn_buf_puts(out, "\"];\n");
    tn_buf_finish(&line);
    for (uint32_t k = 0; k < op->input_count; k++) {
      if (op->inputs[k] == TN_NO_VALUE) continue;
      const tn_graph_value *value = graph->values + op->inputs[k];
      size_t from = tn_graph_producer(graph, op->inputs[k]);
      if (from != SIZE_MAX) {
        tn_buf_printf(out, "  op%zu -> op%zu [label=\"", from, i);
        print_type(value, out);
        tn_buf_puts(out, "\"];\n");
      } else {
        tn_buf_printf(out, "  value%u [shape=ellipse, label=\"", op->inputs[k]);
        put_escaped(value->name, out);
        tn_buf_puts(out, "\\n");
        print_type(value, out);
        tn_buf_printf(out, "\"];\n  value%u -> op%zu;\n", op->inputs[k], i);
      }
    }
  }
  tn_buf_puts(out, "}\n");
}
