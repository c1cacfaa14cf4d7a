/* A saved prefix cache of any bytes, its size and checksum made right so that they don't hide the rest: it is refused
 * and nothing has changed, or all it holds is in the cache, and the accounts are right. */
#include "../engine/fake_runner.h"

#include "engine/cache_format.h"

static const fake_config CONFIG = {.max_rows = 8,
                                   .max_sequences = 2,
                                   .max_logits_rows = 2,
                                   .max_context = 256,
                                   .pages = 12,
                                   .group_count = 2,
                                   .windows = {0, 50},
                                   .state_slots = 7};

static void check_accounts(const tn_kv *kv) {
  uint32_t pages = 0, states = 0, count = tn_prefix_capacity(kv->prefix);
  for (uint32_t n = 0; n < count; n++)
    if (tn_prefix_users(kv->prefix, n)) abort();
  for (uint32_t g = 0; g < 2; g++) pages += tn_pages_free(kv->pages, g) + tn_pages_cached(kv->pages, g);
  states = tn_states_free(kv->states) + tn_states_cached(kv->states);
  if (pages != 2 * CONFIG.pages || states != CONFIG.state_slots) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_error error = {0};
  tn_kv kv;
  tn_runner *runner = fake_create(&CONFIG);
  uint8_t *file = malloc(size + 1);
  char *note;
  uint64_t tokens;
  memcpy(file, data, size);
  if (size >= sizeof(cache_header) + 8) {
    uint64_t bytes = size;
    memcpy(file + offsetof(cache_header, bytes), &bytes, sizeof bytes);
    uint64_t checksum = tn_cache_checksum(file, size - 8);
    memcpy(file + size - 8, &checksum, sizeof checksum);
  }
  if (tn_kv_init(&kv, runner, NULL, &error) != TN_OK) abort();
  tn_status status = tn_cache_load_bytes(&kv, "file", file, size, &note, &tokens, &error);
  if (status != TN_OK && (!error.message[0] || tn_prefix_count(kv.prefix) || runner->copies)) abort();
  check_accounts(&kv);
  free(note);
  tn_kv_finish(&kv);
  tn_runner_destroy(runner);
  free(file);
  return 0;
}
