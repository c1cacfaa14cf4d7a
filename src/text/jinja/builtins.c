/* Finding filters, tests, methods and global functions by name, and what they share. */
#include "text/jinja/builtins.h"

#include <string.h>
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

const tnj_builtin *tnj_find_builtin(const tnj_builtin *table, tnj_value name) {
  for (; table->name; table++)
    if (tnj_text_is(name, table->name)) return table;
  return NULL;
}

const tnj_builtin *tnj_find_filter(tnj_value name) {
  const tnj_builtin *const tables[] = {tnj_text_filters, tnj_markup_filters, tnj_number_filters, tnj_item_filters,
                                       tnj_choice_filters};
  for (size_t i = 0; i < TN_COUNT(tables); i++) {
    const tnj_builtin *found = tnj_find_builtin(tables[i], name);
    if (found) return found;
  }
  return NULL;
}

const tnj_builtin *tnj_find_test(tnj_value name) {
  return tnj_find_builtin(tnj_tests, name);
}

bool tnj_find_global(tnj_value name, tnj_value *value) {
  const tnj_builtin *function = tnj_find_builtin(tnj_globals, name);
  *value = (tnj_value){.kind = TNJ_FUNCTION, .function = function};
  return function != NULL;
}

/* ---- attributes ---- */

/* Methods that change their object: the sandbox forbids them. */
static bool changes(tnj_value object, tnj_value name) {
  static const char *const list[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", NULL};
  static const char *const dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
  const char *const *names = object.kind == TNJ_LIST ? list : object.kind == TNJ_DICT ? dict : NULL;
  for (; names && *names; names++)
    if (tnj_text_is(name, *names)) return true;
  return false;
}

static bool is_internal(tnj_value name) {
  size_t size = tnj_size(name);
  const char *data = tnj_data(name);
  return size > 4 && memcmp(data, "__", 2) == 0 && memcmp(data + size - 2, "__", 2) == 0;
}

static bool property(tnj_state *s, tnj_value object, tnj_value name, tnj_value *value) {
  switch (object.kind) {
    case TNJ_LOOP: return tnj_loop_attribute(s, object.loop, name, value);
    case TNJ_NAMESPACE: {
      const tnj_value *member = tnj_dict_get(s, object.dict, name);
      if (member) *value = *member;
      return member != NULL;
    }
    case TNJ_TUPLE:
      if (!(object.flag & TNJ_GROUP)) return false;
      if (tnj_text_is(name, "grouper")) return *value = object.list->items[0], true;
      if (tnj_text_is(name, "list")) return *value = object.list->items[1], true;
      return false;
    case TNJ_RANGE:
      if (tnj_text_is(name, "start")) return *value = tnj_int(object.range->start), true;
      if (tnj_text_is(name, "stop")) return *value = tnj_int(object.range->stop), true;
      if (tnj_text_is(name, "step")) return *value = tnj_int(object.range->step), true;
      return false;
    case TNJ_CYCLER:
      if (!tnj_text_is(name, "current")) return false;
      *value = object.cycler->items->items[object.cycler->position];
      return true;
    case TNJ_BOOL: return property(s, tnj_int(object.boolean), name, value);
    case TNJ_INT:
    case TNJ_BIG:
    case TNJ_FLOAT:
      if (tnj_text_is(name, "real") || (object.kind != TNJ_FLOAT && tnj_text_is(name, "numerator")))
        return *value = object, true;
      if (tnj_text_is(name, "imag")) return *value = object.kind == TNJ_FLOAT ? tnj_float(0) : tnj_int(0), true;
      if (object.kind != TNJ_FLOAT && tnj_text_is(name, "denominator")) return *value = tnj_int(1), true;
      return false;
    default: return false;
  }
}

static bool macro_property(tnj_state *s, const tnj_macro *macro, tnj_value name, tnj_value *value) {
  const tnj_signature *signature = macro->node->signature;
  if (tnj_text_is(name, "name"))
    return *value = macro->node->kind == TNJ_N_MACRO ? macro->node->name : tnj_none(), true;
  if (tnj_text_is(name, "catch_kwargs")) return *value = tnj_bool(tnj_given(signature->keywords)), true;
  if (tnj_text_is(name, "catch_varargs")) return *value = tnj_bool(tnj_given(signature->more)), true;
  if (tnj_text_is(name, "caller")) return *value = tnj_bool(tnj_given(signature->caller)), true;
  if (!tnj_text_is(name, "arguments")) return false;
  tnj_value *items;
  *value = tnj_list_new(s, TNJ_TUPLE, signature->count, &items);
  for (size_t i = 0; i < signature->count; i++) items[i] = signature->names[i];
  return true;
}

static const tnj_builtin *find_method(tnj_value object, tnj_value name) {
  const tnj_builtin *found = NULL;
  switch (object.kind) {
    case TNJ_STRING:
      found = tnj_find_builtin(tnj_text_methods, name);
      return found ? found : tnj_find_builtin(tnj_text_questions, name);
    case TNJ_LIST:
    case TNJ_TUPLE:
    case TNJ_RANGE:
      found = tnj_find_builtin(tnj_list_methods, name);
      return found && object.kind != TNJ_LIST && strcmp(found->name, "copy") == 0 ? NULL : found;
    case TNJ_DICT: return tnj_find_builtin(tnj_dict_methods, name);
    case TNJ_BOOL:
    case TNJ_INT:
    case TNJ_BIG: return tnj_find_builtin(tnj_integer_methods, name);
    case TNJ_FLOAT: return tnj_find_builtin(tnj_float_methods, name);
    case TNJ_LOOP: return tnj_find_builtin(tnj_loop_methods, name);
    case TNJ_CYCLER: return tnj_find_builtin(tnj_cycler_methods, name);
    default: return NULL;
  }
}

bool tnj_find_attribute(tnj_state *s, tnj_value object, tnj_value name, tnj_value *value, bool *unsafe) {
  if (object.kind == TNJ_MACRO && macro_property(s, object.macro, name, value)) return true;
  if (property(s, object, name, value)) return true;
  const tnj_builtin *method = find_method(object, name);
  if (!method) {
    *unsafe = changes(object, name) || (is_internal(name) && object.kind != TNJ_NAMESPACE);
    return false;
  }
  tnj_method *bound = tnj_alloc(s, sizeof *bound);
  *bound = (tnj_method){object, method};
  *value = (tnj_value){.kind = TNJ_METHOD, .method = bound};
  return true;
}

/* ---- shared by the tables ---- */

int64_t tnj_integer_or(tnj_state *s, tnj_value argument, int64_t missing, const char *name) {
  if (!tnj_given(argument) || argument.kind == TNJ_NONE) return missing;
  return tnj_need_integer(s, argument, name);
}

bool tnj_bool_or(tnj_state *s, tnj_value argument, bool missing) {
  return tnj_given(argument) ? tnj_truth(s, argument) : missing;
}

tnj_value tnj_need_string(tnj_state *s, tnj_value argument, const char *name) {
  if (tnj_is_undefined(argument)) tnj_fail_undefined(s, argument);
  if (!tnj_is_string(argument)) tnj_error(s, "%s must be str, not %s", name, tnj_type_name(argument));
  return argument;
}

static tnj_value attribute_part(tnj_state *s, tnj_value item, tnj_value name) {
  bool digits = tnj_size(name) > 0;
  tnj_value index;
  for (size_t i = 0; i < tnj_size(name); i++) digits &= tnj_data(name)[i] >= '0' && tnj_data(name)[i] <= '9';
  return tnj_subscript(s, item, digits && tnj_parse_integer(s, name, 10, &index) ? index : name);
}

tnj_value tnj_by_attribute(tnj_state *s, tnj_value item, tnj_value attribute, tnj_value missing) {
  if (!tnj_given(attribute) || attribute.kind == TNJ_NONE) return item;
  if (!tnj_is_string(attribute)) {
    item = tnj_subscript(s, item, attribute);
    return tnj_is_undefined(item) && tnj_given(missing) ? missing : item;
  }
  for (size_t at = 0, end; at <= tnj_size(attribute); at = end + 1) {
    end = tnj_find(s, attribute, at, tnj_size(attribute), ".", 1);
    if (end == SIZE_MAX) end = tnj_size(attribute);
    item = attribute_part(s, item, tnj_part(s, attribute, at, end));
    if (tnj_is_undefined(item) && tnj_given(missing)) item = missing;
  }
  return item;
}

const tnj_list *tnj_split_lines(tnj_state *s, tnj_value text, bool keep_ends) {
  tnj_list_builder lines = tnj_list_start(s, 0);
  size_t start = 0, next;
  tnj_work(s, tnj_size(text));
  for (size_t at = 0; at < tnj_size(text); at = next) {
    uint32_t c = tnj_codepoint_at(text, at, &next);
    if (!tnj_is_line_end(c)) continue;
    if (c == '\r' && next < tnj_size(text) && tnj_data(text)[next] == '\n') next++;
    tnj_list_add(s, &lines, tnj_part(s, text, start, keep_ends ? next : at));
    start = next;
  }
  if (start < tnj_size(text)) tnj_list_add(s, &lines, tnj_part(s, text, start, tnj_size(text)));
  return tnj_list_end(s, &lines);
}

/* The last `limit` + 1 parts of `all` words, the ones in front joined as they stand. `starts` are their positions. */
static const tnj_list *join_left(tnj_state *s, tnj_value text, const tnj_list *all, const size_t *ends, int64_t limit) {
  if (limit < 0 || all->count <= (size_t)limit) return all;
  size_t first = all->count - (size_t)limit;
  tnj_list_builder out = tnj_list_start(s, (size_t)limit + 1);
  tnj_value head = tnj_part(s, text, 0, ends[first - 1]);
  tnj_list_add(s, &out, head);
  for (size_t i = first; i < all->count; i++) tnj_list_add(s, &out, all->items[i]);
  return tnj_list_end(s, &out);
}

const tnj_list *tnj_split_space(tnj_state *s, tnj_value text, int64_t limit, bool right) {
  tnj_list_builder words = tnj_list_start(s, 0);
  size_t at = 0, next, capacity = 0, *ends = NULL, count = 0;
  tnj_work(s, tnj_size(text) * 2);
  while (at < tnj_size(text)) {
    if (tnj_is_space(tnj_codepoint_at(text, at, &next))) {
      at = next;
      continue;
    }
    size_t start = at;
    bool last = !right && limit >= 0 && words.store->used == (size_t)limit;
    while (at < tnj_size(text) && (last || !tnj_is_space(tnj_codepoint_at(text, at, &next))))
      at = last ? tnj_size(text) : next;
    tnj_value word = tnj_part(s, text, start, at);
    tnj_list_add(s, &words, word);
    if (!right) continue;
    if (count == capacity) {
      size_t *more = tnj_array(s, capacity * 2 + 8, sizeof *more);
      if (count) memcpy(more, ends, count * sizeof *more);
      ends = more;
      capacity = capacity * 2 + 8;
    }
    ends[count++] = at;
  }
  const tnj_list *all = tnj_list_end(s, &words);
  if (right) return join_left(s, text, all, ends, limit);
  return all;
}

tnj_value tnj_join(tnj_state *s, tnj_value separator, const tnj_list *items) {
  tnj_buffer *out = tnj_buffer_new(s, items->count * (tnj_size(separator) + 8));
  bool markup = separator.flag & TNJ_MARKUP;
  for (size_t i = 0; i < items->count; i++) {
    if (i) tnj_append_string(s, out, separator);
    tnj_value item = tnj_str(s, items->items[i]);
    tnj_append_string(s, out, markup ? tnj_escape(s, item) : item);
    tnj_step(s);
  }
  tnj_value joined = tnj_buffer_string(s, out);
  joined.flag = separator.flag;
  return joined;
}

tnj_value tnj_pad(tnj_state *s, tnj_value text, int64_t width, tnj_value fill, char align) {
  int64_t length = (int64_t)tnj_codepoints(s, text), room = width - length;
  if (room <= 0) return text;
  if (!tnj_given(fill)) fill = tnj_string_new(s, " ", 1, false);
  if (tnj_codepoints(s, fill) != 1) tnj_error(s, "The fill character must be exactly one character long");
  /* str.center puts the odd one to the left only when the width is odd */
  int64_t left = align == '<' ? 0 : align == '>' ? room : room / 2 + (room & width & 1);
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(text));
  tnj_append_fill(s, out, fill, (size_t)left);
  tnj_append_string(s, out, text);
  tnj_append_fill(s, out, fill, (size_t)(room - left));
  tnj_value padded = tnj_buffer_string(s, out);
  padded.flag = text.flag;
  return padded;
}

/* ---- generators ---- */

/* An iterator without items that fails with the message at hand as soon as it is used. */
static tnj_value failing_iterator(tnj_state *s) {
  tnj_list_builder none = tnj_list_start(s, 0);
  tnj_value iterator = tnj_iterator_new(s, tnj_list_end(s, &none), "generator");
  char *message = tnj_alloc(s, s->message.size + 1);
  if (s->message.size) memcpy(message, s->message.data, s->message.size);
  message[s->message.size] = 0;
  iterator.iterator->failure = message;
  return iterator;
}

tnj_value tnj_lazily(tnj_state *s, tnj_filter filter, tnj_value self, const tnj_value *p, const tnj_arguments *a) {
  jmp_buf here, *outside = s->escape;
  const size_t depth = s->depth;
  s->escape = &here;
  if (setjmp(here)) {
    s->escape = outside;
    if (s->status != TN_E_INVALID || s->raised) longjmp(*outside, 1);
    s->status = TN_OK;
    s->depth = depth;
    return failing_iterator(s);
  }
  tnj_value value = filter(s, self, p, a);
  s->escape = outside;
  return value;
}
