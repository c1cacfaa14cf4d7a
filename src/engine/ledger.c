#include "engine/ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

static uint32_t group_count(const tn_ledger *ledger) {
  return ledger->kv->info.group_count;
}

tn_status tn_ledger_init(tn_ledger *ledger, tn_kv *kv, uint32_t capacity, tn_error *error) {
  *ledger = (tn_ledger){.kv = kv, .capacity = capacity};
  uint32_t pages = tn_pages_of(capacity);
  ledger->tokens = tn_calloc(capacity, sizeof *ledger->tokens);
  ledger->nodes = tn_calloc(pages, sizeof *ledger->nodes);
  bool complete = ledger->tokens && ledger->nodes;
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    ledger->tables[g] = tn_calloc(pages, sizeof *ledger->tables[g]);
    complete = complete && ledger->tables[g];
  }
  if (complete && kv->info.state_slots) {
    if (kv->info.state_slots - kv->states_given < 2) {
      tn_ledger_finish(ledger);
      return tn_fail(error, TN_E_LIMIT, "no recurrent state left: the runner has %u slots", kv->info.state_slots);
    }
    ledger->state_read = kv->states_given++;
    ledger->state_write = kv->states_given++;
  }
  if (complete) return TN_OK;
  tn_ledger_finish(ledger);
  return tn_fail(error, TN_E_MEMORY, "no memory for the ledger of a sequence of %u tokens", capacity);
}

void tn_ledger_finish(tn_ledger *ledger) {
  if (!ledger->kv) return;
  tn_ledger_clear(ledger);
  for (uint32_t g = 0; g < group_count(ledger); g++) free(ledger->tables[g]);
  free(ledger->tokens);
  free(ledger->nodes);
  *ledger = (tn_ledger){0};
}

/* Lets go of the pages and nodes from entry `keep` on, the last first (see prefix.h). */
static void drop_entries(tn_ledger *ledger, uint32_t keep) {
  for (; ledger->published > keep; ledger->published--)
    tn_prefix_unuse(ledger->kv->prefix, ledger->nodes[ledger->published - 1]);
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    for (uint32_t i = ledger->page_count; i > keep && i > ledger->freed[g]; i--)
      tn_pages_release(ledger->kv->pages, g, ledger->tables[g][i - 1]);
    if (ledger->freed[g] > keep) ledger->freed[g] = keep;
  }
  if (ledger->page_count > keep) ledger->page_count = keep;
}

void tn_ledger_clear(tn_ledger *ledger) {
  drop_entries(ledger, 0);
  ledger->length = 0;
  tn_salt_release(ledger->salt);
  ledger->salt = NULL;
}

/* ---- sharing ---- */

/* Has every group what a row behind the first `count` nodes of the path sees? */
static bool path_is_complete(const tn_ledger *ledger, uint32_t count) {
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    uint32_t first = tn_kv_first_page(ledger->kv->info.groups[g].window, count * TN_PAGE_SLOTS);
    for (uint32_t i = count; i > first; i--)
      if (tn_prefix_page(ledger->kv->prefix, ledger->nodes[i - 1], g) == TN_NO_PAGE) return false;
  }
  return true;
}

uint32_t tn_ledger_attach(tn_ledger *ledger, tn_salt *salt, const int32_t *tokens, uint32_t count) {
  assert(ledger->length == 0 && ledger->page_count == 0);
  tn_prefix *prefix = ledger->kv->prefix;
  tn_salt_release(ledger->salt);
  ledger->salt = tn_salt_hold(salt);
  if (!prefix || count == 0) return 0;
  uint32_t most = (count - 1) / TN_PAGE_SLOTS, found = 0;
  while (found < most) {
    uint32_t parent = found ? ledger->nodes[found - 1] : TN_NO_NODE;
    uint32_t node = tn_prefix_find(prefix, salt, parent, tokens + (size_t)found * TN_PAGE_SLOTS);
    if (node == TN_NO_NODE) break;
    ledger->nodes[found++] = node;
  }
  while (found && !path_is_complete(ledger, found)) found--;
  for (uint32_t i = 0; i < found; i++) tn_prefix_use(prefix, ledger->nodes[i]);
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    uint32_t first = tn_kv_first_page(ledger->kv->info.groups[g].window, found * TN_PAGE_SLOTS);
    ledger->freed[g] = first;
    for (uint32_t i = 0; i < found; i++) {
      ledger->tables[g][i] = i < first ? TN_NO_PAGE : tn_prefix_page(prefix, ledger->nodes[i], g);
      if (i >= first) tn_pages_hold(ledger->kv->pages, g, ledger->tables[g][i]);
    }
  }
  ledger->published = ledger->page_count = found;
  ledger->length = found * TN_PAGE_SLOTS;
  memcpy(ledger->tokens, tokens, ledger->length * sizeof *tokens);
  return ledger->length;
}

void tn_ledger_fork(const tn_ledger *from, tn_ledger *to) {
  assert(from->kv == to->kv && to->length == 0 && to->page_count == 0 && to->capacity >= from->length);
  assert(from->page_count == tn_pages_of(from->length) && !from->kv->info.state_slots);
  tn_salt *salt = tn_salt_hold(from->salt);
  tn_salt_release(to->salt);
  to->salt = salt;
  to->length = from->length;
  to->page_count = from->page_count;
  to->published = from->published;
  memcpy(to->tokens, from->tokens, from->length * sizeof *from->tokens);
  for (uint32_t i = 0; i < from->published; i++) {
    to->nodes[i] = from->nodes[i];
    tn_prefix_use(to->kv->prefix, to->nodes[i]);
  }
  for (uint32_t g = 0; g < group_count(to); g++) {
    to->freed[g] = from->freed[g];
    for (uint32_t i = 0; i < from->page_count; i++) {
      to->tables[g][i] = from->tables[g][i];
      if (i >= from->freed[g]) tn_pages_hold(to->kv->pages, g, to->tables[g][i]);
    }
  }
}

/* ---- a step's reservation ---- */

/* Replaces the half-filled last page by a copy in every group where somebody else holds it too. */
static tn_status own_last_page(tn_ledger *ledger, tn_error *error) {
  if (ledger->length % TN_PAGE_SLOTS == 0) return TN_OK;
  tn_kv *kv = ledger->kv;
  uint32_t last = ledger->length / TN_PAGE_SLOTS;
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    uint32_t shared = ledger->tables[g][last];
    if (tn_pages_references(kv->pages, g, shared) == 1) continue;
    uint32_t own = tn_kv_take_page(kv, g);
    if (own == TN_NO_PAGE) return tn_fail(error, TN_E_MEMORY, "no KV page left");
    tn_status status = tn_runner_copy_page(kv->runner, g, shared, own, error);
    if (status != TN_OK) {
      tn_pages_release(kv->pages, g, own);
      return status;
    }
    tn_pages_release(kv->pages, g, shared);
    ledger->tables[g][last] = own;
  }
  return TN_OK;
}

tn_status tn_ledger_reserve(tn_ledger *ledger, uint32_t rows, tn_error *error) {
  assert(ledger->page_count == tn_pages_of(ledger->length));
  if (rows > ledger->capacity - ledger->length)
    return tn_fail(error, TN_E_LIMIT, "%u tokens behind %u don't fit into a context of %u", rows, ledger->length,
                   ledger->capacity);
  tn_status status = own_last_page(ledger, error);
  if (status != TN_OK) return status;
  uint32_t wanted = tn_pages_of(ledger->length + rows);
  for (; ledger->page_count < wanted; ledger->page_count++) {
    for (uint32_t g = 0; g < group_count(ledger); g++) {
      uint32_t page = tn_kv_take_page(ledger->kv, g);
      ledger->tables[g][ledger->page_count] = page;
      if (page != TN_NO_PAGE) continue;
      while (g-- > 0) tn_pages_release(ledger->kv->pages, g, ledger->tables[g][ledger->page_count]);
      tn_ledger_rollback(ledger);
      return tn_fail(error, TN_E_MEMORY, "no KV page left");
    }
  }
  return TN_OK;
}

void tn_ledger_rollback(tn_ledger *ledger) {
  drop_entries(ledger, tn_pages_of(ledger->length));
}

/* ---- commit ---- */

/* Takes the pages of a node that another sequence had published before, in place of its own copies of the same KV. */
static void share_node_pages(tn_ledger *ledger, uint32_t entry) {
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    uint32_t page = tn_prefix_page(ledger->kv->prefix, ledger->nodes[entry], g);
    uint32_t *own = &ledger->tables[g][entry];
    if (entry < ledger->freed[g] || page == *own || page == TN_NO_PAGE) continue;
    tn_pages_hold(ledger->kv->pages, g, page);
    tn_pages_release(ledger->kv->pages, g, *own);
    *own = page;
  }
}

static void publish_full_pages(tn_ledger *ledger) {
  if (!ledger->kv->prefix) return;
  while (ledger->published < ledger->length / TN_PAGE_SLOTS) {
    uint32_t entry = ledger->published, numbers[TN_MAX_GROUPS];
    for (uint32_t g = 0; g < group_count(ledger); g++) numbers[g] = ledger->tables[g][entry];
    uint32_t parent = entry ? ledger->nodes[entry - 1] : TN_NO_NODE;
    uint32_t node = tn_prefix_add(ledger->kv->prefix, ledger->salt, parent,
                                  ledger->tokens + (size_t)entry * TN_PAGE_SLOTS, numbers);
    if (node == TN_NO_NODE) return;
    ledger->nodes[entry] = node;
    ledger->published++;
    share_node_pages(ledger, entry);
  }
}

static void free_behind_windows(tn_ledger *ledger) {
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    uint32_t window = ledger->kv->info.groups[g].window;
    if (!window || ledger->length < TN_WINDOW_MARGIN) continue;
    uint32_t first = tn_kv_first_page(window, ledger->length - TN_WINDOW_MARGIN);
    for (; ledger->freed[g] < first; ledger->freed[g]++) {
      uint32_t *page = &ledger->tables[g][ledger->freed[g]];
      tn_pages_release(ledger->kv->pages, g, *page);
      *page = TN_NO_PAGE;
    }
  }
}

void tn_ledger_commit(tn_ledger *ledger, const int32_t *tokens, uint32_t count) {
  assert(tn_pages_of(ledger->length + count) <= ledger->page_count);
  memcpy(ledger->tokens + ledger->length, tokens, count * sizeof *tokens);
  ledger->length += count;
  drop_entries(ledger, tn_pages_of(ledger->length));
  publish_full_pages(ledger);
  free_behind_windows(ledger);
}

void tn_ledger_keep_states(tn_ledger *ledger) {
  uint32_t state = ledger->state_read;
  ledger->state_read = ledger->state_write;
  ledger->state_write = state;
}

tn_status tn_ledger_truncate(tn_ledger *ledger, uint32_t length, tn_error *error) {
  assert(length <= ledger->length);
  if (ledger->kv->info.state_slots && length > 0 && length < ledger->length)
    return tn_fail(error, TN_E_LIMIT, "can't go back from %u to %u tokens: the recurrent state has gone on",
                   ledger->length, length);
  for (uint32_t g = 0; g < group_count(ledger) && length > 0; g++)
    if (tn_kv_first_page(ledger->kv->info.groups[g].window, length) < ledger->freed[g])
      return tn_fail(error, TN_E_LIMIT, "can't go back from %u to %u tokens: the window's pages are gone",
                     ledger->length, length);
  ledger->length = length;
  drop_entries(ledger, tn_pages_of(length));
  if (ledger->published > length / TN_PAGE_SLOTS) {
    ledger->published--;
    tn_prefix_unuse(ledger->kv->prefix, ledger->nodes[ledger->published]);
  }
  return TN_OK;
}
