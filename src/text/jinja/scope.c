/* Which variables a scope hides before they are set.
 *
 * jinja2 compiles a template to Python functions, so whether a name is a variable of a scope is settled before anything
 * runs: a name that a scope sets, without having read it before and without an outer scope that knows it, is one of its
 * variables from the start. A scope inside it that reads the name too early sees an undefined value, and not the
 * context's variable of that name. Here such names are collected for the bodies that open a scope (`hidden`), following
 * the rules of jinja2's idtracking; only names that an inner scope asks for matter. */
#include <string.h>
#include "text/jinja/parser.h"
#include "text/jinja/text.h"

/* What a scope knows of a name. */
typedef struct reference {
  const tnj_string *name;
  bool undefined; /* one of its variables, unset at the start */
  bool stored;
  bool needed; /* an inner scope asks for it */
} reference;

typedef struct scope {
  struct scope *outer;
  reference *references;
  size_t count, capacity;
} scope;

static void visit(tnj_state *s, scope *own, const tnj_node *node);
static void resolve(tnj_state *s, scope *own, const tnj_node *node);

static reference *find(tnj_state *s, const scope *own, const tnj_string *name) {
  tnj_work(s, own->count * 16);
  for (size_t i = 0; i < own->count; i++)
    if (own->references[i].name == name) return &own->references[i];
  return NULL;
}

static bool find_outside(tnj_state *s, const scope *own, const tnj_string *name) {
  for (const scope *outer = own->outer; outer; outer = outer->outer) {
    reference *found = find(s, outer, name);
    if (!found) continue;
    found->needed = true;
    return true;
  }
  return false;
}

static reference *add(tnj_state *s, scope *own, const tnj_string *name) {
  if (own->count == own->capacity) {
    size_t capacity = own->capacity * 2 + 8;
    reference *references = tnj_array(s, capacity, sizeof *references);
    if (own->count) memcpy(references, own->references, own->count * sizeof *references);
    own->references = references;
    own->capacity = capacity;
  }
  own->references[own->count] = (reference){.name = name};
  return &own->references[own->count++];
}

static void load(tnj_state *s, scope *own, tnj_value name) {
  if (!find(s, own, name.string) && !find_outside(s, own, name.string)) add(s, own, name.string);
}

static void store(tnj_state *s, scope *own, tnj_value name) {
  reference *known = find(s, own, name.string);
  if (!known) {
    bool outside = find_outside(s, own, name.string);
    known = add(s, own, name.string);
    known->undefined = !outside;
  }
  known->stored = true;
}

static void declare(tnj_state *s, scope *own, tnj_value name) {
  reference *known = find(s, own, name.string);
  if (!known) known = add(s, own, name.string);
  known->stored = true;
}

static void visit_target(tnj_state *s, scope *own, const tnj_node *target,
                         void (*with)(tnj_state *, scope *, tnj_value)) {
  tnj_enter(s);
  if (target->kind == TNJ_N_NAME)
    with(s, own, target->name);
  else if (target->kind == TNJ_N_MEMBER)
    load(s, own, target->first->name);
  for (size_t i = 0; target->kind == TNJ_N_TUPLE && i < target->count; i++)
    visit_target(s, own, target->items[i], with);
  tnj_leave(s);
}

/* ---- branches ---- */

static scope copy(tnj_state *s, const scope *from) {
  scope branch = *from;
  branch.references = tnj_array(s, from->count, sizeof *branch.references);
  branch.capacity = from->count;
  tnj_work(s, from->count * 16);
  if (from->count) memcpy(branch.references, from->references, from->count * sizeof *branch.references);
  return branch;
}

/* What the three branches of an `if` add: a name that not all of them set may come from the context after all. */
static void merge(tnj_state *s, scope *own, scope branches[3]) {
  const scope before = copy(s, own);
  for (size_t b = 0; b < 3; b++) {
    for (size_t i = 0; i < branches[b].count; i++) {
      const reference *from = &branches[b].references[i];
      const reference *old = find(s, &before, from->name);
      reference *into = find(s, own, from->name);
      if (!into) into = add(s, own, from->name);
      into->undefined = from->undefined;
      into->needed |= from->needed;
      into->stored |= from->stored;
      if (!from->stored || (old && old->stored)) continue;
      size_t stores = 0;
      for (size_t other = 0; other < 3; other++) {
        const reference *there = find(s, &branches[other], from->name);
        stores += there && there->stored;
      }
      if (stores < 3) into->undefined = false;
    }
  }
}

static void visit_if(tnj_state *s, scope *own, const tnj_node *node) {
  visit(s, own, node->first);
  scope branches[3] = {copy(s, own), copy(s, own), copy(s, own)};
  visit(s, &branches[0], node->second);
  const tnj_node *other = node->third;
  for (; other && other->kind == TNJ_N_IF; other = other->third) {
    scope inner[3] = {{0}};
    visit(s, &branches[1], other->first);
    for (size_t i = 0; i < 3; i++) inner[i] = copy(s, &branches[1]);
    visit(s, &inner[0], other->second);
    merge(s, &branches[1], inner);
  }
  if (other) visit(s, &branches[2], other);
  merge(s, own, branches);
}

/* ---- one scope's own level ---- */

static void visit_call(tnj_state *s, scope *own, const tnj_call *call) {
  if (!call) return;
  for (size_t i = 0; i < call->count; i++) visit(s, own, call->items[i]);
  for (size_t i = 0; i < call->keyword_count; i++) visit(s, own, call->keywords[i]);
  visit(s, own, call->star);
  visit(s, own, call->star_star);
}

static void visit_parts(tnj_state *s, scope *own, const tnj_node *node) {
  visit(s, own, node->first);
  visit(s, own, node->second);
  visit(s, own, node->third);
  for (size_t i = 0; i < node->count; i++) visit(s, own, node->items[i]);
  visit_call(s, own, node->call);
}

/* Notes what `node` (may be NULL) reads and sets in the scope itself; what opens a scope of its own isn't entered. */
static void visit(tnj_state *s, scope *own, const tnj_node *node) {
  if (!node) return;
  tnj_enter(s);
  switch (node->kind) {
    case TNJ_N_NAME: load(s, own, node->name); break;
    case TNJ_N_IF: visit_if(s, own, node); break;
    case TNJ_N_MACRO: store(s, own, node->name); break;
    case TNJ_N_FOR:
    case TNJ_N_CALL_BLOCK:
    case TNJ_N_FILTER_BLOCK:
    case TNJ_N_AUTOESCAPE: visit(s, own, node->second); break;
    case TNJ_N_SET:
      visit(s, own, node->second);
      visit_target(s, own, node->first, store);
      break;
    case TNJ_N_SET_BLOCK: visit_target(s, own, node->first, store); break;
    case TNJ_N_WITH:
      for (size_t i = 1; i < node->count; i += 2) visit(s, own, node->items[i]);
      break;
    case TNJ_N_SCOPE:
    case TNJ_N_BLOCK: break;
    default: visit_parts(s, own, node);
  }
  tnj_leave(s);
}

/* ---- scopes inside ---- */

/* Takes what the scope must hide from its body's start. */
static void finish(tnj_state *s, const scope *own, tnj_node *body) {
  tnj_list_builder hidden = tnj_list_start(s, 0);
  for (size_t i = 0; i < own->count; i++)
    if (own->references[i].undefined && own->references[i].needed)
      tnj_list_add(s, &hidden, (tnj_value){.kind = TNJ_STRING, .string = own->references[i].name});
  body->hidden = tnj_list_end(s, &hidden);
}

/* A body with a scope of its own, of which `own` already holds the parameters. */
static void resolve_body(tnj_state *s, scope *own, tnj_node *body) {
  visit(s, own, body);
  resolve(s, own, body);
  finish(s, own, body);
}

static void resolve_for(tnj_state *s, scope *outer, const tnj_node *node) {
  scope round = {.outer = outer}, other = {.outer = outer}, test = {.outer = outer};
  visit_target(s, &test, node->first, declare);
  visit(s, &test, node->third);
  visit_target(s, &round, node->first, declare);
  declare(s, &round, node->name);
  resolve_body(s, &round, node->items[0]);
  if (node->items[1]) resolve_body(s, &other, node->items[1]);
}

static void resolve_macro(tnj_state *s, scope *outer, const tnj_node *node) {
  const tnj_signature *signature = node->signature;
  scope own = {.outer = outer};
  for (size_t i = 0; i < signature->count; i++) declare(s, &own, signature->names[i]);
  for (size_t i = 0; i < signature->count; i++) visit(s, &own, signature->defaults[i]);
  const tnj_value special[] = {signature->more, signature->keywords, signature->caller};
  for (size_t i = 0; i < TN_COUNT(special); i++)
    if (tnj_given(special[i])) declare(s, &own, special[i]);
  resolve_body(s, &own, node->first);
}

/* Goes through the statements of a scope for those that open another. */
static void resolve(tnj_state *s, scope *own, const tnj_node *node) {
  scope inner = {.outer = own};
  if (!node) return;
  tnj_enter(s);
  switch (node->kind) {
    case TNJ_N_BODY:
      for (size_t i = 0; i < node->count; i++) resolve(s, own, node->items[i]);
      break;
    case TNJ_N_IF:
      for (; node && node->kind == TNJ_N_IF; node = node->third) resolve(s, own, node->second);
      resolve(s, own, node);
      break;
    case TNJ_N_FOR: resolve_for(s, own, node); break;
    case TNJ_N_MACRO:
    case TNJ_N_CALL_BLOCK: resolve_macro(s, own, node); break;
    case TNJ_N_SET_BLOCK: resolve_body(s, &inner, node->second); break;
    case TNJ_N_WITH:
      for (size_t i = 0; i < node->count; i += 2) visit_target(s, &inner, node->items[i], declare);
      resolve_body(s, &inner, node->first);
      break;
    case TNJ_N_FILTER_BLOCK:
    case TNJ_N_AUTOESCAPE:
    case TNJ_N_SCOPE:
    case TNJ_N_BLOCK: resolve_body(s, &inner, node->first); break;
    default: break;
  }
  tnj_leave(s);
}

void tnj_resolve_scopes(tnj_state *s, tnj_node *body) {
  scope root = {0};
  resolve_body(s, &root, body);
}
