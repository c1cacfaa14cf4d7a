/* The prefix cache on disk: what was saved is found again and computes the same; whatever is cut off, altered or of
 * another origin is refused before anything of it is used; a crash while saving leaves the old file. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_runner.h"
#include "accounting.h"
#include "base/os.h"
#include "engine/cache_format.h"
#include "engine/step.h"

#define FILE_NAME "test_cache_file.kv"
#define TOKENS 200u

static const fake_config PLAIN = {
    .max_rows = 64, .max_sequences = 4, .max_logits_rows = 16, .max_context = 512, .pages = 64, .group_count = 1};
static const fake_config HYBRID = {.max_rows = 64,
                                   .max_sequences = 4,
                                   .max_logits_rows = 16,
                                   .max_context = 512,
                                   .pages = 64,
                                   .group_count = 2,
                                   .windows = {0, 50},
                                   .state_slots = 12};

typedef struct rig {
  const fake_config *config;
  tn_runner *runner;
  tn_kv kv;
  tn_step step;
  tn_ledger ledger;
} rig;

static void rig_init(rig *r, const fake_config *config) {
  *r = (rig){.config = config, .runner = fake_create(config)};
  r->runner->model = 11;
  r->runner->configuration = 22;
  assert_int_equal(tn_kv_init(&r->kv, r->runner, NULL, NULL), TN_OK);
  assert_int_equal(tn_step_init(&r->step, &r->kv, NULL), TN_OK);
  assert_int_equal(tn_ledger_init(&r->ledger, &r->kv, 512, NULL), TN_OK);
}

static void rig_finish(rig *r) {
  check_accounting(&r->kv, &r->ledger, 1);
  tn_ledger_finish(&r->ledger);
  tn_step_finish(&r->step);
  tn_kv_finish(&r->kv);
  tn_runner_destroy(r->runner);
}

static void fill_tokens(int32_t *tokens, uint32_t count, uint64_t seed) {
  for (uint32_t i = 0; i < count; i++) tokens[i] = (int32_t)(fake_random(&seed) % FAKE_VOCABULARY);
}

/* Computes the tokens behind what the cache knows of them; gives how many it knew. */
static uint32_t compute(rig *r, tn_salt *salt, const int32_t *tokens, uint32_t count) {
  uint32_t known = tn_ledger_attach(&r->ledger, salt, tokens, count);
  r->ledger.landmark = (count - 1) / TN_PAGE_SLOTS * TN_PAGE_SLOTS;
  while (r->ledger.length < count) {
    uint32_t at = r->ledger.length, rows = count - at < 32 ? count - at : 32, entry;
    tn_step_begin(&r->step);
    assert_int_equal(tn_step_add(&r->step, &r->ledger, tokens + at, rows, rows - 1, &entry, NULL), TN_OK);
    assert_int_equal(tn_step_run(&r->step, NULL), TN_OK);
    float expected[FAKE_VOCABULARY];
    fake_expected(r->config, tokens, at + rows, expected);
    assert_memory_equal(tn_step_logits(&r->step, entry, rows - 1), expected, sizeof expected);
    tn_step_commit(&r->step, entry);
  }
  tn_ledger_clear(&r->ledger);
  return known;
}

static tn_status save(rig *r, const char *note, tn_error *error) {
  return tn_cache_save(&r->kv, &(tn_cache_saving){.note = note}, FILE_NAME, error);
}

static void expect_load(rig *r, tn_status wanted, const char *words) {
  tn_error error = {0};
  uint32_t before = tn_prefix_count(r->kv.prefix);
  char *note = NULL;
  tn_status status = tn_cache_load(&r->kv, FILE_NAME, &note, NULL, &error);
  free(note);
  if (status != wanted) fail_msg("%d: %s", (int)status, error.message);
  if (words) assert_non_null(strstr(error.message, words));
  if (status != TN_OK) assert_int_equal(tn_prefix_count(r->kv.prefix), before);
  check_accounting(&r->kv, &r->ledger, 1);
}

static void saved_is_found_again(void **state) {
  (void)state;
  const fake_config *const configs[] = {&PLAIN, &HYBRID};
  int32_t tokens[3][TOKENS];
  for (uint32_t i = 0; i < 3; i++) fill_tokens(tokens[i], TOKENS, i == 1 ? 1 : i);
  memcpy(tokens[2], tokens[0], 100 * sizeof **tokens); /* a path that forks off another */
  for (int c = 0; c < 2; c++) {
    rig r;
    tn_salt *red = tn_salt_create("red");
    rig_init(&r, configs[c]);
    assert_int_equal(compute(&r, NULL, tokens[0], TOKENS), 0);
    assert_int_equal(compute(&r, red, tokens[1], TOKENS), 0);
    compute(&r, NULL, tokens[2], TOKENS);
    assert_int_equal(tn_ledger_attach(&r.ledger, NULL, tokens[2], TOKENS), 192); /* in use while it is saved */
    uint32_t nodes = tn_prefix_count(r.kv.prefix);
    assert_int_equal(save(&r, "a note", NULL), TN_OK);
    rig_finish(&r);
    for (int round = 0; round < 2; round++) { /* into an empty cache, and into one that knows a part of it */
      rig_init(&r, configs[c]);
      if (round) compute(&r, NULL, tokens[2], 70);
      char *note;
      uint64_t loaded;
      assert_int_equal(tn_cache_load(&r.kv, FILE_NAME, &note, &loaded, NULL), TN_OK);
      assert_string_equal(note, "a note");
      free(note);
      assert_int_equal(loaded, nodes * TN_PAGE_SLOTS);
      check_accounting(&r.kv, &r.ledger, 1);
      assert_int_equal(compute(&r, NULL, tokens[2], TOKENS), 192);
      assert_int_equal(compute(&r, NULL, tokens[0], TOKENS), 192);
      assert_int_equal(compute(&r, NULL, tokens[1], TOKENS), 0);
      assert_int_equal(compute(&r, red, tokens[1], TOKENS), 192);
      rig_finish(&r);
    }
    tn_salt_release(red);
  }
}

/* Of a larger cache the paths used last are loaded, whole ones first. */
static void what_fits_is_loaded(void **state) {
  (void)state;
  int32_t tokens[4][TOKENS];
  rig r;
  rig_init(&r, &PLAIN);
  for (uint32_t i = 0; i < 4; i++) {
    fill_tokens(tokens[i], TOKENS, i);
    compute(&r, NULL, tokens[i], TOKENS);
  }
  compute(&r, NULL, tokens[1], TOKENS);
  assert_int_equal(save(&r, NULL, NULL), TN_OK);
  rig_finish(&r);
  fake_config small = PLAIN;
  small.pages = 15;
  rig_init(&r, &small);
  expect_load(&r, TN_OK, NULL);
  static const uint32_t found[] = {0, 192, 96, 192};
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(tn_ledger_attach(&r.ledger, NULL, tokens[i], TOKENS), found[i]);
    tn_ledger_clear(&r.ledger);
  }
  rig_finish(&r);
}

static void a_session_is_one_path(void **state) {
  (void)state;
  int32_t tokens[2][TOKENS];
  rig r;
  rig_init(&r, &HYBRID);
  for (uint32_t i = 0; i < 2; i++) {
    fill_tokens(tokens[i], TOKENS, i);
    compute(&r, NULL, tokens[i], TOKENS);
  }
  const tn_cache_saving saving = {.tokens = tokens[1], .count = TOKENS};
  assert_int_equal(tn_cache_save(&r.kv, &saving, FILE_NAME, NULL), TN_OK);
  rig_finish(&r);
  rig_init(&r, &HYBRID);
  expect_load(&r, TN_OK, NULL);
  assert_int_equal(compute(&r, NULL, tokens[0], TOKENS), 0);
  assert_int_equal(compute(&r, NULL, tokens[1], TOKENS), 192);
  rig_finish(&r);
}

/* ---- what is refused ---- */

/* A small saved cache; *size bytes, free() them. */
static char *small_file(size_t *size) {
  rig r;
  int32_t tokens[100];
  fill_tokens(tokens, 100, 5);
  tn_salt *salt = tn_salt_create("blue");
  rig_init(&r, &HYBRID);
  compute(&r, salt, tokens, 100);
  assert_int_equal(save(&r, "note", NULL), TN_OK);
  rig_finish(&r);
  tn_salt_release(salt);
  char *data;
  assert_int_equal(tn_file_read(FILE_NAME, SIZE_MAX / 2, &data, size, NULL), TN_OK);
  return data;
}

static tn_status load_bytes(rig *r, const void *data, size_t size, tn_error *error) {
  char *note;
  tn_status status = tn_cache_load_bytes(&r->kv, "file", data, size, &note, NULL, error);
  free(note);
  if (status != TN_OK) {
    assert_int_equal(tn_prefix_count(r->kv.prefix), 0);
    assert_int_equal(r->runner->copies, 0);
  }
  return status;
}

static void every_altered_byte_is_noticed(void **state) {
  (void)state;
  size_t size;
  char *data = small_file(&size);
  rig r;
  rig_init(&r, &HYBRID);
  tn_error error;
  for (size_t i = 0; i < size; i++) {
    data[i] ^= 1 << i % 8;
    tn_status status = load_bytes(&r, data, size, &error);
    if (i < sizeof CACHE_MAGIC - 1)
      assert_int_equal(status, TN_E_INVALID); /* something else */
    else
      assert_true(status == TN_E_FORMAT || status == TN_E_UNSUPPORTED);
    data[i] ^= 1 << i % 8;
  }
  for (size_t cut = 0; cut < size; cut++) assert_int_equal(load_bytes(&r, data, cut, &error), TN_E_FORMAT);
  assert_int_equal(load_bytes(&r, data, size, &error), TN_OK);
  rig_finish(&r);
  free(data);
}

static void other_origins_are_refused(void **state) {
  (void)state;
  size_t size;
  free(small_file(&size));
  rig r;
  rig_init(&r, &HYBRID);
  r.runner->model = 12;
  expect_load(&r, TN_E_UNSUPPORTED, "another model");
  r.runner->model = 11;
  r.runner->configuration = 23;
  expect_load(&r, TN_E_UNSUPPORTED, "another configuration");
  r.runner->configuration = 22;
  r.kv.info.groups[1].window++;
  expect_load(&r, TN_E_UNSUPPORTED, "another form");
  r.kv.info.groups[1].window--;
  expect_load(&r, TN_OK, NULL);
  rig_finish(&r);
  remove(FILE_NAME);
  rig_init(&r, &HYBRID);
  expect_load(&r, TN_E_NOT_FOUND, FILE_NAME);
  const tn_kv_options none = {.prefix_cache = false};
  tn_kv kv;
  assert_int_equal(tn_kv_init(&kv, r.runner, &none, NULL), TN_OK);
  assert_int_equal(tn_cache_save(&kv, &(tn_cache_saving){0}, FILE_NAME, NULL), TN_E_UNSUPPORTED);
  tn_kv_finish(&kv);
  rig_finish(&r);
}

/* Files with a right checksum that are wrong all the same: each field in turn takes wild values. */
static void wild_numbers_are_refused(void **state) {
  (void)state;
  static const uint32_t wild[] = {0, 1, 0x7f, 0xffff, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
  size_t size;
  char *data = small_file(&size);
  for (size_t at = 8; at + 4 <= size - 8; at += at < 400 ? 4 : 28) {
    for (size_t w = 0; w < TN_COUNT(wild); w++) {
      uint32_t before;
      tn_error error;
      rig r;
      rig_init(&r, &HYBRID);
      memcpy(&before, data + at, 4);
      memcpy(data + at, &wild[w], 4);
      uint64_t checksum = tn_cache_checksum(data, size - 8);
      memcpy(data + size - 8, &checksum, 8);
      load_bytes(&r, data, size, &error); /* refused, or other tokens or bytes: never more than that */
      memcpy(data + at, &before, 4);
      rig_finish(&r);
    }
  }
  free(data);
}

/* Each read and write of a page fails in turn: a failed save leaves the old file, a failed load whole nodes. */
static void faults_leave_nothing_half_done(void **state) {
  (void)state;
  int32_t tokens[100];
  fill_tokens(tokens, 100, 5);
  size_t size;
  free(small_file(&size));
  rig r;
  rig_init(&r, &HYBRID);
  compute(&r, NULL, tokens, 100);
  uint32_t reads = 0, writes = 0;
  for (;; reads++) {
    char *note = NULL;
    r.runner->faults.fail_copy = r.runner->copies + reads + 1;
    if (save(&r, "new", NULL) == TN_OK) break;
    rig reader;
    rig_init(&reader, &HYBRID);
    assert_int_equal(tn_cache_load(&reader.kv, FILE_NAME, &note, NULL, NULL), TN_OK);
    assert_string_equal(note, "note");
    rig_finish(&reader);
    free(note);
  }
  rig_finish(&r);
  for (tn_status status = TN_E_INTERNAL; status != TN_OK; writes++) {
    rig_init(&r, &HYBRID);
    r.runner->faults.fail_copy = writes + 1;
    status = tn_cache_load(&r.kv, FILE_NAME, NULL, NULL, NULL);
    assert_true(status == TN_OK || status == TN_E_INTERNAL);
    assert_int_equal(tn_prefix_count(r.kv.prefix), status == TN_OK ? 3 : writes / 2);
    check_accounting(&r.kv, &r.ledger, 1);
    compute(&r, NULL, tokens, 100);
    rig_finish(&r);
  }
  assert_true(reads >= 6 && writes == reads + 1);
}

/* The process is killed in the midst of a save: by the system, as its file grows past a limit. */
static void a_crash_leaves_the_old_file(void **state) {
  (void)state;
  size_t size;
  char *before = small_file(&size), *after;
  pid_t child = fork();
  if (child == 0) {
    rig r;
    int32_t tokens[400];
    fill_tokens(tokens, 400, 6);
    rig_init(&r, &PLAIN);
    for (uint64_t i = 0; i < 4; i++) {
      fill_tokens(tokens, 400, 6 + i);
      compute(&r, NULL, tokens, 400);
    }
    char *note = calloc(CACHE_BLOCK, 1);
    memset(note, 'x', CACHE_BLOCK - 1);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){CACHE_BLOCK / 2, CACHE_BLOCK / 2});
    signal(SIGXFSZ, SIG_DFL);
    save(&r, note, NULL);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
  size_t left;
  assert_int_equal(tn_file_read(FILE_NAME, SIZE_MAX / 2, &after, &left, NULL), TN_OK);
  assert_int_equal(left, size);
  assert_memory_equal(after, before, size);
  free(before);
  free(after);
}

/* All files lie in a folder of their own, as a crash leaves its temporary one behind. */
static char folder[] = "/tmp/tenon-cache-XXXXXX";

static int enter_folder(void **state) {
  (void)state;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  DIR *entries = opendir(folder);
  for (struct dirent *entry; (entry = readdir(entries));) unlink(entry->d_name);
  closedir(entries);
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(saved_is_found_again),           cmocka_unit_test(what_fits_is_loaded),
      cmocka_unit_test(a_session_is_one_path),          cmocka_unit_test(every_altered_byte_is_noticed),
      cmocka_unit_test(other_origins_are_refused),      cmocka_unit_test(wild_numbers_are_refused),
      cmocka_unit_test(faults_leave_nothing_half_done), cmocka_unit_test(a_crash_leaves_the_old_file),
  };
  return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
