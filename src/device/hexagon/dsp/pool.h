/* The DSP's threads: the pieces of one job at a time, run by all of them.
 *
 * The caller (the thread of the command loop) is worker 0 and works too. It never waits for a thread that hasn't
 * begun, only for pieces that are taken. Idle threads look for a job a short while, then sleep. */
#ifndef TENON_DEVICE_HEXAGON_DSP_POOL_H
#define TENON_DEVICE_HEXAGON_DSP_POOL_H

#include "device/hexagon/protocol.h"
#include "tenon/driver.h"

/* Starts the threads beside the caller's; 0 when they can't be had. `progress`: a word for each thread, which it
 * advances with each piece. There is one pool. */
int tn_dsp_pool_start(uint32_t threads, tn_hexagon_word *progress);
/* What kernels are given. */
const tn_parallel *tn_dsp_pool_parallel(void);
/* Advances the caller's own word of progress: between ops. */
void tn_dsp_pool_progress(void);

/* Instructions and packets that threads have spent on pieces of jobs, the caller's not counted, and what the caller
 * has spent on waiting for them. */
typedef struct tn_dsp_spent {
  uint64_t instructions, packets;
  uint64_t waiting_instructions, waiting_packets;
} tn_dsp_spent;
tn_dsp_spent tn_dsp_pool_spent(void);

#endif
