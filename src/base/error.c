#include "base/error.h"

#include <stdio.h>
#include <string.h>

/* Replaces control characters and drops a UTF-8 character cut at the end of the buffer. */
static void tidy(char *text, size_t capacity) {
  size_t n = strlen(text);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) text[i] = ' ';
  if (n + 1 < capacity) return;
  while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80) n--;
  if (n > 0 && (unsigned char)text[n - 1] >= 0xc0) text[n - 1] = 0;
}

tn_status tn_fail_list(tn_error *error, tn_status status, const char *format, va_list list) {
  if (!error) return status;
  error->status = status;
  vsnprintf(error->message, sizeof error->message, format, list);
  tidy(error->message, sizeof error->message);
  return status;
}

tn_status tn_fail(tn_error *error, tn_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  tn_fail_list(error, status, format, list);
  va_end(list);
  return status;
}

tn_status tn_error_prefix(tn_error *error, const char *format, ...) {
  if (!error) return TN_E_INTERNAL;
  char tail[sizeof error->message];
  memcpy(tail, error->message, sizeof tail);
  va_list list;
  va_start(list, format);
  int n = vsnprintf(error->message, sizeof error->message, format, list);
  va_end(list);
  if (n >= 0 && (size_t)n < sizeof error->message) {
    int room = (int)sizeof error->message - n; /* what doesn't fit is cut, as promised */
    snprintf(error->message + n, (size_t)room, ": %.*s", room, tail);
  }
  tidy(error->message, sizeof error->message);
  return error->status;
}

const char *tn_status_text(tn_status status) {
  switch (status) {
    case TN_OK: return "ok";
    case TN_E_INVALID: return "invalid argument";
    case TN_E_UNSUPPORTED: return "unsupported";
    case TN_E_MEMORY: return "out of memory";
    case TN_E_TIMEOUT: return "deadline passed";
    case TN_E_DEVICE_LOST: return "device lost";
    case TN_E_IO: return "input/output error";
    case TN_E_FORMAT: return "malformed file";
    case TN_E_NOT_FOUND: return "not found";
    case TN_E_LIMIT: return "limit exceeded";
    case TN_E_CANCELLED: return "cancelled";
    case TN_E_BUSY: return "busy";
    case TN_E_TOO_LONG: return "too long";
    case TN_E_INTERNAL: return "internal error";
    default: return "unknown status";
  }
}
