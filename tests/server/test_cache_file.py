"""serve --cache-file and chat --session: what was known before is known after a restart, and answers are the same; a file that can't be used is
said so. Arguments: the tenon command, the folder of test data."""
import os
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server, until

TENON, DATA = sys.argv[1:3]


def model(name):
    return os.path.join(DATA, "golden", name, "model.gguf")


class CacheFile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "cache.kv")

    def tearDown(self):
        self.folder.cleanup()

    def ask(self, server):
        status, answer = server.post("/v1/completions", {"prompt": [list(range(10, 110))], "max_tokens": 20, "temperature": 0})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def check_private(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)

    def test_serve(self):
        for name in ("llama", "qwen35"):
            for restart, cached in enumerate((0, 96, 96)):
                with Server(TENON, model(name), "--cache-file", self.file) as server:
                    text, found = self.ask(server)
                    if name == "qwen35":
                        self.assertTrue(0 < server.metric("states_cached") <= server.metric("states"))
                    self.assertEqual(found, cached)
                    first = text if restart == 0 else first
                    self.assertEqual(text, first)
                self.assertNotIn("begins empty", "".join(server.log))
                self.check_private()
                os.chmod(self.file, 0o644)  # and again after the next save
            if name == "llama":  # the other model says why it doesn't take it, and replaces it at its end
                with Server(TENON, model("qwen35"), "--cache-file", self.file) as server:
                    self.assertEqual(self.ask(server)[1], 0)
                self.assertIn("another model", "".join(server.log))
                os.remove(self.file)
        with open(self.file, "r+b") as file:
            file.truncate(1000)
        with Server(TENON, model("qwen35"), "--cache-file", self.file) as server:
            self.assertEqual(self.ask(server)[1], 0)
        self.assertIn("cut off", "".join(server.log))
        self.assertEqual(os.listdir(self.folder.name), ["cache.kv"])

    def test_places_that_cannot_be_written(self):
        """They are told of at the start, with their path."""
        missing = os.path.join(self.folder.name, "missing", "cache.kv")
        for path, words in ((missing, missing), (self.folder.name, "expected a regular file"), ("/proc/cache.kv", "/proc/cache.kv")):
            done = subprocess.run([TENON, "serve", model("llama"), "--port", "0", "--cache-file", path], capture_output=True,
                                  text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done)
            self.assertIn("--cache-file", done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_something_else(self):
        """A file that is no saved cache isn't replaced, whatever asks for it."""
        with open(self.file, "wb") as file:
            file.write(b"GGUF, or notes")
        for command in (("serve", model("llama"), "--port", "0", "--cache-file"), ("chat", model("llama"), "--session")):
            done = subprocess.run([TENON, *command, self.file], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertIn("cache.kv: not a saved cache", done.stderr)
        with open(self.file, "rb") as file:
            self.assertEqual(file.read(), b"GGUF, or notes")

    def ends_while_it_loads(self):
        with open(self.file, "wb") as file:
            file.write(b"tenon kv" + struct.pack("<IIQQQ", 1, 32, 0, 0, 1 << 29))
            file.truncate(1 << 29)
        command = [TENON, "serve", model("llama"), "--port", "0", "--cache-file", self.file]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            def has_begun():
                with open("/proc/%d/statm" % process.pid, encoding="ascii") as file:
                    return int((file.read().split() + [0, 0])[1]) > 16384 or process.poll() is not None
            until(has_begun)
            process.terminate()
            out, _ = process.communicate(timeout=60)
        return process.returncode == 1 and out == b""

    def test_a_signal_ends_loading(self):
        """At once: not when it is over and the server listens. Half a gigabyte, mostly a hole, whose checksum is wrong."""
        self.assertTrue(until(self.ends_while_it_loads, 60))

    def chat(self, lines, *options, name="llama"):
        command = [TENON, "chat", model(name), "-n", "4", "--stats", *options]
        done = subprocess.run(command, input="".join(line + "\n" for line in lines).encode(), capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr.decode()

    def test_chat(self):
        lines = ["a line of some letters", "one more", "the last"]
        whole = self.chat(lines)
        self.assertEqual(whole[0], 0, whole)
        session = ("--session", self.file)
        parts = [self.chat(lines[:2], *session), self.chat([], *session), self.chat(lines[2:], *session)]
        self.assertEqual([part[0] for part in parts], [0, 0, 0], parts)
        self.check_private()
        self.assertEqual(parts[0][1] + parts[2][1], whole[1])
        self.assertNotIn("(0 cached)", parts[2][2])
        status, out, said = self.chat(lines[:1], *session, "--kv", "f32")
        self.assertEqual(status, 0, said)
        self.assertIn("computed anew", said)
        self.assertIn("(0 cached)", said)
        self.assertEqual(self.chat([], *session, "--system", "be brief")[0], 2)
        with open(self.file, "r+b") as file:
            file.seek(300)
            file.write(b"\0\0\0\0")
        before = open(self.file, "rb").read()
        status, out, said = self.chat(lines, *session)
        self.assertEqual((status, out), (1, b""))
        self.assertIn("altered", said)
        self.assertEqual(open(self.file, "rb").read(), before)
        status, out, said = self.chat(lines, "--session", os.path.join(self.folder.name, "missing", "a"))
        self.assertEqual((status, out), (1, b""))  # told before anything is said
        self.assertIn("--session", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
