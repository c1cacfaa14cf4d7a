/* The list of families: one line each; the code is in the file of that name. */
#ifndef TENON_MODEL_FAMILIES_FAMILIES_H
#define TENON_MODEL_FAMILIES_FAMILIES_H

#define TN_FAMILIES(X) \
  X(llama)             \
  X(gpt2)

#endif
