/* What goes between host and device while a model runs: each step's batch to the device, its logits back, and nothing
 * else; memory is the device's own, and none of it is ever mapped. The calls are seen on their way to the runtime.
 * Skipped where there is no device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/opencl/internal.h"
#include "engine/equalities.h"
#include "engine/runner_internal.h"

#define SPEC "opencl"
#define TOKENS 40u
#define PROMPT 33u /* of them, in one step; the others one by one */
#define MEM_FLAGS 0x1101u
#define MEM_HOST_POINTER 0x1103u
#define MEM_MAP_COUNT 0x1104u
#define MEM_READ_WRITE 1u

/* What passed since it was last set to nothing. */
static struct {
  cl_mem batch; /* what may be written */
  uint32_t writes, reads, others;
  uint64_t written, read;
  uint32_t made; /* pieces of memory */
} traffic;
static cl_api real;

static int32_t see_write(cl_queue queue, cl_mem to, uint32_t blocking, size_t offset, size_t bytes, const void *from,
                         uint32_t waits, const cl_event *waited, cl_event *event) {
  traffic.writes++;
  traffic.others += to != traffic.batch;
  traffic.written += bytes;
  return real.clEnqueueWriteBuffer(queue, to, blocking, offset, bytes, from, waits, waited, event);
}

static int32_t see_read(cl_queue queue, cl_mem from, uint32_t blocking, size_t offset, size_t bytes, void *to,
                        uint32_t waits, const cl_event *waited, cl_event *event) {
  traffic.reads++;
  traffic.read += bytes;
  return real.clEnqueueReadBuffer(queue, from, blocking, offset, bytes, to, waits, waited, event);
}

static cl_mem see_create(cl_context context, uint64_t flags, size_t bytes, void *host, int32_t *error) {
  traffic.made++;
  traffic.others += flags != MEM_READ_WRITE || host;
  return real.clCreateBuffer(context, flags, bytes, host, error);
}

/* The functions that the driver asks of the runtime are all there is: none that maps is among them. */
static void nothing_can_be_mapped(void **state) {
  (void)state;
  static const char *const names[] = {
#define X(result, name, parameters) #name,
      CL_FUNCTIONS(X)
#undef X
  };
  for (size_t i = 0; i < TN_COUNT(names); i++)
    if (strstr(names[i], "Map") || strstr(names[i], "SVM")) fail_msg("%s", names[i]);
}

/* Asked of the runtime: of every piece of memory, parts included. */
static void memory_is_the_devices_own(tn_device *device) {
  tn_error error = {0};
  void *library = tn_library_open("libOpenCL.so.1", &error);
  int32_t (*ask)(cl_mem, uint32_t, size_t, void *, size_t *) = NULL;
  void *symbol = library ? tn_library_symbol(library, "clGetMemObjectInfo") : NULL;
  assert_non_null(symbol);
  memcpy(&ask, &symbol, sizeof symbol);
  uint32_t count = 0;
  for (size_t i = 1; i < device->buffer_count; i++) {
    uint64_t flags = 0;
    void *host = NULL;
    uint32_t maps = 0;
    if (!device->buffers[i]) continue;
    cl_mem memory = device->buffers[i]->memory;
    assert_int_equal(ask(memory, MEM_FLAGS, sizeof flags, &flags, NULL), CL_SUCCESS);
    assert_int_equal(ask(memory, MEM_HOST_POINTER, sizeof host, &host, NULL), CL_SUCCESS);
    assert_int_equal(ask(memory, MEM_MAP_COUNT, sizeof maps, &maps, NULL), CL_SUCCESS);
    assert_true(flags == MEM_READ_WRITE && !host && !maps);
    count++;
  }
  assert_true(count > 5); /* weights, KV, scratch, logits */
}

/* `rows` tokens at once; they go there with a row of the batch each, and logits of every one of them come back. */
static void step(tn_context *context, const int32_t *tokens, uint32_t rows) {
  tn_error error;
  uint32_t entry;
  const tn_runner_info *info = &context->kv.info;
  traffic.writes = traffic.reads = traffic.others = traffic.made = 0;
  traffic.written = traffic.read = 0;
  tn_step_begin(&context->step);
  equal_ok(tn_step_add(&context->step, &context->ledger, tokens, rows, 0, &entry, &error), &error);
  equal_ok(tn_step_run(&context->step, &error), &error);
  const tn_batch *batch = &context->step.batch;
  assert_int_equal(traffic.others, 0);
  assert_int_equal(traffic.made, 0);
  assert_int_equal(traffic.writes, 1);
  assert_int_equal(traffic.written, rows * sizeof(tn_row) + sizeof(tn_sequence) +
                                        (batch->page_count + batch->logits_count) * sizeof(uint32_t));
  assert_int_equal(traffic.reads, 1);
  assert_int_equal(traffic.read, (uint64_t)rows * info->vocabulary * sizeof(float));
  tn_step_commit(&context->step, entry);
}

static void steps_move_batches_and_logits_alone(void **state) {
  char path[512];
  tn_error error;
  tn_model *model;
  tn_runner *runner;
  tn_context context;
  int32_t tokens[TOKENS];
  for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)(i * 37u % 300u);
  snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, (const char *)*state);
  equal_ok(tn_model_open(path, &model, &error), &error);
  const tn_runner_options options = {
      .device = SPEC, .max_rows = 64, .max_sequences = 2, .max_context = 64, .pages = 8, .state_slots = 6};
  equal_ok(tn_runner_create(model, &options, &runner, &error), &error);
  assert_null(tn_runner_device_name(runner, 1)); /* nothing falls back */
  equal_ok(tn_context_init(&context, runner, NULL, &error), &error);
  equal_ok(tn_context_feed(&context, tokens, TOKENS, 0, TOKENS, NULL, NULL, &error), &error); /* the batch's memory */
  tn_ledger_clear(&context.ledger);
  tn_device *device = opened_of(runner, 0)->device;
  real = device->api;
  device->api.clEnqueueWriteBuffer = see_write;
  device->api.clEnqueueReadBuffer = see_read;
  device->api.clCreateBuffer = see_create;
  traffic.batch = runner->devices[0].queue->batch;
  step(&context, tokens, PROMPT);
  for (uint32_t i = PROMPT; i < TOKENS; i++) step(&context, tokens + i, 1);
  memory_is_the_devices_own(device);
  device->api = real;
  tn_context_finish(&context);
  tn_runner_destroy(runner);
  tn_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_can_be_mapped),
      {"llama: steps", steps_move_batches_and_logits_alone, NULL, NULL, "llama"},
      {"gpt2: steps", steps_move_batches_and_logits_alone, NULL, NULL, "gpt2"},
      {"gemma3: steps", steps_move_batches_and_logits_alone, NULL, NULL, "gemma3"},
      {"qwen35: steps", steps_move_batches_and_logits_alone, NULL, NULL, "qwen35"},
  };
  tn_opened_device *device;
  tn_error error = {0};
  if (tn_device_open(SPEC, NULL, 0, &device, &error) != TN_OK) {
    printf("skipped: %s\n", error.message);
    return getenv("TENON_DEVICES_REQUIRED") ? 1 : 77;
  }
  tn_device_close(device);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
