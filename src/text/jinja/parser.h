/* The two halves of the parser: expressions and statements (internal). */
#ifndef TENON_TEXT_JINJA_PARSER_H
#define TENON_TEXT_JINJA_PARSER_H

#include "text/jinja/lexer.h"
#include "text/jinja/program.h"

/* A macro or call block whose body is being parsed. */
typedef struct tnj_open_macro {
  struct tnj_open_macro *outer;
  tnj_signature *signature;
} tnj_open_macro;

typedef struct tnj_parser {
  tnj_state *s;
  tnj_value source;
  const tnj_token *token; /* the current one */
  tnj_open_macro *macro;
  size_t conditions;        /* `if` around: unknown filters and tests fail only when used */
  size_t loops;             /* `for` around: break and continue are allowed */
  size_t macros;            /* macros and call blocks seen so far */
  const tnj_string **names; /* interned, by open addressing */
  size_t name_count, name_capacity;
} tnj_parser;

tnj_node *tnj_node_new(tnj_parser *p, tnj_node_kind kind, size_t offset);
/* A growing array of nodes. */
typedef struct tnj_nodes {
  tnj_node **items;
  size_t count, capacity;
} tnj_nodes;
void tnj_nodes_add(tnj_parser *p, tnj_nodes *nodes, tnj_node *node);

/* The one string that stands for this name. */
tnj_value tnj_intern(tnj_parser *p, tnj_value name);

bool tnj_at(const tnj_parser *p, const char *operator_text);
bool tnj_at_name(const tnj_parser *p, const char *name);
bool tnj_skip(tnj_parser *p, const char *operator_text);
bool tnj_skip_name(tnj_parser *p, const char *name);
void tnj_expect(tnj_parser *p, const char *operator_text);
tnj_value tnj_expect_name(tnj_parser *p);
_Noreturn void tnj_unexpected(tnj_parser *p, const char *wanted);

/* Finds what each scope in the tree hides. */
void tnj_resolve_scopes(tnj_state *s, tnj_node *body);

tnj_node *tnj_parse_expression(tnj_parser *p);
/* An expression or several with commas: a tuple. `end_name` (may be NULL) also ends it. Without `conditional` a
 * trailing `if` is left alone. */
tnj_node *tnj_parse_tuple(tnj_parser *p, bool conditional, const char *end_name);
/* What can be assigned to: a name, names with commas or in brackets; with `members` also "namespace.name". */
tnj_node *tnj_parse_target(tnj_parser *p, bool members, bool tuple);
tnj_node *tnj_parse_postfix_only(tnj_parser *p); /* a primary with its attributes, subscripts and calls */
/* "filter|filter..." applied to `first`; with `inline_start` the first name stands without a bar. */
tnj_node *tnj_parse_filters(tnj_parser *p, tnj_node *first, bool inline_start);

#endif
