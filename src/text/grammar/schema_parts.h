/* What the files of the schema compiler share.
 *
 * A value must often satisfy several schemas at once: those of allOf, a reference beside other keywords, a
 * branch of anyOf beside what surrounds it, the same property in two of them. So the compiler works on *sets* of
 * schemas ("members"), and each set that occurs becomes one rule. Sets are finite, so recursion through references
 * ends; rules still to be compiled wait in a list, so nothing here recurses into subschemas. */
#ifndef TENON_TEXT_GRAMMAR_SCHEMA_PARTS_H
#define TENON_TEXT_GRAMMAR_SCHEMA_PARTS_H

#include <jansson.h>
#include "text/grammar/chars.h"
#include "text/grammar/grammar.h"

/* A place in the document that is used as a schema. */
typedef struct tn_schema_place {
  const json_t *json; /* an object */
  char *pointer;      /* "#/properties/x" */
  bool checked;       /* its keywords are all known */
} tn_schema_place;

enum { MEMBER_ANY_DONE = 1, MEMBER_ONE_DONE = 2, MEMBER_BITS = 2 };

/* A set of schemas: place << MEMBER_BITS | which of its choices are made already; sorted once it is a key. */
typedef struct tn_schema_set {
  uint32_t *members;
  size_t count, capacity;
  bool never; /* one of the schemas is `false` */
} tn_schema_set;

typedef struct tn_schema_rule {
  tn_schema_set set;
  uint32_t rule;
} tn_schema_rule;

/* Kinds of values; an integer is a number without FRACTION. */
enum {
  KIND_NULL = 1,
  KIND_BOOLEAN = 2,
  KIND_INTEGER = 4,
  KIND_FRACTION = 8,
  KIND_STRING = 16,
  KIND_ARRAY = 32,
  KIND_OBJECT = 64,
  KIND_ALL = 127
};

typedef struct tn_schema {
  tn_exprs *x;
  const json_t *root;
  tn_schema_place *places;
  size_t place_count, place_capacity;
  uint32_t *place_table;
  size_t place_slots;
  tn_schema_rule *rules; /* compiled, and waiting, in the order in which they were met */
  size_t rule_count, rule_capacity;
  uint32_t *rule_table;
  size_t rule_slots;
  uint32_t free_string; /* rule of a string without constraints, UINT32_MAX before its first use */
  tn_expr comma, colon, quote;
  const tn_grammar_notation *notation; /* NULL: JSON */
  tn_spelling spelling;                /* of the inside of strings */
  tn_status status;
  tn_error *error;
} tn_schema;

/* ---- schema_places.c: places, keywords, references, sets ---- */

/* Sets the first error, "POINTER: what"; returns false. */
__attribute__((format(printf, 4, 5))) bool tn_schema_fail(tn_schema *s, tn_status status, uint32_t place,
                                                          const char *format, ...);
/* The place of `json`, which lies at `step` (and `step2`, may be NULL) below `parent`. UINT32_MAX after a failure. */
uint32_t tn_schema_place_of(tn_schema *s, const json_t *json, uint32_t parent, const char *step, const char *step2);
static inline const json_t *tn_schema_json(const tn_schema *s, uint32_t member) {
  return s->places[member >> MEMBER_BITS].json;
}
/* A keyword of a member, or NULL. */
static inline const json_t *tn_schema_keyword(const tn_schema *s, uint32_t member, const char *keyword) {
  return json_object_get(tn_schema_json(s, member), keyword);
}
/* Adds the schema `json` (an object, true or false) found below `parent` to the set. */
bool tn_schema_set_add(tn_schema *s, tn_schema_set *set, const json_t *json, uint32_t parent, const char *step,
                       const char *step2);
void tn_schema_set_finish(tn_schema_set *set);
/* Adds what $ref and allOf of the members bring in, and checks all keywords. */
bool tn_schema_expand(tn_schema *s, tn_schema_set *set);
/* A keyword's value as a count; `missing` when it isn't there. */
bool tn_schema_count(tn_schema *s, uint32_t member, const char *keyword, uint32_t missing, uint32_t *value);

/* ---- schema.c ---- */

/* The expression of values that satisfy all of `set` (which is consumed): a call of its rule. */
tn_expr tn_schema_value(tn_schema *s, tn_schema_set *set);
/* Kinds of values that the members' `type` and shape allow. */
unsigned tn_schema_kinds(tn_schema *s, const tn_schema_set *set);

/* ---- schema_text.c: strings and constants ---- */

/* A string (with its quotes) for the members. */
tn_expr tn_schema_string(tn_schema *s, const tn_schema_set *set);
/* What stands between the quotes, every character in one spelling; *constrained tells whether anything limits it.
 */
tn_expr tn_schema_string_inside(tn_schema *s, const tn_schema_set *set, bool *constrained);
/* The string in its quotes, and the key `name` in its own. */
tn_expr tn_schema_quoted(tn_schema *s, const char *text, size_t size);
tn_expr tn_schema_key(tn_schema *s, const char *name, size_t size);
/* The values of const and enum, intersected over the members: a new array, or NULL when there are none of these
 * keywords (or after a failure). */
json_t *tn_schema_constants(tn_schema *s, const tn_schema_set *set);
/* Expression of the given constants as far as the members' other keywords let them pass. */
tn_expr tn_schema_constant_values(tn_schema *s, const tn_schema_set *set, const json_t *values, unsigned kinds);

/* ---- schema_number.c ---- */
tn_expr tn_schema_number(tn_schema *s, const tn_schema_set *set, bool integer);
/* The spellings of one number; with `integer` only those without a fraction. */
tn_expr tn_schema_number_text(tn_schema *s, const json_t *number, bool integer);
bool tn_schema_number_limited(const tn_schema *s, const tn_schema_set *set);

/* ---- schema_nest.c: arrays and objects ---- */
tn_expr tn_schema_array(tn_schema *s, const tn_schema_set *set);
tn_expr tn_schema_object(tn_schema *s, const tn_schema_set *set);
/* The set that the value of property `name` must satisfy. */
bool tn_schema_property_set(tn_schema *s, const tn_schema_set *set, const char *name, tn_schema_set *value);
bool tn_schema_is_required(const tn_schema *s, const tn_schema_set *set, const char *name);
/* True when objects of the set may carry the property. */
bool tn_schema_may_carry(tn_schema *s, const tn_schema_set *set, const char *name);

/* ---- schema_disjoint.c ---- */

/* True when no text is valid under both sets (both expanded), as far as can be shown. */
bool tn_schema_disjoint(tn_schema *s, const tn_schema_set *a, const tn_schema_set *b, unsigned depth);

/* ---- schema_rewrite.c ---- */

/* Puts keywords of the schema and those within it that others can say into those others. False when memory is out. */
bool tn_schema_rewrite(json_t *schema);

/* ---- formats.c ---- */

/* The expression that the string format stands for (an ECMA pattern), or NULL when it isn't known. */
const char *tn_schema_format_pattern(const char *format);

#endif
