/* The table of reference kernels, and which operands they take. */
#include "kernels/reference/reference.h"
#include "tensor/dtype.h"

static const tn_kernel_table reference_kernels = {.kernel = {
#define TN_OP(number, NAME, name, revision, min_in, max_in, max_out, attributes, tolerance, text) \
  [number] = tn_reference_##name,
#include "tenon/ops.def"
#undef TN_OP
                                                  }};

const tn_kernel_table *tn_reference_kernels(void) {
  return &reference_kernels;
}

/* ---- what is supported ---- */

static int is(const tn_value_desc *value, uint32_t dtype) {
  return value->present && value->dtype == dtype;
}

static int all_f32(const tn_value_desc *values, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < count; i++) {
    int is_vector = values[i].kind == TN_VALUE_WEIGHT; /* packed as f32 whatever it came in */
    if (values[i].present && !is_vector && values[i].dtype != TN_F32) return 0;
  }
  return 1;
}

/* A matrix, or one for each expert, that the decoders can read. */
static int is_matrix(const tn_value_desc *value) {
  return value->present && value->rank >= 2 && value->dtype != TN_Q8A &&
         tn_dtype_block_bytes((tn_dtype)value->dtype) > 0;
}

/* What a matrix is multiplied by. */
static int is_activations(const tn_value_desc *value) {
  return is(value, TN_F32) || is(value, TN_Q8A) || is(value, TN_BF16);
}

/* Contiguous KV and its columns. */
static int is_contiguous(const tn_value_desc *value) {
  return is(value, TN_F32) || is(value, TN_F16) || is(value, TN_BF16);
}
static int is_pages(const tn_value_desc *value) {
  return is_contiguous(value) || is(value, TN_I8);
}

static int attributes_are_known(const tn_op_query *query) {
  const void *a = query->attributes;
  switch (query->opcode) {
    case TN_OP_EMBED: return ((const tn_embed_attributes *)a)->source <= TN_EMBED_POSITION;
    case TN_OP_LINEAR:
      return ((const tn_linear_attributes *)a)->activation <= TN_ACTIVATION_TANH &&
             ((const tn_linear_attributes *)a)->gated <= 1;
    case TN_OP_NORM: return ((const tn_norm_attributes *)a)->kind <= TN_NORM_LAYER;
    case TN_OP_ACTIVATION: return ((const tn_activation_attributes *)a)->activation <= TN_ACTIVATION_TANH;
    case TN_OP_ROPE: return ((const tn_rope_attributes *)a)->pairing <= TN_ROPE_ADJACENT;
    case TN_OP_KV_COLUMNS:
    case TN_OP_KV_WRITE: return ((const tn_kv_write_attributes *)a)->pairing <= TN_ROPE_ADJACENT;
    case TN_OP_MOE_ROUTE: return ((const tn_moe_route_attributes *)a)->scoring <= TN_MOE_SOFTMAX_OF_CHOSEN;
    case TN_OP_SHORT_CONV: return ((const tn_short_conv_attributes *)a)->activation <= TN_ACTIVATION_TANH;
    case TN_OP_DELTA_RULE: return ((const tn_delta_rule_attributes *)a)->tiled <= 1;
    case TN_OP_MOE_LINEAR: return ((const tn_moe_linear_attributes *)a)->activation <= TN_ACTIVATION_TANH;
    default: return 1;
  }
}

static int operands_are_known(const tn_op_query *query) {
  const tn_value_desc *in = query->inputs, *out = query->outputs;
  switch (query->opcode) {
    case TN_OP_EMBED: return is_matrix(&in[0]) && is(&out[0], TN_F32);
    case TN_OP_LINEAR:
      return is_activations(&in[0]) && is_matrix(&in[1]) && all_f32(in, 2, query->input_count) &&
             all_f32(out, 0, query->output_count);
    case TN_OP_NORM: return all_f32(in, 0, query->input_count) && (is(&out[0], TN_F32) || is(&out[0], TN_Q8A));
    case TN_OP_QUANTISE: return is(&in[0], TN_F32) && (is(&out[0], TN_Q8A) || is(&out[0], TN_BF16));
    case TN_OP_KV_WRITE:
      return is(&in[0], TN_F32) && is(&in[1], TN_F32) && is_pages(&in[2]) && all_f32(in, 3, query->input_count);
    case TN_OP_ATTENTION: return is(&in[0], TN_F32) && is_pages(&in[1]) && is(&out[0], TN_F32);
    case TN_OP_KV_COLUMNS:
      return all_f32(in, 0, query->input_count) && is_contiguous(&out[0]) && is_contiguous(&out[1]);
    case TN_OP_ATTENTION_MASKED:
      return is(&in[0], TN_F32) && is_contiguous(&in[3]) && is(&in[4], TN_F32) && is(&out[0], TN_F32);
    case TN_OP_MOE_ROUTE: return all_f32(in, 0, query->input_count) && is(&out[0], TN_F32) && is(&out[1], TN_I32);
    case TN_OP_MOE_LINEAR:
      return is_activations(&in[0]) && is_matrix(&in[1]) && is(&in[2], TN_I32) && is(&out[0], TN_F32);
    case TN_OP_HEAD_LINEAR: return is_activations(&in[0]) && is_matrix(&in[1]) && is(&out[0], TN_F32);
    default: return all_f32(in, 0, query->input_count) && all_f32(out, 0, query->output_count);
  }
}

tn_status tn_reference_supports(const tn_op_query *query) {
  const tn_op_info *info = tn_op_info_of(query->opcode);
  if (!info || query->revision != info->revision) return TN_E_UNSUPPORTED;
  /* A longer attribute struct holds something we don't know. */
  if (query->attribute_bytes != info->attribute_bytes) return TN_E_UNSUPPORTED;
  if (query->input_count < info->min_inputs || query->input_count > info->max_inputs ||
      query->output_count > info->max_outputs) {
    return TN_E_UNSUPPORTED;
  }
  return attributes_are_known(query) && operands_are_known(query) ? TN_OK : TN_E_UNSUPPORTED;
}
