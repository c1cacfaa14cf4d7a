/* A plugin of qemu's user mode emulation: at the end it says how many instructions were executed. The few functions of
 * qemu's plugin interface that it needs are declared here, as not every system has their header. */
#include <inttypes.h>
#include <stdio.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*call)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, void (*call)(unsigned, void *), int flags,
                                          void *argument);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, void *), void *argument);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 1;

static uint64_t instructions;

static void on_execution(unsigned cpu, void *argument) {
  (void)cpu;
  instructions += (uintptr_t)argument;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, on_execution, 0, (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void on_exit(qemu_plugin_id_t id, void *argument) {
  (void)id, (void)argument;
  fprintf(stderr, "instructions %" PRIu64 "\n", instructions);
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, on_exit, NULL);
  return 0;
}
