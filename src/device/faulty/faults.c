/* Faults in what is handed on: programs, weights (see internal.h for the list). */
#include "device/faulty/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name, *text;
} faults[TN_FAULT_COUNT] = {
#define X(NAME, name, text) [TN_FAULT_##NAME] = {name, text},
    TN_FAULTS(X)
#undef X
};

tn_fault tn_fault_find(const char *name) {
  for (int i = TN_FAULT_NONE + 1; i < TN_FAULT_COUNT; i++)
    if (!strcmp(faults[i].name, name)) return (tn_fault)i;
  return TN_FAULT_NONE;
}

void tn_fault_list(char *out, size_t capacity) {
  size_t size = 0;
  out[0] = 0;
  for (int i = TN_FAULT_NONE + 1; i < TN_FAULT_COUNT && size < capacity; i++)
    size += (size_t)snprintf(out + size, capacity - size, "%s%s", size ? ", " : "", faults[i].name);
}

/* ---- programs ---- */

static void change_attributes(tn_fault fault, uint16_t opcode, void *attributes) {
  tn_linear_attributes *linear = opcode == TN_OP_LINEAR ? attributes : NULL;
  tn_attention_attributes *attention = opcode == TN_OP_ATTENTION ? attributes : NULL;
  switch (fault) {
    case TN_FAULT_IGNORED_SCALE:
      if (linear) linear->scale = 1;
      if (opcode == TN_OP_EMBED) ((tn_embed_attributes *)attributes)->scale = 1;
      if (opcode == TN_OP_SCALE) ((tn_scalar_attributes *)attributes)->value = 1;
      break;
    case TN_FAULT_IGNORED_ACTIVATION:
      if (linear) linear->activation = TN_ACTIVATION_NONE;
      if (opcode == TN_OP_ACTIVATION) ((tn_activation_attributes *)attributes)->activation = TN_ACTIVATION_NONE;
      break;
    case TN_FAULT_IGNORED_WINDOW:
      if (attention) attention->window = 0;
      break;
    case TN_FAULT_IGNORED_SOFTCAP:
      if (attention) attention->softcap = 0;
      break;
    case TN_FAULT_IGNORED_EPSILON:
      if (opcode == TN_OP_NORM) ((tn_norm_attributes *)attributes)->epsilon = 0;
      break;
    case TN_FAULT_WRONG_PAIRING:
      if (opcode == TN_OP_ROPE) ((tn_rope_attributes *)attributes)->pairing ^= 1;
      if (opcode == TN_OP_KV_WRITE) ((tn_kv_write_attributes *)attributes)->pairing ^= 1;
      break;
    default: break;
  }
}

tn_program *tn_fault_in_program(tn_fault fault, const tn_program *program) {
  tn_program *copy = malloc(program->bytes);
  if (!copy) return NULL;
  memcpy(copy, program, program->bytes);
  tn_op *ops = (tn_op *)(void *)((char *)copy + copy->ops);
  for (uint32_t i = 0; i < copy->op_count; i++) {
    change_attributes(fault, ops[i].opcode, (char *)copy + copy->attributes + ops[i].attributes);
    bool is_linear = ops[i].opcode == TN_OP_LINEAR, is_attention = ops[i].opcode == TN_OP_ATTENTION;
    if (ops[i].input_count < 3) continue;
    if (fault == TN_FAULT_IGNORED_BIAS && is_linear) ops[i].inputs[2] = TN_NO_VALUE;
    if (fault == TN_FAULT_IGNORED_SINKS && is_attention) ops[i].inputs[2] = TN_NO_VALUE;
  }
  return copy;
}

/* ---- weights ---- */

static void change_source(tn_fault fault, tn_weight_source *source) {
  uint64_t rows = source->rows;
  if (fault == TN_FAULT_IGNORED_ADD) source->add = 0;
  if (fault == TN_FAULT_IGNORED_ROW_MAP && source->row_map) {
    source->row_map = NULL;
    source->row_begin = 0;
  }
  if (fault == TN_FAULT_IGNORED_TRANSPOSE && source->transposed) {
    source->rows = source->cols;
    source->cols = rows;
    source->transposed = 0;
  }
}

void tn_fault_in_sources(tn_fault fault, tn_weight_source *sources, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) change_source(fault, &sources[i]);
}

bool tn_fault_is_stale(tn_device *d, const tn_buffer *buffer, uint64_t offset) {
  for (uint32_t i = 0; i < d->packed_count; i++)
    if (d->packed[i].buffer == buffer && d->packed[i].offset == offset) return true;
  if (d->packed_count < TN_FAULT_PLACES) {
    d->packed[d->packed_count].buffer = buffer;
    d->packed[d->packed_count++].offset = offset;
  }
  return false;
}
