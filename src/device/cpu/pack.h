/* Packing weights into compute layouts (kernels/layout.h). */
#ifndef TENON_DEVICE_CPU_PACK_H
#define TENON_DEVICE_CPU_PACK_H

#include "kernels/layout.h"
#include "tenon/driver.h"

/* The layout for weights of `desc` in `*layout`. TN_E_UNSUPPORTED or TN_E_INVALID with a line in `message`. */
tn_status tn_cpu_weight_layout(const tn_weight_desc *desc, tn_weight_layout *layout, char *message, size_t capacity);

/* Packs the sources into `to` (layout->bytes, aligned), panels shared out over `parallel`. Rows and columns that no
 * source covers become zero. The sources are checked first: on failure nothing is written, `message` says why. */
tn_status tn_cpu_weight_pack(const tn_weight_desc *desc, const tn_weight_layout *layout,
                             const tn_weight_source *sources, uint32_t source_count, void *to,
                             const tn_parallel *parallel, char *message, size_t capacity);

/* The compute layout that holds values of a dtype exactly; TN_LAYOUT_NONE for one that is no weight format. */
uint32_t tn_cpu_layout_kind(uint32_t dtype);

#endif
