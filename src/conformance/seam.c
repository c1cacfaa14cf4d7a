/* The seam itself: what every driver must do whatever its kernels are like. Each check opens what it needs on the
 * device and gives it back. A failed expectation is TN_E_INTERNAL with words. */
#include "conformance/kit.h"

#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "conformance/bench.h"
#include "conformance/fill.h"
#include "conformance/host.h"
#include "conformance/makers.h"

#define SIZE 1000u
#define GRACE_NS 1000000000ull /* how much later than its deadline a wait may return */

/* A queue and two buffers of SIZE bytes. */
typedef struct seam {
  tn_opened_device *device;
  tn_queue *queue;
  tn_buffer *a, *b;
  uint64_t timeout_ns;
  uint8_t pattern[SIZE], read[SIZE];
  tn_error *error;
} seam;

static tn_status seam_start(seam *s, tn_opened_device *device, uint64_t timeout_ns, tn_error *error) {
  *s = (seam){.device = device, .timeout_ns = timeout_ns, .error = error};
  for (uint32_t i = 0; i < SIZE; i++) s->pattern[i] = (uint8_t)(i * 31 + i / 256 + 1);
  tn_status status = tn_device_queue_create(device, &s->queue, error);
  if (status == TN_OK) status = tn_device_alloc(device, SIZE, &s->a, error);
  if (status == TN_OK) status = tn_device_alloc(device, SIZE, &s->b, error);
  return status;
}

static void seam_finish(seam *s) {
  tn_device_queue_destroy(s->device, s->queue);
  tn_device_free(s->device, s->a);
  tn_device_free(s->device, s->b);
}

static tn_status seam_wait(seam *s) {
  return tn_device_synchronize(s->device, s->queue, tn_clock_ns() + s->timeout_ns, s->error);
}

/* Reads `bytes` of a buffer into s->read and compares. */
static tn_status expect_bytes(seam *s, tn_buffer *from, uint64_t offset, const uint8_t *want, uint64_t bytes,
                              const char *what) {
  memset(s->read, 0xa7, sizeof s->read);
  tn_status status = tn_device_copy_out(s->device, s->queue, s->read, from, offset, bytes, s->error);
  if (status == TN_OK) status = seam_wait(s);
  for (uint64_t i = 0; status == TN_OK && i < bytes; i++)
    if (s->read[i] != want[i])
      status = tn_fail(s->error, TN_E_INTERNAL, "%s: byte %llu is %u, not %u", what, (unsigned long long)offset + i,
                       s->read[i], want[i]);
  return status;
}

/* Memory is zeroed and aligned, also when it has been used before. */
static tn_status memory_is_zeroed(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  static const uint8_t zeros[SIZE];
  tn_status status = TN_OK;
  for (uint32_t round = 0; round < 3 && status == TN_OK; round++) {
    seam s;
    status = seam_start(&s, device, target->timeout_ns, error);
    if (status == TN_OK) status = expect_bytes(&s, s.a, 0, zeros, SIZE, "new memory");
    if (status == TN_OK && (uintptr_t)tn_device_host_pointer(device, s.a) % device->properties.alignment)
      status = tn_fail(error, TN_E_INTERNAL, "memory isn't aligned to %llu as the device says",
                       (unsigned long long)device->properties.alignment);
    if (status == TN_OK) status = tn_device_fill(device, s.queue, s.a, 0, 0xcd, SIZE, error);
    if (status == TN_OK) status = tn_device_fill(device, s.queue, s.b, 0, 0xcd, SIZE, error);
    if (status == TN_OK) status = seam_wait(&s);
    seam_finish(&s);
  }
  return status;
}

/* Far too much memory is refused with words, and the device goes on. */
static tn_status too_much_is_refused(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  static const uint64_t sizes[] = {UINT64_C(1) << 50, UINT64_C(1) << 60, UINT64_MAX - 63, UINT64_MAX};
  for (size_t i = 0; i < TN_COUNT(sizes); i++) {
    tn_buffer *buffer;
    tn_error why = {0};
    tn_status status = tn_device_alloc(device, sizes[i], &buffer, &why);
    if (status == TN_OK) {
      tn_device_free(device, buffer);
      return tn_fail(error, TN_E_INTERNAL, "it gave %llu bytes", (unsigned long long)sizes[i]);
    }
    if (status != TN_E_MEMORY && status != TN_E_LIMIT)
      return tn_fail(error, status == TN_E_DEVICE_LOST ? status : TN_E_INTERNAL,
                     "refused with \"%s\" instead of out of memory", tn_status_text(status));
    const char *text = device->driver->last_error(device->device);
    if (!text || !*text) return tn_fail(error, TN_E_INTERNAL, "refused without a text");
  }
  seam s;
  tn_status status = seam_start(&s, device, target->timeout_ns, error);
  seam_finish(&s);
  return status;
}

static tn_status odd_copy(seam *s, uint64_t to, uint64_t from, uint64_t bytes) {
  static const uint8_t zeros[SIZE];
  uint8_t want[SIZE] = {0};
  tn_status status = tn_device_copy_in(s->device, s->queue, s->a, 0, zeros, SIZE, s->error);
  if (status == TN_OK) status = tn_device_copy_in(s->device, s->queue, s->b, 0, zeros, SIZE, s->error);
  if (status == TN_OK) status = tn_device_copy_in(s->device, s->queue, s->a, from, s->pattern, bytes, s->error);
  if (status == TN_OK) status = tn_device_copy(s->device, s->queue, s->b, to, s->a, from, bytes, s->error);
  memcpy(want + from, s->pattern, bytes);
  if (status == TN_OK) status = expect_bytes(s, s->a, 0, want, SIZE, "copy in");
  memset(want, 0, sizeof want);
  memcpy(want + to, s->pattern, bytes);
  if (status == TN_OK) status = expect_bytes(s, s->b, 0, want, SIZE, "copy within");
  if (status == TN_OK) status = expect_bytes(s, s->b, to, s->pattern, bytes, "copy out");
  if (status == TN_OK) status = tn_device_fill(s->device, s->queue, s->b, to, 0xe1, bytes, s->error);
  memset(want + to, 0xe1, bytes);
  return status == TN_OK ? expect_bytes(s, s->b, 0, want, SIZE, "fill") : status;
}

/* Copies and fills of odd lengths at odd offsets touch what they should and nothing else. */
static tn_status odd_copies(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  static const uint64_t at[] = {0, 1, 2, 3, 5, 63, 64, 255}, lengths[] = {0, 1, 3, 4, 7, 64, 65, 501};
  seam s;
  tn_status status = seam_start(&s, device, target->timeout_ns, error);
  for (size_t i = 0; i < TN_COUNT(at); i++)
    for (size_t k = 0; k < TN_COUNT(lengths) && status == TN_OK; k++)
      status = odd_copy(&s, at[i], at[(i + k) % TN_COUNT(at)], lengths[k]);
  seam_finish(&s);
  return status;
}

/* What was handed in first happens first. */
static tn_status queue_is_in_order(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  seam s;
  uint8_t source[64];
  tn_status status = seam_start(&s, device, target->timeout_ns, error);
  for (uint32_t round = 0; round < 20 && status == TN_OK; round++) {
    uint8_t want[96];
    memset(want, (int)round + 100, sizeof want);
    memset(want + 8, (int)round, 64);
    memset(want + 16, (int)round + 50, 8);
    memset(source, (int)round, sizeof source);
    status = tn_device_fill(device, s.queue, s.a, 0, (uint8_t)(round + 100), 96, error);
    if (status == TN_OK) status = tn_device_copy_in(device, s.queue, s.a, 8, source, sizeof source, error);
    memset(source, 0xff, sizeof source); /* the source is free again on return */
    if (status == TN_OK) status = tn_device_fill(device, s.queue, s.a, 16, (uint8_t)(round + 50), 8, error);
    if (status == TN_OK) status = tn_device_copy(device, s.queue, s.b, 0, s.a, 0, 96, error);
    if (status == TN_OK) status = tn_device_fill(device, s.queue, s.a, 0, 0, 96, error);
    if (status == TN_OK) status = expect_bytes(&s, s.b, 0, want, sizeof want, "in order");
  }
  seam_finish(&s);
  return status;
}

/* Copies and fills that lead outside are refused with words and change nothing. */
static tn_status outside_is_refused(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  static const struct {
    uint64_t offset, bytes;
  } wrong[] = {{0, SIZE + 1}, {1, SIZE}, {SIZE + 1, 0}, {SIZE, 1}, {UINT64_MAX, 2}, {UINT64_MAX - 1, UINT64_MAX}};
  seam s;
  uint8_t *large = tn_calloc(2, SIZE), zeros[SIZE] = {0};
  tn_status status = seam_start(&s, device, target->timeout_ns, error);
  if (!large) status = tn_fail(error, TN_E_MEMORY, "out of memory");
  for (size_t i = 0; i < TN_COUNT(wrong) && status == TN_OK; i++) {
    tn_error why = {0};
    uint64_t at = wrong[i].offset, bytes = wrong[i].bytes;
    const tn_status answers[] = {tn_device_fill(device, s.queue, s.a, at, 1, bytes, &why),
                                 tn_device_copy_in(device, s.queue, s.a, at, large, bytes, &why),
                                 tn_device_copy_out(device, s.queue, large, s.a, at, bytes, &why),
                                 tn_device_copy(device, s.queue, s.a, at, s.b, 0, bytes, &why),
                                 tn_device_copy(device, s.queue, s.b, 0, s.a, at, bytes, &why)};
    for (size_t k = 0; k < TN_COUNT(answers) && status == TN_OK; k++)
      if (answers[k] != TN_E_INVALID)
        status = tn_fail(error, TN_E_INTERNAL, "%llu bytes at %llu of a buffer of %u: %s", (unsigned long long)bytes,
                         (unsigned long long)at, SIZE, tn_status_text(answers[k]));
  }
  if (status == TN_OK) status = expect_bytes(&s, s.a, 0, zeros, SIZE, "after a refused call");
  seam_finish(&s);
  free(large);
  return status;
}

/* An unknown property is no guess; those that every driver answers make sense. */
static tn_status properties(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  tn_property value;
  const tn_device_properties *p = &device->properties;
  tn_status status = tn_device_get(device, "colour_of_the_case", &value, NULL);
  if (status != TN_E_NOT_FOUND) return tn_fail(error, TN_E_INTERNAL, "an unknown property: %s", tn_status_text(status));
  if (p->memory_free > p->memory_total || !p->memory_total || !p->max_allocation || p->max_allocation > p->memory_total)
    return tn_fail(error, TN_E_INTERNAL, "memory total, free and largest allocation don't fit together");
  if (!p->cores || !p->threads) return tn_fail(error, TN_E_INTERNAL, "no cores or no threads");
  return TN_OK;
}

/* ---- programs ---- */

/* A small case with a weight, a bias and an input: linear [7,72] x [33,72]. */
static tn_case *linear_case(void) {
  const tn_linear_attributes attributes = {sizeof attributes, TN_ACTIVATION_NONE, 0, 1};
  tn_case *c = tn_case_create(TN_OP_LINEAR, 7, 1);
  if (!c) return NULL;
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, 72), w = tn_case_matrix(c, TN_F32, 33, 72, TN_USE_LINEAR);
  uint32_t b = tn_case_vector(c, 33), y = tn_case_output(c, TN_F32, TN_DIM_T, 33);
  tn_case_fill(c, x, TN_FILL_RANDOM, 1);
  tn_case_fill(c, w, TN_FILL_RANDOM, 2);
  tn_case_fill(c, b, TN_FILL_RANDOM, 3);
  tn_case_op(c, TN_OP_LINEAR, &attributes, TN_CASE_LIST(x, w, b), TN_CASE_LIST(y));
  tn_case_say(c, "seam");
  return c;
}

/* Devices with a shape profile run only the row counts they list. */
static void pin_for(const tn_opened_device *device, tn_case *c) {
  tn_maker maker = {0};
  tn_maker_read_profile(&maker, device->properties.rows, "");
  if (c && maker.row_count) tn_case_pin(c, maker.rows, maker.row_count);
}

/* A case on a bench with room for results; `used` false: the device doesn't take the ops, nothing to check. */
typedef struct seam_bench {
  tn_case *c;
  tn_bench bench;
  tn_case_results got, want;
  bool used;
} seam_bench;

static tn_status seam_bench_start(seam_bench *s, tn_case *c, tn_opened_device *device, uint64_t timeout_ns,
                                  tn_error *error) {
  bool others;
  *s = (seam_bench){.c = c};
  pin_for(device, c);
  if (!c || !tn_case_results_init(&s->got, c) || !tn_case_results_init(&s->want, c))
    return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = tn_bench_supports(device, c, &others, error);
  if (status == TN_E_UNSUPPORTED) return TN_OK;
  if (status == TN_OK) status = tn_bench_start(&s->bench, device, c, timeout_ns, error);
  s->used = status == TN_OK;
  return status;
}

static void seam_bench_finish(seam_bench *s) {
  if (s->used) tn_bench_finish(&s->bench);
  tn_case_results_finish(&s->got);
  tn_case_results_finish(&s->want);
  tn_case_destroy(s->c);
}

static tn_status run_and_compare(seam_bench *s, const char *what, tn_error *error) {
  static const tn_schedule whole = {0, false, ""};
  tn_case_error worst;
  tn_status status = tn_bench_run(&s->bench, whole, 0xff, &s->got, error);
  if (status == TN_OK) status = tn_case_run_on_host(s->c, whole, &s->want, error);
  if (status == TN_OK) status = tn_case_compare(s->c, &s->got, &s->want, &worst, error);
  if (status != TN_OK || (worst.same_kind && worst.error <= s->c->tolerance)) return status;
  return tn_fail(error, TN_E_INTERNAL, "%s: error %.3g; row %u, column %u: %.9g instead of %.9g", what, worst.error,
                 worst.row, worst.column, (double)worst.got, (double)worst.want);
}

/* A weight packed again in the same place is the new weight, in an executable prepared anew. */
static tn_status repacked_weights(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  seam_bench s;
  tn_status status = seam_bench_start(&s, linear_case(), device, target->timeout_ns, error);
  if (status == TN_OK && s.used) status = run_and_compare(&s, "before", error);
  if (status == TN_OK && s.used) {
    const uint32_t number = 1; /* the matrix */
    tn_bench *bench = &s.bench;
    const tn_case_value *value = &s.c->values[number];
    tn_weight_binding *weight = &bench->weights[value->index];
    tn_case_fill(s.c, number, TN_FILL_RANDOM, 99);
    status = tn_device_weight_pack(device, bench->queue, &weight->desc, &weight->layout, value->sources,
                                   value->source_count, weight->memory.buffer, weight->memory.offset, error);
    tn_device_release(device, bench->executable);
    bench->executable = NULL;
    if (status == TN_OK)
      status = tn_device_prepare(device, bench->program, bench->weights, s.c->bindings[TN_VALUE_WEIGHT], NULL, NULL,
                                 &bench->executable, error);
    if (status == TN_OK) status = run_and_compare(&s, "packed again", error);
  }
  seam_bench_finish(&s);
  return status;
}

/* norm, linear, add through scratch memory: values that live between ops. */
static tn_status chained_ops(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  const tn_norm_attributes norm = {sizeof norm, TN_NORM_RMS, 0, 1e-5f};
  const tn_linear_attributes linear = {sizeof linear, TN_ACTIVATION_SILU, 0, 1};
  const tn_no_attributes none = {sizeof none};
  tn_case *c = tn_case_create(TN_OP_LINEAR, 37, 3);
  if (c) {
    uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, 72), w = tn_case_matrix(c, TN_F32, 72, 72, TN_USE_LINEAR);
    uint32_t g = tn_case_vector(c, 72), h = tn_case_scratch(c, TN_F32, TN_DIM_T, 72);
    uint32_t z = tn_case_scratch(c, TN_F32, TN_DIM_T, 72), y = tn_case_scratch(c, TN_F32, TN_DIM_T, 72);
    uint32_t r = tn_case_output(c, TN_F32, TN_DIM_R, 72);
    tn_case_fill(c, x, TN_FILL_RANDOM, 1);
    tn_case_fill(c, w, TN_FILL_RANDOM, 2);
    tn_case_fill_range(c, g, 0.5f, 1.5f, 3);
    tn_case_op(c, TN_OP_NORM, &norm, TN_CASE_LIST(x, g), TN_CASE_LIST(h));
    tn_case_op(c, TN_OP_LINEAR, &linear, TN_CASE_LIST(h, w), TN_CASE_LIST(z));
    tn_case_op(c, TN_OP_ADD, &none, TN_CASE_LIST(z, x), TN_CASE_LIST(y));
    tn_case_op(c, TN_OP_SELECT_ROWS, &none, TN_CASE_LIST(y), TN_CASE_LIST(r));
    for (uint32_t i = 0; i < c->row_count; i++) c->rows[i].wants_logits = i % 3 == 0;
    tn_case_say(c, "norm, linear, add, select_rows");
  }
  if (!c) return tn_fail(error, TN_E_MEMORY, "out of memory");
  pin_for(device, c);
  tn_kit_result result;
  tn_status fatal = tn_kit_check_case(device, c, target->timeout_ns, &result);
  tn_status status = fatal;
  if (result.verdict == TN_KIT_FAILED)
    status = tn_fail(error, fatal != TN_OK ? fatal : TN_E_INTERNAL, "%s", result.why);
  tn_case_destroy(c);
  return status;
}

/* Bytes that are no program are refused with words. */
static tn_status garbage_programs(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  tn_case *c = linear_case();
  tn_program *good = c ? tn_case_program(c, error) : NULL, *bad = good ? tn_calloc(1, good->bytes) : NULL;
  tn_status status = bad ? TN_OK : TN_E_MEMORY;
  for (uint32_t kind = 0; kind < 6 && status == TN_OK; kind++) {
    memcpy(bad, good, good->bytes);
    tn_op *op = (tn_op *)(void *)((char *)bad + bad->ops);
    switch (kind) {
      case 0: bad->magic ^= 1; break;
      case 1: bad->version = 99; break;
      case 2: bad->values = 0x7ffffff0u; break;
      case 3: op->opcode = TN_OP_LIMIT + 5; break;
      case 4: op->inputs[0] = 1000; break;
      default: bad->op_count = 1000000; break;
    }
    tn_executable *executable = NULL;
    tn_weight_binding weights[2] = {{.desc = {.size = sizeof(tn_weight_desc)}}};
    tn_error why = {0};
    tn_status answer = tn_device_prepare(device, bad, weights, 2, NULL, NULL, &executable, &why);
    if (answer == TN_OK) {
      tn_device_release(device, executable);
      status = tn_fail(error, TN_E_INTERNAL, "it prepared a program that is none (kind %u)", kind);
    } else if (!*device->driver->last_error(device->device)) {
      status = tn_fail(error, TN_E_INTERNAL, "it refused a program without a text");
    }
  }
  free(bad);
  free(good);
  tn_case_destroy(c);
  return status;
}

/* Executions whose bindings or batch make no sense are refused, and the next good one works. */
static tn_status wrong_bindings(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  seam_bench s;
  tn_status status = seam_bench_start(&s, linear_case(), device, target->timeout_ns, error);
  for (uint32_t kind = 0; kind < 6 && status == TN_OK && s.used; kind++) {
    tn_step_plan plan;
    if (!tn_step_plan_init(&plan, s.c, (tn_schedule){0})) {
      status = tn_fail(error, TN_E_MEMORY, "out of memory");
      break;
    }
    tn_step_plan_next(&plan);
    const tn_bench_memory *x = &s.bench.values[0], *y = &s.bench.values[3];
    tn_binding input = {x->buffer, x->offset, x->bytes}, output = {y->buffer, y->offset, y->bytes};
    tn_execution execution = {.size = sizeof execution,
                              .input_count = 1,
                              .output_count = 1,
                              .inputs = &input,
                              .outputs = &output,
                              .scratch = {s.bench.scratch.buffer, s.bench.scratch.offset, s.bench.scratch.bytes},
                              .batch = &plan.batch};
    switch (kind) {
      case 0: execution.input_count = 0; break;
      case 1: execution.output_count = 0; break;
      case 2: output.bytes = 4; break;
      case 3: output.offset = UINT64_C(1) << 40; break;
      case 4: plan.batch.row_count = 1000; break;
      default: plan.sequences[0].row_count = 3; break;
    }
    tn_error why = {0};
    tn_status answer = tn_device_execute(device, s.bench.queue, s.bench.executable, &execution, &why);
    if (answer != TN_E_INVALID)
      status = tn_fail(error, TN_E_INTERNAL, "wrong bindings of kind %u: %s", kind, tn_status_text(answer));
    tn_step_plan_finish(&plan);
  }
  if (status == TN_OK && s.used) status = run_and_compare(&s, "after wrong bindings", error);
  seam_bench_finish(&s);
  return status;
}

/* A wait returns by its deadline, whether the work is done or not. */
static tn_status deadlines_hold(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  seam_bench s;
  tn_status status = seam_bench_start(&s, linear_case(), device, target->timeout_ns, error);
  if (status == TN_OK && s.used) status = run_and_compare(&s, "before", error);
  for (uint32_t i = 0; i < 3 && status == TN_OK && s.used; i++) {
    uint64_t begin = tn_clock_ns(), deadline = begin + i * 20000000u;
    tn_error why = {0};
    tn_status answer = tn_device_synchronize(device, s.bench.queue, deadline, &why);
    if (answer != TN_OK && answer != TN_E_TIMEOUT)
      status = tn_fail(error, answer, "synchronize: %s", why.message);
    else if (tn_clock_ns() > deadline + GRACE_NS)
      status = tn_fail(error, TN_E_INTERNAL, "synchronize returned %llu ms after its deadline",
                       (unsigned long long)((tn_clock_ns() - deadline) / 1000000));
  }
  seam_bench_finish(&s);
  return status;
}

/* The results are there when synchronize says so: read again a little later they are the same. */
static tn_status done_means_done(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  seam_bench s;
  tn_status status = seam_bench_start(&s, linear_case(), device, target->timeout_ns, error);
  for (uint32_t round = 0; round < 3 && status == TN_OK && s.used; round++) {
    tn_case_fill(s.c, 0, TN_FILL_RANDOM, 100 + round);
    status = run_and_compare(&s, "with new inputs each time", error);
  }
  seam_bench_finish(&s);
  return status;
}

/* Two devices opened at once work side by side, and the first goes on when the second is closed. */
static tn_status two_devices(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  tn_opened_device *second;
  tn_status status = tn_device_open(target->spec, NULL, 0, &second, error);
  if (status != TN_OK) return status;
  seam a, b = {.device = second};
  uint8_t other[SIZE];
  memset(other, 0x3c, sizeof other);
  status = seam_start(&a, device, target->timeout_ns, error);
  if (status == TN_OK) status = seam_start(&b, second, target->timeout_ns, error);
  if (status == TN_OK) status = tn_device_copy_in(device, a.queue, a.a, 0, a.pattern, SIZE, error);
  if (status == TN_OK) status = tn_device_copy_in(second, b.queue, b.a, 0, other, SIZE, error);
  if (status == TN_OK) status = expect_bytes(&a, a.a, 0, a.pattern, SIZE, "first of two");
  if (status == TN_OK) status = expect_bytes(&b, b.a, 0, other, SIZE, "second of two");
  seam_finish(&b);
  tn_device_close(second);
  if (status == TN_OK) status = expect_bytes(&a, a.a, 0, a.pattern, SIZE, "after the second was closed");
  seam_finish(&a);
  return status;
}

/* Opened again - what is done after a loss - the device works as before. */
static tn_status reopened(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  tn_status status = tn_device_reopen(device, error);
  if (status != TN_OK) return TN_E_DEVICE_LOST;
  return repacked_weights(target, error);
}

/* Where the driver has events: one recorded behind work is reached, and then the work is done. */
static tn_status events(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  tn_event *event = NULL;
  seam s;
  tn_status status = seam_start(&s, device, target->timeout_ns, error);
  if (status == TN_OK) status = tn_device_copy_in(device, s.queue, s.a, 0, s.pattern, SIZE, error);
  if (status == TN_OK) status = tn_device_copy_out(device, s.queue, s.read, s.a, 0, SIZE, error);
  if (status == TN_OK) {
    status = tn_device_record(device, s.queue, &event, error);
    if (status == TN_E_UNSUPPORTED) {
      seam_finish(&s);
      return TN_OK;
    }
  }
  if (status == TN_OK) status = tn_device_wait(device, event, tn_clock_ns() + target->timeout_ns, error);
  if (status == TN_OK && memcmp(s.read, s.pattern, SIZE) != 0)
    status = tn_fail(error, TN_E_INTERNAL, "an event was reached before the work in front of it was done");
  tn_device_event_destroy(device, event);
  seam_finish(&s);
  return status;
}

/* Where the driver has counters: each op of an execution is counted once, in times that make sense. */
static tn_status counters(const tn_seam_target *target, tn_error *error) {
  tn_opened_device *device = target->device;
  tn_op_counter list[16];
  uint32_t count = 0;
  seam_bench s;
  tn_status status = seam_bench_start(&s, linear_case(), device, target->timeout_ns, error);
  if (status == TN_OK && s.used) {
    status = tn_device_counters(device, s.bench.queue, NULL, &count, error);
    uint64_t before = tn_clock_ns();
    if (status == TN_OK) status = run_and_compare(&s, "while counting", error);
    count = TN_COUNT(list);
    if (status == TN_OK) status = tn_device_counters(device, s.bench.queue, list, &count, error);
    if (status == TN_E_UNSUPPORTED)
      status = TN_OK;
    else if (status == TN_OK && (count != 1 || list[0].op != 0))
      status = tn_fail(error, TN_E_INTERNAL, "%u counters of one execution of one op", count);
    else if (status == TN_OK &&
             (list[0].start_ns < before || list[0].end_ns < list[0].start_ns || list[0].end_ns > tn_clock_ns()))
      status = tn_fail(error, TN_E_INTERNAL, "an op ran outside of the time it was run in");
  }
  seam_bench_finish(&s);
  return status;
}

const tn_seam_check tn_seam_checks[] = {
    {"properties", properties},
    {"memory is zeroed and aligned", memory_is_zeroed},
    {"too much memory is refused", too_much_is_refused},
    {"copies and fills at odd offsets", odd_copies},
    {"a queue works in order", queue_is_in_order},
    {"calls outside a buffer are refused", outside_is_refused},
    {"weights packed again", repacked_weights},
    {"values in scratch memory", chained_ops},
    {"bytes that are no program are refused", garbage_programs},
    {"wrong bindings are refused", wrong_bindings},
    {"deadlines hold", deadlines_hold},
    {"done means done", done_means_done},
    {"events", events},
    {"counters", counters},
    {"two devices at once", two_devices},
    {"opened again", reopened},
};
const uint32_t tn_seam_check_count = TN_COUNT(tn_seam_checks);
