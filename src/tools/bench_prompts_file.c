/* Prompts out of files: walked through once without a tree in memory, so that they may be large (see bench_prompts.h).
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/json_reader.h"
#include "base/os.h"
#include "tools/bench_prompts.h"

/* Streams of draws that no prompt uses. */
#define KEEPING UINT64_MAX
#define MIXING (UINT64_MAX - 1)

/* What an entry of the file was found to hold. */
typedef struct found_entry {
  tn_buf ask, answer;
  bool has_ask, has_answer, is_messages;
  int64_t tokens; /* of the answer; 0: not told */
} found_entry;

static void clear(found_entry *found) {
  tn_buf_clear(&found->ask);
  tn_buf_clear(&found->answer);
  found->has_ask = found->has_answer = found->is_messages = false;
  found->tokens = 0;
}

/* Appends a string, or the strings of an array with blanks between. */
static void read_text(tn_json *json, tn_buf *to) {
  tn_text text;
  if (tn_json_peek(json) != TN_JSON_ARRAY) {
    if (tn_json_string(json, &text)) tn_buf_append(to, text.data, text.bytes);
  } else if (tn_json_array(json)) {
    for (bool is_first = true; tn_json_item(json); is_first = false) {
      if (!tn_json_string(json, &text)) return;
      if (!is_first) tn_buf_putc(to, ' ');
      tn_buf_append(to, text.data, text.bytes);
    }
  }
}

/* [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}, ...]: the first of each. */
static void read_turns(tn_json *json, found_entry *found) {
  if (!tn_json_array(json)) return;
  for (unsigned turn = 0; tn_json_item(json); turn++) {
    if (!tn_json_object(json)) return;
    for (tn_text key; tn_json_key(json, &key);) {
      if (turn > 1 || !tn_text_is(key, "value")) {
        tn_json_skip(json, NULL);
      } else {
        read_text(json, turn == 0 ? &found->ask : &found->answer);
        *(turn == 0 ? &found->has_ask : &found->has_answer) = true;
      }
    }
  }
}

static void read_field(tn_json *json, tn_bench_dataset kind, tn_text key, found_entry *found) {
  tn_text span;
  bool is_arxiv = kind == TN_BENCH_ARXIV, is_file = kind == TN_BENCH_FILE;
  if (kind == TN_BENCH_SHAREGPT && tn_text_is(key, "conversations")) {
    read_turns(json, found);
  } else if ((is_arxiv && (tn_text_is(key, "article") || tn_text_is(key, "article_text"))) ||
             (is_file && tn_text_is(key, "prompt"))) {
    if (is_arxiv) tn_buf_puts(&found->ask, "Summarize this article in one paragraph:\n\n");
    read_text(json, &found->ask);
    found->has_ask = true;
  } else if (is_arxiv && (tn_text_is(key, "abstract") || tn_text_is(key, "abstract_text"))) {
    read_text(json, &found->answer);
    found->has_answer = true;
  } else if (is_file && tn_text_is(key, "messages")) {
    if (!tn_json_skip(json, &span)) return;
    tn_buf_append(&found->ask, span.data, span.bytes);
    found->has_ask = found->is_messages = true;
  } else if (is_file && tn_text_is(key, "output_tokens")) {
    if (tn_json_integer(json, &found->tokens) && (found->tokens < 1 || found->tokens > 1 << 24))
      tn_json_fail(json, TN_E_FORMAT, "output_tokens: expected a number from 1 to %d", 1 << 24);
  } else {
    tn_json_skip(json, NULL);
  }
}

/* Keeps an entry, or not if there are many: each of the file's has the same chance (Vitter's algorithm R). */
static bool keep(tn_bench_prompts *prompts, const found_entry *found) {
  uint64_t slot = prompts->seen++;
  if (slot >= TN_BENCH_ENTRIES) slot = tn_bench_prompts_draw(prompts->seed, KEEPING, slot, slot + 1);
  if (slot >= TN_BENCH_ENTRIES) return true;
  tn_bench_entry *entry = prompts->entries + slot;
  char *text = tn_copy_text(found->ask.data, found->ask.size);
  if (!text) return false;
  free(entry->text);
  uint32_t counted = found->has_answer ? tn_bench_prompts_count(prompts, found->answer.data, found->answer.size) : 128;
  *entry = (tn_bench_entry){text, found->is_messages, found->tokens ? (uint32_t)found->tokens : counted};
  if (slot == prompts->count) prompts->count++;
  return true;
}

/* One entry. Conversations without an answer or with empty sides are passed over; a file's line must have a prompt. */
static bool read_entry(tn_json *json, tn_bench_prompts *prompts, found_entry *found) {
  clear(found);
  if (!tn_json_object(json)) return false;
  for (tn_text key; tn_json_key(json, &key);) read_field(json, prompts->kind, key, found);
  if (json->status != TN_OK) return false;
  bool is_file = prompts->kind == TN_BENCH_FILE;
  if (is_file && !found->has_ask) return tn_json_fail(json, TN_E_FORMAT, "prompt or messages is missing");
  bool is_whole = found->has_ask && found->ask.size && (is_file || (found->has_answer && found->answer.size));
  if (found->ask.failed || found->answer.failed || (is_whole && !keep(prompts, found)))
    return tn_json_fail(json, TN_E_MEMORY, "no memory for the prompts");
  return true;
}

static tn_status read_array(tn_bench_prompts *prompts, const char *data, size_t bytes, found_entry *found,
                            tn_error *error) {
  tn_json json;
  tn_json_init(&json, data, bytes, error);
  if (tn_json_array(&json))
    while (tn_json_item(&json) && read_entry(&json, prompts, found)) continue;
  return tn_json_end(&json);
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static tn_status read_lines(tn_bench_prompts *prompts, const char *data, size_t bytes, found_entry *found,
                            tn_error *error) {
  const char *end = data + bytes;
  tn_status status = TN_OK;
  for (unsigned long number = 1; data < end && status == TN_OK; number++) {
    const char *line_end = memchr(data, '\n', (size_t)(end - data));
    if (!line_end) line_end = end;
    const char *text = data;
    while (text < line_end && is_blank(*text)) text++;
    if (text < line_end) {
      tn_json json;
      tn_json_init(&json, data, (size_t)(line_end - data), error);
      read_entry(&json, prompts, found);
      status = tn_json_end(&json);
      if (status != TN_OK) tn_error_prefix(error, "line %lu", number);
    }
    data = line_end + 1;
  }
  return status;
}

/* Puts the entries into an order of the seed's (Fisher and Yates). */
static void mix(tn_bench_prompts *prompts) {
  for (size_t i = prompts->count; i > 1; i--) {
    size_t other = tn_bench_prompts_draw(prompts->seed, MIXING, i, i);
    tn_bench_entry entry = prompts->entries[i - 1];
    prompts->entries[i - 1] = prompts->entries[other];
    prompts->entries[other] = entry;
  }
}

tn_status tn_bench_prompts_read(tn_bench_prompts *prompts, const char *file, tn_error *error) {
  found_entry found = {0};
  tn_file_map map;
  tn_status status = tn_file_map_open(&map, file, error);
  if (status != TN_OK) return status;
  const char *data = (const char *)map.data;
  size_t blanks = 0;
  while (blanks < map.size && is_blank(data[blanks])) blanks++;
  tn_buf_init(&found.ask);
  tn_buf_init(&found.answer);
  prompts->entries = tn_calloc(TN_BENCH_ENTRIES, sizeof *prompts->entries);
  if (!prompts->entries)
    status = tn_fail(error, TN_E_MEMORY, "no memory for the prompts");
  else if (blanks < map.size && data[blanks] == '[')
    status = read_array(prompts, data, map.size, &found, error);
  else
    status = read_lines(prompts, data, map.size, &found, error);
  if (status == TN_OK && !prompts->count)
    status = tn_fail(error, TN_E_FORMAT, "no usable entry of the format %s", tn_bench_prompts_name(prompts->kind));
  if (status != TN_OK) tn_error_prefix(error, "%s", file);
  if (status == TN_OK) mix(prompts);
  tn_buf_finish(&found.ask);
  tn_buf_finish(&found.answer);
  tn_file_map_close(&map);
  return status;
}
