/* tn_version, tn_free: the parts of tenon.h that belong to nothing else. */
#include <stdlib.h>
#include "tenon/tenon.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *tn_version(void) {
  return TEXT(TN_VERSION_MAJOR) "." TEXT(TN_VERSION_MINOR) "." TEXT(TN_VERSION_PATCH);
}

void tn_free(void *memory) {
  free(memory);
}
