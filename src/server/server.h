/* The HTTP server of `tenon serve`: an OpenAI-style API over one engine. docs/server.md tells what it answers. */
#ifndef TENON_SERVER_SERVER_H
#define TENON_SERVER_SERVER_H

#include <stdbool.h>
#include <stdio.h>
#include "tenon/tenon.h"

typedef struct tn_server_options {
  const char *host;                      /* name or address to listen on */
  uint16_t port;                         /* 0: a free one */
  const char *unix_path;                 /* listen on this unix socket instead; NULL: no */
  const char *certificate, *private_key; /* PEM texts: TLS; NULL: none */
  const char *cors;                      /* the origin whose pages may read answers, or "*"; NULL: none */
  const char *name;                      /* the model's id in answers */
  const char *const *keys;
  size_t key_count;         /* 0: no key is asked for */
  bool allow_public;        /* listen on an address others can reach although no key is asked for */
  uint32_t connections;     /* at most */
  uint32_t body_mib;        /* a request's body at most */
  uint32_t idle_seconds;    /* a connection without traffic is closed after */
  uint32_t timeout_seconds; /* an answer may take; 0: any time */
  uint32_t stop_seconds;    /* running answers may take to finish after SIGTERM before they are cancelled */
  uint32_t step_seconds;    /* a step of the engine that takes longer (and longer than those before) is a stall */
} tn_server_options;
#define TN_SERVER_OPTIONS                                                                        \
  {                                                                                              \
    .host = "127.0.0.1", .port = 8080, .connections = 4096, .body_mib = 32, .idle_seconds = 120, \
    .timeout_seconds = 3600, .stop_seconds = 10, .step_seconds = 120                             \
  }

/* Whether these options can be served with, its address listened on: for finding that out before a model is loaded.
 * Errors name the option; `name` may be NULL here. */
tn_status tn_server_check(const tn_server_options *options, tn_error *error);

/* Serves until SIGINT or SIGTERM (tn_catch_interrupts must be in force), then stops: takes nothing new, lets running
 * answers finish for stop_seconds, cancels the rest. A second signal cancels at once. Where the engine or a request
 * that is being read does not come to an end within some seconds more, it doesn't return: the process ends, with status
 * 1 and a line on stderr. Prints the address on stdout when it listens and one line a request on stderr. Errors: an
 * address that can't be had, a public one without a key. */
tn_status tn_serve(const tn_model *model, tn_engine *engine, const tn_server_options *options, tn_error *error);

/* Writes the table of the API's fields as Markdown, the one in docs/server.md. */
void tn_server_print_fields(FILE *out);

#endif
