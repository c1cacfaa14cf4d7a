/* Grammars of calls: of answers that must be calls, and of what may follow once a call has begun. */
#include <jansson.h>
#include <stdlib.h>
#include "base/error.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"
#include "text/tools/parts.h"

/* The parts of one call; their texts live in the arena. */
typedef struct builder {
  tn_arena arena;
  tn_grammar_part *parts;
  size_t count, capacity;
  tn_error *error;
  tn_status status;
} builder;

static bool fail_memory(builder *b) {
  b->status = tn_fail(b->error, TN_E_MEMORY, "no memory for a grammar of tools");
  return false;
}

static bool add(builder *b, tn_grammar_part_kind kind, tn_text text, uint32_t group) {
  char *copy = tn_arena_copy(&b->arena, text.data, text.bytes);
  tn_grammar_part *part = copy ? TN_PUSH(b->parts, b->count, b->capacity) : NULL;
  if (!part) return fail_memory(b);
  *part = (tn_grammar_part){.kind = kind, .text = {copy, text.bytes}, .group = group};
  return true;
}

static bool add_literal(builder *b, const char *text, uint32_t group) {
  return add(b, TN_GRAMMAR_LITERAL, tn_text_of(text), group);
}

static bool add_schema(builder *b, const json_t *schema, uint32_t group) {
  char *text = json_dumps(schema, JSON_COMPACT);
  bool added = text ? add(b, TN_GRAMMAR_SCHEMA, tn_text_of(text), group) : fail_memory(b);
  free(text);
  return added;
}

static bool add_json_name(builder *b, tn_text name) {
  tn_buf text;
  tn_buf_init(&text);
  tn_put_json_string(&text, name);
  bool added = !text.failed && add(b, TN_GRAMMAR_LITERAL, (tn_text){text.data, text.size}, 0);
  tn_buf_finish(&text);
  return added || fail_memory(b);
}

/* The schema of a tool's arguments, made to speak of objects; a new reference. */
static json_t *arguments_schema(const tn_tool_list *tools, size_t tool) {
  const json_t *parameters = tn_tool_list_parameters(tools, tool);
  if (!parameters) return json_pack("{s:s, s:b}", "type", "object", "additionalProperties", 0);
  json_t *schema = json_copy((json_t *)parameters);
  if (schema && !json_object_get(schema, "type")) json_object_set_new(schema, "type", json_string("object"));
  return schema;
}

/* ---- JSON ---- */

static bool add_json_call(builder *b, const tn_tool_list *tools, size_t tool, const char *before, const char *key,
                          const char *after) {
  json_t *schema = arguments_schema(tools, tool);
  bool added = schema ? add_literal(b, before, 0) && add_json_name(b, tn_tool_list_name(tools, tool)) &&
                            add_literal(b, key, 0) && add_schema(b, schema, 0) && add_literal(b, after, 0)
                      : fail_memory(b);
  json_decref(schema);
  return added;
}

/* ---- tags ---- */

static bool is_annotation(const char *key) {
  static const char *const keys[] = {"type", "description", "title", "default", "examples", "nullable", "$comment"};
  for (size_t i = 0; i < TN_COUNT(keys); i++)
    if (!strcmp(key, keys[i])) return true;
  return false;
}

/* Whether the schema of a text, which stands without quotes, says nothing but what is looked at here. */
static bool is_plain_text(const json_t *schema, unsigned depth) {
  const char *key;
  json_t *value;
  if (!json_is_object(schema) || depth > 1) return false;
  json_object_foreach((json_t *)schema, key, value) {
    bool is_choice = !strcmp(key, "anyOf") || !strcmp(key, "oneOf");
    for (size_t i = 0; is_choice && i < json_array_size(value); i++)
      if (!is_plain_text(json_array_get(value, i), depth + 1)) return false;
    if (!is_choice && !is_annotation(key)) return false;
  }
  return true;
}

static bool add_choices(builder *b, const json_t *values, uint32_t group) {
  size_t count = json_array_size(values);
  tn_grammar_text *choices = tn_arena_array(&b->arena, count, sizeof *choices);
  if (!choices || !add(b, TN_GRAMMAR_CHOICES, TN_TEXT(""), group)) return fail_memory(b);
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(values, i);
    choices[i] = (tn_grammar_text){json_string_value(value), json_string_length(value)};
  }
  b->parts[b->count - 1].choices = choices;
  b->parts[b->count - 1].choice_count = count;
  return true;
}

static bool are_texts(const json_t *values) {
  for (size_t i = 0; i < json_array_size(values); i++)
    if (!json_is_string(json_array_get(values, i))) return false;
  return json_array_size(values) > 0;
}

/* A value that isn't a text stands as JSON; its schema brings the definitions along that it may refer to. */
static bool add_json_value(builder *b, const json_t *parameters, const json_t *schema, uint32_t group) {
  static const char *const definitions[] = {"$defs", "definitions"};
  json_t *copy = json_copy((json_t *)schema);
  for (size_t i = 0; copy && i < TN_COUNT(definitions); i++) {
    json_t *shared = json_object_get(parameters, definitions[i]);
    if (shared && json_is_object(copy)) json_object_set(copy, definitions[i], shared);
  }
  bool added = copy ? add_schema(b, copy, group) : fail_memory(b);
  json_decref(copy);
  return added;
}

static bool add_value(builder *b, const tn_tool_list *tools, size_t tool, const char *name, uint32_t group) {
  const json_t *parameters = tn_tool_list_parameters(tools, tool);
  const json_t *schema = json_object_get(json_object_get(parameters, "properties"), name);
  const json_t *values = json_object_get(schema, "enum");
  if (!(tn_tool_parameter_kinds(tools, tool, tn_text_of(name)) & TN_IS_STRING))
    return add_json_value(b, parameters, schema, group);
  if (are_texts(values)) return add_choices(b, values, group);
  if (is_plain_text(schema, 0)) return add(b, TN_GRAMMAR_WITHOUT, TN_TEXT("</parameter>"), group);
  b->status = tn_fail(b->error, TN_E_UNSUPPORTED,
                      "parameter \"%.60s\" of tool \"%.60s\": what its schema says of texts can't be enforced in this "
                      "model's syntax of calls",
                      name, tn_tool_list_name(tools, tool).data);
  return false;
}

static bool is_required(const json_t *parameters, const char *name) {
  const json_t *required = json_object_get(parameters, "required");
  for (size_t i = 0; i < json_array_size(required); i++)
    if (!strcmp(json_string_value(json_array_get(required, i)) ? json_string_value(json_array_get(required, i)) : "",
                name))
      return true;
  return false;
}

static bool add_tagged_call(builder *b, const tn_tool_list *tools, size_t tool) {
  const json_t *parameters = tn_tool_list_parameters(tools, tool);
  uint32_t group = 0;
  const char *name;
  json_t *schema;
  bool added = add_literal(b, "<function=", 0) && add(b, TN_GRAMMAR_LITERAL, tn_tool_list_name(tools, tool), 0) &&
               add_literal(b, ">\n", 0);
  json_object_foreach(json_object_get(parameters, "properties"), name, schema) {
    uint32_t in = is_required(parameters, name) ? 0 : ++group;
    added = added && add_literal(b, "<parameter=", in) && add_literal(b, name, in) && add_literal(b, ">\n", in) &&
            add_value(b, tools, tool, name, in) && add_literal(b, "\n</parameter>\n", in);
  }
  return added && add_literal(b, "</function>\n</tool_call>", 0);
}

/* ---- */

/* The first words of a call. Behind the marker, the newline that follows it may be missing. */
static bool add_opening(builder *b, bool behind_marker) {
  if (behind_marker) return add_literal(b, "\n", UINT32_MAX);
  return add_literal(b, "<tool_call>\n", 0);
}

static bool add_call(builder *b, const tn_tool_grammar_options *options, tn_tool_syntax syntax, size_t tool) {
  const tn_tool_list *tools = options->tools;
  switch (syntax) {
    case TN_TOOLS_HERMES:
      return add_opening(b, options->behind_marker) &&
             add_json_call(b, tools, tool, "{\"name\": ", ", \"arguments\": ", "}\n</tool_call>");
    case TN_TOOLS_TAGGED: return add_opening(b, options->behind_marker) && add_tagged_call(b, tools, tool);
    case TN_TOOLS_LLAMA:
      if (!options->behind_marker) return add_json_call(b, tools, tool, "{\"name\": ", ", \"parameters\": ", "}");
      break;
    default: break;
  }
  b->status = tn_fail(b->error, TN_E_UNSUPPORTED, "there is no grammar for this model's syntax of calls");
  return false;
}

/* Grammars never allow control tokens. */
static bool has_plain_markers(builder *b, const tn_tool_grammar_options *options) {
  tn_marker markers[TN_MOST_MARKERS];
  size_t count = options->tokenizer ? tn_markers_of(options->template_source, markers) : 0;
  for (size_t i = 0; i < count; i++) {
    if (markers[i].role != TN_MARK_CALL && markers[i].role != TN_MARK_CALL_END) continue;
    if (tn_text_is(markers[i].text, "<|python_tag|>")) continue; /* calls need none */
    int32_t id = tn_tokenizer_find(options->tokenizer, markers[i].text);
    if (id < 0 || !tn_tokenizer_is_special(options->tokenizer, id)) continue;
    b->status = tn_fail(b->error, TN_E_UNSUPPORTED,
                        "calls of this model begin or end with control tokens, which a "
                        "grammar can't allow");
    return false;
  }
  return true;
}

static void add_calls(builder *b, const tn_tool_grammar_options *options, tn_grammar **grammar) {
  const tn_tool_syntax syntax = tn_tool_syntax_of(options->template_source);
  const size_t first = options->only >= 0 ? (size_t)options->only : 0;
  const size_t count = options->only >= 0 ? 1 : tn_tool_list_count(options->tools);
  size_t *starts = tn_arena_array(&b->arena, count + 1, sizeof *starts);
  tn_grammar_sequence *sequences = tn_arena_array(&b->arena, count, sizeof *sequences);
  if (!starts || !sequences) fail_memory(b);
  for (size_t i = 0; i < count && b->status == TN_OK; i++) {
    add_call(b, options, syntax, first + i);
    starts[i + 1] = b->count;
  }
  if (b->status != TN_OK) return;
  for (size_t i = 0; i < count; i++)
    sequences[i] = (tn_grammar_sequence){b->parts + starts[i], starts[i + 1] - starts[i]};
  /* Llama calls one at a time */
  bool is_single = options->single_call || options->behind_marker || syntax == TN_TOOLS_LLAMA;
  b->status = tn_grammar_from_sequences(grammar, sequences, count, is_single ? NULL : "\n", b->error);
}

tn_status tn_tool_grammar(const tn_tool_grammar_options *options, tn_grammar **grammar, tn_error *error) {
  builder b = {.error = error};
  *grammar = NULL;
  tn_arena_init(&b.arena, 0);
  if (has_plain_markers(&b, options)) add_calls(&b, options, grammar);
  if (b.status != TN_OK) tn_error_prefix(error, "tools");
  free(b.parts);
  tn_arena_finish(&b.arena);
  return b.status;
}
