/* text/pre_names.h: every pre-tokenizer that files name can be had, and cuts as the patterns of its models do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/pre_names.h"
#include "text/tokenizer_parts.h"

static const char *const names[] = {"",
                                    "default",
                                    "gpt-2",
                                    "phi-2",
                                    "mpt",
                                    "olmo",
                                    "llama-bpe",
                                    "llama3",
                                    "dbrx",
                                    "qwen2",
                                    "qwen35",
                                    "gpt-4o",
                                    "llama4",
                                    "tekken",
                                    "smollm",
                                    "starcoder",
                                    "refact",
                                    "command-r",
                                    "falcon",
                                    "falcon3",
                                    "bloom",
                                    "viking",
                                    "chameleon",
                                    "poro-chat",
                                    "gpt3-finnish",
                                    "deepseek-llm",
                                    "deepseek-coder",
                                    "deepseek-v3",
                                    "deepseek-r1-qwen",
                                    "glm4",
                                    "chatglm-bpe",
                                    "exaone",
                                    "exaone4",
                                    "exaone-moe",
                                    "jais",
                                    "jais-2",
                                    "minerva-7b",
                                    "codeshell",
                                    "stablelm2",
                                    "smaug-bpe",
                                    "pixtral",
                                    "lfm2",
                                    "kimi-k2",
                                    "hunyuan",
                                    "hunyuan-dense",
                                    "superbpe",
                                    "trillion",
                                    "bailingmoe",
                                    "seed-coder",
                                    "grok-2",
                                    "afmoe",
                                    "minimax-m2",
                                    "tiny_aya",
                                    "youtu",
                                    "gemma4",
                                    "sarvam-moe",
                                    "laguna",
                                    "minicpm5",
                                    "spark2_5",
                                    "modern-bert",
                                    "granite-docling",
                                    "ufakzeka",
                                    "solar-open"};

/* A vocabulary of the 256 bytes, so that only the cuts decide what the tokens are. */
static tn_tokenizer *byte_tokenizer(const char *pre) {
  static char texts[256][2];
  static tn_text tokens[256];
  for (unsigned byte = 0; byte < 256; byte++)
    tokens[byte] = (tn_text){texts[byte], tn_byte_level_character((unsigned char)byte, texts[byte])};
  tn_vocab vocab;
  tn_vocab_init(&vocab, TN_VOCAB_BPE);
  vocab.pre = tn_text_of(pre);
  vocab.count = 256;
  vocab.tokens = tokens;
  vocab.add_bos = 0;
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  tn_status status = tn_tokenizer_create(&tokenizer, &vocab, &error);
  if (status != TN_OK && tn_pre_rules_named(vocab.pre)->spaces_as_mark) return NULL;
  if (status != TN_OK) fail_msg("%s: %s", pre, error.message);
  return tokenizer;
}

static void all_names_are_known(void **state) {
  (void)state;
  for (size_t i = 0; i < TN_COUNT(names); i++) {
    assert_non_null(tn_pre_rules_named(tn_text_of(names[i])));
    tn_tokenizer_destroy(byte_tokenizer(names[i]));
  }
  assert_null(tn_pre_rules_named(TN_TEXT("gpt")));
  assert_null(tn_pre_rules_named(TN_TEXT("no-such")));
}

/* The words of `text`, with '|' between. */
static void check_cuts(const char *pre, const char *text, const char *expected) {
  tn_tokenizer *tokenizer = byte_tokenizer(pre);
  tn_pretokenizer_work work = {0};
  tn_pattern_run run = {0};
  tn_text cut;
  tn_buf got;
  tn_buf_init(&got);
  assert_int_equal(tn_pretokenize(&tokenizer->pretokenizer, &work, &run, tn_text_of(text), true, &cut, NULL), TN_OK);
  for (size_t i = 0; i < work.words.count; i++) {
    if (i) tn_buf_putc(&got, '|');
    tn_buf_append(&got, cut.data + work.words.words[i].start, work.words.words[i].end - work.words.words[i].start);
  }
  if (strcmp(got.data, expected) != 0) fail_msg("%s: '%s', expected '%s'", pre, got.data, expected);
  tn_buf_finish(&got);
  tn_pretokenizer_work_finish(&work);
  tn_pattern_run_finish(&run);
  tn_tokenizer_destroy(tokenizer);
}

static void names_cut_as_their_models_do(void **state) {
  (void)state;
  static const struct {
    const char *pre, *text, *expected;
  } cases[] = {
      {"gpt-2", "Hello  world's 1234!?\n\n x", "Hello| | world|'s| 1234|!?|\n\n| x"},
      {"llama-bpe", "Hello  world'S 12345!?\n\n x", "Hello| | world|'S| |123|45|!?\n\n| x"},
      {"qwen2", "a12 (b)\r\n", "a|1|2| (|b|)\r\n"},
      {"qwen35", "ก็a\xcc\x81 x", "ก็a\xcc\x81| x"},
      {"qwen2", "a\xcc\x81", "a|\xcc\x81"},
      {"gpt-4o", "camelCase HTTPServer's x/\n", "camel|Case| HTTPServer's| x|/\n"},
      {"tekken", "camelCase 123", "camel|Case| |1|2|3"},
      {"smollm", "a12 b", "a|1|2| b"},
      {"falcon", "a+b 12345.", "a|+|b| |123|45|."},
      {"deepseek-llm", "ab 12 一二 x  \ny", "ab| |12| |一二| x|  |\n|y"},
      {"deepseek-llm", "\xe1\xbd\x84\xe1\xbf\x93\xef\xa4\x80", "\xe1\xbd\x84\xe1\xbf\x93|\xef\xa4\x80"},
      {"deepseek-coder", "ab12 !? c", "ab|1|2| !?| c"},
      {"deepseek-v3", "ab 1234一二カ .x ~", "ab| |123|4|一二カ| .|x| ~"},
      {"command-r", "x1 2", "x|1| |2"},
      {"bloom", "ab, (c d", "ab|, (|c| d"},
      {"kimi-k2", "漢字abc 12", "漢字|abc| |12"},
      {"superbpe", "a1234567b 12", "a|1|234|567|b |12"},
      {"tiny_aya", "1234567 1234x", "1|234|567| |123|4|x"},
      {"afmoe", "x1234 ", "x|1|234| "},
      {"exaone-moe", "a b c 1", "a b c| |1"},
  };
  for (size_t i = 0; i < TN_COUNT(cases); i++) check_cuts(cases[i].pre, cases[i].text, cases[i].expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_names_are_known),
      cmocka_unit_test(names_cut_as_their_models_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
