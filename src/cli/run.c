/* tenon run: one prompt, one answer. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/generate.h"

#define MAX_PROMPT_BYTES ((size_t)256 << 20)

typedef struct run_command {
  tn_generator generator;
  const char *prompt, *system;
  bool raw;
} run_command;

/* The prompt as a list of chat messages; NULL with *error when a text is not valid UTF-8 (JSON can't hold it). */
static char *as_messages(const char *system, const char *prompt, size_t prompt_bytes, tn_error *error) {
  json_t *messages = json_array(), *text = json_stringn(prompt, prompt_bytes);
  char *json = NULL;
  if (!text)
    tn_fail(error, TN_E_INVALID, "the prompt is not valid UTF-8; give --raw to complete bytes as they are");
  else if (system && json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", system)) != 0)
    tn_fail(error, TN_E_INVALID, "the text of --system is not valid UTF-8");
  else if (json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", text)) != 0 ||
           !(json = json_dumps(messages, JSON_COMPACT)))
    tn_fail(error, TN_E_MEMORY, "out of memory for the prompt");
  json_decref(text);
  json_decref(messages);
  return json;
}

static tn_answer_end answer(run_command *run, const char *path, const char *prompt, size_t prompt_bytes,
                            tn_error *error) {
  tn_request_options request = run->generator.request;
  tn_model_info model = TN_MODEL_INFO;
  tn_model_describe(run->generator.model, &model);
  char *messages = NULL;
  if (run->raw) {
    request.prompt = prompt;
    request.prompt_bytes = prompt_bytes;
  } else if (!model.has_chat_template) {
    tn_fail(error, TN_E_UNSUPPORTED, "%s: the model has no chat template; give --raw to complete plain text", path);
    return TN_ANSWER_FAILED;
  } else if (!(messages = as_messages(run->system, prompt, prompt_bytes, error))) {
    return TN_ANSWER_FAILED;
  }
  request.messages_json = messages;
  tn_catch_interrupts();
  tn_answer_end end = tn_generator_answer(&run->generator, &request, NULL, error);
  free(messages);
  return end;
}

int tn_command_run(int argc, char **argv) {
  run_command run = {.generator = TN_GENERATOR};
  const tn_cli_option options[] = {
      {"prompt", 'p', TN_CLI_TEXT, &run.prompt, "TEXT", "the prompt; default: all of stdin", 0, 0},
      {"system", 0, TN_CLI_TEXT, &run.system, "TEXT", "system message", 0, 0},
      {"raw", 0, TN_CLI_FLAG, &run.raw, NULL, "complete the prompt as it is, without the chat template", 0, 0},
      TN_GENERATOR_OPTIONS(run.generator),
  };
  const tn_cli_command command = {"run",
                                  "MODEL -p TEXT [options]",
                                  "Answers one prompt: the answer goes to stdout as it comes, reasoning to stderr.",
                                  options,
                                  TN_COUNT(options),
                                  1,
                                  1};
  const char *path;
  size_t count, prompt_bytes = 0;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (run.raw && run.system) {
    fprintf(stderr, "tenon run: --system goes through the chat template and --raw leaves it out; give one of them\n");
    return 2;
  }
  tn_error error = {0};
  char *input = NULL;
  if (!run.prompt && tn_file_read("-", MAX_PROMPT_BYTES, &input, &prompt_bytes, &error) != TN_OK)
    return tn_cli_failed(&error);
  const char *prompt = run.prompt ? run.prompt : input;
  if (run.prompt) prompt_bytes = strlen(run.prompt);
  tn_answer_end end = TN_ANSWER_FAILED;
  if (!prompt_bytes)
    tn_fail(&error, TN_E_INVALID, "the prompt is empty");
  else if (tn_generator_open(&run.generator, path, &error) == TN_OK)
    end = answer(&run, path, prompt, prompt_bytes, &error);
  tn_generator_close(&run.generator);
  free(input);
  if (end == TN_ANSWER_FAILED) return tn_cli_failed(&error);
  if (end == TN_ANSWER_INTERRUPTED) return tn_cli_fail("interrupted");
  return tn_cli_finish_output();
}
