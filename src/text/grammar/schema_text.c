/* Strings, constants and enumerations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_parts.h"

/* Any character of a JSON string in any of its spellings. A \uXXXX that is half of a pair must come with its other
 * half: alone it is no character and many parsers refuse it. */
static tn_expr loose_char(tn_schema *s) {
  tn_exprs *x = s->x;
  if (s->notation) return tn_any_char(x, TN_SPELL_UTF8);
  tn_char_range plain[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, TN_CHAR_LAST}};
  tn_chars set = {plain, TN_COUNT(plain), TN_COUNT(plain)};
  tn_expr result = tn_chars_expr(x, &set, TN_SPELL_UTF8), escape = TN_EXPR_NOTHING;
  static const char *const escapes =
      "\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9a-cA-Ce-fE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
      "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))";
  tn_regex_expr(x, escapes, strlen(escapes), false, TN_SPELL_UTF8, &escape, NULL);
  return tn_expr_alt(x, result, escape);
}

static tn_expr quote(tn_schema *s, tn_expr inside) {
  return tn_expr_concat3(s->x, s->quote, inside, s->quote);
}

/* Strings that are written as they are can't contain everything. */
static tn_expr within_notation(tn_schema *s, tn_expr inside) {
  const tn_grammar_notation *n = s->notation;
  return n && n->end.size ? tn_expr_and(s->x, inside, tn_text_without(s->x, n->end.bytes, n->end.size)) : inside;
}

tn_expr tn_schema_quoted(tn_schema *s, const char *text, size_t size) {
  return quote(s, within_notation(s, tn_spelled_text(s->x, text, size, s->spelling)));
}

tn_expr tn_schema_key(tn_schema *s, const char *name, size_t size) {
  bool is_bare = s->notation && s->notation->bare_keys && size;
  for (size_t i = 0; is_bare && i < size; i++) is_bare = (unsigned char)name[i] > ' ' && !strchr("{}[]<>,:\"", name[i]);
  return is_bare ? tn_expr_literal(s->x, name, size) : tn_schema_quoted(s, name, size);
}

static tn_expr pattern_expr(tn_schema *s, uint32_t member, const char *keyword, const char *pattern, size_t size,
                            bool search) {
  tn_expr e = TN_EXPR_NOTHING;
  tn_error error = {0};
  tn_status status = tn_regex_expr(s->x, pattern, size, search, s->spelling, &e, &error);
  if (status != TN_OK)
    tn_schema_fail(s, status, member >> MEMBER_BITS, "\"%s\" \"%.60s\": %s", keyword, pattern, error.message);
  return e;
}

/* The intersection of what pattern and format of the members say; false after a failure. */
static bool shapes(tn_schema *s, const tn_schema_set *set, tn_expr *all, bool *constrained) {
  for (size_t i = 0; i < set->count && s->status == TN_OK; i++) {
    uint32_t member = set->members[i];
    const json_t *pattern = tn_schema_keyword(s, member, "pattern"), *format = tn_schema_keyword(s, member, "format");
    if (pattern) {
      if (!json_is_string(pattern))
        return tn_schema_fail(s, TN_E_INVALID, member >> MEMBER_BITS, "\"pattern\" must be a string");
      tn_expr e = pattern_expr(s, member, "pattern", json_string_value(pattern), json_string_length(pattern), true);
      *all = *constrained ? tn_expr_and(s->x, *all, e) : e;
      *constrained = true;
    }
    if (format) {
      const char *name = json_string_value(format), *shape = name ? tn_schema_format_pattern(name) : NULL;
      if (!shape)
        return tn_schema_fail(s, TN_E_UNSUPPORTED, member >> MEMBER_BITS, "the \"format\" \"%.60s\" is not supported",
                              name ? name : "(not a string)");
      tn_expr e = pattern_expr(s, member, "format", shape, strlen(shape), false);
      *all = *constrained ? tn_expr_and(s->x, *all, e) : e;
      *constrained = true;
    }
  }
  return s->status == TN_OK;
}

static bool lengths(tn_schema *s, const tn_schema_set *set, uint32_t *min, uint32_t *max) {
  *min = 0;
  *max = TN_EXPR_MANY;
  for (size_t i = 0; i < set->count; i++) {
    uint32_t low, high;
    if (!tn_schema_count(s, set->members[i], "minLength", 0, &low)) return false;
    if (!tn_schema_count(s, set->members[i], "maxLength", TN_EXPR_MANY, &high)) return false;
    if (low > *min) *min = low;
    if (high < *max) *max = high;
  }
  return true;
}

tn_expr tn_schema_string_inside(tn_schema *s, const tn_schema_set *set, bool *constrained) {
  tn_exprs *x = s->x;
  tn_expr all = TN_EXPR_NOTHING;
  uint32_t min, max;
  *constrained = false;
  if (!lengths(s, set, &min, &max) || !shapes(s, set, &all, constrained)) return TN_EXPR_NOTHING;
  if (min > max) return *constrained = true, TN_EXPR_NOTHING;
  bool limited = min > 0 || max < TN_EXPR_MANY;
  if (limited || !*constrained) {
    tn_expr length = tn_expr_repeat(x, tn_any_char(x, s->spelling), min, max);
    all = *constrained ? tn_expr_and(x, all, length) : length;
  }
  *constrained = *constrained || limited;
  return within_notation(s, all);
}

/* The one rule that all strings without constraints share, so that their masks are shared too. */
static tn_expr free_string(tn_schema *s) {
  if (s->free_string == UINT32_MAX) {
    s->free_string = tn_rule_add(s->x);
    if (s->free_string == UINT32_MAX) return TN_EXPR_NOTHING;
    s->x->rules[s->free_string].body =
        quote(s, within_notation(s, tn_expr_repeat(s->x, loose_char(s), 0, TN_EXPR_MANY)));
  }
  return tn_expr_call(s->x, s->free_string);
}

tn_expr tn_schema_string(tn_schema *s, const tn_schema_set *set) {
  tn_expr all = TN_EXPR_NOTHING;
  bool shaped = false;
  uint32_t min, max;
  if (!lengths(s, set, &min, &max) || !shapes(s, set, &all, &shaped) || min > max) return TN_EXPR_NOTHING;
  if (!shaped && !min && max == TN_EXPR_MANY) return free_string(s);
  if (!shaped) return quote(s, within_notation(s, tn_expr_repeat(s->x, loose_char(s), min, max)));
  bool constrained;
  return quote(s, tn_schema_string_inside(s, set, &constrained));
}

/* ---- constants ---- */

/* json_equal, but 1 and 1.0 are the same number. */
static bool same_value(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) {
    if (json_is_integer(a) && json_is_integer(b)) return json_integer_value(a) == json_integer_value(b);
    return json_number_value(a) == json_number_value(b);
  }
  return json_equal(a, b);
}

static bool holds(const json_t *values, const json_t *value) {
  for (size_t i = 0; i < json_array_size(values); i++)
    if (same_value(json_array_get(values, i), value)) return true;
  return false;
}

/* The values that one member's const or enum lists; a new reference. */
static json_t *listed(tn_schema *s, uint32_t member, const char *keyword) {
  json_t *value = (json_t *)(uintptr_t)tn_schema_keyword(s, member, keyword);
  if (!value) return NULL;
  if (!strcmp(keyword, "const")) return json_pack("[O]", value);
  if (json_is_array(value)) return json_incref(value);
  tn_schema_fail(s, TN_E_INVALID, member >> MEMBER_BITS, "\"enum\" must be an array of values");
  return NULL;
}

/* Both arrays are consumed. */
static json_t *common(json_t *a, json_t *b) {
  if (!a || !b) return a ? a : b;
  json_t *both = json_array();
  for (size_t i = 0; i < json_array_size(a); i++)
    if (holds(b, json_array_get(a, i))) json_array_append(both, json_array_get(a, i));
  json_decref(a);
  json_decref(b);
  return both;
}

json_t *tn_schema_constants(tn_schema *s, const tn_schema_set *set) {
  json_t *all = NULL;
  for (size_t i = 0; i < set->count; i++) {
    all = common(all, listed(s, set->members[i], "const"));
    all = common(all, listed(s, set->members[i], "enum"));
  }
  return all;
}

/* The text of a constant; nested values are bounded by the document's nesting. */
static tn_expr constant_text(tn_schema *s, const json_t *value) {
  tn_exprs *x = s->x;
  if (json_is_string(value)) return tn_schema_quoted(s, json_string_value(value), json_string_length(value));
  if (json_is_number(value)) return tn_schema_number_text(s, value, false);
  if (json_is_null(value)) return tn_expr_text(x, "null");
  if (json_is_boolean(value)) return tn_expr_text(x, json_is_true(value) ? "true" : "false");
  tn_expr e = TN_EXPR_EMPTY;
  const char *key;
  size_t index;
  json_t *item;
  json_array_foreach(value, index, item) {
    if (index) e = tn_expr_concat(x, e, s->comma);
    e = tn_expr_concat(x, e, constant_text(s, item));
  }
  json_object_foreach((json_t *)(uintptr_t)value, key, item) {
    if (e != TN_EXPR_EMPTY) e = tn_expr_concat(x, e, s->comma);
    e = tn_expr_concat(x, e, tn_expr_concat3(x, tn_schema_key(s, key, strlen(key)), s->colon, constant_text(s, item)));
  }
  bool is_array = json_is_array(value);
  return tn_expr_concat3(x, tn_expr_text(x, is_array ? "[" : "{"), e, tn_expr_text(x, is_array ? "]" : "}"));
}

/* True when a keyword beside the constants looks inside arrays or objects. */
static bool looks_inside(const tn_schema *s, const tn_schema_set *set, bool arrays) {
  static const char *const of_arrays[] = {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"};
  static const char *const of_objects[] = {"properties",        "required",      "additionalProperties",
                                           "patternProperties", "propertyNames", "minProperties",
                                           "maxProperties"};
  const char *const *names = arrays ? of_arrays : of_objects;
  for (size_t i = 0; i < set->count; i++)
    for (size_t k = 0; k < (arrays ? TN_COUNT(of_arrays) : TN_COUNT(of_objects)); k++)
      if (tn_schema_keyword(s, set->members[i], names[k])) return true;
  return false;
}

tn_expr tn_schema_constant_values(tn_schema *s, const tn_schema_set *set, const json_t *values, unsigned kinds) {
  tn_exprs *x = s->x;
  bool constrained = false, limited = tn_schema_number_limited(s, set);
  tn_expr inside = kinds & KIND_STRING ? tn_schema_string_inside(s, set, &constrained) : TN_EXPR_NOTHING;
  tn_expr string = constrained ? quote(s, inside) : TN_EXPR_NOTHING;
  tn_expr number = limited ? tn_schema_number(s, set, !(kinds & KIND_FRACTION)) : TN_EXPR_NOTHING;
  size_t base = x->scratch_count;
  for (size_t i = 0; i < json_array_size(values) && s->status == TN_OK; i++) {
    const json_t *value = json_array_get(values, i);
    tn_expr e = TN_EXPR_NOTHING;
    if (json_is_number(value) && kinds & KIND_INTEGER) {
      e = tn_schema_number_text(s, value, !(kinds & KIND_FRACTION));
      if (limited) e = tn_expr_and(x, e, number);
    } else if (json_is_string(value) && kinds & KIND_STRING) {
      e = constant_text(s, value);
      if (constrained) e = tn_expr_and(x, e, string);
    } else if ((json_is_null(value) && kinds & KIND_NULL) || (json_is_boolean(value) && kinds & KIND_BOOLEAN)) {
      e = constant_text(s, value);
    } else if ((json_is_array(value) && kinds & KIND_ARRAY) || (json_is_object(value) && kinds & KIND_OBJECT)) {
      if (looks_inside(s, set, json_is_array(value)))
        tn_schema_fail(s, TN_E_UNSUPPORTED, set->members[0] >> MEMBER_BITS,
                       "constant arrays or objects beside other constraints on them are not supported");
      e = constant_text(s, value);
    }
    tn_exprs_scratch(x, e);
  }
  return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
}
