/* Counts every page's and node's holders anew and compares with what the pool and the cache say. */
#ifndef TESTS_ENGINE_ACCOUNTING_H
#define TESTS_ENGINE_ACCOUNTING_H

#include "engine/ledger.h"

/* Each ledger holds two slots of recurrent states, each snapshot one, and only what ledgers read can be shared. */
static void check_states(const tn_kv *kv, const tn_ledger *ledgers, uint32_t ledger_count) {
  if (!kv->states) return;
  uint32_t total = tn_states_total(kv->states), free_slots = 0, cached = 0;
  uint32_t *held = calloc(total, sizeof *held);
  for (uint32_t l = 0; l < ledger_count; l++) {
    assert_int_equal(tn_states_references(kv->states, ledgers[l].state_write), 1);
    held[ledgers[l].state_read]++;
    held[ledgers[l].state_write]++;
  }
  for (uint32_t n = 0; kv->prefix && n < tn_prefix_capacity(kv->prefix); n++) {
    if (tn_prefix_state(kv->prefix, n) == TN_NO_STATE) continue;
    held[tn_prefix_state(kv->prefix, n)]++;
    cached++;
  }
  for (uint32_t s = 0; s < total; s++) {
    assert_int_equal(tn_states_references(kv->states, s), held[s]);
    free_slots += held[s] == 0;
  }
  assert_int_equal(free_slots, tn_states_free(kv->states));
  assert_int_equal(cached, tn_states_cached(kv->states));
  free(held);
}

static void check_accounting(const tn_kv *kv, const tn_ledger *ledgers, uint32_t ledger_count) {
  for (uint32_t g = 0; g < tn_pages_groups(kv->pages); g++) {
    uint32_t total = tn_pages_total(kv->pages, g);
    uint32_t *held = calloc(total, sizeof *held);
    for (uint32_t l = 0; l < ledger_count; l++) {
      assert_true(ledgers[l].page_count == tn_pages_of(ledgers[l].length + ledgers[l].in_flight));
      for (uint32_t i = 0; i < ledgers[l].page_count; i++) {
        uint32_t page = ledgers[l].tables[g][i];
        assert_true((page == TN_NO_PAGE) == (i < ledgers[l].freed[g]));
        if (page != TN_NO_PAGE) held[page]++;
      }
    }
    uint32_t free_pages = 0, cached = 0;
    for (uint32_t page = 0; page < total; page++) {
      bool is_cached = tn_pages_is_cached(kv->pages, g, page);
      assert_int_equal(tn_pages_references(kv->pages, g, page), held[page] + is_cached);
      free_pages += held[page] == 0 && !is_cached;
      cached += held[page] == 0 && is_cached;
    }
    assert_int_equal(free_pages, tn_pages_free(kv->pages, g));
    assert_int_equal(cached, tn_pages_cached(kv->pages, g));
    free(held);
  }
  check_states(kv, ledgers, ledger_count);
  if (!kv->prefix) return;
  uint32_t *users = calloc(tn_prefix_capacity(kv->prefix), sizeof *users);
  for (uint32_t l = 0; l < ledger_count; l++)
    for (uint32_t i = 0; i < ledgers[l].published; i++) users[ledgers[l].nodes[i]]++;
  for (uint32_t n = 0; n < tn_prefix_capacity(kv->prefix); n++)
    assert_int_equal(users[n], tn_prefix_users(kv->prefix, n));
  free(users);
}

#endif
