/* A pull reader for JSON (RFC 8259) that lies in memory, for large files: tokenizer.json, safetensors headers.
 *
 * It builds no tree: the caller walks the text and takes what it wants.
 *
 *   tn_json json;
 *   tn_json_init(&json, data, size, error);
 *   if (tn_json_object(&json))
 *     for (tn_text key; tn_json_key(&json, &key);)
 *       if (tn_text_is(key, "name")) tn_json_string(&json, &name);
 *       else tn_json_skip(&json);
 *   status = tn_json_end(&json);
 *
 * The first fault ends reading: from then on every call returns false, and tn_json_end gives the status. The text must
 * be strict JSON in valid UTF-8 (a lone surrogate escape is a fault), at most TN_JSON_DEPTH containers deep. What is
 * skipped is checked as well. A key given twice is the caller's matter. */
#ifndef TENON_BASE_JSON_READER_H
#define TENON_BASE_JSON_READER_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"

#define TN_JSON_DEPTH 64

typedef enum tn_json_kind {
  TN_JSON_NONE, /* no value: the end, or a fault */
  TN_JSON_OBJECT,
  TN_JSON_ARRAY,
  TN_JSON_STRING,
  TN_JSON_NUMBER,
  TN_JSON_BOOLEAN,
  TN_JSON_NULL
} tn_json_kind;

typedef struct tn_json {
  const char *start, *at, *end;
  uint64_t objects;     /* bit d: the container at depth d is an object */
  unsigned depth;       /* open containers */
  bool first;           /* nothing of the innermost container was read yet */
  tn_buf strings, keys; /* strings with escapes, decoded */
  tn_status status;
  tn_error *error;
} tn_json;

/* Reads `bytes` bytes of `data`, which must stay. A byte order mark in front is a fault. `error` is filled at the first
 * fault and may be NULL. */
void tn_json_init(tn_json *json, const void *data, size_t bytes, tn_error *error);

/* After the outermost value: checks that only white space is left, frees what the reader holds, and returns TN_OK or
 * the status of the first fault. May be called at any point to end early; then what is left is not looked at
 * if a container is still open. */
tn_status tn_json_end(tn_json *json);

/* A fault of the caller's own ("vocab: expected ..."), with the place added; returns false. */
__attribute__((format(printf, 3, 4))) bool tn_json_fail(tn_json *json, tn_status status, const char *format, ...);

/* What kind of value comes next. Only valid where a value may stand. */
tn_json_kind tn_json_peek(tn_json *json);

/* Steps into a container; a fault if something else comes. Then tn_json_key / tn_json_item until they return false,
 * which also steps out again. Each must be followed by reading or skipping exactly one value. */
bool tn_json_object(tn_json *json);
bool tn_json_array(tn_json *json);
bool tn_json_key(tn_json *json, tn_text *key); /* `*key` is valid until the next tn_json_key */
bool tn_json_item(tn_json *json);

/* Read one value of a kind; a fault if another kind comes. A string is a view into the text or, when it has escapes,
 * into a buffer that is valid until the next string. An integer must be written without fraction or
 * exponent and fit. */
bool tn_json_string(tn_json *json, tn_text *value);
bool tn_json_number(tn_json *json, double *value);
bool tn_json_integer(tn_json *json, int64_t *value);
bool tn_json_boolean(tn_json *json, bool *value);
/* Consumes `null` and returns true if it comes next; else consumes nothing and returns false (no fault). */
bool tn_json_null(tn_json *json);

/* Skips one value of any kind. `*span` (if not NULL) is its text, for reading it later with a reader of its own. */
bool tn_json_skip(tn_json *json, tn_text *span);

/* Skips an array by its brackets alone, for one that is large and will be read later, which is when its faults are
 * found. *items: values in it, as many as its commas tell. */
bool tn_json_pass_array(tn_json *json, tn_text *span, size_t *items);

#endif
