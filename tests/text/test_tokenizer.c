/* text/tokenizer.h: who may make control tokens, what happens to vocabularies and patterns that mean harm, and that
 * work grows with n log n. The tokenizers are written out here; real ones are in test_vectors.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "text/tokenizer.h"

static tn_tokenizer *from_json(const char *json) {
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  if (tn_tokenizer_from_json(&tokenizer, tn_text_of(json), (tn_text){NULL, 0}, &error) != TN_OK)
    fail_msg("%s", error.message);
  return tokenizer;
}

/* The status of loading, after checking that a failure says why. */
static tn_status load_status(const char *json, const char *says) {
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  tn_status status = tn_tokenizer_from_json(&tokenizer, tn_text_of(json), (tn_text){NULL, 0}, &error);
  if (status != TN_OK && !strstr(error.message, says)) fail_msg("'%s' doesn't say '%s'", error.message, says);
  tn_tokenizer_destroy(tokenizer);
  return status;
}

static void check(const tn_tokenizer *tokenizer, const tn_span *spans, size_t count, const char *expected) {
  tn_ids ids = {0};
  assert_int_equal(tn_tokenizer_encode(tokenizer, spans, count, 0, &ids, NULL), TN_OK);
  tn_buf got;
  tn_buf_init(&got);
  for (size_t i = 0; i < ids.count; i++) tn_buf_printf(&got, i ? " %d" : "%d", (int)ids.data[i]);
  assert_string_equal(got.data ? got.data : "", expected);
  tn_buf_finish(&got);
  free(ids.data);
}

#define SPAN(literal, is_trusted) \
  { TN_TEXT(literal), is_trusted }

/* Letters a-d, blank; "ab" merges; <s> is special, <t> isn't. */
#define LETTERS                                                                                                   \
  "{\"added_tokens\":[{\"id\":10,\"content\":\"<s>\",\"normalized\":false,\"special\":true},"                     \
  "{\"id\":11,\"content\":\"<t>\",\"normalized\":false,\"special\":false},"                                       \
  "{\"id\":12,\"content\":\"<s>a\",\"normalized\":false,\"special\":true}],\"model\":{\"type\":\"BPE\","          \
  "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\" \":4,\"<\":5,\"s\":6,\">\":7,\"t\":8,\"ab\":9},\"merges\":[\"a " \
  "b\"]}}"

static void control_tokens_come_from_trusted_text_only(void **state) {
  (void)state;
  tn_tokenizer *t = from_json(LETTERS);
  check(t, (tn_span[]){SPAN("b<s>c", true)}, 1, "1 10 2");
  check(t, (tn_span[]){SPAN("b<s>c", false)}, 1, "1 5 6 7 2");
  check(t, (tn_span[]){SPAN("<t>", false)}, 1, "11");
  check(t, (tn_span[]){SPAN("<s>", true), SPAN("<s>", false), SPAN("<s>", true)}, 3, "10 5 6 7 10");
  /* Cut anywhere, a token that isn't trusted as a whole is none; trusted parts join. */
  check(t, (tn_span[]){SPAN("<", true), SPAN("s>", false)}, 2, "5 6 7");
  check(t, (tn_span[]){SPAN("<s", false), SPAN(">", true)}, 2, "5 6 7");
  check(t, (tn_span[]){SPAN("<", true), SPAN("s>", true)}, 2, "10");
  /* A longer token that reaches into other text doesn't hide the shorter one in front of it. */
  check(t, (tn_span[]){SPAN("<s>", true), SPAN("ab", false)}, 2, "10 9");
  check(t, (tn_span[]){SPAN("<s>a", true), SPAN("b", false)}, 2, "12 1");
  /* Words run across borders. */
  check(t, (tn_span[]){SPAN("a", true), SPAN("b", false)}, 2, "9");
  check(t, (tn_span[]){SPAN("", true), SPAN("", false)}, 2, "");
  check(t, NULL, 0, "");
  tn_tokenizer_destroy(t);
}

static void trust_survives_normalization(void **state) {
  (void)state;
  tn_tokenizer *t = from_json(
      "{\"added_tokens\":[{\"id\":3,\"content\":\"[E]\",\"normalized\":true,\"special\":true}],"
      "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"xx\"},\"content\":\"[e]\"}]},"
      "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"[\":0,\"e\":1,\"]\":2,\"?\":4},\"merges\":[]}}");
  check(t, (tn_span[]){SPAN("[E]", true)}, 1, "3");
  check(t, (tn_span[]){SPAN("[E]", false)}, 1, "0 1 2");
  check(t, (tn_span[]){SPAN("\xc3\x89", false), SPAN("[E]", true), SPAN("[E]", false)}, 3, "4 3 0 1 2");
  check(t, (tn_span[]){SPAN("[", true), SPAN("E", false), SPAN("]", true)}, 3, "0 1 2");
  /* What a replacement makes is as trusted as what it stands for. */
  check(t, (tn_span[]){SPAN("xx", true)}, 1, "3");
  check(t, (tn_span[]){SPAN("x", true), SPAN("x", false)}, 2, "0 1 2");
  tn_tokenizer_destroy(t);
}

static void merges_never_make_control_tokens(void **state) {
  (void)state;
  tn_tokenizer *t = from_json(
      "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"normalized\":false,\"special\":true}],\"model\":{\"type\":"
      "\"BPE\","
      "\"vocab\":{\"<\":0,\"s\":1,\">\":2,\"<s>\":3,\"<s\":4},\"merges\":[\"< s\",\"<s >\"]}}");
  check(t, (tn_span[]){SPAN("<s>", true)}, 1, "3");
  check(t, (tn_span[]){SPAN("<s>", false)}, 1, "4 2");
  tn_tokenizer_destroy(t);
}

static void bad_files_are_refused_with_a_reason(void **state) {
  (void)state;
  assert_int_equal(load_status("", "JSON"), TN_E_FORMAT);
  assert_int_equal(load_status("{}", "model"), TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"BPE\"}}", "vocab"), TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", "token id"), TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999}}}", "token id"), TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "'b'"),
                   TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "merges[0]"),
                   TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "merges[0]"),
                   TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"Xyz\",\"vocab\":{\"a\":0}}}", "Xyz"), TN_E_UNSUPPORTED);
  assert_int_equal(load_status("{\"normalizer\":{\"type\":\"Xyz\"},\"model\":{\"vocab\":{\"a\":0}}}", "Xyz"),
                   TN_E_UNSUPPORTED);
  assert_int_equal(load_status("{\"pre_tokenizer\":{\"type\":\"Xyz\"},\"model\":{\"vocab\":{\"a\":0}}}", "Xyz"),
                   TN_E_UNSUPPORTED);
  assert_int_equal(load_status("{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"vocab\":{\"a\":0}}}", "CTC"),
                   TN_E_UNSUPPORTED);
  assert_int_equal(load_status("{\"model\":{\"type\":\"Unigram\",\"unk_id\":5,\"vocab\":[[\"a\",0]]}}", "unk_id"),
                   TN_E_FORMAT);
  assert_int_equal(load_status("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]}}", "vocab[0]"),
                   TN_E_FORMAT);
  assert_int_equal(
      load_status("{\"added_tokens\":[{\"id\":99999999,\"content\":\"x\"}],\"model\":{\"vocab\":{\"a\":0}}}",
                  "added token"),
      TN_E_FORMAT);
}

static void odd_vocabularies_work(void **state) {
  (void)state;
  /* Gaps, an empty text, a text twice (the last counts), merges that go round in circles. */
  tn_tokenizer *t = from_json(
      "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\":3,\"b\":7,\"ab\":9,\"a\":5,\"ba\":11,\"aba\":12},"
      "\"merges\":[\"a b\",\"b a\",\"ab a\",\"a ba\"]}}");
  check(t, (tn_span[]){SPAN("a", true)}, 1, "5");
  check(t, (tn_span[]){SPAN("abab", true)}, 1, "9 9");
  check(t, (tn_span[]){SPAN("baa", true)}, 1, "11 5");
  assert_int_equal(tn_tokenizer_size(t), 13);
  assert_int_equal(tn_tokenizer_token_text(t, 1).bytes, 0);
  assert_int_equal(tn_tokenizer_token_text(t, 99).bytes, 0);
  tn_tokenizer_destroy(t);
}

/* Some characters have byte tokens and some don't: ids as the `tokenizers` library (0.23) gives them. */
static void unknown_characters_come_behind_byte_tokens(void **state) {
  (void)state;
#define FALLBACK(fuse)                                                                             \
  "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"fuse_unk\":" fuse \
  ",\"vocab\":{\"<unk>\":0,\"a\":1,\"<0xC3>\":2,\"<0xA9>\":3},\"merges\":[]}}"
  tn_tokenizer *t = from_json(FALLBACK("false"));
  check(t, (tn_span[]){SPAN("xéa", true)}, 1, "2 3 0 1");
  check(t, (tn_span[]){SPAN("xxéya", true)}, 1, "0 2 3 0 0 1");
  check(t, (tn_span[]){SPAN("éx", true)}, 1, "2 3 0");
  tn_tokenizer_destroy(t);
  t = from_json(FALLBACK("true"));
  check(t, (tn_span[]){SPAN("xxéya", true)}, 1, "2 3 0 1");
  check(t, (tn_span[]){SPAN("xaxx", true)}, 1, "0 1 0");
  tn_tokenizer_destroy(t);
#undef FALLBACK
  /* Without an unknown token they are dropped, and merges reach across. */
  t = from_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"▁\":0,\"a\":1,\"▁▁\":2},\"merges\":[\"▁ ▁\"]}}");
  check(t, (tn_span[]){SPAN("a▁x▁a▁", true)}, 1, "1 2 1 0");
  tn_tokenizer_destroy(t);
}

static void later_processors_stand_outside(void **state) {
  (void)state;
  tn_tokenizer *t = from_json(
      "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\",\"cls\":[\"c\",2],"
      "\"sep\":[\"d\",3]},{\"type\":\"ByteLevel\"},{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
      "\"id\":"
      "\"e\"}},{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"e\"}}],\"special_tokens\":{\"e\":{\"ids\":"
      "[4]}}}]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4},\"merges\":[]}}");
  tn_ids ids = {0};
  tn_span span = SPAN("ab", true);
  assert_int_equal(tn_tokenizer_encode(t, &span, 1, TN_ENCODE_BOS | TN_ENCODE_EOS, &ids, NULL), TN_OK);
  static const int32_t expected[] = {4, 2, 0, 1, 3, 4};
  assert_int_equal(ids.count, 6);
  assert_memory_equal(ids.data, expected, sizeof expected);
  free(ids.data);
  tn_tokenizer_destroy(t);
}

static tn_status encode_status(const tn_tokenizer *tokenizer, const char *text, size_t bytes, const char *says) {
  tn_span span = {{text, bytes}, true};
  tn_ids ids = {0};
  tn_error error = {0};
  tn_status status = tn_tokenizer_encode(tokenizer, &span, 1, 0, &ids, &error);
  if (status != TN_OK) assert_true(strstr(error.message, says) && ids.count == 0);
  free(ids.data);
  return status;
}

/* The status of encoding `text` with a limit. */
static tn_status limited(const tn_tokenizer *t, tn_text text, size_t limit, const char *says) {
  const tn_span span = {text, true};
  tn_ids ids = {.limit = limit};
  tn_error error = {0};
  tn_status status = tn_tokenizer_encode(t, &span, 1, 0, &ids, &error);
  assert_string_equal(error.message, says);
  if (status != TN_OK) assert_int_equal(ids.count, 0);
  free(ids.data);
  return status;
}

/* Encoding ends once there are more ids than wanted, of a long word before any of it is encoded. */
static void ids_are_limited(void **state) {
  (void)state;
  tn_buf text;
  tn_buf_init(&text);
  tn_tokenizer *t = from_json(
      "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{"
      "\"a\":0,\"b\":1,\"aa\":2,\"aaaa\":3},\"merges\":[\"a a\",\"aa aa\"]}}");
  for (size_t i = 0; i < 4u << 20; i++) tn_buf_putc(&text, 'a');
  assert_int_equal(limited(t, TN_TEXT("aaaaaaaaaaaa"), 3, ""), TN_OK);
  assert_int_equal(limited(t, TN_TEXT("aaaaaaaaaaaa"), 2, "the text has more than 2 tokens"), TN_E_TOO_LONG);
  assert_int_equal(limited(t, TN_TEXT("bbb"), 2, "the text has more than 2 tokens"), TN_E_TOO_LONG);
  uint64_t start = tn_clock_ns();
  assert_int_equal(limited(t, (tn_text){text.data, text.size}, 1000, "the text has more than 1000 tokens"),
                   TN_E_TOO_LONG);
  uint64_t refused = tn_clock_ns() - start;
  assert_int_equal(limited(t, (tn_text){text.data, text.size}, 0, ""), TN_OK);
  assert_true(refused * 2 < tn_clock_ns() - start - refused);
  tn_tokenizer_destroy(t);
  tn_buf_finish(&text);
}

static void hostile_patterns_end(void **state) {
  (void)state;
  static const char *const patterns[] = {"(a|aa)+$", "(a*)*b", "(?:a+)+b", "(?:(?:a?){20}){20}b"};
  char text[4001];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = 'c';
  for (size_t i = 0; i < TN_COUNT(patterns); i++) {
    tn_buf json;
    tn_buf_init(&json);
    tn_buf_printf(&json,
                  "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},"
                  "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}",
                  patterns[i]);
    tn_tokenizer *t = from_json(json.data);
    uint64_t start = tn_clock_ns();
    tn_status status = encode_status(t, text, sizeof text, "pattern");
    assert_true(status == TN_OK || status == TN_E_LIMIT);
    assert_true(tn_clock_ns() - start < UINT64_C(60000000000)); /* without limits: longer than anybody lives */
    tn_tokenizer_destroy(t);
    tn_buf_finish(&json);
  }
}

static void growth_is_limited(void **state) {
  (void)state;
  tn_buf json;
  tn_buf_init(&json);
  tn_buf_puts(&json, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
  for (int i = 0; i < 40; i++)
    tn_buf_printf(&json, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}", i ? "," : "");
  tn_buf_puts(&json, "]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
  tn_tokenizer *t = from_json(json.data);
  assert_int_equal(encode_status(t, "a", 1, "larger"), TN_E_LIMIT);
  tn_tokenizer_destroy(t);
  tn_buf_finish(&json);
}

/* 1 MB of one word, of marks in the wrong order, of newlines: what isn't n log n takes minutes here, and the test's
 * time limit ends it. */
static void long_words_take_n_log_n(void **state) {
  (void)state;
  const size_t bytes = 1 << 20;
  char *text = malloc(bytes);
  tn_tokenizer *t = from_json(
      "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"vocab\":"
      "{\"?\":7,\"a\":0,\"b\":1,\"aa\":2,\"aaaa\":3,\"ab\":4,\"bb\":5,\"abab\":6},"
      "\"merges\":[\"a a\",\"aa aa\",\"b b\",\"a b\",\"ab ab\"]}}");
  static const char *const units[] = {"a", "ab", "abb", "\xcc\x81\xcc\xa3", "\n"};
  for (size_t u = 0; u < TN_COUNT(units); u++) {
    size_t unit = strlen(units[u]);
    for (size_t i = 0; i < bytes; i++) text[i] = units[u][i % unit];
    assert_int_equal(encode_status(t, text, bytes / unit * unit, ""), TN_OK);
  }
  tn_tokenizer_destroy(t);
  free(text);
}

static void decoding_gives_text_only(void **state) {
  (void)state;
  tn_tokenizer *t = from_json(LETTERS);
  tn_buf out;
  tn_buf_init(&out);
  const int32_t ids[] = {10, 9, -1, 2, 1000000, 11};
  assert_true(tn_tokenizer_decode(t, ids, TN_COUNT(ids), TN_DECODE_SKIP_SPECIAL, &out));
  assert_string_equal(out.data, "ab c <t>"); /* no decoder: blanks between tokens */
  assert_true(tn_tokenizer_is_special(t, 10) && !tn_tokenizer_is_special(t, 11) && !tn_tokenizer_is_special(t, -1));
  assert_int_equal(tn_tokenizer_find(t, TN_TEXT("ab")), 9);
  assert_int_equal(tn_tokenizer_find(t, TN_TEXT("abc")), -1);
  tn_buf_finish(&out);
  tn_tokenizer_destroy(t);
}

static void configuration_names_roles(void **state) {
  (void)state;
  tn_tokenizer *t;
  const char *config =
      "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"<t>\",\"add_bos_token\":true,\"pad_token\":null}";
  assert_int_equal(tn_tokenizer_from_json(&t, tn_text_of(LETTERS), tn_text_of(config), NULL), TN_OK);
  assert_int_equal(tn_tokenizer_role(t, TN_ROLE_BOS), 10);
  assert_int_equal(tn_tokenizer_role(t, TN_ROLE_EOS), 11);
  assert_int_equal(tn_tokenizer_role(t, TN_ROLE_PADDING), -1);
  assert_true(tn_tokenizer_is_end(t, 11) && !tn_tokenizer_is_end(t, 10));
  tn_ids ids = {0};
  tn_span span = SPAN("a", true);
  assert_int_equal(tn_tokenizer_encode(t, &span, 1, TN_ENCODE_BOS | TN_ENCODE_EOS, &ids, NULL), TN_OK);
  assert_true(ids.count == 2 && ids.data[0] == 10 && ids.data[1] == 0);
  free(ids.data);
  tn_tokenizer *other = from_json(LETTERS);
  assert_true(tn_tokenizer_fingerprint(t) == tn_tokenizer_fingerprint(other));
  tn_tokenizer_destroy(other);
  tn_tokenizer_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(control_tokens_come_from_trusted_text_only),
      cmocka_unit_test(trust_survives_normalization),
      cmocka_unit_test(merges_never_make_control_tokens),
      cmocka_unit_test(bad_files_are_refused_with_a_reason),
      cmocka_unit_test(odd_vocabularies_work),
      cmocka_unit_test(unknown_characters_come_behind_byte_tokens),
      cmocka_unit_test(later_processors_stand_outside),
      cmocka_unit_test(ids_are_limited),
      cmocka_unit_test(hostile_patterns_end),
      cmocka_unit_test(growth_is_limited),
      cmocka_unit_test(long_words_take_n_log_n),
      cmocka_unit_test(decoding_gives_text_only),
      cmocka_unit_test(configuration_names_roles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
