/* Answers taken apart (text/tools), over data/tools/answers.jsonl: the meaning of each, and that it is the same however
 * the text arrives: whole, by bytes, cut once at each place, and as every beginning of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/memory.h"
#include "text/tools/tools.h"

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}},"
    "{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", \"properties\":"
    " {\"a\": {\"type\": \"number\"}, \"b\": {\"type\": \"number\"}}}}},"
    "{\"type\": \"function\", \"function\": {\"name\": \"search\", \"parameters\": {\"type\": \"object\", "
    "\"properties\":"
    " {\"words\": {\"type\": \"array\"}, \"exact\": {\"type\": \"boolean\"},"
    " \"near\": {\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"string\"}]}}}}}]";

static json_t *cases[512];
static char *sources[512]; /* of the templates */
static size_t case_count;
static tn_tool_list *tools;

/* What an answer gave. */
typedef struct meaning {
  tn_buf content, reasoning, calls; /* calls: "name arguments\n" */
  tn_buf pieces;                    /* the same, without the last newline */
  uint32_t pieces_of;               /* call number, plus one */
  uint32_t call_count;
  uint32_t most_calls; /* the sink ends the answer there */
} meaning;

static void finish_meaning(meaning *m) {
  tn_buf_finish(&m->content);
  tn_buf_finish(&m->reasoning);
  tn_buf_finish(&m->calls);
  tn_buf_finish(&m->pieces);
}

static bool take_part(void *context, const tn_part *part) {
  meaning *m = context;
  if (part->kind == TN_PART_CALL) {
    json_t *arguments = json_loadb(part->text.data, part->text.bytes, 0, NULL);
    assert_true(json_is_object(arguments)); /* always, whatever the text is */
    json_decref(arguments);
    assert_int_equal(part->index, m->call_count);
    assert_int_equal(strlen(part->id), 9);
    assert_true(tn_tool_list_find(tools, part->name) >= 0);
    tn_buf_printf(&m->calls, "%.*s %.*s\n", (int)part->name.bytes, part->name.data, (int)part->text.bytes,
                  part->text.data);
    m->call_count++;
  } else if (part->kind == TN_PART_CALL_PIECE) {
    if (m->pieces_of) assert_true(part->index + 1 == m->pieces_of || part->index == m->pieces_of);
    if (part->index + 1 != m->pieces_of)
      tn_buf_printf(&m->pieces, "%s%.*s ", m->pieces_of ? "\n" : "", (int)part->name.bytes, part->name.data);
    m->pieces_of = part->index + 1;
    tn_buf_append(&m->pieces, part->text.data, part->text.bytes);
  } else {
    assert_true(part->text.bytes > 0);
    tn_buf_append(part->kind == TN_PART_CONTENT ? &m->content : &m->reasoning, part->text.data, part->text.bytes);
  }
  return !m->most_calls || m->call_count < m->most_calls;
}

/* Parses `bytes` of the case's text, in pieces that `cut` tells: after each byte for which it is true. */
static void parse(size_t number, size_t bytes, bool (*cut)(size_t at, size_t key), size_t key, meaning *m) {
  const char *text = json_string_value(json_object_get(cases[number], "text"));
  const tn_tool_parser_options options = {.template_source = sources[number],
                                          .tools = tools,
                                          .reasoning_is_open = json_is_true(json_object_get(cases[number], "open")),
                                          .sink = take_part,
                                          .context = m};
  tn_tool_parser *parser;
  assert_int_equal(tn_tool_parser_create(&parser, &options, NULL), TN_OK);
  size_t from = 0;
  for (size_t at = 0; at < bytes; at++) {
    if (at + 1 < bytes && !cut(at, key)) continue;
    assert_true(tn_tool_parser_push(parser, (tn_text){text + from, at + 1 - from}, false));
    from = at + 1;
  }
  assert_true(tn_tool_parser_end(parser));
  tn_tool_parser_destroy(parser);
}

static bool never(size_t at, size_t key) {
  (void)at, (void)key;
  return false;
}
static bool always(size_t at, size_t key) {
  (void)at, (void)key;
  return true;
}
static bool once(size_t at, size_t key) {
  return at == key;
}
static bool at_random(size_t at, size_t key) {
  uint64_t bits = (at + 1) * 0x9E3779B97F4A7C15u + key * 0xD1B54A32D192ED03u;
  return (bits ^ bits >> 31) % 5 == 0;
}

static const char *text_of(const tn_buf *buf) {
  return buf->size ? buf->data : "";
}

static void expect_same(size_t number, const meaning *a, const meaning *b, size_t cut) {
  if (strcmp(text_of(&a->content), text_of(&b->content)) || strcmp(text_of(&a->reasoning), text_of(&b->reasoning)) ||
      strcmp(text_of(&a->calls), text_of(&b->calls)))
    fail_msg("%s, cut at %zu: content \"%s\" and \"%s\", reasoning \"%s\" and \"%s\", calls %s and %s",
             json_string_value(json_object_get(cases[number], "id")), cut, text_of(&a->content), text_of(&b->content),
             text_of(&a->reasoning), text_of(&b->reasoning), text_of(&a->calls), text_of(&b->calls));
}

static void meanings_are_as_written(void **state) {
  (void)state;
  for (size_t i = 0; i < case_count; i++) {
    const char *id = json_string_value(json_object_get(cases[i], "id"));
    meaning m = {0};
    parse(i, json_string_length(json_object_get(cases[i], "text")), never, 0, &m);
    const char *content = json_string_value(json_object_get(cases[i], "content"));
    const char *reasoning = json_string_value(json_object_get(cases[i], "reasoning"));
    if (strcmp(text_of(&m.content), content))
      fail_msg("%s: content is \"%s\", not \"%s\"", id, text_of(&m.content), content);
    if (strcmp(text_of(&m.reasoning), reasoning))
      fail_msg("%s: reasoning is \"%s\", not \"%s\"", id, text_of(&m.reasoning), reasoning);
    const json_t *calls = json_object_get(cases[i], "calls");
    if (m.call_count != json_array_size(calls)) fail_msg("%s: %u calls: %s", id, m.call_count, text_of(&m.calls));
    char *line = m.calls.data;
    for (size_t c = 0; c < m.call_count; c++) {
      char *blank = strchr(line, ' '), *end = blank;
      const json_t *call = json_array_get(calls, c), *wanted = json_object_get(call, "arguments");
      size_t used;
      json_t *got = json_loads(blank, JSON_DISABLE_EOF_CHECK, NULL);
      assert_int_equal(strlen(json_string_value(json_object_get(call, "name"))), blank - line);
      assert_memory_equal(json_string_value(json_object_get(call, "name")), line, blank - line);
      if (!json_equal(got, wanted)) fail_msg("%s: arguments are %s", id, blank);
      json_decref(got);
      for (used = 0; *end != '\n'; end++) used++;
      line = end + 1;
    }
    finish_meaning(&m);
  }
}

static void cuts_do_not_matter(void **state) {
  (void)state;
  for (size_t i = 0; i < case_count; i++) {
    size_t bytes = json_string_length(json_object_get(cases[i], "text"));
    meaning whole = {0};
    parse(i, bytes, never, 0, &whole);
    for (size_t cut = 0; cut < bytes + 8; cut++) {
      meaning m = {0};
      parse(i, bytes, cut < bytes ? once : cut == bytes ? always : at_random, cut, &m);
      expect_same(i, &whole, &m, cut);
      finish_meaning(&m);
    }
    finish_meaning(&whole);
  }
}

/* An answer may end anywhere. */
static void beginnings_too(void **state) {
  (void)state;
  for (size_t i = 0; i < case_count; i++) {
    size_t bytes = json_string_length(json_object_get(cases[i], "text"));
    for (size_t end = 0; end < bytes; end++) {
      meaning whole = {0}, m = {0}, other = {0};
      parse(i, end, never, 0, &whole);
      parse(i, end, always, 0, &m);
      parse(i, end, at_random, end, &other);
      expect_same(i, &whole, &m, end);
      expect_same(i, &whole, &other, end);
      finish_meaning(&whole);
      finish_meaning(&m);
      finish_meaning(&other);
    }
  }
}

/* Nothing is lost where there is neither call nor reasoning: the content is the text. */
/* Arguments by pieces, of calls as a grammar writes them: joined they are those of the call. */
static void pieces_are_the_arguments(void **state) {
  (void)state;
  static const struct {
    const char *words, *text;
  } held[] = {
      {"<tool_call>",
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"}\\\"{\\\\\"}}\n</tool_call>\n<tool_call>\n"
       "{\"name\":\"add\",\"arguments\":{\"a\":[{\"name\":1}]}}</tool_call>"},
      {"<|python_tag|>", "{\"name\": \"add\", \"parameters\": {\"a\": 1}}"},
      {"[TOOL_CALLS]",
       "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {}}, {\"name\": \"add\", \"arguments\": {\"a\": {}}}]"},
      {"[TOOL_CALLS] [ARGS]",
       "[TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{\"city\": \"é\"}"},
      {"<｜tool▁calls▁begin｜> <｜tool▁sep｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>function<"
       "｜tool▁sep｜>weather\n"
       "```json\n{\"city\": \"x\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"<|channel|> <|message|>",
       "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": [[]]}<|call|>"}};
  for (size_t i = 0; i < TN_COUNT(held); i++)
    for (size_t step = 1; step < strlen(held[i].text) + 7; step += 7) {
      meaning m = {0};
      tn_tool_parser *parser;
      const tn_tool_parser_options options = {
          .template_source = held[i].words, .tools = tools, .sink = take_part, .context = &m};
      assert_int_equal(tn_tool_parser_create(&parser, &options, NULL), TN_OK);
      tn_tool_parser_hold(parser, true);
      for (size_t at = 0, bytes = strlen(held[i].text); at < bytes; at += step)
        assert_true(
            tn_tool_parser_push(parser, (tn_text){held[i].text + at, bytes - at < step ? bytes - at : step}, false));
      assert_true(tn_tool_parser_end(parser));
      tn_tool_parser_destroy(parser);
      assert_true(m.call_count > 0 && m.pieces.size > 0);
      assert_int_equal(m.content.size, 0);
      assert_memory_equal(m.pieces.data, m.calls.data, m.pieces.size);
      assert_int_equal(m.pieces.size + 1, m.calls.size); /* but for the last newline */
      finish_meaning(&m);
    }
}

static void the_sink_can_end_it(void **state) {
  (void)state;
  for (size_t i = 0; i < case_count; i++) {
    meaning m = {.most_calls = 1};
    parse(i, json_string_length(json_object_get(cases[i], "text")), at_random, 3, &m);
    assert_true(m.call_count <= 1);
    finish_meaning(&m);
  }
}

static void faulty_tools_are_refused(void **state) {
  static const char *const faulty[] = {"",
                                       "{}",
                                       "[]",
                                       "[1]",
                                       "[{\"type\": \"function\"}]",
                                       "[{\"type\": \"web\", \"function\": {\"name\": \"a\"}}]",
                                       "[{\"function\": {\"name\": \"\"}}]",
                                       "[{\"function\": {\"name\": \"a\", \"parameters\": []}}]",
                                       "[{\"function\": {\"name\": \"a\", \"parameters\": {\"type\": \"array\"}}}]",
                                       "[{\"function\": {\"name\": \"a\", \"parameters\": {\"type\": [\"null\"]}}}]",
                                       "[{\"function\": {\"name\": \"a\", \"strict\": 1}}]",
                                       "[{\"function\": {\"name\": \"a\"}}, {\"function\": {\"name\": \"a\"}}]",
                                       "[{\"function\": {\"name\": \"a\"}}"};
  (void)state;
  for (size_t i = 0; i < TN_COUNT(faulty); i++) {
    tn_tool_list *list;
    tn_error error = {0};
    assert_int_equal(tn_tool_list_create(&list, faulty[i], &error), TN_E_INVALID);
    assert_null(list);
    assert_memory_equal(error.message, "tools", 5);
  }
}

static void prompts_that_open_reasoning(void **state) {
  (void)state;
  static const char source[] = "{{ '<think>\\n' }} </think>";
  assert_true(tn_prompt_opens_reasoning(source, TN_TEXT("<|im_start|>assistant\n<think>\n")));
  assert_false(tn_prompt_opens_reasoning(source, TN_TEXT("<|im_start|>assistant\n<think>\n\n</think>\n\n")));
  assert_false(tn_prompt_opens_reasoning("no such tag", TN_TEXT("<think>")));
}

/* ---- */

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s can't be read", path);
  tn_buf text = {0};
  for (int c; (c = getc(file)) != EOF;) tn_buf_putc(&text, (char)c);
  fclose(file);
  return tn_buf_take(&text);
}

static int read_cases(void **state) {
  (void)state;
  char *all = read_file(TEST_DATA "/tools/answers.jsonl");
  for (char *line = strtok(all, "\n"); line && case_count < TN_COUNT(cases); line = strtok(NULL, "\n")) {
    json_t *read = json_loads(line, 0, NULL);
    const char *name = json_string_value(json_object_get(read, "template"));
    const char *words = json_string_value(json_object_get(read, "words"));
    char path[512];
    snprintf(path, sizeof path, TEST_DATA "/templates/%s", name ? name : "");
    cases[case_count] = read;
    sources[case_count++] = name ? read_file(path) : tn_copy_text(words, strlen(words));
  }
  free(all);
  return case_count < 100 || tn_tool_list_create(&tools, TOOLS, NULL);
}

static int free_cases(void **state) {
  (void)state;
  tn_tool_list_destroy(tools);
  for (size_t i = 0; i < case_count; i++) {
    json_decref(cases[i]);
    free(sources[i]);
  }
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(meanings_are_as_written),
                                     cmocka_unit_test(cuts_do_not_matter),
                                     cmocka_unit_test(beginnings_too),
                                     cmocka_unit_test(the_sink_can_end_it),
                                     cmocka_unit_test(pieces_are_the_arguments),
                                     cmocka_unit_test(faulty_tools_are_refused),
                                     cmocka_unit_test(prompts_that_open_reasoning)};
  return cmocka_run_group_tests(tests, read_cases, free_cases);
}
