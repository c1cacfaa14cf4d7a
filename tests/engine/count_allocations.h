/* Counts what the whole process allocates, and lets a chosen allocation fail, by standing in front of libc's functions.
 * Not with sanitizers, which stand there themselves: then `COUNTS_ALLOCATIONS` is 0. */
#ifndef TESTS_ENGINE_COUNT_ALLOCATIONS_H
#define TESTS_ENGINE_COUNT_ALLOCATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_uint allocations;                     /* so far */
__attribute__((unused)) static atomic_int living;   /* blocks of malloc and its kin that are not freed */
__attribute__((unused)) static atomic_uint fail_at; /* the allocation with this number fails; 0: none */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS_ALLOCATIONS 0
#else
#define COUNTS_ALLOCATIONS 1
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static bool allocation_fails(void) {
  return atomic_fetch_add(&allocations, 1) + 1 == atomic_load(&fail_at);
}
static void *count_living(void *memory) {
  if (memory) atomic_fetch_add(&living, 1);
  return memory;
}

/* Seen by the shared libraries too. */
#pragma GCC visibility push(default)
void *malloc(size_t size) {
  return allocation_fails() ? NULL : count_living(__libc_malloc(size));
}
void *calloc(size_t count, size_t size) {
  return allocation_fails() ? NULL : count_living(__libc_calloc(count, size));
}
void *realloc(void *memory, size_t size) {
  if (allocation_fails()) return NULL;
  void *grown = __libc_realloc(memory, size);
  return memory ? grown : count_living(grown);
}
void *aligned_alloc(size_t alignment, size_t size) {
  return allocation_fails() ? NULL : count_living(__libc_memalign(alignment, size));
}
int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = aligned_alloc(alignment, size);
  return *memory ? 0 : 12;
}
void free(void *memory) {
  if (memory) atomic_fetch_sub(&living, 1);
  __libc_free(memory);
}
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (allocation_fails()) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}
#pragma GCC visibility pop
#endif

#endif
