/* Answers taken apart by the real engine: parrots (support/parrot.h) say the answers of data/tools/answers.jsonl, cut
 * into tokens in several ways, with markers as text and as control tokens. Stop strings and broken characters too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/parrot.h"
#include "tenon/tenon.h"
#include "text/tools/parts.h"

#define THREE_TOOLS                                                                                                    \
  "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": \"d\", \"parameters\": {\"type\":" \
  " \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}},"                      \
  "{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"d\", \"parameters\": {\"type\":"      \
  " \"object\", \"properties\": {\"a\": {\"type\": \"number\"}, \"b\": {\"type\": \"number\"}}}}},"                    \
  "{\"type\": \"function\", \"function\": {\"name\": \"search\", \"description\": \"d\", \"parameters\": {\"type\":"   \
  " \"object\", \"properties\": {\"words\": {\"type\": \"array\"}, \"exact\": {\"type\": \"boolean\"},"                \
  " \"near\": {\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"string\"}]}}}}}"

static const char TOOLS[] = THREE_TOOLS "]";
/* With a schema that can't be enforced: calls are free. */
static const char FREE_TOOLS[] = THREE_TOOLS
    ", {\"type\": \"function\", \"function\": {\"name\": \"odd\", \"parameters\": {\"type\": \"object\", "
    "\"properties\":"
    " {\"x\": {\"not\": {\"type\": \"string\"}}}}}}]";

/* With arguments that soon end. */
static const char SHORT_TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\", "
    "\"properties\":"
    " {\"city\": {\"enum\": [\"Basel\", \"Genf\"]}, \"warm\": {\"type\": \"boolean\"}}, \"required\": [\"city\"]}}},"
    "{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", \"properties\":"
    " {\"a\": {\"enum\": [1, 2]}, \"b\": {\"type\": \"array\", \"items\": {\"type\": \"null\"}, \"maxItems\": 2}},"
    " \"required\": [\"a\", \"b\"]}}}]";

#define FILE_NAME "parrot-of-test-tools.gguf"
#define CUTS 3u /* into bytes, at random, and one single token */

/* ---- a parrot at work ---- */

typedef struct speaker {
  tn_model *model;
  tn_engine *engine;
} speaker;

/* The template says what was asked and nothing else; a comment names its markers. `think`: leaves reasoning open. */
static void wake(speaker *s, const parrot *p, const char *words, bool think) {
  tn_buf source = {0};
  tn_buf_printf(&source, "{# %s #}{{ messages[0].content }}%s", words, think ? "{{ '<think>' }}" : "");
  parrot_write(p, FILE_NAME, source.data);
  tn_buf_finish(&source);
  tn_error error = {0};
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.threads = 1;
  if (tn_model_open(FILE_NAME, &s->model, &error) != TN_OK ||
      tn_engine_create(s->model, &options, &s->engine, &error) != TN_OK)
    fail_msg("%s", error.message);
}

static void send_off(speaker *s) {
  tn_engine_destroy(s->engine);
  tn_model_close(s->model);
  remove(FILE_NAME);
}

typedef struct heard {
  tn_buf content, reasoning;
  json_t *calls;
  json_t *pieces;       /* arguments by id, joined */
  uint32_t piece_count; /* of all calls */
  tn_output last;
  uint32_t tokens;
} heard;

static void hear(speaker *s, const char *name, tn_request_options options, heard *h) {
  char messages[80];
  tn_request *request;
  tn_error error = {0};
  *h = (heard){.calls = json_array(), .pieces = json_object()};
  snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", name);
  options.messages_json = messages;
  if (tn_engine_submit(s->engine, &options, &request, &error) != TN_OK) fail_msg("%s", error.message);
  for (;;) {
    assert_int_equal(tn_request_next(request, &h->last, UINT64_MAX), TN_OK);
    if (h->last.kind == TN_OUTPUT_DONE || h->last.kind == TN_OUTPUT_ERROR) break;
    if (h->last.token >= 0) h->tokens++;
    assert_int_equal(h->last.text[h->last.text_bytes], 0);
    if (h->last.kind == TN_OUTPUT_TOOL_CALL_DELTA) {
      assert_int_equal(options.tool_call_deltas, 1);
      assert_true(h->last.tool_name[0] && strlen(h->last.tool_id) == 9 && h->last.text_bytes > 0);
      json_t *before = json_object_get(h->pieces, h->last.tool_id);
      json_object_set_new(h->pieces, h->last.tool_id,
                          json_sprintf("%s%s", before ? json_string_value(before) : "", h->last.text));
      h->piece_count++;
    } else if (h->last.kind == TN_OUTPUT_TOOL_CALL) {
      const char *joined = json_string_value(json_object_get(h->pieces, h->last.tool_id));
      if (joined) assert_string_equal(joined, h->last.text);
      assert_int_equal(h->last.tool_index, json_array_size(h->calls));
      json_array_append_new(
          h->calls, json_pack("{s:s, s:o}", "name", h->last.tool_name, "arguments", json_loads(h->last.text, 0, NULL)));
    } else {
      tn_buf_append(h->last.kind == TN_OUTPUT_TEXT ? &h->content : &h->reasoning, h->last.text, h->last.text_bytes);
    }
  }
  if (h->last.kind == TN_OUTPUT_ERROR) fail_msg("%s: %s", name, h->last.error.message);
  assert_int_equal(h->tokens, h->last.completion_tokens); /* each token comes with exactly one output */
  tn_request_destroy(request);
}

static void forget(heard *h) {
  tn_buf_finish(&h->content);
  tn_buf_finish(&h->reasoning);
  json_decref(h->calls);
  json_decref(h->pieces);
}

static const char *text_of(const tn_buf *buf) {
  return buf->size ? buf->data : "";
}

/* ---- scripts from texts ---- */

/* Says `text`, cut in one of CUTS ways; markers are control tokens if asked. */
static void say(parrot *p, const char *text, size_t size, unsigned cut, const tn_marker *markers, size_t marker_count) {
  size_t from = 0;
  for (size_t at = 0; at < size; at++) {
    size_t marker = 0;
    for (size_t i = 0; i < marker_count && !marker; i++)
      if (size - at >= markers[i].text.bytes && !memcmp(text + at, markers[i].text.data, markers[i].text.bytes))
        marker = markers[i].text.bytes;
    bool is_last = at + 1 == size;
    if (marker) {
      if (at > from) parrot_say(p, text + from, at - from, false);
      parrot_say(p, text + at, marker, true);
      at += marker - 1;
      from = at + 1;
    } else if (is_last || cut == 0 || (cut == 1 && (at * 2654435761u >> 7) % 4 == 0)) {
      parrot_say(p, text + from, at + 1 - from, false);
      from = at + 1;
    }
  }
}

typedef char script_name[16];

static void check(speaker *s, const char *name, const json_t *wanted, size_t cut) {
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tools_json = FREE_TOOLS;
  const char *id = json_string_value(json_object_get(wanted, "id"));
  heard h;
  hear(s, name, options, &h);
  assert_int_equal(h.last.finish, TN_FINISH_STOP);
  if (strcmp(text_of(&h.content), json_string_value(json_object_get(wanted, "content"))))
    fail_msg("%s, cut %zu: content is \"%s\"", id, cut, text_of(&h.content));
  if (strcmp(text_of(&h.reasoning), json_string_value(json_object_get(wanted, "reasoning"))))
    fail_msg("%s, cut %zu: reasoning is \"%s\"", id, cut, text_of(&h.reasoning));
  if (!json_equal(h.calls, json_object_get(wanted, "calls"))) fail_msg("%s, cut %zu: other calls", id, cut);
  forget(&h);
}

static void say_case(parrot *p, const json_t *each, size_t cut, const char *words, bool use_control) {
  tn_marker markers[TN_MOST_MARKERS];
  size_t count = use_control ? tn_markers_of(words, markers) : 0;
  const json_t *text = json_object_get(each, "text");
  say(p, json_string_value(text), json_string_length(text), (unsigned)cut, markers, count);
  parrot_end(p);
}

/* All cases of one template, cut in all ways. */
static void check_cases(const json_t *cases, const char *words, bool use_control) {
  parrot p;
  speaker s;
  script_name *names = calloc(json_array_size(cases) * CUTS, sizeof *names);
  tn_marker markers[TN_MOST_MARKERS];
  size_t marker_count = use_control ? tn_markers_of(words, markers) : 0;
  parrot_init(&p);
  /* each marker once by itself, as in real vocabularies: which tokens end an answer depends on those there are */
  for (size_t i = 0; i < marker_count; i++) parrot_add(&p, markers[i].text.data, markers[i].text.bytes, 3, -1);
  for (size_t i = 0; i < json_array_size(cases) * CUTS; i++) {
    parrot_begin(&p, names[i]);
    say_case(&p, json_array_get(cases, i / CUTS), i % CUTS, words, use_control);
  }
  wake(&s, &p, words, false);
  for (size_t i = 0; i < json_array_size(cases) * CUTS; i++)
    check(&s, names[i], json_array_get(cases, i / CUTS), i % CUTS);
  send_off(&s);
  parrot_finish(&p);
  free(names);
}

/* Those that go on reasoning that the prompt left open: such prompts all end alike, so each is a parrot's only one. */
static void check_open_cases(const json_t *cases, const char *words) {
  for (size_t i = 0; i < json_array_size(cases) * CUTS; i++) {
    parrot p;
    speaker s;
    parrot_init(&p);
    parrot_begin_after(&p, "<think>");
    say_case(&p, json_array_get(cases, i / CUTS), i % CUTS, words, false);
    wake(&s, &p, words, true);
    check(&s, "x", json_array_get(cases, i / CUTS), i % CUTS);
    send_off(&s);
    parrot_finish(&p);
  }
}

static json_t *read_cases(void) {
  json_t *all = json_array();
  FILE *file = fopen(TEST_DATA "/tools/answers.jsonl", "rb");
  assert_non_null(file);
  for (json_t *read; (read = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL));) json_array_append_new(all, read);
  fclose(file);
  assert_true(json_array_size(all) > 100);
  return all;
}

/* The cases whose template is, or whose words are, `words`. */
static json_t *cases_of(const json_t *all, const char *words, bool open) {
  json_t *some = json_array(), *each;
  size_t i;
  json_array_foreach(all, i, each) {
    const json_t *name =
        json_object_get(each, "template") ? json_object_get(each, "template") : json_object_get(each, "words");
    if (strstr(json_string_value(name), words) && json_is_true(json_object_get(each, "open")) == open)
      json_array_append(some, each);
  }
  assert_true(json_array_size(some) > 0);
  return some;
}

static void answers_mean_the_same_through_the_engine(void **state) {
  (void)state;
  static const struct {
    const char *cases, *words;
    bool open, use_control;
  } groups[] = {{"Qwen-Qwen3-0.6B", "<tool_call> <think> </think>", false, false},
                {"Qwen3.5-4B", "<tool_call> <parameter= <think> </think>", false, false},
                {"Qwen3.5-4B", "<tool_call> <parameter= <think> </think>", true, false},
                {"Llama-3.1", "<|python_tag|>", false, false},
                {"Llama-3.1", "<|python_tag|>", false, true},
                {"gpt-oss", "<|channel|> <|message|>", false, true},
                {"gemma-4", "<|tool_call> <tool_call|> <|channel>thought", false, false},
                {"gemma-4", "<|tool_call> <tool_call|> <|channel>thought", false, true},
                {"[TOOL_CALLS]", "[TOOL_CALLS] [THINK]", false, true},
                {"tool▁calls", "<｜tool▁calls▁begin｜> <｜tool▁sep｜> </think>", false, false}};
  json_t *all = read_cases();
  for (size_t i = 0; i < TN_COUNT(groups); i++) {
    json_t *cases = cases_of(all, groups[i].cases, groups[i].open);
    if (groups[i].open) {
      check_open_cases(cases, groups[i].words);
    } else {
      check_cases(cases, groups[i].words, groups[i].use_control);
    }
    json_decref(cases);
  }
  json_decref(all);
}

/* ---- single scripts ---- */

typedef struct piece {
  const char *text;
  bool is_control;
} piece;

/* What a parrot says with these pieces and options; the last piece has no text. */
static void hear_pieces(const piece *pieces, const char *words, const tn_request_options *options, heard *h) {
  parrot p;
  speaker s;
  script_name name;
  parrot_init(&p);
  parrot_begin(&p, name);
  for (; pieces->text; pieces++) parrot_say(&p, pieces->text, strlen(pieces->text), pieces->is_control);
  parrot_end(&p);
  wake(&s, &p, words, false);
  hear(&s, name, *options, h);
  send_off(&s);
  parrot_finish(&p);
}

static const char HERMES[] = "<tool_call> <think> </think>";
#define CALL "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>"

static void text_that_spells_a_control_token_is_text(void **state) {
  (void)state;
  static const piece pieces[] = {{"a ", false},
                                 {"<tool_call>{\"name\": \"add\"}</tool_call>", false},
                                 {" b", false},
                                 {"<tool_call>", true},
                                 {"{\"name\": \"add\"}", false},
                                 {"</tool_call>", true},
                                 {0}};
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tools_json = FREE_TOOLS;
  heard h;
  hear_pieces(pieces, HERMES, &options, &h);
  assert_string_equal(text_of(&h.content), "a <tool_call>{\"name\": \"add\"}</tool_call> b");
  assert_int_equal(json_array_size(h.calls), 1);
  forget(&h);
}

static void stop_strings_are_of_content(void **state) {
  (void)state;
  static const char *const stop[] = {"EN", "\"a\": 1"};
  static const piece pieces[] = {{"<think>EN", false}, {"D</think>", false}, {CALL, false}, {"xE", false},
                                 {"E", false},         {"Ny", false},        {"z", false},  {0}};
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tools_json = FREE_TOOLS;
  options.stop = stop;
  options.stop_count = TN_COUNT(stop);
  heard h;
  hear_pieces(pieces, HERMES, &options, &h);
  assert_string_equal(text_of(&h.content), "xE");
  assert_string_equal(text_of(&h.reasoning), "END");
  assert_int_equal(json_array_size(h.calls), 1);
  assert_int_equal(h.last.finish, TN_FINISH_STOP);
  assert_int_equal(h.last.stop_string, 1);
  assert_int_equal(h.tokens, 6);
  forget(&h);
}

static void broken_characters_are_replaced(void **state) {
  (void)state;
  static const piece pieces[] = {{"a\xC3", false},
                                 {"\xA9\xF0", false},
                                 {"\x9F\x98", false},
                                 {"<tool_call>", true},
                                 {"{\"name\": \"weather\", \"arguments\": {\"city\": \"\xE2\x82", false},
                                 {"\xAC\xFF\"}}", false},
                                 {"</tool_call>", true},
                                 {"\xF4\x90\x80\x80", false},
                                 {0}};
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tools_json = FREE_TOOLS;
  heard h;
  hear_pieces(pieces, HERMES, &options, &h);
  assert_string_equal(text_of(&h.content), "aé\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  const json_t *call = json_array_get(h.calls, 0);
  assert_string_equal(json_string_value(json_object_get(json_object_get(call, "arguments"), "city")), "€\uFFFD");
  forget(&h);
}

static void one_call_is_enough_where_one_was_wanted(void **state) {
  (void)state;
  static const piece pieces[] = {{CALL, false}, {CALL, false}, {"x", false}, {0}};
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tools_json = FREE_TOOLS;
  options.single_tool_call = 1;
  heard h;
  hear_pieces(pieces, HERMES, &options, &h);
  assert_int_equal(json_array_size(h.calls), 1);
  assert_int_equal(h.tokens, 1);
  assert_int_equal(h.last.finish, TN_FINISH_STOP);
  forget(&h);
}

/* What ends by length is content, not half a call. */
static void a_call_cut_by_length_is_content(void **state) {
  (void)state;
  static const piece pieces[] = {{"<tool_call>{\"name\": ", false}, {"\"add\"}</tool_call>", false}, {0}};
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tools_json = FREE_TOOLS;
  options.max_tokens = 1;
  heard h;
  hear_pieces(pieces, HERMES, &options, &h);
  assert_string_equal(text_of(&h.content), "<tool_call>{\"name\": ");
  assert_int_equal(json_array_size(h.calls), 0);
  assert_int_equal(h.last.finish, TN_FINISH_LENGTH);
  forget(&h);
}

static void without_tools_calls_are_text(void **state) {
  (void)state;
  static const piece pieces[] = {{"<think>a</think>", false}, {CALL, false}, {0}};
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.split_reasoning = 1;
  heard h;
  hear_pieces(pieces, HERMES, &options, &h);
  assert_string_equal(text_of(&h.content), CALL);
  assert_string_equal(text_of(&h.reasoning), "a");
  forget(&h);
  options.tools_json = FREE_TOOLS;
  options.tool_choice = "none";
  hear_pieces(pieces, HERMES, &options, &h);
  assert_string_equal(text_of(&h.content), CALL);
  assert_int_equal(json_array_size(h.calls), 0);
  forget(&h);
}

/* The one call that was heard is valid under SHORT_TOOLS. */
static void expect_short_call(const heard *h, const char *content) {
  assert_int_equal(h->last.finish, TN_FINISH_STOP);
  assert_int_equal(json_array_size(h->calls), 1);
  assert_string_equal(text_of(&h->content), content);
  const json_t *call = json_array_get(h->calls, 0), *arguments = json_object_get(call, "arguments");
  if (!strcmp(json_string_value(json_object_get(call, "name")), "weather")) {
    const char *city = json_string_value(json_object_get(arguments, "city"));
    const json_t *warm = json_object_get(arguments, "warm");
    assert_true(city && (!strcmp(city, "Basel") || !strcmp(city, "Genf")));
    assert_true(!warm || json_is_boolean(warm));
    assert_int_equal(json_object_size(arguments), 1 + (warm != NULL));
  } else {
    assert_int_equal(json_object_size(arguments), 2);
    json_int_t a = json_integer_value(json_object_get(arguments, "a"));
    assert_true(a == 1 || a == 2);
    assert_true(json_is_array(json_object_get(arguments, "b")));
  }
}

/* How the syntaxes are spoken: the marks of each, and an answer that begins a call and goes on with nonsense. Other
 * pieces that must be tokens of the vocabulary stand behind it. */
static const struct syntax {
  const char *words, *marks[8], *begun, *content;
} spoken[] = {
    {"<tool_call> <think> </think>", {"<tool_call>", "</tool_call>"}, "Well. <tool_call>nonsense</tool_call>", "Well."},
    {"<tool_call> <parameter=", {"<tool_call>", "</tool_call>"}, "Well. <tool_call>nonsense</tool_call>", "Well."},
    {"<|python_tag|>", {"<|python_tag|>"}, "Well. <|python_tag|>nonsense", "Well."},
    {"<|python_tag|>", {"<|python_tag|>"}, "{\"name\":\"add\" nonsense", ""},
    {"[TOOL_CALLS]", {"[TOOL_CALLS]"}, "Well. [TOOL_CALLS]nonsense", "Well."},
    {"[TOOL_CALLS] [ARGS]", {"[TOOL_CALLS]", "[ARGS]"}, "Well. [TOOL_CALLS]nonsense[ARGS]", "Well."},
    {"[TOOL_CALLS] [CALL_ID] [ARGS]",
     {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
     "Well. [TOOL_CALLS]nonsense[CALL_ID]x[ARGS]",
     "Well."},
    {"<｜tool▁calls▁begin｜> <｜tool▁sep｜>",
     {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
      "<｜tool▁sep｜>"},
     "Well. "
     "<｜tool▁calls▁begin｜>nonsense<｜tool▁call▁begin｜>x<｜tool▁sep｜>x<｜tool▁call▁end｜>x<｜tool▁calls▁end｜>",
     "Well."},
    {"<｜tool▁calls▁begin｜> <｜tool▁sep｜> ```json",
     {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
      "<｜tool▁sep｜>"},
     "Well. "
     "<｜tool▁calls▁begin｜>nonsense<｜tool▁call▁begin｜>x<｜tool▁sep｜>x<｜tool▁call▁end｜>x<｜tool▁calls▁end｜>",
     "Well."},
    {"<|channel|> <|message|>",
     {"<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>"},
     "<|channel|>commentary to=functions.add <|constrain|>json<|message|>nonsense",
     ""},
    {"<|channel|> <|message|>",
     {"<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>"},
     "<|channel|>commentary<|message|>Well.<|end|><|start|>assistant to=functions.add<|channel|>commentary "
     "json<|message|>nonsense",
     "Well."},
    {"<|tool_call|> <|/tool_call|>",
     {"<|tool_call|>", "<|/tool_call|>"},
     "Well. <|tool_call|>nonsense<|/tool_call|>",
     "Well."},
    {"<|START_ACTION|> <|END_ACTION|> tool_name",
     {"<|START_ACTION|>", "<|END_ACTION|>"},
     "Well. <|START_ACTION|>nonsense<|END_ACTION|>",
     "Well."},
    {"<|tool_calls_section_begin|> <|tool_call_begin|>",
     {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
      "<|tool_calls_section_end|>"},
     "Well. <|tool_calls_section_begin|>nonsense<|tool_call_begin|>x<|tool_call_argument_begin|>x<|tool_call_end|>x"
     "<|tool_calls_section_end|>",
     "Well."},
    {"<tool_call> <arg_key>", {"<tool_call>", "</tool_call>"}, "Well. <tool_call>nonsense</tool_call>", "Well."},
    {"<minimax:tool_call> <invoke name=",
     {"<minimax:tool_call>", "</minimax:tool_call>"},
     "Well. <minimax:tool_call>nonsense</minimax:tool_call>",
     "Well."},
    {"<function= </function>", {NULL}, "Well. <function=nonsense", "Well."},
    {"<|tool_call> <tool_call|>",
     {"<|tool_call>", "<tool_call|>", "<|\"|>"},
     "Well. <|tool_call>nonsense<tool_call|>x<|\"|>",
     "Well."}};

/* What a parrot says that knows the syntax, its marks being control tokens or text. */
static void hear_spoken(const struct syntax *syntax, const char *text, bool are_control,
                        const tn_request_options *options, heard *h) {
  tn_marker markers[TN_COUNT(syntax->marks)];
  size_t count = 0;
  parrot p;
  speaker s;
  script_name name;
  for (; syntax->marks[count] && are_control; count++) markers[count].text = tn_text_of(syntax->marks[count]);
  parrot_init(&p);
  parrot_begin(&p, name);
  say(&p, text, strlen(text), 0, markers, count);
  for (size_t i = 0; i < count; i++) parrot_say(&p, markers[i].text.data, markers[i].text.bytes, true);
  parrot_end(&p);
  wake(&s, &p, syntax->words, false);
  hear(&s, name, *options, h);
  send_off(&s);
  parrot_finish(&p);
}

/* Whether arguments are written as they are given out, so that they come in pieces too. */
static bool writes_json(const struct syntax *syntax) {
  static const char *const others[] = {"<parameter=", "<|tool_call>", "<arg_key>", "<invoke name="};
  for (size_t i = 0; i < TN_COUNT(others); i++)
    if (strstr(syntax->words, others[i])) return false;
  return true;
}

/* A parrot would say something else; the grammar makes it call. */
static void a_call_can_be_demanded(void **state) {
  (void)state;
  for (uint32_t i = 0; i < TN_COUNT(spoken) * 6; i++) {
    const struct syntax *one = &spoken[i / 6];
    const bool are_channels = strstr(one->words, "<|channel|>") != NULL, are_control = i / 2 % 2 || are_channels;
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.tools_json = SHORT_TOOLS;
    options.tool_choice = i % 2 ? "function:add" : "required";
    options.single_tool_call = 1;
    options.max_tokens = 400;
    options.temperature = 1.0f;
    options.seed = i;
    options.tool_call_deltas = 1;
    heard h;
    const char *text = "No.";
    if (are_channels) text = "<|channel|>analysis<|message|>Hm.<|end|>No.";
    hear_spoken(one, text, are_control, &options, &h);
    expect_short_call(&h, "");
    assert_int_equal(h.piece_count > 0, writes_json(one));
    if (h.reasoning.size) assert_string_equal(h.reasoning.data, "Hm.");
    if (i % 2) assert_string_equal(json_string_value(json_object_get(json_array_get(h.calls, 0), "name")), "add");
    forget(&h);
  }
}

/* Several calls in a row are allowed, and each is whole. */
static void several_calls_can_be_demanded(void **state) {
  (void)state;
  for (uint32_t k = 0; k < TN_COUNT(spoken); k++) {
    uint32_t most = 0;
    if (strstr(spoken[k].words, "<|channel|>") || strstr(spoken[k].words, "python_tag")) continue; /* one at a time */
    for (uint32_t i = 0; i < 60 && most < 2; i++) {
      tn_request_options options = TN_REQUEST_OPTIONS;
      options.tools_json = SHORT_TOOLS;
      options.tool_choice = "required";
      options.max_tokens = 400;
      options.temperature = 3.0f;
      options.seed = i;
      options.tool_call_deltas = 1;
      heard h;
      hear_spoken(&spoken[k], "No.", i % 2, &options, &h);
      uint32_t calls = (uint32_t)json_array_size(h.calls);
      if (h.last.finish == TN_FINISH_STOP) assert_true(calls >= 1 && !h.content.size);
      if (calls > most) most = calls;
      forget(&h);
    }
    assert_true(most > 1);
  }
}

/* A parrot begins a call and goes on with nonsense: from there on it is held to the tools' schemas. */
static void calls_that_are_begun_are_held(void **state) {
  (void)state;
  for (uint32_t i = 0; i < TN_COUNT(spoken) * 4; i++) {
    const struct syntax *one = &spoken[i / 4];
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.tools_json = SHORT_TOOLS;
    options.single_tool_call = 1;
    options.max_tokens = 400;
    options.seed = i;
    options.temperature = i % 4 / 2 ? 0.5f : 0.0f;
    options.tool_call_deltas = 1;
    heard h;
    hear_spoken(one, one->begun, i % 2, &options, &h);
    expect_short_call(&h, one->content);
    assert_int_equal(h.piece_count > 0, writes_json(one));
    forget(&h);
  }
}

/* A call that gave pieces and is cut off is neither a call nor content. */
static void pieces_of_a_call_that_is_cut_off(void **state) {
  (void)state;
  for (uint32_t length = 1; length < 60; length++) {
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.tools_json = SHORT_TOOLS;
    options.tool_choice = "function:add";
    options.single_tool_call = options.tool_call_deltas = 1;
    options.max_tokens = length;
    heard h;
    hear_spoken(&spoken[0], "No.", true, &options, &h);
    if (h.piece_count) assert_int_equal(h.content.size, 0);
    forget(&h);
  }
}

/* A schema waits until reasoning has ended; until then the answer can't end either. */
static void a_schema_is_for_what_follows_reasoning(void **state) {
  (void)state;
  static const char *const scripts[][4] = {{"H", "m.", "</think>", "nonsense"}, {"H", "m.", NULL, NULL}};
  for (size_t i = 0; i < TN_COUNT(scripts); i++) {
    parrot p;
    speaker s;
    heard h;
    parrot_init(&p);
    parrot_begin_after(&p, "<think>");
    for (size_t k = 0; k < 4 && scripts[i][k]; k++) parrot_say(&p, scripts[i][k], strlen(scripts[i][k]), false);
    parrot_end(&p);
    wake(&s, &p, "<think> </think>", true);
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.split_reasoning = 1;
    options.json_schema = "{\"enum\": [12, 34]}";
    options.max_tokens = 20;
    hear(&s, "x", options, &h);
    assert_int_equal(strncmp(text_of(&h.reasoning), "Hm.", 3), 0);
    if (i == 0) {
      assert_int_equal(h.last.finish, TN_FINISH_STOP);
      assert_true(!strcmp(text_of(&h.content), "12") || !strcmp(text_of(&h.content), "34"));
    } else {
      assert_int_equal(h.last.finish, TN_FINISH_LENGTH);
      assert_int_equal(h.tokens, options.max_tokens);
      assert_int_equal(h.content.size, 0);
    }
    forget(&h);
    send_off(&s);
    parrot_finish(&p);
  }
}

static void faulty_requests_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *tools, *choice, *words;
    tn_status status;
  } faulty[] = {{"[", NULL, HERMES, TN_E_INVALID},
                {TOOLS, "always", HERMES, TN_E_INVALID},
                {TOOLS, "function:rm", HERMES, TN_E_INVALID},
                {NULL, "required", HERMES, TN_E_INVALID},
                {TOOLS, NULL, "no calls here", TN_E_UNSUPPORTED},
                {FREE_TOOLS, "required", HERMES, TN_E_UNSUPPORTED}};
  for (size_t i = 0; i < TN_COUNT(faulty); i++) {
    parrot p;
    speaker s;
    tn_error error = {0};
    tn_request *request;
    tn_request_options options = TN_REQUEST_OPTIONS;
    parrot_init(&p);
    wake(&s, &p, faulty[i].words, false);
    options.messages_json = "[{\"role\": \"user\", \"content\": \"a\"}]";
    options.tools_json = faulty[i].tools;
    options.tool_choice = faulty[i].choice;
    assert_int_equal(tn_engine_submit(s.engine, &options, &request, &error), faulty[i].status);
    assert_null(request);
    assert_true(error.message[0]);
    send_off(&s);
    parrot_finish(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_mean_the_same_through_the_engine),
                                     cmocka_unit_test(text_that_spells_a_control_token_is_text),
                                     cmocka_unit_test(stop_strings_are_of_content),
                                     cmocka_unit_test(broken_characters_are_replaced),
                                     cmocka_unit_test(one_call_is_enough_where_one_was_wanted),
                                     cmocka_unit_test(a_call_cut_by_length_is_content),
                                     cmocka_unit_test(without_tools_calls_are_text),
                                     cmocka_unit_test(a_call_can_be_demanded),
                                     cmocka_unit_test(several_calls_can_be_demanded),
                                     cmocka_unit_test(calls_that_are_begun_are_held),
                                     cmocka_unit_test(pieces_of_a_call_that_is_cut_off),
                                     cmocka_unit_test(a_schema_is_for_what_follows_reasoning),
                                     cmocka_unit_test(faulty_requests_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
