/* Counts what the whole process allocates, by standing in front of libc's functions. Not with sanitizers, which stand
 * there themselves: then `COUNTS_ALLOCATIONS` is 0. */
#ifndef TESTS_ENGINE_COUNT_ALLOCATIONS_H
#define TESTS_ENGINE_COUNT_ALLOCATIONS_H

#include <stdatomic.h>
#include <stddef.h>

static atomic_uint allocations;

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

void *malloc(size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_realloc(memory, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __libc_memalign(alignment, size);
}
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
  atomic_fetch_add(&allocations, 1);
  return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}
#endif

#endif
