/* How a model's makers advise to sample from it. */
#ifndef TENON_MODEL_SAMPLING_H
#define TENON_MODEL_SAMPLING_H

#include "model/container.h"

/* Below 0: no advice. */
typedef struct tn_sampling_advice {
  float temperature, top_p, min_p, repeat_penalty;
  int32_t top_k; /* 0: all tokens */
} tn_sampling_advice;

/* Reads generation_config.json of a folder (none is no failure), or general.sampling.* of a GGUF file. Like others who
 * serve models it doesn't ask for do_sample: a request decides that by its temperature. TN_E_FORMAT: a value of another
 * kind or out of range. */
tn_status tn_sampling_read(tn_sampling_advice *advice, const tn_container *file, tn_error *error);

#endif
