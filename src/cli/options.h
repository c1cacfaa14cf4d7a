/* Command-line options, table driven: one table gives parsing, checking and the help text. */
#ifndef TENON_CLI_OPTIONS_H
#define TENON_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

typedef enum tn_cli_type {
  TN_CLI_FLAG,  /* bool *: set true */
  TN_CLI_TEXT,  /* const char ** */
  TN_CLI_TEXTS, /* tn_cli_texts *: may be given several times */
  TN_CLI_U32,   /* uint32_t *, within [minimum, maximum] */
  TN_CLI_U64,   /* uint64_t * */
  TN_CLI_F32    /* float *, within [minimum, maximum] */
} tn_cli_type;

#define TN_CLI_MAX_TEXTS 32
typedef struct tn_cli_texts {
  const char *items[TN_CLI_MAX_TEXTS];
  size_t count;
} tn_cli_texts;

typedef struct tn_cli_option {
  const char *name; /* without dashes */
  char letter;      /* short form, 0: none */
  tn_cli_type type;
  void *target;      /* its value before parsing is the default */
  const char *value; /* what the help calls the value, e.g. "N"; NULL for flags */
  const char *help;
  double minimum, maximum; /* numbers; both 0: any */
} tn_cli_option;

/* What a command takes. */
typedef struct tn_cli_command {
  const char *name;
  const char *usage;            /* "MODEL [options]" */
  const char *summary;          /* one line */
  const tn_cli_option *options; /* option_count of them */
  size_t option_count;
  size_t min_arguments, max_arguments; /* positional */
} tn_cli_command;

/* What parsing ended with. */
typedef enum tn_cli_result {
  TN_CLI_GO = 0,     /* run the command */
  TN_CLI_DONE = 1,   /* --help was printed: exit 0 */
  TN_CLI_MISUSED = 2 /* a message was printed to stderr: exit 2 */
} tn_cli_result;

/* The row of --place, for every command that takes --device; the text of tn_engine_options.place. */
/* clang-format off */
#define TN_PLACE_OPTION(target) \
  {"place", 0, TN_CLI_TEXT, &(target), "P", "layers by device, as \"layers 0-11=D,12-23=E,rest=F\"; auto: spread over all devices of --device's driver", 0, 0}
/* clang-format on */

/* Parses argv[1..]; options and positional arguments may be mixed, "--" ends the options. arguments[max_arguments]
 * receives the positional ones, *argument_count how many. Unknown options are refused with the nearest real one. */
tn_cli_result tn_cli_parse(const tn_cli_command *command, int argc, char **argv, const char **arguments,
                           size_t *argument_count);

/* The exit status of a command whose options did not parse: 0 after --help, 2 otherwise. */
static inline int tn_cli_exit(tn_cli_result result) {
  return result == TN_CLI_DONE ? 0 : 2;
}

/* Prints the help of a command to stdout. */
void tn_cli_help(const tn_cli_command *command);

/* Prints "tenon: MESSAGE" to stderr and returns 1, the exit status of a command that failed. */
int tn_cli_fail(const char *message);
/* The same of an error; 2, as for options that did not parse, where it says that what was asked for makes no sense
 * (TN_E_INVALID), whoever found that. */
int tn_cli_failed(const tn_error *error);

/* Ends a command's output: flushes stdout; 0, or 1 with a message when the output could not be written whole. */
int tn_cli_finish_output(void);

/* The nearest of `count` words to `word` within a few edits, or NULL. words[i * stride] is the i-th (stride in
 * pointers). */
const char *tn_cli_nearest(const char *word, const char *const *words, size_t count);

#endif
