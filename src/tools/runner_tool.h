/* What tools over a runner have in common: the options that choose and shape it, opening it, reading token lists. */
#ifndef TENON_TOOLS_RUNNER_TOOL_H
#define TENON_TOOLS_RUNNER_TOOL_H

#include "cli/options.h"
#include "engine/runner.h"
#include "tenon/tenon.h"

typedef struct tn_runner_tool {
  /* from the command line */
  const char *device, *place, *kv, *activations, *passes, *packed, *weights;
  uint32_t threads, chunk;
  uint32_t most_positions; /* set by the tool where no more are needed; 0: the model's context */
  /* opened */
  tn_model *model;
  tn_runner *runner;
} tn_runner_tool;

/* The rows of an option table for the fields above. */
/* clang-format off */
#define TN_RUNNER_TOOL_OPTIONS(tool) \
  {"device", 0, TN_CLI_TEXT, &(tool).device, "D", "device that runs the model (tenon devices lists them)", 0, 0}, \
  TN_PLACE_OPTION((tool).place), \
  {"threads", 't', TN_CLI_U32, &(tool).threads, "N", "threads of the cpu device", 1, 256}, \
  {"kv", 0, TN_CLI_TEXT, &(tool).kv, "TYPE", "KV memory in f16 (default), bf16, f32 (default with float activations) or int8", 0, 0}, \
  {"activations", 0, TN_CLI_TEXT, &(tool).activations, "MODE", "auto (8-bit where weights are quantised, bf16 where they are bf16; default) or float", 0, 0}, \
  {"passes", 0, TN_CLI_TEXT, &(tool).passes, "LIST", "graph passes: none, or a list of merge, fuse, inplace", 0, 0}, \
  {"weights", 0, TN_CLI_TEXT, &(tool).weights, "TYPE", "quantise float weights at load: q8_0, q4_0, mxfp4 or mxfp6", 0, 0}, \
  {"packed", 0, TN_CLI_TEXT, &(tool).packed, "WHERE", "keep packed weights on disk for later starts: off (default), auto (in the cache folder), or a folder", 0, 0}, \
  {"chunk", 0, TN_CLI_U32, &(tool).chunk, "N", "token rows of one prefill step", 1, 65536}
/* clang-format on */

/* Opens model and runner for one sequence of `context` positions (0: as many as are needed, and the model was
 * made for). */
tn_status tn_runner_tool_open(tn_runner_tool *tool, const char *path, uint32_t context, tn_error *error);
void tn_runner_tool_close(tn_runner_tool *tool);

/* Parses "1,2,3" (blanks and newlines, also for commas, and brackets around it are fine) into *tokens (free() it).
 * Errors name the word that is no id; ids are >= 0. */
tn_status tn_parse_tokens(const char *text, int32_t **tokens, size_t *count, tn_error *error);

#endif
