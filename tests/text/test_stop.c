/* text/stop.h: the text before the first stop string comes out, whole, however it was cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/stop.h"

typedef struct stop_case {
  const char *stops[4];
  const char *text, *expected;
  int found;
} stop_case;

static const stop_case cases[] = {
    {{"END"}, "hello END more", "hello ", 0},
    {{"END"}, "hello EN", "hello EN", -1},
    {{"END"}, "EENEND", "EEN", 0},
    {{"aab"}, "aaaab", "aa", 0},
    {{"abab"}, "aababab", "a", 0},
    {{"\n\n", "User:"}, "one\ntwo User: x\n\n", "one\ntwo ", 1},
    {{"bc", "abcd"}, "xabcd", "xa", 0}, /* complete first */
    {{"c", "abc"}, "xabc", "x", 1},     /* complete together: the longest */
    {{"é"}, "eè é", "eè ", 0},          /* bytes in common */
    {{"stop"}, "", "", -1},
    {{"x"}, "x", "", 0},
};

static size_t string_count(const stop_case *c) {
  size_t count = 0;
  while (count < 4 && c->stops[count]) count++;
  return count;
}

/* Cuts the text at `first` and `second` and checks what comes out, piece by piece. */
static void check_split(const stop_case *c, tn_stop *stop, size_t first, size_t second) {
  size_t bytes = strlen(c->text), cuts[] = {0, first, second, bytes};
  tn_buf out;
  tn_buf_init(&out);
  tn_stop_reset(stop);
  int found = -1;
  for (int i = 0; i < 3; i++) {
    found = tn_stop_push(stop, (tn_text){c->text + cuts[i], cuts[i + 1] - cuts[i]}, &out);
    if (out.size > strlen(c->expected)) fail_msg("'%s': released '%s'", c->text, out.data);
  }
  tn_stop_flush(stop, &out);
  assert_int_equal(found, c->found);
  assert_int_equal(out.size, strlen(c->expected));
  if (out.size) assert_memory_equal(out.data, c->expected, out.size);
  tn_buf_finish(&out);
}

static void every_split_gives_the_same(void **state) {
  (void)state;
  for (size_t i = 0; i < TN_COUNT(cases); i++) {
    tn_text strings[4];
    size_t count = string_count(&cases[i]), bytes = strlen(cases[i].text);
    for (size_t s = 0; s < count; s++) strings[s] = tn_text_of(cases[i].stops[s]);
    tn_stop *stop;
    assert_int_equal(tn_stop_create(&stop, strings, count, NULL), TN_OK);
    for (size_t first = 0; first <= bytes; first++)
      for (size_t second = first; second <= bytes; second++) check_split(&cases[i], stop, first, second);
    tn_stop_destroy(stop);
  }
}

static void refuses_what_can_never_match(void **state) {
  (void)state;
  tn_stop *stop;
  tn_text empty = {NULL, 0};
  static char large[TN_STOP_LONGEST + 1];
  assert_int_equal(tn_stop_create(&stop, &empty, 1, NULL), TN_E_INVALID);
  assert_int_equal(tn_stop_create(&stop, &(tn_text){large, sizeof large}, 1, NULL), TN_E_LIMIT);
  assert_int_equal(tn_stop_create(&stop, NULL, TN_STOP_MOST + 1, NULL), TN_E_LIMIT);
  assert_null(stop);
}

static void no_stops_hold_nothing_back(void **state) {
  (void)state;
  tn_stop *stop;
  tn_buf out;
  tn_buf_init(&out);
  assert_int_equal(tn_stop_create(&stop, NULL, 0, NULL), TN_OK);
  assert_int_equal(tn_stop_push(stop, TN_TEXT("abc"), &out), -1);
  assert_int_equal(out.size, 3);
  tn_stop_destroy(stop);
  tn_buf_finish(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_split_gives_the_same),
      cmocka_unit_test(refuses_what_can_never_match),
      cmocka_unit_test(no_stops_hold_nothing_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
