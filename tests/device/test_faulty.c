/* The faulty wrapper: every kind of call failed in turn, late completion, loss and reopening. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "support/tiny_model.h"

#define TOKENS 5
#define STEPS 3
static const int32_t tokens[TOKENS] = {3, 1, 4, 1, 5};
static const char *const kinds[] = {"alloc", "copy", "pack", "prepare", "execute", "synchronize"};

/* Opens, loads and runs in STEPS steps, 1 + 2 + 2 tokens. */
static tn_status run(tiny_rig *rig, const char *spec, float *logits, tn_error *error) {
  tn_status status = tiny_start(rig, spec, error);
  for (uint32_t i = 0; i < STEPS && status == TN_OK; i++) {
    uint32_t begin = i ? 2 * i - 1 : 0, count = i ? 2 : 1;
    status = tiny_step(rig, tokens, begin, count, UINT64_MAX, logits + begin * TINY_VOCABULARY, error);
  }
  return status;
}

static uint64_t calls(tn_opened_device *device, const char *kind) {
  char name[32];
  tn_property value;
  snprintf(name, sizeof name, "calls_%s", kind);
  assert_int_equal(tn_device_get(device, name, &value, NULL), TN_OK);
  return value.u64;
}

static void each_call_fails_in_turn(void **state) {
  (void)state;
  float want[TOKENS * TINY_VOCABULARY], logits[TOKENS * TINY_VOCABULARY];
  tiny_rig rig;
  tn_error error = {0};
  assert_int_equal(run(&rig, "faulty:reference", want, &error), TN_OK);
  uint64_t counts[TN_COUNT(kinds)];
  for (size_t k = 0; k < TN_COUNT(kinds); k++) counts[k] = calls(rig.device, kinds[k]);
  tiny_finish_rig(&rig);
  const uint64_t expected[] = {4, 1 + STEPS, TINY_WEIGHTS, 1, STEPS, STEPS};
  assert_memory_equal(counts, expected, sizeof counts);
  for (size_t k = 0; k < TN_COUNT(kinds); k++) {
    for (uint64_t n = 1; n <= counts[k] + 1; n++) {
      char spec[100], text[64];
      snprintf(spec, sizeof spec, "faulty:reference,private-memory=1,fail-%s=%d", kinds[k], (int)n);
      snprintf(text, sizeof text, "%s number %d fails, as asked for", kinds[k], (int)n);
      tn_status status = run(&rig, spec, logits, &error);
      if (n > counts[k]) {
        assert_int_equal(status, TN_OK);
        assert_memory_equal(logits, want, sizeof want);
      } else {
        assert_true(status < 0 && status == error.status);
        if (!strstr(error.message, text)) fail_msg("'%s' does not say '%s'", error.message, text);
        assert_non_null(strstr(error.message, "device faulty:reference: "));
      }
      tiny_finish_rig(&rig);
    }
  }
}

/* A failure is over after one call: the same device goes on. */
static void a_failed_step_can_be_repeated(void **state) {
  (void)state;
  float want[2 * TINY_VOCABULARY], logits[2 * TINY_VOCABULARY];
  tiny_rig rig;
  tn_error error = {0};
  const char *const specs[] = {"faulty:reference,fail-execute=2", "faulty:reference,fail-execute=2,late=1"};
  for (int late = 0; late < 2; late++) {
    assert_int_equal(tiny_start(&rig, specs[late], &error), TN_OK);
    assert_int_equal(tiny_step(&rig, tokens, 0, 2, UINT64_MAX, want, &error), TN_OK);
    uint8_t page[64], untouched[64];
    memset(untouched, 0xff, sizeof untouched);
    assert_int_equal(tn_device_fill(rig.device, rig.queue, rig.pages, 0, 0xff, TINY_PAGES * rig.page_bytes, &error),
                     TN_OK);
    assert_int_equal(tiny_step(&rig, tokens, 0, 2, UINT64_MAX, logits, &error), TN_E_IO);
    assert_int_equal(
        tn_device_copy_out(rig.device, rig.queue, page, rig.pages, tiny_pages[0] * rig.page_bytes, 64, &error), TN_OK);
    assert_int_equal(memcmp(page, untouched, sizeof page) != 0, late); /* did it work before it failed? */
    assert_int_equal(tiny_step(&rig, tokens, 0, 2, UINT64_MAX, logits, &error), TN_OK);
    assert_memory_equal(logits, want, sizeof want);
    tiny_finish_rig(&rig);
  }
}

static void garbage_is_an_internal_error(void **state) {
  (void)state;
  float logits[TOKENS * TINY_VOCABULARY];
  for (size_t k = 0; k < TN_COUNT(kinds); k++) {
    char spec[64];
    snprintf(spec, sizeof spec, "faulty:reference,garbage-%s=1", kinds[k]);
    tiny_rig rig;
    tn_error error = {0};
    assert_int_equal(run(&rig, spec, logits, &error), TN_E_INTERNAL);
    assert_non_null(strstr(error.message, "a status that does not exist"));
    tiny_finish_rig(&rig);
  }
}

static void late_work_meets_its_deadline(void **state) {
  (void)state;
  float logits[TINY_VOCABULARY];
  tiny_rig rig;
  tn_error error = {0};
  assert_int_equal(tiny_start(&rig, "faulty:reference,delay-ms=60", &error), TN_OK);
  uint64_t begin = tn_clock_ns();
  assert_int_equal(tiny_step(&rig, tokens, 0, 1, begin + 10000000, logits, &error), TN_E_TIMEOUT);
  assert_true(tn_clock_ns() - begin >= 10000000);
  assert_int_equal(tn_device_synchronize(rig.device, rig.queue, tn_clock_ns() + 1000000, &error), TN_E_TIMEOUT);
  assert_int_equal(tn_device_synchronize(rig.device, rig.queue, UINT64_MAX, &error), TN_OK);
  assert_true(tn_clock_ns() - begin >= 60000000);
  assert_int_equal(tn_device_synchronize(rig.device, rig.queue, 1, &error), TN_OK); /* nothing left to wait for */
  tiny_finish_rig(&rig);
}

static void a_lost_device_comes_back(void **state) {
  (void)state;
  float want[2 * TINY_VOCABULARY], logits[2 * TINY_VOCABULARY];
  tiny_rig rig;
  tn_error error = {0};
  tn_buffer *buffer;
  assert_int_equal(tiny_start(&rig, "faulty:reference,private-memory=1,lose-at=2", &error), TN_OK);
  assert_int_equal(tiny_step(&rig, tokens, 0, 2, UINT64_MAX, want, &error), TN_OK);
  assert_int_equal(tiny_step(&rig, tokens, 0, 2, UINT64_MAX, logits, &error), TN_E_DEVICE_LOST);
  assert_int_equal(tiny_step(&rig, tokens, 0, 2, UINT64_MAX, logits, &error), TN_E_DEVICE_LOST);
  assert_int_equal(tn_device_alloc(rig.device, 1, &buffer, &error), TN_E_DEVICE_LOST);
  assert_int_equal(tn_device_synchronize(rig.device, rig.queue, UINT64_MAX, &error), TN_E_DEVICE_LOST);
  tiny_empty(&rig);
  for (uint64_t round = 0; round < 2; round++) {
    assert_int_equal(tn_device_reopen(rig.device, &error), TN_OK);
    assert_int_equal(calls(rig.device, "execute"), 3 + round); /* it goes on counting, so it isn't lost again */
    assert_int_equal(tiny_fill(&rig, &error), TN_OK);
    assert_int_equal(tiny_step(&rig, tokens, 0, 2, UINT64_MAX, logits, &error), TN_OK);
    assert_memory_equal(logits, want, sizeof want);
    tiny_empty(&rig);
  }
  tiny_finish_rig(&rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_call_fails_in_turn),      cmocka_unit_test(a_failed_step_can_be_repeated),
      cmocka_unit_test(garbage_is_an_internal_error), cmocka_unit_test(late_work_meets_its_deadline),
      cmocka_unit_test(a_lost_device_comes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
