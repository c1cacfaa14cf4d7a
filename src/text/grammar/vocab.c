#include "text/grammar/vocab.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

#define LONGEST_TOKEN 4096 /* bytes; longer tokens are refused */

typedef struct entry {
  const char *bytes;
  uint32_t size, id;
} entry;

static int by_bytes(const void *p, const void *q) {
  const entry *a = p, *b = q;
  int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
  if (order) return order;
  if (a->size != b->size) return a->size < b->size ? -1 : 1;
  return (a->id > b->id) - (a->id < b->id);
}

static uint32_t common_prefix(const entry *a, const entry *b) {
  uint32_t size = a->size < b->size ? a->size : b->size, i = 0;
  while (i < size && a->bytes[i] == b->bytes[i]) i++;
  return i;
}

/* Lays the sorted entries out as nodes in preorder. */
static bool lay_out(tn_grammar_vocab *v, const entry *entries, size_t count) {
  size_t total = 2;
  for (size_t i = 0; i < count; i++) total += entries[i].size - (i ? common_prefix(&entries[i - 1], &entries[i]) : 0);
  if (total >= UINT32_MAX) return false;
  v->nodes = tn_calloc(total, sizeof *v->nodes);
  uint32_t *open = tn_calloc(LONGEST_TOKEN + 1, sizeof *open); /* the path to the last node, by depth */
  if (!v->nodes || !open) {
    free(open);
    return false;
  }
  uint32_t depth = 0;
  v->node_count = 1;
  for (size_t i = 0; i < count; i++) {
    uint32_t shared = i ? common_prefix(&entries[i - 1], &entries[i]) : 0;
    for (; depth > shared; depth--) v->nodes[open[depth]].end = v->node_count;
    while (depth < entries[i].size) {
      uint8_t byte = (uint8_t)entries[i].bytes[depth++];
      v->nodes[v->node_count] = (tn_trie_node){.tokens = (uint32_t)i, .byte = byte, .depth = (uint16_t)depth};
      open[depth] = v->node_count++;
    }
    if (depth > v->depth) v->depth = depth;
    v->order[i] = entries[i].id;
  }
  for (; depth > 0; depth--) v->nodes[open[depth]].end = v->node_count;
  v->nodes[0].end = v->node_count;
  v->nodes[v->node_count].tokens = (uint32_t)count;
  free(open);
  return true;
}

/* The bytes that may come next on the way through a UTF-8 character: `left` more, the next within [low, high]. */
typedef struct utf8_place {
  uint8_t left, low, high, broken;
} utf8_place;

static utf8_place utf8_next(utf8_place at, uint8_t byte) {
  if (at.broken) return at;
  if (at.left) {
    if (byte < at.low || byte > at.high) return (utf8_place){.broken = 1};
    return (utf8_place){(uint8_t)(at.left - 1), 0x80, 0xBF, 0};
  }
  if (byte < 0x80) return (utf8_place){0};
  if (byte < 0xC2 || byte > 0xF4) return (utf8_place){.broken = 1};
  if (byte < 0xE0) return (utf8_place){1, 0x80, 0xBF, 0};
  if (byte < 0xF0) return (utf8_place){2, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF, 0};
  return (utf8_place){3, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF, 0};
}

static bool describe_subtrees(tn_grammar_vocab *v) {
  v->below = tn_calloc(v->node_count, sizeof *v->below);
  uint32_t *path = tn_calloc(v->depth + 1u, sizeof *path), *parent = tn_calloc(v->node_count, sizeof *parent);
  utf8_place *place = tn_calloc(v->depth + 1u, sizeof *place);
  bool done = v->below && path && parent && place;
  v->nodes[0].flags = TN_NODE_WHOLE | TN_NODE_PATH_OK;
  for (uint32_t i = 1; done && i < v->node_count; i++) {
    tn_trie_node *node = &v->nodes[i];
    parent[i] = path[node->depth - 1];
    path[node->depth] = i;
    place[node->depth] = utf8_next(place[node->depth - 1], node->byte);
    if (!place[node->depth].broken) node->flags |= TN_NODE_PATH_OK;
    if (!place[node->depth].broken && !place[node->depth].left) node->flags |= TN_NODE_WHOLE;
    bool has_token = node->tokens < v->nodes[i + 1].tokens;
    if (has_token && !(node->flags & TN_NODE_PATH_OK)) node->flags |= TN_NODE_TORN;
  }
  for (uint32_t i = done ? v->node_count - 1 : 0; i > 0; i--) {
    const tn_trie_node *node = &v->nodes[i];
    tn_trie_below *up = &v->below[parent[i]];
    up->ascii[0] |= v->below[i].ascii[0];
    up->ascii[1] |= v->below[i].ascii[1];
    if (node->byte < 128) up->ascii[node->byte >> 6] |= (uint64_t)1 << (node->byte & 63);
    uint32_t chars = v->below[i].chars + ((node->byte & 0xC0) != 0x80); /* counted where they begin */
    if (chars > up->chars) up->chars = chars;
    v->nodes[parent[i]].flags |= node->flags & (TN_NODE_TORN | TN_NODE_WIDE);
    if (node->byte >= 128) v->nodes[parent[i]].flags |= TN_NODE_WIDE;
  }
  free(path);
  free(parent);
  free(place);
  return done;
}

/* Bytes of a token in the trie; none when nothing can allow it. */
static uint32_t size_in_trie(const tn_grammar_token *token) {
  if (!token->size || memchr(token->bytes, TN_CONTROL_MARK, token->size)) return 0;
  if (!token->special) return token->size;
  return token->size + 2 <= LONGEST_TOKEN ? token->size + 2 : 0;
}

static bool keep_bytes(tn_grammar_vocab *v, const tn_grammar_token *tokens, size_t total) {
  v->bytes = malloc(total ? total : 1);
  v->first = tn_calloc((size_t)v->count + 1, sizeof *v->first);
  if (!v->bytes || !v->first) return false;
  for (uint32_t i = 0; i < v->count; i++) {
    char *to = v->bytes + v->first[i];
    uint32_t size = size_in_trie(&tokens[i]), mark = tokens[i].special;
    if (size && mark) to[0] = to[size - 1] = TN_CONTROL_MARK;
    if (size) memcpy(to + mark, tokens[i].bytes, tokens[i].size);
    v->first[i + 1] = v->first[i] + size;
  }
  return true;
}

static tn_status check_tokens(const tn_grammar_token *tokens, uint32_t count, const uint32_t *ends, uint32_t end_count,
                              size_t *total, tn_error *error) {
  *total = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (tokens[i].size > LONGEST_TOKEN && !tokens[i].special)
      return tn_fail(error, TN_E_LIMIT, "token %u has %u bytes; %d are allowed", i, tokens[i].size, LONGEST_TOKEN);
    *total += size_in_trie(&tokens[i]);
  }
  if (*total > UINT32_MAX) return tn_fail(error, TN_E_LIMIT, "tokens of %zu bytes together", *total);
  for (uint32_t i = 0; i < end_count; i++)
    if (ends[i] >= count) return tn_fail(error, TN_E_INVALID, "the end token %u is outside the vocabulary", ends[i]);
  return TN_OK;
}

/* What may stand in a JSON string as it is. */
static bool find_string_tokens(tn_grammar_vocab *v) {
  tn_char_class plain = {.wide = true};
  for (unsigned c = ' '; c < 128; c++)
    if (c != '"' && c != '\\') plain.ascii[c >> 6] |= (uint64_t)1 << (c & 63);
  return tn_char_tokens_make(&v->strings, v, plain);
}

static bool build(tn_grammar_vocab *v, const tn_grammar_token *tokens, const uint32_t *ends, size_t total) {
  entry *entries = tn_calloc(v->count, sizeof *entries);
  size_t used = 0;
  v->ends = tn_calloc(v->end_count, sizeof *v->ends);
  bool done = entries && v->ends && keep_bytes(v, tokens, total);
  if (done && v->end_count) memcpy(v->ends, ends, v->end_count * sizeof *ends);
  for (uint32_t i = 0; done && i < v->count; i++)
    if (v->first[i + 1] > v->first[i] && !tn_grammar_vocab_is_end(v, i))
      entries[used++] = (entry){v->bytes + v->first[i], v->first[i + 1] - v->first[i], i};
  if (done) qsort(entries, used, sizeof *entries, by_bytes);
  v->order = tn_calloc(used, sizeof *v->order);
  done = done && v->order && lay_out(v, entries, used) && describe_subtrees(v) && find_string_tokens(v);
  free(entries);
  return done;
}

tn_status tn_grammar_vocab_create(tn_grammar_vocab **vocab, const tn_grammar_token *tokens, uint32_t count,
                                  const uint32_t *ends, uint32_t end_count, tn_error *error) {
  size_t total;
  *vocab = NULL;
  tn_status status = check_tokens(tokens, count, ends, end_count, &total, error);
  if (status != TN_OK) return status;
  tn_grammar_vocab *v = tn_calloc(1, sizeof *v);
  if (!v) return tn_fail(error, TN_E_MEMORY, "out of memory for a vocabulary");
  atomic_init(&v->references, 1);
  v->count = count;
  v->words = ((size_t)count + 31) / 32;
  v->end_count = end_count;
  if (!build(v, tokens, ends, total)) {
    tn_grammar_vocab_release(v);
    return tn_fail(error, TN_E_MEMORY, "out of memory for a vocabulary of %u tokens", count);
  }
  *vocab = v;
  return TN_OK;
}

void tn_grammar_vocab_keep(tn_grammar_vocab *vocab) {
  atomic_fetch_add(&vocab->references, 1);
}

void tn_grammar_vocab_release(tn_grammar_vocab *vocab) {
  if (!vocab || atomic_fetch_sub(&vocab->references, 1) != 1) return;
  free(vocab->nodes);
  free(vocab->below);
  free(vocab->order);
  free(vocab->ends);
  free(vocab->bytes);
  free(vocab->first);
  tn_char_tokens_finish(&vocab->strings);
  free(vocab);
}

size_t tn_grammar_vocab_words(const tn_grammar_vocab *vocab) {
  return vocab->words;
}

bool tn_grammar_vocab_is_end(const tn_grammar_vocab *vocab, uint32_t token) {
  for (uint32_t i = 0; i < vocab->end_count; i++)
    if (vocab->ends[i] == token) return true;
  return false;
}
