/* A pool of threads that run the pieces of one job at a time.
 *
 * The caller is worker 0 and works too. Idle workers spin briefly for the next job, then sleep; the caller never waits
 * for a worker that hasn't begun, only for pieces already taken, so a worker that the system has put aside costs
 * nothing but its own piece. Nothing is allocated after creation. */
#ifndef TENON_DEVICE_CPU_POOL_H
#define TENON_DEVICE_CPU_POOL_H

#include "tenon/driver.h"

typedef struct tn_pool tn_pool;

/* A pool of `workers` >= 1 workers, the caller's thread included. NULL when memory or threads are out. */
tn_pool *tn_pool_create(uint32_t workers);
void tn_pool_destroy(tn_pool *pool);
/* What kernels are given. Only one thread may run jobs on a pool at a time. */
const tn_parallel *tn_pool_parallel(tn_pool *pool);

#endif
