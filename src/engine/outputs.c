#include "engine/outputs.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/os.h"

typedef struct event {
  uint32_t kind;
  size_t text; /* where its text begins; behind it those of a call, name and id */
  size_t text_bytes, name_bytes;
  uint32_t tool_index;
  int32_t token;
  float logprob;
  uint32_t top_count;
} event;

struct tn_outputs {
  tn_mutex *lock;
  tn_cond *changed;
  uint32_t written, read; /* events */
  uint32_t capacity, top_capacity;
  size_t text_used, text_capacity;
  event *events;
  tn_top_logprob *tops; /* top_capacity for each event */
  char *text;           /* zero-terminated texts one behind the other */
  bool ended;
  tn_output last;
};

tn_outputs *tn_outputs_create(uint32_t events, size_t text_bytes, uint32_t top) {
  tn_outputs *outputs = calloc(1, sizeof *outputs);
  if (!outputs) return NULL;
  outputs->capacity = events;
  outputs->top_capacity = top;
  size_t event_bytes, top_bytes;
  if (!tn_add_size(text_bytes, (size_t)events + 1, &outputs->text_capacity) ||
      !tn_mul_size((size_t)events + 1, sizeof *outputs->events, &event_bytes) ||
      !tn_mul_size(((size_t)events + 1) * sizeof *outputs->tops, top, &top_bytes))
    goto fail;
  outputs->lock = tn_mutex_create();
  outputs->changed = tn_cond_create();
  /* not zeroed: most of it is never touched */
  outputs->events = malloc(event_bytes);
  outputs->tops = top ? malloc(top_bytes) : NULL;
  outputs->text = malloc(outputs->text_capacity);
  if (!outputs->lock || !outputs->changed || !outputs->events || (top && !outputs->tops) || !outputs->text) goto fail;
  return outputs;
fail:
  tn_outputs_destroy(outputs);
  return NULL;
}

void tn_outputs_destroy(tn_outputs *outputs) {
  if (!outputs) return;
  tn_cond_destroy(outputs->changed);
  tn_mutex_destroy(outputs->lock);
  free(outputs->events);
  free(outputs->tops);
  free(outputs->text);
  free(outputs);
}

static bool is_of_call(uint32_t kind) {
  return kind == TN_OUTPUT_TOOL_CALL || kind == TN_OUTPUT_TOOL_CALL_DELTA;
}

/* Bytes that the texts of an output take. */
static size_t texts_size(const tn_output *output) {
  size_t size = output->text_bytes + 1;
  if (is_of_call(output->kind)) size += strlen(output->tool_name) + strlen(output->tool_id) + 2;
  return size;
}

static void put_text(tn_outputs *outputs, const char *text, size_t bytes) {
  char *to = outputs->text + outputs->text_used;
  if (bytes) memcpy(to, text, bytes);
  to[bytes] = 0;
  outputs->text_used += bytes + 1;
}

bool tn_outputs_push(tn_outputs *outputs, const tn_output *output) {
  tn_mutex_lock(outputs->lock);
  bool fits = outputs->written < outputs->capacity && output->top_count <= outputs->top_capacity &&
              texts_size(output) <= outputs->text_capacity - outputs->text_used;
  if (fits) {
    event *next = &outputs->events[outputs->written];
    *next = (event){.kind = output->kind,
                    .text = outputs->text_used,
                    .text_bytes = output->text_bytes,
                    .tool_index = output->tool_index,
                    .token = output->token,
                    .logprob = output->logprob,
                    .top_count = output->top_count};
    put_text(outputs, output->text, output->text_bytes);
    if (is_of_call(output->kind)) {
      next->name_bytes = strlen(output->tool_name);
      put_text(outputs, output->tool_name, next->name_bytes);
      put_text(outputs, output->tool_id, strlen(output->tool_id));
    }
    if (output->top_count)
      memcpy(outputs->tops + (size_t)outputs->written * outputs->top_capacity, output->top,
             output->top_count * sizeof *output->top);
    outputs->written++;
    tn_cond_broadcast(outputs->changed);
  }
  tn_mutex_unlock(outputs->lock);
  return fits;
}

void tn_outputs_end(tn_outputs *outputs, const tn_output *output) {
  tn_mutex_lock(outputs->lock);
  if (!outputs->ended) {
    outputs->last = *output;
    outputs->ended = true;
    tn_cond_broadcast(outputs->changed);
  }
  tn_mutex_unlock(outputs->lock);
}

static tn_output read_event(const tn_outputs *outputs, uint32_t number) {
  const event *from = &outputs->events[number];
  const char *behind = outputs->text + from->text + from->text_bytes + 1;
  bool is_call = is_of_call(from->kind);
  return (tn_output){.size = sizeof(tn_output),
                     .kind = from->kind,
                     .tool_name = is_call ? behind : NULL,
                     .tool_id = is_call ? behind + from->name_bytes + 1 : NULL,
                     .tool_index = from->tool_index,
                     .text = outputs->text + from->text,
                     .text_bytes = from->text_bytes,
                     .token = from->token,
                     .logprob = from->logprob,
                     .top = from->top_count ? outputs->tops + (size_t)number * outputs->top_capacity : NULL,
                     .top_count = from->top_count};
}

tn_status tn_outputs_next(tn_outputs *outputs, tn_output *output, uint64_t deadline_ns) {
  tn_status status = TN_OK;
  tn_mutex_lock(outputs->lock);
  while (outputs->read == outputs->written && !outputs->ended && status == TN_OK) {
    if (deadline_ns != UINT64_MAX && tn_clock_ns() >= deadline_ns) {
      status = TN_E_TIMEOUT;
    } else {
      tn_cond_wait(outputs->changed, outputs->lock, deadline_ns);
    }
  }
  if (status == TN_OK)
    *output = outputs->read < outputs->written ? read_event(outputs, outputs->read++) : outputs->last;
  tn_mutex_unlock(outputs->lock);
  return status;
}
