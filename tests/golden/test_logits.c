/* Every logit of every position of the tiny reference models, against Hugging Face transformers in float32
 * (data/golden/README.md): on each device, in float32 throughout, within 1e-3 of the range. */
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

static char *path_of(const char *name, const char *file) {
  tn_buf path;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/golden/%s/%s", TEST_DATA, name, file);
  return tn_buf_take(&path);
}

static golden read_golden(const char *name) {
  golden want = {0};
  tn_error error = {0};
  char *path = path_of(name, "ref.json");
  json_t *ref = json_load_file(path, 0, NULL);
  free(path);
  const json_t *ids = json_object_get(ref, "input_ids");
  want.count = (uint32_t)json_array_size(ids);
  want.vocabulary = (uint32_t)json_integer_value(json_object_get(ref, "V"));
  assert_in_range(want.count, 1, MAX_TOKENS);
  for (uint32_t i = 0; i < want.count; i++) want.tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
  json_decref(ref);
  size_t size;
  path = path_of(name, "logits.f32");
  assert_int_equal(tn_file_read(path, (size_t)1 << 24, (char **)&want.logits, &size, &error), TN_OK);
  free(path);
  assert_int_equal(size, (size_t)want.count * want.vocabulary * sizeof(float));
  return want;
}

/* All logits in one step. */
static void run(const char *name, const tn_runner_options *base, const golden *want, float *out) {
  tn_model *model = NULL;
  tn_runner *runner = NULL;
  tn_error error = {0};
  char *path = path_of(name, "model.gguf");
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  free(path);
  tn_runner_options options = *base;
  options.kv = "f32";
  options.activations = "float";
  options.max_rows = options.max_context = MAX_TOKENS;
  options.max_sequences = 1;
  options.pages = 2;
  if (tn_runner_create(model, &options, &runner, &error) != TN_OK) fail_msg("%s: %s", name, error.message);
  tn_row rows[MAX_TOKENS];
  uint32_t wanted[MAX_TOKENS];
  for (uint32_t i = 0; i < want->count; i++) {
    int32_t at = (int32_t)i;
    rows[i] = (tn_row){.token = want->tokens[i], .position = {at, at, at, at}, .wants_logits = 1};
    wanted[i] = i;
  }
  const tn_sequence sequence = {.row_count = want->count};
  const uint32_t pages[] = {1, 0}; /* not in order: the table decides */
  const tn_batch batch = {.size = sizeof batch,
                          .row_count = want->count,
                          .sequence_count = 1,
                          .logits_count = want->count,
                          .context = want->count,
                          .page_count = 2,
                          .rows = rows,
                          .sequences = &sequence,
                          .pages = pages,
                          .logits_rows = wanted};
  const float *logits;
  if (tn_runner_submit(runner, &batch, &error) != TN_OK) fail_msg("%s", error.message);
  if (tn_runner_wait(runner, UINT64_MAX, &logits, &error) != TN_OK) fail_msg("%s", error.message);
  memcpy(out, logits, (size_t)want->count * want->vocabulary * sizeof *out);
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

static const char *const models[] = {"gpt2", "llama", "llama-rope3-tied", "llama-gqa3", "llama-linear-sharded"};

static void compare_all(const tn_runner_options *options) {
  for (size_t i = 0; i < TN_COUNT(models); i++) {
    golden want = read_golden(models[i]);
    float *got = tn_calloc((size_t)want.count * want.vocabulary, sizeof *got);
    run(models[i], options, &want, got);
    double worst = difference(&want, got);
    print_message("%-22s %-40s %.2e of the range\n", models[i], options->device, worst);
    assert_true(worst <= 1e-3);
    free(got);
    free(want.logits);
  }
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference),
      cmocka_unit_test(reference_in_private_memory),
      cmocka_unit_test(every_subset_of_passes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
