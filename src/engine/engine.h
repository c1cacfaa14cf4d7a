/* The engine: a scheduler on a thread of its own, and the public functions around it. */
#ifndef TENON_ENGINE_ENGINE_H
#define TENON_ENGINE_ENGINE_H

#include "engine/answer.h"
#include "engine/runner.h"
#include "tenon/tenon.h"

/* Starts an engine over a runner that it owns from then on, also when this fails. `model` (may be NULL: requests bring
 * tokens) and what `vocabulary` points to must outlive it. Of `options`, those that the runner was not made with:
 * max_sequences, chunk (0: what the runner takes), queue, no_prefix_cache. */
tn_status tn_engine_start(tn_runner *runner, const tn_model *model, const tn_vocabulary *vocabulary,
                          const tn_engine_options *options, tn_engine **engine, tn_error *error);

#endif
