/* Statements, and the helpers both halves of the parser share. */
#include <string.h>
#include "text/jinja/parser.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

/* Operators in a row make a deep tree without any nesting in the source. */
enum { MAX_TREE_DEPTH = 2000 };

static tnj_node *parse_body(tnj_parser *p, const char *const *ends);

/* ---- helpers ---- */

tnj_node *tnj_node_new(tnj_parser *p, tnj_node_kind kind, size_t offset) {
  tnj_node *node = tnj_alloc(p->s, sizeof *node);
  node->kind = (uint8_t)kind;
  node->offset = offset;
  return node;
}

void tnj_nodes_add(tnj_parser *p, tnj_nodes *nodes, tnj_node *node) {
  if (nodes->count == nodes->capacity) {
    size_t capacity = nodes->capacity * 2 + 4;
    tnj_node **items = tnj_array(p->s, capacity, sizeof *items);
    if (nodes->count) memcpy(items, nodes->items, nodes->count * sizeof *items);
    nodes->items = items;
    nodes->capacity = capacity;
  }
  nodes->items[nodes->count++] = node;
}

static size_t name_slot(const tnj_parser *p, const char *data, size_t size) {
  size_t hash = 5381;
  for (size_t i = 0; i < size; i++) hash = hash * 33 ^ (unsigned char)data[i];
  size_t slot = hash & (p->name_capacity - 1);
  for (; p->names[slot]; slot = (slot + 1) & (p->name_capacity - 1)) {
    const tnj_string *name = p->names[slot];
    if (name->size == size && memcmp(name->buffer->data + name->offset, data, size) == 0) break;
  }
  return slot;
}

static void grow_names(tnj_parser *p) {
  const tnj_string **old = p->names;
  size_t count = p->name_capacity;
  p->name_capacity = count ? count * 2 : 64;
  p->names = tnj_array(p->s, p->name_capacity, sizeof *p->names);
  for (size_t i = 0; i < count; i++)
    if (old[i]) p->names[name_slot(p, old[i]->buffer->data + old[i]->offset, old[i]->size)] = old[i];
}

tnj_value tnj_intern(tnj_parser *p, tnj_value name) {
  if (p->name_count * 2 >= p->name_capacity) grow_names(p);
  size_t slot = name_slot(p, tnj_data(name), tnj_size(name));
  if (!p->names[slot]) {
    p->names[slot] = name.string;
    p->name_count++;
  }
  return (tnj_value){.kind = TNJ_STRING, .string = p->names[slot]};
}

static tnj_value name_of(tnj_parser *p, const char *text) {
  tnj_value name = tnj_string_new(p->s, text, strlen(text), true);
  name.string->buffer->frozen = true;
  return tnj_intern(p, name);
}

static void next(tnj_parser *p) {
  if (p->token->kind != TNJ_T_END) p->token++;
  p->s->offset = p->token->offset;
  tnj_step(p->s);
}

bool tnj_at(const tnj_parser *p, const char *operator_text) {
  const tnj_token *token = p->token;
  return token->kind == TNJ_T_OPERATOR && token->size == strlen(operator_text) &&
         memcmp(tnj_data(p->source) + token->offset, operator_text, token->size) == 0;
}

bool tnj_at_name(const tnj_parser *p, const char *name) {
  return p->token->kind == TNJ_T_NAME && tnj_text_is(p->token->value, name);
}

bool tnj_skip(tnj_parser *p, const char *operator_text) {
  if (!tnj_at(p, operator_text)) return false;
  next(p);
  return true;
}

bool tnj_skip_name(tnj_parser *p, const char *name) {
  if (!tnj_at_name(p, name)) return false;
  next(p);
  return true;
}

_Noreturn void tnj_unexpected(tnj_parser *p, const char *wanted) {
  const tnj_token *token = p->token;
  p->s->offset = token->offset;
  switch (token->kind) {
    case TNJ_T_VARIABLE_END: tnj_error(p->s, "expected %s, got 'end of print statement'", wanted);
    case TNJ_T_BLOCK_END: tnj_error(p->s, "expected %s, got 'end of statement block'", wanted);
    case TNJ_T_END: tnj_error(p->s, "expected %s, got the end of the template", wanted);
    default: break;
  }
  tnj_error(p->s, "expected %s, got '%.*s'", wanted, (int)(token->size < 60 ? token->size : 60),
            tnj_data(p->source) + token->offset);
}

void tnj_expect(tnj_parser *p, const char *operator_text) {
  char wanted[16] = "'";
  if (tnj_skip(p, operator_text)) return;
  strncat(wanted, operator_text, 4);
  strcat(wanted, "'");
  tnj_unexpected(p, wanted);
}

tnj_value tnj_expect_name(tnj_parser *p) {
  if (p->token->kind != TNJ_T_NAME) tnj_unexpected(p, "a name");
  tnj_value name = tnj_intern(p, p->token->value);
  next(p);
  return name;
}

static void expect_word(tnj_parser *p, const char *word) {
  char wanted[24] = "'";
  if (tnj_skip_name(p, word)) return;
  strncat(wanted, word, 12);
  strcat(wanted, "'");
  tnj_unexpected(p, wanted);
}

static void expect_block_end(tnj_parser *p) {
  if (p->token->kind != TNJ_T_BLOCK_END) tnj_unexpected(p, "the end of the statement block");
  next(p);
}

/* ---- statements with a body ---- */

/* "%}", the body, and "{% end": the word itself is skipped too, what follows it isn't. `ends` is NULL-terminated. */
static tnj_node *parse_block(tnj_parser *p, const char *const *ends) {
  expect_block_end(p);
  return parse_body(p, ends);
}

static tnj_node *parse_simple_block(tnj_parser *p, const char *end) {
  const char *const ends[] = {end, NULL};
  tnj_node *body = parse_block(p, ends);
  next(p);
  return body;
}

static tnj_node *parse_if(tnj_parser *p, tnj_node *node) {
  static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
  tnj_node *branch = node;
  p->conditions++;
  for (;;) {
    branch->kind = TNJ_N_IF;
    branch->first = tnj_parse_tuple(p, false, NULL);
    branch->second = parse_block(p, ends);
    size_t offset = p->token->offset;
    if (!tnj_skip_name(p, "elif")) break;
    branch->third = tnj_node_new(p, TNJ_N_IF, offset);
    branch = branch->third;
  }
  if (tnj_skip_name(p, "else")) branch->third = parse_block(p, last);
  expect_word(p, "endif");
  p->conditions--;
  return node;
}

static tnj_node *parse_for(tnj_parser *p, tnj_node *node) {
  static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
  node->kind = TNJ_N_FOR;
  node->name = name_of(p, "loop");
  node->first = tnj_parse_target(p, false, true);
  if (node->first->kind == TNJ_N_NAME && node->first->name.string == node->name.string)
    tnj_error(p->s, "Can't assign to special loop variable in for-loop target");
  expect_word(p, "in");
  node->second = tnj_parse_tuple(p, false, "recursive");
  if (tnj_skip_name(p, "if")) node->third = tnj_parse_expression(p);
  node->recursive = tnj_skip_name(p, "recursive");
  node->items = tnj_array(p->s, 2, sizeof *node->items);
  node->count = 2;
  size_t macros = p->macros;
  p->loops++;
  node->items[0] = parse_block(p, ends);
  p->loops--;
  node->captures = p->macros != macros;
  if (tnj_skip_name(p, "else")) node->items[1] = parse_block(p, last);
  expect_word(p, "endfor");
  return node;
}

static tnj_node *parse_set(tnj_parser *p, tnj_node *node) {
  node->first = tnj_parse_target(p, true, true);
  node->kind = TNJ_N_SET;
  if (tnj_skip(p, "=")) {
    node->second = tnj_parse_tuple(p, true, NULL);
    return node;
  }
  node->kind = TNJ_N_SET_BLOCK;
  node->third = tnj_parse_filters(p, NULL, false);
  node->second = parse_simple_block(p, "endset");
  return node;
}

static tnj_node *parse_with(tnj_parser *p, tnj_node *node) {
  tnj_nodes items = {0};
  node->kind = TNJ_N_WITH;
  while (p->token->kind != TNJ_T_BLOCK_END) {
    if (items.count) tnj_expect(p, ",");
    tnj_nodes_add(p, &items, tnj_parse_target(p, false, false));
    tnj_expect(p, "=");
    tnj_nodes_add(p, &items, tnj_parse_expression(p));
  }
  node->items = items.items;
  node->count = items.count;
  node->first = parse_simple_block(p, "endwith");
  return node;
}

static tnj_signature *parse_signature(tnj_parser *p) {
  tnj_signature *signature = tnj_alloc(p->s, sizeof *signature);
  tnj_nodes defaults = {0}, names = {0};
  tnj_expect(p, "(");
  while (!tnj_at(p, ")")) {
    if (names.count) tnj_expect(p, ",");
    tnj_node *name = tnj_parse_target(p, false, false);
    if (name->kind != TNJ_N_NAME) tnj_error(p->s, "a parameter must be a name");
    tnj_nodes_add(p, &names, name);
    bool has_default = tnj_skip(p, "=");
    if (!has_default && defaults.count && defaults.items[defaults.count - 1])
      tnj_error(p->s, "non-default argument follows default argument");
    tnj_nodes_add(p, &defaults, has_default ? tnj_parse_expression(p) : NULL);
  }
  tnj_expect(p, ")");
  signature->names = tnj_array(p->s, names.count, sizeof *signature->names);
  for (size_t i = 0; i < names.count; i++) signature->names[i] = names.items[i]->name;
  signature->defaults = defaults.items;
  signature->count = names.count;
  return signature;
}

/* The body of a macro or call block, which notes what it reads in `signature`. */
static tnj_node *parse_macro_body(tnj_parser *p, tnj_signature *signature, const char *end) {
  tnj_open_macro macro = {p->macro, signature};
  size_t loops = p->loops;
  p->macro = &macro;
  p->macros++;
  p->loops = 0;
  tnj_node *body = parse_simple_block(p, end);
  p->macro = macro.outer;
  p->loops = loops;
  return body;
}

static tnj_node *parse_macro(tnj_parser *p, tnj_node *node) {
  node->kind = TNJ_N_MACRO;
  node->name = tnj_expect_name(p);
  tnj_signature *signature = parse_signature(p);
  node->signature = signature;
  node->first = parse_macro_body(p, signature, "endmacro");
  return node;
}

static tnj_node *parse_call_block(tnj_parser *p, tnj_node *node) {
  node->kind = TNJ_N_CALL_BLOCK;
  tnj_signature *signature = tnj_at(p, "(") ? parse_signature(p) : tnj_alloc(p->s, sizeof *signature);
  node->signature = signature;
  node->second = tnj_parse_expression(p);
  if (node->second->kind != TNJ_N_CALL) tnj_error(p->s, "expected call");
  node->name = name_of(p, "caller");
  node->first = parse_macro_body(p, signature, "endcall");
  return node;
}

static tnj_node *parse_filter_block(tnj_parser *p, tnj_node *node) {
  node->kind = TNJ_N_FILTER_BLOCK;
  node->second = tnj_parse_filters(p, NULL, true);
  node->first = parse_simple_block(p, "endfilter");
  return node;
}

static tnj_node *parse_named_block(tnj_parser *p, tnj_node *node) {
  node->kind = TNJ_N_BLOCK;
  node->name = tnj_expect_name(p);
  if (tnj_skip_name(p, "scoped")) node->kind = TNJ_N_SCOPE;
  tnj_skip_name(p, "required");
  node->first = parse_simple_block(p, "endblock");
  if (p->token->kind == TNJ_T_NAME) next(p); /* the name may be repeated */
  return node;
}

static tnj_node *parse_generation(tnj_parser *p, tnj_node *node) {
  node->kind = TNJ_N_SCOPE;
  node->first = parse_simple_block(p, "endgeneration");
  return node;
}

static tnj_node *parse_autoescape(tnj_parser *p, tnj_node *node) {
  node->kind = TNJ_N_AUTOESCAPE;
  node->second = tnj_parse_expression(p);
  node->first = parse_simple_block(p, "endautoescape");
  return node;
}

static tnj_node *parse_print(tnj_parser *p, tnj_node *node) {
  tnj_nodes items = {0};
  node->kind = TNJ_N_BODY;
  while (p->token->kind != TNJ_T_BLOCK_END) {
    if (items.count) tnj_expect(p, ",");
    tnj_node *output = tnj_node_new(p, TNJ_N_OUTPUT, p->token->offset);
    output->first = tnj_parse_expression(p);
    tnj_nodes_add(p, &items, output);
  }
  node->items = items.items;
  node->count = items.count;
  return node;
}

static tnj_node *parse_jump(tnj_parser *p, tnj_node *node) {
  bool is_break = tnj_text_is(p->token[-1].value, "break");
  if (!p->loops) tnj_error(p->s, "'%s' outside loop", is_break ? "break" : "continue");
  node->kind = is_break ? TNJ_N_BREAK : TNJ_N_CONTINUE;
  return node;
}

static tnj_node *parse_load(tnj_parser *p, tnj_node *node) {
  node->kind = TNJ_N_LOAD;
  node->name = p->token[-1].value;
  while (p->token->kind != TNJ_T_BLOCK_END && p->token->kind != TNJ_T_END) next(p);
  return node;
}

static tnj_node *parse_statement(tnj_parser *p) {
  static const struct {
    const char *word;
    tnj_node *(*parse)(tnj_parser *p, tnj_node *node);
  } statements[] = {{"if", parse_if},
                    {"for", parse_for},
                    {"set", parse_set},
                    {"with", parse_with},
                    {"macro", parse_macro},
                    {"call", parse_call_block},
                    {"filter", parse_filter_block},
                    {"block", parse_named_block},
                    {"generation", parse_generation},
                    {"autoescape", parse_autoescape},
                    {"print", parse_print},
                    {"break", parse_jump},
                    {"continue", parse_jump},
                    {"include", parse_load},
                    {"import", parse_load},
                    {"from", parse_load},
                    {"extends", parse_load}};
  if (p->token->kind != TNJ_T_NAME) tnj_unexpected(p, "a tag name");
  for (size_t i = 0; i < TN_COUNT(statements); i++) {
    if (!tnj_at_name(p, statements[i].word)) continue;
    tnj_node *node = tnj_node_new(p, TNJ_N_BODY, p->token->offset);
    next(p);
    node = statements[i].parse(p, node);
    expect_block_end(p);
    return node;
  }
  tnj_value name = p->token->value;
  tnj_error(p->s, "Encountered unknown tag '%.*s'.", (int)(tnj_size(name) < 99 ? tnj_size(name) : 99), tnj_data(name));
}

/* Whether "{% WORD" with one of these words stands here. */
static bool at_end_word(const tnj_parser *p, const char *const *ends) {
  for (; *ends; ends++)
    if (p->token[1].kind == TNJ_T_NAME && tnj_text_is(p->token[1].value, *ends)) return true;
  return false;
}

static tnj_node *parse_output(tnj_parser *p) {
  tnj_node *output = tnj_node_new(p, TNJ_N_OUTPUT, p->token->offset);
  next(p);
  output->first = tnj_parse_tuple(p, true, NULL);
  if (p->token->kind != TNJ_T_VARIABLE_END) tnj_unexpected(p, "token 'end of print statement'");
  next(p);
  return output;
}

static tnj_node *parse_body(tnj_parser *p, const char *const *ends) {
  tnj_node *body = tnj_node_new(p, TNJ_N_BODY, p->token->offset);
  tnj_nodes items = {0};
  tnj_enter(p->s);
  for (;;) {
    tnj_node *node;
    if (p->token->kind == TNJ_T_DATA) {
      node = tnj_node_new(p, TNJ_N_DATA, p->token->offset);
      node->name = p->token->value;
      next(p);
    } else if (p->token->kind == TNJ_T_VARIABLE_BEGIN) {
      node = parse_output(p);
    } else if (p->token->kind == TNJ_T_BLOCK_BEGIN) {
      if (ends && at_end_word(p, ends)) break;
      next(p);
      node = parse_statement(p);
    } else {
      if (!ends) break;
      tnj_error(p->s, "Unexpected end of template. Jinja was looking for the following tags: '%s'%s%s%s.", ends[0],
                ends[1] ? " or '" : "", ends[1] ? ends[1] : "", ends[1] ? "'" : "");
    }
    tnj_nodes_add(p, &items, node);
  }
  if (ends) next(p);
  tnj_leave(p->s);
  body->items = items.items;
  body->count = items.count;
  return body;
}

const tnj_node *tnj_parse(tnj_state *s, tnj_value source) {
  size_t count;
  tnj_parser p = {.s = s, .source = source};
  p.token = tnj_tokenize(s, source, &count);
  tnj_node *body = parse_body(&p, NULL);
  s->limits.depth = MAX_TREE_DEPTH;
  tnj_resolve_scopes(s, body);
  return body;
}

void tnj_place(tnj_value source, size_t offset, size_t *line, size_t *column) {
  *line = *column = 1;
  for (size_t at = 0, next_at; at < offset && at < tnj_size(source); at = next_at) {
    bool line_end = tnj_codepoint_at(source, at, &next_at) == '\n';
    *line += line_end;
    *column = line_end ? 1 : *column + 1;
  }
}
