/* A DSP that is killed, stopped or hangs: noticed within a second, said, got over by opening again, and nothing is left
 * behind. Skipped where there is no DSP. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/os.h"
#include "support/engine.h"
#include "support/tiny_model.h"

#define SECOND 1000000000ull
#define SPEC "hexagon"

/* ---- what is there of processes and files ---- */

/* The DSPs that are children of `parent`, at most `capacity`; how many. */
static size_t find_dsps(pid_t parent, pid_t *found, size_t capacity) {
  DIR *all = opendir("/proc");
  size_t count = 0;
  assert_non_null(all);
  for (const struct dirent *entry; (entry = readdir(all));) {
    char path[300], line[300] = "", name[32];
    int process, its_parent;
    snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
    FILE *file = strtol(entry->d_name, NULL, 10) > 0 ? fopen(path, "r") : NULL;
    if (!file) continue;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    if (!read || sscanf(line, "%d (%31[^)]) %*c %d", &process, name, &its_parent) != 3) continue;
    if (its_parent == parent && strncmp(name, "qemu-hexagon", 12) == 0 && count < capacity) found[count++] = process;
  }
  closedir(all);
  return count;
}

static pid_t the_dsp(void) {
  pid_t process;
  assert_int_equal(find_dsps(getpid(), &process, 1), 1);
  return process;
}

static size_t open_files(void) {
  DIR *all = opendir("/proc/self/fd");
  size_t count = 0;
  assert_non_null(all);
  while (readdir(all)) count++;
  closedir(all);
  return count;
}

static void nothing_is_left(size_t files_before) {
  pid_t process;
  assert_int_equal(find_dsps(getpid(), &process, 1), 0);
  assert_int_equal(open_files(), files_before);
}

/* ---- the driver ---- */

static const int32_t tokens[] = {1, 5, 2, 9, 0, 3, 7, 10, 4, 6, 8, 1};

static void step(tiny_rig *rig, float *logits) {
  tn_error error;
  if (tiny_step(rig, tokens, 0, TN_COUNT(tokens), tn_clock_ns() + 20 * SECOND, logits, &error) != TN_OK)
    fail_msg("%s", error.message);
}

/* A step fails because the DSP is lost, at most `limit_ns` from now, with `words` in the message. */
static void step_loses_the_device(tiny_rig *rig, uint64_t limit_ns, const char *words) {
  float logits[TINY_MAX_ROWS * TINY_VOCABULARY];
  tn_error error = {0};
  uint64_t begin = tn_clock_ns();
  tn_status status = tiny_step(rig, tokens, 0, TN_COUNT(tokens), begin + 20 * SECOND, logits, &error);
  uint64_t taken = tn_clock_ns() - begin;
  assert_int_equal(status, TN_E_DEVICE_LOST);
  if (!strstr(error.message, words)) fail_msg("no \"%s\" in: %s", words, error.message);
  if (taken > limit_ns) fail_msg("noticed after %llu ms", (unsigned long long)(taken / 1000000));
}

/* Breaks the DSP by a signal, and opens it again. */
static void broken_and_opened_again(int signal_number, uint64_t limit_ns, const char *words) {
  static float before[TINY_MAX_ROWS * TINY_VOCABULARY], after[TINY_MAX_ROWS * TINY_VOCABULARY];
  size_t files = open_files();
  tiny_rig rig;
  tn_error error;
  if (tiny_start(&rig, SPEC, &error) != TN_OK) fail_msg("%s", error.message);
  step(&rig, before);
  pid_t process = the_dsp();
  assert_int_equal(kill(process, signal_number), 0);
  step_loses_the_device(&rig, limit_ns, words);
  tn_buffer *buffer;
  assert_int_equal(tn_device_alloc(rig.device, 100, &buffer, &error), TN_E_DEVICE_LOST);
  tiny_empty(&rig);
  assert_int_equal(tn_device_reopen(rig.device, &error), TN_OK);
  assert_int_not_equal(the_dsp(), process);
  assert_int_equal(tiny_fill(&rig, &error), TN_OK);
  step(&rig, after);
  assert_memory_equal(before, after, TN_COUNT(tokens) * TINY_VOCABULARY * sizeof(float));
  tiny_finish_rig(&rig);
  nothing_is_left(files);
}

static void a_killed_dsp_is_noticed(void **state) {
  (void)state;
  broken_and_opened_again(SIGKILL, SECOND / 2, "signal 9");
}

static void a_crashed_dsp_is_noticed(void **state) {
  (void)state;
  broken_and_opened_again(SIGSEGV, SECOND, "the DSP's process");
}

static void a_stopped_dsp_is_noticed(void **state) {
  (void)state;
  broken_and_opened_again(SIGSTOP, 3 * SECOND / 2, "stands still");
}

static void work_that_never_ends_is_noticed(void **state) {
  (void)state;
  tiny_rig rig;
  tn_error error;
  if (tiny_start(&rig, SPEC ",patience-ms=400", &error) != TN_OK) fail_msg("%s", error.message);
  float logits[TINY_MAX_ROWS * TINY_VOCABULARY];
  step(&rig, logits); /* work that ends within its time */
  pid_t process = the_dsp();
  assert_int_equal(kill(process, SIGSTOP), 0);
  step_loses_the_device(&rig, SECOND, "hangs");
  tiny_finish_rig(&rig);
}

/* An interrupt typed at a terminal goes to the whole process group of the command. */
static void a_terminals_interrupt_is_not_for_the_dsp(void **state) {
  (void)state;
  tiny_rig rig;
  tn_error error;
  if (tiny_start(&rig, SPEC, &error) != TN_OK) fail_msg("%s", error.message);
  pid_t process = the_dsp();
  assert_int_equal(getpgid(process), process);
  assert_int_equal(getsid(process), process);
  tiny_finish_rig(&rig);
}

static void too_much_memory_is_refused_with_numbers(void **state) {
  (void)state;
  tn_opened_device *device;
  tn_buffer *first, *second;
  tn_error error;
  assert_int_equal(tn_device_open(SPEC ":3", NULL, 0, &device, &error), TN_OK);
  assert_int_equal(tn_device_alloc(device, UINT64_C(16) << 20, &first, &error), TN_OK);
  assert_int_equal(tn_device_alloc(device, (UINT64_C(2) << 30) - (16 << 20), &second, &error), TN_E_MEMORY);
  assert_non_null(strstr(error.message, "2130706432 bytes wanted"));
  assert_non_null(strstr(error.message, "2130690048 free"));
  tn_device_free(device, first);
  tn_device_close(device);
  assert_int_equal(tn_device_open(SPEC ":4", NULL, 0, &device, &error), TN_E_NOT_FOUND);
}

static void no_dsp_outlives_its_process(void **state) {
  (void)state;
  int ready[2];
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    tn_opened_device *device;
    char said = tn_device_open(SPEC, NULL, 0, &device, NULL) == TN_OK ? 'y' : 'n';
    if (write(ready[1], &said, 1) == 1) pause();
    _exit(1);
  }
  char said = 0;
  pid_t process;
  assert_int_equal(read(ready[0], &said, 1), 1);
  assert_int_equal(said, 'y');
  assert_int_equal(find_dsps(child, &process, 1), 1);
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  uint64_t deadline = tn_clock_ns() + SECOND;
  char path[40];
  snprintf(path, sizeof path, "/proc/%d/exe", process);
  char target[300];
  while (readlink(path, target, sizeof target) > 0) {
    if (tn_clock_ns() > deadline) fail_msg("process %d still runs", process);
    tn_sleep_ns(10000000);
  }
  close(ready[0]);
  close(ready[1]);
}

/* ---- the engine ---- */

#define ANSWER 24u

typedef struct answers {
  int32_t tokens[2][ANSWER];
  uint32_t counts[2];
  uint64_t reopenings;
} answers;

static void pull(tn_request *request, answers *got, uint32_t number, uint32_t until) {
  tn_output output = TN_OUTPUT;
  while (got->counts[number] < until && tn_request_next(request, &output, UINT64_MAX) == TN_OK) {
    if (output.kind == TN_OUTPUT_ERROR) fail_msg("%s", output.error.message);
    if (output.kind != TN_OUTPUT_TEXT) return;
    if (output.token >= 0) got->tokens[number][got->counts[number]++] = output.token;
  }
}

/* Two requests; where `kills`, the DSP is killed when the first has a few tokens. */
static answers generate(tn_model *model, bool kills) {
  answers got = {0};
  const int32_t prompt[] = {3, 14, 15, 92, 65, 35, 89, 79};
  tn_engine_options options = TN_ENGINE_OPTIONS;
  options.device = SPEC;
  options.context = 96;
  options.max_sequences = 2;
  options.kv_bytes = 4 << 20;
  tn_engine *engine = must_start(model, &options);
  tn_request *requests[2];
  for (uint32_t i = 0; i < 2; i++) {
    tn_request_options wanted = TN_REQUEST_OPTIONS;
    wanted.tokens = prompt;
    wanted.token_count = TN_COUNT(prompt) - i;
    wanted.max_tokens = ANSWER;
    requests[i] = must_submit(engine, &wanted);
  }
  pull(requests[0], &got, 0, 4);
  if (kills) kill(the_dsp(), SIGKILL);
  for (uint32_t i = 0; i < 2; i++) {
    pull(requests[i], &got, i, ANSWER);
    tn_request_destroy(requests[i]);
  }
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(engine, &info);
  got.reopenings = info.reopenings;
  tn_engine_destroy(engine);
  return got;
}

static void requests_go_on_after_the_dsp_was_killed(void **state) {
  (void)state;
  tn_model *model = NULL;
  tn_error error;
  size_t files = open_files();
  if (tn_model_open(TEST_DATA "/golden/llama/model.gguf", &model, &error) != TN_OK) fail_msg("%s", error.message);
  answers wanted = generate(model, false), got = generate(model, true);
  assert_int_equal(wanted.counts[0], ANSWER);
  assert_int_equal(wanted.reopenings, 0);
  assert_int_equal(got.reopenings, 1);
  assert_memory_equal(got.counts, wanted.counts, sizeof got.counts);
  assert_memory_equal(got.tokens, wanted.tokens, sizeof got.tokens);
  tn_model_close(model);
  nothing_is_left(files);
}

/* Whichever numbers they are opened by. */
static void a_process_has_four_sessions(void **state) {
  (void)state;
  static const char *const specs[] = {SPEC, SPEC, SPEC ":1", SPEC ":3"};
  tn_opened_device *devices[TN_COUNT(specs)], *more;
  tn_error error;
  size_t files = open_files();
  for (size_t i = 0; i < TN_COUNT(specs); i++)
    if (tn_device_open(specs[i], NULL, 0, &devices[i], &error) != TN_OK) fail_msg("%s", error.message);
  assert_int_equal(tn_device_open(SPEC ":2", NULL, 0, &more, &error), TN_E_LIMIT);
  assert_non_null(strstr(error.message, "all 4 sessions that a process may have are open"));
  tn_device_close(devices[0]);
  if (tn_device_open(SPEC ":2", NULL, 0, &devices[0], &error) != TN_OK) fail_msg("%s", error.message);
  for (size_t i = 0; i < TN_COUNT(specs); i++) tn_device_close(devices[i]);
  nothing_is_left(files);
}

int main(void) {
  tn_loaded_driver driver;
  char reason[200] = "";
  uint32_t count = 0;
  if (tn_driver_load(SPEC, &driver, NULL) != TN_OK) return 1;
  tn_driver_count(&driver, &count, reason, sizeof reason, NULL);
  if (!count) {
    printf("%s: no DSP: %s\n", getenv("TENON_DEVICES_REQUIRED") ? "failed" : "skipped", reason);
    return getenv("TENON_DEVICES_REQUIRED") ? 1 : 77;
  }
  tn_log_set_level(TN_LOG_ERROR);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_dsp_is_noticed),
                                     cmocka_unit_test(a_crashed_dsp_is_noticed),
                                     cmocka_unit_test(a_stopped_dsp_is_noticed),
                                     cmocka_unit_test(work_that_never_ends_is_noticed),
                                     cmocka_unit_test(a_terminals_interrupt_is_not_for_the_dsp),
                                     cmocka_unit_test(too_much_memory_is_refused_with_numbers),
                                     cmocka_unit_test(a_process_has_four_sessions),
                                     cmocka_unit_test(no_dsp_outlives_its_process),
                                     cmocka_unit_test(requests_go_on_after_the_dsp_was_killed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
