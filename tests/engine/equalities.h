/* Equalities of logits, compared as bytes, on a runner with a real model: however a sequence's rows are spread over
 * steps, and whatever runs beside them, they are the rows of the sequence run alone, one row at a time. */
#ifndef TESTS_ENGINE_EQUALITIES_H
#define TESTS_ENGINE_EQUALITIES_H

#include <stdlib.h>
#include <string.h>

#include "engine/context.h"

typedef struct equal_rows {
  uint32_t vocabulary, first, next; /* next: the position expected */
  float *logits;                    /* [rows, vocabulary] of the positions from `first` on */
} equal_rows;

static tn_status equal_store(void *user, uint32_t position, const float *logits, tn_error *error) {
  (void)error;
  equal_rows *rows = user;
  assert_int_equal(position, rows->next++);
  memcpy(rows->logits + (size_t)(position - rows->first) * rows->vocabulary, logits, rows->vocabulary * sizeof *logits);
  return TN_OK;
}

static void equal_ok(tn_status status, const tn_error *error) {
  if (status != TN_OK) fail_msg("%s", error->message);
}

/* Logits of the tokens from `first` on, run in steps of `chunk` rows; free() them. */
static float *equal_run(tn_runner *runner, const int32_t *tokens, uint32_t count, uint32_t chunk, uint32_t first) {
  tn_error error;
  tn_context context;
  const tn_kv_options no_cache = {false, UINT64_MAX};
  equal_ok(tn_context_init(&context, runner, &no_cache, &error), &error);
  equal_rows rows = {context.kv.info.vocabulary, first, first, NULL};
  rows.logits = malloc((size_t)(count - first) * rows.vocabulary * sizeof(float));
  equal_ok(tn_context_feed(&context, tokens, count, chunk, first, equal_store, &rows, &error), &error);
  assert_int_equal(rows.next, count);
  tn_context_finish(&context);
  return rows.logits;
}

static void equal_compare(const float *got, const float *wanted, uint32_t vocabulary, const char *what,
                          uint32_t position) {
  if (memcmp(got, wanted, vocabulary * sizeof *got) == 0) return;
  for (uint32_t v = 0; v < vocabulary; v++)
    if (memcmp(&got[v], &wanted[v], sizeof *got))
      fail_msg("%s: position %u, token %u: %.9g, alone %.9g", what, position, v, (double)got[v], (double)wanted[v]);
}

/* Prefill in chunks. `alone`: all rows, one at a time. */
static void equal_chunks(tn_runner *runner, const int32_t *tokens, uint32_t count, const float *alone) {
  static const uint32_t chunks[] = {1, 7, 32, 512};
  uint32_t vocabulary = tn_runner_describe(runner)->vocabulary;
  for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
    /* with logits from everywhere, and with silent rows in front (which are not cut at the most logits rows) */
    for (uint32_t first = 0; first < count; first += count - 3) {
      float *rows = equal_run(runner, tokens, count, chunks[c], first);
      for (uint32_t i = first; i < count; i++)
        equal_compare(rows + (size_t)(i - first) * vocabulary, alone + (size_t)i * vocabulary, vocabulary, "chunks", i);
      free(rows);
    }
  }
}

#define EQUAL_NEIGHBOURS 7u

/* One sequence with seven neighbours that join, run and leave at random; every row of each is checked: the token stream
 * of a neighbour is the same one from its beginning, so `alone` holds its rows too. */
static void equal_batch(tn_runner *runner, const int32_t *tokens, uint32_t count, const float *alone) {
  tn_error error;
  tn_context context;
  equal_ok(tn_context_init(&context, runner, &(tn_kv_options){false, UINT64_MAX}, &error), &error);
  uint32_t vocabulary = context.kv.info.vocabulary, entries[EQUAL_NEIGHBOURS + 1], rows[EQUAL_NEIGHBOURS + 1];
  tn_ledger ledgers[EQUAL_NEIGHBOURS + 1];
  for (uint32_t i = 0; i <= EQUAL_NEIGHBOURS; i++)
    equal_ok(tn_ledger_init(&ledgers[i], &context.kv, count, &error), &error);
  uint64_t random = 77;
  while (ledgers[0].length < count) {
    tn_step_begin(&context.step);
    for (uint32_t i = 0; i <= EQUAL_NEIGHBOURS; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      uint32_t draw = (uint32_t)(random >> 33);
      if (i > 0 && (draw % 11 == 0 || ledgers[i].length == count)) tn_ledger_clear(&ledgers[i]); /* it leaves */
      rows[i] = i > 0 && draw % 5 == 0 ? 0 : 1 + draw / 16 % (i == 0 ? 4 : 8);
      if (rows[i] > count - ledgers[i].length) rows[i] = count - ledgers[i].length;
      if (rows[i])
        equal_ok(tn_step_add(&context.step, &ledgers[i], tokens + ledgers[i].length, rows[i], 0, &entries[i], &error),
                 &error);
    }
    equal_ok(tn_step_run(&context.step, &error), &error);
    for (uint32_t i = 0; i <= EQUAL_NEIGHBOURS; i++) {
      for (uint32_t r = 0; r < rows[i]; r++)
        equal_compare(tn_step_logits(&context.step, entries[i], r),
                      alone + (size_t)(ledgers[i].length + r) * vocabulary, vocabulary, "batch", ledgers[i].length + r);
      if (rows[i]) tn_step_commit(&context.step, entries[i]);
    }
  }
  for (uint32_t i = 0; i <= EQUAL_NEIGHBOURS; i++) tn_ledger_finish(&ledgers[i]);
  tn_context_finish(&context);
}

/* Behind a prefix found in the cache; how many rows were skipped is asserted. */
static void equal_prefix(tn_runner *runner, const int32_t *tokens, uint32_t count, const float *alone) {
  tn_error error;
  tn_context context;
  equal_ok(tn_context_init(&context, runner, NULL, &error), &error);
  uint32_t vocabulary = context.kv.info.vocabulary;
  context.ledger.landmark = (count - 1) / TN_PAGE_SLOTS * TN_PAGE_SLOTS;
  equal_ok(tn_context_feed(&context, tokens, count, 9, count, NULL, NULL, &error), &error);
  tn_ledger_clear(&context.ledger);
  uint32_t skipped = tn_ledger_attach(&context.ledger, NULL, tokens, count);
  assert_true(skipped > 0 && skipped == (count - 1) / TN_PAGE_SLOTS * TN_PAGE_SLOTS);
  equal_rows rows = {vocabulary, skipped, skipped, malloc((size_t)(count - skipped) * vocabulary * sizeof(float))};
  equal_ok(tn_context_feed(&context, tokens + skipped, count - skipped, 5, 0, equal_store, &rows, &error), &error);
  for (uint32_t i = skipped; i < count; i++)
    equal_compare(rows.logits + (size_t)(i - skipped) * vocabulary, alone + (size_t)i * vocabulary, vocabulary,
                  "prefix", i);
  free(rows.logits);
  tn_context_finish(&context);
}

/* k + 1 rows in one step of which the last j are dropped again (wrong drafts), and forks that write different ends. */
static void equal_drafts(tn_runner *runner, const int32_t *tokens, uint32_t count, const float *alone) {
  tn_error error;
  tn_context context;
  equal_ok(tn_context_init(&context, runner, NULL, &error), &error);
  uint32_t vocabulary = context.kv.info.vocabulary;
  tn_ledger fork;
  equal_ok(tn_ledger_init(&fork, &context.kv, count + 8, &error), &error);
  for (uint32_t round = 0; context.ledger.length < count; round++) {
    tn_ledger *ledger = &context.ledger;
    uint32_t at = ledger->length, rows = 1 + round % 5, keep = 1 + round % 3, entry;
    if (keep > rows) keep = rows;
    if (keep > count - at) keep = count - at;
    int32_t drafts[8];
    for (uint32_t i = 0; i < rows; i++) drafts[i] = i < keep ? tokens[at + i] : (tokens[0] + (int32_t)i);
    if (round % 7 == 3 && at > 0) { /* somebody else goes on from here with other tokens */
      tn_ledger_fork(ledger, &fork);
      tn_step_begin(&context.step);
      equal_ok(tn_step_add(&context.step, &fork, tokens, 3, 3, &entry, &error), &error);
      equal_ok(tn_step_run(&context.step, &error), &error);
      tn_step_commit(&context.step, entry);
    }
    tn_step_begin(&context.step);
    equal_ok(tn_step_add(&context.step, ledger, drafts, rows, 0, &entry, &error), &error);
    equal_ok(tn_step_run(&context.step, &error), &error);
    for (uint32_t i = 0; i < keep; i++)
      equal_compare(tn_step_logits(&context.step, entry, i), alone + (size_t)(at + i) * vocabulary, vocabulary,
                    "drafts", at + i);
    tn_step_commit_part(&context.step, entry, keep);
    tn_ledger_clear(&fork);
  }
  tn_ledger_finish(&fork);
  tn_context_finish(&context);
}

/* All of them; gives the rows run alone, which the caller frees. */
static inline float *equal_all(tn_runner *runner, const int32_t *tokens, uint32_t count) {
  float *alone = equal_run(runner, tokens, count, 1, 0);
  equal_chunks(runner, tokens, count, alone);
  equal_batch(runner, tokens, count, alone);
  equal_prefix(runner, tokens, count, alone);
  equal_drafts(runner, tokens, count, alone);
  return alone;
}

#endif
