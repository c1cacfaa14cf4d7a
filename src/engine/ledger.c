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
  *ledger = (tn_ledger){.kv = kv, .capacity = capacity, .state_read = TN_NO_STATE, .state_write = TN_NO_STATE};
  uint32_t pages = tn_pages_of(capacity);
  ledger->tokens = tn_calloc(capacity, sizeof *ledger->tokens);
  ledger->nodes = tn_calloc(pages, sizeof *ledger->nodes);
  bool complete = ledger->tokens && ledger->nodes;
  for (uint32_t g = 0; g < group_count(ledger); g++) {
    ledger->tables[g] = tn_calloc(pages, sizeof *ledger->tables[g]);
    complete = complete && ledger->tables[g];
  }
  if (complete && kv->states) {
    ledger->state_read = tn_kv_take_state(kv);
    ledger->state_write = tn_kv_take_state(kv);
    if (ledger->state_write == TN_NO_STATE) {
      tn_ledger_finish(ledger);
      return tn_fail(error, TN_E_LIMIT, "no recurrent state left: the runner has %u slots", kv->info.state_slots);
    }
  }
  if (complete) return TN_OK;
  tn_ledger_finish(ledger);
  return tn_fail(error, TN_E_MEMORY, "no memory for the ledger of a sequence of %u tokens", capacity);
}

void tn_ledger_finish(tn_ledger *ledger) {
  if (!ledger->kv) return;
  tn_ledger_clear(ledger);
  if (ledger->state_read != TN_NO_STATE) tn_states_release(ledger->kv->states, ledger->state_read);
  if (ledger->state_write != TN_NO_STATE) tn_states_release(ledger->kv->states, ledger->state_write);
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

/* The state of the tokens present is that in `slot`, which others hold too. */
static void share_state(tn_ledger *ledger, uint32_t slot) {
  tn_states_hold(ledger->kv->states, slot);
  tn_states_release(ledger->kv->states, ledger->state_read);
  ledger->state_read = slot;
}

/* Lets go of a snapshot that it reads; there is always a slot instead, as no other ledger holds more than two. */
static void leave_snapshot(tn_ledger *ledger) {
  tn_states *states = ledger->kv->states;
  if (!states || ledger->state_read == TN_NO_STATE || tn_states_references(states, ledger->state_read) == 1) return;
  tn_states_release(states, ledger->state_read);
  ledger->state_read = tn_kv_take_state(ledger->kv);
  assert(ledger->state_read != TN_NO_STATE);
}

void tn_ledger_clear(tn_ledger *ledger) {
  assert(!ledger->in_flight);
  drop_entries(ledger, 0);
  leave_snapshot(ledger);
  ledger->length = 0;
  ledger->landmark = ledger->passing = 0;
  tn_salt_release(ledger->salt);
  ledger->salt = NULL;
}

/* ---- sharing ---- */

/* Is everything there that a row behind the first `count` nodes of the path sees? */
static bool path_is_complete(const tn_ledger *ledger, uint32_t count) {
  if (ledger->kv->states && tn_prefix_state(ledger->kv->prefix, ledger->nodes[count - 1]) == TN_NO_STATE) return false;
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
  if (found && ledger->kv->states) {
    share_state(ledger, tn_prefix_state(prefix, ledger->nodes[found - 1]));
    tn_states_touch(ledger->kv->states, ledger->state_read);
  }
  ledger->published = ledger->page_count = found;
  ledger->length = found * TN_PAGE_SLOTS;
  memcpy(ledger->tokens, tokens, ledger->length * sizeof *tokens);
  return ledger->length;
}

void tn_ledger_fork(const tn_ledger *from, tn_ledger *to) {
  assert(from->kv == to->kv && to->length == 0 && to->page_count == 0 && to->capacity >= from->length);
  assert(!from->in_flight && from->page_count == tn_pages_of(from->length));
  tn_salt *salt = tn_salt_hold(from->salt);
  tn_salt_release(to->salt);
  to->salt = salt;
  if (from->kv->states && from->length) share_state(to, from->state_read);
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
  uint32_t end = ledger->length + ledger->in_flight;
  assert(ledger->page_count == tn_pages_of(end));
  if (rows > ledger->capacity - end)
    return tn_fail(error, TN_E_LIMIT, "%u tokens behind %u don't fit into a context of %u", rows, end,
                   ledger->capacity);
  tn_status status = ledger->in_flight ? TN_OK : own_last_page(ledger, error);
  if (status != TN_OK) return status;
  uint32_t wanted = tn_pages_of(end + rows);
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
  drop_entries(ledger, tn_pages_of(ledger->length + ledger->in_flight));
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
  drop_entries(ledger, tn_pages_of(ledger->length + ledger->in_flight));
  publish_full_pages(ledger);
  free_behind_windows(ledger);
}

uint32_t tn_ledger_next_snapshot(const tn_ledger *ledger, uint32_t length) {
  if (!ledger->kv->states || !ledger->kv->prefix) return UINT32_MAX;
  uint32_t next = (length / TN_SNAPSHOT_TOKENS + 1) * TN_SNAPSHOT_TOKENS;
  return ledger->landmark > length && ledger->landmark < next ? ledger->landmark : next;
}

/* Lets the cache have the state of the tokens present, if they end with a page that it has. */
static void keep_snapshot(tn_ledger *ledger) {
  tn_prefix *prefix = ledger->kv->prefix;
  if (!prefix || ledger->length % TN_PAGE_SLOTS || ledger->published * TN_PAGE_SLOTS != ledger->length) return;
  if (ledger->passing) tn_prefix_drop_state(prefix, ledger->nodes[ledger->passing - 1]);
  ledger->passing = 0;
  bool is_new = tn_prefix_keep_state(prefix, ledger->nodes[ledger->published - 1], ledger->state_read);
  bool stays = ledger->length == ledger->landmark || ledger->length % TN_SNAPSHOT_TOKENS == 0;
  if (is_new && !stays) ledger->passing = ledger->published;
}

void tn_ledger_keep_states(tn_ledger *ledger) {
  tn_states *states = ledger->kv->states;
  if (!states) return;
  uint32_t before = ledger->state_read;
  ledger->state_read = ledger->state_write;
  ledger->state_write = before;
  if (tn_states_references(states, before) > 1) {
    tn_states_release(states, before);
    ledger->state_write = tn_kv_take_state(ledger->kv);
    assert(ledger->state_write != TN_NO_STATE);
  }
  keep_snapshot(ledger);
}

/* The snapshot at `length`, or TN_NO_STATE. */
static uint32_t snapshot_at(const tn_ledger *ledger, uint32_t length) {
  bool is_published = length % TN_PAGE_SLOTS == 0 && length / TN_PAGE_SLOTS <= ledger->published;
  return is_published ? tn_prefix_state(ledger->kv->prefix, ledger->nodes[length / TN_PAGE_SLOTS - 1]) : TN_NO_STATE;
}

tn_status tn_ledger_truncate(tn_ledger *ledger, uint32_t length, tn_error *error) {
  assert(length <= ledger->length && !ledger->in_flight);
  bool goes_back = ledger->kv->states && length > 0 && length < ledger->length;
  if (goes_back && snapshot_at(ledger, length) == TN_NO_STATE)
    return tn_fail(error, TN_E_LIMIT, "can't go back from %u to %u tokens: the recurrent state has gone on",
                   ledger->length, length);
  for (uint32_t g = 0; g < group_count(ledger) && length > 0; g++)
    if (tn_kv_first_page(ledger->kv->info.groups[g].window, length) < ledger->freed[g])
      return tn_fail(error, TN_E_LIMIT, "can't go back from %u to %u tokens: the window's pages are gone",
                     ledger->length, length);
  if (goes_back) share_state(ledger, snapshot_at(ledger, length));
  if (ledger->passing * TN_PAGE_SLOTS > length) ledger->passing = 0;
  ledger->length = length;
  drop_entries(ledger, tn_pages_of(length));
  if (ledger->published > length / TN_PAGE_SLOTS) {
    ledger->published--;
    tn_prefix_unuse(ledger->kv->prefix, ledger->nodes[ledger->published]);
  }
  return TN_OK;
}
