/* The feed-forward part of a layer where experts share the work. */
#ifndef TENON_MODEL_EXPERTS_H
#define TENON_MODEL_EXPERTS_H

#include "model/build.h"

/* The weights of a layer's experts and what they are multiplied with. */
typedef struct tn_expert_block {
  tn_ref gate_up, gate_up_bias; /* [E, 2F, K], gate rows first, and [E * 2F] or none */
  tn_ref down, down_bias;       /* [E, width, F] and [E * width] or none */
  tn_ref expert_scale;          /* [E], or none */
  float limit, alpha;           /* as of tn_moe_linear_attributes; 0: the hyper-parameters' activation */
} tn_expert_block;

/* Binds blk.LAYER.ffn_{gate,up,down}_exps (or ffn_gate_up_exps) in whatever form the file has them: an expert a tensor
 * or all in one, gate and up apart, one behind the other or in turn, biases where there are any. */
tn_expert_block tn_block_experts_of(tn_build *build, uint32_t layer);
/* The sum of what the experts chosen by `scores` [T, E] make of x, times their weights. */
tn_ref tn_block_experts(tn_build *build, tn_ref x, tn_ref scores, const tn_expert_block *experts, tn_ref bias);

/* The layer's feed-forward part: experts where it has a router (ffn_gate_inp), with the shared one where there is one
 * (weighted by the sigmoid of ffn_gate_inp_shexp where there is such a gate), else the gated ffn. */
tn_ref tn_block_ffn(tn_build *build, tn_ref x, uint32_t layer);

#endif
