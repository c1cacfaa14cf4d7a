/* Made-up prompts, counting and drawing (see bench_prompts.h). */
#include "tools/bench_prompts.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "engine/random.h"
#include "tools/bench_sonnets.h"
#include "tools/token_tool.h"

static const char *const names[] = {"random", "sonnet", "sharegpt", "arxiv", "file"};

tn_status tn_bench_prompts_kind(const char *name, tn_bench_dataset *kind, tn_error *error) {
  for (size_t i = 0; i < TN_COUNT(names); i++)
    if (!strcmp(name, names[i])) {
      *kind = (tn_bench_dataset)i;
      return TN_OK;
    }
  return tn_fail(error, TN_E_INVALID, "--dataset: \"%.40s\" given, expected random, sonnet, sharegpt, arxiv or file",
                 name);
}

const char *tn_bench_prompts_name(tn_bench_dataset kind) {
  return names[kind];
}

uint64_t tn_bench_prompts_draw(uint64_t seed, uint64_t stream, uint64_t at, uint64_t below) {
  tn_random_block block = tn_random(
      (tn_random_block){{(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}}, seed);
  return ((uint64_t)block.word[0] << 32 | block.word[1]) % below;
}

uint32_t tn_bench_prompts_count(const tn_bench_prompts *prompts, const char *text, size_t bytes) {
  tn_ids ids = {0};
  const tn_span span = {{text, bytes}, false};
  size_t count = (bytes + 3) / 4;
  if (prompts->tokenizer && tn_tokenizer_encode(prompts->tokenizer, &span, 1, 0, &ids, NULL) == TN_OK)
    count = ids.count;
  free(ids.data);
  return count < 1 ? 1 : count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}

/* ---- made up ---- */

static const char *const words[] = {
    " river",  " stone",  " lantern", " market", " copper", " violet",  " engine", " harbor", " winter", " silence",
    " ladder", " pepper", " signal",  " garden", " mirror", " thunder", " window", " saddle", " cotton", " planet",
    " bridge", " candle", " forest",  " marble", " ticket", " anchor",  " button", " canyon", " desert", " echo",
    " paper",  " simple", " letter",  " yellow", " motion", " answer",  " number", " second", " summer", " coffee"};

/* Appends pieces drawn from a list until they hold `tokens`. */
static void add_pieces(const tn_bench_prompts *prompts, tn_buf *to, const char *const *pieces, size_t count,
                       uint64_t stream, uint32_t tokens) {
  uint32_t held = 0;
  for (uint64_t i = 0; held < tokens && !to->failed; i++) {
    const char *piece = pieces[tn_bench_prompts_draw(prompts->seed, stream, i, count)];
    held += tn_bench_prompts_count(prompts, piece, strlen(piece));
    tn_buf_puts(to, piece);
  }
}

/* A length around `middle`. */
static uint32_t draw_length(const tn_bench_prompts *prompts, uint32_t middle, uint64_t stream) {
  uint64_t least = (uint64_t)((double)middle * (1 - (double)prompts->range)), most = 2 * (uint64_t)middle - least;
  if (least < 1) least = 1;
  return (uint32_t)(most <= least ? least : least + tn_bench_prompts_draw(prompts->seed, stream, 0, most - least + 1));
}

/* Streams of draws: 0 the shared beginning, then four for each prompt. */
static char *make_up(const tn_bench_prompts *prompts, uint64_t number, uint32_t *output_tokens) {
  uint64_t stream = 4 * (number + 1);
  tn_buf text;
  tn_buf_init(&text);
  if (prompts->kind == TN_BENCH_SONNET) {
    tn_buf_puts(&text, "Pick as many lines as you can from these poem lines:\n");
    add_pieces(prompts, &text, tn_sonnet_lines, TN_COUNT(tn_sonnet_lines), 0, prompts->prefix_tokens);
    uint32_t rest = prompts->input_tokens > prompts->prefix_tokens ? prompts->input_tokens - prompts->prefix_tokens : 1;
    add_pieces(prompts, &text, tn_sonnet_lines, TN_COUNT(tn_sonnet_lines), stream, rest);
    *output_tokens = prompts->output_tokens;
  } else {
    add_pieces(prompts, &text, words, TN_COUNT(words), 0, prompts->prefix_tokens);
    add_pieces(prompts, &text, words, TN_COUNT(words), stream, draw_length(prompts, prompts->input_tokens, stream + 1));
    *output_tokens = draw_length(prompts, prompts->output_tokens, stream + 2);
  }
  return tn_buf_take(&text);
}

/* ---- any ---- */

tn_status tn_bench_prompts_open(tn_bench_prompts *prompts, const char *tokenizer, const char *file, tn_error *error) {
  bool needs_file = prompts->kind != TN_BENCH_RANDOM && prompts->kind != TN_BENCH_SONNET;
  tn_status status = TN_OK;
  if (needs_file && !file) return tn_fail(error, TN_E_INVALID, "--dataset %s needs --data FILE", names[prompts->kind]);
  if (!needs_file && file)
    return tn_fail(error, TN_E_INVALID, "--data: the dataset %s has no file", names[prompts->kind]);
  if (!needs_file && !prompts->output_tokens) prompts->output_tokens = 128;
  if (tokenizer) status = tn_token_tool_open(&prompts->tokenizer, tokenizer, error);
  if (status == TN_OK && needs_file) status = tn_bench_prompts_read(prompts, file, error);
  return status;
}

void tn_bench_prompts_close(tn_bench_prompts *prompts) {
  for (size_t i = 0; i < prompts->count; i++) free(prompts->entries[i].text);
  free(prompts->entries);
  tn_tokenizer_destroy(prompts->tokenizer);
}

json_t *tn_bench_prompts_get(const tn_bench_prompts *prompts, uint64_t number, uint32_t *output_tokens) {
  if (prompts->count) {
    const tn_bench_entry *entry = prompts->entries + number % prompts->count;
    *output_tokens = prompts->output_tokens ? prompts->output_tokens : entry->tokens;
    return entry->is_messages ? json_loads(entry->text, 0, NULL)
                              : json_pack("[{s:s, s:s}]", "role", "user", "content", entry->text);
  }
  char *text = make_up(prompts, number, output_tokens);
  json_t *messages = text ? json_pack("[{s:s, s:s}]", "role", "user", "content", text) : NULL;
  free(text);
  return messages;
}
