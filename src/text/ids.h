/* A growing list of token ids. */
#ifndef TENON_TEXT_IDS_H
#define TENON_TEXT_IDS_H

#include "base/memory.h"

/* Start with a zeroed one; free `data` in the end. */
typedef struct tn_ids {
  int32_t *data;
  size_t count, capacity;
  size_t limit; /* encoding a text ends with an error once there are more; 0: none */
} tn_ids;

static inline bool tn_ids_add(tn_ids *ids, int32_t id) {
  if (ids->count == ids->capacity) {
    int32_t *slot = TN_PUSH(ids->data, ids->count, ids->capacity);
    if (!slot) return false;
    *slot = id;
    return true;
  }
  ids->data[ids->count++] = id;
  return true;
}

#endif
