/* base/memory.h: checked sizes, arena limits, buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

static void sizes_are_checked(void **state) {
  (void)state;
  size_t out = 7;
  assert_false(tn_mul_size(SIZE_MAX, 2, &out));
  assert_false(tn_add_size(SIZE_MAX, 1, &out));
  assert_true(tn_mul_size(3, 4, &out) && out == 12);
  assert_null(tn_calloc(SIZE_MAX, 16));
}

static void arena_respects_its_limit(void **state) {
  (void)state;
  tn_arena arena;
  tn_arena_init(&arena, 1000);
  assert_non_null(tn_arena_alloc(&arena, 900));
  assert_null(tn_arena_alloc(&arena, 200));
  assert_non_null(tn_arena_alloc(&arena, 50));
  assert_null(tn_arena_alloc(&arena, SIZE_MAX));
  tn_arena_finish(&arena);
}

static void buffer_grows_and_keeps_its_limit(void **state) {
  (void)state;
  tn_buf buf;
  tn_buf_init(&buf);
  for (int i = 0; i < 1000; i++) assert_true(tn_buf_printf(&buf, "%d,", i));
  assert_int_equal(buf.data[buf.size], 0);
  buf.limit = buf.size + 1;
  assert_true(tn_buf_putc(&buf, 'x'));
  assert_false(tn_buf_putc(&buf, 'y'));
  assert_true(buf.failed);
  tn_buf_clear(&buf);
  assert_true(tn_buf_puts(&buf, "abc"));
  char *text = tn_buf_take(&buf);
  assert_string_equal(text, "abc");
  free(text);
  tn_buf_finish(&buf);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_checked),
      cmocka_unit_test(arena_respects_its_limit),
      cmocka_unit_test(buffer_grows_and_keeps_its_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
