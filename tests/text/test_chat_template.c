/* What clients send and what templates take: content in parts, null content, arguments of tool calls as text, missing
 * tools; and which text is trusted. */
#include "jinja/cases.h"
#include "text/chat_template.h"

static const char *const all[] = {"Qwen-Qwen2.5-7B-Instruct.jinja",
                                  "Qwen-Qwen3-0.6B.jinja",
                                  "Qwen3.5-4B.jinja",
                                  "SmolLM2-135M-Instruct.jinja",
                                  "google-gemma-2-2b-it.jinja",
                                  "google-gemma-3-it.jinja",
                                  "google-gemma-4-31B-it.jinja",
                                  "meta-llama-Llama-3.1-8B-Instruct.jinja",
                                  "openai-gpt-oss-120b.jinja"};

static tn_chat_template *create(const char *source) {
  tn_error error = {0};
  tn_chat_template *chat = NULL;
  if (tn_chat_template_create(source, strlen(source), NULL, &chat, &error)) fail_msg("%s", error.message);
  assert_string_equal(tn_chat_template_source(chat), source);
  return chat;
}

/* Renders messages given as JSON text, with quotes written as '. Trusted parts are put in angle quotes if `mark`. NULL
 * for an error. */
static char *render(const tn_chat_template *chat, const char *messages, const char *tools, bool mark, tn_error *error) {
  static const tn_chat_token tokens[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  char *json = strdup(messages), *text = NULL;
  for (char *c = json; *c; c++)
    if (*c == '\'') *c = '"';
  json_t *list = json_loads(json, JSON_DECODE_ANY, NULL), *tool_list = json_loads(tools, JSON_DECODE_ANY, NULL);
  assert_non_null(list);
  tn_jinja_output output;
  const tn_chat_request request = {.messages = list,
                                   .tools = tool_list,
                                   .tokens = tokens,
                                   .token_count = 2,
                                   .add_generation_prompt = true,
                                   .now = &test_time};
  if (tn_chat_template_render(chat, &request, &output, error) == TN_OK) {
    char *at = text = calloc(1, output.size * 5 + 1);
    for (size_t i = 0; i < output.span_count; i++)
      at += sprintf(at, mark && output.spans[i].trusted ? "«%.*s»" : "%.*s", (int)output.spans[i].size,
                    output.text + output.spans[i].offset);
  }
  tn_jinja_output_finish(&output);
  json_decref(list);
  json_decref(tool_list);
  free(json);
  return text;
}

static void same(const char *file, const tn_chat_template *chat, const char *a, const char *b) {
  tn_error error = {0};
  char *x = render(chat, a, "null", false, &error), *y = render(chat, b, "null", false, &error);
  if (!x != !y || (x && strcmp(x, y) != 0))
    fail_msg("%s: %s gives\n%s\nbut %s gives\n%s\n%s", file, a, x, b, y, error.message);
  free(x);
  free(y);
}

static void forms_of_the_same(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t size;
    char *source = read_data(all[i], &size);
    tn_chat_template *chat = create(source);
    same(all[i], chat,
         "[{'role': 'user', 'content': [{'type': 'text', 'text': 'Hello '}, {'type': 'text', 'text': 'parts'}]}]",
         "[{'role': 'user', 'content': 'Hello parts'}]");
    same(all[i], chat, "[{'role': 'user', 'content': []}]", "[{'role': 'user', 'content': ''}]");
    same(all[i], chat,
         "[{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': null, 'tool_calls': [{'id': 'call00001',"
         " 'type': 'function', 'function': {'name': 'f', 'arguments': '{}'}}]}]",
         "[{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': '', 'tool_calls': [{'id': 'call00001',"
         " 'type': 'function', 'function': {'name': 'f', 'arguments': {}}}]}]");
    same(all[i], chat,
         "[{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': '', 'tool_calls': [{'id': 'call00001',"
         " 'type': 'function', 'function': {'name': 'f', 'arguments': '{\\'b\\': [1, {\\'c\\': \\'d\\'}], \\'a\\': "
         "2.5}'}}]}]",
         "[{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': '', 'tool_calls': [{'id': 'call00001',"
         " 'type': 'function', 'function': {'name': 'f', 'arguments': {'b': [1, {'c': 'd'}], 'a': 2.5}}}]}]");
    tn_chat_template_destroy(chat);
    free(source);
  }
}

static void gives(const char *source, const char *messages, const char *tools, const char *expected) {
  tn_error error = {0};
  tn_chat_template *chat = create(source);
  char *text = render(chat, messages, tools, true, &error);
  if (!text) fail_msg("%s: %s", source, error.message);
  if (strcmp(text, expected) != 0) fail_msg("%s: got %s, wanted %s", source, text, expected);
  free(text);
  tn_chat_template_destroy(chat);
}

/* An integer of more than 64 bits doesn't keep arguments from being read. */
static void long_integers_in_arguments(void **state) {
  (void)state;
  gives("{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments.a }}{% endfor %}{% endfor %}",
        "[{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', 'arguments': '{\\'a\\': "
        "12345678901234567890123}'}}]}]",
        "null", "1.2345678901234568e+22");
}

/* Templates that concatenate arguments take only text; templates that walk parts take only lists. */
static void the_other_way_round(void **state) {
  (void)state;
  const char *calls =
      "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name + c.function.arguments }}{% endfor %}"
      "{{ m.content }}{% endfor %}";
  gives(calls, "[{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', 'arguments': {'a': 1}}}]}]", "null",
        "f{\"a\": 1}");
  gives(calls, "[{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', 'arguments': '{ }'}}]}]", "null",
        "f{ }");
  const char *none =
      "{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}{{ c.function.arguments + '!' }}"
      "{% endfor %}{% else %}{{ m.content }};{% endif %}{% endfor %}";
  gives(none,
        "[{'role': 'assistant', 'content': '', 'tool_calls': [{'function': {'arguments': '{}'}}]}, {'role': 'user'}]",
        "null", "{}«!;»");
  const char *parts =
      "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}[{{ p.text }}]{% endif %}{% endfor %}{% "
      "endfor %}";
  gives(parts, "[{'role': 'user', 'content': 'hi'}]", "null", "«[»hi«]»");
  gives(parts, "[{'role': 'user', 'content': [{'type': 'text', 'text': 'hi'}, {'type': 'image'}]}]", "null",
        "«[»hi«]»");
  gives(parts, "[{'role': 'user'}]", "null", "«[]»");
}

static void tools_and_trust(void **state) {
  (void)state;
  const char *source =
      "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content }}{% endfor %}{{ tools }}{{ "
      "documents is none }}";
  gives(source, "[{'role': 'user', 'content': '<s>'}]", "null", "«<s><|user|>»<s>NoneTrue");
  gives(source, "[{'role': 'im_end', 'content': ''}]", "[]", "«<s><|»im_end«|>»NoneTrue");
  gives(source, "[]", "[1]", "«<s>»[1]True");
}

static void fails(const char *source, const char *messages, const char *tools, const char *message) {
  tn_error error = {0};
  tn_chat_template *chat = create(source);
  char *text = render(chat, messages, tools, true, &error);
  assert_null(text);
  assert_string_equal(error.message, message);
  tn_chat_template_destroy(chat);
}

static void errors(void **state) {
  (void)state;
  tn_error error = {0};
  tn_chat_template *chat;
  fails("x", "{}", "null", "messages: expected an array");
  fails("x", "[{'role': 'user'}, 5]", "null", "messages[1]: expected an object");
  fails("x", "[]", "5", "tools: expected an array");
  fails("{{ raise_exception('no') }}", "[]", "null", "chat template: line 1, column 4: no");
  assert_int_equal(tn_chat_template_create(NULL, 0, NULL, &chat, &error), TN_E_NOT_FOUND);
  assert_int_equal(tn_chat_template_create("{{", 2, NULL, &chat, &error), TN_E_INVALID);
  assert_string_equal(error.message,
                      "chat template: line 1, column 3: expected an expression, got the end of the template");
  assert_int_equal(tn_chat_template_create_named("nope", &chat, &error), TN_E_NOT_FOUND);
}

static void built_in(void **state) {
  (void)state;
  tn_error error = {0};
  tn_chat_template *chat;
  assert_int_equal(tn_chat_template_create_named("chatml", &chat, &error), TN_OK);
  char *text = render(chat, "[{'role': 'user', 'content': 'a\\nb'}]", "null", true, &error);
  assert_string_equal(text, "«<|im_start|>user\n»a\nb«<|im_end|>\n<|im_start|>assistant\n»");
  free(text);
  tn_chat_template_destroy(chat);
}

/* Arguments nested deeper than a small stack bears stay text. */
static void deep_arguments(void *user) {
  (void)user;
  tn_error error = {0};
  tn_chat_template *chat = create("{{ messages[0].tool_calls[0].function.arguments is string }}");
  char *messages = malloc(100000), *at = messages;
  at += sprintf(at, "[{'tool_calls': [{'function': {'arguments': '");
  for (size_t i = 0; i < 20000; i++) *at++ = '[';
  sprintf(at, "'}}]}]");
  char *text = render(chat, messages, "null", false, &error);
  assert_string_equal(text, "True");
  free(text);
  free(messages);
  tn_chat_template_destroy(chat);
}

static void deep_arguments_test(void **state) {
  (void)state;
  on_small_stack(deep_arguments, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(forms_of_the_same),
                                     cmocka_unit_test(long_integers_in_arguments),
                                     cmocka_unit_test(the_other_way_round),
                                     cmocka_unit_test(tools_and_trust),
                                     cmocka_unit_test(errors),
                                     cmocka_unit_test(built_in),
                                     cmocka_unit_test(deep_arguments_test)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
