/* A generation: the answers of the engine to one exchange, from submitting to the last byte sent.
 *
 * The engine's thread appends each token to its choice as an event; libmicrohttpd's thread takes the events out, and
 * makes JSON of them in one way, whether it is sent piece by piece or whole. */
#ifndef TENON_SERVER_GENERATION_H
#define TENON_SERVER_GENERATION_H

#include "server/internal.h"

/* Events of a streamed answer that its client doesn't read; past it the answer is cancelled. */
#define TN_UNREAD_BYTES ((size_t)4 << 20)

typedef struct tn_choice {
  tn_generation *generation;
  tn_request *request;
  /* under generation->lock */
  tn_buf events;
  size_t taken; /* bytes of events */
  bool is_done;
  tn_output end; /* the last output; its pointers are not valid */
  uint64_t last_ns;
  bool has_token;
  /* of libmicrohttpd's thread */
  bool has_begun, has_ended;
  char *echo; /* the prompt, to be put in front; NULL: none */
  tn_buf text;
  size_t characters; /* of text, for text_offset */
  json_t *logprobs;
} tn_choice;

struct tn_generation {
  tn_exchange *exchange;
  /* what was asked for */
  bool is_chat, is_stream, has_usage, has_logprobs;
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
  size_t done;        /* choices */
  size_t unread;      /* bytes of events in all choices */
  /* of libmicrohttpd's thread */
  tn_buf out;
  size_t sent;
  bool is_closed; /* all was put into `out` */
};

/* One for `count` choices, not yet submitted; NULL when memory is out. */
tn_generation *tn_generation_create(tn_exchange *exchange, size_t count);
void tn_generation_destroy(tn_generation *generation); /* cancels what runs; NULL is allowed */

/* Submits a choice; `options` gets the callback. */
tn_status tn_generation_submit(tn_generation *generation, size_t choice, tn_request_options *options, tn_error *error);

/* All are submitted: from now on the exchange owns the generation and is watched. False when the server stops. */
bool tn_generation_enter(tn_generation *generation);
/* The first answer of an exchange that entered. */
enum MHD_Result tn_generation_start(tn_generation *generation);
/* Called whenever the connection runs again: the answer, or suspended again. */
enum MHD_Result tn_generation_answer(tn_generation *generation);
/* The exchange is over: no longer watched. */
void tn_generation_leave(tn_exchange *exchange);

typedef enum tn_watch {
  TN_WATCH_CLIENT, /* cancel if the client hung up or doesn't read */
  TN_WATCH_CUT,    /* cancel; the client gets an error */
  TN_WATCH_ABANDON /* cancel and close the connection */
} tn_watch;
/* Under server->lock. */
void tn_generation_watch(tn_generation *generation, tn_watch watch);

/* For the log: " prompt=... stop=..." */
void tn_generation_describe(tn_generation *generation, char *out, size_t capacity);

/* ---- answer.c: events to JSON. Called under generation->lock. ---- */

/* Takes all events out of the choices: as server-sent events into generation->out, or into each choice's text. */
void tn_answer_take(tn_generation *generation);
/* The whole answer, when every choice is done. */
json_t *tn_answer_whole(tn_generation *generation);
/* The error of the first choice that failed, or NULL; *status is its HTTP status. */
json_t *tn_answer_error(const tn_generation *generation, unsigned *status);

/* One token as it lies in tn_choice.events, followed by its tops and its text. */
typedef struct tn_event {
  int32_t token;
  float logprob;
  uint32_t top_count, text_bytes;
} tn_event;

#endif
