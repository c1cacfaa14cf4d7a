/* Memory: checked sizes, an arena, a growing byte string and a growing array.
 *
 * Ownership is plain: what `_init` starts, `_finish` ends. Allocation failure is a value (NULL or
 * false), never an abort: sizes come from files and requests. */
#ifndef TENON_BASE_MEMORY_H
#define TENON_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TN_COUNT(array) (sizeof(array) / sizeof *(array))

/* Checked arithmetic: true and `*out` set when the result fits, false (and `*out` untouched) when it doesn't. */
static inline bool tn_add_size(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool tn_mul_size(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

/* `value` rounded up to a multiple of `unit` (unit > 0, no overflow checks: for sizes already bounded). */
static inline size_t tn_round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/* calloc(count, size) with the multiplication checked; NULL when it overflows or memory is out. */
void *tn_calloc(size_t count, size_t size);

/* A copy of `bytes` bytes of `data` with a zero byte behind; free() it. NULL when memory is out. */
char *tn_copy_text(const void *data, size_t bytes);

/* An arena: many small allocations, one release. Zeroed memory, aligned to 16 bytes. */
typedef struct tn_arena_chunk tn_arena_chunk;
typedef struct tn_arena {
  tn_arena_chunk *head;
  size_t bytes; /* handed out so far */
  size_t limit; /* refuse to hand out more than this; 0 = no limit */
} tn_arena;

void tn_arena_init(tn_arena *arena, size_t limit);
void tn_arena_finish(tn_arena *arena);
/* `size` zeroed bytes (size 0 gives a valid pointer), or NULL when memory or the limit is out. */
void *tn_arena_alloc(tn_arena *arena, size_t size);
void *tn_arena_array(tn_arena *arena, size_t count, size_t size); /* multiplication checked */
/* A zero-terminated copy of `size` bytes. */
char *tn_arena_copy(tn_arena *arena, const void *data, size_t size);

/* A growing byte string, always zero-terminated once something was appended. A failed append sets `failed` and
 * leaves the content as it was, so a long run of appends needs one check at its end. */
typedef struct tn_buf {
  char *data;
  size_t size, capacity;
  size_t limit; /* appends beyond it fail; 0 = no limit */
  bool failed;
} tn_buf;

void tn_buf_init(tn_buf *buf);
void tn_buf_finish(tn_buf *buf);
void tn_buf_clear(tn_buf *buf); /* size 0, memory kept */
bool tn_buf_reserve(tn_buf *buf, size_t more);
bool tn_buf_append(tn_buf *buf, const void *data, size_t size);
bool tn_buf_puts(tn_buf *buf, const char *text);
bool tn_buf_putc(tn_buf *buf, char c);
__attribute__((format(printf, 2, 3))) bool tn_buf_printf(tn_buf *buf, const char *format, ...);
/* The content as a zero-terminated string that the caller frees; the buffer is empty afterwards. NULL if it failed. */
char *tn_buf_take(tn_buf *buf);

/* Makes room for one more element of a `{T *items; size_t count, capacity;}`-style array and returns its address,
 * or NULL. Use through TN_PUSH: `TN_PUSH(items, count, capacity)` gives a `T *` to the new, zeroed element. */
void *tn_array_push(void **items, size_t *count, size_t *capacity, size_t item_size);
#define TN_PUSH(items, count, capacity) \
  ((__typeof__(items))tn_array_push((void **)&(items), &(count), &(capacity), sizeof *(items)))

#endif
