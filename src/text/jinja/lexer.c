/* The lexer: data, tags, comments and raw blocks, with jinja2's rules for white space (trim_blocks and lstrip_blocks
 * on).
 *
 *   "{%-" cuts all white space in front of it; "{%+" and "{{" cut none; "{%" and "{#" alone on their line so far cut
 * that line's indent.
 *   "-%}" cuts all white space behind it; "%}" and "#}" cut one line end; "+%}" and "}}" cut none. */
#include "text/jinja/lexer.h"

#include <stdlib.h>
#include <string.h>
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "base/utf8.h"
#include "text/jinja/unicode.h"

enum { MAX_BRACKETS = 512 };

typedef struct lexer {
  tnj_state *s;
  tnj_value source;
  const char *text;
  size_t size, at;
  bool line_starting; /* the last thing read ended with a line end */
  tnj_token *tokens;
  size_t count, capacity;
  char brackets[MAX_BRACKETS]; /* what must close */
  size_t depth;
} lexer;

tnj_value tnj_normalize_source(tnj_state *s, const char *source, size_t size) {
  tnj_buffer *out = tnj_buffer_new(s, size);
  for (size_t at = 0; at < size;) {
    const char *cr = memchr(source + at, '\r', size - at);
    size_t end = cr ? (size_t)(cr - source) : size;
    tnj_append(s, out, source + at, end - at, true);
    if (cr) tnj_append(s, out, "\n", 1, true);
    at = cr ? end + 1 + (end + 1 < size && source[end + 1] == '\n') : size;
  }
  if (out->used && out->data[out->used - 1] == '\n') out->used--;
  if (out->run_count) out->runs[0].end = out->used;
  out->frozen = true;
  return tnj_buffer_string(s, out);
}

static tnj_token *add(lexer *l, tnj_token_kind kind, size_t offset, size_t size) {
  if (l->count == l->capacity) {
    size_t capacity = l->capacity * 2 + 64;
    tnj_token *tokens = tnj_array(l->s, capacity, sizeof *tokens);
    if (l->count) memcpy(tokens, l->tokens, l->count * sizeof *tokens);
    l->tokens = tokens;
    l->capacity = capacity;
  }
  l->tokens[l->count] = (tnj_token){.kind = kind, .offset = offset, .size = size};
  return &l->tokens[l->count++];
}

static bool looking_at(const lexer *l, size_t at, const char *what) {
  size_t size = strlen(what);
  return l->size - at >= size && memcmp(l->text + at, what, size) == 0;
}

static size_t skip_space(const lexer *l, size_t at) {
  size_t next;
  while (at < l->size && tnj_is_space(tnj_codepoint_at(l->source, at, &next))) at = next;
  return at;
}

static bool all_space(const lexer *l, size_t from, size_t to) {
  return skip_space(l, from) >= to;
}

/* The end of the data [start, end) in front of a tag whose sign ('-', '+' or 0) is `sign`. */
static size_t cut_data(const lexer *l, size_t start, size_t end, char sign, bool variable) {
  if (sign == '-') {
    tnj_value data = tnj_strip(l->s, tnj_part(l->s, l->source, start, end), tnj_absent(), false, true);
    return start + tnj_size(data);
  }
  if (sign == '+' || variable) return end;
  size_t line = end;
  while (line > start && l->text[line - 1] != '\n') line--;
  if ((line > start || l->line_starting) && line < end && all_space(l, line, end)) return line;
  return end;
}

static void add_data(lexer *l, size_t start, size_t end) {
  if (end > start) add(l, TNJ_T_DATA, start, end - start)->value = tnj_part(l->s, l->source, start, end);
}

/* If a block's end stands at `at`, returns the position behind it and behind what it cuts, else 0. `close` is "%}" or
 * "#}". */
static size_t block_end(const lexer *l, size_t at, const char *close) {
  if (l->text[at] == '-' && looking_at(l, at + 1, close)) return skip_space(l, at + 3);
  if (l->text[at] == '+' && looking_at(l, at + 1, close)) return at + 3;
  if (!looking_at(l, at, close)) return 0;
  return at + 2 + (at + 2 < l->size && l->text[at + 2] == '\n');
}

static char sign_at(const lexer *l, size_t at) {
  return at < l->size && (l->text[at] == '-' || l->text[at] == '+') ? l->text[at] : 0;
}

/* Whether the tag "{% WORD %}" opens at `at`; sets where its body starts and its sign. */
static bool word_tag(const lexer *l, size_t at, const char *word, bool trims, size_t *body, char *sign) {
  *sign = sign_at(l, at + 2);
  size_t inside = skip_space(l, at + 2 + (*sign != 0));
  if (!looking_at(l, inside, word)) return false;
  inside = skip_space(l, inside + strlen(word));
  if (inside >= l->size) return false;
  if (!trims && looking_at(l, inside, "%}")) { /* "{% raw %}" keeps the line end behind it */
    *body = inside + 2;
    return true;
  }
  if (!trims && l->text[inside] == '+') return false;
  *body = block_end(l, inside, "%}");
  return *body != 0;
}

static void lex_comment(lexer *l) {
  size_t open = l->at, body = open + 2 + (sign_at(l, open + 2) != 0);
  for (l->at = body; l->at < l->size; l->at++) {
    size_t end = block_end(l, l->at, "#}");
    if (!end) continue;
    l->line_starting = l->text[end - 1] == '\n';
    l->at = end;
    return;
  }
  if (body == l->size) return; /* jinja2 takes a comment without anything in it as closed by the end */
  l->s->offset = open;
  tnj_error(l->s, "Missing end of comment tag");
}

static void lex_raw(lexer *l, size_t body) {
  size_t open = l->at;
  l->line_starting = l->text[body - 1] == '\n';
  for (size_t at = body; at < l->size; at++) {
    size_t end;
    char sign;
    const char *brace = memchr(l->text + at, '{', l->size - at);
    if (!brace) break;
    at = (size_t)(brace - l->text);
    if (!looking_at(l, at, "{%") || !word_tag(l, at, "endraw", true, &end, &sign)) continue;
    add_data(l, body, cut_data(l, body, at, sign, false));
    l->line_starting = l->text[end - 1] == '\n';
    l->at = end;
    return;
  }
  l->at = l->size;
  if (body == l->size) return;
  l->s->offset = open;
  tnj_error(l->s, "Missing end of raw directive");
}

/* ---- inside a tag ---- */

static bool digit(char c) {
  return c >= '0' && c <= '9';
}

/* Behind digits with single underscores between them; `at` when there are none. */
static size_t skip_digits(const lexer *l, size_t at) {
  size_t start = at;
  while (at < l->size &&
         (digit(l->text[at]) || (at > start && l->text[at] == '_' && at + 1 < l->size && digit(l->text[at + 1]))))
    at++;
  return at;
}

static size_t skip_exponent(const lexer *l, size_t at) {
  if (at >= l->size || (l->text[at] | 32) != 'e') return at;
  size_t digits = at + 1 + (at + 1 < l->size && (l->text[at + 1] == '-' || l->text[at + 1] == '+'));
  size_t end = skip_digits(l, digits);
  return end > digits ? end : at;
}

static size_t skip_based(const lexer *l, size_t at, const char *allowed) {
  size_t start = at;
  while (at < l->size && (strchr(allowed, l->text[at] | 32) ||
                          (l->text[at] == '_' && at + 1 < l->size && strchr(allowed, l->text[at + 1] | 32)))) {
    if (!l->text[at]) break;
    at++;
  }
  return at > start ? at : 0;
}

/* The end of an integer that starts at `at`. */
static size_t integer_end(const lexer *l, size_t at) {
  if (l->text[at] == '0' && at + 1 < l->size) {
    char c = (char)(l->text[at + 1] | 32);
    size_t end = c == 'x'   ? skip_based(l, at + 2, "0123456789abcdef")
                 : c == 'o' ? skip_based(l, at + 2, "01234567")
                 : c == 'b' ? skip_based(l, at + 2, "01")
                            : 0;
    if (end) return end;
    end = at + 1;
    while (end < l->size &&
           (l->text[end] == '0' || (l->text[end] == '_' && end + 1 < l->size && l->text[end + 1] == '0')))
      end++;
    return end;
  }
  return skip_digits(l, at);
}

static void lex_number(lexer *l) {
  size_t start = l->at, end = skip_digits(l, start), fraction = end;
  bool after_dot = start > 0 && l->text[start - 1] == '.';
  if (end + 1 < l->size && l->text[end] == '.' && digit(l->text[end + 1])) fraction = skip_digits(l, end + 1);
  size_t exponent = skip_exponent(l, fraction);
  bool real = !after_dot && (fraction > end || exponent > fraction);
  l->at = real ? exponent : integer_end(l, start);
  tnj_value text = tnj_part(l->s, l->source, start, l->at), value = tnj_absent();
  double number = 0;
  bool good = real ? tnj_parse_float(l->s, text, &number) : tnj_parse_integer(l->s, text, 0, &value);
  if (!good)
    tnj_error(l->s, "'%.*s' is not a number", (int)(tnj_size(text) < 40 ? tnj_size(text) : 40), tnj_data(text));
  tnj_token *token = add(l, real ? TNJ_T_FLOAT : TNJ_T_INTEGER, start, l->at - start);
  token->value = real ? tnj_float(number) : value;
}

static uint32_t hex_escape(lexer *l, size_t at, size_t digits, size_t end) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; i++) {
    char c = at + i < end ? l->text[at + i] : 0;
    int d = digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (d < 0) tnj_error(l->s, "a string has a broken escape: %zu hexadecimal digits expected", digits);
    value = value << 4 | (uint32_t)d;
  }
  return value;
}

/* Appends what the escape at `at` (behind the backslash) stands for; returns the position behind it. */
static size_t lex_escape(lexer *l, tnj_buffer *out, size_t at, size_t end) {
  static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
  char c = l->text[at];
  const char *simple = c ? strchr(from, c) : NULL;
  if (c == '\n') return at + 1;
  if (simple) {
    tnj_append(l->s, out, &to[simple - from], 1, true);
    return at + 1;
  }
  size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits) {
    uint32_t code = hex_escape(l, at + 1, digits, end), low = 0;
    at += 1 + digits;
    bool high = digits == 4 && code >= 0xd800 && code < 0xdc00 && at + 6 <= end && looking_at(l, at, "\\u");
    if (high) low = hex_escape(l, at + 2, 4, end);
    if (high && low >= 0xdc00 && low < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      at += 6;
    }
    if (code > 0x10ffff) tnj_error(l->s, "a string has a broken escape: illegal Unicode character");
    tnj_append_codepoint(l->s, out, code, true);
    return at;
  }
  if (c >= '0' && c <= '7') {
    uint32_t code = 0;
    for (size_t i = 0; i < 3 && at < end && l->text[at] >= '0' && l->text[at] <= '7'; i++)
      code = code * 8 + (uint32_t)(l->text[at++] - '0');
    tnj_append_codepoint(l->s, out, code, true);
    return at;
  }
  tnj_append(l->s, out, "\\", 1, true); /* not an escape: the backslash stays */
  return at;
}

static void lex_string(lexer *l) {
  size_t start = l->at, end = start + 1;
  char quote = l->text[start];
  bool escapes = false;
  while (end < l->size && l->text[end] != quote) {
    escapes |= l->text[end] == '\\';
    end += 1 + (l->text[end] == '\\');
  }
  if (end >= l->size)
    tnj_error(l->s, "unexpected char %s at %zu: the string isn't closed", quote == '"' ? "'\"'" : "\"'\"", start);
  l->at = end + 1;
  tnj_value value = tnj_part(l->s, l->source, start + 1, end);
  if (escapes) {
    tnj_buffer *out = tnj_buffer_new(l->s, end - start);
    for (size_t at = start + 1; at < end;) {
      const char *slash = memchr(l->text + at, '\\', end - at);
      size_t until = slash ? (size_t)(slash - l->text) : end;
      tnj_append(l->s, out, l->text + at, until - at, true);
      at = slash ? lex_escape(l, out, until + 1, end) : end;
    }
    out->frozen = true;
    value = tnj_buffer_string(l->s, out);
  }
  add(l, TNJ_T_STRING, start, l->at - start)->value = value;
}

static void lex_name(lexer *l) {
  size_t start = l->at, next;
  while (l->at < l->size && tnj_is_word(tnj_codepoint_at(l->source, l->at, &next))) l->at = next;
  if (!tnj_is_identifier(l->text + start, l->at - start)) tnj_error(l->s, "Invalid character in identifier");
  add(l, TNJ_T_NAME, start, l->at - start)->value = tnj_part(l->s, l->source, start, l->at);
}

static void lex_operator(lexer *l) {
  static const char two[][3] = {"**", "//", "==", "!=", ">=", "<="};
  size_t size = 0;
  for (size_t i = 0; i < TN_COUNT(two); i++)
    if (looking_at(l, l->at, two[i])) size = 2;
  char c = l->text[l->at];
  if (!size) size = c && strchr("+-/*%~[](){}><=.:|,;", c) ? 1 : 0;
  if (!size) {
    uint32_t code;
    size_t used = tn_utf8_step(l->text + l->at, l->size - l->at, &code);
    tnj_error(l->s, "unexpected char '%.*s' at %zu", (int)used, l->text + l->at, l->at);
  }
  if (strchr("([{", c)) {
    if (l->depth == MAX_BRACKETS) tnj_fail(l->s, TN_E_LIMIT, "more than %d open brackets", MAX_BRACKETS);
    l->brackets[l->depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
  } else if (strchr(")]}", c)) {
    if (!l->depth) tnj_error(l->s, "unexpected '%c'", c);
    char wanted = l->brackets[--l->depth];
    if (wanted != c) tnj_error(l->s, "unexpected '%c', expected '%c'", c, wanted);
  }
  add(l, TNJ_T_OPERATOR, l->at, size);
  l->at += size;
}

/* The position behind the end of the tag if it ends here, else 0. */
static size_t tag_end(lexer *l, bool variable) {
  if (l->depth) return 0; /* "}}" may close two dictionaries */
  if (!variable) return block_end(l, l->at, "%}");
  if (l->text[l->at] == '-' && looking_at(l, l->at + 1, "}}")) return skip_space(l, l->at + 3);
  return looking_at(l, l->at, "}}") ? l->at + 2 : 0;
}

static void lex_tag(lexer *l, bool variable) {
  size_t open = l->at;
  add(l, variable ? TNJ_T_VARIABLE_BEGIN : TNJ_T_BLOCK_BEGIN, open, 2);
  l->at += 2 + (sign_at(l, l->at + 2) != 0);
  l->depth = 0;
  for (;;) {
    l->at = skip_space(l, l->at);
    if (l->at >= l->size) {
      add(l, TNJ_T_END, l->size, 0);
      return;
    }
    l->s->offset = l->at;
    tnj_step(l->s);
    size_t end = tag_end(l, variable), next;
    char c = l->text[l->at];
    if (end) {
      add(l, variable ? TNJ_T_VARIABLE_END : TNJ_T_BLOCK_END, l->at, end - l->at);
      l->line_starting = l->text[end - 1] == '\n';
      l->at = end;
      return;
    }
    if (digit(c))
      lex_number(l);
    else if (c == '\'' || c == '"')
      lex_string(l);
    else if (tnj_is_word(tnj_codepoint_at(l->source, l->at, &next)))
      lex_name(l);
    else
      lex_operator(l);
  }
}

/* Data up to the next tag, and that tag. */
static void lex_next(lexer *l) {
  size_t start = l->at, open = start, body;
  for (; open + 1 < l->size; open++) {
    const char *brace = memchr(l->text + open, '{', l->size - 1 - open);
    open = brace ? (size_t)(brace - l->text) : l->size;
    if (open >= l->size || strchr("{%#", l->text[open + 1] ? l->text[open + 1] : ' ')) break;
  }
  if (open + 1 >= l->size) {
    add_data(l, start, l->size);
    l->at = l->size;
    return;
  }
  char kind = l->text[open + 1], sign = sign_at(l, open + 2);
  bool variable = kind == '{';
  l->s->offset = open;
  add_data(l, start, cut_data(l, start, open, sign, variable));
  l->at = open;
  if (kind == '#')
    lex_comment(l);
  else if (kind == '%' && word_tag(l, open, "raw", false, &body, &sign))
    lex_raw(l, body);
  else
    lex_tag(l, variable);
}

tnj_token *tnj_tokenize(tnj_state *s, tnj_value source, size_t *count) {
  lexer *l = tnj_alloc(s, sizeof *l);
  *l = (lexer){.s = s, .source = source, .text = tnj_data(source), .size = tnj_size(source), .line_starting = true};
  while (l->at < l->size) lex_next(l);
  add(l, TNJ_T_END, l->size, 0);
  *count = l->count;
  return l->tokens;
}
