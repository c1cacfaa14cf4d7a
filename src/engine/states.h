/* The slots of recurrent states: who holds them. What a slot contains is the device's affair.
 *
 * A ledger holds two: the state at its length, and where the next step leaves its own. The prefix cache holds
 * snapshots: states at the ends of its nodes. A snapshot is no copy: the ledger that wrote it lets the cache have the
 * slot as well, and writes elsewhere. Snapshots that no ledger reads go when a slot is needed, the one used longest ago
 * first. Nothing is allocated after tn_states_create. */
#ifndef TENON_ENGINE_STATES_H
#define TENON_ENGINE_STATES_H

#include <stdbool.h>
#include <stdint.h>
#include "tenon/status.h"

#define TN_NO_STATE UINT32_MAX

typedef struct tn_states tn_states;

/* `count` slots, all free. */
tn_status tn_states_create(uint32_t count, tn_states **states, tn_error *error);
void tn_states_destroy(tn_states *states); /* NULL is allowed */

/* A free slot with one reference, or TN_NO_STATE. */
uint32_t tn_states_take(tn_states *states);
void tn_states_hold(tn_states *states, uint32_t slot);
/* One reference less; the last one frees the slot. */
void tn_states_release(tn_states *states, uint32_t slot);
uint32_t tn_states_references(const tn_states *states, uint32_t slot);

/* The cache's own reference to a slot that a ledger holds, for its node `node`; at most one a slot. */
void tn_states_cache(tn_states *states, uint32_t slot, uint32_t node);
void tn_states_uncache(tn_states *states, uint32_t slot);
/* A snapshot was used. */
void tn_states_touch(tn_states *states, uint32_t slot);
/* The snapshot that only the cache holds and that was used longest ago, or TN_NO_STATE; *node: whose it is. */
uint32_t tn_states_oldest(const tn_states *states, uint32_t *node);

uint32_t tn_states_total(const tn_states *states);
uint32_t tn_states_free(const tn_states *states);
uint32_t tn_states_cached(const tn_states *states); /* snapshots */

#endif
