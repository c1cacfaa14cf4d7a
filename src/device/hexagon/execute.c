/* Executions: nothing that a caller passes is trusted; then bindings and batch go into the window and the DSP is rung.
 * An executable has one place for them, so a second execution of it waits for the first. */
#include <string.h>
#include "base/memory.h"
#include "device/hexagon/internal.h"

static tn_status check_bindings(tn_device *device, const tn_binding *bindings, uint32_t count) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; status == TN_OK && i < count; i++)
    status = tn_hexagon_inside(device, bindings[i].buffer, bindings[i].offset, bindings[i].bytes);
  return status;
}

static tn_status check_execution(const tn_executable *e, const tn_execution *x) {
  tn_device *device = e->device;
  tn_status status = tn_execution_check(e->program, e->page_bytes, x, device->error, sizeof device->error);
  if (status == TN_OK && x->scratch.bytes) status = check_bindings(device, &x->scratch, 1);
  if (status == TN_OK) status = check_bindings(device, x->inputs, x->input_count);
  if (status == TN_OK) status = check_bindings(device, x->outputs, x->output_count);
  if (status == TN_OK) status = check_bindings(device, x->states, x->state_count);
  return status;
}

/* ---- the message ---- */

static uint64_t array_bytes(uint64_t count, size_t size) {
  return tn_round_up(count * size, 8);
}

static uint64_t message_bytes(const tn_execution *x) {
  const tn_batch *batch = x->batch;
  return sizeof(tn_hexagon_execution) + array_bytes(x->input_count, 4) + array_bytes(x->output_count, 4) +
         array_bytes(x->state_count, 4) + array_bytes(batch->row_count, sizeof(tn_row)) +
         array_bytes(batch->sequence_count, sizeof(tn_sequence)) + array_bytes(batch->page_count, 4) +
         array_bytes(batch->logits_count, 4);
}

/* Bytes of the largest message there can be, as far as the program says; page tables of one group for all sequences. */
static uint64_t usual_bytes(const tn_program *p) {
  uint64_t pages = (uint64_t)p->max_sequences * (p->max_context / TN_PAGE_SLOTS + 1);
  return sizeof(tn_hexagon_execution) + 4 * ((uint64_t)p->input_count + p->output_count + p->state_count) +
         p->max_rows * sizeof(tn_row) + p->max_sequences * sizeof(tn_sequence) + 4 * pages + 4 * p->max_logits_rows +
         64;
}

#define MOST_AT_FIRST ((uint64_t)1 << 20)

/* Room for a message; more is taken only where a batch has more page tables than any before. */
static tn_status make_room(tn_executable *e, const tn_execution *x) {
  uint64_t bytes = message_bytes(x), usual = usual_bytes(e->program);
  if (e->message && e->message->bytes >= bytes) return TN_OK;
  tn_buffer *larger;
  if (usual > MOST_AT_FIRST) usual = MOST_AT_FIRST;
  tn_status status = tn_hexagon_alloc(e->device, bytes > usual ? bytes + bytes / 2 : usual, &larger);
  if (status != TN_OK) return status;
  tn_hexagon_free(e->device, e->message);
  e->message = larger;
  return TN_OK;
}

/* Where the next array of the message goes. */
typedef struct writer {
  tn_device *device;
  uint8_t *at;
} writer;

static uint32_t put(writer *w, const void *from, uint64_t count, size_t size) {
  if (!count) return 0;
  uint32_t offset = tn_hexagon_offset(w->device, w->at);
  memcpy(w->at, from, count * size);
  w->at += array_bytes(count, size);
  return offset;
}

static uint32_t put_bindings(writer *w, const tn_binding *bindings, uint32_t count) {
  uint32_t *to = (uint32_t *)(void *)w->at, offset = tn_hexagon_offset(w->device, w->at);
  for (uint32_t i = 0; i < count; i++) to[i] = (uint32_t)(bindings[i].buffer->offset + bindings[i].offset);
  w->at += array_bytes(count, 4);
  return count ? offset : 0;
}

static tn_hexagon_execution *write_message(tn_executable *e, const tn_execution *x) {
  tn_device *device = e->device;
  const tn_batch *batch = x->batch;
  tn_hexagon_execution *m = tn_hexagon_host_pointer(device, e->message);
  writer w = {device, (uint8_t *)(m + 1)};
  *m = (tn_hexagon_execution){
      .program = tn_hexagon_offset(device, e->prepared),
      .inputs = put_bindings(&w, x->inputs, x->input_count),
      .outputs = put_bindings(&w, x->outputs, x->output_count),
      .states = put_bindings(&w, x->states, x->state_count),
      .scratch = x->scratch.buffer ? (uint32_t)(x->scratch.buffer->offset + x->scratch.offset) : 0,
      .rows = put(&w, batch->rows, batch->row_count, sizeof *batch->rows),
      .sequences = put(&w, batch->sequences, batch->sequence_count, sizeof *batch->sequences),
      .pages = put(&w, batch->pages, batch->page_count, sizeof *batch->pages),
      .logits_rows = put(&w, batch->logits_rows, batch->logits_count, sizeof *batch->logits_rows),
      .row_count = batch->row_count,
      .sequence_count = batch->sequence_count,
      .page_count = batch->page_count,
      .logits_count = batch->logits_count,
      .context = batch->context};
  return m;
}

/* ---- counters ---- */

/* Room for what the DSP measures, where the queue wants it. */
static tn_status make_counters(const tn_queue *queue, tn_executable *e) {
  if (!queue->counters || e->counters) return TN_OK;
  return tn_hexagon_alloc(e->device, e->program->op_count * sizeof(tn_hexagon_counter), &e->counters);
}

void tn_hexagon_collect(tn_queue *queue, const tn_executable *e) {
  tn_device *device = queue->device;
  if (!e->counters) return;
  const tn_hexagon_execution *m = tn_hexagon_host_pointer(device, e->message);
  const tn_hexagon_counter *from = tn_hexagon_host_pointer(device, e->counters);
  uint32_t count = m->counters ? m->counter_count : 0;
  if (count > e->program->op_count) count = 0;
  for (uint32_t i = 0; i < count && queue->counter_count < TN_HEXAGON_MAX_COUNTERS; i++) {
    queue->instructions[queue->counter_count] = from[i].instructions;
    queue->counters[queue->counter_count++] = (tn_op_counter){.op = from[i].op,
                                                              .start_ns = from[i].start_ns,
                                                              .end_ns = from[i].end_ns,
                                                              .cycles = from[i].packets,
                                                              .bytes = from[i].bytes};
  }
}

/* ---- execution ---- */

/* With the mutex held. */
static tn_status submit(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_device *device = e->device;
  tn_hexagon_execution *message = write_message(e, x);
  if (queue->counters) {
    message->counters = (uint32_t)e->counters->offset;
    message->counter_capacity = e->program->op_count;
  }
  tn_status status = tn_hexagon_submit(device, TN_HEXAGON_EXECUTE, message, (pending_command){queue, e}, &queue->last);
  if (status == TN_OK) e->last = queue->last;
  return status;
}

tn_status tn_hexagon_execute(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_device *device = queue->device;
  tn_status status = check_execution(e, x);
  if (status == TN_OK && e->message) status = tn_hexagon_wait(device, e->last, UINT64_MAX);
  if (status != TN_OK) return status;
  tn_mutex_lock(device->mutex);
  tn_hexagon_retire(device);
  tn_mutex_unlock(device->mutex);
  status = make_room(e, x);
  if (status == TN_OK) status = make_counters(queue, e);
  if (status != TN_OK) return status;
  tn_mutex_lock(device->mutex);
  status = submit(queue, e, x);
  tn_mutex_unlock(device->mutex);
  return status;
}
