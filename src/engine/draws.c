#include "engine/draws.h"

/* Draws the request's next token from row `row` of its entry of the step. */
static tn_status draw_token(tn_scheduler *scheduler, const tn_flight *flight, uint32_t entry, uint32_t row,
                            tn_error *error) {
  const tn_request *request = flight->requests[entry];
  bool is_held = tn_request_is_held(request);
  bool bans_end = tn_request_must_go_on(request) ||
                  (!request->ignore_end && !is_held && tn_request_answered(request) < request->min_tokens);
  tn_draw draw = {.sampling = &request->sampling,
                  .logits = tn_step_logits(&flight->step, entry, row),
                  .tokens = request->tokens,
                  .token_count = request->token_count,
                  .prompt_count = request->prompt_count,
                  .banned = bans_end ? request->vocabulary->end_tokens : NULL,
                  .banned_count = bans_end ? request->vocabulary->end_count : 0};
  tn_status status = TN_OK;
  if (is_held) status = tn_constraint_allowed(request->constraint, &draw.allowed, &draw.allowed_count, error);
  return status == TN_OK ? tn_sampler_draw(scheduler->sampler, &draw, &scheduler->sample, error) : status;
}

tn_status tn_score_prompt(tn_scheduler *scheduler, const tn_flight *flight, uint32_t entry, tn_error *error) {
  tn_request *request = flight->requests[entry];
  tn_status status = TN_OK;
  uint32_t present = request->ledger->length;
  if (request->scored == 0) tn_request_put_score(request, NULL);
  for (uint32_t row = tn_request_silent(request); row < flight->planned[entry] && status == TN_OK; row++) {
    uint32_t next = present + row + 1;
    if (next >= request->prompt_count) break;
    status = tn_sampler_score(scheduler->sampler, tn_step_logits(&flight->step, entry, row), request->tokens[next],
                              next, request->sampling.top_logprobs, &scheduler->sample, error);
    if (status == TN_OK) tn_request_put_score(request, &scheduler->sample);
  }
  return status;
}

/* Takes the drawn token; its text can wait where texts do, unless the next draw of this step, or the answer's end, or
 * what it is taken apart into depends on it. */
static tn_status put_token(tn_scheduler *scheduler, tn_request *request, tn_finish *finish, tn_error *error) {
  const tn_sample *sample = &scheduler->sample;
  if (!scheduler->defers || request->parts || request->draft_count || tn_request_ends_with(request, sample->token))
    return tn_request_put(request, sample, finish, error);
  tn_request_put_untold(request, sample);
  return TN_OK;
}

tn_status tn_draw_tokens(tn_scheduler *scheduler, const tn_flight *flight, uint32_t entry, uint32_t *rows,
                         tn_finish *finish, tn_error *error) {
  tn_request *request = flight->requests[entry];
  uint32_t accepted = 0, compared = 0, planned = flight->planned[entry];
  bool is_accepted = true;
  tn_status status = TN_OK;
  *rows = 0;
  while (is_accepted && status == TN_OK && *finish == TN_FINISH_NONE) {
    status = draw_token(scheduler, flight, entry, planned - 1 + accepted, error);
    if (status != TN_OK) break;
    *rows = planned + accepted;
    is_accepted = false;
    if (accepted < request->draft_count) {
      int32_t draft = request->tokens[request->token_count];
      is_accepted = tn_speculation_accepts(&scheduler->speculation, request, draft, &scheduler->sample);
      accepted += is_accepted;
      compared++;
    }
    status = put_token(scheduler, request, finish, error);
  }
  if (*rows) tn_speculation_verified(&scheduler->speculation, request, compared, accepted);
  return status;
}
