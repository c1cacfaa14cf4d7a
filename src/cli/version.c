/* tenon version */
#include <stdio.h>
#include "cli/options.h"
#include "tenon/tenon.h"

#if defined(__clang__)
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif

int tn_command_version(int argc, char **argv) {
  const tn_cli_command command = {"version", "", "Prints the version and how this binary was built.", NULL, 0, 0, 0};
  size_t count;
  tn_cli_result result = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (result != TN_CLI_GO) return tn_cli_exit(result);
  printf("tenon %s\ncompiler: %s %s\ninstruction sets: %s\n", tn_version(), COMPILER, __VERSION__, TN_INSTRUCTION_SETS);
  return tn_cli_finish_output();
}
