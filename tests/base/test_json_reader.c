/* base/json_reader.h: what JSON allows is read exactly, what it doesn't is refused, whatever the length of the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_reader.h"

/* The status of skipping through `text`, which lies at the end of an allocation so that a sanitizer sees any overrun.
 */
static tn_status skim_bytes(const char *text, size_t bytes, tn_error *error) {
  char *copy = malloc(bytes ? bytes : 1);
  if (bytes) memcpy(copy, text, bytes);
  tn_json json;
  tn_json_init(&json, copy, bytes, error);
  if (!tn_json_skip(&json, NULL)) assert_int_not_equal(json.status, TN_OK);
  tn_status status = tn_json_end(&json);
  free(copy);
  return status;
}

static tn_status skim(const char *text) {
  return skim_bytes(text, strlen(text), NULL);
}

static void accepts_json(void **state) {
  (void)state;
  static const char *const good[] = {"0",
                                     "-0.5e+10",
                                     " [ ] ",
                                     "{}",
                                     "[1,2,[3,{\"a\":null}]]",
                                     "\"\"",
                                     "true",
                                     "\"\\u00e9\"",
                                     "\"\\ud83d\\ude00\"",
                                     "{\"a\":1,\"a\":2}",
                                     "\"\x7f\"",
                                     "\"é\""};
  for (size_t i = 0; i < TN_COUNT(good); i++) assert_int_equal(skim(good[i]), TN_OK);
}

static void refuses_the_rest(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    " ",
                                    "{",
                                    "[1,]",
                                    "[1 2]",
                                    "{\"a\"}",
                                    "{\"a\":}",
                                    "{a:1}",
                                    "{\"a\":1,}",
                                    "01",
                                    "-",
                                    "1.",
                                    ".5",
                                    "1e",
                                    "+1",
                                    "nul",
                                    "True",
                                    "NaN",
                                    "\"",
                                    "\"\\x\"",
                                    "\"\\u12\"",
                                    "\"\\ud800\"",
                                    "\"\\ud800\\u0041\"",
                                    "\"\\udc00\"",
                                    "\"\n\"",
                                    "\"\xff\"",
                                    "\"\xed\xa0\x80\"",
                                    "\"\xf4\x90\x80\x80\"",
                                    "[1]]",
                                    "1 2",
                                    "[}",
                                    "{\"a\":1]",
                                    "'a'",
                                    "\xef\xbb\xbf[]",
                                    "\"\xc3"};
  for (size_t i = 0; i < TN_COUNT(bad); i++)
    if (skim(bad[i]) != TN_E_FORMAT) fail_msg("accepted: %s", bad[i]);
}

static void reads_values(void **state) {
  (void)state;
  const char text[] =
      "{\"s\":\"a\\n\\u0000\\ud83d\\ude00b\", \"i\":-9223372036854775808, \"d\":2.5, \"b\":true, "
      "\"n\":null, \"k\\\"\":[1,2], \"e\":[]}";
  tn_json json;
  tn_error error = {0};
  tn_json_init(&json, text, sizeof text - 1, &error);
  assert_true(tn_json_object(&json));
  int seen = 0;
  for (tn_text key; tn_json_key(&json, &key); seen++) {
    tn_text string;
    int64_t integer;
    double number;
    bool flag;
    if (tn_text_is(key, "s")) {
      assert_true(tn_json_string(&json, &string));
      assert_true(tn_text_equal(string, TN_TEXT("a\n\0\xf0\x9f\x98\x80"
                                                "b")));
    } else if (tn_text_is(key, "i")) {
      assert_true(tn_json_integer(&json, &integer) && integer == INT64_MIN);
    } else if (tn_text_is(key, "d")) {
      assert_true(tn_json_number(&json, &number) && number == 2.5);
    } else if (tn_text_is(key, "b")) {
      assert_true(!tn_json_null(&json) && tn_json_boolean(&json, &flag) && flag);
    } else if (tn_text_is(key, "n")) {
      assert_true(tn_json_null(&json));
    } else if (tn_text_is(key, "k\"")) {
      assert_true(tn_json_skip(&json, &string));
      assert_true(tn_text_is(string, "[1,2]"));
    } else {
      assert_true(tn_json_array(&json) && !tn_json_item(&json));
    }
  }
  assert_int_equal(tn_json_end(&json), TN_OK);
  assert_int_equal(seen, 7);
}

static void integers_must_fit(void **state) {
  (void)state;
  static const char *const bad[] = {"9223372036854775808", "-9223372036854775809", "1.0", "1e3", "\"1\""};
  for (size_t i = 0; i < TN_COUNT(bad); i++) {
    tn_json json;
    int64_t value;
    tn_json_init(&json, bad[i], strlen(bad[i]), NULL);
    assert_false(tn_json_integer(&json, &value));
    assert_int_not_equal(tn_json_end(&json), TN_OK);
  }
}

static void depth_is_bounded(void **state) {
  (void)state;
  char text[2 * TN_JSON_DEPTH + 2];
  memset(text, '[', TN_JSON_DEPTH);
  memset(text + TN_JSON_DEPTH, ']', TN_JSON_DEPTH);
  assert_int_equal(skim_bytes(text, 2 * TN_JSON_DEPTH, NULL), TN_OK);
  memset(text, '[', TN_JSON_DEPTH + 1);
  memset(text + TN_JSON_DEPTH + 1, ']', TN_JSON_DEPTH + 1);
  assert_int_equal(skim_bytes(text, sizeof text, NULL), TN_E_LIMIT);
}

static void every_cut_is_a_fault(void **state) {
  (void)state;
  const char text[] = "{\"a\\u00e9\": [1.5e3, \"\\ud83d\\ude00é\", true, null], \"b\": {\"c\": -1}}";
  for (size_t n = 0; n < sizeof text - 1; n++) assert_int_equal(skim_bytes(text, n, NULL), TN_E_FORMAT);
  assert_int_equal(skim_bytes(text, sizeof text - 1, NULL), TN_OK);
}

static void faults_name_their_place(void **state) {
  (void)state;
  tn_error error = {0};
  skim_bytes("{\n \"a\": tru}", 12, &error);
  assert_non_null(strstr(error.message, "line 2 column 7"));
}

static void arrays_are_passed_by_their_brackets(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t items;
  } arrays[] = {
      {"[]", 0},  {" [ ] ", 0}, {"[1]", 1}, {"[[1,2],[3,4]]", 2}, {"[\"],[\\\"\", {\"a\": [1, 2]}, \"\\\\\"]", 3},
      {"[[]]", 1}};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    tn_json json;
    tn_text span;
    size_t items = 99;
    tn_json_init(&json, arrays[i].text, strlen(arrays[i].text), NULL);
    assert_true(tn_json_pass_array(&json, &span, &items));
    assert_int_equal(items, arrays[i].items);
    assert_int_equal(span.data[0], '[');
    assert_int_equal(span.data[span.bytes - 1], ']');
    assert_int_equal(tn_json_end(&json), TN_OK);
  }
  static const char *const faulty[] = {"", "{}", "[", "[\"", "[\"\\", "[[1]", "[\"]\"", "1"};
  for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
    tn_json json;
    tn_text span;
    size_t items;
    tn_json_init(&json, faulty[i], strlen(faulty[i]), NULL);
    assert_false(tn_json_pass_array(&json, &span, &items));
    assert_int_equal(tn_json_end(&json), TN_E_FORMAT);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arrays_are_passed_by_their_brackets),
      cmocka_unit_test(accepts_json),
      cmocka_unit_test(refuses_the_rest),
      cmocka_unit_test(reads_values),
      cmocka_unit_test(integers_must_fit),
      cmocka_unit_test(depth_is_bounded),
      cmocka_unit_test(every_cut_is_a_fault),
      cmocka_unit_test(faults_name_their_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
