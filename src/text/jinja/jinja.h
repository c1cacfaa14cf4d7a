/* Jinja templates: compile once, render many times.
 *
 * A library of its own: it includes only base. It speaks the language of jinja2 3.1 as Hugging Face transformers sets
 * it up for chat templates: an immutable sandbox, trim_blocks, lstrip_blocks, break and continue, `generation` blocks,
 * `raise_exception`, `strftime_now`, and a `tojson` that is Python's json.dumps(ensure_ascii=False).
 *
 * What is special here:
 *  - Every string knows, byte by byte, whether it was written in the template (trusted) or came with the context. The
 *    output says so in spans, so that a special token typed by a user can be told from one the template wrote.
 *  - A template is hostile until proven otherwise: source size, nesting, steps, stack, memory and output are bounded.
 *  - A compiled template and a built value are immutable: any number of threads may render with them at once. */
#ifndef TENON_TEXT_JINJA_H
#define TENON_TEXT_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

struct json_t; /* jansson's */

/* Bounds on one compilation or one rendering. A field that is 0 takes its default, given behind it. */
typedef struct tn_jinja_limits {
  size_t source_bytes; /* of a template: 4 MiB */
  size_t nesting;      /* of blocks and brackets in the source: 200 */
  uint64_t steps;      /* expressions, statements, and 64 bytes of text worked on count one each: 50 million */
  size_t depth;        /* of nested evaluation, macro calls included: 2000 */
  size_t stack_bytes;  /* of C stack that may be used below the call: 160 KiB */
  size_t memory_bytes; /* of all values made: 256 MiB */
  size_t output_bytes; /* of the result: 64 MiB */
} tn_jinja_limits;

/* ---- values: the context of a rendering ---- */

/* Owns the values built with it. Not thread safe while building. */
typedef struct tn_jinja_values tn_jinja_values;
typedef struct tnj_value tn_jinja_value;

/* Says whether a string of the context is to be trusted like the template's own text: `key` is its key in the object
 * that holds it, `depth` counts the containers around that object (0: a variable of the context itself). */
typedef struct tn_jinja_trust {
  bool (*trusted)(void *user, const char *key, size_t depth, const char *text, size_t size);
  void *user;
} tn_jinja_trust;

/* `memory_limit` bounds what may be built, 0 = 256 MiB. NULL when memory is out. */
tn_jinja_values *tn_jinja_values_create(size_t memory_limit);
void tn_jinja_values_destroy(tn_jinja_values *values);

/* Builds a value from JSON text (RFC 8259; integers of any size; objects keep their order, of equal keys the last wins;
 * half a surrogate pair becomes U+FFFD). `trust` may be NULL: then nothing is trusted.
 * Errors: TN_E_INVALID with the byte offset, TN_E_LIMIT (memory, more than 200 levels). */
tn_status tn_jinja_value_parse(tn_jinja_values *values, const char *json, size_t size, const tn_jinja_trust *trust,
                               const tn_jinja_value **value, tn_error *error);

/* The same from a jansson value, which isn't kept. */
tn_status tn_jinja_value_convert(tn_jinja_values *values, const struct json_t *json, const tn_jinja_trust *trust,
                                 const tn_jinja_value **value, tn_error *error);

/* The member `key` of an object, NULL when there is none or `value` isn't an object. */
const tn_jinja_value *tn_jinja_value_member(const tn_jinja_value *value, const char *key);

/* The bytes of a string (not zero-terminated), NULL when `value` is NULL or no string. */
const char *tn_jinja_value_text(const tn_jinja_value *value, size_t *size);

/* ---- templates ---- */

typedef struct tn_jinja_template tn_jinja_template;

/* Compiles `size` bytes of source. Errors: TN_E_INVALID "line L, column C: ...", TN_E_LIMIT, TN_E_MEMORY. */
tn_status tn_jinja_compile(const char *source, size_t size, const tn_jinja_limits *limits, tn_jinja_template **out,
                           tn_error *error);
void tn_jinja_template_destroy(tn_jinja_template *jinja);

/* Wall-clock time for strftime_now. */
typedef struct tn_jinja_time {
  int year, month, day, hour, minute, second; /* month and day from 1 */
} tn_jinja_time;

typedef struct tn_jinja_options {
  tn_jinja_limits limits;
  const tn_jinja_time *now; /* NULL: strftime_now is an error */
} tn_jinja_options;

/* `size` bytes of the text at `offset` are all trusted or all not. */
typedef struct tn_jinja_span {
  size_t offset, size;
  bool trusted;
} tn_jinja_span;

/* What a rendering gives; tn_jinja_output_finish() frees it. Spans are in order, leave no gap, and neighbours differ.
 * On an error `text` and `spans` are NULL, and `failure` is the whole message, of any length; `raised` is set when
 * raise_exception was the cause, and then holds exactly the message that the template gave. */
typedef struct tn_jinja_output {
  char *text;
  size_t size;
  tn_jinja_span *spans;
  size_t span_count;
  char *failure;
  size_t failure_size;
  char *raised;
  size_t raised_size;
} tn_jinja_output;

/* Renders with `context`, an object. `options` may be NULL. `output` is overwritten in any case.
 * Errors: TN_E_INVALID "line L, column C: ..." when the template fails or gives up, TN_E_LIMIT when a limit is met,
 * TN_E_MEMORY. */
tn_status tn_jinja_render(const tn_jinja_template *jinja, const tn_jinja_value *context,
                          const tn_jinja_options *options, tn_jinja_output *output, tn_error *error);
void tn_jinja_output_finish(tn_jinja_output *output);

#endif
