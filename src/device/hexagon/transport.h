/* How the host reaches a DSP: a program started there, a window of memory that both see, doorbells in it, and the news
 * that the DSP is gone. Another way to a DSP is another file that implements these functions; here it is
 * transport_qemu.c, a process of qemu's user-mode emulator.
 *
 * Words below are 32-bit words of the window; all functions may be called by several threads. */
#ifndef TENON_DEVICE_HEXAGON_TRANSPORT_H
#define TENON_DEVICE_HEXAGON_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include "tenon/device.h"

typedef struct tn_transport tn_transport;

/* Whether a DSP can be reached from here: TN_OK, or TN_E_UNSUPPORTED with one line that says what is missing and how to
 * get it. */
tn_status tn_transport_check(char *message, size_t capacity);

/* Makes a window of `window_bytes`, of which only what is reserved takes memory. `prepare` fills its begin (reserved,
 * `begin_bytes`, zeroed), then the program (bytes of an executable file) is started there. On failure `message` has one
 * line. */
tn_status tn_transport_start(const void *program, size_t program_bytes, uint64_t window_bytes, uint64_t begin_bytes,
                             void (*prepare)(void *context, uint8_t *window), void *context, tn_transport **transport,
                             char *message, size_t capacity);
/* Waits until `deadline_ns` for the program to end by itself, ends it, and gives everything back. NULL is allowed. */
void tn_transport_stop(tn_transport *transport, uint64_t deadline_ns);

uint8_t *tn_transport_window(tn_transport *transport);

/* Takes memory for a part of the window (multiples of TN_TRANSPORT_PAGE), zeroed; false when there is none. Gives it
 * back. */
#define TN_TRANSPORT_PAGE 4096u
bool tn_transport_reserve(tn_transport *transport, uint64_t offset, uint64_t bytes);
void tn_transport_release(tn_transport *transport, uint64_t offset, uint64_t bytes);

/* Wakes those that sleep on a word, on both sides. */
void tn_transport_ring(tn_transport *transport, const uint32_t *word);
/* Sleeps while *word is `value`, at most until the deadline; may return without a reason. */
void tn_transport_wait(tn_transport *transport, const uint32_t *word, uint32_t value, uint64_t deadline_ns);

/* Has the program ended? Then `message` says how. */
bool tn_transport_ended(tn_transport *transport, char *message, size_t capacity);
/* Could the program run, if it were given a processor? (Asked where it shows no sign of life.) */
bool tn_transport_is_runnable(tn_transport *transport);
/* Ends the program at once; tn_transport_ended says so a little later. */
void tn_transport_kill(tn_transport *transport);

#endif
