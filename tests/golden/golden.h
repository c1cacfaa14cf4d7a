/* The models of data/golden and data/shapes: running them, and comparing every logit of every position with what
 * Hugging Face transformers gives in float32 (data/golden/README.md). For cmocka programs. */
#ifndef TENON_TESTS_GOLDEN_H
#define TENON_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/memory.h"
#include "base/os.h"
#include "engine/runner.h"
#include "model/model.h"

#define GOLDEN_MAX_TOKENS 64

typedef struct golden {
  int32_t tokens[GOLDEN_MAX_TOKENS];
  uint32_t count, vocabulary;
  float *logits; /* [count, vocabulary] */
} golden;

/* One model in one of its forms. */
typedef struct golden_case {
  const char *name;
  bool is_folder;
} golden_case;

/* A file of a model of data/golden, or else of data/shapes. */
static inline char *golden_path(const char *name, const char *file) {
  tn_buf path;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/golden/%s", TEST_DATA, name);
  if (!tn_path_exists(path.data)) {
    tn_buf_clear(&path);
    tn_buf_printf(&path, "%s/%s", TEST_SHAPES, name);
  }
  if (*file) tn_buf_printf(&path, "/%s", file);
  return tn_buf_take(&path);
}

static inline bool golden_has(const char *name, const char *file) {
  char *path = golden_path(name, file);
  bool there = tn_path_exists(path);
  free(path);
  return there;
}

static inline golden golden_read(golden_case of) {
  golden want = {0};
  tn_error error = {0};
  char *path = golden_path(of.name, "ref.json");
  json_t *ref = json_load_file(path, 0, NULL);
  free(path);
  const json_t *ids = json_object_get(ref, "input_ids");
  want.count = (uint32_t)json_array_size(ids);
  want.vocabulary = (uint32_t)json_integer_value(json_object_get(ref, "V"));
  assert_in_range(want.count, 1, GOLDEN_MAX_TOKENS);
  for (uint32_t i = 0; i < want.count; i++) want.tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
  json_decref(ref);
  size_t size;
  bool own_logits = !of.is_folder && golden_has(of.name, "logits_gguf.f32");
  path = golden_path(of.name, own_logits ? "logits_gguf.f32" : "logits.f32");
  assert_int_equal(tn_file_read(path, (size_t)1 << 24, (char **)&want.logits, &size, &error), TN_OK);
  free(path);
  assert_int_equal(size, (size_t)want.count * want.vocabulary * sizeof(float));
  return want;
}

/* Rows [begin, begin + count) of the prompt as one step of the only sequence. */
static inline void golden_step(tn_runner *runner, const golden *want, uint32_t begin, uint32_t count, float *out) {
  tn_error error = {0};
  tn_row rows[GOLDEN_MAX_TOKENS];
  uint32_t wanted[GOLDEN_MAX_TOKENS];
  for (uint32_t i = 0; i < count; i++) {
    int32_t at = (int32_t)(begin + i);
    rows[i] = (tn_row){.token = want->tokens[at], .position = {at, at, at, at}, .wants_logits = 1};
    wanted[i] = i;
  }
  const tn_sequence sequence = {.row_count = count, .kv_length = begin, .state_read = 1, .state_write = 1};
  const uint32_t pages[] = {1, 0}; /* not in order: the table decides */
  const tn_batch batch = {.size = sizeof batch,
                          .row_count = count,
                          .sequence_count = 1,
                          .logits_count = count,
                          .context = begin + count,
                          .page_count = 2,
                          .rows = rows,
                          .sequences = &sequence,
                          .pages = pages,
                          .logits_rows = wanted};
  const float *logits;
  if (tn_runner_submit(runner, &batch, &error) != TN_OK) fail_msg("%s", error.message);
  if (tn_runner_wait(runner, UINT64_MAX, &logits, &error) != TN_OK) fail_msg("%s", error.message);
  memcpy(out + (size_t)begin * want->vocabulary, logits, (size_t)count * want->vocabulary * sizeof *out);
}

/* All logits, `chunk` rows a step. */
static inline void golden_run(golden_case of, const tn_runner_options *base, const golden *want, uint32_t chunk,
                              float *out) {
  tn_model *model = NULL;
  tn_runner *runner = NULL;
  tn_error error = {0};
  char *path = golden_path(of.name, of.is_folder ? "" : "model.gguf");
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  free(path);
  tn_runner_options options = *base;
  if (!options.kv) options.kv = "f32";
  if (!options.activations) options.activations = "float";
  options.max_rows = options.max_context = want->count;
  options.max_sequences = 1;
  options.pages = 2;
  if (tn_runner_create(model, &options, &runner, &error) != TN_OK) fail_msg("%s: %s", of.name, error.message);
  for (uint32_t begin = 0; begin < want->count; begin += chunk)
    golden_step(runner, want, begin, want->count - begin < chunk ? want->count - begin : chunk, out);
  tn_runner_destroy(runner);
  tn_model_close(model);
}

/* Largest difference as a part of the range of the wanted logits. */
static inline double golden_difference(const golden *want, const float *got) {
  float low = want->logits[0], high = low;
  double worst = 0;
  for (size_t i = 0; i < (size_t)want->count * want->vocabulary; i++) {
    float value = want->logits[i];
    low = value < low ? value : low;
    high = value > high ? value : high;
    double d = (double)got[i] - (double)value;
    if (!(d <= 0))
      worst = !(d <= worst) ? d : worst;
    else
      worst = -d > worst ? -d : worst;
  }
  return worst / (double)(high - low);
}

static const char *const golden_models[] = {"gpt2",
                                            "llama",
                                            "llama-rope3-tied",
                                            "llama-gqa3",
                                            "llama-linear-sharded",
                                            "llama-yarn-bias",
                                            "mistral-window",
                                            "mixtral",
                                            "granite",
                                            "smollm3",
                                            "qwen2",
                                            "qwen2-window",
                                            "qwen2moe",
                                            "qwen3",
                                            "qwen3moe",
                                            "qwen3moe-mixed",
                                            "qwen3next",
                                            "qwen35",
                                            "qwen35-nested",
                                            "qwen35moe",
                                            "gemma2",
                                            "gemma3",
                                            "gemma4",
                                            "gemma4-ple",
                                            "gemma4-moe",
                                            "gptoss-plain",
                                            "gptoss-mxfp4",
                                            "olmo2",
                                            "olmo3",
                                            "phi3-long",
                                            "phi3-partial",
                                            "deepseek3",
                                            "deepseek3-lite"};

#define GOLDEN_MAX_NAME 80
#define GOLDEN_MAX_MODELS 256u

/* The names of all models; how many. */
static inline size_t golden_names(char (*names)[GOLDEN_MAX_NAME]) {
  size_t count = 0;
  for (; count < TN_COUNT(golden_models); count++) snprintf(names[count], GOLDEN_MAX_NAME, "%s", golden_models[count]);
  FILE *list = fopen(TEST_SHAPES "/list", "r");
  assert_non_null(list);
  for (; count < GOLDEN_MAX_MODELS && fgets(names[count], GOLDEN_MAX_NAME, list); count++)
    names[count][strcspn(names[count], "\n")] = 0;
  fclose(list);
  return count;
}

typedef void golden_test(golden_case of, const tn_runner_options *options);

/* Calls `test` for a model in every form that is there. */
static inline void golden_forms(const char *name, const tn_runner_options *options, golden_test *test) {
  bool has_gguf = golden_has(name, "model.gguf"), has_folder = golden_has(name, "config.json");
  if (!has_gguf && !has_folder) fail_msg("%s: no such model", name);
  if (has_gguf) test((golden_case){name, false}, options);
  if (has_folder) test((golden_case){name, true}, options);
}

/* Calls `test` for every model in every form that is there. */
static inline void golden_each(const tn_runner_options *options, golden_test *test) {
  static char names[GOLDEN_MAX_MODELS][GOLDEN_MAX_NAME];
  size_t count = golden_names(names);
  for (size_t i = 0; i < count; i++) golden_forms(names[i], options, test);
}

static inline float *golden_new_logits(const golden *want) {
  return tn_calloc((size_t)want->count * want->vocabulary, sizeof(float));
}

static inline void golden_compare(golden_case of, const tn_runner_options *options) {
  golden want = golden_read(of);
  float *got = golden_new_logits(&want);
  golden_run(of, options, &want, GOLDEN_MAX_TOKENS, got);
  double worst = golden_difference(&want, got);
  if (!options->passes)
    print_message("%-22s %-7s %-32s %.2e of the range\n", of.name, of.is_folder ? "folder" : "gguf",
                  options->place ? options->place : options->device, worst);
  assert_true(worst <= 1e-3);
  free(got);
  free(want.logits);
}

static inline void golden_compare_all(const tn_runner_options *options) {
  golden_each(options, golden_compare);
}

#endif
