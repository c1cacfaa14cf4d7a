#include "text/wordpiece.h"

#include "base/utf8.h"

static size_t character_count(tn_text text) {
  size_t count = 0;
  uint32_t codepoint;
  for (size_t at = 0; at < text.bytes; count++) at += tn_utf8_step(text.data + at, text.bytes - at, &codepoint);
  return count;
}

bool tn_wordpiece_encode(const tn_wordpiece *wordpiece, tn_text word, tn_ids *ids) {
  size_t before = ids->count;
  bool covered = word.bytes <= wordpiece->longest_word || character_count(word) <= wordpiece->longest_word;
  for (size_t at = 0, bytes = 0; at < word.bytes && covered; at += bytes) {
    const tn_prefix_index *pieces = at ? &wordpiece->continuing : &wordpiece->first;
    int32_t id = tn_prefix_longest(pieces, (tn_text){word.data + at, word.bytes - at}, &bytes);
    covered = id >= 0;
    if (covered && !tn_ids_add(ids, id)) return false;
  }
  if (covered) return true;
  ids->count = before;
  return wordpiece->unknown_id < 0 || tn_ids_add(ids, wordpiece->unknown_id);
}
