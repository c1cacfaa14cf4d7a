/* The desk: threads that read requests and hand them to the engine, so that those of the HTTP library only move bytes.
 * Parsing a large body, rendering and tokenising a long conversation or compiling a grammar takes long, and an HTTP
 * thread that did it would hold up every connection it has, streams of other clients among them.
 *
 * An exchange that is given here is suspended; once its work is done it runs again, with a response or a generation.
 * Large ones never take all threads, so that small ones wait for small ones only. */
#ifndef TENON_SERVER_DESK_H
#define TENON_SERVER_DESK_H

#include <stdbool.h>
#include <stddef.h>
#include "base/os.h"

struct tn_exchange;

#define TN_DESK_THREADS 4

typedef struct tn_desk_line {
  struct tn_exchange *first, *last;
} tn_desk_line;

typedef struct tn_desk {
  void (*work)(struct tn_exchange *exchange);
  tn_thread *threads[TN_DESK_THREADS];
  tn_mutex *lock;
  tn_cond *wake;
  /* under the lock */
  tn_desk_line small, large;
  size_t present;     /* waiting or worked on */
  size_t large_under; /* large ones that are worked on */
  bool is_ending;
} tn_desk;

/* `work` makes an exchange ready, on one of the threads. False: no memory; finish it all the same. */
bool tn_desk_init(tn_desk *desk, void (*work)(struct tn_exchange *exchange));
/* Takes nothing any more, and waits for what was given. */
void tn_desk_stop(tn_desk *desk);
/* Behind the HTTP library's end, which may ask it until then; stops it where it isn't yet. */
void tn_desk_finish(tn_desk *desk);

/* From the exchange's own HTTP thread: it is suspended. `bytes`: of its body. False: the desk is stopped, nothing was
 * done. */
bool tn_desk_give(tn_desk *desk, struct tn_exchange *exchange, size_t bytes);

/* Whether there is something to be done. */
bool tn_desk_is_busy(tn_desk *desk);

#endif
