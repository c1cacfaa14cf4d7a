/* Weights that are no numbers: found where weights are packed, which reads them anyway, so that a damaged file is named
 * and doesn't become text. */
#ifndef TENON_MODEL_SOUND_H
#define TENON_MODEL_SOUND_H

#include "graph/graph.h"
#include "model/scales.h"

/* Refuses a weight one of whose floats (f32, f16, bf16) is no number, or of a matrix infinite, or one of whose blocks
 * has a scale that is neither: names the file, its tensor and the value's or the block's number. Blocks of MXFP4 whose
 * scales are a tensor of their own (`scales`) are looked at there; other 8-bit formats are tn_convert's to check. */
tn_status tn_sound_check(const tn_graph_value *weight, const tn_container *file, const tn_scales *scales,
                         tn_error *error);

/* The tensor of the file whose data `data` lies in, or NULL. */
const tn_file_tensor *tn_sound_tensor_at(const tn_container *file, const void *data);

#endif
