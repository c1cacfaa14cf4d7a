/* A request inside the engine: what was asked, how far it is, and its way out to the caller.
 *
 * It has two owners, the caller and the engine, and is freed when both have let go. Everything it needs until its last
 * token is allocated when it is made. */
#ifndef TENON_ENGINE_REQUEST_H
#define TENON_ENGINE_REQUEST_H

#include <stdatomic.h>
#include "base/os.h"
#include "engine/answer.h"
#include "engine/constraint.h"
#include "engine/ledger.h"
#include "engine/outputs.h"
#include "engine/parts.h"
#include "engine/sampler.h"
#include "engine/step.h"

/* What every request of an engine is checked against. */
typedef struct tn_request_limits {
  const tn_vocabulary *vocabulary;
  uint32_t capacity;           /* tokens of one sequence, prompt and answer */
  tn_constraints *constraints; /* NULL: no grammars */
} tn_request_limits;

struct tn_request {
  atomic_uint references;
  atomic_bool cancelled;

  /* fixed at submit */
  const tn_vocabulary *vocabulary;
  tn_sampling sampling;
  tn_breakers *breakers; /* the sampling's own; or NULL */
  tn_salt *salt;
  uint32_t prompt_count, token_limit; /* the prompt; prompt and answer at most */
  uint32_t min_tokens;
  bool ignore_end;
  bool wants_prompt_logprobs;
  bool has_no_answer; /* it ends with its prompt */
  int32_t priority;
  uint64_t submit_ns, deadline_ns;
  void (*on_output)(void *context, const tn_output *output);
  void *context;

  /* the engine's thread alone */
  int32_t *tokens; /* [token_limit]: prompt and answer */
  uint32_t token_count;
  uint32_t scored; /* prompt tokens whose log-probability was given out, the first one's included, which has none */
  tn_answer *answer;
  tn_parts *parts;           /* instead of `answer`, where reasoning and calls are wanted by themselves; or NULL */
  const tn_sample *drawn;    /* while a token is put: its sample, until an output carries it */
  bool is_overfull;          /* an output didn't fit */
  tn_constraint *constraint; /* NULL: a free answer */
  bool holds_calls;          /* the constraint is for calls alone, each from its marker on */
  bool holds_all;            /* it is for reasoning too */
  bool was_in_call;          /* behind the last token, such a call was under way */
  bool is_in_call;           /* and it follows the constraint */
  uint64_t arrival;          /* number in the order of submits */
  tn_ledger *ledger;         /* NULL: waiting */
  uint32_t sequence;         /* the ledger's number */
  uint32_t planned;          /* rows in the step being made */
  tn_sample untold;          /* drawn, and in `tokens`, but not given out yet */
  bool has_untold;
  bool is_overdue;        /* cancelled, or its time is over */
  tn_finish ending;       /* known to end so, but a step in flight still has rows of it; NONE: it goes on */
  tn_error failure;       /* of one that ends by an error */
  uint32_t draft_count;   /* and drafted ones behind them, which stand behind the tokens */
  uint32_t confidence;    /* how sure the drafter was of them */
  uint32_t suspect_until; /* a step of it failed: it runs alone until so many tokens are present; 0: no suspect */
  bool was_admitted;      /* at least once */
  uint64_t admit_ns, first_token_ns;
  uint32_t cached_count;   /* prompt tokens found in the cache at the first admission */
  struct tn_request *next; /* in the queue of those that wait */

  /* shared */
  tn_outputs *outputs;
  tn_mutex *callback_lock; /* held during on_output */
  bool is_abandoned;       /* under callback_lock: on_output may not be called any more */
};

/* Makes a request of `tokens` with two references. `options` is read for everything but the prompt. TN_E_INVALID,
 * TN_E_LIMIT or TN_E_MEMORY, with a message. */
tn_status tn_request_create(const tn_request_limits *limits, const tn_request_options *options, const int32_t *tokens,
                            size_t token_count, struct tn_request **request, tn_error *error);
/* The request's answer is taken apart as `use`, which gives up its tools, says; before it is handed to anybody. */
tn_status tn_request_take_apart(struct tn_request *request, const tn_request_limits *limits,
                                const tn_request_options *options, tn_tool_use *use, tn_error *error);
/* One reference less; the last one frees it. */
void tn_request_release(struct tn_request *request);

/* Tokens whose KV is missing; at least 1 while it runs. */
uint32_t tn_request_pending(const struct tn_request *request);
/* Log-probabilities of its prompt are still wanted. */
bool tn_request_is_scoring(const struct tn_request *request);
/* How many of the pending rows, the first ones, need no logits. */
uint32_t tn_request_silent(const struct tn_request *request);
/* The constraint rules the next token. It waits until reasoning has ended, or until a call begins. */
bool tn_request_is_held(const struct tn_request *request);
/* The answer can't end yet: a constraint waits for the end of reasoning. */
bool tn_request_must_go_on(const struct tn_request *request);
/* Tokens answered so far. */
uint32_t tn_request_answered(const struct tn_request *request);

/* Emits the next token of its prompt with its log-probability; `sample` is NULL for the first one, which has none. */
void tn_request_put_score(struct tn_request *request, const tn_sample *sample);
/* Appends a sampled token and emits its output. *finish: whether the answer ends with it, and how: TN_FINISH_NONE,
 * TN_FINISH_STOP or TN_FINISH_LENGTH. Fails, before anything else, when a grammar can't go on. */
tn_status tn_request_put(struct tn_request *request, const tn_sample *sample, tn_finish *finish, tn_error *error);
/* The same in two parts: a token whose text, stop strings and grammar can wait is put at once, and told later, at the
 * latest before the next draw. Not for requests that are taken apart. *finish of tell: as above; on failure the token
 * is gone again. */
void tn_request_put_untold(struct tn_request *request, const tn_sample *sample);
tn_status tn_request_tell(struct tn_request *request, tn_finish *finish, tn_error *error);
/* Does a token end the answer whatever its text is? */
bool tn_request_ends_with(const struct tn_request *request, int32_t token);
/* Emits the last output. `error` (or NULL) makes it an ERROR. Called once. */
void tn_request_end(struct tn_request *request, tn_finish finish, const tn_error *error);

#endif
