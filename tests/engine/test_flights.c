/* Two steps in flight on real models: while the first one runs a second one is made and submitted, also of the same
 * sequence, whose rows then stand behind those in flight. Logits are, as bytes, those of one row after the other on a
 * runner that doesn't overlap, and pages add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "equalities.h"
#include "accounting.h"
#include "base/os.h"
#include "model/model.h"
#include "support/engine.h"
#include "support/parrot.h"

#define TOKENS 90u

static tn_runner *must_make(const tn_model *model, const char *device, const char *overlap) {
  tn_error error;
  tn_runner *runner;
  const tn_runner_options options = {.device = device,
                                     .max_rows = 64,
                                     .max_sequences = 8,
                                     .max_context = 128,
                                     .pages = 40,
                                     .state_slots = 24,
                                     .overlap = overlap};
  if (tn_runner_create(model, &options, &runner, &error) != TN_OK) fail_msg("%s", error.message);
  return runner;
}

static void compare_step(const tn_step *step, const float *alone, uint32_t first, uint32_t count) {
  uint32_t vocabulary = step->kv->info.vocabulary;
  for (uint32_t i = 0; i < count; i++)
    equal_compare(tn_step_logits(step, 0, i), alone + (size_t)(first + i) * vocabulary, vocabulary, "flight",
                  first + i);
}

/* Steps of a sequence, two in flight all the time. */
static void chain(tn_runner *runner, const int32_t *tokens, const float *alone) {
  tn_error error;
  tn_kv kv;
  tn_step steps[3];
  tn_ledger ledger;
  equal_ok(tn_kv_init(&kv, runner, NULL, &error), &error);
  for (uint32_t i = 0; i < 3; i++) equal_ok(tn_step_init(&steps[i], &kv, &error), &error);
  equal_ok(tn_ledger_init(&ledger, &kv, TOKENS, &error), &error);
  uint32_t submitted = 0, landed = 0, added = 0, firsts[2], counts[2];
  while (landed < submitted || added < TOKENS) {
    if (submitted - landed < 2 && added < TOKENS) {
      uint32_t at = submitted % 2, count = 1 + submitted * 5 % 17;
      if (count > TOKENS - added) count = TOKENS - added;
      tn_step_begin(&steps[at]);
      equal_ok(tn_step_add(&steps[at], &ledger, tokens + added, count, 0, NULL, &error), &error);
      equal_ok(tn_step_submit(&steps[at], &error), &error);
      firsts[at] = added;
      counts[at] = count;
      added += count;
      submitted++;
      check_accounting(&kv, &ledger, 1);
      continue;
    }
    uint32_t at = landed++ % 2;
    equal_ok(tn_step_wait(&steps[at], &error), &error);
    compare_step(&steps[at], alone, firsts[at], counts[at]);
    tn_step_commit(&steps[at], 0);
    assert_int_equal(ledger.length, firsts[at] + counts[at]);
    check_accounting(&kv, &ledger, 1);
  }
  assert_int_equal(ledger.in_flight, 0);
  tn_ledger_finish(&ledger);
  for (uint32_t i = 0; i < 3; i++) tn_step_finish(&steps[i]);
  tn_kv_finish(&kv);
}

/* Two sequences in turn; a third step finds no room; one that is given up leaves nothing behind. */
static void take_turns(tn_runner *runner, const int32_t *tokens, const float *alone) {
  tn_error error;
  tn_kv kv;
  tn_step steps[3];
  tn_ledger ledgers[3];
  equal_ok(tn_kv_init(&kv, runner, NULL, &error), &error);
  for (uint32_t i = 0; i < 3; i++) {
    equal_ok(tn_step_init(&steps[i], &kv, &error), &error);
    equal_ok(tn_ledger_init(&ledgers[i], &kv, TOKENS, &error), &error);
    equal_ok(tn_step_add(&steps[i], &ledgers[i], tokens, 10 + i, 0, NULL, &error), &error);
    assert_int_equal(tn_step_submit(&steps[i], &error), i < 2 ? TN_OK : TN_E_BUSY);
  }
  assert_int_equal(ledgers[2].page_count, 0);
  for (uint32_t i = 0; i < 2; i++) {
    const float *logits;
    tn_status status = tn_runner_wait(runner, tn_clock_ns(), &logits, &error);
    while (status == TN_E_TIMEOUT) status = tn_runner_wait(runner, UINT64_MAX, &logits, &error);
    equal_ok(status, &error);
    steps[i].logits = logits;
    compare_step(&steps[i], alone, 0, 10 + i);
    if (i)
      tn_step_rollback(&steps[i], 0);
    else
      tn_step_commit(&steps[i], 0);
    check_accounting(&kv, ledgers, 3);
  }
  assert_int_equal(ledgers[0].length, 10);
  assert_int_equal(ledgers[1].page_count + ledgers[1].in_flight, 0);
  for (uint32_t i = 0; i < 3; i++) {
    tn_ledger_finish(&ledgers[i]);
    tn_step_finish(&steps[i]);
  }
  tn_kv_finish(&kv);
}

static void check_model(const char *name, const char *device, bool recurs) {
  char path[300];
  tn_model *model;
  tn_error error;
  int32_t tokens[TOKENS];
  snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_runner *plain = must_make(model, device, "off"), *runner = must_make(model, device, "on");
  assert_false(tn_runner_describe(plain)->overlaps);
  assert_true(tn_runner_describe(runner)->overlaps);
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)(i * 37 % tn_runner_describe(runner)->vocabulary);
  float *alone = equal_run(plain, tokens, TOKENS, 1, 0);
  equal_batch(runner, tokens, TOKENS, alone);
  if (!recurs) chain(runner, tokens, alone);
  take_turns(runner, tokens, alone);
  free(alone);
  tn_runner_destroy(plain);
  tn_runner_destroy(runner);
  tn_model_close(model);
}

static void holds_on_cpu(void **state) {
  (void)state;
  check_model("llama", "cpu", false);
  check_model("gemma3", "cpu", false);
  check_model("qwen35", "cpu", true);
}

static void holds_in_private_memory(void **state) {
  (void)state;
  check_model("llama", "reference,private-memory=1", false);
  check_model("gemma3", "reference,private-memory=1", false);
}

/* ---- texts that wait ---- */

#define FILE_NAME "flights-parrot.gguf"
#define ASKED 12u

typedef struct heard {
  char text[400];
  uint32_t finish, completion_tokens, stop_string;
} heard;

/* Requests that end in every way a text can: by a stop string within and across tokens, by a pattern that is complete,
 * by the script's end, by their number of tokens; some at temperature 1 from a model that is sure. */
static tn_request *ask(tn_engine *engine, uint32_t number, const char *name) {
  static const char *const stops[][2] = {{"mma d", "never"}, {"never", "beta"}, {"zeta", " zeta"}};
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.prompt = name;
  options.max_tokens = number % 4 == 3 ? 5 + number : 40;
  options.temperature = number % 2 ? 1.0f : 0.0f;
  options.top_k = 1;
  if (number % 4 == 0) {
    options.stop = stops[number / 4 % 3];
    options.stop_count = 2;
  }
  if (number % 4 == 1) options.pattern = number > 6 ? "alpha be(ta)? gamma delta" : "alpha ([a-z]+ )*";
  return must_submit(engine, &options);
}

static void hear(tn_request *request, heard *got) {
  tn_output output = TN_OUTPUT;
  memset(got, 0, sizeof *got);
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT)
    strncat(got->text, output.text, sizeof got->text - strlen(got->text) - 1);
  if (output.kind != TN_OUTPUT_DONE) fail_msg("%s", output.error.message);
  got->finish = output.finish;
  got->completion_tokens = output.completion_tokens;
  got->stop_string = output.stop_string;
  tn_request_destroy(request);
}

static void texts_can_wait(void **state) {
  (void)state;
  static const char *const words[] = {"al", "pha",   " beta", " gam",  "ma",  " del",
                                      "ta", " epsi", "lon",   " zeta", " eta"};
  static heard got[2][ASKED];
  static const char *const ways[] = {"off", "on"};
  char name[16];
  parrot p;
  tn_model *model;
  tn_error error;
  parrot_init(&p);
  parrot_begin(&p, name);
  for (size_t i = 0; i < TN_COUNT(words); i++) parrot_say(&p, words[i], strlen(words[i]), false);
  parrot_end(&p);
  parrot_write(&p, FILE_NAME, "");
  parrot_finish(&p);
  if (tn_model_open(FILE_NAME, &model, &error) != TN_OK) fail_msg("%s", error.message);
  for (uint32_t way = 0; way < 2; way++) {
    tn_engine_options options = TN_ENGINE_OPTIONS;
    options.overlap = ways[way];
    options.max_sequences = 5;
    options.chunk = 6;
    tn_engine *engine = must_start(model, &options);
    tn_request *requests[ASKED];
    for (uint32_t i = 0; i < ASKED; i++) requests[i] = ask(engine, i, name);
    for (uint32_t i = 0; i < ASKED; i++) hear(requests[i], &got[way][i]);
    tn_engine_info info = TN_ENGINE_INFO;
    do tn_engine_describe(engine, &info);
    while (info.running || info.waiting);
    assert_int_equal(info.pages_used, 0);
    assert_int_equal(info.overlaps, way);
    tn_engine_destroy(engine);
  }
  for (uint32_t i = 0; i < ASKED; i++) {
    assert_string_equal(got[1][i].text, got[0][i].text);
    assert_memory_equal(&got[1][i], &got[0][i], sizeof got[0][i]);
  }
  assert_string_equal(got[0][0].text, "alpha beta ga");
  assert_int_equal(got[0][0].stop_string, 1);
  assert_string_equal(got[0][4].text, "alpha ");
  assert_string_equal(got[0][9].text, "alpha beta gamma delta");
  assert_int_equal(got[0][9].finish, TN_FINISH_STOP);
  assert_int_equal(got[0][2].completion_tokens, TN_COUNT(words) + 1);
  tn_model_close(model);
  remove(FILE_NAME);
}

static void other_words_are_refused(void **state) {
  (void)state;
  tn_model *model;
  tn_runner *runner;
  tn_error error;
  const tn_runner_options options = {
      .max_rows = 8, .max_sequences = 1, .max_context = 64, .pages = 2, .overlap = "sometimes"};
  assert_int_equal(tn_model_open(TEST_DATA "/golden/llama/model.gguf", &model, &error), TN_OK);
  assert_int_equal(tn_runner_create(model, &options, &runner, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "sometimes"));
  tn_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_on_cpu),
      cmocka_unit_test(holds_in_private_memory),
      cmocka_unit_test(texts_can_wait),
      cmocka_unit_test(other_words_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
