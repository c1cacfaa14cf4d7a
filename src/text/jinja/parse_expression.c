/* Expressions: a recursive descent through jinja2's levels of precedence, from loose to tight
 *   if-else | or | and | not | comparisons | + - | ~ | * / // % | ** | unary - + | postfix . [] () | filters and tests.
 */
#include <string.h>
#include "text/jinja/parser.h"
#include "text/jinja/text.h"

static tnj_node *parse_or(tnj_parser *p);
static tnj_node *parse_unary(tnj_parser *p, bool filters);

static void next(tnj_parser *p) {
  if (p->token->kind != TNJ_T_END) p->token++;
  p->s->offset = p->token->offset;
}

static tnj_node *pair_node(tnj_parser *p, tnj_node_kind kind, size_t offset, tnj_node *first, tnj_node *second) {
  tnj_node *node = tnj_node_new(p, kind, offset);
  node->first = first;
  node->second = second;
  return node;
}

/* ---- primaries ---- */

static tnj_node *parse_list(tnj_parser *p) {
  tnj_node *list = tnj_node_new(p, TNJ_N_LIST, p->token->offset);
  tnj_nodes items = {0};
  tnj_expect(p, "[");
  while (!tnj_at(p, "]")) {
    if (items.count) {
      tnj_expect(p, ",");
      if (tnj_at(p, "]")) break;
    }
    tnj_nodes_add(p, &items, tnj_parse_expression(p));
  }
  tnj_expect(p, "]");
  list->items = items.items;
  list->count = items.count;
  return list;
}

static tnj_node *parse_dict(tnj_parser *p) {
  tnj_node *dict = tnj_node_new(p, TNJ_N_DICT, p->token->offset);
  tnj_nodes items = {0};
  tnj_expect(p, "{");
  while (!tnj_at(p, "}")) {
    if (items.count) {
      tnj_expect(p, ",");
      if (tnj_at(p, "}")) break;
    }
    tnj_nodes_add(p, &items, tnj_parse_expression(p));
    tnj_expect(p, ":");
    tnj_nodes_add(p, &items, tnj_parse_expression(p));
  }
  tnj_expect(p, "}");
  dict->items = items.items;
  dict->count = items.count;
  return dict;
}

static tnj_node *constant(tnj_parser *p, tnj_value value) {
  tnj_node *node = tnj_node_new(p, TNJ_N_CONSTANT, p->token->offset);
  node->name = value;
  next(p);
  return node;
}

static void note_special_name(tnj_parser *p, tnj_value name) {
  bool more = tnj_text_is(name, "varargs"), keywords = tnj_text_is(name, "kwargs"),
       caller = tnj_text_is(name, "caller");
  if (!more && !keywords && !caller) return;
  for (tnj_open_macro *macro = p->macro; macro; macro = macro->outer) {
    if (more) macro->signature->more = name;
    if (keywords) macro->signature->keywords = name;
    if (caller) macro->signature->caller = name;
  }
}

static tnj_node *parse_name(tnj_parser *p) {
  tnj_value name = p->token->value;
  if (tnj_text_is(name, "true") || tnj_text_is(name, "True")) return constant(p, tnj_bool(true));
  if (tnj_text_is(name, "false") || tnj_text_is(name, "False")) return constant(p, tnj_bool(false));
  if (tnj_text_is(name, "none") || tnj_text_is(name, "None")) return constant(p, tnj_none());
  tnj_node *node = constant(p, tnj_intern(p, name));
  node->kind = TNJ_N_NAME;
  note_special_name(p, node->name);
  return node;
}

/* Neighbouring strings are one. */
static tnj_node *parse_string(tnj_parser *p) {
  tnj_node *node = constant(p, p->token->value);
  if (p->token->kind != TNJ_T_STRING) return node;
  tnj_buffer *out = tnj_buffer_new(p->s, 64);
  tnj_append_string(p->s, out, node->name);
  for (; p->token->kind == TNJ_T_STRING; next(p)) tnj_append_string(p->s, out, p->token->value);
  out->frozen = true;
  node->name = tnj_buffer_string(p->s, out);
  return node;
}

static tnj_node *parse_brackets(tnj_parser *p) {
  size_t offset = p->token->offset;
  tnj_expect(p, "(");
  tnj_node *node = tnj_at(p, ")") ? tnj_node_new(p, TNJ_N_TUPLE, offset) : tnj_parse_tuple(p, true, NULL);
  tnj_expect(p, ")");
  return node;
}

static tnj_node *parse_primary(tnj_parser *p) {
  switch (p->token->kind) {
    case TNJ_T_NAME: return parse_name(p);
    case TNJ_T_STRING: return parse_string(p);
    case TNJ_T_INTEGER:
    case TNJ_T_FLOAT: return constant(p, p->token->value);
    default: break;
  }
  if (tnj_at(p, "(")) return parse_brackets(p);
  if (tnj_at(p, "[")) return parse_list(p);
  if (tnj_at(p, "{")) return parse_dict(p);
  tnj_unexpected(p, "an expression");
}

/* ---- postfix ---- */

static void add_keyword(tnj_parser *p, tnj_call *call, tnj_value name, tnj_node *value) {
  if ((call->keyword_count & (call->keyword_count - 1)) == 0) { /* full at 0, 1, 2, 4, 8... */
    size_t capacity = call->keyword_count ? call->keyword_count * 2 : 1;
    tnj_value *names = tnj_array(p->s, capacity, sizeof *names);
    tnj_node **values = tnj_array(p->s, capacity, sizeof *values);
    for (size_t i = 0; i < call->keyword_count; i++) names[i] = call->keyword_names[i], values[i] = call->keywords[i];
    call->keyword_names = names;
    call->keywords = values;
  }
  call->keyword_names[call->keyword_count] = name;
  call->keywords[call->keyword_count++] = value;
}

static tnj_call *parse_call_arguments(tnj_parser *p) {
  tnj_call *call = tnj_alloc(p->s, sizeof *call);
  tnj_nodes items = {0};
  tnj_expect(p, "(");
  for (bool first = true; !tnj_at(p, ")"); first = false) {
    if (!first) {
      tnj_expect(p, ",");
      if (tnj_at(p, ")")) break;
    }
    bool named = p->token->kind == TNJ_T_NAME && p->token[1].kind == TNJ_T_OPERATOR && p->token[1].size == 1 &&
                 tnj_data(p->source)[p->token[1].offset] == '=';
    if (call->star_star) tnj_error(p->s, "invalid syntax for function call expression");
    if (tnj_skip(p, "*")) {
      if (call->star) tnj_error(p->s, "invalid syntax for function call expression");
      call->star = tnj_parse_expression(p);
    } else if (tnj_skip(p, "**")) {
      call->star_star = tnj_parse_expression(p);
    } else if (named) {
      tnj_value name = tnj_expect_name(p);
      tnj_expect(p, "=");
      add_keyword(p, call, name, tnj_parse_expression(p));
    } else {
      if (call->star || call->keyword_count) tnj_error(p->s, "invalid syntax for function call expression");
      tnj_nodes_add(p, &items, tnj_parse_expression(p));
    }
  }
  tnj_expect(p, ")");
  call->items = items.items;
  call->count = items.count;
  return call;
}

static tnj_node *parse_call(tnj_parser *p, tnj_node *callee) {
  tnj_node *node = pair_node(p, TNJ_N_CALL, callee->offset, callee, NULL);
  node->call = parse_call_arguments(p);
  return node;
}

/* One subscript between commas: an index or a slice. A slice comes back as a SLICE node without `first`. */
static tnj_node *parse_index(tnj_parser *p) {
  size_t offset = p->token->offset;
  tnj_node *parts[3] = {0};
  size_t part = 0;
  if (!tnj_at(p, ":")) parts[0] = tnj_parse_expression(p);
  if (!tnj_at(p, ":")) return parts[0];
  while (part < 2 && tnj_skip(p, ":")) {
    part++;
    if (!tnj_at(p, ":") && !tnj_at(p, "]") && !tnj_at(p, ",")) parts[part] = tnj_parse_expression(p);
  }
  tnj_node *slice = tnj_node_new(p, TNJ_N_SLICE, offset);
  slice->items = tnj_array(p->s, 3, sizeof *slice->items);
  memcpy(slice->items, parts, sizeof parts);
  slice->count = 3;
  return slice;
}

static tnj_node *parse_subscript(tnj_parser *p, tnj_node *object) {
  size_t offset = p->token->offset;
  if (tnj_skip(p, ".")) {
    if (p->token->kind == TNJ_T_INTEGER)
      return pair_node(p, TNJ_N_SUBSCRIPT, offset, object, constant(p, p->token->value));
    tnj_node *node = pair_node(p, TNJ_N_ATTRIBUTE, offset, object, NULL);
    node->name = tnj_expect_name(p);
    return node;
  }
  tnj_expect(p, "[");
  tnj_node *index = parse_index(p);
  if (tnj_at(p, ",")) {
    tnj_nodes items = {0};
    tnj_nodes_add(p, &items, index);
    while (tnj_skip(p, ",") && !tnj_at(p, "]")) tnj_nodes_add(p, &items, parse_index(p));
    index = tnj_node_new(p, TNJ_N_TUPLE, offset);
    index->items = items.items;
    index->count = items.count;
    for (size_t i = 0; i < items.count; i++)
      if (items.items[i]->kind == TNJ_N_SLICE) tnj_error(p->s, "a slice can't be one of several subscripts");
  }
  tnj_expect(p, "]");
  if (index->kind == TNJ_N_SLICE && !index->first) {
    index->first = object;
    index->offset = offset;
    return index;
  }
  return pair_node(p, TNJ_N_SUBSCRIPT, offset, object, index);
}

static tnj_node *parse_postfix(tnj_parser *p, tnj_node *node) {
  for (;;) {
    if (tnj_at(p, ".") || tnj_at(p, "["))
      node = parse_subscript(p, node);
    else if (tnj_at(p, "("))
      node = parse_call(p, node);
    else
      return node;
  }
}

tnj_node *tnj_parse_postfix_only(tnj_parser *p) {
  return parse_postfix(p, parse_primary(p));
}

/* A filter's or test's name, with dots. */
static tnj_value parse_dotted_name(tnj_parser *p) {
  tnj_value name = tnj_expect_name(p);
  while (tnj_skip(p, ".")) {
    tnj_value more = tnj_expect_name(p);
    tnj_buffer *out = tnj_buffer_new(p->s, 32);
    tnj_append_string(p->s, out, name);
    tnj_append_text(p->s, out, ".");
    tnj_append_string(p->s, out, more);
    out->frozen = true;
    name = tnj_intern(p, tnj_buffer_string(p->s, out));
  }
  return name;
}

static void check_known(tnj_parser *p, const tnj_node *node, const char *what) {
  if (node->builtin || p->conditions) return;
  p->s->offset = node->offset;
  tnj_error(p->s, "No %s named '%.*s'.", what, (int)(tnj_size(node->name) < 99 ? tnj_size(node->name) : 99),
            tnj_data(node->name));
}

tnj_node *tnj_parse_filters(tnj_parser *p, tnj_node *first, bool inline_start) {
  while (inline_start || tnj_at(p, "|")) {
    if (!inline_start) tnj_expect(p, "|");
    inline_start = false;
    tnj_node *filter = pair_node(p, TNJ_N_FILTER, p->token->offset, first, NULL);
    filter->name = parse_dotted_name(p);
    filter->builtin = tnj_find_filter(filter->name);
    check_known(p, filter, "filter");
    if (tnj_at(p, "(")) filter->call = parse_call_arguments(p);
    first = filter;
  }
  return first;
}

/* Whether an argument without brackets follows a test's name. */
static bool test_argument_follows(const tnj_parser *p) {
  switch (p->token->kind) {
    case TNJ_T_NAME: return !tnj_at_name(p, "else") && !tnj_at_name(p, "or") && !tnj_at_name(p, "and");
    case TNJ_T_STRING:
    case TNJ_T_INTEGER:
    case TNJ_T_FLOAT: return true;
    default: return tnj_at(p, "[") || tnj_at(p, "{");
  }
}

static tnj_node *parse_test(tnj_parser *p, tnj_node *first) {
  size_t offset = p->token->offset;
  bool negated = tnj_skip_name(p, "not");
  tnj_node *test = pair_node(p, TNJ_N_TEST, offset, first, NULL);
  test->name = parse_dotted_name(p);
  test->builtin = tnj_find_test(test->name);
  check_known(p, test, "test");
  if (tnj_at(p, "(")) {
    test->call = parse_call_arguments(p);
  } else if (test_argument_follows(p)) {
    if (tnj_at_name(p, "is")) tnj_error(p->s, "You cannot chain multiple tests with is");
    tnj_call *call = tnj_alloc(p->s, sizeof *call);
    tnj_nodes items = {0};
    tnj_nodes_add(p, &items, tnj_parse_postfix_only(p));
    call->items = items.items;
    call->count = items.count;
    test->call = call;
  }
  return negated ? pair_node(p, TNJ_N_NOT, offset, test, NULL) : test;
}

static tnj_node *parse_filters_and_tests(tnj_parser *p, tnj_node *node) {
  for (;;) {
    if (tnj_at(p, "|"))
      node = tnj_parse_filters(p, node, false);
    else if (tnj_skip_name(p, "is"))
      node = parse_test(p, node);
    else if (tnj_at(p, "("))
      node = parse_call(p, node);
    else
      return node;
  }
}

/* ---- operators ---- */

static tnj_node *parse_unary(tnj_parser *p, bool filters) {
  tnj_enter(p->s);
  size_t offset = p->token->offset;
  tnj_node *node;
  if (tnj_skip(p, "-"))
    node = pair_node(p, TNJ_N_NEGATE, offset, parse_unary(p, false), NULL);
  else if (tnj_skip(p, "+"))
    node = pair_node(p, TNJ_N_POSITIVE, offset, parse_unary(p, false), NULL);
  else
    node = parse_primary(p);
  node = parse_postfix(p, node);
  if (filters) node = parse_filters_and_tests(p, node);
  tnj_leave(p->s);
  return node;
}

static tnj_node *binary(tnj_parser *p, tnj_operator operation, size_t offset, tnj_node *left, tnj_node *right) {
  tnj_node *node = pair_node(p, TNJ_N_BINARY, offset, left, right);
  node->operation = (uint8_t)operation;
  return node;
}

static tnj_node *parse_power(tnj_parser *p) {
  tnj_node *left = parse_unary(p, true);
  for (size_t offset = p->token->offset; tnj_skip(p, "**"); offset = p->token->offset)
    left = binary(p, TNJ_POWER, offset, left, parse_unary(p, true));
  return left;
}

static tnj_node *parse_product(tnj_parser *p) {
  tnj_node *left = parse_power(p);
  for (;;) {
    size_t offset = p->token->offset;
    tnj_operator operation;
    if (tnj_skip(p, "*"))
      operation = TNJ_MULTIPLY;
    else if (tnj_skip(p, "/"))
      operation = TNJ_DIVIDE;
    else if (tnj_skip(p, "//"))
      operation = TNJ_FLOOR_DIVIDE;
    else if (tnj_skip(p, "%"))
      operation = TNJ_MODULO;
    else
      return left;
    left = binary(p, operation, offset, left, parse_power(p));
  }
}

static tnj_node *parse_concat(tnj_parser *p) {
  tnj_node *left = parse_product(p);
  if (!tnj_at(p, "~")) return left;
  tnj_nodes items = {0};
  tnj_node *node = tnj_node_new(p, TNJ_N_CONCAT, p->token->offset);
  tnj_nodes_add(p, &items, left);
  while (tnj_skip(p, "~")) tnj_nodes_add(p, &items, parse_product(p));
  node->items = items.items;
  node->count = items.count;
  return node;
}

static tnj_node *parse_sum(tnj_parser *p) {
  tnj_node *left = parse_concat(p);
  for (;;) {
    size_t offset = p->token->offset;
    bool add = tnj_at(p, "+");
    if (!tnj_skip(p, "+") && !tnj_skip(p, "-")) return left;
    left = binary(p, add ? TNJ_ADD : TNJ_SUBTRACT, offset, left, parse_concat(p));
  }
}

static bool skip_comparison(tnj_parser *p, tnj_comparison *comparison) {
  static const struct {
    const char *text;
    tnj_comparison comparison;
  } operators[] = {{"==", TNJ_EQUAL},      {"!=", TNJ_NOT_EQUAL}, {"<", TNJ_LESS},
                   {"<=", TNJ_LESS_EQUAL}, {">", TNJ_GREATER},    {">=", TNJ_GREATER_EQUAL}};
  for (size_t i = 0; i < TN_COUNT(operators); i++) {
    *comparison = operators[i].comparison;
    if (tnj_skip(p, operators[i].text)) return true;
  }
  *comparison = TNJ_IN;
  if (tnj_skip_name(p, "in")) return true;
  const tnj_token *token = p->token;
  bool not_in = tnj_at_name(p, "not") && token[1].kind == TNJ_T_NAME && tnj_text_is(token[1].value, "in");
  *comparison = TNJ_NOT_IN;
  return not_in && tnj_skip_name(p, "not") && tnj_skip_name(p, "in");
}

static tnj_node *parse_comparison(tnj_parser *p) {
  size_t offset = p->token->offset;
  tnj_node *first = parse_sum(p);
  tnj_comparison comparison;
  tnj_nodes items = {0};
  tnj_buffer *operators = NULL;
  while (skip_comparison(p, &comparison)) {
    char byte = (char)comparison;
    if (!items.count) {
      tnj_nodes_add(p, &items, first);
      operators = tnj_buffer_new(p->s, 4);
    }
    tnj_append(p->s, operators, &byte, 1, false);
    tnj_nodes_add(p, &items, parse_sum(p));
  }
  if (!items.count) return first;
  tnj_node *node = tnj_node_new(p, TNJ_N_COMPARE, offset);
  node->items = items.items;
  node->count = items.count;
  node->operators = (uint8_t *)operators->data;
  return node;
}

static tnj_node *parse_not(tnj_parser *p) {
  size_t offset = p->token->offset;
  if (!tnj_skip_name(p, "not")) return parse_comparison(p);
  tnj_enter(p->s);
  tnj_node *node = pair_node(p, TNJ_N_NOT, offset, parse_not(p), NULL);
  tnj_leave(p->s);
  return node;
}

static tnj_node *parse_and(tnj_parser *p) {
  tnj_node *left = parse_not(p);
  for (size_t offset = p->token->offset; tnj_skip_name(p, "and"); offset = p->token->offset)
    left = pair_node(p, TNJ_N_AND, offset, left, parse_not(p));
  return left;
}

static tnj_node *parse_or(tnj_parser *p) {
  tnj_node *left = parse_and(p);
  for (size_t offset = p->token->offset; tnj_skip_name(p, "or"); offset = p->token->offset)
    left = pair_node(p, TNJ_N_OR, offset, left, parse_and(p));
  return left;
}

tnj_node *tnj_parse_expression(tnj_parser *p) {
  tnj_enter(p->s);
  size_t offset = p->token->offset;
  tnj_node *node = parse_or(p);
  while (tnj_skip_name(p, "if")) {
    tnj_node *condition = pair_node(p, TNJ_N_CONDITION, offset, NULL, node);
    p->conditions++;
    condition->first = parse_or(p);
    if (tnj_skip_name(p, "else")) condition->third = tnj_parse_expression(p);
    p->conditions--;
    node = condition;
  }
  tnj_leave(p->s);
  return node;
}

/* ---- tuples and targets ---- */

static bool tuple_ends(const tnj_parser *p, const char *end_name) {
  return p->token->kind == TNJ_T_VARIABLE_END || p->token->kind == TNJ_T_BLOCK_END || tnj_at(p, ")") ||
         (end_name && tnj_at_name(p, end_name));
}

tnj_node *tnj_parse_tuple(tnj_parser *p, bool conditional, const char *end_name) {
  size_t offset = p->token->offset;
  tnj_nodes items = {0};
  bool comma = false;
  tnj_node *node = NULL;
  while (!tuple_ends(p, end_name)) {
    node = conditional ? tnj_parse_expression(p) : parse_or(p);
    tnj_nodes_add(p, &items, node);
    if (!tnj_skip(p, ",")) break;
    comma = true;
  }
  if (!items.count) tnj_unexpected(p, "an expression");
  if (!comma) return node;
  tnj_node *tuple = tnj_node_new(p, TNJ_N_TUPLE, offset);
  tuple->items = items.items;
  tuple->count = items.count;
  return tuple;
}

static tnj_node *parse_one_target(tnj_parser *p, bool members) {
  size_t offset = p->token->offset;
  if (tnj_at(p, "(") || tnj_at(p, "[")) {
    bool round = tnj_at(p, "(");
    next(p);
    tnj_enter(p->s);
    tnj_node *inner = tnj_parse_target(p, members, true);
    tnj_leave(p->s);
    tnj_expect(p, round ? ")" : "]");
    return inner;
  }
  tnj_value name = tnj_expect_name(p);
  static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
  for (size_t i = 0; i < TN_COUNT(reserved); i++)
    if (tnj_text_is(name, reserved[i])) tnj_error(p->s, "can't assign to '%s'", reserved[i]);
  tnj_node *node = tnj_node_new(p, TNJ_N_NAME, offset);
  node->name = name;
  if (!members || !tnj_skip(p, ".")) return node;
  tnj_node *member = pair_node(p, TNJ_N_MEMBER, offset, node, NULL);
  member->name = tnj_expect_name(p);
  return member;
}

tnj_node *tnj_parse_target(tnj_parser *p, bool members, bool tuple) {
  size_t offset = p->token->offset;
  tnj_node *first = parse_one_target(p, members);
  if (!tuple || !tnj_at(p, ",")) return first;
  tnj_nodes items = {0};
  tnj_nodes_add(p, &items, first);
  while (tnj_skip(p, ",")) {
    if (p->token->kind != TNJ_T_NAME && !tnj_at(p, "(") && !tnj_at(p, "[")) break;
    if (tnj_at_name(p, "in")) break;
    tnj_nodes_add(p, &items, parse_one_target(p, members));
  }
  tnj_node *node = tnj_node_new(p, TNJ_N_TUPLE, offset);
  node->items = items.items;
  node->count = items.count;
  return node;
}
