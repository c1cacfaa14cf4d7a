/* The vocabulary of a GGUF file: its `tokenizer.ggml.*` keys as a tn_vocab, and a tokenizer from it. */
#ifndef TENON_MODEL_GGUF_VOCAB_H
#define TENON_MODEL_GGUF_VOCAB_H

#include "model/gguf.h"
#include "text/tokenizer.h"

/* A vocabulary that points into the file and into memory of its own. */
typedef struct tn_gguf_vocab {
  tn_vocab vocab;
  tn_text *texts; /* tokens, then merges */
  float *scores;
  int32_t *types;
  uint8_t *strips;
} tn_gguf_vocab;

/* Reads the keys; marks them in `use` (may be NULL). TN_E_NOT_FOUND: the file holds no vocabulary; TN_E_UNSUPPORTED: of
 * a kind that isn't known; TN_E_FORMAT names the key. Call tn_gguf_vocab_finish in any case; the file must stay until
 * then. */
tn_status tn_gguf_vocab_read(tn_gguf_vocab *out, const tn_gguf *gguf, tn_gguf_use *use, tn_error *error);
void tn_gguf_vocab_finish(tn_gguf_vocab *vocab);

/* The tokenizer of a file, which may be closed afterwards. Errors as tn_gguf_vocab_read and tn_tokenizer_create. */
tn_status tn_tokenizer_from_gguf(tn_tokenizer **out, const tn_gguf *gguf, tn_gguf_use *use, tn_error *error);

#endif
