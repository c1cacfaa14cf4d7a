/* Laying out strings and numbers by width, precision, sign, grouping and type. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text/jinja/format.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"

enum { MAX_PRECISION = 4000 };

static void fill(tnj_state *s, tnj_buffer *out, const tnj_layout *layout, int64_t count) {
  if (count <= 0) return;
  tnj_value unit = tnj_given(layout->fill) ? layout->fill : tnj_string_new(s, " ", 1, true);
  tnj_append_fill(s, out, unit, (size_t)count);
}

void tnj_append_padded(tnj_state *s, tnj_buffer *out, tnj_value text, const tnj_layout *layout) {
  size_t length = tnj_codepoints(s, text);
  if (layout->precision >= 0 && (uint64_t)layout->precision < length) {
    length = (size_t)layout->precision;
    text = tnj_part(s, text, 0, tnj_position(s, text, length));
  }
  int64_t room = layout->width - (int64_t)length;
  char align = layout->align ? layout->align : '<';
  int64_t left = room <= 0 || align == '<' ? 0 : align == '^' ? room / 2 : room;
  fill(s, out, layout, left);
  tnj_append_string(s, out, text);
  fill(s, out, layout, room - left);
}

/* A number as its parts: sign and prefix, digits, and what follows the integer digits. Pads and groups. */
static void append_number_parts(tnj_state *s, tnj_buffer *out, const char *prefix, const char *digits, size_t whole,
                                const tnj_layout *layout) {
  size_t size = strlen(digits), group = layout->type && strchr("boxX", layout->type) ? 4 : 3;
  tnj_layout wanted = *layout;
  if (layout->zero && !layout->align) {
    wanted.align = '=';
    if (!tnj_given(wanted.fill)) wanted.fill = tnj_string_new(s, "0", 1, false);
  }
  bool zeros = layout->zero && !layout->align;
  tnj_buffer *body = tnj_buffer_new(s, size + size / 3 + 8);
  int64_t used = (int64_t)(strlen(prefix) + size);
  if (layout->grouping) {
    int64_t room = layout->width - (int64_t)(strlen(prefix) + size - whole); /* for digits and separators */
    size_t lead = 0;
    while (zeros && room < INT32_MAX && (int64_t)(lead + whole + (lead + whole - 1) / group) < room) lead++;
    for (size_t i = 0; i < lead + whole; i++) {
      if (i && (lead + whole - i) % group == 0) tnj_append(s, body, &layout->grouping, 1, false);
      tnj_append(s, body, i < lead ? "0" : &digits[i - lead], 1, false);
    }
    tnj_append_text(s, body, digits + whole);
    used = (int64_t)(strlen(prefix) + body->used);
  } else {
    tnj_append_text(s, body, digits);
  }
  int64_t room = layout->width - used;
  char align = wanted.align ? wanted.align : '>';
  int64_t left = room <= 0 || align == '<' ? 0 : align == '^' ? room / 2 : room;
  if (align != '=') fill(s, out, &wanted, left);
  tnj_append_text(s, out, prefix);
  if (align == '=') fill(s, out, &wanted, left);
  tnj_append_string(s, out, tnj_buffer_string(s, body));
  fill(s, out, &wanted, room - left);
}

static const char *sign_text(bool negative, const tnj_layout *layout) {
  return negative ? "-" : layout->sign == '+' ? "+" : layout->sign == ' ' ? " " : "";
}

void tnj_append_integer(tnj_state *s, tnj_buffer *out, tnj_value integer, const tnj_layout *layout) {
  char type = layout->type ? layout->type : 'd', prefix[8];
  if (strchr("eEfFgG%", type)) {
    tnj_append_float(s, out, tnj_to_double(integer), layout);
    return;
  }
  if (type == 'c') {
    int64_t code = tnj_need_integer(s, integer, "%c");
    if (code < 0 || code > 0x10ffff) tnj_error(s, "%%c arg not in range(0x110000)");
    tnj_buffer *one = tnj_buffer_new(s, 4);
    tnj_append_codepoint(s, one, (uint32_t)code, false);
    tnj_append_padded(s, out, tnj_buffer_string(s, one), layout);
    return;
  }
  unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  if (base == 10 && type != 'd' && type != 'n') tnj_error(s, "Unknown format code '%c' for object of type 'int'", type);
  tnj_buffer *text = tnj_buffer_new(s, 24);
  tnj_big_append(s, text, integer, base);
  tnj_append(s, text, "", 1, false);
  bool negative = text->data[0] == '-';
  char *digits = text->data + negative;
  for (char *c = digits; type == 'X' && *c; c++) *c = (char)toupper(*c);
  snprintf(prefix, sizeof prefix, "%s%s%.1s", sign_text(negative, layout), layout->alternate && base != 10 ? "0" : "",
           layout->alternate && base != 10 ? &type : "");
  append_number_parts(s, out, prefix, digits, strlen(digits), layout);
}

void tnj_append_float(tnj_state *s, tnj_buffer *out, double real, const tnj_layout *layout) {
  char type = layout->type, format[16];
  if (type && !strchr("eEfFgGn%", type)) tnj_error(s, "Unknown format code '%c' for object of type 'float'", type);
  if (layout->precision > MAX_PRECISION) tnj_fail(s, TN_E_LIMIT, "a precision of more than %d digits", MAX_PRECISION);
  bool percent = type == '%', negative = signbit(real) && !isnan(real);
  int precision = layout->precision >= 0 ? (int)layout->precision : 6;
  size_t room = (size_t)precision + 400;
  char *digits = tnj_alloc(s, room);
  if (percent) real *= 100;
  real = fabs(real);
  if (!type && layout->precision < 0) {
    tnj_format_double(real, digits);
  } else {
    char kind = percent ? 'f' : type == 'n' || !type ? 'g' : type;
    if (kind == 'g' || kind == 'G') precision = precision ? precision : 1;
    snprintf(format, sizeof format, "%%%s.*%c", layout->alternate ? "#" : "", kind);
    snprintf(digits, room, format, precision, real);
    if (!type && isfinite(real) && !strpbrk(digits, ".e")) strcat(digits, ".0");
  }
  if (percent) strcat(digits, "%");
  size_t whole = strspn(digits, "0123456789");
  append_number_parts(s, out, sign_text(negative, layout), digits, whole, layout);
}
