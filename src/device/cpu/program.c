/* Programs on the cpu: what is supported, and preparing. */
#include <stdlib.h>
#include <string.h>
#include "device/cpu/internal.h"
#include "kernels/pack/pack.h"

tn_status tn_cpu_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  const char *why;
  tn_status status = tn_packed_state_layout(desc, layout, &why);
  if (status == TN_OK) return TN_OK;
  return tn_cpu_fail(device, status, "state of dtype %u, %u heads of %u and %u, %u slots: %s", desc->dtype,
                     desc->kv_heads, desc->key_dim, desc->value_dim, desc->slots, why);
}

tn_status tn_cpu_supports(tn_device *device, const tn_op_query *query) {
  char message[160];
  if (query->opcode >= TN_OP_LIMIT || !device->kernels->table->kernel[query->opcode])
    return tn_cpu_fail(device, TN_E_UNSUPPORTED, "no op %u", query->opcode);
  tn_status status = tn_packed_supports(query, message, sizeof message);
  return status == TN_OK ? TN_OK : tn_cpu_fail(device, status, "op %u: %s", query->opcode, message);
}

/* Binds weight `number`; its layout must be what the ops that read it expect, its memory large enough. */
static tn_status bind_weight(tn_executable *e, const tn_weight_binding *binding, uint32_t number) {
  const char *why;
  tn_weight_layout own;
  const tn_binding *memory = &binding->memory;
  tn_status status = tn_packed_layout(&binding->desc, &own, &why);
  if (status != TN_OK) return tn_cpu_fail(e->device, status, "weight %u: %s", number, why);
  if (own.id != binding->layout.id || memory->bytes < own.bytes || memory->offset % own.alignment)
    return tn_cpu_fail(e->device, TN_E_INVALID, "weight %u is not in the layout of its description", number);
  status = tn_cpu_inside(e->device, memory->buffer, memory->offset, own.bytes);
  if (status != TN_OK) return status;
  e->weights[number].data = memory->buffer->data + memory->offset;
  e->weights[number].layout = e->layouts[number] = own.id;
  if (own.id == TN_LAYOUT_VECTOR && binding->desc.rank)
    e->weights[number].row_bytes = tn_plain_row_bytes(&binding->desc);
  return TN_OK;
}

/* Checks every op and finds the largest workspace. */
static tn_status check_ops(tn_executable *e) {
  const tn_program *program = e->program;
  for (uint32_t i = 0; i < program->op_count; i++) {
    const tn_op *op = tn_program_ops(program) + i;
    tn_op_query query;
    tn_program_query(program, op, &query);
    tn_status status = tn_cpu_supports(e->device, &query);
    if (status != TN_OK) return status;
    if (!tn_packed_layouts_agree(program, op, e->layouts))
      return tn_cpu_fail(e->device, TN_E_INVALID, "op %u (%s) can't read its weight's layout", i,
                         tn_program_name(program, op->name));
    uint64_t bytes = e->device->kernels->workspace(&query, program->max_context, e->device->threads);
    if (bytes > e->workspace_bytes) e->workspace_bytes = bytes;
  }
  e->workspace_bytes = (e->workspace_bytes + 127) / 64 * 64;
  return TN_OK;
}

static tn_status check_values(tn_executable *e, const tn_weight_binding *weights) {
  uint32_t wrong;
  const char *why;
  if (!tn_packed_weights_agree(e->program, weights, &wrong))
    return tn_cpu_fail(e->device, TN_E_INVALID, "weight %u is bound with another type or shape", wrong);
  tn_status status = tn_packed_page_bytes(e->program, e->page_bytes, &why);
  return status == TN_OK ? TN_OK : tn_cpu_fail(e->device, status, "%s", why);
}

static bool allocate(tn_executable *e, const tn_program *program) {
  e->program = malloc(program->bytes);
  if (e->program) memcpy(e->program, program, program->bytes);
  e->weights = calloc(program->weight_count + 1, sizeof *e->weights);
  e->layouts = calloc(program->weight_count + 1, sizeof *e->layouts);
  e->page_bytes = calloc(program->state_count + 1, sizeof *e->page_bytes);
  e->inputs = calloc(program->input_count + 1, sizeof *e->inputs);
  e->outputs = calloc(program->output_count + 1, sizeof *e->outputs);
  e->states = calloc(program->state_count + 1, sizeof *e->states);
  return e->program && e->weights && e->layouts && e->page_bytes && e->inputs && e->outputs && e->states;
}

tn_status tn_cpu_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                         uint32_t weight_count, tn_progress progress, void *progress_context,
                         tn_executable **executable) {
  char message[200];
  *executable = NULL;
  if (progress && progress(progress_context, 0, 1)) return tn_cpu_fail(device, TN_E_CANCELLED, "cancelled");
  if (tn_program_check(program, program->bytes, message, sizeof message) != TN_OK)
    return tn_cpu_fail(device, TN_E_FORMAT, "%s", message);
  if (weight_count != program->weight_count)
    return tn_cpu_fail(device, TN_E_INVALID, "the program has %u weights, %u are bound", program->weight_count,
                       weight_count);
  tn_status status = TN_OK;
  tn_executable *e = calloc(1, sizeof *e);
  if (!e || !allocate(e, program)) {
    status = tn_cpu_fail(device, TN_E_MEMORY, "no memory for a program of %u bytes", program->bytes);
    goto done;
  }
  e->device = device;
  for (uint32_t i = 0; status == TN_OK && i < weight_count; i++) status = bind_weight(e, &weights[i], i);
  if (status == TN_OK) status = check_values(e, weights);
  if (status == TN_OK) status = check_ops(e);
  if (status != TN_OK) goto done;
  e->workspace = aligned_alloc(TN_CPU_ALIGNMENT, e->workspace_bytes * device->threads);
  if (!e->workspace)
    status = tn_cpu_fail(device, TN_E_MEMORY, "no memory for %u workspaces of %llu bytes", device->threads,
                         (unsigned long long)e->workspace_bytes);
done:
  if (status != TN_OK) {
    tn_cpu_release(e);
    return status;
  }
  if (progress) progress(progress_context, 1, 1);
  *executable = e;
  return TN_OK;
}

void tn_cpu_release(tn_executable *e) {
  if (!e) return;
  free(e->program);
  free(e->weights);
  free(e->layouts);
  free(e->page_bytes);
  free(e->inputs);
  free(e->outputs);
  free(e->states);
  free(e->workspace);
  free(e);
}
