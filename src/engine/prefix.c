#include "engine/prefix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "tenon/device.h"

typedef struct prefix_node {
  uint64_t hash;         /* over the whole path */
  uint32_t parent;       /* TN_NO_NODE: a first page */
  uint32_t chain;        /* the next node of the same bucket, or the next free node */
  uint32_t older, newer; /* neighbours in the list of unused nodes */
  uint32_t users;        /* sequences that stand on it */
  uint32_t children;
  uint32_t
      below; /* nodes on the longest path below it, counted up to the reach of the windows; or more than there are */
  bool present;
  tn_salt *salt; /* first pages only */
  uint32_t pages[TN_MAX_GROUPS];
  uint32_t state; /* slot of its snapshot */
  int32_t tokens[TN_PAGE_SLOTS];
} prefix_node;

struct tn_prefix {
  tn_pages *pages;
  tn_states *states; /* NULL: no snapshots */
  uint64_t hash_mask;
  prefix_node *nodes;
  uint32_t node_count; /* all, present or free */
  uint32_t present_count;
  uint32_t free_node;
  uint32_t *buckets;
  uint32_t bucket_mask;
  uint32_t oldest, newest;       /* unused nodes, in the order in which they became unused */
  uint32_t reach[TN_MAX_GROUPS]; /* nodes with pages that a hit needs of a group with a window; 0: no window */
  uint32_t most_reach;
  uint32_t searched[TN_MAX_GROUPS]; /* where the search for pages beyond the reach goes on */
};

/* Nodes for each page of a group: more than one, as in a model of windows only a node may outlive its pages. */
#define NODES_PER_PAGE 2

tn_status tn_prefix_create(tn_pages *pages, const uint32_t *windows, tn_states *states, uint64_t hash_mask,
                           tn_prefix **prefix, tn_error *error) {
  *prefix = NULL;
  tn_prefix *made = calloc(1, sizeof *made);
  if (!made) goto fail;
  made->pages = pages;
  made->states = states;
  made->hash_mask = hash_mask;
  for (uint32_t g = 0; g < tn_pages_groups(pages); g++) {
    if (tn_pages_total(pages, g) > made->node_count) made->node_count = tn_pages_total(pages, g);
    if (windows[g]) made->reach[g] = tn_pages_of(windows[g]) + 1;
    if (made->reach[g] > made->most_reach) made->most_reach = made->reach[g];
  }
  made->node_count *= NODES_PER_PAGE;
  uint32_t buckets = 1;
  while (buckets < made->node_count) buckets *= 2;
  made->bucket_mask = buckets - 1;
  made->nodes = tn_calloc(made->node_count, sizeof *made->nodes);
  made->buckets = tn_calloc(buckets, sizeof *made->buckets);
  if (!made->nodes || !made->buckets) goto fail;
  memset(made->buckets, 0xff, buckets * sizeof *made->buckets);
  for (uint32_t i = 0; i < made->node_count; i++) {
    made->nodes[i].chain = i + 1 < made->node_count ? i + 1 : TN_NO_NODE;
    made->nodes[i].state = TN_NO_STATE;
  }
  made->oldest = made->newest = TN_NO_NODE;
  *prefix = made;
  return TN_OK;
fail:
  if (made) {
    free(made->nodes);
    free(made->buckets);
  }
  free(made);
  return tn_fail(error, TN_E_MEMORY, "no memory for a prefix cache");
}

void tn_prefix_destroy(tn_prefix *prefix) {
  if (!prefix) return;
  tn_prefix_clear(prefix);
  assert(prefix->present_count == 0);
  free(prefix->nodes);
  free(prefix->buckets);
  free(prefix);
}

/* ---- the list of unused nodes, and the hash table ---- */

static void list_append(tn_prefix *prefix, uint32_t number) {
  prefix_node *node = &prefix->nodes[number];
  node->older = prefix->newest;
  node->newer = TN_NO_NODE;
  if (prefix->newest == TN_NO_NODE) {
    prefix->oldest = number;
  } else {
    prefix->nodes[prefix->newest].newer = number;
  }
  prefix->newest = number;
}

static void list_remove(tn_prefix *prefix, uint32_t number) {
  prefix_node *node = &prefix->nodes[number];
  if (node->older == TN_NO_NODE) {
    prefix->oldest = node->newer;
  } else {
    prefix->nodes[node->older].newer = node->newer;
  }
  if (node->newer == TN_NO_NODE) {
    prefix->newest = node->older;
  } else {
    prefix->nodes[node->newer].older = node->older;
  }
}

static uint64_t path_hash(const tn_prefix *prefix, const tn_salt *salt, uint32_t parent, const int32_t *tokens) {
  uint64_t before = parent == TN_NO_NODE ? tn_salt_hash(salt) : prefix->nodes[parent].hash;
  return tn_hash_bytes(tokens, TN_PAGE_SLOTS * sizeof *tokens, before) & prefix->hash_mask;
}

static uint32_t find_hashed(const tn_prefix *prefix, uint64_t hash, const tn_salt *salt, uint32_t parent,
                            const int32_t *tokens) {
  uint32_t number = prefix->buckets[hash & prefix->bucket_mask];
  for (; number != TN_NO_NODE; number = prefix->nodes[number].chain) {
    const prefix_node *node = &prefix->nodes[number];
    if (node->hash == hash && node->parent == parent && memcmp(node->tokens, tokens, sizeof node->tokens) == 0 &&
        (parent != TN_NO_NODE || tn_salt_equal(node->salt, salt)))
      return number;
  }
  return TN_NO_NODE;
}

uint32_t tn_prefix_find(const tn_prefix *prefix, const tn_salt *salt, uint32_t parent, const int32_t *tokens) {
  return find_hashed(prefix, path_hash(prefix, salt, parent, tokens), salt, parent, tokens);
}

/* ---- making and giving up nodes ---- */

static void drop_page(tn_prefix *prefix, prefix_node *node, uint32_t group) {
  if (node->pages[group] == TN_NO_PAGE) return;
  tn_pages_uncache(prefix->pages, group, node->pages[group]);
  node->pages[group] = TN_NO_PAGE;
}

/* The child of a node, which has `below` nodes below it, has come; or the last child of it has gone. */
static void recount_below(prefix_node *nodes, uint32_t most, uint32_t number, uint32_t below) {
  for (; number != TN_NO_NODE; number = nodes[number].parent) {
    below = nodes[number].children != 1 ? 0 : below < most ? below + 1 : most;
    if (nodes[number].below == below) break;
    nodes[number].below = below;
  }
}

/* Takes an unused node without children out of the cache. */
static void remove_node(tn_prefix *prefix, uint32_t number) {
  prefix_node *node = &prefix->nodes[number];
  assert(node->present && node->users == 0 && node->children == 0);
  list_remove(prefix, number);
  uint32_t *link = &prefix->buckets[node->hash & prefix->bucket_mask];
  while (*link != number) link = &prefix->nodes[*link].chain;
  *link = node->chain;
  if (node->parent != TN_NO_NODE && --prefix->nodes[node->parent].children == 0)
    recount_below(prefix->nodes, prefix->most_reach, node->parent, 0);
  for (uint32_t g = 0; g < tn_pages_groups(prefix->pages); g++) drop_page(prefix, node, g);
  tn_prefix_drop_state(prefix, number);
  tn_salt_release(node->salt);
  node->salt = NULL;
  node->present = false;
  node->chain = prefix->free_node;
  prefix->free_node = number;
  prefix->present_count--;
}

static uint32_t make_node(tn_prefix *prefix, uint64_t hash, tn_salt *salt, uint32_t parent, const int32_t *tokens) {
  if (prefix->free_node == TN_NO_NODE && prefix->oldest != TN_NO_NODE) remove_node(prefix, prefix->oldest);
  uint32_t number = prefix->free_node;
  if (number == TN_NO_NODE) return TN_NO_NODE;
  prefix_node *node = &prefix->nodes[number];
  prefix->free_node = node->chain;
  uint32_t *bucket = &prefix->buckets[hash & prefix->bucket_mask];
  node->hash = hash;
  node->parent = parent;
  node->chain = *bucket;
  node->users = 0;
  node->children = 0;
  node->below = 0;
  node->present = true;
  node->salt = parent == TN_NO_NODE ? tn_salt_hold(salt) : NULL;
  memset(node->pages, 0xff, sizeof node->pages);
  node->state = TN_NO_STATE;
  memcpy(node->tokens, tokens, sizeof node->tokens);
  *bucket = number;
  if (parent != TN_NO_NODE) prefix->nodes[parent].children++;
  recount_below(prefix->nodes, prefix->most_reach, parent, 0);
  prefix->present_count++;
  list_append(prefix, number);
  return number;
}

uint32_t tn_prefix_add(tn_prefix *prefix, tn_salt *salt, uint32_t parent, const int32_t *tokens,
                       const uint32_t *page_numbers) {
  assert(parent == TN_NO_NODE || prefix->nodes[parent].users > 0);
  uint64_t hash = path_hash(prefix, salt, parent, tokens);
  uint32_t number = find_hashed(prefix, hash, salt, parent, tokens);
  if (number == TN_NO_NODE) number = make_node(prefix, hash, salt, parent, tokens);
  if (number == TN_NO_NODE) return TN_NO_NODE;
  prefix_node *node = &prefix->nodes[number];
  for (uint32_t g = 0; g < tn_pages_groups(prefix->pages); g++) {
    if (node->pages[g] != TN_NO_PAGE || page_numbers[g] == TN_NO_PAGE) continue;
    tn_pages_cache(prefix->pages, g, page_numbers[g]);
    node->pages[g] = page_numbers[g];
  }
  tn_prefix_use(prefix, number);
  return number;
}

void tn_prefix_use(tn_prefix *prefix, uint32_t number) {
  prefix_node *node = &prefix->nodes[number];
  if (node->users++ == 0) list_remove(prefix, number);
}

void tn_prefix_unuse(tn_prefix *prefix, uint32_t number) {
  prefix_node *node = &prefix->nodes[number];
  assert(node->users > 0);
  if (--node->users == 0) list_append(prefix, number);
}

uint32_t tn_prefix_page(const tn_prefix *prefix, uint32_t number, uint32_t group) {
  return prefix->nodes[number].pages[group];
}

uint32_t tn_prefix_state(const tn_prefix *prefix, uint32_t number) {
  return prefix->nodes[number].state;
}

bool tn_prefix_keep_state(tn_prefix *prefix, uint32_t number, uint32_t slot) {
  prefix_node *node = &prefix->nodes[number];
  assert(node->users > 0);
  if (node->state != TN_NO_STATE) {
    tn_states_touch(prefix->states, node->state);
    return false;
  }
  tn_states_cache(prefix->states, slot, number);
  node->state = slot;
  return true;
}

void tn_prefix_drop_state(tn_prefix *prefix, uint32_t number) {
  prefix_node *node = &prefix->nodes[number];
  if (node->state != TN_NO_STATE) tn_states_uncache(prefix->states, node->state);
  node->state = TN_NO_STATE;
}

bool tn_prefix_evict_state(tn_prefix *prefix) {
  uint32_t node;
  if (tn_states_oldest(prefix->states, &node) == TN_NO_STATE) return false;
  tn_prefix_drop_state(prefix, node);
  return true;
}

/* Drops a page of a group with a window that nobody but the cache holds, and that a hit needs neither at a path's end
 * nor where paths part: of a node so far above that the window doesn't reach it. */
static bool evict_beyond_reach(tn_prefix *prefix, uint32_t group) {
  for (uint32_t i = 0; i < prefix->node_count; i++) {
    uint32_t *at = &prefix->searched[group];
    *at = *at + 1 < prefix->node_count ? *at + 1 : 0;
    prefix_node *node = &prefix->nodes[*at];
    if (!node->present || node->pages[group] == TN_NO_PAGE || node->below < prefix->reach[group]) continue;
    if (tn_pages_references(prefix->pages, group, node->pages[group]) > 1) continue;
    drop_page(prefix, node, group);
    return true;
  }
  return false;
}

/* Drops a page of `group` that only a node in use holds: one behind the windows of all who stand on the node. */
static bool evict_behind_windows(tn_prefix *prefix, uint32_t group) {
  for (uint32_t i = 0; i < prefix->node_count; i++) {
    prefix_node *node = &prefix->nodes[i];
    if (!node->present || node->pages[group] == TN_NO_PAGE) continue;
    if (tn_pages_references(prefix->pages, group, node->pages[group]) > 1) continue;
    drop_page(prefix, node, group);
    return true;
  }
  return false;
}

bool tn_prefix_evict(tn_prefix *prefix, uint32_t group) {
  if (tn_pages_cached(prefix->pages, group) == 0) return false;
  if (prefix->reach[group] && evict_beyond_reach(prefix, group)) return true;
  uint32_t free_before = tn_pages_free(prefix->pages, group);
  while (prefix->oldest != TN_NO_NODE) {
    remove_node(prefix, prefix->oldest);
    if (tn_pages_free(prefix->pages, group) > free_before) return true;
  }
  return evict_behind_windows(prefix, group);
}

void tn_prefix_clear(tn_prefix *prefix) {
  while (prefix->oldest != TN_NO_NODE) remove_node(prefix, prefix->oldest);
}

uint32_t tn_prefix_parent(const tn_prefix *prefix, uint32_t number) {
  return prefix->nodes[number].parent;
}

const int32_t *tn_prefix_tokens(const tn_prefix *prefix, uint32_t number) {
  return prefix->nodes[number].tokens;
}

tn_salt *tn_prefix_salt(const tn_prefix *prefix, uint32_t number) {
  return prefix->nodes[number].salt;
}

/* Lists a node behind those above it that are not listed yet; gives the new count. */
static uint32_t list_path(const tn_prefix *prefix, uint32_t number, bool *is_listed, uint32_t *nodes, uint32_t count) {
  uint32_t depth = 0;
  for (uint32_t n = number; n != TN_NO_NODE && !is_listed[n]; n = prefix->nodes[n].parent) depth++;
  for (uint32_t n = number, i = depth; i > 0; n = prefix->nodes[n].parent, i--) {
    nodes[count + i - 1] = n;
    is_listed[n] = true;
  }
  return count + depth;
}

tn_status tn_prefix_list(const tn_prefix *prefix, uint32_t *nodes, tn_error *error) {
  bool *is_listed = tn_calloc(prefix->node_count, sizeof *is_listed);
  if (!is_listed) return tn_fail(error, TN_E_MEMORY, "no memory for a list of the prefix cache");
  uint32_t count = 0;
  for (uint32_t i = 0; i < prefix->node_count; i++)
    if (prefix->nodes[i].present && prefix->nodes[i].users) count = list_path(prefix, i, is_listed, nodes, count);
  for (uint32_t n = prefix->newest; n != TN_NO_NODE; n = prefix->nodes[n].older)
    count = list_path(prefix, n, is_listed, nodes, count);
  assert(count == prefix->present_count);
  free(is_listed);
  return TN_OK;
}

uint32_t tn_prefix_count(const tn_prefix *prefix) {
  return prefix->present_count;
}

uint32_t tn_prefix_capacity(const tn_prefix *prefix) {
  return prefix->node_count;
}

uint32_t tn_prefix_users(const tn_prefix *prefix, uint32_t number) {
  return prefix->nodes[number].present ? prefix->nodes[number].users : 0;
}
