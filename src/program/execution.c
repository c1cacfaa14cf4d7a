/* Is an execution one of its program? For drivers that trust nobody (see driver.h). */
#include <stdbool.h>
#include "program/line.h"
#include "tenon/driver.h"

static tn_status refuse(tn_line *why, const char *a, uint64_t x, const char *b, uint64_t y, const char *c) {
  tn_line_put(why, a);
  tn_line_number(why, x);
  tn_line_put(why, b);
  tn_line_number(why, y);
  tn_line_put(why, c);
  return TN_E_INVALID;
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

static tn_status check_counts(const tn_program *program, const tn_execution *x, tn_line *why) {
  const uint32_t bound[] = {x->input_count, x->output_count, x->state_count};
  const uint32_t wanted[] = {program->input_count, program->output_count, program->state_count};
  static const char *const what[] = {" inputs are bound, not ", " outputs are bound, not ", " states are bound, not "};
  for (uint32_t i = 0; i < 3; i++)
    if (bound[i] != wanted[i]) return refuse(why, "", bound[i], what[i], wanted[i], "");
  if (x->scratch.bytes < program->scratch_bytes)
    return refuse(why, "", x->scratch.bytes, " bytes of scratch are bound, ", program->scratch_bytes, " are needed");
  return TN_OK;
}

/* Inputs and outputs must have room for the rows of this batch. */
static tn_status check_sizes(const tn_program *program, const tn_execution *x, tn_line *why) {
  for (uint32_t i = 0; i < program->value_count; i++) {
    const tn_value *value = tn_program_values(program) + i;
    bool input = value->kind == TN_VALUE_INPUT;
    if (!input && value->kind != TN_VALUE_OUTPUT) continue;
    uint64_t bytes = tn_row_bytes(value->dtype, dim_now(value->dims[value->rank - 1], x->batch));
    for (uint32_t d = 0; d + 1 < value->rank; d++) bytes *= dim_now(value->dims[d], x->batch);
    uint64_t bound = input ? x->inputs[value->index].bytes : x->outputs[value->index].bytes;
    if (bound >= bytes) continue;
    tn_line_put(why, input ? "input " : "output ");
    tn_line_number(why, value->index);
    return refuse(why, ": ", bound, " bytes are bound, ", bytes, " are needed");
  }
  return TN_OK;
}

/* The pages that slots [first, end) of a sequence lie in. */
static tn_status check_table(const tn_batch *batch, uint32_t table, uint32_t first, uint32_t end, uint64_t pages,
                             tn_line *why) {
  uint64_t last = (uint64_t)table + (end - 1) / TN_PAGE_SLOTS;
  if (last >= batch->page_count)
    return refuse(why, "a page table ends at ", batch->page_count, ", entry ", last, " is needed");
  for (uint64_t i = table + first / TN_PAGE_SLOTS; i <= last; i++)
    if (batch->pages[i] >= pages) return refuse(why, "page ", batch->pages[i], ": the state has ", pages, " pages");
  return TN_OK;
}

static tn_status check_kv(const tn_batch *batch, uint32_t group, bool all, uint32_t window, uint64_t pages,
                          tn_line *why) {
  for (uint32_t s = 0; s < batch->sequence_count; s++) {
    const tn_sequence *q = &batch->sequences[s];
    uint32_t first = all ? 0 : q->kv_length;
    if (window && q->kv_length >= window) first = q->kv_length - window + 1;
    tn_status status = check_table(batch, q->pages[group], first, q->kv_length + q->row_count, pages, why);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

static tn_status check_slots(const tn_batch *batch, uint64_t slots, tn_line *why) {
  for (uint32_t s = 0; s < batch->sequence_count; s++) {
    uint32_t read = batch->sequences[s].state_read, write = batch->sequences[s].state_write;
    if (read >= slots || write >= slots)
      return refuse(why, "state slot ", read > write ? read : write, ": the state has ", slots, "");
  }
  return TN_OK;
}

/* Every page and slot that an op will touch must be one of its state's. */
static tn_status check_states(const tn_program *program, const uint64_t *page_bytes, const tn_execution *x,
                              tn_line *why) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < program->op_count && status == TN_OK; i++) {
    const tn_op *op = tn_program_ops(program) + i;
    const void *attributes = tn_program_attributes(program, op);
    for (uint32_t k = 0; k < op->input_count && status == TN_OK; k++) {
      const tn_value *state = op->inputs[k] == TN_NO_VALUE ? NULL : tn_program_values(program) + op->inputs[k];
      if (!state || state->kind != TN_VALUE_STATE) continue;
      uint64_t pages = x->states[state->index].bytes / page_bytes[state->index];
      if (op->opcode == TN_OP_ATTENTION) {
        const tn_attention_attributes *a = attributes;
        status = check_kv(x->batch, a->group, true, a->window, pages, why);
      } else if (op->opcode == TN_OP_KV_WRITE) {
        status = check_kv(x->batch, ((const tn_kv_write_attributes *)attributes)->group, false, 0, pages, why);
      } else if (op->opcode == TN_OP_ATTENTION_MASKED) {
        if (!pages) status = refuse(why, "state ", state->index, ": less than ", page_bytes[state->index], " bytes");
      } else {
        status = check_slots(x->batch, pages, why);
      }
    }
  }
  return status;
}

tn_status tn_execution_check(const tn_program *program, const uint64_t *page_bytes, const tn_execution *x,
                             char *message, uint64_t capacity) {
  tn_line why = tn_line_begin(message, capacity);
  tn_status status = check_counts(program, x, &why);
  if (status != TN_OK) return status;
  if (tn_batch_check(x->batch, program) != TN_OK) {
    tn_line_put(&why, "the batch is not consistent");
    return TN_E_INVALID;
  }
  status = check_sizes(program, x, &why);
  return status == TN_OK ? check_states(program, page_bytes, x, &why) : status;
}
