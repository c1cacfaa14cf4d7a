/* Device memory, which here is the host's: zeroed pages from the system, on huge pages where they are large enough for
 * it to help (weights are read from end to end each step, and the processor's page tables otherwise cost a sixth). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include "device/cpu/internal.h"

#define HUGE_PAGE ((uint64_t)2 << 20)

/* `bytes` of zeroed memory whose begin is a multiple of HUGE_PAGE, or NULL. */
static uint8_t *map_huge(uint64_t bytes) {
  uint8_t *base = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  uint64_t before = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
  if (before) munmap(base, before);
  if (HUGE_PAGE - before) munmap(base + before + bytes, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
  madvise(base + before, bytes, MADV_HUGEPAGE); /* advice: if the system won't, small pages do */
#endif
  return base + before;
}

static bool is_huge(uint64_t bytes) {
  return bytes >= HUGE_PAGE;
}

static uint64_t rounded(uint64_t bytes) {
  uint64_t unit = is_huge(bytes) ? 4096 : TN_CPU_ALIGNMENT;
  return bytes ? (bytes + unit - 1) / unit * unit : unit;
}

tn_status tn_cpu_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  uint64_t free_bytes = tn_machine_memory_free();
  *buffer = NULL;
  tn_buffer *made = calloc(1, sizeof *made);
  if (made && bytes <= free_bytes) {
    if (is_huge(bytes)) {
      made->data = map_huge(rounded(bytes));
    } else if ((made->data = aligned_alloc(TN_CPU_ALIGNMENT, rounded(bytes))) != NULL) {
      __builtin_memset(made->data, 0, rounded(bytes));
    }
  }
  if (!made || !made->data) {
    free(made);
    return tn_cpu_fail(device, TN_E_MEMORY, "%llu bytes wanted, %llu are free", (unsigned long long)bytes,
                       (unsigned long long)free_bytes);
  }
  made->bytes = bytes;
  *buffer = made;
  return TN_OK;
}

void tn_cpu_free(tn_device *device, tn_buffer *buffer) {
  (void)device;
  if (!buffer) return;
  if (is_huge(buffer->bytes))
    munmap(buffer->data, rounded(buffer->bytes));
  else
    free(buffer->data);
  free(buffer);
}
