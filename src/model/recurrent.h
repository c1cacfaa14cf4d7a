/* The gated delta net: the recurrent layer of Qwen3-Next and Qwen 3.5. */
#ifndef TENON_MODEL_RECURRENT_H
#define TENON_MODEL_RECURRENT_H

#include "model/build.h"

typedef struct tn_recurrent_hyper {
  uint32_t taps; /* of the short convolution */
  uint32_t key_heads, value_heads, key_dim, value_dim;
  bool tiled; /* value head h uses key head h % key_heads (some GGUF); else h / (value_heads / key_heads) */
} tn_recurrent_hyper;

/* The linear_* keys that config.json may leave out, as transformers has them: entries of tn_family.defaults. */
/* clang-format off */
#define TN_RECURRENT_DEFAULTS              \
  {"linear_conv_kernel_dim", 4, NULL},     \
  {"linear_key_head_dim", 128, NULL},      \
  {"linear_value_head_dim", 128, NULL},    \
  {"linear_num_key_heads", 16, NULL},      \
  {"linear_num_value_heads", 32, NULL}
/* clang-format on */

/* Reads ssm.* or linear_* keys. */
void tn_hyper_read_recurrent(tn_hyper_reader *reader, tn_recurrent_hyper *recurrent);

/* Layer `layer` from its projections: qkv [T, 2 key heads * key_dim + value heads * value_dim] (q, k, v), z [T, value
 * heads * value_dim], a and b [T, value heads]. A short convolution over qkv, the delta rule, an RMS norm of each head,
 * the gate SiLU(z), the output projection; tensors ssm_conv1d, ssm_a, ssm_dt, ssm_norm, ssm_out. */
tn_ref tn_block_recurrent(tn_build *build, uint32_t layer, const tn_recurrent_hyper *recurrent, tn_ref qkv, tn_ref z,
                          tn_ref a, tn_ref b);
/* Full attention whose output goes through a sigmoid gate: attn_q has for each head q, then its gate. */
tn_ref tn_block_gated_attention(tn_build *build, tn_ref x, uint32_t layer);

#endif
