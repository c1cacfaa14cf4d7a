/* What tools over a runner have in common (see runner_tool.h). */
#include "tools/runner_tool.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"

#define DEFAULT_CHUNK 512u

tn_status tn_runner_tool_open(tn_runner_tool *tool, const char *path, uint32_t context, tn_error *error) {
  tn_status status = tn_model_open(path, &tool->model, error);
  if (status != TN_OK) return status;
  tn_model_info info = TN_MODEL_INFO;
  tn_model_describe(tool->model, &info);
  if (!context) context = info.context;
  if (tool->most_positions && tool->most_positions < context) context = tool->most_positions;
  if (!tool->chunk) tool->chunk = DEFAULT_CHUNK;
  uint32_t rows = tool->chunk < context ? tool->chunk : context;
  const tn_runner_options options = {.device = tool->device,
                                     .place = tool->place,
                                     .threads = tool->threads,
                                     .kv = tool->kv,
                                     .activations = tool->activations,
                                     .passes = tool->passes,
                                     .packed = tool->packed,
                                     .weights = tool->weights,
                                     .max_rows = rows,
                                     .max_sequences = 1,
                                     .max_context = context,
                                     .pages = (context + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS};
  return tn_runner_create(tool->model, &options, &tool->runner, error);
}

void tn_runner_tool_close(tn_runner_tool *tool) {
  tn_runner_destroy(tool->runner);
  tn_model_close(tool->model);
}

/* Blanks, at most one comma, blanks; whether a comma was there. */
static bool pass_separator(const char **at) {
  static const char blanks[] = " \t\r\n";
  *at += strspn(*at, blanks);
  bool comma = **at == ',';
  *at += comma;
  *at += strspn(*at, blanks);
  return comma;
}

tn_status tn_parse_tokens(const char *text, int32_t **tokens, size_t *count, tn_error *error) {
  size_t capacity = 0;
  const char *at = text + strspn(text, " \t\r\n");
  const bool in_brackets = *at == '[';
  bool comma = false;
  *tokens = NULL;
  *count = 0;
  at += in_brackets;
  at += strspn(at, " \t\r\n");
  while (*at && !(in_brackets && *at == ']' && !comma)) {
    char *end;
    errno = 0;
    long value = strtol(at, &end, 10);
    int32_t *slot = NULL;
    if (end != at && errno == 0 && value >= 0 && value <= INT32_MAX) slot = TN_PUSH(*tokens, *count, capacity);
    if (!slot) break;
    *slot = (int32_t)value;
    at = end;
    comma = pass_separator(&at);
  }
  const bool closed = in_brackets && *at == ']' && !comma;
  if (closed) at += 1 + strspn(at + 1, " \t\r\n");
  tn_status status = TN_OK;
  if (*at)
    status = tn_fail(error, TN_E_INVALID, "tokens: \"%.20s\" is no token id", at);
  else if (in_brackets && !closed)
    status = tn_fail(error, TN_E_INVALID, "tokens: the list has no ]");
  else if (!*count || comma)
    status =
        tn_fail(error, TN_E_INVALID, "tokens: %s", *count ? "nothing follows the last comma" : "the list is empty");
  if (status == TN_OK) return TN_OK;
  free(*tokens);
  *tokens = NULL;
  return status;
}
