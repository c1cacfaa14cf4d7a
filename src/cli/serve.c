/* tenon serve: a model over HTTP. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/draft.h"
#include "cli/options.h"
#include "server/server.h"

#define MAX_KEY_FILE_BYTES ((size_t)1 << 20)

typedef struct serve_command {
  tn_server_options server;
  tn_engine_options engine;
  uint32_t port;
  const char *key, *key_file, *listen, *certificate_file, *private_key_file, *draft_k;
  const char *cache_file;
  uint32_t kv_mib;
  bool fields;
  char *key_text; /* of key_file */
  char *certificate, *private_key;
  const char **keys;
  size_t key_count, key_capacity;
} serve_command;

static tn_status add_key(serve_command *serve, const char *key, tn_error *error) {
  const char **slot = TN_PUSH(serve->keys, serve->key_count, serve->key_capacity);
  if (!slot) return tn_fail(error, TN_E_MEMORY, "no memory for the API keys");
  *slot = key;
  return TN_OK;
}

/* The keys of a file's lines, without the blanks around them; a line that begins with # is a comment. */
static tn_status add_keys(serve_command *serve, char *text, tn_error *error) {
  tn_status status = TN_OK;
  char *line;
  while (status == TN_OK && (line = strtok_r(text, "\r\n", &text))) {
    char *key = line + strspn(line, " \t"), *end = key + strlen(key);
    while (end > key && (end[-1] == ' ' || end[-1] == '\t')) *--end = 0;
    if (!*key || *key == '#') continue;
    bool is_key = !strpbrk(key, " \t");
    status = is_key ? add_key(serve, key, error)
                    : tn_fail(error, TN_E_FORMAT, "%s: a key with blanks in it; expected one a line", serve->key_file);
  }
  return status;
}

/* The keys of --api-key and of the lines of --api-key-file. */
static tn_status read_keys(serve_command *serve, tn_error *error) {
  size_t size;
  tn_status status = TN_OK;
  if (serve->key && !*serve->key) return tn_fail(error, TN_E_INVALID, "--api-key: the key is empty");
  if (serve->key) status = add_key(serve, serve->key, error);
  if (status == TN_OK && serve->key_file) {
    status = tn_file_read(serve->key_file, MAX_KEY_FILE_BYTES, &serve->key_text, &size, error);
    if (status == TN_OK) status = add_keys(serve, serve->key_text, error);
    if (status == TN_OK && !serve->key_count)
      status = tn_fail(error, TN_E_FORMAT, "%s: expected one key a line, found none", serve->key_file);
  }
  serve->server.keys = serve->keys;
  serve->server.key_count = serve->key_count;
  return status;
}

/* --listen, and the files of TLS. */
static tn_status read_address(serve_command *serve, tn_error *error) {
  size_t size;
  tn_status status = TN_OK;
  if (serve->listen) {
    if (strncmp(serve->listen, "unix:", 5) != 0)
      return tn_fail(error, TN_E_INVALID, "--listen: expected unix:PATH, got \"%s\"", serve->listen);
    serve->server.unix_path = serve->listen + 5;
  }
  if (!serve->certificate_file != !serve->private_key_file)
    return tn_fail(error, TN_E_INVALID, "--tls-cert and --tls-key are given together or not at all");
  if (!serve->certificate_file) return TN_OK;
  status = tn_file_read(serve->certificate_file, MAX_KEY_FILE_BYTES, &serve->certificate, &size, error);
  if (status == TN_OK)
    status = tn_file_read(serve->private_key_file, MAX_KEY_FILE_BYTES, &serve->private_key, &size, error);
  serve->server.certificate = serve->certificate;
  serve->server.private_key = serve->private_key;
  return status;
}

/* The file's or folder's own name, for a model that has none. */
static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* What the prefix cache held when the server ended. A file that can't be used is said so, and written anew at the end;
 * but one that is no saved cache is an error, as it is somebody's. */
static tn_status load_cache(const serve_command *serve, tn_engine *engine, tn_error *error) {
  if (!serve->cache_file) return TN_OK;
  tn_status status = tn_engine_load_cache(engine, serve->cache_file, error);
  if (status == TN_E_INVALID) return tn_error_prefix(error, "--cache-file");
  if (status != TN_OK && status != TN_E_NOT_FOUND)
    fprintf(stderr, "tenon: the prefix cache begins empty: %s\n", error->message);
  return TN_OK;
}

/* Whether it can be written at the end, found before the model is loaded. */
static tn_status check_cache_file(const serve_command *serve, tn_error *error) {
  if (!serve->cache_file || tn_file_writer_check(serve->cache_file, error) == TN_OK) return TN_OK;
  return tn_error_prefix(error, "--cache-file");
}

static tn_status serve_model(serve_command *serve, const char *path, tn_error *error) {
  tn_model *model = NULL;
  tn_engine *engine = NULL;
  tn_model_info info = TN_MODEL_INFO;
  tn_status status = tn_model_open(path, &model, error);
  if (status == TN_OK) {
    tn_model_describe(model, &info);
    if (!serve->server.name) serve->server.name = *info.name ? info.name : last_part(path);
    status = tn_engine_create(model, &serve->engine, &engine, error);
  }
  if (status == TN_OK) status = load_cache(serve, engine, error);
  if (status == TN_OK) tn_catch_interrupts(); /* what ends a load at once ends a server in order */
  if (status == TN_OK) status = tn_serve(model, engine, &serve->server, error);
  if (status == TN_OK && serve->cache_file) status = tn_engine_save_cache(engine, serve->cache_file, error);
  tn_engine_destroy(engine);
  tn_model_close(model);
  return status;
}

int tn_command_serve(int argc, char **argv) {
  serve_command serve = {.server = TN_SERVER_OPTIONS, .engine = TN_ENGINE_OPTIONS, .port = 8080};
  serve.engine.packed = "auto";
  tn_server_options *server = &serve.server;
  const tn_cli_option options[] = {
      {"host", 0, TN_CLI_TEXT, &server->host, "HOST", "address to listen on; default 127.0.0.1", 0, 0},
      {"port", 0, TN_CLI_U32, &serve.port, "N", "default 8080; 0 takes a free one", 0, 65535},
      {"listen", 0, TN_CLI_TEXT, &serve.listen, "unix:PATH", "listen on a unix socket instead", 0, 0},
      {"tls-cert", 0, TN_CLI_TEXT, &serve.certificate_file, "F", "TLS: the certificate (and its chain), PEM", 0, 0},
      {"tls-key", 0, TN_CLI_TEXT, &serve.private_key_file, "F", "TLS: its private key, PEM", 0, 0},
      {"cors", 0, TN_CLI_TEXT, &server->cors, "ORIGIN", "pages of this origin (* for all) may read answers", 0, 0},
      {"name", 0, TN_CLI_TEXT, &server->name, "NAME", "the model's id in answers; default: its own name", 0, 0},
      {"api-key", 0, TN_CLI_TEXT, &serve.key, "KEY", "requests must give this key", 0, 0},
      {"api-key-file", 0, TN_CLI_TEXT, &serve.key_file, "F", "or one of the keys in file F, one a line", 0, 0},
      {"allow-public", 0, TN_CLI_FLAG, &server->allow_public, NULL, "a public address without a key", 0, 0},
      {"parallel", 0, TN_CLI_U32, &serve.engine.max_sequences, "N", "answers made at once; default 8", 1, 1024},
      {"chunk", 0, TN_CLI_U32, &serve.engine.chunk, "N",
       "token rows of one step; with fewer others wait less while a long prompt is read; default 512", 1, 65536},
      {"kv-memory", 0, TN_CLI_U32, &serve.kv_mib, "MIB",
       "memory for KV; default: what --parallel answers of the whole context need, at most a quarter of what is free",
       1, UINT32_MAX},
      {"queue", 0, TN_CLI_U32, &serve.engine.queue, "N", "requests waiting at most; default 256", 1, 1 << 20},
      {"connections", 0, TN_CLI_U32, &server->connections, "N", "at most; default 4096", 1, 1 << 20},
      {"max-body", 0, TN_CLI_U32, &server->body_mib, "MIB", "a request's body at most; default 32", 1, 1024},
      {"idle-timeout", 0, TN_CLI_U32, &server->idle_seconds, "S", "closes silent connections; default 120", 1, 86400},
      {"timeout", 0, TN_CLI_U32, &server->timeout_seconds, "S", "an answer may take; default 3600, 0: no end", 0,
       1 << 20},
      {"stop-timeout", 0, TN_CLI_U32, &server->stop_seconds, "S", "answers may finish after SIGTERM; default 10", 0,
       3600},
      {"step-timeout", 0, TN_CLI_U32, &server->step_seconds, "S",
       "a longer step of the engine is a stall to /health; default 120", 1, 86400},
      {"device", 0, TN_CLI_TEXT, &serve.engine.device, "D", "device that runs the model", 0, 0},
      TN_PLACE_OPTION(serve.engine.place),
      {"threads", 't', TN_CLI_U32, &serve.engine.threads, "N", "threads; default: the processors allowed", 1, 1024},
      {"ctx", 0, TN_CLI_U32, &serve.engine.context, "N", "context; default: the model's", 1, 1 << 28},
      {"kv", 0, TN_CLI_TEXT, &serve.engine.kv, "TYPE", "KV memory in f16 (default), bf16, f32 or int8", 0, 0},
      {"activations", 0, TN_CLI_TEXT, &serve.engine.activations, "MODE", "auto (default) or float", 0, 0},
      {"weights", 0, TN_CLI_TEXT, &serve.engine.weights, "TYPE",
       "quantise float weights at load: q8_0, q4_0, mxfp4 or mxfp6", 0, 0},
      {"overlap", 0, TN_CLI_TEXT, &serve.engine.overlap, "MODE",
       "tell one step's tokens while the next one runs: auto (where the device leaves a processor free; default), on "
       "or "
       "off",
       0, 0},
      {"packed", 0, TN_CLI_TEXT, &serve.engine.packed, "WHERE",
       "packed weights kept for later starts: auto (default), off, or a folder", 0, 0},
      TN_DRAFT_OPTIONS(serve.engine, serve.draft_k),
      {"cache-file", 0, TN_CLI_TEXT, &serve.cache_file, "F",
       "keeps the prefix cache in file F while the server is down", 0, 0},
      {"fields", 0, TN_CLI_FLAG, &serve.fields, NULL, "print the table of the API's fields and end", 0, 0},
  };
  const tn_cli_command command = {
      "serve", "MODEL [options]", "Answers over HTTP as OpenAI's API does.", options, TN_COUNT(options), 0, 1};
  const char *path;
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (serve.fields) {
    tn_server_print_fields(stdout);
    return tn_cli_finish_output();
  }
  if (!count) {
    fprintf(stderr, "tenon serve: missing argument; usage: tenon serve MODEL [options]\n");
    return 2;
  }
  server->port = (uint16_t)serve.port;
  serve.engine.kv_bytes = (uint64_t)serve.kv_mib << 20;
  tn_error error = {0};
  tn_status status = tn_cli_read_draft_k(serve.draft_k, &serve.engine.draft_k, &error);
  if (status == TN_OK) status = read_keys(&serve, &error);
  if (status == TN_OK) status = read_address(&serve, &error);
  if (status == TN_OK) status = tn_server_check(server, &error);
  if (status == TN_OK) status = check_cache_file(&serve, &error);
  if (status == TN_OK) status = serve_model(&serve, path, &error);
  free(serve.keys);
  free(serve.key_text);
  free(serve.certificate);
  free(serve.private_key);
  return status == TN_OK ? 0 : tn_cli_failed(&error);
}
