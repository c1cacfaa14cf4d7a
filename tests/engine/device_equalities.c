/* A placement as one device: tiny models with layers on either side of a border between devices, held to the
 * equalities (equalities.h) - steps of any rows, neighbours, prefixes, drafts and forks change no bit of a row, though
 * what a layer computes, its KV and its states are on different devices - and pages and states that reach every device
 * and come back whole. How near the numbers are to the right ones is device_logits.c's affair. A program that
 * ../devices.cmake makes tests of:
 *   device_equalities --place PLACEMENT --tokens N [MODEL...]
 * Without models: one of each kind of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/equalities.h"
#include "engine/runner.h"
#include "tenon/tenon.h"

#define MOST_TOKENS 90u
#define MOST_MODELS 16

/* Plain KV, windows, layers that attend to the KV of others, recurrent states, experts. */
static const char *const usual[] = {"llama", "gemma3", "gemma4-ple", "qwen35", "gptoss-mxfp4"};

typedef struct placed_test {
  const char *model, *place, *kv;
  uint32_t tokens;
} placed_test;

/* The bytes of a page, or of a state (`group` UINT32_MAX), over all devices. */
static void move(tn_runner *runner, uint32_t group, uint32_t number, void *bytes, bool to_host) {
  tn_error error;
  if (group != UINT32_MAX)
    equal_ok(to_host ? tn_runner_read_page(runner, group, number, bytes, &error)
                     : tn_runner_write_page(runner, group, number, bytes, &error),
             &error);
  else
    equal_ok(to_host ? tn_runner_read_state(runner, number, bytes, &error)
                     : tn_runner_write_state(runner, number, bytes, &error),
             &error);
}

/* What is written is read, every byte of it; in the end it holds what it held. */
static void write_over(tn_runner *runner, uint32_t group, uint32_t number, uint64_t size) {
  unsigned char *kept = malloc(size), *other = malloc(size), *got = malloc(size);
  move(runner, group, number, kept, true);
  for (uint64_t i = 0; i < size; i++) other[i] = (unsigned char)(kept[i] ^ (i % 255 + 1));
  move(runner, group, number, other, false);
  move(runner, group, number, got, true);
  assert_memory_equal(got, other, size);
  move(runner, group, number, kept, false);
  move(runner, group, number, got, true);
  assert_memory_equal(got, kept, size);
  free(kept);
  free(other);
  free(got);
}

/* In the middle of a sequence all its memory goes to the host and comes back. */
static void equal_moved(tn_runner *runner, const int32_t *tokens, uint32_t count, const float *alone) {
  tn_error error;
  tn_context context;
  equal_ok(tn_context_init(&context, runner, &(tn_kv_options){false, UINT64_MAX}, &error), &error);
  const tn_runner_info *info = &context.kv.info;
  const uint32_t vocabulary = info->vocabulary, half = count / 2;
  const tn_ledger *ledger = &context.ledger;
  equal_ok(tn_context_feed(&context, tokens, half, 9, half, NULL, NULL, &error), &error);
  for (uint32_t g = 0; g < info->group_count; g++)
    for (uint32_t i = ledger->freed[g]; i < ledger->page_count; i++)
      write_over(runner, g, ledger->tables[g][i], info->groups[g].page_bytes);
  if (info->state_bytes) write_over(runner, UINT32_MAX, ledger->state_read, info->state_bytes);
  equal_rows rows = {vocabulary, half, half, malloc((size_t)(count - half) * vocabulary * sizeof(float))};
  equal_ok(tn_context_feed(&context, tokens + half, count - half, 5, 0, equal_store, &rows, &error), &error);
  assert_int_equal(rows.next, count);
  for (uint32_t i = half; i < count; i++)
    equal_compare(rows.logits + (size_t)(i - half) * vocabulary, alone + (size_t)i * vocabulary, vocabulary, "moved",
                  i);
  free(rows.logits);
  tn_context_finish(&context);
}

static void holds_over_the_border(void **state) {
  const placed_test *test = *state;
  char path[512];
  tn_error error;
  tn_model *model;
  tn_runner *runner;
  snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, test->model);
  equal_ok(tn_model_open(path, &model, &error), &error);
  const tn_runner_options options = {.place = test->place,
                                     .kv = test->kv,
                                     .max_rows = 64,
                                     .max_sequences = 8,
                                     .max_context = 128,
                                     .pages = 32,
                                     .state_slots = 18,
                                     .snapshots = 3};
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  if (!tn_runner_device_name(runner, 1)) fail_msg("%s: not more than one device", test->place);
  int32_t tokens[MOST_TOKENS];
  for (uint32_t i = 0; i < test->tokens; i++) tokens[i] = (int32_t)((i * 37u + i * i) % 300u);
  float *alone = equal_all(runner, tokens, test->tokens);
  equal_moved(runner, tokens, test->tokens, alone);
  free(alone);
  tn_runner_destroy(runner);
  tn_model_close(model);
}

int main(int argc, char **argv) {
  static struct CMUnitTest tests[MOST_MODELS];
  static placed_test states[MOST_MODELS];
  static const char *const kv[] = {"f16", "int8"};
  bool is_sound = argc >= 5 && !strcmp(argv[1], "--place") && !strcmp(argv[3], "--tokens");
  uint32_t tokens = is_sound ? (uint32_t)atoi(argv[4]) : 0;
  if (tokens <= TN_PAGE_SLOTS || tokens > MOST_TOKENS || argc - 5 > MOST_MODELS) {
    fprintf(stderr, "usage: %s --place PLACEMENT --tokens N [MODEL...], %u to %u tokens\n", argv[0], TN_PAGE_SLOTS + 1,
            MOST_TOKENS);
    return 2;
  }
  size_t count = argc > 5 ? (size_t)argc - 5 : TN_COUNT(usual);
  for (size_t i = 0; i < count; i++) {
    states[i] = (placed_test){argc > 5 ? argv[5 + i] : usual[i], argv[2], kv[i % TN_COUNT(kv)], tokens};
    tests[i] =
        (struct CMUnitTest){.name = states[i].model, .test_func = holds_over_the_border, .initial_state = states + i};
  }
  return _cmocka_run_group_tests("device_equalities", tests, count, NULL, NULL);
}
