/* "..." % values and "...".format(values): reading the format, finding the values. */
#include "text/jinja/format.h"

#include <ctype.h>
#include <string.h>
#include "text/jinja/number.h"
#include "text/jinja/program.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

/* Widths beyond this are refused before anything is allocated. */
#define MAX_WIDTH ((int64_t)1 << 30)

/* A format string being read, and where its values come from. */
typedef struct reader {
  tnj_state *s;
  tnj_value format;
  const char *text;
  size_t size, at;
  tnj_buffer *out;
  /* % */
  tnj_value arguments;
  size_t used;
  /* braces */
  const tnj_arguments *call;
  tnj_value mapping;
  int64_t automatic; /* number of the next {}; -1 once {0} was seen */
} reader;

static char peek(const reader *r) {
  return r->at < r->size ? r->text[r->at] : 0;
}

static int64_t read_number(reader *r) {
  int64_t number = 0;
  while (isdigit((unsigned char)peek(r))) {
    number = number * 10 + (r->text[r->at++] - '0');
    if (number > MAX_WIDTH) tnj_error(r->s, "Too many decimal digits in format string");
  }
  return number;
}

/* ---- % ---- */

static tnj_value next_argument(reader *r) {
  bool tuple = r->arguments.kind == TNJ_TUPLE;
  if (r->used >= (tuple ? r->arguments.list->count : 1)) tnj_error(r->s, "not enough arguments for format string");
  return tuple ? r->arguments.list->items[r->used++] : (r->used++, r->arguments);
}

/* The value named by "(name)" behind a percent sign. */
static tnj_value named_argument(reader *r) {
  size_t start = ++r->at, depth = 1;
  for (; r->at < r->size; r->at++) {
    if (r->text[r->at] == '(') depth++;
    if (r->text[r->at] == ')' && --depth == 0) break;
  }
  if (r->at >= r->size) tnj_error(r->s, "incomplete format key");
  if (r->arguments.kind != TNJ_DICT) tnj_error(r->s, "format requires a mapping");
  tnj_value name = tnj_part(r->s, r->format, start, r->at++);
  const tnj_value *value = tnj_dict_get(r->s, r->arguments.dict, name);
  if (!value)
    tnj_error(r->s, "the format names '%.*s', which isn't there", (int)(tnj_size(name) < 99 ? tnj_size(name) : 99),
              tnj_data(name));
  r->used++;
  return *value;
}

static int64_t star_or_number(reader *r) {
  if (peek(r) != '*') return read_number(r);
  r->at++;
  int64_t number = tnj_need_integer(r->s, next_argument(r), "* wants int");
  if (number > MAX_WIDTH || number < -MAX_WIDTH) tnj_error(r->s, "width too big");
  return number;
}

static void read_percent_layout(reader *r, tnj_layout *layout) {
  for (; peek(r) && strchr("-+ #0", peek(r)); r->at++) {
    switch (peek(r)) {
      case '-': layout->align = '<'; break;
      case '+': layout->sign = '+'; break;
      case ' ': layout->sign = layout->sign ? layout->sign : ' '; break;
      case '#': layout->alternate = true; break;
      default: layout->zero = true;
    }
  }
  layout->width = star_or_number(r);
  if (layout->width < 0) {
    layout->align = '<';
    layout->width = -layout->width;
  }
  if (peek(r) == '.') {
    r->at++;
    layout->precision = star_or_number(r);
    if (layout->precision < 0) layout->precision = 0;
  }
  while (peek(r) && strchr("hlL", peek(r))) r->at++;
}

static void percent_integer(reader *r, tnj_value value, tnj_layout *layout, char type) {
  bool decimal = type == 'd';
  if (value.kind == TNJ_FLOAT && decimal) value = tnj_truncate(r->s, value.real);
  if (tnj_is_undefined(value)) tnj_fail_undefined(r->s, value);
  if (!tnj_is_integer(value))
    tnj_error(r->s, "%%%c format: %s is required, not %s", type, decimal ? "a real number" : "an integer",
              tnj_type_name(value));
  layout->type = type;
  if (layout->precision >= 0) { /* the least number of digits */
    tnj_layout digits = {.type = type,
                         .zero = true,
                         .precision = -1,
                         .width = layout->precision + (tnj_number_compare(value, tnj_int(0)) < 0)};
    tnj_buffer *text = tnj_buffer_new(r->s, 24);
    digits.sign = layout->sign;
    digits.width += layout->sign && tnj_number_compare(value, tnj_int(0)) >= 0;
    tnj_append_integer(r->s, text, value, &digits);
    layout->precision = -1;
    layout->align = layout->align ? layout->align : '>';
    tnj_append_padded(r->s, r->out, tnj_buffer_string(r->s, text), layout);
    return;
  }
  if (layout->align) layout->zero = false;
  tnj_append_integer(r->s, r->out, value, layout);
}

static tnj_value ascii_repr(tnj_state *s, tnj_value v, bool ascii) {
  tnj_buffer *out = tnj_buffer_new(s, 32);
  tnj_append_repr(s, out, v);
  tnj_value text = tnj_buffer_string(s, out);
  if (!ascii) return text;
  out = tnj_buffer_new(s, 32);
  for (size_t at = 0, next; at < tnj_size(text); at = next) {
    uint32_t c = tnj_codepoint_at(text, at, &next);
    if (c < 0x80)
      tnj_append_part(s, out, text, at, next);
    else
      tnj_append_string(s, out, tnj_string_printf(s, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c));
  }
  return tnj_buffer_string(s, out);
}

static void percent_text(reader *r, tnj_value value, tnj_layout *layout, char type) {
  tnj_value text = type == 's' ? tnj_str(r->s, value) : ascii_repr(r->s, value, type == 'a');
  if (r->format.flag & TNJ_MARKUP) text = tnj_escape(r->s, text);
  if (!layout->align) layout->align = '>';
  tnj_append_padded(r->s, r->out, text, layout);
}

static void percent_character(reader *r, tnj_value value, tnj_layout *layout) {
  layout->type = 'c';
  layout->align = layout->align ? layout->align : '>';
  layout->precision = -1;
  if (tnj_is_string(value) && tnj_codepoints(r->s, value) == 1)
    tnj_append_padded(r->s, r->out, value, layout);
  else if (tnj_is_integer(value))
    tnj_append_integer(r->s, r->out, value, layout);
  else
    tnj_error(r->s, "%%c requires int or char");
}

static void percent_float(reader *r, tnj_value value, tnj_layout *layout, char type) {
  if (tnj_is_undefined(value)) tnj_fail_undefined(r->s, value);
  if (!tnj_is_number(value)) tnj_error(r->s, "must be real number, not %s", tnj_type_name(value));
  if (layout->align) layout->zero = false;
  layout->type = type;
  tnj_append_float(r->s, r->out, tnj_to_double(value), layout);
}

static void percent_item(reader *r) {
  tnj_layout layout = {.precision = -1};
  tnj_value value = tnj_absent();
  if (peek(r) == '%') {
    tnj_append_part(r->s, r->out, r->format, r->at, r->at + 1);
    r->at++;
    return;
  }
  if (peek(r) == '(') value = named_argument(r);
  read_percent_layout(r, &layout);
  char type = peek(r);
  if (!type) tnj_error(r->s, "incomplete format");
  r->at++;
  if (!strchr("diuoxXeEfFgGcrsa", type))
    tnj_error(r->s, "unsupported format character '%c' at index %zu", type, r->at - 1);
  if (!tnj_given(value)) value = next_argument(r);
  if (strchr("diu", type))
    percent_integer(r, value, &layout, 'd');
  else if (strchr("oxX", type))
    percent_integer(r, value, &layout, type);
  else if (type == 'c')
    percent_character(r, value, &layout);
  else if (strchr("rsa", type))
    percent_text(r, value, &layout, type);
  else
    percent_float(r, value, &layout, type);
}

tnj_value tnj_format_percent(tnj_state *s, tnj_value format, tnj_value arguments) {
  reader r = {.s = s, .format = format, .text = tnj_data(format), .size = tnj_size(format), .arguments = arguments};
  r.out = tnj_buffer_new(s, r.size + 32);
  while (r.at < r.size) {
    const char *sign = memchr(r.text + r.at, '%', r.size - r.at);
    size_t end = sign ? (size_t)(sign - r.text) : r.size;
    tnj_append_part(s, r.out, format, r.at, end);
    r.at = end;
    if (!sign) break;
    r.at++;
    tnj_step(s);
    percent_item(&r);
  }
  bool mapping = arguments.kind == TNJ_DICT || arguments.kind == TNJ_LIST || arguments.kind == TNJ_RANGE ||
                 tnj_is_undefined(arguments); /* whatever can be subscripted */
  if (!mapping && r.used < (arguments.kind == TNJ_TUPLE ? arguments.list->count : 1))
    tnj_error(s, "not all arguments converted during string formatting");
  tnj_value text = tnj_buffer_string(s, r.out);
  text.flag = format.flag;
  return text;
}

/* ---- braces ---- */

static bool is_align(uint32_t c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

static void read_fill(reader *r, tnj_layout *layout) {
  if (r->at >= r->size) return;
  size_t next;
  tnj_codepoint_at(r->format, r->at, &next);
  if (next < r->size && is_align((unsigned char)r->text[next])) {
    layout->fill = tnj_part(r->s, r->format, r->at, next);
    layout->align = r->text[next];
    r->at = next + 1;
  } else if (is_align((unsigned char)peek(r))) {
    layout->align = r->text[r->at++];
  }
}

/* Reads a whole format specification: [[fill]align][sign][z][#][0][width][grouping][.precision][type] */
static tnj_layout read_layout(tnj_state *s, tnj_value specification) {
  reader r = {.s = s, .format = specification, .text = tnj_data(specification), .size = tnj_size(specification)};
  tnj_layout layout = {.precision = -1};
  read_fill(&r, &layout);
  if (peek(&r) && strchr("+- ", peek(&r))) {
    layout.sign = peek(&r) == '-' ? 0 : peek(&r);
    r.at++;
  }
  if (peek(&r) == '#') layout.alternate = true, r.at++;
  if (peek(&r) == '0') layout.zero = true, r.at++;
  layout.width = read_number(&r);
  if (peek(&r) && strchr(",_", peek(&r))) layout.grouping = r.text[r.at++];
  if (peek(&r) == '.') {
    r.at++;
    if (!isdigit((unsigned char)peek(&r))) tnj_error(s, "Format specifier missing precision");
    layout.precision = read_number(&r);
  }
  if (peek(&r)) layout.type = r.text[r.at++];
  if (r.at < r.size) tnj_error(s, "Invalid format specifier");
  return layout;
}

static void format_value(tnj_state *s, tnj_buffer *out, tnj_value value, tnj_value specification) {
  if (!tnj_size(specification)) {
    tnj_append_str(s, out, value);
    return;
  }
  if (!tnj_is_string(value) && !tnj_is_number(value))
    tnj_error(s, "unsupported format string passed to %s.__format__", tnj_type_name(value));
  tnj_layout layout = read_layout(s, specification);
  if (tnj_is_string(value)) {
    if (layout.type && layout.type != 's')
      tnj_error(s, "Unknown format code '%c' for object of type 'str'", layout.type);
    if (layout.grouping) tnj_error(s, "Cannot specify '%c' with 's'.", layout.grouping);
    if (layout.sign || layout.alternate) tnj_error(s, "Sign or alternate form not allowed in string format specifier");
    if (layout.align == '=') tnj_error(s, "'=' alignment not allowed in string format specifier");
    if (layout.zero && !tnj_given(layout.fill)) layout.fill = tnj_string_new(s, "0", 1, false);
    tnj_append_padded(s, out, value, &layout);
  } else if (value.kind == TNJ_FLOAT) {
    tnj_append_float(s, out, value.real, &layout);
  } else {
    if (layout.precision >= 0 && !(layout.type && strchr("eEfFgG%", layout.type)))
      tnj_error(s, "Precision not allowed in integer format specifier");
    if (layout.grouping && layout.type && strchr(layout.grouping == ',' ? "boxXcn" : "cn", layout.type))
      tnj_error(s, "Cannot specify '%c' with '%c'.", layout.grouping, layout.type);
    tnj_append_integer(s, out, value, &layout);
  }
}

static tnj_value numbered(reader *r, int64_t number) {
  if (!r->call || (size_t)number >= r->call->count)
    tnj_error(r->s, "Replacement index %lld out of range for positional args tuple", (long long)number);
  return r->call->items[number];
}

static tnj_value field_root(reader *r, tnj_value name) {
  bool digits = tnj_size(name) > 0;
  for (size_t i = 0; i < tnj_size(name); i++) digits &= isdigit((unsigned char)tnj_data(name)[i]) != 0;
  if (!tnj_size(name)) {
    if (peek(r) == '.' || peek(r) == '[') tnj_error(r->s, "a field without a name can't have attributes");
    if (r->automatic < 0) tnj_error(r->s, "cannot switch from manual field specification to automatic field numbering");
    return numbered(r, r->automatic++);
  }
  if (digits && !tnj_given(r->mapping)) {
    if (r->automatic > 0) tnj_error(r->s, "cannot switch from automatic field numbering to manual field specification");
    reader number = {.s = r->s, .text = tnj_data(name), .size = tnj_size(name)};
    r->automatic = -1;
    return numbered(r, read_number(&number));
  }
  if (tnj_given(r->mapping)) {
    const tnj_value *value = tnj_dict_get(r->s, r->mapping.dict, name);
    if (value) return *value;
  }
  for (size_t i = 0; r->call && i < r->call->keyword_count; i++)
    if (tnj_text_equal(r->call->keywords[i].name, name)) return r->call->keywords[i].value;
  tnj_error(r->s, "the format names '%.*s', which isn't there", (int)(tnj_size(name) < 99 ? tnj_size(name) : 99),
            tnj_data(name));
}

/* "name.attribute[index]" up to '!', ':' or '}'. */
static tnj_value read_field(reader *r) {
  size_t start = r->at;
  while (r->at < r->size && !strchr(".[!:}", peek(r) ? peek(r) : 'x')) r->at++;
  tnj_value value = field_root(r, tnj_part(r->s, r->format, start, r->at));
  while (peek(r) == '.' || peek(r) == '[') {
    bool dot = r->text[r->at++] == '.';
    start = r->at;
    while (r->at < r->size && !strchr(dot ? ".[!:}" : "]", peek(r) ? peek(r) : 'x')) r->at++;
    tnj_value name = tnj_part(r->s, r->format, start, r->at), index;
    if (!tnj_size(name)) tnj_error(r->s, "Empty attribute in format string");
    if (!dot && peek(r) != ']') tnj_error(r->s, "Missing ']' in format string");
    if (!dot) r->at++;
    bool number = !dot && isdigit((unsigned char)tnj_data(name)[0]) && tnj_parse_integer(r->s, name, 10, &index);
    value = dot ? tnj_attribute(r->s, value, name) : tnj_subscript(r->s, value, number ? index : name);
  }
  return value;
}

/* The specification behind ':', with the fields inside it replaced. */
static tnj_value read_specification(reader *r) {
  tnj_buffer *text = tnj_buffer_new(r->s, 16);
  while (r->at < r->size && peek(r) != '}') {
    if (peek(r) != '{') {
      tnj_append_part(r->s, text, r->format, r->at, r->at + 1);
      r->at++;
      continue;
    }
    r->at++;
    tnj_append_str(r->s, text, read_field(r));
    if (peek(r) != '}') tnj_error(r->s, "expected '}' before end of string");
    r->at++;
  }
  return tnj_buffer_string(r->s, text);
}

static void brace_item(reader *r) {
  tnj_value value = read_field(r), specification = tnj_string_text(r->s, "");
  if (peek(r) == '!') {
    r->at++;
    char conversion = peek(r);
    if (!conversion || !strchr("rsa", conversion)) tnj_error(r->s, "Unknown conversion specifier");
    r->at++;
    value = conversion == 's' ? tnj_str(r->s, value) : ascii_repr(r->s, value, conversion == 'a');
  }
  if (peek(r) == ':') {
    r->at++;
    specification = read_specification(r);
  }
  if (peek(r) != '}') tnj_error(r->s, "expected '}' before end of string");
  r->at++;
  if (r->format.flag & TNJ_MARKUP) value = tnj_escape(r->s, tnj_str(r->s, value));
  format_value(r->s, r->out, value, specification);
}

tnj_value tnj_format_braces(tnj_state *s, tnj_value format, const tnj_arguments *arguments, tnj_value mapping) {
  reader r = {.s = s,
              .format = format,
              .text = tnj_data(format),
              .size = tnj_size(format),
              .call = arguments,
              .mapping = mapping};
  r.out = tnj_buffer_new(s, r.size + 32);
  while (r.at < r.size) {
    size_t start = r.at;
    while (r.at < r.size && peek(&r) != '{' && peek(&r) != '}') r.at++;
    tnj_append_part(s, r.out, format, start, r.at);
    if (r.at == r.size) break;
    char brace = r.text[r.at++];
    tnj_step(s);
    if (peek(&r) == brace && r.at < r.size) {
      tnj_append_part(s, r.out, format, r.at, r.at + 1);
      r.at++;
    } else if (brace == '}') {
      tnj_error(s, "Single '}' encountered in format string");
    } else {
      brace_item(&r);
    }
  }
  tnj_value text = tnj_buffer_string(s, r.out);
  text.flag = format.flag;
  return text;
}
