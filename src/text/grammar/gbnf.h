/* llama.cpp's grammar notation, GBNF. */
#ifndef TENON_TEXT_GRAMMAR_GBNF_H
#define TENON_TEXT_GRAMMAR_GBNF_H

#include "text/grammar/expr.h"

/* Reads the rules of `text` into `x`, analyses them, and gives the number of the rule `root`. Errors name the line. */
tn_status tn_gbnf_rules(tn_exprs *x, const char *text, size_t size, uint32_t *root, tn_error *error);

#endif
