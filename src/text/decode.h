/* Token ids back to text: the bytes of one token, and text released while tokens arrive. */
#ifndef TENON_TEXT_DECODE_H
#define TENON_TEXT_DECODE_H

#include "base/memory.h"
#include "base/text.h"

typedef enum tn_decode_kind {
  TN_DECODE_BYTE_LEVEL,    /* characters of the byte alphabet become bytes; a token with any other stays as it is */
  TN_DECODE_BYTE_FALLBACK, /* <0xXX> becomes a byte */
  TN_DECODE_REPLACE,       /* from by to */
  TN_DECODE_STRIP, /* up to `count` times `from` (one character) at the left; of each token, or, `whole`, of the text */
  TN_DECODE_METASPACE, /* from becomes a blank; in the first token nothing, if `drop_first` */
  TN_DECODE_WORDPIECE, /* from ("##") goes; tokens without it get a blank in front, but the first */
  TN_DECODE_CLEAN_UP,  /* blanks in front of punctuation and English endings go */
  TN_DECODE_SUFFIX,    /* from ("</w>") becomes a blank; behind the last token nothing */
  TN_DECODE_SPACES     /* a blank between tokens */
} tn_decode_kind;

typedef struct tn_decode_step {
  tn_decode_kind kind;
  tn_text from, to;
  size_t count;
  bool whole, drop_first;
} tn_decode_step;

typedef struct tn_decode_steps {
  tn_decode_step *steps;
  size_t count, capacity;
  tn_arena arena;
} tn_decode_steps;

void tn_decode_steps_finish(tn_decode_steps *steps);

/* Appends what the token with this text contributes, before the steps that look at the whole text. `first`: no
 * token came before it. `plain`: no step applies (control tokens of GGUF). `work`: two buffers whose content doesn't
 * matter; their memory is used again. False when memory is out. */
bool tn_decode_token(const tn_decode_steps *steps, tn_text text, bool plain, bool first, tn_buf work[2], tn_buf *out);

/* The alphabet in which byte-level vocabularies write bytes (GPT-2): appends the bytes that `text` stands for, or
 * false, with nothing appended, if one of its characters is none of the alphabet. */
bool tn_byte_level_bytes(tn_text text, tn_buf *out);

/* Writes the character of that alphabet for a byte; returns its length. */
size_t tn_byte_level_character(unsigned char byte, char out[2]);

/* Appends `text` to `out` as valid UTF-8: each maximal invalid part becomes one U+FFFD. A character cut off at the end
 * is left if `keep_tail`; the return value is how many bytes were taken. */
size_t tn_utf8_release(tn_text text, bool keep_tail, tn_buf *out);

#endif
