/* What the commands tokenize and detokenize share: opening a tokenizer from any file, answering requests line by line.
 */
#ifndef TENON_TOOLS_TOKEN_TOOL_H
#define TENON_TOOLS_TOKEN_TOOL_H

#include "base/json_reader.h"
#include "text/tokenizer.h"

/* Opens the tokenizer of `path`: a GGUF file, a tokenizer.json, or a folder that holds one. */
tn_status tn_token_tool_open(tn_tokenizer **out, const char *path, tn_error *error);

/* Appends `text` (valid UTF-8) as a JSON string. */
void tn_token_tool_string(tn_buf *out, tn_text text);
void tn_token_tool_ids(tn_buf *out, const tn_ids *ids); /* [1, 2, 3] */

/* Answers one request: reads it from `json`, appends the answer (one line without its end) to `out`. */
typedef tn_status (*tn_token_tool_answer)(const tn_tokenizer *tokenizer, tn_json *json, tn_buf *out, tn_error *error);

/* Reads one JSON request a line from stdin and prints one answer a line to stdout, in order; what can't be
 * answered gives {"error": ...}. Returns the exit status. */
int tn_token_tool_lines(const tn_tokenizer *tokenizer, tn_token_tool_answer answer);

#endif
