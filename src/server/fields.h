/* The one table of the API's fields: it drives validation, /openapi.json, and the tables of docs/server.md. */
#ifndef TENON_SERVER_FIELDS_H
#define TENON_SERVER_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include "tenon/status.h"

/* The endpoints a field belongs to. */
#define TN_ON_CHAT 1u
#define TN_ON_COMPLETIONS 2u
#define TN_ON_TOKENIZE 4u
#define TN_ON_DETOKENIZE 8u
#define TN_ON_MESSAGES 16u
#define TN_ON_RESPONSES 64u
#define TN_ON_COUNT 32u /* count_tokens of messages */

typedef enum tn_field_type {
  TN_FIELD_BOOLEAN,
  TN_FIELD_INTEGER,
  TN_FIELD_NUMBER,
  TN_FIELD_TEXT,
  TN_FIELD_OBJECT,
  TN_FIELD_ARRAY,
  TN_FIELD_TEXT_OR_ARRAY,
  TN_FIELD_ANY
} tn_field_type;

typedef enum tn_treatment {
  TN_NEEDED, /* honoured, and must be given */
  TN_HONOURED,
  TN_ACCEPTED, /* without effect on the answer, because known clients send it */
  TN_REFUSED
} tn_treatment;

typedef struct tn_field_row {
  unsigned endpoints; /* TN_ON_... */
  const char *name;
  tn_field_type type;
  double minimum, maximum; /* of a number; of a text (bytes) or array its length; both 0: any */
  tn_treatment treatment;
  const char *meaning;
} tn_field_row;

/* The whole table. */
const tn_field_row *tn_fields(size_t *count);
const char *tn_field_type_name(tn_field_type type);

/* Checks a request's body against the table: an object, every field known on `endpoint` and not refused, of its type
 * and in its range, and none missing that is needed. *parameter names the field at fault, NULL for the whole body; it
 * lives as long as `body`. */
tn_status tn_fields_check(const json_t *body, unsigned endpoint, const char **parameter, tn_error *error);

/* A field's value; NULL when it is absent or null, which is the same everywhere. */
json_t *tn_field(const json_t *body, const char *name);
double tn_field_number(const json_t *body, const char *name, double otherwise);
json_int_t tn_field_integer(const json_t *body, const char *name, json_int_t otherwise);
bool tn_field_boolean(const json_t *body, const char *name, bool otherwise);
const char *tn_field_text(const json_t *body, const char *name); /* or NULL */

#endif
