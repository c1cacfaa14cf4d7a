/* The automaton over bytes that a grammar unfolds into, state by state, as texts reach them.
 *
 * A state is a set of items (expression, frame): the expression is what may follow inside the rule being read, the
 * frame is where to go on when it is done. A frame is a state too: the set of items that become current when the rule
 * is complete. So the stacks of a pushdown automaton are shared, merged and interned, and ambiguity costs a larger set,
 * never a second run. State 0 is dead; state 1 is the bottom: nothing may follow, the text is complete.
 *
 * Following the rule calls of a state ("closing" it): items whose expression may be empty give way to their frame's
 * items as well; then called rules are entered, callers first (tn_rule.rank), each rule with one frame that holds the
 * continuations of all its callers. There is no left recursion, so one pass is enough. A call in last place takes over
 * its caller's frame, so lists written by recursion don't grow the stack. */
#ifndef TENON_TEXT_GRAMMAR_AUTOMATON_H
#define TENON_TEXT_GRAMMAR_AUTOMATON_H

#include "text/grammar/expr.h"

#define TN_STATE_DEAD 0u
#define TN_STATE_BOTTOM 1u
#define TN_STATE_UNKNOWN UINT32_MAX

typedef struct tn_item {
  uint32_t frame;
  tn_expr expr;
} tn_item;

typedef struct tn_state {
  uint32_t first, count;      /* items, sorted */
  uint32_t closed_first, row; /* UINT32_MAX while unknown: items after closing; index of the row of successors */
  uint32_t closed_count;      /* all closed items; the first `settled_count` were there before rules were entered */
  uint32_t settled_count;
  bool complete; /* an item of the state is the bottom itself */
  bool can_end;  /* after closing */
} tn_state;

typedef struct tn_pending_call {
  uint32_t rank, rule, frame;
  tn_expr rest; /* what follows the call in its caller */
} tn_pending_call;

typedef struct tn_automaton {
  tn_exprs exprs;
  tn_state *states;
  size_t count, capacity;
  tn_item *items; /* of all states, before and after closing */
  size_t item_count, item_capacity;
  uint32_t *rows; /* exprs.classes entries each */
  size_t row_count, row_capacity;
  uint32_t *table;
  size_t table_size;
  uint32_t *stamps; /* by state: the closing that last left through it */
  size_t stamp_capacity;
  uint32_t stamp;
  tn_item *work; /* a state in the making */
  size_t work_count, work_capacity;
  tn_item *closed;
  size_t closed_count, closed_capacity;
  tn_pending_call *calls; /* a heap by rank */
  size_t call_count, call_capacity;
  uint32_t start;
  size_t limit; /* bytes at most */
} tn_automaton;

/* Takes a copy of analysed `exprs`; the text begins with rule `root`. */
tn_status tn_automaton_init(tn_automaton *a, const tn_exprs *exprs, uint32_t root, size_t limit);
void tn_automaton_finish(tn_automaton *a);
size_t tn_automaton_bytes(const tn_automaton *a);

/* Before a group of steps: how much work it may do. After it a->exprs.status tells whether that was enough. */
void tn_automaton_begin(tn_automaton *a);
/* The state after `byte`; TN_STATE_DEAD when it can't follow, or after a failure. */
uint32_t tn_automaton_step(tn_automaton *a, uint32_t state, uint8_t byte);
bool tn_automaton_can_end(tn_automaton *a, uint32_t state);
/* Closes the state: its items are then a->items[closed_first ..], settled_count of them not freshly called. */
bool tn_automaton_close(tn_automaton *a, uint32_t state);
/* The state of one expression with nothing but the bottom behind it. */
uint32_t tn_automaton_alone(tn_automaton *a, tn_expr expr);

#endif
