#include "text/pattern_parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

typedef struct group {
  size_t first_part; /* where the group begins in the parts */
  unsigned closes;   /* closing parentheses it needs: one more for each (?i) inside */
  bool ignore_case, dot_all;
} group;

typedef struct parser {
  tn_pattern_parts *out;
  tn_text source;
  size_t at;
  bool ignore_case, dot_all;
  group groups[TN_PATTERN_MAX_DEPTH];
  unsigned depth;
  size_t last_atom; /* first part of what a quantifier would repeat; SIZE_MAX: nothing */
  tn_status status;
  tn_error *error;
} parser;

static bool fault(parser *p, tn_status status, const char *what) {
  if (p->status == TN_OK)
    p->status = tn_fail(p->error, status, "pattern: %s at byte %zu of '%.*s'", what, p->at,
                        (int)(p->source.bytes < 200 ? p->source.bytes : 200), p->source.data);
  return false;
}

static bool more(const parser *p) {
  return p->status == TN_OK && p->at < p->source.bytes;
}

static bool next_is(const parser *p, const char *text) {
  size_t bytes = strlen(text);
  return p->source.bytes - p->at >= bytes && memcmp(p->source.data + p->at, text, bytes) == 0;
}

static bool take(parser *p, const char *text) {
  if (!next_is(p, text)) return false;
  p->at += strlen(text);
  return true;
}

static uint32_t take_char(parser *p) {
  uint32_t codepoint = 0;
  if (!more(p)) {
    fault(p, TN_E_FORMAT, "unexpected end");
    return 0;
  }
  p->at += tn_utf8_step(p->source.data + p->at, p->source.bytes - p->at, &codepoint);
  return codepoint;
}

/* ---- what is put out ---- */

static void put(parser *p, const char *syntax, unsigned set) {
  tn_pattern_part *part = TN_PUSH(p->out->parts, p->out->count, p->out->capacity);
  if (part)
    *part = (tn_pattern_part){syntax, set};
  else
    fault(p, TN_E_MEMORY, "out of memory");
}

static void put_syntax(parser *p, const char *syntax) {
  put(p, syntax, 0);
}

/* The number of `set` among the sets of the pattern; takes what it holds. */
static unsigned set_number(parser *p, tn_char_set *set) {
  tn_pattern_parts *out = p->out;
  tn_char_set_tidy(set);
  if (set->failed) fault(p, TN_E_MEMORY, "out of memory");
  for (unsigned i = 0; i < out->set_count; i++) {
    if (!tn_char_set_equal(&out->sets[i], set)) continue;
    tn_char_set_finish(set);
    return i;
  }
  if (out->set_count == TN_PATTERN_MAX_SETS) {
    tn_char_set_finish(set);
    fault(p, TN_E_LIMIT, "too many different character classes");
    return 0;
  }
  out->sets[out->set_count] = *set;
  *set = (tn_char_set){0};
  return (unsigned)out->set_count++;
}

static void put_set(parser *p, tn_char_set *set) {
  p->last_atom = p->out->count;
  put(p, "", set_number(p, set));
}

static void put_char(parser *p, uint32_t codepoint) {
  tn_char_set set = {0};
  tn_char_set_add(&set, codepoint, codepoint);
  if (p->ignore_case) tn_char_set_add_case(&set);
  put_set(p, &set);
}

/* Puts `before`, the set, `after`: look-around on one character. */
static void put_around(parser *p, const char *before, unsigned set, const char *after) {
  put_syntax(p, before);
  put(p, "", set);
  put_syntax(p, after);
}

/* ---- escapes ---- */

static uint32_t take_hex(parser *p, unsigned least, unsigned most) {
  uint32_t value = 0;
  unsigned count = 0;
  for (; count < most && more(p); count++, p->at++) {
    char c = p->source.data[p->at];
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value << 4 | (uint32_t)digit;
  }
  if (count < least || value > 0x10ffff) fault(p, TN_E_FORMAT, "bad hexadecimal escape");
  return value;
}

/* \p{...} behind its p: adds what it names. */
static void take_property(parser *p, bool negative, tn_char_set *set) {
  tn_text name;
  if (take(p, "{")) {
    if (take(p, "^")) negative = !negative;
    const char *start = p->source.data + p->at;
    const char *close = memchr(start, '}', p->source.bytes - p->at);
    if (!close) {
      fault(p, TN_E_FORMAT, "\\p{ without }");
      return;
    }
    name = (tn_text){start, (size_t)(close - start)};
    p->at += name.bytes + 1;
  } else {
    name = (tn_text){p->source.data + p->at, more(p) ? 1 : 0};
    p->at += name.bytes;
  }
  tn_char_set named = {0};
  uint32_t categories = tn_unicode_categories_named(name);
  int script = categories ? -1 : tn_unicode_script_named(name);
  if (categories)
    tn_char_set_add_categories(&named, categories);
  else if (script >= 0)
    tn_char_set_add_script(&named, (unsigned)script);
  else if (tn_text_is(name, "Any"))
    tn_char_set_add(&named, 0, 0x10ffff);
  else if (tn_text_is(name, "White_Space") || tn_text_is(name, "Space"))
    tn_char_set_add_space(&named);
  else
    fault(p, TN_E_UNSUPPORTED, "unknown property in \\p{}");
  if (negative) tn_char_set_invert(&named);
  tn_char_set_add_set(set, &named);
  tn_char_set_finish(&named);
}

/* The class that a letter escape names (\d \s \w \h and their opposites), added to `set`; false: it names none. */
static bool class_escape(char letter, bool in_class, tn_char_set *set) {
  tn_char_set named = {0};
  switch (letter | 0x20) {
    case 'd': tn_char_set_add_categories(&named, TN_CATEGORY_BIT(TN_ND)); break;
    case 's': tn_char_set_add_space(&named); break;
    case 'w': tn_char_set_add_word(&named, !in_class); break;
    case 'h':
      tn_char_set_add(&named, '0', '9');
      tn_char_set_add(&named, 'a', 'f');
      tn_char_set_add(&named, 'A', 'F');
      break;
    default: return false;
  }
  if (!(letter & 0x20)) tn_char_set_invert(&named);
  tn_char_set_add_set(set, &named);
  tn_char_set_finish(&named);
  return true;
}

/* An escape behind its backslash that stands for characters. True with *codepoint set: exactly one; false: a class,
 * added to `set`. */
static bool take_escape(parser *p, bool in_class, tn_char_set *set, uint32_t *codepoint) {
  static const char names[] = "nrtfvae", values[] = "\n\r\t\f\v\a\x1b";
  uint32_t c = take_char(p);
  *codepoint = c;
  if (c >= 0x80) return true;
  if (c == 'p' || c == 'P') {
    take_property(p, c == 'P', set);
    return false;
  }
  if (class_escape((char)c, in_class, set)) return false;
  const char *named = c ? strchr(names, (int)c) : NULL;
  if (named) {
    *codepoint = (unsigned char)values[named - names];
  } else if (c == 'x') {
    if (take(p, "{")) {
      *codepoint = take_hex(p, 1, 8);
      if (!take(p, "}")) fault(p, TN_E_FORMAT, "\\x{ without }");
    } else {
      *codepoint = take_hex(p, 1, 2);
    }
  } else if (c == 'u') {
    *codepoint = take_hex(p, 4, 4);
  } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
    fault(p, TN_E_UNSUPPORTED, "unsupported escape");
  }
  return true;
}

/* ---- classes ---- */

/* [:name:] behind its first bracket; false if it isn't one. */
static bool take_posix(parser *p, tn_char_set *set) {
  static const struct {
    const char *name;
    uint32_t categories;
  } table[] = {{"digit", TN_CATEGORY_BIT(TN_ND)},
               {"punct", TN_CATEGORIES_P | TN_CATEGORIES_S},
               {"cntrl", TN_CATEGORY_BIT(TN_CC)},
               {"space", 0},
               {"word", 0}};
  size_t start = p->at, close = start + 1;
  while (close < p->source.bytes && p->source.data[close] != ':' && p->source.data[close] != ']') close++;
  if (!next_is(p, ":") || close + 1 >= p->source.bytes || p->source.data[close] != ':' ||
      p->source.data[close + 1] != ']')
    return false;
  p->at++;
  bool negative = take(p, "^");
  for (size_t i = 0; i < TN_COUNT(table); i++) {
    if (!take(p, table[i].name)) continue;
    if (!take(p, ":]")) break;
    tn_char_set named = {0};
    if (strcmp(table[i].name, "space") == 0)
      tn_char_set_add_space(&named);
    else if (strcmp(table[i].name, "word") == 0)
      tn_char_set_add_word(&named, false);
    else
      tn_char_set_add_categories(&named, table[i].categories);
    if (negative) tn_char_set_invert(&named);
    tn_char_set_add_set(set, &named);
    tn_char_set_finish(&named);
    return true;
  }
  p->at = start;
  /* The others mean properties that aren't in the tables (Alphabetic, Uppercase, ...). */
  return fault(p, TN_E_UNSUPPORTED, "unsupported class in [: :]");
}

static void take_class(parser *p, unsigned depth, tn_char_set *set);

/* One element of a class that isn't a bracket or &&: a character, a range or an escape. */
static void take_class_element(parser *p, tn_char_set *set) {
  uint32_t first, last;
  if (take(p, "\\")) {
    if (!take_escape(p, true, set, &first)) return;
  } else {
    first = take_char(p);
  }
  last = first;
  if (next_is(p, "-") && p->at + 1 < p->source.bytes && p->source.data[p->at + 1] != ']') {
    size_t before = p->at++;
    tn_char_set no_range = {0};
    bool single = true;
    if (next_is(p, "["))
      single = false;
    else if (take(p, "\\"))
      single = take_escape(p, true, &no_range, &last);
    else
      last = take_char(p);
    tn_char_set_finish(&no_range);
    if (!single) { /* "a-\d", "a-[": the minus is itself; what follows is read again */
      p->at = before + 1;
      tn_char_set_add(set, '-', '-');
      last = first;
    }
  }
  if (last < first)
    fault(p, TN_E_FORMAT, "a range that runs backwards");
  else
    tn_char_set_add(set, first, last);
}

/* A class behind its bracket, up to and with the closing one. */
static void take_class(parser *p, unsigned depth, tn_char_set *set) {
  if (depth == TN_PATTERN_MAX_DEPTH) {
    fault(p, TN_E_LIMIT, "classes nested too deeply");
    return;
  }
  bool negative = take(p, "^"), intersect = false, at_start = true;
  tn_char_set both = {0}; /* the part in front of the last && */
  for (;; at_start = false) {
    if (!more(p)) {
      fault(p, TN_E_FORMAT, "[ without ]");
      break;
    }
    if (next_is(p, "]") && !at_start) break;
    if (take(p, "&&")) {
      if (intersect)
        tn_char_set_intersect(&both, set);
      else
        tn_char_set_add_set(&both, set);
      intersect = true;
      tn_char_set_finish(set);
    } else if (take(p, "[")) {
      if (take_posix(p, set)) continue;
      tn_char_set inner = {0};
      take_class(p, depth + 1, &inner);
      tn_char_set_add_set(set, &inner);
      tn_char_set_finish(&inner);
    } else {
      take_class_element(p, set);
    }
  }
  p->at++;
  if (intersect) tn_char_set_intersect(set, &both);
  tn_char_set_finish(&both);
  /* Case counts for what the whole class holds: not inside, and before its negation. */
  if (depth == 0 && p->ignore_case) tn_char_set_add_case(set);
  if (negative) tn_char_set_invert(set);
}

/* ---- groups, quantifiers, anchors ---- */

static void open_group(parser *p, const char *syntax) {
  if (p->depth == TN_PATTERN_MAX_DEPTH) {
    fault(p, TN_E_LIMIT, "groups nested too deeply");
    return;
  }
  p->groups[p->depth++] = (group){p->out->count, 1, p->ignore_case, p->dot_all};
  put_syntax(p, syntax);
  p->last_atom = SIZE_MAX;
}

static void close_group(parser *p) {
  if (p->depth == 0) {
    fault(p, TN_E_FORMAT, ") without (");
    return;
  }
  group closed = p->groups[--p->depth];
  for (unsigned i = 0; i < closed.closes; i++) put_syntax(p, ")");
  p->ignore_case = closed.ignore_case;
  p->dot_all = closed.dot_all;
  p->last_atom = closed.first_part;
}

/* (?imx-imx) or (?imx-imx:, behind the question mark. */
static void take_options(parser *p) {
  bool on = true, ignore_case = p->ignore_case, dot_all = p->dot_all;
  for (;;) {
    uint32_t c = take_char(p);
    if (c == '-') {
      on = false;
    } else if (c == 'i') {
      ignore_case = on;
    } else if (c == 'm' || c == 's') {
      dot_all = on;
    } else if (c == ':') {
      open_group(p, "(?:");
      break;
    } else if (c == ')') { /* for the rest of the group around it, alternatives included */
      put_syntax(p, "(?:");
      if (p->depth) p->groups[p->depth - 1].closes++;
      p->last_atom = SIZE_MAX;
      break;
    } else {
      fault(p, TN_E_UNSUPPORTED, "unsupported group");
      return;
    }
  }
  p->ignore_case = ignore_case;
  p->dot_all = dot_all;
}

static void take_group(parser *p) {
  static const char *const kinds[] = {"?:", "?=", "?!", "?>", "?<=", "?<!"};
  static const char *const syntax[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
  if (!next_is(p, "?")) {
    open_group(p, "(?:");
    return;
  }
  for (size_t i = 0; i < TN_COUNT(kinds); i++) {
    if (!take(p, kinds[i])) continue;
    open_group(p, syntax[i]);
    return;
  }
  if (take(p, "?<") || take(p, "?P<")) { /* a name is not needed without back references */
    const char *close = memchr(p->source.data + p->at, '>', p->source.bytes - p->at);
    if (!close) {
      fault(p, TN_E_FORMAT, "(?< without >");
      return;
    }
    p->at = (size_t)(close - p->source.data) + 1;
    open_group(p, "(?:");
    return;
  }
  p->at++;
  take_options(p);
}

/* {n}, {n,}, {n,m} or {,m} at the brace: its text for PCRE2 in the arena, or NULL if the brace is a literal. */
static const char *take_counts(parser *p) {
  size_t at = p->at + 1;
  unsigned long bounds[2] = {0, 0};
  bool given[2] = {false, false}, comma = false;
  for (int i = 0; i < 2; i++) {
    for (; at < p->source.bytes && p->source.data[at] >= '0' && p->source.data[at] <= '9'; at++) {
      given[i] = true;
      if (bounds[i] < 100000) bounds[i] = bounds[i] * 10 + (unsigned long)(p->source.data[at] - '0');
    }
    if (i == 0 && at < p->source.bytes && p->source.data[at] == ',') {
      comma = true;
      at++;
    }
  }
  if (at >= p->source.bytes || p->source.data[at] != '}' || !(given[0] || given[1])) return NULL;
  if (bounds[0] > 65535 || bounds[1] > 65535) fault(p, TN_E_LIMIT, "a repeat count above 65535");
  p->at = at + 1;
  tn_buf text;
  tn_buf_init(&text);
  tn_buf_printf(&text, given[1] ? "{%lu,%lu}" : comma ? "{%lu,}" : "{%lu}", bounds[0], bounds[1]);
  char *kept = text.failed ? NULL : tn_arena_copy(&p->out->arena, text.data, text.size);
  tn_buf_finish(&text);
  if (!kept) fault(p, TN_E_MEMORY, "out of memory");
  return kept;
}

/* Puts the parts from `first` on into a group of their own. */
static void wrap(parser *p, size_t first) {
  put_syntax(p, "");
  if (p->status != TN_OK) return;
  tn_pattern_part *parts = p->out->parts;
  memmove(parts + first + 1, parts + first, (p->out->count - 1 - first) * sizeof *parts);
  parts[first] = (tn_pattern_part){"(?:", 0};
  put_syntax(p, ")");
}

/* A quantifier, if one comes next. */
static bool take_quantifier(parser *p) {
  static const char *const simple[] = {"*", "+", "?"};
  const char *syntax = NULL;
  bool counts = false;
  for (size_t i = 0; i < TN_COUNT(simple) && !syntax; i++)
    if (take(p, simple[i])) syntax = simple[i];
  if (!syntax && next_is(p, "{")) {
    syntax = take_counts(p);
    counts = true;
  }
  if (!syntax) return false;
  if (p->last_atom == SIZE_MAX) return fault(p, TN_E_FORMAT, "nothing to repeat");
  put_syntax(p, syntax);
  if (take(p, "?"))
    put_syntax(p, "?");
  else if (!counts && take(p, "+"))
    put_syntax(p, "+");
  wrap(p, p->last_atom); /* so that a further quantifier repeats the whole */
  return true;
}

/* The number of a set for an anchor: line feed alone, all else, or word characters. */
static unsigned anchor_set(parser *p, char kind) {
  tn_char_set set = {0};
  if (kind == 'w')
    tn_char_set_add_word(&set, true);
  else
    tn_char_set_add(&set, '\n', '\n');
  if (kind == 'N') tn_char_set_invert(&set);
  return set_number(p, &set);
}

static void put_boundary(parser *p, bool negative) {
  unsigned word = anchor_set(p, 'w');
  put_around(p, "(?:(?<=", word, ")");
  put_around(p, negative ? "(?=" : "(?!", word, ")|");
  put_around(p, "(?<!", word, ")");
  put_around(p, negative ? "(?!" : "(?=", word, "))");
}

/* \A \z \Z \b \B behind the backslash. */
static bool take_anchor_escape(parser *p) {
  size_t before = p->out->count;
  if (take(p, "A")) {
    put_syntax(p, "\\A");
  } else if (take(p, "z")) {
    put_syntax(p, "\\z");
  } else if (take(p, "Z")) {
    put_around(p, "(?=", anchor_set(p, 'n'), "?\\z)");
  } else if (next_is(p, "b") || next_is(p, "B")) {
    put_boundary(p, take_char(p) == 'B');
  } else {
    return false;
  }
  p->last_atom = before;
  return true;
}

static void take_term(parser *p) {
  tn_char_set set = {0};
  uint32_t codepoint;
  size_t before = p->out->count;
  if (take(p, "(")) {
    take_group(p);
  } else if (take(p, ")")) {
    close_group(p);
  } else if (take(p, "|")) {
    put_syntax(p, "|");
    p->last_atom = SIZE_MAX;
  } else if (take(p, "[")) {
    take_class(p, 0, &set);
    put_set(p, &set);
  } else if (take(p, ".")) {
    if (p->dot_all)
      tn_char_set_add(&set, 0, 0x10ffff);
    else
      tn_char_set_add(&set, '\n', '\n'), tn_char_set_invert(&set);
    put_set(p, &set);
  } else if (take(p, "^")) {
    put_around(p, "(?<!", anchor_set(p, 'N'), ")");
    p->last_atom = before;
  } else if (take(p, "$")) {
    put_around(p, "(?!", anchor_set(p, 'N'), ")");
    p->last_atom = before;
  } else if (take(p, "\\")) {
    if (take_anchor_escape(p)) return;
    if (take_escape(p, false, &set, &codepoint))
      put_char(p, codepoint);
    else
      put_set(p, &set);
  } else {
    put_char(p, take_char(p));
  }
  tn_char_set_finish(&set);
}

tn_status tn_pattern_parse(tn_pattern_parts *out, tn_text source, tn_error *error) {
  memset(out, 0, sizeof *out);
  tn_arena_init(&out->arena, (size_t)16 << 20);
  parser p = {.out = out, .source = source, .error = error, .last_atom = SIZE_MAX};
  if (source.bytes > TN_PATTERN_MAX_BYTES)
    return tn_fail(error, TN_E_LIMIT, "pattern: %zu bytes, at most %d are taken", source.bytes, TN_PATTERN_MAX_BYTES);
  open_group(&p, "(?:");
  while (more(&p))
    if (!take_quantifier(&p) && p.status == TN_OK) take_term(&p);
  if (p.status == TN_OK && p.depth != 1) fault(&p, TN_E_FORMAT, p.depth ? "( without )" : ") without (");
  if (p.status == TN_OK) close_group(&p);
  return p.status;
}

void tn_pattern_parts_finish(tn_pattern_parts *parts) {
  for (size_t i = 0; i < parts->set_count; i++) tn_char_set_finish(&parts->sets[i]);
  free(parts->parts);
  tn_arena_finish(&parts->arena);
}
