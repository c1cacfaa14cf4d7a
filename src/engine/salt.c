#include "engine/salt.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

struct tn_salt {
  atomic_uint references;
  size_t bytes;
  char text[];
};

tn_salt *tn_salt_create(const char *text) {
  size_t bytes = strlen(text);
  tn_salt *salt = malloc(sizeof *salt + bytes + 1);
  if (!salt) return NULL;
  atomic_init(&salt->references, 1);
  salt->bytes = bytes;
  memcpy(salt->text, text, bytes + 1);
  return salt;
}

tn_salt *tn_salt_hold(tn_salt *salt) {
  if (salt) atomic_fetch_add(&salt->references, 1);
  return salt;
}

void tn_salt_release(tn_salt *salt) {
  if (salt && atomic_fetch_sub(&salt->references, 1) == 1) free(salt);
}

const char *tn_salt_text(const tn_salt *salt, size_t *bytes) {
  *bytes = salt ? salt->bytes : 0;
  return salt ? salt->text : "";
}

bool tn_salt_equal(const tn_salt *a, const tn_salt *b) {
  size_t a_bytes = a ? a->bytes : 0, b_bytes = b ? b->bytes : 0;
  return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a->text, b->text, a_bytes) == 0);
}

uint64_t tn_salt_hash(const tn_salt *salt) {
  return salt ? tn_hash_bytes(salt->text, salt->bytes, 0) : tn_hash_bytes("", 0, 0);
}
