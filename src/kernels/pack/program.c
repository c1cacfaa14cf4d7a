/* What programs need so that the fast kernels can run them (see pack.h). */
#include "kernels/pack/pack.h"
#include "kernels/page.h"

tn_status tn_packed_state_layout(const tn_state_desc *desc, tn_state_layout *layout, const char **why) {
  tn_page page;
  *why = "there are no pages of this dtype and shape";
  if (desc->slots != TN_PAGE_SLOTS) return tn_plain_state_layout(desc, layout); /* recurrent, or contiguous KV */
  if (!tn_page_of(&page, desc->dtype, desc->kv_heads, desc->key_dim, desc->value_dim)) return TN_E_UNSUPPORTED;
  *layout = (tn_state_layout){.size = sizeof *layout, .id = TN_PAGE_LAYOUT, .page_bytes = page.bytes};
  return TN_OK;
}

static tn_status refuse(const char *text, char *message, uint64_t capacity) {
  for (uint64_t i = 0; i < capacity; i++) {
    message[i] = i + 1 < capacity ? *text : 0;
    if (!*text) break;
    text++;
  }
  return TN_E_UNSUPPORTED;
}

static bool takes_input(const tn_op_query *query, uint32_t number) {
  const tn_value_desc *in = &query->inputs[number];
  tn_page page;
  bool matrices = (query->opcode == TN_OP_MOE_LINEAR || query->opcode == TN_OP_HEAD_LINEAR) && number == 1;
  if (in->present && in->kind == TN_VALUE_WEIGHT)
    return tn_packed_kind(in->dtype) != TN_LAYOUT_NONE && (in->rank <= 2 || matrices);
  if (in->present && in->kind == TN_VALUE_STATE && in->rank == 4)
    return tn_page_of(&page, in->dtype, (uint32_t)in->dims[0], (uint32_t)in->dims[1], (uint32_t)in->dims[2]) &&
           (in->dims[3] == (int32_t)TN_PAGE_SLOTS) != (query->opcode == TN_OP_ATTENTION_MASKED);
  return true;
}

tn_status tn_packed_supports(const tn_op_query *query, char *message, uint64_t capacity) {
  const tn_op_info *info = tn_op_info_of(query->opcode);
  if (!info || query->revision != info->revision || query->attribute_bytes != info->attribute_bytes)
    return refuse("no op of this number and revision", message, capacity);
  if (tn_shape_check(query, message, capacity) != TN_OK) return TN_E_UNSUPPORTED;
  for (uint32_t i = 0; i < query->input_count; i++)
    if (!takes_input(query, i)) return refuse("no kernel takes an input of this dtype and shape", message, capacity);
  return TN_OK;
}

bool tn_packed_layouts_agree(const tn_program *program, const tn_op *op, const uint32_t *layouts) {
  const tn_value *values = tn_program_values(program);
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tn_value *value = op->inputs[i] == TN_NO_VALUE ? 0 : &values[op->inputs[i]];
    if (!value || value->kind != TN_VALUE_WEIGHT) continue;
    uint32_t layout = layouts[value->index];
    const void *attributes = tn_program_attributes(program, op);
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

bool tn_packed_weights_agree(const tn_program *program, const tn_weight_binding *weights, uint32_t *wrong) {
  for (uint32_t i = 0; i < program->value_count; i++) {
    const tn_value *v = tn_program_values(program) + i;
    if (v->kind != TN_VALUE_WEIGHT) continue;
    const tn_weight_desc *desc = &weights[v->index].desc;
    bool same = v->rank == desc->rank && v->dtype == desc->dtype;
    for (uint32_t d = 0; same && d < v->rank; d++) same = (uint64_t)v->dims[d] == desc->dims[d];
    *wrong = v->index;
    if (!same) return false;
  }
  return true;
}

tn_status tn_packed_page_bytes(const tn_program *program, uint64_t *page_bytes, const char **why) {
  for (uint32_t i = 0; i < program->value_count; i++) {
    const tn_value *v = tn_program_values(program) + i;
    if (v->kind != TN_VALUE_STATE) continue;
    const uint32_t *dims = (const uint32_t *)v->dims;
    const tn_state_desc desc = {sizeof desc, v->dtype, dims[0], dims[1], dims[2], v->rank == 4 ? dims[3] : 0};
    tn_state_layout layout = {.size = sizeof layout};
    tn_status status = tn_packed_state_layout(&desc, &layout, why);
    if (status != TN_OK) return status;
    page_bytes[v->index] = layout.page_bytes;
  }
  return TN_OK;
}
