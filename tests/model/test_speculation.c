/* The default model (its path is in TENON_TEST_MODEL) with drafts: the outputs of requests of all kinds (free, held to
 * schemas and grammars, with stop strings, penalties, log-probabilities, hot and cold), one event like the other,
 * are those without. Drafters: n-gram lookup, the model's own first five blocks, and those on a device of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/truncate.h"
#include "tenon/tenon.h"
#include "support/engine.h"

#define TOKENS 40u

static const char LIST[] = "[{\"role\": \"user\", \"content\": \"List ten animals, one a line, as 'name: animal'.\"}]";
static const char CODE[] = "[{\"role\": \"user\", \"content\": \"Write Python code of a class Point with x and y.\"}]";
static const char PEOPLE[] = "[{\"role\": \"user\", \"content\": \"Give three people as JSON.\"}]";
static const char SCHEMA[] =
    "{\"type\": \"array\", \"minItems\": 3, \"items\": {\"type\": \"object\", \"properties\": {\"name\": {\"type\":"
    " \"string\", \"maxLength\": 12}, \"age\": {\"type\": \"integer\"}}, \"required\": [\"name\", \"age\"],"
    " \"additionalProperties\": false}}";
static const char GRAMMAR[] = "root ::= line{4}\nline ::= \"animal: \" [a-z]+ \"\\n\"";
static const char *const STOPS[] = {"\n6", "lion"};
static const tn_logit_bias BIAS[] = {{198, -2.0f}, {260, 1.5f}};

#define KINDS 12u

/* Request number `kind`. */
static tn_request_options options_of(uint32_t kind) {
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.messages_json = kind % 2 ? CODE : LIST;
  options.max_tokens = TOKENS;
  options.seed = kind;
  options.logprobs = 1;
  options.top_logprobs = kind % 3;
  switch (kind) {
    case 0:
    case 1: break;
    case 2:
    case 3: options.temperature = 1; break;
    case 4:
      options.temperature = 0.7f;
      options.top_k = 20;
      options.top_p = 0.9f;
      options.repeat_penalty = 1.2f;
      break;
    case 5:
      options.frequency_penalty = 0.4f;
      options.presence_penalty = 0.3f;
      options.logit_bias = BIAS;
      options.logit_bias_count = TN_COUNT(BIAS);
      break;
    case 6:
      options.stop = STOPS;
      options.stop_count = TN_COUNT(STOPS);
      break;
    case 7:
      options.messages_json = PEOPLE;
      options.json_schema = SCHEMA;
      break;
    case 8:
      options.messages_json = PEOPLE;
      options.json_schema = SCHEMA;
      options.temperature = 1;
      break;
    case 9: options.grammar = GRAMMAR; break;
    case 10:
      options.temperature = 1;
      options.min_tokens = TOKENS / 2;
      options.ignore_eos = 1;
      break;
    default:
      options.messages_json = "[{\"role\": \"user\", \"content\": \"What is 2 + 3?\"}]";
      options.pattern = "(a+b[0-9]){3,8}";
      options.temperature = 1;
  }
  return options;
}

/* Everything that a request puts out, as text. */
static char *outputs_of(tn_request *request) {
  tn_output output = TN_OUTPUT;
  tn_buf all;
  tn_buf_init(&all);
  do {
    if (tn_request_next(request, &output, UINT64_MAX) != TN_OK) fail_msg("no output");
    tn_buf_printf(&all, "%u %d %a %u %u '%s'", output.kind, output.token, (double)output.logprob, output.finish,
                  output.completion_tokens, output.text);
    for (uint32_t i = 0; i < output.top_count; i++)
      tn_buf_printf(&all, " %d %a", output.top[i].token, (double)output.top[i].logprob);
    tn_buf_printf(&all, "\n");
  } while (output.kind != TN_OUTPUT_DONE && output.kind != TN_OUTPUT_ERROR);
  if (output.kind == TN_OUTPUT_ERROR) fail_msg("%s", output.error.message);
  tn_request_destroy(request);
  return tn_buf_take(&all);
}

/* All requests at once, four of them running together. */
static tn_engine_info check(const tn_model *model, tn_engine_options options, char **wanted) {
  options.max_sequences = 4;
  options.context = 512;
  tn_engine *engine = must_start(model, &options);
  tn_request *requests[KINDS];
  tn_engine_info info = TN_ENGINE_INFO;
  for (uint32_t i = 0; i < KINDS; i++) {
    const tn_request_options request = options_of(i);
    requests[i] = must_submit(engine, &request);
  }
  for (uint32_t i = 0; i < KINDS; i++) {
    char *got = outputs_of(requests[i]);
    if (!wanted[i]) {
      wanted[i] = got;
      continue;
    }
    if (strcmp(got, wanted[i]) != 0)
      fail_msg("request %u with \"%s\", k %u:\n%s\nwithout:\n%s", i, options.draft, options.draft_k, got, wanted[i]);
    free(got);
  }
  tn_engine_describe(engine, &info);
  assert_int_equal(info.pages_used, 0);
  assert_int_equal(info.draft_pages_used, 0);
  tn_engine_destroy(engine);
  return info;
}

static void outputs_are_the_same(void **state) {
  const char *path = getenv("TENON_TEST_MODEL");
  char drafter[64];
  tn_model *model;
  tn_error error;
  char *wanted[KINDS] = {NULL};
  (void)state;
  assert_non_null(path);
  snprintf(drafter, sizeof drafter, "/tmp/tenon-drafter-%d.gguf", (int)getpid());
  if (truncate_model(path, 5, drafter, &error) != TN_OK) fail_msg("%s", error.message);
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_engine_options options = TN_ENGINE_OPTIONS;
  check(model, options, wanted);
  options.draft = "ngram";
  check(model, options, wanted);
  options.draft_k = 6;
  tn_engine_info info = check(model, options, wanted);
  assert_true(info.accepted_tokens > 10 && info.accepted_tokens < info.drafted_tokens);
  options.draft = drafter;
  options.draft_k = 3;
  info = check(model, options, wanted);
  assert_true(info.accepted_tokens > 10 && info.accepted_tokens < info.drafted_tokens);
  options.draft_device = "cpu,threads=1";
  check(model, options, wanted);
  unlink(drafter);
  for (uint32_t i = 0; i < KINDS; i++) free(wanted[i]);
  tn_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(outputs_are_the_same)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
