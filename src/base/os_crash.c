/* A last word when the process is about to die of foreign code (see os.h). */
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/os.h"

static const char *last_words; /* set before the handlers are */

static void say(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

static void on_crash(int number) {
  say("tenon: crashed in ");
  say(last_words);
  say(number == SIGFPE ? " (arithmetic)\n" : number == SIGILL ? " (instruction)\n" : " (memory)\n");
  _exit(1);
}

void tn_say_on_crash(const char *words) {
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  struct sigaction action = {.sa_handler = on_crash};
  last_words = words;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}
