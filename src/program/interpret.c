/* The interpreter: resolves each op's operands for the dims of this batch and calls its kernel. */
#include "tenon/driver.h"

static uint32_t resolve_dim(int32_t dim, const tn_batch *batch) {
  switch (dim) {
    case TN_DIM_T: return batch->row_count;
    case TN_DIM_S: return batch->sequence_count;
    case TN_DIM_R: return batch->logits_count;
    case TN_DIM_C: return batch->context;
    default: return (uint32_t)dim;
  }
}

static tn_tensor resolve(const tn_interpretation *run, uint32_t number) {
  tn_tensor tensor = {0};
  if (number == TN_NO_VALUE) return tensor;
  const tn_value *value = tn_program_values(run->program) + number;
  if (value->kind == TN_VALUE_WEIGHT) tensor = run->weights[value->index];
  tensor.kind = value->kind;
  tensor.dtype = value->dtype;
  tensor.rank = value->rank;
  for (uint32_t d = 0; d < value->rank; d++) tensor.dims[d] = resolve_dim(value->dims[d], run->batch);
  switch (value->kind) {
    case TN_VALUE_INPUT: tensor.data = run->inputs[value->index]; break;
    case TN_VALUE_OUTPUT: tensor.data = run->outputs[value->index]; break;
    case TN_VALUE_SCRATCH: tensor.data = (char *)run->scratch + value->offset; break;
    case TN_VALUE_STATE:
      tensor.data = run->states[value->index];
      tensor.row_bytes = run->page_bytes[value->index];
      break;
    default: break;
  }
  if (value->kind != TN_VALUE_STATE && value->kind != TN_VALUE_WEIGHT)
    tensor.row_bytes = tn_row_bytes(tensor.dtype, tensor.dims[value->rank - 1]);
  return tensor;
}

tn_status tn_interpret(const tn_interpretation *run, uint32_t *failed_op) {
  const tn_program *program = run->program;
  if (failed_op) *failed_op = TN_NO_VALUE;
  tn_status status = tn_batch_check(run->batch, program);
  for (uint32_t i = 0; status == TN_OK && i < program->op_count; i++) {
    const tn_op *op = tn_program_ops(program) + i;
    tn_kernel kernel = run->table->kernel[op->opcode];
    tn_kernel_call call = {.opcode = op->opcode,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .attributes = tn_program_attributes(program, op),
                           .batch = run->batch,
                           .parallel = run->parallel,
                           .workspace = run->workspace,
                           .workspace_bytes = run->workspace_bytes};
    for (uint32_t k = 0; k < op->input_count; k++) call.inputs[k] = resolve(run, op->inputs[k]);
    for (uint32_t k = 0; k < op->output_count; k++) call.outputs[k] = resolve(run, op->outputs[k]);
    if (run->observe) run->observe(run->observe_context, i, 0, &call);
    /* No rows, nothing to do: a step in which no row wants logits still runs its head's ops. */
    int empty = op->output_count && call.outputs[0].dims[0] == 0;
    if (!empty) status = kernel ? kernel(&call) : TN_E_UNSUPPORTED;
    if (run->observe) run->observe(run->observe_context, i, 1, &call);
    if (status != TN_OK && failed_op) *failed_op = i;
  }
  return status;
}

static int sequence_is_sound(const tn_batch *batch, uint32_t number, uint32_t max_context) {
  const tn_sequence *sequence = batch->sequences + number;
  if (!sequence->row_count || sequence->row_count > batch->row_count ||
      sequence->first_row > batch->row_count - sequence->row_count)
    return 0;
  uint64_t length = (uint64_t)sequence->kv_length + sequence->row_count;
  if (length > batch->context || length > max_context) return 0;
  for (uint32_t r = 0; r < sequence->row_count; r++)
    if (batch->rows[sequence->first_row + r].sequence != number) return 0;
  return 1;
}

tn_status tn_batch_check(const tn_batch *batch, const tn_program *program) {
  if (batch->size < sizeof *batch || !batch->row_count || batch->row_count > program->max_rows) return TN_E_INVALID;
  if (!batch->sequence_count || batch->sequence_count > program->max_sequences) return TN_E_INVALID;
  if (batch->logits_count > program->max_logits_rows || batch->context > program->max_context) return TN_E_INVALID;
  uint64_t rows = 0;
  for (uint32_t s = 0; s < batch->sequence_count; s++) {
    if (!sequence_is_sound(batch, s, program->max_context)) return TN_E_INVALID;
    rows += batch->sequences[s].row_count;
  }
  if (rows != batch->row_count) return TN_E_INVALID;
  for (uint32_t r = 0; r < batch->row_count; r++)
    if (batch->rows[r].token < 0) return TN_E_INVALID;
  for (uint32_t i = 0; i < batch->logits_count; i++)
    if (batch->logits_rows[i] >= batch->row_count || (i && batch->logits_rows[i] <= batch->logits_rows[i - 1]))
      return TN_E_INVALID;
  return TN_OK;
}
