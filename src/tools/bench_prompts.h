/* The prompts of `tenon bench serve`: made up, or drawn from a file.
 *
 *   random   words of a fixed list, so many tokens of them
 *   sonnet   lines of Shakespeare's sonnets behind a beginning that all prompts share
 *   sharegpt a JSON array of {"conversations": [{"from", "value"}, ...]}: the first turn asks, the second tells how
 * long the answer is arxiv    a line each of {"article", "abstract"} or {"article_text": [...], "abstract_text": [...]}
 *   file     a line each of {"prompt"} or {"messages"}, and "output_tokens" if wanted
 *
 * Which prompt is the n-th depends on the seed and n alone. Lengths are counted in tokens of a tokenizer if one is
 * given, else a token is taken for 4 bytes. */
#ifndef TENON_TOOLS_BENCH_PROMPTS_H
#define TENON_TOOLS_BENCH_PROMPTS_H

#include <jansson.h>
#include "text/tokenizer.h"

typedef enum tn_bench_dataset {
  TN_BENCH_RANDOM,
  TN_BENCH_SONNET,
  TN_BENCH_SHAREGPT,
  TN_BENCH_ARXIV,
  TN_BENCH_FILE
} tn_bench_dataset;

/* Entries kept of a file: evenly drawn if it holds more. */
#define TN_BENCH_ENTRIES 4096

typedef struct tn_bench_entry {
  char *text;       /* a user's message, or the JSON of a list of messages */
  bool is_messages; /* the latter */
  uint32_t tokens;  /* of the answer */
} tn_bench_entry;

typedef struct tn_bench_prompts {
  tn_bench_dataset kind;
  uint64_t seed;
  uint32_t input_tokens;   /* random, sonnet: of a prompt */
  uint32_t prefix_tokens;  /* random, sonnet: of these, the same in all prompts */
  uint32_t output_tokens;  /* of the answer; 0: what the dataset says, else 128 */
  float range;             /* random: lengths are drawn from [(1 - range) N, (1 + range) N] */
  tn_tokenizer *tokenizer; /* or NULL */
  tn_bench_entry *entries; /* of a file */
  size_t count;
  uint64_t seen; /* usable entries in the file */
} tn_bench_prompts;

/* Fills kind from its name. TN_E_INVALID names the possible ones. */
tn_status tn_bench_prompts_kind(const char *name, tn_bench_dataset *kind, tn_error *error);
const char *tn_bench_prompts_name(tn_bench_dataset kind);

/* Opens the tokenizer (NULL: none) and reads the file (NULL: the made-up kinds have none). The other members are set
 * beforehand. Errors name the file. */
tn_status tn_bench_prompts_open(tn_bench_prompts *prompts, const char *tokenizer, const char *file, tn_error *error);
void tn_bench_prompts_close(tn_bench_prompts *prompts);

/* The number-th prompt: messages as a chat has them, and the tokens wanted of its answer. Files begin anew when they
 * are through. NULL when memory is out; json_decref() it. */
json_t *tn_bench_prompts_get(const tn_bench_prompts *prompts, uint64_t number, uint32_t *output_tokens);

/* Reads the file of a kind that has one; part of tn_bench_prompts_open. */
tn_status tn_bench_prompts_read(tn_bench_prompts *prompts, const char *file, tn_error *error);
/* Tokens of a text. */
uint32_t tn_bench_prompts_count(const tn_bench_prompts *prompts, const char *text, size_t bytes);
/* A number from [0, below) for each (stream, at). */
uint64_t tn_bench_prompts_draw(uint64_t seed, uint64_t stream, uint64_t at, uint64_t below);

#endif
