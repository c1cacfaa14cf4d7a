/* Tokenizers against the reference implementations: ids both ways of treating control tokens, decoding, streamed
 * pieces, bytes that aren't UTF-8. The vectors are in tests/data/tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/os.h"
#include "model/gguf_vocab.h"
#include "text/tokenizer.h"

#define VECTORS TEST_DATA "/tokenizers/"

static tn_tokenizer *open_gguf(const char *path) {
  tn_error error = {0};
  tn_gguf *gguf;
  tn_tokenizer *tokenizer = NULL;
  if (tn_gguf_open(&gguf, path, &error) == TN_OK) {
    tn_tokenizer_from_gguf(&tokenizer, gguf, NULL, &error);
    tn_gguf_close(gguf);
  }
  if (!tokenizer) fail_msg("%s", error.message);
  return tokenizer;
}

static tn_tokenizer *open_json(const char *path) {
  tn_error error = {0};
  tn_tokenizer *tokenizer;
  if (tn_tokenizer_open_json(&tokenizer, path, &error) != TN_OK) fail_msg("%s", error.message);
  return tokenizer;
}

static tn_ids list_of(const json_t *array) {
  tn_ids ids = {0};
  for (size_t i = 0; i < json_array_size(array); i++)
    assert_true(tn_ids_add(&ids, (int32_t)json_integer_value(json_array_get(array, i))));
  return ids;
}

static void check_ids(const tn_tokenizer *tokenizer, const json_t *line, bool special, const json_t *expected) {
  const json_t *text = json_object_get(line, "text");
  tn_span span = {{json_string_value(text), json_string_length(text)}, special};
  tn_ids ids = {0}, want = list_of(expected);
  assert_int_equal(tn_tokenizer_encode(tokenizer, &span, 1, 0, &ids, NULL), TN_OK);
  bool same = ids.count == want.count && (!ids.count || memcmp(ids.data, want.data, ids.count * sizeof *ids.data) == 0);
  if (!same) fail_msg("line %lld, special %d", json_integer_value(json_object_get(line, "n")), special);
  free(ids.data);
  free(want.data);
}

/* Joins what isn't empty of the pieces with a mark between. */
static void add_piece(tn_buf *joined, const char *data, size_t bytes) {
  if (!bytes) return;
  tn_buf_append(joined, data, bytes);
  tn_buf_putc(joined, '\x1f');
}

static void check_pieces(const tn_tokenizer *tokenizer, const json_t *line) {
  const json_t *pieces = json_object_get(line, "pieces");
  if (!pieces) return;
  tn_ids ids = list_of(json_object_get(line, "ids"));
  tn_buf got, want, piece;
  tn_buf_init(&got);
  tn_buf_init(&want);
  tn_buf_init(&piece);
  tn_decoder decoder;
  tn_decoder_init(&decoder, tokenizer, 0);
  for (size_t i = 0; i <= ids.count; i++) {
    tn_buf_clear(&piece);
    assert_true(i < ids.count ? tn_decoder_push(&decoder, ids.data[i], &piece) : tn_decoder_flush(&decoder, &piece));
    add_piece(&got, piece.data, piece.size);
  }
  for (size_t i = 0; i < json_array_size(pieces); i++)
    add_piece(&want, json_string_value(json_array_get(pieces, i)), json_string_length(json_array_get(pieces, i)));
  if (got.size != want.size || (got.size && memcmp(got.data, want.data, got.size) != 0))
    fail_msg("line %lld: pieces", json_integer_value(json_object_get(line, "n")));
  tn_decoder_finish(&decoder);
  tn_buf_finish(&got);
  tn_buf_finish(&want);
  tn_buf_finish(&piece);
  free(ids.data);
}

static void check_decode(const tn_tokenizer *tokenizer, const json_t *line) {
  const json_t *want = json_object_get(line, "decode");
  if (!want) want = json_object_get(line, "text");
  if (!want || !json_object_get(line, "text")) return;
  tn_ids ids = list_of(json_object_get(line, "ids"));
  tn_buf out;
  tn_buf_init(&out);
  assert_true(tn_tokenizer_decode(tokenizer, ids.data, ids.count, 0, &out));
  if (out.size != json_string_length(want) || (out.size && memcmp(out.data, json_string_value(want), out.size) != 0))
    fail_msg("line %lld: decoded to '%.*s'", json_integer_value(json_object_get(line, "n")), (int)out.size, out.data);
  tn_buf_finish(&out);
  free(ids.data);
}

/* Runs all lines; `other` is the key of the ids with control tokens treated the other way than in "ids", which, if
 * `exact`, are the same where the key is absent. */
static void run_vectors(const tn_tokenizer *tokenizer, const char *path, bool special, const char *other, bool exact,
                        size_t least) {
  char *data;
  size_t size;
  assert_int_equal(tn_file_read(path, (size_t)1 << 26, &data, &size, NULL), TN_OK);
  size_t lines = 0;
  for (char *at = data, *end; at < data + size && (end = strchr(at, '\n')); at = end + 1, lines++) {
    json_t *line = json_loadb(at, (size_t)(end - at), JSON_ALLOW_NUL, NULL);
    assert_non_null(line);
    const json_t *ids = json_object_get(line, "ids"), *otherwise = json_object_get(line, other);
    if (json_object_get(line, "text")) {
      check_ids(tokenizer, line, special, ids);
      if (otherwise || exact) check_ids(tokenizer, line, !special, otherwise ? otherwise : ids);
    }
    check_pieces(tokenizer, line);
    check_decode(tokenizer, line);
    json_decref(line);
  }
  assert_true(lines >= least);
  free(data);
}

static void smollm2_json(void **state) {
  (void)state;
  tn_tokenizer *tokenizer = open_json(VECTORS "smollm2");
  run_vectors(tokenizer, VECTORS "smollm2/vectors.jsonl", true, "ids_plain", true, 500);
  tn_tokenizer_destroy(tokenizer);
}

static void gpt2_gguf(void **state) {
  (void)state;
  tn_tokenizer *tokenizer = open_gguf(VECTORS "vocab/gpt-2.gguf");
  run_vectors(tokenizer, VECTORS "vocab/gpt-2.vectors.jsonl", false, "ids_special", true, 500);
  tn_tokenizer_destroy(tokenizer);
}

static void llama_spm_gguf(void **state) {
  (void)state;
  tn_tokenizer *tokenizer = open_gguf(VECTORS "vocab/llama-spm.gguf");
  run_vectors(tokenizer, VECTORS "vocab/llama-spm.vectors.jsonl", false, "ids_special", true, 500);
  tn_tokenizer_destroy(tokenizer);
}

/* One small tokenizer of each kind. */
static void small_tokenizers(void **state) {
  (void)state;
  static const char *const names[] = {
      "added_bert_a",  "added_bert_b", "added_gpt2_a", "added_gpt2_b",  "added_llama_a",
      "added_llama_b", "added_t5_a",   "added_t5_b",   "aya",           "bert",
      "bert_cased",    "clip",         "gpt2",         "llama",         "metaspace",
      "missing_bytes", "o200k",        "precompiled",  "prefix",        "punctuation",
      "suffix",        "superbpe",     "t5",           "unigram_first", "unigram_never"};
  for (size_t i = 0; i < TN_COUNT(names); i++) {
    char folder[512], vectors[600];
    snprintf(folder, sizeof folder, "%ssmall/%s", VECTORS, names[i]);
    snprintf(vectors, sizeof vectors, "%s/vectors.jsonl", folder);
    tn_tokenizer *tokenizer = open_json(folder);
    print_message("%s\n", names[i]);
    run_vectors(tokenizer, vectors, true, "ids_plain", false, 80);
    tn_tokenizer_destroy(tokenizer);
  }
}

static void bytes_survive(void **state) {
  (void)state;
  static const char *const paths[] = {VECTORS "vocab/gpt-2.gguf", VECTORS "vocab/llama-spm.gguf"};
  static const tn_text texts[] = {
      {"\xff", 1},          {"a\x80z", 3},   {"\xf4\x90\x80\x80", 4}, {"\xed\xa0\x80", 3}, {"\xc3", 1},
      {"\xe2\x82 \xe2", 4}, {"\0\x01\0", 3}, {"ok \xf0\x9f\x98", 6},  {"\xc0\xaf", 2},     {"\xf5\xff\xfe", 3}};
  for (size_t p = 0; p < TN_COUNT(paths); p++) {
    tn_tokenizer *tokenizer = open_gguf(paths[p]);
    for (size_t i = 0; i < TN_COUNT(texts); i++) {
      tn_span span = {texts[i], true};
      tn_ids ids = {0};
      assert_int_equal(tn_tokenizer_encode(tokenizer, &span, 1, 0, &ids, NULL), TN_OK);
      tn_buf out;
      tn_buf_init(&out);
      for (size_t t = 0; t < ids.count; t++) assert_true(tn_tokenizer_token_bytes(tokenizer, ids.data[t], &out));
      size_t front = p == 1; /* SentencePiece's blank */
      assert_int_equal(out.size, texts[i].bytes + front);
      assert_memory_equal(out.data + front, texts[i].data, texts[i].bytes);
      tn_buf_finish(&out);
      free(ids.data);
    }
    tn_tokenizer_destroy(tokenizer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(smollm2_json),     cmocka_unit_test(gpt2_gguf),     cmocka_unit_test(llama_spm_gguf),
      cmocka_unit_test(small_tokenizers), cmocka_unit_test(bytes_survive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
