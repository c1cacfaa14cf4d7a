/* Two stages: a parser that makes a tree, and a compiler that goes through the tree with "what follows" in hand.
 *
 * With the rest of the pattern known as an expression, assertions become set operations: `$` keeps the rest only where
 * it may be empty, and a look-ahead intersects the rest with its own texts followed by anything. `^` is possible only
 * where a search begins, so a search is compiled by walking down to the beginnings of the pattern. */
#include "text/grammar/regex.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/error.h"
#include "base/memory.h"

#define MAX_NESTING 60 /* groups in groups */

typedef enum node_kind { SET, SEQUENCE, CHOICE, REPEAT, BEGIN, END, LOOK } node_kind;

typedef struct node {
  node_kind kind;
  bool asserts; /* contains ^, $ or a look-ahead */
  bool negated; /* a negative look-ahead */
  uint32_t min, max;
  tn_expr set;
  struct node **children;
  size_t count, capacity;
} node;

typedef struct regex {
  tn_exprs *x;
  const char *text, *at, *end;
  tn_spelling spelling;
  node **all; /* every node, to be freed */
  size_t count, capacity;
  unsigned nesting;
  tn_status status;
  tn_error *error;
} regex;

static node *parse_choice(regex *r);

/* Remembers the first error; NULL for `return fail(...)`. */
static node *fail(regex *r, tn_status status, const char *what) {
  if (r->status == TN_OK)
    r->status = tn_fail(r->error, status, "%s at byte %zu of the pattern", what, (size_t)(r->at - r->text));
  return NULL;
}

static node *new_node(regex *r, node_kind kind) {
  node *n = tn_calloc(1, sizeof *n), **slot = n ? TN_PUSH(r->all, r->count, r->capacity) : NULL;
  if (!slot) {
    free(n);
    return fail(r, TN_E_MEMORY, "out of memory");
  }
  *slot = n;
  n->kind = kind;
  n->asserts = kind == BEGIN || kind == END || kind == LOOK;
  return n;
}

static bool add_child(regex *r, node *parent, node *child) {
  if (!parent || !child) return false;
  node **slot = TN_PUSH(parent->children, parent->count, parent->capacity);
  if (!slot) return fail(r, TN_E_MEMORY, "out of memory"), false;
  *slot = child;
  parent->asserts = parent->asserts || child->asserts;
  return true;
}

static bool at_text(regex *r, const char *text) {
  size_t size = strlen(text);
  if ((size_t)(r->end - r->at) < size || memcmp(r->at, text, size)) return false;
  r->at += size;
  return true;
}

/* The parser keeps `chars` in a set node's expression at once: sets may be large. */
static node *set_node(regex *r, tn_chars *chars) {
  node *n = new_node(r, SET);
  if (n) n->set = tn_chars_expr(r->x, chars, r->spelling);
  tn_chars_finish(chars);
  return n;
}

/* ---- classes ---- */

static bool add_named_class(tn_chars *set, char name) {
  static const tn_char_range digits[] = {{'0', '9'}}, words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                             spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                         {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                         {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  tn_chars chars = {0};
  const tn_char_range *ranges = (name | 32) == 'd' ? digits : (name | 32) == 'w' ? words : spaces;
  size_t count = (name | 32) == 'd' ? TN_COUNT(digits) : (name | 32) == 'w' ? TN_COUNT(words) : TN_COUNT(spaces);
  bool done = true;
  for (size_t i = 0; i < count; i++) done = done && tn_chars_add(&chars, ranges[i].first, ranges[i].last);
  if (name < 'a') done = done && tn_chars_negate(&chars);
  done = done && tn_chars_add_all(set, &chars);
  tn_chars_finish(&chars);
  return done;
}

/* \p{Lu}, \p{L}, \p{gc=Nd}, \p{Letter}: general categories. */
static bool add_category(regex *r, tn_chars *set, bool negated) {
  static const struct {
    const char *name, *code;
  } long_names[] = {{"Letter", "L"},
                    {"Number", "N"},
                    {"Punctuation", "P"},
                    {"Symbol", "S"},
                    {"Separator", "Z"},
                    {"Mark", "M"},
                    {"Other", "C"},
                    {"Uppercase_Letter", "Lu"},
                    {"Lowercase_Letter", "Ll"},
                    {"Decimal_Number", "Nd"},
                    {"Space_Separator", "Zs"}};
  char name[32] = {0};
  size_t size = 0;
  if (!at_text(r, "{")) return fail(r, TN_E_INVALID, "expected { after \\p"), false;
  if (!at_text(r, "gc=")) at_text(r, "General_Category=");
  while (r->at < r->end && *r->at != '}' && size < sizeof name - 1) name[size++] = *r->at++;
  if (!at_text(r, "}")) return fail(r, TN_E_INVALID, "unfinished \\p{...}"), false;
  for (size_t i = 0; i < TN_COUNT(long_names); i++)
    if (!strcmp(name, long_names[i].name)) strcpy(name, long_names[i].code);
  tn_chars chars = {0};
  bool done = true;
  for (uint32_t c = 0, start = UINT32_MAX; c <= TN_CHAR_LAST + 1; c++) {
    const char *category = c <= TN_CHAR_LAST ? utf8proc_category_string((utf8proc_int32_t)c) : "";
    bool in = *category && name[0] == category[0] && (!name[1] || (name[1] == category[1] && !name[2]));
    if (in && start == UINT32_MAX) start = c;
    if (!in && start != UINT32_MAX) done = done && tn_chars_add(&chars, start, c - 1), start = UINT32_MAX;
  }
  if (!chars.count) done = false, fail(r, TN_E_UNSUPPORTED, "\\p{...} of something else than a general category");
  if (negated) done = done && tn_chars_negate(&chars);
  done = done && tn_chars_add_all(set, &chars);
  tn_chars_finish(&chars);
  return done;
}

static bool hex_digits(regex *r, unsigned count, uint32_t *value) {
  *value = 0;
  for (unsigned i = 0; i < count; i++, r->at++) {
    char c = r->at < r->end ? *r->at : 0;
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) return fail(r, TN_E_INVALID, "expected a hexadecimal digit"), false;
    *value = *value << 4 | (uint32_t)digit;
  }
  return true;
}

/* \uXXXX (a surrogate pair is one character) and \u{X...}. */
static bool unicode_escape(regex *r, uint32_t *c) {
  if (at_text(r, "{")) {
    const char *start = r->at;
    while (r->at < r->end && *r->at != '}') r->at++;
    size_t digits = (size_t)(r->at - start);
    r->at = start;
    if (digits < 1 || digits > 6 || !hex_digits(r, (unsigned)digits, c) || !at_text(r, "}") || *c > TN_CHAR_LAST)
      return fail(r, TN_E_INVALID, "expected \\u{...} of a character"), false;
    return true;
  }
  if (!hex_digits(r, 4, c)) return false;
  uint32_t low;
  if (*c >= 0xD800 && *c < 0xDC00 && at_text(r, "\\u")) {
    if (!hex_digits(r, 4, &low) || low < 0xDC00 || low > 0xDFFF)
      return fail(r, TN_E_INVALID, "expected the second half of a surrogate pair"), false;
    *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
  }
  return true;
}

/* After a backslash: a class is added to `set` and *c is UINT32_MAX, or one character is given in *c. */
static bool parse_escape(regex *r, tn_chars *set, bool in_class, uint32_t *c) {
  static const char from[] = "tnrfv0", to[] = "\t\n\r\f\v\0";
  *c = UINT32_MAX;
  if (r->at == r->end) return fail(r, TN_E_INVALID, "a backslash ends it"), false;
  char e = *r->at++;
  if (strchr("dwsDWS", e)) return add_named_class(set, e) || (fail(r, TN_E_MEMORY, "out of memory"), false);
  if (e == 'p' || e == 'P') return add_category(r, set, e == 'P');
  if (e == 'x') return hex_digits(r, 2, c);
  if (e == 'u') return unicode_escape(r, c);
  if (e == 'b' && in_class) return *c = '\b', true;
  if (e == 'c' && r->at < r->end && ((*r->at | 32) >= 'a' && (*r->at | 32) <= 'z')) return *c = *r->at++ & 31, true;
  if (e == 'b' || e == 'B') return fail(r, TN_E_UNSUPPORTED, "a word boundary"), false;
  if ((e >= '1' && e <= '9') || e == 'k') return fail(r, TN_E_UNSUPPORTED, "a back reference"), false;
  const char *known = strchr(from, e);
  if (known) return *c = (uint8_t)to[known - from], true;
  if ((e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z')) return fail(r, TN_E_INVALID, "an unknown escape"), false;
  r->at--;
  *c = tn_next_char(&r->at, r->end);
  return *c != UINT32_MAX || (fail(r, TN_E_INVALID, "bytes that aren't UTF-8"), false);
}

/* One end of a range in a class. */
static bool class_member(regex *r, tn_chars *set, uint32_t *c) {
  if (at_text(r, "\\")) return parse_escape(r, set, true, c);
  *c = tn_next_char(&r->at, r->end);
  return *c != UINT32_MAX || (fail(r, TN_E_INVALID, "bytes that aren't UTF-8"), false);
}

static node *parse_class(regex *r) {
  tn_chars set = {0};
  bool negated = at_text(r, "^"), done = true;
  while (done && r->at < r->end && *r->at != ']') {
    uint32_t first, last;
    done = class_member(r, &set, &first);
    last = first;
    if (done && r->end - r->at >= 2 && *r->at == '-' && r->at[1] != ']') {
      r->at++;
      done = class_member(r, &set, &last);
      if (done && (first == UINT32_MAX || last == UINT32_MAX)) {
        if (first != UINT32_MAX) done = tn_chars_add(&set, first, first);
        done = done && tn_chars_add(&set, '-', '-');
        first = last;
      } else if (done && first > last) {
        done = false, fail(r, TN_E_INVALID, "a range that runs backwards");
      }
    }
    if (done && first != UINT32_MAX) done = tn_chars_add(&set, first, last);
  }
  if (done && !at_text(r, "]")) done = false, fail(r, TN_E_INVALID, "an unfinished class");
  if (done && negated) done = tn_chars_negate(&set);
  if (!done) {
    tn_chars_finish(&set);
    return fail(r, TN_E_MEMORY, "out of memory");
  }
  return set_node(r, &set);
}

/* ---- groups, atoms, quantifiers ---- */

static node *parse_group(regex *r) {
  node *look = NULL;
  if (at_text(r, "?="))
    look = new_node(r, LOOK);
  else if (at_text(r, "?!")) {
    look = new_node(r, LOOK);
    if (look) look->negated = true;
  } else if (at_text(r, "?<=") || at_text(r, "?<!")) {
    return fail(r, TN_E_UNSUPPORTED, "look-behind");
  } else if (at_text(r, "?<") || at_text(r, "?P<")) {
    while (r->at < r->end && *r->at != '>') r->at++;
    if (!at_text(r, ">")) return fail(r, TN_E_INVALID, "an unfinished group name");
  } else if (!at_text(r, "?:") && at_text(r, "?")) {
    return fail(r, TN_E_UNSUPPORTED, "a group of this kind");
  }
  if (r->status != TN_OK) return NULL;
  if (++r->nesting > MAX_NESTING) return fail(r, TN_E_LIMIT, "groups nested too deeply");
  node *inner = parse_choice(r);
  r->nesting--;
  if (!inner) return NULL;
  if (!at_text(r, ")")) return fail(r, TN_E_INVALID, "expected )");
  if (!look) return inner;
  return add_child(r, look, inner) ? look : NULL;
}

static node *parse_atom(regex *r) {
  static const tn_char_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  tn_chars set = {0};
  uint32_t c;
  if (at_text(r, "(")) return parse_group(r);
  if (at_text(r, "[")) return parse_class(r);
  if (at_text(r, "^")) return new_node(r, BEGIN);
  if (at_text(r, "$")) return new_node(r, END);
  if (strchr("*+?{", *r->at) && *r->at) return fail(r, TN_E_INVALID, "a quantifier without anything before it");
  if (at_text(r, ".")) {
    for (size_t i = 0; i < TN_COUNT(line_ends); i++)
      if (!tn_chars_add(&set, line_ends[i].first, line_ends[i].last)) return fail(r, TN_E_MEMORY, "out of memory");
    if (!tn_chars_negate(&set)) return fail(r, TN_E_MEMORY, "out of memory");
    return set_node(r, &set);
  }
  bool done = at_text(r, "\\") ? parse_escape(r, &set, false, &c) : class_member(r, &set, &c);
  if (done && c != UINT32_MAX) done = tn_chars_add(&set, c, c);
  if (done) return set_node(r, &set);
  tn_chars_finish(&set);
  return fail(r, TN_E_MEMORY, "out of memory");
}

static bool parse_number(regex *r, uint32_t *value) {
  const char *start = r->at;
  uint64_t number = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    number = number > UINT32_MAX / 16 ? number : number * 10 + (uint64_t)(*r->at - '0');
  if (number > UINT32_MAX / 16) fail(r, TN_E_LIMIT, "a repetition count that is too large");
  *value = (uint32_t)number;
  return r->at > start;
}

/* True when a quantifier was read. */
static bool parse_quantifier(regex *r, uint32_t *min, uint32_t *max) {
  *min = 0;
  *max = TN_EXPR_MANY;
  if (at_text(r, "*")) return true;
  if (at_text(r, "+")) return *min = 1, true;
  if (at_text(r, "?")) return *max = 1, true;
  if (!at_text(r, "{")) return false;
  if (!parse_number(r, min)) return fail(r, TN_E_INVALID, "expected a number after {"), false;
  *max = *min;
  if (at_text(r, ",") && !parse_number(r, max)) *max = TN_EXPR_MANY;
  if (!at_text(r, "}")) return fail(r, TN_E_INVALID, "expected }"), false;
  if (*max < *min) return fail(r, TN_E_INVALID, "a repetition whose maximum is below its minimum"), false;
  return true;
}

static node *parse_sequence(regex *r) {
  node *sequence = new_node(r, SEQUENCE);
  while (sequence && r->status == TN_OK && r->at < r->end && *r->at != '|' && *r->at != ')') {
    node *atom = parse_atom(r);
    uint32_t min, max;
    if (atom && parse_quantifier(r, &min, &max)) {
      at_text(r, "?"); /* lazy */
      node *repeat = new_node(r, REPEAT);
      if (!add_child(r, repeat, atom)) return NULL;
      repeat->min = min, repeat->max = max;
      atom = repeat;
    }
    if (!add_child(r, sequence, atom)) return NULL;
  }
  return r->status == TN_OK ? sequence : NULL;
}

static node *parse_choice(regex *r) {
  node *choice = new_node(r, CHOICE);
  do {
    if (!choice || !add_child(r, choice, parse_sequence(r))) return NULL;
  } while (at_text(r, "|"));
  return choice->count == 1 ? choice->children[0] : choice;
}

/* ---- compiling ---- */

/* Texts of a node without assertions. */
static tn_expr plain(regex *r, const node *n) {
  tn_expr e = TN_EXPR_EMPTY;
  switch (n->kind) {
    case SET: return n->set;
    case REPEAT: return tn_expr_repeat(r->x, plain(r, n->children[0]), n->min, n->max);
    case SEQUENCE:
      for (size_t i = n->count; i-- > 0;) e = tn_expr_concat(r->x, plain(r, n->children[i]), e);
      return e;
    case CHOICE: {
      size_t base = r->x->scratch_count;
      for (size_t i = 0; i < n->count; i++)
        if (!tn_exprs_scratch(r->x, plain(r, n->children[i]))) return TN_EXPR_NOTHING;
      return tn_expr_combine(r->x, TN_EXPR_IS_ALT, base);
    }
    default: return TN_EXPR_NOTHING;
  }
}

static tn_expr anything(regex *r) {
  return tn_expr_repeat(r->x, tn_any_char(r->x, r->spelling), 0, TN_EXPR_MANY);
}

/* Texts of `n` followed by `rest`. `begin`: we may be at the beginning of the text, so `^` holds. */
static tn_expr compile(regex *r, const node *n, tn_expr rest, bool begin) {
  if (!n->asserts) return tn_expr_concat(r->x, plain(r, n), rest);
  switch (n->kind) {
    case BEGIN:
      if (!begin) fail(r, TN_E_UNSUPPORTED, "^ that isn't at the beginning");
      return rest;
    case END: return tn_expr_nullable(r->x, rest) ? TN_EXPR_EMPTY : TN_EXPR_NOTHING;
    case LOOK: {
      tn_expr ahead = compile(r, n->children[0], anything(r), begin);
      return tn_expr_and(r->x, rest, n->negated ? tn_expr_not(r->x, ahead) : ahead);
    }
    case SEQUENCE:
      for (size_t i = n->count; i-- > 0;) {
        bool first = true; /* nothing but assertions stands before it */
        for (size_t j = 0; j < i; j++) first = first && (n->children[j]->kind == BEGIN || n->children[j]->kind == LOOK);
        rest = compile(r, n->children[i], rest, begin && first);
      }
      return rest;
    case CHOICE: {
      size_t base = r->x->scratch_count;
      for (size_t i = 0; i < n->count; i++)
        if (!tn_exprs_scratch(r->x, compile(r, n->children[i], rest, begin))) return TN_EXPR_NOTHING;
      return tn_expr_combine(r->x, TN_EXPR_IS_ALT, base);
    }
    default:
      if (n->min == 0 && n->max == 1) return tn_expr_alt(r->x, rest, compile(r, n->children[0], rest, begin));
      fail(r, TN_E_UNSUPPORTED, "^, $ or a look-ahead inside a repetition");
      return TN_EXPR_NOTHING;
  }
}

/* Texts with `n` somewhere, followed by `rest`: anything may stand before it, unless it begins with `^`. */
static tn_expr search_for(regex *r, const node *n, tn_expr rest) {
  if (n->kind == BEGIN) return rest;
  if (n->kind == CHOICE && n->asserts) {
    size_t base = r->x->scratch_count;
    for (size_t i = 0; i < n->count; i++)
      if (!tn_exprs_scratch(r->x, search_for(r, n->children[i], rest))) return TN_EXPR_NOTHING;
    return tn_expr_combine(r->x, TN_EXPR_IS_ALT, base);
  }
  if (n->kind == SEQUENCE && n->count && n->children[0]->asserts && n->children[0]->kind != LOOK) {
    bool begins = n->children[0]->kind == BEGIN;
    for (size_t i = n->count; i-- > 1;) {
      bool first = begins;
      for (size_t j = 1; j < i; j++) first = first && (n->children[j]->kind == BEGIN || n->children[j]->kind == LOOK);
      rest = compile(r, n->children[i], rest, first);
    }
    return search_for(r, n->children[0], rest);
  }
  return tn_expr_concat(r->x, anything(r), compile(r, n, rest, false));
}

tn_status tn_regex_expr(tn_exprs *x, const char *pattern, size_t size, bool search, tn_spelling spelling,
                        tn_expr *result, tn_error *error) {
  regex r = {.x = x, .text = pattern, .at = pattern, .end = pattern + size, .spelling = spelling, .error = error};
  *result = TN_EXPR_NOTHING;
  node *tree = parse_choice(&r);
  if (tree && r.at < r.end) fail(&r, TN_E_INVALID, "an unmatched )");
  if (r.status == TN_OK) {
    if (search)
      *result = search_for(&r, tree, anything(&r));
    else
      *result = compile(&r, tree, TN_EXPR_EMPTY, true);
  }
  if (r.status == TN_OK && x->status != TN_OK)
    r.status = tn_fail(error, x->status, x->status == TN_E_LIMIT ? "the pattern is too large" : "out of memory");
  for (size_t i = 0; i < r.count; i++) {
    free(r.all[i]->children);
    free(r.all[i]);
  }
  free(r.all);
  return r.status;
}
