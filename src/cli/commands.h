/* The table of commands: one line each. A command is `int tn_command_NAME(int argc, char **argv)`, argv[0] being its
 * name; its exit status is 0 done, 1 failed, 2 misused. X(function, "words", "what it does") */
#ifndef TENON_CLI_COMMANDS_H
#define TENON_CLI_COMMANDS_H

#define TN_COMMANDS(X)                                                            \
  X(run, "run", "answer one prompt")                                              \
  X(chat, "chat", "talk with a model")                                            \
  X(serve, "serve", "answer over HTTP, as OpenAI's API does")                     \
  X(eval, "eval", "measure quality")                                              \
  X(logits, "logits", "logits of given tokens")                                   \
  X(inspect, "inspect", "metadata, tensors, graph, placement, memory of a model") \
  X(devices, "devices", "drivers, devices and their properties")                  \
  X(bench, "bench", "measure speed")                                              \
  X(tokenize, "tokenize", "text to token ids")                                    \
  X(detokenize, "detokenize", "token ids to text")                                \
  X(render, "render", "the text that a chat template makes of a context")         \
  X(grammar, "grammar", "whether a text is one of a grammar's texts")             \
  X(quantize, "quantize", "write a model with its weights in another format")     \
  X(test_device, "test-device", "the conformance kit on a device")                \
  X(version, "version", "version and build")

#endif
