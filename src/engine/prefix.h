/* The prefix cache: full pages of KV memory found again by the tokens they stand for.
 *
 * It is a forest of nodes. A node is one full page of tokens behind its parent's (TN_NO_NODE: at the start of a
 * sequence, where the salt counts too), and names the page of every group that holds the KV. A lookup goes by a hash
 * over the whole path and then compares parent, tokens and salt themselves, so a collision can't serve another
 * request's KV. The configuration need not be part of the key: a cache belongs to one runner.
 *
 * A node is *used* while a sequence stands on it. Unused nodes stay, with their pages, until someone needs the pages;
 * then the one unused for longest goes first. A sequence lets go of its path from the end to the start, so a node
 * always becomes unused after its children, and the oldest unused node has none.
 *
 *  * Groups with a window have fewer pages than others. A hit needs those of the window before its end alone, and hits
 * end where paths end or part: so the pages of nodes further up than the window reaches from there go first, and the
 * nodes stay, with TN_NO_PAGE for that group. Of a model with recurrent states a node may have a snapshot: the state at
 * its end. Nothing is allocated after tn_prefix_create. */
#ifndef TENON_ENGINE_PREFIX_H
#define TENON_ENGINE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/pages.h"
#include "engine/salt.h"
#include "engine/states.h"
#include "tenon/status.h"

#define TN_NO_NODE UINT32_MAX

typedef struct tn_prefix tn_prefix;

/* A cache over the pages of `pages`, whose groups have windows[g] (0: none), and the slots of `states` (NULL: no
 * snapshots); both must outlive it. `hash_mask`
 * is laid over every hash: UINT64_MAX; tests take fewer bits to get collisions. */
tn_status tn_prefix_create(tn_pages *pages, const uint32_t *windows, tn_states *states, uint64_t hash_mask,
                           tn_prefix **prefix, tn_error *error);
/* No node may be in use. Gives all pages back. */
void tn_prefix_destroy(tn_prefix *prefix);

/* The node of `tokens` [TN_PAGE_SLOTS] behind `parent`, or TN_NO_NODE. `salt` (may be NULL) counts at the root only. */
uint32_t tn_prefix_find(const tn_prefix *prefix, const tn_salt *salt, uint32_t parent, const int32_t *tokens);

/* As tn_prefix_find, but makes the node if it isn't there, from `page_numbers`, one a group (TN_NO_PAGE: none),
 * which a sequence must hold. A node that was there is given the pages it lacks. `parent` must be in use. The node is
 * returned in use by the caller; TN_NO_NODE when every node is in use. */
uint32_t tn_prefix_add(tn_prefix *prefix, tn_salt *salt, uint32_t parent, const int32_t *tokens,
                       const uint32_t *page_numbers);

/* A sequence begins, and ends, to stand on a node. */
void tn_prefix_use(tn_prefix *prefix, uint32_t node);
void tn_prefix_unuse(tn_prefix *prefix, uint32_t node);

/* The node's page in a group, or TN_NO_PAGE. */
uint32_t tn_prefix_page(const tn_prefix *prefix, uint32_t node, uint32_t group);

/* The slot of the node's snapshot, or TN_NO_STATE. */
uint32_t tn_prefix_state(const tn_prefix *prefix, uint32_t node);
/* The node, which is in use, keeps the state in a slot that a ledger holds; false when it has a snapshot already. */
bool tn_prefix_keep_state(tn_prefix *prefix, uint32_t node, uint32_t slot);
void tn_prefix_drop_state(tn_prefix *prefix, uint32_t node);
/* Gives up the snapshot that nobody reads and that was used longest ago. False when there is none. */
bool tn_prefix_evict_state(tn_prefix *prefix);

/* Gives up what has been unused longest, of a group with a window what is of least use, so that at least one page of
 * `group` becomes free if any page of it is held by the cache alone. False when there is none. */
bool tn_prefix_evict(tn_prefix *prefix, uint32_t group);
/* Gives up everything that is unused. */
void tn_prefix_clear(tn_prefix *prefix);

/* What a node stands for. */
uint32_t tn_prefix_parent(const tn_prefix *prefix, uint32_t node);
const int32_t *tn_prefix_tokens(const tn_prefix *prefix, uint32_t node); /* [TN_PAGE_SLOTS] */
tn_salt *tn_prefix_salt(const tn_prefix *prefix, uint32_t node);         /* of a first page; the node's reference */
/* All nodes, each behind its parent, those used last first; nodes [tn_prefix_count]. TN_E_MEMORY. */
tn_status tn_prefix_list(const tn_prefix *prefix, uint32_t *nodes, tn_error *error);

/* For tests and metrics: nodes in the cache, and users of one (0: unused or not there). */
uint32_t tn_prefix_count(const tn_prefix *prefix);
uint32_t tn_prefix_capacity(const tn_prefix *prefix);
uint32_t tn_prefix_users(const tn_prefix *prefix, uint32_t node);

#endif
