/* JSON Schema (2020-12) as rules over the bytes of JSON texts. README.md lists what is understood. */
#ifndef TENON_TEXT_GRAMMAR_SCHEMA_H
#define TENON_TEXT_GRAMMAR_SCHEMA_H

#include "text/grammar/expr.h"
#include "text/grammar/grammar.h"

/* Compiles and analyses the schema in `text`; *root is the rule to begin with. Errors name a JSON pointer. */
tn_status tn_schema_rules(tn_exprs *x, const char *text, size_t size, uint32_t *root, tn_error *error);

/* Adds the rules of a further schema, for grammars of several parts: analysed once, when all are there. `notation`:
 * how its values are written; NULL: JSON. */
tn_status tn_schema_add(tn_exprs *x, const char *text, size_t size, const tn_grammar_notation *notation, uint32_t *root,
                        tn_error *error);

#endif
