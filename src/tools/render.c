/* tenon render: the text that a chat template makes of a context. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/json_reader.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/utf8.h"
#include "cli/options.h"
#include "model/gguf.h"
#include "text/chat_template.h"

#define MAX_FILE_BYTES ((size_t)256 << 20)

typedef struct render_tool {
  const char *template_path, *context_path, *now;
  bool jsonl, spans;
} render_tool;

/* ---- writing ---- */

/* A JSON string of ASCII alone, so that nothing in it looks like the end of a line to anybody. Bytes that aren't UTF-8
 * become U+FFFD. */
static void print_json_text(const char *data, size_t size) {
  putchar('"');
  for (size_t at = 0; at < size;) {
    uint32_t c;
    size_t length;
    tn_utf8_read(data + at, size - at, &length, &c);
    at += length;
    if (c == '"' || c == '\\')
      printf("\\%c", (char)c);
    else if (c == '\n')
      fputs("\\n", stdout);
    else if (c >= 0x20 && c < 0x7f)
      putchar((int)c);
    else if (c < 0x10000)
      printf("\\u%04x", (unsigned)c);
    else
      printf("\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
             (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
  }
  putchar('"');
}

static void print_answer(tn_status status, const tn_jinja_output *output, const tn_error *error, bool spans) {
  if (status) {
    fputs("{\"error\": ", stdout);
    print_json_text(output->failure ? output->failure : error->message,
                    output->failure ? output->failure_size : strlen(error->message));
  } else {
    fputs("{\"text\": ", stdout);
    print_json_text(output->text, output->size);
  }
  if (!status && spans) {
    fputs(", \"spans\": [", stdout);
    for (size_t i = 0; i < output->span_count; i++)
      printf("%s[%zu, %zu, %s]", i ? ", " : "", output->spans[i].offset, output->spans[i].size,
             output->spans[i].trusted ? "true" : "false");
    putchar(']');
  }
  puts("}");
}

/* ---- time ---- */

/* Reads "YYYY-MM-DDTHH:MM:SS" (or with a blank for the T). */
static bool read_time(const char *text, tn_jinja_time *time) {
  int used = 0;
  int count = sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d%n", &time->year, &time->month, &time->day, &time->hour,
                     &time->minute, &time->second, &used);
  return count == 6 && !text[used];
}

/* The request's or option's `now`, else the present. */
static tn_status time_of(const char *now, tn_jinja_time *time, tn_error *error) {
  if (!now)
    *time = tn_chat_present();
  else if (!read_time(now, time))
    return tn_fail(error, TN_E_INVALID, "now: \"%.40s\" isn't YYYY-MM-DDTHH:MM:SS", now);
  return TN_OK;
}

/* ---- one rendering ---- */

static tn_status render(const char *source, size_t size, const tn_jinja_value *context, const char *now,
                        tn_jinja_output *output, tn_error *error) {
  tn_jinja_template *jinja = NULL;
  tn_jinja_time time;
  *output = (tn_jinja_output){0};
  tn_status status = time_of(now, &time, error);
  if (!status) status = tn_jinja_compile(source, size, NULL, &jinja, error);
  if (!status) status = tn_jinja_render(jinja, context, &(tn_jinja_options){.now = &time}, output, error);
  tn_jinja_template_destroy(jinja);
  return status;
}

/* A field of a request that isn't known is an error, as for the other commands. */
static tn_status check_fields(const char *line, size_t size, tn_error *error) {
  tn_json json;
  tn_json_init(&json, line, size, error);
  if (tn_json_peek(&json) != TN_JSON_OBJECT)
    tn_json_skip(&json, NULL);
  else if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key); tn_json_skip(&json, NULL))
      if (!tn_text_is(key, "template") && !tn_text_is(key, "context") && !tn_text_is(key, "now"))
        tn_json_fail(&json, TN_E_INVALID, "unknown field '%.*s'", (int)(key.bytes < 60 ? key.bytes : 60), key.data);
  return tn_json_end(&json);
}

/* {"template": TEXT, "context": {...}, "now": TIME} -> {"text": TEXT} or {"error": TEXT}. `own`: the model's template,
 * for requests without one; NULL: there is none. */
static void serve_line(const char *line, size_t size, tn_text own, bool spans) {
  tn_error error = {0};
  tn_jinja_output output = {0};
  const tn_jinja_value *request;
  size_t source_size = 0, now_size = 0;
  tn_jinja_values *values = tn_jinja_values_create(0);
  tn_status status = values ? TN_OK : tn_fail(&error, TN_E_MEMORY, "out of memory");
  if (!status) status = tn_jinja_value_parse(values, line, size, NULL, &request, &error);
  if (!status) status = check_fields(line, size, &error);
  if (!status) {
    const char *source = tn_jinja_value_text(tn_jinja_value_member(request, "template"), &source_size);
    const char *now = tn_jinja_value_text(tn_jinja_value_member(request, "now"), &now_size);
    const tn_jinja_value *context = tn_jinja_value_member(request, "context");
    char time[64];
    if (now) snprintf(time, sizeof time, "%.*s", (int)(now_size < sizeof time ? now_size : sizeof time - 1), now);
    if (!source) source = own.data, source_size = own.bytes;
    if (!source)
      status = tn_fail(&error, TN_E_INVALID, "the request has no \"template\"");
    else if (!context)
      status = tn_fail(&error, TN_E_INVALID, "the request has no \"context\"");
    else
      status = render(source, source_size, context, now ? time : NULL, &output, &error);
  }
  print_answer(status, &output, &error, spans);
  tn_jinja_output_finish(&output);
  tn_jinja_values_destroy(values);
}

static int serve(tn_text own, bool spans) {
  char *line = NULL;
  size_t capacity = 0;
  for (ssize_t size; (size = getline(&line, &capacity, stdin)) >= 0;) {
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) size--;
    if (!size) continue;
    serve_line(line, (size_t)size, own, spans);
    fflush(stdout);
  }
  free(line);
  return tn_cli_finish_output();
}

/* ---- files ---- */

static tn_status copy_source(const char *data, size_t size, char **source, size_t *source_size, tn_error *error) {
  *source = tn_copy_text(data, size);
  *source_size = size;
  return *source ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory for the template's %zu bytes", size);
}

/* "chat_template" of a tokenizer_config.json: a string, or a list of {"name", "template"} of which "default" counts. */
static tn_status read_config_template(const char *path, char **source, size_t *size, tn_error *error) {
  char *json = NULL;
  size_t json_size = 0;
  tn_status status = tn_file_read(path, MAX_FILE_BYTES, &json, &json_size, error);
  if (status) return status;
  json_t *config = json_loadb(json, json_size, JSON_ALLOW_NUL, NULL);
  const json_t *found = json_object_get(config, "chat_template");
  for (size_t i = 0; json_is_array(found) && i < json_array_size(found); i++) {
    const json_t *entry = json_array_get(found, i);
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (name && strcmp(name, "default") == 0) found = json_object_get(entry, "template");
  }
  if (json_is_string(found))
    status = copy_source(json_string_value(found), json_string_length(found), source, size, error);
  else
    status = tn_fail(error, TN_E_NOT_FOUND, "%s: no \"chat_template\"", path);
  json_decref(config);
  free(json);
  return status;
}

static tn_status read_folder_template(const char *folder, char **source, size_t *size, tn_error *error) {
  tn_buf path;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/chat_template.jinja", folder);
  tn_status status = path.failed ? tn_fail(error, TN_E_MEMORY, "out of memory for a path") : TN_OK;
  if (!status && tn_path_exists(path.data)) {
    status = tn_file_read(path.data, MAX_FILE_BYTES, source, size, error);
  } else if (!status) {
    tn_buf_clear(&path);
    tn_buf_printf(&path, "%s/tokenizer_config.json", folder);
    status = path.failed ? tn_fail(error, TN_E_MEMORY, "out of memory for a path")
                         : read_config_template(path.data, source, size, error);
  }
  tn_buf_finish(&path);
  return status;
}

/* The template of a GGUF file or a folder, or a template file itself. */
static tn_status read_template(const render_tool *tool, const char *model, char **source, size_t *size,
                               tn_error *error) {
  if (tool->template_path) return tn_file_read(tool->template_path, MAX_FILE_BYTES, source, size, error);
  if (tn_path_is_directory(model)) return read_folder_template(model, source, size, error);
  tn_gguf *gguf = NULL;
  tn_text text = {0};
  tn_status status = tn_gguf_open(&gguf, model, error);
  if (!status) status = tn_gguf_get_string(gguf, NULL, "tokenizer.chat_template", &text, error);
  if (!status) status = copy_source(text.data, text.bytes, source, size, error);
  tn_gguf_close(gguf);
  return status;
}

static int serve_requests(const render_tool *tool, const char *model) {
  tn_error error = {0};
  char *source = NULL;
  size_t size = 0;
  if ((model || tool->template_path) && read_template(tool, model, &source, &size, &error) != TN_OK)
    return tn_cli_fail(error.message);
  int result = serve((tn_text){source, size}, tool->spans);
  free(source);
  return result;
}

static int render_files(const render_tool *tool, const char *model) {
  tn_error error = {0};
  tn_jinja_output output = {0};
  const tn_jinja_value *context = NULL;
  char *source = NULL, *json = NULL;
  size_t source_size = 0, json_size = 0;
  tn_jinja_values *values = tn_jinja_values_create(0);
  tn_status status = values ? TN_OK : tn_fail(&error, TN_E_MEMORY, "out of memory");
  if (!status) status = read_template(tool, model, &source, &source_size, &error);
  if (!status) status = tn_file_read(tool->context_path, MAX_FILE_BYTES, &json, &json_size, &error);
  if (!status) {
    status = tn_jinja_value_parse(values, json, json_size, NULL, &context, &error);
    if (status) tn_error_prefix(&error, "%s", tool->context_path);
  }
  if (!status) status = render(source, source_size, context, tool->now, &output, &error);
  if (status)
    tn_cli_fail(output.failure ? output.failure : error.message);
  else if (tool->spans)
    print_answer(status, &output, &error, true);
  else
    fwrite(output.text, 1, output.size, stdout);
  tn_jinja_output_finish(&output);
  tn_jinja_values_destroy(values);
  free(source);
  free(json);
  return status ? 1 : tn_cli_finish_output();
}

int tn_command_render(int argc, char **argv) {
  render_tool tool = {0};
  const char *model = NULL;
  size_t count = 0;
  const tn_cli_option options[] = {
      {"template", 0, TN_CLI_TEXT, &tool.template_path, "FILE", "the template, instead of the model's own", 0, 0},
      {"context", 0, TN_CLI_TEXT, &tool.context_path, "FILE", "its variables, a JSON object (\"-\": stdin)", 0, 0},
      {"now", 0, TN_CLI_TEXT, &tool.now, "TIME", "what strftime_now shows, YYYY-MM-DDTHH:MM:SS", 0, 0},
      {"spans", 0, TN_CLI_FLAG, &tool.spans, NULL, "as JSON, with the origin of each part of the text", 0, 0},
      {"jsonl", 0, TN_CLI_FLAG, &tool.jsonl, NULL, "one JSON request a line on stdin, one answer a line", 0, 0}};
  const tn_cli_command command = {.name = "render",
                                  .usage = "[MODEL] (--context FILE | --jsonl) [options]",
                                  .summary = "The text that a chat template makes of a context.",
                                  .options = options,
                                  .option_count = TN_COUNT(options),
                                  .max_arguments = 1};
  tn_cli_result result = tn_cli_parse(&command, argc, argv, &model, &count);
  if (result) return tn_cli_exit(result);
  if (tool.jsonl && !tool.context_path && !tool.now && !(count && tool.template_path))
    return serve_requests(&tool, count ? model : NULL);
  if (tool.jsonl) {
    fprintf(stderr,
            "tenon: render --jsonl takes context and time from its requests, and one of model and --template\n");
    return 2;
  }
  if (!tool.context_path || (count == 0) == (tool.template_path == NULL)) {
    fprintf(stderr, "tenon: render needs --context and either a model or --template\n");
    return 2;
  }
  return render_files(&tool, model);
}
