/* Hyper-parameters that families share, read from a container and checked. A family that has more keeps them in its own
 * file. */
#ifndef TENON_MODEL_HYPER_H
#define TENON_MODEL_HYPER_H

#include <stdint.h>
#include "model/gguf.h"
#include "tenon/device.h"

typedef struct tn_hyper {
  uint32_t layers;
  uint32_t context;    /* positions the model was made for */
  uint32_t width;      /* of the residual stream */
  uint32_t vocabulary; /* rows of the embedding */
  uint32_t ffn;        /* width of the feed-forward block */
  uint32_t heads, kv_heads;
  uint32_t key_dim, value_dim; /* of one head */
  float norm_epsilon;
  /* rotary positions; rotary 0: none */
  uint32_t rotary;
  float rope_theta;
  float rope_linear_factor; /* positions are divided by it; 1: no scaling */
} tn_hyper;

/* Reads hyper-parameters of one architecture from GGUF metadata: keys are "ARCHITECTURE.name". Errors are sticky, so
 * that a family reads all it needs and asks for the status once. */
typedef struct tn_hyper_reader {
  const tn_gguf *gguf;
  tn_gguf_use *use;
  const char *architecture;
  tn_error *error;
  tn_status status;
} tn_hyper_reader;

uint32_t tn_hyper_u32(tn_hyper_reader *reader, const char *name);                        /* required */
uint32_t tn_hyper_u32_or(tn_hyper_reader *reader, const char *name, uint32_t otherwise); /* optional */
float tn_hyper_f32(tn_hyper_reader *reader, const char *name);
float tn_hyper_f32_or(tn_hyper_reader *reader, const char *name, float otherwise);
/* Optional text; `out` keeps its default ("") when absent. */
tn_text tn_hyper_text_or(tn_hyper_reader *reader, const char *name, const char *otherwise);

/* Fills what nearly all families have: layers, context, width, ffn, heads and their sizes, vocabulary (from the
 * embedding). */
void tn_hyper_read_common(tn_hyper_reader *reader, tn_hyper *hyper);
/* Fills the rope fields: base frequency, rotary width, scaling none or linear; other scaling types are refused by name.
 */
void tn_hyper_read_rope(tn_hyper_reader *reader, tn_hyper *hyper);
/* Refuses every "ARCHITECTURE.*" key nobody has read, but for those known to change nothing: it might change the
 * mathematics. */
void tn_hyper_finish(tn_hyper_reader *reader);

#endif
