/* What separates one tenant's cached prefixes from another's: a text that is part of the key of every cached path.
 * Counted references, so that the cache may keep it after its request is gone. */
#ifndef TENON_ENGINE_SALT_H
#define TENON_ENGINE_SALT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn_salt tn_salt;

/* The longest that a request may have, so that saved caches hold any. */
#define TN_SALT_BYTES ((uint32_t)1 << 16)

/* A salt with one reference; NULL when memory is out. */
tn_salt *tn_salt_create(const char *text);
/* One more reference; NULL is allowed and given back. */
tn_salt *tn_salt_hold(tn_salt *salt);
/* One reference less, the last one frees it. Any thread. NULL is allowed. */
void tn_salt_release(tn_salt *salt);

/* Its text, *bytes long and zero-terminated; NULL is the empty one. */
const char *tn_salt_text(const tn_salt *salt, size_t *bytes);
/* NULL is the empty text. */
bool tn_salt_equal(const tn_salt *a, const tn_salt *b);
uint64_t tn_salt_hash(const tn_salt *salt);

#endif
