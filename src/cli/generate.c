/* Streaming an answer to stdout (see generate.h). */
#include "cli/generate.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"

#define POLL_NS 50000000u /* how often a waiting answer looks for Ctrl-C */

#define MAX_CONSTRAINT_BYTES ((size_t)16 << 20)

/* The text of --schema or --grammar, handed to every request. */
static tn_status read_constraint(tn_generator *generator, tn_error *error) {
  const char *path = generator->schema_file ? generator->schema_file : generator->grammar_file;
  size_t size;
  if (generator->schema_file && generator->grammar_file)
    return tn_fail(error, TN_E_INVALID, "--schema and --grammar are both given; an answer is held to one of them");
  tn_status status = TN_OK;
  if (generator->tools_file)
    status = tn_file_read(generator->tools_file, MAX_CONSTRAINT_BYTES, &generator->tools, &size, error);
  if (!path || status != TN_OK) return status;
  status = tn_file_read(path, MAX_CONSTRAINT_BYTES, &generator->constraint, &size, error);
  if (status != TN_OK) return status;
  if (generator->schema_file)
    generator->request.json_schema = generator->constraint;
  else
    generator->request.grammar = generator->constraint;
  return TN_OK;
}

/* What is wrong with a file's text is told with the file's name instead of the option's. */
static void name_constraint(const tn_generator *generator, tn_error *error) {
  static const char *const options[] = {"json_schema: ", "grammar: ", "tools: "};
  const char *const files[] = {generator->schema_file, generator->grammar_file, generator->tools_file};
  for (size_t i = 0; i < 3; i++) {
    size_t bytes = strlen(options[i]);
    if (!files[i] || strncmp(error->message, options[i], bytes)) continue;
    tn_error named = {.status = error->status};
    snprintf(named.message, sizeof named.message, "%s: %s", files[i], error->message + bytes);
    *error = named;
    return;
  }
}

tn_status tn_generator_open(tn_generator *generator, const char *path, tn_error *error) {
  generator->engine_options.max_sequences = 1;
  tn_status status = read_constraint(generator, error);
  if (status == TN_OK) status = tn_cli_read_draft_k(generator->draft_k, &generator->engine_options.draft_k, error);
  if (status == TN_OK) status = tn_model_open(path, &generator->model, error);
  if (status == TN_OK)
    status = tn_engine_create(generator->model, &generator->engine_options, &generator->engine, error);
  return status;
}

void tn_generator_close(tn_generator *generator) {
  tn_request_destroy(generator->last);
  tn_engine_destroy(generator->engine);
  tn_model_close(generator->model);
  free(generator->constraint);
  free(generator->tools);
  json_decref(generator->calls);
}

static double per_second(uint32_t count, uint64_t ns) {
  return ns ? count * 1e9 / (double)ns : 0;
}

static void print_drafts(tn_engine *engine) {
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(engine, &info);
  if (!info.drafted_tokens) return;
  fprintf(stderr, "drafts: %llu of %llu accepted, %.2f a step; by position:", (unsigned long long)info.accepted_tokens,
          (unsigned long long)info.drafted_tokens, (double)info.accepted_tokens / (double)info.draft_steps);
  for (uint32_t i = 0; i < TN_DRAFT_POSITIONS && info.drafted_at[i]; i++)
    fprintf(stderr, " %.0f %%", 100.0 * (double)info.accepted_at[i] / (double)info.drafted_at[i]);
  fputc('\n', stderr);
}

static void print_stats(const tn_output *done) {
  uint32_t computed = done->prompt_tokens - done->cached_tokens,
           decoded = done->completion_tokens ? done->completion_tokens - 1 : 0;
  fprintf(stderr, "prompt: %u tokens (%u cached), %.1f ms, %.1f tokens/s\n", done->prompt_tokens, done->cached_tokens,
          (double)done->prefill_ns / 1e6, per_second(computed, done->prefill_ns));
  fprintf(stderr, "answer: %u tokens, %.1f ms, %.1f tokens/s\n", done->completion_tokens, (double)done->decode_ns / 1e6,
          per_second(decoded, done->decode_ns));
}

/* Where the writing of an answer stands. */
typedef struct writer {
  tn_buf text;       /* the answer's own */
  json_t *calls;     /* borrowed */
  bool in_reasoning; /* the last thing written */
  bool in_line;      /* stdout's last line isn't complete */
  bool writable;     /* stdout */
} writer;

static void write_out(writer *w, const char *text, size_t bytes) {
  if (!w->writable || !bytes) return;
  w->writable = fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
  w->in_line = text[bytes - 1] != '\n';
}

static void end_reasoning(writer *w) {
  if (w->in_reasoning) fputs(tn_is_terminal(2) ? "\033[0m\n" : "\n", stderr);
  w->in_reasoning = false;
}

static void write_reasoning(writer *w, const tn_output *output) {
  if (!output->text_bytes) return;
  if (!w->in_reasoning && tn_is_terminal(2)) fputs("\033[2m", stderr);
  w->in_reasoning = true;
  fwrite(output->text, 1, output->text_bytes, stderr);
}

/* A call's arguments. Numbers beyond 64 bits become floats; those beyond a float leave the arguments a text. */
static json_t *arguments_json(const tn_output *output) {
  json_t *arguments = json_loadb(output->text, output->text_bytes, JSON_ALLOW_NUL, NULL);
  if (!arguments)
    arguments = json_loadb(output->text, output->text_bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  return arguments ? arguments : json_stringn(output->text, output->text_bytes);
}

/* {"tool_call": {"id": ..., "name": ..., "arguments": {...}}} in a line of its own. */
static void write_call(writer *w, const tn_output *output) {
  json_t *call = json_pack("{s:s, s:s, s:o?}", "id", output->tool_id, "name", output->tool_name, "arguments",
                           arguments_json(output));
  json_t *line = json_pack("{s:O?}", "tool_call", call);
  char *text = line ? json_dumps(line, 0) : NULL;
  if (w->in_line) write_out(w, "\n", 1);
  if (text) {
    write_out(w, text, strlen(text));
    write_out(w, "\n", 1);
  }
  json_array_append_new(w->calls, call);
  json_decref(line);
  free(text);
}

static void write_output(writer *w, const tn_output *output) {
  if (output->kind == TN_OUTPUT_REASONING) {
    write_reasoning(w, output);
    return;
  }
  if (output->kind != TN_OUTPUT_TEXT || output->text_bytes) end_reasoning(w);
  if (output->kind == TN_OUTPUT_TOOL_CALL) {
    write_call(w, output);
  } else {
    write_out(w, output->text, output->text_bytes);
    tn_buf_append(&w->text, output->text, output->text_bytes);
  }
}

/* Takes outputs until the last one. false when stdout can't be written any more; the request is then cancelled. */
static bool stream(tn_request *request, tn_output *output, writer *w) {
  unsigned interrupts = tn_interrupts();
  for (;;) {
    tn_status status = tn_request_next(request, output, POLL_NS);
    if (tn_interrupts() != interrupts) tn_request_cancel(request);
    if (status == TN_E_TIMEOUT) continue;
    if (output->kind == TN_OUTPUT_DONE || output->kind == TN_OUTPUT_ERROR) break;
    write_output(w, output);
    if (!w->writable) tn_request_cancel(request);
  }
  end_reasoning(w);
  return w->writable;
}

tn_answer_end tn_generator_answer(tn_generator *generator, tn_request_options *options, char **text, tn_error *error) {
  tn_request *request;
  tn_output output = {.size = sizeof output};
  if (text) *text = NULL;
  if (generator->max_tokens == 0) {
    tn_fail(error, TN_E_INVALID, "max-tokens: 0 given, expected at least 1");
    return TN_ANSWER_FAILED;
  }
  options->max_tokens = generator->max_tokens == UINT32_MAX ? 0 : generator->max_tokens;
  if (options->messages_json) options->split_reasoning = 1;
  options->tools_json = generator->tools;
  options->stop = generator->stop.items;
  options->stop_count = generator->stop.count;
  const tn_cli_texts *breakers = &generator->breakers;
  if (breakers->count) options->dry_sequence_breakers = breakers->items;
  bool none = breakers->count == 1 && !strcmp(breakers->items[0], "none");
  options->dry_sequence_breaker_count = none ? 0 : breakers->count;
  if (tn_engine_submit(generator->engine, options, &request, error) != TN_OK) {
    name_constraint(generator, error);
    return TN_ANSWER_FAILED;
  }
  json_decref(generator->calls);
  generator->calls = json_array();
  writer w = {.calls = generator->calls, .in_line = true, .writable = true};
  tn_buf_init(&w.text);
  bool written = stream(request, &output, &w);
  tn_answer_end end = TN_ANSWER_DONE;
  if (!written) {
    tn_fail(error, TN_E_IO, "cannot write to stdout: %s", strerror(errno));
    end = TN_ANSWER_FAILED;
  } else if (output.kind == TN_OUTPUT_ERROR) {
    *error = output.error;
    end = TN_ANSWER_FAILED;
  } else {
    if (output.finish == TN_FINISH_CANCELLED) end = TN_ANSWER_INTERRUPTED;
    if (w.in_line) putchar('\n');
    fflush(stdout);
    if (output.finish == TN_FINISH_LENGTH && generator->constraint)
      fprintf(stderr, "tenon: the answer is not complete: it ended after %u tokens, by length\n",
              output.completion_tokens);
    if (generator->stats) {
      print_stats(&output);
      print_drafts(generator->engine);
    }
  }
  tn_request_destroy(generator->last);
  generator->last = request;
  if (text) *text = tn_buf_take(&w.text);
  tn_buf_finish(&w.text);
  return end;
}
