/* A parrot: a model file that answers a prompt with a script, token by token, through the real engine.
 *
 * Its vocabulary is the 256 bytes, an end token, the names of the scripts ("#12;") and one token for each place of each
 * script, with whatever text belongs there; the same text may be there often. Each token has a random code of signs for
 * its embedding, and the output row of a token is the code of the token before it. The one block has zero weights, so
 * the residual stream stays what the embedding was. The last token of a script also sets a flag, to which the end
 * token's row listens. So a prompt that ends with a script's name is answered with the script, then the end. */
#ifndef TENON_TESTS_PARROT_H
#define TENON_TESTS_PARROT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { PARROT_CODE = 160, PARROT_WIDTH = 192, PARROT_FLAG = PARROT_CODE, PARROT_HEADS = 6, PARROT_CONTEXT = 2048 };

typedef struct parrot_token {
  char *text; /* as the vocabulary writes it */
  int type;   /* 1 normal, 3 control, 4 user-defined */
  int before; /* the token it follows; -1: none */
  bool is_last;
} parrot_token;

typedef struct parrot {
  parrot_token *tokens;
  size_t count, capacity;
  size_t scripts;
  int tail; /* the last token of the script being written */
} parrot;

/* Appends bytes in the alphabet of byte-level vocabularies (GPT-2's). */
static inline void parrot_spell(tn_buf *buf, const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)bytes[i];
    unsigned point = c;
    if (c <= 32)
      point = 256u + c;
    else if (c >= 127 && c <= 160)
      point = 289u + (c - 127u);
    else if (c == 173)
      point = 323;
    if (point < 128) {
      tn_buf_putc(buf, (char)point);
    } else {
      tn_buf_putc(buf, (char)(0xC0 | point >> 6));
      tn_buf_putc(buf, (char)(0x80 | (point & 63)));
    }
  }
}

static inline int parrot_add(parrot *p, const char *bytes, size_t size, int type, int before) {
  tn_buf text = {0};
  if (type == 1)
    parrot_spell(&text, bytes, size);
  else
    tn_buf_append(&text, bytes, size);
  parrot_token *token = TN_PUSH(p->tokens, p->count, p->capacity);
  *token = (parrot_token){.text = tn_buf_take(&text), .type = type, .before = before};
  return (int)p->count - 1;
}

static inline void parrot_init(parrot *p) {
  *p = (parrot){.tail = -1};
  parrot_add(p, "<end>", 5, 3, -1);
  for (int byte = 0; byte < 256; byte++) {
    char c = (char)byte;
    parrot_add(p, &c, 1, 1, -1);
  }
}

/* Begins a script and writes its name: the prompt that asks for it. */
static inline void parrot_begin(parrot *p, char name[16]) {
  snprintf(name, 16, "#%zu;", p->scripts++);
  p->tail = parrot_add(p, name, strlen(name), 4, -1);
}
/* Begins the script that follows a prompt which ends with `text`. */
static inline void parrot_begin_after(parrot *p, const char *text) {
  p->scripts++;
  p->tail = parrot_add(p, text, strlen(text), 4, -1);
}
/* Its next token. */
static inline void parrot_say(parrot *p, const char *bytes, size_t size, bool is_control) {
  p->tail = parrot_add(p, bytes, size, is_control ? 3 : 1, p->tail);
}
static inline void parrot_end(parrot *p) {
  p->tokens[p->tail].is_last = true;
}

static inline void parrot_finish(parrot *p) {
  for (size_t i = 0; i < p->count; i++) free(p->tokens[i].text);
  free(p->tokens);
}

/* ---- the file ---- */

static inline void parrot_u32(FILE *file, uint32_t value) {
  fwrite(&value, 4, 1, file);
}
static inline void parrot_u64(FILE *file, uint64_t value) {
  fwrite(&value, 8, 1, file);
}
static inline void parrot_text(FILE *file, const char *text) {
  parrot_u64(file, strlen(text));
  fwrite(text, 1, strlen(text), file);
}
static inline void parrot_key(FILE *file, const char *key, uint32_t kind) {
  parrot_text(file, key);
  parrot_u32(file, kind);
}
static inline void parrot_key_u32(FILE *file, const char *key, uint32_t value) {
  parrot_key(file, key, 4);
  parrot_u32(file, value);
}
static inline void parrot_key_text(FILE *file, const char *key, const char *text) {
  parrot_key(file, key, 8);
  parrot_text(file, text);
}

typedef struct parrot_tensor {
  const char *name;
  uint64_t columns, rows; /* rows 0: a vector */
} parrot_tensor;

static inline float parrot_sign(size_t token, size_t column) {
  uint64_t bits = (token + 1) * 0x9E3779B97F4A7C15u + column * 0xD1B54A32D192ED03u;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  return bits >> 63 ? 1.0f : -1.0f;
}

static inline float parrot_weight(const parrot *p, size_t tensor, size_t row, size_t column) {
  const parrot_token *token = &p->tokens[row];
  if (tensor == 0) {
    if (column < PARROT_CODE) return parrot_sign(row, column);
    return column == PARROT_FLAG && token->is_last ? 20.0f : 0.0f;
  }
  if (tensor == 1) {
    if (row == 0) return column == PARROT_FLAG ? 50.0f : 0.0f;
    return column < PARROT_CODE && token->before >= 0 ? parrot_sign((size_t)token->before, column) : 0.0f;
  }
  return tensor <= 4 ? 1.0f : 0.0f; /* norms; all else is zero */
}

/* Writes the model. `chat_template` is its template's source. */
static inline void parrot_write(const parrot *p, const char *path, const char *chat_template) {
  const uint64_t W = PARROT_WIDTH, V = p->count;
  const parrot_tensor tensors[] = {
      {"token_embd.weight", W, V},      {"output.weight", W, V},         {"output_norm.weight", W, 0},
      {"blk.0.attn_norm.weight", W, 0}, {"blk.0.ffn_norm.weight", W, 0}, {"blk.0.attn_q.weight", W, W},
      {"blk.0.attn_k.weight", W, W},    {"blk.0.attn_v.weight", W, W},   {"blk.0.attn_output.weight", W, W},
      {"blk.0.ffn_gate.weight", W, 32}, {"blk.0.ffn_up.weight", W, 32},  {"blk.0.ffn_down.weight", 32, W}};
  FILE *file = fopen(path, "wb");
  fwrite("GGUF", 1, 4, file);
  parrot_u32(file, 3);
  parrot_u64(file, TN_COUNT(tensors));
  parrot_u64(file, 16);
  parrot_key_text(file, "general.architecture", "llama");
  parrot_key_u32(file, "llama.block_count", 1);
  parrot_key_u32(file, "llama.context_length", PARROT_CONTEXT);
  parrot_key_u32(file, "llama.embedding_length", PARROT_WIDTH);
  parrot_key_u32(file, "llama.feed_forward_length", 32);
  parrot_key_u32(file, "llama.attention.head_count", PARROT_HEADS);
  parrot_key_u32(file, "llama.attention.head_count_kv", PARROT_HEADS);
  parrot_key(file, "llama.attention.layer_norm_rms_epsilon", 6);
  fwrite(&(float){1e-6f}, 4, 1, file);
  parrot_key_text(file, "tokenizer.ggml.model", "gpt2");
  parrot_key_text(file, "tokenizer.ggml.pre", "gpt-2");
  parrot_key(file, "tokenizer.ggml.tokens", 9);
  parrot_u32(file, 8);
  parrot_u64(file, V);
  for (size_t i = 0; i < p->count; i++) parrot_text(file, p->tokens[i].text);
  parrot_key(file, "tokenizer.ggml.token_type", 9);
  parrot_u32(file, 5);
  parrot_u64(file, V);
  for (size_t i = 0; i < p->count; i++) parrot_u32(file, (uint32_t)p->tokens[i].type);
  parrot_key(file, "tokenizer.ggml.merges", 9);
  parrot_u32(file, 8);
  parrot_u64(file, 0);
  parrot_key_u32(file, "tokenizer.ggml.eos_token_id", 0);
  parrot_key_u32(file, "tokenizer.ggml.bos_token_id", 0);
  parrot_key_text(file, "tokenizer.chat_template", chat_template);
  uint64_t offset = 0;
  for (size_t i = 0; i < TN_COUNT(tensors); i++) {
    parrot_text(file, tensors[i].name);
    parrot_u32(file, tensors[i].rows ? 2 : 1);
    parrot_u64(file, tensors[i].columns);
    if (tensors[i].rows) parrot_u64(file, tensors[i].rows);
    parrot_u32(file, 0); /* F32 */
    parrot_u64(file, offset);
    offset += tensors[i].columns * (tensors[i].rows ? tensors[i].rows : 1) * 4; /* all multiples of 32 bytes */
  }
  while (ftell(file) % 32) fputc(0, file);
  for (size_t i = 0; i < TN_COUNT(tensors); i++)
    for (size_t row = 0; row < (tensors[i].rows ? tensors[i].rows : 1); row++)
      for (size_t column = 0; column < tensors[i].columns; column++)
        fwrite(&(float){parrot_weight(p, i, row, column)}, 4, 1, file);
  fclose(file);
}

#endif
