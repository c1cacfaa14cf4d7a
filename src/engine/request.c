#include "engine/request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

/* ---- making one ---- */

static tn_status check_tokens(const tn_request_limits *limits, const int32_t *tokens, size_t count, tn_error *error) {
  if (count == 0) return tn_fail(error, TN_E_INVALID, "the prompt has no tokens");
  if (count >= limits->capacity)
    return tn_fail(error, TN_E_TOO_LONG, "the prompt has %zu tokens; the context holds %u, one of them for the answer",
                   count, limits->capacity);
  for (size_t i = 0; i < count; i++)
    if (tokens[i] < 0 || (uint32_t)tokens[i] >= limits->vocabulary->size)
      return tn_fail(error, TN_E_INVALID, "prompt: token %zu is %d; the vocabulary has %u", i, tokens[i],
                     limits->vocabulary->size);
  return TN_OK;
}

/* Is there what the counts promise? */
static tn_status check_lists(const tn_request_options *options, tn_error *error) {
  const struct {
    const char *name;
    const char *const *texts;
    size_t count;
  } lists[] = {{"stop", options->stop, options->stop_count},
               {"choices", options->choices, options->choice_count},
               {"dry_sequence_breakers", options->dry_sequence_breakers, options->dry_sequence_breaker_count}};
  if (options->logit_bias_count && !options->logit_bias)
    return tn_fail(error, TN_E_INVALID, "logit_bias is NULL, and %zu biases are said to be there",
                   options->logit_bias_count);
  for (size_t i = 0; i < TN_COUNT(lists); i++) {
    if (lists[i].count && !lists[i].texts)
      return tn_fail(error, TN_E_INVALID, "%s is NULL, and %zu texts are said to be there", lists[i].name,
                     lists[i].count);
    for (size_t k = 0; k < lists[i].count; k++)
      if (!lists[i].texts[k]) return tn_fail(error, TN_E_INVALID, "%s: text %zu is NULL", lists[i].name, k);
  }
  return TN_OK;
}

static void read_sampling(tn_sampling *sampling, const tn_request_options *options) {
  *sampling = (tn_sampling){.logit_bias = options->logit_bias,
                            .logit_bias_count = options->logit_bias_count,
                            .repeat_penalty = options->repeat_penalty,
                            .repeat_last = options->repeat_last,
                            .presence_penalty = options->presence_penalty,
                            .frequency_penalty = options->frequency_penalty,
                            .dry = {.multiplier = options->dry_multiplier,
                                    .base = options->dry_base,
                                    .allowed_length = options->dry_allowed_length,
                                    .last_n = options->dry_penalty_last_n},
                            .temperature = options->temperature,
                            .top_k = options->top_k,
                            .top_p = options->top_p,
                            .min_p = options->min_p,
                            .xtc_probability = options->xtc_probability,
                            .xtc_threshold = options->xtc_threshold,
                            .seed = options->seed,
                            .choice = options->choice,
                            .logprobs = options->logprobs,
                            .top_logprobs = options->top_logprobs};
}

static tn_status copy_bias(tn_sampling *sampling, tn_error *error) {
  if (!sampling->logit_bias_count) {
    sampling->logit_bias = NULL;
    return TN_OK;
  }
  tn_logit_bias *copy = tn_calloc(sampling->logit_bias_count, sizeof *copy);
  if (copy) memcpy(copy, sampling->logit_bias, sampling->logit_bias_count * sizeof *copy);
  sampling->logit_bias = copy;
  return copy ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory for %zu logit biases", sampling->logit_bias_count);
}

/* Where DRY is on, or breakers are given for it. */
static tn_status make_breakers(tn_request *request, const tn_request_options *options, tn_error *error) {
  if (options->dry_multiplier == 0.0f && !options->dry_sequence_breakers) return TN_OK;
  tn_status status = tn_breakers_create(request->vocabulary, options->dry_sequence_breakers,
                                        options->dry_sequence_breaker_count, &request->breakers, error);
  request->sampling.dry.breakers = request->breakers;
  return status;
}

static tn_status take_salt(tn_request *request, const char *text, tn_error *error) {
  if (!text || !*text) return TN_OK;
  if (strlen(text) > TN_SALT_BYTES)
    return tn_fail(error, TN_E_LIMIT, "cache_salt: %zu bytes, at most %u are taken", strlen(text), TN_SALT_BYTES);
  request->salt = tn_salt_create(text);
  return request->salt ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory for the cache salt");
}

/* Room in the outputs of an answer that is taken apart, for each token: an answer of longer calls and more parts than
 * any model writes fails. */
#define PARTS_OF_TOKEN 4u
#define BYTES_OF_PART 32u

/* The longest answer's tokens and outputs. */
static tn_status make_room(tn_request *request, const int32_t *tokens, bool is_apart, tn_error *error) {
  uint32_t answer = request->token_limit - request->prompt_count;
  uint32_t events = is_apart ? (answer + 1) * PARTS_OF_TOKEN : answer + 1;
  if (request->wants_prompt_logprobs) events += request->prompt_count;
  request->tokens = tn_calloc(request->token_limit, sizeof *request->tokens);
  if (request->on_output) {
    request->outputs = tn_outputs_create(0, 0, 0);
  } else {
    /* one event a token and one for what is held back at the end */
    size_t text_bytes;
    if (tn_mul_size((size_t)answer + 1, request->vocabulary->longest_piece, &text_bytes) &&
        tn_add_size(text_bytes, is_apart ? (size_t)events * BYTES_OF_PART : 0, &text_bytes))
      request->outputs = tn_outputs_create(events, text_bytes, request->sampling.top_logprobs);
  }
  request->callback_lock = tn_mutex_create();
  if (!request->tokens || !request->outputs || !request->callback_lock)
    return tn_fail(error, TN_E_MEMORY, "no memory for a request of %u tokens", request->token_limit);
  memcpy(request->tokens, tokens, request->prompt_count * sizeof *tokens);
  return TN_OK;
}

tn_status tn_request_create(const tn_request_limits *limits, const tn_request_options *options, const int32_t *tokens,
                            size_t token_count, tn_request **made, tn_error *error) {
  *made = NULL;
  tn_sampling sampling;
  read_sampling(&sampling, options);
  tn_status status = check_tokens(limits, tokens, token_count, error);
  if (status == TN_OK) status = check_lists(options, error);
  if (status == TN_OK) status = tn_sampling_check(&sampling, limits->vocabulary->size, error);
  if (status != TN_OK) return status;
  tn_request *request = calloc(1, sizeof *request);
  if (!request) return tn_fail(error, TN_E_MEMORY, "no memory for a request");
  atomic_init(&request->references, 2);
  request->vocabulary = limits->vocabulary;
  request->sampling = sampling;
  request->prompt_count = request->token_count = (uint32_t)token_count;
  uint32_t room = limits->capacity - request->prompt_count;
  request->token_limit =
      request->prompt_count + (options->max_tokens && options->max_tokens < room ? options->max_tokens : room);
  if (options->no_answer) request->token_limit = request->prompt_count;
  request->min_tokens = options->min_tokens;
  request->ignore_end = options->ignore_eos != 0;
  request->wants_prompt_logprobs = options->prompt_logprobs != 0;
  request->has_no_answer = options->no_answer != 0;
  request->priority = options->priority;
  request->submit_ns = tn_clock_ns();
  request->deadline_ns = UINT64_MAX;
  if (options->timeout_ns && options->timeout_ns < UINT64_MAX - request->submit_ns)
    request->deadline_ns = request->submit_ns + options->timeout_ns;
  request->on_output = options->on_output;
  request->context = options->context;
  status = copy_bias(&request->sampling, error);
  if (status == TN_OK) status = make_breakers(request, options, error);
  if (status == TN_OK)
    status = tn_answer_create(limits->vocabulary, options->stop, options->stop_count, &request->answer, error);
  if (status == TN_OK) status = tn_constraint_create(limits->constraints, options, &request->constraint, error);
  if (status == TN_OK) status = take_salt(request, options->cache_salt, error);
  if (status == TN_OK) {
    bool is_apart = options->tools_json || options->tool_choice || options->split_reasoning;
    status = make_room(request, tokens, is_apart, error);
  }
  if (status != TN_OK) {
    tn_request_release(request);
    tn_request_release(request);
    return status;
  }
  *made = request;
  return TN_OK;
}

void tn_request_release(tn_request *request) {
  if (atomic_fetch_sub(&request->references, 1) != 1) return;
  tn_answer_destroy(request->answer);
  tn_parts_destroy(request->parts);
  tn_constraint_destroy(request->constraint);
  tn_outputs_destroy(request->outputs);
  tn_mutex_destroy(request->callback_lock);
  tn_salt_release(request->salt);
  free((void *)request->sampling.logit_bias);
  tn_breakers_destroy(request->breakers);
  free(request->tokens);
  free(request);
}

/* ---- its answer ---- */

uint32_t tn_request_pending(const tn_request *request) {
  return request->token_count - (request->ledger ? request->ledger->length : 0);
}

bool tn_request_is_scoring(const tn_request *request) {
  return request->wants_prompt_logprobs && request->scored < request->prompt_count;
}

uint32_t tn_request_silent(const tn_request *request) {
  if (!tn_request_is_scoring(request)) return tn_request_pending(request) - 1;
  /* the row of a token scores the one behind it */
  uint32_t scored = request->scored ? request->scored - 1 : 0, present = request->ledger->length;
  return scored > present ? scored - present : 0;
}

uint32_t tn_request_answered(const tn_request *request) {
  return request->token_count - request->prompt_count;
}

static void call_back(tn_request *request, const tn_output *output) {
  tn_mutex_lock(request->callback_lock);
  if (!request->is_abandoned) request->on_output(request->context, output);
  tn_mutex_unlock(request->callback_lock);
}

static void emit_text(tn_request *request, const tn_output *output) {
  if (request->on_output) {
    tn_output counted = *output;
    counted.prompt_tokens = request->prompt_count;
    counted.cached_tokens = request->cached_count;
    call_back(request, &counted);
  } else if (!tn_outputs_push(request->outputs, output)) {
    request->is_overfull = true;
  }
}

/* What an output says of the token it comes with. */
static void carry_sample(tn_output *output, const tn_sample *sample) {
  output->token = sample->token;
  output->logprob = sample->logprob;
  output->top = sample->top_count ? sample->top : NULL;
  output->top_count = sample->top_count;
}

void tn_request_put_score(tn_request *request, const tn_sample *sample) {
  tn_output output = {.size = sizeof output,
                      .kind = TN_OUTPUT_PROMPT,
                      .text = "",
                      .token = request->tokens[request->scored++],
                      .logprob = NAN};
  if (sample) carry_sample(&output, sample);
  emit_text(request, &output);
}

/* ---- taken apart ---- */

#define NO_MEMORY_FOR_PARTS "no memory for an answer's parts"
#define TOO_MANY_PARTS "the answer has more parts than there is room for"

static bool emit_part(void *context, const tn_part *part) {
  static const uint32_t kinds[] = {[TN_PART_CONTENT] = TN_OUTPUT_TEXT,
                                   [TN_PART_REASONING] = TN_OUTPUT_REASONING,
                                   [TN_PART_CALL] = TN_OUTPUT_TOOL_CALL,
                                   [TN_PART_CALL_PIECE] = TN_OUTPUT_TOOL_CALL_DELTA};
  tn_request *request = context;
  tn_output output = {.size = sizeof output,
                      .kind = kinds[part->kind],
                      .text = part->text.data,
                      .text_bytes = part->text.bytes,
                      .token = -1,
                      .tool_name = part->name.data,
                      .tool_id = part->id,
                      .tool_index = part->index};
  if (request->drawn) carry_sample(&output, request->drawn);
  request->drawn = NULL;
  emit_text(request, &output);
  return !request->is_overfull;
}

tn_status tn_request_take_apart(tn_request *request, const tn_request_limits *limits, const tn_request_options *options,
                                tn_tool_use *use, tn_error *error) {
  if (use->is_required && request->constraint)
    return tn_fail(error, TN_E_INVALID, "the answer is held to a grammar, and tool_choice wants a call");
  tn_status status = TN_OK;
  if (use->tools && !request->constraint) {
    status = tn_constraint_of_tools(limits->constraints, use, &request->constraint, error);
    request->holds_calls = !use->is_required;
    request->holds_all = use->is_required && tn_tool_grammar_spans_answer(use->template_source);
  }
  /* calls that the model is free to make are then only checked to be calls, unless a tool wants more */
  if (status != TN_OK && (use->is_required || status != TN_E_UNSUPPORTED || tn_tool_list_is_strict(use->tools)))
    return status;
  uint64_t seed = tn_clock_ns() ^ (uint64_t)(uintptr_t)request;
  const bool is_held = use->tools && use->is_required;
  status = tn_parts_create(request->vocabulary, options, use, seed, emit_part, request, &request->parts, error);
  if (status == TN_OK && is_held) tn_parts_hold(request->parts, true);
  return status;
}

static bool is_thinking(const tn_request *request) {
  return request->parts && tn_parts_is_reasoning(request->parts);
}

bool tn_request_is_held(const tn_request *request) {
  if (!request->constraint) return false;
  return request->holds_calls ? request->is_in_call : request->holds_all || !is_thinking(request);
}

bool tn_request_must_go_on(const tn_request *request) {
  return request->constraint && !request->holds_calls && !request->holds_all && is_thinking(request);
}

/* After a token: a call that has begun is held from here on, unless its first words are none of the grammar's. */
static void follow_calls(tn_request *request) {
  tn_text body;
  bool was_in_call = request->was_in_call;
  if (!request->constraint || !request->holds_calls) return;
  request->was_in_call = tn_parts_in_call(request->parts, &body);
  if (!request->was_in_call) {
    request->is_in_call = false;
  } else if (!was_in_call) {
    request->is_in_call = tn_constraint_begin(request->constraint, body.data, body.bytes);
    if (request->is_in_call) tn_parts_hold(request->parts, false);
  }
}

static tn_status put_in_parts(tn_request *request, const tn_sample *sample, bool is_end, bool *is_over,
                              tn_error *error) {
  bool good = true;
  *is_over = false;
  request->drawn = sample;
  if (!is_end) good = tn_parts_put(request->parts, sample->token, is_over);
  follow_calls(request);
  if (request->drawn) emit_part(request, &(tn_part){.kind = TN_PART_CONTENT, .text = TN_TEXT(""), .id = ""});
  if (!good) return tn_fail(error, TN_E_MEMORY, NO_MEMORY_FOR_PARTS);
  if (request->is_overfull) return tn_fail(error, TN_E_LIMIT, TOO_MANY_PARTS);
  return TN_OK;
}

/* ---- */

static void append(tn_request *request, const tn_sample *sample) {
  if (request->first_token_ns == 0) request->first_token_ns = tn_clock_ns();
  request->tokens[request->token_count++] = sample->token;
}

/* The grammar takes the next token. *is_over: the answer ends with it. */
static tn_status accept(tn_request *request, int32_t token, bool *is_over, tn_error *error) {
  tn_status status = TN_OK;
  *is_over = false;
  if (tn_request_is_held(request)) status = tn_constraint_accept(request->constraint, token, is_over, error);
  if (request->holds_calls) *is_over = false; /* the call is, not the answer */
  return status;
}

/* Gives out the text of the token put last. `is_over`: the grammar says that the answer ends. */
static tn_status give_out(tn_request *request, const tn_sample *sample, bool is_over, tn_finish *finish,
                          tn_error *error) {
  tn_status status = TN_OK;
  tn_output output = {.size = sizeof output, .kind = TN_OUTPUT_TEXT, .text = ""};
  carry_sample(&output, sample);
  *finish = TN_FINISH_NONE;
  bool is_end = tn_vocabulary_ends(request->vocabulary, sample->token);
  bool is_stopped = false;
  if (request->parts) {
    status = put_in_parts(request, sample, is_end, &is_stopped, error);
  } else if (!is_end) {
    is_stopped = tn_answer_put(request->answer, sample->token, &output.text, &output.text_bytes);
  }
  if (is_stopped || is_over || (is_end && !request->ignore_end)) {
    *finish = TN_FINISH_STOP;
  } else if (request->token_count == request->token_limit) {
    *finish = TN_FINISH_LENGTH;
  }
  if (!request->parts) emit_text(request, &output);
  return status;
}

tn_status tn_request_put(tn_request *request, const tn_sample *sample, tn_finish *finish, tn_error *error) {
  bool is_over;
  tn_status status = accept(request, sample->token, &is_over, error);
  if (status != TN_OK) return status;
  append(request, sample);
  return give_out(request, sample, is_over, finish, error);
}

bool tn_request_ends_with(const tn_request *request, int32_t token) {
  return request->token_count + 1 == request->token_limit ||
         (!request->ignore_end && tn_vocabulary_ends(request->vocabulary, token));
}

void tn_request_put_untold(tn_request *request, const tn_sample *sample) {
  append(request, sample);
  request->untold = *sample;
  request->has_untold = true;
}

tn_status tn_request_tell(tn_request *request, tn_finish *finish, tn_error *error) {
  bool is_over;
  request->has_untold = false;
  tn_status status = accept(request, request->untold.token, &is_over, error);
  if (status == TN_OK) return give_out(request, &request->untold, is_over, finish, error);
  request->token_count--;
  return status;
}

/* What was held back in case it became a stop string, a whole character or a call. *finish: STOP when it is a stop
 * string after all. */
static tn_status flush_text(tn_request *request, tn_finish *finish, tn_error *error) {
  bool is_over = false;
  if (request->parts) {
    if (!tn_parts_end(request->parts, &is_over)) return tn_fail(error, TN_E_MEMORY, NO_MEMORY_FOR_PARTS);
  } else {
    tn_output output = {.size = sizeof output, .kind = TN_OUTPUT_TEXT, .token = -1};
    is_over = tn_answer_flush(request->answer, &output.text, &output.text_bytes);
    if (output.text_bytes) emit_text(request, &output);
  }
  if (request->parts && request->is_overfull) return tn_fail(error, TN_E_LIMIT, TOO_MANY_PARTS);
  if (is_over) *finish = TN_FINISH_STOP;
  return TN_OK;
}

static int stopped_by(const tn_request *request) {
  return request->parts ? tn_parts_stopped_by(request->parts) : tn_answer_stopped_by(request->answer);
}

void tn_request_end(tn_request *request, tn_finish finish, const tn_error *error) {
  tn_error failure;
  tn_finish told;
  if (request->has_untold) tn_request_tell(request, &told, NULL);
  bool is_whole = finish == TN_FINISH_STOP || finish == TN_FINISH_LENGTH;
  if (is_whole && flush_text(request, &finish, &failure) != TN_OK) {
    finish = TN_FINISH_ERROR;
    error = &failure;
  }
  uint64_t now = tn_clock_ns();
  tn_output output = {.size = sizeof output,
                      .kind = error ? TN_OUTPUT_ERROR : TN_OUTPUT_DONE,
                      .text = "",
                      .token = -1,
                      .finish = finish,
                      .prompt_tokens = request->prompt_count,
                      .cached_tokens = request->cached_count,
                      .completion_tokens = tn_request_answered(request)};
  if (error) output.error = *error;
  if (finish == TN_FINISH_STOP) output.stop_string = (uint32_t)(stopped_by(request) + 1);
  uint64_t admitted = request->was_admitted ? request->admit_ns : now;
  uint64_t first_token = request->first_token_ns ? request->first_token_ns : now;
  output.queue_ns = admitted - request->submit_ns;
  output.prefill_ns = first_token - admitted;
  output.decode_ns = now - first_token;
  if (request->on_output) call_back(request, &output);
  tn_outputs_end(request->outputs, &output);
}

/* ---- the caller's side (tenon.h) ---- */

tn_status tn_request_next(tn_request *request, tn_output *output, uint64_t timeout_ns) {
  uint64_t now = tn_clock_ns();
  uint32_t size = output->size && output->size < sizeof *output ? output->size : (uint32_t)sizeof *output;
  tn_output next;
  tn_status status =
      tn_outputs_next(request->outputs, &next, timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX);
  if (status != TN_OK) return status;
  next.size = size;
  memcpy(output, &next, size);
  return TN_OK;
}

const int32_t *tn_request_prompt(const tn_request *request, size_t *count) {
  *count = request->prompt_count;
  return request->tokens;
}

void tn_request_cancel(tn_request *request) {
  if (request) atomic_store(&request->cancelled, true);
}

void tn_request_destroy(tn_request *request) {
  if (!request) return;
  tn_request_cancel(request);
  tn_mutex_lock(request->callback_lock);
  request->is_abandoned = true;
  tn_mutex_unlock(request->callback_lock);
  tn_request_release(request);
}
