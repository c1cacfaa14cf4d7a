/* Arguments of calls while they are written. The text of a call that is held to a grammar has one shape in each syntax:
 * what stands before a name, the name, and, at the next bracket, arguments as JSON. So the same walk finds them all.
 * It goes over each byte once, whatever the cuts of the input are. */
#include "text/tools/parts.h"

/* What stands before a name, and behind it; the other syntaxes don't write arguments as they are given out. */
static const struct {
  const char *before, *after;
} NAMES[] = {[TN_TOOLS_NONE] = {NULL, NULL},
             [TN_TOOLS_HERMES] = {"\"name\":", "\""},
             [TN_TOOLS_TAGGED] = {NULL, NULL},
             [TN_TOOLS_LLAMA] = {"\"name\":", "\""},
             [TN_TOOLS_MISTRAL] = {"\"name\":", "\""},
             [TN_TOOLS_DEEPSEEK] = {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"},
             [TN_TOOLS_CHANNELS] = {"", ""},
             [TN_TOOLS_GEMMA] = {NULL, NULL},
             [TN_TOOLS_LIST] = {"name\":", "\""},
             [TN_TOOLS_KIMI] = {"functions.", ":"},
             [TN_TOOLS_GLM] = {NULL, NULL},
             [TN_TOOLS_INVOKE] = {NULL, NULL},
             [TN_TOOLS_FUNCTION] = {"", ">"}};

void tn_call_pieces_begin(tn_call_pieces *pieces) {
  *pieces = (tn_call_pieces){.tool = -1};
}

/* Mistral's calls may begin with the name itself. */
static bool begins_with_name(tn_tool_syntax syntax, tn_text body) {
  return syntax == TN_TOOLS_MISTRAL && tn_trim(body).bytes && tn_trim(body).data[0] != '[';
}

/* Moves on behind the next name and takes the tool from it; false: it isn't all there yet. */
static bool find_name(tn_call_pieces *pieces, tn_tool_syntax syntax, const tn_tool_list *tools, tn_text body) {
  const bool is_first = begins_with_name(syntax, body);
  const char *before = is_first ? "" : NAMES[syntax].before, *after = is_first ? "[" : NAMES[syntax].after;
  tn_text text = {body.data + pieces->at, body.bytes - pieces->at};
  const char *found = tn_find(text, before);
  if (!found) {
    size_t kept = strlen(before) - 1;
    if (text.bytes > kept) pieces->at = body.bytes - kept;
    return false;
  }
  pieces->at = (size_t)(found - body.data);
  text = tn_from(text, found + strlen(before));
  while (text.bytes && tn_is_blank(text.data[0])) text = tn_from(text, text.data + 1);
  if (after[0] == '"' && !tn_take(&text, "\"")) return false;
  const char *end = tn_find(text, after);
  if (!end) return false;
  if (tn_text_is(tn_before(text, end), "function") && syntax == TN_TOOLS_DEEPSEEK) { /* the name is in the next line */
    text = tn_from(text, end + strlen(after));
    after = "\n";
    if (!(end = tn_find(text, after))) return false;
  }
  pieces->tool = tn_tool_list_find(tools, tn_before(text, end));
  pieces->at = (size_t)(end + strlen(after) - body.data);
  pieces->state = TN_AT_NAME;
  return true;
}

/* Walks over arguments up to their last bracket. */
static void walk_arguments(tn_call_pieces *pieces, tn_text body) {
  for (; pieces->at < body.bytes; pieces->at++) {
    char c = body.data[pieces->at];
    if (pieces->is_escaped) {
      pieces->is_escaped = false;
    } else if (pieces->in_string) {
      pieces->is_escaped = c == '\\';
      if (c == '"') pieces->in_string = false;
    } else if (c == '"') {
      pieces->in_string = true;
    } else if (c == '{' || c == '[') {
      pieces->depth++;
    } else if ((c == '}' || c == ']') && --pieces->depth == 0) {
      pieces->at++;
      pieces->state = TN_BEHIND_ARGUMENTS;
      return;
    }
  }
}

bool tn_call_pieces_next(tn_call_pieces *pieces, tn_tool_syntax syntax, const tn_tool_list *tools, tn_text body,
                         tn_text recipient, tn_text *piece) {
  if (!NAMES[syntax].before) return false;
  if (pieces->state == TN_BEHIND_ARGUMENTS) {
    pieces->state = TN_BEFORE_NAME;
    pieces->number++;
  }
  if (pieces->state == TN_BEFORE_NAME && syntax == TN_TOOLS_CHANNELS) {
    pieces->tool = tn_tool_list_find(tools, recipient);
    pieces->state = TN_AT_NAME;
  }
  if (pieces->state == TN_BEFORE_NAME && !find_name(pieces, syntax, tools, body)) return false;
  if (pieces->state == TN_AT_NAME) {
    const char *open = tn_find((tn_text){body.data + pieces->at, body.bytes - pieces->at}, "{");
    pieces->at = open ? (size_t)(open - body.data) : body.bytes;
    if (!open) return false;
    pieces->state = TN_IN_ARGUMENTS;
  }
  const size_t from = pieces->at;
  walk_arguments(pieces, body);
  *piece = (tn_text){body.data + from, pieces->at - from};
  return piece->bytes > 0;
}
