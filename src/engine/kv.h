/* The KV memory of one runner: its page pool and its prefix cache, and how much fits into them. All ledgers (ledger.h)
 * over the same runner share one tn_kv; one thread uses it. */
#ifndef TENON_ENGINE_KV_H
#define TENON_ENGINE_KV_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/pages.h"
#include "engine/prefix.h"
#include "engine/runner.h"

/* A snapshot of recurrent states is kept at least every so many tokens. */
#define TN_SNAPSHOT_TOKENS 2048u

/* Slots kept behind a window although no later row can see them, so that a ledger can be shortened by up to this many
 * tokens (drafted tokens that were rejected). */
#define TN_WINDOW_MARGIN TN_PAGE_SLOTS

typedef struct tn_kv {
  tn_runner *runner;
  tn_runner_info info; /* a copy: the runner may lose its own with the device */
  tn_pages *pages;
  tn_states *states; /* NULL: the model has no recurrent states */
  tn_prefix *prefix; /* NULL: no prefix cache */
} tn_kv;

typedef struct tn_kv_options {
  bool prefix_cache;
  uint64_t hash_mask; /* of the prefix cache; see tn_prefix_create */
} tn_kv_options;
#define TN_KV_OPTIONS \
  { true, UINT64_MAX }

/* `runner` must outlive it. `options` NULL: the defaults. A device with contiguous KV has no prefix cache. */
tn_status tn_kv_init(tn_kv *kv, tn_runner *runner, const tn_kv_options *options, tn_error *error);
/* All ledgers must be gone or empty. */
void tn_kv_finish(tn_kv *kv);

/* A page of `group`, taken from the free ones or from the cache; TN_NO_PAGE when sequences hold every page. */
uint32_t tn_kv_take_page(tn_kv *kv, uint32_t group);

/* A slot of a recurrent state, free or of a snapshot that is given up for it; TN_NO_STATE when ledgers hold all. */
uint32_t tn_kv_take_state(tn_kv *kv);

/* The most pages that a sequence holds of a group with a window: those of the window and its margin before a step of
 * `rows` rows, cut by page bounds at both ends. */
static inline uint32_t tn_kv_window_pages(uint32_t window, uint32_t rows) {
  return (uint32_t)(((uint64_t)window + TN_WINDOW_MARGIN + rows + 2 * TN_PAGE_SLOTS) / TN_PAGE_SLOTS);
}

/* The most pages of `group` that a sequence of `tokens` tokens holds at any time. */
uint32_t tn_kv_pages_for(const tn_kv *kv, uint32_t group, uint32_t tokens);
/* The longest sequence that fits when it is alone: the one limit that everybody uses. At most the runner's context. */
uint32_t tn_kv_capacity(const tn_kv *kv);
/* Could a sequence of `tokens` tokens that shares its first `shared` pages have all its pages now, and `spare` more,
 * without taking any from a sequence? */
bool tn_kv_fits(const tn_kv *kv, uint32_t tokens, uint32_t shared, uint32_t spare);

/* The page in which the first slot lies that a row at `position` sees in a group with `window` (0: no window). */
uint32_t tn_kv_first_page(uint32_t window, uint32_t position);

#endif
