/* The document side of the schema compiler: where schemas lie, what their keywords are, where references lead. */
#include "text/grammar/schema_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

#define MAX_PLACES 200000
#define MAX_MEMBERS 500 /* schemas that one value must satisfy at once */

bool tn_schema_fail(tn_schema *s, tn_status status, uint32_t place, const char *format, ...) {
  if (s->status != TN_OK) return false;
  char text[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char *pointer = place < s->place_count ? s->places[place].pointer : "#";
  s->status = tn_fail(s->error, status, "schema %.160s: %s", pointer, text);
  return false;
}

/* ---- places ---- */

static size_t hash_pointer(const void *pointer) {
  uint64_t hash = (uint64_t)(uintptr_t)pointer * 0x9E3779B97F4A7C15u;
  return (size_t)(hash ^ hash >> 32);
}

static bool grow_places(tn_schema *s) {
  size_t slots = s->place_slots ? s->place_slots * 2 : 64;
  uint32_t *table = tn_calloc(slots, sizeof *table);
  if (!table) return false;
  for (size_t i = 0; i < s->place_count; i++) {
    size_t at = hash_pointer(s->places[i].json) & (slots - 1);
    while (table[at]) at = (at + 1) & (slots - 1);
    table[at] = (uint32_t)i + 1;
  }
  free(s->place_table);
  s->place_table = table;
  s->place_slots = slots;
  return true;
}

static bool append_step(tn_buf *buf, const char *step) {
  tn_buf_putc(buf, '/');
  for (; *step; step++) {
    if (*step == '~')
      tn_buf_puts(buf, "~0");
    else if (*step == '/')
      tn_buf_puts(buf, "~1");
    else
      tn_buf_putc(buf, *step);
  }
  return !buf->failed;
}

uint32_t tn_schema_place_of(tn_schema *s, const json_t *json, uint32_t parent, const char *step, const char *step2) {
  if (s->place_count * 2 >= s->place_slots && !grow_places(s))
    return tn_schema_fail(s, TN_E_MEMORY, parent, "out of memory"), UINT32_MAX;
  size_t at = hash_pointer(json) & (s->place_slots - 1);
  for (; s->place_table[at]; at = (at + 1) & (s->place_slots - 1))
    if (s->places[s->place_table[at] - 1].json == json) return s->place_table[at] - 1;
  if (s->place_count >= MAX_PLACES) return tn_schema_fail(s, TN_E_LIMIT, parent, "too many subschemas"), UINT32_MAX;
  tn_buf pointer;
  tn_buf_init(&pointer);
  tn_buf_puts(&pointer, parent < s->place_count ? s->places[parent].pointer : "#");
  if (step && pointer.size < 1000) append_step(&pointer, step);
  if (step2 && pointer.size < 1000) append_step(&pointer, step2);
  char *text = tn_buf_take(&pointer);
  tn_schema_place *place = text ? TN_PUSH(s->places, s->place_count, s->place_capacity) : NULL;
  if (!place) {
    free(text);
    return tn_schema_fail(s, TN_E_MEMORY, parent, "out of memory"), UINT32_MAX;
  }
  *place = (tn_schema_place){.json = json, .pointer = text};
  s->place_table[at] = (uint32_t)s->place_count;
  return (uint32_t)(s->place_count - 1);
}

/* ---- sets ---- */

void tn_schema_set_finish(tn_schema_set *set) {
  free(set->members);
  *set = (tn_schema_set){0};
}

static bool set_has(const tn_schema_set *set, uint32_t place) {
  for (size_t i = 0; i < set->count; i++)
    if (set->members[i] >> MEMBER_BITS == place) return true;
  return false;
}

static bool set_push(tn_schema *s, tn_schema_set *set, uint32_t place) {
  if (place == UINT32_MAX) return false;
  if (set_has(set, place)) return true;
  if (set->count >= MAX_MEMBERS) return tn_schema_fail(s, TN_E_LIMIT, place, "too many schemas apply at once");
  uint32_t *slot = TN_PUSH(set->members, set->count, set->capacity);
  if (!slot) return tn_schema_fail(s, TN_E_MEMORY, place, "out of memory");
  *slot = place << MEMBER_BITS;
  return true;
}

bool tn_schema_set_add(tn_schema *s, tn_schema_set *set, const json_t *json, uint32_t parent, const char *step,
                       const char *step2) {
  if (json_is_true(json)) return true;
  if (json_is_false(json)) return set->never = true;
  if (json_is_object(json)) return set_push(s, set, tn_schema_place_of(s, json, parent, step, step2));
  return tn_schema_fail(s, TN_E_INVALID, parent, "%s%s%s%sa schema is an object or a boolean", step ? step : "",
                        step2 ? "/" : "", step2 ? step2 : "", step ? ": " : "");
}

/* ---- keywords ---- */

static bool is_known(const char *keyword) {
  static const char *const known[] = {
      /* understood */
      "type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "nullable", "minimum",
      "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format",
      "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties",
      "patternProperties", "propertyNames", "minProperties", "maxProperties",
      /* these say nothing about what is valid */
      "$schema", "$id", "$comment", "$anchor", "$vocabulary", "title", "description", "default", "examples", "example",
      "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema", "discriminator",
      "externalDocs", "xml", "strict", "propertyOrdering"};
  for (size_t i = 0; i < TN_COUNT(known); i++)
    if (!strcmp(keyword, known[i])) return true;
  return !strncmp(keyword, "x-", 2);
}

static bool check_keywords(tn_schema *s, uint32_t place) {
  const char *keyword;
  json_t *value;
  if (s->places[place].checked) return true;
  s->places[place].checked = true;
  json_object_foreach((json_t *)(uintptr_t)s->places[place].json, keyword, value) {
    if (!is_known(keyword))
      return tn_schema_fail(s, TN_E_UNSUPPORTED, place, "the keyword \"%.60s\" is not supported", keyword);
  }
  return true;
}

bool tn_schema_count(tn_schema *s, uint32_t member, const char *keyword, uint32_t missing, uint32_t *value) {
  const json_t *json = tn_schema_keyword(s, member, keyword);
  *value = missing;
  if (!json) return true;
  double number = json_number_value(json);
  if (!json_is_number(json) || number < 0 || number != (double)(int64_t)(number < 1e18 ? number : 0.5))
    return tn_schema_fail(s, TN_E_INVALID, member >> MEMBER_BITS, "\"%s\" must be a whole number >= 0", keyword);
  *value = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
  return true;
}

/* ---- references ---- */

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Undoes %XX, ~1 and ~0 of one step of a pointer. */
static bool decode_step(const char *text, size_t size, tn_buf *out) {
  tn_buf_clear(out);
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (c == '%') {
      if (size - i < 3 || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0) return false;
      c = (char)(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
      i += 2;
    }
    if (c == '~') {
      if (i + 1 == size || (text[i + 1] != '0' && text[i + 1] != '1')) return false;
      c = text[++i] == '0' ? '~' : '/';
    }
    tn_buf_putc(out, c);
  }
  return tn_buf_puts(out, "");
}

static const json_t *follow_step(const json_t *json, const char *step) {
  if (json_is_object(json)) return json_object_get(json, step);
  char *end;
  if (!json_is_array(json) || *step < '0' || *step > '9') return NULL;
  unsigned long index = strtoul(step, &end, 10);
  return *end ? NULL : json_array_get(json, index);
}

/* The schema with the $anchor `name`, looked for in the whole document without recursion. */
static const json_t *find_anchor(tn_schema *s, const char *name) {
  const json_t **open = NULL, *found = NULL;
  size_t count = 0, capacity = 0;
  const json_t **slot = TN_PUSH(open, count, capacity);
  if (slot) *slot = s->root;
  while (count && !found) {
    const json_t *json = open[--count];
    const char *anchor = json_string_value(json_object_get(json, "$anchor"));
    if (anchor && !strcmp(anchor, name)) found = json;
    const char *key;
    json_t *value;
    size_t index;
    json_object_foreach((json_t *)(uintptr_t)json, key, value) {
      if ((slot = TN_PUSH(open, count, capacity))) *slot = value;
    }
    json_array_foreach(json, index, value) {
      if ((slot = TN_PUSH(open, count, capacity))) *slot = value;
    }
  }
  free(open);
  return found;
}

/* Follows "#", "#/json/pointer" or "#anchor". */
static const json_t *resolve(tn_schema *s, const char *reference) {
  const json_t *json = s->root;
  if (reference[0] != '#') return NULL;
  const char *at = reference + 1;
  if (*at && *at != '/') return find_anchor(s, at);
  tn_buf step;
  tn_buf_init(&step);
  while (*at && json) {
    size_t size = strcspn(at + 1, "/");
    json = decode_step(at + 1, size, &step) ? follow_step(json, step.data) : NULL;
    at += 1 + size;
  }
  tn_buf_finish(&step);
  return json;
}

static bool add_reference(tn_schema *s, tn_schema_set *set, uint32_t place) {
  const json_t *value = json_object_get(s->places[place].json, "$ref");
  if (!value) return true;
  const char *reference = json_string_value(value);
  if (!reference) return tn_schema_fail(s, TN_E_INVALID, place, "\"$ref\" must be a string");
  const json_t *target = resolve(s, reference);
  if (!target) return tn_schema_fail(s, TN_E_INVALID, place, "the reference \"%.120s\" leads nowhere", reference);
  if (json_is_true(target)) return true;
  if (json_is_false(target)) return set->never = true;
  if (!json_is_object(target)) return tn_schema_fail(s, TN_E_INVALID, place, "\"%.120s\" is not a schema", reference);
  uint32_t at = tn_schema_place_of(s, target, UINT32_MAX, NULL, NULL);
  if (at != UINT32_MAX && !strcmp(s->places[at].pointer, "#") && target != s->root) {
    free(s->places[at].pointer);
    s->places[at].pointer = tn_copy_text(reference, strlen(reference));
    if (!s->places[at].pointer) return tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory");
  }
  return set_push(s, set, at);
}

/* Adds the schemas that the keyword `keyword` (allOf, anyOf, oneOf) lists. */
static bool add_listed(tn_schema *s, tn_schema_set *set, uint32_t place, const char *keyword) {
  const json_t *all = json_object_get(s->places[place].json, keyword);
  if (!all) return true;
  if (!json_is_array(all) || !json_array_size(all))
    return tn_schema_fail(s, TN_E_INVALID, place, "\"%s\" must be an array of schemas", keyword);
  for (size_t i = 0; i < json_array_size(all); i++) {
    char index[24];
    snprintf(index, sizeof index, "%zu", i);
    if (!tn_schema_set_add(s, set, json_array_get(all, i), place, keyword, index)) return false;
  }
  return true;
}

/* Adds every schema that applies to the same value as `place` does. */
static bool add_in_place(tn_schema *s, tn_schema_set *set, uint32_t place) {
  return add_reference(s, set, place) && add_listed(s, set, place, "allOf") && add_listed(s, set, place, "anyOf") &&
         add_listed(s, set, place, "oneOf");
}

/* True when a schema applies to a value because it applies to that value: such a schema says nothing. */
static bool is_circular(tn_schema *s, uint32_t place) {
  tn_schema_set reached = {0};
  bool circular = false, sound = add_in_place(s, &reached, place);
  for (size_t i = 0; sound && !circular && i < reached.count; i++) {
    uint32_t next = reached.members[i] >> MEMBER_BITS;
    circular = next == place;
    sound = add_in_place(s, &reached, next);
  }
  tn_schema_set_finish(&reached);
  return circular;
}

bool tn_schema_expand(tn_schema *s, tn_schema_set *set) {
  for (size_t i = 0; i < set->count; i++) {
    uint32_t place = set->members[i] >> MEMBER_BITS;
    bool is_new = !s->places[place].checked;
    if (!check_keywords(s, place)) return false;
    if (is_new && is_circular(s, place))
      return tn_schema_fail(s, TN_E_INVALID, place, "the schema refers to itself for the same value");
    if (s->status != TN_OK || !add_reference(s, set, place) || !add_listed(s, set, place, "allOf")) return false;
  }
  return true;
}
