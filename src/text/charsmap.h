/* SentencePiece's precompiled map of characters to their replacements.
 *
 *   u32 bytes of the trie, little-endian   trie: u32 units of a double array   replacements, each ended by a zero byte
 *
 * Unit of the double array (Darts): bits 0-7 and 31 label, bit 8 has a leaf, bit 9 scale of the offset, bits 10-30
 * offset; a leaf's unit holds in bits 0-30 where its replacement begins. */
#ifndef TENON_TEXT_CHARSMAP_H
#define TENON_TEXT_CHARSMAP_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"

typedef struct tn_charsmap {
  uint32_t *units;
  size_t unit_count;
  char *replacements;
  size_t replacement_bytes;
} tn_charsmap;

/* Copies `data`. TN_E_FORMAT if the sizes don't fit. Nodes are checked when they are used. */
tn_status tn_charsmap_create(tn_charsmap **out, const void *data, size_t bytes, tn_error *error);
/* The same from base64 text. */
tn_status tn_charsmap_from_base64(tn_charsmap **out, tn_text base64, tn_error *error);
/* Appends the map as it was given. False when memory is out. */
bool tn_charsmap_write(const tn_charsmap *map, tn_buf *out);
void tn_charsmap_destroy(tn_charsmap *map);

/* The replacement of the shortest or longest part that `text` begins with; false: there is none. `*part` is its
 * length. */
bool tn_charsmap_find(const tn_charsmap *map, tn_text text, bool longest, size_t *part, tn_text *replacement);

#endif
