/* Python's two ways to format: "..." % values and "...".format(values) (internal). */
#ifndef TENON_TEXT_JINJA_FORMAT_H
#define TENON_TEXT_JINJA_FORMAT_H

#include "text/jinja/value.h"

/* `format` % `arguments`: a tuple, a dictionary for %(name)s, or one value. */
tnj_value tnj_format_percent(tnj_state *s, tnj_value format, tnj_value arguments);

/* str.format; with `mapping` given, str.format_map. */
tnj_value tnj_format_braces(tnj_state *s, tnj_value format, const tnj_arguments *arguments, tnj_value mapping);

/* How a value is laid out: what both ways have in common (Python's format specification mini-language). */
typedef struct tnj_layout {
  tnj_value fill; /* one code point; absent: a blank */
  char align;     /* '<', '>', '^', '=' or 0 */
  char sign;      /* '+', ' ' or 0 */
  bool alternate, zero;
  char grouping; /* ',' '_' or 0 */
  int64_t width;
  int64_t precision; /* -1: not given */
  char type;         /* 0: not given */
} tnj_layout;

/* Appends an integer (types d b o x X c n, 0) or a float (e E f F g G n %, 0). */
void tnj_append_integer(tnj_state *s, tnj_buffer *out, tnj_value integer, const tnj_layout *layout);
void tnj_append_float(tnj_state *s, tnj_buffer *out, double real, const tnj_layout *layout);
/* Appends a string cut to the precision and padded to the width. */
void tnj_append_padded(tnj_state *s, tnj_buffer *out, tnj_value text, const tnj_layout *layout);

#endif
