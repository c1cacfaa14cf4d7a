/* JSON text out of values (internal). */
#ifndef TENON_TEXT_JINJA_JSON_H
#define TENON_TEXT_JINJA_JSON_H

#include "text/jinja/value.h"

/* How json.dumps is told to write. */
typedef struct tnj_json_style {
  bool ascii; /* escape everything beyond ASCII */
  bool sort_keys;
  tnj_value indent; /* a string put once per level in front of each item; absent: all on one line */
  tnj_value item_separator, key_separator;
} tnj_json_style;

void tnj_append_json(tnj_state *s, tnj_buffer *out, tnj_value value, const tnj_json_style *style);

#endif
