/* Which syntax of calls and reasoning a chat template writes, and its markers. */
#include "text/tools/parts.h"

/* In this order: the first that has all of its words in the template. */
static const struct {
  tn_tool_syntax syntax;
  const char *words[2];
} SYNTAXES[] = {
    {TN_TOOLS_CHANNELS, {"<|channel|>", "<|message|>"}},
    {TN_TOOLS_GEMMA, {"<|tool_call>", "<tool_call|>"}},
    {TN_TOOLS_MISTRAL, {"[TOOL_CALLS]", ""}},
    {TN_TOOLS_DEEPSEEK, {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"}},
    {TN_TOOLS_TAGGED, {"<tool_call>", "<parameter="}},
    {TN_TOOLS_HERMES, {"<tool_call>", ""}},
    {TN_TOOLS_LLAMA, {"<|python_tag|>", ""}},
    {TN_TOOLS_LLAMA, {"\"parameters\": ", "<|start_header_id|>"}},
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
static const tn_marker GEMMA[] = {MARK("<|tool_call>", TN_MARK_CALL), MARK("<tool_call|>", TN_MARK_CALL_END),
                                  MARK("<|\"|>", TN_MARK_QUOTE)};
static const tn_marker MISTRAL[] = {MARK("[TOOL_CALLS]", TN_MARK_CALL)};
static const tn_marker DEEPSEEK[] = {MARK("<｜tool▁calls▁begin｜>", TN_MARK_CALL),
                                     MARK("<｜tool▁calls▁end｜>", TN_MARK_CALL_END)};
static const tn_marker TAGS[] = {MARK("<tool_call>", TN_MARK_CALL), MARK("</tool_call>", TN_MARK_CALL_END)};
static const tn_marker LLAMA[] = {MARK("<|python_tag|>", TN_MARK_CALL)};

static const struct {
  const tn_marker *markers;
  size_t count;
} MARKERS[] = {[TN_TOOLS_NONE] = {NULL, 0},
               [TN_TOOLS_HERMES] = {TAGS, TN_COUNT(TAGS)},
               [TN_TOOLS_TAGGED] = {TAGS, TN_COUNT(TAGS)},
               [TN_TOOLS_LLAMA] = {LLAMA, TN_COUNT(LLAMA)},
               [TN_TOOLS_MISTRAL] = {MISTRAL, TN_COUNT(MISTRAL)},
               [TN_TOOLS_DEEPSEEK] = {DEEPSEEK, TN_COUNT(DEEPSEEK)},
               [TN_TOOLS_CHANNELS] = {CHANNELS, TN_COUNT(CHANNELS)},
               [TN_TOOLS_GEMMA] = {GEMMA, TN_COUNT(GEMMA)}};

tn_tool_syntax tn_tool_syntax_of(const char *source) {
  for (size_t i = 0; i < TN_COUNT(SYNTAXES); i++)
    if (strstr(source, SYNTAXES[i].words[0]) && strstr(source, SYNTAXES[i].words[1])) return SYNTAXES[i].syntax;
  return TN_TOOLS_NONE;
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
  tn_tool_syntax syntax = tn_tool_syntax_of(source);
  size_t count = MARKERS[syntax].count;
  if (count) memcpy(markers, MARKERS[syntax].markers, count * sizeof *markers);
  int pair = syntax == TN_TOOLS_CHANNELS ? -1 : reasoning_of(source);
  if (pair < 0) return count;
  /* Gemma's opening marker goes on in plain text; the token alone tells enough */
  tn_text open = syntax == TN_TOOLS_GEMMA ? TN_TEXT("<|channel>") : tn_text_of(REASONING[pair].open);
  markers[count++] = (tn_marker){open, TN_MARK_THINK};
  markers[count++] = (tn_marker){tn_text_of(REASONING[pair].close), TN_MARK_THINK_END};
  return count;
}
