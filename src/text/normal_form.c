#include "text/normal_form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/reference_table.h"

/* Combining characters and all that composes with a character before it begin here. */
#define FIRST_JOINING 0x300u

size_t tn_normal_form_unit(tn_normal_form form, tn_text text, bool *plain) {
  size_t length, at;
  uint32_t codepoint;
  if (tn_utf8_read(text.data, text.bytes, &at, &codepoint) != TN_UTF8_GOOD) {
    *plain = true;
    return 1;
  }
  *plain = codepoint < (form == TN_NFC ? FIRST_JOINING : 0x80);
  for (; at < text.bytes; at += length) {
    if ((unsigned char)text.data[at] < 0x80) break;
    if (tn_utf8_read(text.data + at, text.bytes - at, &length, &codepoint) != TN_UTF8_GOOD) break;
    if (codepoint < FIRST_JOINING) break;
    *plain = false;
  }
  return at;
}

static int combining_class(utf8proc_int32_t codepoint) {
  return utf8proc_get_property(codepoint)->combining_class;
}

static int by_key(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Sorts marks by combining class, keeping the order of equals. `keys` has room for `count`. */
static void sort_marks(utf8proc_int32_t *marks, size_t count, uint64_t *keys) {
  bool sorted = true;
  for (size_t i = 0; i < count; i++) {
    /* class, place, character: the place makes the sort stable. */
    keys[i] = (uint64_t)combining_class(marks[i]) << 56 | (uint64_t)i << 21 | (uint64_t)marks[i];
    sorted &= i == 0 || keys[i] >> 56 >= keys[i - 1] >> 56;
  }
  if (sorted) return;
  qsort(keys, count, sizeof *keys, by_key);
  for (size_t i = 0; i < count; i++) marks[i] = (utf8proc_int32_t)(keys[i] & 0x1fffff);
}

static bool order_marks(utf8proc_int32_t *text, size_t count) {
  size_t longest = 0, run = 0;
  for (size_t i = 0; i < count; i++) {
    run = combining_class(text[i]) ? run + 1 : 0;
    if (run > longest) longest = run;
  }
  if (longest < 2) return true;
  uint64_t *keys = tn_calloc(longest, sizeof *keys);
  if (!keys) return false;
  for (size_t i = 0; i < count; i += run + 1) {
    for (run = 0; i + run < count && combining_class(text[i + run]);) run++;
    if (run > 1) sort_marks(text + i, run, keys);
  }
  free(keys);
  return true;
}

bool tn_normal_form_append(tn_normal_form form, tn_text text, tn_buf *out) {
  int compat = form == TN_NFKC || form == TN_NFKD ? UTF8PROC_COMPAT : 0;
  bool compose = form == TN_NFC || form == TN_NFKC;
  size_t capacity = text.bytes * 4 + 32, count = 0;
  utf8proc_int32_t *points = tn_calloc(capacity, sizeof *points);
  if (!points) return false;
  for (size_t at = 0, length; at < text.bytes; at += length) {
    uint32_t codepoint;
    length = tn_utf8_step(text.data + at, text.bytes - at, &codepoint);
    if (capacity - count < 32) { /* the longest decomposition has 18 characters */
      capacity *= 2;
      utf8proc_int32_t *grown = realloc(points, capacity * sizeof *points);
      if (!grown) goto fail;
      points = grown;
    }
    int boundary = 0;
    bool known = !compat || !tn_in_ranges(tn_forms_unknown, tn_forms_unknown_count, codepoint);
    utf8proc_ssize_t got =
        utf8proc_decompose_char((utf8proc_int32_t)codepoint, points + count, 32,
                                (utf8proc_option_t)(known ? UTF8PROC_DECOMPOSE | compat : 0), &boundary);
    if (got < 0 || got > 32) goto fail;
    count += (size_t)got;
  }
  if (!order_marks(points, count)) goto fail;
  if (compose) {
    utf8proc_ssize_t left = utf8proc_normalize_utf32(points, (utf8proc_ssize_t)count,
                                                     (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE | compat));
    if (left < 0) goto fail;
    count = (size_t)left;
  }
  for (size_t i = 0; i < count; i++) {
    char bytes[4];
    tn_buf_append(out, bytes, tn_utf8_write((uint32_t)points[i], bytes));
  }
  free(points);
  return !out->failed;
fail:
  free(points);
  return false;
}

static const char *const names[] = {[TN_NFC] = "nfc", [TN_NFD] = "nfd", [TN_NFKC] = "nfkc", [TN_NFKD] = "nfkd"};

bool tn_normal_form_named(tn_text name, tn_normal_form *form) {
  for (size_t i = 0; i < TN_COUNT(names); i++) {
    if (!tn_text_is(name, names[i])) continue;
    *form = (tn_normal_form)i;
    return true;
  }
  return false;
}

const char *tn_normal_form_name(tn_normal_form form) {
  return names[form];
}
