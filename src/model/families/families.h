/* The list of families: one line each; the code is in the file of that name. */
#ifndef TENON_MODEL_FAMILIES_FAMILIES_H
#define TENON_MODEL_FAMILIES_FAMILIES_H

#define TN_FAMILIES(X) \
  X(llama)             \
  X(gpt2)              \
  X(granite)           \
  X(smollm3)           \
  X(qwen2)             \
  X(qwen3)             \
  X(qwen2moe)          \
  X(qwen3moe)          \
  X(qwen3next)         \
  X(qwen35)            \
  X(gptoss)            \
  X(gemma2)            \
  X(gemma3)            \
  X(gemma3n)           \
  X(gemma4)            \
  X(olmo2)             \
  X(phi3)              \
  X(deepseek)

#endif
