/* Constrained decoding: which bytes, and which tokens, may come next.
 *
 * A grammar is made from a JSON schema, from GBNF, from a regular expression or from a list of choices. All four become
 * the same thing: rules whose bodies are expressions over bytes. A matcher walks along the grammar; its state is one
 * number, so copying it and rolling it back cost nothing. The mask of a state (one bit a token) comes from walking a
 * trie of the vocabulary and is kept with the grammar.
 *
 * Threads: a grammar and a vocabulary may be used by any number of threads at once; a matcher belongs to one thread at
 * a time. Matchers hold a reference to their grammar, so it may be released before them.
 *
 * Grammars come from outside: everything is bounded, and what can't be honoured is an error (TN_E_INVALID for a faulty
 * grammar, TN_E_UNSUPPORTED for something tenon can't enforce, TN_E_LIMIT for one that is too large). */
#ifndef TENON_TEXT_GRAMMAR_H
#define TENON_TEXT_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

typedef struct tn_grammar tn_grammar;
typedef struct tn_grammar_vocab tn_grammar_vocab;
typedef struct tn_grammar_matcher tn_grammar_matcher;

/* One token of a vocabulary: its bytes (borrowed for the call). */
typedef struct tn_grammar_token {
  const char *bytes;
  uint32_t size;
  bool special; /* a control token: text never allows it, whatever its bytes are; its bytes are its name */
} tn_grammar_token;

/* A text that is a plain piece of bytes (need not be zero-terminated). */
typedef struct tn_grammar_text {
  const char *bytes;
  size_t size;
} tn_grammar_text;

/* ---- making grammars: each sets *grammar, or fills `error` and returns its status ---- */

/* JSON texts valid under `schema` (JSON Schema 2020-12; README.md lists the keywords). Properties come in the schema's
 * order; a blank after `,` and `:` is optional, there is no other white space. A keyword that can't be enforced is
 * TN_E_UNSUPPORTED and the message names its JSON pointer. */
tn_status tn_grammar_from_schema(tn_grammar **grammar, const char *schema, size_t size, tn_error *error);

/* llama.cpp's grammar notation; the first symbol is the rule `root`. */
tn_status tn_grammar_from_gbnf(tn_grammar **grammar, const char *text, size_t size, tn_error *error);

/* Texts that match the whole of an ECMA-262 style expression (without back references and look-behind). */
tn_status tn_grammar_from_regex(tn_grammar **grammar, const char *pattern, size_t size, tn_error *error);

/* Exactly one of `count` > 0 texts, in UTF-8. */
tn_status tn_grammar_from_choices(tn_grammar **grammar, const tn_grammar_text *choices, size_t count, tn_error *error);

/* Texts put together of parts. */
typedef enum tn_grammar_part_kind {
  TN_GRAMMAR_LITERAL, /* `text` itself */
  TN_GRAMMAR_CONTROL, /* the control token with the name `text` */
  TN_GRAMMAR_PATTERN, /* what matches, whole, the regular expression `text` */
  TN_GRAMMAR_SCHEMA,  /* a value valid under the schema `text` */
  TN_GRAMMAR_CHOICES, /* one of `choices` */
  TN_GRAMMAR_WITHOUT  /* any text in which `text` doesn't occur */
} tn_grammar_part_kind;

/* How the values of a schema are written where that isn't JSON: strings as they are, without escapes. */
typedef struct tn_grammar_notation {
  tn_grammar_text quote; /* around strings; may be empty */
  bool quote_is_control; /* it is a control token */
  tn_grammar_text end;   /* what strings can't contain; may be empty */
  bool bare_keys;        /* keys stand without quotes as long as they are words, and no blanks between anything */
} tn_grammar_notation;

typedef struct tn_grammar_part {
  tn_grammar_part_kind kind;
  tn_grammar_text text;
  const tn_grammar_text *choices;
  size_t choice_count;
  uint32_t group; /* 0: always there. Neighbours of one other number are there together or not at all */
  const tn_grammar_notation *notation; /* of a schema; NULL: JSON */
} tn_grammar_part;

typedef struct tn_grammar_sequence {
  const tn_grammar_part *parts;
  size_t count;
} tn_grammar_sequence;

/* `before`, then one of `count` > 0 choices, then `after`. When it `repeats`, any number of choices with `between`
 * between each two. */
typedef struct tn_grammar_list {
  tn_grammar_sequence before, between, after;
  const tn_grammar_sequence *choices;
  size_t count;
  bool repeats;
} tn_grammar_list;
tn_status tn_grammar_from_list(tn_grammar **grammar, const tn_grammar_list *list, tn_error *error);

/* Gives up the caller's reference. NULL is fine. */
void tn_grammar_release(tn_grammar *grammar);

/* ---- vocabularies ---- */

/* Builds the trie of `count` tokens, once per vocabulary. `ends` are the ids that end a generation: allowed exactly
 * where the grammar may end. Empty tokens are never allowed, equal ones are allowed together. */
tn_status tn_grammar_vocab_create(tn_grammar_vocab **vocab, const tn_grammar_token *tokens, uint32_t count,
                                  const uint32_t *ends, uint32_t end_count, tn_error *error);
/* Gives up the caller's reference (grammars that were asked for masks hold one of their own). NULL is fine. */
void tn_grammar_vocab_release(tn_grammar_vocab *vocab);
/* Words of 32 bits in a mask of this vocabulary: (count + 31) / 32. */
size_t tn_grammar_vocab_words(const tn_grammar_vocab *vocab);

/* ---- matching ---- */

/* A matcher at the start of `grammar`; destroy it with tn_grammar_matcher_destroy. */
tn_status tn_grammar_matcher_create(tn_grammar_matcher **matcher, tn_grammar *grammar, tn_error *error);
/* A second matcher in the same state, with the same history. */
tn_status tn_grammar_matcher_copy(tn_grammar_matcher **copy, const tn_grammar_matcher *matcher, tn_error *error);
void tn_grammar_matcher_destroy(tn_grammar_matcher *matcher);

/* Takes `size` bytes as one entry of the history. When they can't follow, nothing is taken and *accepted (may be NULL)
 * is the number of bytes that could have been taken: TN_E_INVALID. TN_E_LIMIT: the grammar became too ambiguous here.
 */
tn_status tn_grammar_accept_bytes(tn_grammar_matcher *matcher, const char *bytes, size_t size, size_t *accepted,
                                  tn_error *error);
/* Takes a token's bytes as one entry; a token that ends the generation is taken where the grammar may end, and then
 * nothing more may follow. Special tokens are taken where the grammar speaks of them. */
tn_status tn_grammar_accept_token(tn_grammar_matcher *matcher, const tn_grammar_vocab *vocab, uint32_t token,
                                  tn_error *error);
/* Takes back the last `entries` accepted (at most as many as there are). */
void tn_grammar_rollback(tn_grammar_matcher *matcher, size_t entries);
/* Entries accepted so far. */
size_t tn_grammar_entries(const tn_grammar_matcher *matcher);
/* True when what was taken so far is a whole text of the grammar. */
bool tn_grammar_can_end(tn_grammar_matcher *matcher);

/* Writes the mask of the tokens that may come next: bit (id % 32) of mask[id / 32], tn_grammar_vocab_words words. On
 * an error the mask is all zero. At least one bit is set unless the vocabulary can't spell any continuation. */
tn_status tn_grammar_mask(tn_grammar_matcher *matcher, tn_grammar_vocab *vocab, uint32_t *mask, tn_error *error);

/* The only token that may come next: true and *token set, false when there are several, none, or an error. */
bool tn_grammar_forced(tn_grammar_matcher *matcher, tn_grammar_vocab *vocab, uint32_t *token);
/* The bytes that must come next whatever is chosen: writes at most `capacity` of them, returns how many. Stops where
 * two bytes are possible, a control token comes, or the text may end. */
size_t tn_grammar_forced_bytes(tn_grammar_matcher *matcher, char *bytes, size_t capacity);

#endif
