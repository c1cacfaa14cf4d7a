/* The op table as a document. */
#ifndef TENON_TOOLS_OPS_DOC_H
#define TENON_TOOLS_OPS_DOC_H

/* Prints docs/ops.md to stdout. */
void tn_print_ops(void);

#endif
