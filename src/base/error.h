/* Filling errors. Every function that takes a `tn_error *` accepts NULL. */
#ifndef TENON_BASE_ERROR_H
#define TENON_BASE_ERROR_H

#include <stdarg.h>
#include "tenon/status.h"

/* Sets `*error` to `status` and the formatted message (cut at its buffer's end, whole UTF-8 characters) and returns
 * `status`, so that `return tn_fail(error, TN_E_FORMAT, "...")` reads naturally. Bytes of the message
 * that are control characters are replaced, so that text from a file can't break the one line. */
__attribute__((format(printf, 3, 4))) tn_status tn_fail(tn_error *error, tn_status status, const char *format, ...);

/* The same from an argument list. */
__attribute__((format(printf, 3, 0))) tn_status tn_fail_list(tn_error *error, tn_status status, const char *format,
                                                             va_list list);

/* Puts "prefix: " in front of the message already in `*error`; returns its status. */
__attribute__((format(printf, 2, 3))) tn_status tn_error_prefix(tn_error *error, const char *format, ...);

/* A few words for a status code, never NULL. */
const char *tn_status_text(tn_status status);

#endif
