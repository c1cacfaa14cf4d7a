/* What holds for every reference model (golden.h) beyond its logits on each device, which are the business of
 * ../devices.cmake: how a prompt is cut into steps changes no bit, nor does where memory lies; every subset of passes
 * gives the recorded logits, and so does a device of fixed shapes with a part of each layer on the cpu. */
#include "golden/golden.h"

/* The prompt in steps of one row, and of seven, gives the bytes of the prompt at once; so do two threads. */
static void compare_chunks(golden_case of, const tn_runner_options *options) {
  static const uint32_t chunks[] = {1, 7};
  golden want = golden_read(of);
  float *whole = golden_new_logits(&want), *cut = golden_new_logits(&want);
  golden_run(of, options, &want, GOLDEN_MAX_TOKENS, whole);
  tn_runner_options threads = *options;
  threads.device = "cpu,threads=2";
  if (!strcmp(options->device, "cpu,threads=1")) golden_run(of, &threads, &want, GOLDEN_MAX_TOKENS, cut);
  if (!strcmp(options->device, "cpu,threads=1") &&
      memcmp(whole, cut, (size_t)want.count * want.vocabulary * sizeof *cut) != 0)
    fail_msg("%s: two threads give other logits than one", of.name);
  for (size_t i = 0; i < TN_COUNT(chunks); i++) {
    golden_run(of, options, &want, chunks[i], cut);
    if (memcmp(whole, cut, (size_t)want.count * want.vocabulary * sizeof *cut) != 0)
      fail_msg("%s: steps of %u rows give other logits than the whole prompt", of.name, chunks[i]);
  }
  free(whole);
  free(cut);
  free(want.logits);
}

static void steps_change_nothing(void **state) {
  (void)state;
  golden_each(&(tn_runner_options){.device = "cpu,threads=1", .kv = "f16", .activations = "auto"}, compare_chunks);
}

static void steps_change_nothing_on_reference(void **state) {
  (void)state;
  golden_each(&(tn_runner_options){.device = "reference"}, compare_chunks);
}

static void reference_in_private_memory(void **state) {
  (void)state;
  golden_compare_all(&(tn_runner_options){.device = "reference,private-memory=1"});
}

/* Without fused and merged ops, and with each kind alone. */
static void every_subset_of_passes(void **state) {
  (void)state;
  static const char *const subsets[] = {"none",       "merge",         "fuse",        "inplace",
                                        "merge,fuse", "merge,inplace", "fuse,inplace"};
  for (size_t i = 0; i < TN_COUNT(subsets); i++)
    golden_compare_all(&(tn_runner_options){.device = "reference", .passes = subsets[i]});
}

#define TOY TEST_MODULES "/module-device-toy.so"

/* A part of each layer of a device of fixed shapes runs on the cpu. */
static void fixed_shapes_mixed_with_cpu(void **state) {
  (void)state;
  static const char *const devices[] = {TOY ",lacks=norm", TOY ",lacks=linear", TOY ",lacks=attention_masked",
                                        TOY ",lacks=attention_masked@1", TOY ",lacks=kv_columns@32"};
  static const golden_case cases[] = {{"llama", false}, {"gpt2", false}, {"gpt2", true}};
  for (size_t d = 0; d < TN_COUNT(devices); d++)
    for (size_t i = 0; i < TN_COUNT(cases); i++) golden_compare(cases[i], &(tn_runner_options){.device = devices[d]});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_change_nothing),        cmocka_unit_test(steps_change_nothing_on_reference),
      cmocka_unit_test(reference_in_private_memory), cmocka_unit_test(every_subset_of_passes),
      cmocka_unit_test(fixed_shapes_mixed_with_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
