/* A part with four small sessions: the reference driver in private memory as four devices, each of 256 KiB, or of what
 * its option bytes=N says. What is too much is refused, and counted exactly, as such a part does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/reference/driver.h"
#include "device/reference/internal.h"

#define SESSIONS 4u
#define MOST_OPEN 32u
#define USUAL_BYTES (256u << 10)

static tn_driver table;

/* What is taken of each open session; one thread opens and closes them. */
static struct session {
  tn_device *device;
  uint64_t bytes, taken;
} sessions[MOST_OPEN];

static struct session *session_of(const tn_device *device) {
  struct session *session = sessions;
  while (session->device != device) session++;
  return session;
}

static tn_status enumerate_sessions(uint32_t *count) {
  *count = SESSIONS;
  return TN_OK;
}

static tn_status open_session(uint32_t index, const tn_option *options, uint32_t count, tn_device **device) {
  const tn_option private_memory = {"private-memory", "1"};
  uint64_t bytes = USUAL_BYTES;
  for (uint32_t i = 0; i < count; i++)
    if (!strcmp(options[i].key, "bytes")) bytes = strtoull(options[i].value, NULL, 10);
  if (index >= SESSIONS) return TN_E_NOT_FOUND;
  tn_status status = tn_reference_driver()->open(0, &private_memory, 1, device);
  if (status == TN_OK) *session_of(NULL) = (struct session){*device, bytes, 0};
  return status;
}

static void close_session(tn_device *device) {
  *session_of(device) = (struct session){0};
  tn_reference_driver()->close(device);
}

static tn_status get_property(tn_device *device, const char *name, tn_property *value) {
  const struct session *session = session_of(device);
  bool is_free = !strcmp(name, "memory_free");
  if (!is_free && strcmp(name, "memory_total") && strcmp(name, "max_allocation"))
    return tn_reference_driver()->get(device, name, value);
  value->type = TN_PROPERTY_U64;
  value->u64 = session->bytes - (is_free ? session->taken : 0);
  return TN_OK;
}

static tn_status take(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  struct session *session = session_of(device);
  if (bytes > session->bytes - session->taken)
    return tn_reference_fail(device, TN_E_MEMORY, "%llu bytes wanted, %llu free in this session",
                             (unsigned long long)bytes, (unsigned long long)(session->bytes - session->taken));
  tn_status status = tn_reference_alloc(device, bytes, buffer);
  if (status == TN_OK) session->taken += bytes;
  return status;
}

static void give_back(tn_device *device, tn_buffer *buffer) {
  session_of(device)->taken -= buffer->bytes;
  tn_reference_free(device, buffer);
}

__attribute__((visibility("default"))) const tn_driver *tn_driver_entry(uint32_t abi) {
  (void)abi;
  table = *tn_reference_driver();
  table.name = "sessions";
  table.enumerate = enumerate_sessions;
  table.open = open_session;
  table.close = close_session;
  table.get = get_property;
  table.alloc = take;
  table.free = give_back;
  return &table;
}
