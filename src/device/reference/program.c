/* Programs on the reference device: checked and copied when prepared, interpreted when executed. Nothing is allocated
 * in an execution, and nothing that a caller passes is trusted: bindings and page numbers are checked against the
 * buffers first. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/reference/internal.h"

/* For kernels that want workspace; the reference kernels want none. */
#define WORKSPACE_BYTES 4096u

struct tn_executable {
  tn_device *device;
  tn_program *program;
  tn_tensor *weights; /* by binding number, as are all below */
  uint64_t *page_bytes;
  void **inputs, **outputs, **states; /* addresses of the execution that runs now */
  void *workspace;
};

/* ---- prepare ---- */

static tn_status out_of_memory(tn_device *device) {
  return tn_reference_fail(device, TN_E_MEMORY, "out of memory");
}

static tn_status bind_weight(tn_device *device, uint32_t number, const tn_weight_binding *binding, tn_tensor *tensor) {
  const tn_weight_desc *desc = &binding->desc;
  tn_weight_layout layout = {.size = sizeof layout};
  tn_status status = tn_plain_layout(desc, &layout);
  if (status) return tn_reference_fail(device, status, "weight %u has no plain layout", number);
  if (binding->layout.id != layout.id || binding->memory.bytes < layout.bytes) {
    return tn_reference_fail(device, TN_E_INVALID, "weight %u is not in the layout of its description", number);
  }
  status = tn_reference_inside(device, binding->memory.buffer, binding->memory.offset, layout.bytes);
  if (status) return status;
  tensor->data = binding->memory.buffer->data + binding->memory.offset;
  tensor->layout = layout.id;
  tensor->row_bytes = tn_plain_row_bytes(desc);
  return TN_OK;
}

/* A weight of the program must be the weight that is bound: same format and shape. */
static tn_status check_weight_value(tn_device *device, const tn_value *value, const tn_weight_desc *desc) {
  bool same = value->rank == desc->rank && value->dtype == desc->dtype;
  for (uint32_t i = 0; same && i < value->rank; i++) same = (uint64_t)value->dims[i] == desc->dims[i];
  if (same) return TN_OK;
  return tn_reference_fail(device, TN_E_INVALID, "weight %u is bound with another type or shape", value->index);
}

static tn_status bind_values(tn_executable *e, const tn_weight_binding *weights) {
  const tn_program *program = e->program;
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < program->weight_count && status == TN_OK; i++) {
    status = bind_weight(e->device, i, &weights[i], &e->weights[i]);
  }
  for (uint32_t i = 0; i < program->value_count && status == TN_OK; i++) {
    const tn_value *value = tn_program_values(program) + i;
    if (value->kind == TN_VALUE_WEIGHT) status = check_weight_value(e->device, value, &weights[value->index].desc);
    if (value->kind != TN_VALUE_STATE) continue;
    const uint32_t *dims = (const uint32_t *)value->dims;
    tn_state_desc desc = {sizeof desc, value->dtype, dims[0], dims[1], dims[2], dims[3]};
    tn_state_layout layout = {.size = sizeof layout};
    status = tn_plain_state_layout(&desc, &layout);
    if (status) return tn_reference_fail(e->device, status, "state %u has no plain page", value->index);
    e->page_bytes[value->index] = layout.page_bytes;
  }
  return status;
}

static tn_status check_ops(tn_device *device, const tn_program *program) {
  for (uint32_t i = 0; i < program->op_count; i++) {
    const tn_op *op = tn_program_ops(program) + i;
    tn_op_query query;
    tn_program_query(program, op, &query);
    if (tn_reference_supports(&query)) {
      return tn_reference_fail(device, TN_E_UNSUPPORTED, "op %u (%s) is not supported", i,
                               tn_op_info_of(op->opcode)->name);
    }
  }
  return TN_OK;
}

tn_status tn_reference_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                               uint32_t weight_count, tn_progress progress, void *progress_context,
                               tn_executable **executable) {
  *executable = NULL;
  if (progress && progress(progress_context, 0, 1)) return tn_reference_fail(device, TN_E_CANCELLED, "cancelled");
  tn_status status = tn_program_check(program, program->bytes, device->error, sizeof device->error);
  if (status) return status;
  if (weight_count != program->weight_count) {
    return tn_reference_fail(device, TN_E_INVALID, "the program has %u weights, %u are bound", program->weight_count,
                             weight_count);
  }
  status = check_ops(device, program);
  if (status) return status;
  tn_executable *e = tn_calloc(1, sizeof *e);
  if (!e) return out_of_memory(device);
  e->device = device;
  e->program = malloc(program->bytes);
  e->weights = tn_calloc(weight_count + 1, sizeof *e->weights);
  e->page_bytes = tn_calloc(program->state_count + 1, sizeof *e->page_bytes);
  e->inputs = tn_calloc(program->input_count + 1, sizeof *e->inputs);
  e->outputs = tn_calloc(program->output_count + 1, sizeof *e->outputs);
  e->states = tn_calloc(program->state_count + 1, sizeof *e->states);
  e->workspace = aligned_alloc(64, WORKSPACE_BYTES);
  bool complete = e->program && e->weights && e->page_bytes && e->inputs && e->outputs && e->states && e->workspace;
  if (complete) memcpy(e->program, program, program->bytes);
  status = complete ? bind_values(e, weights) : out_of_memory(device);
  if (status) {
    tn_reference_release(e);
    return status;
  }
  if (progress) progress(progress_context, 1, 1);
  *executable = e;
  return TN_OK;
}

void tn_reference_release(tn_executable *e) {
  if (!e) return;
  free(e->program);
  free(e->weights);
  free(e->page_bytes);
  free(e->inputs);
  free(e->outputs);
  free(e->states);
  free(e->workspace);
  free(e);
}

/* ---- execute ---- */

/* Turns bindings into addresses; each must lie in its buffer. */
static tn_status resolve(tn_device *device, const tn_binding *bindings, uint32_t count, void **addresses) {
  for (uint32_t i = 0; i < count; i++) {
    const tn_binding *b = &bindings[i];
    tn_status status = tn_reference_inside(device, b->buffer, b->offset, b->bytes);
    if (status) return status;
    addresses[i] = b->buffer->data + b->offset;
  }
  return TN_OK;
}

static tn_status check_execution(tn_executable *e, const tn_execution *x) {
  tn_device *device = e->device;
  tn_status status = tn_execution_check(e->program, e->page_bytes, x, device->error, sizeof device->error);
  if (status == TN_OK) status = resolve(device, x->inputs, x->input_count, e->inputs);
  if (status == TN_OK) status = resolve(device, x->outputs, x->output_count, e->outputs);
  if (status == TN_OK) status = resolve(device, x->states, x->state_count, e->states);
  if (status == TN_OK && x->scratch.bytes) {
    status = tn_reference_inside(device, x->scratch.buffer, x->scratch.offset, x->scratch.bytes);
  }
  return status;
}

static void run_in_order(void *context, void (*body)(void *argument, uint32_t index, uint32_t worker), void *argument,
                         uint32_t count) {
  (void)context;
  for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
}

static tn_status interpret(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  static const tn_parallel one_thread = {.workers = 1, .run = run_in_order};
  tn_interpretation run = {.program = e->program,
                           .table = tn_reference_kernels(),
                           .inputs = e->inputs,
                           .outputs = e->outputs,
                           .states = e->states,
                           .weights = e->weights,
                           .page_bytes = e->page_bytes,
                           .scratch = x->scratch.buffer ? x->scratch.buffer->data + x->scratch.offset : NULL,
                           .batch = x->batch,
                           .parallel = &one_thread,
                           .workspace = e->workspace,
                           .workspace_bytes = WORKSPACE_BYTES,
                           .observe = queue->counting.counters ? tn_count_op : NULL,
                           .observe_context = &queue->counting};
  uint32_t failed = TN_NO_VALUE;
  tn_status status = tn_interpret(&run, &failed);
  if (status && failed != TN_NO_VALUE) {
    const tn_op *op = tn_program_ops(e->program) + failed;
    tn_reference_fail(e->device, status, "op %u (%s) failed", failed, tn_op_info_of(op->opcode)->name);
  }
  return status;
}

tn_status tn_reference_execute(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_status status = tn_reference_enter(e->device);
  if (status) return status;
  tn_mutex_lock(e->device->mutex);
  status = check_execution(e, x);
  if (status == TN_OK) status = interpret(queue, e, x);
  tn_mutex_unlock(e->device->mutex);
  tn_reference_leave(e->device);
  return status;
}
