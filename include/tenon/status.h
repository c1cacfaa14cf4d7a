/* Status codes and the error value that every tenon call returns or fills.
 *
 * A call that can fail returns a tn_status: TN_OK or a negative code. Calls that know more than a code
 * also fill a tn_error that the caller owns. Codes say whose fault it is: INVALID, LIMIT, TOO_LONG,
 * FORMAT and NOT_FOUND are the caller's or the file's, the rest are the machine's or ours. */
#ifndef TENON_STATUS_H
#define TENON_STATUS_H

#include <stdint.h>

typedef int32_t tn_status;

#define TN_OK 0
#define TN_E_INVALID (-1)     /* an argument or a request is wrong */
#define TN_E_UNSUPPORTED (-2) /* understood, but not available here */
#define TN_E_MEMORY (-3)      /* out of memory; text names wanted and free bytes where known */
#define TN_E_TIMEOUT (-4)     /* a deadline passed; the work may still be running */
#define TN_E_DEVICE_LOST (-5) /* the device is gone; everything already on the host is still usable */
#define TN_E_IO (-6)          /* the operating system refused to read or write */
#define TN_E_FORMAT (-7)      /* a file's content is not what its format demands */
#define TN_E_NOT_FOUND (-8)   /* no such file, key, device or property */
#define TN_E_LIMIT (-9)       /* larger than a stated limit; text names both numbers */
#define TN_E_CANCELLED (-10)  /* stopped because the caller asked */
#define TN_E_BUSY (-11)       /* a queue is full; try again later */
#define TN_E_INTERNAL (-12)   /* a fault of tenon or of a driver */
#define TN_E_TOO_LONG (-13)   /* a prompt doesn't fit the context; text names both numbers */

/* An error by value. `message` is one line of UTF-8 that names the file, the field and what was
 * expected. A zeroed tn_error is "no error". */
typedef struct tn_error {
  tn_status status;
  char message[500];
} tn_error;

#endif
