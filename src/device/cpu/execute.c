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

static uint64_t dim_now(int32_t dim, const tn_batch *batch) {
  switch (dim) {
    case TN_DIM_T: return batch->row_count;
    case TN_DIM_S: return batch->sequence_count;
    case TN_DIM_R: return batch->logits_count;
    case TN_DIM_C: return batch->context;
    default: return (uint64_t)dim;
  }
}

/* Inputs and outputs must have room for the rows of this batch. */
static tn_status check_sizes(const tn_executable *e, const tn_execution *x) {
  for (uint32_t i = 0; i < e->program->value_count; i++) {
    const tn_value *value = tn_program_values(e->program) + i;
    bool input = value->kind == TN_VALUE_INPUT;
    if (!input && value->kind != TN_VALUE_OUTPUT) continue;
    uint64_t bytes = tn_row_bytes(value->dtype, dim_now(value->dims[value->rank - 1], x->batch));
    for (uint32_t d = 0; d + 1 < value->rank; d++) bytes *= dim_now(value->dims[d], x->batch);
    uint64_t bound = input ? x->inputs[value->index].bytes : x->outputs[value->index].bytes;
    if (bound < bytes)
      return tn_cpu_fail(e->device, TN_E_INVALID, "%s %u: %llu bytes are bound, %llu are needed",
                         input ? "input" : "output", value->index, (unsigned long long)bound,
                         (unsigned long long)bytes);
  }
  return TN_OK;
}

/* The pages that one op touches in one sequence: they must be in its table, and among the state's. */
static tn_status check_table(tn_device *device, const tn_batch *batch, const tn_sequence *sequence, uint32_t group,
                             uint32_t window, uint64_t pages) {
  uint32_t first = window && sequence->kv_length >= window ? sequence->kv_length - window + 1 : 0;
  uint64_t table = sequence->pages[group];
  uint64_t last = table + (sequence->kv_length + sequence->row_count - 1) / TN_PAGE_SLOTS;
  if (last >= batch->page_count)
    return tn_cpu_fail(device, TN_E_INVALID, "a page table ends at %u, entry %llu is needed", batch->page_count,
                       (unsigned long long)last);
  for (uint64_t i = table + first / TN_PAGE_SLOTS; i <= last; i++)
    if (batch->pages[i] >= pages)
      return tn_cpu_fail(device, TN_E_INVALID, "page %u: the state has %llu pages", batch->pages[i],
                         (unsigned long long)pages);
  return TN_OK;
}

/* The slots of recurrent states that an op will touch must be the state's. */
static tn_status check_slots(const tn_executable *e, const tn_execution *x, const tn_op *op) {
  uint32_t state = (tn_program_values(e->program) + op->inputs[op->opcode == TN_OP_SHORT_CONV ? 2 : 5])->index;
  uint64_t slots = x->states[state].bytes / e->page_bytes[state];
  for (uint32_t s = 0; s < x->batch->sequence_count; s++) {
    const tn_sequence *q = &x->batch->sequences[s];
    if (q->state_read >= slots || q->state_write >= slots)
      return tn_cpu_fail(e->device, TN_E_INVALID, "state slots %u and %u: the state has %llu", q->state_read,
                         q->state_write, (unsigned long long)slots);
  }
  return TN_OK;
}

static tn_status check_pages(const tn_executable *e, const tn_execution *x) {
  const tn_value *values = tn_program_values(e->program);
  for (uint32_t i = 0; i < e->program->op_count; i++) {
    const tn_op *op = tn_program_ops(e->program) + i;
    const void *attributes = tn_program_attributes(e->program, op);
    uint32_t group, window, state;
    if (op->opcode == TN_OP_ATTENTION) {
      const tn_attention_attributes *a = attributes;
      group = a->group, window = a->window, state = values[op->inputs[1]].index;
    } else if (op->opcode == TN_OP_KV_WRITE) {
      const tn_kv_write_attributes *a = attributes;
      group = a->group, window = 1, state = values[op->inputs[2]].index;
    } else if (op->opcode == TN_OP_SHORT_CONV || op->opcode == TN_OP_DELTA_RULE) {
      tn_status status = check_slots(e, x, op);
      if (status != TN_OK) return status;
      continue;
    } else {
      continue;
    }
    uint64_t pages = x->states[state].bytes / e->page_bytes[state];
    for (uint32_t s = 0; s < x->batch->sequence_count; s++) {
      tn_status status = check_table(e->device, x->batch, &x->batch->sequences[s], group, window, pages);
      if (status != TN_OK) return status;
    }
  }
  return TN_OK;
}

static tn_status check_execution(tn_executable *e, const tn_execution *x) {
  const tn_program *program = e->program;
  tn_device *device = e->device;
  if (x->input_count != program->input_count || x->output_count != program->output_count ||
      x->state_count != program->state_count)
    return tn_cpu_fail(device, TN_E_INVALID, "%u inputs, %u outputs, %u states are bound, not %u, %u, %u",
                       x->input_count, x->output_count, x->state_count, program->input_count, program->output_count,
                       program->state_count);
  if (tn_batch_check(x->batch, program) != TN_OK)
    return tn_cpu_fail(device, TN_E_INVALID, "the batch is not consistent");
  if (x->scratch.bytes < program->scratch_bytes)
    return tn_cpu_fail(device, TN_E_INVALID, "%llu bytes of scratch are bound, %llu are needed",
                       (unsigned long long)x->scratch.bytes, (unsigned long long)program->scratch_bytes);
  tn_status status = TN_OK;
  if (x->scratch.bytes) status = tn_cpu_inside(device, x->scratch.buffer, x->scratch.offset, x->scratch.bytes);
  if (status == TN_OK) status = resolve(device, x->inputs, x->input_count, e->inputs);
  if (status == TN_OK) status = resolve(device, x->outputs, x->output_count, e->outputs);
  if (status == TN_OK) status = resolve(device, x->states, x->state_count, e->states);
  if (status == TN_OK) status = check_sizes(e, x);
  if (status == TN_OK) status = check_pages(e, x);
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

tn_status tn_cpu_execute(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_device *device = queue->device;
  tn_mutex_lock(device->mutex);
  tn_status status = check_execution(e, x);
  if (status == TN_OK) status = interpret(queue, e, x);
  tn_mutex_unlock(device->mutex);
  return status;
}
