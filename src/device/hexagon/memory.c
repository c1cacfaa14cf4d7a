/* The window's memory: pages of it for each buffer, reserved when they are given out and returned to the system when
 * they are given back, so memory is zeroed and what isn't used costs nothing. A session has what a real part gives it,
 * TN_HEXAGON_WINDOW_BYTES, whatever the host has. */
#include <stdlib.h>
#include "base/memory.h"
#include "device/hexagon/internal.h"

static uint64_t taken(uint64_t bytes) {
  return bytes ? tn_round_up(bytes, TN_TRANSPORT_PAGE) : TN_TRANSPORT_PAGE;
}

/* The first gap that holds `bytes`: the link that the new buffer hangs on, and its offset; the largest gap if none. */
static tn_buffer **find_gap(tn_device *device, uint64_t bytes, uint64_t *offset, uint64_t *largest) {
  uint64_t at = TN_HEXAGON_HEAP;
  *largest = 0;
  for (tn_buffer **link = &device->buffers;; link = &(*link)->next) {
    uint64_t end = *link ? (*link)->offset : TN_HEXAGON_WINDOW_BYTES;
    if (end - at > *largest) *largest = end - at;
    if (end - at >= bytes) {
      *offset = at;
      return link;
    }
    if (!*link) return NULL;
    at = (*link)->offset + taken((*link)->bytes);
  }
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

uint64_t tn_hexagon_free_bytes(tn_device *device) {
  return least(TN_HEXAGON_WINDOW_BYTES - device->used, tn_machine_memory_free());
}

/* With the mutex held. */
static tn_status take(tn_device *device, tn_buffer *made) {
  uint64_t largest, free_bytes = tn_hexagon_free_bytes(device), bytes = made->bytes;
  bool possible = bytes <= TN_HEXAGON_WINDOW_BYTES && taken(bytes) <= free_bytes;
  tn_buffer **link = find_gap(device, possible ? taken(bytes) : UINT64_MAX, &made->offset, &largest);
  if (!link || !tn_transport_reserve(device->transport, made->offset, taken(bytes)))
    return tn_hexagon_fail(device, TN_E_MEMORY,
                           "out of memory: %llu bytes wanted, %llu free of the session's %llu, %llu in one piece",
                           (unsigned long long)bytes, (unsigned long long)free_bytes,
                           (unsigned long long)TN_HEXAGON_WINDOW_BYTES, (unsigned long long)least(largest, free_bytes));
  made->next = *link;
  *link = made;
  device->used += taken(bytes);
  return TN_OK;
}

tn_status tn_hexagon_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  *buffer = NULL;
  tn_status status = tn_hexagon_session_check(device);
  if (status != TN_OK) return status;
  tn_buffer *made = tn_calloc(1, sizeof *made);
  if (!made) return tn_hexagon_fail(device, TN_E_MEMORY, "out of memory");
  made->bytes = bytes;
  tn_mutex_lock(device->mutex);
  status = take(device, made);
  tn_mutex_unlock(device->mutex);
  if (status == TN_OK)
    *buffer = made;
  else
    free(made);
  return status;
}

void tn_hexagon_free(tn_device *device, tn_buffer *buffer) {
  if (!buffer) return;
  tn_mutex_lock(device->mutex);
  for (tn_buffer **link = &device->buffers; *link; link = &(*link)->next) {
    if (*link != buffer) continue;
    *link = buffer->next;
    break;
  }
  device->used -= taken(buffer->bytes);
  tn_transport_release(device->transport, buffer->offset, taken(buffer->bytes));
  tn_mutex_unlock(device->mutex);
  free(buffer);
}

void *tn_hexagon_host_pointer(tn_device *device, tn_buffer *buffer) {
  return device->window + buffer->offset;
}

void tn_hexagon_forget_buffers(tn_device *device) {
  while (device->buffers) {
    tn_buffer *next = device->buffers->next;
    free(device->buffers);
    device->buffers = next;
  }
}
