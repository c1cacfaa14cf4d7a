/* Rotary positions: from a model's hyper-parameters to the table that rope reads. */
#ifndef TENON_MODEL_ROPE_H
#define TENON_MODEL_ROPE_H

#include "model/build.h"

/* cos and sin of every row's position (ops.def: rope_table) for one kind of layers, `name` in the weight's name;
 * TN_NO_VALUE where nothing turns. `divisors` names a GGUF tensor that divides the frequencies where the file has it
 * (NULL: none). Scalings:
 *   linear        f / s
 *   llama3        Llama 3.1: low frequencies are divided by s, high ones kept, those between blended
 *   yarn          Peng et al., YaRN, 2023: a ramp between f and f / s over the rotary index, and a magnitude
 *   long          Ding et al., LongRoPE, 2024: divisors by table, one for contexts up to the original, one for longer
 *   proportional  frequencies of the whole head, the last ones 0 */
tn_ref tn_rope_build(tn_build *build, const tn_rope_hyper *rope, const char *name, const char *divisors);

/* What cos and sin are multiplied by, in a model made for `context` positions. */
float tn_rope_magnitude(const tn_rope_hyper *rope, uint32_t context);

#endif
