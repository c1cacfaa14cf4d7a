#include "engine/kv.h"

#include "base/error.h"

tn_status tn_kv_init(tn_kv *kv, tn_runner *runner, const tn_kv_options *options, tn_error *error) {
  const tn_kv_options defaults = TN_KV_OPTIONS;
  if (!options) options = &defaults;
  *kv = (tn_kv){.runner = runner, .info = *tn_runner_describe(runner)};
  uint32_t counts[TN_MAX_GROUPS], windows[TN_MAX_GROUPS];
  for (uint32_t g = 0; g < kv->info.group_count; g++) {
    counts[g] = kv->info.groups[g].pages;
    windows[g] = kv->info.groups[g].window;
  }
  tn_status status = tn_pages_create(kv->info.group_count, counts, &kv->pages, error);
  if (status == TN_OK && kv->info.state_slots) status = tn_states_create(kv->info.state_slots, &kv->states, error);
  if (status == TN_OK && options->prefix_cache && !kv->info.contiguous)
    status = tn_prefix_create(kv->pages, windows, kv->states, options->hash_mask, &kv->prefix, error);
  if (status != TN_OK) tn_kv_finish(kv);
  return status;
}

void tn_kv_finish(tn_kv *kv) {
  tn_prefix_destroy(kv->prefix);
  tn_states_destroy(kv->states);
  tn_pages_destroy(kv->pages);
  *kv = (tn_kv){0};
}

uint32_t tn_kv_take_page(tn_kv *kv, uint32_t group) {
  uint32_t page = tn_pages_take(kv->pages, group);
  if (page == TN_NO_PAGE && kv->prefix && tn_prefix_evict(kv->prefix, group)) page = tn_pages_take(kv->pages, group);
  return page;
}

uint32_t tn_kv_take_state(tn_kv *kv) {
  uint32_t slot = tn_states_take(kv->states);
  if (slot == TN_NO_STATE && kv->prefix && tn_prefix_evict_state(kv->prefix)) slot = tn_states_take(kv->states);
  return slot;
}

uint32_t tn_kv_pages_for(const tn_kv *kv, uint32_t group, uint32_t tokens) {
  uint32_t window = kv->info.groups[group].window, all = tn_pages_of(tokens);
  uint32_t most = window ? tn_kv_window_pages(window, kv->info.max_rows) : all;
  return most < all ? most : all;
}

uint32_t tn_kv_capacity(const tn_kv *kv) {
  uint64_t capacity = kv->info.max_context;
  for (uint32_t g = 0; g < kv->info.group_count; g++) {
    uint64_t slots = (uint64_t)kv->info.groups[g].pages * TN_PAGE_SLOTS;
    if (tn_kv_pages_for(kv, g, (uint32_t)capacity) > kv->info.groups[g].pages && slots < capacity) capacity = slots;
  }
  return (uint32_t)capacity;
}

bool tn_kv_fits(const tn_kv *kv, uint32_t tokens, uint32_t shared, uint32_t spare) {
  for (uint32_t g = 0; g < kv->info.group_count; g++) {
    uint32_t own = tn_pages_of(tokens) - shared, most = tn_kv_pages_for(kv, g, tokens);
    uint32_t available = tn_pages_free(kv->pages, g) + tn_pages_cached(kv->pages, g);
    if ((uint64_t)(own < most ? own : most) + spare > available) return false;
  }
  return true;
}

uint32_t tn_kv_first_page(uint32_t window, uint32_t position) {
  if (!window || position < window) return 0;
  return (position + 1 - window) / TN_PAGE_SLOTS;
}
