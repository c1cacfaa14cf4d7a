/* Calls written as tags, as <function=NAME><parameter=KEY>VALUE</parameter></function>. Values stand as they are, texts
 * without quotes; what a value is tells the tool's schema. */
#include <jansson.h>
#include <stdlib.h>
#include "text/tools/parts.h"

static const tn_tags TAGGED = {"<function=", ">", "</function>", "<parameter=", ">", "", "</parameter>", "\n"};
static const tn_tags INVOKE = {"<invoke name=\"", "\">", "</invoke>", "<parameter name=\"", "\">", "",
                               "</parameter>",    ""};
static const tn_tags GLM = {"", "\n", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", ""};

const tn_tags *tn_tags_of(tn_tool_syntax syntax) {
  return syntax == TN_TOOLS_TAGGED   ? &TAGGED
         : syntax == TN_TOOLS_INVOKE ? &INVOKE
         : syntax == TN_TOOLS_GLM    ? &GLM
                                     : NULL;
}

/* Takes the end of a call off the front. */
static bool take_close(const tn_tags *tags, tn_text *text) {
  return *tags->close ? tn_take(text, tags->close) : !text->bytes;
}

/* A value ends where a parameter or the end of the call follows, so a text may speak of the tags. */
static bool take_value(const tn_tags *tags, tn_text *text, tn_text *value) {
  tn_text rest = *text;
  for (const char *end; (end = tn_find(rest, tags->value_end));) {
    rest = tn_from(rest, end + strlen(tags->value_end));
    tn_text next = tn_trim(rest);
    if (!tn_take(&next, tags->key) && !take_close(tags, &next)) continue;
    *value = tn_before(*text, end);
    *text = rest;
    if (!*tags->line) return true;
    tn_take(value, "\n");
    if (value->bytes && value->data[value->bytes - 1] == '\n') value->bytes--;
    return true;
  }
  return false;
}

/* Constants as Python prints them, which is how templates print them. */
static tn_text as_json(tn_text text) {
  static const char *const python[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
  for (size_t i = 0; i < TN_COUNT(python); i++)
    if (tn_text_is(text, python[i][0])) return tn_text_of(python[i][1]);
  return text;
}

static void put_value(tn_buf *json, tn_text value, unsigned kinds) {
  const tn_text constant = as_json(tn_trim(value));
  if (tn_json_text_kind(constant) & kinds & ~(unsigned)TN_IS_STRING) {
    tn_buf_append(json, constant.data, constant.bytes);
  } else {
    tn_put_json_string(json, value);
  }
}

static bool take_name(tn_text *text, const char *tag, const char *tag_end, tn_text *name) {
  const char *end;
  if (!tn_take(text, tag) || !(end = tn_find(*text, tag_end))) return false;
  *name = tn_before(*text, end);
  *text = tn_from(*text, end + strlen(tag_end));
  return name->bytes > 0;
}

static bool take_parameter(const tn_tags *tags, tn_text *text, tn_text *key, tn_text *value) {
  if (!take_name(text, tags->key, tags->key_end, key)) return false;
  if (*tags->value) *text = tn_trim(*text);
  return tn_take(text, tags->value) && take_value(tags, text, value);
}

/* The parameters up to the end of the call, as the members of a JSON object. */
static bool read_parameters(const tn_calls *calls, const tn_tags *tags, tn_text *text, size_t tool, json_t *seen,
                            tn_buf *json) {
  tn_text key, value;
  for (;;) {
    *text = tn_trim(*text);
    if (take_close(tags, text)) return true;
    if (!take_parameter(tags, text, &key, &value)) return false;
    json_t *name = json_stringn(key.data, key.bytes);
    bool is_new = name && !json_object_get(seen, json_string_value(name)) &&
                  json_object_set_new(seen, json_string_value(name), json_null()) == 0;
    json_decref(name);
    if (!is_new) return false;
    if (json->size > 1) tn_buf_puts(json, ", ");
    tn_put_json_string(json, key);
    tn_buf_puts(json, ": ");
    put_value(json, value, tn_tool_parameter_kinds(calls->tools, tool, key));
  }
}

/* A tool's name: up to its end, or (GLM, where no newline need follow it) to the first parameter or the body's end. */
static bool take_tool(const tn_tags *tags, tn_text *text, tn_text *name) {
  if (*tags->call) return take_name(text, tags->call, tags->call_end, name);
  const char *key = tn_find(*text, tags->key), *end = key ? key : text->data + text->bytes;
  *name = tn_trim(tn_before(*text, end));
  *text = tn_from(*text, end);
  return name->bytes > 0;
}

static bool read_function(tn_calls *calls, const tn_tags *tags, tn_text *text) {
  tn_text name;
  tn_buf json;
  if (!take_tool(tags, text, &name)) return false;
  int tool = tn_tool_list_find(calls->tools, name);
  if (tool < 0) return false;
  json_t *seen = json_object();
  tn_buf_init(&json);
  tn_buf_puts(&json, "{");
  bool read = seen && read_parameters(calls, tags, text, (size_t)tool, seen, &json);
  tn_buf_puts(&json, "}");
  read = read && !json.failed && tn_calls_add(calls, name, (tn_text){json.data, json.size});
  calls->text.failed |= json.failed || !seen;
  tn_buf_finish(&json);
  json_decref(seen);
  return read;
}

bool tn_calls_read_tagged(tn_calls *calls, tn_tool_syntax syntax, tn_text body) {
  const tn_tags *tags = tn_tags_of(syntax);
  body = tn_trim(body);
  if (!body.bytes || !calls->tools) return false;
  while (body.bytes) {
    if (!read_function(calls, tags, &body)) return false;
    body = tn_trim(body);
  }
  return true;
}
