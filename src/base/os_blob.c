/* Shared libraries out of memory (see os.h). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"

/* The descriptor stays open as long as the library: the loader knows libraries by their path, which has its number. */
struct tn_blob {
  void *library;
  int descriptor;
};

static bool write_all(int descriptor, const char *data, size_t bytes) {
  while (bytes) {
    ssize_t written = write(descriptor, data, bytes);
    if (written <= 0) return false;
    data += written;
    bytes -= (size_t)written;
  }
  return true;
}

tn_blob *tn_blob_open(const void *data, size_t bytes, tn_error *error) {
  char path[64];
  tn_blob *blob = tn_calloc(1, sizeof *blob);
  if (!blob) {
    tn_fail(error, TN_E_MEMORY, "out of memory for a code blob");
    return NULL;
  }
  blob->descriptor = memfd_create("tenon-blob", MFD_CLOEXEC);
  if (blob->descriptor < 0 || !write_all(blob->descriptor, data, bytes)) {
    tn_fail(error, TN_E_MEMORY, "no memory file for a code blob of %zu bytes", bytes);
    tn_blob_close(blob);
    return NULL;
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", blob->descriptor);
  tn_error why;
  blob->library = tn_library_open(path, &why);
  if (blob->library) return blob;
  tn_fail(error, TN_E_FORMAT, "the code blob cannot be loaded: %s", why.message);
  tn_blob_close(blob);
  return NULL;
}

void *tn_blob_symbol(tn_blob *blob, const char *name) {
  return dlsym(blob->library, name);
}

void tn_blob_close(tn_blob *blob) {
  if (!blob) return;
  if (blob->library) dlclose(blob->library);
  if (blob->descriptor >= 0) close(blob->descriptor);
  free(blob);
}
