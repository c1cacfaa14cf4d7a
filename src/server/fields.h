/* The one table of the API's fields: it drives validation and docs/server.md. */
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

/* Checks a request's body against the table: an object, every field known on `endpoint` and not refused, of its type
 * and in its range. *parameter names the field at fault, NULL for the whole body; it lives as long as `body`. */
tn_status tn_fields_check(const json_t *body, unsigned endpoint, const char **parameter, tn_error *error);

/* A field's value; NULL when it is absent or null, which is the same everywhere. */
json_t *tn_field(const json_t *body, const char *name);
double tn_field_number(const json_t *body, const char *name, double otherwise);
json_int_t tn_field_integer(const json_t *body, const char *name, json_int_t otherwise);
bool tn_field_boolean(const json_t *body, const char *name, bool otherwise);
const char *tn_field_text(const json_t *body, const char *name); /* or NULL */

#endif
