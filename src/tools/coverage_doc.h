/* Which ops the built-in drivers' devices take, as a document. */
#ifndef TENON_TOOLS_COVERAGE_DOC_H
#define TENON_TOOLS_COVERAGE_DOC_H

#include "tenon/status.h"

/* Prints a table of ops by drivers to stdout: how many cases of the conformance kit each driver's first device takes.
 * Drivers without a device here are left out. */
tn_status tn_print_coverage(tn_error *error);

#endif
