/* Tokenizers: text to token ids and back.
 *
 * One engine runs them all, as a list of steps: tokens found in the text itself, normalization, cutting into words, a
 * model (byte pair encoding, unigram, WordPiece), ids around the text, and the way back. It is set up from the
 * vocabulary of a model file (tn_vocab) or from a tokenizer.json. A tokenizer never changes once made and may be used
 * by many threads.
 *
 * Bytes that are not UTF-8 are taken as they come: where the vocabulary can write bytes they survive the round trip. */
#ifndef TENON_TEXT_TOKENIZER_H
#define TENON_TEXT_TOKENIZER_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"
#include "text/ids.h"

typedef struct tn_tokenizer tn_tokenizer;

/* ---- making ---- */

typedef enum tn_vocab_kind {
  TN_VOCAB_BPE,      /* merges; what a word is tells `pre` */
  TN_VOCAB_SPM,      /* SentencePiece BPE: merges by score */
  TN_VOCAB_UNIGRAM,  /* SentencePiece unigram (T5) */
  TN_VOCAB_WORDPIECE /* BERT; a token that begins a word has U+2581 in front */
} tn_vocab_kind;

/* Types of tokens, numbered as in GGUF. */
typedef enum tn_token_type {
  TN_TOKEN_NORMAL = 1,
  TN_TOKEN_UNKNOWN = 2,      /* stands for what has no token */
  TN_TOKEN_CONTROL = 3,      /* only recognised in trusted text */
  TN_TOKEN_USER_DEFINED = 4, /* recognised in all text */
  TN_TOKEN_UNUSED = 5,
  TN_TOKEN_BYTE = 6
} tn_token_type;

/* Tokens with a role. */
typedef enum tn_token_role {
  TN_ROLE_BOS, /* begins a text (BERT: [CLS]) */
  TN_ROLE_EOS, /* ends a text */
  TN_ROLE_EOT, /* ends a turn */
  TN_ROLE_EOM, /* ends a message that goes on with a tool's answer */
  TN_ROLE_UNKNOWN,
  TN_ROLE_SEPARATOR,
  TN_ROLE_PADDING,
  TN_ROLE_MASK,
  TN_ROLE_COUNT
} tn_token_role;

#define TN_UNSET (-1)

/* A vocabulary as model files hold it. All memory stays the caller's and may go after tn_tokenizer_create. */
typedef struct tn_vocab {
  tn_vocab_kind kind;
  tn_text pre;                /* BPE: name of the pre-tokenizer ("gpt-2", "qwen2", ...); "" means "default" */
  tn_text name, architecture; /* of the model the vocabulary is for, or "": some have rules of their own (Phi-3) */
  size_t count;
  const tn_text *tokens; /* [count]; may hold equal and empty texts */
  const float *scores;   /* [count] or NULL */
  const int32_t *types;  /* [count] of tn_token_type, or NULL: all normal */
  size_t merge_count;
  const tn_text *merges;        /* [merge_count] "left right" */
  int32_t roles[TN_ROLE_COUNT]; /* ids; TN_UNSET: none given */
  /* 1, 0 or TN_UNSET: what is usual for the kind */
  int add_bos, add_eos, add_separator, add_space_prefix, remove_extra_whitespaces, lowercase, strip_accents;
  const void *charsmap; /* UNIGRAM: precompiled character map, or NULL */
  size_t charsmap_bytes;
  bool charsmap_by_cluster; /* UNIGRAM: looked up as the tokenizers library does it, not longest part first */
  bool byte_fallback;       /* UNIGRAM: characters without token become those of their bytes */
  tn_text normal_form;      /* BPE: "nfc", "nfd", "nfkc" or "nfkd": what text is brought into first; "": nothing */
  const uint8_t *strips; /* [count] TN_STRIPS_*, or NULL: known by the model's name (tokens found in the text itself) */
} tn_vocab;

/* White space that goes with a token found in the text itself. */
#define TN_STRIPS_LEFT 1u
#define TN_STRIPS_RIGHT 2u

/* A vocabulary with nothing in it and everything unset. */
void tn_vocab_init(tn_vocab *vocab, tn_vocab_kind kind);

/* Builds a tokenizer. TN_E_UNSUPPORTED names an unknown pre-tokenizer; TN_E_FORMAT, TN_E_LIMIT, TN_E_MEMORY. */
tn_status tn_tokenizer_create(tn_tokenizer **out, const tn_vocab *vocab, tn_error *error);

/* Builds one from the text of a tokenizer.json and, if `config` isn't empty, of the tokenizer_config.json beside it.
 * TN_E_UNSUPPORTED names a part that isn't supported. */
tn_status tn_tokenizer_from_json(tn_tokenizer **out, tn_text json, tn_text config, tn_error *error);

/* The same from files: `path` is a tokenizer.json, or a folder that holds one; tokenizer_config.json and
 * generation_config.json (ids that end a generation; without it config.json) beside it are used if they are there. */
tn_status tn_tokenizer_open_json(tn_tokenizer **out, const char *path, tn_error *error);

void tn_tokenizer_destroy(tn_tokenizer *tokenizer);

/* ---- text to ids ---- */

/* A part of a text. Control tokens are recognised only where all of their bytes come from trusted parts; apart from
 * that the parts are one text, words run across their borders. */
typedef struct tn_span {
  tn_text text;
  bool trusted;
} tn_span;

#define TN_ENCODE_BOS 1u /* put in front what the tokenizer's file says belongs in front of a text */
#define TN_ENCODE_EOS 2u /* and behind it */

/* Appends the ids of the text. TN_E_LIMIT: 2 GiB or more, or the pattern gave up; TN_E_TOO_LONG: more than ids->limit,
 * found as early as can be; TN_E_MEMORY. On failure `ids` has what it had. */
tn_status tn_tokenizer_encode(const tn_tokenizer *tokenizer, const tn_span *spans, size_t count, unsigned flags,
                              tn_ids *ids, tn_error *error);

/* ---- ids to text ---- */

#define TN_DECODE_SKIP_SPECIAL 1u /* control tokens give no text */
#define TN_DECODE_CONTINUES 2u    /* the ids go on a text: nothing is taken off the front as at a beginning */

/* Appends the text of the ids, always valid UTF-8: each maximal invalid part is one U+FFFD. The blank that encoding
 * puts in front of a text is taken off. An id without token gives nothing. False when memory is out. */
bool tn_tokenizer_decode(const tn_tokenizer *tokenizer, const int32_t *ids, size_t count, unsigned flags, tn_buf *out);

/* Appends the bytes that a token inside a text stands for (a control token: its own text). False when memory is out. */
bool tn_tokenizer_token_bytes(const tn_tokenizer *tokenizer, int32_t id, tn_buf *out);

/* Text while tokens arrive. What is released never ends inside a character; all that was released, joined, is the
 * same however the pushes were spread. Of a SentencePiece vocabulary the blank in front stays. */
typedef struct tn_decoder {
  const tn_tokenizer *tokenizer;
  unsigned flags;
  tn_buf pending;  /* bytes of a character that isn't complete */
  bool any;        /* a token was decoded */
  bool held_blank; /* a blank that is only released when something follows */
  size_t strip;    /* blanks still to be taken off the front */
  tn_buf work[2];
} tn_decoder;

void tn_decoder_init(tn_decoder *decoder, const tn_tokenizer *tokenizer, unsigned flags);
/* Takes memory so that no push of a token of at most `piece_bytes` needs any but what `out` takes. False when there is
 * none. */
bool tn_decoder_reserve(tn_decoder *decoder, size_t piece_bytes);
/* Appends to `out` what token `id` releases. False when memory is out. */
bool tn_decoder_push(tn_decoder *decoder, int32_t id, tn_buf *out);
/* At the end of the stream: an incomplete character becomes U+FFFD. */
bool tn_decoder_flush(tn_decoder *decoder, tn_buf *out);
void tn_decoder_finish(tn_decoder *decoder);

/* ---- questions ---- */

size_t tn_tokenizer_size(const tn_tokenizer *tokenizer); /* ids are below this; some may have no token */
/* The text of a token as the vocabulary writes it; empty for an id without token. */
tn_text tn_tokenizer_token_text(const tn_tokenizer *tokenizer, int32_t id);
/* The id of the token that the vocabulary writes so; -1: none. */
int32_t tn_tokenizer_find(const tn_tokenizer *tokenizer, tn_text text);
/* A control token: never made from text that isn't trusted. */
bool tn_tokenizer_is_special(const tn_tokenizer *tokenizer, int32_t id);
/* A token after which a model has nothing more to say. */
bool tn_tokenizer_is_end(const tn_tokenizer *tokenizer, int32_t id);
/* All of those; valid as long as the tokenizer. */
const int32_t *tn_tokenizer_ends(const tn_tokenizer *tokenizer, size_t *count);
int32_t tn_tokenizer_role(const tn_tokenizer *tokenizer, tn_token_role role); /* -1: none */
/* Whether TN_ENCODE_BOS adds anything. */
bool tn_tokenizer_adds_bos(const tn_tokenizer *tokenizer);
/* Equal for vocabularies with the same texts under the same ids. */
uint64_t tn_tokenizer_fingerprint(const tn_tokenizer *tokenizer);

#endif
