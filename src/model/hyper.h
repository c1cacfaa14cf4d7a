/* Hyper-parameters: what families share, and reading them from either form of a model.
 *
 * Every reader takes two names: the GGUF key without "ARCHITECTURE." and the name in config.json; NULL where a form has
 * no such thing, which then counts as absent. Errors are sticky, so that a family reads all it needs and the status is
 * looked at once. A family that has more than the fields below keeps them in a struct of its own (`own`). */
#ifndef TENON_MODEL_HYPER_H
#define TENON_MODEL_HYPER_H

#include <stdint.h>
#include "model/container.h"
#include "tenon/device.h"

#define TN_MAX_LAYERS 1024u

typedef enum tn_layer_kind { TN_LAYER_FULL = 0, TN_LAYER_SLIDING = 1, TN_LAYER_RECURRENT = 2 } tn_layer_kind;
/* RMS norm of q and k before they are turned: none, of each head, or of the whole projection. */
typedef enum tn_qk_norm { TN_QK_NORM_NONE, TN_QK_NORM_HEAD, TN_QK_NORM_ROW } tn_qk_norm;

typedef enum tn_rope_scaling {
  TN_ROPE_UNSCALED,
  TN_ROPE_LINEAR,
  TN_ROPE_LLAMA3,
  TN_ROPE_YARN,
  TN_ROPE_LONG,
  TN_ROPE_PROPORTIONAL
} tn_rope_scaling;

/* Rotary positions of one kind of layers (rope.h makes frequencies of it). */
typedef struct tn_rope_hyper {
  uint32_t rotary; /* values of a head that turn; 0: no rotary positions */
  uint32_t span;   /* pair m has the frequency theta^(-2m / span): rotary, or 1 less where that was made even */
  tn_rope_pairing pairing;
  float theta;
  tn_rope_scaling scaling;
  float factor;
  float original_context;     /* positions before scaling */
  float low_freq, high_freq;  /* llama3 */
  float beta_fast, beta_slow; /* yarn */
  bool truncate;              /* yarn: the corrected range is rounded to whole numbers */
  float attention_factor;     /* cos and sin are multiplied by it; 0: by the scaling's formula */
  float mscale, mscale_all;   /* yarn: the factor is a ratio of two, 0: not given */
  float part;                 /* proportional: part of the head that turns */
  const char *prefix;         /* where config.json has it: "rope_scaling.", "rope_parameters.", ... */
} tn_rope_hyper;

/* Mixture of experts. */
typedef struct tn_expert_hyper {
  uint32_t count, used; /* 0: none */
  uint32_t ffn;         /* width of one expert */
  uint32_t shared_ffn;  /* width of the expert that always runs; 0: none */
  uint32_t scoring;     /* tn_moe_scoring */
  bool normalise;       /* weights of the chosen are divided by their sum */
  float scale;          /* and multiplied by this */
  uint32_t groups, groups_used;
} tn_expert_hyper;

typedef struct tn_hyper {
  uint32_t layers;
  uint32_t draft_layers; /* behind the layers, for drafts: their tensors may be there and are not used */
  uint32_t context;      /* positions the model was made for */
  uint32_t width;        /* of the residual stream */
  uint32_t vocabulary;   /* rows of the embedding */
  uint32_t ffn;          /* width of the feed-forward block */
  uint32_t heads, kv_heads;
  uint32_t key_dim, value_dim; /* of one head */
  bool varied;                 /* set before tn_hyper_read_common: heads and widths may differ from layer to layer */
  uint32_t norm_kind;          /* tn_norm_kind of the block and output norms */
  float norm_epsilon;
  uint32_t activation; /* tn_activation of the feed-forward block */
  tn_qk_norm qk_norm;
  float attention_scale;                               /* of the scores; 0: 1 / sqrt(key_dim) */
  float attention_softcap;                             /* 0: none */
  float logits_softcap;                                /* 0: none */
  float embedding_scale, residual_scale, logits_scale; /* factors; 1: none */
  uint32_t window;                                     /* of sliding layers */
  uint8_t kinds[TN_MAX_LAYERS];                        /* tn_layer_kind of every layer */
  tn_rope_hyper rope;                                  /* of full layers, and of sliding ones but for gemma's */
  tn_rope_hyper rope_sliding;
  tn_expert_hyper experts;
  int tied;        /* the head is the embedding: 1 yes, 0 no, -1 where the file has no head of its own */
  const void *own; /* what the family alone knows */
} tn_hyper;

/* A value of config.json under the name that GGUF has for it, for whoever writes a folder as GGUF. */
typedef enum tn_note_kind { TN_NOTE_WHOLE, TN_NOTE_FLOAT, TN_NOTE_BOOL } tn_note_kind;
typedef struct tn_hyper_note {
  const char *gguf;
  tn_note_kind kind;
  double *values; /* in the arena */
  uint32_t count; /* of a list; 0: a single value */
  bool rare;      /* a key that readers other than tenon don't know */
} tn_hyper_note;
typedef struct tn_hyper_record {
  tn_hyper_note *notes; /* the last one of a name counts */
  size_t count, capacity;
  const char *kinds; /* GGUF's key for the kinds of layers, or NULL */
  bool rare_kinds;   /* which other readers don't know */
  bool permuted;     /* GGUF holds q and k with their rows permuted (tn_hyper_permuted_pairing) */
  bool failed;       /* memory was out */
} tn_hyper_record;

struct tn_family;
typedef struct tn_hyper_reader {
  const tn_container *file;
  tn_container_use *use;
  const char *architecture; /* the prefix of GGUF keys */
  const struct tn_family *family;
  tn_arena *arena; /* lives as long as the model */
  tn_error *error;
  tn_status status;
  tn_hyper_record *record; /* of a folder: gets what is read; NULL: nobody asks */
} tn_hyper_reader;

static inline bool tn_hyper_is_folder(const tn_hyper_reader *reader) {
  return tn_container_is_folder(reader->file);
}

/* ---- values by name ---- */
uint32_t tn_hyper_u32(tn_hyper_reader *reader, const char *gguf, const char *config); /* required */
uint32_t tn_hyper_u32_or(tn_hyper_reader *reader, const char *gguf, const char *config, uint32_t otherwise);
float tn_hyper_f32(tn_hyper_reader *reader, const char *gguf, const char *config);
float tn_hyper_f32_or(tn_hyper_reader *reader, const char *gguf, const char *config, float otherwise);
bool tn_hyper_bool_or(tn_hyper_reader *reader, const char *gguf, const char *config, bool otherwise);
tn_text tn_hyper_text_or(tn_hyper_reader *reader, const char *gguf, const char *config, const char *otherwise);
/* An array of numbers or booleans (0 and 1) into `out`; a single value is an array of one. Returns how many there are,
 * 0 where it is absent; more than `capacity` is an error. */
uint32_t tn_hyper_list(tn_hyper_reader *reader, const char *gguf, const char *config, double *out, uint32_t capacity);
/* Is it there? Marks nothing. */
bool tn_hyper_has(const tn_hyper_reader *reader, const char *gguf, const char *config);
/* Is it in config.json as null, which says "none" where the family's own value would stand otherwise? */
bool tn_hyper_has_null(const tn_hyper_reader *reader, const char *config);
/* Marks a value as known and without effect here. */
void tn_hyper_ignore(tn_hyper_reader *reader, const char *gguf, const char *config);
/* An error "NAME is VALUE, expected EXPECTED" unless `holds`. */
void tn_hyper_demand(tn_hyper_reader *reader, bool holds, const char *gguf, const char *config, double value,
                     const char *expected);
/* `bytes` zeroed bytes for hyper->own; NULL with the reader failed when memory is out. */
void *tn_hyper_own(tn_hyper_reader *reader, size_t bytes);

/* ---- what nearly all families have ---- */
/* Layers, context, width, ffn, heads and their sizes, vocabulary (rows of the embedding), RMS norm epsilon, activation
 * (what config.json names, else what the family has put there, else SiLU), scales of 1, all layers full, whether the
 * head is tied. */
void tn_hyper_read_common(tn_hyper_reader *reader, tn_hyper *hyper);
/* Kinds of layers: `layer_types` of config.json or the GGUF array `gguf` (true: `other`; a single number is the
 * interval); where there is none, layer i is full where (i + 1) is a multiple of `interval` and `other` elsewhere. */
void tn_hyper_read_kinds(tn_hyper_reader *reader, tn_hyper *hyper, const char *gguf, tn_layer_kind other,
                         uint32_t interval);
/* Rotary positions of the heads: rope.* keys, or rope_parameters / rope_scaling of config.json, there those of `kind`
 * ("full_attention", ...) where they are given by kind (NULL: not). An unknown scaling is refused by name. */
void tn_hyper_read_rope(tn_hyper_reader *reader, const tn_hyper *hyper, const char *kind, tn_rope_hyper *rope);
/* For model types whose usual positions are scaled: an error if config.json says nothing of them, for no number stands
 * for that. */
void tn_hyper_demand_rope(tn_hyper_reader *reader);
/* Where GGUF holds q and k with their rows permuted for adjacent pairs, and a folder for halves: the pairing of this
 * file. */
tn_rope_pairing tn_hyper_permuted_pairing(const tn_hyper_reader *reader);
/* A window on the layers from max_window_layers on, if use_sliding_window says so (config.json only: Qwen). */
void tn_hyper_read_upper_window(tn_hyper_reader *reader, tn_hyper *hyper);
/* Rotary positions of the sliding layers where only the full ones are scaled: those of "sliding_attention" in
 * config.json, else the full layers' (hyper->rope, read before) without scaling, with a base of their own: `theta`
 * where the file doesn't say it, 0: the full layers'. */
void tn_hyper_read_sliding_rope(tn_hyper_reader *reader, tn_hyper *hyper, float theta);
/* Last layers that use the keys and values of an earlier one, the last of their kind that has its own (gemma3n,
 * gemma4): kv_layer[i] becomes the layer whose layer i uses. Kinds are read before. Returns how many share. */
uint32_t tn_hyper_read_shared_kv(tn_hyper_reader *reader, const tn_hyper *hyper, uint32_t *kv_layer);
/* Experts, their use and width; the fields of the scoring are the family's. */
void tn_hyper_read_experts(tn_hyper_reader *reader, tn_hyper *hyper);

/* Scores are scaled by 1 / sqrt(query_pre_attn_scalar), in GGUF by 1 / sqrt(usual) unless a rare key says otherwise. */
void tn_hyper_read_query_scale(tn_hyper_reader *reader, tn_hyper *hyper, uint32_t usual);

/* ---- for whoever writes a folder as GGUF ----
 * What is read under a name of GGUF's is noted by itself. These tell what config.json says in another way; the last
 * note of a key counts. They do nothing where nobody asks. */
void tn_hyper_tell(tn_hyper_reader *reader, const char *gguf, tn_note_kind kind, double value);
void tn_hyper_tell_list(tn_hyper_reader *reader, const char *gguf, tn_note_kind kind, const double *values,
                        uint32_t count);
/* What was told last is a key that readers other than tenon don't know. */
void tn_hyper_mark_rare(tn_hyper_reader *reader);
/* Reads a truth or a number that GGUF files of others never say; told as rare where it isn't `usual`. */
bool tn_hyper_rare_bool(tn_hyper_reader *reader, const char *gguf, const char *config, bool usual);
uint32_t tn_hyper_rare_u32(tn_hyper_reader *reader, const char *gguf, const char *config, uint32_t usual);

/* Refuses every key nobody has read, but for those known to change nothing: it might change the mathematics. */
void tn_hyper_finish(tn_hyper_reader *reader);

#endif
