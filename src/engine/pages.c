#include "engine/pages.h"

#include <assert.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"

typedef struct page_state {
  uint32_t references; /* the cache's included */
  bool cached;         /* one of them is the cache's */
} page_state;

typedef struct page_group {
  uint32_t count;
  page_state *pages;
  uint32_t *free_pages; /* a stack of the free page numbers */
  uint32_t free_count;
  uint32_t cached_count; /* pages whose only reference is the cache's */
} page_group;

struct tn_pages {
  uint32_t group_count;
  page_group groups[];
};

tn_status tn_pages_create(uint32_t groups, const uint32_t *counts, tn_pages **pages, tn_error *error) {
  *pages = NULL;
  tn_pages *made = calloc(1, sizeof *made + groups * sizeof made->groups[0]);
  if (!made) goto fail;
  made->group_count = groups;
  for (uint32_t g = 0; g < groups; g++) {
    page_group *group = &made->groups[g];
    uint32_t count = group->count = counts[g];
    group->pages = tn_calloc(count, sizeof *group->pages);
    group->free_pages = tn_calloc(count, sizeof *group->free_pages);
    if (!group->pages || !group->free_pages) goto fail;
    group->free_count = count;
    /* page 0 on top, so that pages are handed out in order */
    for (uint32_t i = 0; i < count; i++) group->free_pages[i] = count - 1 - i;
  }
  *pages = made;
  return TN_OK;
fail:
  tn_pages_destroy(made);
  return tn_fail(error, TN_E_MEMORY, "no memory for the page tables of %u groups of pages", groups);
}

void tn_pages_destroy(tn_pages *pages) {
  if (!pages) return;
  for (uint32_t g = 0; g < pages->group_count; g++) {
    free(pages->groups[g].pages);
    free(pages->groups[g].free_pages);
  }
  free(pages);
}

uint32_t tn_pages_take(tn_pages *pages, uint32_t group_number) {
  page_group *group = &pages->groups[group_number];
  if (!group->free_count) return TN_NO_PAGE;
  uint32_t number = group->free_pages[--group->free_count];
  assert(group->pages[number].references == 0);
  group->pages[number] = (page_state){.references = 1};
  return number;
}

void tn_pages_hold(tn_pages *pages, uint32_t group_number, uint32_t number) {
  page_group *group = &pages->groups[group_number];
  page_state *page = &group->pages[number];
  assert(page->references > 0);
  if (page->cached && page->references == 1) group->cached_count--;
  page->references++;
}

void tn_pages_release(tn_pages *pages, uint32_t group_number, uint32_t number) {
  page_group *group = &pages->groups[group_number];
  page_state *page = &group->pages[number];
  assert(page->references > (page->cached ? 1u : 0u));
  page->references--;
  if (page->references == 0) {
    group->free_pages[group->free_count++] = number;
  } else if (page->references == 1 && page->cached) {
    group->cached_count++;
  }
}

void tn_pages_cache(tn_pages *pages, uint32_t group_number, uint32_t number) {
  page_state *page = &pages->groups[group_number].pages[number];
  assert(page->references > 0 && !page->cached);
  page->references++;
  page->cached = true;
}

void tn_pages_uncache(tn_pages *pages, uint32_t group_number, uint32_t number) {
  page_group *group = &pages->groups[group_number];
  page_state *page = &group->pages[number];
  assert(page->cached);
  if (page->references == 1) group->cached_count--;
  page->cached = false;
  tn_pages_release(pages, group_number, number);
}

uint32_t tn_pages_references(const tn_pages *pages, uint32_t group_number, uint32_t number) {
  return pages->groups[group_number].pages[number].references;
}

bool tn_pages_is_cached(const tn_pages *pages, uint32_t group_number, uint32_t number) {
  return pages->groups[group_number].pages[number].cached;
}

uint32_t tn_pages_total(const tn_pages *pages, uint32_t group_number) {
  return pages->groups[group_number].count;
}

uint32_t tn_pages_groups(const tn_pages *pages) {
  return pages->group_count;
}

uint32_t tn_pages_free(const tn_pages *pages, uint32_t group_number) {
  return pages->groups[group_number].free_count;
}

uint32_t tn_pages_cached(const tn_pages *pages, uint32_t group_number) {
  return pages->groups[group_number].cached_count;
}
