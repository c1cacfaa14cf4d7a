/* The program reader's validation: bytes from a file or another machine become a tn_program only through here. */
#include <stdbool.h>
#include "program/line.h"
#include "tenon/driver.h"

#define MAX_PROGRAM_BYTES (64u << 20)
#define MAX_DIM (1 << 30)

static bool refuse(tn_line *why, const char *text) {
  tn_line_put(why, text);
  return false;
}

static bool refuse_item(tn_line *why, const char *what, uint32_t number, const char *text) {
  tn_line_put(why, what);
  tn_line_number(why, number);
  tn_line_put(why, text);
  return false;
}

/* Do `count` items of `size` bytes at `offset` lie inside the program, aligned to 4? */
static bool fits(const tn_program *program, uint32_t offset, uint32_t count, uint32_t size) {
  return offset % 4 == 0 && offset >= sizeof(tn_program) && offset <= program->bytes &&
         (uint64_t)count * size <= program->bytes - offset;
}

static bool check_header(const tn_program *program, uint64_t bytes, tn_line *why) {
  if (bytes < sizeof *program) return refuse(why, "program: shorter than its header");
  if (program->magic != TN_PROGRAM_MAGIC) return refuse(why, "program: wrong magic");
  if (program->version != TN_PROGRAM_VERSION) return refuse(why, "program: unknown version");
  if (program->bytes != bytes || bytes > MAX_PROGRAM_BYTES) return refuse(why, "program: wrong length");
  if (program->values % 8 || !fits(program, program->values, program->value_count, sizeof(tn_value)) ||
      !fits(program, program->ops, program->op_count, sizeof(tn_op)) ||
      !fits(program, program->attributes, program->attribute_bytes, 1) ||
      !fits(program, program->names, program->name_bytes, 1))
    return refuse(why, "program: an array lies outside");
  if (!program->name_bytes || tn_program_name(program, program->name_bytes - 1)[0] != 0)
    return refuse(why, "program: names are not terminated");
  if (!program->max_rows || !program->max_sequences || program->max_logits_rows > TN_MAX_LOGITS_ROWS ||
      program->max_rows > (1u << 20) || program->max_sequences > (1u << 20))
    return refuse(why, "program: maxima out of range");
  return true;
}

/* The largest value of a dim under the program's maxima; 0 for a bad one. */
static uint64_t dim_maximum(const tn_program *program, int32_t dim) {
  switch (dim) {
    case TN_DIM_T: return program->max_rows;
    case TN_DIM_S: return program->max_sequences;
    case TN_DIM_R: return program->max_logits_rows;
    case TN_DIM_C: return program->max_context;
    default: return dim > 0 && dim <= MAX_DIM ? (uint64_t)dim : 0;
  }
}

static bool check_value(const tn_program *program, uint32_t number, tn_line *why) {
  const tn_value *value = tn_program_values(program) + number;
  const uint32_t counts[] = {program->input_count, program->output_count, program->weight_count, program->state_count};
  if (value->kind > TN_VALUE_SCRATCH || value->dtype >= TN_DTYPE_COUNT || value->rank < 1 || value->rank > 4)
    return refuse_item(why, "value ", number, ": bad kind, dtype or rank");
  if (value->name >= program->name_bytes) return refuse_item(why, "value ", number, ": name outside");
  if (value->kind != TN_VALUE_SCRATCH && value->index >= counts[value->kind])
    return refuse_item(why, "value ", number, ": binding number outside");
  uint64_t rows = 1;
  for (uint32_t d = 0; d < value->rank; d++) {
    uint64_t maximum = dim_maximum(program, value->dims[d]);
    if (!maximum && value->dims[d] != TN_DIM_R) return refuse_item(why, "value ", number, ": bad dimension");
    if (d + 1 == value->rank && value->rank > 1 && value->dims[d] < 0)
      return refuse_item(why, "value ", number, ": the last dimension must be a number");
    if (d + 1 < value->rank && __builtin_mul_overflow(rows, maximum, &rows))
      return refuse_item(why, "value ", number, ": too large");
  }
  if (value->kind != TN_VALUE_SCRATCH) return true;
  uint64_t last = dim_maximum(program, value->dims[value->rank - 1]), bytes;
  uint64_t row = tn_row_bytes(value->dtype, last);
  if (!row || value->offset % 64 || __builtin_mul_overflow(rows, row, &bytes) ||
      value->offset > program->scratch_bytes || bytes > program->scratch_bytes - value->offset)
    return refuse_item(why, "value ", number, ": lies outside the scratch arena");
  return true;
}

static bool check_op(const tn_program *program, uint32_t number, tn_line *why) {
  const tn_op *op = tn_program_ops(program) + number;
  const tn_op_info *info = tn_op_info_of(op->opcode);
  if (!info) return refuse_item(why, "op ", number, ": unknown opcode");
  if (op->input_count > TN_MAX_OPERANDS || op->output_count > TN_MAX_OPERANDS)
    return refuse_item(why, "op ", number, ": too many operands");
  if (op->name >= program->name_bytes) return refuse_item(why, "op ", number, ": name outside");
  if (op->attributes % 4 || op->attributes > program->attribute_bytes ||
      program->attribute_bytes - op->attributes < info->attribute_bytes)
    return refuse_item(why, "op ", number, ": attributes outside");
  const uint32_t *size = tn_program_attributes(program, op);
  if (*size < info->attribute_bytes || *size > program->attribute_bytes - op->attributes)
    return refuse_item(why, "op ", number, ": attributes have the wrong size");
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->inputs[i] != TN_NO_VALUE && op->inputs[i] >= program->value_count)
      return refuse_item(why, "op ", number, ": input is no value");
  for (uint32_t i = 0; i < op->output_count; i++) {
    if (op->outputs[i] >= program->value_count) return refuse_item(why, "op ", number, ": output is no value");
    uint8_t kind = tn_program_values(program)[op->outputs[i]].kind;
    if (kind != TN_VALUE_OUTPUT && kind != TN_VALUE_SCRATCH)
      return refuse_item(why, "op ", number, ": writes a value that can't be written");
  }
  tn_op_query query;
  tn_program_query(program, op, &query);
  tn_line_put(why, "op ");
  tn_line_number(why, number);
  tn_line_put(why, ": ");
  bool ok = tn_shape_check(&query, why->text ? why->text + why->size : NULL,
                           why->text ? why->capacity - why->size : 0) == TN_OK;
  if (ok) *why = tn_line_begin(why->text, why->capacity);
  return ok;
}

tn_status tn_program_check(const void *data, uint64_t bytes, char *message, uint64_t capacity) {
  tn_line why = tn_line_begin(message, capacity);
  const tn_program *program = data;
  if ((uintptr_t)data % 8) {
    tn_line_put(&why, "program: not aligned to 8 bytes");
    return TN_E_FORMAT;
  }
  if (!check_header(program, bytes, &why)) return TN_E_FORMAT;
  for (uint32_t i = 0; i < program->value_count; i++)
    if (!check_value(program, i, &why)) return TN_E_FORMAT;
  for (uint32_t i = 0; i < program->op_count; i++)
    if (!check_op(program, i, &why)) return TN_E_FORMAT;
  return TN_OK;
}

static void describe(const tn_program *program, uint32_t number, tn_value_desc *desc) {
  *desc = (tn_value_desc){0};
  if (number == TN_NO_VALUE) return;
  const tn_value *value = tn_program_values(program) + number;
  desc->present = 1;
  desc->kind = value->kind;
  desc->dtype = value->dtype;
  desc->rank = value->rank;
  for (uint32_t d = 0; d < value->rank; d++) desc->dims[d] = value->dims[d];
}

void tn_program_query(const tn_program *program, const tn_op *op, tn_op_query *query) {
  *query = (tn_op_query){.size = sizeof *query,
                         .opcode = op->opcode,
                         .revision = op->revision,
                         .input_count = op->input_count,
                         .output_count = op->output_count,
                         .rows_min = 1,
                         .rows_max = program->max_rows,
                         .attributes = tn_program_attributes(program, op)};
  query->attribute_bytes = *(const uint32_t *)query->attributes;
  for (uint32_t i = 0; i < op->input_count; i++) describe(program, op->inputs[i], &query->inputs[i]);
  for (uint32_t i = 0; i < op->output_count; i++) describe(program, op->outputs[i], &query->outputs[i]);
}
