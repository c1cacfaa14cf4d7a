/* What drivers answer is not trusted: statuses that don't exist, texts that are missing. */
#ifndef TENON_DEVICE_CHECK_STATUS_H
#define TENON_DEVICE_CHECK_STATUS_H

#include "base/error.h"

/* `status` if it is a failure that exists, else TN_E_INTERNAL. Not for TN_OK. */
static inline tn_status tn_known_status(tn_status status) {
  return status < TN_OK && status >= TN_E_INTERNAL ? status : TN_E_INTERNAL;
}

/* The text for a failure: the driver's own, or words for the status. */
static inline const char *tn_driver_reason(tn_status status, const char *text) {
  if (status > TN_OK || status < TN_E_INTERNAL) return "the driver answered a status that does not exist";
  return text && *text ? text : tn_status_text(status);
}

#endif
