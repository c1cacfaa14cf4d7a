/* libtenon: from a model file to text.
 *
 *   tn_model *model; tn_engine *engine; tn_request *request; tn_error error;
 *   tn_model_open("model.gguf", NULL, &model, &error);
 *   tn_engine_create(model, NULL, &engine, &error);
 *   tn_request_options options = TN_REQUEST_OPTIONS;
 *   options.prompt = "Once upon a time";
 *   tn_engine_submit(engine, &options, &request, &error);
 *   tn_output output = TN_OUTPUT;
 *   while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind == TN_OUTPUT_TEXT)
 *     fwrite(output.text, 1, output.text_bytes, stdout);
 *
 * Every function is thread safe on different objects; on one engine, submit, cancel and next may be called from any
 * thread. Strings are UTF-8, zero-terminated unless a length is given. Structs begin with `size`; fill them from the
 * initialisers (TN_..._OPTIONS), so that programs built against an older header keep working. A NULL options pointer
 * means the defaults.
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <stddef.h>
#include <stdint.h>
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 1
#define TN_VERSION_PATCH 0

TN_API const char *tn_version(void);

/* Frees what tenon allocated for the caller. NULL is allowed. */
TN_API void tn_free(void *memory);

/* ---- model: hyper-parameters, weights (mapped), tokenizer, chat template; immutable ---- */
typedef struct tn_model tn_model;

/* Opens a GGUF file or a model folder and checks all of it that can be checked before weights are touched. */
TN_API tn_status tn_model_open(const char *path, tn_model **model, tn_error *error);
/* Engines made from the model must be gone. NULL is allowed. */
TN_API void tn_model_close(tn_model *model);

typedef struct tn_model_info {
  uint32_t size;
  uint32_t layers;
  uint32_t width;      /* of the residual stream */
  uint32_t vocabulary; /* rows of the logits */
  uint32_t context;    /* longest context the model was made for */
  uint32_t has_tokenizer, has_chat_template;
  uint64_t parameters;
  uint64_t file_bytes;
  char family[32];
  char name[128];
  /* how its makers advise to sample (generation_config.json; GGUF: general.sampling.*); below 0: they say nothing */
  float temperature, top_p, min_p, repeat_penalty;
  int32_t top_k; /* 0: all tokens */
} tn_model_info;
#define TN_MODEL_INFO \
  { .size = sizeof(tn_model_info) }
TN_API void tn_model_describe(const tn_model *model, tn_model_info *info);

/* ---- text ---- */
#define TN_TOKENIZE_SPECIAL 1u /* recognise special tokens in the text */
#define TN_TOKENIZE_NO_BOS 2u  /* add nothing in front or behind, whatever the model asks for */

/* Token ids of `bytes` bytes of text; *ids is tn_free()d by the caller. */
TN_API tn_status tn_tokenize(const tn_model *model, const char *text, size_t bytes, uint32_t flags, int32_t **ids,
                             size_t *count, tn_error *error);
/* Text of ids (special tokens included as their spelling), zero-terminated too; tn_free() it. */
TN_API tn_status tn_detokenize(const tn_model *model, const int32_t *ids, size_t count, char **text, size_t *bytes,
                               tn_error *error);
/* Text that the model's chat template gives for `messages_json` (an OpenAI-style array of messages). `extra_json`: an
 * object of further template variables (tools, enable_thinking, ...) or NULL. */
TN_API tn_status tn_chat_render(const tn_model *model, const char *messages_json, const char *extra_json, char **text,
                                size_t *bytes, tn_error *error);

/* ---- engine: devices, KV memory, scheduler ---- */
typedef struct tn_engine tn_engine;

typedef struct tn_engine_options {
  uint32_t size;
  uint32_t threads;       /* of the device, where it has a choice (the cpu); 0: what the machine allows this process. A
                             draft_device of its own has its own, as in "cpu,threads=2" */
  uint32_t context;       /* longest sequence, at least 2; 0: the model's, cut to what memory allows */
  uint32_t max_sequences; /* running together; 0: 8 */
  uint32_t chunk;         /* token rows of one step at most; 0: 512 */
  uint32_t queue;         /* requests waiting at most while all places to run are taken; 0: 256 */
  uint64_t kv_bytes;  /* memory for KV pages; 0: what max_sequences of the context need, cut to a quarter of the free
                         memory */
  const char *device; /* "cpu", "reference", "NAME:INDEX,key=value", "/path/driver.so"; NULL: "cpu" */
  const char *kv;     /* "f16", "f32", "bf16" or "int8"; NULL: "f16", or "f32" with float activations */
  const char *activations;  /* "auto" (8-bit where weights are quantised, bf16 where they are; default) or "float" */
  const char *passes;       /* graph passes: NULL all, "none", or a comma list; for finding faults */
  uint32_t no_prefix_cache; /* 1: never reuse the KV of earlier requests */
  uint64_t snapshot_bytes;  /* of recurrent models: memory for the states that prefix reuse goes on from; 0: what four
                               for  each of max_sequences need, cut to a sixteenth of the free memory */
  const char *weights;      /* what float matrices are quantised to at load: "q8_0", "q4_0", "mxfp4" or "mxfp6"; NULL:
                               nothing      is */
  const char *packed; /* weights as the device packs them, stored on disk for later starts: "off" (NULL); "auto": in
                         the user's cache, in the background; or the folder for them, made if it isn't there. With
                         either a model larger than memory runs from that file */
  /* speculation (docs/engine.md): faster answers, the same bit for bit */
  const char *draft;        /* "ngram", or the path of a smaller model of the same vocabulary; NULL: none */
  uint32_t draft_k;         /* tokens drafted at once, at most 15; 0: as many as pay, down to none */
  const char *draft_device; /* of the drafting model; NULL: the same */
  float draft_accept;  /* > 0, for measurements: drafts are accepted with this probability, whatever the model says; the
                          text is then not the model's */
  const char *overlap; /* while the device runs a step, the host tells what the last one gave and prepares the next:
                          "auto" (NULL; where the device's threads leave a processor free), "on" or "off". The answers
                          are the same */
  const char *place;   /* which layers run on which device (docs/placement.md): "layers 0-11=D,12-23=E,rest=F", where
                          `device` may stand for the rest; or "auto": layers are spread over all devices of the driver
                          that `device` names. NULL: all on `device` */
} tn_engine_options;
#define TN_ENGINE_OPTIONS \
  { .size = sizeof(tn_engine_options) }

TN_API tn_status tn_engine_create(const tn_model *model, const tn_engine_options *options, tn_engine **engine,
                                  tn_error *error);
/* Cancels what runs, ends the engine's thread, frees everything. Requests must be destroyed first. NULL is allowed. */
TN_API void tn_engine_destroy(tn_engine *engine);

#define TN_DRAFT_POSITIONS 15 /* tokens drafted at once at most */

typedef struct tn_engine_info {
  uint32_t size;
  uint32_t context, max_sequences, chunk, threads;
  uint32_t pages, pages_used, pages_cached; /* KV pages: all, held by running requests, held only by the prefix cache */
  uint32_t running, waiting;
  uint64_t weight_bytes, kv_bytes, arena_bytes;
  uint64_t steps, rows, preemptions, cached_tokens; /* since the engine began */
  uint64_t failed_steps, reopenings;                /* steps that failed and were run again; a lost device's */
  char device[64];
  uint32_t states, states_cached; /* of recurrent models: slots of states, those that hold a snapshot */
  uint64_t state_bytes;           /* of one slot */
  /* speculation: tokens drafted and verified, and those of them accepted; the same by position behind the last token */
  uint64_t drafted_tokens, accepted_tokens;
  uint64_t drafted_at[TN_DRAFT_POSITIONS], accepted_at[TN_DRAFT_POSITIONS];
  uint64_t draft_steps;      /* steps with drafts */
  uint64_t draft_ns;         /* time spent drafting */
  uint32_t draft_pages_used; /* of the drafting model's own KV memory */
  uint64_t device_ns;        /* what the steps took on the device, those that failed left out */
  uint64_t draft_weight_bytes, draft_kv_bytes, draft_arena_bytes; /* the drafting model's own, beside those above */
  uint32_t overlaps;                                              /* 1: steps overlap with the host's work */
  uint64_t second_steps;                                          /* launched while another one was in flight */
  uint64_t step_ns; /* how long the step that is under way has been running; 0: none is */
} tn_engine_info;
#define TN_ENGINE_INFO \
  { .size = sizeof(tn_engine_info) }
TN_API void tn_engine_describe(tn_engine *engine, tn_engine_info *info);

/* ---- the prefix cache on disk ----
 * Files hold KV (and states) of one model and one configuration. A file that was cut off or altered (TN_E_FORMAT), is
 * of another version, model or configuration (TN_E_UNSUPPORTED), or is something else (TN_E_INVALID), is refused with
 * the reason before any of it is used. A save writes beside `path` and renames when all is written, so that a crash
 * leaves the old file. Both run between two steps, which wait for it; not from on_output. Whoever can read a file can
 * read the conversations in it: only its owner can. */

/* Saves all that the cache holds at this moment. */
TN_API tn_status tn_engine_save_cache(tn_engine *engine, const char *path, tn_error *error);
/* Adds what a file holds to the cache, as far as free pages reach, those used last first. TN_E_NOT_FOUND: no file. */
TN_API tn_status tn_engine_load_cache(tn_engine *engine, const char *path, tn_error *error);

/* ---- request: one prompt and its answer ---- */
typedef struct tn_request tn_request;

typedef struct tn_logit_bias {
  int32_t token;
  float bias;
} tn_logit_bias;

typedef enum tn_output_kind {
  TN_OUTPUT_TEXT = 0,
  TN_OUTPUT_DONE = 1,
  TN_OUTPUT_ERROR = 2,
  /* only for requests that give tools_json, tool_choice or split_reasoning */
  TN_OUTPUT_REASONING = 3,
  TN_OUTPUT_TOOL_CALL = 4,
  /* only for requests that give prompt_logprobs */
  TN_OUTPUT_PROMPT = 5,
  /* only for requests that give tool_call_deltas */
  TN_OUTPUT_TOOL_CALL_DELTA = 6
} tn_output_kind;
typedef enum tn_finish {
  TN_FINISH_NONE = 0,
  TN_FINISH_STOP = 1,   /* the model ended, or a stop string came */
  TN_FINISH_LENGTH = 2, /* max_tokens, or the context is full */
  TN_FINISH_CANCELLED = 3,
  TN_FINISH_ERROR = 4
} tn_finish;

typedef struct tn_top_logprob {
  int32_t token;
  float logprob;
} tn_top_logprob;

/* One event of a request. TEXT: one sampled token and the text it released (possibly empty: half a character or a
 * possible stop string is held back). REASONING: the same, of text that is reasoning. TOOL_CALL: one whole call; `text`
 * is its arguments, always a JSON object. TOOL_CALL_DELTA: the next piece of the arguments of a call under way, with
 * its name, id and index; the pieces of a call, joined, are the text of its TOOL_CALL, which still follows once the
 * call is complete. (If the answer ends within a call, by length or cancelled, it doesn't.) They come only where calls
 * are held to the tools' schemas and arguments are written as JSON; elsewhere a call comes whole alone. Where a token
 * releases several, the first of them carries the token. PROMPT: one token of the prompt, without text; they come in
 * order, before the answer. DONE: the last event, with the sums. ERROR: the last event, `error` says why. Pointers are
 * valid until the next call of tn_request_next on this request (or until the callback returns). */
typedef struct tn_output {
  uint32_t size;
  uint32_t kind;    /* tn_output_kind */
  const char *text; /* zero-terminated */
  size_t text_bytes;
  int32_t token;             /* TEXT: its id; -1 when text is released without a token */
  float logprob;             /* of the token, from the untouched logits; 0 unless asked for, NaN where nothing
                                precedes the token: the prompt's first */
  const tn_top_logprob *top; /* the best alternatives, best first */
  uint32_t top_count;
  uint32_t finish;                          /* DONE: tn_finish */
  uint32_t prompt_tokens, cached_tokens;    /* DONE; every output where on_output is called */
  uint32_t completion_tokens;               /* DONE */
  uint64_t queue_ns, prefill_ns, decode_ns; /* DONE: waiting; admission to first token; first token to end */
  tn_error error;
  /* TOOL_CALL, TOOL_CALL_DELTA: the tool's name (one of those given), an id for the call (nine letters and digits), its
   * number */
  const char *tool_name, *tool_id;
  uint32_t tool_index;
  uint32_t stop_string; /* DONE with STOP: 1 + the index of the stop string that ended the answer; 0: none did */
} tn_output;
#define TN_OUTPUT \
  { .size = sizeof(tn_output) }

typedef struct tn_request_options {
  uint32_t size;
  /* the prompt: exactly one of tokens, messages and prompt */
  const int32_t *tokens;
  size_t token_count;
  const char *messages_json; /* a chat, rendered by the model's template */
  const char *extra_json;    /* with messages_json: further template variables, an object */
  const char *prompt;        /* plain text; special tokens in it stay text */
  size_t prompt_bytes;       /* 0: prompt is zero-terminated */
  /* limits */
  uint32_t max_tokens; /* 0: until the model ends or the context is full */
  uint32_t min_tokens; /* the model's end tokens are not drawn before; not for answers held to a grammar */
  uint32_t ignore_eos; /* 1: the model's end tokens do not end the answer */
  uint64_t timeout_ns; /* from submit; 0: none */
  /* sampling, in the order of the stages */
  const tn_logit_bias *logit_bias;
  size_t logit_bias_count;
  float repeat_penalty; /* 1: off; over the last repeat_last tokens of prompt and answer */
  uint32_t repeat_last;
  float presence_penalty, frequency_penalty; /* over the answer's tokens; 0: off */
  float temperature;                         /* 0: greedy */
  uint32_t top_k;                            /* 0: off */
  float top_p;                               /* 1: off */
  float min_p;                               /* 0: off */
  uint64_t seed;
  uint32_t choice; /* index of the answer among several to one prompt; part of the draw's key */
  /* output */
  const char *const *stop; /* stop strings, never shown */
  size_t stop_count;
  uint32_t logprobs;      /* 1: logprob of each token */
  uint32_t top_logprobs;  /* that many alternatives with each token, at most 20 */
  const char *cache_salt; /* requests share cached prefixes only with the same salt; 64 KiB at most; NULL: "" */
  /* instead of tn_request_next: called on the engine's thread with every output; must be quick, must not call tenon but
   * tn_request_cancel */
  void (*on_output)(void *context, const tn_output *output);
  void *context;
  int32_t priority; /* higher ones are admitted first, preempted last, and lower ones make way for them */
  /* what the answer is held to, at most one; something that can't be enforced is refused at submit */
  const char *json_schema; /* a JSON text valid under this schema */
  const char *grammar;     /* GBNF */
  const char *pattern;     /* a regular expression that the whole answer matches */
  const char *const *choices;
  size_t choice_count; /* one of these texts */
  /* tools and reasoning; with messages_json, in the syntax of the model's chat template (docs/text.md) */
  const char *tools_json;    /* [{"type": "function", "function": {"name": ..., "parameters": SCHEMA}}, ...] */
  const char *tool_choice;   /* "auto" (NULL), "none", "required", or "function:NAME"; the last two are enforced */
  uint32_t single_tool_call; /* 1: the answer ends with its first call */
  uint32_t split_reasoning;  /* 1: reasoning comes as REASONING even where no tools are given */
  uint32_t prompt_logprobs;  /* 1: the prompt's tokens come as PROMPT with their log-probabilities, and top_logprobs
                                alternatives; all of the prompt is computed then, whatever is cached */
  uint32_t no_answer;        /* 1: the prompt is computed (and cached) and nothing answered; it ends with LENGTH */
  uint32_t tool_call_deltas; /* 1: calls come as TOOL_CALL_DELTAs too, while they are written */
  /* DRY, with the penalties: the token that would go on with what was said before, the last n tokens being the same,
   * loses multiplier * base^(n - allowed_length) where n (at most 50) is at least allowed_length */
  float dry_multiplier; /* 0: off */
  float dry_base;
  uint32_t dry_allowed_length;              /* at most 50 */
  uint32_t dry_penalty_last_n;              /* over so many tokens of prompt and answer; 0: off */
  const char *const *dry_sequence_breakers; /* texts that nothing matches across; NULL: "\n", ":", "\"" and "*" */
  size_t dry_sequence_breaker_count;
  /* XTC, behind min_p: by the chance `probability`, of the tokens that have at least `threshold` of the probability
   * only the least likely one is kept; never where temperature is 0 */
  float xtc_probability; /* 0: off */
  float xtc_threshold;
} tn_request_options;
#define TN_REQUEST_OPTIONS                                                                                           \
  {                                                                                                                  \
    .size = sizeof(tn_request_options), .repeat_penalty = 1.0f, .repeat_last = 64, .top_p = 1.0f, .dry_base = 1.75f, \
    .dry_allowed_length = 2, .dry_penalty_last_n = UINT32_MAX, .xtc_threshold = 0.1f                                 \
  }

/* Queues a request. Refused at once, with the numbers: a prompt that can't fit (TN_E_TOO_LONG), a full queue
 * (TN_E_BUSY), a wrong option (TN_E_INVALID). Nothing the options point to is needed after the call. The request is
 * freed by tn_request_destroy, which cancels it if it still runs. */
TN_API tn_status tn_engine_submit(tn_engine *engine, const tn_request_options *options, tn_request **request,
                                  tn_error *error);
/* Waits up to timeout_ns (UINT64_MAX: without end) for the next output, of which the first output->size bytes are
 * filled (0: all). TN_OK, or TN_E_TIMEOUT; after DONE or ERROR it gives that same output again. */
TN_API tn_status tn_request_next(tn_request *request, tn_output *output, uint64_t timeout_ns);
/* Ends the request within one step; its last output has finish CANCELLED. Any thread, any time, any number of times.
 * NULL is allowed. */
TN_API void tn_request_cancel(tn_request *request);
/* Frees it; one that still runs is cancelled first. NULL is allowed. */
TN_API void tn_request_destroy(tn_request *request);

/* The token ids of its prompt, as long as the request is there. */
TN_API const int32_t *tn_request_prompt(const tn_request *request, size_t *count);

/* A session: as tn_engine_save_cache, of what the cache knows of one request's prompt and answer alone (`request` NULL:
 * of nothing), together with a note of the caller's (the conversation, say; NULL: ""). */
TN_API tn_status tn_engine_save_session(tn_engine *engine, const tn_request *request, const char *note,
                                        const char *path, tn_error *error);
/* Adds it to the cache. *note: the note, tn_free() it; it is given even if the call fails because the file is of
 * another model or configuration, else NULL then. */
TN_API tn_status tn_engine_load_session(tn_engine *engine, const char *path, char **note, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
