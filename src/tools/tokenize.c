/* tenon tokenize: text to ids. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/os.h"
#include "cli/options.h"
#include "tools/token_tool.h"

#define LONGEST_INPUT ((size_t)1 << 30)

static tn_status tokenize(const tn_tokenizer *tokenizer, tn_text text, bool special, bool bos, tn_ids *ids,
                          tn_error *error) {
  tn_span span = {text, special};
  return tn_tokenizer_encode(tokenizer, &span, 1, bos ? TN_ENCODE_BOS | TN_ENCODE_EOS : 0, ids, error);
}

/* {"text": ..., "special": bool, "bos": bool} -> {"ids": [...]} */
static tn_status answer(const tn_tokenizer *tokenizer, tn_json *json, tn_buf *out, tn_error *error) {
  tn_buf text;
  tn_buf_init(&text);
  bool special = false, bos = true, given = false;
  tn_status status = TN_OK;
  if (tn_json_object(json))
    for (tn_text key, value; tn_json_key(json, &key);) {
      if (tn_text_is(key, "text") && tn_json_string(json, &value)) {
        tn_buf_clear(&text);
        if (!tn_buf_append(&text, value.data, value.bytes)) status = tn_fail(error, TN_E_MEMORY, "out of memory");
        given = true;
      } else if (tn_text_is(key, "special")) {
        tn_json_boolean(json, &special);
      } else if (tn_text_is(key, "bos")) {
        tn_json_boolean(json, &bos);
      } else if (json->status == TN_OK) {
        tn_json_fail(json, TN_E_INVALID, "unknown field '%.*s'", (int)(key.bytes < 60 ? key.bytes : 60), key.data);
      }
    }
  if (json->status == TN_OK && status == TN_OK && !given) status = tn_fail(error, TN_E_INVALID, "\"text\" is missing");
  tn_ids ids = {0};
  if (json->status == TN_OK && status == TN_OK)
    status = tokenize(tokenizer, (tn_text){text.data, text.size}, special, bos, &ids, error);
  tn_buf_puts(out, "{\"ids\": ");
  tn_token_tool_ids(out, &ids);
  tn_buf_putc(out, '}');
  free(ids.data);
  tn_buf_finish(&text);
  return status;
}

static int run_once(const tn_tokenizer *tokenizer, const char *prompt, const char *file, bool special, bool bos) {
  tn_error error = {0};
  char *data = NULL;
  size_t bytes = prompt ? strlen(prompt) : 0;
  tn_status status = prompt ? TN_OK : tn_file_read(file ? file : "-", LONGEST_INPUT, &data, &bytes, &error);
  tn_ids ids = {0};
  if (status == TN_OK)
    status = tokenize(tokenizer, (tn_text){prompt ? prompt : data, bytes}, special, bos, &ids, &error);
  tn_buf out;
  tn_buf_init(&out);
  tn_token_tool_ids(&out, &ids);
  tn_buf_putc(&out, '\n');
  int result = status != TN_OK ? tn_cli_fail(error.message) : out.failed ? tn_cli_fail("out of memory") : 0;
  if (result == 0) fwrite(out.data, 1, out.size, stdout);
  free(data);
  free(ids.data);
  tn_buf_finish(&out);
  return result ? result : tn_cli_finish_output();
}

int tn_command_tokenize(int argc, char **argv) {
  const char *prompt = NULL, *file = NULL, *path;
  bool special = false, no_bos = false, lines = false;
  const tn_cli_option options[] = {
      {"prompt", 'p', TN_CLI_TEXT, &prompt, "TEXT", "the text; stdin if neither this nor --file is given", 0, 0},
      {"file", 'f', TN_CLI_TEXT, &file, "F", "a file with the text", 0, 0},
      {"special", 0, TN_CLI_FLAG, &special, NULL, "control tokens in the text are recognised", 0, 0},
      {"no-bos", 0, TN_CLI_FLAG, &no_bos, NULL, "nothing is put around the text", 0, 0},
      {"jsonl", 0, TN_CLI_FLAG, &lines, NULL, "one request a line on stdin: {\"text\", \"special\", \"bos\"}", 0, 0},
  };
  const tn_cli_command command = {
      "tokenize", "MODEL [-p TEXT | --file F]", "The token ids of a text, as JSON.", options, TN_COUNT(options), 1, 1};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (prompt && file) {
    fprintf(stderr, "tenon tokenize: --prompt and --file are both given; give one of them\n");
    return 2;
  }
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  if (tn_token_tool_open(&tokenizer, path, &error) != TN_OK) return tn_cli_fail(error.message);
  int result = lines ? tn_token_tool_lines(tokenizer, answer) : run_once(tokenizer, prompt, file, special, !no_bos);
  tn_tokenizer_destroy(tokenizer);
  return result;
}
