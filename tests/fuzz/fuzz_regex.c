/* Patterns: grammars made of any bytes, walked at random. */
#include "walk_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return walk_grammar(tn_grammar_from_regex, data, size);
}
