/* How weights and states lie, and which ops the DSP has: what its kernels read is packed here, straight into the
 * window. */
#include "device/hexagon/internal.h"

tn_status tn_hexagon_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout) {
  tn_status status = tn_plain_layout(desc, layout);
  if (status != TN_OK) return tn_hexagon_fail(device, status, "a weight of this type and shape has no layout");
  layout->alignment = TN_HEXAGON_VECTOR;
  return TN_OK;
}

tn_status tn_hexagon_pack(tn_device *device, const tn_weight_desc *desc, const tn_weight_layout *layout,
                          const tn_weight_source *sources, uint32_t source_count, void *to) {
  tn_weight_layout own = {.size = sizeof own};
  tn_status status = tn_hexagon_weight_layout(device, desc, &own);
  if (status != TN_OK) return status;
  if (own.id != layout->id || own.bytes != layout->bytes)
    return tn_hexagon_fail(device, TN_E_INVALID, "this is not the weight's layout");
  status = tn_plain_pack(desc, sources, source_count, to);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(device, status, "the sources do not make up the weight");
}

tn_status tn_hexagon_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_status status = tn_plain_state_layout(desc, layout);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(device, status, "states of this type and shape have no layout");
}

tn_status tn_hexagon_supports(tn_device *device, const tn_op_query *query) {
  if (query->opcode >= TN_OP_LIMIT || !(device->control->ops >> query->opcode & 1))
    return tn_hexagon_fail(device, TN_E_UNSUPPORTED, "no kernel for op %u", query->opcode);
  tn_status status = tn_reference_supports(query);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(device, status, "no kernel takes these operands");
}
