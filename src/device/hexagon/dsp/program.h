/* What the command loop does with programs. Addresses in messages are offsets from `window`; the host has checked
 * programs, bindings and batches, and is trusted. */
#ifndef TENON_DEVICE_HEXAGON_DSP_PROGRAM_H
#define TENON_DEVICE_HEXAGON_DSP_PROGRAM_H

#include "device/hexagon/protocol.h"
#include "tenon/driver.h"

/* Fills the tables of a program and says how much workspace it needs. */
tn_status tn_dsp_prepare(uint8_t *window, tn_hexagon_program *prepared, uint32_t threads);

/* Runs a prepared program. The first op that fails ends it, *failed_op then has its number. */
tn_status tn_dsp_execute(uint8_t *window, tn_hexagon_execution *execution, uint32_t *failed_op);

#endif
