/* tenon version */
#include <stdio.h>
#include "cli/options.h"
#include "tenon/tenon.h"

int tn_command_version(int argc, char **argv) {
  const tn_cli_command command = {"version", "", "Prints the version and how this binary was built.", NULL, 0, 0, 0};
  size_t count;
  tn_cli_result result = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (result != TN_CLI_GO) return tn_cli_exit(result);
  printf("tenon %s\ncompiler: %s\n", tn_version(), __VERSION__);
  return tn_cli_finish_output();
}
