/* The table of one instruction set's kernels. */
#include "kernels/internal.h"

#ifndef TN_ISA_NAME /* given where the set's name is no identifier */
#define TN_TEXT(x) #x
#define TN_TEXT_EXPANDED(x) TN_TEXT(x)
#define TN_ISA_NAME TN_TEXT_EXPANDED(TN_ISA)
#endif

/* Ops without a fast kernel run the reference one (kernels/reference/). */
tn_status tn_reference_kv_columns(const tn_kernel_call *call);
tn_status tn_reference_attention_masked(const tn_kernel_call *call);

static uint64_t workspace(const tn_op_query *query, uint32_t context, uint32_t workers) {
  switch (query->opcode) {
    case TN_OP_LINEAR: return tn_linear_workspace(query);
    case TN_OP_MOE_LINEAR:
    case TN_OP_HEAD_LINEAR: return tn_groups_workspace(query);
    case TN_OP_MOE_ROUTE: return tn_moe_route_workspace(query);
    case TN_OP_SHORT_CONV: return tn_short_conv_workspace(query);
    case TN_OP_DELTA_RULE: return tn_delta_rule_workspace(query);
    case TN_OP_NORM: return tn_norm_workspace(query);
    case TN_OP_KV_WRITE: return tn_kv_write_workspace(query);
    case TN_OP_ATTENTION: return tn_attention_workspace(query, context, workers);
    default: return 0;
  }
}

const tn_kernel_set *TN_FOR_ISA(tn_kernel_set)(void) {
  static const tn_kernel_table table = {.kernel = {
                                            [TN_OP_EMBED] = tn_embed,
                                            [TN_OP_SELECT_ROWS] = tn_select_rows,
                                            [TN_OP_LINEAR] = tn_linear,
                                            [TN_OP_NORM] = tn_norm,
                                            [TN_OP_ADD] = tn_add,
                                            [TN_OP_MUL] = tn_mul,
                                            [TN_OP_ACTIVATION] = tn_activate,
                                            [TN_OP_SCALE] = tn_scale,
                                            [TN_OP_SOFTCAP] = tn_softcap,
                                            [TN_OP_QUANTISE] = tn_quantise,
                                            [TN_OP_SLICE] = tn_slice,
                                            [TN_OP_CONCAT] = tn_concat,
                                            [TN_OP_ROPE_TABLE] = tn_rope_table,
                                            [TN_OP_ROPE] = tn_rope,
                                            [TN_OP_KV_WRITE] = tn_kv_write,
                                            [TN_OP_ATTENTION] = tn_attention,
                                            [TN_OP_MOE_ROUTE] = tn_moe_route,
                                            [TN_OP_MOE_LINEAR] = tn_moe_linear,
                                            [TN_OP_MOE_COMBINE] = tn_moe_combine,
                                            [TN_OP_SHORT_CONV] = tn_short_conv,
                                            [TN_OP_DELTA_RULE] = tn_delta_rule,
                                            [TN_OP_HEAD_LINEAR] = tn_head_linear,
                                            [TN_OP_KV_COLUMNS] = tn_reference_kv_columns,
                                            [TN_OP_ATTENTION_MASKED] = tn_reference_attention_masked,
                                        }};
  static const tn_kernel_set set = {.name = TN_ISA_NAME,
                                    .table = &table,
                                    .workspace = workspace,
                                    .spin_int8 = tn_spin_int8,
                                    .spin_f32 = tn_spin_f32,
                                    .spin_bf16 = tn_spin_bf16,
                                    .spin_read = tn_spin_read};
  return &set;
}
