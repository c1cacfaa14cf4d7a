#include "text/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/reference_table.h"
#include "text/unicode.h"

void tn_marked_text_finish(tn_marked_text *marked) {
  tn_buf_finish(&marked->text);
  tn_buf_finish(&marked->trust);
}

void tn_normalizer_finish(tn_normalizer *normalizer) {
  for (size_t i = 0; i < normalizer->count; i++) {
    tn_pattern_free(normalizer->steps[i].pattern);
    tn_charsmap_destroy(normalizer->steps[i].map);
  }
  free(normalizer->steps);
  tn_arena_finish(&normalizer->arena);
}

/* One step's input and output. */
typedef struct step_io {
  const tn_normal_step *step;
  const tn_marked_text *in;
  tn_marked_text *out;
  tn_pattern_run *run;
} step_io;

static tn_text input(const step_io *io) {
  return (tn_text){io->in->text.data, io->in->text.size};
}

static void note_front(step_io *io, size_t bytes, size_t start) {
  if (bytes && start && !io->out->text.size) io->out->lost_front = true;
}

/* Puts out `bytes` bytes that stand for in[start, end): trusted if all of those are. An empty range takes the mark
 * of its place. */
static void emit(step_io *io, const char *data, size_t bytes, size_t start, size_t end) {
  note_front(io, bytes, start);
  tn_buf_append(&io->out->text, data, bytes);
  if (!io->in->mixed || !tn_buf_reserve(&io->out->trust, bytes)) return;
  const char *trust = io->in->trust.data;
  if (end == start && start < io->in->text.size) end = start + 1;
  bool trusted = start < end && !memchr(trust + start, 0, end - start);
  memset(io->out->trust.data + io->out->trust.size, trusted, bytes);
  io->out->trust.size += bytes;
}

/* Copies in[start, end) with its marks. */
static void copy(step_io *io, size_t start, size_t end) {
  note_front(io, end - start, start);
  tn_buf_append(&io->out->text, io->in->text.data + start, end - start);
  if (io->in->mixed) tn_buf_append(&io->out->trust, io->in->trust.data + start, end - start);
}

static void apply_form(step_io *io) {
  tn_text text = input(io);
  tn_buf unit_text;
  tn_buf_init(&unit_text);
  size_t copied = 0; /* what is plain is copied in long runs */
  for (size_t at = 0, bytes; at < text.bytes; at += bytes) {
    bool plain;
    bytes = tn_normal_form_unit(io->step->form, (tn_text){text.data + at, text.bytes - at}, &plain);
    if (plain) continue;
    copy(io, copied, at);
    copied = at + bytes;
    tn_buf_clear(&unit_text);
    if (!tn_normal_form_append(io->step->form, (tn_text){text.data + at, bytes}, &unit_text))
      io->out->text.failed = true;
    emit(io, unit_text.data, unit_text.size, at, at + bytes);
  }
  copy(io, copied, text.bytes);
  tn_buf_finish(&unit_text);
}

/* ---- steps that look at one character: its replacement, or none ---- */

#define REMOVED UINT32_MAX

static uint32_t nmt(uint32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return REMOVED;
  if (c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 ||
      c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
    return ' ';
  return c;
}

static bool unknown_to_bert(uint32_t c) {
  return tn_in_ranges(tn_bert_unknown, tn_bert_unknown_count, c);
}

static bool is_removed(const tn_normal_step *step, uint32_t c) {
  bool is = tn_unicode_is(c, step->categories);
  switch (step->rules) {
    case TN_RULES_BERT:
      if (is) return !unknown_to_bert(c);
      return tn_unicode_category(c) == TN_MC && tn_in_ranges(tn_bert_more, tn_bert_more_count, c);
    case TN_RULES_ACCENTS:
      if (is) return !tn_in_ranges(tn_accents_unknown, tn_accents_unknown_count, c);
      return tn_in_ranges(tn_accents_more, tn_accents_more_count, c);
    default: return is;
  }
}

static uint32_t clean(const tn_normal_step *step, uint32_t c) {
  const uint32_t controls = TN_CATEGORY_BIT(TN_CC) | TN_CATEGORY_BIT(TN_CF) | TN_CATEGORY_BIT(TN_CO);
  if (c == '\t' || c == '\n' || c == '\r') return ' ';
  if (c == 0 || c == 0xfffd) return REMOVED;
  if (tn_unicode_is(c, controls) && !(step->rules == TN_RULES_BERT && unknown_to_bert(c))) return REMOVED;
  return tn_unicode_space(c) ? ' ' : c;
}

static uint32_t base_of(uint32_t c) {
  utf8proc_int32_t parts[32];
  int boundary = 0;
  if (c < 0x80) return c;
  utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32, UTF8PROC_DECOMPOSE, &boundary);
  return count > 0 && count <= 32 ? (uint32_t)parts[0] : c;
}

static uint32_t map_character(const tn_normal_step *step, uint32_t c) {
  switch (step->kind) {
    case TN_NORMAL_BASE: return base_of(c);
    case TN_NORMAL_LOWERCASE: return tn_unicode_lowercase(c);
    case TN_NORMAL_REMOVE: return c >= 0x80 && is_removed(step, c) ? REMOVED : c;
    case TN_NORMAL_CLEAN: return clean(step, c);
    case TN_NORMAL_NMT: return nmt(c);
    default: return c;
  }
}

static void map_characters(step_io *io) {
  tn_text text = input(io);
  for (size_t at = 0, bytes; at < text.bytes; at += bytes) {
    uint32_t c;
    char written[8];
    bytes = tn_utf8_step(text.data + at, text.bytes - at, &c);
    if (c == 0xfffd && bytes == 1) { /* an invalid byte stays */
      copy(io, at, at + 1);
    } else if (io->step->kind == TN_NORMAL_IDEOGRAPHS && tn_unicode_bert_ideograph(c)) {
      emit(io, " ", 1, at, at);
      copy(io, at, at + bytes);
      emit(io, " ", 1, at, at);
    } else if (io->step->kind == TN_NORMAL_LOWERCASE && c == 0x130) { /* the one lower case of two characters */
      emit(io, "i\xcc\x87", 3, at, at + bytes);
    } else {
      uint32_t mapped = map_character(io->step, c);
      if (mapped == c)
        copy(io, at, at + bytes);
      else if (mapped != REMOVED)
        emit(io, written, tn_utf8_write(mapped, written), at, at + bytes);
    }
  }
}

static void strip(step_io *io) {
  tn_text text = input(io);
  size_t start = 0, end = text.bytes;
  uint32_t c;
  while (io->step->left && start < end) {
    size_t bytes = tn_utf8_step(text.data + start, end - start, &c);
    if (!tn_unicode_space(c)) break;
    start += bytes;
  }
  while (io->step->right && end > start) {
    size_t at = end - 1;
    while (at > start && ((unsigned char)text.data[at] & 0xc0) == 0x80) at--;
    tn_utf8_step(text.data + at, end - at, &c);
    if (!tn_unicode_space(c)) break;
    end = at;
  }
  copy(io, start, end);
}

static void replace_text(step_io *io) {
  tn_text text = input(io), from = io->step->from, to = io->step->to;
  size_t copied = 0, at = 0;
  while (from.bytes && at + from.bytes <= text.bytes) {
    const char *hit = memchr(text.data + at, from.data[0], text.bytes - at - from.bytes + 1);
    if (!hit) break;
    at = (size_t)(hit - text.data);
    if (memcmp(hit, from.data, from.bytes) != 0) {
      at++;
      continue;
    }
    copy(io, copied, at);
    emit(io, to.data, to.bytes, at, at + from.bytes);
    copied = at += from.bytes;
  }
  copy(io, copied, text.bytes);
}

static tn_status replace_pattern(step_io *io, tn_error *error) {
  tn_text text = input(io);
  tn_buf kinds;
  tn_buf_init(&kinds);
  tn_status status = TN_OK;
  if (!tn_pattern_kinds(io->step->pattern, text, &kinds))
    status = tn_fail(error, TN_E_MEMORY, "out of memory for a text of %zu bytes", text.bytes);
  size_t from = 0, at = 0, copied = 0, character = 0, last_end = SIZE_MAX; /* `at` is the byte of `character` */
  while (status == TN_OK && from <= kinds.size) {
    bool found;
    size_t start, end;
    status = tn_pattern_find(io->step->pattern, io->run, kinds.data, kinds.size, from, &found, &start, &end, error);
    if (status != TN_OK || !found) break;
    uint32_t c;
    for (; character < start; character++) at += tn_utf8_step(text.data + at, text.bytes - at, &c);
    size_t first = at;
    for (; character < end; character++) at += tn_utf8_step(text.data + at, text.bytes - at, &c);
    from = end > start ? end : end + 1;
    if (end == start && end == last_end) continue; /* nothing, right behind a match, is none */
    last_end = end;
    copy(io, copied, first);
    emit(io, io->step->to.data, io->step->to.bytes, first, at);
    copied = at;
  }
  copy(io, copied, text.bytes);
  tn_buf_finish(&kinds);
  return status;
}

/* ---- the character map ---- */

/* The length of the extended grapheme cluster at the start of `text`. */
static size_t cluster(tn_text text) {
  uint32_t c, next;
  utf8proc_int32_t state = 0;
  size_t at = tn_utf8_step(text.data, text.bytes, &c);
  while (at < text.bytes) {
    size_t bytes = tn_utf8_step(text.data + at, text.bytes - at, &next);
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)c, (utf8proc_int32_t)next, &state)) break;
    at += bytes;
    c = next;
  }
  return at;
}

static void map_cluster(step_io *io, size_t start, size_t end) {
  const char *text = io->in->text.data;
  tn_text to;
  size_t part;
  if (end - start < 6 && tn_charsmap_find(io->step->map, (tn_text){text + start, end - start}, false, &part, &to)) {
    emit(io, to.data, to.bytes, start, end);
    return;
  }
  uint32_t c;
  for (size_t at = start, bytes; at < end; at += bytes) {
    bytes = tn_utf8_step(text + at, end - at, &c);
    if (tn_charsmap_find(io->step->map, (tn_text){text + at, bytes}, false, &part, &to))
      emit(io, to.data, to.bytes, at, at + bytes);
    else
      copy(io, at, at + bytes);
  }
}

static void apply_charsmap(step_io *io) {
  tn_text text = input(io);
  for (size_t at = 0, bytes; at < text.bytes; at += bytes) {
    tn_text rest = {text.data + at, text.bytes - at}, to;
    uint32_t c;
    if (io->step->by_cluster) {
      bytes = cluster(rest);
      map_cluster(io, at, at + bytes);
    } else if (tn_charsmap_find(io->step->map, rest, true, &bytes, &to)) {
      emit(io, to.data, to.bytes, at, at + bytes);
    } else {
      bytes = tn_utf8_step(rest.data, rest.bytes, &c);
      copy(io, at, at + bytes);
    }
  }
}

/* SentencePiece's white space for unigram models: see TN_NORMAL_WORDS. */
static void mark_words(step_io *io) {
  tn_text text = input(io), mark = io->step->to;
  bool in_word = false, began = false;
  for (size_t at = 0; at < text.bytes; at++) {
    bool blank = text.data[at] == ' ';
    if (!blank && !in_word && ((io->step->prefix && !began) || io->step->merge)) {
      emit(io, mark.data, mark.bytes, at, at);
      began = true;
    }
    in_word = !blank;
    if (!blank)
      copy(io, at, at + 1);
    else if (!io->step->merge)
      emit(io, mark.data, mark.bytes, at, at + 1);
  }
}

static tn_status run_step(step_io *io, tn_error *error) {
  const tn_normal_step *step = io->step;
  switch (step->kind) {
    case TN_NORMAL_FORM: apply_form(io); break;
    case TN_NORMAL_STRIP: strip(io); break;
    case TN_NORMAL_REPLACE:
      if (step->pattern) return replace_pattern(io, error);
      replace_text(io);
      break;
    case TN_NORMAL_PREPEND:
      if (io->in->text.size) emit(io, step->to.data, step->to.bytes, 0, 0);
      copy(io, 0, io->in->text.size);
      break;
    case TN_NORMAL_CHARSMAP: apply_charsmap(io); break;
    case TN_NORMAL_WORDS: mark_words(io); break;
    default: map_characters(io); break;
  }
  return TN_OK;
}

tn_status tn_normalize(const tn_normalizer *normalizer, tn_pattern_run *run, tn_marked_text *marked,
                       tn_marked_text *spare, tn_error *error) {
  size_t limit = marked->text.size * TN_NORMAL_MAX_GROWTH + TN_NORMAL_MAX_EXTRA;
  for (size_t i = 0; i < normalizer->count; i++) {
    tn_buf_clear(&spare->text);
    tn_buf_clear(&spare->trust);
    spare->mixed = marked->mixed;
    spare->trusted = marked->trusted;
    spare->lost_front = marked->lost_front;
    spare->text.limit = limit;
    tn_buf_reserve(&spare->text, marked->text.size); /* so that data is never NULL */
    step_io io = {&normalizer->steps[i], marked, spare, run};
    tn_status status = run_step(&io, error);
    if (status == TN_OK && (spare->text.failed || spare->trust.failed))
      status = tn_fail(error, spare->text.size >= limit / 2 ? TN_E_LIMIT : TN_E_MEMORY,
                       "normalizing a text makes it larger than %zu bytes, or memory is out", limit);
    if (status != TN_OK) return status;
    tn_marked_text swap = *marked;
    *marked = *spare;
    *spare = swap;
  }
  return TN_OK;
}
