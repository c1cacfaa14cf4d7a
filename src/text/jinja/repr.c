/* Python's str() and repr() of values. */
#include <stdio.h>
#include "text/jinja/number.h"
#include "text/jinja/program.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

/* One code point inside a quoted string. */
static void append_quoted(tnj_state *s, tnj_buffer *out, uint32_t c, bool trusted, void *user) {
  char quote = *(const char *)user, text[16];
  const char *escape = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
  if (escape) {
    tnj_append(s, out, escape, 2, trusted);
  } else if (c == (uint32_t)quote) {
    tnj_append(s, out, "\\", 1, trusted);
    tnj_append(s, out, &quote, 1, trusted);
  } else if (tnj_is_printable(c)) {
    tnj_append_codepoint(s, out, c, trusted);
  } else {
    snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    tnj_append_text(s, out, text);
  }
}

static void append_string_repr(tnj_state *s, tnj_buffer *out, tnj_value v) {
  const char *data = tnj_data(v);
  size_t size = tnj_size(v);
  bool single = size && memchr(data, '\'', size), twice = size && memchr(data, '"', size);
  char quote = single && !twice ? '"' : '\'';
  if (v.flag & TNJ_MARKUP) tnj_append_text(s, out, "Markup(");
  tnj_append(s, out, &quote, 1, false);
  tnj_append_string(s, out, tnj_map(s, v, append_quoted, &quote));
  tnj_append(s, out, &quote, 1, false);
  if (v.flag & TNJ_MARKUP) tnj_append_text(s, out, ")");
}

static void append_list(tnj_state *s, tnj_buffer *out, const tnj_list *list) {
  for (size_t i = 0; i < list->count; i++) {
    if (i) tnj_append_text(s, out, ", ");
    tnj_append_repr(s, out, list->items[i]);
  }
}

static void append_dict(tnj_state *s, tnj_buffer *out, const tnj_dict *dict) {
  tnj_append_text(s, out, "{");
  for (size_t i = 0; i < dict->count; i++) {
    if (i) tnj_append_text(s, out, ", ");
    tnj_append_repr(s, out, dict->entries[i].key);
    tnj_append_text(s, out, ": ");
    tnj_append_repr(s, out, dict->entries[i].value);
  }
  tnj_append_text(s, out, "}");
}

static void append_range(tnj_state *s, tnj_buffer *out, const tnj_range *range) {
  char text[96];
  int used = snprintf(text, sizeof text, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
  if (range->step != 1) snprintf(text + used, sizeof text - (size_t)used, ", %lld", (long long)range->step);
  tnj_append_text(s, out, text);
  tnj_append_text(s, out, ")");
}

static void append_container(tnj_state *s, tnj_buffer *out, tnj_value v) {
  switch (v.kind) {
    case TNJ_LIST:
      tnj_append_text(s, out, "[");
      append_list(s, out, v.list);
      tnj_append_text(s, out, "]");
      break;
    case TNJ_TUPLE:
      tnj_append_text(s, out, "(");
      append_list(s, out, v.list);
      tnj_append_text(s, out, v.list->count == 1 ? ",)" : ")");
      break;
    case TNJ_DICT: append_dict(s, out, v.dict); break;
    case TNJ_NAMESPACE:
      tnj_append_text(s, out, "<Namespace ");
      append_dict(s, out, v.dict);
      tnj_append_text(s, out, ">");
      break;
    default:
      tnj_append_text(s, out, tnj_type_name(v));
      tnj_append_text(s, out, "([");
      append_list(s, out, tnj_items(s, v));
      tnj_append_text(s, out, "])");
  }
}

/* Things that Python shows with an address, which no template can depend on. */
static void append_object(tnj_state *s, tnj_buffer *out, tnj_value v) {
  switch (v.kind) {
    case TNJ_MACRO:
      tnj_append_text(s, out, "<Macro ");
      if (v.macro->node->kind == TNJ_N_MACRO)
        tnj_append_repr(s, out, v.macro->node->name);
      else
        tnj_append_text(s, out, "anonymous");
      break;
    case TNJ_LOOP:
      tnj_append_string(s, out, tnj_string_printf(s, "<LoopContext %zu/%zu", v.loop->index + 1, v.loop->items->count));
      break;
    case TNJ_FUNCTION:
      tnj_append_text(s, out, "<function ");
      tnj_append_text(s, out, v.function->name);
      break;
    case TNJ_METHOD:
      tnj_append_text(s, out, "<built-in method ");
      tnj_append_text(s, out, v.method->function->name);
      break;
    default:
      tnj_append_text(s, out, "<");
      tnj_append_text(s, out, tnj_type_name(v));
      tnj_append_text(s, out, " object");
  }
  tnj_append_text(s, out, ">");
}

void tnj_append_repr(tnj_state *s, tnj_buffer *out, tnj_value v) {
  tnj_enter(s);
  switch (v.kind) {
    case TNJ_UNDEFINED: tnj_append_text(s, out, "Undefined"); break;
    case TNJ_NONE: tnj_append_text(s, out, "None"); break;
    case TNJ_BOOL: tnj_append_text(s, out, v.boolean ? "True" : "False"); break;
    case TNJ_INT:
    case TNJ_BIG:
    case TNJ_FLOAT: tnj_append_number(s, out, v); break;
    case TNJ_STRING: append_string_repr(s, out, v); break;
    case TNJ_LIST:
    case TNJ_TUPLE:
    case TNJ_DICT:
    case TNJ_NAMESPACE:
    case TNJ_VIEW: append_container(s, out, v); break;
    case TNJ_RANGE: append_range(s, out, v.range); break;
    default: append_object(s, out, v);
  }
  tnj_leave(s);
}

void tnj_append_str(tnj_state *s, tnj_buffer *buffer, tnj_value v) {
  if (tnj_is_string(v))
    tnj_append_string(s, buffer, v);
  else if (!tnj_is_undefined(v))
    tnj_append_repr(s, buffer, v);
}

tnj_value tnj_str(tnj_state *s, tnj_value v) {
  if (tnj_is_string(v)) return v;
  tnj_buffer *buffer = tnj_buffer_new(s, 16);
  tnj_append_str(s, buffer, v);
  return tnj_buffer_string(s, buffer);
}
