/* Sending requests and timing their answers (see bench_load.h). */
#include "tools/bench_load.h"

#include <curl/curl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/socket.h"

#define MAX_LINE ((size_t)16 << 20) /* of an event */
#define MAX_REPLY ((size_t)1 << 20) /* of an error, or of the list of models */
#define ARRIVALS (UINT64_MAX - 2)   /* stream of draws that no prompt uses */
#define PROGRESS_NS 200000000u

/* One connection's worth of a request on its way. */
typedef struct transfer {
  CURL *easy;
  struct curl_slist *headers;
  tn_bench_record *record; /* NULL: free for the next */
  char *body;
  tn_buf line, reply; /* the unfinished line of a stream; the answer of a status other than 200 */
  char fault[CURL_ERROR_SIZE];
} transfer;

typedef struct load_run {
  const tn_bench_target *target;
  const tn_bench_prompts *prompts;
  tn_bench_point *point;
  CURLM *multi;
  char *url;
  transfer *transfers;
  size_t transfer_count, next, active, done, failed;
  uint64_t *due; /* when each request begins, ns after the point's begin; NULL without a rate */
  uint64_t output_tokens;
} load_run;

tn_status tn_bench_load_begin(tn_error *error) {
  tn_descriptors_raise_limit();
  return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
             ? TN_OK
             : tn_fail(error, TN_E_INTERNAL, "the HTTP library did not start");
}

void tn_bench_load_finish(void) {
  curl_global_cleanup();
}

/* ---- events ---- */

static bool has_text(const json_t *object, const char *key) {
  return json_string_length(json_object_get(object, key)) > 0;
}

/* Whether a choice brings a part of the answer: text, reasoning, or a tool call. */
static bool has_part(const json_t *choice) {
  const json_t *delta = json_object_get(choice, "delta");
  return has_text(choice, "text") || has_text(delta, "content") || has_text(delta, "reasoning_content") ||
         has_text(delta, "reasoning") || json_array_size(json_object_get(delta, "tool_calls")) > 0;
}

static void set_error(tn_bench_record *record, const char *words) {
  if (!*record->error) snprintf(record->error, sizeof record->error, "%.*s", (int)sizeof record->error - 1, words);
}

/* The message of {"error": ...}, as far as there is one. */
static const char *error_message(const json_t *json) {
  const json_t *error = json_object_get(json, "error");
  const char *message = json_string_value(json_is_object(error) ? json_object_get(error, "message") : error);
  return message ? message : "an error without a message";
}

static void take_usage(tn_bench_record *record, const json_t *usage) {
  if (!json_is_object(usage)) return;
  const json_t *details = json_object_get(usage, "prompt_tokens_details");
  record->has_usage = true;
  record->prompt_tokens = (uint32_t)json_integer_value(json_object_get(usage, "prompt_tokens"));
  record->output_tokens = (uint32_t)json_integer_value(json_object_get(usage, "completion_tokens"));
  record->cached_tokens = (uint32_t)json_integer_value(json_object_get(details, "cached_tokens"));
}

static void take_event(tn_bench_record *record, const char *text, size_t bytes, uint64_t now) {
  json_t *json = json_loadb(text, bytes, 0, NULL);
  if (!json) {
    set_error(record, "an event that is not JSON");
    return;
  }
  if (json_object_get(json, "error")) set_error(record, error_message(json));
  take_usage(record, json_object_get(json, "usage"));
  const json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
  if (has_part(choice)) {
    uint64_t *slot = TN_PUSH(record->deltas, record->delta_count, record->delta_capacity);
    if (slot)
      *slot = now;
    else
      set_error(record, "no memory for the answer");
  }
  json_decref(json);
}

static void take_line(transfer *at, const char *line, size_t bytes, uint64_t now) {
  if (bytes && line[bytes - 1] == '\r') bytes--;
  if (bytes < 5 || memcmp(line, "data:", 5)) return; /* comments, names of events, ends of events */
  line += 5;
  bytes -= 5;
  if (bytes && *line == ' ') line++, bytes--;
  if (bytes == 6 && !memcmp(line, "[DONE]", 6)) return;
  take_event(at->record, line, bytes, now);
}

/* What came of a stream: whole lines are taken, the rest waits for more. */
static bool take_stream(transfer *at, const char *data, size_t bytes, uint64_t now) {
  const char *end;
  while ((end = memchr(data, '\n', bytes))) {
    size_t piece = (size_t)(end - data);
    if (!at->line.size) {
      take_line(at, data, piece, now);
    } else if (tn_buf_append(&at->line, data, piece)) {
      take_line(at, at->line.data, at->line.size, now);
      tn_buf_clear(&at->line);
    }
    data += piece + 1;
    bytes -= piece + 1;
  }
  tn_buf_append(&at->line, data, bytes);
  return !at->line.failed;
}

static size_t on_data(char *data, size_t size, size_t count, void *context) {
  transfer *at = context;
  uint64_t now = tn_clock_ns();
  long status = 0;
  curl_easy_getinfo(at->easy, CURLINFO_RESPONSE_CODE, &status);
  bool ok = status == 200 ? take_stream(at, data, size * count, now) : tn_buf_append(&at->reply, data, size * count);
  return ok ? count : 0;
}

/* ---- one request ---- */

/* The prompt of an endpoint without messages: the only message's text. */
static json_t *prompt_of(const json_t *messages) {
  json_t *content = json_object_get(json_array_get(messages, 0), "content");
  return json_array_size(messages) == 1 && json_is_string(content) ? json_incref(content) : NULL;
}

static char *make_body(const load_run *load, size_t number, tn_bench_record *record, tn_error *error) {
  const tn_bench_target *target = load->target;
  json_t *messages = tn_bench_prompts_get(load->prompts, load->point->first + number, &record->wanted);
  json_t *prompt = messages && !target->is_chat ? prompt_of(messages) : json_incref(messages);
  if (messages && !prompt)
    tn_fail(error, TN_E_INVALID, "--endpoint completions takes prompts, and the data has messages");
  else if (!messages)
    tn_fail(error, TN_E_MEMORY, "no memory for the prompts");
  json_decref(messages);
  if (!prompt) return NULL;
  json_t *body =
      json_pack("{s:s, s:o, s:I, s:f, s:b, s:{s:b}}", "model", target->model, target->is_chat ? "messages" : "prompt",
                prompt, "max_tokens", (json_int_t)record->wanted, "temperature", (double)target->temperature, "stream",
                1, "stream_options", "include_usage", 1);
  if (target->ignore_eos) json_object_set_new(body, "ignore_eos", json_true());
  if (target->extra) json_object_update(body, (json_t *)target->extra);
  char *text = json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(9));
  if (!text) tn_fail(error, TN_E_MEMORY, "no memory for a request");
  json_decref(body);
  return text;
}

static struct curl_slist *make_headers(const tn_bench_target *target) {
  struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
  list = curl_slist_append(list, "Expect:"); /* bodies are sent without asking first */
  if (target->key) {
    tn_buf line;
    tn_buf_init(&line);
    tn_buf_printf(&line, "Authorization: Bearer %s", target->key);
    list = curl_slist_append(list, line.data);
    tn_buf_finish(&line);
  }
  return list;
}

static void set_options(CURL *easy, const tn_bench_target *target, const char *url, struct curl_slist *headers,
                        char *fault) {
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)target->timeout_seconds);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fault);
}

/* Sends the next request on a free transfer. */
static tn_status start(load_run *load, tn_error *error) {
  transfer *at = load->transfers;
  while (at->record) at++;
  tn_bench_record *record = load->point->records + load->next;
  char *body = make_body(load, load->next, record, error);
  if (!body) return error->status;
  if (!at->easy) {
    at->easy = curl_easy_init();
    at->headers = make_headers(load->target);
    if (!at->easy || !at->headers) {
      free(body);
      return tn_fail(error, TN_E_MEMORY, "no memory for a connection");
    }
    set_options(at->easy, load->target, load->url, at->headers, at->fault);
    curl_easy_setopt(at->easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(at->easy, CURLOPT_WRITEDATA, at);
    curl_easy_setopt(at->easy, CURLOPT_PRIVATE, at);
  }
  at->record = record;
  at->body = body;
  *at->fault = 0;
  curl_easy_setopt(at->easy, CURLOPT_POSTFIELDS, body);
  record->is_sent = true;
  record->sent = tn_clock_ns();
  load->next++;
  load->active++;
  return curl_multi_add_handle(load->multi, at->easy) == CURLM_OK
             ? TN_OK
             : tn_fail(error, TN_E_MEMORY, "no memory for a connection");
}

static void explain_status(transfer *at, long status) {
  json_t *json = at->reply.size ? json_loadb(at->reply.data, at->reply.size, 0, NULL) : NULL;
  char words[160];
  snprintf(words, sizeof words, "status %ld: %.140s", status, json ? error_message(json) : "no JSON");
  set_error(at->record, words);
  json_decref(json);
}

/* A transfer has ended, well or not; it is free for the next. */
static void end(load_run *load, transfer *at, CURLcode code) {
  tn_bench_record *record = at->record;
  long status = 0;
  curl_easy_getinfo(at->easy, CURLINFO_RESPONSE_CODE, &status);
  record->end = tn_clock_ns();
  if (code != CURLE_OK)
    set_error(record, *at->fault ? at->fault : curl_easy_strerror(code));
  else if (status != 200)
    explain_status(at, status);
  else if (!record->delta_count)
    set_error(record, "an answer without text");
  record->is_done = true;
  record->is_good = !*record->error;
  if (!record->has_usage) record->output_tokens = (uint32_t)record->delta_count;
  load->output_tokens += record->output_tokens;
  load->failed += !record->is_good;
  load->done++;
  load->active--;
  curl_multi_remove_handle(load->multi, at->easy);
  free(at->body);
  at->body = NULL;
  at->record = NULL;
  tn_buf_clear(&at->line);
  tn_buf_clear(&at->reply);
}

/* ---- a point ---- */

/* Times between arrivals of a Poisson process are exponentially distributed. */
static bool draw_arrivals(load_run *load) {
  const tn_bench_point *point = load->point;
  double at = 0;
  if (point->rate <= 0) return true;
  load->due = tn_calloc(point->count, sizeof *load->due);
  for (size_t i = 0; load->due && i < point->count; i++) {
    double uniform = (double)(tn_bench_prompts_draw(point->seed, ARRIVALS, i, UINT64_C(1) << 53) + 1) * 0x1p-53;
    load->due[i] = (uint64_t)(at * 1e9);
    at += -log(uniform) / point->rate;
  }
  return load->due != NULL;
}

/* Starts all whose time has come; *wait_ms is when the next one's comes, at most 100. */
static tn_status start_due(load_run *load, int *wait_ms, tn_error *error) {
  const tn_bench_point *point = load->point;
  tn_status status = TN_OK;
  *wait_ms = 100;
  while (status == TN_OK && load->next < point->count && load->active < load->transfer_count) {
    uint64_t due = point->begin + (load->due ? load->due[load->next] : 0), now = tn_clock_ns();
    if (now < due) {
      uint64_t wait = (due - now) / 1000000;
      if (wait < (uint64_t)*wait_ms) *wait_ms = (int)wait;
      return TN_OK;
    }
    status = start(load, error);
  }
  return status;
}

static void take_ended(load_run *load) {
  const CURLMsg *message;
  int left;
  while ((message = curl_multi_info_read(load->multi, &left))) {
    CURLcode code = message->data.result; /* the message doesn't outlive its transfer's removal */
    transfer *at = NULL;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&at);
    end(load, at, code);
  }
}

static tn_status run(load_run *load, tn_bench_progress progress, void *context, tn_error *error) {
  tn_bench_point *point = load->point;
  tn_status status = TN_OK;
  uint64_t told = 0;
  point->begin = tn_clock_ns();
  while (load->done < point->count && status == TN_OK && !tn_interrupts()) {
    int wait_ms = 0, running;
    status = start_due(load, &wait_ms, error);
    if (status == TN_OK && curl_multi_perform(load->multi, &running) != CURLM_OK)
      status = tn_fail(error, TN_E_INTERNAL, "the HTTP library failed");
    size_t before = load->done;
    take_ended(load);
    if (progress && tn_clock_ns() - told > PROGRESS_NS) {
      told = tn_clock_ns();
      progress(context, point, load->done, load->failed, load->output_tokens);
    }
    if (status == TN_OK && load->done == before) curl_multi_poll(load->multi, NULL, 0, wait_ms, NULL);
  }
  point->end = tn_clock_ns();
  point->is_complete = load->done == point->count;
  return status;
}

static void finish(load_run *load) {
  for (size_t i = 0; load->transfers && i < load->transfer_count; i++) {
    transfer *at = load->transfers + i;
    if (at->record && at->easy) curl_multi_remove_handle(load->multi, at->easy);
    curl_easy_cleanup(at->easy);
    curl_slist_free_all(at->headers);
    free(at->body);
    tn_buf_finish(&at->line);
    tn_buf_finish(&at->reply);
  }
  curl_multi_cleanup(load->multi);
  free(load->transfers);
  free(load->url);
  free(load->due);
}

tn_status tn_bench_load_run(const tn_bench_target *target, const tn_bench_prompts *prompts, tn_bench_point *point,
                            tn_bench_progress progress, void *context, tn_error *error) {
  load_run load = {.target = target, .prompts = prompts, .point = point, .multi = curl_multi_init()};
  tn_buf url;
  tn_buf_init(&url);
  tn_buf_printf(&url, "%s/%s", target->base, target->is_chat ? "chat/completions" : "completions");
  load.url = tn_buf_take(&url);
  load.transfer_count = point->concurrency && point->concurrency < point->count ? point->concurrency : point->count;
  load.transfers = tn_calloc(load.transfer_count, sizeof *load.transfers);
  for (size_t i = 0; load.transfers && i < load.transfer_count; i++) {
    tn_buf_init(&load.transfers[i].line);
    tn_buf_init(&load.transfers[i].reply);
    load.transfers[i].line.limit = MAX_LINE;
    load.transfers[i].reply.limit = MAX_REPLY;
  }
  tn_status status = TN_OK;
  if (!load.multi || !load.url || !load.transfers || !draw_arrivals(&load))
    status = tn_fail(error, TN_E_MEMORY, "no memory for %zu requests", point->count);
  if (status == TN_OK) {
    curl_multi_setopt(load.multi, CURLMOPT_MAXCONNECTS, (long)load.transfer_count);
    status = run(&load, progress, context, error);
  }
  finish(&load);
  return status;
}

void tn_bench_point_finish(tn_bench_point *point) {
  for (size_t i = 0; point->records && i < point->count; i++) free(point->records[i].deltas);
  free(point->records);
  point->records = NULL;
}

/* ---- who is there ---- */

static size_t on_reply(char *data, size_t size, size_t count, void *context) {
  return tn_buf_append(context, data, size * count) ? count : 0;
}

/* The first model's name from GET base/models. */
static tn_status ask_model(tn_bench_target *target, tn_error *error) {
  char fault[CURL_ERROR_SIZE] = "";
  long status = 0;
  tn_buf url, reply;
  tn_buf_init(&url);
  tn_buf_init(&reply);
  reply.limit = MAX_REPLY;
  tn_buf_printf(&url, "%s/models", target->base);
  CURL *easy = curl_easy_init();
  struct curl_slist *headers = make_headers(target);
  if (!easy || !headers || url.failed) {
    tn_fail(error, TN_E_MEMORY, "no memory for a connection");
  } else {
    set_options(easy, target, url.data, headers, fault);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_reply);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &reply);
    CURLcode code = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    json_t *json = reply.size ? json_loadb(reply.data, reply.size, 0, NULL) : NULL;
    const json_t *first = json_array_get(json_object_get(json, "data"), 0);
    const char *name = json_string_value(json_object_get(first, "id"));
    if (code != CURLE_OK)
      tn_fail(error, TN_E_IO, "%s: %s", url.data, *fault ? fault : curl_easy_strerror(code));
    else if (status != 200)
      tn_fail(error, TN_E_FORMAT, "%s: status %ld: %.160s", url.data, status, json ? error_message(json) : "no JSON");
    else if (!name)
      tn_fail(error, TN_E_FORMAT, "%s: no model in the answer; name one with --model", url.data);
    else if (!(target->model = tn_copy_text(name, strlen(name))))
      tn_fail(error, TN_E_MEMORY, "out of memory");
    json_decref(json);
  }
  curl_easy_cleanup(easy);
  curl_slist_free_all(headers);
  tn_buf_finish(&url);
  tn_buf_finish(&reply);
  return target->model ? TN_OK : error->status;
}

tn_status tn_bench_load_find(tn_bench_target *target, const char *url, const char *model, tn_error *error) {
  size_t bytes = strlen(url);
  tn_buf base;
  if (strncmp(url, "http://", 7) && strncmp(url, "https://", 8))
    return tn_fail(error, TN_E_INVALID, "--url: \"%.80s\" given, expected http://HOST:PORT", url);
  while (bytes && url[bytes - 1] == '/') bytes--;
  bool has_version = bytes > 3 && !strncmp(url + bytes - 3, "/v1", 3);
  tn_buf_init(&base);
  tn_buf_append(&base, url, bytes);
  if (!has_version) tn_buf_puts(&base, "/v1");
  target->base = tn_buf_take(&base);
  if (!target->base) return tn_fail(error, TN_E_MEMORY, "out of memory");
  if (!model) return ask_model(target, error);
  target->model = tn_copy_text(model, strlen(model));
  return target->model ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
}
