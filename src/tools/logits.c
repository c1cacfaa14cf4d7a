/* tenon logits: raw logits of given tokens, to a file or as JSON lines. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "engine/context.h"
#include "tools/runner_tool.h"

#define MAX_TOKENS_FILE ((size_t)64 << 20)

typedef struct logits_tool {
  tn_runner_tool runner;
  const char *tokens, *tokens_file, *out;
  bool all, jsonl;
} logits_tool;

/* ---- to a file ---- */

typedef struct row_writer {
  tn_buf bytes;
  uint32_t vocabulary;
} row_writer;

static tn_status keep_row(void *user, uint32_t position, const float *logits, tn_error *error) {
  (void)position;
  row_writer *writer = user;
  if (tn_buf_append(&writer->bytes, logits, writer->vocabulary * sizeof *logits)) return TN_OK;
  return tn_fail(error, TN_E_MEMORY, "out of memory for the logits");
}

static tn_status feed(logits_tool *tool, const int32_t *tokens, size_t count, bool all, tn_context_logits on_logits,
                      void *user, tn_error *error) {
  const tn_runner_info *info = tn_runner_describe(tool->runner.runner);
  if (count > info->max_context)
    return tn_fail(error, TN_E_LIMIT, "tokens: %zu given, the model's context is %u", count, info->max_context);
  for (size_t i = 0; i < count; i++)
    if ((uint32_t)tokens[i] >= info->vocabulary)
      return tn_fail(error, TN_E_INVALID, "tokens: id %d is not in the vocabulary of %u", tokens[i], info->vocabulary);
  tn_context context;
  const tn_kv_options options = {.prefix_cache = false};
  tn_status status = tn_context_init(&context, tool->runner.runner, &options, error);
  if (status != TN_OK) return status;
  status = tn_context_feed(&context, tokens, (uint32_t)count, tool->runner.chunk, all ? 0 : (uint32_t)count - 1,
                           on_logits, user, error);
  tn_context_finish(&context);
  return status;
}

static tn_status write_logits(logits_tool *tool, const char *path, tn_error *error) {
  char *text = NULL;
  size_t size, count;
  int32_t *tokens = NULL;
  tn_status status = TN_OK;
  if (tool->tokens_file) status = tn_file_read(tool->tokens_file, MAX_TOKENS_FILE, &text, &size, error);
  if (status == TN_OK) status = tn_parse_tokens(text ? text : tool->tokens, &tokens, &count, error);
  row_writer writer = {0};
  if (status == TN_OK) {
    /* a context of just these tokens: it chooses the frequencies of longrope */
    tool->runner.most_positions = count && count < UINT32_MAX ? (uint32_t)count : 0;
    status = tn_runner_tool_open(&tool->runner, path, 0, error);
  }
  if (status == TN_OK) writer.vocabulary = tn_runner_describe(tool->runner.runner)->vocabulary;
  if (status == TN_OK) status = feed(tool, tokens, count, tool->all, keep_row, &writer, error);
  if (status == TN_E_INVALID && tool->tokens_file) tn_error_prefix(error, "%s", tool->tokens_file);
  if (status == TN_OK) status = tn_file_write(tool->out, writer.bytes.data, writer.bytes.size, error);
  tn_buf_finish(&writer.bytes);
  free(tokens);
  free(text);
  return status;
}

/* ---- JSON lines ---- */

typedef struct json_rows {
  json_t *rows;
  uint32_t vocabulary, top;
} json_rows;

/* The best `top` of the logits as [[id, logit], ...], best first, lower id first among equals. */
static json_t *best_of(const float *logits, uint32_t vocabulary, uint32_t top) {
  json_t *best = json_array();
  uint32_t last = 0;
  for (uint32_t n = 0; n < top && n < vocabulary; n++) {
    uint32_t found = vocabulary;
    for (uint32_t i = 0; i < vocabulary; i++) {
      bool taken = n && (logits[i] > logits[last] || (logits[i] == logits[last] && i <= last));
      if (!taken && (found == vocabulary || logits[i] > logits[found])) found = i;
    }
    if (found == vocabulary) break;
    json_array_append_new(best, json_pack("[i, f]", (int)found, (double)logits[found]));
    last = found;
  }
  return best;
}

static tn_status keep_json(void *user, uint32_t position, const float *logits, tn_error *error) {
  (void)position;
  (void)error;
  json_rows *rows = user;
  json_array_append_new(rows->rows, best_of(logits, rows->vocabulary, rows->top));
  return TN_OK;
}

static tn_status read_request(const char *line, int32_t **tokens, size_t *count, bool *all, uint32_t *top,
                              tn_error *error) {
  json_error_t why;
  json_t *request = json_loads(line, 0, &why);
  *tokens = NULL;
  *count = 0;
  *all = false;
  *top = 0;
  if (!json_is_object(request)) {
    json_decref(request);
    return tn_fail(error, TN_E_INVALID, "request: not a JSON object: %s", why.text);
  }
  const json_t *list = json_object_get(request, "tokens"), *k = json_object_get(request, "top");
  *all = json_is_true(json_object_get(request, "all"));
  *count = json_array_size(list);
  *top = json_is_integer(k) && json_integer_value(k) > 0 && json_integer_value(k) <= 1000
             ? (uint32_t)json_integer_value(k)
         : k ? 0
             : 10;
  tn_status status = TN_OK;
  if (!*count)
    status = tn_fail(error, TN_E_INVALID, "request: \"tokens\" must be a list of ids, not empty");
  else if (!*top)
    status = tn_fail(error, TN_E_INVALID, "request: \"top\" must be a number from 1 to 1000");
  else if (!(*tokens = tn_calloc(*count, sizeof **tokens)))
    status = tn_fail(error, TN_E_MEMORY, "out of memory");
  for (size_t i = 0; status == TN_OK && i < *count; i++) {
    const json_t *id = json_array_get(list, i);
    if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= INT32_MAX)
      (*tokens)[i] = (int32_t)json_integer_value(id);
    else
      status = tn_fail(error, TN_E_INVALID, "request: \"tokens\"[%zu] is no id", i);
  }
  json_decref(request);
  return status;
}

static json_t *answer_line(logits_tool *tool, const char *line) {
  tn_error error = {0};
  int32_t *tokens = NULL;
  size_t count;
  bool all;
  json_rows rows = {json_array(), tn_runner_describe(tool->runner.runner)->vocabulary, 0};
  tn_status status = read_request(line, &tokens, &count, &all, &rows.top, &error);
  if (status == TN_OK) status = feed(tool, tokens, count, all, keep_json, &rows, &error);
  free(tokens);
  json_t *answer = status == TN_OK ? json_pack("{s:O}", "rows", rows.rows) : json_pack("{s:s}", "error", error.message);
  json_decref(rows.rows);
  return answer;
}

static int serve_lines(logits_tool *tool) {
  char *line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) >= 0) {
    json_t *answer = answer_line(tool, line);
    if (!answer || json_dumpf(answer, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF || fflush(stdout) != 0) {
      json_decref(answer);
      break;
    }
    json_decref(answer);
  }
  free(line);
  return tn_cli_finish_output();
}

int tn_command_logits(int argc, char **argv) {
  logits_tool tool = {0};
  const tn_cli_option options[] = {
      {"tokens", 0, TN_CLI_TEXT, &tool.tokens, "IDS", "token ids, comma separated", 0, 0},
      {"tokens-file", 0, TN_CLI_TEXT, &tool.tokens_file, "F", "file with token ids", 0, 0},
      {"out", 0, TN_CLI_TEXT, &tool.out, "F", "file for the logits: little-endian float32 [rows, vocabulary]", 0, 0},
      {"all", 0, TN_CLI_FLAG, &tool.all, NULL, "logits of every token, not only the last", 0, 0},
      {"jsonl", 0, TN_CLI_FLAG, &tool.jsonl, NULL, "requests {\"tokens\", \"all\", \"top\"} from stdin, one a line", 0,
       0},
      TN_RUNNER_TOOL_OPTIONS(tool.runner),
  };
  const tn_cli_command command = {
      "logits", "MODEL --tokens IDS --out F", "Raw logits of given tokens.", options, TN_COUNT(options), 1, 1};
  const char *path;
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (!tool.jsonl && (!tool.out || !tool.tokens == !tool.tokens_file)) {
    fprintf(stderr, "tenon logits: give --out and one of --tokens and --tokens-file, or --jsonl\n");
    return 2;
  }
  tn_error error = {0};
  int result = 0;
  tn_status status =
      tool.jsonl ? tn_runner_tool_open(&tool.runner, path, 0, &error) : write_logits(&tool, path, &error);
  if (status == TN_OK && tool.jsonl) result = serve_lines(&tool);
  if (status != TN_OK) result = tn_cli_fail(error.message);
  tn_runner_tool_close(&tool.runner);
  return result;
}
