/* Times the masks of constrained decoding over a real vocabulary.
 *
 *     bench-grammar VOCABULARY CASES [--check]
 *
 * VOCABULARY: a GGUF file or a tokenizer.json. CASES: lines of {"name", "schema" or "gbnf", "text"}, the text one of
 * the grammar's. The text is split into tokens as the model would; before each token the mask is made and timed, once
 * with a grammar that has just been made (cold) and once more (warm). --check compares every mask with trying each
 * token. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "text/grammar/grammar.h"
#include "tools/token_tool.h"

typedef struct bench {
  tn_tokenizer *tokenizer;
  tn_grammar_vocab *vocab;
  tn_grammar_token *tokens;
  tn_buf bytes; /* of all tokens */
  uint32_t count;
  uint32_t *mask;
  double *times; /* of all steps, cold; for the last line */
  size_t time_count, time_capacity;
  bool check;
  tn_error error;
} bench;

static double now_us(void) {
  return (double)tn_clock_ns() * 1e-3;
}

static bool make_vocab(bench *b) {
  uint32_t ends[16], end_count = 0;
  b->count = (uint32_t)tn_tokenizer_size(b->tokenizer);
  b->tokens = tn_calloc(b->count, sizeof *b->tokens);
  size_t *first = tn_calloc((size_t)b->count + 1, sizeof *first);
  for (uint32_t i = 0; i < b->count; i++) {
    tn_tokenizer_token_bytes(b->tokenizer, (int32_t)i, &b->bytes);
    first[i + 1] = b->bytes.size;
    if (tn_tokenizer_is_end(b->tokenizer, (int32_t)i) && end_count < TN_COUNT(ends)) ends[end_count++] = i;
  }
  for (uint32_t i = 0; i < b->count; i++)
    b->tokens[i] = (tn_grammar_token){b->bytes.data + first[i], (uint32_t)(first[i + 1] - first[i]),
                                      tn_tokenizer_is_special(b->tokenizer, (int32_t)i)};
  free(first);
  double start = now_us();
  if (tn_grammar_vocab_create(&b->vocab, b->tokens, b->count, ends, end_count, &b->error) != TN_OK) return false;
  printf("%u tokens, trie made in %.1f ms\n", b->count, (now_us() - start) * 1e-3);
  b->mask = tn_calloc(tn_grammar_vocab_words(b->vocab), sizeof *b->mask);
  return b->mask != NULL;
}

/* Tries every token byte by byte. */
static bool mask_is_right(bench *b, tn_grammar_matcher *matcher) {
  for (uint32_t t = 0; t < b->count; t++) {
    bool allowed = b->mask[t >> 5] >> (t & 31) & 1, can = false;
    if (tn_tokenizer_is_end(b->tokenizer, (int32_t)t)) {
      can = tn_grammar_can_end(matcher);
    } else if (!b->tokens[t].special && b->tokens[t].size) {
      can = tn_grammar_accept_bytes(matcher, b->tokens[t].bytes, b->tokens[t].size, NULL, NULL) == TN_OK;
      if (can) tn_grammar_rollback(matcher, 1);
    }
    if (can != allowed) {
      fprintf(stderr, "token %u is %s\n", t, allowed ? "allowed but can't follow" : "refused but can follow");
      return false;
    }
  }
  return true;
}

static int by_size(const void *p, const void *q) {
  double a = *(const double *)p, b = *(const double *)q;
  return (a > b) - (a < b);
}

static void print_times(const char *label, double *times, size_t count) {
  double sum = 0;
  qsort(times, count, sizeof *times, by_size);
  for (size_t i = 0; i < count; i++) sum += times[i];
  printf("  %s median %.1f us, 99th percentile %.1f, longest %.1f, mean %.1f", label, times[count / 2],
         times[count * 99 / 100], times[count - 1], sum / (double)count);
}

/* One pass over the tokens; times[i] is the mask before token i, the last one at the end of the text. */
static bool pass(bench *b, tn_grammar *grammar, const tn_ids *ids, double *times) {
  tn_grammar_matcher *matcher;
  bool done = tn_grammar_matcher_create(&matcher, grammar, &b->error) == TN_OK;
  for (size_t i = 0; done && i <= ids->count; i++) {
    double start = now_us();
    done = tn_grammar_mask(matcher, b->vocab, b->mask, &b->error) == TN_OK;
    times[i] = now_us() - start;
    if (done && b->check && !mask_is_right(b, matcher)) done = false;
    if (done && i < ids->count)
      done = tn_grammar_accept_token(matcher, b->vocab, (uint32_t)ids->data[i], &b->error) == TN_OK;
  }
  tn_grammar_matcher_destroy(matcher);
  return done;
}

static bool run_case(bench *b, const json_t *request) {
  const char *name = json_string_value(json_object_get(request, "name"));
  const char *text = json_string_value(json_object_get(request, "text"));
  const char *gbnf = json_string_value(json_object_get(request, "gbnf"));
  char *schema = gbnf ? NULL : json_dumps(json_object_get(request, "schema"), JSON_COMPACT);
  tn_grammar *grammar = NULL;
  tn_ids ids = {0};
  tn_span span = {tn_text_of(text), false};
  double start = now_us(), *times = NULL;
  bool done = (gbnf ? tn_grammar_from_gbnf(&grammar, gbnf, strlen(gbnf), &b->error)
                    : tn_grammar_from_schema(&grammar, schema, strlen(schema), &b->error)) == TN_OK;
  double made = now_us() - start;
  if (done) done = tn_tokenizer_encode(b->tokenizer, &span, 1, 0, &ids, &b->error) == TN_OK;
  if (done) times = tn_calloc(ids.count + 1, sizeof *times);
  if (done) done = times && pass(b, grammar, &ids, times);
  if (done) {
    for (size_t i = 0; i <= ids.count; i++) {
      double *slot = TN_PUSH(b->times, b->time_count, b->time_capacity);
      if (slot) *slot = times[i];
    }
    printf("%-10s made in %.2f ms, %zu tokens\n", name, made * 1e-3, ids.count);
    print_times("cold", times, ids.count + 1);
    done = pass(b, grammar, &ids, times);
    print_times("; warm", times, ids.count + 1);
    puts("");
  }
  free(times);
  free(ids.data);
  free(schema);
  tn_grammar_release(grammar);
  return done;
}

static bool run_cases(bench *b, const char *path) {
  char *lines = NULL;
  size_t size;
  if (tn_file_read(path, (size_t)16 << 20, &lines, &size, &b->error) != TN_OK) return false;
  bool done = true;
  for (char *line = lines, *end; done && *line; line = end) {
    end = line + strcspn(line, "\n");
    json_t *request = json_loadb(line, (size_t)(end - line), 0, NULL);
    done = request ? run_case(b, request) : (tn_fail(&b->error, TN_E_FORMAT, "%s: a line is not JSON", path), false);
    json_decref(request);
    if (*end) end++;
  }
  if (done) print_times("all, cold:", b->times, b->time_count), puts("");
  free(lines);
  return done;
}

int main(int argc, char **argv) {
  bench b = {.check = argc == 4 && !strcmp(argv[3], "--check")};
  if (argc != 3 + b.check) {
    fputs("usage: bench-grammar VOCABULARY CASES [--check]\n", stderr);
    return 2;
  }
  bool done = tn_token_tool_open(&b.tokenizer, argv[1], &b.error) == TN_OK && make_vocab(&b) && run_cases(&b, argv[2]);
  if (!done) fprintf(stderr, "bench-grammar: %s\n", b.error.message);
  tn_grammar_vocab_release(b.vocab);
  tn_tokenizer_destroy(b.tokenizer);
  tn_buf_finish(&b.bytes);
  free(b.tokens);
  free(b.mask);
  free(b.times);
  return done ? 0 : 1;
}
