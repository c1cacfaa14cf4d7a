/* Writing and reading cases (see case_file.h). */
#include "conformance/case_file.h"

#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "conformance/host.h"

#define MAGIC "TNCASE1\n"
#define MAX_ROWS (1u << 16)

typedef struct case_header {
  char magic[8];
  uint32_t opcode, rows, sequences, dtype;
  double tolerance;
  char name[96];
} case_header;

/* ---- writing ---- */

static void put(tn_buf *out, const void *data, size_t bytes) {
  static const uint8_t zeros[8];
  tn_buf_append(out, data, bytes);
  tn_buf_append(out, zeros, (8 - bytes % 8) % 8);
}

static void put_block(tn_buf *out, const void *data, uint64_t bytes) {
  put(out, &bytes, sizeof bytes);
  put(out, data, bytes);
}

/* A weight as one run of rows: what its sources make up. */
static tn_status put_weight(tn_buf *out, const tn_case_value *value, tn_error *error) {
  const tn_weight_desc desc = tn_case_weight_desc(value);
  tn_weight_layout layout = {.size = sizeof layout};
  tn_status status = tn_plain_layout(&desc, &layout);
  uint8_t *rows = status == TN_OK ? tn_calloc(layout.bytes, 1) : NULL;
  if (status == TN_OK && !rows) return tn_fail(error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK) status = tn_plain_pack(&desc, value->sources, value->source_count, rows);
  if (status == TN_OK) {
    const uint32_t head[2] = {value->uses, value->uses == TN_USE_VECTOR ? TN_F32 : value->dtype};
    put(out, head, sizeof head);
    put_block(out, rows, layout.bytes);
  }
  free(rows);
  return status == TN_OK ? TN_OK : tn_fail(error, status, "a weight of the case can't be laid out in rows");
}

tn_status tn_case_write(const tn_case *c, const char *path, tn_error *error) {
  tn_buf out;
  tn_buf_init(&out);
  case_header header = {.opcode = c->opcode,
                        .rows = c->row_count,
                        .sequences = c->sequence_count,
                        .dtype = c->dtype,
                        .tolerance = c->tolerance};
  memcpy(header.magic, MAGIC, sizeof header.magic);
  memcpy(header.name, c->name, sizeof header.name);
  if (c->fixed) return tn_fail(error, TN_E_UNSUPPORTED, "%s: cases of fixed shapes have no file", path);
  tn_program *program = tn_case_program(c, error);
  if (!program) return TN_E_INTERNAL;
  put(&out, &header, sizeof header);
  put(&out, c->sequences, c->sequence_count * sizeof *c->sequences);
  put(&out, c->rows, c->row_count * sizeof *c->rows);
  put_block(&out, program, program->bytes);
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < c->value_count && status == TN_OK; i++) {
    const tn_case_value *value = &c->values[i];
    if (value->kind == TN_VALUE_INPUT) put_block(&out, value->data, value->row_bytes * c->row_count);
    if (value->kind == TN_VALUE_WEIGHT) status = put_weight(&out, value, error);
  }
  if (status == TN_OK && out.failed) status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  if (status == TN_OK) status = tn_file_write(path, out.data, out.size, error);
  tn_buf_finish(&out);
  free(program);
  return status;
}

/* ---- reading ---- */

typedef struct reader {
  const uint8_t *data;
  size_t left;
  bool failed;
} reader;

/* The next `bytes` bytes, NULL when there are fewer. */
static const void *get(reader *r, uint64_t bytes) {
  uint64_t all = (bytes + 7) / 8 * 8;
  if (r->failed || all < bytes || all > r->left) {
    r->failed = true;
    return NULL;
  }
  const void *at = r->data;
  r->data += all;
  r->left -= all;
  return at;
}

static const void *get_block(reader *r, uint64_t *bytes) {
  const uint64_t *size = get(r, sizeof *size);
  *bytes = size ? *size : 0;
  return size ? get(r, *size) : NULL;
}

static bool read_rows(reader *r, tn_case *c) {
  const void *sequences = get(r, c->sequence_count * sizeof *c->sequences);
  const void *rows = get(r, c->row_count * sizeof *c->rows);
  if (!rows) return false;
  memcpy(c->sequences, sequences, c->sequence_count * sizeof *c->sequences);
  memcpy(c->rows, rows, c->row_count * sizeof *c->rows);
  uint32_t next = 0;
  for (uint32_t s = 0; s < c->sequence_count; s++) {
    if (c->sequences[s].first != next || !c->sequences[s].count || c->sequences[s].count > c->row_count - next)
      return false;
    next += c->sequences[s].count;
  }
  return next == c->row_count;
}

/* Makes the case's values and ops those of the program. */
static bool read_program(reader *r, tn_case *c) {
  uint64_t bytes;
  char why[64];
  const tn_program *program = get_block(r, &bytes);
  if (!program || tn_program_check(program, bytes, why, sizeof why) != TN_OK) return false;
  if (program->value_count > TN_CASE_VALUES || program->op_count > TN_CASE_OPS ||
      program->attribute_bytes > TN_CASE_ATTRIBUTES || program->max_rows < c->row_count)
    return false;
  c->value_count = program->value_count;
  c->op_count = program->op_count;
  c->attribute_bytes = program->attribute_bytes;
  c->scratch_bytes = program->scratch_bytes;
  memcpy(c->ops, tn_program_ops(program), program->op_count * sizeof(tn_op));
  memcpy(c->attributes, (const char *)program + program->attributes, program->attribute_bytes);
  for (uint32_t i = 0; i < program->op_count; i++) c->ops[i].name = 0;
  for (uint32_t i = 0; i < program->value_count; i++) {
    const tn_value *from = tn_program_values(program) + i;
    tn_case_value *value = &c->values[i];
    *value = (tn_case_value){
        .kind = from->kind, .dtype = from->dtype, .rank = from->rank, .index = from->index, .offset = from->offset};
    memcpy(value->dims, from->dims, sizeof value->dims);
    if (from->index != c->bindings[from->kind]++ && from->kind != TN_VALUE_SCRATCH) return false;
    bool is_matrix = from->kind == TN_VALUE_INPUT || from->kind == TN_VALUE_OUTPUT;
    if (is_matrix && (from->rank != 2 || (from->dims[0] != TN_DIM_T && from->dims[0] != TN_DIM_R))) return false;
  }
  return true;
}

static bool read_weight(reader *r, tn_case *c, tn_case_value *value) {
  const uint32_t *head = get(r, 2 * sizeof *head);
  uint64_t bytes, rows = 1, cols = (uint64_t)value->dims[value->rank - 1];
  const void *data = get_block(r, &bytes);
  if (!data || head[1] >= TN_DTYPE_COUNT) return false;
  for (uint32_t d = 0; d + 1 < value->rank; d++)
    if (__builtin_mul_overflow(rows, (uint64_t)value->dims[d], &rows)) return false;
  uint64_t row_bytes = tn_row_bytes(head[1], cols), all;
  if (!row_bytes || __builtin_mul_overflow(rows, row_bytes, &all) || all != bytes) return false;
  void *copy = tn_arena_alloc(&c->arena, bytes);
  value->sources = tn_arena_array(&c->arena, 1, sizeof *value->sources);
  if (!copy || !value->sources) return false;
  memcpy(copy, data, bytes);
  value->uses = head[0];
  value->source_count = 1;
  value->sources[0] = (tn_weight_source){.size = sizeof(tn_weight_source),
                                         .dtype = head[1],
                                         .data = copy,
                                         .rows = rows,
                                         .cols = cols,
                                         .row_count = rows,
                                         .col_count = cols};
  return true;
}

static bool read_values(reader *r, tn_case *c) {
  for (uint32_t i = 0; i < c->value_count; i++) {
    tn_case_value *value = &c->values[i];
    if (value->kind == TN_VALUE_WEIGHT && !read_weight(r, c, value)) return false;
    if (value->kind != TN_VALUE_INPUT) continue;
    uint64_t bytes;
    const void *data = get_block(r, &bytes);
    value->row_bytes = tn_case_row_bytes(value);
    if (!data || !value->row_bytes || bytes / c->row_count != value->row_bytes || bytes % c->row_count) return false;
    value->data = tn_arena_alloc(&c->arena, bytes);
    if (!value->data) return false;
    memcpy(value->data, data, bytes);
  }
  return true;
}

tn_status tn_case_read(const char *path, tn_case **out, tn_error *error) {
  tn_file_map map;
  tn_case *c = NULL;
  *out = NULL;
  tn_status status = tn_file_map_open(&map, path, error);
  if (status != TN_OK) return status;
  reader r = {.data = map.data, .left = map.size};
  const case_header *header = get(&r, sizeof *header);
  bool ok = header && !memcmp(header->magic, MAGIC, sizeof header->magic) && header->rows && header->rows <= MAX_ROWS &&
            header->sequences && header->sequences <= TN_CASE_SEQUENCES && header->sequences <= header->rows &&
            header->dtype < TN_DTYPE_COUNT && tn_op_info_of(header->opcode);
  if (ok) c = tn_case_create(header->opcode, header->rows, header->sequences);
  ok = c && read_rows(&r, c) && read_program(&r, c) && read_values(&r, c) && !r.left;
  if (ok) {
    c->tolerance = header->tolerance;
    c->dtype = (uint8_t)header->dtype;
    memcpy(c->name, header->name, sizeof c->name - 1);
    *out = c;
  } else {
    status = tn_fail(error, TN_E_FORMAT, "%s: not a whole case as test-device saves them", path);
    tn_case_destroy(c);
  }
  tn_file_map_close(&map);
  return status;
}
