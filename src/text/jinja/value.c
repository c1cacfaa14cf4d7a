/* Making values, and what can be asked of any of them: type, truth, equality, order, membership, length, items. */
#include "text/jinja/value.h"

#include <math.h>
#include <string.h>
#include "text/jinja/number.h"
#include "text/jinja/text.h"

/* ---- undefined ---- */

static tnj_value undefined(tnj_state *s, int why, const char *owner, tnj_value name) {
  tnj_undefined *reason = tnj_alloc(s, sizeof *reason);
  reason->why = why;
  reason->owner = owner;
  reason->name = name;
  return (tnj_value){.kind = TNJ_UNDEFINED, .undefined = reason};
}

tnj_value tnj_undefined_name(tnj_state *s, tnj_value name) {
  return undefined(s, TNJ_NO_NAME, "", name);
}

tnj_value tnj_undefined_member(tnj_state *s, tnj_value object, tnj_value name) {
  return undefined(s, TNJ_NO_MEMBER, tnj_type_name(object), name);
}

tnj_value tnj_undefined_unsafe(tnj_state *s, tnj_value object, tnj_value name) {
  return undefined(s, TNJ_UNSAFE, tnj_type_name(object), name);
}

tnj_value tnj_undefined_said(tnj_state *s, const char *message) {
  return undefined(s, TNJ_SAID, "", tnj_string_text(s, message));
}

/* At most this much of a name is shown. */
static int shown(tnj_value name) {
  return (int)(tnj_size(name) < 200 ? tnj_size(name) : 200);
}

_Noreturn void tnj_fail_undefined(tnj_state *s, tnj_value v) {
  const tnj_undefined *reason = v.undefined;
  if (!reason) tnj_error(s, "a value is undefined");
  tnj_value name = tnj_str(s, reason->name);
  bool none = strcmp(reason->owner, "NoneType") == 0;
  switch (reason->why) {
    case TNJ_NO_NAME: tnj_error(s, "'%.*s' is undefined", shown(name), tnj_data(name));
    case TNJ_UNSAFE:
      tnj_error(s, "access to attribute '%.*s' of '%s' object is unsafe.", shown(name), tnj_data(name), reason->owner);
    case TNJ_SAID: tnj_error(s, "%.*s", shown(name), tnj_data(name));
    case TNJ_NO_MEMBER: break;
  }
  if (!tnj_is_string(reason->name))
    tnj_error(s, "%s object has no element %.*s", reason->owner, shown(name), tnj_data(name));
  if (none) tnj_error(s, "'None' has no attribute '%.*s'", shown(name), tnj_data(name));
  tnj_error(s, "'%s object' has no attribute '%.*s'", reason->owner, shown(name), tnj_data(name));
}

/* ---- lists ---- */

tnj_value tnj_list_new(tnj_state *s, tnj_kind kind, size_t count, tnj_value **items) {
  tnj_store *store = tnj_alloc(s, sizeof *store);
  tnj_list *list = tnj_alloc(s, sizeof *list);
  store->items = tnj_array(s, count, sizeof *store->items);
  store->used = store->capacity = count;
  *list = (tnj_list){store->items, count, store};
  *items = store->items;
  return tnj_list_of(s, kind, list);
}

tnj_value tnj_list_of(tnj_state *s, tnj_kind kind, const tnj_list *list) {
  (void)s;
  return (tnj_value){.kind = (uint8_t)kind, .list = list};
}

tnj_value tnj_pair(tnj_state *s, tnj_value a, tnj_value b) {
  tnj_value *items;
  tnj_value pair = tnj_list_new(s, TNJ_TUPLE, 2, &items);
  items[0] = a;
  items[1] = b;
  return pair;
}

tnj_value tnj_iterator_new(tnj_state *s, const tnj_list *list, const char *type) {
  tnj_iterator *iterator = tnj_alloc(s, sizeof *iterator);
  *iterator = (tnj_iterator){.list = list, .type = type};
  return (tnj_value){.kind = TNJ_ITERATOR, .iterator = iterator};
}

static void store_reserve(tnj_state *s, tnj_store *store, size_t more) {
  size_t need;
  if (!tn_add_size(store->used, more, &need)) need = SIZE_MAX;
  if (need <= store->capacity) return;
  size_t capacity = need < SIZE_MAX / 64 ? need + need / 2 + 4 : need;
  tnj_value *items = tnj_array(s, capacity, sizeof *items);
  if (store->used) memcpy(items, store->items, store->used * sizeof *items);
  store->items = items;
  store->capacity = capacity;
}

tnj_list_builder tnj_list_start(tnj_state *s, size_t expected) {
  tnj_store *store = tnj_alloc(s, sizeof *store);
  store_reserve(s, store, expected ? expected : 1); /* items is never NULL */
  return (tnj_list_builder){store};
}

void tnj_list_add(tnj_state *s, tnj_list_builder *builder, tnj_value item) {
  tnj_store *store = builder->store;
  if (store->used == store->capacity) store_reserve(s, store, 1);
  store->items[store->used++] = item;
}

const tnj_list *tnj_list_end(tnj_state *s, tnj_list_builder *builder) {
  tnj_list *list = tnj_alloc(s, sizeof *list);
  *list = (tnj_list){builder->store->items, builder->store->used, builder->store};
  return list;
}

const tnj_list *tnj_list_join(tnj_state *s, const tnj_list *a, const tnj_list *b) {
  tnj_store *store = a->store;
  bool at_end = store && !store->frozen && a->items == store->items && a->count == store->used;
  tnj_work(s, b->count * sizeof *b->items + (at_end ? 0 : a->count * sizeof *a->items));
  if (!at_end) {
    store = tnj_alloc(s, sizeof *store);
    store_reserve(s, store, a->count + b->count);
    if (a->count) memcpy(store->items, a->items, a->count * sizeof *a->items);
    store->used = a->count;
  } else {
    store_reserve(s, store, b->count);
  }
  if (b->count) memcpy(store->items + store->used, b->items, b->count * sizeof *b->items);
  store->used += b->count;
  tnj_list *list = tnj_alloc(s, sizeof *list);
  *list = (tnj_list){store->items, store->used, store};
  return list;
}

/* ---- dictionaries ---- */

enum { INDEX_FROM = 8 }; /* entries from which an index is worth it */

static uint64_t hash_bytes(const char *data, size_t size) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)data[i]) * 1099511628211u;
  return hash ^ hash >> 32;
}

static uint64_t hash_real(double real) {
  uint64_t bits;
  memcpy(&bits, &real, sizeof bits);
  bits *= 0x9e3779b97f4a7c15u;
  return bits ^ bits >> 29;
}

/* Equal keys have equal hashes, across int, float and bool too. */
static uint64_t hash_value(tnj_state *s, tnj_value v) {
  switch (v.kind) {
    case TNJ_STRING: return hash_bytes(tnj_data(v), tnj_size(v));
    case TNJ_BOOL:
    case TNJ_INT:
    case TNJ_BIG:
    case TNJ_FLOAT: return hash_real(tnj_to_double(v) + 0.0);
    case TNJ_TUPLE: {
      uint64_t hash = 1;
      tnj_enter(s);
      for (size_t i = 0; i < v.list->count; i++) hash = hash * 31 + hash_value(s, v.list->items[i]);
      tnj_leave(s);
      return hash;
    }
    case TNJ_LIST:
    case TNJ_DICT:
    case TNJ_VIEW: tnj_error(s, "unhashable type: '%s'", tnj_type_name(v));
    default: return v.kind;
  }
}

static const tnj_entry *find_entry(tnj_state *s, const tnj_dict *dict, tnj_value key, uint64_t hash) {
  if (!dict->index_size) {
    for (size_t i = 0; i < dict->count; i++)
      if (dict->entries[i].hash == hash && tnj_equal(s, dict->entries[i].key, key)) return &dict->entries[i];
    return NULL;
  }
  for (size_t slot = hash & (dict->index_size - 1); dict->index[slot]; slot = (slot + 1) & (dict->index_size - 1)) {
    const tnj_entry *entry = &dict->entries[dict->index[slot] - 1];
    if (entry->hash == hash && tnj_equal(s, entry->key, key)) return entry;
    tnj_step(s);
  }
  return NULL;
}

static void put_index(tnj_dict *dict, size_t number) {
  size_t slot = dict->entries[number].hash & (dict->index_size - 1);
  while (dict->index[slot]) slot = (slot + 1) & (dict->index_size - 1);
  dict->index[slot] = (uint32_t)number + 1;
}

static void rebuild_index(tnj_state *s, tnj_dict *dict) {
  size_t size = 32;
  while (size < dict->count * 4) size *= 2;
  dict->index = tnj_array(s, size, sizeof *dict->index);
  dict->index_size = size;
  for (size_t i = 0; i < dict->count; i++) put_index(dict, i);
}

tnj_dict *tnj_dict_new(tnj_state *s, size_t expected) {
  tnj_dict *dict = tnj_alloc(s, sizeof *dict);
  if (expected) {
    dict->entries = tnj_array(s, expected, sizeof *dict->entries);
    dict->capacity = expected;
  }
  return dict;
}

tnj_value tnj_dict_value(tnj_dict *dict) {
  return (tnj_value){.kind = TNJ_DICT, .dict = dict};
}

void tnj_dict_set(tnj_state *s, tnj_dict *dict, tnj_value key, tnj_value value) {
  uint64_t hash = hash_value(s, key);
  tnj_entry *found = (tnj_entry *)find_entry(s, dict, key, hash);
  if (found) {
    found->value = value;
    return;
  }
  if (dict->count == dict->capacity) {
    size_t capacity = dict->capacity * 2 + 4;
    tnj_entry *entries = tnj_array(s, capacity, sizeof *entries);
    if (dict->count) memcpy(entries, dict->entries, dict->count * sizeof *entries);
    dict->entries = entries;
    dict->capacity = capacity;
  }
  dict->entries[dict->count++] = (tnj_entry){key, value, hash};
  if (dict->index_size && dict->count * 2 <= dict->index_size)
    put_index(dict, dict->count - 1);
  else if (dict->count > INDEX_FROM)
    rebuild_index(s, dict);
}

const tnj_value *tnj_dict_get(tnj_state *s, const tnj_dict *dict, tnj_value key) {
  const tnj_entry *entry = find_entry(s, dict, key, hash_value(s, key));
  return entry ? &entry->value : NULL;
}

const tnj_value *tnj_dict_get_text(const tnj_dict *dict, const char *key, size_t size) {
  for (size_t i = 0; i < dict->count; i++) {
    tnj_value k = dict->entries[i].key;
    if (tnj_is_string(k) && tnj_size(k) == size && memcmp(tnj_data(k), key, size) == 0) return &dict->entries[i].value;
  }
  return NULL;
}

/* ---- questions ---- */

const char *tnj_type_name(tnj_value v) {
  switch ((tnj_kind)v.kind) {
    case TNJ_ABSENT: return "absent";
    case TNJ_UNDEFINED: return "Undefined";
    case TNJ_NONE: return "NoneType";
    case TNJ_BOOL: return "bool";
    case TNJ_INT:
    case TNJ_BIG: return "int";
    case TNJ_FLOAT: return "float";
    case TNJ_STRING: return v.flag & TNJ_MARKUP ? "Markup" : "str";
    case TNJ_LIST: return "list";
    case TNJ_TUPLE: return v.flag & TNJ_GROUP ? "_GroupTuple" : "tuple";
    case TNJ_DICT: return "dict";
    case TNJ_NAMESPACE: return "Namespace";
    case TNJ_RANGE: return "range";
    case TNJ_VIEW: return v.flag == TNJ_KEYS ? "dict_keys" : v.flag == TNJ_VALUES ? "dict_values" : "dict_items";
    case TNJ_ITERATOR: return v.iterator->type;
    case TNJ_FUNCTION: return "function";
    case TNJ_METHOD: return "builtin_function_or_method";
    case TNJ_MACRO: return "Macro";
    case TNJ_LOOP: return "LoopContext";
    case TNJ_CYCLER: return "Cycler";
    case TNJ_JOINER: return "Joiner";
  }
  return "object";
}

bool tnj_truth(tnj_state *s, tnj_value v) {
  switch (v.kind) {
    case TNJ_UNDEFINED:
    case TNJ_ABSENT:
    case TNJ_NONE: return false;
    case TNJ_BOOL: return v.boolean;
    case TNJ_FLOAT: return v.real != 0;
    case TNJ_INT: return v.integer != 0;
    default: return tnj_length(s, v) != 0;
  }
}

int64_t tnj_length(tnj_state *s, tnj_value v) {
  switch (v.kind) {
    case TNJ_UNDEFINED: return 0;
    case TNJ_STRING: return (int64_t)tnj_codepoints(s, v);
    case TNJ_LIST:
    case TNJ_TUPLE: return (int64_t)v.list->count;
    case TNJ_DICT:
    case TNJ_VIEW: return (int64_t)v.dict->count;
    case TNJ_RANGE: return (int64_t)v.range->count;
    default: return -1;
  }
}

static bool equal_lists(tnj_state *s, const tnj_list *a, const tnj_list *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++)
    if (!tnj_equal(s, a->items[i], b->items[i])) return false;
  return true;
}

static bool equal_dicts(tnj_state *s, const tnj_dict *a, const tnj_dict *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++) {
    const tnj_entry *other = find_entry(s, b, a->entries[i].key, a->entries[i].hash);
    if (!other || !tnj_equal(s, a->entries[i].value, other->value)) return false;
  }
  return true;
}

static bool equal_ranges(const tnj_range *a, const tnj_range *b) {
  return a->count == b->count && (!a->count || a->start == b->start) && (a->count < 2 || a->step == b->step);
}

bool tnj_equal(tnj_state *s, tnj_value a, tnj_value b) {
  if (tnj_is_number(a) && tnj_is_number(b)) return tnj_number_equal(a, b);
  if (a.kind != b.kind) return false;
  if (a.kind == TNJ_STRING) {
    tnj_work(s, tnj_size(a));
    return tnj_text_equal(a, b);
  }
  bool result = false;
  tnj_enter(s);
  switch (a.kind) {
    case TNJ_UNDEFINED:
    case TNJ_NONE: result = true; break;
    case TNJ_LIST:
    case TNJ_TUPLE: result = equal_lists(s, a.list, b.list); break;
    case TNJ_DICT: result = equal_dicts(s, a.dict, b.dict); break;
    case TNJ_RANGE: result = equal_ranges(a.range, b.range); break;
    case TNJ_VIEW: result = a.flag == b.flag && a.flag != TNJ_VALUES && equal_dicts(s, a.dict, b.dict); break;
    default: result = tnj_same(a, b);
  }
  tnj_leave(s);
  return result;
}

bool tnj_same(tnj_value a, tnj_value b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case TNJ_NONE: return true;
    case TNJ_BOOL: return a.boolean == b.boolean;
    case TNJ_INT: return a.integer == b.integer;
    case TNJ_FLOAT: return a.real == b.real;
    case TNJ_STRING: return tnj_text_equal(a, b);
    case TNJ_METHOD: return false;
    default: return a.dict == b.dict; /* any of the pointers */
  }
}

static int compare_text(tnj_value a, tnj_value b) {
  size_t size = tnj_size(a) < tnj_size(b) ? tnj_size(a) : tnj_size(b);
  int order = size ? memcmp(tnj_data(a), tnj_data(b), size) : 0;
  return order ? order : (tnj_size(a) > tnj_size(b)) - (tnj_size(a) < tnj_size(b));
}

int tnj_compare(tnj_state *s, tnj_value a, tnj_value b, const char *op) {
  if (tnj_is_number(a) && tnj_is_number(b)) return tnj_number_compare(a, b);
  if (tnj_is_undefined(a)) tnj_fail_undefined(s, a);
  if (tnj_is_undefined(b)) tnj_fail_undefined(s, b);
  if (a.kind == TNJ_STRING && b.kind == TNJ_STRING) {
    tnj_work(s, tnj_size(a));
    return compare_text(a, b);
  }
  if (a.kind != b.kind || !tnj_is_sequence(a))
    tnj_error(s, "'%s' not supported between instances of '%s' and '%s'", op, tnj_type_name(a), tnj_type_name(b));
  int order = 0;
  tnj_enter(s);
  size_t count = a.list->count < b.list->count ? a.list->count : b.list->count;
  for (size_t i = 0; !order && i < count; i++)
    if (!tnj_equal(s, a.list->items[i], b.list->items[i]))
      order = tnj_compare(s, a.list->items[i], b.list->items[i], op);
  tnj_leave(s);
  return order ? order : (a.list->count > b.list->count) - (a.list->count < b.list->count);
}

static bool is_nan(tnj_value v) {
  return v.kind == TNJ_FLOAT && isnan(v.real);
}

bool tnj_order(tnj_state *s, tnj_value a, tnj_value b, const char *op) {
  if (tnj_is_number(a) && tnj_is_number(b) && (is_nan(a) || is_nan(b))) return false;
  int order = tnj_compare(s, a, b, op);
  if (op[0] == '<') return op[1] ? order <= 0 : order < 0;
  return op[1] ? order >= 0 : order > 0;
}

bool tnj_contains(tnj_state *s, tnj_value container, tnj_value item) {
  if (tnj_is_string(container)) {
    if (tnj_is_undefined(item)) tnj_fail_undefined(s, item);
    if (!tnj_is_string(item))
      tnj_error(s, "'in <string>' requires string as left operand, not %s", tnj_type_name(item));
    return tnj_find(s, container, 0, tnj_size(container), tnj_data(item), tnj_size(item)) != SIZE_MAX;
  }
  if (container.kind == TNJ_DICT || (container.kind == TNJ_VIEW && container.flag == TNJ_KEYS))
    return tnj_dict_get(s, container.dict, item) != NULL;
  if (!tnj_is_iterable(container)) tnj_error(s, "argument of type '%s' is not iterable", tnj_type_name(container));
  const tnj_list *list = tnj_items(s, container);
  for (size_t i = 0; i < list->count; i++) {
    tnj_step(s);
    if (tnj_equal(s, list->items[i], item)) return true;
  }
  return false;
}

bool tnj_is_iterable(tnj_value v) {
  switch (v.kind) {
    case TNJ_UNDEFINED:
    case TNJ_STRING:
    case TNJ_LIST:
    case TNJ_TUPLE:
    case TNJ_DICT:
    case TNJ_RANGE:
    case TNJ_VIEW:
    case TNJ_ITERATOR:
    case TNJ_LOOP: return true;
    default: return false;
  }
}

static const tnj_list *characters(tnj_state *s, tnj_value v) {
  v.flag = 0; /* the characters of markup are no markup */
  tnj_list_builder out = tnj_list_start(s, tnj_size(v));
  for (size_t at = 0, next; at < tnj_size(v); at = next) {
    tnj_codepoint_at(v, at, &next);
    tnj_list_add(s, &out, tnj_part(s, v, at, next));
  }
  return tnj_list_end(s, &out);
}

const tnj_list *tnj_items(tnj_state *s, tnj_value v) {
  tnj_list_builder out;
  switch (v.kind) {
    case TNJ_LIST:
    case TNJ_TUPLE: return v.list;
    case TNJ_STRING: tnj_work(s, tnj_size(v) * 64); return characters(s, v);
    case TNJ_UNDEFINED: out = tnj_list_start(s, 0); return tnj_list_end(s, &out);
    case TNJ_RANGE:
      tnj_work(s, v.range->count * 16);
      out = tnj_list_start(s, v.range->count);
      for (size_t i = 0; i < v.range->count; i++)
        tnj_list_add(s, &out, tnj_int(v.range->start + (int64_t)i * v.range->step));
      return tnj_list_end(s, &out);
    case TNJ_DICT:
    case TNJ_VIEW:
      tnj_work(s, v.dict->count * 16);
      out = tnj_list_start(s, v.dict->count);
      for (size_t i = 0; i < v.dict->count; i++) {
        const tnj_entry *entry = &v.dict->entries[i];
        bool keys = v.kind == TNJ_DICT || v.flag == TNJ_KEYS;
        tnj_list_add(s, &out,
                     keys                   ? entry->key
                     : v.flag == TNJ_VALUES ? entry->value
                                            : tnj_pair(s, entry->key, entry->value));
      }
      return tnj_list_end(s, &out);
    case TNJ_ITERATOR: {
      tnj_iterator *iterator = v.iterator;
      if (iterator->failure) tnj_error(s, "%s", iterator->failure);
      tnj_list *rest = tnj_alloc(s, sizeof *rest);
      *rest = (tnj_list){iterator->list->items + iterator->next, iterator->list->count - iterator->next, NULL};
      iterator->next = iterator->list->count;
      return rest;
    }
    default: tnj_error(s, "'%s' object is not iterable", tnj_type_name(v));
  }
}

void tnj_sort(tnj_state *s, tnj_value *items, size_t count, bool (*less)(tnj_state *, void *, tnj_value, tnj_value),
              void *user) {
  tnj_value *from = items, *to = tnj_array(s, count, sizeof *to), *swap;
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      size_t middle = start + width < count ? start + width : count;
      size_t end = middle + width < count ? middle + width : count;
      for (size_t at = start, a = start, b = middle; at < end; at++) {
        tnj_step(s);
        bool right = a == middle || (b < end && less(s, user, from[b], from[a]));
        to[at] = right ? from[b++] : from[a++];
      }
    }
    swap = from, from = to, to = swap;
  }
  if (from != items && count) memcpy(items, from, count * sizeof *items);
}
