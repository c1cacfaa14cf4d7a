/* Faults in executions: the batch is changed before, the results after. Everything is waited for, which is slow and
 * does not matter here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/faulty/internal.h"

/* ---- the batch ---- */

/* A copy of a batch that may be changed. */
typedef struct batch_copy {
  tn_batch batch;
  tn_row *rows;
  uint32_t *pages, *logits_rows;
} batch_copy;

static void *copy_array(const void *from, size_t count, size_t size) {
  void *copy = calloc(count + 1, size);
  if (copy && count) memcpy(copy, from, count * size);
  return copy;
}

static void batch_copy_finish(batch_copy *copy) {
  free(copy->rows);
  free(copy->pages);
  free(copy->logits_rows);
}

static bool batch_copy_init(batch_copy *copy, const tn_batch *batch) {
  copy->batch = *batch;
  copy->rows = copy_array(batch->rows, batch->row_count, sizeof *copy->rows);
  copy->pages = copy_array(batch->pages, batch->page_count, sizeof *copy->pages);
  copy->logits_rows = copy_array(batch->logits_rows, batch->logits_count, sizeof *copy->logits_rows);
  copy->batch.rows = copy->rows;
  copy->batch.pages = copy->pages;
  copy->batch.logits_rows = copy->logits_rows;
  return copy->rows && copy->pages && copy->logits_rows;
}

static void change_batch(tn_fault fault, batch_copy *copy) {
  const tn_batch *b = &copy->batch;
  if (fault == TN_FAULT_WRONG_POSITION)
    for (uint32_t r = 0; r < b->row_count; r++) copy->rows[r].position[0]++;
  if (fault == TN_FAULT_WRONG_PAGE)
    for (uint32_t s = 0; s < b->sequence_count; s++)
      for (uint32_t g = 0; g < TN_MAX_GROUPS; g++) {
        uint32_t table = b->sequences[s].pages[g], slots = b->sequences[s].kv_length + b->sequences[s].row_count;
        for (uint32_t i = 1; i < (slots + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS && table + i < b->page_count; i++)
          copy->pages[table + i] = copy->pages[table];
      }
  if (fault == TN_FAULT_WRONG_ROW && b->logits_count) {
    uint32_t *last = &copy->logits_rows[b->logits_count - 1];
    if (*last && (b->logits_count == 1 || last[-1] < *last - 1)) --*last;
  }
}

/* ---- results ---- */

/* One output on the host. */
typedef struct output {
  const tn_value *value;
  const tn_binding *binding;
  uint32_t rows, cols;
  uint64_t row_bytes;
  uint8_t *before, *data;
} output;

static tn_status fetch(tn_queue *q, const tn_binding *from, uint64_t bytes, uint8_t *to) {
  const tn_driver *inner = q->owner->inner;
  tn_status status = inner->copy_out(q->queue, to, from->buffer, from->offset, bytes);
  return status ? status : inner->synchronize(q->queue, UINT64_MAX);
}

static tn_status put(tn_queue *q, const tn_binding *to, uint64_t bytes, const uint8_t *from) {
  return q->owner->inner->copy_in(q->queue, to->buffer, to->offset, from, bytes);
}

static void swap_heads(const tn_program *program, const output *o) {
  for (uint32_t i = 0; i < program->op_count; i++) {
    const tn_op *op = tn_program_ops(program) + i;
    if (op->opcode != TN_OP_ATTENTION || tn_program_values(program) + op->outputs[0] != o->value) continue;
    const tn_attention_attributes *a = tn_program_attributes(program, op);
    for (uint32_t row = 0; a->heads > 1 && row < o->rows; row++)
      for (uint32_t c = 0; c < a->value_dim; c++) {
        float *y = (float *)(void *)(o->data + row * o->row_bytes), first = y[c];
        y[c] = y[a->value_dim + c];
        y[a->value_dim + c] = first;
      }
  }
}

static float change_value(tn_fault fault, float value) {
  if (fault == TN_FAULT_SATURATION && fabsf(value) > 100) return copysignf(100, value);
  if (fault == TN_FAULT_LOST_NAN && isnan(value)) return 0;
  return value;
}

static void change_output(tn_fault fault, const tn_program *program, const output *o, uint32_t batch_rows,
                          float scratch) {
  if (o->value->dtype != TN_F32 || !o->rows) return;
  if (fault == TN_FAULT_SWAPPED_HEADS) swap_heads(program, o);
  for (uint32_t row = 0; row < o->rows; row++) {
    float *y = (float *)(void *)(o->data + row * o->row_bytes);
    for (uint32_t c = 0; c < o->cols; c++) y[c] = change_value(fault, y[c]);
    if (fault == TN_FAULT_TAIL)
      memcpy(y + o->cols - 1, o->before + row * o->row_bytes + (o->cols - 1) * sizeof *y, sizeof *y);
    if (fault == TN_FAULT_BATCH_DEPENDENT && batch_rows > 1) o->data[row * o->row_bytes] ^= 1;
    if (fault == TN_FAULT_LAST_BIT) o->data[row * o->row_bytes + (o->cols - 1) * sizeof *y] ^= 1;
    if (fault == TN_FAULT_UNINITIALISED) y[0] += scratch * 1e-9f;
  }
}

static uint32_t rows_of(const tn_value *value, const tn_batch *batch) {
  if (value->dims[0] == TN_DIM_R) return batch->logits_count;
  return value->dims[0] == TN_DIM_T ? batch->row_count : (uint32_t)value->dims[0];
}

static tn_status take_output(tn_queue *q, const tn_execution *x, const tn_value *value, output *o) {
  *o = (output){.value = value, .binding = &x->outputs[value->index], .rows = rows_of(value, x->batch)};
  o->cols = (uint32_t)value->dims[1];
  o->row_bytes = tn_row_bytes(value->dtype, o->cols);
  uint64_t bytes = o->rows * o->row_bytes;
  o->before = malloc(bytes + 1);
  o->data = malloc(bytes + 1);
  if (!o->before || !o->data) return TN_E_MEMORY;
  return bytes <= o->binding->bytes ? fetch(q, o->binding, bytes, o->before) : TN_E_INVALID;
}

/* late: the buffer keeps what it held, the result waits. */
static tn_status hold(tn_queue *q, output *o) {
  if (q->held_count == sizeof q->held / sizeof *q->held) return TN_OK;
  uint64_t bytes = o->rows * o->row_bytes;
  tn_status status = put(q, o->binding, bytes, o->before);
  q->held[q->held_count++] = (tn_held_bytes){o->binding->buffer, o->binding->offset, bytes, o->data};
  q->held_for = 2;
  o->data = NULL;
  return status;
}

static tn_status change_outputs(tn_queue *q, const tn_executable *e, const tn_execution *x, output *outputs,
                                uint32_t count) {
  tn_fault fault = q->owner->fault;
  float scratch = 0;
  tn_status status = TN_OK;
  if (x->scratch.bytes >= sizeof scratch) status = fetch(q, &x->scratch, sizeof scratch, (uint8_t *)&scratch);
  for (uint32_t i = 0; i < count && status == TN_OK; i++) {
    output *o = &outputs[i];
    uint64_t bytes = o->rows * o->row_bytes;
    status = fetch(q, o->binding, bytes, o->data);
    if (status != TN_OK) break;
    change_output(fault, e->program, o, x->batch->row_count, scratch);
    status = fault == TN_FAULT_LATE ? hold(q, o) : put(q, o->binding, bytes, o->data);
    if (status == TN_OK && fault == TN_FAULT_WRITES_OUTSIDE)
      q->owner->inner->fill(q->queue, o->binding->buffer, o->binding->offset + o->binding->bytes, 0, 4);
  }
  if (status == TN_OK && fault == TN_FAULT_WRITES_INPUT && x->input_count)
    status = q->owner->inner->fill(q->queue, x->inputs[0].buffer, x->inputs[0].offset, 0, 4);
  return status;
}

tn_status tn_fault_execute(tn_queue *q, tn_executable *e, const tn_execution *execution) {
  const tn_driver *inner = q->owner->inner;
  output outputs[TN_MAX_OPERANDS] = {{0}};
  batch_copy copy = {0};
  tn_execution x = *execution;
  uint32_t count = 0;
  tn_status status = TN_E_MEMORY;
  if (!e->executable) return TN_OK; /* accepts-anything */
  bool is_sound = x.output_count == e->program->output_count && tn_batch_check(x.batch, e->program) == TN_OK;
  if (!is_sound || !batch_copy_init(&copy, x.batch)) {
    batch_copy_finish(&copy);
    return inner->execute(q->queue, e->executable, execution);
  }
  change_batch(q->owner->fault, &copy);
  x.batch = &copy.batch;
  status = TN_OK;
  for (uint32_t i = 0; i < e->program->value_count && count < TN_MAX_OPERANDS && status == TN_OK; i++) {
    const tn_value *value = tn_program_values(e->program) + i;
    if (value->kind == TN_VALUE_OUTPUT) status = take_output(q, &x, value, &outputs[count++]);
  }
  if (status == TN_OK) status = inner->execute(q->queue, e->executable, &x);
  if (status == TN_OK) status = change_outputs(q, e, &x, outputs, count);
  for (uint32_t i = 0; i < count; i++) {
    free(outputs[i].before);
    free(outputs[i].data);
  }
  batch_copy_finish(&copy);
  return status;
}

void tn_fault_drop_held(tn_queue *q) {
  for (uint32_t i = 0; i < q->held_count; i++) free(q->held[i].data);
  q->held_count = 0;
}

void tn_fault_release_held(tn_queue *q) {
  if (!q->held_count || --q->held_for) return;
  for (uint32_t i = 0; i < q->held_count; i++)
    q->owner->inner->copy_in(q->queue, q->held[i].buffer, q->held[i].offset, q->held[i].data, q->held[i].bytes);
  tn_fault_drop_held(q);
}
