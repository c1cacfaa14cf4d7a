/* Arrays and objects.
 *
 * An object's properties come in the order in which the members name them, other keys last. Keys that no member names
 * are generated only where a schema speaks of them (additionalProperties, patternProperties) or where no property is
 * named at all: leaving them out is always valid, and a model that may invent keys rarely stops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_parts.h"

#define MAX_PATTERNS 6     /* of patternProperties in one set: keys are told apart by every subset */
#define MAX_COUNTED 200000 /* properties times counts of one object */

/* ---- arrays ---- */

/* What element number `index` must satisfy. */
static bool element_set(tn_schema *s, const tn_schema_set *set, size_t index, tn_schema_set *element) {
  char step[24];
  snprintf(step, sizeof step, "%zu", index);
  for (size_t i = 0; i < set->count; i++) {
    const json_t *prefix = tn_schema_keyword(s, set->members[i], "prefixItems");
    const json_t *items = tn_schema_keyword(s, set->members[i], "items");
    uint32_t place = set->members[i] >> MEMBER_BITS;
    if (prefix && !json_is_array(prefix))
      return tn_schema_fail(s, TN_E_INVALID, place, "\"prefixItems\" must be an array of schemas");
    if (json_is_array(items))
      return tn_schema_fail(s, TN_E_UNSUPPORTED, place, "\"items\" as an array is not supported: use \"prefixItems\"");
    if (index < json_array_size(prefix)) {
      if (!tn_schema_set_add(s, element, json_array_get(prefix, index), place, "prefixItems", step)) return false;
    } else if (items && !tn_schema_set_add(s, element, items, place, "items", NULL)) {
      return false;
    }
  }
  return true;
}

static bool array_bounds(tn_schema *s, const tn_schema_set *set, size_t *prefix, uint32_t *min, uint32_t *max) {
  *prefix = 0, *min = 0, *max = TN_EXPR_MANY;
  bool unique = false;
  for (size_t i = 0; i < set->count; i++) {
    uint32_t low, high, member = set->members[i];
    if (!tn_schema_count(s, member, "minItems", 0, &low) ||
        !tn_schema_count(s, member, "maxItems", TN_EXPR_MANY, &high))
      return false;
    size_t size = json_array_size(tn_schema_keyword(s, member, "prefixItems"));
    if (size > *prefix) *prefix = size;
    if (low > *min) *min = low;
    if (high < *max) *max = high;
    unique = unique || json_is_true(tn_schema_keyword(s, member, "uniqueItems"));
  }
  if (unique && *max > 1)
    return tn_schema_fail(s, TN_E_UNSUPPORTED, set->members[0] >> MEMBER_BITS,
                          "the keyword \"uniqueItems\" is not supported");
  return true;
}

tn_expr tn_schema_array(tn_schema *s, const tn_schema_set *set) {
  tn_exprs *x = s->x;
  size_t prefix;
  uint32_t min, max;
  if (!array_bounds(s, set, &prefix, &min, &max)) return TN_EXPR_NOTHING;
  tn_expr *elements = tn_calloc(prefix + 1, sizeof *elements), after = TN_EXPR_EMPTY;
  if (!elements) return tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory"), TN_EXPR_NOTHING;
  for (size_t i = 0; i <= prefix && s->status == TN_OK; i++) {
    tn_schema_set element = {0};
    if (element_set(s, set, i, &element)) elements[i] = tn_schema_value(s, &element);
    tn_schema_set_finish(&element);
    if (elements[i] == TN_EXPR_NOTHING && i < max) max = (uint32_t)i;
  }
  if (min > max) {
    free(elements);
    return TN_EXPR_NOTHING;
  }
  /* from the back: what may follow once `i` elements are there */
  if (max > prefix) {
    uint32_t there = prefix ? (uint32_t)prefix : 1, least = min > there ? min - there : 0;
    uint32_t most = max == TN_EXPR_MANY ? max : max - there;
    after = tn_expr_repeat(x, tn_expr_concat(x, s->comma, elements[prefix]), least, most);
    if (!prefix) after = tn_expr_concat(x, elements[0], after);
    if (!prefix && !min) after = tn_expr_optional(x, after);
  }
  for (size_t i = prefix < max ? prefix : max; i-- > 0;) {
    after = tn_expr_concat3(x, i ? s->comma : TN_EXPR_EMPTY, elements[i], after);
    if (i >= min) after = tn_expr_optional(x, after);
  }
  free(elements);
  return tn_expr_concat3(x, tn_expr_text(x, "["), after, tn_expr_text(x, "]"));
}

/* ---- which properties there are ---- */

static bool pattern_matches(tn_schema *s, uint32_t member, const char *pattern, const char *name, bool *matches) {
  tn_expr p, spelled = tn_spelled_text(s->x, name, strlen(name), s->spelling);
  tn_error error = {0};
  tn_status status = tn_regex_expr(s->x, pattern, strlen(pattern), true, s->spelling, &p, &error);
  if (status != TN_OK)
    return tn_schema_fail(s, status, member >> MEMBER_BITS, "\"patternProperties\" \"%.60s\": %s", pattern,
                          error.message);
  *matches = !tn_expr_is_barren(s->x, tn_expr_and(s->x, p, spelled));
  return true;
}

bool tn_schema_property_set(tn_schema *s, const tn_schema_set *set, const char *name, tn_schema_set *value) {
  for (size_t i = 0; i < set->count && s->status == TN_OK; i++) {
    uint32_t member = set->members[i], place = member >> MEMBER_BITS;
    const json_t *mine = json_object_get(tn_schema_keyword(s, member, "properties"), name);
    const json_t *other = tn_schema_keyword(s, member, "additionalProperties");
    bool spoken = mine != NULL;
    if (mine && !tn_schema_set_add(s, value, mine, place, "properties", name)) return false;
    const char *pattern;
    json_t *schema_json;
    json_object_foreach((json_t *)(uintptr_t)tn_schema_keyword(s, member, "patternProperties"), pattern, schema_json) {
      bool matches = false;
      if (!pattern_matches(s, member, pattern, name, &matches)) return false;
      if (!matches) continue;
      spoken = true;
      if (!tn_schema_set_add(s, value, schema_json, place, "patternProperties", pattern)) return false;
    }
    if (!spoken && other && !tn_schema_set_add(s, value, other, place, "additionalProperties", NULL)) return false;
  }
  return s->status == TN_OK;
}

bool tn_schema_is_required(const tn_schema *s, const tn_schema_set *set, const char *name) {
  for (size_t i = 0; i < set->count; i++) {
    const json_t *required = tn_schema_keyword(s, set->members[i], "required");
    for (size_t k = 0; k < json_array_size(required); k++) {
      const char *one = json_string_value(json_array_get(required, k));
      if (one && !strcmp(one, name)) return true;
    }
  }
  return false;
}

/* Properties that are named, in order: first those of `properties`, then others that are required. */
static json_t *named_properties(tn_schema *s, const tn_schema_set *set) {
  json_t *names = json_object();
  for (size_t i = 0; names && i < set->count; i++) {
    const json_t *properties = tn_schema_keyword(s, set->members[i], "properties");
    const char *name;
    json_t *value;
    if (properties && !json_is_object(properties))
      tn_schema_fail(s, TN_E_INVALID, set->members[i] >> MEMBER_BITS, "\"properties\" must be an object of schemas");
    json_object_foreach((json_t *)(uintptr_t)properties, name, value) json_object_set(names, name, json_true());
  }
  for (size_t i = 0; names && i < set->count; i++) {
    const json_t *required = tn_schema_keyword(s, set->members[i], "required");
    if (required && !json_is_array(required))
      tn_schema_fail(s, TN_E_INVALID, set->members[i] >> MEMBER_BITS, "\"required\" must be an array of names");
    for (size_t k = 0; k < json_array_size(required); k++) {
      const char *name = json_string_value(json_array_get(required, k));
      if (!name)
        tn_schema_fail(s, TN_E_INVALID, set->members[i] >> MEMBER_BITS, "\"required\" must be an array of names");
      else
        json_object_set(names, name, json_true());
    }
  }
  if (!names) tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory");
  return names;
}

/* True when keys that no member names and no pattern matches may be generated. `needed`: without them there can't be
 * enough properties. */
static bool takes_other_keys(const tn_schema *s, const tn_schema_set *set, bool needed) {
  bool told = false, shaped = false;
  for (size_t i = 0; i < set->count; i++) {
    const json_t *other = tn_schema_keyword(s, set->members[i], "additionalProperties");
    if (json_is_false(other)) return false;
    told = told || other;
    shaped = shaped || json_object_size(tn_schema_keyword(s, set->members[i], "properties")) ||
             json_object_size(tn_schema_keyword(s, set->members[i], "patternProperties"));
  }
  return told || !shaped || needed;
}

bool tn_schema_may_carry(tn_schema *s, const tn_schema_set *set, const char *name) {
  tn_schema_set value = {0};
  json_t *names = named_properties(s, set);
  bool may = json_object_get(names, name) || takes_other_keys(s, set, false);
  for (size_t i = 0; i < set->count; i++)
    may = may || tn_schema_keyword(s, set->members[i], "minProperties") ||
          json_object_size(tn_schema_keyword(s, set->members[i], "patternProperties"));
  may = may && tn_schema_property_set(s, set, name, &value) && !value.never;
  json_decref(names);
  tn_schema_set_finish(&value);
  return may;
}

/* The inside of the strings that `keys` (expanded) allows. */
static tn_expr allowed_keys(tn_schema *s, const tn_schema_set *keys, uint32_t place) {
  tn_exprs *x = s->x;
  bool constrained;
  if (keys->never || !(tn_schema_kinds(s, keys) & KIND_STRING)) return TN_EXPR_NOTHING;
  for (size_t k = 0; k < keys->count; k++)
    if (tn_schema_keyword(s, keys->members[k], "anyOf") || tn_schema_keyword(s, keys->members[k], "oneOf"))
      tn_schema_fail(s, TN_E_UNSUPPORTED, place, "choices in \"propertyNames\" are not supported");
  tn_expr inside = tn_schema_string_inside(s, keys, &constrained);
  json_t *constants = tn_schema_constants(s, keys), *name;
  size_t index, base = x->scratch_count;
  if (!constants) return inside;
  json_array_foreach(constants, index, name) {
    if (json_is_string(name))
      tn_exprs_scratch(x, tn_spelled_text(x, json_string_value(name), json_string_length(name), s->spelling));
  }
  json_decref(constants);
  return tn_expr_and(x, inside, tn_expr_combine(x, TN_EXPR_IS_ALT, base));
}

/* What propertyNames of the members says about keys, as the inside of a string. */
static tn_expr key_shape(tn_schema *s, const tn_schema_set *set) {
  tn_exprs *x = s->x;
  bool constrained;
  tn_expr shape = tn_schema_string_inside(s, &(tn_schema_set){0}, &constrained);
  for (size_t i = 0; i < set->count && s->status == TN_OK; i++) {
    const json_t *names = tn_schema_keyword(s, set->members[i], "propertyNames");
    uint32_t place = set->members[i] >> MEMBER_BITS;
    tn_schema_set keys = {0};
    if (names && tn_schema_set_add(s, &keys, names, place, "propertyNames", NULL) && tn_schema_expand(s, &keys))
      shape = tn_expr_and(x, shape, allowed_keys(s, &keys, place));
    tn_schema_set_finish(&keys);
  }
  return shape;
}

/* ---- keys that aren't named ---- */

/* The patterns of patternProperties, each once. A new array. */
static json_t *all_patterns(tn_schema *s, const tn_schema_set *set) {
  json_t *patterns = json_object();
  for (size_t i = 0; patterns && i < set->count; i++) {
    const char *pattern;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)tn_schema_keyword(s, set->members[i], "patternProperties"), pattern, value)
        json_object_set(patterns, pattern, json_true());
  }
  if (!patterns)
    tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory");
  else if (json_object_size(patterns) > MAX_PATTERNS)
    tn_schema_fail(s, TN_E_UNSUPPORTED, set->members[0] >> MEMBER_BITS,
                   "more than %d \"patternProperties\" are not supported", MAX_PATTERNS);
  return patterns;
}

/* The value's set for keys that match exactly the patterns whose bit is set in `matched`. */
static bool other_value_set(tn_schema *s, const tn_schema_set *set, const json_t *patterns, unsigned matched,
                            tn_schema_set *value) {
  for (size_t i = 0; i < set->count; i++) {
    uint32_t member = set->members[i], place = member >> MEMBER_BITS;
    const char *pattern;
    json_t *unused;
    unsigned bit = 1;
    bool spoken = false;
    json_object_foreach((json_t *)(uintptr_t)patterns, pattern, unused) {
      const json_t *mine = json_object_get(tn_schema_keyword(s, member, "patternProperties"), pattern);
      if (mine && matched & bit) {
        spoken = true;
        if (!tn_schema_set_add(s, value, mine, place, "patternProperties", pattern)) return false;
      }
      bit <<= 1;
    }
    const json_t *other = tn_schema_keyword(s, member, "additionalProperties");
    if (!spoken && other && !tn_schema_set_add(s, value, other, place, "additionalProperties", NULL)) return false;
  }
  return true;
}

/* One further property `"key": value`, its key being none of `names` and of the shape `keys`. */
static tn_expr other_property(tn_schema *s, const tn_schema_set *set, const json_t *names, tn_expr keys, bool needed) {
  tn_exprs *x = s->x;
  json_t *patterns = all_patterns(s, set), *value_json;
  const char *name;
  tn_expr shapes[MAX_PATTERNS] = {0}, result = TN_EXPR_NOTHING;
  size_t count = json_object_size(patterns), base = x->scratch_count, k = 0;
  json_object_foreach((json_t *)(uintptr_t)names, name, value_json)
      tn_exprs_scratch(x, tn_spelled_text(x, name, strlen(name), s->spelling));
  tn_expr named = tn_expr_combine(x, TN_EXPR_IS_ALT, base);
  if (named != TN_EXPR_NOTHING) keys = tn_expr_and(x, keys, tn_expr_not(x, named));
  json_object_foreach(patterns, name, value_json) {
    tn_error error = {0};
    if (s->status != TN_OK) break;
    tn_status status = tn_regex_expr(x, name, strlen(name), true, s->spelling, &shapes[k++], &error);
    if (status != TN_OK)
      tn_schema_fail(s, status, set->members[0] >> MEMBER_BITS, "\"patternProperties\" \"%.60s\": %s", name,
                     error.message);
  }
  for (unsigned matched = 0; matched < 1u << count && s->status == TN_OK; matched++) {
    tn_schema_set value = {0};
    tn_expr key = keys;
    if (!matched && !takes_other_keys(s, set, needed)) continue;
    for (k = 0; k < count; k++) key = tn_expr_and(x, key, matched >> k & 1 ? shapes[k] : tn_expr_not(x, shapes[k]));
    if (!other_value_set(s, set, patterns, matched, &value) || value.never || tn_expr_is_barren(x, key)) {
      tn_schema_set_finish(&value);
      continue;
    }
    tn_expr one = tn_expr_concat3(x, tn_expr_concat3(x, s->quote, key, s->quote), s->colon, tn_schema_value(s, &value));
    result = tn_expr_alt(x, result, one);
  }
  json_decref(patterns);
  return result;
}

/* ---- objects ---- */

typedef struct property {
  tn_expr expr; /* `"name": value` */
  bool required;
} property;

typedef struct object {
  property *properties;
  size_t count;
  tn_expr other; /* a further property, or nothing */
  uint32_t min, max;
} object;

/* The named properties that an object may have; false when one that is required can't be there. */
static bool collect(tn_schema *s, const tn_schema_set *set, const json_t *names, tn_expr keys, object *o) {
  const char *name;
  json_t *unused;
  json_object_foreach((json_t *)(uintptr_t)names, name, unused) {
    tn_schema_set value = {0};
    bool required = tn_schema_is_required(s, set, name);
    tn_expr spelled = tn_spelled_text(s->x, name, strlen(name), s->spelling);
    bool may = tn_schema_property_set(s, set, name, &value) && !value.never &&
               !tn_expr_is_barren(s->x, tn_expr_and(s->x, keys, spelled));
    if (!may) {
      tn_schema_set_finish(&value);
      if (required || s->status != TN_OK) return false;
      continue;
    }
    tn_expr quoted = tn_schema_key(s, name, strlen(name));
    o->properties[o->count++] =
        (property){tn_expr_concat3(s->x, quoted, s->colon, tn_schema_value(s, &value)), required};
  }
  return s->status == TN_OK;
}

static bool object_bounds(tn_schema *s, const tn_schema_set *set, object *o) {
  o->min = 0;
  o->max = TN_EXPR_MANY;
  for (size_t i = 0; i < set->count; i++) {
    uint32_t low, high;
    if (!tn_schema_count(s, set->members[i], "minProperties", 0, &low)) return false;
    if (!tn_schema_count(s, set->members[i], "maxProperties", TN_EXPR_MANY, &high)) return false;
    if (low > o->min) o->min = low;
    if (high < o->max) o->max = high;
  }
  return true;
}

/* What may follow the named properties when `there` are written. A further key may repeat another, so
 * towards the minimum they count as one. */
static tn_expr other_properties(tn_schema *s, const object *o, uint32_t there) {
  tn_exprs *x = s->x;
  uint32_t room = o->max == TN_EXPR_MANY ? TN_EXPR_MANY : o->max - there;
  if (there + 1 < o->min) return TN_EXPR_NOTHING;
  bool needed = there < o->min;
  if (!room || o->other == TN_EXPR_NOTHING) return needed ? TN_EXPR_NOTHING : TN_EXPR_EMPTY;
  tn_expr more = tn_expr_concat(x, s->comma, o->other), e;
  if (there) return tn_expr_repeat(x, more, needed, room);
  e = tn_expr_concat(x, o->other, tn_expr_repeat(x, more, 0, room == TN_EXPR_MANY ? room : room - 1));
  return needed ? e : tn_expr_optional(x, e);
}

/* From the back: rest[c] is what may follow once the properties before number i were dealt with and c are written.
 * Counts that no longer matter are one count. */
static tn_expr object_body(tn_schema *s, const object *o) {
  tn_exprs *x = s->x;
  size_t counts = 1;
  if (o->min > counts) counts = o->min;
  if (o->max != TN_EXPR_MANY && o->max > counts) counts = o->max;
  if (counts > o->count + 1) counts = o->count + 1;
  if ((o->count + 1) * (counts + 1) > MAX_COUNTED)
    return tn_schema_fail(s, TN_E_LIMIT, UINT32_MAX, "too many properties are counted"), TN_EXPR_NOTHING;
  tn_expr *rest = tn_calloc(counts + 1, sizeof *rest);
  if (!rest) return tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory"), TN_EXPR_NOTHING;
  for (uint32_t c = 0; c <= counts; c++) rest[c] = c <= o->max ? other_properties(s, o, c) : TN_EXPR_NOTHING;
  for (size_t i = o->count; i-- > 0;) {
    for (uint32_t c = 0; c <= counts; c++) {
      tn_expr with = tn_expr_concat(x, c ? s->comma : TN_EXPR_EMPTY, o->properties[i].expr);
      tn_expr after = c >= o->max ? TN_EXPR_NOTHING : rest[c < counts ? c + 1 : c];
      if (o->properties[i].required)
        rest[c] = tn_expr_concat(x, with, after);
      else if (after == rest[c])
        rest[c] = tn_expr_concat(x, tn_expr_optional(x, with), after);
      else
        rest[c] = tn_expr_alt(x, tn_expr_concat(x, with, after), rest[c]);
    }
  }
  tn_expr body = rest[0];
  free(rest);
  return body;
}

tn_expr tn_schema_object(tn_schema *s, const tn_schema_set *set) {
  tn_exprs *x = s->x;
  object o = {0};
  tn_expr body = TN_EXPR_NOTHING, keys = key_shape(s, set);
  json_t *names = named_properties(s, set);
  o.properties = tn_calloc(json_object_size(names), sizeof *o.properties);
  if (!o.properties) tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory");
  if (s->status == TN_OK && object_bounds(s, set, &o) && collect(s, set, names, keys, &o)) {
    o.other = other_property(s, set, names, keys, o.min > o.count);
    if (o.min > o.count + 1 && o.other != TN_EXPR_NOTHING)
      tn_schema_fail(s, TN_E_UNSUPPORTED, set->members[0] >> MEMBER_BITS,
                     "this \"minProperties\" is not supported: it needs several keys that the schema doesn't name");
    body = object_body(s, &o);
  }
  free(o.properties);
  json_decref(names);
  return tn_expr_concat3(x, tn_expr_text(x, "{"), body, tn_expr_text(x, "}"));
}
