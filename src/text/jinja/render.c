/* Compiling and rendering: where the library is entered and left. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "text/jinja/parser.h"
#include "text/jinja/text.h"

/* Fills `error` from the state: "line L, column C: message". */
static tn_status report(const tnj_state *s, tnj_value source, tn_error *error) {
  size_t line, column;
  tnj_place(source, s->offset, &line, &column);
  return tn_fail(error, s->status, "line %zu, column %zu: %s", line, column, s->message.data ? s->message.data : "");
}

tn_status tn_jinja_compile(const char *source, size_t size, const tn_jinja_limits *limits, tn_jinja_template **out,
                           tn_error *error) {
  tnj_state s;
  *out = NULL;
  tnj_state_init(&s, limits);
  if (size > s.limits.source_bytes)
    return tn_fail(error, TN_E_LIMIT, "the template has %zu bytes, more than the %zu allowed", size,
                   s.limits.source_bytes);
  tn_jinja_template *volatile jinja = tn_calloc(1, sizeof **out);
  if (!jinja) return tn_fail(error, TN_E_MEMORY, "out of memory for a template");
  s.limits.depth = s.limits.nesting * 3; /* an expression takes up to three levels of the parser */
  tnj_value *volatile normalized = &((tn_jinja_template *)jinja)->source;
  jmp_buf here;
  s.escape = &here;
  if (setjmp(here)) {
    tnj_value empty = {.kind = TNJ_STRING, .string = &(tnj_string){.buffer = &(tnj_buffer){.data = ""}}};
    tn_status status = report(&s, normalized->kind == TNJ_STRING ? *normalized : empty, error);
    free(jinja);
    tnj_state_finish(&s);
    return status;
  }
  *normalized = tnj_normalize_source(&s, source, size);
  jinja->body = tnj_parse(&s, *normalized);
  jinja->arena = s.arena;
  tn_buf_finish(&s.message);
  *out = jinja;
  return TN_OK;
}

void tn_jinja_template_destroy(tn_jinja_template *jinja) {
  if (!jinja) return;
  tn_arena_finish(&jinja->arena);
  free(jinja);
}

static void add_span(tnj_state *s, tn_jinja_output *output, size_t *capacity, size_t offset, size_t size,
                     bool trusted) {
  tn_jinja_span *span = TN_PUSH(output->spans, output->span_count, *capacity);
  if (!span) tnj_fail(s, TN_E_MEMORY, "out of memory for %zu spans", output->span_count);
  *span = (tn_jinja_span){offset, size, trusted};
}

static void take_output(tnj_state *s, tn_jinja_output *output) {
  tnj_value text = tnj_buffer_string(s, s->out);
  size_t capacity = 0;
  for (size_t at = 0, end; at < tnj_size(text); at = end) {
    bool trusted = tnj_trusted_until(text, at, &end);
    add_span(s, output, &capacity, at, end - at, trusted);
  }
  output->text = tn_copy_text(tnj_data(text), tnj_size(text));
  if (!output->text) tnj_fail(s, TN_E_MEMORY, "out of memory for %zu bytes of output", tnj_size(text));
  output->size = tnj_size(text);
}

static tn_status take_failure(tnj_state *s, tnj_value source, tn_jinja_output *output, tn_error *error) {
  tn_status status = report(s, source, error);
  size_t line, column;
  tn_buf failure;
  tn_jinja_output_finish(output);
  tnj_place(source, s->offset, &line, &column);
  tn_buf_init(&failure);
  tn_buf_printf(&failure, "line %zu, column %zu: ", line, column);
  tn_buf_append(&failure, s->message.data, s->message.size);
  output->failure_size = failure.size;
  output->failure = tn_buf_take(&failure);
  if (s->raised) {
    output->raised_size = s->message.size;
    output->raised = tn_copy_text(s->message.data, s->message.size);
  }
  tn_buf_finish(&failure);
  return status;
}

tn_status tn_jinja_render(const tn_jinja_template *jinja, const tn_jinja_value *context,
                          const tn_jinja_options *options, tn_jinja_output *output, tn_error *error) {
  tnj_state s;
  volatile tn_status status = TN_OK;
  *output = (tn_jinja_output){0};
  if (!context || context->kind != TNJ_DICT)
    return tn_fail(error, TN_E_INVALID, "the template's context isn't an object");
  tnj_state_init(&s, options ? &options->limits : NULL);
  s.context = context->dict;
  s.now = options ? options->now : NULL;
  jmp_buf here;
  s.escape = &here;
  if (setjmp(here)) {
    status = take_failure(&s, jinja->source, output, error);
  } else {
    s.out = tnj_buffer_new(&s, 4096);
    s.root = tnj_frame_for(&s, NULL, jinja->body);
    tnj_execute(&s, s.root, jinja->body);
    take_output(&s, output);
  }
  tnj_state_finish(&s);
  return status;
}

void tn_jinja_output_finish(tn_jinja_output *output) {
  free(output->text);
  free(output->spans);
  free(output->failure);
  free(output->raised);
  *output = (tn_jinja_output){0};
}
