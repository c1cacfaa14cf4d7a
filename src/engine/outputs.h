/* The outputs of a request on their way from the engine's thread to whoever calls tn_request_next.
 *
 * All of an answer fits: the memory for its events and texts is taken at submit (and touched only as it fills), so a
 * slow reader neither blocks the engine nor makes it allocate. Outputs stay where they are once written, which is what
 * lets a reader use them without the lock. */
#ifndef TENON_ENGINE_OUTPUTS_H
#define TENON_ENGINE_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/tenon.h"

typedef struct tn_outputs tn_outputs;

/* Room for `events` outputs before the last one, `text_bytes` of text and `top` alternatives an event. NULL when memory
 * is out. */
tn_outputs *tn_outputs_create(uint32_t events, size_t text_bytes, uint32_t top);
void tn_outputs_destroy(tn_outputs *outputs);

/* Appends a TEXT, REASONING or TOOL_CALL output; its texts and alternatives are copied. False when it doesn't fit. */
bool tn_outputs_push(tn_outputs *outputs, const tn_output *output);
/* Sets the last output (DONE or ERROR). Only the first call counts. */
void tn_outputs_end(tn_outputs *outputs, const tn_output *output);
/* The next output, or the last one again and again. Waits until `deadline_ns` (tn_clock_ns time; UINT64_MAX: without
 * end), then TN_E_TIMEOUT. */
tn_status tn_outputs_next(tn_outputs *outputs, tn_output *output, uint64_t deadline_ns);

#endif
