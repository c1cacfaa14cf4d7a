/* Filters on sequences and dictionaries. */
#include <string.h>
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#define FILTER(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)p, (void)a

FILTER(length) {
  UNUSED;
  int64_t count = tnj_length(s, self);
  if (count < 0) tnj_error(s, "object of type '%s' has no len()", tnj_type_name(self));
  return tnj_int(count);
}

FILTER(first) {
  UNUSED;
  if (self.kind == TNJ_ITERATOR) {
    tnj_iterator *iterator = self.iterator;
    if (iterator->failure) tnj_error(s, "%s", iterator->failure);
    if (iterator->next < iterator->list->count) return iterator->list->items[iterator->next++];
    return tnj_undefined_said(s, "No first item, sequence was empty.");
  }
  if (tnj_is_string(self) && tnj_size(self)) {
    size_t next;
    tnj_codepoint_at(self, 0, &next);
    return tnj_part(s, self, 0, next);
  }
  const tnj_list *items = tnj_items(s, self);
  return items->count ? items->items[0] : tnj_undefined_said(s, "No first item, sequence was empty.");
}

static void need_reversible(tnj_state *s, tnj_value v) {
  if (v.kind == TNJ_ITERATOR || !tnj_is_iterable(v)) tnj_error(s, "'%s' object is not reversible", tnj_type_name(v));
}

FILTER(last) {
  UNUSED;
  if (!tnj_is_undefined(self)) need_reversible(s, self);
  const tnj_list *items = tnj_items(s, self);
  return items->count ? items->items[items->count - 1] : tnj_undefined_said(s, "No last item, sequence was empty.");
}

FILTER(random_item) {
  UNUSED;
  (void)self;
  tnj_error(s, "the filter 'random' isn't available: the same input must render to the same text");
}

static tnj_value copy_list(tnj_state *s, tnj_kind kind, const tnj_list *list, tnj_value **items) {
  tnj_value copy = tnj_list_new(s, kind, list->count, items);
  tnj_work(s, list->count * 16);
  if (list->count) memcpy(*items, list->items, list->count * sizeof **items);
  return copy;
}

FILTER(to_list) {
  UNUSED;
  tnj_value *items;
  return copy_list(s, TNJ_LIST, tnj_items(s, self), &items);
}

FILTER(reverse) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  if (tnj_is_string(self)) {
    tnj_buffer *out = tnj_buffer_new(s, tnj_size(self));
    for (size_t i = items->count; i-- > 0;) tnj_append_string(s, out, items->items[i]);
    tnj_value text = tnj_buffer_string(s, out);
    text.flag = self.flag;
    return text;
  }
  tnj_value *reversed, list = tnj_list_new(s, TNJ_LIST, items->count, &reversed);
  for (size_t i = 0; i < items->count; i++) reversed[i] = items->items[items->count - 1 - i];
  if (self.kind == TNJ_ITERATOR) return list;
  return tnj_iterator_new(s, list.list, "reversed");
}

FILTER(items) {
  UNUSED;
  if (tnj_is_undefined(self)) return tnj_iterator_new(s, tnj_items(s, self), "generator");
  if (self.kind != TNJ_DICT) tnj_error(s, "Can only get item pairs from a mapping.");
  self.kind = TNJ_VIEW;
  self.flag = TNJ_ITEMS;
  return tnj_iterator_new(s, tnj_items(s, self), "generator");
}

FILTER(join) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  tnj_value separator = tnj_given(p[0]) ? tnj_str(s, p[0]) : tnj_string_text(s, "");
  tnj_list_builder parts = tnj_list_start(s, items->count);
  bool markup = false;
  for (size_t i = 0; i < items->count; i++) {
    tnj_value item = tnj_str(s, tnj_by_attribute(s, items->items[i], p[1], tnj_absent()));
    markup |= (item.flag & TNJ_MARKUP) != 0;
    tnj_list_add(s, &parts, item);
  }
  if (s->autoescape && markup) separator = tnj_escape(s, separator);
  if (!s->autoescape) separator.flag = 0;
  return tnj_join(s, separator, tnj_list_end(s, &parts));
}

/* ---- sorting ---- */

/* What is being sorted: pairs of (key, item). */
typedef struct ordering {
  bool reverse;
} ordering;

static bool pair_less(tnj_state *s, void *user, tnj_value a, tnj_value b) {
  const ordering *order = user;
  tnj_value x = a.list->items[0], y = b.list->items[0];
  return order->reverse ? tnj_order(s, y, x, "<") : tnj_order(s, x, y, "<");
}

static tnj_value sort_pairs(tnj_state *s, tnj_value *pairs, size_t count, bool reverse) {
  ordering order = {reverse};
  tnj_value *items, list = tnj_list_new(s, TNJ_LIST, count, &items);
  tnj_sort(s, pairs, count, pair_less, &order);
  for (size_t i = 0; i < count; i++) items[i] = pairs[i].list->items[1];
  return list;
}

static tnj_value key_of(tnj_state *s, tnj_value item, tnj_value attribute, tnj_value missing, bool case_sensitive) {
  tnj_value key = tnj_by_attribute(s, item, attribute, missing);
  return case_sensitive ? key : tnj_fold(s, key);
}

/* The keys by one attribute or several "a,b": always a list, so that equal keys needn't have an order. */
static tnj_value keys_of(tnj_state *s, tnj_value item, tnj_value attributes, bool case_sensitive) {
  tnj_list_builder keys = tnj_list_start(s, 1);
  if (!tnj_is_string(attributes)) {
    tnj_list_add(s, &keys, key_of(s, item, attributes, tnj_absent(), case_sensitive));
    return tnj_list_of(s, TNJ_LIST, tnj_list_end(s, &keys));
  }
  for (size_t at = 0, end; at <= tnj_size(attributes); at = end + 1) {
    end = tnj_find(s, attributes, at, tnj_size(attributes), ",", 1);
    if (end == SIZE_MAX) end = tnj_size(attributes);
    tnj_list_add(s, &keys, key_of(s, item, tnj_part(s, attributes, at, end), tnj_absent(), case_sensitive));
  }
  return tnj_list_of(s, TNJ_LIST, tnj_list_end(s, &keys));
}

FILTER(sort) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  bool reverse = tnj_bool_or(s, p[0], false), case_sensitive = tnj_bool_or(s, p[1], false);
  tnj_value *pairs = tnj_array(s, items->count, sizeof *pairs);
  for (size_t i = 0; i < items->count; i++)
    pairs[i] = tnj_pair(s, keys_of(s, items->items[i], p[2], case_sensitive), items->items[i]);
  return sort_pairs(s, pairs, items->count, reverse);
}

FILTER(dictsort) {
  UNUSED;
  bool case_sensitive = tnj_bool_or(s, p[0], false), by_value = tnj_given(p[1]) && tnj_text_is(p[1], "value");
  if (tnj_given(p[1]) && !by_value && !tnj_text_is(p[1], "key"))
    tnj_error(s, "You can only sort by either \"key\" or \"value\"");
  if (tnj_is_undefined(self)) tnj_fail_undefined(s, self);
  if (self.kind != TNJ_DICT) tnj_error(s, "'%s' object has no attribute 'items'", tnj_type_name(self));
  size_t count = self.dict->count;
  tnj_value *pairs = tnj_array(s, count, sizeof *pairs);
  for (size_t i = 0; i < count; i++) {
    tnj_value key = self.dict->entries[i].key, value = self.dict->entries[i].value, by = by_value ? value : key;
    pairs[i] = tnj_pair(s, case_sensitive ? by : tnj_fold(s, by), tnj_pair(s, key, value));
  }
  return sort_pairs(s, pairs, count, tnj_bool_or(s, p[2], false));
}

static tnj_value extreme(tnj_state *s, tnj_value self, const tnj_value *p, const char *op) {
  const tnj_list *items = tnj_items(s, self);
  bool case_sensitive = tnj_bool_or(s, p[0], false);
  if (!items->count) return tnj_undefined_said(s, "No aggregated item, sequence was empty.");
  tnj_value best = items->items[0], best_key = key_of(s, best, p[1], tnj_absent(), case_sensitive);
  for (size_t i = 1; i < items->count; i++) {
    tnj_value key = key_of(s, items->items[i], p[1], tnj_absent(), case_sensitive);
    if (!tnj_order(s, key, best_key, op)) continue;
    best = items->items[i];
    best_key = key;
  }
  return best;
}

FILTER(least) {
  UNUSED;
  return extreme(s, self, p, "<");
}

FILTER(greatest) {
  UNUSED;
  return extreme(s, self, p, ">");
}

FILTER(sum) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  tnj_value total = tnj_given(p[1]) ? p[1] : tnj_int(0);
  if (tnj_is_string(total)) tnj_error(s, "sum() can't sum strings [use ''.join(seq) instead]");
  for (size_t i = 0; i < items->count; i++)
    total = tnj_binary(s, TNJ_ADD, total, tnj_by_attribute(s, items->items[i], p[0], tnj_absent()));
  return total;
}

FILTER(unique) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  tnj_dict *seen = tnj_dict_new(s, 0);
  tnj_list_builder out = tnj_list_start(s, 0);
  for (size_t i = 0; i < items->count; i++) {
    tnj_value key = key_of(s, items->items[i], p[1], tnj_absent(), tnj_bool_or(s, p[0], false));
    if (tnj_dict_get(s, seen, key)) continue;
    tnj_dict_set(s, seen, key, tnj_none());
    tnj_list_add(s, &out, items->items[i]);
  }
  return tnj_iterator_new(s, tnj_list_end(s, &out), "generator");
}

FILTER(groupby) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  bool case_sensitive = tnj_bool_or(s, p[2], false);
  tnj_value *pairs = tnj_array(s, items->count, sizeof *pairs);
  for (size_t i = 0; i < items->count; i++)
    pairs[i] = tnj_pair(s, key_of(s, items->items[i], p[0], p[1], case_sensitive), items->items[i]);
  tnj_sort(s, pairs, items->count, pair_less, &(ordering){false});
  tnj_list_builder groups = tnj_list_start(s, 0);
  for (size_t i = 0, end; i < items->count; i = end) {
    tnj_list_builder group = tnj_list_start(s, 0);
    for (end = i; end < items->count && tnj_equal(s, pairs[end].list->items[0], pairs[i].list->items[0]); end++)
      tnj_list_add(s, &group, pairs[end].list->items[1]);
    if (end == i) end++; /* a key that isn't equal to itself */
    tnj_value grouper = tnj_by_attribute(s, pairs[i].list->items[1], p[0], p[1]);
    tnj_value pair = tnj_pair(s, grouper, tnj_list_of(s, TNJ_LIST, tnj_list_end(s, &group)));
    pair.flag = TNJ_GROUP;
    tnj_list_add(s, &groups, pair);
  }
  return tnj_list_of(s, TNJ_LIST, tnj_list_end(s, &groups));
}

/* ---- cutting into pieces ---- */

static tnj_value list_of_part(tnj_state *s, const tnj_list *all, size_t start, size_t count, size_t filled,
                              tnj_value filler) {
  tnj_value *items, list = tnj_list_new(s, TNJ_LIST, count + filled, &items);
  for (size_t i = 0; i < count; i++) items[i] = all->items[start + i];
  for (size_t i = 0; i < filled; i++) items[count + i] = filler;
  return list;
}

static bool fills(tnj_value filler) {
  return tnj_given(filler) && filler.kind != TNJ_NONE;
}

FILTER(batch) {
  UNUSED;
  const tnj_list *all = tnj_items(s, self);
  int64_t size = tnj_need_integer(s, p[0], "batch: linecount");
  tnj_list_builder out = tnj_list_start(s, 0);
  size_t line = size < 1 ? 1 : (size_t)size;
  for (size_t start = 0; start < all->count; start += line) {
    size_t count = all->count - start < line ? all->count - start : line;
    tnj_list_add(s, &out, list_of_part(s, all, start, count, fills(p[1]) ? line - count : 0, p[1]));
  }
  return tnj_iterator_new(s, tnj_list_end(s, &out), "generator");
}

FILTER(slice) {
  UNUSED;
  const tnj_list *all = tnj_items(s, self);
  int64_t slices = tnj_need_integer(s, p[0], "slice: slices");
  if (slices == 0) tnj_error(s, "integer division or modulo by zero");
  tnj_list_builder out = tnj_list_start(s, 0);
  size_t number = slices > 0 ? (size_t)slices : 0, each = number ? all->count / number : 0,
         longer = number ? all->count % number : 0, start = 0;
  for (size_t i = 0; i < number; i++) {
    size_t count = each + (i < longer);
    bool filled = fills(p[1]) && i >= longer;
    tnj_step(s);
    tnj_list_add(s, &out, list_of_part(s, all, start, count, filled, p[1]));
    start += count;
  }
  return tnj_iterator_new(s, tnj_list_end(s, &out), "generator");
}

TNJ_LAZY(items)
TNJ_LAZY(unique)
TNJ_LAZY(batch)
TNJ_LAZY(slice)

const tnj_builtin tnj_item_filters[] = {{"length", length, "", 0},
                                        {"count", length, "", 0},
                                        {"first", first, "", 0},
                                        {"last", last, "", 0},
                                        {"random", random_item, "", 0},
                                        {"list", to_list, "", 0},
                                        {"reverse", reverse, "", 0},
                                        {"items", items_lazy, "", 0},
                                        {"join", join, "d attribute", 0},
                                        {"sort", sort, "reverse case_sensitive attribute", 0},
                                        {"dictsort", dictsort, "case_sensitive by reverse", 0},
                                        {"min", least, "case_sensitive attribute", 0},
                                        {"max", greatest, "case_sensitive attribute", 0},
                                        {"sum", sum, "attribute start", 0},
                                        {"unique", unique_lazy, "case_sensitive attribute", 0},
                                        {"groupby", groupby, "attribute default case_sensitive", 1},
                                        {"batch", batch_lazy, "linecount fill_with", 1},
                                        {"slice", slice_lazy, "slices fill_with", 1},
                                        {0}};
