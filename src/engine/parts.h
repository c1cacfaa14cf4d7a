/* Answers taken apart: what `answer` is to plain text, for requests that want reasoning and calls of tools by
 * themselves (text/tools/tools.h). Half characters and possible markers are held back; stop strings are looked for in
 * content alone. Unlike a plain answer it may allocate along the way. */
#ifndef TENON_ENGINE_PARTS_H
#define TENON_ENGINE_PARTS_H

#include "engine/answer.h"
#include "tenon/tenon.h"
#include "text/tools/tools.h"

/* How a request wants its answer taken apart, read from its options. */
typedef struct tn_tool_use {
  bool is_wanted;              /* at all */
  tn_tool_list *tools;         /* on offer; NULL: none, or they may not be called */
  const char *template_source; /* the model's */
  bool is_required;            /* the answer must be a call */
  int only;                    /* of this tool; -1: of any */
  bool single_call;
  bool opens_reasoning; /* the prompt does */
} tn_tool_use;

/* Reads tools_json, tool_choice, single_tool_call and split_reasoning. TN_E_INVALID: faulty tools, a choice that isn't
 * there, or one of these without messages; TN_E_UNSUPPORTED: a template that writes no calls that we could read. */
tn_status tn_tool_use_init(const tn_model *model, const tn_request_options *options, tn_tool_use *use, tn_error *error);
void tn_tool_use_finish(tn_tool_use *use);

typedef struct tn_parts tn_parts;

/* Takes the tools out of `use`. `seed` tells the ids of calls of one answer from another's. */
tn_status tn_parts_create(const tn_vocabulary *vocabulary, const tn_request_options *options, tn_tool_use *use,
                          uint64_t seed, tn_part_sink sink, void *context, tn_parts **parts, tn_error *error);
void tn_parts_destroy(tn_parts *parts);

/* The next token, which doesn't end the answer. *is_over: the answer ends here, by a stop string or after the one call
 * that was wanted. False when memory is out. */
bool tn_parts_put(tn_parts *parts, int32_t token, bool *is_over);
/* Gives out what is still held back. *is_over: a stop string is complete even now. False when memory is out. */
bool tn_parts_end(tn_parts *parts, bool *is_over);
/* The index of the stop string that is complete; -1: none is. */
int tn_parts_stopped_by(const tn_parts *parts);
/* Inside a call: true, and what its grammar begins with (tn_tool_parser_in_call). */
bool tn_parts_in_call(tn_parts *parts, tn_text *body);
/* tn_tool_parser_hold, where the request wants pieces of calls. */
void tn_parts_hold(tn_parts *parts, bool for_good);
/* The answer so far ends inside reasoning. */
bool tn_parts_is_reasoning(const tn_parts *parts);

#endif
