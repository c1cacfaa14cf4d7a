/* Device memory, which here is the host's: zeroed pages from the system, on huge pages where they are large enough for
 * it to help (weights are read from end to end each step, and the processor's page tables otherwise cost a sixth). For
 * the same reason a file that leaves enough memory free is read rather than mapped: mapped files are on small pages.
 *
 * States are the exception at their begin. Each layer's pages of KV lie together and are taken in order, so a short
 * text fills a little of many places: on huge pages that would be 2 MB for each. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "device/cpu/internal.h"

#define HUGE_PAGE ((uint64_t)2 << 20)

static bool is_huge(uint64_t bytes) {
  return bytes >= HUGE_PAGE;
}

static uint64_t rounded(uint64_t bytes) {
  uint64_t unit = is_huge(bytes) ? 4096 : TN_CPU_ALIGNMENT;
  return bytes ? (bytes + unit - 1) / unit * unit : unit;
}

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

void tn_cpu_begin_small(const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
#ifdef MADV_NOHUGEPAGE
  if (buffer->mapped || buffer->bytes < HUGE_PAGE) return;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = offset + (bytes < HUGE_PAGE ? bytes : HUGE_PAGE);
  uint64_t begin = offset / page * page;
  end = (end + page - 1) / page * page;
  madvise(buffer->data + begin, (end < rounded(buffer->bytes) ? end : rounded(buffer->bytes)) - begin, MADV_NOHUGEPAGE);
#else
  (void)buffer, (void)offset, (void)bytes;
#endif
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
  if (buffer->mapped || is_huge(buffer->bytes))
    munmap(buffer->data, rounded(buffer->bytes));
  else
    free(buffer->data);
  free(buffer);
}

/* ---- from files ---- */

#define READ_PIECE ((uint64_t)4 << 20)

typedef struct read_job {
  int descriptor;
  uint64_t offset;
  uint8_t *to;
  uint64_t bytes;
  int failed; /* errno of any piece; -1: the file ended */
} read_job;

static void read_piece(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  read_job *job = argument;
  uint64_t at = index * READ_PIECE, end = at + READ_PIECE < job->bytes ? at + READ_PIECE : job->bytes;
  while (at < end) {
    ssize_t got = pread(job->descriptor, job->to + at, end - at, (off_t)(job->offset + at));
    if (got > 0)
      at += (uint64_t)got;
    else if (got == 0 || errno != EINTR) {
      __atomic_store_n(&job->failed, got == 0 ? -1 : errno, __ATOMIC_RELAXED);
      return;
    }
  }
}

static tn_status read_file(tn_device *device, int descriptor, uint64_t offset, tn_buffer *buffer) {
  read_job job = {.descriptor = descriptor, .offset = offset, .to = buffer->data, .bytes = buffer->bytes};
  const tn_parallel *parallel = tn_pool_parallel(device->pool);
  tn_mutex_lock(device->mutex);
  parallel->run(parallel->context, read_piece, &job, (uint32_t)((buffer->bytes + READ_PIECE - 1) / READ_PIECE));
  tn_mutex_unlock(device->mutex);
  if (!job.failed) return TN_OK;
  return tn_cpu_fail(device, TN_E_IO, "cannot read: %s", job.failed < 0 ? "the file ends early" : strerror(job.failed));
}

static tn_status map_file(tn_device *device, int descriptor, uint64_t offset, uint64_t bytes, tn_buffer **buffer) {
  tn_buffer *made = calloc(1, sizeof *made);
  if (!made) return tn_cpu_fail(device, TN_E_MEMORY, "out of memory");
  void *data = mmap(NULL, rounded(bytes), PROT_READ, MAP_PRIVATE, descriptor, (off_t)offset);
  if (data == MAP_FAILED) {
    free(made);
    return tn_cpu_fail(device, TN_E_MEMORY, "cannot map: %s", strerror(errno));
  }
  *made = (tn_buffer){.data = data, .bytes = bytes, .mapped = true};
  *buffer = made;
  return TN_OK;
}

tn_status tn_cpu_map(tn_device *device, const char *path, uint64_t offset, uint64_t bytes, tn_buffer **buffer) {
  *buffer = NULL;
  struct stat info;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || fstat(descriptor, &info) != 0) {
    if (descriptor >= 0) close(descriptor);
    return tn_cpu_fail(device, errno == ENOENT ? TN_E_NOT_FOUND : TN_E_IO, "cannot open: %s", strerror(errno));
  }
  tn_status status = TN_OK;
  if (!bytes || offset > (uint64_t)info.st_size || bytes > (uint64_t)info.st_size - offset)
    status = tn_cpu_fail(device, TN_E_INVALID, "%llu bytes at %llu do not lie in a file of %llu",
                         (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)info.st_size);
  else if (tn_memory_is_tight(bytes, tn_machine_memory_free()))
    status = map_file(device, descriptor, offset, bytes, buffer);
  else if ((status = tn_cpu_alloc(device, bytes, buffer)) == TN_OK &&
           (status = read_file(device, descriptor, offset, *buffer)) != TN_OK) {
    tn_cpu_free(device, *buffer);
    *buffer = NULL;
  }
  close(descriptor);
  return status;
}
