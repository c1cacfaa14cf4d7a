/* Every logit of every position of the tiny reference models, from GGUF and from folders, and of the odd shapes of
 * data/shapes, against Hugging Face transformers in float32 (data/golden/README.md): on each device, in float32
 * throughout, within 1e-3 of the range. And how a prompt is cut into steps changes no bit, for any family. */
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

#define MAX_TOKENS 64

typedef struct golden {
  int32_t tokens[MAX_TOKENS];
  uint32_t count, vocabulary;
  float *logits; /* [count, vocabulary] */
} golden;

/* One model in one of its forms. */
typedef struct golden_case {
  const char *name;
  bool is_folder;
} golden_case;

/* A file of a model of data/golden, or else of data/shapes. */
static char *path_of(const char *name, const char *file) {
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

static bool has_file(const char *name, const char *file) {
  char *path = path_of(name, file);
  bool there = tn_path_exists(path);
  free(path);
  return there;
}

static golden read_golden(golden_case of) {
  golden want = {0};
  tn_error error = {0};
  char *path = path_of(of.name, "ref.json");
  json_t *ref = json_load_file(path, 0, NULL);
  free(path);
  const json_t *ids = json_object_get(ref, "input_ids");
  want.count = (uint32_t)json_array_size(ids);
  want.vocabulary = (uint32_t)json_integer_value(json_object_get(ref, "V"));
  assert_in_range(want.count, 1, MAX_TOKENS);
  for (uint32_t i = 0; i < want.count; i++) want.tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
  json_decref(ref);
  size_t size;
  bool own_logits = !of.is_folder && has_file(of.name, "logits_gguf.f32");
  path = path_of(of.name, own_logits ? "logits_gguf.f32" : "logits.f32");
  assert_int_equal(tn_file_read(path, (size_t)1 << 24, (char **)&want.logits, &size, &error), TN_OK);
  free(path);
  assert_int_equal(size, (size_t)want.count * want.vocabulary * sizeof(float));
  return want;
}

/* Rows [begin, begin + count) of the prompt as one step of the only sequence. */
static void run_step(tn_runner *runner, const golden *want, uint32_t begin, uint32_t count, float *out) {
  tn_error error = {0};
  tn_row rows[MAX_TOKENS];
  uint32_t wanted[MAX_TOKENS];
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
static void run(golden_case of, const tn_runner_options *base, const golden *want, uint32_t chunk, float *out) {
  tn_model *model = NULL;
  tn_runner *runner = NULL;
  tn_error error = {0};
  char *path = path_of(of.name, of.is_folder ? "" : "model.gguf");
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
    run_step(runner, want, begin, want->count - begin < chunk ? want->count - begin : chunk, out);
  tn_runner_destroy(runner);
  tn_model_close(model);
}

/* Largest difference as a part of the range of the wanted logits. */
static double difference(const golden *want, const float *got) {
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

static const char *const models[] = {"gpt2",
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

/* Calls `test` for every model in every form that is there. */
static void for_each_case(const tn_runner_options *options,
                          void (*test)(golden_case of, const tn_runner_options *options)) {
  for (size_t i = 0; i < TN_COUNT(models); i++) {
    if (has_file(models[i], "model.gguf")) test((golden_case){models[i], false}, options);
    if (has_file(models[i], "config.json")) test((golden_case){models[i], true}, options);
  }
  char name[80], *shape;
  FILE *list = fopen(TEST_SHAPES "/list", "r");
  assert_non_null(list);
  for (shape = fgets(name, sizeof name, list); shape; shape = fgets(name, sizeof name, list)) {
    name[strcspn(name, "\n")] = 0;
    test((golden_case){name, true}, options);
    if (has_file(name, "model.gguf")) test((golden_case){name, false}, options);
  }
  fclose(list);
}

static float *new_logits(const golden *want) {
  return tn_calloc((size_t)want->count * want->vocabulary, sizeof(float));
}

static void compare(golden_case of, const tn_runner_options *options) {
  golden want = read_golden(of);
  float *got = new_logits(&want);
  run(of, options, &want, MAX_TOKENS, got);
  double worst = difference(&want, got);
  if (!options->passes)
    print_message("%-22s %-7s %-32s %.2e of the range\n", of.name, of.is_folder ? "folder" : "gguf", options->device,
                  worst);
  assert_true(worst <= 1e-3);
  free(got);
  free(want.logits);
}

static void compare_all(const tn_runner_options *options) {
  for_each_case(options, compare);
}

/* The prompt in steps of one row, and of seven, gives the bytes of the prompt at once; so do two threads. */
static void compare_chunks(golden_case of, const tn_runner_options *options) {
  static const uint32_t chunks[] = {1, 7};
  golden want = read_golden(of);
  float *whole = new_logits(&want), *cut = new_logits(&want);
  run(of, options, &want, MAX_TOKENS, whole);
  tn_runner_options threads = *options;
  threads.device = "cpu,threads=2";
  if (!strcmp(options->device, "cpu,threads=1")) run(of, &threads, &want, MAX_TOKENS, cut);
  if (!strcmp(options->device, "cpu,threads=1") &&
      memcmp(whole, cut, (size_t)want.count * want.vocabulary * sizeof *cut) != 0)
    fail_msg("%s: two threads give other logits than one", of.name);
  for (size_t i = 0; i < TN_COUNT(chunks); i++) {
    run(of, options, &want, chunks[i], cut);
    if (memcmp(whole, cut, (size_t)want.count * want.vocabulary * sizeof *cut) != 0)
      fail_msg("%s: steps of %u rows give other logits than the whole prompt", of.name, chunks[i]);
  }
  free(whole);
  free(cut);
  free(want.logits);
}

static void cpu(void **state) {
  (void)state;
  compare_all(&(tn_runner_options){.device = "cpu"});
}

static void steps_change_nothing(void **state) {
  (void)state;
  for_each_case(&(tn_runner_options){.device = "cpu,threads=1", .kv = "f16", .activations = "auto"}, compare_chunks);
}

static void steps_change_nothing_on_reference(void **state) {
  (void)state;
  for_each_case(&(tn_runner_options){.device = "reference"}, compare_chunks);
}

static void reference(void **state) {
  (void)state;
  compare_all(&(tn_runner_options){.device = "reference"});
}

static void reference_in_private_memory(void **state) {
  (void)state;
  compare_all(&(tn_runner_options){.device = "reference,private-memory=1"});
}

/* Without fused and merged ops, and with each kind alone. */
static void every_subset_of_passes(void **state) {
  (void)state;
  static const char *const subsets[] = {"none",       "merge",         "fuse",        "inplace",
                                        "merge,fuse", "merge,inplace", "fuse,inplace"};
  for (size_t i = 0; i < TN_COUNT(subsets); i++)
    compare_all(&(tn_runner_options){.device = "reference", .passes = subsets[i]});
}

#define TOY TEST_MODULES "/module-device-toy.so"

/* On a device of fixed shapes: everything but the families with recurrent layers, which it refuses. */
static void compare_fixed(golden_case of, const tn_runner_options *options) {
  if (strncmp(of.name, "qwen35", 6) && strncmp(of.name, "qwen3next", 9)) compare(of, options);
}

static void fixed_shapes(void **state) {
  (void)state;
  for_each_case(&(tn_runner_options){.device = TOY}, compare_fixed);
}

/* And with a part of each layer on the cpu. */
static void fixed_shapes_mixed_with_cpu(void **state) {
  (void)state;
  static const char *const devices[] = {TOY ",lacks=norm", TOY ",lacks=linear", TOY ",lacks=attention_masked"};
  static const golden_case cases[] = {{"llama", false}, {"gpt2", false}, {"gpt2", true}};
  for (size_t d = 0; d < TN_COUNT(devices); d++)
    for (size_t i = 0; i < TN_COUNT(cases); i++) compare(cases[i], &(tn_runner_options){.device = devices[d]});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference),
      cmocka_unit_test(cpu),
      cmocka_unit_test(steps_change_nothing),
      cmocka_unit_test(steps_change_nothing_on_reference),
      cmocka_unit_test(reference_in_private_memory),
      cmocka_unit_test(every_subset_of_passes),
      cmocka_unit_test(fixed_shapes),
      cmocka_unit_test(fixed_shapes_mixed_with_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
