/* Weights that get another format than the file has: quantised at load, and 8-bit floats with scales, which no device
 * knows. The formats are chosen when the graph is built; the values are converted weight by weight, as they are packed.
 */
#ifndef TENON_MODEL_CONVERT_H
#define TENON_MODEL_CONVERT_H

#include "graph/graph.h"
#include "model/scales.h"

/* Does a matrix or vector of this name stay as it is when a model is quantised? So do norms, biases and what decides
 * which experts run. `cols` is the length of its rows. */
bool tn_convert_stays(const char *name, uint32_t rank, uint64_t cols);

/* Sets the formats of the graph's matrices. `weights`: NULL, or what float ones become: "q8_0", "q4_0", "mxfp4" or
 * "mxfp6"; anything else, rows that aren't whole blocks, and a model without a float matrix are errors. Those in a
 * block format stay. F8 with scales becomes f16, or f32 where that is too small or `exact` asks for it. */
tn_status tn_convert_plan(tn_graph *graph, const tn_container *file, const tn_scales *scales, const char *weights,
                          bool exact, tn_error *error);

/* Is the weight to become another format than its sources have? */
bool tn_convert_needed(const tn_graph_value *weight);
/* All rows of such a weight in its own format: *source views them in *memory, which the caller frees. Errors name the
 * tensor: a value that is none, or too large for the format. */
tn_status tn_convert(const tn_graph_value *weight, const tn_container *file, const tn_scales *scales, uint8_t **memory,
                     tn_weight_source *source, tn_error *error);

#endif
