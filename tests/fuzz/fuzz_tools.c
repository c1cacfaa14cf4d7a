/* Answers taken apart: any text, in each syntax, means the same whole and byte by byte, and arguments are JSON
 * objects. The first byte chooses the syntax, and whether calls come by pieces too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "text/tools/tools.h"

static const char *const templates[] = {"<tool_call> <think> </think>",
                                        "<tool_call> <parameter= <think> </think>",
                                        "<|python_tag|>",
                                        "[TOOL_CALLS] [THINK]",
                                        "<｜tool▁calls▁begin｜> <｜tool▁sep｜> </think>",
                                        "<|channel|> <|message|>",
                                        "<|tool_call> <tool_call|> <|channel>thought",
                                        "<|tool_call|> <|/tool_call|>",
                                        "<|START_ACTION|> <|END_ACTION|> tool_name <|START_THINKING|>",
                                        "<|tool_calls_section_begin|> <|tool_call_begin|>",
                                        "<tool_call> <arg_key> <think>",
                                        "<minimax:tool_call> <invoke name=",
                                        "<function= </function>"};

static const char tools_json[] =
    "[{\"function\": {\"name\": \"weather\", \"parameters\": {\"properties\": {\"city\": {\"type\": \"string\"}}}}},"
    "{\"function\": {\"name\": \"add\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"number\"}}}}},"
    "{\"function\": {\"name\": \"search\"}}]";

static void demand(bool holds) {
  if (!holds) abort();
}

/* Parts as one text: a letter and the text of each run of one kind. */
typedef struct story {
  tn_buf text;
  char kind;
} story;

static bool take_part(void *context, const tn_part *part) {
  static const char kinds[] = {
      [TN_PART_CONTENT] = 'c', [TN_PART_REASONING] = 'r', [TN_PART_CALL] = 'C', [TN_PART_CALL_PIECE] = 'p'};
  story *told = context;
  if (told->kind != kinds[part->kind] || part->kind == TN_PART_CALL) tn_buf_putc(&told->text, kinds[part->kind]);
  told->kind = kinds[part->kind];
  if (part->kind == TN_PART_CALL) {
    tn_json json;
    tn_json_init(&json, part->text.data, part->text.bytes, NULL);
    bool is_object = tn_json_peek(&json) == TN_JSON_OBJECT && tn_json_skip(&json, NULL);
    demand(tn_json_end(&json) == TN_OK && is_object);
    tn_buf_append(&told->text, part->name.data, part->name.bytes);
  }
  tn_buf_append(&told->text, part->text.data, part->text.bytes);
  return true;
}

static story tell(const char *source, const tn_tool_list *tools, tn_text text, bool by_pieces, bool in_bytes) {
  story told = {0};
  tn_tool_parser *parser;
  const tn_tool_parser_options options = {
      .template_source = source, .tools = tools, .sink = take_part, .context = &told};
  demand(tn_tool_parser_create(&parser, &options, NULL) == TN_OK);
  if (by_pieces) tn_tool_parser_hold(parser, true);
  if (!in_bytes) demand(tn_tool_parser_push(parser, text, false));
  for (size_t i = 0; in_bytes && i < text.bytes; i++)
    demand(tn_tool_parser_push(parser, (tn_text){text.data + i, 1}, false));
  demand(tn_tool_parser_end(parser));
  tn_tool_parser_destroy(parser);
  return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_tool_list *tools;
  if (!size) return 0;
  demand(tn_tool_list_create(&tools, tools_json, NULL) == TN_OK);
  const char *source = templates[(data[0] & 127) % TN_COUNT(templates)];
  const tn_text text = {(const char *)data + 1, size - 1};
  const bool by_pieces = data[0] & 128;
  story whole = tell(source, tools, text, by_pieces, false), bytes = tell(source, tools, text, by_pieces, true);
  demand(whole.text.size == bytes.text.size &&
         (!whole.text.size || !memcmp(whole.text.data, bytes.text.data, whole.text.size)));
  tn_buf_finish(&whole.text);
  tn_buf_finish(&bytes.text);
  tn_tool_list_destroy(tools);
  return 0;
}
