/* What a model answers, taken apart: text for the reader, reasoning, and calls of tools.
 *
 * Every family writes calls in a syntax of its own; which one is found from the chat template. One streaming parser
 * reads them all: markers open and close reasoning and calls, and what a call says is read when it is complete. A call
 * is given out whole or not at all: its arguments are a valid JSON object and its name is that of a tool on offer;
 * what isn't a call after all is given out as content, as the model wrote it.
 *
 * Only the model's own answer is looked at. A marker that is a control token of the vocabulary counts as that token
 * alone, never as text that spells it. Calls are looked for after reasoning has ended, never inside it. */
#ifndef TENON_TEXT_TOOLS_H
#define TENON_TEXT_TOOLS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"

struct json_t; /* jansson's */
struct tn_tokenizer;
struct tn_grammar;

/* ---- syntaxes ---- */

typedef enum tn_tool_syntax {
  TN_TOOLS_NONE,    /* none that is known */
  TN_TOOLS_HERMES,  /* <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen 2.5 and 3 */
  TN_TOOLS_TAGGED,  /* <tool_call><function=N><parameter=K>V</parameter></function></tool_call>: Qwen3-Coder, 3.5, Seed
                     */
  TN_TOOLS_LLAMA,   /* {"name": ..., "parameters": {...}}, perhaps behind <|python_tag|>: Llama 3 */
  TN_TOOLS_MISTRAL, /* [TOOL_CALLS][{"name": ..., "arguments": {...}}] or [TOOL_CALLS]N[ARGS]{...} */
  TN_TOOLS_DEEPSEEK,
  TN_TOOLS_CHANNELS, /* <|channel|>...<|message|>...: gpt-oss */
  TN_TOOLS_GEMMA,    /* <|tool_call>call:N{key:<|"|>text<|"|>}<tool_call|>: Gemma 4 */
  TN_TOOLS_LIST,     /* [{"name": ..., "arguments": {...}}] between markers: Phi-4, Granite 3, Nemotron, Command R */
  TN_TOOLS_KIMI,     /* <|tool_call_begin|>functions.N:0<|tool_call_argument_begin|>{...}<|tool_call_end|>: Kimi K2 */
  TN_TOOLS_GLM,      /* <tool_call>N\n<arg_key>K</arg_key>\n<arg_value>V</arg_value>\n</tool_call>: GLM 4.5 */
  TN_TOOLS_INVOKE,   /* <invoke name="N">\n<parameter name="K">V</parameter>\n</invoke>: MiniMax M2 */
  TN_TOOLS_FUNCTION  /* <function=N>{...}</function>: Functionary 3.1 */
} tn_tool_syntax;

/* The syntax that a chat template (its source, zero-terminated) writes. */
tn_tool_syntax tn_tool_syntax_of(const char *template_source);

/* Whether a rendered prompt leaves off inside reasoning: the template opens it itself. `tail`: the end of the prompt,
 * as far as it is the template's own text. */
bool tn_prompt_opens_reasoning(const char *template_source, tn_text tail);

/* ---- tools on offer ---- */

typedef struct tn_tool_list tn_tool_list;

/* Reads an array of tools as API clients send it: [{"type": "function", "function": {"name": ..., "parameters":
 * SCHEMA}}]; `parameters` may be missing. TN_E_INVALID: not that, an empty list, or a name given twice. */
tn_status tn_tool_list_create(tn_tool_list **list, const char *json, tn_error *error);
void tn_tool_list_destroy(tn_tool_list *list);
/* The array itself; lives as long as the list. */
const struct json_t *tn_tool_list_json(const tn_tool_list *list);
size_t tn_tool_list_count(const tn_tool_list *list);
/* Whether one of them wants its arguments held to its schema, and no calls otherwise ("strict": true). */
bool tn_tool_list_is_strict(const tn_tool_list *list);
tn_text tn_tool_list_name(const tn_tool_list *list, size_t tool);
/* The schema of a tool's arguments, an object, or NULL. */
const struct json_t *tn_tool_list_parameters(const tn_tool_list *list, size_t tool);
/* The tool of that name; -1: none. */
int tn_tool_list_find(const tn_tool_list *list, tn_text name);

/* ---- the parser ---- */

typedef enum tn_part_kind { TN_PART_CONTENT, TN_PART_REASONING, TN_PART_CALL, TN_PART_CALL_PIECE } tn_part_kind;

/* A piece of an answer; valid during the call of the sink. Texts are zero-terminated too. */
typedef struct tn_part {
  tn_part_kind kind;
  tn_text text;   /* content or reasoning; a call's arguments, a JSON object, or the next piece of them */
  tn_text name;   /* of the tool that is called */
  const char *id; /* of the call: nine letters and digits */
  uint32_t index; /* number of the call in this answer */
} tn_part;

/* Takes a part; false: the answer ends here, nothing further is wanted. */
typedef bool (*tn_part_sink)(void *context, const tn_part *part);

typedef struct tn_tool_parser_options {
  const char *template_source;
  const struct tn_tokenizer *tokenizer; /* tells which markers are control tokens; NULL: none is */
  const tn_tool_list *tools;            /* NULL: calls are not looked for. Must outlive the parser */
  bool reasoning_is_open;               /* by the prompt */
  bool single_call;                     /* the answer is over after one call */
  uint64_t id_seed;                     /* calls are numbered from it; choose another for each answer */
  tn_part_sink sink;
  void *context;
} tn_tool_parser_options;

typedef struct tn_tool_parser tn_tool_parser;

/* TN_E_MEMORY. */
tn_status tn_tool_parser_create(tn_tool_parser **parser, const tn_tool_parser_options *options, tn_error *error);
void tn_tool_parser_destroy(tn_tool_parser *parser);

/* Takes a piece of the answer: text, cut anywhere between characters, or one whole control token. What is given out,
 * joined, depends on the text alone and not on the cuts. False when memory is out. */
bool tn_tool_parser_push(tn_tool_parser *parser, tn_text piece, bool is_control);
/* The answer has ended. False when memory is out. */
bool tn_tool_parser_end(tn_tool_parser *parser);
/* Nothing further will be given out: the sink said so, or the one call that was wanted is there. */
bool tn_tool_parser_is_over(const tn_tool_parser *parser);
/* The text so far ends inside reasoning (in channels also: inside a header). */
bool tn_tool_parser_is_reasoning(const tn_tool_parser *parser);

/* Inside a call: true, and *body, valid until the next call of the parser, is what a grammar behind its marker has to
 * begin with: what was written there so far (in channels, behind the tool's name and a newline). A call without a
 * marker counts once it has named a tool. */
bool tn_tool_parser_in_call(tn_tool_parser *parser, tn_text *body);

/* Tells that the text goes on as a call's grammar says, so that a call under way can only be cut off and never turn out
 * to be none: from now on its arguments are given out piece by piece, where they are written as JSON, before the call
 * itself is. One that is cut off is then not content either. Until the call's end, or for good. */
void tn_tool_parser_hold(tn_tool_parser *parser, bool for_good);

/* ---- grammars ---- */

typedef struct tn_tool_grammar_options {
  const char *template_source;
  const struct tn_tokenizer *tokenizer; /* tells which markers are control tokens; NULL: none is */
  const tn_tool_list *tools;
  int only; /* the one tool that may be called; -1: all may */
  bool single_call;
  bool behind_marker; /* a call's text behind its opening marker, to its end; else answers that are calls */
} tn_tool_grammar_options;

/* The grammar of calls whose arguments are valid under the tools' schemas, and of nothing else. It is for what comes
 * after reasoning, unless it spans the answer. TN_E_UNSUPPORTED: a syntax for which there is no grammar, or a schema
 * that can't be enforced; see tn_grammar_from_schema. */
tn_status tn_tool_grammar(const tn_tool_grammar_options *options, struct tn_grammar **grammar, tn_error *error);
/* Whether the grammar of answers that are calls speaks of everything from the answer's first token on, reasoning and
 * headers included. */
bool tn_tool_grammar_spans_answer(const char *template_source);

#endif
