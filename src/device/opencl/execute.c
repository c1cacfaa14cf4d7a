/* Executing a program: nothing that a caller passes is trusted; then the batch goes to the device in one piece, and the
 * interpreter of driver.h walks the ops, whose "kernels" are the launches: each hands a few kernels to the queue and
 * returns. So when `execute` returns the work has only begun. */
#include <stdlib.h>
#include <string.h>
#include "device/opencl/internal.h"

static const size_t local_sizes[TN_OPENCL_KERNEL_COUNT][3] = {
#define X(NAME, name, x, y, z) {x, y, z},
    TN_OPENCL_KERNELS(X)
#undef X
};

const tn_kernel_table *tn_opencl_launches(void) {
  static const tn_kernel_table table = {.kernel = {
                                            [TN_OP_EMBED] = tn_opencl_embed,
                                            [TN_OP_SELECT_ROWS] = tn_opencl_select_rows,
                                            [TN_OP_LINEAR] = tn_opencl_linear,
                                            [TN_OP_NORM] = tn_opencl_norm,
                                            [TN_OP_ADD] = tn_opencl_value_by_value,
                                            [TN_OP_MUL] = tn_opencl_value_by_value,
                                            [TN_OP_ACTIVATION] = tn_opencl_value_by_value,
                                            [TN_OP_SCALE] = tn_opencl_value_by_value,
                                            [TN_OP_SOFTCAP] = tn_opencl_value_by_value,
                                            [TN_OP_QUANTISE] = tn_opencl_quantise,
                                            [TN_OP_SLICE] = tn_opencl_slice,
                                            [TN_OP_CONCAT] = tn_opencl_concat,
                                            [TN_OP_ROPE_TABLE] = tn_opencl_rope_table,
                                            [TN_OP_ROPE] = tn_opencl_rope,
                                            [TN_OP_KV_WRITE] = tn_opencl_kv_write,
                                            [TN_OP_ATTENTION] = tn_opencl_attention,
                                            [TN_OP_MOE_ROUTE] = tn_opencl_moe_route,
                                            [TN_OP_MOE_LINEAR] = tn_opencl_moe_linear,
                                            [TN_OP_MOE_COMBINE] = tn_opencl_moe_combine,
                                            [TN_OP_SHORT_CONV] = tn_opencl_short_conv,
                                            [TN_OP_DELTA_RULE] = tn_opencl_delta_rule,
                                            [TN_OP_HEAD_LINEAR] = tn_opencl_head_linear,
                                            [TN_OP_KV_COLUMNS] = tn_opencl_kv_columns,
                                            [TN_OP_ATTENTION_MASKED] = tn_opencl_attention_masked,
                                        }};
  return &table;
}

/* ---- launches ---- */

static tn_device *device_of(const tn_opencl_launch *launch) {
  return launch->run->queue->device;
}

static void set_argument(tn_opencl_launch *launch, size_t bytes, const void *value) {
  if (launch->error != CL_SUCCESS) return;
  launch->error = device_of(launch)->api.clSetKernelArg(launch->built, launch->argument++, bytes, value);
}

tn_opencl_launch tn_opencl_begin(const tn_kernel_call *call, tn_opencl_kernel kernel) {
  return tn_opencl_begin_for(call, kernel, TN_OPENCL_ALL);
}

tn_opencl_launch tn_opencl_begin_for(const tn_kernel_call *call, tn_opencl_kernel kernel, uint32_t dtype) {
  tn_opencl_run *run = call->workspace;
  const tn_opencl_program *programs = run->queue->device->programs;
  cl_kernel own = programs[dtype].kernels[kernel];
  return (tn_opencl_launch){.run = run, .kernel = kernel, .built = own ? own : programs[TN_OPENCL_ALL].kernels[kernel]};
}

uint64_t tn_opencl_memory(tn_opencl_launch *launch, const tn_tensor *tensor) {
  uint64_t address = tensor ? (uint64_t)(uintptr_t)tensor->data : 0;
  const tn_buffer *buffer = address ? device_of(launch)->buffers[address >> TN_OPENCL_OFFSET_BITS] : NULL;
  set_argument(launch, sizeof(cl_mem), buffer ? &buffer->memory : NULL);
  return address & (((uint64_t)1 << TN_OPENCL_OFFSET_BITS) - 1);
}

batch_arguments tn_opencl_batch(tn_opencl_launch *launch) {
  set_argument(launch, sizeof(cl_mem), &launch->run->queue->batch);
  return launch->run->batch;
}

void tn_opencl_values(tn_opencl_launch *launch, const void *values, size_t bytes) {
  set_argument(launch, bytes, values);
}

void tn_opencl_local(tn_opencl_launch *launch, size_t bytes) {
  set_argument(launch, bytes, NULL);
}

/* Notes the event of a kernel where ops are counted. */
static void note_measure(tn_queue *queue, cl_event event, uint64_t enqueued_ns) {
  tn_opencl_measure *m = TN_PUSH(queue->measures, queue->measure_count, queue->measure_capacity);
  if (m)
    *m = (tn_opencl_measure){event, enqueued_ns, queue->counting.count};
  else
    queue->device->api.clReleaseEvent(event);
}

tn_status tn_opencl_run_over(tn_opencl_launch *launch, uint64_t x, uint64_t y, uint64_t z) {
  tn_device *device = device_of(launch);
  tn_queue *queue = launch->run->queue;
  const size_t *local = local_sizes[launch->kernel];
  const uint64_t wanted[3] = {x, y, z};
  size_t global[3];
  for (uint32_t d = 0; d < 3; d++) global[d] = tn_round_up(wanted[d], local[d]);
  bool counted = queue->counting.counters && queue->counting.count < queue->counting.capacity;
  cl_event event = NULL;
  uint64_t now = counted ? tn_clock_ns() : 0;
  if (launch->error == CL_SUCCESS && x && y && z)
    launch->error = device->api.clEnqueueNDRangeKernel(queue->commands, launch->built, 3, NULL, global, local, 0, NULL,
                                                       counted ? &event : NULL);
  if (event) note_measure(queue, event, now);
  return tn_opencl_check(device, launch->error, "handing a kernel to the device");
}

/* ---- the batch ---- */

/* rows | sequences | page tables | rows that want logits, in 32-bit words. */
static tn_status upload_batch(tn_queue *queue, const tn_batch *b, batch_arguments *arguments) {
  tn_device *device = queue->device;
  const uint64_t rows = (uint64_t)b->row_count * sizeof(tn_row), pages = (uint64_t)b->page_count * sizeof *b->pages;
  const uint64_t sequences = (uint64_t)b->sequence_count * sizeof(tn_sequence);
  const uint64_t logits = (uint64_t)b->logits_count * sizeof *b->logits_rows;
  const uint64_t bytes = rows + sequences + pages + logits;
  int32_t error = CL_SUCCESS;
  if (bytes > queue->batch_bytes) {
    if (queue->batch) device->api.clReleaseMemObject(queue->batch);
    queue->batch_bytes = 2 * bytes;
    queue->batch = device->api.clCreateBuffer(device->context, CL_MEM_READ_WRITE, queue->batch_bytes, NULL, &error);
    if (!queue->batch) queue->batch_bytes = 0;
  }
  char *words = queue->batch ? tn_calloc(1, bytes) : NULL;
  if (!words)
    return tn_opencl_fail(device, TN_E_MEMORY, "no memory for a batch of %llu bytes", (unsigned long long)bytes);
  memcpy(words, b->rows, rows);
  memcpy(words + rows, b->sequences, sequences);
  if (pages) memcpy(words + rows + sequences, b->pages, pages);
  if (logits) memcpy(words + rows + sequences + pages, b->logits_rows, logits);
  *arguments = (batch_arguments){.sequences = (uint32_t)(rows / 4),
                                 .pages = (uint32_t)((rows + sequences) / 4),
                                 .logits_rows = (uint32_t)((rows + sequences + pages) / 4),
                                 .row_count = b->row_count};
  return tn_opencl_upload_own(queue, queue->batch, 0, words, bytes);
}

/* ---- execute ---- */

static tn_status resolve(tn_device *device, const tn_binding *bindings, uint32_t count, void **addresses) {
  for (uint32_t i = 0; i < count; i++) {
    const tn_binding *b = &bindings[i];
    tn_status status = tn_opencl_inside(device, b->buffer, b->offset, b->bytes);
    if (status != TN_OK) return status;
    addresses[i] = tn_opencl_address(b->buffer, b->offset);
  }
  return TN_OK;
}

static tn_status check_execution(tn_executable *e, const tn_execution *x) {
  tn_device *device = e->device;
  tn_status status = tn_execution_check(e->program, e->page_bytes, x, device->error, sizeof device->error);
  if (status == TN_OK && x->scratch.bytes)
    status = tn_opencl_inside(device, x->scratch.buffer, x->scratch.offset, x->scratch.bytes);
  if (status == TN_OK) status = resolve(device, x->inputs, x->input_count, e->inputs);
  if (status == TN_OK) status = resolve(device, x->outputs, x->output_count, e->outputs);
  if (status == TN_OK) status = resolve(device, x->states, x->state_count, e->states);
  return status;
}

static tn_status interpret(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_opencl_run run = {.queue = queue};
  tn_status status = upload_batch(queue, x->batch, &run.batch);
  if (status != TN_OK) return status;
  const tn_interpretation interpretation = {
      .program = e->program,
      .table = tn_opencl_launches(),
      .inputs = e->inputs,
      .outputs = e->outputs,
      .states = e->states,
      .weights = e->weights,
      .page_bytes = e->page_bytes,
      .scratch = x->scratch.buffer ? tn_opencl_address(x->scratch.buffer, x->scratch.offset) : NULL,
      .batch = x->batch,
      .workspace = &run,
      .observe = queue->counting.counters ? tn_count_op : NULL,
      .observe_context = &queue->counting};
  uint32_t failed = TN_NO_VALUE;
  status = tn_interpret(&interpretation, &failed);
  if (status == TN_E_INVALID && failed != TN_NO_VALUE) {
    const tn_op *op = tn_program_ops(e->program) + failed;
    tn_opencl_fail(e->device, status, "op %u (%s) failed", failed, tn_op_info_of(op->opcode)->name);
  }
  if (status == TN_OK)
    status = tn_opencl_check(e->device, e->device->api.clFlush(queue->commands), "starting the work");
  return status;
}

tn_status tn_opencl_execute(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_device *device = queue->device;
  tn_mutex_lock(device->mutex);
  tn_status status = check_execution(e, x);
  if (status == TN_OK) status = interpret(queue, e, x);
  tn_mutex_unlock(device->mutex);
  return status;
}
