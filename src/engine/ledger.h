/* The ledger of a sequence: the tokens whose KV is present, and the pages that hold it.
 *
 * A step reserves slots for its rows (tn_ledger_reserve), the device fills them, and the ledger then either
 * commits the rows' tokens or rolls back; nothing else makes it grow. Full pages are published to the prefix
 * cache on commit. Pages are shared with other ledgers (attach, fork) and copied before a shared one is written.
 * Nothing is allocated after tn_ledger_init. */
#ifndef TENON_ENGINE_LEDGER_H
#define TENON_ENGINE_LEDGER_H

#include <stdint.h>
#include "engine/kv.h"
#include "engine/salt.h"

typedef struct tn_ledger {
  tn_kv *kv;
  tn_salt *salt;
  int32_t *tokens; /* [capacity] */
  uint32_t length; /* tokens whose KV is present */
  uint32_t capacity;
  uint32_t in_flight;              /* rows behind `length` that steps in flight are filling (step.h) */
  uint32_t *tables[TN_MAX_GROUPS]; /* page numbers; TN_NO_PAGE behind a window */
  uint32_t page_count;             /* entries of each table: the pages of `length`, of rows in flight, and reserved */
  uint32_t freed[TN_MAX_GROUPS];   /* entries below this are TN_NO_PAGE */
  uint32_t *nodes;                 /* the path in the prefix cache, one node a published page */
  uint32_t published;
  uint32_t state_read, state_write; /* slots of recurrent states: of the tokens present, and of the step to come */
  uint32_t landmark;                /* a length at which a snapshot is to be kept; set by the owner */
  uint32_t passing;                 /* 1 + entry of the snapshot that the next one replaces; 0: none */
} tn_ledger;

/* An empty ledger for at most `capacity` tokens. `kv` must outlive it. Where the model has recurrent states, the ledger
 * has two slots of them; TN_E_LIMIT when there are none left. */
tn_status tn_ledger_init(tn_ledger *ledger, tn_kv *kv, uint32_t capacity, tn_error *error);
void tn_ledger_finish(tn_ledger *ledger);
/* Lets go of all pages; those published stay in the cache. */
void tn_ledger_clear(tn_ledger *ledger);

/* Begins an empty ledger with what the cache holds of `tokens` under `salt` (NULL allowed; a reference is taken).
 * At most count - 1 tokens, as the last one must be executed to give logits. Returns how many: a multiple of
 * TN_PAGE_SLOTS, already in the ledger. */
uint32_t tn_ledger_attach(tn_ledger *ledger, tn_salt *salt, const int32_t *tokens, uint32_t count);
/* Makes the empty ledger `to` a copy of `from`, sharing its pages and its recurrent state. Not on contiguous KV. */
void tn_ledger_fork(const tn_ledger *from, tn_ledger *to);

/* Makes sure that the next `rows` slots behind `length` and the rows in flight have pages of their own. On failure the
 * ledger is as before.
 * TN_E_MEMORY: no page left; TN_E_LIMIT: beyond the capacity; or what copying a shared page gave. */
tn_status tn_ledger_reserve(tn_ledger *ledger, uint32_t rows, tn_error *error);
/* The device has filled the slots of `count` tokens, at most as many as were reserved. Pages reserved beyond,
 * and beyond rows that are still in flight, are given back. */
void tn_ledger_commit(tn_ledger *ledger, const int32_t *tokens, uint32_t count);
/* The step's recurrent states are now those of the tokens present: with a commit of all its rows. Where they end with a
 * page, the cache keeps them as a snapshot: for good at the landmark and every TN_SNAPSHOT_TOKENS, elsewhere until the
 * next one. */
void tn_ledger_keep_states(tn_ledger *ledger);
/* The length above `length` at which the ledger will keep a snapshot for good; UINT32_MAX without recurrent states.
 * Steps must not run past it. */
uint32_t tn_ledger_next_snapshot(const tn_ledger *ledger, uint32_t length);
/* Gives reserved pages back, but for those of rows in flight. */
void tn_ledger_rollback(tn_ledger *ledger);

/* Drops the tokens from `length` on; of a model with recurrent states all, none, or those behind a snapshot. TN_E_LIMIT
 * when there is none, or when a window would need
 * pages that are gone already: always possible are 0, and what lies at most TN_WINDOW_MARGIN below the longest that the
 * ledger was. */
tn_status tn_ledger_truncate(tn_ledger *ledger, uint32_t length, tn_error *error);

#endif
