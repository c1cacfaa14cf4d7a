/* Grammars of calls: of answers that must be calls, and of what may follow once a call has begun.
 *
 * Every syntax is the same list: words before, calls with words between them, words after (write_list). Markers that
 * are control tokens in the vocabulary are asked for as such. */
#include <jansson.h>
#include <stdlib.h>
#include "base/error.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"
#include "text/tools/parts.h"

/* The parts of all sequences, one behind the other; their texts live in the arena. */
typedef struct builder {
  const tn_tool_grammar_options *options;
  const tn_syntax_row *row;
  tn_tool_syntax syntax;
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

static bool add_pattern(builder *b, const char *pattern, uint32_t group) {
  return add(b, TN_GRAMMAR_PATTERN, tn_text_of(pattern), group);
}

static bool is_control(const builder *b, const char *mark) {
  const tn_tokenizer *tokenizer = b->options->tokenizer;
  int32_t id = tokenizer ? tn_tokenizer_find(tokenizer, tn_text_of(mark)) : -1;
  return id >= 0 && tn_tokenizer_is_special(tokenizer, id);
}

static bool add_mark(builder *b, const char *mark, uint32_t group) {
  return add(b, is_control(b, mark) ? TN_GRAMMAR_CONTROL : TN_GRAMMAR_LITERAL, tn_text_of(mark), group);
}

static bool add_schema(builder *b, const json_t *schema, const tn_grammar_notation *notation, uint32_t group) {
  char *text = json_dumps(schema, JSON_COMPACT);
  bool added = text ? add(b, TN_GRAMMAR_SCHEMA, tn_text_of(text), group) : fail_memory(b);
  if (added) b->parts[b->count - 1].notation = notation;
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
  if (schema) json_object_set_new(schema, "type", json_string("object"));
  return schema;
}

static bool add_arguments(builder *b, size_t tool, const tn_grammar_notation *notation) {
  json_t *schema = arguments_schema(b->options->tools, tool);
  bool added = schema ? add_schema(b, schema, notation, 0) : fail_memory(b);
  json_decref(schema);
  return added;
}

static bool add_name(builder *b, size_t tool) {
  return add(b, TN_GRAMMAR_LITERAL, tn_tool_list_name(b->options->tools, tool), 0);
}

/* {"name": NAME, KEY: ARGUMENTS}, with the blanks that models leave out or put in. */
static bool add_json_call(builder *b, size_t tool, const char *name, const char *key) {
  return add_pattern(b, "\\{[ \\n]{0,4}", 0) && add_json_name(b, tn_text_of(name)) && add_pattern(b, ": ?", 0) &&
         add_json_name(b, tn_tool_list_name(b->options->tools, tool)) && add_pattern(b, ",[ \\n]{0,4}", 0) &&
         add_json_name(b, tn_text_of(key)) && add_pattern(b, ": ?", 0) && add_arguments(b, tool, NULL) &&
         add_pattern(b, "[ \\n]?\\}", 0);
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

/* A value's schema brings the definitions along that it may refer to. */
static bool add_value_of(builder *b, const json_t *parameters, const json_t *schema,
                         const tn_grammar_notation *notation, uint32_t group) {
  static const char *const definitions[] = {"$defs", "definitions"};
  json_t *copy = json_copy((json_t *)schema);
  for (size_t i = 0; copy && i < TN_COUNT(definitions); i++) {
    json_t *shared = json_object_get(parameters, definitions[i]);
    if (shared && json_is_object(copy)) json_object_set(copy, definitions[i], shared);
  }
  bool added = copy ? add_schema(b, copy, notation, group) : fail_memory(b);
  json_decref(copy);
  return added;
}

/* Texts stand as they are, anything else as JSON. */
static bool add_value(builder *b, size_t tool, const char *name, uint32_t group) {
  const char *end = tn_tags_of(b->syntax)->value_end;
  tn_grammar_notation *as_it_is = tn_arena_array(&b->arena, 1, sizeof *as_it_is);
  if (!as_it_is) return fail_memory(b);
  *as_it_is = (tn_grammar_notation){.end = {end, strlen(end)}};
  const tn_tool_list *tools = b->options->tools;
  const json_t *parameters = tn_tool_list_parameters(tools, tool);
  const json_t *schema = json_object_get(json_object_get(parameters, "properties"), name);
  unsigned kinds = tn_tool_parameter_kinds(tools, tool, tn_text_of(name));
  if (!(kinds & TN_IS_STRING)) return add_value_of(b, parameters, schema, NULL, group);
  if (kinds == TN_IS_STRING) return add_value_of(b, parameters, schema, as_it_is, group);
  if (is_plain_text(schema, 0)) return add(b, TN_GRAMMAR_WITHOUT, tn_text_of(end), group);
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

static bool add_tagged_call(builder *b, size_t tool) {
  const tn_tags *tags = tn_tags_of(b->syntax);
  const json_t *parameters = tn_tool_list_parameters(b->options->tools, tool);
  const char *newline = b->syntax == TN_TOOLS_GLM ? "" : "\n";
  uint32_t group = 0;
  const char *name;
  json_t *schema;
  bool added = add_literal(b, tags->call, 0) && add_name(b, tool) && add_literal(b, tags->call_end, 0) &&
               add_literal(b, newline, 0);
  json_object_foreach(json_object_get(parameters, "properties"), name, schema) {
    uint32_t in = is_required(parameters, name) ? 0 : ++group;
    added = added && add_literal(b, tags->key, in) && add_literal(b, name, in) && add_literal(b, tags->key_end, in) &&
            (!*tags->value || add_literal(b, "\n", in)) && add_literal(b, tags->value, in) &&
            add_literal(b, tags->line, in) && add_value(b, tool, name, in) && add_literal(b, tags->line, in) &&
            add_literal(b, tags->value_end, in) && add_literal(b, "\n", in);
  }
  return added && add_literal(b, tags->close, 0) && add_literal(b, newline, 0);
}

/* ---- the syntaxes ---- */

static bool add_gemma_call(builder *b, size_t tool) {
  static const char quote[] = "<|\"|>";
  tn_grammar_notation *notation = tn_arena_array(&b->arena, 1, sizeof *notation);
  if (!notation) return fail_memory(b);
  *notation = (tn_grammar_notation){
      .quote = {quote, sizeof quote - 1}, .quote_is_control = is_control(b, quote), .bare_keys = true};
  if (!notation->quote_is_control) notation->end = notation->quote;
  return add_literal(b, "call:", 0) && add_name(b, tool) && add_arguments(b, tool, notation);
}

static bool has_word(const builder *b, const char *word) {
  return strstr(b->options->template_source, word) != NULL;
}

static bool add_mistral_call(builder *b, size_t tool) {
  if (!has_word(b, "[ARGS]")) return add_json_call(b, tool, "name", "arguments");
  bool added = add_name(b, tool);
  if (added && has_word(b, "[CALL_ID]")) added = add_mark(b, "[CALL_ID]", 1) && add_pattern(b, "[a-zA-Z0-9]{9}", 1);
  return added && add_mark(b, "[ARGS]", 0) && add_arguments(b, tool, NULL);
}

static bool add_deepseek_call(builder *b, size_t tool) {
  const bool is_fenced = has_word(b, "```json");
  if (!add_mark(b, "<｜tool▁call▁begin｜>", 0)) return false;
  if (!is_fenced)
    return add_name(b, tool) && add_mark(b, "<｜tool▁sep｜>", 0) && add_arguments(b, tool, NULL) &&
           add_mark(b, "<｜tool▁call▁end｜>", 0);
  return add_literal(b, "function", 0) && add_mark(b, "<｜tool▁sep｜>", 0) && add_name(b, tool) &&
         add_literal(b, "\n```json\n", 0) && add_arguments(b, tool, NULL) && add_literal(b, "\n```", 0) &&
         add_mark(b, "<｜tool▁call▁end｜>", 0);
}

static bool add_kimi_call(builder *b, size_t tool) {
  return add_mark(b, "<|tool_call_begin|>", 0) && add_literal(b, "functions.", 0) && add_name(b, tool) &&
         add_pattern(b, ":[0-9]{1,3}", 0) && add_mark(b, "<|tool_call_argument_begin|>", 0) &&
         add_arguments(b, tool, NULL) && add_mark(b, "<|tool_call_end|>", 0);
}

/* A message to a tool: its header has the recipient first or (variant 1) the channel. Behind the header the tool's name
 * tells what may follow. */
static bool add_channels_call(builder *b, size_t tool, size_t variant) {
  if (b->options->behind_marker) return add_name(b, tool) && add_literal(b, "\n", 0) && add_arguments(b, tool, NULL);
  bool added = variant
                   ? add_mark(b, "<|channel|>", 0) && add_literal(b, "commentary to=functions.", 0) && add_name(b, tool)
                   : add_literal(b, " to=functions.", 0) && add_name(b, tool) && add_mark(b, "<|channel|>", 0) &&
                         add_literal(b, "commentary", 0);
  return added && add_literal(b, " ", 0) && add_mark(b, "<|constrain|>", 1) && add_literal(b, "json", 0) &&
         add_mark(b, "<|message|>", 0) && add_arguments(b, tool, NULL);
}

static size_t variants_of(const builder *b) {
  return b->syntax == TN_TOOLS_CHANNELS && !b->options->behind_marker ? 2 : 1;
}

static bool add_call(builder *b, size_t tool, size_t variant) {
  switch (b->syntax) {
    case TN_TOOLS_HERMES: return add_json_call(b, tool, "name", "arguments") && add_pattern(b, "\n?", 0);
    case TN_TOOLS_TAGGED:
    case TN_TOOLS_GLM:
    case TN_TOOLS_INVOKE: return add_tagged_call(b, tool);
    case TN_TOOLS_LIST:
      return has_word(b, "tool_name") ? add_json_call(b, tool, "tool_name", "parameters")
                                      : add_json_call(b, tool, "name", "arguments");
    case TN_TOOLS_KIMI: return add_kimi_call(b, tool);
    case TN_TOOLS_FUNCTION: return add_name(b, tool) && add_literal(b, ">", 0) && add_arguments(b, tool, NULL);
    case TN_TOOLS_LLAMA: return add_json_call(b, tool, "name", "parameters");
    case TN_TOOLS_MISTRAL: return add_mistral_call(b, tool);
    case TN_TOOLS_DEEPSEEK: return add_deepseek_call(b, tool);
    case TN_TOOLS_CHANNELS: return add_channels_call(b, tool, variant);
    case TN_TOOLS_GEMMA: return add_gemma_call(b, tool);
    case TN_TOOLS_NONE: break;
  }
  b->status = tn_fail(b->error, TN_E_UNSUPPORTED, "there is no grammar for this model's syntax of calls");
  return false;
}

/* ---- what stands around calls ---- */

/* Whether the marker begins a list of all calls. */
static bool opens_list(const builder *b) {
  return b->syntax == TN_TOOLS_DEEPSEEK || b->syntax == TN_TOOLS_KIMI || b->syntax == TN_TOOLS_INVOKE ||
         b->syntax == TN_TOOLS_LIST || b->syntax == TN_TOOLS_MISTRAL;
}

/* What stands between a marker and the call. */
static bool add_inside(builder *b) {
  switch (b->syntax) {
    case TN_TOOLS_LLAMA: return !b->options->behind_marker || add_pattern(b, "[ \\n]{0,4}", 0);
    case TN_TOOLS_LIST: return add_pattern(b, "[ \\n]{0,4}\\[[ \\n]{0,4}", 0);
    case TN_TOOLS_MISTRAL: return add_pattern(b, has_word(b, "[ARGS]") ? " ?" : " ?\\[", 0);
    case TN_TOOLS_GEMMA:
    case TN_TOOLS_DEEPSEEK:
    case TN_TOOLS_KIMI:
    case TN_TOOLS_GLM:
    case TN_TOOLS_FUNCTION: return true;
    default: return add_pattern(b, b->options->behind_marker ? "[ \\n]{0,4}" : "\n?", 0); /* blanks may be missing */
  }
}

static bool add_before(builder *b) {
  const bool behind = b->options->behind_marker;
  if (b->syntax == TN_TOOLS_CHANNELS)
    return behind || (add_mark(b, "<|channel|>", 1) && add_literal(b, "analysis", 1) && add_mark(b, "<|message|>", 1) &&
                      add(b, TN_GRAMMAR_WITHOUT, TN_TEXT(""), 1) && add_mark(b, "<|end|>", 1) &&
                      add_mark(b, "<|start|>", 1) && add_literal(b, "assistant", 1));
  return (behind || b->syntax == TN_TOOLS_LLAMA || add_mark(b, b->row->open, 0)) && add_inside(b);
}

static bool add_after(builder *b) {
  if (b->syntax == TN_TOOLS_LLAMA || b->syntax == TN_TOOLS_CHANNELS) return true;
  if (b->syntax == TN_TOOLS_MISTRAL) return has_word(b, "[ARGS]") || add_literal(b, "]", 0);
  if (b->syntax == TN_TOOLS_LIST && !add_pattern(b, "[ \\n]{0,4}\\]\n?", 0)) return false;
  return !b->row->close || add_mark(b, b->row->close, 0);
}

static bool add_between(builder *b) {
  switch (b->syntax) {
    case TN_TOOLS_LIST: return add_pattern(b, ",[ \\n]{0,4}", 0);
    case TN_TOOLS_MISTRAL: return has_word(b, "[ARGS]") ? add_mark(b, b->row->open, 0) : add_pattern(b, ", ?", 0);
    case TN_TOOLS_DEEPSEEK: return add_pattern(b, "\n?", 0);
    case TN_TOOLS_KIMI:
    case TN_TOOLS_INVOKE: return true;
    case TN_TOOLS_GEMMA: return add_after(b) && add_before(b);
    case TN_TOOLS_LLAMA:
    case TN_TOOLS_CHANNELS: return true;
    default: return add_after(b) && add_pattern(b, "\n?", 0) && add_before(b);
  }
}

/* Whether another call may follow. Behind a marker where that marker begins the list of all of them. */
static bool repeats(const builder *b) {
  if (b->options->single_call || b->syntax == TN_TOOLS_LLAMA || b->syntax == TN_TOOLS_CHANNELS) return false;
  return !b->options->behind_marker || opens_list(b);
}

static void write_list(builder *b, tn_grammar **grammar) {
  const tn_tool_grammar_options *options = b->options;
  const size_t first = options->only >= 0 ? (size_t)options->only : 0;
  const size_t variants = variants_of(b);
  const size_t count = variants * (options->only >= 0 ? 1 : tn_tool_list_count(options->tools));
  /* where sequences begin: the calls, then what is before, between and after them */
  size_t *starts = tn_arena_array(&b->arena, count + 4, sizeof *starts);
  tn_grammar_sequence *sequences = tn_arena_array(&b->arena, count + 3, sizeof *sequences);
  if (!starts || !sequences) fail_memory(b);
  for (size_t i = 0; i < count + 3 && b->status == TN_OK; i++) {
    starts[i] = b->count;
    if (i < count)
      add_call(b, first + i / variants, i % variants);
    else
      (void)(i == count ? add_before(b) : i == count + 1 ? add_between(b) : add_after(b));
    starts[i + 1] = b->count;
  }
  if (b->status != TN_OK) return;
  for (size_t i = 0; i < count + 3; i++)
    sequences[i] = (tn_grammar_sequence){b->parts + starts[i], starts[i + 1] - starts[i]};
  const tn_grammar_list list = {.choices = sequences,
                                .count = count,
                                .before = sequences[count],
                                .between = sequences[count + 1],
                                .after = sequences[count + 2],
                                .repeats = repeats(b)};
  b->status = tn_grammar_from_list(grammar, &list, b->error);
}

tn_status tn_tool_grammar(const tn_tool_grammar_options *options, tn_grammar **grammar, tn_error *error) {
  const tn_syntax_row *row = tn_syntax_row_of(options->template_source);
  builder b = {.options = options, .row = row, .syntax = row->syntax, .error = error};
  *grammar = NULL;
  tn_arena_init(&b.arena, 0);
  write_list(&b, grammar);
  if (b.status != TN_OK) tn_error_prefix(error, "tools");
  free(b.parts);
  tn_arena_finish(&b.arena);
  return b.status;
}

bool tn_tool_grammar_spans_answer(const char *template_source) {
  return tn_tool_syntax_of(template_source) == TN_TOOLS_CHANNELS;
}
