/* text/pattern.h: patterns cut texts as Oniguruma does (tests/data/tokenizers/patterns.jsonl has what the reference's
 * Split makes of them), and what can't be taken is refused with the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/os.h"
#include "text/tokenizer_parts.h"

static tn_split_behavior behavior_named(const char *name) {
  static const char *const names[] = {"removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"};
  size_t i = 0;
  while (strcmp(names[i], name) != 0) i++;
  return (tn_split_behavior)i;
}

static tn_text text_of(const json_t *string) {
  return (tn_text){json_string_value(string), json_string_length(string)};
}

static void check_line(const json_t *line) {
  tn_pretokenizer pretokenizer = {0};
  tn_pretokenizer_work work = {0};
  tn_pattern_run run = {0};
  tn_error error = {0};
  tn_text pattern = text_of(json_object_get(line, "pattern")), text = text_of(json_object_get(line, "text")), cut;
  const json_t *pieces = json_object_get(line, "pieces");
  tn_split_behavior behavior = behavior_named(json_string_value(json_object_get(line, "behavior")));
  if (tn_add_pattern_cut(&pretokenizer, pattern, behavior, json_is_true(json_object_get(line, "invert")), &error) !=
      TN_OK)
    fail_msg("%s", error.message);
  assert_int_equal(tn_pretokenize(&pretokenizer, &work, &run, text, true, &cut, NULL), TN_OK);
  bool same = work.words.count == json_array_size(pieces);
  for (size_t i = 0; i < work.words.count && same; i++) {
    tn_word word = work.words.words[i];
    same = tn_text_equal((tn_text){cut.data + word.start, word.end - word.start}, text_of(json_array_get(pieces, i)));
  }
  if (!same) fail_msg("'%s' on '%s'", pattern.data, text.data);
  tn_pretokenizer_work_finish(&work);
  tn_pattern_run_finish(&run);
  tn_pretokenizer_finish(&pretokenizer);
}

static void patterns_cut_as_the_reference_does(void **state) {
  (void)state;
  char *data;
  size_t size, lines = 0;
  assert_int_equal(tn_file_read(TEST_DATA "/tokenizers/patterns.jsonl", (size_t)1 << 24, &data, &size, NULL), TN_OK);
  for (char *at = data, *end; at < data + size && (end = strchr(at, '\n')); at = end + 1, lines++) {
    json_t *line = json_loadb(at, (size_t)(end - at), JSON_ALLOW_NUL, NULL);
    assert_non_null(line);
    check_line(line);
    json_decref(line);
  }
  assert_true(lines >= 1000);
  free(data);
}

static void the_rest_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *pattern;
    tn_status status;
  } cases[] = {
      {"(", TN_E_FORMAT},
      {")", TN_E_FORMAT},
      {"[a", TN_E_FORMAT},
      {"*", TN_E_FORMAT},
      {"a|+", TN_E_FORMAT},
      {"[b-a]", TN_E_FORMAT},
      {"\\", TN_E_FORMAT},
      {"\\x{110000}", TN_E_FORMAT},
      {"\\p{L", TN_E_FORMAT},
      {"\\p{Nope}", TN_E_UNSUPPORTED},
      {"(a)\\1", TN_E_UNSUPPORTED},
      {"\\K", TN_E_UNSUPPORTED},
      {"(?R)", TN_E_UNSUPPORTED},
      {"(?{x})", TN_E_UNSUPPORTED},
      {"[[:alpha:]]", TN_E_UNSUPPORTED},
      {"a{100000}", TN_E_LIMIT},
      {"(?<=a+)b", TN_E_FORMAT},
      {"(?<a", TN_E_FORMAT},
  };
  for (size_t i = 0; i < TN_COUNT(cases); i++) {
    tn_pattern *pattern;
    tn_error error = {0};
    tn_status status = tn_pattern_compile(&pattern, tn_text_of(cases[i].pattern), &error);
    if (status != cases[i].status) fail_msg("'%s': %d, %s", cases[i].pattern, (int)status, error.message);
    assert_non_null(strstr(error.message, "pattern"));
    tn_pattern_free(pattern);
  }
}

static void sizes_are_limited(void **state) {
  (void)state;
  tn_pattern *pattern;
  tn_buf text;
  tn_buf_init(&text);
  for (int i = 0; i < 1000; i++) tn_buf_puts(&text, "(");
  assert_int_equal(tn_pattern_compile(&pattern, (tn_text){text.data, text.size}, NULL), TN_E_LIMIT);
  tn_buf_clear(&text);
  for (int i = 0; i < 1000; i++) tn_buf_puts(&text, "[");
  assert_int_equal(tn_pattern_compile(&pattern, (tn_text){text.data, text.size}, NULL), TN_E_LIMIT);
  tn_buf_clear(&text);
  for (unsigned i = 0; i < 300; i++) tn_buf_printf(&text, "\\x{%x}", 0x4e00 + 2 * i);
  assert_int_equal(tn_pattern_compile(&pattern, (tn_text){text.data, text.size}, NULL), TN_E_LIMIT);
  tn_buf_clear(&text);
  for (int i = 0; i < 20000; i++) tn_buf_puts(&text, "a");
  assert_int_equal(tn_pattern_compile(&pattern, (tn_text){text.data, text.size}, NULL), TN_E_LIMIT);
  tn_buf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patterns_cut_as_the_reference_does),
      cmocka_unit_test(the_rest_is_refused),
      cmocka_unit_test(sizes_are_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
