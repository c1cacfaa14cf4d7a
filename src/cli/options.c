/* Command-line options (see options.h). */
#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORD 64

/* Edit distance of two words of at most MAX_WORD bytes. */
static size_t distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b), row[MAX_WORD + 1];
  if (n > MAX_WORD || m > MAX_WORD) return MAX_WORD;
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

const char *tn_cli_nearest(const char *word, const char *const *words, size_t count) {
  const char *best = NULL;
  size_t best_distance = strlen(word) / 3 + 2;
  for (size_t i = 0; i < count; i++) {
    size_t d = distance(word, words[i]);
    if (d < best_distance) {
      best_distance = d;
      best = words[i];
    }
  }
  return best;
}

static tn_cli_result misused(const tn_cli_command *command, const char *format, const char *a, const char *b) {
  fprintf(stderr, "tenon %s: ", command->name);
  fprintf(stderr, format, a, b);
  fprintf(stderr, "\nTry: tenon help %s\n", command->name);
  return TN_CLI_MISUSED;
}

static tn_cli_result unknown_option(const tn_cli_command *command, const char *name) {
  const char *names[64];
  size_t count = 0;
  for (size_t i = 0; i < command->option_count && count < 64; i++) names[count++] = command->options[i].name;
  const char *near = tn_cli_nearest(name, names, count);
  if (near) return misused(command, "unknown option --%s; did you mean --%s?", name, near);
  return misused(command, "unknown option --%s%s", name, "");
}

/* Is `text` a whole number below 2^64? */
static bool parse_u64(const char *text, uint64_t *value) {
  char *end;
  if (text[0] < '0' || text[0] > '9') return false;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return errno == 0 && *end == 0;
}

static bool in_range(const tn_cli_option *option, double value) {
  if (option->minimum == 0 && option->maximum == 0) return true;
  return value >= option->minimum && value <= option->maximum;
}

static tn_cli_result set_number(const tn_cli_command *command, const tn_cli_option *option, const char *text) {
  char wanted[96];
  uint64_t whole = 0;
  double real = 0;
  char *end;
  bool ok;
  if (option->type == TN_CLI_F32) {
    real = strtod(text, &end);
    ok = *text && *end == 0 && isfinite(real) && in_range(option, real);
  } else {
    ok = parse_u64(text, &whole) && (option->type == TN_CLI_U64 || whole <= UINT32_MAX) &&
         in_range(option, (double)whole);
  }
  if (!ok) {
    const char *kind = option->type == TN_CLI_F32 ? "number" : "whole number";
    if (option->minimum == 0 && option->maximum == 0)
      snprintf(wanted, sizeof wanted, "a %s", kind);
    else
      snprintf(wanted, sizeof wanted, "a %s from %.10g to %.10g", kind, option->minimum, option->maximum);
    fprintf(stderr, "tenon %s: --%s: \"%.40s\" given, expected %s\n", command->name, option->name, text, wanted);
    return TN_CLI_MISUSED;
  }
  if (option->type == TN_CLI_F32)
    *(float *)option->target = (float)real;
  else if (option->type == TN_CLI_U64)
    *(uint64_t *)option->target = whole;
  else
    *(uint32_t *)option->target = (uint32_t)whole;
  return TN_CLI_GO;
}

static tn_cli_result set_value(const tn_cli_command *command, const tn_cli_option *option, const char *text) {
  switch (option->type) {
    case TN_CLI_FLAG: *(bool *)option->target = true; return TN_CLI_GO;
    case TN_CLI_TEXT: *(const char **)option->target = text; return TN_CLI_GO;
    case TN_CLI_TEXTS: {
      tn_cli_texts *texts = option->target;
      if (texts->count == TN_CLI_MAX_TEXTS) return misused(command, "--%s given too often%s", option->name, "");
      texts->items[texts->count++] = text;
      return TN_CLI_GO;
    }
    default: return set_number(command, option, text);
  }
}

/* The option of a long name (cut at '=') or of a letter. */
static const tn_cli_option *find_long(const tn_cli_command *command, const char *name, size_t size) {
  for (size_t i = 0; i < command->option_count; i++)
    if (strlen(command->options[i].name) == size && !strncmp(command->options[i].name, name, size))
      return command->options + i;
  return NULL;
}
static const tn_cli_option *find_letter(const tn_cli_command *command, char letter) {
  for (size_t i = 0; i < command->option_count; i++)
    if (command->options[i].letter == letter) return command->options + i;
  return NULL;
}

/* Parses the option at argv[*at]; moves *at to its last word. */
static tn_cli_result parse_option(const tn_cli_command *command, int argc, char **argv, int *at) {
  const char *word = argv[*at], *value = NULL;
  const tn_cli_option *option;
  if (word[1] == '-') {
    const char *equals = strchr(word, '=');
    size_t size = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    option = find_long(command, word + 2, size);
    if (!option) {
      char name[MAX_WORD];
      snprintf(name, sizeof name, "%.*s", (int)size, word + 2);
      return unknown_option(command, name);
    }
    if (equals) value = equals + 1;
    if (value && option->type == TN_CLI_FLAG) return misused(command, "--%s takes no value%s", option->name, "");
  } else {
    option = find_letter(command, word[1]);
    if (!option) return misused(command, "unknown option %s%s", word, "");
    if (word[2] && option->type == TN_CLI_FLAG) return misused(command, "unknown option %s%s", word, "");
    if (word[2]) value = word + 2;
  }
  if (!value && option->type != TN_CLI_FLAG) {
    if (*at + 1 >= argc) return misused(command, "--%s needs a value%s", option->name, "");
    value = argv[++*at];
  }
  return set_value(command, option, value);
}

tn_cli_result tn_cli_parse(const tn_cli_command *command, int argc, char **argv, const char **arguments,
                           size_t *argument_count) {
  bool only_arguments = false;
  *argument_count = 0;
  for (int at = 1; at < argc; at++) {
    const char *word = argv[at];
    if (!only_arguments && !strcmp(word, "--")) {
      only_arguments = true;
    } else if (!only_arguments && (!strcmp(word, "--help") || !strcmp(word, "-h"))) {
      tn_cli_help(command);
      return TN_CLI_DONE;
    } else if (!only_arguments && word[0] == '-' && word[1]) {
      tn_cli_result result = parse_option(command, argc, argv, &at);
      if (result != TN_CLI_GO) return result;
    } else {
      if (*argument_count == command->max_arguments) return misused(command, "unexpected argument \"%s\"%s", word, "");
      arguments[(*argument_count)++] = word;
    }
  }
  if (*argument_count < command->min_arguments)
    return misused(command, "missing argument; usage: tenon %s %s", command->name, command->usage);
  return TN_CLI_GO;
}

void tn_cli_help(const tn_cli_command *command) {
  printf("tenon %s%s%s\n%s\n", command->name, *command->usage ? " " : "", command->usage, command->summary);
  if (command->option_count) printf("\nOptions\n");
  for (size_t i = 0; i < command->option_count; i++) {
    const tn_cli_option *option = command->options + i;
    char left[64], letter[8] = "";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, option->value ? " " : "",
             option->value ? option->value : "");
    printf("  %-26s %s\n", left, option->help);
  }
}

int tn_cli_fail(const char *message) {
  fflush(stdout);
  fprintf(stderr, "tenon: %s\n", message);
  return 1;
}

int tn_cli_failed(const tn_error *error) {
  int status = tn_cli_fail(error->message);
  return error->status == TN_E_INVALID ? 2 : status;
}

int tn_cli_finish_output(void) {
  bool failed = fflush(stdout) != 0 || ferror(stdout);
  if (failed) fprintf(stderr, "tenon: cannot write to stdout: %s\n", strerror(errno));
  return failed ? 1 : 0;
}
