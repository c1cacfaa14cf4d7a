/* tenon chat: a conversation in the terminal. The whole conversation goes to the engine with each turn; its prefix
 * cache recognises what is already there, so only the new part is computed. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <editline/readline.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/generate.h"

#define MAX_LINE_BYTES ((size_t)16 << 20)

typedef struct chat {
  tn_generator generator;
  const char *system;
  const char *session; /* file that keeps the conversation; NULL: none */
  bool is_changed;     /* since it was loaded */
  json_t *messages;
  json_t *open_calls; /* calls of the last answer that the user hasn't answered yet */
  bool interactive;
} chat;

/* Empties the conversation but for the system message; false, nothing changed, when that is not valid UTF-8. */
static bool start_over(chat *talk) {
  json_t *message = NULL;
  if (talk->system && !(message = json_pack("{s:s, s:s}", "role", "system", "content", talk->system))) {
    fprintf(stderr, "tenon: the system message is not valid UTF-8\n");
    return false;
  }
  tn_request_destroy(talk->generator.last);
  talk->generator.last = NULL;
  talk->is_changed = true;
  json_array_clear(talk->messages);
  json_array_clear(talk->open_calls);
  if (message) json_array_append_new(talk->messages, message);
  return true;
}

/* ---- the session file: the conversation as a note, and the KV of its last turn ---- */

/* Takes the conversation out of a note; false when it is none of chat's. */
static bool take_conversation(chat *talk, const char *note) {
  json_t *root = json_loads(note, 0, NULL), *messages = json_object_get(root, "messages");
  json_t *calls = json_object_get(root, "open_calls");
  bool is_ours = json_is_array(messages) && json_is_array(calls);
  if (is_ours) {
    json_array_clear(talk->messages);
    json_array_clear(talk->open_calls);
    json_array_extend(talk->messages, messages);
    json_array_extend(talk->open_calls, calls);
  }
  json_decref(root);
  return is_ours;
}

/* Goes on with the session, if its file is there. KV that can't be used is computed anew; a damaged file is an error.
 */
static tn_status resume(chat *talk, tn_error *error) {
  char *note = NULL;
  talk->is_changed = false;
  if (!talk->session) return TN_OK;
  tn_status status = tn_engine_load_session(talk->generator.engine, talk->session, &note, error);
  if (status == TN_E_NOT_FOUND) return TN_OK;
  if (note && status != TN_OK) fprintf(stderr, "tenon: the session's KV is computed anew: %s\n", error->message);
  if (note) {
    bool is_ours = take_conversation(talk, note);
    status = is_ours ? TN_OK : tn_fail(error, TN_E_FORMAT, "%s: not a session of tenon chat", talk->session);
  }
  if (status == TN_OK && talk->system)
    status = tn_fail(error, TN_E_INVALID, "--system: the session of %s has begun already", talk->session);
  tn_free(note);
  return status;
}

/* Whether it can be written at the end, found before anything is said. */
static tn_status check_session(const chat *talk, tn_error *error) {
  if (!talk->session || tn_file_writer_check(talk->session, error) == TN_OK) return TN_OK;
  return tn_error_prefix(error, "--session");
}

static tn_status keep_session(chat *talk, tn_error *error) {
  if (!talk->session || !talk->is_changed) return TN_OK;
  json_t *root = json_pack("{s:O, s:O}", "messages", talk->messages, "open_calls", talk->open_calls);
  char *note = root ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  tn_status status =
      note ? tn_engine_save_session(talk->generator.engine, talk->generator.last, note, talk->session, error)
           : tn_fail(error, TN_E_MEMORY, "no memory for the session");
  free(note);
  return status;
}

/* A line typed at the prompt; Ctrl-C drops what was typed. */
static char *type_line(void) {
  for (;;) {
    unsigned interrupts = tn_interrupts();
    char *line = readline("> ");
    if (line && *line) add_history(line);
    if (line || tn_interrupts() == interrupts || tn_terminated()) return line;
    putchar('\n');
  }
}

/* The next line of the user (free() it), NULL at the end of input. One that is too long is refused and given empty. */
static char *read_line(const chat *talk) {
  if (talk->interactive) return type_line();
  tn_buf line;
  tn_buf_init(&line);
  line.limit = MAX_LINE_BYTES;
  int c;
  while ((c = getchar()) != EOF && c != '\n') tn_buf_putc(&line, (char)c);
  if (line.failed) {
    fprintf(stderr, "tenon: a line is longer than %zu bytes and is left out\n", MAX_LINE_BYTES);
    tn_buf_clear(&line);
  }
  char *text = c == EOF && !line.size ? NULL : tn_buf_take(&line);
  tn_buf_finish(&line);
  return text;
}

static const char *const command_help =
    "/help          this list\n"
    "/reset         forget the conversation\n"
    "/system TEXT   forget the conversation and begin it with a system message\n"
    "/stats         print token counts and speeds after each answer, or stop that\n"
    "/quit          leave (also Ctrl-D)\n"
    "Ctrl-C stops an answer, or drops what is typed.\n"
    "After calls of tools (--tools) each line is the result of one of them, in their order.";

/* Runs a line that begins with '/'; false to leave. */
static bool run_command(chat *talk, const char *line, char **system) {
  if (!strcmp(line, "/quit") || !strcmp(line, "/exit")) return false;
  if (!strcmp(line, "/reset")) {
    start_over(talk);
  } else if (!strncmp(line, "/system ", 8)) {
    const char *before = talk->system;
    char *text = tn_copy_text(line + 8, strlen(line + 8));
    talk->system = text;
    if (text && start_over(talk)) {
      free(*system);
      *system = text;
    } else {
      free(text);
      talk->system = before;
    }
  } else if (!strcmp(line, "/stats")) {
    talk->generator.stats = !talk->generator.stats;
  } else {
    if (strcmp(line, "/help")) fprintf(stderr, "unknown command %.40s\n", line);
    fprintf(stderr, "%s\n", command_help);
  }
  return true;
}

/* What the user typed, as a message: the result of a tool as long as calls are open. NULL: not valid UTF-8. */
static json_t *as_message(chat *talk, const char *line) {
  json_t *text = json_string(line);
  if (!text) return NULL;
  const json_t *call = json_array_get(talk->open_calls, 0);
  if (!call) return json_pack("{s:s, s:o}", "role", "user", "content", text);
  return json_pack("{s:s, s:O, s:O, s:o}", "role", "tool", "tool_call_id", json_object_get(call, "id"), "name",
                   json_object_get(call, "name"), "content", text);
}

/* The answer, with its calls, as a message. */
static json_t *as_answer(chat *talk, const char *answer) {
  json_t *message = json_pack("{s:s, s:s}", "role", "assistant", "content", answer);
  json_t *calls = json_array(), *call;
  size_t i;
  json_array_foreach(talk->generator.calls, i, call) {
    json_array_append_new(
        calls, json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", json_object_get(call, "id"), "type", "function", "function",
                         "name", json_object_get(call, "name"), "arguments", json_object_get(call, "arguments")));
  }
  if (message && json_array_size(calls)) json_object_set(message, "tool_calls", calls);
  json_decref(calls);
  return message;
}

/* One turn: the message, its answer, both kept. A turn that fails or is refused leaves the conversation as it was. */
static bool take_turn(chat *talk, const char *line) {
  json_t *message = as_message(talk, line);
  if (!message) {
    fprintf(stderr, "tenon: the message is not valid UTF-8\n");
    return true;
  }
  json_array_append_new(talk->messages, message);
  if (json_array_size(talk->open_calls) > 1) { /* the model waits for the other results */
    json_array_remove(talk->open_calls, 0);
    return true;
  }
  tn_request_options request = talk->generator.request;
  char *messages = json_dumps(talk->messages, JSON_COMPACT), *answer = NULL;
  tn_error error = {0};
  request.messages_json = messages;
  tn_answer_end end = tn_generator_answer(&talk->generator, &request, &answer, &error);
  json_t *said = answer ? as_answer(talk, answer) : NULL;
  if (end == TN_ANSWER_FAILED || !said) {
    fprintf(stderr, "tenon: %s\n",
            end == TN_ANSWER_FAILED ? error.message : "the answer is not valid UTF-8 and is forgotten");
    json_array_remove(talk->messages, json_array_size(talk->messages) - 1);
    json_decref(said);
  } else {
    talk->is_changed = true;
    json_array_append_new(talk->messages, said);
    json_array_clear(talk->open_calls);
    json_array_extend(talk->open_calls, talk->generator.calls);
  }
  free(messages);
  free(answer);
  return !ferror(stdout);
}

static int talk_until_end(chat *talk) {
  char *system = NULL;
  bool going = true, interrupted = false;
  tn_error error = {0};
  if (!start_over(talk)) return 2;
  if (resume(talk, &error) != TN_OK) return tn_cli_failed(&error);
  if (talk->interactive) fprintf(stderr, "/help lists the commands, Ctrl-D leaves.\n");
  tn_catch_interrupts();
  while (going && !interrupted) {
    unsigned interrupts = tn_interrupts();
    char *line = read_line(talk);
    if (!line) {
      interrupted = tn_terminated() || (!talk->interactive && tn_interrupts() != interrupts);
      break;
    }
    if (line[0] == '/')
      going = run_command(talk, line, &system);
    else if (line[0])
      going = take_turn(talk, line);
    free(line);
    interrupted = tn_terminated();
  }
  free(system);
  if (keep_session(talk, &error) != TN_OK) return tn_cli_failed(&error);
  return interrupted ? tn_cli_fail("interrupted") : tn_cli_finish_output();
}

int tn_command_chat(int argc, char **argv) {
  chat talk = {.generator = TN_GENERATOR, .interactive = tn_is_terminal(0)};
  const tn_cli_option options[] = {
      {"system", 0, TN_CLI_TEXT, &talk.system, "TEXT", "system message", 0, 0},
      {"session", 0, TN_CLI_TEXT, &talk.session, "F", "goes on with the conversation in file F, and keeps it there", 0,
       0},
      TN_GENERATOR_OPTIONS(talk.generator),
  };
  const tn_cli_command command = {"chat",  "MODEL [options]", "Talks with a model; /help lists what can be typed.",
                                  options, TN_COUNT(options), 1,
                                  1};
  const char *path;
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  tn_error error = {0};
  tn_model_info model = TN_MODEL_INFO;
  talk.messages = json_array();
  talk.open_calls = json_array();
  tn_status status = check_session(&talk, &error);
  if (status == TN_OK) status = tn_generator_open(&talk.generator, path, &error);
  if (status == TN_OK) tn_model_describe(talk.generator.model, &model);
  if (status == TN_OK && !model.has_chat_template)
    status =
        tn_fail(&error, TN_E_UNSUPPORTED, "%s: no chat template (tokenizer.chat_template); use tenon run --raw", path);
  int result = status == TN_OK ? talk_until_end(&talk) : tn_cli_failed(&error);
  json_decref(talk.messages);
  json_decref(talk.open_calls);
  tn_generator_close(&talk.generator);
  return result;
}
