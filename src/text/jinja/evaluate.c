/* Evaluating expressions. */
#include <string.h>
#include "text/jinja/format.h"
#include "text/jinja/program.h"
#include "text/jinja/text.h"

/* ---- variables ---- */

tnj_frame *tnj_frame_new(tnj_state *s, tnj_frame *parent) {
  tnj_frame *frame = tnj_alloc(s, sizeof *frame);
  frame->parent = parent;
  return frame;
}

void tnj_frame_start(tnj_state *s, tnj_frame *frame, const tnj_node *body) {
  frame->count = 0;
  for (size_t i = 0; i < body->hidden->count; i++) tnj_frame_set(s, frame, body->hidden->items[i], tnj_absent());
}

tnj_frame *tnj_frame_for(tnj_state *s, tnj_frame *parent, const tnj_node *body) {
  tnj_frame *frame = tnj_frame_new(s, parent);
  tnj_frame_start(s, frame, body);
  return frame;
}

void tnj_frame_set(tnj_state *s, tnj_frame *frame, tnj_value name, tnj_value value) {
  for (size_t i = 0; i < frame->count; i++) {
    if (frame->variables[i].name != name.string) continue;
    frame->variables[i].value = value;
    return;
  }
  if (frame->count == frame->capacity) {
    size_t capacity = frame->capacity * 2 + 3;
    tnj_variable *variables = tnj_array(s, capacity, sizeof *variables);
    if (frame->count) memcpy(variables, frame->variables, frame->count * sizeof *variables);
    frame->variables = variables;
    frame->capacity = capacity;
  }
  frame->variables[frame->count++] = (tnj_variable){name.string, value};
}

static tnj_value lookup(tnj_state *s, const tnj_frame *frame, tnj_value name) {
  for (; frame; frame = frame->parent)
    for (size_t i = 0; i < frame->count; i++)
      if (frame->variables[i].name == name.string) {
        tnj_value found = frame->variables[i].value;
        return tnj_given(found) ? found : tnj_undefined_name(s, name);
      }
  const tnj_value *value = tnj_dict_get(s, s->context, name);
  tnj_value global;
  if (value) return *value;
  return tnj_find_global(name, &global) ? global : tnj_undefined_name(s, name);
}

/* ---- operators ---- */

static tnj_value repeat(tnj_state *s, tnj_value v, tnj_value number) {
  if (number.kind == TNJ_BIG) tnj_fail(s, TN_E_LIMIT, "cannot fit 'int' into an index-sized integer");
  int64_t times = tnj_need_integer(s, number, "repetition");
  size_t count = times > 0 ? (size_t)times : 0;
  if (tnj_is_string(v)) {
    tnj_buffer *out = tnj_buffer_new(s, 0);
    tnj_append_fill(s, out, v, count);
    tnj_value repeated = tnj_buffer_string(s, out);
    repeated.flag = v.flag;
    return repeated;
  }
  size_t total;
  if (!tn_mul_size(count, v.list->count, &total)) total = SIZE_MAX / 64;
  tnj_value *items;
  tnj_value repeated = tnj_list_new(s, v.kind, total, &items);
  tnj_work(s, total * 16);
  for (size_t i = 0; i < total; i++) items[i] = v.list->items[i % v.list->count];
  return repeated;
}

static bool repeats(tnj_value v) {
  return tnj_is_string(v) || tnj_is_sequence(v);
}

_Noreturn static void fail_operands(tnj_state *s, tnj_operator operation, tnj_value a, tnj_value b) {
  static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  if (tnj_is_undefined(a)) tnj_fail_undefined(s, a);
  if (tnj_is_undefined(b)) tnj_fail_undefined(s, b);
  if (operation == TNJ_ADD && (tnj_is_string(a) || tnj_is_sequence(a)))
    tnj_error(s, "can only concatenate %s (not \"%s\") to %s", tnj_type_name(a), tnj_type_name(b), tnj_type_name(a));
  tnj_error(s, "unsupported operand type(s) for %s: '%s' and '%s'", signs[operation], tnj_type_name(a),
            tnj_type_name(b));
}

tnj_value tnj_binary(tnj_state *s, tnj_operator operation, tnj_value a, tnj_value b) {
  if (tnj_is_number(a) && tnj_is_number(b)) return tnj_arithmetic(s, operation, a, b);
  if (operation == TNJ_ADD) {
    if (tnj_is_string(a) && tnj_is_string(b)) return tnj_concat(s, a, b);
    if (tnj_is_sequence(a) && a.kind == b.kind) return tnj_list_of(s, a.kind, tnj_list_join(s, a.list, b.list));
  }
  if (operation == TNJ_MULTIPLY && repeats(a) && tnj_is_integer(b)) return repeat(s, a, b);
  if (operation == TNJ_MULTIPLY && repeats(b) && tnj_is_integer(a)) return repeat(s, b, a);
  if (operation == TNJ_MODULO && tnj_is_string(a)) return tnj_format_percent(s, a, b);
  fail_operands(s, operation, a, b);
}

static bool compare(tnj_state *s, tnj_comparison comparison, tnj_value a, tnj_value b) {
  switch (comparison) {
    case TNJ_EQUAL: return tnj_equal(s, a, b);
    case TNJ_NOT_EQUAL: return !tnj_equal(s, a, b);
    case TNJ_LESS: return tnj_order(s, a, b, "<");
    case TNJ_LESS_EQUAL: return tnj_order(s, a, b, "<=");
    case TNJ_GREATER: return tnj_order(s, a, b, ">");
    case TNJ_GREATER_EQUAL: return tnj_order(s, a, b, ">=");
    case TNJ_IN: return tnj_contains(s, b, a);
    case TNJ_NOT_IN: return !tnj_contains(s, b, a);
  }
  return false;
}

static tnj_value compare_chain(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_value left = tnj_evaluate(s, frame, node->items[0]);
  for (size_t i = 1; i < node->count; i++) {
    tnj_value right = tnj_evaluate(s, frame, node->items[i]);
    s->offset = node->offset;
    if (!compare(s, node->operators[i - 1], left, right)) return tnj_bool(false);
    left = right;
  }
  return tnj_bool(true);
}

static tnj_value sign(tnj_state *s, const tnj_node *node, tnj_value v) {
  s->offset = node->offset;
  if (tnj_is_undefined(v)) tnj_fail_undefined(s, v);
  bool negate = node->kind == TNJ_N_NEGATE;
  if (!tnj_is_number(v)) tnj_error(s, "bad operand type for unary %s: '%s'", negate ? "-" : "+", tnj_type_name(v));
  if (negate) return tnj_negate(s, v);
  return v.kind == TNJ_BOOL ? tnj_int(v.boolean) : v;
}

/* ---- subscripts ---- */

static tnj_value codepoint_of(tnj_state *s, tnj_value text, size_t index) {
  size_t at = tnj_position(s, text, index), next;
  tnj_codepoint_at(text, at, &next);
  return tnj_part(s, text, at, next);
}

/* object[index] as Python has it; false for a LookupError or TypeError. */
static bool item(tnj_state *s, tnj_value object, tnj_value index, tnj_value *value) {
  if (object.kind == TNJ_DICT) {
    if (index.kind == TNJ_LIST || index.kind == TNJ_DICT) return false;
    const tnj_value *found = tnj_dict_get(s, object.dict, index);
    if (found) *value = *found;
    return found != NULL;
  }
  int64_t at, count;
  bool indexable = tnj_is_sequence(object) || tnj_is_string(object) || object.kind == TNJ_RANGE;
  if (!indexable || !tnj_to_int64(index, &at)) return false;
  count = tnj_length(s, object);
  if (at < 0) at += count;
  if (at < 0 || at >= count) return false;
  if (tnj_is_sequence(object))
    *value = object.list->items[at];
  else if (tnj_is_string(object))
    *value = codepoint_of(s, object, (size_t)at);
  else
    *value = tnj_int(object.range->start + at * object.range->step);
  return true;
}

tnj_value tnj_subscript(tnj_state *s, tnj_value object, tnj_value index) {
  tnj_value value;
  bool unsafe = false;
  if (tnj_is_undefined(object)) tnj_fail_undefined(s, object);
  if (item(s, object, index, &value)) return value;
  if (tnj_is_string(index) && tnj_find_attribute(s, object, index, &value, &unsafe)) return value;
  return unsafe ? tnj_undefined_unsafe(s, object, index) : tnj_undefined_member(s, object, index);
}

tnj_value tnj_attribute(tnj_state *s, tnj_value object, tnj_value name) {
  tnj_value value;
  bool unsafe = false;
  if (tnj_is_undefined(object)) tnj_fail_undefined(s, object);
  if (tnj_find_attribute(s, object, name, &value, &unsafe)) return value;
  if (unsafe) return tnj_undefined_unsafe(s, object, name);
  if (item(s, object, name, &value)) return value;
  return tnj_undefined_member(s, object, name);
}

static int64_t slice_bound(tnj_state *s, tnj_frame *frame, const tnj_node *node, int64_t missing) {
  tnj_value v = node ? tnj_evaluate(s, frame, node) : tnj_none();
  return v.kind == TNJ_NONE ? missing : tnj_need_integer(s, v, "slice indices must be integers or None");
}

static int64_t clamp(int64_t bound, int64_t count, int64_t step) {
  if (bound < 0) bound = bound < -count ? (step < 0 ? -1 : 0) : bound + count;
  if (bound >= count) bound = step < 0 ? count - 1 : count;
  return bound;
}

static tnj_value slice_text(tnj_state *s, tnj_value text, int64_t start, int64_t step, size_t count) {
  if (step == 1) {
    size_t from = tnj_position(s, text, (size_t)start);
    return tnj_part(s, text, from, tnj_position(s, text, (size_t)start + count));
  }
  const tnj_list *all = tnj_items(s, text);
  tnj_buffer *out = tnj_buffer_new(s, count);
  for (size_t i = 0; i < count; i++) tnj_append_string(s, out, all->items[start + (int64_t)i * step]);
  tnj_value part = tnj_buffer_string(s, out);
  part.flag = text.flag;
  return part;
}

static tnj_value slice_of(tnj_state *s, tnj_value object, int64_t start, int64_t stop, int64_t step, size_t count) {
  if (tnj_is_string(object)) return slice_text(s, object, start, step, count);
  if (object.kind == TNJ_RANGE) {
    tnj_range *range = tnj_alloc(s, sizeof *range);
    int64_t by = object.range->step * step, from = object.range->start + start * object.range->step;
    *range = (tnj_range){from, object.range->start + stop * object.range->step, by, count};
    return (tnj_value){.kind = TNJ_RANGE, .range = range};
  }
  if (step == 1) {
    tnj_list *part = tnj_alloc(s, sizeof *part);
    *part = (tnj_list){count ? object.list->items + start : NULL, count, NULL};
    return tnj_list_of(s, object.kind, part);
  }
  tnj_value *items;
  tnj_value list = tnj_list_new(s, object.kind, count, &items);
  tnj_work(s, count * 16);
  for (size_t i = 0; i < count; i++) items[i] = object.list->items[start + (int64_t)i * step];
  return list;
}

static tnj_value slice(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_value object = tnj_evaluate(s, frame, node->first);
  int64_t step = slice_bound(s, frame, node->items[2], 1);
  int64_t start = slice_bound(s, frame, node->items[0], step < 0 ? INT64_MAX : 0);
  int64_t stop = slice_bound(s, frame, node->items[1], step < 0 ? INT64_MIN : INT64_MAX);
  s->offset = node->offset;
  if (tnj_is_undefined(object)) tnj_fail_undefined(s, object);
  if (!tnj_is_string(object) && !tnj_is_sequence(object) && object.kind != TNJ_RANGE)
    tnj_error(s, "'%s' object can't be sliced", tnj_type_name(object));
  if (step == 0) tnj_error(s, "slice step cannot be zero");
  int64_t count = tnj_length(s, object);
  if (step < -count - 1) step = -count - 1; /* far enough to take one item; keeps the sums below small */
  if (step > count + 1) step = count + 1;
  start = clamp(start, count, step);
  stop = stop == INT64_MIN && step < 0 ? -1 : clamp(stop, count, step);
  int64_t distance = step > 0 ? stop - start : start - stop, by = step > 0 ? step : -step;
  return slice_of(s, object, start, stop, step, distance > 0 ? (size_t)((distance + by - 1) / by) : 0);
}

/* ---- literals ---- */

static tnj_value list_literal(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_value *items;
  tnj_value list = tnj_list_new(s, node->kind == TNJ_N_LIST ? TNJ_LIST : TNJ_TUPLE, node->count, &items);
  for (size_t i = 0; i < node->count; i++) items[i] = tnj_evaluate(s, frame, node->items[i]);
  return list;
}

static tnj_value dict_literal(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_dict *dict = tnj_dict_new(s, node->count / 2);
  for (size_t i = 0; i < node->count; i += 2) {
    tnj_value key = tnj_evaluate(s, frame, node->items[i]);
    tnj_value value = tnj_evaluate(s, frame, node->items[i + 1]);
    s->offset = node->offset;
    tnj_dict_set(s, dict, key, value);
  }
  return tnj_dict_value(dict);
}

static tnj_value concat(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_value first = tnj_str(s, tnj_evaluate(s, frame, node->items[0]));
  first.flag = 0;
  for (size_t i = 1; i < node->count; i++) {
    tnj_value more = tnj_str(s, tnj_evaluate(s, frame, node->items[i]));
    more.flag = 0;
    first = tnj_concat(s, first, more);
  }
  return first;
}

static tnj_value condition(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  if (tnj_truth(s, tnj_evaluate(s, frame, node->first))) return tnj_evaluate(s, frame, node->second);
  if (node->third) return tnj_evaluate(s, frame, node->third);
  return tnj_undefined_said(s, "the inline if-expression evaluated to false and no else section was defined.");
}

/* ---- calls ---- */

static void add_star(tnj_state *s, tnj_list_builder *items, tnj_value more) {
  if (!tnj_is_iterable(more)) tnj_error(s, "argument after * must be an iterable, not %s", tnj_type_name(more));
  const tnj_list *list = tnj_items(s, more);
  for (size_t i = 0; i < list->count; i++) tnj_list_add(s, items, list->items[i]);
}

static void gather(tnj_state *s, tnj_frame *frame, const tnj_call *call, tnj_arguments *out) {
  *out = (tnj_arguments){0};
  if (!call) return;
  tnj_list_builder items = tnj_list_start(s, call->count);
  for (size_t i = 0; i < call->count; i++) tnj_list_add(s, &items, tnj_evaluate(s, frame, call->items[i]));
  if (call->star) add_star(s, &items, tnj_evaluate(s, frame, call->star));
  tnj_value more = call->star_star ? tnj_evaluate(s, frame, call->star_star) : tnj_absent();
  if (tnj_given(more) && more.kind != TNJ_DICT)
    tnj_error(s, "argument after ** must be a mapping, not %s", tnj_type_name(more));
  size_t extra = tnj_given(more) ? more.dict->count : 0;
  tnj_keyword *keywords = tnj_array(s, call->keyword_count + extra, sizeof *keywords);
  for (size_t i = 0; i < call->keyword_count; i++)
    keywords[i] = (tnj_keyword){call->keyword_names[i], tnj_evaluate(s, frame, call->keywords[i])};
  for (size_t i = 0; i < extra; i++) {
    if (!tnj_is_string(more.dict->entries[i].key)) tnj_error(s, "keywords must be strings");
    keywords[call->keyword_count + i] = (tnj_keyword){more.dict->entries[i].key, more.dict->entries[i].value};
  }
  *out = (tnj_arguments){items.store->items, items.store->used, keywords, call->keyword_count + extra};
}

tnj_value tnj_evaluate_call(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_value caller) {
  tnj_value callee = tnj_evaluate(s, frame, node->first);
  tnj_arguments arguments;
  gather(s, frame, node->call, &arguments);
  s->offset = node->offset;
  if (tnj_given(caller)) {
    tnj_keyword *keywords = tnj_array(s, arguments.keyword_count + 1, sizeof *keywords);
    for (size_t i = 0; i < arguments.keyword_count; i++) keywords[i] = arguments.keywords[i];
    keywords[arguments.keyword_count++] = (tnj_keyword){tnj_string_text(s, "caller"), caller};
    arguments.keywords = keywords;
  }
  return tnj_call_value(s, callee, &arguments);
}

static tnj_value apply(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_value value) {
  tnj_arguments arguments;
  gather(s, frame, node->call, &arguments);
  s->offset = node->offset;
  if (!node->builtin)
    tnj_error(s, "No %s named '%.*s'.", node->kind == TNJ_N_TEST ? "test" : "filter",
              (int)(tnj_size(node->name) < 99 ? tnj_size(node->name) : 99), tnj_data(node->name));
  return tnj_call_builtin(s, node->builtin, value, &arguments);
}

tnj_value tnj_apply_filters(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_value value) {
  tnj_enter(s);
  if (node->first) value = tnj_apply_filters(s, frame, node->first, value);
  value = apply(s, frame, node, value);
  tnj_leave(s);
  return value;
}

/* ---- */

static tnj_value evaluate_operator(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_value first = tnj_evaluate(s, frame, node->first), second;
  switch (node->kind) {
    case TNJ_N_NOT: return tnj_bool(!tnj_truth(s, first));
    case TNJ_N_AND: return tnj_truth(s, first) ? tnj_evaluate(s, frame, node->second) : first;
    case TNJ_N_OR: return tnj_truth(s, first) ? first : tnj_evaluate(s, frame, node->second);
    case TNJ_N_ATTRIBUTE: s->offset = node->offset; return tnj_attribute(s, first, node->name);
    case TNJ_N_FILTER:
    case TNJ_N_TEST: return apply(s, frame, node, first);
    case TNJ_N_NEGATE:
    case TNJ_N_POSITIVE: return sign(s, node, first);
    default: break;
  }
  second = tnj_evaluate(s, frame, node->second);
  s->offset = node->offset;
  if (node->kind == TNJ_N_SUBSCRIPT) return tnj_subscript(s, first, second);
  return tnj_binary(s, node->operation, first, second);
}

static tnj_value evaluate(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  switch (node->kind) {
    case TNJ_N_LIST:
    case TNJ_N_TUPLE: return list_literal(s, frame, node);
    case TNJ_N_DICT: return dict_literal(s, frame, node);
    case TNJ_N_CONCAT: return concat(s, frame, node);
    case TNJ_N_COMPARE: return compare_chain(s, frame, node);
    case TNJ_N_CONDITION: return condition(s, frame, node);
    case TNJ_N_SLICE: return slice(s, frame, node);
    case TNJ_N_CALL: return tnj_evaluate_call(s, frame, node, tnj_absent());
    default: return evaluate_operator(s, frame, node);
  }
}

tnj_value tnj_evaluate(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  if (node->kind == TNJ_N_CONSTANT) return node->name;
  tnj_enter(s);
  s->offset = node->offset;
  tnj_value value = node->kind == TNJ_N_NAME ? lookup(s, frame, node->name) : evaluate(s, frame, node);
  tnj_leave(s);
  return value;
}
