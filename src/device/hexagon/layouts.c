/* How weights and states lie, and which ops the DSP has. Its kernels are the fast ones, so weights are packed into
 * their layouts, here and straight into the window. */
#include "device/hexagon/internal.h"
#include "kernels/pack/pack.h"

tn_status tn_hexagon_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout) {
  const char *why;
  tn_status status = tn_packed_layout(desc, layout, &why);
  if (status != TN_OK)
    return tn_hexagon_fail(device, status, "weight of dtype %u, rank %u, uses %#x: %s", desc->dtype, desc->rank,
                           desc->uses, why);
  layout->alignment = TN_HEXAGON_VECTOR;
  return TN_OK;
}

static void run_in_order(void *context, void (*body)(void *argument, uint32_t index, uint32_t worker), void *argument,
                         uint32_t count) {
  (void)context;
  for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
}

tn_status tn_hexagon_pack(tn_device *device, const tn_weight_desc *desc, const tn_weight_layout *layout,
                          const tn_weight_source *sources, uint32_t source_count, void *to) {
  static const tn_parallel one_thread = {.workers = 1, .run = run_in_order};
  const char *why;
  tn_status status = tn_packed_pack(desc, layout, sources, source_count, to, &one_thread, &why);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(device, status, "%s", why);
}

tn_status tn_hexagon_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  const char *why;
  tn_status status = tn_packed_state_layout(desc, layout, &why);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(device, status, "%s", why);
}

tn_status tn_hexagon_supports(tn_device *device, const tn_op_query *query) {
  char message[160];
  if (query->opcode >= TN_OP_LIMIT || !(device->control->ops >> query->opcode & 1))
    return tn_hexagon_fail(device, TN_E_UNSUPPORTED, "no kernel for op %u", query->opcode);
  tn_status status = tn_packed_supports(query, message, sizeof message);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(device, status, "op %u: %s", query->opcode, message);
}
