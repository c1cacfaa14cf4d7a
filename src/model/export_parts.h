/* What the files that describe a folder as GGUF share (see export.h). */
#ifndef TENON_MODEL_EXPORT_PARTS_H
#define TENON_MODEL_EXPORT_PARTS_H

#include "model/export.h"

typedef struct tn_exporter {
  tn_export *out;
  const tn_container *file;
  const tn_hyper *hyper;
  const tn_family *family;
  tn_hyper_record record;
  tn_name_list names;
  const tn_graph *graph;    /* of the folder */
  const char *architecture; /* GGUF's */
  tn_error *error;
} tn_exporter;

/* TN_E_MEMORY, and TN_E_UNSUPPORTED: `what` can't be written. */
tn_status tn_export_no_memory(const tn_exporter *e);
tn_status tn_export_cannot(const tn_exporter *e, const char *what);

/* ---- export_tensors.c ---- */
/* Describes every tensor that the graph was built from, and those that GGUF has instead of values of config.json: what
 * divides the frequencies of rotary positions. */
tn_status tn_export_tensors(tn_exporter *e);

#endif
