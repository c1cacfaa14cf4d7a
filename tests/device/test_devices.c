/* A whole small model through the device interface, on every built-in device: the same bits however a prompt is cut,
 * whether memory is private or not; and the seam's refusals. */
#include <math.h>
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

static const char *const specs[] = {"reference", "reference,private-memory=1", "faulty:reference,private-memory=1",
                                    "cpu", "cpu,threads=3"};
#define CPU 3 /* from here on devices with an order of arithmetic of their own */

#define TOKENS 70
static void make_tokens(int32_t *tokens) {
  test_random random = {99};
  for (int i = 0; i < TOKENS; i++) tokens[i] = (int32_t)(random_u32(&random) % TINY_VOCABULARY);
}

static void start(tiny_rig *rig, const char *spec) {
  tn_error error = {0};
  if (tiny_start(rig, spec, &error)) fail_msg("%s", error.message);
}

/* The logits of all tokens, in steps of `chunk`. */
static void run_all(tiny_rig *rig, uint32_t chunk, float *logits) {
  int32_t tokens[TOKENS];
  tn_error error = {0};
  make_tokens(tokens);
  for (uint32_t begin = 0; begin < TOKENS; begin += chunk) {
    uint32_t count = TOKENS - begin < chunk ? TOKENS - begin : chunk;
    if (tiny_step(rig, tokens, begin, count, UINT64_MAX, logits + begin * TINY_VOCABULARY, &error)) {
      fail_msg("%s", error.message);
    }
  }
}

static double squared_error(const float *got, const float *want, size_t count) {
  double difference = 0, power = 0;
  for (size_t i = 0; i < count; i++) {
    difference += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    power += (double)want[i] * (double)want[i];
  }
  return difference / power;
}

static void one_result_on_every_device_in_every_chunking(void **state) {
  (void)state;
  float first[TOKENS * TINY_VOCABULARY], logits[TOKENS * TINY_VOCABULARY];
  const uint32_t chunks[] = {48, 1, 7, 32, 33};
  for (size_t s = 0; s < TN_COUNT(specs); s++) {
    tiny_rig rig;
    start(&rig, specs[s]);
    for (size_t c = 0; c < TN_COUNT(chunks); c++) {
      run_all(&rig, chunks[c], s + c ? logits : first);
      if (s == CPU && c == 0) {
        assert_true(squared_error(logits, first, TN_COUNT(first)) < 1e-9);
        memcpy(first, logits, sizeof first);
      }
      if (s + c) assert_memory_equal(logits, first, sizeof first);
    }
    tiny_finish_rig(&rig);
  }
  double spread = 0;
  for (int i = TINY_VOCABULARY; i < TOKENS * TINY_VOCABULARY; i++) {
    assert_true(isfinite(first[i]));
    spread += fabs((double)first[i] - (double)first[i % TINY_VOCABULARY]);
  }
  assert_true(spread > 10);
}

static void memory_is_zeroed_aligned_and_bounded(void **state) {
  (void)state;
  for (size_t s = 0; s < TN_COUNT(specs); s++) {
    tn_opened_device *d;
    tn_queue *queue;
    tn_error error = {0};
    assert_int_equal(tn_device_open(specs[s], NULL, 0, &d, &error), TN_OK);
    assert_int_equal(tn_device_queue_create(d, &queue, &error), TN_OK);
    const uint64_t sizes[] = {0, 1, 63, 64, 4096, 4097, 100000};
    for (size_t i = 0; i < TN_COUNT(sizes); i++) {
      uint64_t size = sizes[i];
      tn_buffer *buffer, *other;
      uint8_t *host = calloc(1, size + 1), *pattern = malloc(size + 1);
      assert_int_equal(tn_device_alloc(d, size, &buffer, &error), TN_OK);
      assert_int_equal(tn_device_alloc(d, size, &other, &error), TN_OK);
      uint8_t *address = tn_device_host_pointer(d, buffer);
      assert_int_equal(address == NULL, strstr(specs[s], "private") != NULL);
      assert_int_equal((uintptr_t)address % d->properties.alignment, 0);
      memset(host, 0xaa, size);
      assert_int_equal(tn_device_copy_out(d, queue, host, buffer, 0, size, &error), TN_OK);
      assert_int_equal(tn_device_synchronize(d, queue, UINT64_MAX, &error), TN_OK);
      for (uint64_t k = 0; k < size; k++) assert_int_equal(host[k], 0);
      for (uint64_t k = 0; k < size; k++) pattern[k] = (uint8_t)(k * 31);
      assert_int_equal(tn_device_copy_in(d, queue, buffer, 0, pattern, size, &error), TN_OK);
      if (size > 40) {
        assert_int_equal(tn_device_copy(d, queue, other, 7, buffer, 3, size - 40, &error), TN_OK);
        assert_int_equal(tn_device_copy(d, queue, other, 9, other, 7, size - 40, &error), TN_OK); /* it may overlap */
        assert_int_equal(tn_device_fill(d, queue, other, 11, 0x55, 3, &error), TN_OK);
        assert_int_equal(tn_device_copy_out(d, queue, host, other, 9, size - 40, &error), TN_OK);
        assert_int_equal(tn_device_synchronize(d, queue, UINT64_MAX, &error), TN_OK);
        assert_memory_equal(host, pattern + 3, 2);
        assert_true(host[2] == 0x55 && host[3] == 0x55 && host[4] == 0x55);
        assert_memory_equal(host + 5, pattern + 8, size - 45);
      }
      assert_int_equal(tn_device_copy_in(d, queue, buffer, 1, pattern, size, &error), TN_E_INVALID);
      assert_int_equal(tn_device_copy_out(d, queue, host, buffer, size + 1, 0, &error), TN_E_INVALID);
      assert_int_equal(tn_device_fill(d, queue, buffer, UINT64_MAX, 0, 2, &error), TN_E_INVALID);
      assert_int_equal(tn_device_copy(d, queue, buffer, 0, other, 2, size, &error), TN_E_INVALID);
      assert_non_null(strstr(error.message, d->label));
      free(host);
      free(pattern);
      tn_device_free(d, buffer);
      tn_device_free(d, other);
    }
    tn_buffer *huge;
    assert_int_equal(tn_device_alloc(d, UINT64_C(1) << 60, &huge, &error), TN_E_MEMORY);
    assert_non_null(strstr(error.message, "1152921504606846976 bytes wanted"));
    assert_non_null(strstr(error.message, "free"));
    tn_property value;
    assert_int_equal(tn_device_get(d, "colour", &value, &error), TN_E_NOT_FOUND);
    tn_device_queue_destroy(d, queue);
    tn_device_close(d);
  }
}

/* One row as a step, all its parts in reach. */
typedef struct whole_step {
  tn_row row;
  tn_sequence sequence;
  tn_batch batch;
  tn_binding output, pages;
  tn_execution execution;
} whole_step;

static void too_few_outputs(whole_step *step) {
  step->execution.output_count = 0;
}
static void small_scratch(whole_step *step) {
  step->execution.scratch.bytes--;
}
static void scratch_outside(whole_step *step) {
  step->execution.scratch.offset = 64;
}
static void small_output(whole_step *step) {
  step->output.bytes = 4;
}
static void output_outside(whole_step *step) {
  step->output.offset = 1u << 20;
}
static void no_pages(whole_step *step) {
  step->pages.bytes = 2;
}
static void short_page_table(whole_step *step) {
  step->batch.page_count = 0;
}
static void page_table_outside(whole_step *step) {
  step->sequence.pages[0] = 7;
}
static void too_many_rows(whole_step *step) {
  step->batch.row_count = TINY_MAX_ROWS + 1;
}
static void token_outside(whole_step *step) {
  step->row.token = TINY_VOCABULARY;
}
static void negative_token(whole_step *step) {
  step->row.token = -1;
}
static void sequence_outside(whole_step *step) {
  step->row.sequence = 1;
}

static void executions_that_make_no_sense_are_refused(void **state) {
  (void)state;
  static const struct {
    void (*spoil)(whole_step *step);
    const char *text;
  } wrong[] = {{too_few_outputs, "0 outputs"},
               {small_scratch, "bytes of scratch are bound"},
               {scratch_outside, "do not lie in a buffer"},
               {small_output, "output 0: 4 bytes are bound, 44 are needed"},
               {output_outside, "do not lie in a buffer"},
               {no_pages, "page 4: the state has 0 pages"},
               {short_page_table, "page table ends at 0"},
               {page_table_outside, "entry 7 is needed"},
               {too_many_rows, "batch"},
               {token_outside, "op 0 (embed) failed"},
               {negative_token, "batch"},
               {sequence_outside, "batch"}};
  static const size_t devices[] = {0, 1, CPU};
  for (size_t d = 0; d < TN_COUNT(devices); d++) {
    tiny_rig rig;
    start(&rig, specs[devices[d]]);
    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
      const uint32_t first = 0;
      whole_step step = {.row = {3, {0}, 0, 1}, .sequence = {.row_count = 1}};
      step.batch =
          (tn_batch){sizeof(tn_batch), 1, 1, 1, 1, TN_COUNT(tiny_pages), &step.row, &step.sequence, tiny_pages, &first};
      step.output = (tn_binding){rig.logits, 0, TINY_VOCABULARY * 4};
      step.pages = (tn_binding){rig.pages, 0, TINY_PAGES * rig.page_bytes};
      step.execution = (tn_execution){.size = sizeof(tn_execution),
                                      .output_count = 1,
                                      .state_count = 1,
                                      .outputs = &step.output,
                                      .states = &step.pages,
                                      .scratch = {rig.scratch, 0, rig.program->scratch_bytes},
                                      .batch = &step.batch};
      tn_error error = {0};
      assert_int_equal(tn_device_execute(rig.device, rig.queue, rig.executable, &step.execution, &error), TN_OK);
      wrong[i].spoil(&step);
      assert_int_equal(tn_device_execute(rig.device, rig.queue, rig.executable, &step.execution, &error), TN_E_INVALID);
      if (!strstr(error.message, wrong[i].text)) fail_msg("'%s' does not say '%s'", error.message, wrong[i].text);
    }
    tiny_finish_rig(&rig);
  }
}

/* A rig of its own on a device that is shared, and the thread that drives it. */
typedef struct side {
  tiny_rig rig;
  float logits[TOKENS * TINY_VOCABULARY];
  uint32_t chunk;
} side;

static void drive(void *argument) {
  side *s = argument;
  run_all(&s->rig, s->chunk, s->logits);
}

static void two_queues_run_side_by_side(void **state) {
  (void)state;
  side *sides = calloc(2, sizeof *sides);
  tn_error error = {0};
  start(&sides[0].rig, "faulty:reference,private-memory=1");
  sides[1].rig.device = sides[0].rig.device;
  sides[1].rig.program = tiny_program();
  assert_int_equal(tiny_fill(&sides[1].rig, &error), TN_OK);
  sides[0].chunk = 3;
  sides[1].chunk = 5;
  tn_thread *thread = tn_thread_start("side", drive, &sides[1]);
  assert_non_null(thread);
  drive(&sides[0]);
  tn_thread_join(thread);
  assert_memory_equal(sides[0].logits, sides[1].logits, sizeof sides[0].logits);
  tiny_empty(&sides[1].rig);
  free(sides[1].rig.program);
  tiny_finish_rig(&sides[0].rig);
  free(sides);
}

static tn_status prepare_again(tiny_rig *rig, tn_progress progress, tn_error *error) {
  tn_executable *executable;
  tn_status status =
      tn_device_prepare(rig->device, rig->program, rig->bindings, TINY_WEIGHTS, progress, NULL, &executable, error);
  tn_device_release(rig->device, executable);
  return status;
}

static int cancel(void *context, uint64_t done, uint64_t total) {
  (void)context;
  assert_true(done <= total);
  return 1;
}

static void check_wrong_programs(const char *spec) {
  tiny_rig rig;
  start(&rig, spec);
  tn_error error = {0};
  assert_int_equal(prepare_again(&rig, NULL, &error), TN_OK);
  assert_int_equal(prepare_again(&rig, cancel, &error), TN_E_CANCELLED);
  rig.program->magic++;
  assert_int_equal(prepare_again(&rig, NULL, &error), TN_E_FORMAT);
  assert_non_null(strstr(error.message, "wrong magic"));
  rig.program->magic--;
  rig.bindings[1].desc.dims[0]++;
  assert_int_equal(prepare_again(&rig, NULL, &error), TN_E_INVALID);
  rig.bindings[1].desc.dims[0]--;
  rig.bindings[2].memory.bytes--;
  assert_int_equal(prepare_again(&rig, NULL, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "weight 2"));
  rig.bindings[2].memory.bytes++;
  uint64_t offset = rig.bindings[2].memory.offset;
  rig.bindings[2].memory.offset = 1u << 20;
  assert_int_equal(prepare_again(&rig, NULL, &error), TN_E_INVALID);
  rig.bindings[2].memory.offset = offset;
  tn_op *op = (tn_op *)(uintptr_t)tn_program_ops(rig.program);
  op->revision = 9;
  assert_int_not_equal(prepare_again(&rig, NULL, &error), TN_OK);
  tiny_finish_rig(&rig);
}

static void programs_that_make_no_sense_are_refused(void **state) {
  (void)state;
  check_wrong_programs("reference");
  check_wrong_programs("cpu");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_result_on_every_device_in_every_chunking),
      cmocka_unit_test(memory_is_zeroed_aligned_and_bounded),
      cmocka_unit_test(two_queues_run_side_by_side),
      cmocka_unit_test(executions_that_make_no_sense_are_refused),
      cmocka_unit_test(programs_that_make_no_sense_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
