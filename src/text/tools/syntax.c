/* Which syntax of calls and reasoning a chat template writes, and its markers. */
#include "text/tools/parts.h"

/* In this order: the first that has all of its words in the template. */
static const tn_syntax_row ROWS[] = {
    {TN_TOOLS_CHANNELS, {"<|channel|>", "<|message|>"}, NULL, NULL},
    {TN_TOOLS_GEMMA, {"<|tool_call>", "<tool_call|>"}, "<|tool_call>", "<tool_call|>"},
    {TN_TOOLS_LIST, {"<|tool_call|>", "<|/tool_call|>"}, "<|tool_call|>", "<|/tool_call|>"},
    {TN_TOOLS_LIST, {"<|tool_call|>", ""}, "<|tool_call|>", NULL},
    {TN_TOOLS_LIST, {"<|START_ACTION|>", "<|END_ACTION|>"}, "<|START_ACTION|>", "<|END_ACTION|>"},
    {TN_TOOLS_LIST, {"<TOOLCALL>", "</TOOLCALL>"}, "<TOOLCALL>", "</TOOLCALL>"},
    {TN_TOOLS_MISTRAL, {"[TOOL_CALLS]", ""}, "[TOOL_CALLS]", NULL},
    {TN_TOOLS_DEEPSEEK, {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"}, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
    {TN_TOOLS_KIMI,
     {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
     "<|tool_calls_section_begin|>",
     "<|tool_calls_section_end|>"},
    {TN_TOOLS_INVOKE, {"<minimax:tool_call>", "<invoke name="}, "<minimax:tool_call>", "</minimax:tool_call>"},
    {TN_TOOLS_TAGGED, {"<seed:tool_call>", "<parameter="}, "<seed:tool_call>", "</seed:tool_call>"},
    {TN_TOOLS_GLM, {"<tool_call>", "<arg_key>"}, "<tool_call>", "</tool_call>"},
    {TN_TOOLS_TAGGED, {"<tool_call>", "<parameter="}, "<tool_call>", "</tool_call>"},
    {TN_TOOLS_HERMES, {"<tool_call>", ""}, "<tool_call>", "</tool_call>"},
    {TN_TOOLS_FUNCTION, {"<function=", "</function>"}, "<function=", "</function>"},
    {TN_TOOLS_LLAMA, {"<|python_tag|>", ""}, "<|python_tag|>", NULL},
    {TN_TOOLS_LLAMA, {"\"parameters\": ", "<|start_header_id|>"}, "<|python_tag|>", NULL},
    {TN_TOOLS_LLAMA, {"\"parameters\": ", "<|header_start|>"}, "<|python_start|>", "<|python_end|>"},
    {TN_TOOLS_NONE, {"", ""}, NULL, NULL},
};

static const struct {
  const char *open, *close;
} REASONING[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|channel>thought", "<channel|>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<seed:think>", "</seed:think>"},
};

#define MARK(text, role) \
  { {text, sizeof(text) - 1}, role }
static const tn_marker CHANNELS[] = {MARK("<|start|>", TN_MARK_HEADER),    MARK("<|channel|>", TN_MARK_HEADER),
                                     MARK("<|message|>", TN_MARK_MESSAGE), MARK("<|end|>", TN_MARK_BODY_END),
                                     MARK("<|call|>", TN_MARK_BODY_END),   MARK("<|return|>", TN_MARK_BODY_END)};

const tn_syntax_row *tn_syntax_row_of(const char *source) {
  const tn_syntax_row *row = ROWS;
  while (row->syntax != TN_TOOLS_NONE && !(strstr(source, row->words[0]) && strstr(source, row->words[1]))) row++;
  return row;
}

tn_tool_syntax tn_tool_syntax_of(const char *source) {
  return tn_syntax_row_of(source)->syntax;
}

/* The row of REASONING that the template writes; -1: none. Some templates only name the end. */
static int reasoning_of(const char *source) {
  for (size_t i = 0; i < TN_COUNT(REASONING); i++)
    if (strstr(source, REASONING[i].open) || strstr(source, REASONING[i].close)) return (int)i;
  return -1;
}

bool tn_prompt_opens_reasoning(const char *source, tn_text tail) {
  int pair = reasoning_of(source);
  if (pair < 0) return false;
  tail = tn_trim(tail);
  size_t bytes = strlen(REASONING[pair].open);
  return tail.bytes >= bytes && memcmp(tail.data + tail.bytes - bytes, REASONING[pair].open, bytes) == 0;
}

size_t tn_markers_of(const char *source, tn_marker *markers) {
  const tn_syntax_row *row = tn_syntax_row_of(source);
  size_t count = 0;
  if (row->syntax == TN_TOOLS_CHANNELS) {
    memcpy(markers, CHANNELS, sizeof CHANNELS);
    return TN_COUNT(CHANNELS);
  }
  if (row->open) markers[count++] = (tn_marker){tn_text_of(row->open), TN_MARK_CALL};
  if (row->close) markers[count++] = (tn_marker){tn_text_of(row->close), TN_MARK_CALL_END};
  if (row->syntax == TN_TOOLS_GEMMA) markers[count++] = (tn_marker){TN_TEXT("<|\"|>"), TN_MARK_QUOTE};
  int pair = reasoning_of(source);
  if (pair < 0) return count;
  /* Gemma's opening marker goes on in plain text; the token alone tells enough */
  tn_text open = row->syntax == TN_TOOLS_GEMMA ? TN_TEXT("<|channel>") : tn_text_of(REASONING[pair].open);
  markers[count++] = (tn_marker){open, TN_MARK_THINK};
  markers[count++] = (tn_marker){tn_text_of(REASONING[pair].close), TN_MARK_THINK_END};
  return count;
}
