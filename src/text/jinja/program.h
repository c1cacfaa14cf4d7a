/* A compiled template (a tree of nodes) and what runs it (internal). */
#ifndef TENON_TEXT_JINJA_PROGRAM_H
#define TENON_TEXT_JINJA_PROGRAM_H

#include "text/jinja/number.h"
#include "text/jinja/value.h"

typedef enum tnj_node_kind {
  /* expressions */
  TNJ_N_CONSTANT,  /* value */
  TNJ_N_NAME,      /* name */
  TNJ_N_LIST,      /* items */
  TNJ_N_TUPLE,     /* items; as a target too */
  TNJ_N_DICT,      /* items: key, value, key, value... */
  TNJ_N_NOT,       /* first */
  TNJ_N_NEGATE,    /* first */
  TNJ_N_POSITIVE,  /* first */
  TNJ_N_BINARY,    /* first, operation (tnj_operator), second */
  TNJ_N_AND,       /* first, second */
  TNJ_N_OR,        /* first, second */
  TNJ_N_CONCAT,    /* items */
  TNJ_N_COMPARE,   /* items; operators[i] stands in front of items[i + 1] */
  TNJ_N_CONDITION, /* second if first else third (may be NULL) */
  TNJ_N_ATTRIBUTE, /* first.name */
  TNJ_N_SUBSCRIPT, /* first[second] */
  TNJ_N_SLICE,     /* first[items[0]:items[1]:items[2]], each may be NULL */
  TNJ_N_CALL,      /* first(call) */
  TNJ_N_FILTER,    /* first|name(call); first is NULL inside filter blocks */
  TNJ_N_TEST,      /* first is name(call) */
  TNJ_N_MEMBER,    /* target only: name.second->name, an attribute of a namespace */
  /* statements */
  TNJ_N_BODY,   /* items */
  TNJ_N_DATA,   /* value: text of the template */
  TNJ_N_OUTPUT, /* first */
  TNJ_N_IF,     /* first: condition, second: then, third: else (may be NULL) */
  TNJ_N_FOR,    /* name: "loop", first: target, second: iterable, third: filter (may be NULL), items: body, else (may be
                   NULL) */
  TNJ_N_SET,    /* first: target, second: value */
  TNJ_N_SET_BLOCK,    /* first: target, second: body, third: filters (may be NULL) */
  TNJ_N_WITH,         /* items: target, value, ...; first: body */
  TNJ_N_MACRO,        /* name, signature, first: body */
  TNJ_N_CALL_BLOCK,   /* signature of the caller, first: body, second: the call */
  TNJ_N_FILTER_BLOCK, /* first: body, second: filters */
  TNJ_N_SCOPE,        /* first: body with variables of its own */
  TNJ_N_BLOCK,        /* first: body that sees only the outermost variables */
  TNJ_N_AUTOESCAPE,   /* first: body, second: whether */
  TNJ_N_BREAK,
  TNJ_N_CONTINUE,
  TNJ_N_LOAD /* name: include, import, from or extends, which need other templates */
} tnj_node_kind;

typedef enum tnj_comparison {
  TNJ_EQUAL,
  TNJ_NOT_EQUAL,
  TNJ_LESS,
  TNJ_LESS_EQUAL,
  TNJ_GREATER,
  TNJ_GREATER_EQUAL,
  TNJ_IN,
  TNJ_NOT_IN
} tnj_comparison;

typedef struct tnj_node tnj_node;

typedef struct tnj_call {
  tnj_node **items;
  size_t count;
  tnj_value *keyword_names;
  tnj_node **keywords;
  size_t keyword_count;
  tnj_node *star, *star_star;
} tnj_call;

typedef struct tnj_signature {
  tnj_value *names;
  tnj_node **defaults; /* NULL where there is none */
  size_t count;
  tnj_value more, keywords, caller; /* the names varargs, kwargs, caller where its body reads them, else absent */
} tnj_signature;

struct tnj_node {
  uint8_t kind;
  uint8_t operation; /* of BINARY */
  bool recursive;    /* of FOR */
  bool captures;     /* of FOR: a macro or call block inside keeps the variables of its round */
  size_t offset;     /* in the source */
  tnj_value name;    /* or the value of CONSTANT and DATA */
  tnj_node *first, *second, *third;
  tnj_node **items;
  size_t count;
  uint8_t *operators;
  const tnj_list *hidden; /* of a BODY with a scope of its own: names that are undefined in it until set (scope.c) */
  const tnj_call *call;
  const tnj_signature *signature;
  const tnj_builtin *builtin; /* of FILTER and TEST; NULL when there is none of that name */
};

struct tn_jinja_template {
  tn_arena arena;
  tnj_value source;
  const tnj_node *body;
};

/* Line and column, both from 1, of a byte of the source. */
void tnj_place(tnj_value source, size_t offset, size_t *line, size_t *column);

/* Parses the tokens of `source` into the body of a template. Fails with the state's offset at the place. */
const tnj_node *tnj_parse(tnj_state *s, tnj_value source);

/* ---- running ---- */

/* Variables of one scope. Names are interned: equal names are the same string. */
typedef struct tnj_variable {
  const tnj_string *name;
  tnj_value value;
} tnj_variable;

struct tnj_frame {
  tnj_frame *parent;
  tnj_variable *variables;
  size_t count, capacity;
};

struct tnj_macro {
  const tnj_node *node; /* a MACRO or CALL_BLOCK */
  tnj_frame *frame;     /* where it was defined */
};

struct tnj_loop {
  const tnj_list *items;
  size_t index;
  size_t depth;            /* from 0 */
  const tnj_list *changed; /* what loop.changed saw last, NULL before */
  const tnj_node *node;
  tnj_frame *frame; /* around the loop */
};

typedef enum tnj_flow { TNJ_NEXT, TNJ_BREAK, TNJ_CONTINUE } tnj_flow;

tnj_frame *tnj_frame_new(tnj_state *s, tnj_frame *parent);
/* Empties the frame and hides what `body` hides; done by a new frame for a body too. */
void tnj_frame_start(tnj_state *s, tnj_frame *frame, const tnj_node *body);
tnj_frame *tnj_frame_for(tnj_state *s, tnj_frame *parent, const tnj_node *body);
void tnj_frame_set(tnj_state *s, tnj_frame *frame, tnj_value name, tnj_value value);

tnj_value tnj_evaluate(tnj_state *s, tnj_frame *frame, const tnj_node *node);
/* The CALL `node` with the keyword argument `caller` added when it is given. */
tnj_value tnj_evaluate_call(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_value caller);
tnj_flow tnj_execute(tnj_state *s, tnj_frame *frame, const tnj_node *node);
/* Runs the node with its output collected into a string. */
tnj_value tnj_capture(tnj_state *s, tnj_frame *frame, const tnj_node *body);
/* A loop over `items` at `depth` of recursion. */
tnj_flow tnj_run_loop(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_value iterable, size_t depth);
/* Applies the FILTER chain `node`, whose innermost `first` is NULL, to `value`. */
tnj_value tnj_apply_filters(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_value value);

/* Calls anything that can be called. */
tnj_value tnj_call_value(tnj_state *s, tnj_value callee, const tnj_arguments *arguments);
tnj_value tnj_call_builtin(tnj_state *s, const tnj_builtin *builtin, tnj_value self, const tnj_arguments *arguments);
tnj_value tnj_call_macro(tnj_state *s, const tnj_macro *macro, const tnj_arguments *arguments);
bool tnj_is_callable(tnj_value v);

tnj_value tnj_binary(tnj_state *s, tnj_operator operation, tnj_value a, tnj_value b);
tnj_value tnj_attribute(tnj_state *s, tnj_value object, tnj_value name);  /* object.name */
tnj_value tnj_subscript(tnj_state *s, tnj_value object, tnj_value index); /* object[index] */

/* What has a name: NULL when there is no such thing. */
const tnj_builtin *tnj_find_filter(tnj_value name);
const tnj_builtin *tnj_find_test(tnj_value name);
bool tnj_find_global(tnj_value name, tnj_value *value);
/* An attribute of a value that isn't an item: a method or property. False when there is none; `*unsafe` when the
 * sandbox forbids it. */
bool tnj_find_attribute(tnj_state *s, tnj_value object, tnj_value name, tnj_value *value, bool *unsafe);
bool tnj_loop_attribute(tnj_state *s, const tnj_loop *loop, tnj_value name, tnj_value *value);

#endif
