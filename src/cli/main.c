/* The tenon command: finds the command by its name and runs it. */
#include <stdio.h>
#include <string.h>
#include "base/os.h"
#include "cli/commands.h"
#include "cli/options.h"

#define X(function, words, summary) int tn_command_##function(int argc, char **argv);
TN_COMMANDS(X)
#undef X

typedef struct command_entry {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} command_entry;

static const command_entry commands[] = {
#define X(function, words, summary) {words, tn_command_##function, summary},
    TN_COMMANDS(X)
#undef X
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static const command_entry *find(const char *name) {
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (!strcmp(commands[i].name, name)) return commands + i;
  return NULL;
}

static void print_commands(FILE *out) {
  fprintf(out, "tenon COMMAND [MODEL] [options]\n\nCommands\n");
  for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
  fprintf(out, "  %-12s %s\n", "help", "help on a command: tenon help COMMAND");
}

static int unknown(const char *name) {
  const char *names[COMMAND_COUNT];
  for (size_t i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i].name;
  const char *near = tn_cli_nearest(name, names, COMMAND_COUNT);
  fprintf(stderr, "tenon: unknown command \"%.60s\"", name);
  if (near) fprintf(stderr, "; did you mean %s?", near);
  fprintf(stderr, "\nTry: tenon help\n");
  return 2;
}

/* tenon help COMMAND, or COMMAND PART for those that have several: bench model. */
static int help_on(int count, char **words) {
  char help[] = "--help";
  if (!strcmp(words[0], "help")) {
    print_commands(stdout);
    return tn_cli_finish_output();
  }
  const command_entry *wanted = find(words[0]);
  if (!wanted) return unknown(words[0]);
  if (count == 1) return wanted->run(2, (char *[]){words[0], help, NULL});
  return wanted->run(3, (char *[]){words[0], words[1], help, NULL});
}

int main(int argc, char **argv) {
  tn_exit_on_interrupt();
  if (argc < 2) {
    print_commands(stderr);
    return 2;
  }
  const char *name = argv[1];
  if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h")) {
    if (argc < 3) {
      print_commands(stdout);
      return tn_cli_finish_output();
    }
    return help_on(argc - 2, argv + 2);
  }
  const command_entry *command = find(!strcmp(name, "--version") ? "version" : name);
  return command ? command->run(argc - 1, argv + 1) : unknown(name);
}
