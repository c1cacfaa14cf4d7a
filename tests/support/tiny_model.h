/* A one-layer model as a hand-built program, and a rig that runs it on any device through the registry. */
#ifndef TENON_TESTS_TINY_MODEL_H
#define TENON_TESTS_TINY_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/registry.h"
#include "support/kernel_call.h"
#include "tenon/driver.h"

enum {
  TINY_VOCABULARY = 11,
  TINY_WIDTH = 32,
  TINY_HEADS = 2,
  TINY_DIM = 16,
  TINY_MAX_ROWS = 48,
  TINY_MAX_CONTEXT = 96,
  TINY_PAGES = 6,
  TINY_WEIGHTS = 6
};

/* ---- building a program ---- */

typedef struct tiny_builder {
  tn_value values[32];
  tn_op ops[16];
  uint32_t attributes[256];
  uint32_t value_count, op_count, attribute_bytes;
  uint32_t bindings[4]; /* of each kind so far */
  uint64_t scratch_bytes;
} tiny_builder;

static inline uint32_t tiny_value(tiny_builder *b, uint8_t kind, uint8_t dtype, int32_t rows, int32_t cols) {
  tn_value *value = &b->values[b->value_count];
  *value = (tn_value){.kind = kind, .dtype = dtype, .rank = 2, .dims = {rows, cols}};
  if (kind == TN_VALUE_SCRATCH) {
    value->offset = b->scratch_bytes;
    b->scratch_bytes += (TINY_MAX_ROWS * tn_row_bytes(dtype, (uint64_t)cols) + 63) / 64 * 64;
  } else {
    value->index = b->bindings[kind]++;
  }
  return b->value_count++;
}

static inline uint32_t tiny_vector(tiny_builder *b, int32_t count) {
  uint32_t number = tiny_value(b, TN_VALUE_WEIGHT, TN_F32, count, 0);
  b->values[number].rank = 1;
  return number;
}

/* Inputs and outputs end at -1. */
static inline void tiny_op(tiny_builder *b, uint16_t opcode, const void *attributes, uint32_t bytes,
                           const int64_t *inputs, const int64_t *outputs) {
  tn_op *op = &b->ops[b->op_count++];
  *op = (tn_op){.opcode = opcode, .revision = 1, .attributes = b->attribute_bytes};
  memcpy((char *)b->attributes + b->attribute_bytes, attributes, bytes);
  b->attribute_bytes += bytes;
  while (inputs[op->input_count] >= 0) {
    op->inputs[op->input_count] = (uint32_t)inputs[op->input_count];
    op->input_count++;
  }
  while (outputs[op->output_count] >= 0) {
    op->outputs[op->output_count] = (uint32_t)outputs[op->output_count];
    op->output_count++;
  }
}
#define TINY_LIST(...) ((const int64_t[]){__VA_ARGS__, -1})

/* The flat form, to be freed. */
static inline tn_program *tiny_finish(const tiny_builder *b) {
  uint32_t values = (sizeof(tn_program) + 7) / 8 * 8, ops = values + b->value_count * (uint32_t)sizeof(tn_value);
  uint32_t attributes = ops + b->op_count * (uint32_t)sizeof(tn_op), names = attributes + b->attribute_bytes;
  uint32_t bytes = (names + 4 + 7) / 8 * 8;
  tn_program *p = calloc(1, bytes);
  *p = (tn_program){.magic = TN_PROGRAM_MAGIC,
                    .version = TN_PROGRAM_VERSION,
                    .bytes = bytes,
                    .value_count = b->value_count,
                    .op_count = b->op_count,
                    .input_count = b->bindings[TN_VALUE_INPUT],
                    .output_count = b->bindings[TN_VALUE_OUTPUT],
                    .weight_count = b->bindings[TN_VALUE_WEIGHT],
                    .state_count = b->bindings[TN_VALUE_STATE],
                    .attribute_bytes = b->attribute_bytes,
                    .name_bytes = 4,
                    .values = values,
                    .ops = ops,
                    .attributes = attributes,
                    .names = names,
                    .max_rows = TINY_MAX_ROWS,
                    .max_sequences = 4,
                    .max_logits_rows = TINY_MAX_ROWS,
                    .max_context = TINY_MAX_CONTEXT,
                    .scratch_bytes = b->scratch_bytes};
  memcpy((char *)p + values, b->values, b->value_count * sizeof(tn_value));
  memcpy((char *)p + ops, b->ops, b->op_count * sizeof(tn_op));
  memcpy((char *)p + attributes, b->attributes, b->attribute_bytes);
  return p;
}

/* tokens -> logits: embed, norm, q k v, rope, kv_write, attention, output with residual, the rows wanted, head. */
static inline tn_program *tiny_program(void) {
  tiny_builder b = {0};
  const int32_t T = TN_DIM_T, W = TINY_WIDTH;
  uint32_t table = tiny_value(&b, TN_VALUE_WEIGHT, TN_F16, TINY_VOCABULARY, W), norm = tiny_vector(&b, W);
  uint32_t qkv = tiny_value(&b, TN_VALUE_WEIGHT, TN_F32, W + 2 * TINY_DIM, W),
           frequency = tiny_vector(&b, TINY_DIM / 2);
  uint32_t out = tiny_value(&b, TN_VALUE_WEIGHT, TN_F16, W, W);
  uint32_t head = tiny_value(&b, TN_VALUE_WEIGHT, TN_F32, TINY_VOCABULARY, W);
  uint32_t state = tiny_value(&b, TN_VALUE_STATE, TN_F16, 1, TINY_DIM);
  b.values[state].rank = 4;
  b.values[state].dims[2] = TINY_DIM;
  b.values[state].dims[3] = TN_PAGE_SLOTS;
  uint32_t x = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, T, W), h = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, T, W);
  uint32_t q = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, T, W),
           k = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, T, TINY_DIM);
  uint32_t v = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, T, TINY_DIM);
  uint32_t turn = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, T, TINY_DIM);
  uint32_t y = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, T, W);
  uint32_t rows = tiny_value(&b, TN_VALUE_SCRATCH, TN_F32, TN_DIM_R, W);
  uint32_t logits = tiny_value(&b, TN_VALUE_OUTPUT, TN_F32, TN_DIM_R, TINY_VOCABULARY);
  tn_embed_attributes embed = {sizeof embed, TN_EMBED_TOKEN, 1.0f};
  tn_norm_attributes rms = {sizeof rms, TN_NORM_RMS, 0, 1e-5f};
  tn_linear_attributes plain = {sizeof plain, TN_ACTIVATION_NONE, 0, 1.0f};
  tn_rope_table_attributes rope_table = {sizeof rope_table, TINY_DIM, 1.0f};
  tn_rope_attributes rope = {sizeof rope, TINY_DIM, TINY_DIM, TN_ROPE_HALF};
  tn_kv_write_attributes write = {sizeof write, 0, 1, TINY_DIM, TINY_DIM, TINY_DIM, TN_ROPE_HALF};
  tn_attention_attributes attend = {sizeof attend, 0, TINY_HEADS, 1, TINY_DIM, TINY_DIM, 0.25f, 0, 0};
  tn_no_attributes none = {sizeof none};
  tiny_op(&b, TN_OP_EMBED, &embed, sizeof embed, TINY_LIST(table), TINY_LIST(x));
  tiny_op(&b, TN_OP_NORM, &rms, sizeof rms, TINY_LIST(x, norm), TINY_LIST(h));
  tiny_op(&b, TN_OP_LINEAR, &plain, sizeof plain, TINY_LIST(h, qkv), TINY_LIST(q, k, v));
  tiny_op(&b, TN_OP_ROPE_TABLE, &rope_table, sizeof rope_table, TINY_LIST(frequency), TINY_LIST(turn));
  tiny_op(&b, TN_OP_ROPE, &rope, sizeof rope, TINY_LIST(q, turn), TINY_LIST(q));
  tiny_op(&b, TN_OP_KV_WRITE, &write, sizeof write, TINY_LIST(k, v, state, turn), TINY_LIST(-1));
  tiny_op(&b, TN_OP_ATTENTION, &attend, sizeof attend, TINY_LIST(q, state), TINY_LIST(y));
  tiny_op(&b, TN_OP_LINEAR, &plain, sizeof plain, TINY_LIST(y, out, TN_NO_VALUE, x), TINY_LIST(x));
  tiny_op(&b, TN_OP_SELECT_ROWS, &none, sizeof none, TINY_LIST(x), TINY_LIST(rows));
  tiny_op(&b, TN_OP_LINEAR, &plain, sizeof plain, TINY_LIST(rows, head), TINY_LIST(logits));
  return tiny_finish(&b);
}

/* ---- running it ---- */

typedef struct tiny_rig {
  tn_opened_device *device;
  tn_program *program;
  tn_queue *queue;
  tn_buffer *weights, *pages, *scratch, *logits;
  tn_weight_binding bindings[TINY_WEIGHTS];
  tn_executable *executable;
  uint64_t page_bytes;
} tiny_rig;

/* Gives everything on the device back; the device stays open. */
static inline void tiny_empty(tiny_rig *rig) {
  if (!rig->device || !rig->device->device) return;
  tn_device_release(rig->device, rig->executable);
  tn_device_queue_destroy(rig->device, rig->queue);
  tn_device_free(rig->device, rig->weights);
  tn_device_free(rig->device, rig->pages);
  tn_device_free(rig->device, rig->scratch);
  tn_device_free(rig->device, rig->logits);
  rig->executable = NULL;
  rig->queue = NULL;
  rig->weights = rig->pages = rig->scratch = rig->logits = NULL;
}

static inline void tiny_finish_rig(tiny_rig *rig) {
  tiny_empty(rig);
  tn_device_close(rig->device);
  free(rig->program);
  memset(rig, 0, sizeof *rig);
}

/* Packs weight i of the program, random but the same each time, at *offset. */
static inline tn_status tiny_pack(tiny_rig *rig, uint32_t i, uint64_t *offset, tn_error *error) {
  float numbers[64 * TINY_WIDTH];
  const tn_value *value = tn_program_values(rig->program) + i;
  tn_weight_binding *binding = &rig->bindings[i];
  uint32_t uses = value->rank == 1 ? TN_USE_VECTOR : i == 0 ? TN_USE_EMBED : TN_USE_LINEAR;
  binding->desc = (tn_weight_desc){sizeof(tn_weight_desc), value->dtype, value->rank, uses, {0}};
  uint64_t rows = (uint64_t)value->dims[0], cols = value->rank == 1 ? 1 : (uint64_t)value->dims[1];
  binding->desc.dims[0] = rows;
  if (value->rank == 2) binding->desc.dims[1] = cols;
  test_random random = {i + 1};
  random_floats(&random, numbers, rows * cols, 0.5f);
  for (uint64_t k = 0; k < rows * cols && value->dtype == TN_F16; k++) {
    ((uint16_t *)(void *)numbers)[k] = (uint16_t)(0x3000 + random_u32(&random) % 0x800 + (k % 2) * 0x8000);
  }
  if (i == 3) {
    for (uint64_t k = 0; k < rows; k++) numbers[k] = 1.0f / (float)(1 + 3 * k);
  }
  tn_weight_source source = {.size = sizeof source,
                             .dtype = value->dtype,
                             .data = numbers,
                             .rows = rows,
                             .cols = cols,
                             .row_count = rows,
                             .col_count = cols};
  if (value->rank == 1) source.rows = source.row_count = 1, source.cols = source.col_count = rows;
  tn_status status = tn_device_weight_layout(rig->device, &binding->desc, &binding->layout, error);
  if (status) return status;
  binding->memory = (tn_binding){rig->weights, *offset, binding->layout.bytes};
  *offset = (*offset + binding->layout.bytes + 255) / 256 * 256;
  return tn_device_weight_pack(rig->device, rig->queue, &binding->desc, &binding->layout, &source, 1, rig->weights,
                               binding->memory.offset, error);
}

/* Puts the model on the open device of the rig. */
static inline tn_status tiny_fill(tiny_rig *rig, tn_error *error) {
  tn_opened_device *d = rig->device;
  uint64_t offset = 0;
  tn_state_desc desc = {sizeof desc, TN_F16, 1, TINY_DIM, TINY_DIM, TN_PAGE_SLOTS};
  tn_state_layout layout;
  tn_status status = tn_device_queue_create(d, &rig->queue, error);
  if (status == TN_OK) status = tn_device_state_layout(d, &desc, &layout, error);
  if (status) return status;
  rig->page_bytes = layout.page_bytes;
  status = tn_device_alloc(d, 64 * 1024, &rig->weights, error);
  if (status == TN_OK) status = tn_device_alloc(d, TINY_PAGES * layout.page_bytes, &rig->pages, error);
  if (status == TN_OK) status = tn_device_alloc(d, rig->program->scratch_bytes, &rig->scratch, error);
  if (status == TN_OK) status = tn_device_alloc(d, TINY_MAX_ROWS * TINY_VOCABULARY * 4, &rig->logits, error);
  if (status == TN_OK)
    status = tn_device_fill(d, rig->queue, rig->pages, 0, 0xff, TINY_PAGES * layout.page_bytes, error);
  for (uint32_t i = 0; i < TINY_WEIGHTS && status == TN_OK; i++) status = tiny_pack(rig, i, &offset, error);
  if (status) return status;
  return tn_device_prepare(d, rig->program, rig->bindings, TINY_WEIGHTS, NULL, NULL, &rig->executable, error);
}

static inline tn_status tiny_start(tiny_rig *rig, const char *spec, tn_error *error) {
  memset(rig, 0, sizeof *rig);
  rig->program = tiny_program();
  tn_status status = tn_device_open(spec, NULL, 0, &rig->device, error);
  return status ? status : tiny_fill(rig, error);
}

static const uint32_t tiny_pages[] = {4, 1, 3}; /* the page table of the one sequence */

/* One step: tokens[begin .. begin + count) of a sequence, logits of all of them to `logits`. */
static inline tn_status tiny_step(tiny_rig *rig, const int32_t *tokens, uint32_t begin, uint32_t count,
                                  uint64_t deadline_ns, float *logits, tn_error *error) {
  tn_row rows[TINY_MAX_ROWS] = {{0}};
  uint32_t wanted[TINY_MAX_ROWS];
  for (uint32_t i = 0; i < count; i++) {
    int32_t position = (int32_t)(begin + i);
    rows[i] = (tn_row){tokens[begin + i], {position, position, position, position}, 0, 1};
    wanted[i] = i;
  }
  tn_sequence sequence = {.row_count = count, .kv_length = begin};
  tn_batch batch = {sizeof batch,         count, 1,         count,      begin + count,
                    TN_COUNT(tiny_pages), rows,  &sequence, tiny_pages, wanted};
  tn_binding output = {rig->logits, 0, TINY_MAX_ROWS * TINY_VOCABULARY * 4};
  tn_binding state = {rig->pages, 0, TINY_PAGES * rig->page_bytes};
  tn_execution execution = {.size = sizeof execution,
                            .output_count = 1,
                            .state_count = 1,
                            .outputs = &output,
                            .states = &state,
                            .scratch = {rig->scratch, 0, rig->program->scratch_bytes},
                            .batch = &batch};
  tn_status status = tn_device_execute(rig->device, rig->queue, rig->executable, &execution, error);
  if (status == TN_OK) {
    status = tn_device_copy_out(rig->device, rig->queue, logits, rig->logits, 0, count * TINY_VOCABULARY * 4, error);
  }
  return status ? status : tn_device_synchronize(rig->device, rig->queue, deadline_ns, error);
}

#endif
