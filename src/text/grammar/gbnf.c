/* The notation:
 *   grammar  = rule*                     rule = name "::=" choice newline
 *   choice   = sequence ("|" sequence)*  sequence = (item repeat?)*
 *   item     = "literal" | [class] | . | name | "(" choice ")"
 *   repeat   = * | + | ? | {m} | {m,} | {m,n}
 * Newlines end a rule except inside parentheses, after `::=` and after `|`; `#` begins a comment. A rule that is
 * written twice has its last meaning, as in llama.cpp. */
#include "text/grammar/gbnf.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "text/grammar/chars.h"

#define MAX_NESTING 60     /* parentheses in parentheses */
#define MAX_TEXT (4 << 20) /* bytes of a grammar */

typedef struct name {
  const char *text;
  size_t size, line; /* where it was first used or defined */
  bool defined;
} name;

typedef struct gbnf {
  tn_exprs *x;
  const char *at, *end;
  size_t line;
  name *names; /* by rule */
  size_t name_count, name_capacity;
  uint32_t *table; /* rule + 1 by hash of its name */
  size_t table_size;
  unsigned nesting;
  char shown[64];
  tn_status status;
  tn_error *error;
} gbnf;

static tn_expr parse_choice(gbnf *g);

static tn_expr fail(gbnf *g, tn_status status, const char *what) {
  if (g->status == TN_OK) g->status = tn_fail(g->error, status, "%s in line %zu of the grammar", what, g->line);
  return TN_EXPR_NOTHING;
}

static bool at_text(gbnf *g, const char *text) {
  size_t size = strlen(text);
  if ((size_t)(g->end - g->at) < size || memcmp(g->at, text, size)) return false;
  g->at += size;
  return true;
}

static void skip_blanks(gbnf *g, bool newlines) {
  for (; g->at < g->end; g->at++) {
    if (*g->at == '#') {
      while (g->at < g->end && *g->at != '\n' && *g->at != '\r') g->at++;
      if (g->at == g->end) return;
    }
    bool newline = *g->at == '\n' || *g->at == '\r';
    if (newline ? !newlines : *g->at != ' ' && *g->at != '\t') return;
    if (*g->at == '\n') g->line++;
  }
}

/* ---- names ---- */

static size_t hash_name(const char *text, size_t size) {
  size_t hash = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
  return hash ^ hash >> 32;
}

static bool grow_names(gbnf *g) {
  size_t size = g->table_size ? g->table_size * 2 : 64;
  uint32_t *table = tn_calloc(size, sizeof *table);
  if (!table) return false;
  for (size_t i = 0; i < g->name_count; i++) {
    size_t at = hash_name(g->names[i].text, g->names[i].size) & (size - 1);
    while (table[at]) at = (at + 1) & (size - 1);
    table[at] = (uint32_t)i + 1;
  }
  free(g->table);
  g->table = table;
  g->table_size = size;
  return true;
}

/* The rule called `text`, made when it is new. */
static uint32_t rule_named(gbnf *g, const char *text, size_t size) {
  if (g->name_count * 2 >= g->table_size && !grow_names(g)) return fail(g, TN_E_MEMORY, "out of memory"), 0;
  size_t at = hash_name(text, size) & (g->table_size - 1);
  for (; g->table[at]; at = (at + 1) & (g->table_size - 1)) {
    const name *known = &g->names[g->table[at] - 1];
    if (known->size == size && !memcmp(known->text, text, size)) return g->table[at] - 1;
  }
  uint32_t rule = tn_rule_add(g->x);
  name *slot = rule == UINT32_MAX ? NULL : TN_PUSH(g->names, g->name_count, g->name_capacity);
  if (!slot) return fail(g, TN_E_MEMORY, "too many rules"), 0;
  *slot = (name){.text = text, .size = size, .line = g->line};
  g->table[at] = (uint32_t)g->name_count;
  return rule;
}

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* The length of the name at the cursor; 0 when there is none. */
static size_t name_size(const gbnf *g) {
  size_t size = 0;
  while (g->at + size < g->end && is_name_char(g->at[size])) size++;
  return size;
}

/* ---- characters ---- */

static uint32_t hex_escape(gbnf *g, unsigned digits) {
  uint32_t value = 0;
  for (unsigned i = 0; i < digits; i++, g->at++) {
    char c = g->at < g->end ? *g->at : 0;
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) return fail(g, TN_E_INVALID, "expected a hexadecimal digit"), 0;
    value = value << 4 | (uint32_t)digit;
  }
  if (value > TN_CHAR_LAST || (value >= 0xD800 && value <= 0xDFFF))
    fail(g, TN_E_INVALID, "an escape that isn't a character");
  return value;
}

/* One character of a literal or a class. */
static uint32_t parse_char(gbnf *g) {
  static const char from[] = "trn\\\"[]", to[] = "\t\r\n\\\"[]";
  if (!at_text(g, "\\")) {
    if (*g->at == '\n') g->line++;
    uint32_t c = tn_next_char(&g->at, g->end);
    if (c == UINT32_MAX) fail(g, TN_E_INVALID, "bytes that aren't UTF-8");
    return c;
  }
  if (g->at == g->end) return fail(g, TN_E_INVALID, "an unfinished escape"), 0;
  char e = *g->at++;
  if (e == 'x') return hex_escape(g, 2);
  if (e == 'u') return hex_escape(g, 4);
  if (e == 'U') return hex_escape(g, 8);
  const char *known = e ? strchr(from, e) : NULL;
  if (!known) return fail(g, TN_E_INVALID, "an unknown escape"), 0;
  return (uint8_t)to[known - from];
}

static tn_expr parse_literal(gbnf *g) {
  uint32_t *chars = NULL;
  size_t count = 0, capacity = 0;
  while (g->status == TN_OK && g->at < g->end && *g->at != '"') {
    uint32_t c = parse_char(g), *slot = TN_PUSH(chars, count, capacity);
    if (!slot)
      fail(g, TN_E_MEMORY, "out of memory");
    else
      *slot = c;
  }
  if (g->status == TN_OK && !at_text(g, "\"")) fail(g, TN_E_INVALID, "an unfinished literal");
  tn_expr e = TN_EXPR_EMPTY;
  while (g->status == TN_OK && count) e = tn_expr_concat(g->x, tn_one_char(g->x, chars[--count], TN_SPELL_UTF8), e);
  free(chars);
  return e;
}

static tn_expr parse_class(gbnf *g) {
  tn_chars set = {0};
  tn_expr e = TN_EXPR_NOTHING;
  bool negated = at_text(g, "^"), done = true;
  while (done && g->status == TN_OK && g->at < g->end && *g->at != ']') {
    uint32_t first = parse_char(g), last = first;
    if (g->status == TN_OK && g->end - g->at >= 2 && *g->at == '-' && g->at[1] != ']') {
      g->at++;
      last = parse_char(g);
    }
    if (first > last) fail(g, TN_E_INVALID, "a range that runs backwards");
    done = tn_chars_add(&set, first, last);
  }
  if (g->status == TN_OK && !at_text(g, "]")) fail(g, TN_E_INVALID, "an unfinished class");
  if (g->status == TN_OK && done && !set.count && !negated) fail(g, TN_E_INVALID, "an empty class");
  if (negated) done = done && tn_chars_negate(&set);
  if (!done) fail(g, TN_E_MEMORY, "out of memory");
  if (g->status == TN_OK) e = tn_chars_expr(g->x, &set, TN_SPELL_UTF8);
  tn_chars_finish(&set);
  return e;
}

/* ---- items, sequences, choices ---- */

static bool parse_number(gbnf *g, uint32_t *value) {
  const char *start = g->at;
  uint64_t number = 0;
  for (; g->at < g->end && *g->at >= '0' && *g->at <= '9'; g->at++)
    number = number > UINT32_MAX / 16 ? number : number * 10 + (uint64_t)(*g->at - '0');
  if (number > UINT32_MAX / 16) fail(g, TN_E_LIMIT, "a repetition count that is too large");
  *value = (uint32_t)number;
  return g->at > start;
}

/* True when a repetition was read. */
static bool parse_repeat(gbnf *g, uint32_t *min, uint32_t *max) {
  *min = 0;
  *max = TN_EXPR_MANY;
  if (at_text(g, "*")) return true;
  if (at_text(g, "+")) return *min = 1, true;
  if (at_text(g, "?")) return *max = 1, true;
  if (!at_text(g, "{")) return false;
  skip_blanks(g, g->nesting > 0);
  if (!parse_number(g, min)) return fail(g, TN_E_INVALID, "expected a number after {"), false;
  *max = *min;
  skip_blanks(g, g->nesting > 0);
  if (at_text(g, ",")) {
    skip_blanks(g, g->nesting > 0);
    if (!parse_number(g, max)) *max = TN_EXPR_MANY;
    skip_blanks(g, g->nesting > 0);
  }
  if (!at_text(g, "}")) return fail(g, TN_E_INVALID, "expected }"), false;
  if (*max < *min) return fail(g, TN_E_INVALID, "a repetition whose maximum is below its minimum"), false;
  return true;
}

/* An item of a sequence; false at the end of the sequence. */
static bool parse_item(gbnf *g, tn_expr *item) {
  size_t size = name_size(g);
  *item = TN_EXPR_NOTHING;
  if (at_text(g, "\"")) {
    *item = parse_literal(g);
  } else if (at_text(g, "[")) {
    *item = parse_class(g);
  } else if (at_text(g, ".")) {
    *item = tn_any_char(g->x, TN_SPELL_UTF8);
  } else if (at_text(g, "(")) {
    if (++g->nesting > MAX_NESTING) return fail(g, TN_E_LIMIT, "parentheses nested too deeply"), false;
    skip_blanks(g, true);
    *item = parse_choice(g);
    g->nesting--;
    if (g->status == TN_OK && !at_text(g, ")")) fail(g, TN_E_INVALID, "expected )");
  } else if (size) {
    *item = tn_expr_call(g->x, rule_named(g, g->at, size));
    g->at += size;
  } else {
    return false;
  }
  skip_blanks(g, g->nesting > 0);
  return g->status == TN_OK;
}

static tn_expr parse_sequence(gbnf *g) {
  tn_exprs *x = g->x;
  size_t base = x->scratch_count;
  tn_expr item, e = TN_EXPR_EMPTY;
  while (g->status == TN_OK && parse_item(g, &item)) {
    uint32_t min, max;
    while (g->status == TN_OK && parse_repeat(g, &min, &max)) {
      item = tn_expr_repeat(x, item, min, max);
      skip_blanks(g, g->nesting > 0);
    }
    if (!tn_exprs_scratch(x, item)) return TN_EXPR_NOTHING;
  }
  while (x->scratch_count > base) e = tn_expr_concat(x, x->scratch[--x->scratch_count], e);
  return e;
}

static tn_expr parse_choice(gbnf *g) {
  size_t base = g->x->scratch_count;
  do {
    skip_blanks(g, true);
    if (!tn_exprs_scratch(g->x, parse_sequence(g))) return TN_EXPR_NOTHING;
  } while (g->status == TN_OK && at_text(g, "|"));
  return tn_expr_combine(g->x, TN_EXPR_IS_ALT, base);
}

static void parse_rule(gbnf *g) {
  size_t size = name_size(g);
  if (!size) return (void)fail(g, TN_E_INVALID, "expected the name of a rule");
  uint32_t rule = rule_named(g, g->at, size);
  g->at += size;
  skip_blanks(g, false);
  if (g->status != TN_OK) return;
  if (!at_text(g, "::=")) return (void)fail(g, TN_E_INVALID, "expected ::=");
  tn_expr body = parse_choice(g);
  if (g->status != TN_OK) return;
  if (g->at < g->end && *g->at != '\n' && *g->at != '\r')
    return (void)fail(g, TN_E_INVALID, "expected an item, |, or the end of the rule");
  g->names[rule].defined = true;
  g->x->rules[rule].body = body;
  skip_blanks(g, true);
}

static const char *show_name(const void *context, uint32_t rule) {
  gbnf *g = (gbnf *)(uintptr_t)context;
  size_t size = g->names[rule].size < sizeof g->shown - 1 ? g->names[rule].size : sizeof g->shown - 1;
  memcpy(g->shown, g->names[rule].text, size);
  g->shown[size] = 0;
  return g->shown;
}

static tn_status check_names(gbnf *g, uint32_t *root) {
  *root = UINT32_MAX;
  for (uint32_t i = 0; i < g->name_count; i++) {
    if (g->names[i].size == 4 && !memcmp(g->names[i].text, "root", 4)) *root = i;
    if (!g->names[i].defined)
      return tn_fail(g->error, TN_E_INVALID, "the rule %s, used in line %zu of the grammar, is not defined",
                     show_name(g, i), g->names[i].line);
  }
  if (*root == UINT32_MAX) return tn_fail(g->error, TN_E_INVALID, "the grammar has no rule named root");
  return TN_OK;
}

tn_status tn_gbnf_rules(tn_exprs *x, const char *text, size_t size, uint32_t *root, tn_error *error) {
  gbnf g = {.x = x, .at = text, .end = text + size, .line = 1, .error = error};
  if (size > MAX_TEXT) return tn_fail(error, TN_E_LIMIT, "a grammar of %zu bytes; %d are allowed", size, MAX_TEXT);
  skip_blanks(&g, true);
  while (g.status == TN_OK && g.at < g.end) {
    parse_rule(&g);
    if (x->status != TN_OK) fail(&g, x->status, x->status == TN_E_LIMIT ? "the grammar is too large" : "out of memory");
  }
  if (g.status == TN_OK) g.status = check_names(&g, root);
  if (g.status == TN_OK) g.status = tn_exprs_analyse(x, *root, show_name, &g, error);
  free(g.names);
  free(g.table);
  return g.status;
}
