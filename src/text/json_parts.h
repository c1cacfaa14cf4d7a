/* The parts of a tokenizer.json, read for the builder in json_tokenizer.c. */
#ifndef TENON_TEXT_JSON_PARTS_H
#define TENON_TEXT_JSON_PARTS_H

#include "base/json_reader.h"
#include "text/tokenizer_parts.h"

/* A normalizer, pre-tokenizer, decoder or post-processor: every field that any of them has. Texts are in the arena;
 * absent ones have data NULL. */
typedef struct tn_json_part {
  tn_text type;
  tn_text pattern; /* a text or a regular expression */
  bool is_expression;
  tn_text content, replacement, prepend, prepend_scheme, behavior, charsmap, prefix, suffix, delimiter;
  tn_text children;                         /* JSON text of the list in a Sequence */
  tn_text single, special_tokens, cls, sep; /* JSON text */
  int add_prefix_space, use_regex, individual_digits, split, invert, strip_left, strip_right; /* 1, 0 or TN_UNSET */
  int lowercase, strip_accents, clean_text, handle_chinese_chars, cleanup;
  int64_t start, stop, length;
} tn_json_part;

/* Reads one such object from its JSON text. */
tn_status tn_json_part_read(tn_json_part *part, tn_text json, tn_arena *arena, tn_error *error);

/* Calls `build` for a part and, if it is a Sequence, for its children instead, in order. Sequences may hold
 * Sequences. `json` empty or null: nothing is called. */
typedef tn_status (*tn_json_build)(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error);
tn_status tn_json_parts_build(tn_tokenizer *tokenizer, tn_text json, tn_json_build build, tn_error *error);

/* The builders, one for each list. TN_E_UNSUPPORTED names a type that isn't. */
tn_status tn_json_build_normalizer(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error);
tn_status tn_json_build_pretokenizer(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error);
tn_status tn_json_build_decoder(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error);
tn_status tn_json_build_postprocessor(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error);

/* The `model` object. */
typedef struct tn_json_model {
  tn_tokenizer *tokenizer;
  tn_text type, unknown, prefix, suffix; /* in the tokenizer's arena */
  tn_text merges;                        /* JSON text */
  size_t merge_count;
  bool byte_fallback, fuse_unknown, ignore_merges;
  int64_t unknown_id, longest_word;
  size_t scored; /* Unigram: ids below this have scores and belong to the model */
  tn_error *error;
} tn_json_model;

/* Reads the object that comes next in `json`: its fields, and the vocabulary into the tokenizer's texts. A fault is the
 * reader's. */
void tn_json_model_read(tn_json_model *model, tn_tokenizer *tokenizer, tn_json *json, tn_error *error);
/* Builds the model, once all tokens are known and fixed, and which of them are special. Whether words are bytes is told
 * by tokenizer->bpe.byte_level. */
tn_status tn_json_model_build(tn_json_model *model);

#endif
