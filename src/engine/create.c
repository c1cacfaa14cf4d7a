/* tn_engine_create: from a model and options to a runner of the right size, and an engine over it. */
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "engine/engine.h"
#include "engine/pages.h"
#include "model/model.h"

#define DEFAULT_SEQUENCES 8u
#define DEFAULT_CHUNK 512u
#define MOST_SEQUENCES 4096u
#define MOST_CHUNK 65536u
/* With a stated amount of KV memory, pages beyond what all sequences can hold serve the prefix cache; up to so many
 * times as many. */
#define CACHE_FACTOR 16u
/* Snapshots of recurrent states: that of the prompt, that of the turn, and some of those before. */
#define SNAPSHOTS_PER_SEQUENCE 4u

static tn_status check_options(const tn_engine_options *options, tn_error *error) {
  if (options->max_sequences > MOST_SEQUENCES)
    return tn_fail(error, TN_E_LIMIT, "max_sequences is %u; at most %u can run together", options->max_sequences,
                   MOST_SEQUENCES);
  if (options->chunk > MOST_CHUNK)
    return tn_fail(error, TN_E_LIMIT, "chunk is %u; at most %u rows make a step", options->chunk, MOST_CHUNK);
  return TN_OK;
}

static void size_runner(const tn_engine_options *options, uint32_t model_context, tn_runner_options *runner) {
  *runner = (tn_runner_options){.device = options->device,
                                .threads = options->threads,
                                .kv = options->kv,
                                .activations = options->activations,
                                .passes = options->passes,
                                .packed = options->packed,
                                .max_rows = options->chunk ? options->chunk : DEFAULT_CHUNK,
                                .max_sequences = options->max_sequences ? options->max_sequences : DEFAULT_SEQUENCES,
                                .max_context = options->context ? options->context : model_context};
  uint64_t pages = (uint64_t)tn_pages_of(runner->max_context) * runner->max_sequences;
  if (options->kv_bytes) pages *= CACHE_FACTOR;
  runner->pages = pages < UINT32_MAX / 4 ? (uint32_t)pages : UINT32_MAX / 4;
  runner->kv_bytes = options->kv_bytes ? options->kv_bytes : tn_machine_memory_free() / 4;
  if (options->no_prefix_cache) return;
  runner->snapshots = SNAPSHOTS_PER_SEQUENCE * runner->max_sequences;
  runner->snapshot_bytes = options->snapshot_bytes ? options->snapshot_bytes : tn_machine_memory_free() / 16;
  if (options->snapshot_bytes) runner->snapshots *= CACHE_FACTOR;
}

/* A context that was asked for must fit; one that wasn't is what fits. */
static tn_status check_context(const tn_engine_options *options, tn_engine *engine, tn_error *error) {
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(engine, &info);
  if (info.context >= options->context) return TN_OK;
  return tn_fail(error, TN_E_LIMIT, "a context of %u tokens was asked for, but the KV memory of %llu bytes holds %u",
                 options->context, (unsigned long long)info.kv_bytes, info.context);
}

tn_status tn_engine_create(const tn_model *model, const tn_engine_options *given, tn_engine **engine, tn_error *error) {
  *engine = NULL;
  tn_engine_options options = TN_ENGINE_OPTIONS;
  if (given) memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
  tn_status status = check_options(&options, error);
  if (status != TN_OK) return status;
  tn_model_info about = TN_MODEL_INFO;
  tn_model_describe(model, &about);
  tn_runner_options sizes;
  size_runner(&options, about.context, &sizes);
  tn_runner *runner;
  status = tn_runner_create(model, &sizes, &runner, error);
  if (status != TN_OK) return status;
  tn_vocabulary vocabulary;
  tn_vocabulary_init(&vocabulary, tn_runner_describe(runner)->vocabulary, tn_model_tokenizer(model));
  status = tn_engine_start(runner, model, &vocabulary, &options, engine, error);
  if (status == TN_OK) status = check_context(&options, *engine, error);
  if (status != TN_OK) {
    tn_engine_destroy(*engine);
    *engine = NULL;
  }
  return status;
}
