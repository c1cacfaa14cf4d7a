/* plan: where in the scratch arena every value lies. A value lives from the op that writes it to the last that reads
 * it; each gets the lowest gap it fits in among those alive. An elementwise op writes over its input where that dies
 * there. */
#include "graph/passes.h"

#include <stdlib.h>

#define ALIGNMENT 64u

typedef struct live_range {
  tn_ref value;
  uint64_t offset, bytes;
  size_t last_use;
} live_range;

static uint64_t value_bytes(const tn_graph *graph, tn_ref ref) {
  const tn_graph_value *value = graph->values + ref;
  uint64_t rows = 1;
  switch (value->dims[0]) {
    case TN_DIM_T: rows = graph->max_rows; break;
    case TN_DIM_R: rows = graph->max_logits_rows; break;
    case TN_DIM_S: rows = graph->max_sequences; break;
    case TN_DIM_C: rows = graph->max_context; break;
    default: rows = (uint64_t)value->dims[0]; break;
  }
  return tn_round_up(rows * tn_row_bytes(value->dtype, (uint64_t)value->dims[1]), ALIGNMENT);
}

/* The input that the op's output may lie over, by the contract of kernels (driver.h), or none. */
static tn_ref in_place_input(const tn_graph_op *op) {
  switch (op->opcode) {
    case TN_OP_ADD:
    case TN_OP_MUL:
    case TN_OP_ACTIVATION:
    case TN_OP_SCALE:
    case TN_OP_SOFTCAP:
    case TN_OP_ROPE: return op->inputs[0];
    case TN_OP_LINEAR: /* the residual, unless it is the linear's input too */
      return op->input_count == 4 && op->inputs[0] != op->inputs[3] ? op->inputs[3] : TN_NO_VALUE;
    default: return TN_NO_VALUE;
  }
}

/* Lowest offset at which `bytes` bytes overlap nothing alive; ranges are sorted by offset. */
static uint64_t lowest_gap(const live_range *live, size_t count, uint64_t bytes) {
  uint64_t offset = 0;
  for (size_t i = 0; i < count; i++) {
    if (live[i].offset >= offset + bytes) break;
    if (live[i].offset + live[i].bytes > offset) offset = live[i].offset + live[i].bytes;
  }
  return offset;
}

static int by_offset(const void *a, const void *b) {
  const live_range *x = a, *y = b;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

uint64_t tn_plan_memory(const tn_graph *graph, size_t first, size_t last, const bool *border, bool in_place,
                        uint64_t *offsets) {
  uint64_t peak = ALIGNMENT;
  live_range *live = tn_calloc(graph->value_count, sizeof *live);
  size_t *last_use = tn_calloc(graph->value_count, sizeof *last_use);
  size_t count = 0;
  if (!live || !last_use) {
    free(live);
    free(last_use);
    return 0;
  }
  for (size_t i = first; i < last; i++) {
    const tn_graph_op *op = graph->ops + i;
    for (uint32_t k = 0; k < op->output_count; k++) last_use[op->outputs[k]] = i;
    for (uint32_t k = 0; k < op->input_count; k++)
      if (op->inputs[k] != TN_NO_VALUE) last_use[op->inputs[k]] = i;
  }
  for (size_t i = first; i < last; i++) {
    const tn_graph_op *op = graph->ops + i;
    for (uint32_t k = 0; k < op->output_count; k++) {
      tn_ref output = op->outputs[k];
      if (border[output]) continue;
      live_range *range = live + count;
      *range = (live_range){output, 0, value_bytes(graph, output), last_use[output]};
      tn_ref over = in_place ? in_place_input(op) : TN_NO_VALUE;
      bool placed = false;
      for (size_t j = 0; j < count && over != TN_NO_VALUE && !placed; j++) {
        if (live[j].value != over || live[j].last_use != i || live[j].bytes != range->bytes) continue;
        live[j].value = output;
        live[j].last_use = last_use[output];
        offsets[output] = live[j].offset;
        placed = true;
      }
      if (placed) continue;
      qsort(live, count, sizeof *live, by_offset);
      range->offset = lowest_gap(live, count, range->bytes);
      offsets[output] = range->offset;
      if (range->offset + range->bytes > peak) peak = range->offset + range->bytes;
      count++;
    }
    size_t kept = 0;
    for (size_t j = 0; j < count; j++)
      if (live[j].last_use > i) live[kept++] = live[j];
    count = kept;
  }
  free(live);
  free(last_use);
  return peak;
}
