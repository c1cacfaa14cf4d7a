/* The DSP's operating system, as far as it is needed: start.S and system.c. */
#ifndef TENON_DEVICE_HEXAGON_DSP_SYSTEM_H
#define TENON_DEVICE_HEXAGON_DSP_SYSTEM_H

#include <stdint.h>

/* start.S */
int32_t tn_dsp_call(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t f, uint32_t number);
int32_t tn_dsp_start_thread(void (*run)(void *argument), void *argument, void *stack_end);
uint32_t tn_dsp_packets(void);
uint32_t tn_dsp_instructions(void);

/* The whole window, mapped; NULL where that fails. */
void *tn_dsp_map_window(uint32_t bytes);
/* Sleeps while *word is `value`; may wake up without a reason. `shared`: with the host. */
void tn_dsp_wait(const uint32_t *word, uint32_t value, int shared);
/* Wakes all that sleep on the word. */
void tn_dsp_ring(const uint32_t *word, int shared);
void tn_dsp_sleep(uint32_t ns);
uint64_t tn_dsp_clock_ns(void); /* monotonic: the host's clock */
_Noreturn void tn_dsp_exit(uint32_t code);

#endif
