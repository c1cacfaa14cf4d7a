/* Values of the template language and the state that builds them (internal to text/jinja).
 *
 * A value is 16 bytes: a kind and a number or a pointer. Everything behind the pointers lives in the arena of the state
 * that made it and is released with it, so nothing is freed one by one and an error can leave by longjmp from any
 * depth. Lists, dictionaries and strings never change once made; only a namespace, a cycler, a joiner and an iterator
 * do.
 *
 * A string is a view into a buffer. A buffer holds bytes and the ranges of them that are trusted, so slices cost
 * nothing and keep their origin. Appending to a string that ends where its buffer ends extends the buffer: older views
 * don't see it, and building a text piece by piece is linear. Lists share their storage in the same way. */
#ifndef TENON_TEXT_JINJA_VALUE_H
#define TENON_TEXT_JINJA_VALUE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/memory.h"
#include "text/jinja/jinja.h"

typedef enum tnj_kind {
  TNJ_ABSENT, /* no value at all: an argument that wasn't given */
  TNJ_UNDEFINED,
  TNJ_NONE,
  TNJ_BOOL,
  TNJ_INT,
  TNJ_BIG, /* an integer that doesn't fit 64 bits */
  TNJ_FLOAT,
  TNJ_STRING,
  TNJ_LIST,
  TNJ_TUPLE,
  TNJ_DICT,
  TNJ_NAMESPACE,
  TNJ_RANGE,
  TNJ_VIEW,     /* what dict.keys(), .values() and .items() give */
  TNJ_ITERATOR, /* a list that can be walked once */
  TNJ_FUNCTION,
  TNJ_METHOD,
  TNJ_MACRO,
  TNJ_LOOP,
  TNJ_CYCLER,
  TNJ_JOINER
} tnj_kind;

/* `flag` of a string, a tuple, a view and an undefined value */
enum { TNJ_MARKUP = 1 };                  /* a string that is safe HTML */
enum { TNJ_GROUP = 1 };                   /* a pair made by groupby, with .grouper and .list */
enum { TNJ_KEYS, TNJ_VALUES, TNJ_ITEMS }; /* which view of a dictionary */

typedef struct tnj_state tnj_state;
typedef struct tnj_value tnj_value;
typedef struct tnj_string tnj_string;
typedef struct tnj_list tnj_list;
typedef struct tnj_dict tnj_dict;
typedef struct tnj_big tnj_big;
typedef struct tnj_range tnj_range;
typedef struct tnj_iterator tnj_iterator;
typedef struct tnj_undefined tnj_undefined;
typedef struct tnj_method tnj_method;
typedef struct tnj_builtin tnj_builtin;
typedef struct tnj_macro tnj_macro;
typedef struct tnj_loop tnj_loop;
typedef struct tnj_cycler tnj_cycler;
typedef struct tnj_joiner tnj_joiner;

struct tnj_value {
  uint8_t kind;
  uint8_t flag;
  union {
    bool boolean;
    int64_t integer;
    double real;
    const tnj_big *big;
    const tnj_string *string;
    const tnj_list *list; /* TNJ_LIST and TNJ_TUPLE */
    tnj_dict *dict;       /* TNJ_DICT, TNJ_NAMESPACE, TNJ_VIEW */
    const tnj_range *range;
    tnj_iterator *iterator;
    const tnj_undefined *undefined; /* may be NULL */
    const tnj_builtin *function;
    const tnj_method *method;
    const tnj_macro *macro;
    tnj_loop *loop;
    tnj_cycler *cycler;
    tnj_joiner *joiner;
  };
};

/* Bytes [start, end) of a buffer that are trusted. Runs are in order and don't touch. */
typedef struct tnj_run {
  size_t start, end;
} tnj_run;

typedef struct tnj_buffer {
  char *data;
  size_t used, capacity;
  tnj_run *runs;
  size_t run_count, run_capacity;
  bool frozen; /* shared between threads: never appended to */
} tnj_buffer;

struct tnj_string {
  tnj_buffer *buffer;
  size_t offset, size; /* bytes */
};

typedef struct tnj_store {
  tnj_value *items;
  size_t used, capacity;
  bool frozen;
} tnj_store;

struct tnj_list {
  const tnj_value *items;
  size_t count;
  tnj_store *store;
};

typedef struct tnj_entry {
  tnj_value key, value;
  uint64_t hash;
} tnj_entry;

/* Entries in order of insertion; `index` (open addressing, entry number + 1) exists once there are more than a few. */
struct tnj_dict {
  tnj_entry *entries;
  size_t count, capacity;
  uint32_t *index;
  size_t index_size;
};

/* Magnitude in 32-bit limbs, least first, no leading zero limb. */
struct tnj_big {
  bool negative;
  size_t count;
  uint32_t limbs[];
};

struct tnj_range {
  int64_t start, stop, step;
  size_t count;
};

struct tnj_iterator {
  const tnj_list *list;
  size_t next;
  const char *type;    /* Python's name for it */
  const char *failure; /* message of the error that comes when it is used; NULL: none */
};

/* Why a value is undefined, for the message when it is used. */
struct tnj_undefined {
  enum { TNJ_NO_NAME, TNJ_NO_MEMBER, TNJ_UNSAFE, TNJ_SAID } why;
  const char *owner; /* type of the object that lacks the member, as in "dict object" */
  tnj_value name;    /* the variable's or member's name, or the whole message for TNJ_SAID */
};

struct tnj_method {
  tnj_value self;
  const tnj_builtin *function;
};

struct tnj_cycler {
  const tnj_list *items;
  size_t position;
};

struct tnj_joiner {
  tnj_value separator;
  bool used;
};

/* Arguments of a call. */
typedef struct tnj_keyword {
  tnj_value name, value; /* name: a string */
} tnj_keyword;

typedef struct tnj_arguments {
  const tnj_value *items;
  size_t count;
  const tnj_keyword *keywords;
  size_t keyword_count;
} tnj_arguments;

/* A filter, test, method or global function. `parameters` names what it takes after `self`, separated by blanks, of
 * which the first `required` must be given; bound arguments arrive in `p`, TNJ_ABSENT where not given. With NULL
 * nothing is bound, and the function reads `a`. */
struct tnj_builtin {
  const char *name;
  tnj_value (*call)(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a);
  const char *parameters;
  size_t required;
};
enum { TNJ_MAX_PARAMETERS = 8 };

/* ---- the state: memory, limits, errors ---- */

typedef struct tnj_frame tnj_frame;

struct tnj_state {
  tn_arena arena;
  tn_jinja_limits limits;
  uint64_t steps;
  size_t depth;
  const char *stack_base;
  size_t offset; /* in the source, of what is being worked on */

  jmp_buf *escape; /* where an error goes */
  tn_status status;
  tn_buf message;
  bool raised; /* the message is raise_exception's */

  /* rendering only */
  const tnj_dict *context;
  const tn_jinja_time *now;
  tnj_buffer *out;
  tnj_frame *root; /* variables of the template's outermost level */
  bool autoescape;
};

/* Prepares a state; zero fields of `limits` take their defaults. Before anything that may fail:
 * `s->escape = &here; if (setjmp(here)) { ...the error is in s->status and s->message... }`. */
void tnj_state_init(tnj_state *s, const tn_jinja_limits *limits);
void tnj_state_finish(tnj_state *s);

/* Ends the work with an error at the current place of the source. */
_Noreturn __attribute__((format(printf, 3, 4))) void tnj_fail(tnj_state *s, tn_status status, const char *format, ...);
/* The same for a fault of the template or its data: TN_E_INVALID. */
_Noreturn __attribute__((format(printf, 2, 3))) void tnj_error(tnj_state *s, const char *format, ...);

/* Memory from the arena; fails instead of returning NULL. */
void *tnj_alloc(tnj_state *s, size_t size);
void *tnj_array(tnj_state *s, size_t count, size_t size);

/* Counts one step, or one step for each 64 bytes of work, and fails when there were too many. */
void tnj_step(tnj_state *s);
void tnj_work(tnj_state *s, size_t bytes);

/* Around everything that recurses: fails when nested too deeply for the limits or the stack. */
void tnj_enter(tnj_state *s);
static inline void tnj_leave(tnj_state *s) {
  s->depth--;
}

/* ---- making values ---- */

static inline tnj_value tnj_absent(void) {
  return (tnj_value){.kind = TNJ_ABSENT};
}
static inline tnj_value tnj_none(void) {
  return (tnj_value){.kind = TNJ_NONE};
}
static inline tnj_value tnj_bool(bool boolean) {
  return (tnj_value){.kind = TNJ_BOOL, .boolean = boolean};
}
static inline tnj_value tnj_int(int64_t integer) {
  return (tnj_value){.kind = TNJ_INT, .integer = integer};
}
static inline tnj_value tnj_float(double real) {
  return (tnj_value){.kind = TNJ_FLOAT, .real = real};
}
static inline bool tnj_given(tnj_value v) {
  return v.kind != TNJ_ABSENT;
}
static inline bool tnj_is_string(tnj_value v) {
  return v.kind == TNJ_STRING;
}
static inline bool tnj_is_undefined(tnj_value v) {
  return v.kind == TNJ_UNDEFINED;
}
/* An integer as Python sees it: bool is one too. */
static inline bool tnj_is_integer(tnj_value v) {
  return v.kind == TNJ_INT || v.kind == TNJ_BOOL || v.kind == TNJ_BIG;
}
static inline bool tnj_is_number(tnj_value v) {
  return tnj_is_integer(v) || v.kind == TNJ_FLOAT;
}
static inline bool tnj_is_sequence(tnj_value v) {
  return v.kind == TNJ_LIST || v.kind == TNJ_TUPLE;
}

tnj_value tnj_undefined_name(tnj_state *s, tnj_value name);
tnj_value tnj_undefined_member(tnj_state *s, tnj_value object, tnj_value name);
tnj_value tnj_undefined_unsafe(tnj_state *s, tnj_value object, tnj_value name);
tnj_value tnj_undefined_said(tnj_state *s, const char *message);
/* Fails with the reason why `v` is undefined. */
_Noreturn void tnj_fail_undefined(tnj_state *s, tnj_value v);

/* A list of `count` items to be filled in at once through `*items`. `kind` is TNJ_LIST or TNJ_TUPLE. */
tnj_value tnj_list_new(tnj_state *s, tnj_kind kind, size_t count, tnj_value **items);
tnj_value tnj_list_of(tnj_state *s, tnj_kind kind, const tnj_list *list);
tnj_value tnj_pair(tnj_state *s, tnj_value a, tnj_value b);
/* An iterator over `list` whose type Python calls `type`. */
tnj_value tnj_iterator_new(tnj_state *s, const tnj_list *list, const char *type);
/* `a` and then `b`, in a's storage when that is free behind it. */
const tnj_list *tnj_list_join(tnj_state *s, const tnj_list *a, const tnj_list *b);

/* A growing list while it is being made. */
typedef struct tnj_list_builder {
  tnj_store *store;
} tnj_list_builder;
tnj_list_builder tnj_list_start(tnj_state *s, size_t expected);
void tnj_list_add(tnj_state *s, tnj_list_builder *builder, tnj_value item);
const tnj_list *tnj_list_end(tnj_state *s, tnj_list_builder *builder);

tnj_dict *tnj_dict_new(tnj_state *s, size_t expected);
tnj_value tnj_dict_value(tnj_dict *dict);
/* Sets or replaces; fails when `key` can't be hashed. */
void tnj_dict_set(tnj_state *s, tnj_dict *dict, tnj_value key, tnj_value value);
/* The value of `key`, or NULL. Fails when `key` can't be hashed. */
const tnj_value *tnj_dict_get(tnj_state *s, const tnj_dict *dict, tnj_value key);
const tnj_value *tnj_dict_get_text(const tnj_dict *dict, const char *key, size_t size);

/* ---- asking values ---- */

/* Python's name of the type: "str", "int", "NoneType"... */
const char *tnj_type_name(tnj_value v);
bool tnj_truth(tnj_state *s, tnj_value v);
bool tnj_equal(tnj_state *s, tnj_value a, tnj_value b);
bool tnj_same(tnj_value a, tnj_value b); /* Python's `is` */
/* Less than 0, 0, more than 0. Fails where Python has no order; `op` is for the message. */
int tnj_compare(tnj_state *s, tnj_value a, tnj_value b, const char *op);
/* Whether a < b, <= ... ; differs from tnj_compare for NaN. */
bool tnj_order(tnj_state *s, tnj_value a, tnj_value b, const char *op);
bool tnj_contains(tnj_state *s, tnj_value container, tnj_value item);
/* Number of items; -1 when the value has no length. */
int64_t tnj_length(tnj_state *s, tnj_value v);
bool tnj_is_iterable(tnj_value v);
/* The items of an iterable, an iterator's are used up; fails when `v` isn't iterable. */
const tnj_list *tnj_items(tnj_state *s, tnj_value v);
/* A stable sort of `items`. `less(user, a, b)`: a must come before b. */
void tnj_sort(tnj_state *s, tnj_value *items, size_t count,
              bool (*less)(tnj_state *s, void *user, tnj_value a, tnj_value b), void *user);

#endif
