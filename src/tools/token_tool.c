#include "tools/token_tool.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/os.h"
#include "base/utf8.h"
#include "cli/options.h"
#include "model/gguf_vocab.h"

tn_status tn_token_tool_open(tn_tokenizer **out, const char *path, tn_error *error) {
  *out = NULL;
  if (tn_path_is_directory(path)) return tn_tokenizer_open_json(out, path, error);
  tn_file_map map;
  tn_status status = tn_file_map_open(&map, path, error);
  if (status != TN_OK) return status;
  bool gguf_file = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
  tn_file_map_close(&map);
  if (!gguf_file) return tn_tokenizer_open_json(out, path, error);
  tn_gguf *gguf;
  status = tn_gguf_open(&gguf, path, error);
  if (status != TN_OK) return status;
  status = tn_tokenizer_from_gguf(out, gguf, NULL, error);
  tn_gguf_close(gguf);
  return status;
}

/* The length of a character that some readers take for the end of a line (U+0085, U+2028, U+2029), or 0. */
static size_t line_end(tn_text text, size_t at) {
  static const tn_text ends[] = {{"\xc2\x85", 2}, {"\xe2\x80\xa8", 3}, {"\xe2\x80\xa9", 3}};
  for (size_t i = 0; i < TN_COUNT(ends); i++)
    if (text.bytes - at >= ends[i].bytes && memcmp(text.data + at, ends[i].data, ends[i].bytes) == 0)
      return ends[i].bytes;
  return 0;
}

void tn_token_tool_string(tn_buf *out, tn_text text) {
  tn_buf_putc(out, '"');
  for (size_t i = 0; i < text.bytes; i++) {
    unsigned char c = (unsigned char)text.data[i];
    size_t end = c >= 0x80 ? line_end(text, i) : 0;
    if (end) {
      uint32_t codepoint;
      tn_utf8_step(text.data + i, end, &codepoint);
      tn_buf_printf(out, "\\u%04x", (unsigned)codepoint);
      i += end - 1;
    } else if (c == '"' || c == '\\') {
      tn_buf_putc(out, '\\');
      tn_buf_putc(out, (char)c);
    } else if (c < 0x20 || c == 0x7f) {
      tn_buf_printf(out, "\\u%04x", c);
    } else {
      tn_buf_putc(out, (char)c);
    }
  }
  tn_buf_putc(out, '"');
}

void tn_token_tool_ids(tn_buf *out, const tn_ids *ids) {
  tn_buf_putc(out, '[');
  for (size_t i = 0; i < ids->count; i++) tn_buf_printf(out, i ? ", %d" : "%d", (int)ids->data[i]);
  tn_buf_putc(out, ']');
}

static void answer_line(const tn_tokenizer *tokenizer, tn_token_tool_answer answer, tn_text line, tn_buf *out) {
  tn_error error = {0};
  tn_json json;
  tn_json_init(&json, line.data, line.bytes, &error);
  tn_status status = answer(tokenizer, &json, out, &error);
  if (json.status != TN_OK) status = json.status;
  if (tn_json_end(&json) != TN_OK && status == TN_OK) status = json.status;
  if (status == TN_OK && !out->failed) return;
  tn_buf_clear(out);
  tn_buf_puts(out, "{\"error\": ");
  const char *message = error.message[0] ? error.message : "out of memory";
  tn_token_tool_string(out, tn_text_of(message));
  tn_buf_putc(out, '}');
}

int tn_token_tool_lines(const tn_tokenizer *tokenizer, tn_token_tool_answer answer) {
  char *line = NULL;
  size_t capacity = 0;
  tn_buf out;
  tn_buf_init(&out);
  for (ssize_t bytes; (bytes = getline(&line, &capacity, stdin)) > 0;) {
    while (bytes > 0 && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r')) bytes--;
    tn_buf_clear(&out);
    answer_line(tokenizer, answer, (tn_text){line, (size_t)bytes}, &out);
    tn_buf_putc(&out, '\n');
    if (fwrite(out.data, 1, out.size, stdout) != out.size || fflush(stdout) != 0) break;
  }
  bool unreadable = ferror(stdin);
  free(line);
  tn_buf_finish(&out);
  if (unreadable) return tn_cli_fail("stdin can't be read");
  return tn_cli_finish_output();
}
