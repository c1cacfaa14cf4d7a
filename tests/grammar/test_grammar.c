/* text/grammar: masks against trying every token, any split into tokens, rollback, what is forced, hostile grammars.
 * All on a stack of 256 KiB: nothing may recurse as deep as its input. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/os.h"
#include "text/grammar/grammar.h"

#define STACK_BYTES ((size_t)256 << 10)

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"minimum\":3,"
    "\"maximum\":120},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":3}}},\"required\":["
    "\"name\"]}",
    "true",
    "{\"$ref\":\"#/$defs/"
    "t\",\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":[\"number\",\"null\"]},"
    "\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
    "t\"}}},\"required\":[\"v\"],\"additionalProperties\":false}}}",
    "{\"type\":\"string\",\"pattern\":\"^[a-zé]+( [0-9]{2})?$\",\"minLength\":2,\"maxLength\":9}",
    "{\"anyOf\":[{\"type\":\"string\",\"minLength\":4},{\"enum\":[\"ab\",\"a\\\"\",12]},{\"type\":\"string\","
    "\"format\":\"date\"}]}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":5,\"maxLength\":40}}",
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"boolean\"},\"properties\":{\"ab\":{\"type\":\"null\"}}"
    "}"};
static const char *const gbnfs[] = {"root ::= expr\nexpr ::= term ([-+*] term)*\nterm ::= [0-9]+ | \"(\" expr \")\"\n",
                                    "root ::= [^\\n]* \"\\n\" (\"- \" .+ \"\\n\"){0,3}\n",
                                    "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s | \"\"\n",
                                    "root ::= [а-яё ]{2,5} \"!\"\n"};

/* A vocabulary of single bytes, pieces of JSON, words, pieces of characters, doubles, an empty token and special ones.
 */
static const char *const words[] = {"{\"",
                                    "\":",
                                    "\": ",
                                    "\", \"",
                                    "\"}",
                                    "\"]",
                                    ", ",
                                    "[]",
                                    "[\"",
                                    "}]",
                                    "}}",
                                    "true",
                                    "false",
                                    "null",
                                    "name",
                                    "tags",
                                    "kids",
                                    "ab",
                                    "\"ab\"",
                                    "12",
                                    "20",
                                    "2024-0",
                                    "-02",
                                    "\\u00e9",
                                    "\\\"",
                                    "\\n",
                                    "  ",
                                    "aaa",
                                    "é",
                                    "éé",
                                    "\xC3",
                                    "\xA9\"",
                                    "日本",
                                    "\xE6",
                                    "\xA5",
                                    "я",
                                    "ёё",
                                    "a\xD0",
                                    "\x8F",
                                    "+1",
                                    "(1",
                                    "))",
                                    "\n- ",
                                    "abc ",
                                    "abcdefghijkl",
                                    "ab",
                                    "\xF0\x9F\x98\x80",
                                    "\xF0\x9F",
                                    "\x98\x80\"",
                                    "\"name\": \"",
                                    "!\n",
                                    "e5",
                                    ".5"};
#define WORDS ((uint32_t)TN_COUNT(words))
#define NUMBERED 150u /* tokens that share a beginning, so that the trie has large subtrees */
#define EMPTY_TOKEN (256 + WORDS + NUMBERED)
#define SPECIAL_TOKEN (EMPTY_TOKEN + 1)
#define END_TOKEN (EMPTY_TOKEN + 2)
#define TOKENS (EMPTY_TOKEN + 3)

static char single[256], numbered[NUMBERED][16];
static tn_grammar_token tokens[TOKENS];

static tn_grammar_vocab *make_vocab(void) {
  for (uint32_t i = 0; i < 256; i++) single[i] = (char)i, tokens[i] = (tn_grammar_token){&single[i], 1, false};
  for (uint32_t i = 0; i < WORDS; i++)
    tokens[256 + i] = (tn_grammar_token){words[i], (uint32_t)strlen(words[i]), false};
  for (uint32_t i = 0; i < NUMBERED; i++) {
    static const char *const forms[] = {"{\"a%u", "\"b%ué", "\\n%u x"};
    int size = snprintf(numbered[i], sizeof numbered[i], forms[i % 3], i / 3);
    tokens[256 + WORDS + i] = (tn_grammar_token){numbered[i], (uint32_t)size, false};
  }
  tokens[EMPTY_TOKEN] = (tn_grammar_token){"", 0, false};
  tokens[SPECIAL_TOKEN] = (tn_grammar_token){"a", 1, true};
  tokens[END_TOKEN] = (tn_grammar_token){"\"", 1, true};
  uint32_t end = END_TOKEN;
  tn_grammar_vocab *vocab;
  assert_int_equal(tn_grammar_vocab_create(&vocab, tokens, TOKENS, &end, 1, NULL), TN_OK);
  return vocab;
}

static tn_grammar *make_grammar(size_t index) {
  tn_grammar *grammar = NULL;
  tn_error error = {0};
  tn_status status;
  if (index < TN_COUNT(schemas))
    status = tn_grammar_from_schema(&grammar, schemas[index], strlen(schemas[index]), &error);
  else
    status = tn_grammar_from_gbnf(&grammar, gbnfs[index - TN_COUNT(schemas)], strlen(gbnfs[index - TN_COUNT(schemas)]),
                                  &error);
  if (status != TN_OK) fail_msg("%s", error.message);
  return grammar;
}
#define GRAMMARS (TN_COUNT(schemas) + TN_COUNT(gbnfs))

static uint32_t random_number(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*seed >> 33);
}

static bool bit(const uint32_t *mask, uint32_t token) {
  return mask[token >> 5] >> (token & 31) & 1;
}

/* Whether the token can be taken, found out by taking it, byte by byte. */
static bool can_take(tn_grammar_matcher *matcher, uint32_t token) {
  if (token == END_TOKEN) return tn_grammar_can_end(matcher);
  if (tokens[token].special || !tokens[token].size) return false;
  size_t entries = tn_grammar_entries(matcher), taken = 0;
  for (uint32_t i = 0; i < tokens[token].size; i++)
    if (tn_grammar_accept_bytes(matcher, tokens[token].bytes + i, 1, NULL, NULL) == TN_OK)
      taken++;
    else
      break;
  tn_grammar_rollback(matcher, tn_grammar_entries(matcher) - entries);
  return taken == tokens[token].size;
}

/* Walks at random; at every step the mask must be what trying tells. */
static void masks_are_what_can_be_taken(void **state) {
  (void)state;
  tn_grammar_vocab *vocab = make_vocab();
  uint64_t seed = 7;
  size_t allowed = 0, ended = 0;
  assert_int_equal(tn_grammar_vocab_words(vocab), (TOKENS + 31) / 32);
  for (size_t g = 0; g < GRAMMARS; g++) {
    tn_grammar *grammar = make_grammar(g);
    for (int run = 0; run < 8; run++) {
      tn_grammar_matcher *matcher;
      assert_int_equal(tn_grammar_matcher_create(&matcher, grammar, NULL), TN_OK);
      for (int step = 0; step < 40; step++) {
        uint32_t mask[(TOKENS + 31) / 32], options[TOKENS], count = 0, forced;
        assert_int_equal(tn_grammar_mask(matcher, vocab, mask, NULL), TN_OK);
        for (uint32_t t = 0; t < TOKENS; t++) {
          if (bit(mask, t) != can_take(matcher, t))
            fail_msg("grammar %zu, step %d: token %u (%.*s) is %s", g, step, t, (int)tokens[t].size, tokens[t].bytes,
                     bit(mask, t) ? "allowed and can't be taken" : "refused and can be taken");
          if (bit(mask, t)) options[count++] = t;
        }
        assert_true(count > 0);
        allowed += count;
        assert_true(tn_grammar_forced(matcher, vocab, &forced) == (count == 1));
        if (count == 1) assert_int_equal(forced, options[0]);
        uint32_t token = options[random_number(&seed) % count];
        assert_int_equal(tn_grammar_accept_token(matcher, vocab, token, NULL), TN_OK);
        if (token == END_TOKEN) {
          ended++;
          assert_int_equal(tn_grammar_mask(matcher, vocab, mask, NULL), TN_OK);
          for (uint32_t t = 0; t < TOKENS; t++) assert_false(bit(mask, t));
          break;
        }
      }
      tn_grammar_matcher_destroy(matcher);
    }
    tn_grammar_release(grammar);
  }
  assert_true(allowed > 1000 && ended > 5);
  tn_grammar_vocab_release(vocab);
}

/* A second vocabulary may be used with the same grammar, and the first again. */
static void vocabularies_are_kept_apart(void **state) {
  (void)state;
  tn_grammar_vocab *all = make_vocab(), *few;
  tn_grammar_token two[2] = {{"{", 1, false}, {"[", 1, false}};
  uint32_t mask[(TOKENS + 31) / 32], small;
  assert_int_equal(tn_grammar_vocab_create(&few, two, 2, NULL, 0, NULL), TN_OK);
  tn_grammar *grammar = make_grammar(0);
  tn_grammar_matcher *matcher;
  assert_int_equal(tn_grammar_matcher_create(&matcher, grammar, NULL), TN_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tn_grammar_mask(matcher, all, mask, NULL), TN_OK);
    assert_true(bit(mask, '{') && bit(mask, 256) && !bit(mask, '['));
    assert_int_equal(tn_grammar_mask(matcher, few, &small, NULL), TN_OK);
    assert_int_equal(small, 1);
  }
  tn_grammar_release(grammar); /* the matcher holds on to it */
  tn_grammar_vocab_release(few);
  assert_int_equal(tn_grammar_mask(matcher, all, mask, NULL), TN_OK);
  assert_true(bit(mask, '{'));
  tn_grammar_matcher_destroy(matcher);
  tn_grammar_vocab_release(all);
}

static void rollback_and_copies_are_exact(void **state) {
  (void)state;
  tn_grammar *grammar = make_grammar(0);
  tn_grammar_matcher *a, *b;
  size_t taken;
  assert_int_equal(tn_grammar_matcher_create(&a, grammar, NULL), TN_OK);
  assert_int_equal(tn_grammar_accept_bytes(a, "{\"name\": ", 9, NULL, NULL), TN_OK);
  assert_int_equal(tn_grammar_matcher_copy(&b, a, NULL), TN_OK);
  assert_int_equal(tn_grammar_accept_bytes(a, "\"x\"}", 4, NULL, NULL), TN_OK);
  assert_true(tn_grammar_can_end(a));
  assert_int_equal(tn_grammar_accept_bytes(b, "\"y\"!", 4, &taken, NULL), TN_E_INVALID);
  assert_int_equal(taken, 3);
  assert_int_equal(tn_grammar_entries(b), 1);
  assert_false(tn_grammar_can_end(b));
  tn_grammar_rollback(a, 1);
  assert_false(tn_grammar_can_end(a));
  assert_int_equal(tn_grammar_accept_bytes(a, "\"z", 2, NULL, NULL), TN_OK);
  tn_grammar_rollback(a, 2);
  assert_int_equal(tn_grammar_accept_bytes(a, "{\"n", 3, NULL, NULL), TN_OK);
  tn_grammar_rollback(b, 9);
  assert_int_equal(tn_grammar_entries(b), 0);
  assert_int_equal(tn_grammar_accept_bytes(b, "{\"name\":\"q\", \"n\": 119}", 22, NULL, NULL), TN_OK);
  assert_true(tn_grammar_can_end(b));
  tn_grammar_matcher_destroy(a);
  tn_grammar_matcher_destroy(b);
  tn_grammar_release(grammar);
}

static void forced_bytes_stop_at_the_first_choice(void **state) {
  (void)state;
  tn_grammar *grammar = make_grammar(0);
  tn_grammar_matcher *matcher;
  char bytes[64];
  assert_int_equal(tn_grammar_matcher_create(&matcher, grammar, NULL), TN_OK);
  assert_int_equal(tn_grammar_forced_bytes(matcher, bytes, sizeof bytes), 8);
  assert_memory_equal(bytes, "{\"name\":", 8);
  assert_int_equal(tn_grammar_forced_bytes(matcher, bytes, 3), 3);
  assert_int_equal(tn_grammar_accept_bytes(matcher, "{\"name\":\"\"}", 11, NULL, NULL), TN_OK);
  assert_int_equal(tn_grammar_forced_bytes(matcher, bytes, sizeof bytes), 0);
  tn_grammar_matcher_destroy(matcher);
  tn_grammar_release(grammar);
}

static void special_tokens_are_never_content(void **state) {
  (void)state;
  tn_grammar_vocab *vocab = make_vocab();
  tn_grammar *grammar;
  tn_grammar_matcher *matcher;
  assert_int_equal(tn_grammar_from_regex(&grammar, "a*", 2, NULL), TN_OK);
  assert_int_equal(tn_grammar_matcher_create(&matcher, grammar, NULL), TN_OK);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, SPECIAL_TOKEN, NULL), TN_E_INVALID);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, EMPTY_TOKEN, NULL), TN_E_INVALID);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, TOKENS, NULL), TN_E_INVALID);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, 'a', NULL), TN_OK);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, END_TOKEN, NULL), TN_OK);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, 'a', NULL), TN_E_INVALID);
  assert_false(tn_grammar_can_end(matcher));
  tn_grammar_rollback(matcher, 1);
  assert_true(tn_grammar_can_end(matcher));
  tn_grammar_matcher_destroy(matcher);
  tn_grammar_release(grammar);
  tn_grammar_vocab_release(vocab);
}

/* A control token that the grammar speaks of is allowed there and nowhere else; no bytes stand for it, not even those
 * that a token of the single byte 0xFF and its name give. */
static void control_tokens_are_allowed_where_they_are_asked_for(void **state) {
  (void)state;
  enum { MARK, BYTE_FF, A, NAME, OTHER, END, COUNT };
  static const tn_grammar_token few[] = {{"<m>", 3, true},  {"\xFF", 1, false}, {"a", 1, false},
                                         {"<m>", 3, false}, {"<o>", 3, true},   {"<end>", 5, true}};
  static const uint32_t ends[] = {END};
  static const tn_grammar_part any = {.kind = TN_GRAMMAR_WITHOUT},
                               mark = {TN_GRAMMAR_CONTROL, {"<m>", 3}, NULL, 0, 0, NULL};
  const tn_grammar_list list = {
      .before = {&any, 1}, .choices = &(tn_grammar_sequence){&mark, 1}, .count = 1, .after = {&any, 1}};
  tn_grammar_vocab *vocab;
  tn_grammar *grammar;
  tn_grammar_matcher *matcher;
  uint32_t mask[1], forced;
  char bytes[8];
  assert_int_equal(tn_grammar_vocab_create(&vocab, few, COUNT, ends, 1, NULL), TN_OK);
  assert_int_equal(tn_grammar_from_list(&grammar, &list, NULL), TN_OK);
  assert_int_equal(tn_grammar_matcher_create(&matcher, grammar, NULL), TN_OK);
  assert_int_equal(tn_grammar_mask(matcher, vocab, mask, NULL), TN_OK);
  assert_int_equal(mask[0], 1u << MARK | 1u << A | 1u << NAME);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, NAME, NULL), TN_OK);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, BYTE_FF, NULL), TN_E_INVALID);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, OTHER, NULL), TN_E_INVALID);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, END, NULL), TN_E_INVALID);
  assert_int_equal(tn_grammar_accept_token(matcher, vocab, MARK, NULL), TN_OK);
  assert_int_equal(tn_grammar_mask(matcher, vocab, mask, NULL), TN_OK);
  assert_int_equal(mask[0], 1u << A | 1u << NAME | 1u << END);
  tn_grammar_matcher_destroy(matcher);
  tn_grammar_release(grammar);
  const tn_grammar_list alone = {.choices = &(tn_grammar_sequence){&mark, 1}, .count = 1};
  assert_int_equal(tn_grammar_from_list(&grammar, &alone, NULL), TN_OK);
  assert_int_equal(tn_grammar_matcher_create(&matcher, grammar, NULL), TN_OK);
  assert_true(tn_grammar_forced(matcher, vocab, &forced) && forced == MARK);
  assert_int_equal(tn_grammar_forced_bytes(matcher, bytes, sizeof bytes), 0);
  tn_grammar_matcher_destroy(matcher);
  tn_grammar_release(grammar);
  tn_grammar_vocab_release(vocab);
}

/* One of several threads that match the same grammar with matchers of their own. */
typedef struct worker {
  tn_grammar *grammar;
  tn_grammar_vocab *vocab;
  uint64_t seed;
  uint64_t trace; /* of all masks seen */
} worker;

static void match_at_random(void *argument) {
  worker *w = argument;
  uint32_t mask[(TOKENS + 31) / 32];
  for (int run = 0; run < 20; run++) {
    tn_grammar_matcher *matcher;
    if (tn_grammar_matcher_create(&matcher, w->grammar, NULL) != TN_OK) return;
    for (int step = 0; step < 30; step++) {
      uint32_t options[TOKENS], count = 0;
      if (tn_grammar_mask(matcher, w->vocab, mask, NULL) != TN_OK) break;
      for (uint32_t t = 0; t < TOKENS; t++)
        if (bit(mask, t)) options[count++] = t;
      for (size_t i = 0; i < TN_COUNT(mask); i++) w->trace = w->trace * 31 + mask[i];
      if (!count || tn_grammar_accept_token(matcher, w->vocab, options[random_number(&w->seed) % count], NULL) != TN_OK)
        break;
    }
    tn_grammar_matcher_destroy(matcher);
  }
}

/* Threads that share a grammar see the masks that they would see alone. */
static void threads_share_a_grammar(void **state) {
  (void)state;
  worker together[4], alone[4];
  tn_thread *threads[4];
  tn_grammar_vocab *vocab = make_vocab();
  tn_grammar *grammar = make_grammar(0);
  for (int i = 0; i < 4; i++) {
    together[i] = (worker){grammar, vocab, (uint64_t)i, 0};
    threads[i] = tn_thread_start("matcher", match_at_random, &together[i]);
    assert_non_null(threads[i]);
  }
  for (int i = 0; i < 4; i++) tn_thread_join(threads[i]);
  tn_grammar_release(grammar);
  for (int i = 0; i < 4; i++) {
    alone[i] = (worker){make_grammar(0), vocab, (uint64_t)i, 0};
    match_at_random(&alone[i]);
    assert_true(alone[i].trace == together[i].trace && alone[i].trace != 0);
    tn_grammar_release(alone[i].grammar);
  }
  tn_grammar_vocab_release(vocab);
}

/* ---- hostile ---- */

static char *repeated(const char *unit, size_t count, const char *before, const char *after) {
  tn_buf buf;
  tn_buf_init(&buf);
  tn_buf_puts(&buf, before);
  for (size_t i = 0; i < count; i++) tn_buf_puts(&buf, unit);
  tn_buf_puts(&buf, after);
  char *text = tn_buf_take(&buf);
  assert_non_null(text);
  return text;
}

typedef tn_status (*constructor)(tn_grammar **grammar, const char *text, size_t size, tn_error *error);

/* The grammar's status; where it can be made, `input` is matched as well and gives *matched. */
static tn_status try_out(constructor make, const char *text, const char *input, tn_status *matched) {
  tn_grammar *grammar;
  tn_grammar_matcher *matcher;
  tn_error error = {0};
  tn_status status = make(&grammar, text, strlen(text), &error);
  *matched = TN_OK;
  if (status != TN_OK) {
    assert_true(error.status == status && error.message[0] && !strstr(error.message, "(null)"));
    assert_null(grammar);
    return status;
  }
  assert_int_equal(tn_grammar_matcher_create(&matcher, grammar, NULL), TN_OK);
  *matched = tn_grammar_accept_bytes(matcher, input, strlen(input), NULL, NULL);
  tn_grammar_matcher_destroy(matcher);
  tn_grammar_release(grammar);
  return status;
}

static void deep_input_is_refused_or_taken(void **state) {
  (void)state;
  tn_status matched;
  char *text = repeated("[", 100000, "", "");
  assert_int_equal(try_out(tn_grammar_from_schema, text, "", &matched), TN_E_LIMIT);
  assert_int_equal(try_out(tn_grammar_from_schema, "true", text, &matched), TN_OK);
  assert_int_equal(matched, TN_OK);
  free(text);
  text = repeated("{\"items\":", 190, "", "{}");
  assert_int_equal(try_out(tn_grammar_from_schema, text, "", &matched), TN_E_INVALID);
  free(text);
  assert_int_equal(try_out(tn_grammar_from_schema, "[1]", "", &matched), TN_E_INVALID);
  text = repeated("(", 100000, "root ::= ", "\"a\"");
  assert_int_equal(try_out(tn_grammar_from_gbnf, text, "", &matched), TN_E_LIMIT);
  assert_int_equal(try_out(tn_grammar_from_regex, text + 9, "", &matched), TN_E_LIMIT);
  free(text);
  text = repeated("?", 100000, "root ::= \"a\"", "");
  assert_int_equal(try_out(tn_grammar_from_gbnf, text, "a", &matched), TN_OK);
  assert_int_equal(matched, TN_OK);
  free(text);
  text = repeated("((((((((((a*)*)?b)*)?)*)c*)*)*d)*)*|", 2000, "", "x");
  assert_int_equal(try_out(tn_grammar_from_regex, text, "aaabcdabcd", &matched), TN_OK);
  assert_int_equal(matched, TN_OK);
  free(text);
}

static void long_chains_are_linear(void **state) {
  (void)state;
  tn_status matched;
  tn_buf buf;
  tn_buf_init(&buf);
  for (int i = 0; i < 20000; i++) tn_buf_printf(&buf, "%s%d ::= r%d\n", i ? "r" : "root ::= r1\nr", i, i + 1);
  tn_buf_puts(&buf, "r20000 ::= \"z\"\n");
  assert_int_equal(try_out(tn_grammar_from_gbnf, buf.data, "z", &matched), TN_OK);
  assert_int_equal(matched, TN_OK);
  tn_buf_clear(&buf);
  tn_buf_puts(&buf, "root ::= a0\n");
  for (int i = 0; i < 60; i++) tn_buf_printf(&buf, "a%d ::= a%d a%d\n", i, i + 1, i + 1); /* 2^60 letters */
  tn_buf_puts(&buf, "a60 ::= \"z\"\n");
  assert_int_equal(try_out(tn_grammar_from_gbnf, buf.data, "zzzzzzzzzzzzzzzzzzzz", &matched), TN_OK);
  assert_int_equal(matched, TN_OK);
  tn_buf_clear(&buf);
  tn_buf_puts(&buf, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
  for (int i = 0; i < 2000; i++) tn_buf_printf(&buf, "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", i, i + 1);
  tn_buf_puts(&buf, "\"d2000\":{\"type\":\"null\"}}}");
  assert_int_equal(try_out(tn_grammar_from_schema, buf.data, "null", &matched), TN_E_LIMIT);
  tn_buf_finish(&buf);
}

static void ambiguity_and_size_are_bounded(void **state) {
  (void)state;
  tn_status matched;
  char *text = repeated("a", 300, "", "");
  assert_int_equal(try_out(tn_grammar_from_gbnf, "root ::= s\ns ::= \"a\" | \"a\" s | \"a\" s s\n", text, &matched),
                   TN_OK);
  assert_int_equal(matched, TN_OK);
  assert_int_equal(try_out(tn_grammar_from_regex, "(a|aa|aaa){0,1000}(a?){0,5000}(a*a*)*b", text, &matched), TN_OK);
  assert_int_equal(try_out(tn_grammar_from_regex, "((a{0,1000}){0,1000}){0,1000}", text, &matched), TN_OK);
  assert_int_equal(try_out(tn_grammar_from_regex, "(a|b)*a(a|b){1000}", text, &matched), TN_OK);
  assert_int_equal(try_out(tn_grammar_from_regex, "((a|b)*a(a|b){50})(?!x)", text, &matched), TN_OK);
  assert_int_equal(matched, TN_OK);
  free(text);
  /* 3^20 combinations of branches */
  text = repeated("{\"anyOf\":[{\"maximum\":1},{\"minimum\":2},{\"type\":\"string\"}]},", 20, "{\"allOf\":[", "{}]}");
  assert_int_equal(try_out(tn_grammar_from_schema, text, "1", &matched), TN_E_LIMIT);
  free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(masks_are_what_can_be_taken),
    cmocka_unit_test(vocabularies_are_kept_apart),
    cmocka_unit_test(rollback_and_copies_are_exact),
    cmocka_unit_test(forced_bytes_stop_at_the_first_choice),
    cmocka_unit_test(special_tokens_are_never_content),
    cmocka_unit_test(control_tokens_are_allowed_where_they_are_asked_for),
    cmocka_unit_test(threads_share_a_grammar),
    cmocka_unit_test(deep_input_is_refused_or_taken),
    cmocka_unit_test(long_chains_are_linear),
    cmocka_unit_test(ambiguity_and_size_are_bounded),
};

static void *run_all(void *result) {
  *(int *)result = cmocka_run_group_tests(tests, NULL, NULL);
  return NULL;
}

int main(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  int result = 1;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  if (pthread_create(&thread, &attributes, run_all, &result) != 0) return 1;
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  return result;
}
