/* Placements: how they are read and what is wrong with those that are refused; layers spread by memory over a part of
 * four small sessions (module_sessions.c); caches on disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/placement.h"
#include "engine/runner.h"
#include "equalities.h"
#include "support/engine.h"
#include "tenon/tenon.h"

#define LAYERS 6u

/* What is placed where: a digit for each layer, then where the ops before and behind them go; and the specs. */
static void expect(const char *text, const char *rest, const char *numbers, const char *specs) {
  tn_placement placement;
  tn_error error = {0};
  if (tn_placement_parse(text, rest, LAYERS, &placement, &error) != TN_OK) fail_msg("%s: %s", text, error.message);
  char got[LAYERS + 3] = {0}, all[200] = "";
  for (uint32_t i = 0; i < LAYERS; i++) got[i] = (char)('0' + placement.layers[i]);
  got[LAYERS] = (char)('0' + placement.wanted.before);
  got[LAYERS + 1] = (char)('0' + placement.wanted.behind);
  for (uint32_t i = 0; i < placement.spec_count; i++) {
    if (i) strcat(all, "|");
    strcat(all, placement.specs[i]);
  }
  assert_string_equal(got, numbers);
  assert_string_equal(all, specs);
  tn_placement_finish(&placement);
}

static void refuse(const char *text, const char *rest, const char *why) {
  tn_placement placement;
  tn_error error = {0};
  assert_int_not_equal(tn_placement_parse(text, rest, LAYERS, &placement, &error), TN_OK);
  if (!strstr(error.message, why)) fail_msg("%s: \"%s\", expected \"%s\"", text, error.message, why);
}

static void lists_are_read(void **state) {
  (void)state;
  expect("rest=cpu", NULL, "00000000", "cpu");
  expect("layers 0-2=a:0,3-5=a:1", NULL, "00011101", "a:0|a:1");
  expect("layers 0-2=a:0,3-5=a:1,rest=cpu", NULL, "00011122", "a:0|a:1|cpu");
  expect("layers 1-2=a:0", "b,x=1", "10011111", "a:0|b,x=1");
  expect(" layer 5 = b , 0-4=a,x=1,y=2,rest=c,z=3 ", NULL, "11111022", "b|a,x=1,y=2|c,z=3");
  expect("0=a,x=1,1=b,2-5=a,x=1", NULL, "01000000", "a,x=1|b");
  expect("0-5=faulty:./a=b.so:1,fail-copy=3", NULL, "00000000", "faulty:./a=b.so:1,fail-copy=3");
  expect("0=a,restless=1,rest=b", NULL, "01111111", "a,restless=1|b");
}

static void what_is_wrong_is_told(void **state) {
  (void)state;
  refuse("", NULL, "at 1: expected");
  refuse("0-5", NULL, "\"0-5\" at 1: expected");
  refuse("cpu", NULL, "at 1: expected");
  refuse("0-2=a,3-=b", NULL, "\"3-=b\" at 7: expected");
  refuse("0-2=a,rest", NULL, "\"rest\" at 7: expected");
  refuse("0-5=", NULL, "at 1: names no device");
  refuse("0-2= ,3-5=a", NULL, "at 1: names no device");
  refuse("0-6=a", NULL, "layers 0-6 at 1: the model has layers 0 to 5");
  refuse("9999999=a", NULL, "expected");
  refuse("0=a,4-3=b", NULL, "layers 4-3 at 5: they end before they begin");
  refuse("0-3=a,3-5=b", NULL, "layers 3-5 at 7: layer 3 has a device already");
  refuse("0-1=a,3-5=b", NULL, "layer 2 of 0 to 5 has no device");
  refuse("rest=a,rest=b", NULL, "rest at 8: it has a device already");
  refuse("0=a,rest=b", "c", "it has a device already, c");
  refuse("rest=a,0=b0,1=b1,2=b2,3=b3,4=b4,5=b5", "c", "it has a device already");
  tn_placement placement;
  tn_error error = {0};
  assert_int_equal(tn_placement_parse("0=0,1=1,2=2,3=3,4=4,5=5,6=6,7=7,8=8", NULL, 9, &placement, &error), TN_E_LIMIT);
}

/* ---- by memory ---- */

#define SESSIONS TEST_MODULES "/module-device-sessions.so"
#define TOKENS 40u

static tn_status start(const char *device, const char *place, bool fit_pages, tn_model **model, tn_runner **runner,
                       tn_error *error) {
  const tn_runner_options options = {.device = device,
                                     .place = place,
                                     .max_rows = 32,
                                     .max_sequences = 8,
                                     .max_context = 64,
                                     .pages = 16,
                                     .fit_pages = fit_pages};
  equal_ok(tn_model_open(TEST_DATA "/golden/llama/model.gguf", model, error), error);
  return tn_runner_create(*model, &options, runner, error);
}

/* The logits of some tokens on a device, which the caller frees; how many devices and pages there were. */
static float *run(const char *device, const char *place, uint32_t *devices, uint32_t *pages) {
  tn_model *model;
  tn_runner *runner;
  tn_error error = {0};
  int32_t tokens[TOKENS];
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)(i * 37u % 300u);
  equal_ok(start(device, place, place != NULL, &model, &runner, &error), &error);
  for (*devices = 0; tn_runner_device_name(runner, *devices);) ++*devices;
  *pages = tn_runner_describe(runner)->pages;
  float *logits = equal_run(runner, tokens, TOKENS, 7, 0);
  tn_runner_destroy(runner);
  tn_model_close(model);
  return logits;
}

static void layers_are_spread_by_memory(void **state) {
  (void)state;
  static const struct {
    const char *device;
    uint32_t devices;
  } parts[] = {{SESSIONS ",bytes=4000000", 1}, {SESSIONS ",bytes=800000", 2}, {SESSIONS ",bytes=600000", 3}};
  uint32_t devices, pages;
  float *whole = run("reference", NULL, &devices, &pages);
  for (size_t i = 0; i < TN_COUNT(parts); i++) {
    float *spread = run(parts[i].device, "auto", &devices, &pages);
    assert_int_equal(devices, parts[i].devices);
    assert_int_equal(pages, 16);
    assert_memory_equal(spread, whole, TOKENS * 320 * sizeof(float));
    free(spread);
  }
  free(whole);
}

static void what_does_not_fit_is_refused_with_the_numbers(void **state) {
  (void)state;
  tn_model *model;
  tn_runner *runner;
  tn_error error = {0};
  assert_int_equal(start(SESSIONS ",bytes=200000", "auto", true, &model, &runner, &error), TN_E_MEMORY);
  assert_non_null(strstr(error.message, "bytes are needed (weights 534336"));
  assert_non_null(strstr(error.message, "800000 are free, 200000 on the first"));
  tn_model_close(model);
  assert_int_equal(start(SESSIONS ":1", "auto", true, &model, &runner, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "names one of them"));
  tn_model_close(model);
  /* one session alone, without auto: the device says what it lacks */
  assert_int_equal(start(SESSIONS ",bytes=300000", NULL, true, &model, &runner, &error), TN_E_MEMORY);
  assert_non_null(strstr(error.message, "free in this session"));
  tn_model_close(model);
}

/* Pages that nobody asked for are cut to what is there; those that were asked for are not. */
static void pages_are_cut_to_what_fits(void **state) {
  (void)state;
  tn_model *model;
  tn_runner *runner;
  tn_error error = {0};
  equal_ok(start(SESSIONS ",bytes=760000", NULL, true, &model, &runner, &error), &error);
  assert_in_range(tn_runner_describe(runner)->pages, 1, 15);
  tn_runner_destroy(runner);
  tn_model_close(model);
  assert_int_equal(start(SESSIONS ",bytes=760000", NULL, false, &model, &runner, &error), TN_E_MEMORY);
  tn_model_close(model);
}

/* ---- the cache on disk ---- */

/* Runs a prompt of 80 tokens, its cache loaded from `path` before; how many of its tokens were found, and what the
 * first token of the answer is. */
static tn_engine *run_prompt(const tn_model *model, const char *place, const char *path, tn_status *loaded,
                             uint32_t *cached, int32_t *first) {
  tn_error error;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.place = place;
  options.context = 128;
  options.max_sequences = 1;
  tn_engine *engine = must_start(model, &options);
  *loaded = path ? tn_engine_load_cache(engine, path, &error) : TN_OK;
  int32_t prompt[80];
  for (uint32_t i = 0; i < TN_COUNT(prompt); i++) prompt[i] = (int32_t)(i * 37u % 300u);
  tn_request_options wanted = TN_REQUEST_OPTIONS;
  wanted.tokens = prompt;
  wanted.token_count = TN_COUNT(prompt);
  wanted.max_tokens = 1;
  wanted.ignore_eos = 1;
  tn_request *request = must_submit(engine, &wanted);
  tn_output output = TN_OUTPUT;
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT)
    if (output.token >= 0) *first = output.token;
  assert_int_equal(output.kind, TN_OUTPUT_DONE);
  *cached = output.cached_tokens;
  tn_request_destroy(request);
  return engine;
}

/* Pages of all devices are saved and found again; where layers lie otherwise they are refused. */
static void a_cache_on_disk_is_of_its_placement(void **state) {
  (void)state;
  static const char here[] = "0=reference,private-memory=1,rest=cpu", there[] = "1=reference,private-memory=1,rest=cpu";
  static const char *const models[] = {"llama", "qwen35"};
  char path[300];
  tn_error error;
  for (size_t m = 0; m < TN_COUNT(models); m++) {
    tn_model *model;
    tn_status loaded;
    uint32_t cached;
    int32_t wanted = -1, got = -1;
    snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, models[m]);
    equal_ok(tn_model_open(path, &model, &error), &error);
    snprintf(path, sizeof path, "placement-%s.cache", models[m]);
    tn_engine *engine = run_prompt(model, here, NULL, &loaded, &cached, &wanted);
    assert_int_equal(cached, 0);
    equal_ok(tn_engine_save_cache(engine, path, &error), &error);
    tn_engine_destroy(engine);
    engine = run_prompt(model, here, path, &loaded, &cached, &got);
    assert_int_equal(loaded, TN_OK);
    assert_true(cached >= 64);
    assert_int_equal(got, wanted);
    tn_engine_destroy(engine);
    engine = run_prompt(model, there, path, &loaded, &cached, &got);
    assert_int_equal(loaded, TN_E_UNSUPPORTED);
    assert_int_equal(cached, 0);
    tn_engine_destroy(engine);
    remove(path);
    tn_model_close(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_read),
      cmocka_unit_test(what_is_wrong_is_told),
      cmocka_unit_test(layers_are_spread_by_memory),
      cmocka_unit_test(what_does_not_fit_is_refused_with_the_numbers),
      cmocka_unit_test(pages_are_cut_to_what_fits),
      cmocka_unit_test(a_cache_on_disk_is_of_its_placement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
