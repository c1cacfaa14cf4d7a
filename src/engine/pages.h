/* The page pool: which pages of KV memory are held, and by how many holders. It knows page numbers only; what the
 * pages contain is the device's affair, which tokens they stand for is the ledger's (ledger.h) and the prefix
 * cache's (prefix.h).
 *
 * Every group has its own pages, numbered from 0. A page is free (no references), held (by sequences, and perhaps by
 * the cache as well), or cached (by the cache alone). Nothing is allocated after tn_pages_create. */
#ifndef TENON_ENGINE_PAGES_H
#define TENON_ENGINE_PAGES_H

#include <stdbool.h>
#include <stdint.h>
#include "tenon/device.h"
#include "tenon/status.h"

#define TN_NO_PAGE UINT32_MAX

/* Pages that `tokens` slots take. */
static inline uint32_t tn_pages_of(uint32_t tokens) {
  return tokens / TN_PAGE_SLOTS + (tokens % TN_PAGE_SLOTS != 0);
}

typedef struct tn_pages tn_pages;

/* A pool of counts[g] pages in each of `groups` groups, all free. TN_E_MEMORY when the host has none left. */
tn_status tn_pages_create(uint32_t groups, const uint32_t *counts, tn_pages **pages, tn_error *error);
void tn_pages_destroy(tn_pages *pages);

/* A free page with one reference, or TN_NO_PAGE when none is free. */
uint32_t tn_pages_take(tn_pages *pages, uint32_t group);
/* One more reference to a page that has some. */
void tn_pages_hold(tn_pages *pages, uint32_t group, uint32_t page);
/* One reference less; the last one frees the page. */
void tn_pages_release(tn_pages *pages, uint32_t group, uint32_t page);

/* The cache's own reference to a page that a sequence holds; at most one a page. */
void tn_pages_cache(tn_pages *pages, uint32_t group, uint32_t page);
void tn_pages_uncache(tn_pages *pages, uint32_t group, uint32_t page);

/* References of a page, the cache's included. */
uint32_t tn_pages_references(const tn_pages *pages, uint32_t group, uint32_t page);
bool tn_pages_is_cached(const tn_pages *pages, uint32_t group, uint32_t page);

uint32_t tn_pages_total(const tn_pages *pages, uint32_t group);
uint32_t tn_pages_groups(const tn_pages *pages);
uint32_t tn_pages_free(const tn_pages *pages, uint32_t group);
/* Pages that only the cache holds: they can be had by evicting. */
uint32_t tn_pages_cached(const tn_pages *pages, uint32_t group);

#endif
