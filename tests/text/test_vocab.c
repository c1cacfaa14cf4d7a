/* tn_vocab: vocabularies as GGUF files hold them, usual and hostile ones, of each kind; one tokenizer used by many
 * threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "text/tokenizer.h"

#define MARK "\xe2\x96\x81"

static void check_ids(const tn_tokenizer *tokenizer, tn_text text, bool trusted, unsigned flags, const char *expected) {
  tn_span span = {text, trusted};
  tn_ids ids = {0};
  tn_error error = {0};
  if (tn_tokenizer_encode(tokenizer, &span, 1, flags, &ids, &error) != TN_OK) fail_msg("%s", error.message);
  tn_buf got;
  tn_buf_init(&got);
  for (size_t i = 0; i < ids.count; i++) tn_buf_printf(&got, i ? " %d" : "%d", (int)ids.data[i]);
  if (strcmp(got.data ? got.data : "", expected) != 0) fail_msg("'%.*s': %s", (int)text.bytes, text.data, got.data);
  tn_buf_finish(&got);
  free(ids.data);
}

static void check_text(const tn_tokenizer *tokenizer, const int32_t *ids, size_t count, const char *expected) {
  tn_buf out;
  tn_buf_init(&out);
  assert_true(tn_tokenizer_decode(tokenizer, ids, count, 0, &out));
  assert_string_equal(out.data ? out.data : "", expected);
  tn_buf_finish(&out);
}

static tn_tokenizer *create(const tn_vocab *vocab) {
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  if (tn_tokenizer_create(&tokenizer, vocab, &error) != TN_OK) fail_msg("%s", error.message);
  return tokenizer;
}

static tn_status create_status(const tn_vocab *vocab, const char *says) {
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  tn_status status = tn_tokenizer_create(&tokenizer, vocab, &error);
  if (status != TN_OK && !strstr(error.message, says)) fail_msg("'%s' doesn't say '%s'", error.message, says);
  tn_tokenizer_destroy(tokenizer);
  return status;
}

static const tn_text spm_tokens[] = {TN_TEXT("<unk>"),  TN_TEXT("<s>"),    TN_TEXT("</s>"), TN_TEXT("<0x0A>"),
                                     TN_TEXT("<0xFF>"), TN_TEXT(MARK),     TN_TEXT("a"),    TN_TEXT("b"),
                                     TN_TEXT("ab"),     TN_TEXT(MARK "a"), TN_TEXT("<"),    TN_TEXT("s"),
                                     TN_TEXT(">"),      TN_TEXT("<s"),     TN_TEXT("ba")};
static const float spm_scores[] = {0, 0, 0, 0, 0, -9, -8, -8, -1, -2, -7, -7, -7, -3, -1};
static const int32_t spm_types[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static tn_vocab spm_vocab(void) {
  tn_vocab vocab;
  tn_vocab_init(&vocab, TN_VOCAB_SPM);
  vocab.count = TN_COUNT(spm_tokens);
  vocab.tokens = spm_tokens;
  vocab.scores = spm_scores;
  vocab.types = spm_types;
  return vocab;
}

static void sentencepiece_merges_by_score(void **state) {
  (void)state;
  tn_vocab vocab = spm_vocab();
  tn_tokenizer *t = create(&vocab);
  check_ids(t, TN_TEXT("ab"), true, 0, "5 8");
  check_ids(t, TN_TEXT("a ab"), true, TN_ENCODE_BOS, "1 9 5 8");
  check_ids(t, TN_TEXT("aba"), true, 0, "5 8 6"); /* equal scores: the leftmost */
  check_ids(t, TN_TEXT("\n\xff"), true, 0, "5 3 4");
  check_ids(t, TN_TEXT("\x01"), true, 0, "5 0"); /* no byte token: unknown */
  check_ids(t, TN_TEXT("<s>a"), true, 0, "1 9"); /* a blank in front again behind a control token */
  check_ids(t, TN_TEXT("<s>"), false, 0, "5 13 12");
  check_text(t, (int32_t[]){1, 9, 8, 3, 4}, 5, "<s> aab\n\xef\xbf\xbd");
  check_text(t, (int32_t[]){9, 5, 7}, 3, "a b");
  tn_tokenizer_destroy(t);
  vocab.add_space_prefix = 0;
  vocab.add_bos = 0;
  t = create(&vocab);
  check_ids(t, TN_TEXT("ab"), true, TN_ENCODE_BOS, "8");
  check_text(t, (int32_t[]){9}, 1, " a");
  tn_tokenizer_destroy(t);
}

static void unigram_takes_the_best_sum(void **state) {
  (void)state;
  static const tn_text tokens[] = {TN_TEXT("<pad>"), TN_TEXT("</s>"), TN_TEXT("<unk>"),   TN_TEXT(MARK), TN_TEXT("a"),
                                   TN_TEXT("b"),     TN_TEXT("ab"),   TN_TEXT(MARK "ab"), TN_TEXT("ud")};
  static const float scores[] = {0, 0, 0, -2, -3, -3, -5, -8, -50};
  static const int32_t types[] = {3, 3, 2, 1, 1, 1, 1, 1, 4};
  tn_vocab vocab;
  tn_vocab_init(&vocab, TN_VOCAB_UNIGRAM);
  vocab.count = TN_COUNT(tokens);
  vocab.tokens = tokens;
  vocab.scores = scores;
  vocab.types = types;
  vocab.add_space_prefix = 1;
  vocab.remove_extra_whitespaces = 1;
  tn_tokenizer *t = create(&vocab);
  check_ids(t, TN_TEXT("ab"), true, TN_ENCODE_EOS, "3 6 1"); /* -2 - 5 beats -8 and -2 - 3 - 3 */
  check_ids(t, TN_TEXT("  a   b "), true, 0, "3 4 3 5");
  check_ids(t, TN_TEXT("axyb"), true, 0, "3 4 2 5"); /* neighbouring unknown characters are one */
  check_ids(t, TN_TEXT("audb"), true, 0, "3 4 8 3 5");
  check_ids(t, TN_TEXT("</s>"), false, 0, "3 2");
  check_text(t, (int32_t[]){3, 6, 3, 5}, 4, "ab b");
  tn_tokenizer_destroy(t);
  vocab.scores = NULL;
  assert_int_equal(create_status(&vocab, "scores"), TN_E_FORMAT);
}

static void wordpiece_takes_the_longest(void **state) {
  (void)state;
  static const tn_text tokens[] = {
      TN_TEXT("[PAD]"),     TN_TEXT("[UNK]"), TN_TEXT("[CLS]"),  TN_TEXT("[SEP]"),  TN_TEXT(MARK "un"),
      TN_TEXT(MARK "able"), TN_TEXT("able"),  TN_TEXT(MARK "u"), TN_TEXT(MARK "!"), TN_TEXT(MARK "\xe4\xb8\xad")};
  static const int32_t types[] = {3, 2, 3, 3, 1, 1, 1, 1, 1, 1};
  tn_vocab vocab;
  tn_vocab_init(&vocab, TN_VOCAB_WORDPIECE);
  vocab.count = TN_COUNT(tokens);
  vocab.tokens = tokens;
  vocab.types = types;
  vocab.roles[TN_ROLE_BOS] = 2;
  vocab.roles[TN_ROLE_SEPARATOR] = 3;
  vocab.roles[TN_ROLE_UNKNOWN] = 1;
  tn_tokenizer *t = create(&vocab);
  check_ids(t, TN_TEXT("\xc3\x9cnable!\t able"), true, TN_ENCODE_BOS | TN_ENCODE_EOS, "2 4 6 8 5 3");
  check_ids(t,
            TN_TEXT("un\xe4\xb8\xad"
                    "able xun"),
            true, 0, "4 9 5 1");
  check_text(t, (int32_t[]){4, 6, 5, 8}, 4, "unable able !");
  tn_tokenizer_destroy(t);
}

/* A byte-level vocabulary of the letters a to d with gaps, doubles, empty texts and merges of what doesn't exist. */
static void odd_byte_vocabularies_work(void **state) {
  (void)state;
  static const tn_text tokens[] = {TN_TEXT("a"),  TN_TEXT(""),         TN_TEXT("b"),  TN_TEXT("a"),
                                   TN_TEXT("ab"), TN_TEXT("\xc4\xa0"), TN_TEXT("abc")};
  static const tn_text merges[] = {TN_TEXT("a b"), TN_TEXT("ab c"),    TN_TEXT("x y"), TN_TEXT("xy z"), TN_TEXT(""),
                                   TN_TEXT(" "),   TN_TEXT("abc abc"), TN_TEXT("b a"), TN_TEXT("a b")};
  tn_vocab vocab;
  tn_vocab_init(&vocab, TN_VOCAB_BPE);
  vocab.pre = TN_TEXT("gpt-2");
  vocab.count = TN_COUNT(tokens);
  vocab.tokens = tokens;
  vocab.merge_count = TN_COUNT(merges);
  vocab.merges = merges;
  tn_tokenizer *t = create(&vocab);
  check_ids(t, TN_TEXT("ab a"), true, 0, "4 5 3"); /* of two equal texts the last counts */
  check_ids(t, TN_TEXT("ab c"), true, 0, "4 5");   /* a byte without token is dropped */
  check_ids(t, TN_TEXT("abc"), true, 0, "6");
  check_ids(t, TN_TEXT("abcabc"), true, 0, "3 2 3 2"); /* what merges to no token comes apart into bytes */
  check_ids(t, TN_TEXT("xyz"), true, 0, "");
  check_text(t, (int32_t[]){0, 1, 4, 5, 99, -5}, 6, "aab ");
  tn_tokenizer_destroy(t);
}

static void bad_vocabularies_are_refused(void **state) {
  (void)state;
  tn_vocab vocab = spm_vocab();
  vocab.count = 0;
  assert_int_equal(create_status(&vocab, "0 tokens"), TN_E_FORMAT);
  vocab = spm_vocab();
  vocab.scores = NULL;
  assert_int_equal(create_status(&vocab, "scores"), TN_E_FORMAT);
  tn_vocab_init(&vocab, TN_VOCAB_BPE);
  vocab.count = 3;
  vocab.tokens = spm_tokens;
  vocab.pre = TN_TEXT("no-such-thing");
  assert_int_equal(create_status(&vocab, "no-such-thing"), TN_E_UNSUPPORTED);
  vocab.pre = TN_TEXT("gpt-2");
  vocab.add_bos = 1;
  assert_int_equal(create_status(&vocab, "BOS"), TN_E_FORMAT);
  vocab.roles[TN_ROLE_BOS] = 3; /* not below 3 */
  assert_int_equal(create_status(&vocab, "BOS"), TN_E_FORMAT);
  static char large[5000];
  memset(large, 'x', sizeof large);
  tn_text tokens[] = {TN_TEXT("a"), {large, sizeof large}};
  static const int32_t types[] = {1, 3};
  tn_vocab_init(&vocab, TN_VOCAB_BPE);
  vocab.count = 2;
  vocab.tokens = tokens;
  vocab.types = types;
  assert_int_equal(create_status(&vocab, "5000 bytes"), TN_E_LIMIT);
}

static void ends_are_found_by_name_and_role(void **state) {
  (void)state;
  static const tn_text tokens[] = {TN_TEXT("a"), TN_TEXT("<|im_end|>"), TN_TEXT("<|eot_id|>"), TN_TEXT("</s>"),
                                   TN_TEXT("<end_of_turn>")};
  static const int32_t types[] = {1, 3, 4, 1, 3}; /* one that says it is user-defined, one that is an ordinary token */
  tn_vocab vocab;
  tn_vocab_init(&vocab, TN_VOCAB_BPE);
  vocab.count = TN_COUNT(tokens);
  vocab.tokens = tokens;
  vocab.types = types;
  vocab.roles[TN_ROLE_EOS] = 0;
  tn_tokenizer *t = create(&vocab);
  assert_true(tn_tokenizer_is_end(t, 0) && tn_tokenizer_is_end(t, 1) && tn_tokenizer_is_end(t, 2) &&
              tn_tokenizer_is_end(t, 4));
  assert_false(tn_tokenizer_is_end(t, 3));
  check_ids(t, TN_TEXT("a<|eot_id|>"), true, 0, "0 2");
  check_ids(t, TN_TEXT("a<|eot_id|>"), false, 0, "0"); /* the other bytes have no tokens */
  tn_tokenizer_destroy(t);
}

typedef struct worker {
  const tn_tokenizer *tokenizer;
  const char *text;
  size_t bytes, count;
} worker;

static void work(void *argument) {
  worker *w = argument;
  tn_span span = {{w->text, w->bytes}, true};
  for (int round = 0; round < 20; round++) {
    tn_ids ids = {0};
    if (tn_tokenizer_encode(w->tokenizer, &span, 1, 0, &ids, NULL) == TN_OK) w->count = ids.count;
    free(ids.data);
  }
}

static void threads_share_a_tokenizer(void **state) {
  (void)state;
  tn_vocab vocab = spm_vocab();
  tn_tokenizer *t = create(&vocab);
  static char text[20000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = "ab a\n"[i % 5];
  worker workers[4];
  tn_thread *threads[4];
  for (size_t i = 0; i < 4; i++) {
    workers[i] = (worker){t, text, sizeof text, 0};
    threads[i] = tn_thread_start("tokenize", work, &workers[i]);
  }
  for (size_t i = 0; i < 4; i++)
    if (threads[i]) tn_thread_join(threads[i]);
  for (size_t i = 0; i < 4; i++) assert_true(workers[i].count > 1000 && workers[i].count == workers[0].count);
  tn_tokenizer_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sentencepiece_merges_by_score), cmocka_unit_test(unigram_takes_the_best_sum),
      cmocka_unit_test(wordpiece_takes_the_longest),   cmocka_unit_test(odd_byte_vocabularies_work),
      cmocka_unit_test(bad_vocabularies_are_refused),  cmocka_unit_test(ends_are_found_by_name_and_role),
      cmocka_unit_test(threads_share_a_tokenizer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
