#include "text/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

#define FIRST_TABLE 256
#define MAX_ITEMS 20000       /* of one state: more means a hopelessly ambiguous grammar */
#define STEPS_A_CALL 20000000 /* expressions made for one call of the interface: a second or two */

void tn_automaton_begin(tn_automaton *a) {
  tn_exprs_begin(&a->exprs, STEPS_A_CALL);
}

size_t tn_automaton_bytes(const tn_automaton *a) {
  return tn_exprs_bytes(&a->exprs) + a->capacity * sizeof *a->states + a->item_capacity * sizeof *a->items +
         a->row_capacity * sizeof *a->rows + a->table_size * sizeof *a->table;
}

void tn_automaton_finish(tn_automaton *a) {
  tn_exprs_finish(&a->exprs);
  free(a->states);
  free(a->items);
  free(a->rows);
  free(a->table);
  free(a->stamps);
  free(a->work);
  free(a->closed);
  free(a->calls);
  *a = (tn_automaton){0};
}

/* ---- interning states ---- */

static uint64_t hash_items(const tn_item *items, size_t count, bool complete) {
  uint64_t hash = complete ? 0x5851F42D4C957F2Du : 1;
  for (size_t i = 0; i < count; i++) {
    hash = (hash ^ ((uint64_t)items[i].frame << 32 | items[i].expr)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 31;
  }
  return hash;
}

static bool grow_table(tn_automaton *a) {
  size_t size = a->table_size ? a->table_size * 2 : FIRST_TABLE;
  uint32_t *table = tn_calloc(size, sizeof *table);
  if (!table) return false;
  for (size_t i = 0; i < a->count; i++) {
    const tn_state *state = &a->states[i];
    size_t at = hash_items(a->items + state->first, state->count, state->complete) & (size - 1);
    while (table[at]) at = (at + 1) & (size - 1);
    table[at] = (uint32_t)i + 1;
  }
  free(a->table);
  a->table = table;
  a->table_size = size;
  return true;
}

static int by_frame(const void *p, const void *q) {
  const tn_item *a = p, *b = q;
  if (a->frame != b->frame) return a->frame < b->frame ? -1 : 1;
  return (a->expr > b->expr) - (a->expr < b->expr);
}

/* Sorts items and joins those of one frame into one item. Returns how many are left. */
static size_t merge_items(tn_automaton *a, tn_item *items, size_t count) {
  if (count < 2) return count;
  qsort(items, count, sizeof *items, by_frame);
  size_t kept = 0;
  for (size_t i = 0; i < count;) {
    uint32_t frame = items[i].frame;
    size_t base = a->exprs.scratch_count, end = i;
    for (; end < count && items[end].frame == frame; end++)
      if (end - i > 0 && !tn_exprs_scratch(&a->exprs, items[end].expr)) return 0;
    tn_expr joined = items[i].expr;
    if (end - i > 1) {
      if (!tn_exprs_scratch(&a->exprs, joined)) return 0;
      joined = tn_expr_combine(&a->exprs, TN_EXPR_IS_ALT, base);
    }
    items[kept++] = (tn_item){frame, joined};
    i = end;
  }
  return kept;
}

static bool append_items(tn_automaton *a, const tn_item *items, size_t count, uint32_t *first) {
  *first = (uint32_t)a->item_count;
  if (count > UINT32_MAX - a->item_count) return false;
  for (size_t i = 0; i < count; i++) {
    tn_item item = items[i], *slot = TN_PUSH(a->items, a->item_count, a->item_capacity);
    if (!slot) return false;
    *slot = item;
  }
  return true;
}

/* The state of the `count` items at `items` (which are reordered), and of the bottom when `complete`. */
static uint32_t intern(tn_automaton *a, tn_item *items, size_t count, bool complete) {
  count = merge_items(a, items, count);
  if (a->exprs.status != TN_OK) return TN_STATE_DEAD;
  if (count > MAX_ITEMS) return tn_exprs_fail(&a->exprs, TN_E_LIMIT);
  if (a->count * 2 >= a->table_size && !grow_table(a)) return tn_exprs_fail(&a->exprs, TN_E_MEMORY);
  size_t at = hash_items(items, count, complete) & (a->table_size - 1);
  for (; a->table[at]; at = (at + 1) & (a->table_size - 1)) {
    const tn_state *known = &a->states[a->table[at] - 1];
    if (known->count == count && known->complete == complete &&
        (!count || !memcmp(a->items + known->first, items, count * sizeof *items)))
      return a->table[at] - 1;
  }
  if (a->count >= TN_STATE_UNKNOWN - 1 || (a->limit && tn_automaton_bytes(a) > a->limit))
    return tn_exprs_fail(&a->exprs, TN_E_LIMIT);
  tn_state state = {.count = (uint32_t)count, .complete = complete, .closed_first = UINT32_MAX, .row = UINT32_MAX};
  tn_state *slot = append_items(a, items, count, &state.first) ? TN_PUSH(a->states, a->count, a->capacity) : NULL;
  if (!slot) return tn_exprs_fail(&a->exprs, TN_E_MEMORY);
  *slot = state;
  a->table[at] = (uint32_t)a->count;
  return (uint32_t)(a->count - 1);
}

/* ---- building blocks of a new state ---- */

static bool push_item(tn_automaton *a, uint32_t frame, tn_expr expr) {
  tn_item *slot = TN_PUSH(a->work, a->work_count, a->work_capacity);
  if (!slot) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
  *slot = (tn_item){frame, expr};
  return true;
}

/* Adds the items of `frame` itself to the state in the making. */
static bool push_frame(tn_automaton *a, uint32_t frame, bool *complete) {
  const tn_state *state = &a->states[frame];
  *complete = *complete || state->complete;
  for (uint32_t i = 0; i < state->count; i++) {
    tn_item item = a->items[state->first + i];
    if (!push_item(a, item.frame, item.expr)) return false;
  }
  if (a->work_count > 64 * (size_t)MAX_ITEMS) return tn_exprs_fail(&a->exprs, TN_E_LIMIT), false;
  return true;
}

/* `expr` goes on, with `frame` behind it; an expression that is done leaves just its frame. */
static bool push_rest(tn_automaton *a, uint32_t frame, tn_expr expr, bool *complete) {
  return expr == TN_EXPR_EMPTY ? push_frame(a, frame, complete) : push_item(a, frame, expr);
}

/* ---- closing ---- */

static bool push_call(tn_automaton *a, tn_pending_call call) {
  if (!TN_PUSH(a->calls, a->call_count, a->call_capacity)) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
  if (a->call_count > 64 * (size_t)MAX_ITEMS) return tn_exprs_fail(&a->exprs, TN_E_LIMIT), false;
  size_t at = a->call_count - 1;
  for (; at && a->calls[(at - 1) / 2].rank > call.rank; at = (at - 1) / 2) a->calls[at] = a->calls[(at - 1) / 2];
  a->calls[at] = call;
  return true;
}

static tn_pending_call pop_call(tn_automaton *a) {
  tn_pending_call top = a->calls[0], last = a->calls[--a->call_count];
  size_t at = 0, child;
  while ((child = 2 * at + 1) < a->call_count) {
    if (child + 1 < a->call_count && a->calls[child + 1].rank < a->calls[child].rank) child++;
    if (a->calls[child].rank >= last.rank) break;
    a->calls[at] = a->calls[child];
    at = child;
  }
  a->calls[at] = last;
  return top;
}

/* Notes every call that `expr` can make before a byte; `rest` is what follows expr. */
static bool collect_calls(tn_automaton *a, tn_expr expr, tn_expr rest, uint32_t frame) {
  tn_exprs *x = &a->exprs;
  while (x->nodes[expr].flags & TN_EXPR_CALLS && x->status == TN_OK) {
    tn_expr_node node = x->nodes[expr];
    switch ((tn_expr_kind)node.kind) {
      case TN_EXPR_IS_CALL: return push_call(a, (tn_pending_call){x->rules[node.a].rank, node.a, frame, rest});
      case TN_EXPR_IS_ALT:
        for (uint32_t i = 0; i < node.b; i++)
          if (!collect_calls(a, x->pool[node.a + i], rest, frame)) return false;
        return true;
      case TN_EXPR_IS_REPEAT:
        rest = tn_expr_concat(x, tn_expr_repeat_rest(x, &node), rest);
        expr = node.a;
        break;
      case TN_EXPR_IS_CONCAT:
        if (x->nodes[node.a].flags & TN_EXPR_CALLS && !collect_calls(a, node.a, tn_expr_concat(x, node.b, rest), frame))
          return false;
        if (!tn_expr_nullable(x, node.a)) return true;
        expr = node.b;
        break;
      default: return true;
    }
  }
  return x->status == TN_OK;
}

/* Leaves the frames of all items that may be done. The closed items so far are then in a->work, merged. */
static bool leave_frames(tn_automaton *a, uint32_t state, bool *can_end) {
  if (a->stamp_capacity < a->count || a->stamp == UINT32_MAX) {
    free(a->stamps);
    a->stamp_capacity = a->count * 2;
    a->stamps = tn_calloc(a->stamp_capacity, sizeof *a->stamps);
    a->stamp = 0;
    if (!a->stamps) return a->stamp_capacity = 0, tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
  }
  a->stamp++;
  a->work_count = 0;
  *can_end = false;
  if (!push_frame(a, state, can_end)) return false;
  for (size_t i = 0; i < a->work_count; i++) {
    tn_item item = a->work[i];
    if (a->stamps[item.frame] == a->stamp || !tn_expr_nullable(&a->exprs, item.expr)) continue;
    a->stamps[item.frame] = a->stamp;
    if (!push_frame(a, item.frame, can_end)) return false;
  }
  a->work_count = merge_items(a, a->work, a->work_count);
  return a->exprs.status == TN_OK;
}

/* Enters the pending rule of least rank: one frame for all who call it. */
static bool enter_rule(tn_automaton *a) {
  tn_exprs *x = &a->exprs;
  uint32_t rule = a->calls[0].rule;
  bool complete = false;
  a->work_count = 0;
  while (a->call_count && a->calls[0].rule == rule) {
    tn_pending_call call = pop_call(a);
    if (!push_rest(a, call.frame, call.rest, &complete)) return false;
  }
  uint32_t frame = intern(a, a->work, a->work_count, complete);
  tn_item *slot = x->status == TN_OK ? TN_PUSH(a->closed, a->closed_count, a->closed_capacity) : NULL;
  if (!slot) return tn_exprs_fail(x, TN_E_MEMORY), false;
  *slot = (tn_item){frame, x->rules[rule].body};
  return collect_calls(a, x->rules[rule].body, TN_EXPR_EMPTY, frame);
}

bool tn_automaton_close(tn_automaton *a, uint32_t state) {
  if (a->states[state].closed_first != UINT32_MAX) return true;
  bool can_end;
  a->closed_count = a->call_count = 0;
  if (a->exprs.status != TN_OK || !leave_frames(a, state, &can_end)) return false;
  size_t settled = a->work_count;
  for (size_t i = 0; i < settled; i++) {
    tn_item *slot = TN_PUSH(a->closed, a->closed_count, a->closed_capacity);
    if (!slot) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
    *slot = a->work[i];
  }
  for (size_t i = 0; i < settled; i++)
    if (!collect_calls(a, a->closed[i].expr, TN_EXPR_EMPTY, a->closed[i].frame)) return false;
  while (a->call_count)
    if (!enter_rule(a)) return false;
  uint32_t first;
  if (!append_items(a, a->closed, a->closed_count, &first)) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
  tn_state *s = &a->states[state];
  s->closed_first = first;
  s->closed_count = (uint32_t)a->closed_count;
  s->settled_count = (uint32_t)settled;
  s->can_end = can_end;
  return true;
}

bool tn_automaton_can_end(tn_automaton *a, uint32_t state) {
  return tn_automaton_close(a, state) && a->states[state].can_end;
}

/* ---- stepping ---- */

static bool add_row(tn_automaton *a, uint32_t state) {
  uint32_t first = (uint32_t)a->row_count;
  if (a->row_count + a->exprs.classes >= UINT32_MAX) return tn_exprs_fail(&a->exprs, TN_E_LIMIT), false;
  for (uint32_t c = 0; c < a->exprs.classes; c++) {
    uint32_t *slot = TN_PUSH(a->rows, a->row_count, a->row_capacity);
    if (!slot) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
    *slot = TN_STATE_UNKNOWN;
  }
  a->states[state].row = first;
  return true;
}

static uint32_t step_new(tn_automaton *a, uint32_t state, uint32_t class_) {
  if (!tn_automaton_close(a, state)) return TN_STATE_DEAD;
  tn_state s = a->states[state];
  bool complete = false;
  a->work_count = 0;
  for (uint32_t i = 0; i < s.closed_count; i++) {
    tn_item item = a->items[s.closed_first + i];
    tn_expr d = tn_expr_derive(&a->exprs, item.expr, class_);
    if (d != TN_EXPR_NOTHING && !push_rest(a, item.frame, d, &complete)) return TN_STATE_DEAD;
  }
  return intern(a, a->work, a->work_count, complete);
}

uint32_t tn_automaton_step(tn_automaton *a, uint32_t state, uint8_t byte) {
  uint32_t class_ = a->exprs.class_of[byte];
  if (state <= TN_STATE_BOTTOM) return TN_STATE_DEAD;
  if (a->states[state].row == UINT32_MAX && (a->exprs.status != TN_OK || !add_row(a, state))) return TN_STATE_DEAD;
  uint32_t to = a->rows[a->states[state].row + class_];
  if (to != TN_STATE_UNKNOWN) return to;
  to = step_new(a, state, class_);
  if (a->exprs.status != TN_OK) return TN_STATE_DEAD;
  return a->rows[a->states[state].row + class_] = to;
}

uint32_t tn_automaton_alone(tn_automaton *a, tn_expr expr) {
  tn_item item = {TN_STATE_BOTTOM, expr};
  if (expr == TN_EXPR_EMPTY) return TN_STATE_BOTTOM;
  return intern(a, &item, 1, false);
}

tn_status tn_automaton_init(tn_automaton *a, const tn_exprs *exprs, uint32_t root, size_t limit) {
  *a = (tn_automaton){.limit = limit};
  if (!tn_exprs_clone(&a->exprs, exprs)) return TN_E_MEMORY;
  tn_automaton_begin(a);
  intern(a, NULL, 0, false);
  intern(a, NULL, 0, true);
  a->start = tn_automaton_alone(a, tn_expr_call(&a->exprs, root));
  tn_status status = a->exprs.status;
  if (status != TN_OK) tn_automaton_finish(a);
  return status;
}
