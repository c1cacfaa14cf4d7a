#include "server/fields.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

#define BOTH (TN_ON_CHAT | TN_ON_COMPLETIONS)
#define ANSWERS (BOTH | TN_ON_MESSAGES | TN_ON_RESPONSES)
#define PROMPT (TN_ON_MESSAGES | TN_ON_COUNT)

/* Short names for the table. */
#define BOOLEAN TN_FIELD_BOOLEAN
#define INTEGER TN_FIELD_INTEGER
#define NUMBER TN_FIELD_NUMBER
#define TEXT TN_FIELD_TEXT
#define OBJECT TN_FIELD_OBJECT
#define ARRAY TN_FIELD_ARRAY
#define TEXT_OR_ARRAY TN_FIELD_TEXT_OR_ARRAY
#define ANY TN_FIELD_ANY
#define NEEDED TN_NEEDED
#define HONOURED TN_HONOURED
#define ACCEPTED TN_ACCEPTED
#define REFUSED TN_REFUSED

/* ACCEPTED: without effect on the answer, because known clients send it. */
static const tn_field_row fields[] = {
    {ANSWERS | TN_ON_COUNT, "model", TEXT, 0, 0, ACCEPTED, "any name; the answer tells the model that is served"},
    {TN_ON_CHAT, "messages", ARRAY, 1, 1e6, NEEDED, "the conversation, rendered by the model's chat template"},
    {TN_ON_CHAT | TN_ON_RESPONSES | PROMPT, "chat_template_kwargs", OBJECT, 0, 0, HONOURED,
     "further variables of the chat template"},
    {TN_ON_COMPLETIONS, "prompt", TEXT_OR_ARRAY, 0, 0, NEEDED,
     "text, list of texts, list of token ids, or list of such lists"},
    {TN_ON_COMPLETIONS, "echo", BOOLEAN, 0, 0, HONOURED,
     "the prompt before the answer; with logprobs, those of its tokens too"},
    {TN_ON_CHAT, "max_tokens", INTEGER, 1, 1 << 28, HONOURED, "tokens of the answer at most; absent: what fits"},
    {TN_ON_COMPLETIONS, "max_tokens", INTEGER, 0, 1 << 28, HONOURED, "tokens of the answer at most; absent: 16"},
    {TN_ON_CHAT, "max_completion_tokens", INTEGER, 1, 1 << 28, HONOURED, "the same; wins over max_tokens"},
    {ANSWERS, "min_tokens", INTEGER, 0, 1 << 28, HONOURED, "the answer does not end by itself before"},
    {ANSWERS, "ignore_eos", BOOLEAN, 0, 0, HONOURED, "the model's end tokens do not end the answer"},
    {ANSWERS, "stream", BOOLEAN, 0, 0, HONOURED, "the answer as server-sent events"},
    {BOTH, "stream_options", OBJECT, 0, 0, HONOURED,
     "`include_usage`: a last event with the token counts; `continuous_usage_stats`, beside it: every event has those "
     "of "
     "its choice so far; `include_obfuscation` is accepted without effect"},
    {ANSWERS, "temperature", NUMBER, 0, 100, HONOURED,
     "absent: as the model advises, else 1; 0 takes the likeliest token"},
    {ANSWERS, "top_p", NUMBER, 0, 1, HONOURED, "absent: as the model advises, else 1"},
    {BOTH, "top_k", INTEGER, -1, 1 << 24, HONOURED, "absent: as the model advises, else all; 0 or -1: all tokens"},
    {BOTH, "min_p", NUMBER, 0, 1, HONOURED, "absent: as the model advises, else 0"},
    {BOTH, "presence_penalty", NUMBER, -2, 2, HONOURED, "absent: 0"},
    {BOTH, "frequency_penalty", NUMBER, -2, 2, HONOURED, "absent: 0"},
    {BOTH, "repetition_penalty", NUMBER, 0.01, 100, HONOURED,
     "over the last 64 tokens; absent: as the model advises, else 1"},
    {BOTH, "repeat_penalty", NUMBER, 0.01, 100, HONOURED, "another name for it"},
    {BOTH, "dry_multiplier", NUMBER, 0, 100, HONOURED,
     "DRY: a token that goes on with a repetition of n tokens is lowered by this times base^(n - allowed); absent: 0, "
     "off"},
    {BOTH, "dry_base", NUMBER, 1, 100, HONOURED, "DRY; absent: 1.75"},
    {BOTH, "dry_allowed_length", INTEGER, 0, 50, HONOURED, "DRY: tokens that may be repeated; absent: 2"},
    {BOTH, "dry_penalty_last_n", INTEGER, -1, 1 << 28, HONOURED,
     "DRY: tokens of prompt and answer that are looked back over; 0: off; absent or -1: all"},
    {BOTH, "dry_sequence_breakers", ARRAY, 0, 64, HONOURED,
     "DRY: texts that no repetition reaches across; absent: line end, colon, quote, asterisk"},
    {BOTH, "xtc_probability", NUMBER, 0, 1, HONOURED,
     "XTC: the chance that the likeliest tokens are left out; absent: 0, off"},
    {BOTH, "xtc_threshold", NUMBER, 0, 1, HONOURED,
     "XTC: of the tokens with this probability only the least likely stays; absent: 0.1"},
    {ANSWERS, "seed", INTEGER, -9223372036854775808.0, 9223372036854775807.0, HONOURED,
     "of the draws; absent: another one each time"},
    {BOTH, "stop", TEXT_OR_ARRAY, 0, 0, HONOURED,
     "text or list of up to 16 texts that end the answer and are not shown"},
    {BOTH, "n", INTEGER, 1, 64, HONOURED, "answers to each prompt"},
    {TN_ON_CHAT, "logprobs", BOOLEAN, 0, 0, HONOURED, "log-probabilities of the answer's tokens"},
    {TN_ON_CHAT, "top_logprobs", INTEGER, 0, 20, HONOURED, "that many alternatives with each; needs logprobs"},
    {TN_ON_COMPLETIONS, "logprobs", INTEGER, 0, 20, HONOURED, "log-probabilities with that many alternatives"},
    {BOTH, "logit_bias", OBJECT, 0, 0, HONOURED, "token id to a number from -100 to 100"},
    {BOTH, "response_format", OBJECT, 0, 0, HONOURED,
     "`text`, `json_object`, or `json_schema` with a schema that is enforced"},
    {TN_ON_CHAT, "tools", ARRAY, 0, 1024, HONOURED, "functions the model may call; refused if its template knows none"},
    {TN_ON_CHAT, "tool_choice", ANY, 0, 0, HONOURED,
     "`auto`, `none`, `required`, or the function that must be called, by name; absent: auto"},
    {TN_ON_CHAT | TN_ON_RESPONSES, "parallel_tool_calls", BOOLEAN, 0, 0, HONOURED,
     "false: the answer ends with its first call"},
    {BOTH, "grammar", TEXT, 1, 1e6, HONOURED, "GBNF that the answer follows; not together with response_format"},
    {BOTH, "structured_outputs", OBJECT, 0, 0, HONOURED,
     "one of `json` (a schema), `json_object`, `regex`, `grammar`, `choice` (a list of texts) that the answer is held "
     "to; "
     "alone"},
    {BOTH, "user", TEXT, 0, 0, ACCEPTED, ""},
    {TN_ON_CHAT | TN_ON_MESSAGES, "metadata", OBJECT, 0, 0, ACCEPTED, ""},
    {TN_ON_CHAT | TN_ON_RESPONSES | TN_ON_MESSAGES, "service_tier", TEXT, 0, 0, ACCEPTED, ""},
    {BOTH, "cache_prompt", BOOLEAN, 0, 0, ACCEPTED, "known prefixes are always found again"},
    {BOTH, "cache_salt", TEXT, 0, 1 << 16, HONOURED, "known prefixes are shared only among requests with the same one"},
    {BOTH, "return_token_ids", BOOLEAN, 0, 0, HONOURED, "`token_ids` of each choice (or event) and `prompt_token_ids`"},
    {BOTH, "skip_special_tokens", BOOLEAN, 0, 0, HONOURED, "true; false is refused: special tokens have no text"},
    {TN_ON_CHAT, "continue_final_message", BOOLEAN, 0, 0, REFUSED, "an answer can't be begun for the model"},
    {TN_ON_CHAT, "add_generation_prompt", BOOLEAN, 0, 0, REFUSED, "give it in chat_template_kwargs"},
    {BOTH, "stop_token_ids", ARRAY, 0, 0, REFUSED, "use stop"},
    {BOTH, "n_predict", INTEGER, 0, 0, REFUSED, "use max_tokens"},
    {BOTH, "n_probs", INTEGER, 0, 0, REFUSED, "use logprobs"},
    {TN_ON_CHAT, "functions", ARRAY, 0, 0, REFUSED, "use tools"},
    {TN_ON_CHAT, "function_call", ANY, 0, 0, REFUSED, "use tool_choice"},
    {TN_ON_CHAT, "modalities", ARRAY, 0, 0, REFUSED, ""},
    {TN_ON_CHAT, "audio", OBJECT, 0, 0, REFUSED, ""},
    {TN_ON_CHAT, "prediction", OBJECT, 0, 0, REFUSED, ""},
    {TN_ON_CHAT, "reasoning_effort", TEXT, 0, 0, REFUSED, "give it in chat_template_kwargs if the template knows it"},
    {TN_ON_CHAT, "verbosity", TEXT, 0, 0, REFUSED, ""},
    {TN_ON_CHAT, "web_search_options", OBJECT, 0, 0, REFUSED, ""},
    {TN_ON_CHAT | TN_ON_RESPONSES, "store", BOOLEAN, 0, 0, HONOURED, "false; true is refused: nothing is stored"},
    {TN_ON_COMPLETIONS, "suffix", TEXT, 0, 0, REFUSED, ""},
    {TN_ON_COMPLETIONS, "best_of", INTEGER, 1, 64, HONOURED, "the same as n; another number is refused"},
    {TN_ON_RESPONSES, "input", TEXT_OR_ARRAY, 0, 0, NEEDED,
     "a text, or items: messages of text parts, reasoning, function_call, function_call_output"},
    {TN_ON_RESPONSES, "instructions", TEXT, 0, 0, HONOURED, "the system's message, in front of the input"},
    {TN_ON_RESPONSES, "max_output_tokens", INTEGER, 1, 1 << 28, HONOURED,
     "tokens of the answer at most; absent: what fits"},
    {TN_ON_RESPONSES, "include", ARRAY, 0, 16, HONOURED,
     "`message.output_text.logprobs`; `reasoning.encrypted_content` is accepted without effect"},
    {TN_ON_RESPONSES, "top_logprobs", INTEGER, 0, 20, HONOURED,
     "that many alternatives with each token; needs `message.output_text.logprobs`"},
    {TN_ON_RESPONSES, "tools", ARRAY, 0, 1024, HONOURED, "functions: `name`, `description`, `parameters`, `strict`"},
    {TN_ON_RESPONSES, "tool_choice", ANY, 0, 0, HONOURED,
     "`auto`, `none`, `required`, or the function that must be called; absent: auto"},
    {TN_ON_RESPONSES, "text", OBJECT, 0, 0, HONOURED,
     "`format`: `text`, `json_object`, or `json_schema` with a schema that is enforced"},
    {TN_ON_RESPONSES, "reasoning", OBJECT, 0, 0, HONOURED,
     "`effort` `none`: the template's `enable_thinking` is false; `summary` is without effect, reasoning comes whole"},
    {TN_ON_RESPONSES, "background", BOOLEAN, 0, 0, HONOURED, "false; true is refused"},
    {TN_ON_RESPONSES, "truncation", TEXT, 0, 0, HONOURED, "`disabled`; `auto` is refused"},
    {TN_ON_RESPONSES, "metadata", OBJECT, 0, 0, ACCEPTED, "repeated in the answer"},
    {TN_ON_RESPONSES, "user", TEXT, 0, 0, ACCEPTED, "repeated in the answer"},
    {TN_ON_RESPONSES, "stream_options", OBJECT, 0, 0, ACCEPTED, ""},
    {TN_ON_RESPONSES | TN_ON_CHAT, "safety_identifier", TEXT, 0, 0, ACCEPTED, ""},
    {TN_ON_RESPONSES | TN_ON_CHAT, "prompt_cache_key", TEXT, 0, 0, ACCEPTED, "known prefixes are always found again"},
    {TN_ON_RESPONSES | TN_ON_CHAT, "prompt_cache_retention", TEXT, 0, 0, ACCEPTED, ""},
    {TN_ON_RESPONSES, "max_tool_calls", INTEGER, 0, 0, ACCEPTED, "the server has no tools of its own"},
    {TN_ON_RESPONSES, "previous_response_id", TEXT, 0, 0, REFUSED, "nothing is stored; give the whole conversation"},
    {TN_ON_RESPONSES, "conversation", ANY, 0, 0, REFUSED, "nothing is stored; give the whole conversation"},
    {TN_ON_RESPONSES, "prompt", OBJECT, 0, 0, REFUSED, "nothing is stored"},
    {PROMPT, "messages", ARRAY, 1, 1e6, NEEDED,
     "turns of user and assistant; texts, thinking, tool_use and tool_result blocks"},
    {PROMPT, "system", TEXT_OR_ARRAY, 0, 0, HONOURED, "a text or text blocks"},
    {PROMPT, "tools", ARRAY, 0, 1024, HONOURED,
     "the client's own tools: `name`, `description`, `input_schema`, `strict`"},
    {PROMPT, "tool_choice", OBJECT, 0, 0, HONOURED,
     "type `auto`, `any`, `tool` with a name, or `none`; `disable_parallel_tool_use`"},
    {PROMPT, "thinking", OBJECT, 0, 0, HONOURED,
     "type `enabled` or `disabled`: the template's `enable_thinking`; `adaptive`: as the template has it. "
     "`budget_tokens` is without effect"},
    {PROMPT, "output_config", OBJECT, 0, 0, HONOURED, "`format`: a JSON schema that is enforced"},
    {PROMPT, "cache_control", OBJECT, 0, 0, ACCEPTED, "known prefixes are always found again"},
    {TN_ON_MESSAGES, "max_tokens", INTEGER, 0, 1 << 28, NEEDED,
     "tokens of the answer at most; 0: the prompt is only computed and kept in the cache"},
    {TN_ON_MESSAGES, "stop_sequences", ARRAY, 0, 16, HONOURED, "texts that end the answer and are not shown"},
    {TN_ON_MESSAGES, "top_k", INTEGER, 0, 1 << 24, HONOURED, "absent: as the model advises, else all; 0: all tokens"},
    {TN_ON_MESSAGES, "thread", OBJECT, 0, 0, HONOURED,
     "refused with the code that makes clients go on without: no conversation is kept"},
    {TN_ON_MESSAGES, "container", ANY, 0, 0, REFUSED, ""},
    {TN_ON_MESSAGES, "mcp_servers", ARRAY, 0, 0, REFUSED, ""},
    {TN_ON_TOKENIZE, "content", TEXT, 0, 0, HONOURED, "the text; `prompt` is another name for it"},
    {TN_ON_TOKENIZE, "prompt", TEXT, 0, 0, HONOURED, ""},
    {TN_ON_TOKENIZE | TN_ON_DETOKENIZE, "model", TEXT, 0, 0, ACCEPTED, ""},
    {TN_ON_TOKENIZE, "add_special", BOOLEAN, 0, 0, HONOURED, "what the model wants in front and behind; absent: false"},
    {TN_ON_TOKENIZE, "parse_special", BOOLEAN, 0, 0, HONOURED,
     "special tokens in the text are recognised; absent: false"},
    {TN_ON_DETOKENIZE, "tokens", ARRAY, 0, 0, NEEDED, "token ids"},
};

const tn_field_row *tn_fields(size_t *count) {
  *count = TN_COUNT(fields);
  return fields;
}

const char *tn_field_type_name(tn_field_type type) {
  static const char *const names[] = {"boolean", "integer", "number",        "text",
                                      "object",  "array",   "text or array", "anything"};
  return names[type];
}

static const tn_field_row *find(const char *name, unsigned endpoint) {
  for (size_t i = 0; i < TN_COUNT(fields); i++)
    if ((fields[i].endpoints & endpoint) && !strcmp(fields[i].name, name)) return fields + i;
  return NULL;
}

static bool has_type(const json_t *value, tn_field_type type) {
  switch (type) {
    case TN_FIELD_BOOLEAN: return json_is_boolean(value);
    case TN_FIELD_INTEGER: return json_is_integer(value);
    case TN_FIELD_NUMBER: return json_is_number(value) && isfinite(json_number_value(value));
    case TN_FIELD_TEXT: return json_is_string(value);
    case TN_FIELD_OBJECT: return json_is_object(value);
    case TN_FIELD_ARRAY: return json_is_array(value);
    case TN_FIELD_TEXT_OR_ARRAY: return json_is_string(value) || json_is_array(value);
    case TN_FIELD_ANY: return true;
  }
  return false;
}

/* What the range of a field is about. */
static double measure(const json_t *value) {
  if (json_is_string(value)) return (double)json_string_length(value);
  if (json_is_array(value)) return (double)json_array_size(value);
  return json_number_value(value);
}

static tn_status check_value(const tn_field_row *known, const json_t *value, tn_error *error) {
  if (known->treatment == TN_REFUSED)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s is not supported%s%s", known->name, *known->meaning ? ": " : "",
                   known->meaning);
  if (!has_type(value, known->type))
    return tn_fail(error, TN_E_INVALID, "%s: expected %s", known->name, tn_field_type_name(known->type));
  bool has_range = known->minimum != 0 || known->maximum != 0;
  double measured = measure(value);
  if (has_range && !(measured >= known->minimum && measured <= known->maximum)) {
    const char *what = known->type == TN_FIELD_TEXT || known->type == TN_FIELD_ARRAY ? "length " : "";
    return tn_fail(error, TN_E_INVALID, "%s: %s%.10g given, expected from %.10g to %.10g", known->name, what, measured,
                   known->minimum, known->maximum);
  }
  return TN_OK;
}

tn_status tn_fields_check(const json_t *body, unsigned endpoint, const char **parameter, tn_error *error) {
  const char *name;
  json_t *value;
  *parameter = NULL;
  if (!json_is_object(body)) return tn_fail(error, TN_E_INVALID, "the body: expected a JSON object");
  json_object_foreach((json_t *)body, name, value) {
    const tn_field_row *known = find(name, endpoint);
    *parameter = name;
    if (!known) return tn_fail(error, TN_E_INVALID, "unknown field: %.100s", name);
    tn_status status = json_is_null(value) ? TN_OK : check_value(known, value, error);
    if (status != TN_OK) return status;
  }
  *parameter = NULL;
  for (size_t i = 0; i < TN_COUNT(fields); i++) {
    if (!(fields[i].endpoints & endpoint) || fields[i].treatment != TN_NEEDED || tn_field(body, fields[i].name))
      continue;
    *parameter = fields[i].name;
    return tn_fail(error, TN_E_INVALID, "%s is missing", fields[i].name);
  }
  return TN_OK;
}

json_t *tn_field(const json_t *body, const char *name) {
  json_t *value = json_object_get(body, name);
  return json_is_null(value) ? NULL : value;
}

double tn_field_number(const json_t *body, const char *name, double otherwise) {
  const json_t *value = tn_field(body, name);
  return value ? json_number_value(value) : otherwise;
}

json_int_t tn_field_integer(const json_t *body, const char *name, json_int_t otherwise) {
  const json_t *value = tn_field(body, name);
  return value ? json_integer_value(value) : otherwise;
}

bool tn_field_boolean(const json_t *body, const char *name, bool otherwise) {
  const json_t *value = tn_field(body, name);
  return value ? json_is_true(value) : otherwise;
}

const char *tn_field_text(const json_t *body, const char *name) {
  return json_string_value(tn_field(body, name));
}
