/* Programs: checked here, put into the window once, made ready by the DSP. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "device/hexagon/internal.h"
#include "kernels/pack/pack.h"

#define PREPARE_NS 60000000000ull /* nothing is compiled: a minute is for machines that stand still */

/* ---- checking ---- */

static tn_status bind_weight(tn_device *device, const tn_weight_binding *binding, uint32_t number,
                             tn_hexagon_weight *weight) {
  const tn_binding *memory = &binding->memory;
  tn_weight_layout own = {.size = sizeof own};
  tn_status status = tn_hexagon_weight_layout(device, &binding->desc, &own);
  if (status != TN_OK) return status;
  if (own.id != binding->layout.id || memory->bytes < own.bytes || memory->offset % own.alignment)
    return tn_hexagon_fail(device, TN_E_INVALID, "weight %u is not in the layout of its description", number);
  status = tn_hexagon_inside(device, memory->buffer, memory->offset, own.bytes);
  if (status != TN_OK) return status;
  *weight = (tn_hexagon_weight){.data = (uint32_t)(memory->buffer->offset + memory->offset),
                                .layout = own.id,
                                .row_bytes = own.id == TN_LAYOUT_VECTOR ? tn_plain_row_bytes(&binding->desc) : 0};
  return TN_OK;
}

static tn_status check_values(tn_executable *e, const tn_weight_binding *weights) {
  uint32_t wrong;
  const char *why;
  if (!tn_packed_weights_agree(e->program, weights, &wrong))
    return tn_hexagon_fail(e->device, TN_E_INVALID, "weight %u is bound with another type or shape", wrong);
  tn_status status = tn_packed_page_bytes(e->program, e->page_bytes, &why);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(e->device, status, "%s", why);
}

static tn_status check_ops(tn_executable *e, const uint32_t *layouts) {
  for (uint32_t i = 0; i < e->program->op_count; i++) {
    const tn_op *op = tn_program_ops(e->program) + i;
    tn_op_query query;
    tn_program_query(e->program, op, &query);
    tn_status status = tn_hexagon_supports(e->device, &query);
    if (status != TN_OK) return status;
    if (!tn_packed_layouts_agree(e->program, op, layouts))
      return tn_hexagon_fail(e->device, TN_E_INVALID, "op %u (%s) can't read its weight's layout", i,
                             tn_program_name(e->program, op->name));
  }
  return TN_OK;
}

/* ---- into the window ---- */

/* Takes a part of a buffer that is filled from its begin on. */
static void *part(tn_device *device, const tn_buffer *buffer, uint64_t *at, uint64_t bytes) {
  void *address = device->window + buffer->offset + *at;
  *at += tn_round_up(bytes, 8);
  return address;
}

/* One buffer with everything that stays as it is. */
static tn_status place(tn_executable *e, const tn_program *program) {
  tn_device *device = e->device;
  uint64_t weights = program->weight_count * sizeof(tn_hexagon_weight), pages = program->state_count * sizeof(uint64_t);
  uint64_t others = (uint64_t)program->input_count + program->output_count + program->state_count, at = 0;
  uint64_t tables = TN_HEXAGON_TABLE_BYTES(program->weight_count, others);
  tn_status status =
      tn_hexagon_alloc(device, sizeof(tn_hexagon_program) + program->bytes + weights + pages + tables + 64, &e->memory);
  if (status != TN_OK) return status;
  e->prepared = part(device, e->memory, &at, sizeof *e->prepared);
  e->program = part(device, e->memory, &at, program->bytes);
  e->page_bytes = part(device, e->memory, &at, pages);
  memcpy(e->program, program, program->bytes);
  *e->prepared = (tn_hexagon_program){.program = tn_hexagon_offset(device, e->program),
                                      .page_bytes = tn_hexagon_offset(device, e->page_bytes),
                                      .weights = tn_hexagon_offset(device, part(device, e->memory, &at, weights)),
                                      .tables = tn_hexagon_offset(device, part(device, e->memory, &at, tables)),
                                      .tables_bytes = (uint32_t)tables};
  return TN_OK;
}

/* The DSP makes its tables and says what workspace it needs. */
static tn_status make_ready(tn_executable *e) {
  tn_device *device = e->device;
  uint32_t last;
  tn_mutex_lock(device->mutex);
  tn_status status = tn_hexagon_submit(device, TN_HEXAGON_PREPARE, e->prepared, (pending_command){0}, &last);
  uint32_t slot = (last - 1) % TN_HEXAGON_RING;
  if (status == TN_OK) status = tn_hexagon_wait(device, last, tn_clock_ns() + PREPARE_NS);
  if (status == TN_OK) {
    status = device->control->ring[slot].status;
    tn_hexagon_retire(device);
    if (status != TN_OK) tn_hexagon_fail(device, status, "the DSP refused the program");
  }
  tn_mutex_unlock(device->mutex);
  if (status == TN_OK) status = tn_hexagon_alloc(device, e->prepared->workspace_bytes * device->threads, &e->workspace);
  if (status == TN_OK) e->prepared->workspace = (uint32_t)e->workspace->offset;
  return status;
}

static tn_status prepare(tn_executable *e, const tn_program *program, const tn_weight_binding *weights) {
  uint32_t *layouts = tn_calloc((size_t)program->weight_count + 1, sizeof *layouts);
  if (!layouts) return tn_hexagon_fail(e->device, TN_E_MEMORY, "out of memory");
  tn_status status = place(e, program);
  for (uint32_t i = 0; status == TN_OK && i < program->weight_count; i++) {
    tn_hexagon_weight *table = (tn_hexagon_weight *)(void *)(e->device->window + e->prepared->weights);
    status = bind_weight(e->device, &weights[i], i, &table[i]);
    layouts[i] = table[i].layout;
  }
  if (status == TN_OK) status = check_values(e, weights);
  if (status == TN_OK) status = check_ops(e, layouts);
  if (status == TN_OK) status = make_ready(e);
  free(layouts);
  return status;
}

tn_status tn_hexagon_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                             uint32_t weight_count, tn_progress progress, void *progress_context,
                             tn_executable **executable) {
  char message[200];
  *executable = NULL;
  if (progress && progress(progress_context, 0, 1)) return tn_hexagon_fail(device, TN_E_CANCELLED, "cancelled");
  if (tn_program_check(program, program->bytes, message, sizeof message) != TN_OK)
    return tn_hexagon_fail(device, TN_E_FORMAT, "%s", message);
  if (weight_count != program->weight_count)
    return tn_hexagon_fail(device, TN_E_INVALID, "the program has %u weights, %u are bound", program->weight_count,
                           weight_count);
  tn_executable *e = tn_calloc(1, sizeof *e);
  if (!e) return tn_hexagon_fail(device, TN_E_MEMORY, "out of memory");
  e->device = device;
  tn_status status = prepare(e, program, weights);
  if (status != TN_OK) {
    tn_hexagon_release(e);
    return status;
  }
  if (progress) progress(progress_context, 1, 1);
  *executable = e;
  return TN_OK;
}

void tn_hexagon_release(tn_executable *e) {
  if (!e) return;
  tn_device *device = e->device;
  tn_buffer *const buffers[] = {e->memory, e->workspace, e->message, e->counters};
  if (e->message && tn_hexagon_wait(device, e->last, UINT64_MAX) == TN_OK) {
    tn_mutex_lock(device->mutex);
    tn_hexagon_retire(device);
    tn_mutex_unlock(device->mutex);
  }
  for (size_t i = 0; i < TN_COUNT(buffers); i++) tn_hexagon_free(device, buffers[i]);
  free(e);
}
