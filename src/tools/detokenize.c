/* tenon detokenize: ids to text. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/os.h"
#include "cli/options.h"
#include "tools/runner_tool.h"
#include "tools/token_tool.h"

/* An id from outside: one that the vocabulary has. */
static tn_status add_id(const tn_tokenizer *tokenizer, int64_t id, tn_ids *ids, tn_error *error) {
  size_t size = tn_tokenizer_size(tokenizer);
  if (id < 0 || (uint64_t)id >= size)
    return tn_fail(error, TN_E_INVALID, "token %lld: the vocabulary has ids below %zu", (long long)id, size);
  return tn_ids_add(ids, (int32_t)id) ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
}

/* The pieces that a stream of the ids releases, the flush last if it releases anything. */
static bool add_pieces(const tn_tokenizer *tokenizer, const tn_ids *ids, tn_buf *out) {
  tn_decoder decoder;
  tn_decoder_init(&decoder, tokenizer, 0);
  tn_buf piece;
  tn_buf_init(&piece);
  bool good = true;
  tn_buf_puts(out, "[");
  for (size_t i = 0; i <= ids->count && good; i++) {
    tn_buf_clear(&piece);
    good = i < ids->count ? tn_decoder_push(&decoder, ids->data[i], &piece) : tn_decoder_flush(&decoder, &piece);
    if (i == ids->count && !piece.size) break;
    if (i) tn_buf_puts(out, ", ");
    tn_token_tool_string(out, (tn_text){piece.data, piece.size});
  }
  tn_buf_puts(out, "]");
  tn_decoder_finish(&decoder);
  tn_buf_finish(&piece);
  return good;
}

/* {"ids": [...]} -> {"text": ..., "pieces": [...]} */
static tn_status answer(const tn_tokenizer *tokenizer, tn_json *json, tn_buf *out, tn_error *error) {
  tn_ids ids = {0};
  tn_status status = TN_OK;
  bool given = false;
  if (tn_json_object(json))
    for (tn_text key; tn_json_key(json, &key);) {
      if (!tn_text_is(key, "ids")) {
        tn_json_fail(json, TN_E_INVALID, "unknown field '%.*s'", (int)(key.bytes < 60 ? key.bytes : 60), key.data);
        continue;
      }
      given = tn_json_array(json);
      int64_t id;
      while (tn_json_item(json))
        if (tn_json_integer(json, &id) && status == TN_OK) status = add_id(tokenizer, id, &ids, error);
    }
  if (json->status == TN_OK && status == TN_OK && !given) status = tn_fail(error, TN_E_INVALID, "\"ids\" is missing");
  tn_buf text;
  tn_buf_init(&text);
  bool good = tn_tokenizer_decode(tokenizer, ids.data, ids.count, 0, &text);
  tn_buf_puts(out, "{\"text\": ");
  tn_token_tool_string(out, (tn_text){text.data, text.size});
  tn_buf_puts(out, ", \"pieces\": ");
  good = good && add_pieces(tokenizer, &ids, out);
  tn_buf_putc(out, '}');
  if (!good && status == TN_OK) status = tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_buf_finish(&text);
  free(ids.data);
  return status;
}

/* "1,2,3" */
static tn_status parse_ids(const tn_tokenizer *tokenizer, const char *text, tn_ids *ids, tn_error *error) {
  int32_t *tokens;
  size_t count;
  tn_status status = tn_parse_tokens(text, &tokens, &count, error);
  for (size_t i = 0; i < count && status == TN_OK; i++) status = add_id(tokenizer, tokens[i], ids, error);
  free(tokens);
  return status;
}

static int run_once(const tn_tokenizer *tokenizer, const char *tokens, unsigned flags) {
  tn_error error = {0};
  char *data = NULL;
  size_t bytes;
  tn_status status = tokens ? TN_OK : tn_file_read("-", (size_t)1 << 30, &data, &bytes, &error);
  tn_ids ids = {0};
  if (status == TN_OK) status = parse_ids(tokenizer, tokens ? tokens : data, &ids, &error);
  tn_buf text;
  tn_buf_init(&text);
  if (status == TN_OK && !tn_tokenizer_decode(tokenizer, ids.data, ids.count, flags, &text))
    status = tn_fail(&error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK && text.size) fwrite(text.data, 1, text.size, stdout);
  if (status == TN_OK) putchar('\n');
  free(data);
  free(ids.data);
  tn_buf_finish(&text);
  return status == TN_OK ? tn_cli_finish_output() : tn_cli_fail(error.message);
}

int tn_command_detokenize(int argc, char **argv) {
  const char *tokens = NULL, *path;
  bool skip = false, lines = false;
  const tn_cli_option options[] = {
      {"tokens", 't', TN_CLI_TEXT, &tokens, "IDS", "the ids, with commas between; stdin if not given", 0, 0},
      {"skip-special", 0, TN_CLI_FLAG, &skip, NULL, "control tokens give no text", 0, 0},
      {"jsonl", 0, TN_CLI_FLAG, &lines, NULL, "one request a line on stdin: {\"ids\"}", 0, 0},
  };
  const tn_cli_command command = {
      "detokenize", "MODEL --tokens IDS", "The text of token ids.", options, TN_COUNT(options), 1, 1};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  if (tn_token_tool_open(&tokenizer, path, &error) != TN_OK) return tn_cli_fail(error.message);
  int result =
      lines ? tn_token_tool_lines(tokenizer, answer) : run_once(tokenizer, tokens, skip ? TN_DECODE_SKIP_SPECIAL : 0);
  tn_tokenizer_destroy(tokenizer);
  return result;
}
