/* Executing a prepared program: nothing that a caller passes is trusted, then the interpreter runs the kernels. */
#include "device/cpu/internal.h"

static tn_status resolve(tn_device *device, const tn_binding *bindings, uint32_t count, void **addresses) {
  for (uint32_t i = 0; i < count; i++) {
    const tn_binding *b = &bindings[i];
    tn_status status = tn_cpu_inside(device, b->buffer, b->offset, b->bytes);
    if (status != TN_OK) return status;
    addresses[i] = b->buffer->data + b->offset;
  }
  return TN_OK;
}

static tn_status check_execution(tn_executable *e, const tn_execution *x) {
  tn_device *device = e->device;
  tn_status status = tn_execution_check(e->program, e->page_bytes, x, device->error, sizeof device->error);
  if (status == TN_OK && x->scratch.bytes)
    status = tn_cpu_inside(device, x->scratch.buffer, x->scratch.offset, x->scratch.bytes);
  if (status == TN_OK) status = resolve(device, x->inputs, x->input_count, e->inputs);
  if (status == TN_OK) status = resolve(device, x->outputs, x->output_count, e->outputs);
  if (status == TN_OK) status = resolve(device, x->states, x->state_count, e->states);
  return status;
}

static tn_status interpret(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_device *device = e->device;
  tn_interpretation run = {.program = e->program,
                           .table = device->kernels->table,
                           .inputs = e->inputs,
                           .outputs = e->outputs,
                           .states = e->states,
                           .weights = e->weights,
                           .page_bytes = e->page_bytes,
                           .scratch = x->scratch.buffer ? x->scratch.buffer->data + x->scratch.offset : NULL,
                           .batch = x->batch,
                           .parallel = tn_pool_parallel(device->pool),
                           .workspace = e->workspace,
                           .workspace_bytes = e->workspace_bytes,
                           .observe = queue->counting.counters ? tn_count_op : NULL,
                           .observe_context = &queue->counting};
  uint32_t failed = TN_NO_VALUE;
  tn_status status = tn_interpret(&run, &failed);
  if (status != TN_OK && failed != TN_NO_VALUE) {
    const tn_op *op = tn_program_ops(e->program) + failed;
    tn_cpu_fail(device, status, "op %u (%s) failed", failed, tn_op_info_of(op->opcode)->name);
  }
  return status;
}

/* Before states are touched for the first time. */
static void begin_states(tn_executable *e, const tn_execution *x) {
  for (uint32_t i = 0; i < x->state_count && !e->has_run; i++)
    tn_cpu_begin_small(x->states[i].buffer, x->states[i].offset, x->states[i].bytes);
  e->has_run = true;
}

tn_status tn_cpu_execute(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_device *device = queue->device;
  tn_mutex_lock(device->mutex);
  tn_status status = check_execution(e, x);
  if (status == TN_OK) {
    begin_states(e, x);
    status = interpret(queue, e, x);
  }
  tn_mutex_unlock(device->mutex);
  return status;
}
