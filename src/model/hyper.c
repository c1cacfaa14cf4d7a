/* Reading hyper-parameters from GGUF metadata (see hyper.h). */
#include "model/hyper.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

#define MAX_KEY 160

static const char *key_of(const tn_hyper_reader *reader, const char *name, char *key) {
  snprintf(key, MAX_KEY, "%s.%s", reader->architecture, name);
  return key;
}

static void note(tn_hyper_reader *reader, tn_status status) {
  if (reader->status == TN_OK) reader->status = status;
}

/* The error is only written by the first failure. */
static tn_error *error_of(const tn_hyper_reader *reader) {
  return reader->status == TN_OK ? reader->error : NULL;
}

uint32_t tn_hyper_u32(tn_hyper_reader *reader, const char *name) {
  char key[MAX_KEY];
  uint32_t value = 0;
  note(reader, tn_gguf_get_u32(reader->gguf, reader->use, key_of(reader, name, key), &value, error_of(reader)));
  return value;
}

uint32_t tn_hyper_u32_or(tn_hyper_reader *reader, const char *name, uint32_t otherwise) {
  char key[MAX_KEY];
  note(reader, tn_gguf_opt_u32(reader->gguf, reader->use, key_of(reader, name, key), &otherwise, error_of(reader)));
  return otherwise;
}

float tn_hyper_f32(tn_hyper_reader *reader, const char *name) {
  char key[MAX_KEY];
  float value = 0;
  note(reader, tn_gguf_get_f32(reader->gguf, reader->use, key_of(reader, name, key), &value, error_of(reader)));
  return value;
}

float tn_hyper_f32_or(tn_hyper_reader *reader, const char *name, float otherwise) {
  char key[MAX_KEY];
  note(reader, tn_gguf_opt_f32(reader->gguf, reader->use, key_of(reader, name, key), &otherwise, error_of(reader)));
  return otherwise;
}

tn_text tn_hyper_text_or(tn_hyper_reader *reader, const char *name, const char *otherwise) {
  char key[MAX_KEY];
  tn_text value = tn_text_of(otherwise);
  note(reader, tn_gguf_opt_string(reader->gguf, reader->use, key_of(reader, name, key), &value, error_of(reader)));
  return value;
}

static void require(tn_hyper_reader *reader, bool holds, const char *name, double value, const char *expected) {
  if (holds || reader->status != TN_OK) return;
  reader->status = tn_fail(reader->error, TN_E_FORMAT, "%s: %s.%s is %g, expected %s", reader->gguf->path,
                           reader->architecture, name, value, expected);
}

/* Rows of the token embedding: the vocabulary of the logits. */
static uint32_t read_vocabulary(tn_hyper_reader *reader) {
  const tn_file_tensor *table = NULL;
  note(reader, tn_gguf_get_tensor(reader->gguf, NULL, "token_embd.weight", &table, error_of(reader)));
  if (reader->status != TN_OK) return 0;
  if (table->rank != 2 || table->dims[1] > (1 << 24)) {
    reader->status = tn_fail(reader->error, TN_E_FORMAT,
                             "%s: token_embd.weight: expected a matrix of at most 2^24 rows", reader->gguf->path);
    return 0;
  }
  return (uint32_t)table->dims[1];
}

void tn_hyper_read_common(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->layers = tn_hyper_u32(reader, "block_count");
  hyper->context = tn_hyper_u32(reader, "context_length");
  hyper->width = tn_hyper_u32(reader, "embedding_length");
  hyper->ffn = tn_hyper_u32(reader, "feed_forward_length");
  hyper->heads = tn_hyper_u32(reader, "attention.head_count");
  require(reader, hyper->layers >= 1 && hyper->layers <= 1024, "block_count", hyper->layers, "1 .. 1024");
  require(reader, hyper->context >= 1 && hyper->context <= (1u << 28), "context_length", hyper->context, "1 .. 2^28");
  require(reader, hyper->width >= 1 && hyper->width <= (1u << 20), "embedding_length", hyper->width, "1 .. 2^20");
  require(reader, hyper->ffn >= 1 && hyper->ffn <= (1u << 24), "feed_forward_length", hyper->ffn, "1 .. 2^24");
  require(reader, hyper->heads >= 1 && hyper->heads <= 4096, "attention.head_count", hyper->heads, "1 .. 4096");
  if (reader->status != TN_OK) return;
  hyper->kv_heads = tn_hyper_u32_or(reader, "attention.head_count_kv", hyper->heads);
  require(reader, hyper->kv_heads >= 1 && hyper->heads % hyper->kv_heads == 0, "attention.head_count_kv",
          hyper->kv_heads, "a divisor of attention.head_count");
  uint32_t by_width = hyper->width / hyper->heads;
  hyper->key_dim = tn_hyper_u32_or(reader, "attention.key_length", by_width);
  hyper->value_dim = tn_hyper_u32_or(reader, "attention.value_length", hyper->key_dim);
  require(reader, hyper->key_dim >= 1 && hyper->key_dim <= 1024, "attention.key_length", hyper->key_dim, "1 .. 1024");
  require(reader, hyper->value_dim >= 1 && hyper->value_dim <= 1024, "attention.value_length", hyper->value_dim,
          "1 .. 1024");
  hyper->vocabulary = read_vocabulary(reader);
  uint32_t stated = tn_hyper_u32_or(reader, "vocab_size", hyper->vocabulary);
  require(reader, stated == hyper->vocabulary, "vocab_size", stated, "the rows of token_embd.weight");
}

void tn_hyper_read_rope(tn_hyper_reader *reader, tn_hyper *hyper) {
  hyper->rope_theta = tn_hyper_f32_or(reader, "rope.freq_base", 10000.0f);
  hyper->rotary = tn_hyper_u32_or(reader, "rope.dimension_count", hyper->key_dim);
  hyper->rope_linear_factor = 1.0f;
  require(reader, hyper->rope_theta > 0 && hyper->rope_theta < 1e30f, "rope.freq_base", (double)hyper->rope_theta,
          "a positive number");
  require(reader, hyper->rotary >= 2 && hyper->rotary % 2 == 0 && hyper->rotary <= hyper->key_dim,
          "rope.dimension_count", hyper->rotary, "an even number up to the head's size");
  tn_text type = tn_hyper_text_or(reader, "rope.scaling.type", "none");
  if (reader->status != TN_OK) return;
  if (tn_text_is(type, "linear")) {
    hyper->rope_linear_factor = tn_hyper_f32(reader, "rope.scaling.factor");
    require(reader, hyper->rope_linear_factor >= 1e-3f && hyper->rope_linear_factor <= 1e6f, "rope.scaling.factor",
            (double)hyper->rope_linear_factor, "a positive number");
  } else if (!tn_text_is(type, "none")) {
    reader->status =
        tn_fail(reader->error, TN_E_UNSUPPORTED, "%s: %s.rope.scaling.type is \"%.*s\", expected none or linear",
                reader->gguf->path, reader->architecture, (int)(type.bytes < 40 ? type.bytes : 40), type.data);
  }
}

void tn_hyper_finish(tn_hyper_reader *reader) {
  static const char *const harmless[] = {"rope.scaling.finetuned", "tensor_data_layout",
                                         "rope.scaling.original_context_length", "expert_count", "expert_used_count"};
  size_t prefix = strlen(reader->architecture);
  for (size_t i = 0; i < reader->gguf->key_count && reader->status == TN_OK; i++) {
    const char *name = reader->gguf->keys[i].name;
    if (reader->use->keys[i] || strncmp(name, reader->architecture, prefix) || name[prefix] != '.') continue;
    bool known = false;
    for (size_t k = 0; k < TN_COUNT(harmless); k++) known = known || !strcmp(name + prefix + 1, harmless[k]);
    if (!known)
      reader->status = tn_fail(reader->error, TN_E_UNSUPPORTED,
                               "%s: key %s is not known for this architecture; it may change the mathematics",
                               reader->gguf->path, name);
  }
}
