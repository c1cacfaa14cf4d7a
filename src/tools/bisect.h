/* Finding the first op of a model that a device computes wrongly. */
#ifndef TENON_TOOLS_BISECT_H
#define TENON_TOOLS_BISECT_H

#include <stdbool.h>
#include <stdint.h>
#include "tenon/status.h"

typedef struct tn_bisect_options {
  const char *device, *model;
  const char *kv, *activations, *passes; /* as for a runner */
  const char *save;                      /* file for the first op out of tolerance */
  uint32_t rows;                         /* token rows of the one step that is run */
  uint32_t timeout_ms;
  bool all; /* go on behind the first op that is wrong */
} tn_bisect_options;

/* Runs one step of the model op by op, on the reference kernels and on the device, both with the reference's inputs;
 * prints the error of every op. *wrong: how many were out of tolerance; the first was saved. */
tn_status tn_bisect(const tn_bisect_options *options, uint32_t *wrong, tn_error *error);

#endif
