/* tenon grammar: is a text one of a grammar's texts?
 *
 *   tenon grammar --schema FILE --text TEXT      accept | reject at byte N | prefix (could still be completed)
 *   tenon grammar --gbnf FILE --text TEXT
 *   tenon grammar --jsonl                        {"schema": ..., "texts": [...]} a line on stdin; instead of "schema"
 *                                                also "gbnf", "regex" (texts) or "choices" (a list)
 *                                                -> {"results": [{"verdict": ..., "at": byte}]} or {"error": "..."}
 *
 * The exit status is 0 whatever the verdict is; 1 when the grammar is faulty. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/options.h"
#include "text/grammar/grammar.h"

#define MAX_FILE ((size_t)16 << 20)

int tn_command_grammar(int argc, char **argv);

/* "accept", "prefix" or "reject"; *at is the number of bytes taken. NULL and the error when matching failed. */
static const char *judge(tn_grammar *grammar, const char *text, size_t size, size_t *at, tn_error *error) {
  tn_grammar_matcher *matcher = NULL;
  const char *verdict = NULL;
  if (tn_grammar_matcher_create(&matcher, grammar, error) != TN_OK) return NULL;
  tn_status status = tn_grammar_accept_bytes(matcher, text, size, at, error);
  if (status == TN_OK)
    verdict = tn_grammar_can_end(matcher) ? "accept" : "prefix";
  else if (status == TN_E_INVALID)
    verdict = "reject";
  tn_grammar_matcher_destroy(matcher);
  return verdict;
}

static tn_status grammar_of_choices(tn_grammar **grammar, const json_t *choices, tn_error *error) {
  size_t count = json_array_size(choices), i;
  json_t *choice;
  tn_grammar_text *texts = tn_calloc(count, sizeof *texts);
  if (!texts) return tn_fail(error, TN_E_MEMORY, "out of memory for choices");
  json_array_foreach(choices, i, choice) {
    texts[i] = (tn_grammar_text){json_string_value(choice), json_string_length(choice)};
    if (!texts[i].bytes) count = 0;
  }
  tn_status status = count ? tn_grammar_from_choices(grammar, texts, count, error)
                           : tn_fail(error, TN_E_INVALID, "\"choices\" must be an array of strings");
  free(texts);
  return status;
}

static tn_status grammar_of_request(tn_grammar **grammar, const json_t *request, tn_error *error) {
  const json_t *schema = json_object_get(request, "schema"), *gbnf = json_object_get(request, "gbnf"),
               *regex = json_object_get(request, "regex"), *choices = json_object_get(request, "choices");
  static const char *const fields[] = {"schema", "gbnf", "regex", "choices", "texts"};
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)request, key, value) {
    size_t i = 0;
    while (i < TN_COUNT(fields) && strcmp(key, fields[i])) i++;
    if (i == TN_COUNT(fields)) return tn_fail(error, TN_E_INVALID, "unknown field '%.60s'", key);
  }
  if (!!schema + !!gbnf + !!regex + !!choices > 1)
    return tn_fail(error, TN_E_INVALID, "a request has one of \"schema\", \"gbnf\", \"regex\" and \"choices\"");
  if (json_is_string(gbnf))
    return tn_grammar_from_gbnf(grammar, json_string_value(gbnf), json_string_length(gbnf), error);
  if (json_is_string(regex))
    return tn_grammar_from_regex(grammar, json_string_value(regex), json_string_length(regex), error);
  if (choices) return grammar_of_choices(grammar, choices, error);
  if (!schema) return tn_fail(error, TN_E_INVALID, "a request needs \"schema\", \"gbnf\", \"regex\" or \"choices\"");
  char *text = json_dumps(schema, JSON_ENCODE_ANY | JSON_COMPACT);
  if (!text) return tn_fail(error, TN_E_MEMORY, "out of memory for a schema");
  tn_status status = tn_grammar_from_schema(grammar, text, strlen(text), error);
  free(text);
  return status;
}

/* The answer to one request: a new object. */
static json_t *answer(const json_t *request) {
  tn_grammar *grammar = NULL;
  tn_error error = {0};
  json_t *results = json_array(), *text;
  size_t index;
  tn_status status = grammar_of_request(&grammar, request, &error);
  json_array_foreach(json_object_get(request, "texts"), index, text) {
    size_t at = 0;
    const char *verdict = status == TN_OK && json_is_string(text)
                              ? judge(grammar, json_string_value(text), json_string_length(text), &at, &error)
                              : NULL;
    if (!verdict) {
      if (status == TN_OK && !json_is_string(text)) status = tn_fail(&error, TN_E_INVALID, "a text must be a string");
      if (status == TN_OK) status = error.status;
      break;
    }
    json_array_append_new(results, json_pack("{s:s, s:I}", "verdict", verdict, "at", (json_int_t)at));
  }
  tn_grammar_release(grammar);
  if (status == TN_OK) return json_pack("{s:o}", "results", results);
  json_decref(results);
  return json_pack("{s:s}", "error", error.message);
}

static int serve_lines(void) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t size;
  while ((size = getline(&line, &capacity, stdin)) >= 0) {
    json_error_t problem;
    json_t *request = json_loadb(line, (size_t)size, JSON_ALLOW_NUL, &problem);
    json_t *reply = request ? answer(request) : json_pack("{s:s}", "error", problem.text);
    char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
    puts(text ? text : "{\"error\":\"out of memory\"}");
    fflush(stdout);
    free(text);
    json_decref(reply);
    json_decref(request);
  }
  free(line);
  return 0;
}

static int check_text(const char *schema, const char *gbnf, const char *text) {
  tn_grammar *grammar = NULL;
  tn_error error = {0};
  char *source = NULL;
  size_t size, at = 0;
  const char *path = schema ? schema : gbnf, *verdict = NULL;
  tn_status status = tn_file_read(path, MAX_FILE, &source, &size, &error);
  if (status == TN_OK) {
    status = (schema ? tn_grammar_from_schema : tn_grammar_from_gbnf)(&grammar, source, size, &error);
    if (status != TN_OK) tn_error_prefix(&error, "%s", path);
  }
  if (status == TN_OK) verdict = judge(grammar, text, strlen(text), &at, &error);
  if (verdict && !strcmp(verdict, "reject"))
    printf("reject at byte %zu\n", at);
  else if (verdict)
    puts(verdict);
  else
    fprintf(stderr, "tenon grammar: %s\n", error.message);
  tn_grammar_release(grammar);
  free(source);
  return verdict ? 0 : 1;
}

int tn_command_grammar(int argc, char **argv) {
  const char *schema = NULL, *gbnf = NULL, *text = NULL, *arguments[1];
  bool lines = false;
  size_t count;
  const tn_cli_option options[] = {
      {"schema", 0, TN_CLI_TEXT, &schema, "FILE", "a JSON schema", 0, 0},
      {"gbnf", 0, TN_CLI_TEXT, &gbnf, "FILE", "a grammar in GBNF", 0, 0},
      {"text", 0, TN_CLI_TEXT, &text, "TEXT", "the text to judge", 0, 0},
      {"jsonl", 0, TN_CLI_FLAG, &lines, NULL, "one JSON request a line on stdin, one answer a line on stdout", 0, 0},
  };
  const tn_cli_command command = {
      .name = "grammar",
      .usage = "(--schema FILE | --gbnf FILE) --text TEXT | --jsonl",
      .summary = "Whether a text is one of a grammar's texts; the exit status is 0 whatever the verdict.",
      .options = options,
      .option_count = TN_COUNT(options)};
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, arguments, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (lines && !schema && !gbnf && !text) return serve_lines();
  if (!lines && !schema != !gbnf && text) return check_text(schema, gbnf, text);
  fputs("tenon grammar: give --jsonl, or one of --schema and --gbnf together with --text\n", stderr);
  return 2;
}
