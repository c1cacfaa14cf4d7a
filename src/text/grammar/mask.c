/* How a mask is made.
 *
 * A state is a union of items (expression, frame), so its mask is the union of theirs. Most of an item's mask doesn't
 * depend on the frame: it is made once per expression, with nothing behind it (a "part"), together with the places in
 * the trie where the expression may be done ("exits"). Only the subtrees below exits are walked per state, from the
 * frame. So a string inside a thousand different objects is walked once.
 *
 * Within a walk, a state that loops over characters - it takes any character of a set, as often as you like or up to a
 * number, and is the same afterwards - takes whole subtrees at once ("run"). Tokens that such a state takes
 * from the root are kept as a set of their own, shared by all states with the same characters and number left: a
 * string limited to 500 characters has 500 states, and each of them starts from the same set. */
#include "text/grammar/mask.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

#define KEPT_BYTES ((size_t)96 << 20) /* of masks and parts; then they are forgotten and made anew */
#define MANY_CHARS 255u               /* a run of so many characters or more counts as endless */
#define OFF_RUN UINT32_MAX            /* the path left the run */
#define WORTH_A_RUN 32                /* tokens below a node, from which on its state's run is looked at */

typedef struct run {
  uint64_t ascii[2]; /* characters under 128 that the run takes */
  uint32_t chars;    /* how many of them; MANY_CHARS = any number */
  bool known, wide;  /* wide: it takes every character above 127 as well */
} run;

typedef struct part {
  tn_expr expr;
  uint32_t *bits, *exits;
  size_t exit_count;
} part;

typedef struct span { /* the tokens that a run takes from the root */
  run run;
  uint32_t *bits;
} span;

typedef struct step_place { /* on the path from the root of the trie */
  uint32_t state;
  uint32_t left; /* characters left of the run that began at the root */
} step_place;

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
  span *spans;
  size_t span_count, span_capacity;
  run *runs; /* by state */
  size_t run_capacity;
  uint32_t *part_table, *whole_table; /* index + 1 by hash */
  size_t part_slots, whole_slots;
  size_t bytes;     /* of bits and exits */
  step_place *path; /* of the walk in hand, by depth */
};

typedef struct walk {
  tn_masks *m;
  tn_automaton *a;
  const tn_grammar_vocab *vocab;
  uint32_t *bits;
  const run *root_run; /* the run whose tokens are in `bits` already, or NULL */
  part *part;          /* gets the exits, or NULL */
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
  for (size_t i = 0; i < m->span_count; i++) free(m->spans[i].bits);
  free(m->parts);
  free(m->wholes);
  free(m->spans);
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
  uint32_t next = tn_automaton_step(a, state, 'e'); /* a state that loops over characters loops over letters */
  if (next != TN_STATE_DEAD) {
    r.chars = loop_chars(a, state, next);
    for (unsigned byte = 0; byte < 128; byte++)
      if (tn_automaton_step(a, state, (uint8_t)byte) == next) r.ascii[byte >> 6] |= (uint64_t)1 << (byte & 63);
    r.wide = takes_wide(a, state, next);
  }
  /* a character that is due may be followed by a longer run of those that may come */
  if (next != TN_STATE_DEAD && next != state && r.chars == 1 && a->exprs.status == TN_OK) {
    uint32_t after = tn_automaton_step(a, next, 'e');
    if (after == next || (after != TN_STATE_DEAD && loop_chars(a, next, after) > 1)) {
      run more = run_at(m, a, next);
      for (int w = 0; w < 2; w++) r.ascii[w] &= more.ascii[w];
      r.wide = r.wide && more.wide;
      r.chars = more.chars < MANY_CHARS ? more.chars + 1 : MANY_CHARS;
    }
  }
  if (a->exprs.status == TN_OK && room_for_runs(m, a)) m->runs[state] = r;
  return r;
}

/* All tokens below `node` are made of the run's characters, at most `chars` of them. */
static bool covers(const run *r, uint32_t chars, const tn_grammar_vocab *v, uint32_t node) {
  const tn_trie_below *below = &v->below[node];
  uint8_t flags = v->nodes[node].flags;
  return (flags & (TN_NODE_WHOLE | TN_NODE_TORN)) == TN_NODE_WHOLE && !(below->ascii[0] & ~r->ascii[0]) &&
         !(below->ascii[1] & ~r->ascii[1]) && (r->wide || !(flags & TN_NODE_WIDE)) &&
         (chars == MANY_CHARS || below->chars <= chars);
}

/* What is left of `left` characters of the run after a node of the path; OFF_RUN when the path has left it. */
static uint32_t run_left(const run *r, uint32_t left, const tn_trie_node *node) {
  bool on = node->byte < 128 ? r->ascii[node->byte >> 6] >> (node->byte & 63) & 1 : r->wide;
  if (left == OFF_RUN || !on || !(node->flags & TN_NODE_PATH_OK)) return OFF_RUN;
  if (left == MANY_CHARS || !(node->flags & TN_NODE_WHOLE)) return left;
  return left ? left - 1 : OFF_RUN;
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
  if (!r.chars || !covers(&r, r.chars, w->vocab, i)) return false;
  set_tokens(w->vocab, w->bits, node->tokens, end);
  return true;
}

/* Sets the tokens below `top` that can follow there from `state`. */
static void walk_below(walk *w, uint32_t top, uint32_t state) {
  step_place *path = w->m->path;
  tn_exprs *x = &w->a->exprs;
  const tn_trie_node *nodes = w->vocab->nodes;
  uint64_t visited = 0;
  path[nodes[top].depth] = (step_place){state, w->root_run ? w->root_run->chars : OFF_RUN};
  for (uint32_t i = top + 1; i < nodes[top].end && x->status == TN_OK; visited++) {
    const tn_trie_node *node = &nodes[i];
    const step_place *before = &path[node->depth - 1];
    uint32_t left = w->root_run ? run_left(w->root_run, before->left, node) : OFF_RUN;
    if (left != OFF_RUN && covers(w->root_run, left, w->vocab, i)) {
      i = node->end; /* set already */
      continue;
    }
    uint32_t to = tn_automaton_step(w->a, before->state, node->byte);
    if (to == TN_STATE_DEAD) {
      i = node->end;
      continue;
    }
    set_tokens(w->vocab, w->bits, node->tokens, nodes[i + 1].tokens);
    if (node->end > i + 1 && w->part && tn_automaton_can_end(w->a, to) && !add_exit(w, i)) break;
    if (node->end == i + 1 || to == TN_STATE_BOTTOM || take_subtree(w, i, to)) {
      i = node->end;
      continue;
    }
    path[node->depth] = (step_place){to, left};
    i++;
  }
  if (x->steps < visited)
    tn_exprs_fail(x, TN_E_LIMIT);
  else
    x->steps -= visited;
}

/* ---- parts ---- */

/* The set of all tokens that the run takes from the root. NULL when memory is out. */
static const uint32_t *span_of(tn_masks *m, const run *r) {
  const tn_grammar_vocab *v = m->vocab;
  for (size_t i = 0; i < m->span_count; i++)
    if (!memcmp(m->spans[i].run.ascii, r->ascii, sizeof r->ascii) && m->spans[i].run.chars == r->chars &&
        m->spans[i].run.wide == r->wide)
      return m->spans[i].bits;
  span *s = TN_PUSH(m->spans, m->span_count, m->span_capacity);
  if (!s) return NULL;
  s->run = *r;
  s->bits = tn_calloc(v->words, sizeof *s->bits);
  if (!s->bits) return m->span_count--, NULL;
  m->bytes += v->words * sizeof *s->bits;
  m->path[0].left = r->chars;
  for (uint32_t i = 1; i < v->node_count;) {
    const tn_trie_node *node = &v->nodes[i];
    uint32_t left = run_left(r, m->path[node->depth - 1].left, node);
    bool all = left != OFF_RUN && covers(r, left, v, i);
    if (all)
      set_tokens(v, s->bits, node->tokens, v->nodes[node->end].tokens);
    else if (left != OFF_RUN && node->flags & TN_NODE_WHOLE)
      set_tokens(v, s->bits, node->tokens, v->nodes[i + 1].tokens);
    m->path[node->depth].left = left;
    i = all || left == OFF_RUN ? node->end : i + 1;
  }
  return s->bits;
}

static bool make_part(tn_masks *m, tn_automaton *a, part *p) {
  walk w = {.m = m, .a = a, .vocab = m->vocab, .part = p};
  uint32_t state = tn_automaton_alone(a, p->expr);
  p->bits = w.bits = tn_calloc(m->vocab->words, sizeof *p->bits);
  if (!p->bits) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
  m->bytes += m->vocab->words * sizeof *p->bits;
  if (a->exprs.status != TN_OK || state <= TN_STATE_BOTTOM) return a->exprs.status == TN_OK;
  run r = run_at(m, a, state);
  if (r.chars > 1 && a->exprs.status == TN_OK) {
    const uint32_t *taken = span_of(m, &r);
    if (!taken) return tn_exprs_fail(&a->exprs, TN_E_MEMORY), false;
    memcpy(p->bits, taken, m->vocab->words * sizeof *p->bits);
    w.root_run = &r;
  }
  walk_below(&w, 0, state);
  m->bytes += w.exit_capacity * sizeof *p->exits;
  return a->exprs.status == TN_OK;
}

/* The index of the part of `expr`; SIZE_MAX after a failure. */
static size_t part_of(tn_masks *m, tn_automaton *a, tn_expr expr) {
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
