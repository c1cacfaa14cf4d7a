/* Per-layer embeddings of gemma3n and gemma4: an input of its own for every layer, of the token and of its embedding.
 */
#ifndef TENON_MODEL_LAYER_INPUT_H
#define TENON_MODEL_LAYER_INPUT_H

#include "model/build.h"

/* The inputs of all layers, `width` values each, one behind the other [T, layers * width], of the scaled embedding x:
 * (norm(per_layer_model_proj x / sqrt(width of x)) + per_layer_token_embd[token] * sqrt(width)) / sqrt(2). */
tn_ref tn_build_layer_inputs(tn_build *build, tn_ref x, uint32_t width);
/* What layer `layer` adds for its part e of build->shared: post_norm(proj(activation(inp_gate x) * e)). */
tn_ref tn_block_layer_input(tn_build *build, tn_ref x, uint32_t width, uint32_t layer);

#endif
