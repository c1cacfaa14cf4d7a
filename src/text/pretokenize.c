#include "text/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

void tn_pretokenizer_finish(tn_pretokenizer *pretokenizer) {
  for (size_t i = 0; i < pretokenizer->count; i++) tn_pattern_free(pretokenizer->cuts[i].pattern);
  free(pretokenizer->cuts);
  tn_arena_finish(&pretokenizer->arena);
}

void tn_pretokenizer_work_finish(tn_pretokenizer_work *work) {
  free(work->words.words);
  free(work->next.words);
  tn_buf_finish(&work->text);
  tn_buf_finish(&work->kinds);
  tn_buf_finish(&work->spare);
}

static bool add_word(tn_words *words, size_t start, size_t end) {
  if (start == end) return true;
  tn_word *word = TN_PUSH(words->words, words->count, words->capacity);
  if (word) *word = (tn_word){(uint32_t)start, (uint32_t)end};
  return word;
}

/* ---- patterns ---- */

/* What the parts of one word, matched and not, become. Parts come in order and cover the word. */
typedef struct splitter {
  tn_split_behavior behavior;
  tn_words *out;
  size_t pending; /* start of text not put out yet */
  bool have, previous_match;
} splitter;

/* Takes the part [start, end); false when memory is out. */
static bool take_part(splitter *s, size_t start, size_t end, bool match) {
  bool good = true;
  switch (s->behavior) {
    case TN_SPLIT_REMOVED: return match || add_word(s->out, start, end);
    case TN_SPLIT_ISOLATED: return add_word(s->out, start, end);
    case TN_SPLIT_WITH_PREVIOUS: /* a match joins what came before unless that was a match */
      if (!(match && s->have && !s->previous_match)) {
        good = !s->have || add_word(s->out, s->pending, start);
        s->pending = start;
      }
      break;
    case TN_SPLIT_WITH_NEXT: /* a part joins the match before it unless it is one */
      if (!(s->have && s->previous_match && !match)) {
        good = !s->have || add_word(s->out, s->pending, start);
        s->pending = start;
      }
      break;
    case TN_SPLIT_CONTIGUOUS:
      if (!s->have || match != s->previous_match) {
        good = !s->have || add_word(s->out, s->pending, start);
        s->pending = start;
      }
      break;
  }
  s->have = true;
  s->previous_match = match;
  return good;
}

/* Where one is in a text, as byte and as character: both only go forward. */
typedef struct place {
  size_t byte, character;
} place;

static void go_to_character(place *p, tn_text text, size_t character, bool single_bytes) {
  if (single_bytes) {
    p->byte += character - p->character;
    p->character = character;
    return;
  }
  uint32_t c;
  while (p->character < character) {
    p->byte += tn_utf8_step(text.data + p->byte, text.bytes - p->byte, &c);
    p->character++;
  }
}

static void go_to_byte(place *p, tn_text text, size_t byte, bool single_bytes) {
  if (single_bytes) {
    *p = (place){byte, byte};
    return;
  }
  uint32_t c;
  while (p->byte < byte) {
    p->byte += tn_utf8_step(text.data + p->byte, text.bytes - p->byte, &c);
    p->character++;
  }
}

/* Cuts the word that begins at `*at` and whose kinds are kinds[0, count). */
static tn_status cut_word(const tn_cut *cut, tn_pattern_run *run, tn_text text, const char *kinds, size_t count,
                          bool single_bytes, place *at, tn_words *out, tn_error *error) {
  splitter s = {.behavior = cut->behavior, .out = out};
  size_t base = at->character, from = 0, done = at->byte, last_end = SIZE_MAX;
  bool good = true;
  while (from <= count && good) {
    bool found;
    size_t start, end;
    tn_status status = tn_pattern_find(cut->pattern, run, kinds, count, from, &found, &start, &end, error);
    if (status != TN_OK) return status;
    if (!found) break;
    from = end > start ? end : end + 1;
    if (start == end && end == last_end) continue; /* nothing, right behind a match, is none */
    last_end = end;
    go_to_character(at, text, base + start, single_bytes);
    size_t start_byte = at->byte;
    go_to_character(at, text, base + end, single_bytes);
    if (start_byte > done) good = take_part(&s, done, start_byte, cut->invert);
    good = good && take_part(&s, start_byte, at->byte, !cut->invert);
    done = at->byte;
  }
  go_to_character(at, text, base + count, single_bytes);
  if (at->byte > done) good = good && take_part(&s, done, at->byte, cut->invert);
  if (s.behavior >= TN_SPLIT_WITH_PREVIOUS && s.have) good = good && add_word(out, s.pending, at->byte);
  return good ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory for words");
}

static tn_status cut_by_pattern(const tn_cut *cut, tn_pretokenizer_work *work, tn_pattern_run *run, tn_text text,
                                tn_error *error) {
  tn_buf_clear(&work->kinds);
  if (!tn_pattern_kinds(cut->pattern, text, &work->kinds))
    return tn_fail(error, TN_E_MEMORY, "out of memory for words");
  bool single_bytes = work->kinds.size == text.bytes;
  place at = {0, 0};
  for (size_t i = 0; i < work->words.count; i++) {
    tn_word word = work->words.words[i];
    go_to_byte(&at, text, word.start, single_bytes);
    size_t count = 0;
    if (i + 1 == work->words.count && word.end == text.bytes) {
      count = work->kinds.size - at.character;
    } else {
      place end = at;
      go_to_byte(&end, text, word.end, single_bytes);
      count = end.character - at.character;
    }
    tn_status status =
        cut_word(cut, run, text, work->kinds.data + at.character, count, single_bytes, &at, &work->next, error);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

/* ---- steps that change the text: they build it anew in work->spare ---- */

static bool starts_with(tn_text text, tn_text prefix) {
  return text.bytes >= prefix.bytes && memcmp(text.data, prefix.data, prefix.bytes) == 0;
}

/* A word with blanks turned into marks, cut in front of each. */
static bool add_metaspace_word(const tn_cut *cut, tn_pretokenizer_work *work, tn_text word, bool first) {
  tn_buf *out = &work->spare;
  size_t start = out->size;
  bool marked = starts_with(word, cut->mark) || (word.bytes && word.data[0] == ' ');
  if (cut->prefix && !marked && (first || !cut->first_only)) tn_buf_append(out, cut->mark.data, cut->mark.bytes);
  for (size_t i = 0; i < word.bytes;) {
    bool blank = word.data[i] == ' ';
    bool mark = blank || starts_with((tn_text){word.data + i, word.bytes - i}, cut->mark);
    if (mark && cut->split) {
      if (!add_word(&work->next, start, out->size)) return false;
      start = out->size;
    }
    if (mark) {
      tn_buf_append(out, cut->mark.data, cut->mark.bytes);
      i += blank ? 1 : cut->mark.bytes;
    } else {
      tn_buf_putc(out, word.data[i++]);
    }
  }
  return add_word(&work->next, start, out->size);
}

static bool rebuild(const tn_cut *cut, tn_pretokenizer_work *work, tn_text text, bool at_start) {
  tn_buf_clear(&work->spare);
  work->spare.limit = INT32_MAX; /* words are numbered in 32 bits */
  for (size_t i = 0; i < work->words.count; i++) {
    tn_text word = {text.data + work->words.words[i].start, work->words.words[i].end - work->words.words[i].start};
    size_t start = work->spare.size;
    if (cut->kind == TN_CUT_METASPACE) {
      if (!add_metaspace_word(cut, work, word, at_start && work->words.words[i].start == 0)) return false;
      continue;
    }
    if (word.data[0] != ' ') tn_buf_putc(&work->spare, ' ');
    tn_buf_append(&work->spare, word.data, word.bytes);
    if (!add_word(&work->next, start, work->spare.size)) return false;
  }
  return !work->spare.failed && tn_buf_reserve(&work->spare, 0);
}

/* ---- other steps that only cut ---- */

static bool cut_by_length(const tn_cut *cut, tn_text text, tn_word word, tn_words *out) {
  size_t start = word.start, characters = 0;
  uint32_t c;
  for (size_t at = word.start; at < word.end;) {
    at += tn_utf8_step(text.data + at, word.end - at, &c);
    if (++characters == cut->length || at == word.end) {
      if (!add_word(out, start, at)) return false;
      start = at;
      characters = 0;
    }
  }
  return true;
}

/* Scripts that are looked up by name once a text. */
typedef struct script_names {
  int han, hiragana, katakana, unknown;
} script_names;

/* The script that decides about cuts; -1 for a blank and for what has none, which go with anything. */
static int deciding_script(uint32_t c, const script_names *names) {
  if (c == ' ') return -1;
  int script = (int)tn_unicode_script(c);
  if (script == names->unknown) return -1;
  return c == 0x30fc || script == names->hiragana || script == names->katakana ? names->han : script;
}

static bool cut_by_script(tn_text text, tn_word word, tn_words *out) {
  size_t start = word.start;
  int last = -2;
  uint32_t c;
  script_names names = {tn_unicode_script_named(TN_TEXT("Han")), tn_unicode_script_named(TN_TEXT("Hiragana")),
                        tn_unicode_script_named(TN_TEXT("Katakana")), tn_unicode_script_named(TN_TEXT("Unknown"))};
  for (size_t at = word.start, bytes; at < word.end; at += bytes) {
    bytes = tn_utf8_step(text.data + at, word.end - at, &c);
    int script = deciding_script(c, &names);
    if (script < 0) continue;
    if (script != last) {
      if (last != -2 && !add_word(out, start, at)) return false;
      start = at; /* blanks in front of everything belong to nothing */
    }
    last = script;
  }
  return last == -2 || add_word(out, start, word.end);
}

/* Passes a run of `digits` digits that begins at `*at` and cuts in front of each group of three that counts from its
 * end. `*start` is where the piece begins that isn't put out yet. */
static bool cut_run(tn_text text, size_t *at, size_t digits, size_t *start, tn_words *out) {
  uint32_t c;
  for (; digits > 0; digits--) {
    if (digits % 3 == 0) {
      if (!add_word(out, *start, *at)) return false;
      *start = *at;
    }
    *at += tn_utf8_step(text.data + *at, text.bytes - *at, &c);
  }
  return true;
}

/* The number of digits at `at`, the byte behind them, and whether a word character follows. */
static size_t count_digits(const tn_cut *cut, tn_text text, size_t at, size_t end, size_t *behind, bool *followed) {
  size_t digits = 0;
  uint32_t c;
  *followed = false;
  while (at < end) {
    size_t bytes = tn_utf8_step(text.data + at, end - at, &c);
    if (!tn_unicode_is(c, cut->categories)) {
      *followed = tn_unicode_pattern_word(c);
      break;
    }
    at += bytes;
    digits++;
  }
  *behind = at;
  return digits;
}

static bool cut_digits(const tn_cut *cut, tn_text text, tn_word word, tn_words *out) {
  size_t start = word.start;
  uint32_t c;
  for (size_t at = word.start; at < word.end;) {
    size_t behind;
    bool followed;
    size_t digits = count_digits(cut, text, at, word.end, &behind, &followed);
    if (digits == 0) {
      at += tn_utf8_step(text.data + at, word.end - at, &c);
    } else if (cut->boundary && followed) {
      at = behind;
    } else {
      if (!cut->between) { /* the run's first group stands for itself, as does its last */
        if (!add_word(out, start, at)) return false;
        start = at;
      }
      if (!cut_run(text, &at, digits, &start, out)) return false;
      if (!cut->between) {
        if (!add_word(out, start, at)) return false;
        start = at;
      }
    }
  }
  return add_word(out, start, word.end);
}

static tn_status run_cut(const tn_cut *cut, tn_pretokenizer_work *work, tn_pattern_run *run, tn_text *text,
                         bool at_start, tn_error *error) {
  bool good = true;
  work->next.count = 0;
  if (cut->kind == TN_CUT_PATTERN) {
    tn_status status = cut_by_pattern(cut, work, run, *text, error);
    if (status != TN_OK) return status;
  } else if (cut->kind == TN_CUT_SPACE_FIRST || cut->kind == TN_CUT_METASPACE) {
    good = rebuild(cut, work, *text, at_start);
    tn_buf swap = work->text;
    work->text = work->spare;
    work->spare = swap;
    *text = (tn_text){work->text.data, work->text.size};
  } else {
    for (size_t i = 0; i < work->words.count && good; i++) {
      tn_word word = work->words.words[i];
      if (cut->kind == TN_CUT_LENGTH)
        good = cut_by_length(cut, *text, word, &work->next);
      else if (cut->kind == TN_CUT_SCRIPTS)
        good = cut_by_script(*text, word, &work->next);
      else
        good = cut_digits(cut, *text, word, &work->next);
    }
  }
  tn_words swap = work->words;
  work->words = work->next;
  work->next = swap;
  return good ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory for words");
}

tn_status tn_pretokenize(const tn_pretokenizer *pretokenizer, tn_pretokenizer_work *work, tn_pattern_run *run,
                         tn_text text, bool at_start, tn_text *cut_text, tn_error *error) {
  work->words.count = 0;
  *cut_text = text;
  if (!add_word(&work->words, 0, text.bytes)) return tn_fail(error, TN_E_MEMORY, "out of memory for words");
  for (size_t i = 0; i < pretokenizer->count; i++) {
    tn_status status = run_cut(&pretokenizer->cuts[i], work, run, cut_text, at_start, error);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}
