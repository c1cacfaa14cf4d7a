/* Counters of ops, as an observer of the interpreter (see driver.h). */
#include "tenon/driver.h"

/* Bytes of an operand as a program sees it: a weight in its source format, of what rows are chosen from only those, of
 * KV nothing (what is read of it depends on the sequences). */
static uint64_t operand_bytes(const tn_kernel_call *call, const tn_tensor *tensor) {
  if (!tensor->data || tensor->kind == TN_VALUE_STATE) return 0;
  uint64_t rows = 1;
  for (uint32_t d = 0; d + 1 < tensor->rank; d++) rows *= tensor->dims[d];
  if (call->opcode == TN_OP_EMBED && tensor->kind == TN_VALUE_WEIGHT) rows = call->batch->row_count;
  if (call->opcode == TN_OP_SELECT_ROWS) rows = call->batch->logits_count;
  return rows * tn_row_bytes(tensor->dtype, tensor->dims[tensor->rank - 1]);
}

void tn_count_op(void *context, uint32_t op, int after, const tn_kernel_call *call) {
  tn_counting *counting = context;
  if (counting->count >= counting->capacity) return;
  tn_op_counter *counter = &counting->counters[counting->count];
  if (!after) {
    *counter = (tn_op_counter){.op = op, .start_ns = counting->now_ns()};
    return;
  }
  counter->end_ns = counting->now_ns();
  for (uint32_t i = 0; i < call->input_count; i++) counter->bytes += operand_bytes(call, &call->inputs[i]);
  for (uint32_t i = 0; i < call->output_count; i++) counter->bytes += operand_bytes(call, &call->outputs[i]);
  counting->count++;
}

void tn_counting_read(tn_counting *counting, tn_op_counter *to, uint32_t *count) {
  uint32_t capacity = *count;
  *count = counting->count;
  if (capacity < counting->count) return;
  for (uint32_t i = 0; i < counting->count; i++) to[i] = counting->counters[i];
  counting->count = 0;
}
