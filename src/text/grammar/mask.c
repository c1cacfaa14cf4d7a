/* How a mask is made.
 *
 * A state is a union of items (expression, frame), so its mask is the union of theirs. Most of an item's mask doesn't
 * depend on the frame: it is made once per expression, with nothing behind it (a "part"), together with the places in
 * the trie where the expression may be done ("exits"). Only the subtrees below exits are walked per state, from the
 * frame. So a string inside a thousand different objects is walked once.
 *
 * A state that loops over characters - it takes any character of a class, as often as you like or up to a number, and
 * is the same afterwards - has a "run". Its part begins with the tokens made of such characters (char_tokens.h), and
 * only where the trie leaves the class is it walked. Elsewhere in a walk a run takes whole subtrees at once. And what
 * may be repeated more often than a token has bytes may as well be repeated for ever, so a string of at most 5000
 * characters has the parts of any string until its end comes near. */
#include "text/grammar/mask.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

#define KEPT_BYTES ((size_t)96 << 20) /* of masks and parts; then they are forgotten and made anew */
#define MANY_CHARS 255u               /* a run of so many characters or more counts as endless */
#define OFF_RUN UINT32_MAX            /* the path left the run */
#define WORTH_A_RUN 32                /* tokens below a node, from which on its state's run is looked at */

typedef struct run {
  tn_char_class class_; /* the characters that it takes */
  uint32_t chars;       /* how many of them; MANY_CHARS = any number */
  uint32_t next;        /* the state after one of them */
  bool known;
} run;

typedef struct part {
  tn_expr expr;
  uint32_t *bits, *exits;
  size_t exit_count;
} part;

typedef struct whole {
  uint32_t state;
  uint32_t *bits;
} whole;

struct tn_masks {
  tn_grammar_vocab *vocab; /* what all below is about; a reference is held */
  part *parts;
  size_t part_count, part_capacity;
  whole *wholes;
  size_t whole_count, whole_capacity;
  tn_char_tokens *classes;
  size_t class_count, class_capacity;
  run *runs; /* by state */
  size_t run_capacity;
  uint32_t *part_table, *whole_table; /* index + 1 by hash */
  size_t part_slots, whole_slots;
  size_t bytes;   /* of bits and exits */
  uint32_t *path; /* states of the walk in hand, by depth */
};

typedef struct walk {
  tn_masks *m;
  tn_automaton *a;
  const tn_grammar_vocab *vocab;
  uint32_t *bits;
  part *part; /* gets the exits, or NULL */
  size_t exit_capacity;
} walk;

tn_masks *tn_masks_create(void) {
  return tn_calloc(1, sizeof(tn_masks));
}

static void forget(tn_masks *m) {
  for (size_t i = 0; i < m->part_count; i++) {
    free(m->parts[i].bits);
    free(m->parts[i].exits);
  }
  for (size_t i = 0; i < m->whole_count; i++) free(m->wholes[i].bits);
  for (size_t i = 0; i < m->class_count; i++) tn_char_tokens_finish(&m->classes[i]);
  free(m->parts);
  free(m->wholes);
  free(m->classes);
  free(m->runs);
  free(m->part_table);
  free(m->whole_table);
  free(m->path);
  *m = (tn_masks){.vocab = m->vocab};
}

void tn_masks_destroy(tn_masks *m) {
  if (!m) return;
  forget(m);
  tn_grammar_vocab_release(m->vocab);
  free(m);
}

/* ---- small hash tables: key -> index ---- */

static size_t slot_of(uint32_t key, size_t slots) {
  return (key * 0x9E3779B97F4A7C15u >> 32) & (slots - 1);
}

/* Enters item number `index`; items begin with their uint32_t key. */
static bool put_key(uint32_t **table, size_t *slots, size_t index, const void *items, size_t item_size) {
  if ((index + 1) * 2 > *slots) {
    size_t size = *slots ? *slots * 2 : 64;
    uint32_t *bigger = tn_calloc(size, sizeof *bigger);
    if (!bigger) return false;
    free(*table);
    *table = bigger;
    *slots = size;
    for (size_t i = 0; i < index; i++) {
      size_t at = slot_of(*(const uint32_t *)((const char *)items + i * item_size), size);
      while (bigger[at]) at = (at + 1) & (size - 1);
      bigger[at] = (uint32_t)i + 1;
    }
  }
  size_t at = slot_of(*(const uint32_t *)((const char *)items + index * item_size), *slots);
  while ((*table)[at]) at = (at + 1) & (*slots - 1);
  (*table)[at] = (uint32_t)index + 1;
  return true;
}

/* The item with `key`, SIZE_MAX when there is none. */
static size_t find_key(const uint32_t *table, size_t slots, uint32_t key, const void *items, size_t item_size) {
  if (!slots) return SIZE_MAX;
  for (size_t at = slot_of(key, slots); table[at]; at = (at + 1) & (slots - 1)) {
    size_t i = table[at] - 1u;
    if (*(const uint32_t *)((const char *)items + i * item_size) == key) return i;
  }
  return SIZE_MAX;
}

/* ---- runs ---- */

/* All bytes [low, high] lead from `state` to the same state, which is returned; otherwise dead. */
static uint32_t same_target(tn_automaton *a, uint32_t state, unsigned low, unsigned high) {
  uint32_t to = tn_automaton_step(a, state, (uint8_t)low);
  for (unsigned byte = low + 1; byte <= high && to != TN_STATE_DEAD; byte++)
    if (tn_automaton_step(a, state, (uint8_t)byte) != to) return TN_STATE_DEAD;
  return to;
}

/* Every character above 127 leads from `state` to `target`. */
static bool takes_wide(tn_automaton *a, uint32_t state, uint32_t target) {
  static const struct {
    uint8_t lead_low, lead_high, low, high, more;
  } lines[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
               {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
               {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
  for (size_t i = 0; i < TN_COUNT(lines); i++) {
    uint32_t at = same_target(a, state, lines[i].lead_low, lines[i].lead_high);
    at = same_target(a, at, lines[i].low, lines[i].high);
    for (unsigned more = lines[i].more; more; more--) at = same_target(a, at, 0x80, 0xBF);
    if (at != target || at == TN_STATE_DEAD) return false;
  }
  return true;
}

/* When the state is one item "repeat, then the rest": the repeat. */
static const tn_expr_node *repeat_of(const tn_automaton *a, uint32_t state, uint32_t *frame, tn_expr *rest) {
  const tn_state *s = &a->states[state];
  if (s->count != 1 || s->complete) return NULL;
  tn_item item = a->items[s->first];
  const tn_expr_node *node = &a->exprs.nodes[item.expr];
  *frame = item.frame;
  *rest = TN_EXPR_EMPTY;
  if (node->kind == TN_EXPR_IS_CONCAT) {
    *rest = node->b;
    node = &a->exprs.nodes[node->a];
  }
  return node->kind == TN_EXPR_IS_REPEAT ? node : NULL;
}

/* How many characters the loop from `state` to `next` goes on for with the same set of characters: when the state
 * repeats something and the next one repeats the same once less, as often as it must (or, where it need not, may). */
static uint32_t loop_chars(const tn_automaton *a, uint32_t state, uint32_t next) {
  uint32_t frame, next_frame;
  tn_expr rest, next_rest;
  if (next == state) return MANY_CHARS;
  const tn_expr_node *from = repeat_of(a, state, &frame, &rest), *to = repeat_of(a, next, &next_frame, &next_rest);
  if (!from || !to || from->a != to->a || frame != next_frame || rest != next_rest) return 1;
  uint32_t chars = from->b ? from->b : from->c;
  return chars < MANY_CHARS ? chars : MANY_CHARS;
}

static bool room_for_runs(tn_masks *m, const tn_automaton *a) {
  if (a->count <= m->run_capacity) return true;
  size_t capacity = a->count * 2;
  run *runs = realloc(m->runs, capacity * sizeof *runs);
  if (!runs) return false;
  memset(runs + m->run_capacity, 0, (capacity - m->run_capacity) * sizeof *runs);
  m->runs = runs;
  m->run_capacity = capacity;
  return true;
}

/* The run that begins at `state`; no characters when there is none. */
static run run_at(tn_masks *m, tn_automaton *a, uint32_t state) {
  if (!room_for_runs(m, a)) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), (run){0};
  if (m->runs[state].known) return m->runs[state];
  run r = {.known = true};
  uint32_t next = r.next = tn_automaton_step(a, state, 'e'); /* a state that loops over characters loops over letters */
  if (next != TN_STATE_DEAD) {
    r.chars = loop_chars(a, state, next);
    for (unsigned byte = 0; byte < 128; byte++)
      if (tn_automaton_step(a, state, (uint8_t)byte) == next) r.class_.ascii[byte >> 6] |= (uint64_t)1 << (byte & 63);
    r.class_.wide = takes_wide(a, state, next);
  }
  /* what must come may be followed by more of what may come */
  if (next != TN_STATE_DEAD && r.chars < MANY_CHARS && a->exprs.status == TN_OK) {
    uint32_t after = next;
    for (uint32_t n = 1; n < r.chars; n++) after = tn_automaton_step(a, after, 'e');
    uint32_t then = tn_automaton_step(a, after, 'e');
    if (then == after || (then != TN_STATE_DEAD && loop_chars(a, after, then) > 1)) {
      run more = run_at(m, a, after);
      for (int w = 0; w < 2; w++) r.class_.ascii[w] &= more.class_.ascii[w];
      r.class_.wide = r.class_.wide && more.class_.wide;
      r.chars = more.chars + r.chars < MANY_CHARS ? more.chars + r.chars : MANY_CHARS;
    }
  }
  if (a->exprs.status == TN_OK && room_for_runs(m, a)) m->runs[state] = r;
  return r;
}

/* All tokens below `node` are made of the run's characters, and no more than it takes. */
static bool covers(const run *r, const tn_grammar_vocab *v, uint32_t node) {
  const tn_trie_below *below = &v->below[node];
  uint8_t flags = v->nodes[node].flags;
  return !(flags & TN_NODE_TORN) && !(below->ascii[0] & ~r->class_.ascii[0]) &&
         !(below->ascii[1] & ~r->class_.ascii[1]) && (r->class_.wide || !(flags & TN_NODE_WIDE)) &&
         (r->chars == MANY_CHARS || below->chars <= r->chars);
}

/* ---- walking ---- */

static void set_tokens(const tn_grammar_vocab *v, uint32_t *bits, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) bits[v->order[i] >> 5] |= (uint32_t)1 << (v->order[i] & 31);
}

static bool add_exit(walk *w, uint32_t node) {
  uint32_t *slot = TN_PUSH(w->part->exits, w->part->exit_count, w->exit_capacity);
  if (!slot) return tn_exprs_fail(&w->a->exprs, TN_E_MEMORY), false;
  *slot = node;
  return true;
}

/* True when the tokens below node `i`, reached with state `to`, are all allowed and set. */
static bool take_subtree(walk *w, uint32_t i, uint32_t to) {
  const tn_trie_node *node = &w->vocab->nodes[i];
  uint32_t end = w->vocab->nodes[node->end].tokens;
  if (end - node->tokens < WORTH_A_RUN || !(node->flags & TN_NODE_WHOLE)) return false;
  run r = run_at(w->m, w->a, to);
  if (!r.chars || !covers(&r, w->vocab, i)) return false;
  set_tokens(w->vocab, w->bits, node->tokens, end);
  return true;
}

/* Node `i` can follow in `state`: sets its tokens, notes an exit. Returns the state to walk on with below it, or dead
 * when nothing is left to do there. */
static uint32_t visit(walk *w, uint32_t i, uint32_t state) {
  const tn_trie_node *node = &w->vocab->nodes[i];
  uint32_t to = tn_automaton_step(w->a, state, node->byte);
  if (to == TN_STATE_DEAD) return to;
  set_tokens(w->vocab, w->bits, node->tokens, w->vocab->nodes[i + 1].tokens);
  if (node->end == i + 1) return TN_STATE_DEAD;
  if (w->part && tn_automaton_can_end(w->a, to) && !add_exit(w, i)) return TN_STATE_DEAD;
  return to == TN_STATE_BOTTOM || take_subtree(w, i, to) ? TN_STATE_DEAD : to;
}

/* Sets the tokens below `top` that can follow there from `state`. */
static void walk_below(walk *w, uint32_t top, uint32_t state) {
  uint32_t *path = w->m->path;
  tn_exprs *x = &w->a->exprs;
  const tn_trie_node *nodes = w->vocab->nodes;
  uint64_t visited = 0;
  path[nodes[top].depth] = state;
  for (uint32_t i = top + 1; i < nodes[top].end && x->status == TN_OK; visited++) {
    uint32_t to = visit(w, i, path[nodes[i].depth - 1]);
    path[nodes[i].depth] = to;
    i = to == TN_STATE_DEAD ? nodes[i].end : i + 1;
  }
  if (x->steps < visited)
    tn_exprs_fail(x, TN_E_LIMIT);
  else
    x->steps -= visited;
}

/* ---- parts ---- */

/* The tokens of the class; NULL when memory is out. */
static const tn_char_tokens *tokens_of(tn_masks *m, const tn_char_class *class_) {
  if (tn_same_class(&m->vocab->strings.class_, class_)) return &m->vocab->strings;
  for (size_t i = 0; i < m->class_count; i++)
    if (tn_same_class(&m->classes[i].class_, class_)) return &m->classes[i];
  tn_char_tokens *set = TN_PUSH(m->classes, m->class_count, m->class_capacity);
  if (!set) return NULL;
  if (!tn_char_tokens_make(set, m->vocab, *class_)) {
    tn_char_tokens_finish(set);
    m->class_count--;
    return NULL;
  }
  m->bytes += tn_char_tokens_bytes(set, m->vocab);
  return set;
}

/* The states after 0, 1, 2, ... characters of the run, until they stay the same or the run ends; returns how many, 0
 * when the states go on changing. `states` has room for MANY_CHARS + 1. */
static uint32_t run_states(tn_automaton *a, const run *r, uint32_t state, uint32_t *states) {
  uint32_t count = 1;
  states[0] = state;
  for (; count <= r->chars; count++) {
    if (count > MANY_CHARS) return 0;
    states[count] = tn_automaton_step(a, states[count - 1], 'e');
    if (states[count] == states[count - 1]) break;
  }
  return r->chars == MANY_CHARS && count > MANY_CHARS ? 0 : count;
}

/* True when no character of the run's class can come in `state`, after the run: then tokens with more of them are
 * refused, and nothing else is to be found out about them. */
static bool stops(tn_automaton *a, const run *r, uint32_t state) {
  for (unsigned byte = 0; byte < 256; byte++)
    if (tn_in_class(&r->class_, (uint8_t)byte) && tn_automaton_step(a, state, (uint8_t)byte) != TN_STATE_DEAD)
      return false;
  return true;
}

/* Fills the part with what the run that begins at `state` takes, and what can follow where tokens leave it. False when
 * the run is of no use; then nothing is filled. */
static bool walk_run(walk *w, uint32_t state) {
  tn_automaton *a = w->a;
  run r = run_at(w->m, a, state);
  uint32_t states[MANY_CHARS + 1], count;
  if (r.chars < 2 || a->exprs.status != TN_OK) return false;
  count = run_states(a, &r, state, states);
  if (!count || a->exprs.status != TN_OK || (r.chars < MANY_CHARS && !stops(a, &r, states[count - 1]))) return false;
  const tn_char_tokens *set = tokens_of(w->m, &r.class_);
  if (!set) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
  tn_char_tokens_copy(set, w->vocab, r.chars == MANY_CHARS ? UINT32_MAX : r.chars, w->bits);
  for (size_t i = 0; i < set->leaving_count && a->exprs.status == TN_OK; i++) {
    tn_leaving leaving = set->leaving[i];
    if (r.chars < MANY_CHARS && leaving.chars > r.chars) continue;
    uint32_t to = visit(w, leaving.node, states[leaving.chars < count ? leaving.chars : count - 1]);
    if (to != TN_STATE_DEAD) walk_below(w, leaving.node, to);
  }
  return true;
}

/* The same expression as far as a token of the vocabulary can tell: counts beyond the bytes of a token don't matter. */
static tn_expr for_tokens(tn_masks *m, tn_exprs *x, tn_expr e) {
  bool is_concat = x->nodes[e].kind == TN_EXPR_IS_CONCAT;
  tn_expr rest = is_concat ? x->nodes[e].b : TN_EXPR_EMPTY;
  tn_expr_node repeat = x->nodes[is_concat ? x->nodes[e].a : e];
  uint32_t far = m->vocab->depth + 1;
  if (repeat.kind != TN_EXPR_IS_REPEAT || tn_expr_nullable(x, repeat.a)) return e;
  if (repeat.c == TN_EXPR_MANY ? repeat.b <= far : repeat.c <= far) return e;
  return tn_expr_concat(x, tn_expr_repeat(x, repeat.a, repeat.b < far ? repeat.b : far, TN_EXPR_MANY), rest);
}

static bool make_part(tn_masks *m, tn_automaton *a, part *p) {
  walk w = {.m = m, .a = a, .vocab = m->vocab, .part = p};
  uint32_t state = tn_automaton_alone(a, p->expr);
  p->bits = w.bits = tn_calloc(m->vocab->words, sizeof *p->bits);
  if (!p->bits) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
  m->bytes += m->vocab->words * sizeof *p->bits;
  if (a->exprs.status != TN_OK || state <= TN_STATE_BOTTOM) return a->exprs.status == TN_OK;
  if (!walk_run(&w, state)) walk_below(&w, 0, state);
  m->bytes += w.exit_capacity * sizeof *p->exits;
  return a->exprs.status == TN_OK;
}

/* The index of the part of `expr`; SIZE_MAX after a failure. */
static size_t part_of(tn_masks *m, tn_automaton *a, tn_expr expr) {
  expr = for_tokens(m, &a->exprs, expr);
  size_t known = find_key(m->part_table, m->part_slots, expr, m->parts, sizeof *m->parts);
  if (known != SIZE_MAX) return known;
  part *slot = TN_PUSH(m->parts, m->part_count, m->part_capacity);
  if (!slot) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), SIZE_MAX;
  slot->expr = expr;
  if (make_part(m, a, slot) && put_key(&m->part_table, &m->part_slots, m->part_count - 1, m->parts, sizeof *m->parts))
    return m->part_count - 1;
  tn_exprs_fail(&a->exprs, TN_E_MEMORY);
  slot = &m->parts[--m->part_count];
  free(slot->bits);
  free(slot->exits);
  return SIZE_MAX;
}

/* ---- whole masks ---- */

static bool make_whole(tn_masks *m, tn_automaton *a, uint32_t state, uint32_t *bits) {
  walk w = {.m = m, .a = a, .vocab = m->vocab, .bits = bits};
  if (!tn_automaton_close(a, state)) return false;
  for (uint32_t i = 0; i < a->states[state].settled_count; i++) {
    tn_item item = a->items[a->states[state].closed_first + i];
    size_t at = part_of(m, a, item.expr);
    if (at == SIZE_MAX) return false;
    const part *p = &m->parts[at];
    for (size_t j = 0; j < m->vocab->words; j++) bits[j] |= p->bits[j];
    if (item.frame > TN_STATE_BOTTOM)
      for (size_t j = 0; j < p->exit_count; j++) walk_below(&w, p->exits[j], item.frame);
  }
  if (a->states[state].can_end)
    for (uint32_t i = 0; i < m->vocab->end_count; i++)
      bits[m->vocab->ends[i] >> 5] |= (uint32_t)1 << (m->vocab->ends[i] & 31);
  return a->exprs.status == TN_OK;
}

/* Turns to `vocab`, and forgets everything when it is another one or too much is kept. */
static bool prepare(tn_masks *m, tn_grammar_vocab *vocab) {
  if (m->vocab != vocab || m->bytes > KEPT_BYTES) forget(m);
  if (m->vocab != vocab) {
    tn_grammar_vocab_keep(vocab);
    tn_grammar_vocab_release(m->vocab);
    m->vocab = vocab;
  }
  if (!m->path) m->path = tn_calloc(vocab->depth + 1u, sizeof *m->path);
  return m->path != NULL;
}

const uint32_t *tn_masks_of(tn_masks *m, tn_automaton *a, tn_grammar_vocab *vocab, uint32_t state) {
  if (!prepare(m, vocab)) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), NULL;
  size_t known = find_key(m->whole_table, m->whole_slots, state, m->wholes, sizeof *m->wholes);
  if (known != SIZE_MAX) return m->wholes[known].bits;
  uint32_t *bits = tn_calloc(vocab->words, sizeof *bits);
  whole *slot = bits ? TN_PUSH(m->wholes, m->whole_count, m->whole_capacity) : NULL;
  if (!slot) {
    free(bits);
    return tn_exprs_fail(&a->exprs, TN_E_MEMORY), NULL;
  }
  *slot = (whole){state, bits};
  m->bytes += vocab->words * sizeof *bits;
  if (make_whole(m, a, state, bits) &&
      put_key(&m->whole_table, &m->whole_slots, m->whole_count - 1, m->wholes, sizeof *m->wholes))
    return bits;
  tn_exprs_fail(&a->exprs, TN_E_MEMORY);
  m->whole_count--;
  free(bits);
  return NULL;
}
