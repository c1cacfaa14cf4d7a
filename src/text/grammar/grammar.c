/* Grammars and matchers: who owns what, and locking.
 *
 * A grammar's expressions never change. What they unfold into (states, masks) grows as texts are matched and is shared
 * by all matchers, under the grammar's lock. When it has grown large, new matchers begin with a fresh one; the old one
 * goes with its last matcher. */
#include "text/grammar/grammar.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/utf8.h"
#include "text/grammar/automaton.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/mask.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema.h"

#define LARGE_BYTES ((size_t)48 << 20)  /* new matchers get a fresh unfolding above this */
#define LIMIT_BYTES ((size_t)256 << 20) /* an unfolding never grows beyond this */
#define MAX_CHOICES_BYTES ((size_t)4 << 20)

typedef struct unfolding {
  tn_automaton automaton;
  tn_masks *masks;
  size_t users; /* matchers, and the grammar while it is the current one */
} unfolding;

struct tn_grammar {
  atomic_uint references;
  tn_mutex *mutex; /* guards everything below */
  tn_exprs exprs;
  uint32_t root;
  unfolding *current;
};

struct tn_grammar_matcher {
  tn_grammar *grammar;
  unfolding *unfolding;
  uint32_t state;
  uint32_t *history; /* the state before each entry */
  size_t count, capacity;
};

/* ---- ownership ---- */

static void leave(unfolding *u) {
  if (!u || --u->users) return;
  tn_automaton_finish(&u->automaton);
  tn_masks_destroy(u->masks);
  free(u);
}

void tn_grammar_release(tn_grammar *grammar) {
  if (!grammar || atomic_fetch_sub(&grammar->references, 1) != 1) return;
  leave(grammar->current);
  tn_exprs_finish(&grammar->exprs);
  tn_mutex_destroy(grammar->mutex);
  free(grammar);
}

/* Makes a fresh unfolding the current one. The lock is held. */
static tn_status renew(tn_grammar *grammar, tn_error *error) {
  unfolding *u = tn_calloc(1, sizeof *u);
  tn_masks *masks = u ? tn_masks_create() : NULL;
  tn_status status =
      masks ? tn_automaton_init(&u->automaton, &grammar->exprs, grammar->root, LIMIT_BYTES) : TN_E_MEMORY;
  if (status != TN_OK) {
    tn_masks_destroy(masks);
    free(u);
    return tn_fail(error, status, "%s",
                   status == TN_E_LIMIT ? "the grammar is too large" : "out of memory for a grammar");
  }
  u->masks = masks;
  u->users = 1;
  leave(grammar->current);
  grammar->current = u;
  return TN_OK;
}

/* A grammar with empty expressions. */
static tn_grammar *new_grammar(tn_error *error) {
  tn_grammar *grammar = tn_calloc(1, sizeof *grammar);
  if (grammar) grammar->mutex = tn_mutex_create();
  if (!grammar || !grammar->mutex) {
    free(grammar);
    tn_fail(error, TN_E_MEMORY, "out of memory for a grammar");
    return NULL;
  }
  atomic_init(&grammar->references, 1);
  tn_exprs_init(&grammar->exprs);
  return grammar;
}

/* Messages quote names and patterns, cut at some byte: mends what is no character. */
static void mend_message(tn_error *error) {
  size_t size = strlen(error->message);
  for (size_t at = 0; (at += tn_utf8_valid_prefix(error->message + at, size - at)) < size;) error->message[at++] = '?';
}

/* The end of every constructor: the grammar, or nothing when `status` isn't TN_OK. */
static tn_status finish_grammar(tn_grammar **out, tn_grammar *grammar, tn_status status, tn_error *error) {
  if (status == TN_OK) status = renew(grammar, error);
  if (status != TN_OK) {
    tn_grammar_release(grammar);
    grammar = NULL;
    if (error) mend_message(error);
  }
  *out = grammar;
  return status;
}

/* ---- constructors ---- */

static tn_status root_of(tn_grammar *grammar, tn_expr body, tn_error *error) {
  tn_exprs *x = &grammar->exprs;
  grammar->root = tn_rule_add(x);
  if (grammar->root != UINT32_MAX) x->rules[grammar->root].body = body;
  return tn_exprs_analyse(x, grammar->root, NULL, NULL, error);
}

tn_status tn_grammar_from_schema(tn_grammar **grammar, const char *schema, size_t size, tn_error *error) {
  *grammar = NULL;
  tn_grammar *g = new_grammar(error);
  if (!g) return TN_E_MEMORY;
  return finish_grammar(grammar, g, tn_schema_rules(&g->exprs, schema, size, &g->root, error), error);
}

tn_status tn_grammar_from_gbnf(tn_grammar **grammar, const char *text, size_t size, tn_error *error) {
  *grammar = NULL;
  tn_grammar *g = new_grammar(error);
  if (!g) return TN_E_MEMORY;
  return finish_grammar(grammar, g, tn_gbnf_rules(&g->exprs, text, size, &g->root, error), error);
}

tn_status tn_grammar_from_regex(tn_grammar **grammar, const char *pattern, size_t size, tn_error *error) {
  *grammar = NULL;
  tn_grammar *g = new_grammar(error);
  if (!g) return TN_E_MEMORY;
  tn_expr body;
  tn_status status = tn_regex_expr(&g->exprs, pattern, size, false, TN_SPELL_UTF8, &body, error);
  if (status == TN_OK) status = root_of(g, body, error);
  return finish_grammar(grammar, g, status, error);
}

tn_status tn_grammar_from_choices(tn_grammar **grammar, const tn_grammar_text *choices, size_t count, tn_error *error) {
  *grammar = NULL;
  size_t total = 0;
  for (size_t i = 0; i < count; i++) {
    if (!tn_add_size(total, choices[i].size, &total) || total > MAX_CHOICES_BYTES)
      return tn_fail(error, TN_E_LIMIT, "choices of more than %zu bytes together", MAX_CHOICES_BYTES);
    if (tn_utf8_valid_prefix(choices[i].bytes, choices[i].size) < choices[i].size)
      return tn_fail(error, TN_E_INVALID, "choice %zu isn't UTF-8", i);
  }
  tn_grammar *g = new_grammar(error);
  if (!g) return TN_E_MEMORY;
  size_t base = g->exprs.scratch_count;
  for (size_t i = 0; i < count; i++)
    tn_exprs_scratch(&g->exprs, tn_expr_literal(&g->exprs, choices[i].bytes, choices[i].size));
  tn_status status = root_of(g, tn_expr_combine(&g->exprs, TN_EXPR_IS_ALT, base), error);
  return finish_grammar(grammar, g, status, error);
}

static tn_expr part_expr(tn_exprs *x, const tn_grammar_part *part, tn_status *status, tn_error *error) {
  const char *bytes = part->text.bytes;
  const size_t size = part->text.size, base = x->scratch_count;
  tn_expr e = TN_EXPR_NOTHING;
  uint32_t rule = 0;
  switch (part->kind) {
    case TN_GRAMMAR_LITERAL: return tn_expr_literal(x, bytes, size);
    case TN_GRAMMAR_CONTROL: return tn_expr_control(x, bytes, size);
    case TN_GRAMMAR_PATTERN: *status = tn_regex_expr(x, bytes, size, false, TN_SPELL_UTF8, &e, error); return e;
    case TN_GRAMMAR_SCHEMA:
      *status = tn_schema_add(x, bytes, size, part->notation, &rule, error);
      return *status == TN_OK ? tn_expr_call(x, rule) : TN_EXPR_NOTHING;
    case TN_GRAMMAR_CHOICES:
      for (size_t i = 0; i < part->choice_count; i++)
        tn_exprs_scratch(x, tn_expr_literal(x, part->choices[i].bytes, part->choices[i].size));
      return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
    case TN_GRAMMAR_WITHOUT: return tn_text_without(x, bytes, size);
  }
  return e;
}

static tn_expr sequence_expr(tn_exprs *x, const tn_grammar_sequence *sequence, tn_status *status, tn_error *error) {
  tn_expr all = TN_EXPR_EMPTY, group = TN_EXPR_EMPTY;
  for (size_t i = sequence->count; i-- > 0 && *status == TN_OK;) {
    const tn_grammar_part *part = &sequence->parts[i];
    group = tn_expr_concat(x, part_expr(x, part, status, error), group);
    if (i > 0 && part->group && part[-1].group == part->group) continue;
    all = tn_expr_concat(x, part->group ? tn_expr_optional(x, group) : group, all);
    group = TN_EXPR_EMPTY;
  }
  return all;
}

tn_status tn_grammar_from_list(tn_grammar **grammar, const tn_grammar_list *list, tn_error *error) {
  *grammar = NULL;
  tn_grammar *g = new_grammar(error);
  if (!g) return TN_E_MEMORY;
  tn_exprs *x = &g->exprs;
  tn_status status = TN_OK;
  size_t base = x->scratch_count;
  for (size_t i = 0; i < list->count && status == TN_OK; i++)
    tn_exprs_scratch(x, sequence_expr(x, &list->choices[i], &status, error));
  tn_expr one = tn_expr_combine(x, TN_EXPR_IS_ALT, base), more = TN_EXPR_EMPTY;
  if (list->repeats) /* one (between one)* */
    more = tn_expr_repeat(x, tn_expr_concat(x, sequence_expr(x, &list->between, &status, error), one), 0, TN_EXPR_MANY);
  tn_expr body = tn_expr_concat3(x, one, more, sequence_expr(x, &list->after, &status, error));
  body = tn_expr_concat(x, sequence_expr(x, &list->before, &status, error), body);
  if (status == TN_OK) status = root_of(g, body, error);
  return finish_grammar(grammar, g, status, error);
}

/* ---- matchers ---- */

tn_status tn_grammar_matcher_create(tn_grammar_matcher **matcher, tn_grammar *grammar, tn_error *error) {
  *matcher = NULL;
  tn_grammar_matcher *m = tn_calloc(1, sizeof *m);
  if (!m) return tn_fail(error, TN_E_MEMORY, "out of memory for a matcher");
  tn_mutex_lock(grammar->mutex);
  tn_status status = TN_OK;
  if (tn_automaton_bytes(&grammar->current->automaton) > LARGE_BYTES + tn_exprs_bytes(&grammar->exprs))
    status = renew(grammar, error);
  if (status == TN_OK) {
    m->unfolding = grammar->current;
    m->unfolding->users++;
    m->state = m->unfolding->automaton.start;
  }
  tn_mutex_unlock(grammar->mutex);
  if (status != TN_OK) {
    free(m);
    return status;
  }
  atomic_fetch_add(&grammar->references, 1);
  m->grammar = grammar;
  *matcher = m;
  return TN_OK;
}

tn_status tn_grammar_matcher_copy(tn_grammar_matcher **copy, const tn_grammar_matcher *matcher, tn_error *error) {
  tn_grammar_matcher *m = tn_calloc(1, sizeof *m);
  uint32_t *history = m ? tn_calloc(matcher->count, sizeof *history) : NULL;
  *copy = NULL;
  if (!history) {
    free(m);
    return tn_fail(error, TN_E_MEMORY, "out of memory for a matcher");
  }
  *m = *matcher;
  if (m->count) memcpy(history, matcher->history, m->count * sizeof *history);
  m->history = history;
  m->capacity = m->count;
  tn_mutex_lock(m->grammar->mutex);
  m->unfolding->users++;
  tn_mutex_unlock(m->grammar->mutex);
  atomic_fetch_add(&m->grammar->references, 1);
  *copy = m;
  return TN_OK;
}

void tn_grammar_matcher_destroy(tn_grammar_matcher *matcher) {
  if (!matcher) return;
  tn_mutex_lock(matcher->grammar->mutex);
  leave(matcher->unfolding);
  tn_mutex_unlock(matcher->grammar->mutex);
  tn_grammar_release(matcher->grammar);
  free(matcher->history);
  free(matcher);
}

/* ---- matching ---- */

/* Locks the grammar and starts a piece of work on its automaton. */
static tn_automaton *enter(const tn_grammar_matcher *m) {
  tn_mutex_lock(m->grammar->mutex);
  tn_automaton_begin(&m->unfolding->automaton);
  return &m->unfolding->automaton;
}

static tn_status refuse_work(tn_status status, tn_error *error) {
  return tn_fail(error, status, "%s",
                 status == TN_E_LIMIT ? "the grammar became too ambiguous or too large here"
                                      : "out of memory while matching a grammar");
}

static tn_status note(tn_grammar_matcher *m, uint32_t state, tn_error *error) {
  uint32_t *slot = TN_PUSH(m->history, m->count, m->capacity);
  if (!slot) return tn_fail(error, TN_E_MEMORY, "out of memory while matching a grammar");
  *slot = m->state;
  m->state = state;
  return TN_OK;
}

tn_status tn_grammar_accept_bytes(tn_grammar_matcher *matcher, const char *bytes, size_t size, size_t *accepted,
                                  tn_error *error) {
  uint32_t state = matcher->state;
  size_t taken = 0;
  tn_automaton *a = enter(matcher);
  tn_status status = TN_OK;
  for (; taken < size && status == TN_OK; taken++) {
    if (taken % 1024 == 1023) tn_automaton_begin(a); /* a budget for each stretch of text */
    uint32_t to = tn_automaton_step(a, state, (uint8_t)bytes[taken]);
    status = a->exprs.status;
    if (to == TN_STATE_DEAD) break;
    state = to;
  }
  tn_mutex_unlock(matcher->grammar->mutex);
  if (accepted) *accepted = taken;
  if (status != TN_OK) return refuse_work(status, error);
  if (taken < size)
    return tn_fail(error, TN_E_INVALID, "byte %zu (0x%02X) can't follow here", taken, (unsigned)(uint8_t)bytes[taken]);
  return note(matcher, state, error);
}

tn_status tn_grammar_accept_token(tn_grammar_matcher *matcher, const tn_grammar_vocab *vocab, uint32_t token,
                                  tn_error *error) {
  if (token >= vocab->count) return tn_fail(error, TN_E_INVALID, "token %u is outside the vocabulary", token);
  if (tn_grammar_vocab_is_end(vocab, token)) {
    if (!tn_grammar_can_end(matcher)) return tn_fail(error, TN_E_INVALID, "the text can't end here");
    return note(matcher, TN_STATE_DEAD, error);
  }
  uint32_t first = vocab->first[token], size = vocab->first[token + 1] - first;
  if (!size) return tn_fail(error, TN_E_INVALID, "token %u has no bytes of text", token);
  return tn_grammar_accept_bytes(matcher, vocab->bytes + first, size, NULL, error);
}

void tn_grammar_rollback(tn_grammar_matcher *matcher, size_t entries) {
  if (entries > matcher->count) entries = matcher->count;
  if (!entries) return;
  matcher->count -= entries;
  matcher->state = matcher->history[matcher->count];
}

size_t tn_grammar_entries(const tn_grammar_matcher *matcher) {
  return matcher->count;
}

bool tn_grammar_can_end(tn_grammar_matcher *matcher) {
  tn_automaton *a = enter(matcher);
  bool can = matcher->state != TN_STATE_DEAD && tn_automaton_can_end(a, matcher->state);
  tn_mutex_unlock(matcher->grammar->mutex);
  return can;
}

tn_status tn_grammar_mask(tn_grammar_matcher *matcher, tn_grammar_vocab *vocab, uint32_t *mask, tn_error *error) {
  tn_automaton *a = enter(matcher);
  const uint32_t *bits = tn_masks_of(matcher->unfolding->masks, a, vocab, matcher->state);
  if (bits)
    memcpy(mask, bits, vocab->words * sizeof *mask);
  else
    memset(mask, 0, vocab->words * sizeof *mask);
  tn_status status = a->exprs.status;
  tn_mutex_unlock(matcher->grammar->mutex);
  return status == TN_OK ? TN_OK : refuse_work(status, error);
}

bool tn_grammar_forced(tn_grammar_matcher *matcher, tn_grammar_vocab *vocab, uint32_t *token) {
  tn_automaton *a = enter(matcher);
  const uint32_t *bits = tn_masks_of(matcher->unfolding->masks, a, vocab, matcher->state);
  size_t found = 0;
  for (size_t i = 0; bits && i < vocab->words && found < 2; i++) {
    if (!bits[i]) continue;
    found += (size_t)__builtin_popcount(bits[i]);
    *token = (uint32_t)(32 * i) + (uint32_t)__builtin_ctz(bits[i]);
  }
  tn_mutex_unlock(matcher->grammar->mutex);
  return found == 1;
}

/* The only byte that may follow, or -1. */
static int only_byte(tn_automaton *a, uint32_t state, uint32_t *next) {
  int only = -1;
  if (tn_automaton_can_end(a, state)) return -1;
  for (int byte = 0; byte < 256; byte++) {
    uint32_t to = tn_automaton_step(a, state, (uint8_t)byte);
    if (to == TN_STATE_DEAD) continue;
    if (only >= 0 || (char)byte == TN_CONTROL_MARK) return -1;
    only = byte;
    *next = to;
  }
  return a->exprs.status == TN_OK ? only : -1;
}

size_t tn_grammar_forced_bytes(tn_grammar_matcher *matcher, char *bytes, size_t capacity) {
  tn_automaton *a = enter(matcher);
  size_t count = 0;
  uint32_t state = matcher->state, next = state;
  for (; count < capacity; count++, state = next) {
    int byte = only_byte(a, state, &next);
    if (byte < 0) break;
    bytes[count] = (char)byte;
  }
  tn_mutex_unlock(matcher->grammar->mutex);
  return count;
}
