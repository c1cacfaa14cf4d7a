/* Ledgers, the page pool and the prefix cache, with pages that remember their tokens (fake_runner.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_runner.h"
#include "accounting.h"
#include "engine/context.h"

static const fake_config PLAIN = {
    .max_rows = 64, .max_sequences = 8, .max_logits_rows = 16, .max_context = 1024, .pages = 64, .group_count = 1};
static const fake_config WINDOWED = {.max_rows = 64,
                                     .max_sequences = 8,
                                     .max_logits_rows = 16,
                                     .max_context = 1024,
                                     .pages = 64,
                                     .group_count = 2,
                                     .windows = {0, 50}};

static const fake_config HYBRID = {.max_rows = 64,
                                   .max_sequences = 8,
                                   .max_logits_rows = 16,
                                   .max_context = 1024,
                                   .pages = 64,
                                   .group_count = 2,
                                   .windows = {0, 50},
                                   .state_slots = 12};

static void fill_tokens(int32_t *tokens, uint32_t count, uint64_t seed) {
  for (uint32_t i = 0; i < count; i++) tokens[i] = (int32_t)(fake_random(&seed) % FAKE_VOCABULARY);
}

/* Runs tokens behind a ledger and commits `keep` of them; the logits of the last row must be those of all its tokens.
 */
static void run(tn_context *context, const fake_config *config, tn_ledger *ledger, const int32_t *tokens,
                uint32_t count, uint32_t keep) {
  uint32_t entry;
  tn_error error;
  int32_t all[1024];
  memcpy(all, ledger->tokens, ledger->length * sizeof *all);
  memcpy(all + ledger->length, tokens, count * sizeof *all);
  tn_step_begin(&context->step);
  if (tn_step_add(&context->step, ledger, tokens, count, count - 1, &entry, &error) != TN_OK)
    fail_msg("%s", error.message);
  if (tn_step_run(&context->step, &error) != TN_OK) fail_msg("%s", error.message);
  float expected[FAKE_VOCABULARY];
  fake_expected(config, all, ledger->length + count, expected);
  assert_memory_equal(tn_step_logits(&context->step, entry, count - 1), expected, sizeof expected);
  tn_step_commit_part(&context->step, entry, keep);
}

typedef struct seen_rows {
  const fake_config *config;
  const int32_t *tokens;
  uint32_t next;
} seen_rows;

static tn_status see_row(void *user, uint32_t position, const float *logits, tn_error *error) {
  (void)error;
  seen_rows *seen = user;
  assert_int_equal(position, seen->next++);
  float expected[FAKE_VOCABULARY];
  fake_expected(seen->config, seen->tokens, position + 1, expected);
  assert_memory_equal(logits, expected, sizeof expected);
  return TN_OK;
}

static void chunks_give_the_same_rows(void **state) {
  (void)state;
  static const uint32_t chunks[] = {0, 1, 7, 32, 64};
  int32_t tokens[300];
  fill_tokens(tokens, 300, 1);
  for (int windowed = 0; windowed < 2; windowed++) {
    const fake_config *config = windowed ? &WINDOWED : &PLAIN;
    for (size_t c = 0; c < TN_COUNT(chunks); c++) {
      tn_runner *runner = fake_create(config);
      tn_context context;
      assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
      seen_rows seen = {config, tokens, 100};
      assert_int_equal(tn_context_feed(&context, tokens, 300, chunks[c], 100, see_row, &seen, NULL), TN_OK);
      assert_int_equal(seen.next, 300);
      assert_int_equal(context.ledger.length, 300);
      check_accounting(&context.kv, &context.ledger, 1);
      if (windowed) assert_true(context.ledger.freed[1] > 5); /* pages behind the window went back */
      tn_context_finish(&context);
      tn_runner_destroy(runner);
    }
  }
}

static void dropped_rows_leave_no_trace(void **state) {
  (void)state;
  for (int windowed = 0; windowed < 2; windowed++) {
    const fake_config *config = windowed ? &WINDOWED : &PLAIN;
    tn_runner *runner = fake_create(config);
    tn_context context;
    assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
    int32_t tokens[500];
    fill_tokens(tokens, 500, 2);
    uint64_t random = 3;
    uint32_t longest = 0;
    while (context.ledger.length < 400) {
      uint32_t rows = 1 + fake_random(&random) % 8, keep = fake_random(&random) % (rows + 1);
      int32_t drafts[8];
      for (uint32_t i = 0; i < rows; i++)
        drafts[i] = i < keep ? tokens[context.ledger.length + i] : (int32_t)(fake_random(&random) % FAKE_VOCABULARY);
      run(&context, config, &context.ledger, drafts, rows, keep);
      check_accounting(&context.kv, &context.ledger, 1);
      if (context.ledger.length > longest) longest = context.ledger.length;
      uint32_t shortest = longest > TN_WINDOW_MARGIN ? longest - TN_WINDOW_MARGIN : 0;
      if (fake_random(&random) % 6 || context.ledger.length < shortest) continue;
      uint32_t length = context.ledger.length - fake_random(&random) % (context.ledger.length - shortest + 1);
      assert_int_equal(tn_ledger_truncate(&context.ledger, length, NULL), TN_OK);
      check_accounting(&context.kv, &context.ledger, 1);
    }
    tn_context_finish(&context);
    tn_runner_destroy(runner);
  }
}

/* Two ledgers with the same beginning write different ends: the half-filled page is copied, full ones stay shared. */
static void forks_copy_on_write(void **state) {
  (void)state;
  for (int windowed = 0; windowed < 2; windowed++) {
    const fake_config *config = windowed ? &WINDOWED : &PLAIN;
    tn_runner *runner = fake_create(config);
    tn_context context;
    assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
    tn_ledger ledgers[3];
    for (int i = 0; i < 3; i++) assert_int_equal(tn_ledger_init(&ledgers[i], &context.kv, 1024, NULL), TN_OK);
    int32_t tokens[200];
    fill_tokens(tokens, 200, 4);
    for (uint32_t i = 0; i < 150; i += 50) run(&context, config, &ledgers[0], tokens + i, 50, 50);
    uint32_t free_before = tn_pages_free(context.kv.pages, 0);
    tn_ledger_fork(&ledgers[0], &ledgers[1]);
    tn_ledger_fork(&ledgers[0], &ledgers[2]);
    check_accounting(&context.kv, ledgers, 3);
    assert_int_equal(tn_pages_free(context.kv.pages, 0), free_before);
    for (int round = 0; round < 12; round++) {
      for (uint32_t i = 0; i < 3; i++) {
        fill_tokens(tokens, 10, 100 + i);
        run(&context, config, &ledgers[i], tokens, 10, 10);
        check_accounting(&context.kv, ledgers, 3);
      }
    }
    assert_true(runner->copies > 0);
    assert_int_equal(ledgers[0].tables[0][0], ledgers[2].tables[0][0]);
    assert_true(ledgers[0].tables[0][4] != ledgers[2].tables[0][4]);
    for (int i = 0; i < 3; i++) tn_ledger_finish(&ledgers[i]);
    check_accounting(&context.kv, NULL, 0);
    tn_context_finish(&context);
    tn_runner_destroy(runner);
  }
}

static void failed_copy_changes_nothing(void **state) {
  (void)state;
  tn_runner *runner = fake_create(&PLAIN);
  tn_context context;
  assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
  tn_ledger ledgers[2];
  for (int i = 0; i < 2; i++) assert_int_equal(tn_ledger_init(&ledgers[i], &context.kv, 1024, NULL), TN_OK);
  int32_t tokens[40];
  fill_tokens(tokens, 40, 5);
  run(&context, &PLAIN, &ledgers[0], tokens, 40, 40);
  tn_ledger_fork(&ledgers[0], &ledgers[1]);
  runner->faults.fail_copy = 1;
  assert_int_equal(tn_ledger_reserve(&ledgers[1], 5, NULL), TN_E_INTERNAL);
  check_accounting(&context.kv, ledgers, 2);
  run(&context, &PLAIN, &ledgers[1], tokens, 5, 5);
  run(&context, &PLAIN, &ledgers[0], tokens, 6, 6);
  for (int i = 0; i < 2; i++) tn_ledger_finish(&ledgers[i]);
  tn_context_finish(&context);
  tn_runner_destroy(runner);
}

static void full_pool_reserves_nothing(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.pages = 4;
  tn_runner *runner = fake_create(&config);
  tn_context context;
  assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
  assert_int_equal(tn_kv_capacity(&context.kv), 128);
  tn_ledger ledgers[2];
  for (int i = 0; i < 2; i++) assert_int_equal(tn_ledger_init(&ledgers[i], &context.kv, 128, NULL), TN_OK);
  int32_t tokens[64];
  fill_tokens(tokens, 64, 6);
  run(&context, &config, &ledgers[0], tokens, 60, 60);
  assert_int_equal(tn_ledger_reserve(&ledgers[1], 65, NULL), TN_E_MEMORY);
  check_accounting(&context.kv, ledgers, 2);
  assert_int_equal(tn_pages_free(context.kv.pages, 0), 2);
  assert_int_equal(tn_ledger_reserve(&ledgers[1], 129, NULL), TN_E_LIMIT);
  run(&context, &config, &ledgers[1], tokens, 64, 64);
  for (int i = 0; i < 2; i++) tn_ledger_finish(&ledgers[i]);
  tn_context_finish(&context);
  tn_runner_destroy(runner);
}

/* With every hash the same, only the comparison of tokens, parent and salt keeps paths apart. */
static void collisions_serve_nobody_elses_pages(void **state) {
  (void)state;
  for (int round = 0; round < 2; round++) {
    tn_kv_options options = {.prefix_cache = true, .hash_mask = round ? 0 : UINT64_MAX};
    tn_runner *runner = fake_create(&PLAIN);
    tn_context context;
    assert_int_equal(tn_context_init(&context, runner, &options, NULL), TN_OK);
    tn_salt *red = tn_salt_create("red"), *blue = tn_salt_create("blue");
    int32_t tokens[130], other[130];
    fill_tokens(tokens, 130, 7);
    memcpy(other, tokens, sizeof other);
    other[31] ^= 1; /* the same second page behind another first one */
    assert_int_equal(tn_ledger_attach(&context.ledger, red, tokens, 130), 0);
    run(&context, &PLAIN, &context.ledger, tokens, 64, 64);
    run(&context, &PLAIN, &context.ledger, tokens + 64, 64, 64);
    tn_ledger_clear(&context.ledger);
    const struct {
      tn_salt *salt;
      const int32_t *tokens;
      uint32_t count, found;
    } cases[] = {{red, tokens, 130, 128}, {red, tokens, 129, 128}, {red, tokens, 128, 96},
                 {red, tokens, 32, 0},    {red, tokens, 33, 32},   {blue, tokens, 130, 0},
                 {NULL, tokens, 130, 0},  {red, other, 130, 0},    {red, tokens + 32, 98, 0}};
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
      assert_int_equal(tn_ledger_attach(&context.ledger, cases[i].salt, cases[i].tokens, cases[i].count),
                       cases[i].found);
      check_accounting(&context.kv, &context.ledger, 1);
      tn_ledger_clear(&context.ledger);
    }
    /* the second page of `other` is made behind its own first one, and found there only */
    assert_int_equal(tn_ledger_attach(&context.ledger, red, other, 130), 0);
    run(&context, &PLAIN, &context.ledger, other, 64, 64);
    tn_ledger_clear(&context.ledger);
    assert_int_equal(tn_ledger_attach(&context.ledger, red, other, 130), 64);
    run(&context, &PLAIN, &context.ledger, other + 64, 60, 60);
    tn_ledger_clear(&context.ledger);
    tn_salt_release(red);
    tn_salt_release(blue);
    tn_context_finish(&context);
    tn_runner_destroy(runner);
  }
}

static void oldest_unused_goes_first(void **state) {
  (void)state;
  fake_config config = PLAIN;
  config.pages = 6;
  tn_runner *runner = fake_create(&config);
  tn_context context;
  assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
  int32_t prompts[4][65];
  for (uint32_t i = 0; i < 4; i++) fill_tokens(prompts[i], 65, 20 + i);
  for (uint32_t i = 0; i < 3; i++) { /* two pages each: the pool is full of them */
    run(&context, &config, &context.ledger, prompts[i], 64, 64);
    tn_ledger_clear(&context.ledger);
  }
  assert_int_equal(tn_ledger_attach(&context.ledger, NULL, prompts[0], 65), 64); /* used again: the youngest now */
  tn_ledger_clear(&context.ledger);
  run(&context, &config, &context.ledger, prompts[3], 33, 33); /* takes two pages: the second prompt's go */
  tn_ledger_clear(&context.ledger);
  static const uint32_t left[] = {64, 0, 64, 32};
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(tn_ledger_attach(&context.ledger, NULL, prompts[i], 65), left[i]);
    tn_ledger_clear(&context.ledger);
  }
  tn_context_finish(&context);
  tn_runner_destroy(runner);
}

/* A hit ends where every group has what it needs: the window's pages of the early path may be gone. */
static void hits_need_the_window_too(void **state) {
  (void)state;
  tn_runner *runner = fake_create(&WINDOWED);
  tn_context context;
  assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
  int32_t tokens[400];
  fill_tokens(tokens, 400, 8);
  for (uint32_t i = 0; i < 384; i += 64) run(&context, &WINDOWED, &context.ledger, tokens + i, 64, 64);
  tn_ledger second;
  assert_int_equal(tn_ledger_init(&second, &context.kv, 1024, NULL), TN_OK);
  assert_int_equal(tn_ledger_attach(&second, NULL, tokens, 400), 384);
  assert_int_equal(second.freed[1], (384 + 1 - 50) / TN_PAGE_SLOTS);
  run(&context, &WINDOWED, &second, tokens + 384, 16, 16);
  tn_ledger_clear(&second);
  /* all window pages that only the cache holds go; the full ones in use stay */
  while (tn_prefix_evict(context.kv.prefix, 1)) {
  }
  tn_ledger ledgers[2] = {context.ledger, second};
  check_accounting(&context.kv, ledgers, 2);
  assert_int_equal(tn_ledger_attach(&second, NULL, tokens, 300), 0);
  tn_ledger_clear(&second);
  assert_int_equal(tn_ledger_attach(&second, NULL, tokens, 400), 384);
  run(&context, &WINDOWED, &second, tokens + 384, 16, 16);
  assert_int_equal(tn_ledger_truncate(&context.ledger, 100, NULL), TN_E_LIMIT);
  assert_int_equal(context.ledger.length, 384);
  tn_ledger_finish(&second);
  tn_context_finish(&context);
  tn_runner_destroy(runner);
}

/* With few pages for windows the cache gives up those that no hit needs, and keeps every node: sequences much longer
 * than the windows' pages are found again to their ends, and where two of them part. */
static void few_window_pages_keep_the_ends(void **state) {
  (void)state;
  fake_config config = WINDOWED;
  config.window_pages = 14; /* of a sequence that runs 6 at most, and of two ends and a place where they part 3 each */
  tn_runner *runner = fake_create(&config);
  tn_context context;
  assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
  int32_t tokens[2][400];
  fill_tokens(tokens[0], 400, 8);
  fill_tokens(tokens[1], 400, 9);
  memcpy(tokens[1], tokens[0], 192 * sizeof tokens[0][0]);
  for (uint32_t s = 0; s < 2; s++) {
    uint32_t found = tn_ledger_attach(&context.ledger, NULL, tokens[s], 192);
    for (uint32_t i = found; i < 384; i += 32) run(&context, &config, &context.ledger, tokens[s] + i, 32, 32);
    check_accounting(&context.kv, &context.ledger, 1);
    tn_ledger_clear(&context.ledger);
  }
  assert_int_equal(tn_prefix_count(context.kv.prefix), 6 + 6 + 6);
  for (uint32_t s = 0; s < 2; s++) {
    assert_int_equal(tn_ledger_attach(&context.ledger, NULL, tokens[s], 400), 384);
    run(&context, &config, &context.ledger, tokens[s] + 384, 16, 16);
    tn_ledger_clear(&context.ledger);
  }
  fill_tokens(tokens[1] + 192, 100, 10); /* a third one parts where the others did */
  assert_int_equal(tn_ledger_attach(&context.ledger, NULL, tokens[1], 292), 192);
  run(&context, &config, &context.ledger, tokens[1] + 192, 64, 64);
  tn_context_finish(&context);
  tn_runner_destroy(runner);
}

/* As many pages as one sequence's window takes at most are enough for one, however its rows are spread over steps and
 * pages: the cache gives up all that the window has left behind. It is found again to its end. */
static void least_window_pages_serve_one(void **state) {
  (void)state;
  static const uint32_t windows[] = {1, 2, 31, 32, 33, 34, 66}, most[] = {1, 2, 31, 34, 64};
  int32_t tokens[1000];
  uint64_t random = 12;
  fill_tokens(tokens, TN_COUNT(tokens), 11);
  for (uint32_t at = 0; at < TN_COUNT(windows) * TN_COUNT(most); at++) {
    fake_config config = WINDOWED;
    config.windows[1] = windows[at / TN_COUNT(most)];
    config.max_rows = most[at % TN_COUNT(most)];
    config.window_pages = tn_kv_window_pages(config.windows[1], config.max_rows);
    tn_runner *runner = fake_create(&config);
    tn_context context;
    assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
    for (uint32_t round = 0; round < 2; round++) {
      uint32_t found = tn_ledger_attach(&context.ledger, NULL, tokens, 900 + 50 * round);
      assert_int_equal(found, round ? 896 : 0);
      for (uint32_t end = 900 + 50 * round; context.ledger.length < end;) {
        uint32_t rows = fake_random(&random) % 3 ? config.max_rows : 1 + fake_random(&random) % config.max_rows;
        if (rows > end - context.ledger.length) rows = end - context.ledger.length;
        run(&context, &config, &context.ledger, tokens + context.ledger.length, rows, rows);
        check_accounting(&context.kv, &context.ledger, 1);
      }
      tn_ledger_clear(&context.ledger);
    }
    tn_context_finish(&context);
    tn_runner_destroy(runner);
  }
}

/* A recurrent state goes back to where a snapshot is, and a fork goes on from the same one. */
static void states_go_back_to_snapshots(void **state) {
  (void)state;
  tn_runner *runner = fake_create(&HYBRID);
  tn_context context;
  assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
  tn_ledger ledgers[2];
  for (int i = 0; i < 2; i++) assert_int_equal(tn_ledger_init(&ledgers[i], &context.kv, 1024, NULL), TN_OK);
  int32_t tokens[200];
  fill_tokens(tokens, 200, 8);
  tn_ledger_finish(&context.ledger);
  ledgers[0].landmark = 64;
  run(&context, &HYBRID, &ledgers[0], tokens, 64, 64);
  run(&context, &HYBRID, &ledgers[0], tokens + 64, 32, 32);
  run(&context, &HYBRID, &ledgers[0], tokens + 96, 10, 10);
  assert_int_equal(tn_ledger_truncate(&ledgers[0], 105, NULL), TN_E_LIMIT);
  assert_int_equal(tn_ledger_truncate(&ledgers[0], 96, NULL), TN_OK);
  run(&context, &HYBRID, &ledgers[0], tokens + 150, 10, 10);
  tn_ledger_fork(&ledgers[0], &ledgers[1]);
  check_accounting(&context.kv, ledgers, 2);
  run(&context, &HYBRID, &ledgers[0], tokens, 5, 5);
  run(&context, &HYBRID, &ledgers[1], tokens + 9, 5, 5);
  run(&context, &HYBRID, &ledgers[1], tokens, 8, 3); /* rows that are dropped: those kept run again */
  assert_int_equal(ledgers[1].length, 111);
  run(&context, &HYBRID, &ledgers[1], tokens, 3, 3);
  tn_ledger third;
  assert_int_equal(tn_ledger_init(&third, &context.kv, 64, NULL), TN_OK);
  for (int i = 0; i < 2; i++) tn_ledger_finish(&ledgers[i]);
  tn_ledger_finish(&third);
  tn_context_finish(&context);
  tn_runner_destroy(runner);
}

/* Of a long sequence there is a snapshot every TN_SNAPSHOT_TOKENS, where another one that parts behind it goes on. */
static void long_sequences_leave_snapshots(void **state) {
  (void)state;
  fake_config config = HYBRID;
  config.max_context = 3 * TN_SNAPSHOT_TOKENS;
  config.pages = 200;
  tn_runner *runner = fake_create(&config);
  tn_context context;
  assert_int_equal(tn_context_init(&context, runner, NULL, NULL), TN_OK);
  static int32_t tokens[2 * TN_SNAPSHOT_TOKENS + 500];
  fill_tokens(tokens, TN_COUNT(tokens), 9);
  assert_int_equal(tn_context_feed(&context, tokens, TN_COUNT(tokens), 60, TN_COUNT(tokens), NULL, NULL, NULL), TN_OK);
  tn_ledger_clear(&context.ledger);
  for (uint32_t at = 1; at <= 2; at++) {
    int32_t *other = &tokens[at * TN_SNAPSHOT_TOKENS + 100];
    *other ^= 1;
    seen_rows seen = {&config, tokens, at * TN_SNAPSHOT_TOKENS};
    assert_int_equal(tn_ledger_attach(&context.ledger, NULL, tokens, seen.next + 150), seen.next);
    assert_int_equal(tn_context_feed(&context, tokens + context.ledger.length, 150, 64, 0, see_row, &seen, NULL),
                     TN_OK);
    tn_ledger_clear(&context.ledger);
    *other ^= 1;
  }
  check_accounting(&context.kv, &context.ledger, 1);
  tn_context_finish(&context);
  tn_runner_destroy(runner);
}

/* ---- anything at random ---- */

#define PLAYERS 4u

typedef struct playground {
  const fake_config *config;
  tn_runner *runner;
  tn_context context;
  tn_ledger ledgers[PLAYERS];
  uint64_t streams[PLAYERS]; /* each ledger's tokens are those of its stream, up to where it forked */
  uint64_t random;
  uint32_t hits, forks, faults, full;
} playground;

static int32_t stream_token(uint64_t stream, uint32_t position) {
  return (int32_t)(tn_hash_pair((uint32_t)stream, position) % FAKE_VOCABULARY);
}

/* A new sequence, perhaps behind what the cache knows of its beginning. */
static void play_begin(playground *p, uint32_t at) {
  int32_t tokens[600];
  p->streams[at] = fake_random(&p->random) % 3;
  for (uint32_t i = 0; i < TN_COUNT(tokens); i++) tokens[i] = stream_token(p->streams[at], i);
  tn_ledger_clear(&p->ledgers[at]);
  p->hits += tn_ledger_attach(&p->ledgers[at], NULL, tokens, fake_random(&p->random) % TN_COUNT(tokens)) > 0;
  p->ledgers[at].landmark = 32 * (fake_random(&p->random) % 8);
}

/* Rows of all ledgers in one step, which may fail, be dropped in part, or find no pages. */
static void play_step(playground *p) {
  int32_t tokens[PLAYERS][16];
  uint32_t entries[PLAYERS], counts[PLAYERS] = {0};
  tn_error error;
  tn_step *step = &p->context.step;
  tn_step_begin(step);
  for (uint32_t i = 0; i < PLAYERS; i++) {
    tn_ledger *ledger = &p->ledgers[i];
    uint32_t count = fake_random(&p->random) % 14;
    if (count > 600 - ledger->length) count = 600 - ledger->length;
    uint32_t room = tn_ledger_next_snapshot(ledger, ledger->length) - ledger->length;
    if (count > room) count = room;
    for (uint32_t r = 0; r < count; r++) tokens[i][r] = stream_token(p->streams[i], ledger->length + r);
    if (!count) continue;
    tn_status status = tn_step_add(step, ledger, tokens[i], count, count - 1, &entries[i], &error);
    if (status == TN_OK) counts[i] = count;
    p->full += status == TN_E_MEMORY;
    assert_true(status == TN_OK || status == TN_E_MEMORY || status == TN_E_INTERNAL);
  }
  if (fake_random(&p->random) % 10 == 0)
    p->runner->faults = (fake_faults){.fail_step = p->runner->submits + 1, .step_status = TN_E_INTERNAL};
  if (fake_random(&p->random) % 10 == 0) p->runner->faults.fail_copy = p->runner->copies + 1;
  if (tn_step_run(step, &error) != TN_OK) {
    p->faults++;
    return;
  }
  for (uint32_t i = 0; i < PLAYERS; i++) {
    tn_ledger *ledger = &p->ledgers[i];
    float expected[FAKE_VOCABULARY];
    int32_t all[640];
    if (!counts[i]) continue;
    memcpy(all, ledger->tokens, ledger->length * sizeof *all);
    memcpy(all + ledger->length, tokens[i], counts[i] * sizeof *all);
    fake_expected(p->config, all, ledger->length + counts[i], expected);
    assert_memory_equal(tn_step_logits(step, entries[i], counts[i] - 1), expected, sizeof expected);
    tn_step_commit_part(step, entries[i],
                        fake_random(&p->random) % 4 ? counts[i] : fake_random(&p->random) % counts[i]);
  }
}

static void play(playground *p) {
  uint32_t at = fake_random(&p->random) % PLAYERS, other = fake_random(&p->random) % PLAYERS;
  switch (fake_random(&p->random) % 16) {
    case 0: play_begin(p, at); break;
    case 1: tn_ledger_clear(&p->ledgers[at]); break;
    case 2:
      if (at == other) break;
      tn_ledger_clear(&p->ledgers[at]);
      tn_ledger_fork(&p->ledgers[other], &p->ledgers[at]);
      p->streams[at] = 100 + fake_random(&p->random) % 2;
      p->forks++;
      break;
    case 3: /* whatever is refused changes nothing */
      tn_ledger_truncate(&p->ledgers[at], fake_random(&p->random) % (p->ledgers[at].length + 1), NULL);
      break;
    default: play_step(p);
  }
}

/* Ten thousand random moves: sequences begin, go on, fork, go back, end; steps fail and pools are full. After each the
 * accounts are right, and all logits are those of the tokens. */
static void random_moves_keep_the_accounts(void **state) {
  (void)state;
  const fake_config *const configs[] = {&PLAIN, &WINDOWED, &HYBRID};
  for (uint32_t run_number = 0; run_number < 9; run_number++) {
    fake_config config = *configs[run_number % 3];
    config.pages = run_number < 6 ? 24 : 200;
    if (config.state_slots) config.state_slots = 10 + run_number; /* the least, and up */
    playground p = {.config = &config, .runner = fake_create(&config), .random = run_number};
    assert_int_equal(tn_context_init(&p.context, p.runner, NULL, NULL), TN_OK);
    for (uint32_t i = 0; i < PLAYERS; i++)
      assert_int_equal(tn_ledger_init(&p.ledgers[i], &p.context.kv, 600, NULL), TN_OK);
    tn_ledger_finish(&p.context.ledger);
    for (uint32_t move = 0; move < 1200; move++) {
      play(&p);
      check_accounting(&p.context.kv, p.ledgers, PLAYERS);
    }
    assert_true(p.hits > 0 && p.forks > 0 && p.faults > 0 && (p.full > 0 || config.pages > 24));
    for (uint32_t i = 0; i < PLAYERS; i++) tn_ledger_finish(&p.ledgers[i]);
    for (uint32_t g = 0; g < config.group_count; g++)
      assert_int_equal(tn_pages_free(p.context.kv.pages, g) + tn_pages_cached(p.context.kv.pages, g), config.pages);
    tn_context_finish(&p.context);
    tn_runner_destroy(p.runner);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_give_the_same_rows),
      cmocka_unit_test(dropped_rows_leave_no_trace),
      cmocka_unit_test(forks_copy_on_write),
      cmocka_unit_test(failed_copy_changes_nothing),
      cmocka_unit_test(full_pool_reserves_nothing),
      cmocka_unit_test(collisions_serve_nobody_elses_pages),
      cmocka_unit_test(oldest_unused_goes_first),
      cmocka_unit_test(hits_need_the_window_too),
      cmocka_unit_test(few_window_pages_keep_the_ends),
      cmocka_unit_test(least_window_pages_serve_one),
      cmocka_unit_test(states_go_back_to_snapshots),
      cmocka_unit_test(random_moves_keep_the_accounts),
      cmocka_unit_test(long_sequences_leave_snapshots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
