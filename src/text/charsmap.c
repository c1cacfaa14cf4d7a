#include "text/charsmap.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

tn_status tn_charsmap_create(tn_charsmap **out, const void *data, size_t bytes, tn_error *error) {
  *out = NULL;
  const unsigned char *p = data;
  uint32_t trie = bytes >= 4 ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
  if (bytes < 8 || trie < 4 || trie % 4 != 0 || trie > bytes - 4)
    return tn_fail(error, TN_E_FORMAT, "precompiled_charsmap: %zu bytes with a trie of %u", bytes, trie);
  tn_charsmap *map = tn_calloc(1, sizeof *map);
  if (!map) return tn_fail(error, TN_E_MEMORY, "precompiled_charsmap: out of memory");
  map->unit_count = trie / 4;
  map->units = tn_calloc(map->unit_count, sizeof *map->units);
  map->replacement_bytes = bytes - 4 - trie;
  map->replacements = tn_copy_text(p + 4 + trie, map->replacement_bytes);
  if (!map->units || !map->replacements) {
    tn_charsmap_destroy(map);
    return tn_fail(error, TN_E_MEMORY, "precompiled_charsmap: out of memory");
  }
  for (size_t i = 0; i < map->unit_count; i++) {
    const unsigned char *unit = p + 4 + 4 * i;
    map->units[i] = (uint32_t)unit[0] | (uint32_t)unit[1] << 8 | (uint32_t)unit[2] << 16 | (uint32_t)unit[3] << 24;
  }
  *out = map;
  return TN_OK;
}

tn_status tn_charsmap_from_base64(tn_charsmap **out, tn_text base64, tn_error *error) {
  *out = NULL;
  unsigned char *data = malloc(base64.bytes / 4 * 3 + 3);
  if (!data) return tn_fail(error, TN_E_MEMORY, "precompiled_charsmap: out of memory");
  size_t bytes = 0;
  uint32_t bits = 0;
  unsigned have = 0;
  tn_status status = TN_OK;
  for (size_t i = 0; i < base64.bytes && base64.data[i] != '='; i++) {
    char c = base64.data[i];
    int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;
    if (value < 0) {
      status = tn_fail(error, TN_E_FORMAT, "precompiled_charsmap: byte %zu is not base64", i);
      break;
    }
    bits = bits << 6 | (uint32_t)value;
    have += 6;
    if (have >= 8) {
      have -= 8;
      data[bytes++] = (unsigned char)(bits >> have);
    }
  }
  if (status == TN_OK) status = tn_charsmap_create(out, data, bytes, error);
  free(data);
  return status;
}

bool tn_charsmap_write(const tn_charsmap *map, tn_buf *out) {
  for (size_t i = 0; i <= map->unit_count; i++) {
    uint32_t word = i ? map->units[i - 1] : (uint32_t)map->unit_count * 4;
    const unsigned char bytes[] = {(unsigned char)word, (unsigned char)(word >> 8), (unsigned char)(word >> 16),
                                   (unsigned char)(word >> 24)};
    tn_buf_append(out, bytes, sizeof bytes);
  }
  return tn_buf_append(out, map->replacements, map->replacement_bytes);
}

void tn_charsmap_destroy(tn_charsmap *map) {
  if (!map) return;
  free(map->units);
  free(map->replacements);
  free(map);
}

static uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

bool tn_charsmap_find(const tn_charsmap *map, tn_text text, bool longest, size_t *part, tn_text *replacement) {
  size_t node = offset_of(map->units[0]);
  bool found = false;
  for (size_t i = 0; i < text.bytes; i++) {
    unsigned char byte = (unsigned char)text.data[i];
    node ^= byte;
    if (byte == 0 || node >= map->unit_count) break;
    uint32_t unit = map->units[node];
    if ((unit & 0x800000ffu) != byte) break;
    node ^= offset_of(unit);
    if (!(unit & 0x100)) continue;
    size_t start = node < map->unit_count ? map->units[node] & 0x7fffffffu : SIZE_MAX;
    if (start >= map->replacement_bytes) break;
    *replacement = tn_text_of(map->replacements + start);
    *part = i + 1;
    found = true;
    if (!longest) break;
  }
  return found;
}
