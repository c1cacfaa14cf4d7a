/* The streaming parser. Bytes are taken one by one, in order, and each acts on the state that those before it left; a
 * byte that may begin a marker waits until it is known. So the cuts of the input can't matter.
 *
 * A place is where the text stands: in content, in reasoning, in a call, or (channels) in a header. What a call or a
 * header says is collected in `region`, markers included, and read when it is complete; what can't be read goes out
 * as content. White space at the end of content and reasoning is held back: it is dropped where a call or the end of
 * reasoning follows. */
#include <stdlib.h>
#include "base/error.h"
#include "base/hash.h"
#include "text/tokenizer.h"
#include "text/tools/parts.h"

typedef enum place { IN_CONTENT, IN_REASONING, IN_CALL, IN_HEADER } place;

#define LONGEST_HEADER 512u /* bytes; what is longer is no header */

struct tn_tool_parser {
  tn_tool_parser_options options;
  tn_tool_syntax syntax;
  tn_marker markers[TN_MOST_MARKERS];
  bool is_control[TN_MOST_MARKERS];
  size_t marker_count;

  place place;
  bool has_content; /* something but white space */
  bool drop_blank;  /* white space is dropped until something else comes */
  bool drop_line;   /* a label, up to its newline, is dropped */
  bool in_string;   /* of a call's JSON: markers there are text */
  bool is_escaped;  /* the last byte was its backslash */
  bool is_bare;     /* the call began without a marker */
  bool is_over;
  unsigned quotes; /* in a bare call */
  uint32_t call_count;
  tn_buf waiting;                 /* bytes that may begin a marker */
  tn_buf run;                     /* to be given out: content or reasoning, by the place */
  tn_buf blank;                   /* white space behind it */
  tn_buf region;                  /* a call or a header as it was written */
  size_t body;                    /* where in it the call's text begins */
  tn_buf recipient;               /* channels: the tool that a message is for */
  tn_buf begun;                   /* channels: what a grammar begins with */
  bool is_held, is_held_for_good; /* to a grammar: calls are given out by pieces too */
  bool has_pieces;                /* the call under way gave some */
  tn_call_pieces pieces;
  tn_buf piece;
  tn_calls calls;
};

/* ---- making ---- */

tn_status tn_tool_parser_create(tn_tool_parser **made, const tn_tool_parser_options *options, tn_error *error) {
  tn_tool_parser *p = *made = tn_calloc(1, sizeof *p);
  if (!p) return tn_fail(error, TN_E_MEMORY, "no memory for an answer's parser");
  p->options = *options;
  p->syntax = tn_tool_syntax_of(options->template_source);
  p->marker_count = tn_markers_of(options->template_source, p->markers);
  p->options.template_source = NULL;
  for (size_t i = 0; i < p->marker_count && options->tokenizer; i++) {
    int32_t id = tn_tokenizer_find(options->tokenizer, p->markers[i].text);
    p->is_control[i] = id >= 0 && tn_tokenizer_is_special(options->tokenizer, id);
  }
  p->calls.tools = options->tools;
  p->place = p->syntax == TN_TOOLS_CHANNELS ? IN_HEADER : options->reasoning_is_open ? IN_REASONING : IN_CONTENT;
  p->drop_blank = p->place == IN_REASONING;
  return TN_OK;
}

void tn_tool_parser_destroy(tn_tool_parser *p) {
  if (!p) return;
  tn_buf_finish(&p->waiting);
  tn_buf_finish(&p->run);
  tn_buf_finish(&p->blank);
  tn_buf_finish(&p->region);
  tn_buf_finish(&p->recipient);
  tn_buf_finish(&p->begun);
  tn_buf_finish(&p->piece);
  tn_buf_finish(&p->calls.text);
  free(p->calls.calls);
  free(p);
}

/* ---- giving out ---- */

static void give(tn_tool_parser *p, const tn_part *part) {
  if (!p->is_over && !p->options.sink(p->options.context, part)) p->is_over = true;
}

/* Gives out what has gathered; before the place changes. */
static void flush(tn_tool_parser *p) {
  if (p->run.size)
    give(p, &(tn_part){.kind = p->place == IN_REASONING ? TN_PART_REASONING : TN_PART_CONTENT,
                       .text = {p->run.data, p->run.size},
                       .id = ""});
  tn_buf_clear(&p->run);
}

static void release_blank(tn_tool_parser *p) {
  tn_buf_append(&p->run, p->blank.data, p->blank.size);
  tn_buf_clear(&p->blank);
}

static void write_id(char id[10], uint64_t seed, uint32_t index) {
  static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t bits = seed + (uint64_t)index * 0x9E3779B97F4A7C15u; /* a step of splitmix64 */
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  bits ^= bits >> 31;
  for (int i = 0; i < 9; i++, bits /= 62) id[i] = letters[bits % 62];
  id[9] = 0;
}

/* What the arguments of a call under way have got since the last time. */
static void give_pieces(tn_tool_parser *p) {
  tn_text piece;
  if (p->place != IN_CALL || !(p->is_held || p->is_held_for_good)) return;
  const tn_text body = {p->region.data + p->body, p->region.size - p->body};
  const tn_text recipient = {p->recipient.data, p->recipient.size};
  while (!p->is_over && tn_call_pieces_next(&p->pieces, p->syntax, p->calls.tools, body, recipient, &piece)) {
    char id[10];
    const uint32_t index = p->call_count + p->pieces.number;
    if (p->pieces.tool < 0) continue;
    p->has_pieces = true;
    write_id(id, p->options.id_seed, index);
    tn_buf_clear(&p->piece);
    if (!tn_buf_append(&p->piece, piece.data, piece.bytes)) return;
    give(p, &(tn_part){.kind = TN_PART_CALL_PIECE,
                       .text = {p->piece.data, p->piece.size},
                       .name = tn_tool_list_name(p->calls.tools, (size_t)p->pieces.tool),
                       .id = id,
                       .index = index});
  }
}

static void give_calls(tn_tool_parser *p) {
  for (size_t i = 0; i < p->calls.count && !p->is_over; i++) {
    const tn_call *call = &p->calls.calls[i];
    char id[10];
    write_id(id, p->options.id_seed, p->call_count);
    give(p, &(tn_part){.kind = TN_PART_CALL,
                       .text = {p->calls.text.data + call->arguments, call->arguments_bytes},
                       .name = tn_tool_list_name(p->calls.tools, call->tool),
                       .id = id,
                       .index = p->call_count++});
    if (p->options.single_call) p->is_over = true;
  }
}

/* ---- places ---- */

static void begin_pieces(tn_tool_parser *p) {
  p->has_pieces = p->is_held = false;
  tn_call_pieces_begin(&p->pieces);
}

/* The region was no call (or header): it is content. */
static void region_is_content(tn_tool_parser *p) {
  p->place = IN_CONTENT;
  p->has_content = true;
  release_blank(p);
  tn_buf_append(&p->run, p->region.data, p->region.size);
  tn_buf_clear(&p->region);
}

static void begin_call(tn_tool_parser *p, tn_text marker) {
  flush(p);
  p->place = IN_CALL;
  begin_pieces(p);
  p->in_string = p->is_escaped = false;
  p->is_bare = marker.bytes == 0;
  p->quotes = 0;
  tn_buf_clear(&p->region);
  tn_buf_append(&p->region, marker.data, marker.bytes);
  p->body = p->region.size;
}

/* The call is complete, but for the marker that ends it. */
static void end_call(tn_tool_parser *p, tn_text marker) {
  give_pieces(p);
  const tn_text body = {p->region.data + p->body, p->region.size - p->body};
  p->calls.count = 0;
  tn_buf_clear(&p->calls.text);
  if (tn_calls_read(&p->calls, p->syntax, body, (tn_text){p->recipient.data, p->recipient.size})) {
    tn_buf_clear(&p->blank);
    tn_buf_clear(&p->region);
    p->place = IN_CONTENT;
    give_calls(p);
  } else if (p->has_pieces) {
    tn_buf_clear(&p->blank);
    tn_buf_clear(&p->region);
    p->place = IN_CONTENT;
  } else {
    tn_buf_append(&p->region, marker.data, marker.bytes);
    region_is_content(p);
  }
}

static void begin_reasoning(tn_tool_parser *p) {
  flush(p);
  p->place = IN_REASONING;
  tn_buf_clear(&p->blank);
  p->drop_blank = true;
  p->drop_line = p->syntax == TN_TOOLS_GEMMA; /* the channel's name */
}

static void end_reasoning(tn_tool_parser *p) {
  flush(p);
  p->place = IN_CONTENT;
  tn_buf_clear(&p->blank);
  p->drop_blank = true;
  p->drop_line = false;
}

/* A header is complete: who is the message for, and in which channel is it? */
static void end_header(tn_tool_parser *p, tn_text marker) {
  size_t bytes = p->region.size;
  tn_buf_append(&p->region, marker.data, marker.bytes);
  const tn_text header = {p->region.data ? p->region.data : "", bytes};
  const char *to = tn_find(header, "to=functions."), *channel = tn_find(header, "<|channel|>");
  tn_buf_clear(&p->blank);
  p->drop_blank = false;
  if (to && p->options.tools) {
    const char *name = to + strlen("to=functions."), *end = name;
    while (end < header.data + header.bytes && !tn_is_blank(*end) && *end != '<') end++;
    tn_buf_clear(&p->recipient);
    tn_buf_append(&p->recipient, name, (size_t)(end - name));
    p->place = IN_CALL;
    begin_pieces(p);
    p->in_string = p->is_escaped = p->is_bare = false;
    p->body = p->region.size;
    return;
  }
  p->place = IN_CONTENT;
  if (channel) {
    tn_text name = tn_from(header, channel + strlen("<|channel|>"));
    if (tn_take(&name, "analysis")) p->place = IN_REASONING;
  }
  tn_buf_clear(&p->region);
}

static void begin_header(tn_tool_parser *p, tn_text marker) {
  if (p->place == IN_CALL) end_call(p, (tn_text){0});
  if (p->place == IN_CONTENT) release_blank(p);
  if (p->place != IN_HEADER) flush(p);
  p->place = IN_HEADER;
  tn_buf_append(&p->region, marker.data, marker.bytes);
}

/* ---- markers ---- */

/* Whether a marker means something here; else it is text. */
static bool is_active(const tn_tool_parser *p, tn_marker_role role) {
  switch (role) {
    case TN_MARK_THINK: return p->place == IN_CONTENT && !p->has_content;
    case TN_MARK_THINK_END: return p->place == IN_REASONING;
    case TN_MARK_CALL:
      if (p->place == IN_CALL) return p->syntax == TN_TOOLS_MISTRAL && !p->in_string;
      return p->place == IN_CONTENT && p->options.tools;
    case TN_MARK_CALL_END: return p->place == IN_CALL && !p->in_string;
    case TN_MARK_QUOTE: return p->place == IN_CALL;
    case TN_MARK_HEADER: return !p->in_string;
    case TN_MARK_MESSAGE: return p->place == IN_HEADER;
    case TN_MARK_BODY_END: return p->place != IN_HEADER && !p->in_string;
  }
  return false;
}

static void act(tn_tool_parser *p, const tn_marker *marker) {
  bool was_held;
  switch (marker->role) {
    case TN_MARK_THINK: begin_reasoning(p); break;
    case TN_MARK_THINK_END: end_reasoning(p); break;
    case TN_MARK_CALL:
      was_held = p->place == IN_CALL && p->is_held; /* the grammar goes on */
      if (p->place == IN_CALL) end_call(p, (tn_text){0});
      begin_call(p, marker->text);
      p->is_held = was_held;
      break;
    case TN_MARK_CALL_END: end_call(p, marker->text); break;
    case TN_MARK_QUOTE:
      p->in_string = !p->in_string;
      tn_buf_append(&p->region, marker->text.data, marker->text.bytes);
      break;
    case TN_MARK_HEADER: begin_header(p, marker->text); break;
    case TN_MARK_MESSAGE: end_header(p, marker->text); break;
    case TN_MARK_BODY_END:
      if (p->place == IN_CALL) end_call(p, (tn_text){0});
      if (p->place == IN_CONTENT) release_blank(p);
      flush(p);
      p->place = IN_HEADER;
      tn_buf_clear(&p->region);
      break;
  }
}

/* ---- bytes ---- */

/* A bare call goes on as a call may: {"name": ... */
static bool is_hopeless(tn_tool_parser *p, char c) {
  static const char *const keys[] = {"\"name\"", "\"parameters\"", "\"type\"", "\"function\""};
  if (p->quotes == 0) return p->region.size > 1 && !tn_is_blank(c) && c != '"';
  if (p->quotes != 2 || c != '"') return false;
  tn_text key = {p->region.data + 1, p->region.size - 1};
  key = tn_trim(key);
  for (size_t i = 0; i < TN_COUNT(keys); i++)
    if (tn_text_is(key, keys[i])) return false;
  return true;
}

static void put_in_call(tn_tool_parser *p, char c) {
  tn_buf_putc(&p->region, c);
  if (!tn_tags_of(p->syntax) && p->syntax != TN_TOOLS_GEMMA) {
    if (p->in_string && p->is_escaped) {
      p->is_escaped = false;
    } else if (p->in_string && c == '\\') {
      p->is_escaped = true;
    } else if (c == '"') {
      p->in_string = !p->in_string;
    }
  }
  if (!p->is_bare || p->quotes > 2) return;
  if (c == '"') p->quotes++;
  if (is_hopeless(p, c)) region_is_content(p);
}

static void put_in_text(tn_tool_parser *p, char c) {
  if (p->drop_line) {
    p->drop_line = c != '\n';
  } else if (tn_is_blank(c)) {
    if (!p->drop_blank) tn_buf_putc(&p->blank, c);
  } else if (p->place == IN_CONTENT && !p->has_content && c == '{' && p->syntax == TN_TOOLS_LLAMA && p->options.tools) {
    begin_call(p, (tn_text){0});
    put_in_call(p, c);
  } else {
    p->drop_blank = false;
    if (p->place == IN_CONTENT) p->has_content = true;
    release_blank(p);
    tn_buf_putc(&p->run, c);
  }
}

static void put(tn_tool_parser *p, char c) {
  switch (p->place) {
    case IN_CALL: put_in_call(p, c); break;
    case IN_HEADER:
      tn_buf_putc(&p->region, c);
      if (p->region.size > LONGEST_HEADER) region_is_content(p);
      break;
    case IN_CONTENT:
    case IN_REASONING: put_in_text(p, c); break;
  }
}

/* How the text at `at` stands to the markers that are text: *found is the one that is there; true when one may be,
 * once more text comes. */
static bool may_be_marker(const tn_tool_parser *p, tn_text rest, const tn_marker **found) {
  bool may_be = false;
  *found = NULL;
  for (size_t i = 0; i < p->marker_count; i++) {
    const tn_marker *marker = &p->markers[i];
    size_t common = marker->text.bytes < rest.bytes ? marker->text.bytes : rest.bytes;
    if (p->is_control[i] || memcmp(marker->text.data, rest.data, common) || !is_active(p, marker->role)) continue;
    if (common == marker->text.bytes) *found = marker;
    may_be = true;
  }
  return may_be;
}

/* Takes what waits, as far as it is known what it is; all of it when nothing `more` can come. */
static void take_waiting(tn_tool_parser *p, bool more) {
  size_t at = 0;
  while (at < p->waiting.size && !p->is_over) {
    const tn_marker *found;
    const tn_text rest = {p->waiting.data + at, p->waiting.size - at};
    bool may_be = may_be_marker(p, rest, &found);
    if (found) {
      at += found->text.bytes;
      act(p, found);
    } else if (may_be && more) {
      break;
    } else {
      put(p, p->waiting.data[at++]);
    }
  }
  if (at) memmove(p->waiting.data, p->waiting.data + at, p->waiting.size - at);
  p->waiting.size -= at;
}

static bool has_memory(const tn_tool_parser *p) {
  return !(p->waiting.failed || p->run.failed || p->blank.failed || p->region.failed || p->recipient.failed ||
           p->calls.text.failed || p->piece.failed);
}

static void take_control(tn_tool_parser *p, tn_text text) {
  take_waiting(p, false); /* a marker that is text doesn't run across a control token */
  for (size_t i = 0; i < p->marker_count; i++)
    if (p->is_control[i] && tn_text_equal(p->markers[i].text, text) && is_active(p, p->markers[i].role)) {
      act(p, &p->markers[i]);
      return;
    }
  /* any other is part of a call or header, and nothing to be shown elsewhere */
  if (p->place == IN_CALL || p->place == IN_HEADER) tn_buf_append(&p->region, text.data, text.bytes);
}

bool tn_tool_parser_push(tn_tool_parser *p, tn_text piece, bool is_control) {
  if (p->is_over) return has_memory(p);
  if (is_control) {
    take_control(p, piece);
  } else {
    tn_buf_append(&p->waiting, piece.data, piece.bytes);
    take_waiting(p, true);
  }
  if (!has_memory(p)) return false;
  flush(p);
  give_pieces(p);
  return has_memory(p);
}

bool tn_tool_parser_end(tn_tool_parser *p) {
  if (p->is_over) return has_memory(p);
  take_waiting(p, false);
  if (p->place == IN_CALL) {
    end_call(p, (tn_text){0});
  } else if (p->place == IN_HEADER && tn_trim((tn_text){p->region.data, p->region.size}).bytes && !p->call_count) {
    region_is_content(p);
  }
  if (p->place == IN_CONTENT) release_blank(p);
  if (!has_memory(p)) return false;
  flush(p);
  return true;
}

bool tn_tool_parser_is_over(const tn_tool_parser *p) {
  return p->is_over;
}

bool tn_tool_parser_is_reasoning(const tn_tool_parser *p) {
  return p->place == IN_REASONING || p->place == IN_HEADER;
}

void tn_tool_parser_hold(tn_tool_parser *p, bool for_good) {
  p->is_held = true;
  p->is_held_for_good |= for_good;
  give_pieces(p);
}

/* Whether a call without a marker has said the name of a tool: {"name": "NAME". */
static bool names_tool(const tn_tool_parser *p) {
  tn_text text = {p->region.data, p->region.size};
  if (!tn_take(&text, "{")) return false;
  text = tn_trim(text);
  if (!tn_take(&text, "\"name\"")) return false;
  text = tn_trim(text);
  if (!tn_take(&text, ":")) return false;
  text = tn_trim(text);
  const char *end = tn_take(&text, "\"") ? tn_find(text, "\"") : NULL;
  return end && tn_tool_list_find(p->options.tools, tn_before(text, end)) >= 0;
}

bool tn_tool_parser_in_call(tn_tool_parser *p, tn_text *body) {
  if (p->place != IN_CALL || (p->is_bare && !names_tool(p))) return false;
  *body = (tn_text){p->region.data + p->body, p->region.size - p->body};
  if (p->syntax != TN_TOOLS_CHANNELS) return true;
  tn_buf_clear(&p->begun);
  tn_buf_append(&p->begun, p->recipient.data, p->recipient.size);
  tn_buf_putc(&p->begun, '\n');
  tn_buf_append(&p->begun, body->data, body->bytes);
  *body = (tn_text){p->begun.data, p->begun.size};
  return !p->begun.failed;
}
