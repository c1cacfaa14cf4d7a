/* Calls read from the text between their markers: the syntaxes that write arguments as JSON. */
#include <stdlib.h>
#include "base/json_reader.h"
#include "text/tools/parts.h"

/* ---- small things ---- */

tn_text tn_trim(tn_text text) {
  while (text.bytes && tn_is_blank(text.data[0])) text.data++, text.bytes--;
  while (text.bytes && tn_is_blank(text.data[text.bytes - 1])) text.bytes--;
  return text;
}

bool tn_take(tn_text *text, const char *prefix) {
  size_t bytes = strlen(prefix);
  if (text->bytes < bytes || memcmp(text->data, prefix, bytes)) return false;
  *text = tn_from(*text, text->data + bytes);
  return true;
}

const char *tn_find(tn_text text, const char *needle) {
  size_t bytes = strlen(needle);
  for (size_t at = 0; at + bytes <= text.bytes; at++)
    if (!memcmp(text.data + at, needle, bytes)) return text.data + at;
  return NULL;
}

void tn_put_json_string(tn_buf *buf, tn_text text) {
  tn_buf_putc(buf, '"');
  for (size_t i = 0; i < text.bytes; i++) {
    char c = text.data[i];
    if (c == '"' || c == '\\') {
      tn_buf_putc(buf, '\\');
      tn_buf_putc(buf, c);
    } else if (c == '\n') {
      tn_buf_puts(buf, "\\n");
    } else if ((unsigned char)c < 0x20) {
      tn_buf_printf(buf, "\\u%04x", c);
    } else {
      tn_buf_putc(buf, c);
    }
  }
  tn_buf_putc(buf, '"');
}

unsigned tn_json_text_kind(tn_text text) {
  static const unsigned kinds[] = {[TN_JSON_OBJECT] = TN_IS_CONTAINER,
                                   [TN_JSON_ARRAY] = TN_IS_CONTAINER,
                                   [TN_JSON_STRING] = TN_IS_STRING,
                                   [TN_JSON_NUMBER] = TN_IS_NUMBER,
                                   [TN_JSON_BOOLEAN] = TN_IS_BOOLEAN,
                                   [TN_JSON_NULL] = TN_IS_NULL,
                                   [TN_JSON_NONE] = 0};
  tn_json json;
  tn_json_init(&json, text.data, text.bytes, NULL);
  tn_json_kind kind = tn_json_peek(&json);
  bool read = kind != TN_JSON_NONE && tn_json_skip(&json, NULL);
  return tn_json_end(&json) == TN_OK && read ? kinds[kind] : 0;
}

static bool is_json_object(tn_text text) {
  text = tn_trim(text);
  return text.bytes && text.data[0] == '{' && tn_json_text_kind(text) == TN_IS_CONTAINER;
}

bool tn_calls_add(tn_calls *calls, tn_text name, tn_text arguments) {
  arguments = tn_trim(arguments);
  int tool = calls->tools ? tn_tool_list_find(calls->tools, name) : -1;
  if (tool < 0 || !is_json_object(arguments)) return false;
  tn_call *call = TN_PUSH(calls->calls, calls->count, calls->capacity);
  if (!call) {
    calls->text.failed = true;
    return false;
  }
  *call = (tn_call){(size_t)tool, calls->text.size, arguments.bytes};
  tn_buf_append(&calls->text, arguments.data, arguments.bytes);
  tn_buf_putc(&calls->text, 0);
  return !calls->text.failed;
}

/* ---- objects that say a name and arguments ---- */

/* A member of a call: arguments as an object, as JSON text in a string, or none. */
static bool read_arguments(tn_json *json, tn_buf *arguments) {
  tn_text text;
  if (tn_json_null(json)) return tn_buf_puts(arguments, "{}");
  bool read = tn_json_peek(json) == TN_JSON_STRING ? tn_json_string(json, &text)
                                                   : tn_json_peek(json) == TN_JSON_OBJECT && tn_json_skip(json, &text);
  if (!read) return tn_json_fail(json, TN_E_INVALID, "arguments");
  return tn_buf_append(arguments, text.data, text.bytes);
}

static bool read_call(tn_calls *calls, tn_text object) {
  tn_json json;
  tn_buf name, arguments;
  tn_text key, text;
  bool good = true;
  tn_buf_init(&name);
  tn_buf_init(&arguments);
  tn_json_init(&json, object.data, object.bytes, NULL);
  if (tn_json_peek(&json) == TN_JSON_OBJECT && tn_json_object(&json)) {
    while (good && tn_json_key(&json, &key)) {
      if (tn_text_is(key, "name") || tn_text_is(key, "tool_name")) {
        good = !name.size && tn_json_string(&json, &text) && tn_buf_append(&name, text.data, text.bytes);
      } else if (tn_text_is(key, "arguments") || tn_text_is(key, "parameters")) {
        good = !arguments.size && read_arguments(&json, &arguments);
      } else {
        good = tn_json_skip(&json, NULL);
      }
    }
  } else {
    good = false;
  }
  good = tn_json_end(&json) == TN_OK && good && name.size;
  if (good && !arguments.size) tn_buf_puts(&arguments, "{}");
  good = good && tn_calls_add(calls, (tn_text){name.data, name.size}, (tn_text){arguments.data, arguments.size});
  calls->text.failed |= name.failed || arguments.failed;
  tn_buf_finish(&name);
  tn_buf_finish(&arguments);
  return good;
}

/* Takes a JSON object, by its brackets, off the front of the text. */
static bool take_object(tn_text *text, tn_text *object) {
  size_t depth = 0;
  bool in_string = false;
  if (!text->bytes || text->data[0] != '{') return false;
  for (size_t i = 0; i < text->bytes; i++) {
    char c = text->data[i];
    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      depth++;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      *object = tn_before(*text, text->data + i + 1);
      *text = tn_from(*text, text->data + i + 1);
      return true;
    }
  }
  return false;
}

/* Objects with `separator` or white space between them, and nothing else. */
static bool read_objects(tn_calls *calls, tn_text text, char separator) {
  tn_text object;
  text = tn_trim(text);
  if (!text.bytes) return false;
  while (text.bytes) {
    if (!take_object(&text, &object) || !read_call(calls, object)) return false;
    text = tn_trim(text);
    if (text.bytes > 1 && text.data[0] == separator) text = tn_trim(tn_from(text, text.data + 1));
  }
  return true;
}

/* ---- the syntaxes ---- */

/* [{...}, {...}] */
static bool is_list(tn_text body) {
  return body.bytes > 1 && body.data[0] == '[' && body.data[body.bytes - 1] == ']';
}

static bool read_list(tn_calls *calls, tn_text body) {
  body = tn_trim(body);
  return is_list(body) && read_objects(calls, (tn_text){body.data + 1, body.bytes - 2}, ',');
}

static bool read_mistral(tn_calls *calls, tn_text body) {
  body = tn_trim(body);
  if (is_list(body)) return read_list(calls, body);
  const char *end = body.data;
  while (end < body.data + body.bytes && *end != '[' && *end != '{' && !tn_is_blank(*end)) end++;
  const tn_text name = tn_before(body, end);
  body = tn_trim(tn_from(body, end));
  if (tn_take(&body, "[CALL_ID]")) {
    const char *arguments = tn_find(body, "[ARGS]");
    if (!arguments) return false;
    body = tn_from(body, arguments);
  }
  tn_take(&body, "[ARGS]");
  return tn_calls_add(calls, name, body);
}

/* Arguments inside a fence, with the name above it: V3 and R1. */
static bool read_fenced(tn_calls *calls, tn_text text) {
  const char *fence = tn_find(text, "```json");
  if (!fence) return false;
  const tn_text name = tn_trim(tn_before(text, fence));
  text = tn_trim(tn_from(text, fence + strlen("```json")));
  if (text.bytes < 3 || memcmp(text.data + text.bytes - 3, "```", 3)) return false;
  text.bytes -= 3;
  return tn_calls_add(calls, name, text);
}

static bool read_deepseek(tn_calls *calls, tn_text body) {
  body = tn_trim(body);
  if (!body.bytes) return false;
  while (body.bytes) {
    const char *separator, *end;
    if (!tn_take(&body, "<｜tool▁call▁begin｜>") || !(end = tn_find(body, "<｜tool▁call▁end｜>"))) return false;
    const tn_text call = tn_before(body, end);
    body = tn_trim(tn_from(body, end + strlen("<｜tool▁call▁end｜>")));
    if (!(separator = tn_find(call, "<｜tool▁sep｜>"))) return false;
    const tn_text head = tn_trim(tn_before(call, separator));
    const tn_text rest = tn_from(call, separator + strlen("<｜tool▁sep｜>"));
    if (tn_text_is(head, "function") ? !read_fenced(calls, rest) : !tn_calls_add(calls, head, rest)) return false;
  }
  return true;
}

/* functions.NAME:NUMBER, and arguments. */
static bool read_kimi(tn_calls *calls, tn_text body) {
  body = tn_trim(body);
  if (!body.bytes) return false;
  while (body.bytes) {
    const char *separator, *end;
    if (!tn_take(&body, "<|tool_call_begin|>") || !(end = tn_find(body, "<|tool_call_end|>"))) return false;
    const tn_text call = tn_before(body, end);
    body = tn_trim(tn_from(body, end + strlen("<|tool_call_end|>")));
    if (!(separator = tn_find(call, "<|tool_call_argument_begin|>"))) return false;
    tn_text name = tn_trim(tn_before(call, separator));
    tn_take(&name, "functions.");
    for (size_t at = name.bytes; at-- > 0;)
      if (name.data[at] == ':') name.bytes = at;
    if (!tn_calls_add(calls, name, tn_from(call, separator + strlen("<|tool_call_argument_begin|>")))) return false;
  }
  return true;
}

/* NAME>{...} */
static bool read_function(tn_calls *calls, tn_text body) {
  const char *end = tn_find(body, ">");
  return end && tn_calls_add(calls, tn_before(body, end), tn_from(body, end + 1));
}

bool tn_calls_read(tn_calls *calls, tn_tool_syntax syntax, tn_text body, tn_text recipient) {
  switch (syntax) {
    case TN_TOOLS_HERMES: return read_objects(calls, body, '\n');
    case TN_TOOLS_LLAMA: return read_objects(calls, body, ';');
    case TN_TOOLS_MISTRAL: return read_mistral(calls, body);
    case TN_TOOLS_DEEPSEEK: return read_deepseek(calls, body);
    case TN_TOOLS_CHANNELS: return tn_calls_add(calls, recipient, body);
    case TN_TOOLS_LIST: return read_list(calls, body);
    case TN_TOOLS_KIMI: return read_kimi(calls, body);
    case TN_TOOLS_FUNCTION: return read_function(calls, body);
    case TN_TOOLS_TAGGED:
    case TN_TOOLS_GLM:
    case TN_TOOLS_INVOKE: return tn_calls_read_tagged(calls, syntax, body);
    case TN_TOOLS_GEMMA: return tn_calls_read_gemma(calls, body);
    case TN_TOOLS_NONE: break;
  }
  return false;
}
