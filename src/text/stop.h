/* Stop strings in a stream of text: the text up to the first one is released, and never a part of one.
 *
 * The first stop string to be complete wins; of several complete at the same byte, the longest. So the result depends
 * on the text alone, not on how it was cut into pieces. */
#ifndef TENON_TEXT_STOP_H
#define TENON_TEXT_STOP_H

#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"

#define TN_STOP_MOST 64      /* strings */
#define TN_STOP_LONGEST 4096 /* bytes of each */

typedef struct tn_stop tn_stop;

/* Copies the strings. TN_E_INVALID: an empty one; TN_E_LIMIT. */
tn_status tn_stop_create(tn_stop **out, const tn_text *strings, size_t count, tn_error *error);
void tn_stop_destroy(tn_stop *stop);

/* Takes memory so that no push of at most `piece_bytes` needs any. False when there is none. */
bool tn_stop_reserve(tn_stop *stop, size_t piece_bytes);

/* Takes a piece of text and appends to `out` what can't be part of a stop string any more. Returns the number of the
 * stop string that was found (then this and later calls release nothing further), or -1. Running out of memory shows
 * in out->failed. */
int tn_stop_push(tn_stop *stop, tn_text piece, tn_buf *out);

/* At the end of the text: releases what was held back, unless a stop string was found. */
void tn_stop_flush(tn_stop *stop, tn_buf *out);

/* Forgets the text, for a new one. */
void tn_stop_reset(tn_stop *stop);

#endif
