#include "text/stop.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* One string and how much of it the text ends with (Knuth, Morris and Pratt 1977). */
typedef struct matcher {
  char *text;
  size_t bytes;
  size_t matched;
  uint16_t *fall; /* [bytes] after text[0..i]: the longest proper beginning that it also ends with */
} matcher;

struct tn_stop {
  matcher *matchers;
  size_t count;
  tn_buf held; /* the end of the text that may begin a stop string */
  int found;   /* -1: none yet */
};

static bool init_matcher(matcher *m, tn_text text) {
  m->bytes = text.bytes;
  m->text = tn_copy_text(text.data, text.bytes);
  m->fall = tn_calloc(text.bytes, sizeof *m->fall);
  if (!m->text || !m->fall) return false;
  for (size_t i = 1, same = 0; i < m->bytes; i++) {
    while (same && m->text[i] != m->text[same]) same = m->fall[same - 1];
    same += m->text[i] == m->text[same];
    m->fall[i] = (uint16_t)same;
  }
  return true;
}

tn_status tn_stop_create(tn_stop **out, const tn_text *strings, size_t count, tn_error *error) {
  *out = NULL;
  if (count > TN_STOP_MOST)
    return tn_fail(error, TN_E_LIMIT, "%zu stop strings, at most %d are taken", count, TN_STOP_MOST);
  for (size_t i = 0; i < count; i++) {
    if (!strings[i].bytes) return tn_fail(error, TN_E_INVALID, "stop string %zu is empty", i);
    if (strings[i].bytes > TN_STOP_LONGEST)
      return tn_fail(error, TN_E_LIMIT, "stop string %zu has %zu bytes, at most %d are taken", i, strings[i].bytes,
                     TN_STOP_LONGEST);
  }
  tn_stop *stop = tn_calloc(1, sizeof *stop);
  if (stop) stop->matchers = tn_calloc(count, sizeof *stop->matchers);
  bool good = stop && stop->matchers;
  for (; good && stop->count < count; stop->count++)
    good = init_matcher(&stop->matchers[stop->count], strings[stop->count]);
  if (!good) {
    tn_stop_destroy(stop);
    return tn_fail(error, TN_E_MEMORY, "out of memory for stop strings");
  }
  stop->found = -1;
  *out = stop;
  return TN_OK;
}

void tn_stop_destroy(tn_stop *stop) {
  if (!stop) return;
  for (size_t i = 0; i < stop->count && stop->matchers; i++) {
    free(stop->matchers[i].text);
    free(stop->matchers[i].fall);
  }
  free(stop->matchers);
  tn_buf_finish(&stop->held);
  free(stop);
}

bool tn_stop_reserve(tn_stop *stop, size_t piece_bytes) {
  size_t longest = 0;
  for (size_t i = 0; i < stop->count; i++)
    if (stop->matchers[i].bytes > longest) longest = stop->matchers[i].bytes;
  return tn_buf_reserve(&stop->held, longest + piece_bytes - stop->held.size);
}

/* Goes on by one byte; true when the string is complete. */
static bool step(matcher *m, char byte) {
  while (m->matched && m->text[m->matched] != byte) m->matched = m->fall[m->matched - 1];
  m->matched += m->text[m->matched] == byte;
  return m->matched == m->bytes;
}

int tn_stop_push(tn_stop *stop, tn_text piece, tn_buf *out) {
  if (stop->found >= 0) return stop->found;
  size_t longest = 0; /* how much of the end must be held back */
  for (size_t at = 0; at < piece.bytes; at++) {
    longest = 0;
    for (size_t i = 0; i < stop->count; i++) {
      matcher *m = &stop->matchers[i];
      bool complete = step(m, piece.data[at]);
      if (complete && (stop->found < 0 || m->bytes > stop->matchers[stop->found].bytes)) stop->found = (int)i;
      if (m->matched > longest) longest = m->matched;
    }
    if (stop->found < 0) continue;
    longest = stop->matchers[stop->found].bytes;
    piece.bytes = at + 1;
  }
  tn_buf_append(&stop->held, piece.data, piece.bytes);
  size_t release = stop->held.size - longest;
  if (!piece.bytes || stop->held.failed) {
    out->failed |= stop->held.failed;
    return stop->found;
  }
  tn_buf_append(out, stop->held.data, release);
  memmove(stop->held.data, stop->held.data + release, longest);
  stop->held.size = longest;
  return stop->found;
}

void tn_stop_flush(tn_stop *stop, tn_buf *out) {
  if (stop->found < 0) tn_buf_append(out, stop->held.data, stop->held.size);
  tn_buf_clear(&stop->held);
}

void tn_stop_reset(tn_stop *stop) {
  stop->found = -1;
  tn_buf_clear(&stop->held);
  for (size_t i = 0; i < stop->count; i++) stop->matchers[i].matched = 0;
}
