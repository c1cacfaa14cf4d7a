/* The filter urlize: addresses in a text become links. The text is cut at white space; each word is looked at by
 * itself, without the brackets and the punctuation around it. */
#define _GNU_SOURCE /* memrchr */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

/* A word as zero-terminated bytes, already escaped: what stands in front of the address, the address, what stands
 * behind. */
typedef struct word {
  const char *start, *address, *tail, *end;
} word;

static bool starts(const char *at, const char *end, const char *what) {
  size_t size = strlen(what);
  return (size_t)(end - at) >= size && memcmp(at, what, size) == 0;
}

static bool ends(const char *start, const char *end, const char *what) {
  size_t size = strlen(what);
  return (size_t)(end - start) >= size && memcmp(end - size, what, size) == 0;
}

static size_t count(const char *at, const char *end, const char *what) {
  size_t found = 0;
  for (; at < end; at++) found += starts(at, end, what);
  return found;
}

static void cut_punctuation(word *w) {
  static const char *const closing[] = {")", ">", ".", ",", "\n", "&gt;"};
  for (;;) {
    if (w->address < w->end && (*w->address == '(' || *w->address == '<'))
      w->address++;
    else if (starts(w->address, w->end, "&lt;"))
      w->address += 4;
    else
      break;
  }
  w->tail = w->end;
  for (size_t i = 0; i < TN_COUNT(closing); i++) {
    if (!ends(w->address, w->tail, closing[i])) continue;
    w->tail -= strlen(closing[i]);
    i = (size_t)-1; /* from the first one again */
  }
}

/* Brackets that open inside the address take their closing ones back from the tail. */
static void balance(word *w) {
  static const char *const pairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
  for (size_t i = 0; i < TN_COUNT(pairs); i++) {
    size_t open = count(w->address, w->tail, pairs[i][0]);
    if (open <= count(w->address, w->tail, pairs[i][1])) continue;
    for (size_t moves = open; moves && count(w->tail, w->end, pairs[i][1]); moves--) {
      while (!starts(w->tail, w->end, pairs[i][1])) w->tail++;
      w->tail += strlen(pairs[i][1]);
    }
  }
}

/* The end of the letters, digits, '-', '%' (and '_') at `at`: a part of a host's name. Bytes beyond ASCII count as
 * letters. */
static const char *label_end(const char *at, const char *end) {
  while (at < end && (isalnum((unsigned char)*at) || (unsigned char)*at >= 0x80 || (*at && strchr("-%_", *at)))) at++;
  return at;
}

static bool is_letters(const char *at, const char *end) {
  for (; at < end; at++)
    if (!isalpha((unsigned char)*at)) return false;
  return true;
}

/* Whether ":port" and "/path", "?query" or "#fragment" fill the rest. */
static bool is_rest(const char *at, const char *end) {
  if (at < end && *at == ':') {
    const char *digits = ++at;
    while (at < end && isdigit((unsigned char)*at)) at++;
    if (at == digits || at - digits > 5) return false;
  }
  return at == end || strchr("/?#", *at);
}

/* A host whose last label is a name of letters; without a scheme only the well-known ones will do. */
static bool is_host(const char *at, const char *end, bool scheme) {
  static const char *const known[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
  const char *label = at, *stop = label_end(label, end);
  size_t labels = 1;
  for (; stop < end && *stop == '.' && label_end(stop + 1, end) > stop + 1; labels++) {
    if (!scheme && stop - label < 2) return false;
    label = stop + 1;
    stop = label_end(label, end);
  }
  size_t size = (size_t)(stop - label);
  if (!is_rest(stop, end)) return false;
  if (scheme)
    return (size >= 2 && size <= 63 && is_letters(label, stop)) || (size > 5 && strncasecmp(label, "xn--", 4) == 0);
  for (size_t i = 0; i < TN_COUNT(known); i++)
    if (labels > 1 && strlen(known[i]) == size && strncasecmp(label, known[i], size) == 0) return true;
  return false;
}

static bool is_ip_address(const char *at, const char *end) {
  if (at < end && *at == '[') {
    const char *close = memchr(at, ']', (size_t)(end - at));
    return close && strspn(at + 1, "0123456789abcdefABCDEF:") == (size_t)(close - at - 1) &&
           count(at, close, ":") >= 2 && is_rest(close + 1, end);
  }
  for (int part = 0; part < 4; part++) {
    const char *digits = at;
    while (at < end && isdigit((unsigned char)*at)) at++;
    if (at == digits || at - digits > 3) return false;
    if (part < 3 && (at == end || *at++ != '.')) return false;
  }
  return is_rest(at, end);
}

static bool is_web_address(const char *at, const char *end) {
  size_t size = (size_t)(end - at);
  size_t scheme = size > 8 && strncasecmp(at, "https://", 8) == 0  ? 8
                  : size > 7 && strncasecmp(at, "http://", 7) == 0 ? 7
                                                                   : 0;
  if (scheme) return is_host(at + scheme, end, true) || is_ip_address(at + scheme, end);
  if (size > 4 && strncasecmp(at, "www.", 4) == 0 && is_host(at + 4, end, true)) return true;
  return is_host(at, end, false);
}

static bool is_mail_address(const char *at, const char *end) {
  const char *sign = memrchr(at, '@', (size_t)(end - at)), *dot;
  if (!sign || sign == at || sign + 1 == end) return false;
  for (const char *c = sign + 1; c < end; c++)
    if (!isalnum((unsigned char)*c) && (unsigned char)*c < 0x80 && *c != '_' && *c != '.' && *c != '-') return false;
  dot = memrchr(sign, '.', (size_t)(end - sign));
  return sign[1] != '.' && sign[1] != '-' && dot && dot > sign + 1 && dot + 1 < end &&
         !memchr(dot, '-', (size_t)(end - dot));
}

static void append_bytes(tnj_state *s, tnj_buffer *out, const char *start, const char *end) {
  tnj_append(s, out, start, (size_t)(end - start), false);
}

static void append_link(tnj_state *s, tnj_buffer *out, const word *w, const tnj_link_style *style) {
  bool scheme = starts(w->address, w->tail, "https://") || starts(w->address, w->tail, "http://");
  tnj_append_text(s, out, scheme ? "<a href=\"" : "<a href=\"https://");
  append_bytes(s, out, w->address, w->tail);
  tnj_append_text(s, out, "\"");
  tnj_append_string(s, out, style->attributes);
  tnj_append_text(s, out, ">");
  tnj_value shown = tnj_string_new(s, w->address, (size_t)(w->tail - w->address), false);
  bool trims = style->limit >= 0 && (int64_t)tnj_codepoints(s, shown) > style->limit;
  if (trims) shown = tnj_part(s, shown, 0, tnj_position(s, shown, (size_t)style->limit));
  tnj_append_string(s, out, shown);
  tnj_append_text(s, out, trims ? "...</a>" : "</a>");
}

static void append_mail(tnj_state *s, tnj_buffer *out, const word *w, bool scheme) {
  tnj_append_text(s, out, scheme ? "<a href=\"" : "<a href=\"mailto:");
  append_bytes(s, out, w->address, w->tail);
  tnj_append_text(s, out, "\">");
  append_bytes(s, out, w->address + (scheme ? 7 : 0), w->tail);
  tnj_append_text(s, out, "</a>");
}

static void append_word(tnj_state *s, tnj_buffer *out, word *w, const tnj_link_style *style) {
  cut_punctuation(w);
  balance(w);
  size_t size = (size_t)(w->tail - w->address);
  append_bytes(s, out, w->start, w->address);
  if (is_web_address(w->address, w->tail))
    append_link(s, out, w, style);
  else if (starts(w->address, w->tail, "mailto:") && is_mail_address(w->address + 7, w->tail))
    append_mail(s, out, w, true);
  else if (size && !starts(w->address, w->tail, "www.") && *w->address != '@' && !memchr(w->address, ':', size) &&
           is_mail_address(w->address, w->tail))
    append_mail(s, out, w, false);
  else
    append_bytes(s, out, w->address, w->tail);
  append_bytes(s, out, w->tail, w->end);
}

tnj_value tnj_urlize(tnj_state *s, tnj_value text, const tnj_link_style *style) {
  text = tnj_escape(s, text);
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(text) * 2);
  tnj_work(s, tnj_size(text) * 16);
  for (size_t at = 0, next, end; at < tnj_size(text); at = end) {
    bool space = tnj_is_space(tnj_codepoint_at(text, at, &end));
    while (end < tnj_size(text) && tnj_is_space(tnj_codepoint_at(text, end, &next)) == space) end = next;
    word w = {tnj_data(text) + at, tnj_data(text) + at, NULL, tnj_data(text) + end};
    if (space)
      tnj_append_part(s, out, text, at, end);
    else
      append_word(s, out, &w, style);
    tnj_step(s);
  }
  return tnj_buffer_string(s, out);
}
