/* From the logits of a step that has run to tokens: one request's entry of a flight at a time. */
#ifndef TENON_ENGINE_DRAWS_H
#define TENON_ENGINE_DRAWS_H

#include "engine/scheduler.h"

/* Gives out the log-probabilities of prompt tokens that the entry's rows tell. */
tn_status tn_score_prompt(tn_scheduler *scheduler, const tn_flight *flight, uint32_t entry, tn_error *error);

/* Draws tokens as long as they are those drafted, the first one that isn't included, and puts them into the request.
 * *rows: how many of the entry's rows were of the answer. *finish: as of tn_request_put. */
tn_status tn_draw_tokens(tn_scheduler *scheduler, const tn_flight *flight, uint32_t entry, uint32_t *rows,
                         tn_finish *finish, tn_error *error);

#endif
