#include "engine/parts.h"

#include <stdlib.h>
#include "base/error.h"
#include "model/model.h"
#include "text/stop.h"
#include "text/tokenizer.h"

#define FUNCTION "function:"

/* ---- what the options say ---- */

static tn_status read_choice(const tn_request_options *options, tn_tool_use *use, tn_error *error) {
  const char *choice = options->tool_choice ? options->tool_choice : "auto";
  use->single_call = options->single_tool_call != 0;
  if (!strcmp(choice, "auto") || !strcmp(choice, "none")) return TN_OK;
  use->is_required = true;
  if (!strcmp(choice, "required")) return TN_OK;
  if (strncmp(choice, FUNCTION, strlen(FUNCTION)))
    return tn_fail(error, TN_E_INVALID, "tool_choice \"%.60s\": expected auto, none, required or " FUNCTION "NAME",
                   choice);
  use->only = tn_tool_list_find(use->tools, tn_text_of(choice + strlen(FUNCTION)));
  if (use->only >= 0) return TN_OK;
  return tn_fail(error, TN_E_INVALID, "tool_choice \"%.60s\": no such tool is given", choice);
}

static tn_status read_tools(const tn_request_options *options, tn_tool_use *use, tn_error *error) {
  if (!options->tools_json)
    return !options->tool_choice || !strcmp(options->tool_choice, "none") || !strcmp(options->tool_choice, "auto")
               ? TN_OK
               : tn_fail(error, TN_E_INVALID, "tool_choice is given, and no tools");
  tn_status status = tn_tool_list_create(&use->tools, options->tools_json, error);
  if (status == TN_OK) status = read_choice(options, use, error);
  if (status != TN_OK) return status;
  if (options->tool_choice && !strcmp(options->tool_choice, "none")) {
    tn_tool_list_destroy(use->tools); /* the model doesn't even see them */
    use->tools = NULL;
  } else if (tn_tool_syntax_of(use->template_source) == TN_TOOLS_NONE) {
    return tn_fail(error, TN_E_UNSUPPORTED, "tools: the model's chat template writes no calls that tenon could read");
  }
  return TN_OK;
}

tn_status tn_tool_use_init(const tn_model *model, const tn_request_options *options, tn_tool_use *use,
                           tn_error *error) {
  *use = (tn_tool_use){.only = -1};
  use->is_wanted = options->tools_json || options->tool_choice || options->split_reasoning;
  if (!use->is_wanted) return TN_OK;
  if (!options->messages_json)
    return tn_fail(error, TN_E_INVALID, "tools, and reasoning by itself, can be had with messages only");
  const tn_model_text *text = model ? tn_model_texts(model) : NULL;
  if (!text || !text->chat)
    return tn_fail(error, TN_E_UNSUPPORTED, "the model has no chat template%s%s", text ? ": " : "",
                   text ? text->no_chat.message : "");
  use->template_source = tn_chat_template_source(text->chat);
  tn_status status = read_tools(options, use, error);
  if (status != TN_OK) tn_tool_use_finish(use);
  return status;
}

void tn_tool_use_finish(tn_tool_use *use) {
  tn_tool_list_destroy(use->tools);
  *use = (tn_tool_use){0};
}

/* ---- along the answer ---- */

struct tn_parts {
  const tn_tokenizer *tokenizer;
  tn_tool_list *tools;
  tn_tool_parser *parser;
  tn_decoder decoder;
  tn_stop *stop; /* NULL: no stop strings */
  tn_buf decoded, shown;
  bool is_stopped;
  int stopped_by;    /* index of the stop string, once is_stopped */
  bool wants_pieces; /* of calls */
  tn_part_sink sink;
  void *context;
};

static bool give_content(tn_parts *parts) {
  if (!parts->shown.size) return true;
  const tn_part part = {.kind = TN_PART_CONTENT, .text = {parts->shown.data, parts->shown.size}, .id = ""};
  return parts->sink(parts->context, &part);
}

/* Content goes by way of the stop strings; before anything else what they hold back is released, for no stop string
 * runs across a call. */
static bool take_part(void *context, const tn_part *part) {
  tn_parts *parts = context;
  if (!parts->stop) return parts->sink(parts->context, part);
  tn_buf_clear(&parts->shown);
  if (part->kind == TN_PART_CONTENT) {
    parts->stopped_by = tn_stop_push(parts->stop, part->text, &parts->shown);
    parts->is_stopped = parts->stopped_by >= 0;
    return give_content(parts) && !parts->is_stopped;
  }
  tn_stop_flush(parts->stop, &parts->shown);
  tn_stop_reset(parts->stop);
  return give_content(parts) && parts->sink(parts->context, part);
}

static tn_status create_stop(tn_parts *parts, const tn_request_options *options, tn_error *error) {
  tn_text *strings = tn_calloc(options->stop_count, sizeof *strings);
  if (!strings) return tn_fail(error, TN_E_MEMORY, "no memory for %zu stop strings", options->stop_count);
  for (size_t i = 0; i < options->stop_count; i++) strings[i] = tn_text_of(options->stop[i]);
  tn_status status = tn_stop_create(&parts->stop, strings, options->stop_count, error);
  free(strings);
  return status;
}

tn_status tn_parts_create(const tn_vocabulary *vocabulary, const tn_request_options *options, tn_tool_use *use,
                          uint64_t seed, tn_part_sink sink, void *context, tn_parts **made, tn_error *error) {
  tn_parts *parts = *made = tn_calloc(1, sizeof *parts);
  if (!parts) return tn_fail(error, TN_E_MEMORY, "no memory for an answer's parts");
  parts->tokenizer = vocabulary->tokenizer;
  parts->wants_pieces = options->tool_call_deltas != 0;
  parts->sink = sink;
  parts->context = context;
  parts->tools = use->tools;
  use->tools = NULL;
  tn_decoder_init(&parts->decoder, parts->tokenizer, TN_DECODE_CONTINUES | TN_DECODE_SKIP_SPECIAL);
  const tn_tool_parser_options parser = {.template_source = use->template_source,
                                         .tokenizer = parts->tokenizer,
                                         .tools = parts->tools,
                                         .reasoning_is_open = use->opens_reasoning,
                                         .single_call = use->single_call,
                                         .id_seed = seed,
                                         .sink = take_part,
                                         .context = parts};
  tn_status status = tn_tool_parser_create(&parts->parser, &parser, error);
  if (status == TN_OK && options->stop_count) status = create_stop(parts, options, error);
  if (status == TN_OK) return TN_OK;
  tn_parts_destroy(parts);
  *made = NULL;
  return status;
}

void tn_parts_destroy(tn_parts *parts) {
  if (!parts) return;
  tn_tool_parser_destroy(parts->parser);
  tn_tool_list_destroy(parts->tools);
  tn_decoder_finish(&parts->decoder);
  tn_stop_destroy(parts->stop);
  tn_buf_finish(&parts->decoded);
  tn_buf_finish(&parts->shown);
  free(parts);
}

static bool push_decoded(tn_parts *parts) {
  return tn_tool_parser_push(parts->parser, (tn_text){parts->decoded.data, parts->decoded.size}, false);
}

static bool has_memory(const tn_parts *parts) {
  return !parts->decoded.failed && !parts->shown.failed;
}

bool tn_parts_put(tn_parts *parts, int32_t token, bool *is_over) {
  tn_buf_clear(&parts->decoded);
  bool good;
  if (tn_tokenizer_is_special(parts->tokenizer, token)) {
    good = tn_decoder_flush(&parts->decoder, &parts->decoded) && push_decoded(parts) &&
           tn_tool_parser_push(parts->parser, tn_tokenizer_token_text(parts->tokenizer, token), true);
  } else {
    good = tn_decoder_push(&parts->decoder, token, &parts->decoded) && push_decoded(parts);
  }
  *is_over = tn_tool_parser_is_over(parts->parser);
  return good && has_memory(parts);
}

bool tn_parts_end(tn_parts *parts, bool *is_over) {
  tn_buf_clear(&parts->decoded);
  bool good =
      tn_decoder_flush(&parts->decoder, &parts->decoded) && push_decoded(parts) && tn_tool_parser_end(parts->parser);
  *is_over = tn_tool_parser_is_over(parts->parser);
  if (parts->stop && !parts->is_stopped) {
    tn_buf_clear(&parts->shown);
    tn_stop_flush(parts->stop, &parts->shown);
    give_content(parts);
  }
  return good && has_memory(parts);
}

int tn_parts_stopped_by(const tn_parts *parts) {
  return parts->is_stopped ? parts->stopped_by : -1;
}

bool tn_parts_in_call(tn_parts *parts, tn_text *body) {
  return tn_tool_parser_in_call(parts->parser, body);
}

void tn_parts_hold(tn_parts *parts, bool for_good) {
  if (parts->wants_pieces) tn_tool_parser_hold(parts->parser, for_good);
}

bool tn_parts_is_reasoning(const tn_parts *parts) {
  return tn_tool_parser_is_reasoning(parts->parser);
}
