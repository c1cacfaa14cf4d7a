/* From source text to tokens (internal). */
#ifndef TENON_TEXT_JINJA_LEXER_H
#define TENON_TEXT_JINJA_LEXER_H

#include "text/jinja/value.h"

typedef enum tnj_token_kind {
  TNJ_T_DATA, /* text outside of tags */
  TNJ_T_VARIABLE_BEGIN,
  TNJ_T_VARIABLE_END,
  TNJ_T_BLOCK_BEGIN,
  TNJ_T_BLOCK_END,
  TNJ_T_NAME,
  TNJ_T_STRING,
  TNJ_T_INTEGER,
  TNJ_T_FLOAT,
  TNJ_T_OPERATOR,
  TNJ_T_END
} tnj_token_kind;

typedef struct tnj_token {
  tnj_token_kind kind;
  size_t offset, size; /* where it stands in the source */
  tnj_value value;     /* of DATA, NAME, STRING, INTEGER, FLOAT */
} tnj_token;

/* The source with "\n" as its only line end and without one at its very end, as the tokens' offsets count it. */
tnj_value tnj_normalize_source(tnj_state *s, const char *source, size_t size);

/* Tokens of a normalised source, ended by TNJ_T_END. White space is already cut as the tags demand; comments are gone.
 * Strings and data are trusted and frozen. */
tnj_token *tnj_tokenize(tnj_state *s, tnj_value source, size_t *count);

#endif
