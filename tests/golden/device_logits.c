/* The logits of reference models on one device, in float32 throughout, within 1e-3 of the range of the recorded ones
 * (golden.h). A program that ../devices.cmake makes tests of:
 *   device_logits --device SPEC | --place PLACEMENT [MODEL | all | -PREFIX]...
 * `all` stands for every model there is, -PREFIX leaves out those whose names begin so; without models: one of each
 * kind of architecture. */
#include "golden/golden.h"

static const char *const usual[] = {"llama", "gpt2", "qwen3", "gemma3", "gemma4", "gemma4-ple", "qwen3moe", "qwen35"};

typedef struct device_test {
  const char *model;
  const tn_runner_options *options;
} device_test;

static void gives_the_recorded_logits(void **state) {
  const device_test *test = *state;
  golden_forms(test->model, test->options, golden_compare);
}

static bool is_left_out(const char *name, char **words, int count) {
  for (int i = 0; i < count; i++)
    if (words[i][0] == '-' && !strncmp(name, words[i] + 1, strlen(words[i] + 1))) return true;
  return false;
}

/* The models that the words name, in `names`; how many. */
static size_t choose(char **words, int count, char (*names)[GOLDEN_MAX_NAME]) {
  size_t chosen = 0;
  for (int i = 0; i < count; i++) {
    if (!strcmp(words[i], "all"))
      chosen = golden_names(names);
    else if (words[i][0] != '-' && chosen < GOLDEN_MAX_MODELS)
      snprintf(names[chosen++], GOLDEN_MAX_NAME, "%s", words[i]);
  }
  if (!chosen)
    for (; chosen < TN_COUNT(usual); chosen++) snprintf(names[chosen], GOLDEN_MAX_NAME, "%s", usual[chosen]);
  size_t kept = 0;
  for (size_t i = 0; i < chosen; i++)
    if (!is_left_out(names[i], words, count)) memmove(names[kept++], names[i], GOLDEN_MAX_NAME);
  return kept;
}

int main(int argc, char **argv) {
  static char names[GOLDEN_MAX_MODELS][GOLDEN_MAX_NAME];
  static struct CMUnitTest tests[GOLDEN_MAX_MODELS];
  static device_test states[GOLDEN_MAX_MODELS];
  bool is_placed = argc > 2 && !strcmp(argv[1], "--place");
  if (!is_placed && (argc < 3 || strcmp(argv[1], "--device"))) {
    fprintf(stderr, "usage: %s --device SPEC | --place PLACEMENT [MODEL | all | -PREFIX]...\n", argv[0]);
    return 2;
  }
  const tn_runner_options options = {.device = is_placed ? NULL : argv[2], .place = is_placed ? argv[2] : NULL};
  size_t count = choose(argv + 3, argc - 3, names);
  for (size_t i = 0; i < count; i++) {
    states[i] = (device_test){names[i], &options};
    tests[i] =
        (struct CMUnitTest){.name = names[i], .test_func = gives_the_recorded_logits, .initial_state = states + i};
  }
  return count ? _cmocka_run_group_tests("device_logits", tests, count, NULL, NULL) : 2;
}
