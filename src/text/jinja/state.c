/* The state of one compilation or rendering: its memory, its limits, and how errors leave it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/jinja/value.h"

/* A message can carry text of the template's; it is cut here. */
#define MESSAGE_BYTES ((size_t)1 << 20)

void tnj_state_init(tnj_state *s, const tn_jinja_limits *limits) {
  memset(s, 0, sizeof *s);
  if (limits) s->limits = *limits;
  tn_jinja_limits *l = &s->limits;
  if (!l->source_bytes) l->source_bytes = (size_t)4 << 20;
  if (!l->nesting) l->nesting = 200;
  if (!l->steps) l->steps = 50000000;
  if (!l->depth) l->depth = 2000;
  if (!l->stack_bytes) l->stack_bytes = (size_t)160 << 10;
  if (!l->memory_bytes) l->memory_bytes = (size_t)256 << 20;
  if (!l->output_bytes) l->output_bytes = (size_t)64 << 20;
  tn_arena_init(&s->arena, l->memory_bytes);
  tn_buf_init(&s->message);
  s->message.limit = MESSAGE_BYTES;
  s->stack_base = __builtin_frame_address(0);
}

void tnj_state_finish(tnj_state *s) {
  tn_arena_finish(&s->arena);
  tn_buf_finish(&s->message);
}

_Noreturn static void leave(tnj_state *s, tn_status status, const char *format, va_list list) {
  char text[1024];
  int size = vsnprintf(text, sizeof text, format, list);
  s->status = status;
  if (!s->raised) {
    tn_buf_clear(&s->message);
    if (size > 0) tn_buf_puts(&s->message, text);
  }
  longjmp(*s->escape, 1);
}

_Noreturn void tnj_fail(tnj_state *s, tn_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  leave(s, status, format, list);
}

_Noreturn void tnj_error(tnj_state *s, const char *format, ...) {
  va_list list;
  va_start(list, format);
  leave(s, TN_E_INVALID, format, list);
}

void *tnj_alloc(tnj_state *s, size_t size) {
  void *memory = tn_arena_alloc(&s->arena, size);
  if (memory) return memory;
  if (size > s->limits.memory_bytes || s->arena.bytes > s->limits.memory_bytes - size - 16)
    tnj_fail(s, TN_E_LIMIT, "needs more than the %zu bytes of memory allowed", s->limits.memory_bytes);
  tnj_fail(s, TN_E_MEMORY, "out of memory for %zu bytes", size);
}

void *tnj_array(tnj_state *s, size_t count, size_t size) {
  size_t bytes;
  if (!tn_mul_size(count, size, &bytes)) bytes = SIZE_MAX / 2;
  return tnj_alloc(s, bytes);
}

void tnj_work(tnj_state *s, size_t bytes) {
  s->steps += bytes / 64;
  if (s->steps > s->limits.steps)
    tnj_fail(s, TN_E_LIMIT, "takes more than the %llu steps allowed", (unsigned long long)s->limits.steps);
}

void tnj_step(tnj_state *s) {
  s->steps++;
  tnj_work(s, 0);
}

void tnj_enter(tnj_state *s) {
  tnj_step(s);
  const char *here = __builtin_frame_address(0);
  size_t used = here < s->stack_base ? (size_t)(s->stack_base - here) : (size_t)(here - s->stack_base);
  if (++s->depth > s->limits.depth || used > s->limits.stack_bytes)
    tnj_fail(s, TN_E_LIMIT, "nested too deeply (maximum recursion depth exceeded)");
}
