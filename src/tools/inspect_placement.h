/* What `tenon inspect --placement` says: which part of the model runs where, what it takes there, what crosses between
 * the parts, and which ops fell back. */
#ifndef TENON_TOOLS_INSPECT_PLACEMENT_H
#define TENON_TOOLS_INSPECT_PLACEMENT_H

#include <jansson.h>
#include "engine/runner.h"

/* {"parts": [...], "fallbacks": [...]}; NULL when memory is out. The caller's. */
json_t *tn_placement_json(const tn_runner *runner);
/* The same as a table on stdout. */
void tn_placement_print(const json_t *placement);

#endif
