/* One case on a device (see bench.h). */
#include "conformance/bench.h"

#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "conformance/host.h"
#include "conformance/registers.h"

#define STRIP 256u /* bytes before and behind what a kernel may write */
#define STRIP_BYTE 0x5au
#define IDLE_SCRATCH 4096u /* bound even where the program asks for none */

/* ---- what is supported ---- */

tn_status tn_bench_supports(tn_opened_device *device, const tn_case *c, bool *others, tn_error *error) {
  *others = false;
  tn_program *program = tn_case_program(c, error);
  if (!program) return TN_E_INTERNAL;
  tn_status status = TN_OK;
  bool own = false;
  for (uint32_t i = 0; i < program->op_count; i++) {
    const tn_op *op = tn_program_ops(program) + i;
    tn_op_query query;
    tn_program_query(program, op, &query);
    if (tn_device_supports(device, &query)) continue;
    if (op->opcode == c->opcode) own = true;
    status = TN_E_UNSUPPORTED;
  }
  *others = status != TN_OK && !own;
  free(program);
  return status;
}

/* ---- memory ---- */

static uint64_t strip_of(const tn_bench *bench) {
  uint64_t alignment = bench->device->properties.alignment;
  return alignment > STRIP ? alignment : STRIP;
}

static tn_status take(tn_bench *bench, tn_bench_memory *memory, uint64_t bytes, tn_error *error) {
  *memory = (tn_bench_memory){.offset = strip_of(bench), .bytes = bytes};
  uint64_t all = bytes + 2 * strip_of(bench);
  if (all > bench->longest) bench->longest = all;
  return tn_device_alloc(bench->device, all, &memory->buffer, error);
}

static tn_status pack(tn_bench *bench, uint32_t number, tn_error *error) {
  const tn_case_value *value = &bench->c->values[number];
  tn_weight_binding *weight = &bench->weights[value->index];
  weight->desc = tn_case_weight_desc(value);
  weight->layout.size = sizeof weight->layout;
  tn_status status = tn_device_weight_layout(bench->device, &weight->desc, &weight->layout, error);
  if (status == TN_OK) status = take(bench, &bench->values[number], weight->layout.bytes, error);
  if (status != TN_OK) return status;
  tn_bench_memory *memory = &bench->values[number];
  weight->memory = (tn_binding){memory->buffer, memory->offset, weight->layout.bytes};
  status = tn_device_fill(bench->device, bench->queue, memory->buffer, 0, STRIP_BYTE,
                          memory->bytes + 2 * strip_of(bench), error);
  if (status != TN_OK) return status;
  return tn_device_weight_pack(bench->device, bench->queue, &weight->desc, &weight->layout, value->sources,
                               value->source_count, memory->buffer, memory->offset, error);
}

static tn_status take_state(tn_bench *bench, uint32_t number, tn_error *error) {
  const tn_state_desc desc = tn_case_state_desc(&bench->c->values[number]);
  tn_state_layout layout = {.size = sizeof layout};
  tn_status status = tn_device_state_layout(bench->device, &desc, &layout, error);
  if (status != TN_OK) return status;
  return take(bench, &bench->values[number], layout.page_bytes * tn_case_pages(bench->c), error);
}

tn_status tn_bench_start(tn_bench *bench, tn_opened_device *device, const tn_case *c, uint64_t timeout_ns,
                         tn_error *error) {
  *bench = (tn_bench){.device = device, .c = c, .timeout_ns = timeout_ns};
  bench->program = tn_case_program(c, error);
  tn_status status = bench->program ? tn_device_queue_create(device, &bench->queue, error) : TN_E_INTERNAL;
  for (uint32_t i = 0; i < c->value_count && status == TN_OK; i++) {
    const tn_case_value *value = &c->values[i];
    switch (value->kind) {
      case TN_VALUE_WEIGHT: status = pack(bench, i, error); break;
      case TN_VALUE_STATE: status = take_state(bench, i, error); break;
      case TN_VALUE_SCRATCH: break;
      default: status = take(bench, &bench->values[i], tn_case_row_bytes(value) * tn_case_rows(c, value), error);
    }
  }
  if (status == TN_OK) status = take(bench, &bench->scratch, c->scratch_bytes + IDLE_SCRATCH, error);
  if (status == TN_OK && !(bench->staging = tn_calloc(bench->longest, 1)))
    status = tn_fail(error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK)
    status = tn_device_prepare(device, bench->program, bench->weights, c->bindings[TN_VALUE_WEIGHT], NULL, NULL,
                               &bench->executable, error);
  if (status == TN_OK) status = tn_device_synchronize(device, bench->queue, tn_clock_ns() + timeout_ns, error);
  if (status != TN_OK) tn_bench_finish(bench);
  return status;
}

void tn_bench_finish(tn_bench *bench) {
  tn_device_release(bench->device, bench->executable);
  tn_device_queue_destroy(bench->device, bench->queue);
  for (uint32_t i = 0; i < TN_CASE_VALUES; i++) tn_device_free(bench->device, bench->values[i].buffer);
  tn_device_free(bench->device, bench->scratch.buffer);
  free(bench->staging);
  free(bench->program);
  *bench = (tn_bench){0};
}

/* ---- runs ---- */

/* Strips around it, poison inside. */
static tn_status poison_memory(tn_bench *bench, const tn_bench_memory *memory, uint8_t poison, tn_error *error) {
  tn_status status = tn_device_fill(bench->device, bench->queue, memory->buffer, 0, STRIP_BYTE,
                                    memory->bytes + 2 * memory->offset, error);
  if (status != TN_OK || !memory->bytes) return status;
  return tn_device_fill(bench->device, bench->queue, memory->buffer, memory->offset, poison, memory->bytes, error);
}

static tn_status poison_all(tn_bench *bench, uint8_t poison, tn_error *error) {
  tn_status status = poison_memory(bench, &bench->scratch, poison, error);
  for (uint32_t i = 0; i < bench->c->value_count && status == TN_OK; i++) {
    uint8_t kind = bench->c->values[i].kind;
    if (kind == TN_VALUE_WEIGHT || kind == TN_VALUE_SCRATCH) continue;
    status = poison_memory(bench, &bench->values[i], poison, error);
  }
  return status;
}

static tn_status synchronize(tn_bench *bench, tn_error *error) {
  return tn_device_synchronize(bench->device, bench->queue, tn_clock_ns() + bench->timeout_ns, error);
}

/* The whole of a piece of memory into the staging bytes. */
static tn_status read_back(tn_bench *bench, const tn_bench_memory *memory, tn_error *error) {
  tn_status status = tn_device_copy_out(bench->device, bench->queue, bench->staging, memory->buffer, 0,
                                        memory->bytes + 2 * memory->offset, error);
  return status == TN_OK ? synchronize(bench, error) : status;
}

/* Bytes of the staging memory in [begin, end) that are not `byte`; SIZE_MAX: none. */
static uint64_t first_other(const uint8_t *data, uint64_t begin, uint64_t end, uint8_t byte) {
  for (uint64_t i = begin; i < end; i++)
    if (data[i] != byte) return i;
  return UINT64_MAX;
}

/* What is in the staging memory must have whole strips, and poison behind the first `used` bytes. */
static tn_status check_strips(const tn_bench *bench, const tn_bench_memory *memory, const char *what, uint32_t index,
                              uint64_t used, int poison, tn_error *error) {
  uint64_t end = memory->offset + memory->bytes;
  uint64_t at = first_other(bench->staging, 0, memory->offset, STRIP_BYTE);
  if (at != UINT64_MAX)
    return tn_fail(error, TN_E_INTERNAL, "wrote %llu bytes before %s %u", (unsigned long long)memory->offset - at, what,
                   index);
  at = first_other(bench->staging, end, end + memory->offset, STRIP_BYTE);
  if (at == UINT64_MAX && poison >= 0) at = first_other(bench->staging, memory->offset + used, end, (uint8_t)poison);
  if (at == UINT64_MAX) return TN_OK;
  return tn_fail(error, TN_E_INTERNAL, "wrote to byte %llu behind the end of %s %u",
                 (unsigned long long)at - memory->offset - used + 1, what, index);
}

/* What contiguous KV holds beforehand. */
static tn_status put_regions(tn_bench *bench, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < bench->c->value_count && status == TN_OK; i++) {
    const tn_case_value *value = &bench->c->values[i];
    if (value->kind == TN_VALUE_STATE && value->data)
      status = tn_device_copy_in(bench->device, bench->queue, bench->values[i].buffer, bench->values[i].offset,
                                 value->data, value->row_bytes, error);
  }
  return status;
}

static tn_status put_inputs(tn_bench *bench, const tn_step_plan *plan, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < bench->c->value_count && status == TN_OK; i++) {
    const tn_case_value *value = &bench->c->values[i];
    if (value->kind != TN_VALUE_INPUT) continue;
    tn_step_gather(plan, value, bench->staging);
    status = tn_device_copy_in(bench->device, bench->queue, bench->values[i].buffer, bench->values[i].offset,
                               bench->staging, tn_step_rows(plan, value) * tn_case_row_bytes(value), error);
  }
  return status;
}

static tn_status execute(tn_bench *bench, const tn_batch *batch, tn_error *error) {
  tn_binding bindings[5][TN_CASE_VALUES];
  for (uint32_t i = 0; i < bench->c->value_count; i++) {
    const tn_case_value *value = &bench->c->values[i];
    const tn_bench_memory *memory = &bench->values[i];
    bindings[value->kind][value->index] = (tn_binding){memory->buffer, memory->offset, memory->bytes};
  }
  const tn_execution execution = {.size = sizeof execution,
                                  .input_count = bench->c->bindings[TN_VALUE_INPUT],
                                  .output_count = bench->c->bindings[TN_VALUE_OUTPUT],
                                  .state_count = bench->c->bindings[TN_VALUE_STATE],
                                  .inputs = bindings[TN_VALUE_INPUT],
                                  .outputs = bindings[TN_VALUE_OUTPUT],
                                  .states = bindings[TN_VALUE_STATE],
                                  .scratch = {bench->scratch.buffer, bench->scratch.offset, bench->scratch.bytes},
                                  .batch = batch};
  uint32_t before = tn_registers_poison();
  tn_status status = tn_device_execute(bench->device, bench->queue, bench->executable, &execution, error);
  if (status == TN_OK && tn_registers_state() != before)
    status = tn_fail(error, TN_E_INTERNAL, "execute left another rounding or exception mode behind");
  return status;
}

/* Outputs into the results; what the step was not to write must be as it was. */
static tn_status fetch_outputs(tn_bench *bench, const tn_step_plan *plan, uint8_t poison, tn_case_results *results,
                               tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < bench->c->value_count && status == TN_OK; i++) {
    const tn_case_value *value = &bench->c->values[i];
    const tn_bench_memory *memory = &bench->values[i];
    if (value->kind != TN_VALUE_OUTPUT) continue;
    uint64_t used = tn_step_rows(plan, value) * tn_case_row_bytes(value);
    status = read_back(bench, memory, error);
    if (status == TN_OK) status = check_strips(bench, memory, "output", value->index, used, poison, error);
    if (status == TN_OK) tn_step_scatter(plan, value, bench->staging + memory->offset, results->rows[value->index]);
    if (status == TN_OK) status = poison_memory(bench, memory, poison, error);
  }
  return status;
}

/* Inputs must be what they were, states and scratch have whole strips, and so have the weights. */
static tn_status check_rest(tn_bench *bench, const tn_step_plan *plan, tn_error *error) {
  static const char *const names[] = {"input", "output", "weight", "state"};
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < bench->c->value_count && status == TN_OK; i++) {
    const tn_case_value *value = &bench->c->values[i];
    if (value->kind == TN_VALUE_OUTPUT || value->kind == TN_VALUE_SCRATCH) continue;
    status = read_back(bench, &bench->values[i], error);
    if (status == TN_OK)
      status = check_strips(bench, &bench->values[i], names[value->kind], value->index, 0, -1, error);
    if (status != TN_OK || value->kind != TN_VALUE_INPUT) continue;
    uint64_t bytes = tn_case_row_bytes(value);
    for (uint32_t row = 0; row < tn_step_rows(plan, value) && status == TN_OK; row++)
      if (memcmp(bench->staging + bench->values[i].offset + row * bytes,
                 value->data + tn_step_case_row(plan, value, row) * bytes, bytes) != 0)
        status = tn_fail(error, TN_E_INTERNAL, "changed input %u, row %u", value->index, row);
  }
  if (status == TN_OK) status = read_back(bench, &bench->scratch, error);
  return status == TN_OK ? check_strips(bench, &bench->scratch, "scratch", 0, 0, -1, error) : status;
}

tn_status tn_bench_run(tn_bench *bench, tn_schedule schedule, uint8_t poison, tn_case_results *results,
                       tn_error *error) {
  tn_step_plan plan;
  if (!tn_step_plan_init(&plan, bench->c, schedule)) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = poison_all(bench, poison, error);
  if (status == TN_OK) status = put_regions(bench, error);
  for (bool first = true; status == TN_OK && tn_step_plan_next(&plan); first = false) {
    status = put_inputs(bench, &plan, error);
    if (status == TN_OK) status = execute(bench, &plan.batch, error);
    if (status == TN_OK) status = fetch_outputs(bench, &plan, poison, results, error);
    if (status == TN_OK && first) status = check_rest(bench, &plan, error);
  }
  tn_step_plan_finish(&plan);
  return status;
}

/* Seconds of the fastest of `repeats` steps that run the whole case. */
static tn_status time_steps(tn_bench *bench, uint32_t repeats, double *seconds, tn_error *error) {
  tn_step_plan plan;
  if (!tn_step_plan_init(&plan, bench->c, (tn_schedule){0})) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_step_plan_next(&plan);
  tn_status status = put_regions(bench, error);
  if (status == TN_OK) status = put_inputs(bench, &plan, error);
  for (uint32_t i = 0; i < repeats && status == TN_OK; i++) {
    uint64_t begin = tn_clock_ns();
    status = execute(bench, &plan.batch, error);
    if (status == TN_OK) status = synchronize(bench, error);
    double taken = (double)(tn_clock_ns() - begin) * 1e-9;
    if (i == 0 || taken < *seconds) *seconds = taken;
  }
  tn_step_plan_finish(&plan);
  return status;
}

tn_status tn_case_time(tn_opened_device *device, const tn_case *c, uint64_t timeout_ns, uint32_t repeats,
                       double *seconds, tn_error *error) {
  tn_bench bench;
  tn_case_results results = {0};
  tn_status status = tn_bench_start(&bench, device, c, timeout_ns, error);
  if (status != TN_OK) return status;
  status = tn_case_results_init(&results, c) ? tn_bench_run(&bench, (tn_schedule){0}, 0xff, &results, error)
                                             : tn_fail(error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK) status = time_steps(&bench, repeats, seconds, error);
  tn_case_results_finish(&results);
  tn_bench_finish(&bench);
  return status;
}
