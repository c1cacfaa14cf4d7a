/* tn_engine_create: from a model and options to a runner of the right size, a drafter, and an engine over them. */
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "device/registry.h"
#include "engine/drafter.h"
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
  if (options->context == 1)
    return tn_fail(error, TN_E_LIMIT, "context is 1; a token of a prompt and one of its answer need 2");
  if (options->draft_k > TN_MAX_DRAFT)
    return tn_fail(error, TN_E_LIMIT, "draft_k is %u; at most %u tokens are drafted at once", options->draft_k,
                   (unsigned)TN_MAX_DRAFT);
  if (!(options->draft_accept >= 0 && options->draft_accept <= 1))
    return tn_fail(error, TN_E_INVALID, "draft_accept is %g; it must be from 0 to 1", (double)options->draft_accept);
  if (!options->draft && (options->draft_k || options->draft_device || options->draft_accept > 0))
    return tn_fail(error, TN_E_INVALID, "draft_k, draft_device and draft_accept need a drafter: give draft");
  return TN_OK;
}

static void size_runner(const tn_engine_options *options, uint32_t model_context, tn_runner_options *runner) {
  *runner = (tn_runner_options){.device = options->device,
                                .threads = options->threads,
                                .kv = options->kv,
                                .activations = options->activations,
                                .passes = options->passes,
                                .packed = options->packed,
                                .weights = options->weights,
                                .overlap = options->overlap ? options->overlap : "auto",
                                .place = options->place,
                                .fit_pages = !options->kv_bytes,
                                .max_rows = options->chunk ? options->chunk : DEFAULT_CHUNK,
                                .max_sequences = options->max_sequences ? options->max_sequences : DEFAULT_SEQUENCES,
                                .max_context = options->context ? options->context : model_context};
  uint64_t pages = (uint64_t)tn_pages_of(runner->max_context) * runner->max_sequences;
  if (options->kv_bytes) pages *= CACHE_FACTOR;
  runner->pages = pages < UINT32_MAX / 4 ? (uint32_t)pages : UINT32_MAX / 4;
  runner->windows = options->no_prefix_cache ? runner->max_sequences : TN_WINDOWS_PER_SEQUENCE * runner->max_sequences;
  runner->kv_bytes = options->kv_bytes ? options->kv_bytes : tn_machine_memory_free() / 4;
  if (options->no_prefix_cache) return;
  runner->snapshots = SNAPSHOTS_PER_SEQUENCE * runner->max_sequences;
  runner->snapshot_bytes = options->snapshot_bytes ? options->snapshot_bytes : tn_machine_memory_free() / 16;
  if (options->snapshot_bytes) runner->snapshots *= CACHE_FACTOR;
}

/* ---- drafters ---- */

/* A drafter writes the target's tokens: the same texts under the same ids. Models without tokenizer are taken at their
 * word if they have as many. */
static tn_status check_vocabularies(const tn_model *draft, const tn_vocabulary *vocabulary, const char *path,
                                    tn_error *error) {
  const tn_tokenizer *theirs = tn_model_tokenizer(draft), *ours = vocabulary->tokenizer;
  tn_model_info about = TN_MODEL_INFO;
  tn_model_describe(draft, &about);
  if (!theirs != !ours)
    return tn_fail(error, TN_E_INVALID, "%s can't draft: %s has no tokenizer", path, ours ? "it" : "the model");
  if (ours && tn_tokenizer_fingerprint(ours) != tn_tokenizer_fingerprint(theirs))
    return tn_fail(
        error, TN_E_INVALID,
        "%s can't draft: its vocabulary of %zu tokens is not the model's of %zu (fingerprint %016llx, expected "
        "%016llx)",
        path, tn_tokenizer_size(theirs), tn_tokenizer_size(ours), (unsigned long long)tn_tokenizer_fingerprint(theirs),
        (unsigned long long)tn_tokenizer_fingerprint(ours));
  if (!ours && about.vocabulary != vocabulary->size)
    return tn_fail(error, TN_E_INVALID, "%s can't draft: it has %u tokens, the model has %u", path, about.vocabulary,
                   vocabulary->size);
  return TN_OK;
}

static bool drafts_elsewhere(const tn_engine_options *options) {
  const char *device = options->device ? options->device : tn_default_driver();
  return options->draft_device && (options->place || strcmp(options->draft_device, device) != 0);
}

/* As the target's runner, but for the model's own context, and KV for no more than all sequences can hold. `threads`
 * are the target's device's; another one has its own. */
static tn_status create_draft_runner(const tn_engine_options *options, const tn_model *draft,
                                     const tn_runner_info *target, tn_runner **runner, tn_error *error) {
  tn_engine_options own = *options;
  tn_model_info about = TN_MODEL_INFO;
  tn_model_describe(draft, &about);
  own.context = target->max_context < about.context ? target->max_context : about.context;
  own.device = options->draft_device ? options->draft_device : options->device;
  own.overlap = "off"; /* a drafter waits for each of its steps */
  own.place = NULL;
  if (drafts_elsewhere(options)) own.threads = 0;
  own.max_sequences = target->max_sequences;
  own.kv_bytes = 0;
  tn_runner_options sizes;
  size_runner(&own, about.context, &sizes);
  if (sizes.max_rows < 2 * sizes.max_sequences) sizes.max_rows = 2 * sizes.max_sequences;
  return tn_runner_create(draft, &sizes, runner, error);
}

static tn_status create_model_drafter(const tn_engine_options *options, const tn_runner_info *target,
                                      const tn_vocabulary *vocabulary, tn_engine_drafting *drafting, tn_error *error) {
  tn_runner *runner = NULL;
  tn_status status = tn_model_open(options->draft, &drafting->model, error);
  if (status == TN_OK) status = check_vocabularies(drafting->model, vocabulary, options->draft, error);
  if (status == TN_OK) status = create_draft_runner(options, drafting->model, target, &runner, error);
  if (status != TN_OK) {
    tn_model_close(drafting->model);
    *drafting = (tn_engine_drafting){0};
    return status;
  }
  const tn_drafter_model_options how = {
      .max_sequences = target->max_sequences, .vocabulary = vocabulary->size, .looks_ahead = drafts_elsewhere(options)};
  status = tn_drafter_model_create(runner, &how, &drafting->drafter, error);
  if (status != TN_OK) {
    tn_model_close(drafting->model);
    *drafting = (tn_engine_drafting){0};
  }
  return status;
}

static tn_status create_drafter(const tn_engine_options *options, const tn_runner_info *target,
                                const tn_vocabulary *vocabulary, tn_engine_drafting *drafting, tn_error *error) {
  *drafting = (tn_engine_drafting){0};
  if (!options->draft) return TN_OK;
  if (strcmp(options->draft, "ngram") != 0) return create_model_drafter(options, target, vocabulary, drafting, error);
  if (options->draft_device)
    return tn_fail(error, TN_E_INVALID, "draft_device is for a model that drafts; \"ngram\" runs on none");
  drafting->drafter = tn_drafter_ngram_create(options->draft_accept > 0);
  return drafting->drafter ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory for a drafter");
}

/* ---- the engine ---- */

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
  tn_engine_drafting drafting;
  status = create_drafter(&options, tn_runner_describe(runner), &vocabulary, &drafting, error);
  if (status != TN_OK) {
    tn_runner_destroy(runner);
    return status;
  }
  status = tn_engine_start(runner, drafting, model, &vocabulary, &options, engine, error);
  if (status == TN_OK) status = check_context(&options, *engine, error);
  if (status != TN_OK) {
    tn_engine_destroy(*engine);
    *engine = NULL;
  }
  return status;
}
