/* Building cases and their programs (see case.h). */
#include "conformance/case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

tn_case *tn_case_create(uint32_t opcode, uint32_t rows, uint32_t sequences) {
  tn_case *c = tn_calloc(1, sizeof *c);
  if (!c) return NULL;
  tn_arena_init(&c->arena, 0);
  c->opcode = (uint16_t)opcode;
  c->tolerance = tn_op_info_of(opcode)->tolerance;
  c->row_count = rows;
  c->sequence_count = sequences;
  c->rows = tn_arena_array(&c->arena, rows, sizeof *c->rows);
  if (!c->rows) {
    tn_case_destroy(c);
    return NULL;
  }
  for (uint32_t s = 0, first = 0; s < sequences; s++) {
    uint32_t count = rows / sequences + (s < rows % sequences);
    c->sequences[s].first = first;
    c->sequences[s].count = count;
    for (uint32_t i = 0; i < count; i++) {
      int32_t p = (int32_t)i;
      c->rows[first + i] = (tn_row){(int32_t)(first + i), {p, p, p, p}, s, rows <= TN_MAX_LOGITS_ROWS};
    }
    first += count;
  }
  return c;
}

void tn_case_destroy(tn_case *c) {
  if (!c) return;
  tn_arena_finish(&c->arena);
  free(c);
}

void tn_case_say(tn_case *c, const char *format, ...) {
  size_t size = strlen(c->name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->name + size, sizeof c->name - size, format, arguments);
  va_end(arguments);
}

/* ---- values ---- */

uint64_t tn_case_row_bytes(const tn_case_value *value) {
  return tn_row_bytes(value->dtype, (uint64_t)value->dims[value->rank - 1]);
}

static uint32_t add_value(tn_case *c, tn_case_value value) {
  if (c->value_count == TN_CASE_VALUES) {
    c->failed = true;
    return 0;
  }
  value.index = c->bindings[value.kind]++;
  c->values[c->value_count] = value;
  return c->value_count++;
}

static tn_case_value matrix_value(uint32_t kind, uint32_t dtype, int32_t rows, uint32_t cols) {
  return (tn_case_value){.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .rank = 2, .dims = {rows, (int32_t)cols}};
}

uint32_t tn_case_input(tn_case *c, uint32_t dtype, int32_t rows, uint32_t cols) {
  tn_case_value value = matrix_value(TN_VALUE_INPUT, dtype, rows, cols);
  value.row_bytes = tn_case_row_bytes(&value);
  value.data = tn_arena_array(&c->arena, tn_case_rows(c, &value), value.row_bytes);
  if (rows > 0) c->fixed = true;
  if (!value.data || !value.row_bytes) c->failed = true;
  return add_value(c, value);
}

uint32_t tn_case_output(tn_case *c, uint32_t dtype, int32_t rows, uint32_t cols) {
  if (rows > 0) c->fixed = true;
  return add_value(c, matrix_value(TN_VALUE_OUTPUT, dtype, rows, cols));
}

uint32_t tn_case_scratch(tn_case *c, uint32_t dtype, int32_t rows, uint32_t cols) {
  tn_case_value value = matrix_value(TN_VALUE_SCRATCH, dtype, rows, cols);
  value.offset = c->scratch_bytes;
  c->scratch_bytes += tn_round_up(tn_case_row_bytes(&value) * c->row_count, ALIGNMENT);
  return add_value(c, value);
}

uint32_t tn_case_weight(tn_case *c, uint32_t dtype, uint32_t rank, const uint32_t *dims, uint32_t uses) {
  tn_case_value value = {
      .kind = TN_VALUE_WEIGHT, .dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .uses = uses, .source_count = 1};
  uint64_t rows = 1, cols = dims[rank - 1];
  for (uint32_t d = 0; d < rank; d++) value.dims[d] = (int32_t)dims[d];
  for (uint32_t d = 0; d + 1 < rank; d++) rows *= dims[d];
  void *data = tn_arena_array(&c->arena, rows, tn_row_bytes(dtype, cols));
  value.sources = tn_arena_array(&c->arena, TN_CASE_SOURCES, sizeof *value.sources);
  if (!data || !value.sources || !tn_row_bytes(dtype, cols)) {
    c->failed = true;
    return 0;
  }
  value.sources[0] = (tn_weight_source){.size = sizeof(tn_weight_source),
                                        .dtype = dtype,
                                        .data = data,
                                        .rows = rows,
                                        .cols = cols,
                                        .row_count = rows,
                                        .col_count = cols};
  return add_value(c, value);
}

uint32_t tn_case_vector(tn_case *c, uint32_t count) {
  return tn_case_weight(c, TN_F32, 1, &count, TN_USE_VECTOR);
}

uint32_t tn_case_matrix(tn_case *c, uint32_t dtype, uint32_t rows, uint32_t cols, uint32_t uses) {
  return tn_case_weight(c, dtype, 2, (const uint32_t[]){rows, cols}, uses);
}

uint32_t tn_case_kv(tn_case *c, uint32_t dtype, uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim) {
  return add_value(
      c, (tn_case_value){.kind = TN_VALUE_STATE,
                         .dtype = (uint8_t)dtype,
                         .rank = 4,
                         .dims = {(int32_t)kv_heads, (int32_t)key_dim, (int32_t)value_dim, (int32_t)TN_PAGE_SLOTS}});
}

uint32_t tn_case_region(tn_case *c, uint32_t dtype, uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim,
                        uint32_t slots) {
  tn_case_value value = {.kind = TN_VALUE_STATE,
                         .dtype = (uint8_t)dtype,
                         .rank = 4,
                         .dims = {(int32_t)kv_heads, (int32_t)key_dim, (int32_t)value_dim, (int32_t)slots}};
  value.row_bytes = tn_row_bytes(dtype, 1) * kv_heads * (key_dim + value_dim) * slots;
  value.data = tn_arena_array(&c->arena, 1, value.row_bytes);
  if (!value.data) c->failed = true;
  return add_value(c, value);
}

uint32_t tn_case_recurrent(tn_case *c, uint32_t heads, uint32_t key_dim, uint32_t value_dim) {
  return add_value(c, (tn_case_value){.kind = TN_VALUE_STATE,
                                      .dtype = TN_F32,
                                      .rank = 3,
                                      .dims = {(int32_t)heads, (int32_t)key_dim, (int32_t)value_dim}});
}

tn_state_desc tn_case_state_desc(const tn_case_value *value) {
  const uint32_t *dims = (const uint32_t *)value->dims;
  return (tn_state_desc){sizeof(tn_state_desc),         value->dtype, dims[0], dims[1], dims[2],
                         value->rank == 4 ? dims[3] : 0};
}

uint8_t *tn_case_data(const tn_case *c, uint32_t number, uint64_t *bytes) {
  const tn_case_value *value = &c->values[number];
  if (value->kind == TN_VALUE_STATE || value->kind == TN_VALUE_INPUT) {
    *bytes = value->kind == TN_VALUE_STATE ? value->row_bytes : value->row_bytes * tn_case_rows(c, value);
    return value->data;
  }
  const tn_weight_source *source = &value->sources[0];
  *bytes = source->rows * tn_row_bytes(source->dtype, source->cols);
  return (uint8_t *)(uintptr_t)source->data;
}

/* ---- for fixed shapes ---- */

static bool has_paged_state(const tn_case *c) {
  for (uint32_t i = 0; i < c->value_count; i++)
    if (c->values[i].kind == TN_VALUE_STATE && !c->values[i].data) return true;
  return false;
}

/* The rows of an input for `rows` rows of the case. */
static void resize_input(tn_case *c, tn_case_value *value, uint32_t rows) {
  uint32_t kept = rows < c->row_count ? rows : c->row_count;
  uint8_t *data = tn_arena_array(&c->arena, rows, value->row_bytes);
  if (data)
    memcpy(data, value->data, kept * value->row_bytes);
  else
    c->failed = true;
  value->data = data;
}

static void resize_rows(tn_case *c, uint32_t rows) {
  tn_row *made = tn_arena_array(&c->arena, rows, sizeof *made);
  if (!made) {
    c->failed = true;
    return;
  }
  for (uint32_t r = 0; r < rows; r++) {
    made[r] = c->rows[r < c->row_count ? r : c->row_count - 1];
    made[r].sequence = 0;
    if (r >= c->row_count) made[r].wants_logits = 0;
  }
  c->rows = made;
}

void tn_case_pin(tn_case *c, const uint32_t *list, uint32_t count) {
  if (c->fixed || c->failed || has_paged_state(c)) return;
  uint32_t i = 0;
  while (i + 1 < count && list[i] < c->row_count) i++;
  const uint32_t rows = list[i];
  c->scratch_bytes = 0;
  for (uint32_t v = 0; v < c->value_count; v++) {
    tn_case_value *value = &c->values[v];
    if (value->kind == TN_VALUE_WEIGHT) continue;
    if (value->kind == TN_VALUE_INPUT) resize_input(c, value, rows);
    if (value->dims[0] == TN_DIM_T) value->dims[0] = (int32_t)rows;
    if (value->kind != TN_VALUE_SCRATCH) continue;
    value->offset = c->scratch_bytes;
    c->scratch_bytes += tn_round_up(tn_case_row_bytes(value) * rows, ALIGNMENT);
  }
  resize_rows(c, rows);
  c->row_count = rows;
  c->sequence_count = 1;
  c->sequences[0].first = 0;
  c->sequences[0].count = rows;
  c->fixed = true;
}

/* ---- ops ---- */

void tn_case_op(tn_case *c, uint32_t opcode, const void *attributes, const int64_t *inputs, const int64_t *outputs) {
  uint32_t bytes = *(const uint32_t *)attributes;
  if (c->op_count == TN_CASE_OPS || bytes > TN_CASE_ATTRIBUTES - c->attribute_bytes) {
    c->failed = true;
    return;
  }
  tn_op *op = &c->ops[c->op_count++];
  *op = (tn_op){
      .opcode = (uint16_t)opcode, .revision = tn_op_info_of(opcode)->revision, .attributes = c->attribute_bytes};
  memcpy(c->attributes + c->attribute_bytes, attributes, bytes);
  c->attribute_bytes += (uint32_t)tn_round_up(bytes, 4);
  while (*inputs >= 0 && op->input_count < TN_MAX_OPERANDS) op->inputs[op->input_count++] = (uint32_t)*inputs++;
  while (*outputs >= 0 && op->output_count < TN_MAX_OPERANDS) op->outputs[op->output_count++] = (uint32_t)*outputs++;
}

/* ---- the program ---- */

static uint32_t longest(const tn_case *c) {
  uint32_t most = 1;
  for (uint32_t s = 0; s < c->sequence_count; s++)
    if (c->sequences[s].count > most) most = c->sequences[s].count;
  return most;
}

uint32_t tn_case_pages_each(const tn_case *c) {
  return (longest(c) + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS;
}

uint32_t tn_case_pages(const tn_case *c) {
  uint32_t each = tn_case_pages_each(c);
  return c->sequence_count * (each > 2 ? each : 2) + 1;
}

static void put_values(const tn_case *c, tn_value *values) {
  for (uint32_t i = 0; i < c->value_count; i++) {
    const tn_case_value *from = &c->values[i];
    values[i] = (tn_value){
        .kind = from->kind, .dtype = from->dtype, .rank = from->rank, .index = from->index, .offset = from->offset};
    memcpy(values[i].dims, from->dims, sizeof values[i].dims);
  }
}

tn_program *tn_case_program(const tn_case *c, tn_error *error) {
  if (c->failed) {
    tn_fail(error, TN_E_MEMORY, "case %s: out of memory or of room", c->name);
    return NULL;
  }
  size_t values = tn_round_up(sizeof(tn_program), 8), ops = values + c->value_count * sizeof(tn_value);
  size_t attributes = tn_round_up(ops + c->op_count * sizeof(tn_op), 8), names = attributes + c->attribute_bytes;
  size_t bytes = tn_round_up(names + 1, 8);
  tn_program *program = tn_calloc(1, bytes);
  if (!program) {
    tn_fail(error, TN_E_MEMORY, "case %s: out of memory", c->name);
    return NULL;
  }
  uint32_t logits = c->row_count < TN_MAX_LOGITS_ROWS ? c->row_count : TN_MAX_LOGITS_ROWS;
  *program = (tn_program){.magic = TN_PROGRAM_MAGIC,
                          .version = TN_PROGRAM_VERSION,
                          .bytes = (uint32_t)bytes,
                          .value_count = c->value_count,
                          .op_count = c->op_count,
                          .input_count = c->bindings[TN_VALUE_INPUT],
                          .output_count = c->bindings[TN_VALUE_OUTPUT],
                          .weight_count = c->bindings[TN_VALUE_WEIGHT],
                          .state_count = c->bindings[TN_VALUE_STATE],
                          .attribute_bytes = c->attribute_bytes,
                          .name_bytes = 1,
                          .values = (uint32_t)values,
                          .ops = (uint32_t)ops,
                          .attributes = (uint32_t)attributes,
                          .names = (uint32_t)names,
                          .max_rows = c->row_count,
                          .max_sequences = c->sequence_count,
                          .max_logits_rows = logits,
                          .max_context = longest(c),
                          .scratch_bytes = c->scratch_bytes};
  char *base = (char *)program;
  put_values(c, (tn_value *)(void *)(base + values));
  memcpy(base + ops, c->ops, c->op_count * sizeof(tn_op));
  memcpy(base + attributes, c->attributes, c->attribute_bytes);
  char why[200];
  if (tn_program_check(program, bytes, why, sizeof why) != TN_OK) {
    tn_fail(error, TN_E_INTERNAL, "case %s: %s", c->name, why);
    free(program);
    return NULL;
  }
  return program;
}
