/* What the files of this folder share: markers, and calls read from the text between them. */
#ifndef TENON_TEXT_TOOLS_PARTS_H
#define TENON_TEXT_TOOLS_PARTS_H

#include "text/tools/tools.h"

/* ---- markers (syntax.c) ---- */

typedef enum tn_marker_role {
  TN_MARK_THINK,     /* begins reasoning */
  TN_MARK_THINK_END, /* ends it */
  TN_MARK_CALL,      /* begins a call, or a list of them */
  TN_MARK_CALL_END,
  TN_MARK_QUOTE,   /* begins and ends a string inside a call */
  TN_MARK_HEADER,  /* channels: begins a header, or a part of one */
  TN_MARK_MESSAGE, /* channels: the header ends, a body begins */
  TN_MARK_BODY_END /* channels */
} tn_marker_role;

typedef struct tn_marker {
  tn_text text;
  tn_marker_role role;
} tn_marker;

#define TN_MOST_MARKERS 8

/* A syntax of calls as it is found in templates, and what begins and ends a call (or a list of them). */
typedef struct tn_syntax_row {
  tn_tool_syntax syntax;
  const char *words[2];     /* both are in the template */
  const char *open, *close; /* NULL: none */
} tn_syntax_row;

/* The row of the template's syntax. */
const tn_syntax_row *tn_syntax_row_of(const char *template_source);

/* Fills markers[TN_MOST_MARKERS] with those of the template; returns how many. No marker begins with another. */
size_t tn_markers_of(const char *template_source, tn_marker *markers);

/* ---- tools (tool_list.c) ---- */

enum { TN_IS_STRING = 1, TN_IS_NUMBER = 2, TN_IS_BOOLEAN = 4, TN_IS_NULL = 8, TN_IS_CONTAINER = 16, TN_IS_ANY = 31 };
/* Kinds of values that the schema of parameter `name` of a tool allows, as far as it says so plainly. */
unsigned tn_tool_parameter_kinds(const tn_tool_list *list, size_t tool, tn_text name);

/* ---- calls ---- */

typedef struct tn_call {
  size_t tool;                       /* in the list */
  size_t arguments, arguments_bytes; /* place in tn_calls.text; zero-terminated */
} tn_call;

typedef struct tn_calls {
  const tn_tool_list *tools;
  tn_call *calls;
  size_t count, capacity;
  tn_buf text;
} tn_calls;

/* Adds a call whose arguments are a JSON object. False: no such tool, or memory is out (text.failed). */
bool tn_calls_add(tn_calls *calls, tn_text name, tn_text arguments);

/* Reads what stands between the markers of a call. False when it isn't wholly calls; `calls` then holds anything.
 * `recipient`: of a message in channels. */
bool tn_calls_read(tn_calls *calls, tn_tool_syntax syntax, tn_text body, tn_text recipient);
/* The same for the syntaxes that don't write JSON (calls_tagged.c, calls_gemma.c). */
bool tn_calls_read_tagged(tn_calls *calls, tn_tool_syntax syntax, tn_text body);
bool tn_calls_read_gemma(tn_calls *calls, tn_text body);

/* Calls written as tags, and what is around each of their parts. */
typedef struct tn_tags {
  const char *call, *call_end;   /* a tool's name */
  const char *close;             /* the end of the call; "": that of the body */
  const char *key, *key_end;     /* a parameter's name */
  const char *value, *value_end; /* its value */
  const char *line;              /* around values and behind tags: a newline, or nothing */
} tn_tags;

/* The tags of a syntax; NULL: it writes none. */
const tn_tags *tn_tags_of(tn_tool_syntax syntax);

/* ---- arguments while they are written (call_pieces.c) ---- */

typedef struct tn_call_pieces {
  enum { TN_BEFORE_NAME, TN_AT_NAME, TN_IN_ARGUMENTS, TN_BEHIND_ARGUMENTS } state;
  size_t at;       /* in the body: what is before it was looked at */
  int tool;        /* that is called; -1: none on offer */
  uint32_t number; /* of the call within the body */
  size_t depth;    /* brackets */
  bool in_string, is_escaped;
} tn_call_pieces;

void tn_call_pieces_begin(tn_call_pieces *pieces);
/* The next piece of arguments that `body`, what stands behind a call's marker so far, has got; false: none yet. Bodies
 * only grow from one call to the next. */
bool tn_call_pieces_next(tn_call_pieces *pieces, tn_tool_syntax syntax, const tn_tool_list *tools, tn_text body,
                         tn_text recipient, tn_text *piece);

/* ---- small things ---- */

static inline bool tn_is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
/* Without white space at both ends. */
tn_text tn_trim(tn_text text);
/* Takes `prefix` off the front; false, and nothing done, when it isn't there. */
bool tn_take(tn_text *text, const char *prefix);
/* Where `needle` is first; NULL: nowhere. */
const char *tn_find(tn_text text, const char *needle);
/* The text before and after a place in it. */
static inline tn_text tn_before(tn_text text, const char *at) {
  return (tn_text){text.data, (size_t)(at - text.data)};
}
static inline tn_text tn_from(tn_text text, const char *at) {
  return (tn_text){at, text.bytes - (size_t)(at - text.data)};
}
/* Appends a JSON string. */
void tn_put_json_string(tn_buf *buf, tn_text text);
/* The kind (TN_IS_...) of a text that is one JSON value; 0: it is none. */
unsigned tn_json_text_kind(tn_text text);

#endif
