/* What run and chat have in common: their options, opening model and engine, and streaming one answer to stdout. */
#ifndef TENON_CLI_GENERATE_H
#define TENON_CLI_GENERATE_H

#include "cli/draft.h"
#include "cli/options.h"
#include "tenon/tenon.h"

typedef struct tn_generator {
  /* from the command line */
  tn_engine_options engine_options;
  tn_request_options request; /* the sampling options */
  tn_cli_texts stop, breakers;
  uint32_t max_tokens; /* UINT32_MAX: no limit */
  const char *schema_file, *grammar_file, *tools_file;
  const char *draft_k;
  bool stats;
  /* opened */
  tn_model *model;
  tn_engine *engine;
  char *constraint;     /* the text of schema_file or grammar_file */
  char *tools;          /* of tools_file */
  struct json_t *calls; /* of the last answer: [{"id", "name", "arguments": {...}}] */
  tn_request *last;     /* the last answer's; NULL: none yet */
} tn_generator;

#define TN_GENERATOR                                                                                        \
  {                                                                                                         \
    .engine_options = {.size = sizeof(tn_engine_options), .packed = "auto"}, .request = TN_REQUEST_OPTIONS, \
    .max_tokens = UINT32_MAX                                                                                \
  }

/* The rows of an option table for the fields above. */
/* clang-format off */
#define TN_GENERATOR_OPTIONS(g) \
  {"max-tokens", 'n', TN_CLI_U32, &(g).max_tokens, "N", "tokens at most; default: until the model ends", 0, 1 << 28}, \
  {"temp", 0, TN_CLI_F32, &(g).request.temperature, "X", "temperature; 0 (default) takes the likeliest token", 0, 100}, \
  {"top-k", 0, TN_CLI_U32, &(g).request.top_k, "N", "sample among the N likeliest; 0 (default): all", 0, 1 << 24}, \
  {"top-p", 0, TN_CLI_F32, &(g).request.top_p, "X", "sample among the likeliest that make up X; default 1", 0, 1}, \
  {"min-p", 0, TN_CLI_F32, &(g).request.min_p, "X", "drop tokens below X times the likeliest; default 0", 0, 1}, \
  {"repeat-penalty", 0, TN_CLI_F32, &(g).request.repeat_penalty, "X", "divides logits of recent tokens; 1 (default): off", 0.01, 100}, \
  {"dry-multiplier", 0, TN_CLI_F32, &(g).request.dry_multiplier, "X", "DRY: lower tokens that go on with a repetition by X * base^(length - allowed); 0 (default): off", 0, 100}, \
  {"dry-base", 0, TN_CLI_F32, &(g).request.dry_base, "X", "DRY: default 1.75", 1, 100}, \
  {"dry-allowed-length", 0, TN_CLI_U32, &(g).request.dry_allowed_length, "N", "DRY: tokens that may be repeated; default 2", 0, 50}, \
  {"dry-penalty-last-n", 0, TN_CLI_U32, &(g).request.dry_penalty_last_n, "N", "DRY: tokens looked back over; default: all", 0, UINT32_MAX}, \
  {"dry-sequence-breaker", 0, TN_CLI_TEXTS, &(g).breakers, "TEXT", "DRY: no repetition reaches across TEXT; may be given several times; default: line end, colon, quote, asterisk; none: no breakers", 0, 0}, \
  {"xtc-probability", 0, TN_CLI_F32, &(g).request.xtc_probability, "X", "XTC: chance that the likeliest tokens are left out; 0 (default): off", 0, 1}, \
  {"xtc-threshold", 0, TN_CLI_F32, &(g).request.xtc_threshold, "X", "XTC: probability from which all but the least likely are; default 0.1", 0, 1}, \
  {"seed", 0, TN_CLI_U64, &(g).request.seed, "N", "seed of the draws; default 0", 0, 0}, \
  {"stop", 0, TN_CLI_TEXTS, &(g).stop, "TEXT", "end before TEXT; may be given several times", 0, 0}, \
  {"schema", 0, TN_CLI_TEXT, &(g).schema_file, "F", "the answer is JSON valid under the schema in file F", 0, 0}, \
  {"grammar", 0, TN_CLI_TEXT, &(g).grammar_file, "F", "the answer follows the GBNF grammar in file F", 0, 0}, \
  {"tools", 0, TN_CLI_TEXT, &(g).tools_file, "F", "tools that the model may call, a JSON array in file F; each call is printed as a line {\"tool_call\": ...}", 0, 0}, \
  {"tool-choice", 0, TN_CLI_TEXT, &(g).request.tool_choice, "C", "auto (default), none, required or function:NAME", 0, 0}, \
  {"device", 0, TN_CLI_TEXT, &(g).engine_options.device, "D", "device that runs the model (tenon devices lists them)", 0, 0}, \
  TN_PLACE_OPTION((g).engine_options.place), \
  {"threads", 't', TN_CLI_U32, &(g).engine_options.threads, "N", "threads; default: the processors allowed", 1, 256}, \
  {"ctx", 0, TN_CLI_U32, &(g).engine_options.context, "N", "context; default: the model's", 1, 1 << 28}, \
  {"kv", 0, TN_CLI_TEXT, &(g).engine_options.kv, "TYPE", "KV memory in f16 (default), bf16, f32 or int8", 0, 0}, \
  {"activations", 0, TN_CLI_TEXT, &(g).engine_options.activations, "MODE", "auto (8-bit where weights are quantised, bf16 where they are bf16; default) or float", 0, 0}, \
  {"weights", 0, TN_CLI_TEXT, &(g).engine_options.weights, "TYPE", "quantise float weights at load: q8_0, q4_0, mxfp4 or mxfp6", 0, 0}, \
  {"packed", 0, TN_CLI_TEXT, &(g).engine_options.packed, "WHERE", "keep packed weights on disk for later starts: auto (default, in the cache folder), off, or a folder", 0, 0}, \
  {"overlap", 0, TN_CLI_TEXT, &(g).engine_options.overlap, "MODE", "tell one step's tokens while the next one runs: auto (where the device leaves a processor free; default), on or off", 0, 0}, \
  TN_DRAFT_OPTIONS((g).engine_options, (g).draft_k), \
  {"stats", 0, TN_CLI_FLAG, &(g).stats, NULL, "print token counts and speeds to stderr", 0, 0}
/* clang-format on */

/* Reads the schema or grammar and the tools, opens model and engine for one sequence at a time. */
tn_status tn_generator_open(tn_generator *generator, const char *path, tn_error *error);
void tn_generator_close(tn_generator *generator);

typedef enum tn_answer_end {
  TN_ANSWER_DONE,        /* the model ended, a stop string came, or the limit was reached */
  TN_ANSWER_INTERRUPTED, /* Ctrl-C */
  TN_ANSWER_FAILED       /* *error says why */
} tn_answer_end;

/* Submits `request` and writes the answer to stdout as it comes: its text, and each call of a tool as a line of JSON.
 * Reasoning of a chat goes to stderr, dimmed on a terminal. Ctrl-C cancels it. *text (may be NULL): the
 * whole answer, free() it. */
tn_answer_end tn_generator_answer(tn_generator *generator, tn_request_options *request, char **text, tn_error *error);

#endif
