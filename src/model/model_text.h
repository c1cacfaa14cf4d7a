/* A model's way to text: its tokenizer and its chat template, if it has them. A model without either is whole: only
 * what needs them fails, with the reason. */
#ifndef TENON_MODEL_MODEL_TEXT_H
#define TENON_MODEL_MODEL_TEXT_H

#include "model/container.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

typedef struct tn_model_text {
  tn_tokenizer *tokenizer; /* NULL: none */
  tn_error no_tokenizer;   /* why */
  tn_chat_template *chat;  /* NULL: none */
  tn_error no_chat;        /* why */
} tn_model_text;

/* Reads both. A file that has none, or one of a kind that isn't supported, is no failure; a broken one is. */
tn_status tn_model_text_open(tn_model_text *text, const tn_container *file, tn_container_use *use, tn_error *error);
void tn_model_text_close(tn_model_text *text);

#endif
