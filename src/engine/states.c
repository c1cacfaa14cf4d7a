#include "engine/states.h"

#include <assert.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"

typedef struct state_slot {
  uint32_t references; /* the cache's included */
  bool cached;         /* one of them is the cache's */
  uint32_t node;       /* whose snapshot it is */
  uint64_t used;       /* when it was used last, in counts of uses */
} state_slot;

struct tn_states {
  state_slot *slots;
  uint32_t *free_slots; /* a stack */
  uint32_t count, free_count, cached_count;
  uint64_t uses;
};

tn_status tn_states_create(uint32_t count, tn_states **states, tn_error *error) {
  *states = NULL;
  tn_states *made = tn_calloc(1, sizeof *made);
  if (made) {
    made->count = made->free_count = count;
    made->slots = tn_calloc(count, sizeof *made->slots);
    made->free_slots = tn_calloc(count, sizeof *made->free_slots);
  }
  if (!made || !made->slots || !made->free_slots) {
    tn_states_destroy(made);
    return tn_fail(error, TN_E_MEMORY, "no memory for the accounts of %u recurrent states", count);
  }
  /* slot 0 on top, so that two taken together are 2n and 2n + 1 (runner.h) */
  for (uint32_t i = 0; i < count; i++) made->free_slots[i] = count - 1 - i;
  *states = made;
  return TN_OK;
}

void tn_states_destroy(tn_states *states) {
  if (!states) return;
  free(states->slots);
  free(states->free_slots);
  free(states);
}

uint32_t tn_states_take(tn_states *states) {
  if (!states->free_count) return TN_NO_STATE;
  uint32_t number = states->free_slots[--states->free_count];
  assert(states->slots[number].references == 0);
  states->slots[number] = (state_slot){.references = 1};
  return number;
}

void tn_states_hold(tn_states *states, uint32_t slot) {
  assert(states->slots[slot].references > 0);
  states->slots[slot].references++;
}

void tn_states_release(tn_states *states, uint32_t slot) {
  assert(states->slots[slot].references > (states->slots[slot].cached ? 1u : 0u));
  if (--states->slots[slot].references == 0) states->free_slots[states->free_count++] = slot;
}

uint32_t tn_states_references(const tn_states *states, uint32_t slot) {
  return states->slots[slot].references;
}

void tn_states_cache(tn_states *states, uint32_t slot, uint32_t node) {
  state_slot *state = &states->slots[slot];
  assert(state->references > 0 && !state->cached);
  state->references++;
  state->cached = true;
  state->node = node;
  state->used = ++states->uses;
  states->cached_count++;
}

void tn_states_uncache(tn_states *states, uint32_t slot) {
  assert(states->slots[slot].cached);
  states->slots[slot].cached = false;
  states->cached_count--;
  tn_states_release(states, slot);
}

void tn_states_touch(tn_states *states, uint32_t slot) {
  states->slots[slot].used = ++states->uses;
}

uint32_t tn_states_oldest(const tn_states *states, uint32_t *node) {
  uint32_t oldest = TN_NO_STATE;
  for (uint32_t i = 0; i < states->count; i++) {
    const state_slot *state = &states->slots[i];
    if (!state->cached || state->references > 1) continue;
    if (oldest == TN_NO_STATE || state->used < states->slots[oldest].used) oldest = i;
  }
  if (oldest != TN_NO_STATE) *node = states->slots[oldest].node;
  return oldest;
}

uint32_t tn_states_total(const tn_states *states) {
  return states->count;
}

uint32_t tn_states_free(const tn_states *states) {
  return states->free_count;
}

uint32_t tn_states_cached(const tn_states *states) {
  return states->cached_count;
}
