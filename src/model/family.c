/* Finding the family of an architecture. */
#include <stdio.h>
#include "model/build.h"
#include "model/families/families.h"

#define X(name) extern const tn_family tn_family_##name;
TN_FAMILIES(X)
#undef X

static const tn_family *const families[] = {
#define X(name) &tn_family_##name,
    TN_FAMILIES(X)
#undef X
};

const tn_family *tn_family_of(tn_text architecture) {
  for (size_t i = 0; i < TN_COUNT(families); i++)
    for (const char *const *name = families[i]->architectures; *name; name++)
      if (tn_text_is(architecture, *name)) return families[i];
  return NULL;
}

void tn_family_list(char *out, size_t capacity) {
  size_t used = 0;
  if (capacity) out[0] = 0;
  for (size_t i = 0; i < TN_COUNT(families); i++)
    for (const char *const *name = families[i]->architectures; *name; name++) {
      int n = snprintf(out + used, capacity - used, "%s%s", used ? ", " : "", *name);
      if (n < 0 || (size_t)n >= capacity - used) return;
      used += (size_t)n;
    }
}
