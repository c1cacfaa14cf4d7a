/* Expressions over bytes: the one form that every kind of grammar is compiled to.
 *
 * An expression is a number; equal expressions have the same number (they are interned), so "the same state" is an
 * integer comparison. Matching is by derivatives (Brzozowski 1964): the derivative of an expression by a byte is what
 * may follow that byte. Derivatives are again interned expressions, made only when a text reaches them; counted
 * repetition, intersection and complement need no expansion.
 *
 *   nothing            no text at all                     id 0
 *   empty text         ""                                 id 1
 *   bytes              one byte of a set
 *   concat a b         always nested to the right
 *   alt {...}          union; children sorted, flat
 *   repeat a min max   max may be TN_EXPR_MANY
 *   and {...}, not a   only over expressions without calls
 *   call r             the texts of rule r: this is what makes grammars more than regular
 *   multiple           decimal numbers that are multiples of a decimal (see tn_expr_multiple)
 *
 * Bytes that no set of the grammar tells apart form one class; derivatives are by class.
 *
 * A failure (memory, or a limit) is remembered in `status` and the result is `nothing`; callers check once at the end.
 */
#ifndef TENON_TEXT_GRAMMAR_EXPR_H
#define TENON_TEXT_GRAMMAR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

typedef uint32_t tn_expr;

#define TN_EXPR_NOTHING 0u
#define TN_EXPR_EMPTY 1u
#define TN_EXPR_MANY UINT32_MAX

typedef enum tn_expr_kind {
  TN_EXPR_IS_NOTHING,
  TN_EXPR_IS_EMPTY,
  TN_EXPR_IS_BYTES,    /* a: index of the set */
  TN_EXPR_IS_CONCAT,   /* a, b */
  TN_EXPR_IS_ALT,      /* a: first child in the pool, b: number of children */
  TN_EXPR_IS_REPEAT,   /* a, b: min, c: max */
  TN_EXPR_IS_AND,      /* as alt */
  TN_EXPR_IS_NOT,      /* a */
  TN_EXPR_IS_CALL,     /* a: rule */
  TN_EXPR_IS_MULTIPLE, /* a: divisor, b: remainder, c: see derive.c */
} tn_expr_kind;

enum {
  TN_EXPR_NULLABLE = 1,  /* holds the empty text (for expressions with calls: known after tn_exprs_analyse) */
  TN_EXPR_CALLS = 2,     /* contains a call */
  TN_EXPR_FILTERS = 4,   /* contains `and`, `not` or `multiple`: may be empty without being `nothing` */
  TN_EXPR_INHABITED = 8, /* proved to hold a text */
  TN_EXPR_BARREN = 16,   /* proved to hold none */
};

typedef struct tn_expr_node {
  uint8_t kind, flags;
  uint16_t depth; /* nesting, not counting the right side of concat: bounds all recursion */
  uint32_t a, b, c;
} tn_expr_node;

typedef struct tn_byte_set {
  uint64_t bits[4];
} tn_byte_set;

typedef struct tn_rule {
  tn_expr body;
  uint32_t rank; /* a rule that another calls before any byte has the greater rank */
  bool nullable;
} tn_rule;

typedef struct tn_derivative {
  tn_expr from, to;
  uint32_t by; /* class + 1, so that a zeroed entry matches nothing */
} tn_derivative;

typedef struct tn_exprs {
  tn_expr_node *nodes;
  size_t count, capacity;
  uint32_t *pool; /* children of alt and and */
  size_t pool_count, pool_capacity;
  tn_byte_set *sets;
  size_t set_count, set_capacity;
  uint32_t *table; /* open addressing: ids, 0 = free */
  size_t table_size;
  tn_rule *rules;
  size_t rule_count, rule_capacity;
  uint8_t class_of[256];  /* byte -> class */
  uint8_t sample_of[256]; /* class -> one of its bytes */
  uint32_t classes;
  uint32_t *scratch; /* a stack of ids for functions at work */
  size_t scratch_count, scratch_capacity;
  tn_derivative *derivatives; /* a direct-mapped cache, made at the first use */
  uint32_t *marks;            /* by id: stamp of the last search that saw it */
  size_t mark_capacity;
  uint32_t stamp;
  size_t limit;   /* nodes and pool entries at most */
  uint64_t steps; /* work left for the operation in hand; when it is gone the operation fails */
  bool analysed;  /* rules are final */
  tn_status status;
} tn_exprs;

void tn_exprs_init(tn_exprs *x);
void tn_exprs_finish(tn_exprs *x);
/* An independent copy; false when memory is out (the copy is then finished). */
bool tn_exprs_clone(tn_exprs *copy, const tn_exprs *x);
/* Bytes held. */
size_t tn_exprs_bytes(const tn_exprs *x);
/* Remembers the first failure; returns TN_EXPR_NOTHING for `return tn_exprs_fail(...)`. */
tn_expr tn_exprs_fail(tn_exprs *x, tn_status status);
/* Starts an operation: `steps` of work, no failure. */
void tn_exprs_begin(tn_exprs *x, uint64_t steps);

/* ---- making expressions ---- */
tn_expr tn_expr_bytes(tn_exprs *x, const tn_byte_set *set);
tn_expr tn_expr_range(tn_exprs *x, uint8_t first, uint8_t last);
tn_expr tn_expr_literal(tn_exprs *x, const char *bytes, size_t size);
tn_expr tn_expr_text(tn_exprs *x, const char *text); /* zero-terminated */
/* The control token that is spelled so; it isn't text, and no text is it (vocab.h). */
#define TN_CONTROL_MARK ((char)0xFF)
tn_expr tn_expr_control(tn_exprs *x, const char *bytes, size_t size);
tn_expr tn_expr_concat(tn_exprs *x, tn_expr a, tn_expr b);
tn_expr tn_expr_concat3(tn_exprs *x, tn_expr a, tn_expr b, tn_expr c);
tn_expr tn_expr_alt(tn_exprs *x, tn_expr a, tn_expr b);
tn_expr tn_expr_alt_of(tn_exprs *x, const tn_expr *children, size_t count);
tn_expr tn_expr_and(tn_exprs *x, tn_expr a, tn_expr b);
tn_expr tn_expr_not(tn_exprs *x, tn_expr a);
tn_expr tn_expr_repeat(tn_exprs *x, tn_expr a, uint32_t min, uint32_t max);
tn_expr tn_expr_optional(tn_exprs *x, tn_expr a);
tn_expr tn_expr_call(tn_exprs *x, uint32_t rule);
/* Texts of digits, with at most one `.`, whose value is a multiple of divisor / 10^scale (divisor < 2^32, scale <= 9);
 * a leading `-` is skipped. To be intersected with the shape of a number. */
tn_expr tn_expr_multiple(tn_exprs *x, uint32_t divisor, uint32_t scale);

/* A new rule without a body (`nothing`); UINT32_MAX after a failure. */
uint32_t tn_rule_add(tn_exprs *x);

static inline bool tn_expr_nullable(const tn_exprs *x, tn_expr e) {
  return x->nodes[e].flags & TN_EXPR_NULLABLE;
}

/* ---- inside the expression files ---- */
tn_expr tn_expr_intern(tn_exprs *x, tn_expr_kind kind, uint32_t a, uint32_t b, uint32_t c);
/* alt or and of the scratch entries from `base` on, which are popped. */
tn_expr tn_expr_combine(tn_exprs *x, tn_expr_kind kind, size_t base);
bool tn_exprs_scratch(tn_exprs *x, uint32_t value);
/* Repeat as it is after one round: one less of min and max. */
tn_expr tn_expr_repeat_rest(tn_exprs *x, const tn_expr_node *repeat);
/* Room for a mark per expression; the new stamp, or 0 when memory is out. */
uint32_t tn_exprs_new_stamp(tn_exprs *x);

/* ---- derivatives (derive.c) ---- */

/* What may follow a byte of class `class`, calls left aside. Never an expression without texts: intersections that
 * became empty are found out. */
tn_expr tn_expr_derive(tn_exprs *x, tn_expr e, uint32_t class_);
/* True when an expression without calls has no text (a bounded search; out of steps is a failure). */
bool tn_expr_is_barren(tn_exprs *x, tn_expr e);

/* ---- analysis (analyse.c) ---- */

/* Settles which rules are nullable, refuses left recursion, removes what can never be completed and ranks the rules.
 * `names` (may be NULL) gives rule names for messages. The texts begin with rule `root`; when it has none the error is
 * TN_E_INVALID. */
typedef const char *(*tn_rule_name)(const void *context, uint32_t rule);
tn_status tn_exprs_analyse(tn_exprs *x, uint32_t root, tn_rule_name name, const void *context, tn_error *error);

#endif
