/* Launches of a kernel that is a function of the host (see tenon/driver.h). */
#include "tenon/driver.h"

typedef struct launch_job {
  tn_kernel_function function;
  const tn_launch *launch;
  void *const *addresses;
} launch_job;

static void run_place(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const launch_job *job = argument;
  const tn_launch *launch = job->launch;
  const tn_kernel_place place = {.size = sizeof place,
                                 .core = index / launch->threads,
                                 .cores = launch->cores,
                                 .thread = index % launch->threads,
                                 .threads = launch->threads};
  job->function(&place, job->addresses, launch->argument_count);
}

tn_status tn_launch_run(const tn_launch *launch, tn_kernel_function function, void *const *addresses,
                        const tn_parallel *parallel) {
  launch_job job = {function, launch, addresses};
  if (!function || !launch->cores || !launch->threads || launch->cores > TN_MAX_PLACES / launch->threads)
    return TN_E_INVALID;
  parallel->run(parallel->context, run_place, &job, launch->cores * launch->threads);
  return TN_OK;
}
