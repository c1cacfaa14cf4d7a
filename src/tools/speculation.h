/* Decoding through an engine, with and without drafts: what bench model and eval speculate measure. */
#ifndef TENON_TOOLS_SPECULATION_H
#define TENON_TOOLS_SPECULATION_H

#include <stddef.h>
#include <stdint.h>
#include "tenon/tenon.h"

/* One request that was run to its end. */
typedef struct tn_decoding {
  int32_t *tokens; /* the answer's, free() it */
  uint32_t count;
  double seconds; /* from the first token to the last */
} tn_decoding;

/* Runs `count` copies of a request at once, whose seeds count up, and gives what each answered. */
tn_status tn_decode_together(tn_engine *engine, const tn_request_options *request, uint32_t count, tn_decoding *got,
                             tn_error *error);

int tn_eval_speculate(int argc, char **argv);

#endif
