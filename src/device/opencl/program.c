/* Programs: which ops the kernels take, and preparing. */
#include <stdlib.h>
#include <string.h>
#include "device/opencl/internal.h"

/* ---- what is supported ---- */

static bool is_weight_format(uint32_t dtype) {
  switch (dtype) {
    case TN_F32:
    case TN_F16:
    case TN_BF16:
    case TN_Q8_0:
    case TN_Q4_0:
    case TN_Q4_1:
    case TN_Q5_0:
    case TN_Q5_1:
    case TN_Q2_K:
    case TN_Q3_K:
    case TN_Q4_K:
    case TN_Q5_K:
    case TN_Q6_K:
    case TN_IQ4_NL:
    case TN_IQ4_XS:
    case TN_MXFP4:
    case TN_MXFP6:
    case TN_F8_E4M3:
    case TN_F8_E5M2: return true;
    default: return false;
  }
}

/* Which input of an op is a matrix weight. */
static bool is_matrix(const tn_op_query *query, uint32_t input) {
  switch (query->opcode) {
    case TN_OP_EMBED: return input == 0;
    case TN_OP_LINEAR:
    case TN_OP_MOE_LINEAR:
    case TN_OP_HEAD_LINEAR: return input == 1;
    default: return false;
  }
}

/* Attention keeps a head's values in local memory, beside what its tiles take. */
static bool fits_local_memory(const tn_device *device, const tn_op_query *query) {
  const uint64_t tiles = 2048;
  if (query->opcode != TN_OP_ATTENTION && query->opcode != TN_OP_ATTENTION_MASKED) return true;
  const tn_attention_attributes *a = query->attributes;
  return (uint64_t)a->value_dim * sizeof(float) + tiles <= device->local_memory;
}

/* 8-bit activations need exact divisions, and whole blocks in each group of a norm. */
static bool can_quantise(const tn_device *device, const tn_op_query *query) {
  if (query->opcode != TN_OP_QUANTISE && query->opcode != TN_OP_NORM) return true;
  if (query->outputs[0].dtype != TN_Q8A) return true;
  if (!device->exact_division) return false;
  return query->opcode != TN_OP_NORM || ((const tn_norm_attributes *)query->attributes)->group % TN_Q8A_BLOCK == 0;
}

/* Matrices of experts and heads are multiplied by floats only. */
static bool has_kernel_for(const tn_op_query *query) {
  return (query->opcode != TN_OP_MOE_LINEAR && query->opcode != TN_OP_HEAD_LINEAR) || query->inputs[0].dtype == TN_F32;
}

tn_status tn_opencl_supports(tn_device *device, const tn_op_query *query) {
  char message[160];
  const tn_op_info *info = tn_op_info_of(query->opcode);
  if (!info || query->opcode >= TN_OP_LIMIT || !tn_opencl_launches()->kernel[query->opcode] ||
      tn_reference_supports(query) != TN_OK)
    return tn_opencl_fail(device, TN_E_UNSUPPORTED, "no op %u of revision %u with these operands", query->opcode,
                          query->revision);
  if (tn_shape_check(query, message, sizeof message) != TN_OK)
    return tn_opencl_fail(device, TN_E_UNSUPPORTED, "%s: %s", info->name, message);
  for (uint32_t i = 0; i < query->input_count; i++) {
    const tn_value_desc *in = &query->inputs[i];
    if (in->present && is_matrix(query, i) && !is_weight_format(in->dtype))
      return tn_opencl_fail(device, TN_E_UNSUPPORTED, "%s: no weights of dtype %u", info->name, in->dtype);
  }
  if (!has_kernel_for(query) || !fits_local_memory(device, query) || !can_quantise(device, query))
    return tn_opencl_fail(device, TN_E_UNSUPPORTED, "%s: not on this device", info->name);
  return TN_OK;
}

/* ---- prepare ---- */

static tn_status bind_weight(tn_executable *e, uint32_t number, const tn_weight_binding *binding) {
  tn_device *device = e->device;
  const tn_binding *memory = &binding->memory;
  tn_weight_layout layout = {.size = sizeof layout};
  tn_status status = tn_opencl_weight_layout(device, &binding->desc, &layout);
  if (status != TN_OK) return status;
  if (binding->layout.id != layout.id || memory->bytes < layout.bytes)
    return tn_opencl_fail(device, TN_E_INVALID, "weight %u is not in the layout of its description", number);
  status = tn_opencl_inside(device, memory->buffer, memory->offset, layout.bytes);
  if (status != TN_OK) return status;
  e->parts[number] = tn_opencl_part(device, memory->buffer, memory->offset, layout.bytes);
  e->weights[number].data =
      e->parts[number] ? tn_opencl_address(e->parts[number], 0) : tn_opencl_address(memory->buffer, memory->offset);
  e->weights[number].layout = layout.id;
  e->weights[number].row_bytes = tn_plain_row_bytes(&binding->desc);
  return TN_OK;
}

/* A weight of the program must be the weight that is bound; the pages of a state are as its dims say. */
static tn_status check_values(tn_executable *e, const tn_weight_binding *weights) {
  tn_device *device = e->device;
  for (uint32_t i = 0; i < e->program->value_count; i++) {
    const tn_value *v = tn_program_values(e->program) + i;
    if (v->kind == TN_VALUE_WEIGHT) {
      const tn_weight_desc *desc = &weights[v->index].desc;
      bool same = v->rank == desc->rank && v->dtype == desc->dtype;
      for (uint32_t d = 0; same && d < v->rank; d++) same = (uint64_t)v->dims[d] == desc->dims[d];
      if (!same) return tn_opencl_fail(device, TN_E_INVALID, "weight %u is bound with another type or shape", v->index);
    }
    if (v->kind != TN_VALUE_STATE) continue;
    const uint32_t *dims = (const uint32_t *)v->dims;
    const tn_state_desc desc = {sizeof desc, v->dtype, dims[0], dims[1], dims[2], v->rank == 4 ? dims[3] : 0};
    tn_state_layout layout = {.size = sizeof layout};
    tn_status status = tn_opencl_state_layout(device, &desc, &layout);
    if (status != TN_OK) return status;
    e->page_bytes[v->index] = layout.page_bytes;
  }
  return TN_OK;
}

static tn_status check_ops(tn_device *device, const tn_program *program) {
  for (uint32_t i = 0; i < program->op_count; i++) {
    tn_op_query query;
    tn_program_query(program, tn_program_ops(program) + i, &query);
    tn_status status = tn_opencl_supports(device, &query);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

/* The kernels, and those made for the formats of the program's weights. */
static tn_status build_kernels(tn_device *device, const tn_program *program) {
  tn_mutex_lock(device->mutex);
  tn_status status = tn_opencl_build(device, TN_OPENCL_ALL);
  for (uint32_t i = 0; i < program->op_count && status == TN_OK && device->specialise; i++) {
    tn_op_query query;
    tn_program_query(program, tn_program_ops(program) + i, &query);
    if (query.opcode != TN_OP_EMBED && is_matrix(&query, 1)) status = tn_opencl_build(device, query.inputs[1].dtype);
  }
  tn_mutex_unlock(device->mutex);
  return status;
}

static bool allocate(tn_executable *e, const tn_program *program) {
  e->program = malloc(program->bytes);
  if (e->program) memcpy(e->program, program, program->bytes);
  e->weights = tn_calloc(program->weight_count + 1, sizeof *e->weights);
  e->parts = tn_calloc(program->weight_count + 1, sizeof *e->parts);
  e->page_bytes = tn_calloc(program->state_count + 1, sizeof *e->page_bytes);
  e->inputs = tn_calloc(program->input_count + 1, sizeof *e->inputs);
  e->outputs = tn_calloc(program->output_count + 1, sizeof *e->outputs);
  e->states = tn_calloc(program->state_count + 1, sizeof *e->states);
  return e->program && e->weights && e->parts && e->page_bytes && e->inputs && e->outputs && e->states;
}

tn_status tn_opencl_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                            uint32_t weight_count, tn_progress progress, void *progress_context,
                            tn_executable **executable) {
  *executable = NULL;
  if (progress && progress(progress_context, 0, 1)) return tn_opencl_fail(device, TN_E_CANCELLED, "cancelled");
  tn_status status = tn_program_check(program, program->bytes, device->error, sizeof device->error);
  if (status != TN_OK) return status;
  if (weight_count != program->weight_count)
    return tn_opencl_fail(device, TN_E_INVALID, "the program has %u weights, %u are bound", program->weight_count,
                          weight_count);
  status = check_ops(device, program);
  if (status == TN_OK) status = build_kernels(device, program);
  if (status != TN_OK) return status;
  tn_executable *e = tn_calloc(1, sizeof *e);
  if (!e) return tn_opencl_fail(device, TN_E_MEMORY, "out of memory");
  e->device = device;
  status = allocate(e, program) ? TN_OK : tn_opencl_fail(device, TN_E_MEMORY, "out of memory");
  for (uint32_t i = 0; i < weight_count && status == TN_OK; i++) status = bind_weight(e, i, &weights[i]);
  if (status == TN_OK) status = check_values(e, weights);
  if (status != TN_OK) {
    tn_opencl_release(e);
    return status;
  }
  if (progress) progress(progress_context, 1, 1);
  *executable = e;
  return TN_OK;
}

void tn_opencl_release(tn_executable *e) {
  if (!e) return;
  for (uint32_t i = 0; e->parts && e->program && i < e->program->weight_count; i++)
    tn_opencl_free(e->device, e->parts[i]);
  free(e->program);
  free(e->weights);
  free(e->parts);
  free(e->page_bytes);
  free(e->inputs);
  free(e->outputs);
  free(e->states);
  free(e);
}
