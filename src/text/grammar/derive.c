/* Derivatives, and whether an intersection still holds any text. */
#include "text/grammar/expr.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

#define CACHE_SLOTS 65536  /* of the derivative cache; a power of two */
#define WIDE_SEARCH 2000   /* states looked at breadth first, which finds short texts */
#define DEEP_SEARCH 200000 /* states looked at in all, depth first after the first ones, which finds long ones */
#define POSITION_BITS 8    /* `multiple`: c = scale << 8 | digits after the point so far, 255 before the point */
#define INTEGER_PART 255u

/* `checked`: intersections of the result are proved to hold a text, or dropped. */
static tn_expr derive(tn_exprs *x, tn_expr e, uint32_t class_, bool checked);

/* The remainder moves on with each digit; after `scale` digits behind the point only zeros may follow. */
static tn_expr derive_multiple(tn_exprs *x, tn_expr_node node, uint8_t byte) {
  uint32_t scale = node.c >> POSITION_BITS, place = node.c & INTEGER_PART;
  if (byte == '-') return tn_expr_intern(x, TN_EXPR_IS_MULTIPLE, node.a, node.b, node.c);
  if (byte == '.' && place == INTEGER_PART)
    return tn_expr_intern(x, TN_EXPR_IS_MULTIPLE, node.a, node.b, scale << POSITION_BITS);
  if (byte < '0' || byte > '9') return TN_EXPR_NOTHING;
  if (place == scale) return byte == '0' ? tn_expr_intern(x, TN_EXPR_IS_MULTIPLE, node.a, node.b, node.c) : 0;
  uint32_t remainder = (uint32_t)(((uint64_t)node.b * 10 + (byte - '0')) % node.a);
  if (place != INTEGER_PART) place++;
  return tn_expr_intern(x, TN_EXPR_IS_MULTIPLE, node.a, remainder, scale << POSITION_BITS | place);
}

static tn_expr derive_list(tn_exprs *x, tn_expr_node node, uint32_t class_, bool checked) {
  size_t base = x->scratch_count;
  for (uint32_t i = 0; i < node.b; i++) {
    tn_expr child = derive(x, x->pool[node.a + i], class_, checked);
    if (child == TN_EXPR_NOTHING && node.kind == TN_EXPR_IS_AND) {
      x->scratch_count = base;
      return TN_EXPR_NOTHING;
    }
    if (child != TN_EXPR_NOTHING && !tn_exprs_scratch(x, child)) return TN_EXPR_NOTHING;
  }
  return tn_expr_combine(x, node.kind, base);
}

/* d(a b) = d(a) b, and d(b) too where a may be empty; along the spine without recursion. */
static tn_expr derive_concat(tn_exprs *x, tn_expr e, uint32_t class_, bool checked) {
  size_t base = x->scratch_count;
  for (;;) {
    tn_expr_node node = x->nodes[e];
    bool is_concat = node.kind == TN_EXPR_IS_CONCAT;
    tn_expr d = derive(x, is_concat ? node.a : e, class_, checked);
    if (is_concat) d = tn_expr_concat(x, d, node.b);
    if (d != TN_EXPR_NOTHING && !tn_exprs_scratch(x, d)) return TN_EXPR_NOTHING;
    if (!is_concat || !tn_expr_nullable(x, node.a)) break;
    e = node.b;
  }
  return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
}

static tn_expr derive_new(tn_exprs *x, tn_expr e, uint32_t class_, bool checked) {
  tn_expr_node node = x->nodes[e];
  switch ((tn_expr_kind)node.kind) {
    case TN_EXPR_IS_CONCAT: return derive_concat(x, e, class_, checked);
    case TN_EXPR_IS_ALT: return derive_list(x, node, class_, checked);
    case TN_EXPR_IS_REPEAT: {
      tn_expr d = derive(x, node.a, class_, checked);
      return d == TN_EXPR_NOTHING ? d : tn_expr_concat(x, d, tn_expr_repeat_rest(x, &node));
    }
    case TN_EXPR_IS_AND:
    case TN_EXPR_IS_NOT: {
      /* what is inside need not be checked: the whole is */
      tn_expr d = node.kind == TN_EXPR_IS_AND ? derive_list(x, node, class_, false)
                                              : tn_expr_not(x, derive(x, node.a, class_, false));
      return checked && tn_expr_is_barren(x, d) ? TN_EXPR_NOTHING : d;
    }
    case TN_EXPR_IS_MULTIPLE: return derive_multiple(x, node, x->sample_of[class_]);
    default: return TN_EXPR_NOTHING; /* nothing, empty, and calls, which the matcher enters */
  }
}

static tn_expr derive(tn_exprs *x, tn_expr e, uint32_t class_, bool checked) {
  const tn_expr_node *node = &x->nodes[e];
  if (x->status != TN_OK) return TN_EXPR_NOTHING;
  if (node->kind == TN_EXPR_IS_BYTES) {
    uint8_t byte = x->sample_of[class_];
    return x->sets[node->a].bits[byte >> 6] >> (byte & 63) & 1 ? TN_EXPR_EMPTY : TN_EXPR_NOTHING;
  }
  if (!x->derivatives && !(x->derivatives = tn_calloc(CACHE_SLOTS, sizeof *x->derivatives)))
    return tn_exprs_fail(x, TN_E_MEMORY);
  if (!(node->flags & TN_EXPR_FILTERS)) checked = false;
  uint32_t by = (class_ << 1 | checked) + 1;
  tn_derivative *slot = &x->derivatives[(e * 0x9E3779B1u ^ by * 0x85EBCA6Bu) >> 7 & (CACHE_SLOTS - 1)];
  if (slot->from == e && slot->by == by) return slot->to;
  tn_expr to = derive_new(x, e, class_, checked);
  if (x->status != TN_OK) return TN_EXPR_NOTHING;
  *slot = (tn_derivative){.from = e, .to = to, .by = by};
  return to;
}

tn_expr tn_expr_derive(tn_exprs *x, tn_expr e, uint32_t class_) {
  return derive(x, e, class_, true);
}

/* ---- the search for a text ---- */

typedef struct search {
  struct found {
    tn_expr e;
    uint32_t parent;
  } * states;
  size_t count, capacity;
  uint32_t *open; /* states whose successors aren't known yet: a queue first, a stack later */
  size_t first_open, open_count, open_capacity;
} search;

/* Adds what can be reached by one byte; true when one of them is known to hold a text. */
static bool expand(tn_exprs *x, search *s, uint32_t at, uint32_t stamp) {
  for (uint32_t c = 0; c < x->classes && x->status == TN_OK; c++) {
    tn_expr e = derive(x, s->states[at].e, c, false);
    if (e == TN_EXPR_NOTHING || x->nodes[e].flags & TN_EXPR_BARREN) continue;
    if (e < x->mark_capacity && x->marks[e] == stamp) continue;
    if (e >= x->mark_capacity) {
      size_t capacity = x->count * 2;
      uint32_t *marks = realloc(x->marks, capacity * sizeof *marks);
      if (!marks) return tn_exprs_fail(x, TN_E_MEMORY), false;
      memset(marks + x->mark_capacity, 0, (capacity - x->mark_capacity) * sizeof *marks);
      x->marks = marks;
      x->mark_capacity = capacity;
    }
    x->marks[e] = stamp;
    struct found *state = TN_PUSH(s->states, s->count, s->capacity);
    uint32_t *open = state ? TN_PUSH(s->open, s->open_count, s->open_capacity) : NULL;
    if (!open) return tn_exprs_fail(x, TN_E_MEMORY), false;
    *state = (struct found){e, at};
    *open = (uint32_t)(s->count - 1);
    const tn_expr_node *node = &x->nodes[e];
    if (node->flags & (TN_EXPR_NULLABLE | TN_EXPR_INHABITED) || !(node->flags & TN_EXPR_FILTERS)) return true;
  }
  return false;
}

bool tn_expr_is_barren(tn_exprs *x, tn_expr e) {
  uint8_t flags = x->nodes[e].flags;
  if (x->status != TN_OK || e == TN_EXPR_NOTHING || flags & TN_EXPR_BARREN) return true;
  if (flags & (TN_EXPR_NULLABLE | TN_EXPR_INHABITED) || !(flags & TN_EXPR_FILTERS)) return false;
  search s = {0};
  uint32_t stamp = tn_exprs_new_stamp(x);
  struct found *start = TN_PUSH(s.states, s.count, s.capacity);
  uint32_t *open = start ? TN_PUSH(s.open, s.open_count, s.open_capacity) : NULL;
  if (!open) tn_exprs_fail(x, TN_E_MEMORY);
  bool inhabited = false;
  if (start && open) *start = (struct found){e, 0}, *open = 0;
  while (x->status == TN_OK && !inhabited && s.first_open < s.open_count) {
    if (s.count > DEEP_SEARCH) tn_exprs_fail(x, TN_E_LIMIT);
    uint32_t at = s.count < WIDE_SEARCH ? s.open[s.first_open++] : s.open[--s.open_count];
    inhabited = expand(x, &s, at, stamp);
  }
  if (x->status == TN_OK && inhabited)
    for (uint32_t at = (uint32_t)s.count - 1;; at = s.states[at].parent) {
      x->nodes[s.states[at].e].flags |= TN_EXPR_INHABITED;
      if (!at) break;
    }
  else if (x->status == TN_OK)
    for (size_t i = 0; i < s.count; i++) x->nodes[s.states[i].e].flags |= TN_EXPR_BARREN;
  free(s.states);
  free(s.open);
  return !inhabited;
}
