/* What must be known of all rules before matching begins: which may be empty, which can be completed at all, and in
 * which order they call one another before the first byte.
 *
 * The first two are least fixed points over the graph of expressions; they are solved by passing changes on to the
 * parents, in time linear in its size. */
#include "text/grammar/expr.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

/* Children -> parents, in one array: parents of e are edges[first[e] .. first[e + 1]). */
typedef struct parents {
  uint32_t *first, *edges;
} parents;

/* Calls `visit(context, child)` for each child of e; a call's child is its rule's body. */
static void each_child(const tn_exprs *x, tn_expr e, void (*visit)(void *context, tn_expr child), void *context) {
  const tn_expr_node *node = &x->nodes[e];
  switch ((tn_expr_kind)node->kind) {
    case TN_EXPR_IS_CONCAT: visit(context, node->a), visit(context, node->b); break;
    case TN_EXPR_IS_REPEAT: visit(context, node->a); break;
    case TN_EXPR_IS_CALL: visit(context, x->rules[node->a].body); break;
    case TN_EXPR_IS_ALT:
      for (uint32_t i = 0; i < node->b; i++) visit(context, x->pool[node->a + i]);
      break;
    default: break; /* the others have no calls inside: their value doesn't change */
  }
}

static void count_edge(void *context, tn_expr child) {
  ((uint32_t *)context)[child + 1]++;
}

struct filling {
  parents *graph;
  uint32_t *next;
  tn_expr parent;
};

static void add_edge(void *context, tn_expr child) {
  struct filling *f = context;
  f->graph->edges[f->next[child]++] = f->parent;
}

static bool build_parents(const tn_exprs *x, parents *graph) {
  uint32_t *next = NULL;
  graph->edges = NULL;
  graph->first = tn_calloc(x->count + 1, sizeof *graph->first);
  if (!graph->first) return false;
  for (size_t e = 0; e < x->count; e++) each_child(x, (tn_expr)e, count_edge, graph->first);
  for (size_t e = 0; e < x->count; e++) graph->first[e + 1] += graph->first[e];
  graph->edges = tn_calloc(graph->first[x->count] + 1u, sizeof *graph->edges);
  next = tn_calloc(x->count, sizeof *next);
  if (!graph->edges || !next) {
    free(next);
    return false;
  }
  memcpy(next, graph->first, x->count * sizeof *next);
  struct filling filling = {graph, next, 0};
  for (size_t e = 0; e < x->count; e++) {
    filling.parent = (tn_expr)e;
    each_child(x, (tn_expr)e, add_edge, &filling);
  }
  free(next);
  return true;
}

enum question { NULLABLE, PRODUCTIVE };

static bool has_value(tn_exprs *x, const uint8_t *value, tn_expr e, enum question question) {
  const tn_expr_node *node = &x->nodes[e];
  switch ((tn_expr_kind)node->kind) {
    case TN_EXPR_IS_CONCAT: return value[node->a] && value[node->b];
    case TN_EXPR_IS_REPEAT: return node->b == 0 || value[node->a];
    case TN_EXPR_IS_CALL: return value[x->rules[node->a].body];
    case TN_EXPR_IS_ALT:
      for (uint32_t i = 0; i < node->b; i++)
        if (value[x->pool[node->a + i]]) return true;
      return false;
    case TN_EXPR_IS_NOTHING: return false;
    case TN_EXPR_IS_EMPTY: return true;
    default: return question == NULLABLE ? tn_expr_nullable(x, e) : !tn_expr_is_barren(x, e);
  }
}

/* value[e] for every expression that exists now; `value` has x->count entries, all zero. */
static tn_status solve(tn_exprs *x, const parents *graph, uint8_t *value, size_t count, enum question question) {
  uint32_t *work = NULL;
  size_t work_count = 0, work_capacity = 0;
  for (size_t e = 0; e < count && x->status == TN_OK; e++) {
    if (value[e] || !has_value(x, value, (tn_expr)e, question)) continue;
    value[e] = 1;
    uint32_t *slot = TN_PUSH(work, work_count, work_capacity);
    if (!slot)
      tn_exprs_fail(x, TN_E_MEMORY);
    else
      *slot = (uint32_t)e;
    while (work_count && x->status == TN_OK) {
      tn_expr done = work[--work_count];
      for (uint32_t i = graph->first[done]; i < graph->first[done + 1]; i++) {
        tn_expr parent = graph->edges[i];
        if (value[parent] || !has_value(x, value, parent, question)) continue;
        value[parent] = 1;
        slot = TN_PUSH(work, work_count, work_capacity);
        if (!slot)
          tn_exprs_fail(x, TN_E_MEMORY);
        else
          *slot = parent;
      }
    }
  }
  free(work);
  return x->status;
}

static tn_status solve_nullable(tn_exprs *x, const parents *graph) {
  size_t count = x->count;
  uint8_t *value = tn_calloc(count, 1);
  if (!value) return TN_E_MEMORY;
  tn_status status = solve(x, graph, value, count, NULLABLE);
  for (size_t e = 0; e < count; e++) {
    if (!(x->nodes[e].flags & TN_EXPR_CALLS)) continue;
    x->nodes[e].flags &= (uint8_t)~TN_EXPR_NULLABLE;
    if (value[e]) x->nodes[e].flags |= TN_EXPR_NULLABLE;
  }
  for (size_t r = 0; r < x->rule_count; r++) x->rules[r].nullable = value[x->rules[r].body];
  free(value);
  return status;
}

/* ---- removing what can't be completed ---- */

static tn_expr rebuild(tn_exprs *x, const uint8_t *productive, const tn_expr *renamed, tn_expr e) {
  tn_expr_node node = x->nodes[e];
  if (!productive[e]) {
    if (node.kind == TN_EXPR_IS_REPEAT && node.b == 0) return TN_EXPR_EMPTY;
    return TN_EXPR_NOTHING;
  }
  switch ((tn_expr_kind)node.kind) {
    case TN_EXPR_IS_CONCAT: return tn_expr_concat(x, renamed[node.a], renamed[node.b]);
    case TN_EXPR_IS_REPEAT: return tn_expr_repeat(x, renamed[node.a], node.b, node.c);
    case TN_EXPR_IS_ALT: {
      size_t base = x->scratch_count;
      for (uint32_t i = 0; i < node.b; i++)
        if (!tn_exprs_scratch(x, renamed[x->pool[node.a + i]])) return TN_EXPR_NOTHING;
      return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
    }
    default: return e;
  }
}

/* Children have smaller ids than their parents, so one pass in order of ids renames everything. */
static tn_status prune(tn_exprs *x, const parents *graph, bool *changed) {
  size_t count = x->count;
  uint8_t *productive = tn_calloc(count, 1);
  tn_expr *renamed = tn_calloc(count, sizeof *renamed);
  tn_status status = productive && renamed ? solve(x, graph, productive, count, PRODUCTIVE) : TN_E_MEMORY;
  *changed = false;
  for (size_t e = 1; e < count && status == TN_OK; e++) *changed = *changed || !productive[e];
  if (status == TN_OK && *changed) {
    for (size_t e = 0; e < count; e++) renamed[e] = rebuild(x, productive, renamed, (tn_expr)e);
    for (size_t r = 0; r < x->rule_count; r++) x->rules[r].body = renamed[x->rules[r].body];
    status = x->status;
  }
  free(productive);
  free(renamed);
  return status;
}

/* ---- calls before the first byte ---- */

typedef struct ranking {
  uint32_t *edges; /* rules called first by rule r: edges[first[r] .. first[r + 1]) */
  size_t edge_count, edge_capacity;
  uint32_t *first;
  uint32_t stamp;
} ranking;

static void first_calls(tn_exprs *x, ranking *k, tn_expr e) {
  while (x->nodes[e].flags & TN_EXPR_CALLS && x->marks[e] != k->stamp && x->status == TN_OK) {
    x->marks[e] = k->stamp;
    const tn_expr_node *node = &x->nodes[e];
    if (node->kind == TN_EXPR_IS_CALL) {
      uint32_t *slot = TN_PUSH(k->edges, k->edge_count, k->edge_capacity);
      if (!slot)
        tn_exprs_fail(x, TN_E_MEMORY);
      else
        *slot = node->a;
      return;
    }
    if (node->kind == TN_EXPR_IS_ALT)
      for (uint32_t i = 0; i < node->b; i++) first_calls(x, k, x->pool[node->a + i]);
    if (node->kind == TN_EXPR_IS_REPEAT || node->kind == TN_EXPR_IS_CONCAT) first_calls(x, k, node->a);
    if (node->kind != TN_EXPR_IS_CONCAT || !tn_expr_nullable(x, node->a)) return;
    e = node->b;
  }
}

static tn_status collect_first_calls(tn_exprs *x, ranking *k) {
  k->first = tn_calloc(x->rule_count + 1, sizeof *k->first);
  if (!k->first) return TN_E_MEMORY;
  for (size_t r = 0; r < x->rule_count; r++) {
    k->stamp = tn_exprs_new_stamp(x);
    if (!k->stamp) return TN_E_MEMORY;
    first_calls(x, k, x->rules[r].body);
    k->first[r + 1] = (uint32_t)k->edge_count;
  }
  return x->status;
}

/* Depth first without recursion; a rule met while it is still open calls itself before any byte. `path` and `next`
 * have one entry a rule. On success ranks are set: callers before what they call. */
static bool rank_rules(tn_exprs *x, const ranking *k, uint32_t *path, uint32_t *next, uint32_t *cycle) {
  enum { NEW, OPEN, DONE };
  uint8_t *colour = tn_calloc(x->rule_count, 1);
  uint32_t rank = (uint32_t)x->rule_count;
  bool sound = colour != NULL;
  if (!colour) tn_exprs_fail(x, TN_E_MEMORY);
  for (uint32_t start = 0; sound && start < x->rule_count; start++) {
    if (colour[start] != NEW) continue;
    size_t depth = 0;
    path[0] = start, next[start] = k->first[start], colour[start] = OPEN;
    for (;;) {
      uint32_t r = path[depth];
      if (next[r] == k->first[r + 1]) {
        colour[r] = DONE;
        x->rules[r].rank = --rank;
        if (!depth--) break;
        continue;
      }
      uint32_t callee = k->edges[next[r]++];
      if (colour[callee] == OPEN) {
        *cycle = callee;
        sound = false;
        break;
      }
      if (colour[callee] == NEW) path[++depth] = callee, next[callee] = k->first[callee], colour[callee] = OPEN;
    }
  }
  free(colour);
  return sound;
}

static tn_status order_rules(tn_exprs *x, tn_rule_name name, const void *context, tn_error *error) {
  ranking k = {0};
  uint32_t cycle = UINT32_MAX, *path = tn_calloc(x->rule_count, sizeof *path),
           *next = tn_calloc(x->rule_count, sizeof *next);
  tn_status status = path && next ? collect_first_calls(x, &k) : TN_E_MEMORY;
  if (status == TN_OK && !rank_rules(x, &k, path, next, &cycle)) {
    if (cycle == UINT32_MAX)
      status = TN_E_MEMORY;
    else
      status = tn_fail(error, TN_E_INVALID, "%s refers to itself before it consumes anything (left recursion)",
                       name ? name(context, cycle) : "a rule");
  }
  free(k.edges);
  free(k.first);
  free(path);
  free(next);
  return status;
}

static tn_status nullable_and_order(tn_exprs *x, parents *graph, tn_rule_name name, const void *context,
                                    tn_error *error) {
  if (!build_parents(x, graph)) return TN_E_MEMORY;
  tn_status status = solve_nullable(x, graph);
  if (status == TN_OK) status = order_rules(x, name, context, error);
  return status;
}

static void drop_parents(parents *graph) {
  free(graph->first);
  free(graph->edges);
  *graph = (parents){0};
}

tn_status tn_exprs_analyse(tn_exprs *x, uint32_t root, tn_rule_name name, const void *context, tn_error *error) {
  if (error) *error = (tn_error){0};
  parents graph = {0};
  bool changed = false;
  tn_status status = x->status;
  if (status == TN_OK) status = nullable_and_order(x, &graph, name, context, error);
  if (status == TN_OK) status = prune(x, &graph, &changed);
  drop_parents(&graph);
  if (status == TN_OK && changed) status = nullable_and_order(x, &graph, name, context, error);
  drop_parents(&graph);
  if (status == TN_OK && x->rules[root].body == TN_EXPR_NOTHING)
    return tn_fail(error, TN_E_INVALID, "nothing satisfies it: no text can ever be completed");
  if (status == TN_E_LIMIT) return tn_fail(error, status, "the grammar is too large or too complex");
  if (status == TN_E_MEMORY) return tn_fail(error, status, "out of memory for the grammar");
  x->analysed = status == TN_OK;
  return status;
}
