/* Programs on the cpu: what is supported, and preparing. */
#include <stdlib.h>
#include <string.h>
#include "device/cpu/internal.h"
#include "device/cpu/pack.h"
#include "kernels/page.h"

tn_status tn_cpu_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_page page;
  if (desc->slots != TN_PAGE_SLOTS) { /* recurrent, or contiguous KV: the reference kernels' */
    tn_status status = tn_plain_state_layout(desc, layout);
    return status == TN_OK ? TN_OK : tn_cpu_fail(device, status, "no such state of %u slots", desc->slots);
  }
  if (!tn_page_of(&page, desc->dtype, desc->kv_heads, desc->key_dim, desc->value_dim))
    return tn_cpu_fail(device, TN_E_UNSUPPORTED, "no pages of dtype %u, %u heads of %u and %u, %u slots", desc->dtype,
                       desc->kv_heads, desc->key_dim, desc->value_dim, desc->slots);
  *layout = (tn_state_layout){.size = sizeof *layout, .id = TN_PAGE_LAYOUT, .page_bytes = page.bytes};
  return TN_OK;
}

tn_status tn_cpu_supports(tn_device *device, const tn_op_query *query) {
  char message[160];
  const tn_op_info *info = tn_op_info_of(query->opcode);
  if (!info || query->opcode >= TN_OP_LIMIT || !device->kernels->table->kernel[query->opcode] ||
      query->revision != info->revision || query->attribute_bytes != info->attribute_bytes)
    return tn_cpu_fail(device, TN_E_UNSUPPORTED, "no op %u, revision %u", query->opcode, query->revision);
  if (tn_shape_check(query, message, sizeof message) != TN_OK)
    return tn_cpu_fail(device, TN_E_UNSUPPORTED, "%s: %s", info->name, message);
  for (uint32_t i = 0; i < query->input_count; i++) {
    const tn_value_desc *in = &query->inputs[i];
    if (!in->present) continue;
    tn_page page;
    bool known = true;
    bool experts = (query->opcode == TN_OP_MOE_LINEAR || query->opcode == TN_OP_HEAD_LINEAR) && i == 1;
    if (in->kind == TN_VALUE_WEIGHT)
      known = tn_cpu_layout_kind(in->dtype) != TN_LAYOUT_NONE && (in->rank <= 2 || experts);
    if (in->kind == TN_VALUE_STATE && in->rank == 4)
      known = tn_page_of(&page, in->dtype, (uint32_t)in->dims[0], (uint32_t)in->dims[1], (uint32_t)in->dims[2]) &&
              (in->dims[3] == (int32_t)TN_PAGE_SLOTS) != (query->opcode == TN_OP_ATTENTION_MASKED);
    if (!known) return tn_cpu_fail(device, TN_E_UNSUPPORTED, "%s: input %u of dtype %u", info->name, i, in->dtype);
  }
  return TN_OK;
}

/* Binds weight `number`; its layout must be what the ops that read it expect, its memory large enough. */
static tn_status bind_weight(tn_executable *e, const tn_weight_binding *binding, uint32_t number) {
  char message[160];
  tn_weight_layout own;
  const tn_binding *memory = &binding->memory;
  tn_status status = tn_cpu_weight_layout(&binding->desc, &own, message, sizeof message);
  if (status != TN_OK) return tn_cpu_fail(e->device, status, "%s", message);
  if (own.id != binding->layout.id || memory->bytes < own.bytes || memory->offset % own.alignment)
    return tn_cpu_fail(e->device, TN_E_INVALID, "weight %u is not in the layout of its description", number);
  status = tn_cpu_inside(e->device, memory->buffer, memory->offset, own.bytes);
  if (status != TN_OK) return status;
  e->weights[number].data = memory->buffer->data + memory->offset;
  e->weights[number].layout = own.id;
  if (own.id == TN_LAYOUT_VECTOR && binding->desc.rank)
    e->weights[number].row_bytes = tn_plain_row_bytes(&binding->desc);
  return TN_OK;
}

/* Whether the layouts of an op's weights are those its kernel reads. */
static bool layouts_agree(const tn_executable *e, const tn_op *op) {
  const tn_value *values = tn_program_values(e->program);
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tn_value *value = op->inputs[i] == TN_NO_VALUE ? NULL : &values[op->inputs[i]];
    if (!value || value->kind != TN_VALUE_WEIGHT) continue;
    uint32_t layout = e->weights[value->index].layout;
    const void *attributes = tn_program_attributes(e->program, op);
    bool matrix = i == 1, gated = false;
    switch (op->opcode) {
      case TN_OP_LINEAR: gated = ((const tn_linear_attributes *)attributes)->gated != 0; break;
      case TN_OP_MOE_LINEAR: gated = ((const tn_moe_linear_attributes *)attributes)->gated != 0; break;
      case TN_OP_HEAD_LINEAR: break;
      case TN_OP_EMBED: matrix = i == 0; break;
      default: matrix = false; break;
    }
    if (matrix != (layout != TN_LAYOUT_VECTOR)) return false;
    if (matrix && gated != ((layout & TN_LAYOUT_GATED) != 0)) return false;
  }
  return true;
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
    if (!layouts_agree(e, op))
      return tn_cpu_fail(e->device, TN_E_INVALID, "op %u (%s) can't read its weight's layout", i,
                         tn_program_name(program, op->name));
    uint64_t bytes = e->device->kernels->workspace(&query, program->max_context, e->device->threads);
    if (bytes > e->workspace_bytes) e->workspace_bytes = bytes;
  }
  e->workspace_bytes = (e->workspace_bytes + 127) / 64 * 64;
  return TN_OK;
}

/* A weight of the program must be the weight that is bound; the pages of a state are as its dims say. */
static tn_status check_values(tn_executable *e, const tn_weight_binding *weights) {
  const tn_value *values = tn_program_values(e->program);
  for (uint32_t i = 0; i < e->program->value_count; i++) {
    const tn_value *v = &values[i];
    if (v->kind == TN_VALUE_WEIGHT) {
      const tn_weight_desc *desc = &weights[v->index].desc;
      bool same = v->rank == desc->rank && v->dtype == desc->dtype;
      for (uint32_t d = 0; same && d < v->rank; d++) same = (uint64_t)v->dims[d] == desc->dims[d];
      if (!same) return tn_cpu_fail(e->device, TN_E_INVALID, "weight %u is bound with another type or shape", v->index);
    }
    if (v->kind != TN_VALUE_STATE) continue;
    const uint32_t *dims = (const uint32_t *)v->dims;
    const tn_state_desc desc = {sizeof desc, v->dtype, dims[0], dims[1], dims[2], v->rank == 4 ? dims[3] : 0};
    tn_state_layout layout = {.size = sizeof layout};
    tn_status status = tn_cpu_state_layout(e->device, &desc, &layout);
    if (status != TN_OK) return status;
    e->page_bytes[v->index] = layout.page_bytes;
  }
  return TN_OK;
}

static bool allocate(tn_executable *e, const tn_program *program) {
  e->program = malloc(program->bytes);
  if (e->program) memcpy(e->program, program, program->bytes);
  e->weights = calloc(program->weight_count + 1, sizeof *e->weights);
  e->page_bytes = calloc(program->state_count + 1, sizeof *e->page_bytes);
  e->inputs = calloc(program->input_count + 1, sizeof *e->inputs);
  e->outputs = calloc(program->output_count + 1, sizeof *e->outputs);
  e->states = calloc(program->state_count + 1, sizeof *e->states);
  return e->program && e->weights && e->page_bytes && e->inputs && e->outputs && e->states;
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
  free(e->page_bytes);
  free(e->inputs);
  free(e->outputs);
  free(e->states);
  free(e->workspace);
  free(e);
}
