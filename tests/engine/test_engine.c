/* The engine's thread and the public functions around it, over a runner without a model. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "count_allocations.h"
#include "fake_runner.h"
#include "base/os.h"
#include "engine/engine.h"

static const fake_config PLAIN = {
    .max_rows = 64, .max_sequences = 4, .max_logits_rows = 64, .max_context = 2048, .pages = 128, .group_count = 1};
static const tn_vocabulary VOCABULARY = {.size = FAKE_VOCABULARY};

static bool overlaps; /* the runner does */

static tn_engine *start(uint32_t queue) {
  fake_config config = PLAIN;
  config.overlaps = overlaps;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.queue = queue;
  tn_engine *engine;
  tn_error error;
  if (tn_engine_start(fake_create(&config), (tn_engine_drafting){0}, NULL, &VOCABULARY, &options, &engine, &error) !=
      TN_OK)
    fail_msg("%s", error.message);
  return engine;
}

static tn_request *submit(tn_engine *engine, int32_t first, uint32_t count, uint32_t max_tokens) {
  int32_t tokens[600];
  for (uint32_t i = 0; i < count; i++) tokens[i] = (first + (int32_t)i) % (int32_t)FAKE_VOCABULARY;
  tn_request_options options = TN_REQUEST_OPTIONS;
  options.tokens = tokens;
  options.token_count = count;
  options.max_tokens = max_tokens;
  tn_request *request;
  tn_error error;
  if (tn_engine_submit(engine, &options, &request, &error) != TN_OK) fail_msg("%s", error.message);
  return request;
}

static uint32_t pull_all(tn_request *request, tn_output *last) {
  uint32_t count = 0;
  while (tn_request_next(request, last, UINT64_MAX) == TN_OK && last->kind == TN_OUTPUT_TEXT) count++;
  return count;
}

typedef struct client {
  tn_engine *engine;
  uint32_t done, wrong;
} client;

static void run_client(void *argument) {
  client *self = argument;
  for (uint32_t i = 0; i < 20; i++) {
    tn_request *request = submit(self->engine, (int32_t)i, 10 + i * 3, 20);
    if (i % 4 == 1) tn_request_cancel(request);
    if (i % 4 == 3) {
      tn_request_destroy(request);
      continue;
    }
    tn_output last = TN_OUTPUT, again = TN_OUTPUT;
    uint32_t count = pull_all(request, &last);
    self->wrong += last.completion_tokens != count;
    self->wrong += last.finish != TN_FINISH_LENGTH && last.finish != TN_FINISH_CANCELLED;
    self->wrong += tn_request_next(request, &again, 0) != TN_OK || again.finish != last.finish;
    self->done++;
    tn_request_destroy(request);
  }
}

static void requests_of_many_threads(void **state) {
  (void)state;
  tn_engine *engine = start(0);
  client clients[6];
  tn_thread *threads[6];
  for (int i = 0; i < 6; i++) {
    clients[i] = (client){.engine = engine};
    threads[i] = tn_thread_start("client", run_client, &clients[i]);
    assert_non_null(threads[i]);
  }
  for (int i = 0; i < 6; i++) {
    tn_thread_join(threads[i]);
    assert_int_equal(clients[i].done, 15);
    assert_int_equal(clients[i].wrong, 0);
  }
  tn_engine_info info = TN_ENGINE_INFO;
  for (int i = 0; i < 1000; i++) { /* those destroyed may need one more step */
    tn_engine_describe(engine, &info);
    if (info.running + info.waiting == 0) break;
    tn_sleep_ns(1000000);
  }
  assert_int_equal(info.running + info.waiting, 0);
  assert_int_equal(info.pages_used, 0);
  assert_int_equal(info.pages, 128);
  assert_int_equal(info.context, 2048);
  assert_true(info.steps > 0 && info.rows > info.steps && info.cached_tokens > 0);
  tn_engine_destroy(engine);
}

typedef struct heard {
  tn_mutex *lock;
  tn_request *request;
  uint32_t texts, ends, cancel_at;
  tn_output last;
} heard;

static void hear(void *context, const tn_output *output) {
  heard *heard_so_far = context;
  tn_mutex_lock(heard_so_far->lock);
  if (output->kind == TN_OUTPUT_TEXT) {
    if (++heard_so_far->texts == heard_so_far->cancel_at) tn_request_cancel(heard_so_far->request);
  } else {
    heard_so_far->ends++;
    heard_so_far->last = *output;
  }
  tn_mutex_unlock(heard_so_far->lock);
}

/* Of a smaller, older tn_output only what it has is written; and whoever heard the end finds the pages given back. */
static void ends_are_told_when_they_are(void **state) {
  (void)state;
  tn_engine *engine = start(0);
  for (int round = 0; round < 50; round++) {
    tn_output output;
    memset(&output, 0x5a, sizeof output);
    output.size = offsetof(tn_output, finish);
    tn_request *request = submit(engine, round, 40, 3);
    while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
    }
    assert_int_equal(output.size, offsetof(tn_output, finish));
    assert_int_equal(output.finish, 0x5a5a5a5a);
    tn_engine_info info = TN_ENGINE_INFO;
    tn_engine_describe(engine, &info);
    assert_int_equal(info.running + info.waiting + info.pages_used, 0);
    tn_request_destroy(request);
  }
  tn_engine_destroy(engine);
}

static void callbacks_hear_everything(void **state) {
  (void)state;
  tn_engine *engine = start(0);
  for (uint32_t cancel_at = 0; cancel_at < 6; cancel_at += 5) {
    heard context = {.lock = tn_mutex_create(), .cancel_at = cancel_at};
    const int32_t tokens[] = {1, 2, 3};
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.tokens = tokens;
    options.token_count = 3;
    options.max_tokens = 50;
    options.on_output = hear;
    options.context = &context;
    tn_mutex_lock(context.lock);
    assert_int_equal(tn_engine_submit(engine, &options, &context.request, NULL), TN_OK);
    tn_mutex_unlock(context.lock);
    tn_output last = TN_OUTPUT;
    assert_int_equal(tn_request_next(context.request, &last, UINT64_MAX), TN_OK); /* the end alone can be pulled */
    assert_int_equal(last.kind, TN_OUTPUT_DONE);
    assert_int_equal(context.ends, 1);
    assert_int_equal(context.texts, cancel_at ? cancel_at : 50);
    assert_int_equal(context.last.finish, cancel_at ? TN_FINISH_CANCELLED : TN_FINISH_LENGTH);
    tn_request_destroy(context.request);
    tn_mutex_destroy(context.lock);
  }
  tn_engine_destroy(engine);
}

/* After destroy returns, the callback is never called again. */
static void destroy_silences_the_callback(void **state) {
  (void)state;
  tn_engine *engine = start(0);
  for (int round = 0; round < 20; round++) {
    heard *context = malloc(sizeof *context);
    *context = (heard){.lock = tn_mutex_create()};
    const int32_t tokens[] = {1, 2, 3};
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.tokens = tokens;
    options.token_count = 3;
    options.max_tokens = 1000;
    options.on_output = hear;
    options.context = context;
    tn_request *request;
    assert_int_equal(tn_engine_submit(engine, &options, &request, NULL), TN_OK);
    tn_sleep_ns(100000);
    tn_request_destroy(request);
    tn_mutex_destroy(context->lock);
    memset(context, 0xee, sizeof *context);
    free(context);
  }
  tn_engine_destroy(engine);
}

static void full_queue_is_busy(void **state) {
  (void)state;
  tn_engine *engine = start(2);
  tn_request *requests[64];
  uint32_t taken = 0, refused = 0;
  tn_error error = {0};
  while (taken < 64 && !refused) {
    const int32_t tokens[] = {1, 2, 3};
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.tokens = tokens;
    options.token_count = 3;
    tn_status status = tn_engine_submit(engine, &options, &requests[taken], &error);
    if (status == TN_OK) {
      taken++;
    } else {
      assert_int_equal(status, TN_E_BUSY);
      refused++;
    }
  }
  assert_int_equal(refused, 1);
  assert_true(taken >= PLAIN.max_sequences + 2); /* all at once: those that run, and those that wait */
  for (uint32_t i = 0; i < taken; i++) tn_request_destroy(requests[i]);
  tn_engine_destroy(engine);
}

static void wrong_requests_are_refused(void **state) {
  (void)state;
  tn_engine *engine = start(0);
  const int32_t tokens[] = {1, 2, 99};
  tn_request *request;
  tn_error error;
  tn_request_options options = TN_REQUEST_OPTIONS;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  assert_int_equal(tn_engine_submit(engine, NULL, &request, &error), TN_E_INVALID);
  options.tokens = tokens;
  options.token_count = 3;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "99"));
  options.token_count = 2;
  options.prompt = "both";
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  options.tokens = NULL;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_UNSUPPORTED);
  options.prompt = NULL;
  options.tokens = tokens;
  options.temperature = -1;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  options.temperature = 0;
  const char *stop = "x";
  options.stop = &stop;
  options.stop_count = 1;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  stop = NULL;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "stop: text 0 is NULL"));
  options.stop = NULL;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "stop is NULL"));
  options.stop_count = 0;
  options.logit_bias_count = 2;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "logit_bias is NULL"));
  options.logit_bias_count = 0;
  char salt[(1 << 16) + 2];
  memset(salt, 's', sizeof salt - 1);
  salt[sizeof salt - 1] = 0;
  options.cache_salt = salt;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_LIMIT);
  assert_non_null(strstr(error.message, "cache_salt: 65537 bytes"));
  options.cache_salt = NULL;
  options.choice_count = 2;
  assert_int_equal(tn_engine_submit(engine, &options, &request, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "choices is NULL"));
  assert_null(request);
  tn_engine_destroy(engine);
}

static void waiting_has_a_limit(void **state) {
  (void)state;
  tn_engine *engine = start(0);
  tn_request *request = submit(engine, 0, 500, 0);
  tn_output output = TN_OUTPUT;
  uint64_t begin = tn_clock_ns();
  while (tn_request_next(request, &output, 0) == TN_OK && output.kind == TN_OUTPUT_TEXT) {
  }
  pull_all(request, &output);
  assert_true(output.queue_ns + output.prefill_ns + output.decode_ns <= tn_clock_ns() - begin + 1000000000u);
  assert_int_equal(output.prompt_tokens, 500);
  assert_int_equal(output.completion_tokens, 2048 - 500);
  tn_request_destroy(request);
  tn_engine_destroy(engine);
}

/* Between a request's second token and its last nothing is allocated in the whole process. */
static void steps_allocate_nothing(void **state) {
  (void)state;
  if (!COUNTS_ALLOCATIONS) skip();
  tn_engine *engine = start(0);
  tn_request *requests[3];
  for (int i = 0; i < 3; i++) requests[i] = submit(engine, i, 100 + 50 * (uint32_t)i, 400);
  tn_output output = TN_OUTPUT;
  unsigned before = 0;
  for (int i = 0; i < 3; i++) {
    tn_request_next(requests[i], &output, UINT64_MAX);
    tn_request_next(requests[i], &output, UINT64_MAX);
  }
  before = atomic_load(&allocations);
  assert_true(before > 0);
  for (int i = 0; i < 3; i++) pull_all(requests[i], &output);
  assert_int_equal(atomic_load(&allocations), before);
  for (int i = 0; i < 3; i++) tn_request_destroy(requests[i]);
  tn_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(requests_of_many_threads),  cmocka_unit_test(ends_are_told_when_they_are),
      cmocka_unit_test(callbacks_hear_everything), cmocka_unit_test(destroy_silences_the_callback),
      cmocka_unit_test(full_queue_is_busy),        cmocka_unit_test(wrong_requests_are_refused),
      cmocka_unit_test(waiting_has_a_limit),       cmocka_unit_test(steps_allocate_nothing),
  };
  int failed = cmocka_run_group_tests_name("one step after the other", tests, NULL, NULL);
  overlaps = true;
  return failed + cmocka_run_group_tests_name("steps in flight", tests, NULL, NULL);
}
