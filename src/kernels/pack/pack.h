/* Packing weights into compute layouts (kernels/layout.h): what every device does whose kernels are the fast ones. It
 * runs on the host, wherever the kernels run. Errors come with words in `*why`, a constant text. */
#ifndef TENON_KERNELS_PACK_PACK_H
#define TENON_KERNELS_PACK_PACK_H

#include "kernels/layout.h"
#include "tenon/driver.h"

/* The layout for weights of `desc` in `*layout`; TN_E_UNSUPPORTED or TN_E_INVALID where there is none. */
tn_status tn_packed_layout(const tn_weight_desc *desc, tn_weight_layout *layout, const char **why);

/* Packs the sources into `to` (layout->bytes, aligned), panels shared out over `parallel`. Rows and columns that no
 * source covers become zero. The sources are checked first: on failure nothing is written. */
tn_status tn_packed_pack(const tn_weight_desc *desc, const tn_weight_layout *layout, const tn_weight_source *sources,
                         uint32_t source_count, void *to, const tn_parallel *parallel, const char **why);

/* The compute layout that holds values of a dtype exactly; TN_LAYOUT_NONE for one that is no weight format. */
uint32_t tn_packed_kind(uint32_t dtype);

/* ---- programs over packed weights and the pages of kernels/page.h (program.c) ---- */

tn_status tn_packed_state_layout(const tn_state_desc *desc, tn_state_layout *layout, const char **why);

/* Do the fast kernels take these operands? That there is a kernel for the op is for the driver to look at. TN_OK or
 * TN_E_UNSUPPORTED, with one line in `message` (zero-terminated, cut at capacity). */
tn_status tn_packed_supports(const tn_op_query *query, char *message, uint64_t capacity);

/* Are the layouts of an op's weights (`layouts` by binding number) those that its kernel reads? */
bool tn_packed_layouts_agree(const tn_program *program, const tn_op *op, const uint32_t *layouts);

/* Are the program's weights those that are bound, by format and shape? If not, *wrong is the first that isn't. */
bool tn_packed_weights_agree(const tn_program *program, const tn_weight_binding *weights, uint32_t *wrong);

/* Bytes of a page of each state of the program, by binding number. */
tn_status tn_packed_page_bytes(const tn_program *program, uint64_t *page_bytes, const char **why);

#endif
