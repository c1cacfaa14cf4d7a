#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tn_arena_chunk {
  tn_arena_chunk *next;
  size_t used, capacity;
  _Alignas(16) unsigned char data[];
};

#define ARENA_CHUNK_BYTES ((size_t)64 << 10)

void *tn_calloc(size_t count, size_t size) {
  size_t bytes;
  if (!tn_mul_size(count, size, &bytes)) return NULL;
  return calloc(1, bytes ? bytes : 1);
}

char *tn_copy_text(const void *data, size_t bytes) {
  size_t total;
  if (!tn_add_size(bytes, 1, &total)) return NULL;
  char *copy = malloc(total);
  if (!copy) return NULL;
  if (bytes) memcpy(copy, data, bytes);
  copy[bytes] = 0;
  return copy;
}

void tn_arena_init(tn_arena *arena, size_t limit) {
  *arena = (tn_arena){.limit = limit};
}

void tn_arena_finish(tn_arena *arena) {
  for (tn_arena_chunk *chunk = arena->head; chunk;) {
    tn_arena_chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
  *arena = (tn_arena){.limit = arena->limit};
}

void *tn_arena_alloc(tn_arena *arena, size_t size) {
  if (size > SIZE_MAX / 4) return NULL;
  size_t need = tn_round_up(size ? size : 1, 16);
  if (arena->limit && (need > arena->limit || arena->bytes > arena->limit - need)) return NULL;
  tn_arena_chunk *chunk = arena->head;
  if (!chunk || chunk->capacity - chunk->used < need) {
    size_t capacity = need > ARENA_CHUNK_BYTES ? need : ARENA_CHUNK_BYTES;
    chunk = calloc(1, sizeof *chunk + capacity);
    if (!chunk) return NULL;
    chunk->capacity = capacity;
    chunk->next = arena->head;
    arena->head = chunk;
  }
  void *result = chunk->data + chunk->used;
  chunk->used += need;
  arena->bytes += need;
  return result;
}

void *tn_arena_array(tn_arena *arena, size_t count, size_t size) {
  size_t bytes;
  return tn_mul_size(count, size, &bytes) ? tn_arena_alloc(arena, bytes) : NULL;
}

char *tn_arena_copy(tn_arena *arena, const void *data, size_t size) {
  size_t total;
  char *copy = tn_add_size(size, 1, &total) ? tn_arena_alloc(arena, total) : NULL;
  if (copy && size) memcpy(copy, data, size);
  return copy;
}

void tn_buf_init(tn_buf *buf) {
  *buf = (tn_buf){0};
}

void tn_buf_finish(tn_buf *buf) {
  free(buf->data);
  *buf = (tn_buf){0};
}

void tn_buf_clear(tn_buf *buf) {
  buf->size = 0;
  buf->failed = false;
  if (buf->data) buf->data[0] = 0;
}

bool tn_buf_reserve(tn_buf *buf, size_t more) {
  size_t need;
  if (!tn_add_size(buf->size, more, &need) || need > SIZE_MAX / 4 || (buf->limit && need > buf->limit)) {
    buf->failed = true;
    return false;
  }
  if (need + 1 <= buf->capacity) return true;
  size_t capacity = buf->capacity ? buf->capacity : 64;
  while (capacity < need + 1) capacity *= 2;
  char *data = realloc(buf->data, capacity);
  if (!data) {
    buf->failed = true;
    return false;
  }
  buf->data = data;
  buf->capacity = capacity;
  return true;
}

bool tn_buf_append(tn_buf *buf, const void *data, size_t size) {
  if (!tn_buf_reserve(buf, size)) return false;
  if (size) memcpy(buf->data + buf->size, data, size);
  buf->size += size;
  buf->data[buf->size] = 0;
  return true;
}

bool tn_buf_puts(tn_buf *buf, const char *text) {
  return tn_buf_append(buf, text, strlen(text));
}

bool tn_buf_putc(tn_buf *buf, char c) {
  return tn_buf_append(buf, &c, 1);
}

bool tn_buf_printf(tn_buf *buf, const char *format, ...) {
  va_list list, again;
  va_start(list, format);
  va_copy(again, list);
  int n = vsnprintf(NULL, 0, format, list);
  va_end(list);
  bool ok = n >= 0 && tn_buf_reserve(buf, (size_t)n);
  if (ok) {
    vsnprintf(buf->data + buf->size, (size_t)n + 1, format, again);
    buf->size += (size_t)n;
  } else {
    buf->failed = true;
  }
  va_end(again);
  return ok;
}

char *tn_buf_take(tn_buf *buf) {
  if (!tn_buf_reserve(buf, 0) || buf->failed) return NULL;
  buf->data[buf->size] = 0;
  char *data = buf->data;
  *buf = (tn_buf){.limit = buf->limit};
  return data;
}

void *tn_array_push(void **items, size_t *count, size_t *capacity, size_t item_size) {
  if (*count == *capacity) {
    size_t wanted = *capacity ? *capacity * 2 : 8, bytes;
    if (wanted < *capacity || !tn_mul_size(wanted, item_size, &bytes)) return NULL;
    void *grown = realloc(*items, bytes);
    if (!grown) return NULL;
    *items = grown;
    *capacity = wanted;
  }
  void *slot = (char *)*items + *count * item_size;
  memset(slot, 0, item_size);
  (*count)++;
  return slot;
}
