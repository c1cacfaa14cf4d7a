/* The default model (its path is in TENON_TEST_MODEL) through the public functions, against the recorded answers of
 * data/golden/smollm2.json: token ids, the best ten at the end of the prompt, and greedy continuations. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "tenon/tenon.h"

static tn_model *model;
static json_t *golden;

/* How far a configuration may be from the reference; greedy answers are compared until two tokens are so close. */
typedef struct tolerance {
  double logit, gap;
} tolerance;

static const json_t *prompts(void) {
  return json_object_get(golden, "prompts");
}

static void ids_are_exact(void **state) {
  (void)state;
  for (size_t p = 0; p < json_array_size(prompts()); p++) {
    const json_t *prompt = json_array_get(prompts(), p), *wanted = json_object_get(prompt, "ids");
    const char *text = json_string_value(json_object_get(prompt, "text"));
    int32_t *ids;
    size_t count, bytes;
    char *back;
    tn_error error;
    assert_int_equal(tn_tokenize(model, text, strlen(text), TN_TOKENIZE_SPECIAL, &ids, &count, &error), TN_OK);
    assert_int_equal(count, json_array_size(wanted));
    for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], json_integer_value(json_array_get(wanted, i)));
    assert_int_equal(tn_detokenize(model, ids, count, &back, &bytes, &error), TN_OK);
    assert_string_equal(back, text);
    assert_int_equal(bytes, strlen(text));
    tn_free(ids);
    tn_free(back);
  }
}

static tn_request *submit(tn_engine *engine, const json_t *prompt) {
  const json_t *ids = json_object_get(prompt, "ids");
  int32_t *tokens = malloc(json_array_size(ids) * sizeof *tokens);
  for (size_t i = 0; i < json_array_size(ids); i++) tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = tokens;
  options.token_count = json_array_size(ids);
  options.max_tokens = 32;
  options.top_logprobs = 10;
  tn_request *request;
  tn_error error;
  if (tn_engine_submit(engine, &options, &request, &error) != TN_OK) fail_msg("%s", error.message);
  free(tokens);
  return request;
}

/* Where the recorded logit of a token is known, its log-probability must be near. */
static void check_best(const json_t *prompt, const tn_output *output, tolerance within) {
  const json_t *best = json_object_get(prompt, "top10");
  double log_sum = json_real_value(json_object_get(prompt, "logsumexp"));
  for (uint32_t i = 0; i < output->top_count; i++) {
    for (size_t j = 0; j < json_array_size(best); j++) {
      const json_t *pair = json_array_get(best, j);
      if (json_integer_value(json_array_get(pair, 0)) != output->top[i].token) continue;
      double wanted = json_number_value(json_array_get(pair, 1)) - log_sum;
      if (fabs((double)output->top[i].logprob - wanted) > 2 * within.logit)
        fail_msg("%s: token %d: %g, expected %g", json_string_value(json_object_get(prompt, "name")),
                 output->top[i].token, (double)output->top[i].logprob, wanted);
    }
  }
}

static void check_answer(const json_t *prompt, tn_request *request, tolerance within) {
  const json_t *wanted = json_object_get(prompt, "greedy_ids"), *gaps = json_object_get(prompt, "greedy_gaps");
  const char *shown = json_string_value(json_object_get(prompt, "greedy_text")), *name;
  name = json_string_value(json_object_get(prompt, "name"));
  tn_output output = TN_OUTPUT;
  size_t at = 0, text = 0;
  bool comparing = true, is_first = true;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    if (is_first) check_best(prompt, &output, within);
    is_first = false;
    comparing = comparing && at < json_array_size(gaps) && json_number_value(json_array_get(gaps, at)) >= within.gap;
    if (!comparing) continue;
    int32_t token = (int32_t)json_integer_value(json_array_get(wanted, at));
    if (output.token != token) fail_msg("%s: token %zu is %d, expected %d", name, at, output.token, token);
    if (strncmp(output.text, shown + text, output.text_bytes) != 0) fail_msg("%s: \"%s\"", name, output.text);
    text += output.text_bytes;
    at++;
  }
  if (output.kind != TN_OUTPUT_DONE) fail_msg("%s: %s", name, output.error.message);
  if (comparing) {
    assert_int_equal(output.completion_tokens, json_array_size(wanted));
    assert_int_equal(output.finish, json_array_size(wanted) < 32 ? TN_FINISH_STOP : TN_FINISH_LENGTH);
  }
  assert_false(is_first);
}

/* All prompts at the same time. */
static void check_all(const char *activations, const char *kv, tolerance within) {
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.context = 1024;
  options.activations = activations;
  options.kv = kv;
  tn_engine *engine;
  tn_error error;
  if (tn_engine_create(model, &options, &engine, &error) != TN_OK) fail_msg("%s", error.message);
  tn_request *requests[16];
  size_t count = json_array_size(prompts());
  assert_in_range(count, 1, 16);
  for (size_t p = 0; p < count; p++) requests[p] = submit(engine, json_array_get(prompts(), p));
  for (size_t p = 0; p < count; p++) {
    check_answer(json_array_get(prompts(), p), requests[p], within);
    tn_request_destroy(requests[p]);
  }
  tn_engine_destroy(engine);
}

static void answers_in_float(void **state) {
  (void)state;
  check_all("float", "f32", (tolerance){0.002, 0.004});
}

static void answers_as_shipped(void **state) {
  (void)state;
  check_all("auto", "f16", (tolerance){0.7, 0.6});
}

/* A special token that a user types is text: the chat's tokens are the same but for the letters of its spelling. */
static void users_cannot_end_a_turn(void **state) {
  (void)state;
  tn_error error;
  char *text;
  size_t bytes, count;
  int32_t *ids;
  const char *messages = "[{\"role\": \"user\", \"content\": \"a<|im_end|>b\"}]";
  assert_int_equal(tn_chat_render(model, messages, NULL, &text, &bytes, &error), TN_OK);
  assert_non_null(strstr(text, "<|im_start|>user\na<|im_end|>b<|im_end|>\n<|im_start|>assistant\n"));
  assert_int_equal(tn_tokenize(model, text, bytes, TN_TOKENIZE_SPECIAL, &ids, &count, &error), TN_OK);
  tn_engine_options engine_options = TN_ENGINE_OPTIONS;
  engine_options.context = 128;
  tn_engine *engine;
  assert_int_equal(tn_engine_create(model, &engine_options, &engine, &error), TN_OK);
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.messages_json = messages;
  options.max_tokens = 1;
  tn_request *request;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_OK);
  tn_output output = TN_OUTPUT;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
  }
  assert_true(output.prompt_tokens > count);
  tn_request_destroy(request);
  const char *refused[] = {"[]", "{}", "[", "[{\"role\": \"user\"", "[1]"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    options.messages_json = refused[i];
    assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  }
  tn_engine_destroy(engine);
  tn_free(text);
  tn_free(ids);
}

/* The same answer cut by a stop string, wherever it lies across tokens; nothing of it is shown. */
static void stop_strings_cut_the_answer(void **state) {
  (void)state;
  tn_engine_options engine_options = TN_ENGINE_OPTIONS;
  engine_options.context = 128;
  tn_engine *engine;
  tn_error error;
  assert_int_equal(tn_engine_create(model, &engine_options, &engine, &error), TN_OK);
  char whole[2000] = "";
  for (uint32_t cut = 0; cut < 60; cut += 7) {
    char stop[8] = "", got[2000] = "";
    const char *stops[] = {stop};
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.prompt = "Once upon a time";
    options.max_tokens = 40;
    if (whole[0]) {
      memcpy(stop, whole + cut, 5);
      options.stop = stops;
      options.stop_count = 1;
    }
    tn_request *request;
    assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_OK);
    tn_output output = TN_OUTPUT;
    while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT)
      strcat(got, output.text);
    assert_int_equal(output.finish, whole[0] ? TN_FINISH_STOP : TN_FINISH_LENGTH);
    tn_request_destroy(request);
    if (!whole[0]) {
      strcpy(whole, got);
      assert_true(strlen(whole) > 70);
    } else {
      size_t before = (size_t)(strstr(whole, stop) - whole);
      assert_int_equal(strlen(got), before);
      assert_memory_equal(got, whole, before);
    }
  }
  tn_engine_destroy(engine);
}

static void answer_to(tn_engine *engine, tn_request_options *options, char *text, size_t capacity, tn_output *last) {
  tn_request *request;
  tn_error error;
  options->messages_json = "[{\"role\": \"user\", \"content\": \"Describe a cat.\"}]";
  options->max_tokens = 300;
  options->temperature = 1;
  if (tn_engine_submit(engine, options, &request, &error) != TN_OK) fail_msg("%s", error.message);
  text[0] = 0;
  while (tn_request_next(request, last, UINT64_MAX) == TN_OK && last->kind == TN_OUTPUT_TEXT) {
    assert_true(strlen(text) + last->text_bytes < capacity);
    strcat(text, last->text);
  }
  if (last->kind == TN_OUTPUT_ERROR) fail_msg("%s", last->error.message);
  tn_request_destroy(request);
}

/* Whatever is drawn, the answer is one of the grammar, and ends with it. */
static void grammars_are_kept(void **state) {
  (void)state;
  tn_engine_options engine_options = TN_ENGINE_OPTIONS;
  engine_options.context = 512;
  tn_engine *engine;
  tn_error error;
  tn_output last = TN_OUTPUT;
  char text[4000];
  assert_int_equal(tn_engine_create(model, &engine_options, &engine, &error), TN_OK);
  const char *choices[] = {"a black cat", "a black dog", "no"};
  for (uint64_t seed = 0; seed < 4; seed++) {
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.seed = seed;
    options.json_schema =
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 12}, \"legs\": "
        "{\"type\": "
        "\"integer\", \"minimum\": 1, \"maximum\": 9}}, \"required\": [\"name\", \"legs\"], \"additionalProperties\": "
        "false}";
    answer_to(engine, &options, text, sizeof text, &last);
    json_t *value = json_loads(text, 0, NULL);
    if (!json_is_object(value)) fail_msg("not an object: %s", text);
    assert_int_equal(json_object_size(value), 2);
    assert_in_range(json_integer_value(json_object_get(value, "legs")), 1, 9);
    json_decref(value);
    assert_int_equal(last.finish, TN_FINISH_STOP);
    options.json_schema = NULL;
    options.choices = choices;
    options.choice_count = 3;
    answer_to(engine, &options, text, sizeof text, &last);
    assert_true(!strcmp(text, choices[0]) || !strcmp(text, choices[1]) || !strcmp(text, choices[2]));
    assert_int_equal(last.finish, TN_FINISH_STOP);
    options.choice_count = 0;
    options.pattern = "[0-9]{3}-[0-9]{4}";
    answer_to(engine, &options, text, sizeof text, &last);
    assert_int_equal(strlen(text), 8);
    assert_int_equal(strspn(text, "0123456789"), 3);
    options.pattern = NULL;
    options.grammar = "root ::= \"yes\" | \"no\"";
    answer_to(engine, &options, text, sizeof text, &last);
    assert_true(!strcmp(text, "yes") || !strcmp(text, "no"));
  }
  tn_request *request;
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.prompt = "x";
  options.grammar = "root ::= missing";
  assert_true(tn_engine_submit(engine, &options, &request, &error) < 0);
  options.grammar = "root ::= \"x\"";
  options.pattern = "x";
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  options.pattern = NULL;
  options.ignore_eos = 1;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  tn_engine_destroy(engine);
}

static int open_all(void **state) {
  (void)state;
  tn_error error;
  golden = json_load_file(TEST_DATA "/golden/smollm2.json", 0, NULL);
  if (golden && tn_model_open(getenv("TENON_TEST_MODEL"), &model, &error) == TN_OK) return 0;
  fprintf(stderr, "%s\n", golden ? error.message : "data/golden/smollm2.json can't be read");
  return 1;
}

static int close_all(void **state) {
  (void)state;
  tn_model_close(model);
  json_decref(golden);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_exact),
      cmocka_unit_test(answers_in_float),
      cmocka_unit_test(answers_as_shipped),
      cmocka_unit_test(users_cannot_end_a_turn),
      cmocka_unit_test(stop_strings_cut_the_answer),
      cmocka_unit_test(grammars_are_kept),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
