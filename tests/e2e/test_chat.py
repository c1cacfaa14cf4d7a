"""tenon chat in a terminal and in a pipe: Ctrl-C stops an answer or drops a line and never leaves, Ctrl-D leaves, SIGTERM ends it, and text that
is not UTF-8 is refused. Arguments: the tenon command, the folder of test data."""
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time

TENON, DATA = sys.argv[1], sys.argv[2]
LLAMA = os.path.join(DATA, "golden", "llama", "model.gguf")
failures = []


def check(name, holds, seen):
    if not holds:
        failures.append(f"{name}: {seen!r}")


class Terminal:
    """A chat on a terminal of its own."""

    def __init__(self):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([TENON, "chat", LLAMA, "-n", "100", "--device", "reference"], stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True, env=dict(os.environ, TERM="dumb"),
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.seen = b""

    def type(self, data):
        os.write(self.master, data)

    def wait(self, word, seconds=30):
        """Reads until `word` has come since the last wait."""
        start, end = len(self.seen), time.monotonic() + seconds
        while word not in self.seen[start:] and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:  # the other side is closed
                    break
        return word in self.seen[start:]

    def end(self):
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "none"
        finally:
            os.close(self.master)


def in_terminal():
    terminal = Terminal()
    check("prompt", terminal.wait(b"> "), terminal.seen)
    terminal.type(b"dropped")
    check("echo", terminal.wait(b"dropped"), terminal.seen)
    terminal.type(b"\x03")
    check("Ctrl-C at the prompt gives another", terminal.wait(b"> "), terminal.seen)
    terminal.type(b"/nothing\n")
    check("the line before is gone", terminal.wait(b"unknown command /nothing\r"), terminal.seen)
    terminal.type(b"hello\n")
    time.sleep(0.2)
    terminal.type(b"\x03")
    check("Ctrl-C leaves an answer for the prompt", terminal.wait(b"> "), terminal.seen)
    terminal.type(b"/again\n")
    check("the chat goes on", terminal.wait(b"unknown command /again"), terminal.seen)
    terminal.type(b"\x04")
    check("Ctrl-D", terminal.end() == 0, terminal.seen)


def terminated():
    terminal = Terminal()
    terminal.wait(b"> ")
    terminal.process.send_signal(signal.SIGTERM)
    terminal.wait(b"interrupted", 5)
    check("SIGTERM at the prompt", terminal.end() == 1, terminal.seen)
    process = subprocess.Popen([TENON, "chat", LLAMA], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    process.stdout.read(1)
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=30)
    check("SIGTERM in a pipe", process.returncode == 1 and text == b"tenon: interrupted\n", (process.returncode, text))


def not_utf8():
    result = subprocess.run([TENON, "chat", LLAMA, "--system", b"\xff"], input=b"", capture_output=True, timeout=60)
    check("--system", result.returncode == 2 and b"system" in result.stderr, result)
    result = subprocess.run([TENON, "chat", LLAMA, "-n", "1"], input=b"/system \xff\n\xff\n/system fine\n", capture_output=True, timeout=60)
    lines = result.stderr.decode().splitlines()
    check("/system", result.returncode == 0 and len(lines) == 2 and all("UTF-8" in line for line in lines), result)


in_terminal()
terminated()
not_utf8()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
