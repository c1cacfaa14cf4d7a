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

static const char *const *names_of(const tn_family *family, bool is_folder) {
  static const char *const none[] = {NULL};
  const char *const *names = is_folder ? family->model_types : family->architectures;
  return names ? names : none;
}

const tn_family *tn_family_of(tn_text wanted, bool is_folder) {
  for (size_t i = 0; i < TN_COUNT(families); i++)
    for (const char *const *name = names_of(families[i], is_folder); *name; name++)
      if (tn_text_is(wanted, *name)) return families[i];
  return NULL;
}

void tn_family_list(bool is_folder, char *out, size_t capacity) {
  size_t used = 0;
  if (capacity) out[0] = 0;
  for (size_t i = 0; i < TN_COUNT(families); i++)
    for (const char *const *name = names_of(families[i], is_folder); *name; name++) {
      int n = snprintf(out + used, capacity - used, "%s%s", used ? ", " : "", *name);
      if (n < 0 || (size_t)n >= capacity - used) return;
      used += (size_t)n;
    }
}
