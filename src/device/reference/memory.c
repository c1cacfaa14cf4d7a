/* Memory of the reference device.
 *
 * Normally a buffer is host memory and its host pointer is its address. With private-memory=1 there are no host
 * pointers, and a buffer is a mapping that the process may touch only while a driver call is inside: whoever gets at an
 * address by other ways than copies dies on the spot. Each mapping ends in a page that is never
 * accessible, right behind the buffer's last byte (to the alignment), so kernels that run over die too. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "device/reference/internal.h"

static uint64_t page_size(void) {
  return (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool map_private(tn_device *device, tn_buffer *buffer) {
  uint64_t page = page_size(), rounded = tn_round_up(buffer->bytes, TN_REFERENCE_ALIGNMENT);
  buffer->mapped = tn_round_up(rounded, page);
  void *mapping = mmap(NULL, buffer->mapped + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return false;
  buffer->mapping = mapping;
  buffer->data = (uint8_t *)mapping + (buffer->mapped - rounded);
  return device->users == 0 || mprotect(mapping, buffer->mapped, PROT_READ | PROT_WRITE) == 0;
}

static void let_go(tn_buffer *buffer) {
  if (buffer->mapping) {
    munmap(buffer->mapping, buffer->mapped + page_size());
  } else {
    free(buffer->data);
  }
  free(buffer);
}

static bool get_memory(tn_device *device, tn_buffer *buffer) {
  if (device->private_memory) return map_private(device, buffer);
  size_t rounded = tn_round_up(buffer->bytes, TN_REFERENCE_ALIGNMENT);
  buffer->data = aligned_alloc(TN_REFERENCE_ALIGNMENT, rounded ? rounded : TN_REFERENCE_ALIGNMENT);
  if (buffer->data) memset(buffer->data, 0, rounded);
  return buffer->data != NULL;
}

tn_status tn_reference_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  uint64_t available = tn_machine_memory_free();
  tn_buffer *made = tn_calloc(1, sizeof *made);
  *buffer = NULL;
  tn_mutex_lock(device->mutex);
  if (made) made->bytes = bytes;
  bool ok = made && bytes <= available && get_memory(device, made);
  if (ok) {
    made->next = device->buffers;
    if (made->next) made->next->previous = made;
    device->buffers = made;
    *buffer = made;
  }
  tn_mutex_unlock(device->mutex);
  if (ok) return TN_OK;
  if (made) let_go(made);
  return tn_reference_fail(device, TN_E_MEMORY, "out of memory: %llu bytes wanted, %llu free",
                           (unsigned long long)bytes, (unsigned long long)available);
}

void tn_reference_free(tn_device *device, tn_buffer *buffer) {
  if (!buffer) return;
  tn_mutex_lock(device->mutex);
  if (buffer->next) buffer->next->previous = buffer->previous;
  if (buffer->previous) {
    buffer->previous->next = buffer->next;
  } else {
    device->buffers = buffer->next;
  }
  tn_mutex_unlock(device->mutex);
  let_go(buffer);
}

void tn_reference_free_all(tn_device *device) {
  for (tn_buffer *buffer = device->buffers, *next; buffer; buffer = next) {
    next = buffer->next;
    let_go(buffer);
  }
  device->buffers = NULL;
}

/* Opens or closes all mappings. */
static bool protect_all(tn_device *device, int protection) {
  for (tn_buffer *buffer = device->buffers; buffer; buffer = buffer->next) {
    if (buffer->mapped && mprotect(buffer->mapping, buffer->mapped, protection) != 0) return false;
  }
  return true;
}

tn_status tn_reference_enter(tn_device *device) {
  tn_mutex_lock(device->mutex);
  bool ok = true;
  if (device->private_memory && device->users == 0) {
    ok = protect_all(device, PROT_READ | PROT_WRITE);
    if (!ok) protect_all(device, PROT_NONE);
  }
  if (ok) device->users++;
  tn_mutex_unlock(device->mutex);
  return ok ? TN_OK : tn_reference_fail(device, TN_E_DEVICE_LOST, "the system refuses access to device memory");
}

void tn_reference_leave(tn_device *device) {
  tn_mutex_lock(device->mutex);
  device->users--;
  if (device->private_memory && device->users == 0) protect_all(device, PROT_NONE);
  tn_mutex_unlock(device->mutex);
}
