/* A generation: the answers of the engine to one exchange, from submitting to the last byte sent.
 *
 * The engine's thread appends each output to its choice as an event; libmicrohttpd's thread takes the events out. What
 * JSON is made of them is the business of a surface: one of the APIs that the server speaks. */
#ifndef TENON_SERVER_GENERATION_H
#define TENON_SERVER_GENERATION_H

#include "server/internal.h"

/* Events of a streamed answer that its client doesn't read; past it the answer is cancelled. */
#define TN_UNREAD_BYTES ((size_t)4 << 20)

typedef struct tn_surface tn_surface;

/* One output of the engine as it lies in tn_choice.events, followed by its tops, the tool's name and its text. */
typedef struct tn_event {
  uint32_t kind; /* tn_output_kind: text, reasoning, a call, or a token of the prompt */
  int32_t token;
  float logprob;
  uint32_t top_count, name_bytes, text_bytes;
  char id[16]; /* of a call */
  /* Set when it is taken out; valid until the next one is. A call, whole or piece by piece, is then events of kind
   * TN_OUTPUT_TOOL_CALL: their texts joined are its arguments, the first of them begins it. */
  bool begins_call;
  const tn_top_logprob *top;
  const char *name, *text;
} tn_event;

/* A run of one kind in an answer: text, reasoning, or one call and its arguments. */
typedef struct tn_piece {
  uint32_t kind;
  tn_buf text, name;
  char id[16];
  bool is_open;     /* a call that isn't complete */
  json_t *logprobs; /* of a surface that keeps them by piece */
} tn_piece;

/* Where the prompt's tokens so far end in its text, for text_offset. */
typedef struct tn_placing {
  size_t bytes, characters;
  int32_t open[4]; /* tokens behind that: parts of a character that isn't whole yet */
  size_t open_count;
} tn_placing;

typedef struct tn_choice {
  tn_generation *generation;
  tn_request *request;
  /* under generation->lock */
  tn_buf events;
  size_t taken; /* bytes of events */
  bool is_done;
  tn_output end; /* the last output, its pointers are not valid; before it, the prompt's numbers */
  uint64_t last_ns;
  bool has_token;
  /* of libmicrohttpd's thread */
  bool has_begun, has_ended;
  char *echo; /* the prompt, to be put in front; NULL: none */
  size_t echo_bytes;
  tn_placing placing; /* of the prompt's tokens in it */
  tn_piece *pieces;
  size_t piece_count, piece_capacity;
  size_t begun; /* pieces that have begun in a stream, where the surface cares */
  uint32_t calls, reasoning_tokens;
  char open_call[16]; /* the id of a call that comes in pieces; "" when there is none */
  size_t characters;  /* of the text so far, for text_offset */
  json_t *logprobs;
  uint32_t answered;    /* tokens taken so far */
  bool has_told_prompt; /* its first event was sent */
  json_t *token_ids;    /* where they are wanted: of all of the answer, in a stream those not sent yet; or NULL */
} tn_choice;

/* How answers look in one of the APIs. All but `whole` are for streams; called under generation->lock. */
struct tn_surface {
  const char *id_prefix;
  bool is_chat;                 /* the prompt is a conversation */
  bool keeps_whole;             /* pieces are kept in a stream, too */
  const char *const *looked_at; /* fields of the request that its answers look at, behind them NULL; NULL: none */
  /* The first event of a choice is there, or its end. Streamed or not. */
  void (*begin_choice)(tn_choice *choice);
  /* An event, streamed or not; it has been added to the pieces already where they are kept. */
  void (*take)(tn_choice *choice, const tn_event *event);
  void (*end_choice)(tn_choice *choice);
  void (*end)(tn_generation *generation);
  /* The stream ends with an error, taken over. */
  void (*fail)(tn_generation *generation, json_t *error);
  json_t *(*whole)(tn_generation *generation);
};

extern const tn_surface tn_surface_chat, tn_surface_text, tn_surface_messages, tn_surface_responses;

struct tn_generation {
  tn_exchange *exchange;
  const tn_surface *surface;
  json_t *asked; /* of the request's body, in the surface's own words: what surface->looked_at names */
  /* what was asked for */
  bool is_stream, has_usage, has_logprobs;
  bool has_running_usage; /* in every event of a stream */
  bool wants_token_ids;
  uint32_t top_logprobs;
  size_t prompts, count; /* choices: those of the first prompt, then those of the second, ... */
  tn_choice *choices;
  char id[48];
  int64_t created;
  /* under lock */
  tn_mutex *lock;
  bool is_suspended;  /* the connection waits for an event */
  bool is_gone;       /* the client hung up */
  bool is_overflowed; /* it doesn't read */
  unsigned given_up;  /* the status of the error it gets, as the engine doesn't answer; 0: it isn't given up */
  size_t done;        /* choices */
  size_t unread;      /* bytes of events in all choices */
  /* of libmicrohttpd's thread */
  tn_buf out;
  size_t sent;
  uint64_t sequence; /* number of the next event, where the surface numbers them */
  bool is_closed;    /* all was put into `out` */
};

/* One for `count` choices, not yet submitted; NULL when memory is out. */
tn_generation *tn_generation_create(tn_exchange *exchange, size_t count);
void tn_generation_destroy(tn_generation *generation); /* cancels what runs; NULL is allowed */

/* Submits a choice; `options` gets the callback. */
tn_status tn_generation_submit(tn_generation *generation, size_t choice, tn_request_options *options, tn_error *error);

/* All are submitted: from now on the exchange owns the generation and is watched. False when the server stops. */
bool tn_generation_enter(tn_generation *generation);
/* Called whenever the connection of an exchange that entered runs: the stream begins, or the answer is there, or it is
 * suspended again. */
enum MHD_Result tn_generation_answer(tn_generation *generation);
/* The exchange is over: no longer watched. */
void tn_generation_leave(tn_exchange *exchange);

typedef enum tn_watch {
  TN_WATCH_CLIENT,  /* cancel if the client hung up or doesn't read */
  TN_WATCH_CUT,     /* cancel; the client gets an error */
  TN_WATCH_GIVE_UP, /* the client gets an error, whatever the engine does */
  TN_WATCH_ABANDON  /* cancel and close the connection */
} tn_watch;
/* Under server->lock. */
void tn_generation_watch(tn_generation *generation, tn_watch watch);

/* For the log: " prompt=... stop=...", and the cause of an error. */
void tn_generation_describe(tn_generation *generation, char *out, size_t capacity);

/* ---- completion.c ---- */

/* Answers a request that is given in the words of chat or text completions, whatever the surface. `asked`: the request
 * as it came. */
enum MHD_Result tn_complete(tn_exchange *exchange, const json_t *body, const json_t *asked, const tn_surface *surface);

/* ---- answer.c: what the surfaces share. Called under generation->lock. ---- */

/* Takes all events out of the choices: as server-sent events into generation->out, or into each choice's pieces. */
void tn_answer_take(tn_generation *generation);
/* The whole answer, when every choice is done. */
json_t *tn_answer_whole(tn_generation *generation);
/* The error of the first choice that failed, or NULL; *status is its HTTP status. */
json_t *tn_answer_error(const tn_generation *generation, unsigned *status);

/* Appends a server-sent event, `json` taken over; `name` may be NULL. */
void tn_answer_send(tn_generation *generation, const char *name, json_t *json);
/* The pieces of one kind, joined; text with the echo in front. */
json_t *tn_answer_joined(const tn_choice *choice, uint32_t kind);

typedef struct tn_usage {
  uint64_t prompt, cached, answered, reasoning;
} tn_usage;
/* Tokens of all choices; the prompt of several answers counts once. */
tn_usage tn_answer_usage(const tn_generation *generation);

/* ---- logprobs.c ---- */

/* Characters of a text; a byte that is part of none counts as one. */
size_t tn_count_characters(const char *text, size_t bytes);
/* {"token", "logprob", "bytes", "top_logprobs"} of an event. */
json_t *tn_logprob_entry(const tn_server *server, const tn_event *event);
/* Adds the event's token to *logprobs, which is made if it is NULL, as chat or text completions have it. */
void tn_logprobs_add(tn_choice *choice, json_t **logprobs, const tn_event *event);

#endif
